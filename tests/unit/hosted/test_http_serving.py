"""HTTP requests of a host: bodies in and out, slow and vanished clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from svc.connection.bodies import HIGH_WATER
from svc.hosted.http_serving import BrokenAnswer, has_body, start_of
from svc.listeners.request_chain import RequestChain
from svc.listeners.routes import make_route
from svc.listeners.step import Step
from svc.messages import HeaderBlock, Request, Response
from svc.mounted import MountedApplication
from tests.support.hosted import HostedNode
from tests.support.mounted import RecordingLog
from tests.support.profile import half_by_day
from tests.support.static_files import Site

JSON = {"content-type": "application/json"}
LEFT = {"type": "http.disconnect"}


def part(body: bytes = b"", more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[HostedNode]:
    made = HostedNode(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared_hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostedNode]:
    made = HostedNode(tmp_path_factory.mktemp("node"))
    yield made
    made.close()


def test_a_record(hosted: HostedNode) -> None:
    body = b'{"name":"Chair"}'
    fields = {**JSON, "content-length": str(len(body))}
    written = hosted.ask("PUT", "/Product/1", part(body[:5], True), part(body[5:]), fields=fields)
    assert written.status == 204 and written.is_complete and "content-length" not in written.fields
    read = hosted.ask("GET", "/Product/1")
    assert (read.status, read.body) == (200, b'{"name":"Chair","id":"1"}')
    assert read.fields["content-length"] == str(len(read.body)) and read.received == 0
    head = hosted.ask("HEAD", "/Product/1")
    assert (head.status, head.body, head.fields["content-length"]) == (200, b"", read.fields["content-length"])
    unchanged = hosted.ask("GET", "/Product/1", fields={"if-none-match": read.fields["etag"]})
    assert (unchanged.status, unchanged.body) == (304, b"") and unchanged.is_complete
    assert not hosted.node.errors


def test_a_static_file(hosted: HostedNode, tmp_path: Path) -> None:
    content = bytes(range(256)) * 4000
    site = Site(tmp_path / "shop", {"web/large.bin": content})
    hosted.node.server.http(site.listener, before="authentication")
    answer = hosted.ask("GET", "/large.bin")
    assert (answer.status, answer.body) == (200, content) and answer.is_complete
    part = hosted.ask("GET", "/large.bin", fields={"range": "bytes=5-900000"})
    assert (part.status, part.body) == (206, content[5:900_001])
    assert hosted.ask("HEAD", "/large.bin").fields["content-length"] == str(len(content))
    left = hosted.ask("GET", "/large.bin", is_stuck=True)
    assert len(site.cache.open_files) == 1
    left.tell(LEFT)
    left.release()
    assert len(site.cache.open_files) == 0


def test_a_body_that_is_too_long(hosted: HostedNode) -> None:
    hosted.max_body = 1000
    late = hosted.ask("PUT", "/Product/1", part(bytes(600), True), part(bytes(600), True), fields={**JSON, "transfer-encoding": "chunked"})
    assert late.status == 413 and late.is_complete and late.received == 2


def test_a_body_is_not_asked_for_without_rights(hosted: HostedNode) -> None:
    hosted.node.as_user(None)
    refused = hosted.ask("PUT", "/Product/1", part(b"{}"), fields={**JSON, "content-length": "2"})
    assert refused.status == 401 and refused.received <= 1


def test_a_client_that_leaves_in_the_body(hosted: HostedNode) -> None:
    left = hosted.ask("PUT", "/Product/1", part(b"{", True), LEFT, fields={**JSON, "content-length": "20"})
    assert left.task.done() and not left.sent and left.serving.exchange.abandoned
    assert hosted.ask("GET", "/Product/1").status == 404


def fill(hosted: HostedNode, count: int = 400, size: int = 4000) -> None:
    for start in range(0, count, 100):
        rows = ",".join(f'{{"id":"{n}","name":"n","specs":"{"x" * size}"}}' for n in range(start, start + 100))
        body = f"[{rows}]".encode()
        assert hosted.ask("PUT", "/Product/", part(body), fields={**JSON, "content-length": str(len(body))}).status in (200, 204)


def test_a_long_answer_waits_for_the_host(hosted: HostedNode) -> None:
    fill(hosted)
    slow = hosted.ask("GET", "/Product/", is_stuck=True)
    assert not slow.sent and slow.serving._outgoing.pending <= 2 * HIGH_WATER
    slow.release()
    assert slow.is_complete and len(slow.body) > 400 * 4000
    assert hosted.ask("GET", "/Product/").body == slow.body


def test_a_client_that_leaves_in_a_long_answer(hosted: HostedNode) -> None:
    fill(hosted)
    slow = hosted.ask("GET", "/Product/", is_stuck=True)
    slow.tell(LEFT)
    slow.release()
    assert slow.task.done() and not slow.is_complete and not hosted.shared.streams


def test_an_answer_that_breaks_off_is_raised_to_the_host(hosted: HostedNode) -> None:
    def broken() -> Iterator[bytes]:
        yield b"begun"
        raise KeyError("defect")

    hosted.node.dispatcher._handle = lambda request: Response(broken())  # type: ignore[method-assign]
    answer = hosted.ask("GET", "/x")
    assert isinstance(answer.task.exception(), BrokenAnswer) and answer.body == b"begun" and not answer.is_complete
    assert [type(error) for _, error in hosted.node.errors] == [KeyError]
    hosted.node.errors.clear()


@pytest.mark.parametrize("kind", ["asynchronous", "plain"])
def test_iterators(hosted: HostedNode, kind: str) -> None:
    closed: list[bool] = []

    async def later() -> Any:
        try:
            for piece in (b"a", b"", b"b"):
                yield piece
        finally:
            closed.append(True)

    def now() -> Iterator[bytes]:
        try:
            yield from (b"a", b"", b"b")
        finally:
            closed.append(True)

    hosted.node.dispatcher._handle = lambda request: Response(later() if kind == "asynchronous" else now())  # type: ignore[method-assign]
    answer = hosted.ask("GET", "/x")
    assert answer.is_complete and answer.body == b"ab" and closed == [True]
    head = hosted.ask("HEAD", "/x")
    assert head.is_complete and head.body == b""


def test_events(hosted: HostedNode) -> None:
    stream = hosted.ask("GET", "/Product/1", fields={"accept": "text/event-stream"})
    assert stream.status == 200 and stream.body.startswith(b"retry:") and len(hosted.shared.lasting) == 1
    hosted.ask("PUT", "/Product/1", part(b'{"name":"new"}'), fields={**JSON, "content-length": "14"})
    assert b'"name":"new"' in stream.body
    stream.tell(LEFT)
    assert stream.task.done() and not hosted.shared.lasting


def test_a_stop_ends_events(hosted: HostedNode) -> None:
    stream = hosted.ask("GET", "/Product/1", fields={"accept": "text/event-stream"})
    hosted.shared.drain()
    hosted.settle()
    assert stream.is_complete


def test_a_host_that_cancels(hosted: HostedNode) -> None:
    stream = hosted.ask("GET", "/Product/1", fields={"accept": "text/event-stream"})
    stream.task.cancel()
    hosted.settle()
    assert stream.task.cancelled() and not hosted.shared.lasting and stream.serving.exchange.abandoned


def test_a_host_whose_send_raises(hosted: HostedNode) -> None:
    class Lost(OSError):
        pass

    fill(hosted)
    slow = hosted.ask("GET", "/Product/", is_stuck=True)

    async def lost(message: Any) -> None:
        raise Lost

    slow.serving._send = lost
    slow.release()
    assert isinstance(slow.task.exception(), Lost) and not hosted.shared.streams


@pytest.mark.parametrize(
    ("fields", "version", "found"),
    [
        ({}, "1.1", False),
        ({"content-length": "0"}, "1.1", False),
        ({"content-length": "3"}, "1.1", True),
        ({"transfer-encoding": "chunked"}, "1.1", True),
        ({}, "2", True),
        ({"content-length": "0"}, "2", False),
    ],
)
def test_which_requests_have_a_body(fields: dict[str, str], version: str, found: bool) -> None:
    assert has_body(Request("PUT", "/", HeaderBlock(list(fields.items())), http_version=version)) is found


def test_fields_of_the_connection_are_the_hosts() -> None:
    response = Response(b"abc", pairs=[("Connection", "close"), ("Transfer-Encoding", "chunked"), ("X-A", "é")])
    assert start_of(response, 3)["headers"] == [(b"x-a", b"\xe9"), (b"content-length", b"3")]


def test_a_mounted_application_receives_while_the_body_comes(hosted: HostedNode) -> None:
    got: list[int] = []
    may_answer = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            raise ValueError("no lifespan")
        more = scope["path"] != "/app/refuses"
        while more:
            message = await receive()
            got.append(len(message["body"]))
            more = message["more_body"]
        await may_answer.wait()
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"done"})

    mounted = MountedApplication(app, "/app", loop=hosted.loop, log=RecordingLog())
    hosted.node.dispatcher.use(RequestChain([Step("authentication"), Step("app", mounted.http, make_route(None, "/app")), Step("rest")]))
    fields = {"transfer-encoding": "chunked"}
    asked = hosted.ask("POST", "/app/x", part(b"abc", True), fields=fields)
    assert got == [3] and not asked.sent
    asked.tell(part(b"de", True))
    asked.tell(part())
    assert got == [3, 2, 0]
    may_answer.set()
    hosted.settle()
    assert asked.is_complete and asked.body == b"done"
    early = hosted.ask("POST", "/app/refuses", part(b"abc", True), fields=fields)
    assert early.is_complete and early.body == b"done"  # though nothing more of its body comes
    left = hosted.ask("POST", "/app/x", part(b"abc", True), LEFT, fields=fields)
    assert left.task.done() and not left.sent
    hosted.loop.run_until_complete(mounted.stop(0.01))


# --- anything that a host may say -------------------------------------------------------------------------------------------------------

_MESSAGES = st.lists(
    st.one_of(st.builds(part, st.sampled_from([b"", b'{"name":', b'"x"}', bytes(2000)]), st.booleans()), st.just(LEFT)), max_size=5
)


@given(st.binary(max_size=30), st.binary(max_size=20), st.sampled_from(["GET", "DELETE", "OPTIONS", "QUERY", "\xe9"]))
@example(b"http://x/Product/", b"", "GET")
@example(b"*", b"", "OPTIONS")
@example(b"", b"", "GET")
def test_no_address_is_a_defect(shared_hosted: HostedNode, path: bytes, query: bytes, method: str) -> None:
    asked = shared_hosted.ask(method, "/", raw_path=path, query_string=query)
    assert asked.is_complete and 200 <= asked.status < 502 and asked.status != 500, asked.body
    assert not shared_hosted.node.errors


@settings(max_examples=half_by_day(100))
@given(_MESSAGES, st.sampled_from(["GET", "PUT", "POST", "OPTIONS"]), st.sampled_from(["/Product/1", "/Product/", "/none"]), st.booleans())
def test_any_messages_of_a_host_end(
    tmp_path_factory: pytest.TempPathFactory, messages: Any, method: str, path: str, is_stuck: bool
) -> None:
    hosted = HostedNode(tmp_path_factory.mktemp("node"), max_body=3000)
    fields = {**JSON, "transfer-encoding": "chunked"}
    asked = hosted.ask(method, path, *messages, fields=fields, is_stuck=is_stuck)
    asked.tell(LEFT)
    asked.release()
    assert asked.task.done() and asked.task.exception() is None
    assert not asked.sent or asked.status in (200, 201, 204, 400, 404, 405, 413)
    hosted.close()


def test_a_body_that_becomes_too_long_ends_a_mounted_application(hosted: HostedNode) -> None:
    ended: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        while (message := await receive())["type"] == "http.request":
            pass
        ended.append(message["type"])

    mounted = MountedApplication(app, "/app", loop=hosted.node._loop, log=RecordingLog())
    hosted.node.server.http(mounted.http, url_path="/app")
    hosted.max_body = 1000
    late = hosted.ask("PUT", "/app/x", part(bytes(600), True), part(bytes(600), True), fields={"transfer-encoding": "chunked"})
    assert late.status == 413 and late.is_complete and ended == ["http.disconnect"]
    assert [task for task in asyncio.all_tasks(hosted.node._loop) if not task.done()] == []
    assert not hosted.node.errors
