"""Framework routes and plugins in the real program (spec: plugins §1, §2)."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from collections.abc import Iterator
from textwrap import dedent

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.integration.conftest import PASSWORD, Process, authorization, free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

LIMIT = 60.0  # seconds for anything to happen
ADMIN = ("admin", PASSWORD)

FILES = {
    "shop/schema.graphql": "type Thing @table @export { id: ID @primaryKey name: String }",
    "shop/resources.py": """
        class Chat(Resource):
            path = "/shop/taken"
            async def connect(self, incoming, target):
                async for message in incoming:
                    yield {"resource": message}
    """,
    "shop/config.yaml": """
        rest: true
        graphqlSchema: {files: '*.graphql'}
        resources: {files: resources.py}
        frameworkRoutes: {files: 'routes/*.py', urlPath: .}
        words: {package: svc-words, files: 'words/*.txt', port: PORT}
        slow: {package: ./slow.py, timeout: 100}
        eager: {package: ./eager.py}
    """,
    "shop/words/bad.txt": "darn heck",
    "shop/routes/first.py": """
        import contextlib
        from fastapi import FastAPI, WebSocket
        from svc import tables

        @contextlib.asynccontextmanager
        async def lifespan(app):
            await tables.Thing.put({"id": "of-lifespan", "name": "started"})
            yield
            await tables.Thing.put({"id": "of-lifespan", "name": "ended"})

        app = FastAPI(lifespan=lifespan)

        @app.get("/first/{key}")
        async def first(key: str):
            return {"first": key}

        @app.websocket("/first")
        async def chat(ws: WebSocket):
            await ws.accept()
            await ws.send_json({"first": await ws.receive_text()})
    """,
    "shop/routes/second.py": """
        from fastapi import Request, WebSocket

        async def register(router, svc):
            @router.post("/second")
            async def second(request: Request):
                size = 0
                async for piece in request.stream():
                    size += len(piece)
                await svc.tables.Thing.put({"id": "size", "name": str(size)})
                return {"size": size, "user": svc.get_user().username}

            @router.get("/thread")
            def thread():
                return {"thread": True}

            @router.websocket("/second")
            async def chat(ws: WebSocket):
                await ws.accept()
                await ws.send_json({"second": await ws.receive_text()})

            @router.websocket("/taken")
            async def taken(ws: WebSocket):
                await ws.accept()
    """,
    "shop/slow.py": """
        import asyncio
        async def handle_application(scope):
            scope.server.http(lambda request, next: 1 / 0, before="rest")
            await asyncio.Event().wait()
    """,
    "shop/eager.py": "def handle_application(scope): scope.on('ready', scope.request_restart)",
    "svc-words/config.yaml": "pluginModule: plugin.py",
    "svc-words/plugin.py": """
        import asyncio, pathlib
        from svc import Response, tables

        async def handle_application(scope):
            words = set()

            async def on_file(event):
                words.update(event.contents.decode().split())
                await tables.Thing.put({"id": event.url_path.strip("/"), "name": event.contents.decode()})

            handler = scope.handle_entry(on_file)
            await handler.ready()

            async def guard(request, next):
                return Response(status=422, body="no") if words & set(request.pathname.split("/")) else await next(request)

            scope.server.http(guard, before="rest")
            scope.server.http(lambda request, next: {"words": sorted(words)}, port=scope.options.get("port"))
            asyncio.create_task(asyncio.sleep(1e9))

            async def farewell():
                await asyncio.sleep(0.05)
                pathlib.Path(scope.directory, "farewell.txt").write_text("closed")

            scope.on("close", farewell)
    """,
    "broken/config.yaml": "words: {package: svc-words}",
}


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[Process]:
    root = tmp_path_factory.mktemp("plugins") / "root"
    for name, text in FILES.items():
        file = root / "components" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text).replace("PORT", str(port)))
    running = Process(root, None).start()
    yield running
    assert running.stop() == 0, running.output()
    assert (root / "components" / "shop" / "farewell.txt").read_text() == "closed"


@pytest.fixture
def client(process: Process) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=process.url, auth=ADMIN, timeout=LIMIT) as made:
        yield made


def test_modules_of_routes(client: httpx.Client) -> None:
    assert client.get("/shop/first/1").json() == {"first": "1"}
    assert client.get("/shop/thread").json() == {"thread": True}
    for size in (10, 3_000_000):
        assert client.post("/shop/second", content=b"x" * size).json() == {"size": size, "user": "admin"}
        assert client.get("/Thing/size").json()["name"] == str(size)
    assert client.get("/shop/nothing").json() == {"detail": "Not Found"}
    assert client.get("/shop/nothing", auth=("admin", "wrong")).status_code == 401
    assert client.get("/Thing/of-lifespan").json()["name"] == "started"
    assert client.options("/shop/first/1").status_code == 405


def test_websockets_of_routes(process: Process) -> None:
    address = f"ws://127.0.0.1:{process.port}/shop"
    headers = {"Authorization": authorization(*ADMIN)}
    for name in ("first", "second"):
        with connect(f"{address}/{name}") as ws:
            ws.send("hi")
            assert json.loads(ws.recv(LIMIT)) == {name: "hi"}
    with connect(f"{address}/taken", additional_headers=headers) as ws:
        ws.send('"hi"')
        assert json.loads(ws.recv(LIMIT)) == {"resource": "hi"}
    with pytest.raises((InvalidStatus, ConnectionClosed)):
        connect(f"{address}/nothing")


def test_another_application_is_a_plugin(client: httpx.Client, port: int) -> None:
    assert client.get("/Thing/bad.txt").json()["name"] == "darn heck", "written while the application was loaded"
    assert client.get("/Thing/darn").status_code == 422
    assert client.get(f"http://127.0.0.1:{port}/").json() == {"words": ["darn", "heck"]}


def test_statuses(process: Process, client: httpx.Client) -> None:
    answer = httpx.post(process.operations_url, json={"operation": "get_status"}, auth=ADMIN, timeout=LIMIT).json()
    text = json.dumps(answer)
    assert "it has not ended within 0.1 s" in text and "the entry 'words' has no option files" in text
    assert answer["restartRequired"] and answer["restartReasons"] == ["component shop: its entry eager asks for it"]
    late = "slow: handle_application: it has not ended within 0.1 s"
    wait_until(lambda: late in process.output() + process.logged(), process.logged)


def test_a_deployed_application_may_name_a_plugin(process: Process, client: httpx.Client) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in {
            "config.yaml": "routes: {package: svc-words, files: 'words/*.txt'}\nframeworkRoutes: {files: 'routes/*.py', urlPath: .}\n",
            "words/new.txt": "gosh",
            "routes/a.py": "def register(router, svc):\n    @router.get('/here')\n    async def here():\n        return 1\n",
        }.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    body = {"operation": "deploy_component", "project": "later", "payload": base64.b64encode(packed.getvalue()).decode(), "restart": True}
    answer = httpx.post(process.operations_url, json=body, auth=ADMIN, timeout=LIMIT)
    assert answer.status_code == 200, answer.text
    wait_until(lambda: client.get("/later/here").status_code == 200, process.output)
    assert client.get("/Thing/gosh").status_code == 422
    body = {"operation": "drop_component", "project": "later", "restart": True}
    assert httpx.post(process.operations_url, json=body, auth=ADMIN, timeout=LIMIT).status_code == 200
    wait_until(lambda: client.get("/Thing/gosh").status_code == client.get("/later/here").status_code == 404, process.output)
