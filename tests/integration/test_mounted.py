"""FastAPI, Starlette and Django under paths of the real program (spec: asgi §1)."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.integration.conftest import PASSWORD, Process, authorization
from tests.support.leaks import memory_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

LIMIT = 60.0  # seconds for anything to happen
ADMIN = ("admin", PASSWORD)

SCHEMA = "type Thing @table @export { id: ID @primaryKey  name: String }\n"

RESOURCES = """
import asyncio, contextlib, pathlib
import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpResponse, JsonResponse
from django.urls import path
from fastapi import BackgroundTasks, FastAPI, HTTPException, Request, UploadFile, WebSocket
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocketDisconnect
from svc import get_user, server, tables, transaction

HERE = pathlib.Path(__file__).parent


# --- FastAPI

@contextlib.asynccontextmanager
async def lifespan(app):
    await tables.Thing.put({"id": "of-lifespan", "name": "started"})
    yield {"greeting": "hello"}
    await tables.Thing.put({"id": "of-lifespan", "name": "ended"})

api = FastAPI(lifespan=lifespan)

class Item(BaseModel):
    name: str

@api.get("/things/{key}")
async def read(key: str):
    thing = await tables.Thing.get(key)
    if thing is None:
        raise HTTPException(404, "no such thing")
    return {"id": thing.id, "name": thing.name}

@api.put("/things/{key}")
async def write(key: str, item: Item):
    await tables.Thing.put({"id": key, "name": item.name})
    found = await tables.Thing.get(key)
    return {"name": found.name, "by": get_user() and get_user().username}

@api.post("/fails/{key}")
async def fails(key: str):
    await tables.Thing.put({"id": key, "name": "before"})
    async def both(transaction):
        await tables.Thing.put({"id": key, "name": "inside"})
        raise HTTPException(409, "undone")
    await transaction(both)

@api.get("/who")
async def who(request: Request):
    user = request.scope["svc.user"]
    return {"user": user and user.username, "greeting": request.state.greeting, "root": request.scope["root_path"], "url": str(request.url)}

@api.post("/upload")
async def upload(file: UploadFile):
    return {"size": len(await file.read()), "name": file.filename}

@api.post("/count")
async def count(request: Request):
    size = 0
    async for piece in request.stream():
        size += len(piece)
    return {"size": size}

go_on = asyncio.Event()

@api.post("/slow")
async def slow(request: Request):
    await go_on.wait()

@api.post("/go-on")
async def release():
    go_on.set()

@api.post("/refuses")
async def refuses():
    raise HTTPException(413, "not today")

@api.get("/stream/{count}")
async def stream(count: int):
    async def pieces():
        for _ in range(count):
            yield b"x" * 65536
    return StreamingResponse(pieces(), media_type="application/octet-stream")

@api.get("/broken")
async def broken():
    async def pieces():
        yield b"begun"
        raise KeyError("in the middle")
    return StreamingResponse(pieces())

@api.get("/defect")
async def defect():
    raise KeyError("secret detail")

@api.post("/later/{key}")
async def later(key: str, tasks: BackgroundTasks):
    async def work():
        await tables.Thing.put({"id": key, "name": "later"})
    tasks.add_task(work)
    return {}

@api.get("/plain")
def plain():
    return {"thread": True}

@api.websocket("/chat")
async def chat(ws: WebSocket):
    user = ws.scope["svc.user"]
    if "refuse" in ws.query_params:
        await ws.close()
        return
    await ws.accept(subprotocol="b" if "b" in ws.scope["subprotocols"] else None, headers=[(b"x-room", b"7")])
    try:
        while True:
            text = await ws.receive_text()
            await tables.Thing.put({"id": "of-chat", "name": text})
            await ws.send_json({"user": user and user.username, "said": text})
    except WebSocketDisconnect:
        pass

server.mount("/api", api)


# --- Starlette, at a path of two segments

server.mount("/deep/er", Starlette(routes=[Route("/hello/{name}", lambda request: PlainTextResponse("hello " + request.path_params["name"]))]))


# --- Django

settings.configure(SECRET_KEY="x", ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], DEBUG=False, MIDDLEWARE=[])
django.setup()

