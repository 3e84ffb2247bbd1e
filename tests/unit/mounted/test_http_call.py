"""HTTP requests that an ASGI application answers: what the client gets, and what the application is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.messages import Response
from svc.mounted import http_call
from svc.mounted.http_call import HIGH_WATER
from svc.mounted.messages import ClientDisconnected, MessageError
from tests.support.mounted import Client, MountedWorld, without_lifespan

START: dict[str, Any] = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}


def body(data: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


def sends(*messages: Any) -> Any:
    """An application that sends these messages."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    return app


Make = Callable[..., MountedWorld]


@pytest.fixture
def mount() -> Iterator[Make]:
    made: list[MountedWorld] = []

    def make(app: Any, path: str = "/app") -> MountedWorld:
        made.append(MountedWorld(without_lifespan(app), path))
        return made[-1]

    yield make
    for world in made:
        world.close()


def test_an_answer_in_one_piece(mount: Make) -> None:
    status, head, rest = mount(sends(START, body(b"hello"))).connect().ask()
    assert (status, rest) == (200, b"hello")
    assert "content-type: text/plain" in head and "Content-Length: 5" in head and "chunked" not in head


def test_an_answer_in_pieces(mount: Make) -> None:
    _, head, rest = mount(sends(START, body(b"hel", True), body(b"lo", True), body(b""))).connect().ask()
    assert "Transfer-Encoding: chunked" in head
    assert rest == b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"


def test_fields_of_the_connection_are_the_servers(mount: Make) -> None:
    start = START | {"headers": [(b"Transfer-Encoding", b"chunked"), (b"Connection", b"close"), (b"X-A", b" 1 ")]}
    client = mount(sends(start, body(b"x"))).connect()
    _, head, _ = client.ask()
    assert "X-A: 1" in head and "chunked" not in head and "close" not in head.lower()
    assert client.ask()[0] == 200  # the connection goes on


def test_an_announced_length(mount: Make) -> None:
    start = START | {"headers": [(b"content-length", b"5")]}
    _, head, rest = mount(sends(start, body(b"hel", True), body(b"lo"))).connect().ask()
    assert "Content-Length: 5" in head and rest == b"hello"


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([body(b"x")], "'http.response.body' is not expected before 'http.response.start'"),
        ([START, START], "'http.response.start' is not expected after 'http.response.start'"),
        ([START], "ended without a complete response"),
        ([], "ended without a complete response"),
        ([{"type": "http.response.start", "status": 103}], "status is an integer from 200 to 599, not 103"),
        ([{"type": "http.response.start", "status": "200"}], "status is an integer from 200 to 599, not '200'"),
        ([{"type": "http.response.start"}], "status is an integer from 200 to 599, not None"),
        ([START | {"headers": [("a", "b")]}], "headers are pairs of bytes"),
        ([START | {"headers": [(b"a",)]}], "headers are pairs of bytes"),
        ([START | {"headers": 7}], "headers are pairs of bytes"),
        ([START | {"headers": [(b"a", b"x\r\ny: z")]}], "not a header field"),
        ([START | {"headers": [(b"a b", b"x")]}], "not a header field"),
        ([START | {"headers": [(b"content-length", b"x")]}], "not a Content-Length"),
        ([START | {"headers": [(b"content-length", b"1"), (b"content-length", b"2")]}], "not a Content-Length"),
        ([START | {"headers": [(b"content-length", b"2")]}, body(b"abc")], "1 bytes more than the announced"),
        ([START | {"headers": [(b"content-length", b"2")]}, body(b"a")], "1 bytes less than the announced"),
        ([START, body("x")], "body is bytes, not 'x'"),  # type: ignore[arg-type]
        ([START, {"type": "http.response.early_hint", "links": [b"</a>"]}], "'http.response.early_hint' is not expected after"),
        ([{"type": "http.response.early_hint", "links": [7.5]}], "links are bytes"),
        ([{"type": "websocket.accept"}], "'websocket.accept' is not expected"),
        ([{}], "a message is a mapping with a type"),
        (["x"], "a message is a mapping with a type"),
    ],
)
def test_a_wrong_message_is_an_error_of_the_application_and_a_500(mount: Make, messages: list[Any], told: str) -> None:
    world = mount(sends(*messages))
    client = world.connect()
    status, _, rest = client.ask()
    assert (status, rest) == (500, b"Internal Server Error")
    assert told in world.log.text and "the application at /app: GET /app/" in world.log.text
    assert client.ask()[0] == 500  # the connection goes on


