"""Whatever code of an application raises, also what is no Exception: the caller is answered, the log says it, and the server goes on."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from textwrap import dedent
from typing import Any

import pytest

from svc.testing.application import Application
from svc.testing.application import app as start_app

SCHEMA = """
type Seat @table @export { id: ID @primaryKey  stock: Int  double: Int @computed }
type Rate @table(expiration: 60) @export { id: ID @primaryKey  value: Int }
type Awaited @table(expiration: 60) @export { id: ID @primaryKey  value: Int }
type Followed @table(expiration: 60) @export { id: ID @primaryKey  value: Int }
"""

CONFIG = """
resources: {files: resources.py}
graphqlSchema: {files: schema.graphql}
graphql: true
rest: true
scheduler:
  jobs: [{name: nightly, handler: 'jobs.py#run', interval: 30s}]
"""

CODE = """
    import asyncio
    from svc import Resource, Response, content_types, run_in_thread, server, tables

    class Panic(BaseException):
        "As of a library in Rust: pyo3_runtime.PanicException."

    make = lambda: Panic("lost")

    def fail(*arguments, **options):
        raise make()

    async def fail_later(*arguments, **options):
        await asyncio.sleep(0)
        raise make()

    class AtOnce(Resource):
        get = post = put = patch = delete = allow = fail
        connect = fail

    class Later(Resource):
        async def get(self, target=None):
            await fail_later()
        async def post(self, data, target=None):
            await fail_later()
        async def connect(self, incoming=None):
            await fail_later()

    class Forbidden(Resource):
        allow_read = fail
        def get(self, target=None):
            return 1

    class ForbiddenLater(Resource):
        allow_read = fail_later
        def get(self, target=None):
            return 1

    class First(Resource):
        async def connect(self, incoming=None):
            await fail_later()
            yield 1

    class Middle(Resource):
        async def connect(self, incoming=None):
            yield 1
            await fail_later()

    class Callback(Resource):
        def connect(self, incoming=None):
            incoming.on("data", fail)
            return self.subscribe()

    class CallbackLater(Resource):
        def connect(self, incoming=None):
            incoming.on("data", fail_later)
            return self.subscribe()

    class Items(Resource):
        async def get(self, target=None):
            yield 1
            await fail_later()

    class Threaded(Resource):
        async def get(self, target=None):
            return await run_in_thread(fail)

    class Spawned(Resource):
        async def get(self, target=None):
            asyncio.get_running_loop().create_task(fail_later())
            await asyncio.sleep(0.01)
            return "goes on"

    class Body(Resource):
        def get(self, target=None):
            def pieces():
                yield b"begun"
                fail()
            return Response(pieces())

    class BodyLater(Resource):
        def get(self, target=None):
            async def pieces():
                yield b"begun"
                await fail_later()
            return Response(pieces())

    class Unsendable:
        @property
        def status(self):
            fail()
        def __str__(self):
            fail()

    class Cancels(Resource):
        async def get(self, target=None):
            asyncio.current_task().cancel()
            await asyncio.sleep(0)

    class CancelsItems(Resource):
        async def connect(self, incoming=None):
            yield 1
            asyncio.current_task().cancel()
            await asyncio.sleep(0)

    class CancelsBody(Resource):
        def get(self, target=None):
            async def pieces():
                yield b"begun"
                asyncio.current_task().cancel()
                await asyncio.sleep(0)
            return Response(pieces())

    class Source:
        get = fail

    class SourceLater:
        get = fail_later

    class Active:
        def get(self, id):
            return {"value": 1}
        async def subscribe(self, request):
            await fail_later()
            yield {}

    tables.Rate.source_from(Source())
    tables.Awaited.source_from(SourceLater())
    tables.Followed.source_from(Active())
    tables.Seat.set_computed_attribute("double", lambda record: fail() if record.get("stock") else 0)

    content_types["application/x-broken"] = {"serialize": fail, "deserialize": fail}
    content_types["application/x-broken-later"] = {"serialize": fail_later, "deserialize": fail_later}

    async def asgi(scope, receive, send):
        if scope["type"] == "lifespan":
            raise RuntimeError("none")
        if scope["path"].endswith("/begun"):
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        if scope["path"].endswith("/open"):
            await receive()
            await send({"type": "websocket.accept"})
        await fail_later()

    server.mount("/asgi", asgi)

    def listener(request, next):
        if request.pathname == "/listener":
            fail()
        if request.pathname == "/listener-later":
            return fail_later()
        if request.pathname == "/listener-after":
            async def after():
                await next(request)
                fail()
            return after()
        return next(request)

    server.http(listener, run_first=True)

    async def ws_listener(ws, request, chain_completion, next):
        if request.pathname == "/ws":
            fail()
        if request.pathname == "/ws-later":
            await fail_later()
        if request.pathname == "/ws-open":
            ws.on("message", fail)
            await ws.send("open")
            return
        if request.pathname == "/ws-open-later":
            ws.on("message", fail_later)
            await ws.send("open")
            return
        await next(ws, request, chain_completion)

    server.ws(ws_listener)

    def upgrade_listener(request, socket, head, next):
        if request.pathname == "/upgrade":
            fail()
        if request.pathname == "/upgrade-later":
            return fail_later()
        return next(request, socket, head)

    server.upgrade(upgrade_listener)
