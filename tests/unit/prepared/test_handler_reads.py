"""Prepared reads through handlers: what they rest on, and what is left of a request when its handler runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc.connection.http1 import Http1Connection
from svc.store.system import ROLE_TABLE, SYSTEM
from tests.support.prepared_handlers import HandlersBeside
from tests.support.prepared_reads import authorization

ROOT = authorization("root")


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[HandlersBeside]:
    made = HandlersBeside(tmp_path)
    yield made
    made.close()


def prepared(beside: HandlersBeside, style: str = "Instance") -> int:
    """Have requests at this address prepared: the number of hits."""
    for _ in range(2):
        beside.do("plain")
        beside.ask(style, "k1", ROOT)
    assert beside.prepared_count == 1
    return beside.hits


def request(path: str) -> bytes:
    fields = "".join(f"{name}: {value}\r\n" for name, value in ROOT.items())
    return f"GET {path} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n".encode()


def ask_alone(beside: HandlersBeside, path: str, *pieces: int) -> bytes:
    """What comes of a request on the connection for which it is prepared. `pieces`: where it is cut."""
    data = request(path)
    beside.node.connections.prepared = beside.node.prepared
    beside.module.calls.clear()
    wire = beside.wires[0]
    wire.sock.sent = b""
    ends = [*pieces, len(data)]
    return wire.send(*[data[start:end] for start, end in zip([0, *pieces], ends, strict=True)])


@pytest.mark.parametrize("style", ["Instance", "Target", "Class", "Own"])
def test_a_plain_handler_makes_no_task_and_no_exchange(beside: HandlersBeside, style: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hits = prepared(beside, style)
    whole = ask_alone(beside, f"/{style}/k1")
    monkeypatch.setattr(beside.node._loop, "create_task", None)
    monkeypatch.setattr(Http1Connection, "make_exchange", None)
    for outcome in ("plain", "read and values"):
        beside.do(outcome)
        assert ask_alone(beside, f"/{style}/k1").startswith(b"HTTP/1.1 200 ")
    beside.do("plain")
    assert ask_alone(beside, f"/{style}/k1") == whole and beside.hits == hits + 4


def test_an_asynchronous_handler(beside: HandlersBeside) -> None:
    hits = prepared(beside, "Waiting")
    for _ in range(3):
        hits += 1
        beside.ask("Waiting", "k1", ROOT)
        assert beside.hits == hits


def test_cut_anywhere(beside: HandlersBeside) -> None:
    prepared(beside)
    whole = ask_alone(beside, "/Instance/k1")
    for at in range(1, 60, 3):
        assert ask_alone(beside, "/Instance/k1", at) == whole
        assert len(beside.module.calls) == 1


@pytest.mark.parametrize("outcome", ["plain", "values", "defect", "later", "hints", "session", "text", "write", "client error"])
def test_what_comes_behind_it(beside: HandlersBeside, outcome: str) -> None:
    """The connection goes on, whatever has come of the handler."""
    prepared(beside)
    plain = ask_alone(beside, "/Instance/k1")
    for _ in range(2):
        hits = beside.hits
        beside.do(outcome)
        ask_alone(beside, "/Instance/k1")
        assert len(beside.module.calls) == 1 and beside.hits == hits + 1
        beside.do("plain")
        assert ask_alone(beside, "/Instance/k1") == plain
    beside.do(outcome)
    beside.node.connections.prepared = beside.node.prepared
    data = request("/Instance/k1")
    beside.module.calls.clear()
    wire = beside.wires[0]
    wire.sock.sent = b""
    wire.arrive(data)
    wire.arrive(data * 2)  # before anything has been sent
    beside.node.settle()
    assert len(beside.module.calls) == 3 and wire.sock.sent.count(b"HTTP/1.1 ") == (6 if outcome == "hints" else 3)
    beside.node.errors.clear()


def test_a_handler_that_writes_is_answered_behind_the_commit(beside: HandlersBeside) -> None:
    prepared(beside)
    beside.do("save")
    answer = ask_alone(beside, "/Instance/k1")
    assert answer.startswith(b"HTTP/1.1 200 ") and b'"name":"saved"' in answer
    assert len(beside.module.calls) == 1
    after = beside.node.store.databases["data"].tables["Product"].get_raw("k1")
    assert after is not None and b"saved" in after
    beside.do("plain")
    assert b'"name":"saved"' in ask_alone(beside, "/Instance/k1")


def test_a_peer_that_goes_while_its_handler_waits(beside: HandlersBeside) -> None:
    prepared(beside, "Instance")
    beside.do("for ever")
    wire = beside.wires[0]
    assert ask_alone(beside, "/Instance/k1") == b""
    wire.arrive(b"")
    beside.node.settle()
    assert wire.connection.closed and beside.module.ended == ["cancelled"]


def test_a_handler_that_takes_too_long(beside: HandlersBeside) -> None:
    prepared(beside, "Instance")
    beside.do("for ever")
    assert ask_alone(beside, "/Instance/k1") == b""
    beside.node.pass_time(130)
    assert beside.wires[0].sock.sent.startswith(b"HTTP/1.1 503 ") and beside.module.ended == ["cancelled"]


def test_a_transport_that_is_kept(beside: HandlersBeside) -> None:
    """Code may keep the request, and what it has found in it."""
    prepared(beside)
    beside.do("kept")
    whole = ask_alone(beside, "/Instance/k1")
    ((kept, transport),) = beside.module.kept
    assert kept.exchange is None and kept.user.username == "root"
    kept.send_early_hints("</a>")
    transport.send_early_hints([("Link", "</a>")])
    beside.node.settle()
    assert beside.wires[0].sock.sent == whole
    beside.do("plain")
    assert ask_alone(beside, "/Instance/k1") == whole


def test_its_code_is_replaced(beside: HandlersBeside) -> None:
    hits = prepared(beside)
    beside.ask("Instance", "k1", ROOT)
    assert beside.hits == hits + 1
    former = beside.module
    beside.reload()
    assert beside.module is not former
    former.todo = "values"
    former.calls.clear()
    assert b'"id":"k1"' in ask_alone(beside, "/Instance/k1")
    assert not former.calls and len(beside.module.calls) == 1


def test_its_rights_are_taken(beside: HandlersBeside) -> None:
    for _ in range(3):
        assert beside.ask("Instance", "k1", authorization("reader")).startswith(b"HTTP/1.1 200 ")
    assert beside.hits >= 1
    beside.put(ROLE_TABLE, "reader", {"role": "reader", "permission": {}}, SYSTEM)
    assert beside.ask("Instance", "k1", authorization("reader")).startswith(b"HTTP/1.1 403 ")
    assert not beside.module.calls


def test_a_listener_comes_first(beside: HandlersBeside) -> None:
    hits = prepared(beside)
    asked = []

    def listen(request, next):
        asked.append(request.pathname)
        return next(request)

    beside.node.server.http(listen, run_first=True)
    beside.ask("Instance", "k1", ROOT)
    assert beside.hits == hits and len(asked) == 3


def test_what_is_not_prepared(beside: HandlersBeside) -> None:
    for key in ("k1", "k2"):
        for _ in range(4):
            assert b'"loaded"' in beside.ask("Loaded", key, ROOT)  # through a source
            beside.ask("Instance", key, {**ROOT, "Cookie": "a=b"})
            beside.ask("Instance", f"{key}?select(name)", ROOT)
            beside.ask("Instance", key, {**ROOT, "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
    beside.node.dispatcher.on_sent = lambda exchange, now: None
    for _ in range(4):
        beside.ask("Instance", "k1", ROOT)
    assert beside.hits == 0 and beside.prepared_count == 0


@pytest.mark.parametrize("outcome", ["plain", "read and values", "client error", "defect", "later", "text"])
def test_what_is_counted_is_the_same(beside: HandlersBeside, outcome: str) -> None:
    prepared(beside)
    connections, recorder = beside.node.connections, beside.node.recorder
    found = []
    for wire, answers in ((beside.wires[0], beside.node.prepared), (beside.wires[1], None)):
        connections.prepared = answers
        before = connections.bytes_received, connections.bytes_sent
        recorder.close()
        for _ in range(3):
            beside.do(outcome)
            beside.node.dispatcher._defects = 0
            wire.send(request("/Instance/k1"))
        groups = {
            place: (group.durations, group.successes, group.statuses, group.sizes, group.transfers)
            for place, group in recorder._requests.items()
        }
        found.append((groups, connections.bytes_received - before[0], connections.bytes_sent - before[1]))
    beside.node.errors.clear()
    assert found[0] == found[1] and ("Instance", "GET") in found[0][0]


def test_they_use_up_the_share_of_input(beside: HandlersBeside) -> None:
    prepared(beside)
    node, share = beside.node, beside.node.connections.input
    node.connections.prepared = node.prepared
    wire = beside.wires[0]
    wire.arrive(request("/Instance/k1"))
    assert share.deadline and not share.is_over
    node.clock.advance(1.0)
    wire.arrive(request("/Instance/k1"))
    assert share.is_over
    node.settle()
    assert asyncio.all_tasks(node._loop) == set()