def test_a_message_after_the_answer_is_an_error_that_the_client_does_not_see(mount: Make) -> None:
    world = mount(sends(START, body(b"x"), body(b"y")))
    assert world.connect().ask()[2] == b"x"
    assert "after the response is complete" in world.log.text


def test_an_application_that_catches_the_error_may_go_on(mount: Make) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        with pytest.raises(MessageError, match="before 'http"):
            await send(body(b"x"))
        await send(START)
        with pytest.raises(MessageError, match="after 'http"):
            await send(START)
        await send(body(b"y"))

    world = mount(app)
    assert world.connect().ask()[2] == b"y"
    assert not world.log.errors


def test_an_exception_before_the_head_is_a_500(mount: Make) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise KeyError("secret detail")

    world = mount(app)
    assert world.connect().ask()[::2] == (500, b"Internal Server Error")
    assert "secret detail" in world.log.text


@pytest.mark.parametrize("cause", ["raises", "returns", "too long", "too short"])
def test_what_fails_after_the_head_ends_the_connection(mount: Make, cause: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START | {"headers": [(b"content-length", b"9")]} if cause.startswith("too") else START)
        await send(body(b"begun", True))
        await asyncio.sleep(0)
        if cause == "raises":
            raise KeyError("in the middle")
        if cause == "too long":
            await send(body(b"abcde", True))
        if cause == "too short":
            await send(body(b""))

    world = mount(app)
    client = world.connect()
    _, _, rest = client.ask()
    assert client.sock.closed and b"0\r\n\r\n" not in rest
    (defect,) = world.defects
    assert defect is not None and "the application at /app: GET /app/, in the middle of its answer" in defect.__notes__


@pytest.mark.parametrize("status", [204, 304])
def test_statuses_without_a_body(mount: Make, status: int) -> None:
    world = mount(sends({"type": "http.response.start", "status": status}, body(b"never sent", True), body(b"x")))
    client = world.connect()
    assert client.ask()[::2] == (status, b"")
    assert client.ask()[0] == status
    assert not world.log.errors


def test_head_in_one_piece_and_in_pieces(mount: Make) -> None:
    client = mount(sends(START, body(b"hello"))).connect()
    _, head, rest = client.ask("HEAD")
    assert "Content-Length: 5" in head and rest == b""
    world = mount(sends(START, body(b"he", True), body(b"llo")))
    _, head, rest = world.connect().ask("HEAD")
    assert "Content-Length" not in head and rest == b""
    _, head, rest = mount(sends(START | {"headers": [(b"content-length", b"7")]}, body(b""))).connect().ask("HEAD")
    assert "Content-Length: 7" in head and rest == b""
    assert not world.log.errors


def test_an_endless_answer_to_head_ends(mount: Make) -> None:
    told: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(START)
        try:
            while True:
                await send(body(b"more", True))
        finally:
            told.append(await receive())

    world = mount(app)
    assert world.connect().ask("HEAD")[0] == 200
    assert told == [{"type": "http.disconnect"}] and not world.tasks and not world.log.errors


def test_early_hints(mount: Make) -> None:
    hint = {"type": "http.response.early_hint", "links": [b"</a.css>; rel=preload", b"</b.js>; rel=preload"]}
    client = mount(sends(hint, START, body(b"x"))).connect()
    client.ask()
    assert client.sock.sent.startswith(
        b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nLink: </b.js>; rel=preload\r\n\r\nHTTP/1.1 200"
    )


def test_the_body_of_the_request_and_the_end(mount: Make) -> None:
    got: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        got.append(await receive())
        waiting = asyncio.ensure_future(receive())
        await asyncio.sleep(0)
        assert not waiting.done()
        await send(START)
        await send(body(b"x"))
        got.append(await waiting)
        got.append(await receive())

    mount(app).connect().ask("POST", body=b"content")
    assert got == [{"type": "http.request", "body": b"content", "more_body": False}, *[{"type": "http.disconnect"}] * 2]


def test_a_client_that_does_not_read_holds_the_application_back(mount: Make) -> None:
    sent = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await send(START)
        for _ in range(100):
            await send(body(b"x" * 50_000, True))
            sent += 50_000
        await send(body(b""))

    world = mount(app)
    client = world.connect()
    client.sock.room = 0
    client.ask()
    assert HIGH_WATER - 50_000 <= sent <= HIGH_WATER + 50_000
    before = sent
    client.take(100_000)
    assert before <= sent <= HIGH_WATER + 150_000
    client.take()
    assert sent == 5_000_000 and client.sock.sent.endswith(b"0\r\n\r\n") and not world.tasks


