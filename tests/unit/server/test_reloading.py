"""svc.server.reloading: changed files of applications take effect, or wait for a restart."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from svc.apps import App
from svc.clock import SYSTEM_CLOCK
from svc.server.reloading import Patience, Reload, Reloader
from tests.support.application import Application, application
from tests.support.fakes import make_reactor

CODE = """
import helpers
class Greeting(Resource):
    def allow_read(self, user, target):
        return True
    def get(self, query=None):
        return helpers.text
"""
SCHEMA = "type Thing @table @export { id: ID @primaryKey  a: Int }\n"
AT_ONCE = Patience(quiet=0.0, quiet_many=0.0, most=0.0, unfinished=0.0)
LIMIT = 30.0  # seconds; a test that fails ends


class FakeWatcher:
    """Tells what a test says."""

    def __init__(self, on_changes: Callable[[set[str] | None], object], on_fault: Callable[[str], object], *, pause: float) -> None:
        self.on_changes = on_changes
        self.on_fault = on_fault
        self.directories: list[str] = []
        self.polls = False
        self.is_stopped = False

    def watch(self, directories: Sequence[str], *, polls: bool = False) -> None:
        self.directories = list(directories)
        self.polls = polls

    def stop(self) -> None:
        self.is_stopped = True

    def join(self) -> None:
        assert self.is_stopped


class World:
    """An application in a root of components, whose files are watched."""

    def __init__(self, app: Application, *, reloads_code: bool, patience: Patience = AT_ONCE, watches: bool = True) -> None:
        self.app = app
        self.node = app.node
        self.directory = app.node.app.directory
        self.root = self.directory.parent
        self.reloads: list[Reload] = []
        self.warnings: list[str] = []
        self.waiting: dict[str, list[str]] = {}
        self.noted: list[tuple[str, list[str]]] = []
        self.reloader = Reloader(
            self.node.applications,
            make_reactor(self.node._loop, self.node.clock, self.node._executor),
            self,
            components_root=self.root,
            reloads_code=reloads_code,
            patience=patience,
            make_watcher=FakeWatcher,  # type: ignore[arg-type]
        )
        self.node.applications.on_loaded = self.reloader.on_loaded
        self.watcher: FakeWatcher = self.reloader._watcher  # type: ignore[assignment]
        if watches:
            self.node.run(self.reloader.open([]))
            self.node.run(self.reloader._watch())

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def reloaded(self, reload: Reload) -> None:
        self.reloads.append(reload)

    def current(self, application: str) -> None:
        self.waiting.pop(application, None)

    def waits(self, name: str, names: Sequence[str], new: Sequence[str]) -> None:
        self.waiting[name] = list(names)
        self.noted.append((name, list(new)))

    def write(self, name: str, text: str) -> None:
        path = self.root / name if "/" in name else self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def tell(self, *names: str) -> None:
        """These have changed; what that leads to is over when this returns."""
        self.node.clock.advance(1.0)
        self.watcher.on_changes({str(self.root / name if "/" in name else self.directory / name) for name in names} if names else None)
        self.node.run(self.until_idle())

    async def until_idle(self) -> None:
        """Until the reloader waits for something to happen."""
        deadline = SYSTEM_CLOCK.monotonic() + LIMIT
        arrived = self.reloader._arrived
        quiet = 0
        while quiet < 3:  # turns of the loop: what was said on the way is heard in the next one
            await asyncio.sleep(0.001)
            waits = not arrived.is_set() and arrived._waiters and not self.reloader._paths  # type: ignore[attr-defined]
            quiet = quiet + 1 if waits else 0
            assert SYSTEM_CLOCK.monotonic() < deadline

    def save(self, name: str, text: str) -> None:
        self.write(name, text)
        self.tell(name)

    def answer(self, path: str) -> Any:
        return self.app.ask("GET", path)[1]

    def close(self) -> None:
        self.node.run(self.reloader.close())


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Application]:
    with application(tmp_path, CODE, SCHEMA, files={"helpers.py": "text = 'one'\n"}) as made:
        yield made


@pytest.fixture
def world(app: Application) -> Iterator[World]:
    """As under `svc dev`."""
    world = World(app, reloads_code=True)
    yield world
    world.close()


@pytest.fixture
def service(app: Application) -> Iterator[World]:
    """As under `svc run`."""
    world = World(app, reloads_code=False)
    yield world
    world.close()


# --- svc dev ------------------------------------------------------------------------------------------------------------------------------


def test_a_saved_file_takes_effect(world: World) -> None:
    world.save("helpers.py", "text = 'two'\n")
    assert world.answer("/Greeting/") == "two"
    [reload] = world.reloads
    assert (reload.kind, list(reload.names), dict(reload.faults)) == ("reloaded", ["helpers.py"], {})
    assert reload.text.startswith("reloaded in ") and reload.text.endswith(" ms: helpers.py")


def test_files_that_are_saved_together_are_loaded_together(world: World) -> None:
    world.write("helpers.py", "text = 'two'\n")
    world.write("schema.graphql", SCHEMA + "type More @table @export { id: ID @primaryKey }\n")
    world.write("resources.py", CODE + "\nclass Late(tables.More):\n    path = '/late'\n")
    world.tell("helpers.py", "schema.graphql", "resources.py")
    assert [list(reload.names) for reload in world.reloads] == [["helpers.py", "resources.py", "schema.graphql"]]
    assert world.answer("/late/") == [] and world.answer("/Greeting/") == "two"


def test_what_is_told_without_a_change_loads_nothing(world: World) -> None:
    world.tell("helpers.py", "resources.py")
    world.tell()
    assert world.reloads == []


def test_a_python_file_that_is_not_the_applications_loads_nothing(world: World) -> None:
    world.save("test_shop.py", "assert True\n")
    world.write("app/tests/test_more.py", "assert True\n")
    world.tell("app/tests")
    assert world.reloads == []
    world.save("resources.py", "import test_shop\n" + CODE)
    world.save("test_shop.py", "assert 1\n")
    assert len(world.reloads) == 2


def test_a_change_that_nothing_told_is_found_by_looking_at_everything(world: World) -> None:
    world.write("helpers.py", "text = 'two'\n")
    world.tell()
    assert world.answer("/Greeting/") == "two"


def test_a_fault_keeps_the_version_before_until_it_is_mended(world: World) -> None:
    world.save("helpers.py", "text = 1 / 0\n")
    assert world.answer("/Greeting/") == "one"
    assert [message for status in world.reloads[-1].faults.values() for message in status.messages][1:] == [
        "the version before goes on serving"
    ]
    world.save("helpers.py", "text = 'three'\n")
    assert world.answer("/Greeting/") == "three" and not world.reloads[-1].faults


def test_what_was_changed_beside_a_fault_takes_effect_when_that_is_mended(world: World) -> None:
    """The schema is right, but nothing of a version with a fault takes effect: its change must not be forgotten."""
    world.write("schema.graphql", SCHEMA + "type More @table @export { id: ID @primaryKey }\n")
    world.write("helpers.py", "text = \n")
    world.tell("schema.graphql", "helpers.py")
    assert world.app.ask("GET", "/More/")[0] == 404
    world.save("helpers.py", "text = 'mended'\n")
    assert world.answer("/More/") == [] and world.answer("/Greeting/") == "mended"
    assert list(world.reloads[-1].names) == ["helpers.py", "schema.graphql"]


@pytest.mark.parametrize("junk", [b"\x00\xff\xfe\x80" * 1000, b"", b"type X @table @export { id"])
def test_junk_in_a_schema(world: World, junk: bytes) -> None:
    (world.directory / "schema.graphql").write_bytes(junk)
    world.tell("schema.graphql")
    assert world.node.app.status == ("healthy" if not junk else "error")
    assert world.app.ask("GET", "/Thing/")[0] == (200 if junk else 404)
    world.save("schema.graphql", SCHEMA)
    assert world.answer("/Thing/") == [] and world.node.app.status == "healthy"


def test_modules_that_import_each_other_in_a_circle(world: World) -> None:
    world.write("helpers.py", "import other\ntext = other.text\n")
    world.write("other.py", "import helpers\ntext = helpers.text\n")
    world.tell("helpers.py", "other.py")
    assert world.answer("/Greeting/") == "one"
    [message, _] = next(iter(world.reloads[-1].faults.values())).messages
    assert "partially initialized module" in message and "other.py:2" in message


def test_a_file_that_becomes_a_directory_and_one_that_may_not_be_read(world: World) -> None:
    (world.directory / "helpers.py").unlink()
    (world.directory / "helpers.py").mkdir()
    world.tell("helpers.py")
    assert world.answer("/Greeting/") == "one" and world.reloads[-1].faults
    (world.directory / "helpers.py").rmdir()
    world.save("helpers.py", "text = 'two'\n")
    assert world.answer("/Greeting/") == "two"


def test_the_directory_of_an_application_goes_and_comes_back(world: World) -> None:
    gone = world.directory.with_name(".gone")
    world.directory.rename(gone)
    world.tell("app/resources.py", "app/x")
    gone.rename(world.directory)
    world.write("helpers.py", "text = 'back'\n")
    world.tell()
    assert world.answer("/Greeting/") == "back"


def test_an_application_comes_and_goes(world: World) -> None:
    world.write("blog/schema.graphql", "type Post @table @export { id: ID @primaryKey }\n")
    world.tell("blog/")
    assert world.reloads[-1].kind == "added" and world.answer("/Post/") == []
    assert str(world.root / "blog") in world.watcher.directories
    world.save("blog/schema.graphql", 'type Post @table @export(name: "posts") { id: ID @primaryKey }\n')
    assert world.answer("/posts/") == []
    shutil.rmtree(world.root / "blog")
    world.tell("blog/schema.graphql", "blog/")
    assert world.reloads[-1].kind == "removed" and world.app.ask("GET", "/posts/")[0] == 404
    assert str(world.root / "blog") not in world.watcher.directories


def test_an_application_that_is_a_link_follows_it(world: World) -> None:
    for version in ("one", "two"):
        world.write(
            f".deployments/blog-{version}/resources.py", f"class Version(Resource):\n    def get(self, query=None): return '{version}'\n"
        )
    (world.root / "blog").symlink_to(".deployments/blog-one")
    world.tell("blog/")
    assert world.answer("/Version/") == "one"
    (world.root / "next").symlink_to(".deployments/blog-two")
    (world.root / "next").replace(world.root / "blog")
    world.tell("blog/")
    assert world.answer("/Version/") == "two"
    world.save(".deployments/blog-two/resources.py", "class Version(Resource):\n    def get(self, query=None): return 'three'\n")
    assert world.answer("/Version/") == "three"


def test_two_applications_at_one_address_are_both_told(world: World) -> None:
    world.write(
        "blog/schema.graphql", SCHEMA.replace("Thing @table", 'Other @table(table: "other")').replace("@export", '@export(name: "Thing")')
    )
    world.tell("blog/")
    assert world.reloads[-1].faults and world.app.ask("GET", "/Thing/")[0] == 500
    shutil.rmtree(world.root / "blog")
    world.tell("blog/")
    assert world.answer("/Thing/") == []


def test_a_change_while_an_application_is_loaded_leads_to_one_more_load(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    change = world.node.applications.change
    texts = iter(["text = 'three'\n"])

    async def change_and_save(name: str, names: Sequence[str], *, reloads_code: bool) -> list[str]:
        waiting = await change(name, names, reloads_code=reloads_code)
        for text in texts:
            world.write("helpers.py", text)
            world.watcher.on_changes({str(world.directory / "helpers.py")})
        return waiting

    monkeypatch.setattr(world.node.applications, "change", change_and_save)
    world.save("helpers.py", "text = 'two, longer'\n")
    assert world.answer("/Greeting/") == "three"
    assert len(world.reloads) == 2


def test_a_change_while_the_application_is_loaded_for_the_first_time_is_not_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it does not know its files yet."""
    load = App.load
    first = iter((True,))

    async def load_and_save(app: App, keys: Any = None, decide: Any = None) -> bool:
        if not next(first, False):
            return await load(app, keys)
        loaded, app._loaded = app._loaded, {}
        world.write("schema.graphql", SCHEMA.replace("Thing", "Later"))
        world.watcher.on_changes({str(world.directory / "schema.graphql")})
        for _ in range(20):
            await asyncio.sleep(0.001)
        app._loaded = loaded
        return True

    monkeypatch.setattr(App, "load", load_and_save)
    world.node.run(world.node.applications.reload("app"))
    world.node.run(world.until_idle())
    assert world.answer("/Later/") == []


