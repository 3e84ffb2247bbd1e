"""Spans of requests on a whole node with fake sockets (spec: tracing §3, §4)."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from svc.errors import StoreFailure
from svc.messages import HeaderBlock, Request
from svc.store import Database
from svc.tracing.spans import FIELDS, RequestSpans
from tests.support.http2 import Client
from tests.support.profile import examples
from tests.support.traced import Traced

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"

SCHEMA = """
type Note @table @export { id: ID @primaryKey  text: String }
type Page @table @export { id: ID @primaryKey  text: String }
"""
CODE = """
import asyncio
from opentelemetry import trace, propagate
from svc import Resource, tables, transaction

tracer = trace.NoOpTracer()
seen = []

def here():
    return format(trace.get_current_span().get_span_context().span_id, "016x")

class Plain(Resource):
    def get(self, target):
        if target.id == "bad":
            raise ValueError("broken \\ud800")
        return {"span": here()}

class Slow(Resource):
    async def get(self, target):
        first = here()
        await asyncio.sleep(0)
        async def work():
            return here()
        return {"span": first, "again": here(), "task": await asyncio.create_task(work())}

class Endless(Resource):
    async def get(self, target):
        await asyncio.Event().wait()

class Committing(Resource):
    async def post(self, data):
        async with transaction() as own:
            await tables.Note.put({"id": "committed", "text": "a"})
            await own.commit()
        return {}

class Refusing(Resource):
    async def get(self, target):
        error = LookupError("no")
        error.status_code = 404
        raise error

class Outgoing(Resource):
    def get(self, target):
        fields = {}
        propagate.inject(fields)
        return fields

class Lines(Resource):
    def get(self, target):
        async def lines():
            for number in range(3):
                await asyncio.sleep(0)
                yield {"n": number}
        return lines()

class Source:
    async def get(self, id):
        await asyncio.sleep(0)
        fields = {}
        propagate.inject(fields)
        return {"id": id, "text": fields["traceparent"]}

tables.Page.sourced_from(Source())
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    app: Path = tmp_path_factory.mktemp("app")
    (app / "schema.graphql").write_text(SCHEMA)
    (app / "resources.py").write_text(CODE)
    (app / "config.yaml").write_text("rest: true\ngraphqlSchema:\n  files: '*.graphql'\njsResource:\n  files: resources.py\n")
    traced = Traced(tmp_path_factory.mktemp("store"), app)
    yield traced
    traced.node.close()


@pytest.fixture
def traced(shared: Traced) -> Iterator[Traced]:
    shared.exporter.clear()
    shared.node.errors.clear()
    yield shared
    assert not get_current_span().get_span_context().is_valid, "a context has stayed"


def hexed(number: int) -> str:
    return format(number, "016x")