async def django_thing(request, key):
    await tables.Thing.put({"id": key, "name": request.body.decode() or "none"})
    return JsonResponse({"path": request.path, "script": request.META["SCRIPT_NAME"], "name": (await tables.Thing.get(key)).name})

urlpatterns = [path("thing/<key>", django_thing), path("plain", lambda request: HttpResponse("plain"))]
server.mount("/django", get_asgi_application())


# --- one that cannot start

async def unwell(scope, receive, send):
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "Traceback:\\nOSError: no database"})

server.mount("/unwell", unwell)
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    app = tmp_path_factory.mktemp("app") / "mounting"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    (app / "resources.py").write_text(RESOURCES)
    running = Process(tmp_path_factory.mktemp("mounted") / "root", app).start()
    yield running
    assert running.stop() == 0, running.output()
    again = Process(running.root, app).start()
    name = httpx.get(f"{again.url}/Thing/of-lifespan", auth=ADMIN, timeout=LIMIT).json()["name"]
    assert name in ("started", "ended")  # the new one may have started by now
    assert again.stop() == 0


@pytest.fixture
def client(process: Process) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=process.url, auth=ADMIN, timeout=LIMIT) as made:
        yield made


@pytest.fixture
def key() -> str:
    return uuid4().hex[:8]


def test_fastapi_reads_and_writes_tables(client: httpx.Client, key: str) -> None:
    assert client.get(f"/api/things/{key}").json() == {"detail": "no such thing"}
    assert client.put(f"/api/things/{key}", json={"name": "Chair"}).json() == {"name": "Chair", "by": "admin"}
    assert client.get(f"/Thing/{key}").json() == {"id": key, "name": "Chair"}
    assert client.get(f"/api/things/{key}").json()["name"] == "Chair"
    assert client.put(f"/api/things/{key}", json={}).status_code == 422


def test_what_was_written_before_an_error_stays_and_a_transaction_is_undone(client: httpx.Client, key: str) -> None:
    assert client.post(f"/api/fails/{key}").status_code == 409
    assert client.get(f"/Thing/{key}").json()["name"] == "before"


def test_the_user_the_state_and_addresses(process: Process, client: httpx.Client) -> None:
    found = client.get("/api/who?a=b").json()
    assert found == {"user": "admin", "greeting": "hello", "root": "/api", "url": f"{process.url}/api/who?a=b"}
    assert httpx.get(f"{process.url}/api/who", timeout=LIMIT).json()["user"] is None
    assert client.get("/api/who", auth=("admin", "wrong")).status_code == 401
    assert client.get("/api/openapi.json").json()["servers"] == [{"url": "/api"}]
    assert client.get("/api/nothing").json() == {"detail": "Not Found"}
    assert client.get("/apix").status_code == 404 and client.get("/api/plain").json() == {"thread": True}
    assert client.options("/api/who").status_code == 405


def test_uploads(client: httpx.Client) -> None:
    answer = client.post("/api/upload", files={"file": ("a.bin", b"x" * 3_000_000)})
    assert answer.json() == {"size": 3_000_000, "name": "a.bin"}