def test_a_file_that_is_cut_before_it_is_written_is_loaded_once(app: Application) -> None:
    world = World(app, reloads_code=True, patience=Patience(quiet=0.0, quiet_many=0.0, most=60.0, unfinished=60.0))
    world.write("resources.py", "")
    world.watcher.on_changes({str(world.directory / "resources.py")})

    world.node.run(world.until_idle())
    assert world.reloads == [] and world.answer("/Greeting/") == "one"
    world.save("resources.py", CODE.replace("Greeting", "Welcome"))
    assert [list(reload.names) for reload in world.reloads] == [["resources.py"]]
    assert world.answer("/Welcome/") == "one"
    world.close()


def test_hundreds_of_files_are_one_change(world: World) -> None:
    names = []
    for number in range(500):
        world.write(f"app/parts/p{number}.py", f"value = {number}\n")
        names.append(f"app/parts/p{number}.py")
    world.write("helpers.py", "from parts import p499\ntext = p499.value\n")
    world.tell("helpers.py", *names)
    assert world.answer("/Greeting/") == 499 and len(world.reloads) == 1


def test_a_fault_of_ours_does_not_end_the_watching(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    change = world.node.applications.change

    async def fail(*given: Any, **options: Any) -> list[str]:
        raise AssertionError("a defect")

    monkeypatch.setattr(world.node.applications, "change", fail)
    world.save("helpers.py", "text = 'two'\n")
    assert any("a defect" in warning for warning in world.warnings)
    monkeypatch.setattr(world.node.applications, "change", change)
    world.save("helpers.py", "text = 'three'\n")
    assert world.answer("/Greeting/") == "three"


# --- svc run ------------------------------------------------------------------------------------------------------------------------------


def test_a_schema_takes_effect_and_python_code_waits(service: World) -> None:
    service.write("schema.graphql", SCHEMA + "type More @table @export { id: ID @primaryKey }\n")
    service.write("helpers.py", "text = 'two'\n")
    service.tell("schema.graphql", "helpers.py")
    assert service.answer("/More/") == [] and service.answer("/Greeting/") == "one"
    assert service.waiting == {"app": ["helpers.py"]} and service.noted == [("app", ["helpers.py"])]
    service.save("helpers.py", "text = 'three'\n")
    assert service.noted == [("app", ["helpers.py"])], "said once"
    service.save("resources.py", CODE + "\n")
    assert service.noted[1:] == [("app", ["resources.py"])] and service.waiting == {"app": ["helpers.py", "resources.py"]}


def test_the_configuration_waits_and_the_rest_of_a_change_does_not(service: World) -> None:
    service.write("config.yaml", "rest: true\ngraphqlSchema: {files: '*.graphql'}\n")
    service.write("schema.graphql", SCHEMA + "type More @table @export { id: ID @primaryKey }\n")
    service.tell("config.yaml", "schema.graphql")
    assert service.waiting == {"app": ["config.yaml"]} and service.answer("/More/") == []
    assert service.answer("/Greeting/") == "one"


def test_a_restart_in_place_loads_what_waits(service: World) -> None:
    service.save("helpers.py", "text = 'two'\n")
    service.write("blog/schema.graphql", "type Post @table @export { id: ID @primaryKey }\n")
    service.tell("blog/")
    assert service.waiting == {"app": ["helpers.py"], "blog": ["added"]} and service.app.ask("GET", "/Post/")[0] == 404
    assert service.node.run(service.reloader.reload_all()) == []
    assert service.answer("/Greeting/") == "two" and service.answer("/Post/") == []
    assert service.waiting == {}
    shutil.rmtree(service.root / "blog")
    service.tell("blog/")
    assert service.waiting == {"blog": ["removed"]} and service.answer("/Post/") == []
    service.node.run(service.reloader.reload_all())
    assert service.waiting == {} and service.app.ask("GET", "/Post/")[0] == 404


def test_a_restart_in_place_where_nothing_is_watched_does_not_begin_to(app: Application) -> None:
    """As in tests of applications: a thread and descriptors were left."""
    world = World(app, reloads_code=False, watches=False)
    world.write("helpers.py", "text = 'two'\n")
    assert world.node.run(world.reloader.reload_all()) == []
    assert world.answer("/Greeting/") == "two" and world.watcher.directories == []
    world.close()


def test_a_restart_in_place_of_a_broken_version_keeps_the_one_before(service: World) -> None:
    service.save("helpers.py", "text = 1 / 0\n")
    [failed] = service.node.run(service.reloader.reload_all())
    assert failed.startswith("app: resources: resources.py: helpers.py:1: ZeroDivisionError")
    assert service.answer("/Greeting/") == "one" and service.waiting == {"app": ["helpers.py"]}


def test_an_application_whose_directory_has_gone_goes_on(service: World, tmp_path: Path) -> None:
    given = tmp_path / "elsewhere" / "given"
    given.mkdir(parents=True)
    (given / "schema.graphql").write_text("type Given @table @export { id: ID @primaryKey }\n")
    service.node.run(service.node.applications.add(given))
    service.tell()
    assert str(given) in service.watcher.directories
    given.rename(given.with_name("gone"))
    service.watcher.on_changes({str(given)})
    service.tell()
    assert service.node.run(service.reloader.reload_all()) == [f"given: {given} is not there"]
    assert service.answer("/Given/") == [] and service.waiting == {}
    assert service.warnings == [f"{given} is not there any more: given goes on as it was"]


def test_a_deployed_version_waits_as_a_whole(service: World) -> None:
    for version in ("one", "two"):
        service.write(f".deployments/blog-{version}/schema.graphql", f"type {version.title()} @table @export {{ id: ID @primaryKey }}\n")
    (service.root / "blog").symlink_to(".deployments/blog-one")
    service.node.run(service.node.applications.add(service.root / "blog"))
    service.tell("blog/")
    assert service.waiting == {} and service.answer("/One/") == []
    (service.root / "blog").unlink()
    (service.root / "blog").symlink_to(".deployments/blog-two")
    service.tell("blog/")
    assert service.waiting == {"blog": ["deployed"]}
    (service.root / ".deployments/blog-one/schema.graphql").unlink()
    service.tell(".deployments/blog-one/schema.graphql")
    assert service.answer("/One/") == [] and service.app.ask("GET", "/Two/")[0] == 404
    service.node.run(service.reloader.reload_all())
    assert service.waiting == {} and service.answer("/Two/") == [] and service.app.ask("GET", "/One/")[0] == 404


def test_nothing_waits_when_the_version_before_is_back(service: World) -> None:
    """As after a deployment whose version could not be loaded, if its directory was seen meanwhile."""
    for version in ("one", "two"):
        service.write(f".deployments/blog-{version}/schema.graphql", f"type {version.title()} @table @export {{ id: ID @primaryKey }}\n")
    (service.root / "blog").symlink_to(".deployments/blog-one")
    service.node.run(service.node.applications.add(service.root / "blog"))
    service.tell("blog/")
    for version, waiting in (("two", {"blog": ["deployed"]}), ("one", {})):
        (service.root / "blog").unlink()
        (service.root / "blog").symlink_to(f".deployments/blog-{version}")
        service.tell("blog/")
        assert service.waiting == waiting


def test_what_concerns_no_application_does_not_wake_the_loop(world: World) -> None:
    """A log beside an application is written all the time."""
    for path in ("elsewhere/a.py", "app/.git/index", "app/__pycache__/helpers.cpython-311.pyc", "app/helpers.py~", ".deployments/old/a.py"):
        world.watcher.on_changes({str(world.root / path)})
    world.node.run(asyncio.sleep(0))
    assert not world.reloader._arrived.is_set() and not world.reloader._paths


def test_files_that_are_saved_all_the_time_do_not_keep_others_from_being_loaded(app: Application) -> None:
    world = World(app, reloads_code=True, patience=Patience(quiet=0.005, quiet_many=0.005, most=3600.0, unfinished=0.0))
    world.reloader._clock = SYSTEM_CLOCK
    before = app.node.app.code
    world.write("helpers.py", "text = 'two'\n")
    log = world.directory / "log.txt"

    async def write_without_end() -> None:
        number = 0
        while True:
            number += 1
            log.write_text(f"{number}\n")
            world.watcher.on_changes({str(log)})
            await asyncio.sleep(0.001)

    async def save() -> None:
        writing = asyncio.create_task(write_without_end())
        world.watcher.on_changes({str(world.directory / "helpers.py")})
        deadline = SYSTEM_CLOCK.monotonic() + LIMIT
        while app.node.app.code is before:
            await asyncio.sleep(0.001)
            assert SYSTEM_CLOCK.monotonic() < deadline
        writing.cancel()

    world.node.run(save())
    assert world.answer("/Greeting/") == "two"
    world.close()


def test_what_changes_before_watching_begins_is_found(app: Application) -> None:
    world = World(app, reloads_code=True)
    world.watcher.directories = []
    world.write("helpers.py", "text = 'two'\n")
    world.reloader._begin_watching()
    world.node.clock.advance(1.0)
    world.node.run(world.until_idle())
    world.node.clock.advance(1.0)
    world.node.run(world.until_idle())
    assert world.answer("/Greeting/") == "two"
    world.close()
