"""An application directory inside servers that are not ours: uvicorn and hypercorn (spec: asgi §2)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.integration.conftest import APP, PASSWORD
from tests.support.forked import Forked
from tests.support.leaks import memory_of
from tests.support.ports import free_port
from tests.support.prepared import place_token_keys

pytestmark = pytest.mark.programs

LIMIT = 120.0  # seconds for anything to happen
ADMIN = ("admin", PASSWORD)
SCHEMA = """
type Film @table @export { id: ID @primaryKey  title: String  video: Blob }
"""
RESOURCES = """
from svc import Resource, get_user, server, tables

async def counting(scope, receive, send):
    if scope["type"] == "lifespan":
        raise ValueError("no lifespan")
    size, more = 0, "refuses" not in scope["path"]
    while more:
        message = await receive()
        size, more = size + len(message["body"]), message["more_body"]
    await send({"type": "http.response.start", "status": 200})
    for piece in (str(size).encode(), b" ", scope["svc.user"].username.encode()):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body"})

server.mount("/counting", counting)

class Echo(Resource):
    async def connect(self, incoming=None, query=None):
        async for message in incoming:
            yield {"user": get_user().username, "message": message}

class Report(Resource):
    async def post(self, data, query=None):
        await tables.Brand.put({"id": data["id"], "name": get_user().username})
        return {"name": (await tables.Brand.get(data["id"])).name}