def pieces(count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield b"x" * 65536


def test_long_bodies_take_little_memory(process: Process, client: httpx.Client) -> None:
    before = memory_of(process.pid)
    assert client.post("/api/count", content=pieces(2000)).json() == {"size": 2000 * 65536}
    headers = {"content-length": str(2000 * 65536)}
    assert client.post("/api/count", content=pieces(2000), headers=headers).json() == {"size": 2000 * 65536}
    assert client.post("/api/refuses", content=pieces(10)).status_code == 413
    slow = []
    for _ in range(20):
        sender = socket.create_connection(("127.0.0.1", process.port))
        sender.sendall(b"POST /api/slow HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
        sender.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                sender.send(bytes(1 << 20))
        slow.append(sender)
    assert client.get("/api/plain").status_code == 200
    assert memory_of(process.pid) - before < 60 << 20
    assert client.post("/api/go-on").status_code == 200
    for sender in slow:
        sender.close()
    with httpx.Client(base_url=process.url, timeout=LIMIT, http1=False, http2=True) as over_two:
        assert over_two.post("/api/count", content=pieces(500)).json() == {"size": 500 * 65536}
        assert over_two.get("/api/plain").status_code == 200


def test_a_stream_and_a_head(client: httpx.Client) -> None:
    assert len(client.get("/api/stream/100").content) == 100 * 65536
    assert client.head("/deep/er/hello/you").headers["content-length"] == "9"


def test_clients_that_do_not_read_cost_little_memory(process: Process, client: httpx.Client) -> None:
    before = memory_of(process.pid)
    readers = []
    for _ in range(20):
        reader = socket.create_connection(("127.0.0.1", process.port))
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.sendall(b"GET /api/stream/100000 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert reader.recv(12) == b"HTTP/1.1 200"
        readers.append(reader)
    assert client.get("/api/plain").status_code == 200
    assert memory_of(process.pid) - before < 60 << 20
    for reader in readers:
        reader.close()
    assert client.get("/api/plain").status_code == 200


def test_an_answer_that_breaks_off_is_noticed(client: httpx.Client) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        client.get("/api/broken")
    answer = client.get("/api/defect")
    assert answer.status_code == 500 and "secret" not in answer.text


def test_work_after_the_answer(client: httpx.Client, key: str) -> None:
    assert client.post(f"/api/later/{key}").status_code == 200
    wait_until(lambda: client.get(f"/Thing/{key}").status_code == 200)
    assert client.get(f"/Thing/{key}").json()["name"] == "later"


def test_websockets(process: Process, client: httpx.Client) -> None:
    address = f"ws://127.0.0.1:{process.port}/api/chat"
    headers = {"Authorization": authorization(*ADMIN)}
    with connect(address, additional_headers=headers, subprotocols=["a", "b"]) as ws:  # type: ignore[list-item]
        assert ws.subprotocol == "b" and ws.response is not None and ws.response.headers["x-room"] == "7"
        ws.send("hi")
        assert json.loads(ws.recv(LIMIT)) == {"user": "admin", "said": "hi"}
    assert client.get("/Thing/of-chat").json()["name"] == "hi"
    with connect(address) as ws:
        ws.send("x")
        assert json.loads(ws.recv(LIMIT))["user"] is None
    with pytest.raises(InvalidStatus) as refused:
        connect(f"{address}?refuse=1")
    assert refused.value.response.status_code == 403
    with pytest.raises((InvalidStatus, ConnectionClosed)):
        connect(f"ws://127.0.0.1:{process.port}/api/none")
    with connect(address, additional_headers={"Authorization": "Basic eDp5"}) as ws, pytest.raises(ConnectionClosed) as closed:
        ws.recv(LIMIT)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 3000


def test_starlette_below_a_longer_path(client: httpx.Client) -> None:
    assert client.get("/deep/er/hello/w%C3%B6rld").text == "hello wörld"
    assert client.get("/deep/hello").status_code == 404


def test_django(client: httpx.Client, key: str) -> None:
    answer = client.post(f"/django/thing/{key}", content="from Django")
    assert answer.json() == {"path": f"/django/thing/{key}", "script": "/django", "name": "from Django"}
    assert client.get("/django/plain").text == "plain"
    assert client.get("/django/none").status_code == 404
    assert client.get(f"/Thing/{key}").json()["name"] == "from Django"


def test_an_application_that_could_not_start(client: httpx.Client) -> None:
    answer = client.get("/unwell/x")
    assert answer.status_code == 500 and "The application has not started: OSError: no database" in answer.text


def test_over_http_2(process: Process, key: str) -> None:
    with httpx.Client(base_url=process.url, auth=ADMIN, timeout=LIMIT, http1=False, http2=True) as client:
        assert client.put(f"/api/things/{key}", json={"name": "over two"}).json() == {"name": "over two", "by": "admin"}
        assert len(client.get("/api/stream/100").content) == 100 * 65536
        with pytest.raises(httpx.RemoteProtocolError):
            client.get("/api/broken")
        with client.stream("GET", "/api/stream/100000") as endless:
            next(endless.iter_raw())
        assert client.get(f"/api/things/{key}").http_version == "HTTP/2"  # the connection goes on
