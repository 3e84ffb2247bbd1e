"""svc.apps.app: a newer version of an application takes the place of the one that serves, as a whole or not at all."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from svc.api.running import TIMEOUT
from svc.apps.entry_load import EntryLoad
from tests.support.application import Application, application
from tests.support.node import Node

FIRST = """
from svc import Resource, server, tables
import helpers

class Greeting(Resource):
    def allow_read(self, user, target):
        return True
    def get(self, query=None):
        return helpers.text

class Old(Resource):
    def allow_read(self, user, target):
        return True
    def get(self, query=None):
        return "old"

server.resources.set("set/by-code", Greeting)
server.http(lambda request, next: {"version": 1}, url_path="/listener")

def cost(record):
    return record["a"] + 1
tables.Thing.set_computed_attribute("b", cost)

class Source:
    def get(self, id, context):
        return {"id": id, "a": 1}
tables.Cached.source_from(Source())
"""
SCHEMA = """
type Thing @table @export { id: ID @primaryKey  a: Int  b: Int @computed @indexed }
type Cached @table @export { id: ID @primaryKey  a: Int }
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Application]:
    with application(tmp_path, FIRST, SCHEMA, files={"helpers.py": "text = 'one'\n"}) as made:
        yield made


def write(app: Application, name: str, text: str) -> None:
    (app.node.app.directory / name).write_text(dedent(text))


def reload(app: Application, *names: str) -> None:
    app.node.run(app.node.applications.change("app", names, reloads_code=True))


def test_a_newer_version_takes_over_at_once(app: Application) -> None:
    assert app.ask("GET", "/Greeting/") == (200, "one")
    assert app.ask("GET", "/listener") == (200, {"version": 1})
    assert app.ask("GET", "/Cached/x") == (200, {"id": "x", "a": 1})
    newer = FIRST.replace("class Old", "class New").replace('"version": 1', '"version": 2').replace('"a": 1}', '"a": 2}')
    write(app, "resources.py", newer.replace('record["a"] + 1', 'record["a"] + 2'))
    write(app, "helpers.py", "text = 'two'\n")
    reload(app, "helpers.py", "resources.py")
    assert app.node.app.status == "healthy", app.node.app.entries
    assert app.ask("GET", "/Greeting/") == (200, "two") == app.ask("GET", "/set/by-code/")
    assert app.ask("GET", "/Old/")[0] == 404
    assert app.ask("GET", "/New/") == (200, "old")
    assert app.ask("GET", "/listener") == (200, {"version": 2})
    assert app.ask("GET", "/Cached/y") == (200, {"id": "y", "a": 2}), "the source of the newer version is asked"
    assert app.ask("PUT", "/Thing/1", {"a": 5})[0] == 204
    assert app.ask("GET", "/Thing/?b=7&select(b)") == (200, [7])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("resources.py", FIRST.replace("import helpers", "import helpers\n1 / 0"), "resources.py:4: ZeroDivisionError"),
        ("resources.py", "def broken(:\n", "resources.py:1: SyntaxError"),
        ("helpers.py", "import no_such_module\n", "ModuleNotFoundError"),
        ("helpers.py", "import resources\nresources.Nothing\n", "partially initialized"),
        ("helpers.py", "raise SystemExit(3)\n", "SystemExit"),
        ("schema.graphql", SCHEMA.replace("a: Int", "a: : Int"), "schema.graphql:2"),
        ("config.yaml", "a: [\n", "config.yaml"),
        ("config.yaml", "- list\n", "must be a mapping"),
    ],
)
def test_a_broken_version_changes_nothing_that_is_served(app: Application, name: str, text: str, said: str) -> None:
    write(app, name, text)
    before = len(app.node.resources), set(sys.modules)
    reload(app, name)
    assert app.node.app.status == "error"
    messages = [message for entry in app.node.app.entries.values() for message in entry.messages]
    assert any(said in message for message in messages), messages
    assert any("the version before goes on serving" in message for message in messages)
    assert app.ask("GET", "/Greeting/") == (200, "one") == app.ask("GET", "/set/by-code/")
    assert app.ask("GET", "/Old/") == (200, "old")
    assert app.ask("GET", "/listener") == (200, {"version": 1})
    assert app.ask("GET", "/Cached/x") == (200, {"id": "x", "a": 1})
    assert before[0] == len(app.node.resources)
    assert {each for each in sys.modules if each.startswith("svc_apps.app")} <= before[1]
    (app.node.app.directory / "config.yaml").unlink(missing_ok=True)
    for restored, content in (
        ("resources.py", FIRST.replace('"old"', '"mended"')),
        ("helpers.py", "text = 'three'\n"),
        ("schema.graphql", SCHEMA),
    ):
        write(app, restored, content)
    reload(app, "config.yaml")
    assert app.node.app.status == "healthy", app.node.app.entries
    assert app.ask("GET", "/Greeting/") == (200, "three")
    assert app.ask("GET", "/Old/") == (200, "mended")