def test_a_client_that_leaves_is_reported_to_receive_and_send(mount: Make) -> None:
    told: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(START)
        await send(body(b"x", True))
        told.append(await receive())
        for message in (body(b"y", True), body(b"z")):
            with pytest.raises(OSError, match="disconnected") as caught:
                await send(message)
            told.append(type(caught.value))

    world = mount(app)
    client = world.connect()
    client.ask()
    client.leave()
    assert told == [{"type": "http.disconnect"}, ClientDisconnected, ClientDisconnected]
    assert not world.tasks and not world.log.errors and not world.defects


def test_a_client_that_leaves_while_the_application_waits_for_room(mount: Make) -> None:
    class FrameworkDisconnect(Exception):
        pass

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        try:
            while True:
                await send(body(b"x" * 100_000, True))
        except OSError as error:
            raise FrameworkDisconnect from error

    world = mount(app)
    client = world.connect()
    client.sock.room = 0
    client.ask()
    assert world.tasks == 1
    client.leave()
    assert not world.tasks and not world.log.errors


def test_a_client_that_leaves_before_the_head(mount: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_call, "GRACE", 0.0)
    told: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        told.append(await receive())
        try:
            await asyncio.Event().wait()
        finally:
            told.append("cancelled")

    world = mount(app)
    client = world.connect()
    client.ask()
    client.leave()
    while world.tasks:
        world.run(asyncio.sleep(0))
    assert told == [{"type": "http.disconnect"}, "cancelled"] and not world.log.errors


def test_an_answer_that_a_listener_replaces(mount: Make) -> None:
    told: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(START)
        await send(body(b"x", True))
        told.append(await receive())

    world = mount(app)
    listener = world.mounted.http

    def replaced(request: Any, next: Any) -> Any:
        async def other() -> Response:
            assert (await listener(request, next)).status == 200
            return Response(b"another")

        return other()

    world.mounted.http = replaced  # type: ignore[assignment]
    assert world.connect().ask()[2] == b"another"
    assert told == [{"type": "http.disconnect"}] and not world.tasks


def test_work_after_the_answer_goes_on_when_the_client_leaves(mount: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_call, "GRACE", 0.0)
    go_on: asyncio.Event | None = None
    done: list[bool] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal go_on
        go_on = asyncio.Event()
        await send(START)
        await send(body(b"x"))
        await go_on.wait()
        done.append(True)

    world = mount(app)
    client = world.connect()
    assert client.ask()[2] == b"x"
    client.leave()
    world.run(asyncio.sleep(0.01))
    assert not done and go_on is not None
    go_on.set()
    world.settle()
    assert done == [True]


def test_a_request_that_is_not_answered_in_time_is_a_503(mount: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_call, "GRACE", 0.0)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()

    world = mount(app)
    client = world.connect()
    client.ask()
    world.clock.advance(121.0)
    world.connections.sweep(world.clock.monotonic())
    world.settle()
    assert client.answer()[0] == 503
    while world.tasks:
        world.run(asyncio.sleep(0))
    assert not world.log.errors


def test_a_stop_ends_streams_of_events_and_lets_others_go_on(mount: Make) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        kind = b"text/event-stream" if scope["path"] == "/app/events" else b"text/plain"
        await receive()
        await send(START | {"headers": [(b"content-type", kind)]})
        await send(body(b"begun", True))
        await receive()

    world = mount(app)
    events, plain = world.connect(), world.connect()
    events.ask(target="/app/events")
    plain.ask(target="/app/plain")
    world.connections.drain()
    world.settle()
    assert events.sock.sent.endswith(b"0\r\n\r\n") and not plain.sock.sent.endswith(b"0\r\n\r\n")
    assert world.tasks == 1
    plain.leave()


# --- bodies that come while they are received -------------------------------------------------------------------------------------------


def post(client: Client, length: int | None = None) -> None:
    fields = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    client.sock.sent = b""
    client.send(f"POST /app/ HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n".encode())


class Uploads:
    """Receives when it may, and says how much it got."""

    def __init__(self) -> None:
        self.got: list[int] = []
        self.told: list[str] = []
        self.may = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while True:
            await self.may.wait()
            message = await receive()
            self.told.append(message["type"])
            if message["type"] == "http.disconnect":
                return
            self.got.append(len(message["body"]))
            if not message["more_body"]:
                break
        await send(START)
        await send(body(str(sum(self.got)).encode()))