"""

KINDS: dict[str, Callable[[Any], BaseException]] = {
    "a panic of a library": lambda code: code.Panic("lost"),
    "a group": lambda code: BaseExceptionGroup("several", [code.Panic("lost")]),
    "GeneratorExit": lambda code: GeneratorExit("lost"),
    "SystemExit": lambda code: SystemExit("lost"),
    "an outcome of pytest": lambda code: pytest.fail.Exception("lost"),
    "KeyboardInterrupt of code": lambda code: KeyboardInterrupt("lost"),
    "CancelledError of code": lambda code: asyncio.CancelledError("lost"),
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    directory = tmp_path_factory.mktemp("raising")
    (directory / "config.yaml").write_text(CONFIG)
    (directory / "schema.graphql").write_text(SCHEMA)
    (directory / "resources.py").write_text(dedent(CODE))
    (directory / "jobs.py").write_text(
        "import sys\n\ndef run(job):\n    next(m for n, m in sys.modules.items() if n.endswith('.resources')).fail()\n"
    )
    with start_app(directory) as app:
        app.put("/Seat/1", {"stock": 0})
        yield app


@pytest.fixture(params=KINDS)
def app(running: Application, request: pytest.FixtureRequest) -> Iterator[Application]:
    """As in a service, where Ctrl+C is a signal and no exception."""
    code = running.module("resources")
    code.make = lambda: KINDS[request.param](code)
    handler = signal.signal(signal.SIGINT, lambda *ignored: None)
    running.logs.clear()
    yield running
    signal.signal(signal.SIGINT, handler)
    assert running.get("/Seat/1").status == 200


def errors(app: Application) -> str:
    """What was logged as an error. It must be there."""
    found = "\n".join(entry.text for entry in app.logs if entry.level == "error")
    app.logs.clear()
    assert "lost" in found
    return found


@pytest.mark.parametrize(
    "path",
    [
        "/AtOnce", "/Later", "/Forbidden", "/ForbiddenLater", "/Threaded", "/asgi/x", "/listener", "/listener-later", "/listener-after",
        "/Rate/1", "/Awaited/1",
    ],
)  # fmt: skip
def test_a_request_is_answered(app: Application, path: str) -> None:
    answer = app.get(path)
    assert answer.status >= 500 and "lost" not in answer.text
    errors(app)


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_a_write_is_answered(app: Application, method: str) -> None:
    assert getattr(app, method)("/AtOnce/1", **({} if method == "delete" else {"json": {"a": 1}})).status == 500
    errors(app)


@pytest.mark.parametrize("kind", ["application/x-broken", "application/x-broken-later"])
def test_a_content_type_is_answered_for(app: Application, kind: str) -> None:
    assert app.get("/Seat/1", headers={"Accept": kind}).status == 500
    errors(app)
    assert app.put("/Seat/2", data=b"x", headers={"Content-Type": kind}).status in (400, 500)
    assert app.get("/Seat/2").status == 404


@pytest.mark.parametrize("path", ["/AtOnce", "/Later", "/First"])
def test_an_event_stream_that_has_not_begun_is_answered(app: Application, path: str) -> None:
    answer = app.get(path, headers={"Accept": "text/event-stream"})
    assert answer.status == 500 and "text/event-stream" not in answer.headers.get("content-type", "")
    errors(app)


def test_an_event_stream_ends(app: Application) -> None:
    events = app.events("/Middle")
    assert events == [1] and not events.is_open
    errors(app)


@pytest.mark.parametrize(
    ("path", "code"), [("/AtOnce", 1011), ("/Later", 1011), ("/First", 1011), ("/Middle", 1011), ("/ws", 1011), ("/ws-later", 1011)]
)
def test_a_websocket_is_closed(app: Application, path: str, code: int) -> None:
    assert app.connect(path).close_code == code
    errors(app)


@pytest.mark.parametrize("path", ["/Callback", "/CallbackLater", "/ws-open", "/ws-open-later"])
def test_a_callback_of_messages_is_logged(app: Application, path: str) -> None:
    socket = app.connect(path)
    socket.send("1")
    errors(app)
    if socket.is_open:
        socket.close()


@pytest.mark.parametrize("path", ["/upgrade", "/upgrade-later"])
def test_an_upgrade_is_answered(app: Application, path: str) -> None:
    assert app.get(path, headers={"Connection": "Upgrade", "Upgrade": "chat/1"}).status == 500
    errors(app)


@pytest.mark.parametrize("path", ["/asgi/refused", "/asgi/open"])
def test_a_websocket_of_a_mounted_application_ends(app: Application, path: str) -> None:
    if path == "/asgi/open":
        assert app.connect(path).close_code == 1011
    else:
        with pytest.raises(AssertionError, match="500"):
            app.connect(path)
    errors(app)


@pytest.mark.parametrize("path", ["/Body", "/BodyLater", "/asgi/begun"])
def test_a_body_that_has_begun_is_cut_off(app: Application, path: str) -> None:
    with pytest.raises(AssertionError):
        app.get(path)
    errors(app)


def test_items_that_have_begun_end_with_the_error(app: Application) -> None:
    assert "Internal Server Error" in app.get("/Items").text
    errors(app)


def test_a_task_of_the_application_ends_alone(app: Application, request: pytest.FixtureRequest) -> None:
    answer = app.get("/Spawned")
    assert (answer.status, answer.json) == (200, "goes on")


def test_the_events_of_a_source_are_asked_for_again(app: Application) -> None:
    app.clock.advance(61)
    assert "its events cannot be followed" in errors(app)


def test_a_computed_attribute_has_no_value(app: Application) -> None:
    app.put("/Seat/3", {"stock": 2})
    assert app.get("/Seat/3").json.get("double") is None
    app.delete("/Seat/3")


def test_a_job_has_failed(app: Application) -> None:
    app.clock.advance(65)
    assert "job nightly has failed" in errors(app)


def test_a_subscriber_is_logged(app: Application) -> None:
    code = app.module("resources")

    async def subscribe() -> Any:
        return (await code.tables.Seat.subscribe({})).on("data", code.fail)

    subscription = app.run(subscribe())
    app.put("/Seat/1", {"stock": 0})
    assert "a subscriber failed" in errors(app)
    subscription.end()


@pytest.mark.parametrize("document", ["{ Seat { double } }"])
def test_graphql_is_answered(app: Application, document: str) -> None:
    assert app.post("/graphql", {"query": document}).status == 200


def test_code_that_cancels_its_own_task_is_answered(running: Application) -> None:
    running.logs.clear()
    assert running.get("/Cancels").status == 500
    with pytest.raises(AssertionError):
        running.get("/CancelsBody")
    events = running.events("/CancelsItems")
    assert events == [1] and not events.is_open
    assert sum(entry.level == "error" for entry in running.logs) == 3