def test_a_change_of_the_same_length_within_a_second_is_seen(app: Application) -> None:
    for number in range(5):
        write(app, "helpers.py", f"text = 'v{number}'\n")
        reload(app, "helpers.py")
        assert app.ask("GET", "/Greeting/") == (200, f"v{number}")


def test_a_new_table_and_its_resource_in_one_change(app: Application) -> None:
    write(
        app, "schema.graphql", SCHEMA + "type More @table @export { id: ID @primaryKey }\ntype Base @table { id: ID @primaryKey x: Int }\n"
    )
    write(app, "resources.py", FIRST + "\nclass Derived(tables.Base):\n    pass\n")
    reload(app, "schema.graphql", "resources.py")
    assert app.ask("PUT", "/More/1", {})[0] == 204
    assert app.ask("PUT", "/Derived/1", {"x": 1})[0] == 204
    assert app.ask("GET", "/Derived/1") == (200, {"id": "1", "x": 1})


def test_an_export_that_is_removed_is_gone_and_the_data_stay(app: Application) -> None:
    assert app.ask("PUT", "/Thing/1", {"a": 5})[0] == 204
    write(app, "schema.graphql", SCHEMA.replace("type Thing @table @export", "type Thing @table"))
    reload(app, "schema.graphql")
    assert app.ask("GET", "/Thing/1")[0] == 404
    write(app, "schema.graphql", SCHEMA)
    reload(app, "schema.graphql")
    assert app.ask("GET", "/Thing/1")[1]["a"] == 5