def test_a_long_body_is_received_while_it_comes(mount: Make) -> None:
    app = Uploads()
    app.may.set()
    client = mount(app).connect()
    post(client, 1_000_000)
    for _ in range(20):
        before = len(app.got)
        client.send(b"x" * 50_000)
        assert len(app.got) == before + 1
    assert client.answer()[::2] == (200, b"1000000")
    post(client)
    client.send(b"3\r\nabc\r\n0\r\n\r\n")
    assert client.answer()[::2] == (200, b"1000003")
    assert client.ask("POST", body=b"whole")[0] == 200  # the connection goes on


def test_an_application_that_does_not_receive_holds_the_client_back(mount: Make) -> None:
    app = Uploads()
    world = mount(app)
    client = world.connect()
    post(client, 1_000_000)
    loop: Any = world.connections.loop
    sent = 0
    while client.sock in loop.readers:
        client.send(b"x" * 50_000)
        sent += 50_000
    assert sent <= HIGH_WATER + 50_000
    app.may.set()
    world.settle()
    while sent < 1_000_000:
        client.send(b"x" * 50_000)
        sent += 50_000
    assert client.answer()[::2] == (200, b"1000000")


def test_a_last_piece_that_fills_what_may_wait(mount: Make) -> None:
    app = Uploads()
    world = mount(app)
    client = world.connect()
    post(client, 300_000)
    client.send(b"x" * 300_000)
    app.may.set()
    world.settle()
    assert client.answer()[::2] == (200, b"300000")
    assert client.ask("POST", body=b"next")[0] == 200


def test_an_answer_before_the_body_is_here(mount: Make) -> None:
    told: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(START | {"status": 413})
        await send(body(b"too long"))
        told.append(await receive())

    world = mount(app)
    client = world.connect()
    post(client, 1_000_000)
    client.send(b"x" * 50_000)
    assert client.answer()[::2] == (413, b"too long") and "Connection: close" in client.answer()[1]
    assert told == [{"type": "http.disconnect"}] and not world.tasks


def test_a_client_that_leaves_in_its_body(mount: Make) -> None:
    app = Uploads()
    app.may.set()
    world = mount(app)
    client = world.connect()
    post(client, 1_000_000)
    client.send(b"x" * 50_000)
    client.leave()
    assert app.told == ["http.request", "http.disconnect"] and not world.tasks and not world.log.errors


def test_a_body_that_stops_coming_is_a_408(mount: Make) -> None:
    app = Uploads()
    app.may.set()
    world = mount(app)
    client = world.connect()
    post(client, 1_000_000)
    client.send(b"x" * 50_000)
    world.clock.advance(121.0)
    world.connections.sweep(world.clock.monotonic())
    world.settle()
    assert client.answer()[0] == 408 and app.told[-1] == "http.disconnect" and not world.tasks


def test_an_application_that_never_receives_is_a_503(mount: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_call, "GRACE", 0.0)
    world = mount(Uploads())
    client = world.connect()
    post(client, 1_000_000)
    loop: Any = world.connections.loop
    while client.sock in loop.readers:
        client.send(b"x" * 50_000)
    world.clock.advance(121.0)
    world.connections.sweep(world.clock.monotonic())
    world.settle()
    assert client.answer()[0] == 503
    while world.tasks:
        world.run(asyncio.sleep(0))


# --- any order of messages -------------------------------------------------------------------------------------------------------------

_MESSAGES = st.one_of(
    st.just(START),
    st.just(START | {"headers": [(b"content-length", b"3")]}),
    st.just({"type": "http.response.start", "status": 304}),
    st.builds(body, st.sampled_from([b"", b"abc", b"x" * 300_000]), st.booleans()),
    st.just({"type": "http.response.early_hint", "links": [b"</a>"]}),
    st.just({"type": "websocket.accept"}),
    st.just({"type": 7}),
)
_STEPS = st.lists(st.one_of(_MESSAGES, st.sampled_from(["pause", "receive", "raise", "catch"])), max_size=8)