"""
SERVERS = {
    "uvicorn": ["main:app", "--log-level", "warning", "--port"],
    "hypercorn": ["main:app", "--bind"],
}
MAIN = """
import svc
app = svc.asgi({app!r}, root={root!r}, http_corsAccessList=["https://shop.example"], logging_level="info")
operations = app.operations
"""


class Hosted:
    """A server process with `main.py`. `forked`: it is a fork of a process that has imported svc."""

    started: ClassVar[list[Hosted]] = []

    def __init__(self, server: str, directory: Path, main: str, *options: str, forked: bool = True, **environment: str) -> None:
        self.root = directory / "root"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._output = directory / "output.txt"
        directory.mkdir(exist_ok=True)
        (directory / "main.py").write_text(main)
        if not (self.root / "svc-config.yaml").exists() and "root" not in environment:
            place_token_keys(self.root)
        where = str(self.port) if server == "uvicorn" else f"127.0.0.1:{self.port}"
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "SVC_ADMIN_PASSWORD": PASSWORD,
            "PYTHONPATH": os.pathsep.join([str(directory), *(path for path in sys.path if path)]),
            **environment,
        }
        with self._output.open("ab") as output:
            words = [*SERVERS[server], where, *options]
            self.process: subprocess.Popen[bytes] | Forked
            if forked:
                words += ["--workers", "0"] if server == "hypercorn" else []  # else it starts one more process of Python
                self.process = Forked(words, module=server, env=env, stdout=output, stderr=output, cwd=directory)
            else:
                command = [sys.executable, "-m", server, *words]
                self.process = subprocess.Popen(command, env=env, stdout=output, stderr=output, cwd=directory)
        Hosted.started.append(self)

    def wait(self) -> Hosted:
        deadline = time.monotonic() + LIMIT
        while True:
            assert self.process.poll() is None, self.output()
            assert time.monotonic() < deadline, self.output()
            try:
                httpx.get(f"{self.url}/", timeout=LIMIT)
                return self
            except httpx.TransportError:
                time.sleep(0.02)

    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def logged(self) -> str:
        return (self.root / "log" / "svc.log").read_text()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(LIMIT)


@pytest.fixture(scope="module", autouse=True)
def nothing_left() -> Iterator[None]:
    """Ends what tests that failed have left running."""
    yield
    for hosted in Hosted.started:
        if hosted.process.poll() is None:
            hosted.process.kill()
            hosted.process.wait()
    Hosted.started.clear()


@pytest.fixture(scope="module", params=sorted(SERVERS))
def hosted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    directory = tmp_path_factory.mktemp("hosted")
    app = directory / "films"
    app.mkdir()
    (app / "schema.graphql").write_text((APP / "schema.graphql").read_text() + SCHEMA)
    (app / "resources.py").write_text(RESOURCES)
    running = Hosted(request.param, directory, MAIN.format(app=str(app), root=str(directory / "root")), forked=False).wait()
    yield running
    status = running.stop()
    assert status in (0, -signal.SIGTERM), running.output()
    assert "Traceback" not in running.output()
    assert "svc stopped." in running.logged()
    assert not [line for line in running.logged().splitlines() if "[error]" in line or "Traceback" in line]


@pytest.fixture
def client(hosted: Hosted) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=hosted.url, auth=ADMIN, timeout=LIMIT) as made:
        yield made


@pytest.fixture
def key() -> str:
    return uuid4().hex[:8]


def test_records(client: httpx.Client, key: str) -> None:
    path = f"/Product/{key}"
    assert client.put(path, json={"name": "Chair", "price": 5}).status_code == 204
    found = client.get(path)
    assert found.json() == {"name": "Chair", "price": 5, "id": key}
    assert client.get(path, headers={"If-None-Match": found.headers["etag"]}).status_code == 304
    head = client.head(path)
    assert head.headers["content-length"] == str(len(found.content)) and head.content == b""
    assert client.patch(path, json={"price": 7}).status_code in (200, 204)
    assert client.get("/Product/", params={"name": "Chair", "id": key}).json()[0]["price"] == 7
    assert client.delete(path).status_code in (200, 204)
    assert client.get(path).status_code == 404


def test_refusals(hosted: Hosted, client: httpx.Client) -> None:
    assert httpx.get(f"{hosted.url}/Product/", timeout=LIMIT).status_code == 401
    assert client.get("/Product/", auth=("admin", "wrong")).status_code == 401
    assert client.get("/nothing").status_code == 404
    assert client.request("BREW", "/Product/").status_code in (400, 501)
    assert client.put("/Product/x", content=b"{", headers={"content-type": "application/json"}).status_code == 400
    allowed = client.options("/Product/", headers={"origin": "https://shop.example", "access-control-request-method": "PUT"})
    assert allowed.headers["access-control-allow-origin"] == "https://shop.example"


def test_many_writes_at_once(client: httpx.Client, key: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: client.put(f"/Product/{key}-{n}", json={"name": key, "stock": n}).status_code, range(50)))
    assert set(made) == {204}
    assert sorted(client.get(f"/Product/?name=={key}&select(stock)").json()) == list(range(50))


def test_a_body_in_pieces_becomes_a_file(client: httpx.Client, key: str) -> None:
    """Chunked, and larger than what is kept in memory."""
    size = 12 << 20

    def pieces() -> Iterator[bytes]:
        for _ in range(size >> 16):
            yield b"x" * (1 << 16)

    written = client.put(f"/Film/{key}/video", content=pieces(), headers={"content-type": "video/mp4"})
    assert written.status_code == 204, written.text
    found = client.get(f"/Film/{key}/video")
    assert len(found.content) == size and found.headers["content-length"] == str(size)
    part = client.get(f"/Film/{key}/video", headers={"range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, b"x" * 10)


def test_a_mounted_application(client: httpx.Client) -> None:
    for count in (0, 1, 100):
        answer = client.post("/counting", content=iter([b"x" * 65536] * count))
        assert answer.text == f"{65536 * count} admin"
    assert client.post("/counting/refuses", content=b"x" * 100_000).text == "0 admin"


def test_code_of_the_application(client: httpx.Client, key: str) -> None:
    assert client.post("/Report/", json={"id": key}).json() == {"name": "admin"}


def test_messages_of_a_websocket_both_ways(hosted: Hosted) -> None:
    address = f"ws://127.0.0.1:{hosted.port}/Echo/"
    with connect(address, additional_headers={"Authorization": _basic()}, subprotocols=["a", "b"], max_size=None, open_timeout=LIMIT) as ws:  # type: ignore[list-item]
        for message in ("é", "x" * 100_000, "y"):
            ws.send(json.dumps(message))
            assert json.loads(ws.recv(LIMIT)) == {"user": "admin", "message": message}
        assert ws.subprotocol == "a"


def test_a_long_answer(client: httpx.Client, key: str) -> None:
    rows = [{"id": f"{key}-{n:05}", "name": key, "tags": ["t" * 100]} for n in range(3000)]
    assert client.put("/Product/", json=rows).status_code in (200, 204)
    found = client.get(f"/Product/?name=={key}")
    assert found.status_code == 200 and len(found.json()) == 3000


def test_a_reader_that_does_not_read_costs_little_memory(hosted: Hosted, client: httpx.Client, key: str) -> None:
    rows = [{"id": f"{key}-{n:05}", "name": key, "tags": ["t" * 4000]} for n in range(5000)]
    for start in range(0, len(rows), 500):
        assert client.put("/Product/", json=rows[start : start + 500]).status_code in (200, 204)
    before = memory_of(hosted.process.pid)
    readers = []
    request = f"GET /Product/?name=={key} HTTP/1.1\r\nHost: x\r\nAuthorization: {_basic()}\r\n\r\n".encode()
    for _ in range(10):
        reader = socket.create_connection(("127.0.0.1", hosted.port))
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.sendall(request)
        assert reader.recv(8).startswith(b"HTTP/1.1")
        readers.append(reader)
    assert client.get(f"/Product/{key}-00001").status_code == 200  # the others are served meanwhile
    assert memory_of(hosted.process.pid) - before < 100 << 20  # the ten answers are 200 MB
    for reader in readers:
        reader.close()
    assert client.get(f"/Product/{key}-00001").status_code == 200


def test_events(client: httpx.Client, key: str) -> None:
    with client.stream("GET", f"/Product/{key}", headers={"accept": "text/event-stream"}) as events:
        lines = events.iter_lines()
        assert next(lines).startswith("retry:")
        client.put(f"/Product/{key}", json={"name": "first"})
        client.put(f"/Product/{key}", json={"name": "second"})
        names = []
        for line in lines:
            if line.startswith("data:"):
                names.append((json.loads(line[5:]).get("value") or {}).get("name"))
                if "second" in names:
                    break
        assert names[-2:] == ["first", "second"]
    assert client.get(f"/Product/{key}").json()["name"] == "second"


def test_a_websocket(hosted: Hosted, client: httpx.Client, key: str) -> None:
    with connect(f"ws://127.0.0.1:{hosted.port}/Product/{key}", additional_headers={"Authorization": _basic()}, open_timeout=LIMIT) as ws:
        client.put(f"/Product/{key}", json={"name": "é" * 40_000})
        while True:
            event = json.loads(ws.recv(LIMIT))
            if event.get("value"):
                break
        assert event["value"]["name"] == "é" * 40_000
        ws.close(4001, "enough")
    assert client.get(f"/Product/{key}").status_code == 200


def test_websockets_that_are_refused(hosted: Hosted) -> None:
    address = f"ws://127.0.0.1:{hosted.port}/Product/"
    with connect(address, open_timeout=LIMIT) as ws:
        with pytest.raises(ConnectionClosed) as closed:
            ws.recv(LIMIT)
        assert closed.value.rcvd is not None and (closed.value.rcvd.code, closed.value.rcvd.reason) == (3000, "Must login")
    with pytest.raises(InvalidStatus) as refused:
        connect(f"ws://127.0.0.1:{hosted.port}/nothing", additional_headers={"Authorization": _basic()}, open_timeout=LIMIT)
    assert refused.value.response.status_code in (403, 404)


def test_clients_that_leave_in_the_middle(hosted: Hosted, client: httpx.Client, key: str) -> None:
    def leave(data: bytes) -> None:
        with socket.create_connection(("127.0.0.1", hosted.port)) as sock:
            sock.sendall(data)

    head = f"Host: x\r\nAuthorization: {_basic()}\r\n"
    for _ in range(20):
        leave(f"PUT /Product/{key} HTTP/1.1\r\n{head}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{".encode())
        leave(f"GET /Product/ HTTP/1.1\r\n{head}Accept: text/event-stream\r\n\r\n".encode())
        leave(f"PUT /Film/{key}/video HTTP/1.1\r\n{head}Content-Type: video/mp4\r\nContent-Length: 9000000\r\n\r\nabc".encode())
    assert client.get(f"/Product/{key}").status_code == 404


def _basic() -> str:
    return httpx.BasicAuth(*ADMIN)._auth_header


# --- starts and ends ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("server", sorted(SERVERS))
def test_a_root_belongs_to_one_process(server: str, tmp_path: Path) -> None:
    main = MAIN.format(app=str(APP), root=str(tmp_path / "first" / "root"))
    first = Hosted(server, tmp_path / "first", main).wait()
    second = Hosted(server, tmp_path / "second", main, root="taken")
    second.process.wait(LIMIT)
    assert "svc is already running" in second.output() and "--workers 1" in second.output()
    first.stop()


def test_data_outlives_the_server(tmp_path: Path) -> None:
    main = MAIN.format(app=str(APP), root=str(tmp_path / "root"))
    for number, server in enumerate([*SERVERS, *SERVERS]):
        running = Hosted(server, tmp_path, main).wait()
        with httpx.Client(base_url=running.url, auth=ADMIN, timeout=LIMIT) as client:
            assert len(client.get("/Brand/").json()) == number
            assert client.put(f"/Brand/{number}", json={"name": server}).status_code == 204
        running.stop()
        assert "Traceback" not in running.output()


def test_without_lifespan_it_says_so(tmp_path: Path) -> None:
    main = MAIN.format(app=str(APP), root=str(tmp_path / "root"))
    running = Hosted("uvicorn", tmp_path, main, "--lifespan", "off").wait()
    answer = httpx.get(f"{running.url}/Product/", timeout=LIMIT)
    assert answer.status_code == 500 and "the server has to run the lifespan of its applications" in answer.text
    running.stop()


def test_a_wrong_configuration_is_reported(tmp_path: Path) -> None:
    main = f"import svc\napp = svc.asgi({str(APP)!r}, root={str(tmp_path / 'root')!r}, logging_level='loud')\n"
    running = Hosted("uvicorn", tmp_path, main)
    assert running.process.wait(LIMIT) != 0
    assert "svc cannot be started" in running.output() and "logging.level" in running.output()


def test_inside_another_application_and_the_operations_api(tmp_path: Path) -> None:
    main = f"""
import contextlib, svc
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
data = svc.asgi({str(APP)!r}, root={str(tmp_path / "root")!r})

@contextlib.asynccontextmanager
async def lifespan(app):
    async with data.running():
        yield

app = Starlette(
    routes=[Route("/", lambda request: PlainTextResponse("mine")), Mount("/data", data), Mount("/ops", data.operations)], lifespan=lifespan
)
"""
    running = Hosted("uvicorn", tmp_path, main).wait()
    with httpx.Client(base_url=running.url, auth=ADMIN, timeout=LIMIT) as client:
        assert client.get("/").text == "mine"
        assert client.put("/data/Brand/7", json={"name": "Oak & Co"}).status_code == 204
        assert client.get("/data/Brand/7").json() == {"name": "Oak & Co", "id": "7"}
        assert client.get("/data/Brand/?name==Oak%20%26%20Co&select(id)").json() == ["7"]
        found: Any = client.post("/ops/", json={"operation": "search_by_id", "table": "Brand", "ids": ["7"]}).json()
        assert found[0]["name"] == "Oak & Co"
        assert client.post("/ops/", json={"operation": "describe_all"}, auth=None).status_code == 401
    running.stop()