def parent_of(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


# --- the span of a request ------------------------------------------------------------------------------------------------------------


def test_names_and_attributes(traced: Traced) -> None:
    traced.ask("PUT", "/Note/1", b'{"text": "a"}')
    assert traced.ask("GET", "/Note/1?x=secret", **{"User-Agent": "wrk"})[0] in (200, 400)
    span = traced.server
    assert (span.name, span.parent, span.status.status_code) == ("GET /Note", None, StatusCode.UNSET)
    status = attributes(span).pop("http.response.status_code")
    assert attributes(span) == {
        "http.request.method": "GET",
        "http.response.status_code": status,
        "http.route": "/Note",
        "url.path": "/Note/1",
        "url.scheme": "http",
        "network.protocol.name": "http",
        "network.protocol.version": "1.1",
        "user_agent.original": "wrk",
        "client.address": "127.0.0.1",
        "server.address": "localhost",
        "server.port": 80,
    }


def test_methods_and_paths_that_do_not_exist_make_few_names(traced: Traced) -> None:
    assert traced.ask("GET", "/nothing/17")[0] == 404
    assert traced.server.name == "GET" and "http.route" not in attributes(traced.server)
    assert traced.server.status.status_code is StatusCode.UNSET
    traced.ask("BREW", "/Note/1")
    assert traced.server.name.startswith("HTTP") and attributes(traced.server)["http.request.method"] == "_OTHER"
    assert attributes(traced.server)["http.request.method_original"] == "BREW"


@pytest.mark.parametrize("flags", ["01", "03"])
def test_a_callers_trace_goes_on(traced: Traced, flags: str) -> None:
    traced.ask("GET", "/Note/1", traceparent=f"00-{TRACE}-{PARENT}-{flags}", tracestate="vendor=x")
    span = traced.server
    assert span.context is not None and format(span.context.trace_id, "032x") == TRACE
    assert parent_of(span) == int(PARENT, 16) and span.parent is not None and span.parent.is_remote
    assert span.context.trace_state.get("vendor") == "x"


@pytest.mark.parametrize(
    "value", ["", "00", SAMPLED.upper(), SAMPLED + "-x", f"{SAMPLED}, {SAMPLED}", f"ff-{TRACE}-{PARENT}-01", "x" * 5000]
)
def test_a_broken_traceparent_begins_a_trace(traced: Traced, value: str) -> None:
    traced.ask("GET", "/Note/1", traceparent=value, tracestate="vendor=x,=,,,")
    span = traced.server
    assert span.parent is None and span.context is not None and format(span.context.trace_id, "032x") != TRACE


def test_two_traceparents_are_ignored(traced: Traced) -> None:
    field = f"traceparent: {SAMPLED}\r\n"
    traced.node.connect().send(f"GET /Note/1 HTTP/1.1\r\nHost: localhost\r\n{field}{field}\r\n".encode())
    assert traced.server.parent is None


def test_a_caller_that_does_not_sample_is_heard(traced: Traced) -> None:
    assert traced.ask("PUT", "/Note/1", b'{"text": "a"}', traceparent=UNSAMPLED)[0] == 204
    assert traced.spans == []
    assert newest_trace(traced) == TRACE  # it is in the log all the same


def newest_trace(traced: Traced) -> str | None:
    database = traced.node.store.databases["data"]
    newest = database.log.newest(database.snapshot())
    assert newest is not None
    return None if newest.trace_id is None else newest.trace_id.hex()


def test_the_log_has_the_trace(traced: Traced) -> None:
    traced.ask("PUT", "/Note/1", b'{"text": "a"}')
    assert traced.server.context is not None
    assert newest_trace(traced) == format(traced.server.context.trace_id, "032x")
    traced.ask("PUT", "/Note/1", b'{"text": "a"}', traceparent=SAMPLED)
    assert newest_trace(traced) == TRACE


def test_a_failure_is_an_error_with_its_exception(traced: Traced) -> None:
    assert traced.ask("GET", "/Plain/bad")[0] == 500
    span, child = traced.server, traced.child("Plain.get")
    assert span.status.status_code is StatusCode.ERROR and attributes(span)["error.type"] == "500"
    [event] = span.events
    assert event.name == "exception" and event.attributes is not None
    assert (event.attributes["exception.type"], event.attributes["exception.message"]) == ("ValueError", "broken ?")
    assert "in get" in str(event.attributes["exception.stacktrace"])
    encode_spans(traced.spans).SerializeToString()  # one that cannot be encoded would take its batch with it
    assert child.status.status_code is StatusCode.ERROR and attributes(child)["error.type"] == "ValueError"
    traced.node.errors.clear()


_FIELDS = st.sampled_from(["traceparent", "tracestate", "baggage", "user-agent", "host"])
_VALUES = st.text(st.characters(max_codepoint=255), max_size=40) | st.sampled_from(
    [SAMPLED, UNSAMPLED, "a=b", "a=b,c=d", "k=v;p", "[::1]:99999", "a:b:c"]
)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.tuples(_FIELDS, _VALUES), max_size=6), st.text(st.characters(max_codepoint=255), max_size=10))
def test_any_fields_make_a_span(fields: list[tuple[str, str]], method: str) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    request = Request(method, "/x", HeaderBlock(fields))
    RequestSpans(provider.get_tracer("test"), request).end(200)
    assert request.trace_id is not None
    encode_spans(exporter.get_finished_spans()).SerializeToString()