@given(_STEPS, st.sampled_from(["GET", "HEAD", "POST"]), st.sampled_from(["reads", "slow", "leaves"]))
def test_any_order_of_messages_is_answered_and_ends(steps: list[Any], method: str, client_does: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        catches = False
        for step in steps:
            if step == "pause":
                await asyncio.sleep(0)
            elif step == "receive":
                await asyncio.wait_for(receive(), 0.001)
            elif step == "raise":
                raise KeyError
            elif step == "catch":
                catches = True
            else:
                try:
                    await send(step)
                except Exception:
                    if not catches:
                        raise

    world = MountedWorld(without_lifespan(app))
    client = world.connect()
    client.sock.room = 1 << 30 if client_does == "reads" else 0
    client.ask(method, body=b"in")
    _finish(world, client, client_does)
    assert not world.tasks
    if client_does != "leaves":
        status = client.answer()[0]
        assert client.sock.closed or status in (103, 200, 304, 500), client.sock.sent
    world.close()


def _finish(world: MountedWorld, client: Client, client_does: str) -> None:
    if client_does == "leaves":
        client.leave()
    for _ in range(2000):
        if not world.tasks:
            break
        client.take()
        world.run(asyncio.sleep(0.0005 if world.tasks else 0))
        world.settle()
    if not client.sock.closed:
        client.take()


def test_an_application_that_wants_to_end_the_program(mount: Make) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise SystemExit(1)

    world = mount(app)
    assert world.connect().ask()[0] == 500
    assert "the application has raised SystemExit" in world.log.text


def test_a_length_that_is_announced_twice(mount: Make) -> None:
    fields = [(b"content-length", b"4"), (b"Content-Length", b"4")]
    app = sends({**START, "headers": fields}, body(b"ab", True), body(b"cd"))
    status, head, rest = mount(app).connect().ask()
    assert (status, rest, head.lower().count("content-length: 4")) == (200, b"abcd", 1)


def test_an_offer_of_websockets_with_another_method_is_a_request(mount: Make) -> None:
    world = mount(sends(START, body(b"hello")))
    client = world.connect()
    client.send(b"POST /app/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n")
    assert client.answer()[::2] == (200, b"hello")


CHUNKED = b"POST /app/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
PIECE = b"10000\r\n" + bytes(0x10000) + b"\r\n"


def test_bodies_that_no_application_takes_are_limited_altogether(mount: Make) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] == "http.request":
            await asyncio.Event().wait()

    world = mount(app)
    world.connections.max_bodies = 400_000
    clients = [world.connect() for _ in range(4)]
    for client in clients:
        client.send(CHUNKED)
    for _ in range(3):
        for client in clients:
            client.send(PIECE)
    statuses = [client.answer()[0] for client in clients]
    assert 503 in statuses and 0 in statuses, statuses
    assert 0 < world.connections.bodies <= 400_000
    for client in clients:
        client.leave()
    assert world.connections.bodies == 0
    for task in list(world.mounted._tasks):
        task.cancel()


def test_bodies_that_are_taken_do_not_count(mount: Make) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        size = 0
        while (message := await receive()).get("more_body"):
            size += len(message["body"])
        await send(START)
        await send(body(str(size).encode()))

    world = mount(app)
    world.connections.max_bodies = 100_000
    client = world.connect()
    client.send(CHUNKED)
    for _ in range(10):
        client.send(PIECE)
        assert world.connections.bodies == 0
    client.send(b"0\r\n\r\n")
    assert client.answer()[::2] == (200, b"655360")


def test_a_client_that_leaves_is_noticed_though_its_body_was_never_read(mount: Make) -> None:
    go, later = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await go.wait()
        await send(START)
        await send(body(b"begun", True))
        await later.wait()
        await send(body(b"more", True))

    world = mount(app)
    client = world.connect()
    client.send(CHUNKED)
    for _ in range(4):
        client.send(PIECE)
    assert client.sock not in world.connections.loop.readers  # type: ignore[attr-defined]
    world.loop.call_soon(go.set)
    world.settle()
    assert b"begun" in client.sock.sent
    for _ in range(40):
        client.send(PIECE)
    client.send(b"")  # the end of its half
    assert client.connection.closed and world.tasks == 1
    world.loop.call_soon(later.set)
    world.settle()
    assert world.tasks == 0


@pytest.mark.parametrize("streams", [False, True])
def test_a_client_that_ends_its_half_has_disconnected(mount: Make, streams: bool) -> None:
    told: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        if streams:
            await send(START)
            await send(body(b"begun", True))
        told.append((await receive())["type"])

    world = mount(app)
    client = world.connect()
    client.send(b"GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (b"begun" in client.sock.sent) is streams and not told
    client.send(b"")
    assert told == ["http.disconnect"] and client.connection.closed