def test_requests_that_have_begun_go_on_with_the_code_they_began_with(tmp_path: Path) -> None:
    code = """
    import asyncio
    gate = asyncio.Event()
    class Slow(Resource):
        def allow_read(self, user, target):
            return True
        async def get(self, query=None):
            await gate.wait()
            import late
            return late.text
    """
    with application(tmp_path, code, files={"late.py": "text = 'first'\n"}) as app:
        slow = app.node.connect()
        slow.send(b"GET /Slow/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
        gate = app.module.gate
        write(app, "resources.py", code.replace("await gate.wait()", "pass"))
        reload(app, "resources.py")
        assert app.ask("GET", "/Slow/") == (200, "first")
        gate.set()
        app.node.settle()
        assert slow.sock.sent.startswith(b"HTTP/1.1 200") and slow.sock.sent.endswith(b'"first"')


def test_subscriptions_of_a_table_go_on(app: Application) -> None:
    events = app.node.connect()
    events.send(b"GET /Thing/ HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
    write(app, "helpers.py", "text = 'two'\n")
    reload(app, "helpers.py", "schema.graphql")
    assert app.ask("PUT", "/Thing/1", {"a": 5})[0] == 204
    app.node.settle()
    assert b'"a":5' in events.sock.sent


def test_a_source_that_is_gone_leaves_an_ordinary_table(app: Application) -> None:
    assert app.ask("GET", "/Cached/x")[0] == 200
    write(app, "resources.py", FIRST.replace("tables.Cached.source_from(Source())", ""))
    reload(app, "resources.py")
    assert app.node.app.status == "healthy", app.node.app.entries
    assert app.ask("GET", "/Cached/y")[0] == 404
    assert not app.tables.Cached.is_caching


def test_another_source_takes_the_place_of_the_one_before(app: Application) -> None:
    write(
        app, "resources.py", FIRST.replace("class Source:", "class Other:").replace("(Source())", "(Other())").replace('"a": 1}', '"a": 9}')
    )
    reload(app, "resources.py")
    assert app.node.app.status == "healthy", app.node.app.entries
    assert app.ask("GET", "/Cached/x") == (200, {"id": "x", "a": 9})


def test_tasks_that_modules_have_started_end_with_their_version(tmp_path: Path) -> None:
    code = """
    import asyncio
    ticks = []
    async def tick():
        try:
            await asyncio.Event().wait()
        finally:
            ticks.append("ended")
    task = asyncio.create_task(tick())
    """
    with application(tmp_path, code) as app:
        former: Any = app.module
        app.node.settle()
        write(app, "resources.py", "")
        reload(app, "resources.py")
        app.node.settle()
        assert former.ticks == ["ended"]


def test_python_code_waits_for_a_restart_where_it_is_not_reloaded(app: Application) -> None:
    write(app, "helpers.py", "text = 'two'\n")
    write(app, "schema.graphql", SCHEMA + "type More @table @export { id: ID @primaryKey }\n")
    waiting = app.node.run(app.node.applications.change("app", ["helpers.py", "schema.graphql"], reloads_code=False))
    assert waiting == ["helpers.py"]
    assert app.ask("GET", "/Greeting/") == (200, "one")
    assert app.ask("PUT", "/More/1", {})[0] == 204, "the schema is taken over"


def test_what_cannot_be_loaded_at_first_answers_with_the_reason(tmp_path: Path) -> None:
    with application(tmp_path, "import nothing_of_this_name\nclass Shop(Resource):\n    pass\n", healthy=False) as app:
        for path in ("/Shop", "/Shop/1"):
            status, body = app.ask("GET", path)
            assert status == 503
            assert "resources.py:1: ModuleNotFoundError" in body["detail"] and "'app'" in body["detail"]
        assert app.ask("PUT", "/Plain/1", {"stock": 1})[0] == 204, "the rest is served"
        write(app, "resources.py", "class Shop(Resource):\n    def get(self, query=None): return 1\n")
        reload(app, "resources.py")
        assert app.ask("GET", "/Shop/") == (200, 1)


def test_addresses_of_a_broken_schema_answer_with_the_reason(tmp_path: Path) -> None:
    directory = tmp_path / "app"
    directory.mkdir()
    (directory / "schema.graphql").write_text(
        "type A @table @export { id: ID @primaryKey }\ntype B @table @export { id: ID @primaryKey x: Int y: Int @relationship(from: x) }\n"
    )
    node = Node(tmp_path / "data", directory)
    wire = node.connect()
    assert wire.ask("PUT", "/A/1", b"{}")[0] == 204
    status, _, body = wire.ask("GET", "/B/1")
    assert status == 503 and b"schema.graphql:2" in body, (body, node.app.entries)
    for method in ("GET", "PUT", "DELETE"):
        status, fields, body = wire.ask(method, "/B/1", b"", {"X-Forwarded-For": "10.0.0.1"})  # an anonymous caller
        problem = json.loads(body)
        assert (status, problem["code"], "retryable" in problem) == (503, "APPLICATION_FAULT", False)
        assert problem["detail"] == "Not available: the application could not be loaded completely" and "retry-after" not in fields
    node.close()


def test_a_broken_configuration_answers_with_the_reason(tmp_path: Path) -> None:
    directory = tmp_path / "app"
    directory.mkdir()
    (directory / "schema.graphql").write_text("type A @table @export { id: ID @primaryKey }")
    (directory / "config.yaml").write_text("rest: [")
    node = Node(tmp_path / "data", directory)
    assert node.connect().ask("GET", "/A/1")[0] == 503
    (directory / "config.yaml").unlink()
    node.run(node.applications.reload("app"))
    assert node.connect().ask("PUT", "/A/1", b"{}")[0] == 204
    node.close()


def test_an_application_that_goes_leaves_nothing_but_its_tables(app: Application) -> None:
    node = app.node
    node.run(node.applications.remove("app"))
    assert len(node.resources) == 0
    assert not node.listeners
    assert app.ask("GET", "/Thing/1")[0] == 404
    assert "Thing" in app.tables


def test_many_reloads_keep_nothing(app: Application) -> None:

    def versions() -> int:
        return len({name.rpartition(".")[0] for name in sys.modules if name.startswith("svc_apps.app") and name.endswith(".resources")})

    for _ in range(20):
        reload(app, "resources.py")
    assert app.ask("GET", "/Greeting/") == (200, "one")
    assert versions() == 21, "each former version waits for its requests"
    app.node.pass_loop_time(TIMEOUT)
    assert versions() == 1
    assert len(app.node.interface.app_configs) == 1 == len(app.node.interface.app_servers)


def test_packages_of_the_application(tmp_path: Path) -> None:
    files = {".packages/only_of_this_app.py": "value = 'installed'\n"}
    before = list(sys.path)
    with application(tmp_path, "from only_of_this_app import value\n", files=files) as app:
        assert app.module.value == "installed"
        reload(app, "resources.py")
        assert len(sys.path) == len(before) + 1
    assert sys.path == before
    sys.modules.pop("only_of_this_app")


def test_addresses_below_a_path(tmp_path: Path) -> None:
    config = "rest: {path: /api/v1, nonsense: 1, port: 8000}\ngraphqlSchema: {files: '*.graphql'}\nresources: {files: resources.py}\n"
    code = "class Own(Resource):\n    def get(self, query=None): return 1\n"
    with application(tmp_path, code, files={"config.yaml": config}, healthy=False) as app:
        assert app.ask("PUT", "/api/v1/Plain/1", {"stock": 1})[0] == 204
        assert app.ask("GET", "/api/v1/Own/") == (200, 1)
        assert app.ask("GET", "/Plain/1")[0] == 404
        assert [message.partition(":")[0] for message in app.node.app.entries["config"].messages] == ["rest", "rest"]


def test_a_module_that_never_ends_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from svc.apps import load_limit, modules

    monkeypatch.setattr(modules, "load_limit", lambda: load_limit.load_limit(0.05))
    monkeypatch.setattr(load_limit, "AGAIN", 0.125)
    for number, line in enumerate(
        (
            "while True:\n    try:\n        pass\n    except Exception:\n        pass",
            "import time\ntime.sleep(1000)",
            "try:\n    while True:\n        pass\nexcept:\n    pass\nwhile True:\n    pass",
        )
    ):
        with application(tmp_path / str(number), f"{line}\n", healthy=False) as app:
            [message] = app.node.app.entries["resources"].messages
            assert "it has not ended loading within 0.05 s" in message and message.startswith("resources.py: resources.py:"), message


def test_a_defect_while_loading_is_a_status_and_not_the_end(app: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object, **options: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(EntryLoad, "_make_code", broken)
    reload(app, "resources.py")
    assert app.node.app.entries["config"].messages == ["RuntimeError: a defect"]
    assert app.ask("GET", "/Greeting/") == (200, "one")


@pytest.mark.parametrize(
    "broken", ["rest: true\na: [\n", "rest: true\nstatic: {files: ../x}\n", "rest: true\ngraphqlSchema: {files: ../x}\n"]
)
def test_a_config_file_that_is_mended_to_what_it_was_is_healthy_again(tmp_path: Path, broken: str) -> None:
    text = "rest: true\ngraphqlSchema: {files: '*.graphql'}\nresources: {files: resources.py}\nstatic: {files: 'web/**'}\n"
    with application(tmp_path, FIRST, SCHEMA, files={"helpers.py": "text = 'one'\n", "config.yaml": text, "web/a.txt": "a"}) as app:
        write(app, "config.yaml", broken)
        reload(app, "config.yaml")
        assert app.node.app.status == "error"
        write(app, "config.yaml", text)
        reload(app, "config.yaml")
        assert app.node.app.status == "healthy", app.node.app.entries
        assert app.ask("GET", "/Greeting/") == (200, "one")


@pytest.mark.parametrize(("name", "key"), [("config.yaml", "config"), ("roles.yaml", "roles")])
def test_a_fault_of_yaml_says_where_it_is_in_one_line(app: Application, name: str, key: str) -> None:
    write(app, name, "a: 1\nb: [\n")
    reload(app, name)
    message = app.node.app.entries[key].messages[0]
    assert message.startswith(f"{name}: line 3, column 1: "), message
    assert "\n" not in message