def test_runs_of_blanks_are_one_to_the_propagators() -> None:
    """Their patterns take the square of the length of a run: 8000 blanks held the loop for 60 ms."""
    block = HeaderBlock([("baggage", "a=b" + " \t" * 4000 + ",c=d e"), ("baggage", "x")])
    assert FIELDS.get(block, "Baggage") == ["a=b ,c=d e", "x"]


def test_nothing_of_a_request_waits_for_the_garbage_collector(traced: Traced) -> None:
    request = Request("GET", "/x", HeaderBlock([]))
    request.state.spans = spans = RequestSpans(traced.provider.get_tracer("test"), request)
    spans.end(200)
    assert request not in gc.get_referents(spans)


# --- below it ---------------------------------------------------------------------------------------------------------------------------


def test_a_commit_is_a_child(traced: Traced) -> None:
    traced.ask("PUT", "/Note/1", b'{"text": "a"}')
    commit = traced.child("commit")
    assert traced.server.context is not None and parent_of(commit) == traced.server.context.span_id
    assert commit.end_time is not None and traced.server.end_time is not None and commit.end_time <= traced.server.end_time


def test_so_is_a_commit_that_code_asks_for(traced: Traced) -> None:
    assert traced.ask("POST", "/Committing/", b"{}")[0] == 200
    assert parent_of(traced.child("commit")) == traced.child("Committing.post").context.span_id


