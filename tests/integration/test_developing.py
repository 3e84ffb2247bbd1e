"""`svc dev` with the real process: saved files take effect, and nothing that goes on is dropped."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from svc.stubs import write_stubs
from tests.integration.conftest import PASSWORD, Process
from tests.support.saving import save
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

LIMIT = 120.0  # seconds; a test that fails ends
MODULES = 24

SCHEMA = "type Thing @table @export { id: ID @primaryKey  a: Int }\ntype Other @table @export { id: ID @primaryKey }\n"
RESOURCES = """
import asyncio
from pathlib import Path
from svc import Resource, tables
{imports}

running = []

class Version(Resource):
    def allow_read(self, user, target):
        return True

    def get(self, query=None):
        return [{version}, part0.VERSION]

class Slow(Resource):
    def allow_read(self, user, target):
        return True

    async def get(self, query=None):
        running.append("slow")
        while not Path(__file__).with_name("release").exists():
            await asyncio.sleep(0.01)
        return {version}

class Running(Resource):
    def allow_read(self, user, target):
        return True

    def get(self, query=None):
        return running
"""


def resources(version: int) -> str:
    return RESOURCES.format(version=version, imports="\n".join(f"import part{number}" for number in range(MODULES)))


def write_application(directory: Path, version: int, faults: Mapping[str, str] = MappingProxyType({})) -> None:
    """All of its 30 files. `faults`: files with faults, by name. They are written before the others, so that no load finds only what is right of this
    version."""
    directory.mkdir(exist_ok=True)
    files = {"schema.graphql": SCHEMA, "resources.py": resources(version), "roles.yaml": "reader:\n  data:\n    Thing: {read: true}\n"}
    for number in range(MODULES):
        following = f"import part{number + 1}\n" if number + 1 < MODULES else ""
        files[f"part{number}.py"] = f"{following}VERSION = {version}\n"
    files |= {f"web/page{number}.html": f"<p>{version}</p>" for number in range(3)}
    for name, text in {**faults, **files, **faults}.items():  # the faults in front
        (directory / name).parent.mkdir(exist_ok=True)
        save(directory / name, text, directory.parent)


class Traffic:
    """Clients that ask all the time, each on a connection of its own. `failures`: what was not right."""

    def __init__(self, url: str, auth: tuple[str, str] | None = None) -> None:
        self.auth = auth
        self.failures: list[str] = []
        self.count = 0
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(url, path)) for path in ("/Version/", "/Thing/?limit(1)", "/page0.html")]
        for thread in self._threads:
            thread.start()

    def _ask(self, url: str, path: str) -> None:
        with httpx.Client(base_url=url, timeout=LIMIT, auth=self.auth) as client:
            while not self._ends.is_set():
                try:
                    response = client.get(path)
                    if response.status_code != 200:
                        self.failures.append(f"{path}: {response.status_code} {response.text[:500]}")
                except httpx.HTTPError as error:
                    self.failures.append(f"{path}: {error!r}")
                self.count += 1

    def end(self) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()


class Events:
    """A stream of server-sent events."""

    def __init__(self, url: str) -> None:
        self.ids: list[str] = []
        self.error: Exception | None = None
        self.is_open = threading.Event()
        self._client = httpx.Client(base_url=url, timeout=LIMIT)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        assert self.is_open.wait(LIMIT)

    def _read(self) -> None:
        try:
            with self._client.stream("GET", "/Thing/", headers={"Accept": "text/event-stream"}) as response:
                self.is_open.set()
                for line in response.iter_lines():
                    if line.startswith("data:"):
                        value = json.loads(line.removeprefix("data:"))
                        self.ids.append(str(value.get("id")))
                        if value.get("id") == "last":
                            return
        except Exception as error:
            self.error = error
            self.is_open.set()

    def wait_for_the_last(self) -> None:
        self._thread.join(LIMIT)
        assert not self._thread.is_alive() and self.error is None, (self.ids, self.error)
        self._client.close()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Process]:
    write_application(tmp_path / "shop", 0)
    process = Process(tmp_path / "root", tmp_path / "shop", env={"HTTP_TIMEOUT": "3600000"})  # a request lasts as long as a test
    process._words[0] = "dev"
    process.start()
    yield process
    if process.is_running:
        assert process.stop() == 0, process.output()


def errors_of(process: Process) -> dict[str, str]:
    found = process.operate("get_status").json()["componentStatus"]
    return {each["name"]: each["error"] for each in found if each["status"] == "error"}


def test_nothing_is_dropped_while_files_are_saved(shop: Process, tmp_path: Path) -> None:
    with shop.client() as client, connect(f"ws://127.0.0.1:{shop.port}/Thing/", open_timeout=LIMIT, ping_interval=None) as socket:
        save_again_and_again(shop, tmp_path / "shop", client, socket)


def save_again_and_again(shop: Process, directory: Path, client: httpx.Client, socket: ClientConnection) -> None:

    def put(key: str) -> None:
        assert client.put(f"/Thing/{key}", json={"a": 1}).status_code == 204

    put("first")
    events = Events(shop.url)
    slow: list[httpx.Response] = []
    waiting = threading.Thread(target=lambda: slow.append(httpx.get(f"{shop.url}/Slow/", timeout=None)))
    waiting.start()
    wait_until(lambda: client.get("/Running/").json() == ["slow"])
    traffic = Traffic(shop.url)
    try:
        for version in range(1, 21):
            faults = {1: {"part3.py": "VERSION = \n"}, 2: {"schema.graphql": "type Thing @table @export { id: : ID }"}}.get(version % 4, {})
            write_application(directory, version, faults)
            if faults:
                wait_until(lambda: errors_of(shop), shop.output)
                assert client.get("/Version/").json()[0] < version
                if version % 4 == 1:
                    save(directory / "part3.py", f"import part4\nVERSION = {version}\n", directory.parent)
                else:
                    save(directory / "schema.graphql", SCHEMA, directory.parent)
            wait_until(lambda version=version: client.get("/Version/").json() == [version, version], shop.output)
            assert client.get("/page1.html").text == f"<p>{version}</p>"
            wait_until(lambda: not errors_of(shop), lambda: errors_of(shop))
            put(f"after-{version}")
    finally:
        traffic.end()
    assert traffic.failures == [] and traffic.count > 20
    (directory / "release").write_text("")
    waiting.join(LIMIT)
    assert slow[0].status_code == 200 and slow[0].json() == 0, "with the code it began with"
    put("last")
    events.wait_for_the_last()
    expected = {*(f"after-{version}" for version in range(1, 21)), "last"}
    assert expected <= set(events.ids)
    received: set[str] = set()
    while "last" not in received:
        received.add(str(json.loads(socket.recv(timeout=LIMIT)).get("id")))
    assert expected <= received
    assert "Traceback" not in shop.logged()


def test_the_terminal_shows_what_happens(shop: Process, tmp_path: Path) -> None:
    directory = tmp_path / "shop"
    shown = shop.output
    wait_until(lambda: f"http://localhost:{shop.port}/" in shown() and "2 tables" in shown(), shown)
    assert "\x1b" not in shown()
    with shop.client() as client, httpx.Client(base_url=shop.url) as local:
        assert local.put("/Thing/1", json={"a": 1}).status_code == 204
        assert client.get("/Thing/").json() == [{"a": 1, "id": "1"}]
        wait_until(lambda: "PUT    /Thing/1  204" in shown(), shown)
        wait_until(lambda: re.search(r"GET    /Thing/  200  .* ms  1 row  admin\n", shown()), shown)
        save(directory / "part5.py", "import part6\nVERSION = 1 / 0\n", tmp_path)
        wait_until(lambda: "not loaded shop, the version before goes on serving" in shown(), shown)
        wait_until(lambda: 'part5.py", line 2, in <module>' in shown() and "ZeroDivisionError: division by zero" in shown(), shown)
        assert "svc/apps" not in shown() and "importlib" not in shown()
        save(directory / "part5.py", "raise KeyboardInterrupt\n", tmp_path)
        wait_until(lambda: "| KeyboardInterrupt" in shown(), shown)
        save(directory / "part5.py", "import part6\nVERSION = 5\n", tmp_path)
        wait_until(lambda: "reloaded shop in " in shown(), shown)
        broken = "\n\nclass Broken(Resource):\n    def get(self, query=None):\n        return {}['x']\n"
        save(directory / "resources.py", resources(1) + broken, tmp_path)
        wait_until(lambda: local.get("/Broken/").status_code == 500, shown)
        assert local.get("/Broken/").status_code == 500
        wait_until(lambda: "as at" in shown() and shown().count("KeyError: 'x'") == 2, shown)
        assert shown().count("return {}['x']") == 1, shown()
        save(directory / "jobs.py", "def fail(run):\n    raise LookupError('of a job')\n", tmp_path)
        with (directory / "config.yaml").open("a") as config:
            config.write("scheduler: {jobs: [{name: failing, interval: 1s, handler: 'jobs.py#fail'}]}\n")
        wait_until(lambda: "job failing has failed" in shown() and "LookupError: of a job" in shown(), shown)
    wait_until(lambda: "successfully started" in shop.logged(), shop.logged)
    assert shown().count("successfully started") == 0 and shop.logged().count("successfully started") == 1


def test_stubs_that_an_application_has_follow_its_schema(shop: Process, tmp_path: Path) -> None:
    directory = tmp_path / "shop"
    assert not (directory / "typings").exists(), "they were not asked for"
    written = write_stubs(directory)
    stubs = next(path for path in written if path.name == "_schema.pyi")
    save(directory / "schema.graphql", SCHEMA + "type Newest @table { id: ID @primaryKey }\n", tmp_path)
    wait_until(lambda: "Newest" in stubs.read_text(), shop.output)


def test_an_application_comes_and_goes_below_the_root_of_components(shop: Process, tmp_path: Path) -> None:
    components = shop.root / "components"
    write_application(tmp_path / "made", 7)
    (tmp_path / "made" / "schema.graphql").write_text("type Blog @table @export { id: ID @primaryKey }\n")
    shutil.rmtree(tmp_path / "made" / "web")
    (tmp_path / "made" / "resources.py").unlink()
    with shop.client() as client:
        components.mkdir(exist_ok=True)
        shutil.copytree(tmp_path / "made", components / "blog")
        wait_until(lambda: client.get("/Blog/").status_code == 200, shop.output)
        shutil.rmtree(components / "blog")
        wait_until(lambda: client.get("/Blog/").status_code == 404, shop.output)
        assert client.get("/Thing/").status_code == 200


def test_python_code_waits_for_a_restart_in_place_where_it_is_run(tmp_path: Path) -> None:
    directory = tmp_path / "shop"
    write_application(directory, 0)
    process = Process(tmp_path / "root", directory).start()
    with process.client() as client:
        write_application(directory, 1)
        save(directory / "schema.graphql", SCHEMA + "type More @table @export { id: ID @primaryKey }\n", tmp_path)

        def reasons() -> list[str]:
            found: list[str] = process.operate("get_status").json().get("restartReasons") or [""]
            return found

        wait_until(lambda: reasons()[0].startswith("component shop: part0.py, "), reasons)  # of the first files that were seen at first
        wait_until(lambda: client.get("/More/").status_code == 200, process.logged)
        assert client.get("/Version/").json() == [0, 0]
        traffic = Traffic(process.url, ("admin", PASSWORD))
        job = process.operate("restart_service", service="http").json()["job_id"]
        wait_until(lambda: process.operate("get_job", id=job).json()[0]["status"] == "COMPLETE", process.logged)
        traffic.end()
        assert traffic.failures == []
        assert client.get("/Version/").json() == [1, 1]
        assert process.operate("get_status").json()["restartRequired"] is False
        save(directory / "part0.py", "syntax error", tmp_path)
        wait_until(lambda: process.operate("get_status").json()["restartRequired"], process.logged)
        job = process.operate("restart_service", service="http").json()["job_id"]
        failed = wait_until(
            lambda: [each for each in process.operate("get_job", id=job).json() if each["status"] == "ERROR"], process.logged
        )
        assert "part0.py:1: SyntaxError" in failed[0]["message"] and client.get("/Version/").json() == [1, 1]
    assert PASSWORD not in process.logged()
    assert process.stop() == 0