def test_a_commit_that_fails(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(database: Database) -> None:
        database._undo()
        raise StoreFailure("the disk is gone")

    monkeypatch.setattr(Database, "commit", fail)
    assert traced.ask("PUT", "/Note/1", b'{"text": "b"}')[0] == 503
    monkeypatch.undo()
    traced.node.settle()
    [event] = traced.child("commit").events
    assert event.attributes is not None and event.attributes["exception.message"] == "the disk is gone"
    assert traced.child("commit").status.status_code is StatusCode.ERROR
    assert traced.server.status.status_code is StatusCode.ERROR


def test_code_of_applications_runs_in_a_span(traced: Traced) -> None:
    _, body = traced.ask("GET", "/Plain/1")
    child = traced.child("Plain.get")
    assert child.context is not None and traced.server.context is not None
    assert body == {"span": hexed(child.context.span_id)} and parent_of(child) == traced.server.context.span_id


def test_so_do_coroutines_and_their_tasks(traced: Traced) -> None:
    _, body = traced.ask("GET", "/Slow/1")
    child = traced.child("Slow.get")
    assert child.context is not None and set(body.values()) == {hexed(child.context.span_id)}
    assert child.status.status_code is StatusCode.UNSET


def test_a_refusal_is_no_failure_of_the_request(traced: Traced) -> None:
    assert traced.ask("GET", "/Refusing/1")[0] == 404
    assert traced.server.status.status_code is StatusCode.UNSET


def test_what_code_sends_on_is_below_it(traced: Traced) -> None:
    _, body = traced.ask("GET", "/Outgoing/1", traceparent=SAMPLED, tracestate="a=b")
    child = traced.child("Outgoing.get")
    assert child.context is not None
    assert body == {"traceparent": f"00-{TRACE}-{hexed(child.context.span_id)}-01", "tracestate": "a=b"}


def test_a_source_is_asked_in_a_span(traced: Traced) -> None:
    status, body = traced.ask("GET", "/Page/1", traceparent=SAMPLED)
    child = traced.child("Source.get")
    assert status == 200 and child.context is not None and traced.server.context is not None
    assert body["text"] == f"00-{TRACE}-{hexed(child.context.span_id)}-01" and parent_of(child) == traced.server.context.span_id
    assert newest_trace(traced) == TRACE
    traced.ask("GET", "/Page/1")
    assert [span.name for span in traced.spans] == ["GET /Page"]


def test_an_answer_that_is_made_while_it_is_sent(traced: Traced) -> None:
    assert traced.ask("GET", "/Lines/")[0] == 200
    stream = traced.child("stream")
    assert traced.server.context is not None and parent_of(stream) == traced.server.context.span_id


# --- connections ------------------------------------------------------------------------------------------------------------------------


def test_requests_of_one_connection_have_traces_of_their_own(traced: Traced) -> None:
    wire = traced.node.connect()
    one = b"GET /Slow/1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    wire.send(one * 3 + f"GET /Plain/1 HTTP/1.1\r\nHost: localhost\r\ntraceparent: {SAMPLED}\r\n\r\n".encode() + one)
    wire.send(one)
    servers = [span for span in traced.spans if span.kind is SpanKind.SERVER]
    assert [span.name for span in servers] == ["GET /Slow"] * 3 + ["GET /Plain"] + ["GET /Slow"] * 2
    assert len({span.context.trace_id for span in servers if span.context is not None}) == 6
    assert [span.parent is None for span in servers] == [True] * 3 + [False] + [True] * 2


def test_streams_of_http2_have_traces_of_their_own(traced: Traced) -> None:
    client = Client(traced.node)
    for number in range(3):
        client.request("GET", "/Slow/1", fields={"traceparent": SAMPLED} if number == 1 else {})
    client.exchange_bytes()
    servers = [span for span in traced.spans if span.kind is SpanKind.SERVER]
    assert len(servers) == 3
    assert [format(span.context.trace_id, "032x") == TRACE for span in servers if span.context is not None].count(True) == 1
    assert {attributes(span)["network.protocol.version"] for span in servers} == {"2"}


def test_a_client_that_leaves_ends_the_span(traced: Traced) -> None:
    wire = traced.node.connect()
    wire.send(b"GET /Endless/1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert traced.spans == []
    wire.connection.close_now()
    traced.node.settle()
    assert attributes(traced.server)["error.type"] == "client_disconnected"
    assert "http.response.status_code" not in attributes(traced.server)
    assert traced.child("Endless.get").end_time is not None


def test_a_stream_of_http2_that_is_reset_ends_its_span_alone(traced: Traced) -> None:
    client = Client(traced.node)
    left, other = client.request("GET", "/Endless/1"), client.request("GET", "/Slow/1")
    client.exchange_bytes()
    assert client.answers[other].status == 200 and traced.server.name == "GET /Slow"
    traced.exporter.clear()
    client.h2.reset_stream(left)
    client.exchange_bytes()
    assert traced.server.name == "GET /Endless" and attributes(traced.server)["error.type"] == "client_disconnected"


def test_a_deadline_is_a_failure(traced: Traced) -> None:
    wire = traced.node.connect()
    wire.send(b"GET /Endless/1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    traced.node.pass_time(121)
    assert wire.sock.sent.startswith(b"HTTP/1.1 50")
    assert attributes(traced.server)["error.type"] in ("503", "504") and traced.server.status.status_code is StatusCode.ERROR


def test_an_event_stream_ends_the_span_when_it_begins(traced: Traced) -> None:
    wire = traced.node.connect()
    wire.send(b"GET /Note/ HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
    assert traced.server.name == "GET /Note" and attributes(traced.server)["http.response.status_code"] == 200
    traced.exporter.clear()
    wire.connection.close_now()
    traced.node.settle()
    assert traced.spans == []


def test_a_websocket_is_its_handshake(traced: Traced) -> None:
    wire = traced.node.connect()
    wire.send(
        b"GET /Note/ HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    assert attributes(traced.server)["http.response.status_code"] == 101 and traced.server.name == "GET /Note"
    traced.node.connections.close_all()
    traced.node.settle()
