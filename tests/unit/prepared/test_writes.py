"""Queued writes on their connections: cut, pipelined, ended, slow, late; and what they do beside the general path."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from svc.errors import NoSpace, StoreFailure
from svc.prepared.writes import PLACE_MAX, cut_write
from svc.resources import TableResource
from svc.rest import Rest
from svc.store.env import Environment
from svc.store.schema import Attribute, TableDefinition
from svc.store.writing import queued_writes
from tests.support.events import parse_stream
from tests.support.hub import Sibling
from tests.support.node import whole
from tests.support.prepared_reads import authorization
from tests.support.prepared_writes import USERS, Twin, Twins, request

pytestmark = pytest.mark.programs

THING = TableDefinition(
    "Thing",
    attributes=(Attribute("id", "ID", primary_key=True), Attribute("name", "String", indexed=True), Attribute("size", "Int", indexed=True)),
)
PUT, POST, DELETE = request("PUT", "/Thing/k1", {"name": "a"}), request("POST", "/Thing/", {"name": "b"}), request("DELETE", "/Thing/k1")
KINDS = pytest.mark.parametrize("data", [PUT, POST, DELETE], ids=["PUT", "POST", "DELETE"])
TWO = request("GET", "/Thing/k1") + b"GET / HT"


@pytest.fixture
def twins(tmp_path: Path) -> Iterator[Twins]:
    """Everything is prepared for the super user, on the connections 0 and 1."""
    made = Twins(tmp_path)
    made.change(lambda twin: twin.define(THING))
    made.change(lambda twin: [twin.set_role(user, USERS[user]) for user in USERS])
    for data in (request("GET", "/Thing/none"), DELETE, PUT, POST, DELETE, PUT, POST):
        made.ask(data, request("GET", "/Thing/none"))
    assert made.hits == 3
    for twin in made.both:
        for wire in twin.wires:
            wire.sock.sent = b""
    yield made
    made.compare()
    made.close()


def both(twins: Twins, steps: Callable[[Twin], object]) -> Any:
    """What is the same with both."""
    found = [steps(twin) for twin in twins.both]
    assert found[0] == found[1]
    return found[0]


def sent(twin: Twin, number: int = 0) -> str:
    sock = twin.wires[number].sock
    text, sock.sent = sock.sent.decode("latin-1"), b""
    return twin.plain(text)


@KINDS
def test_cut_anywhere(twins: Twins, data: bytes) -> None:
    for at in range(1, len(data), 7):
        both(twins, lambda twin, at=at: [twin.wire(0).send(data[:at], data[at:]), sent(twin)][1])
    hits = twins.hits
    both(twins, lambda twin: [twin.wire(0).send(data), sent(twin)][1])
    assert twins.hits == hits + 1


@KINDS
@pytest.mark.parametrize("more", [b"G", b"\r\n", TWO, PUT, PUT[:-1], POST, DELETE + PUT, b"\0", b"x" * 5000])
def test_more_arrives_with_it(twins: Twins, data: bytes, more: bytes) -> None:
    hits = twins.hits
    both(twins, lambda twin: [twin.wire(0).send(data + more), sent(twin), twin.wires[0].connection.closed][1:])
    assert twins.hits == hits


@KINDS
@pytest.mark.parametrize("more", [b"G", b"\r\n", TWO, PUT, PUT[:-1], POST, DELETE + PUT, b"\0", b"x" * 5000])
def test_more_arrives_while_it_waits(twins: Twins, data: bytes, more: bytes) -> None:
    """It is one request after the other, as always."""

    def steps(twin: Twin) -> list[Any]:
        wire = twin.wire(0)
        wire.arrive(data)
        wire.arrive(more)
        twin.node.settle()
        twin.take_heard()
        return [sent(twin), wire.connection.closed, wire.connection.state, wire.send(b"\r\n\r\n") and sent(twin)]

    hits = twins.hits
    answers = both(twins, steps)
    assert answers[0].startswith("HTTP/1.1 20") and twins.hits > hits


@KINDS
@pytest.mark.parametrize("more", [b"", b"GET / HT", TWO])
def test_the_peer_ends_its_half(twins: Twins, data: bytes, more: bytes) -> None:
    def steps(twin: Twin) -> list[Any]:
        wire = twin.wire(0)
        wire.arrive(data)
        if more:
            wire.arrive(more)
        wire.arrive(b"")
        twin.node.settle()
        return [sent(twin), wire.connection.closed]

    answer, is_closed = both(twins, steps)
    assert answer.startswith("HTTP/1.1 20") and is_closed


@KINDS
def test_the_peer_has_gone(twins: Twins, data: bytes) -> None:
    """What it has written is kept, and nothing is recorded of an answer."""

    def steps(twin: Twin) -> list[Any]:
        wire, recorder = twin.wire(0), twin.node.recorder
        recorder.close()
        wire.arrive(data)
        wire.sock.incoming.append(ConnectionResetError())
        twin.node.connections.loop.readers[wire.sock]()
        twin.node.settle()
        return [sent(twin), wire.connection.closed, list(recorder._requests)]

    assert both(twins, steps) == ["", True, []]


@KINDS
def test_the_peer_has_gone_and_the_write_is_left_to_others(twins: Twins, data: bytes) -> None:
    def steps(twin: Twin) -> list[Any]:
        wire = twin.wire(0)
        wire.arrive(data)
        wire.connection.close_now()
        with mock.patch.object(queued_writes._Writes, "end", side_effect=StoreFailure("no")):
            twin.node.settle()
        return [sent(twin), wire.connection.closed]

    assert both(twins, steps) == ["", True]


@KINDS
def test_a_peer_that_takes_little(twins: Twins, data: bytes) -> None:
    def steps(twin: Twin) -> list[Any]:
        wire, connections = twin.wire(0), twin.node.connections
        wire.sock.room = 10
        first = [wire.send(data), connections.held > 0]
        wire.send(data)  # waits behind the rest of the first
        wire.sock.room = 1 << 20
        connections.loop.writers[wire.sock]()
        twin.node.settle()
        return [*first, connections.held, sent(twin), wire.connection.closed]

    found = both(twins, steps)
    assert found[:3] == [b"HTTP/1.1 2", True, 0] and found[3].count("HTTP/1.1 20") == 2


@KINDS
def test_a_server_that_stops(twins: Twins, data: bytes) -> None:
    def steps(twin: Twin) -> list[Any]:
        wire = twin.wire(0)
        wire.arrive(data)
        twin.node.connections.drain()
        twin.node.settle()
        return [sent(twin), wire.connection.closed]

    answer, is_closed = both(twins, steps)
    assert "Connection: close" in answer and is_closed


@KINDS
def test_a_turn_that_does_not_end_in_time(twins: Twins, data: bytes) -> None:
    def steps(twin: Twin) -> list[Any]:
        wire, node = twin.wire(0), twin.node
        wire.arrive(data)
        node.clock.advance(121)
        node.connections.sweep(node.clock.monotonic())
        node.connections.end_turn()
        late = sent(twin)
        node.settle()
        return [late, sent(twin), wire.connection.state]

    late, more, _ = both(twins, steps)
    assert late.startswith("HTTP/1.1 503 ") and "TIMEOUT" in late and more == ""


@KINDS
def test_it_is_timed_as_others(twins: Twins, data: bytes) -> None:
    def steps(twin: Twin) -> list[Any]:
        node, wire = twin.node, twin.wire(0)
        node.recorder.close()
        before = node.connections.bytes_received, node.connections.bytes_sent, node.store.transactions
        for _ in range(3):
            wire.arrive(data)
            node.clock.advance(0.0125)
            node.settle()
        groups = {
            place: (group.durations, group.successes, group.statuses, group.sizes, group.transfers)
            for place, group in node.recorder._requests.items()
        }
        after = node.connections.bytes_received, node.connections.bytes_sent, node.store.transactions
        return [sent(twin), groups, [b - a for a, b in zip(before, after, strict=True)]]

    text, groups, _ = both(twins, steps)
    assert "db;dur=12.5" in text and len(groups) == 1


@pytest.mark.parametrize("advance", [29, 31])
def test_an_idle_connection_ends_after_its_last_answer(twins: Twins, advance: int) -> None:
    def steps(twin: Twin) -> list[bool]:
        twin.node.pass_time(20)
        found = [twin.wire(0).connection.closed]
        twin.wire(0).send(PUT)
        twin.node.pass_time(advance)
        return [*found, twin.wires[0].connection.closed]

    assert both(twins, steps) == [False, advance > 30]


def test_they_use_up_the_share_of_input(twins: Twins) -> None:
    twin = twins.prepared
    share = twin.node.connections.input
    first, second = twin.wire(0), twin.wire(1)
    first.arrive(PUT)
    assert share.deadline and not share.is_over
    twin.node.clock.advance(1.0)
    second.arrive(POST)
    assert share.is_over
    hits = twin.hits
    third = twin.wire(2)
    third.arrive(PUT)
    assert twin.hits == hits  # it is in line
    twin.node.settle()
    assert twin.hits == hits + 1 and third.sock.sent.startswith(b"HTTP/1.1 204 ")
    for data in (PUT, POST, PUT):
        twins.general.wire(0).send(data)
    twins.general.take_heard(), twin.take_heard()


def test_the_first_request_of_a_connection(twins: Twins) -> None:
    hits = twins.hits
    both(twins, lambda twin: [twin.wire(5).send(POST), twin.wires[5].send(PUT), sent(twin, 5)][2])
    assert twins.hits == hits + 2


def test_a_commit_that_fails(twins: Twins) -> None:
    """The answers are those of others; nothing is kept."""

    def failing(self: Environment) -> None:
        self.abort()
        raise NoSpace

    for data in (PUT, POST, DELETE):
        with mock.patch.object(Environment, "commit", failing):
            answer = twins.ask(data)[0]
        assert answer.startswith(b"HTTP/1.1 507 "), answer
    assert twins.ask(PUT)[0].startswith(b"HTTP/1.1 204 ")


def test_the_same_record_again_and_again_in_one_turn(twins: Twins) -> None:
    """In the order in which they have come."""
    hits = twins.hits
    twins.ask(PUT, POST, DELETE, PUT, request("PUT", "/Thing/k1", {"size": 1}), request("POST", "/Thing/", {"id": "k2"}))
    assert twins.hits == hits + 6
    assert b'"size":1' in twins.ask(request("GET", "/Thing/k1"))[0]


def test_keys_that_are_taken(twins: Twins) -> None:
    twins.ask(PUT)
    hits = twins.hits
    answers = twins.ask(request("POST", "/Thing/", {"id": "k1"}), POST)
    assert answers[0].startswith(b"HTTP/1.1 409 ") and answers[1].startswith(b"HTTP/1.1 201 ") and twins.hits == hits + 2


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"5", b"null", {"size": "x"}, {"undeclared": 1}, {"size": 2**31}, {"id": 5}, {"id": "other"}, {"name": None}, {"size": 1.0},
        {"name": "x" * 3000}, b'{"size": 1e400}', b'{"name": "\\ud800"}', b'\xef\xbb\xbf{"size": 1}', b'{"name": "\xff"}', {"contentType": "a/b", "data": "x"},
    ],
)  # fmt: skip
def test_bodies(twins: Twins, body: Any) -> None:
    for method, path in (("PUT", "/Thing/k1"), ("POST", "/Thing/")):
        twins.ask(request(method, path, body))
        twins.ask(request(method, path, body))


@pytest.mark.parametrize("key", ["k.1", "a%20b", "a/b", "", "k" * 401, "~", "k1?", "k1?size=1", "k1.csv", "k1.size", "k1;x", "\xff"])
def test_keys(twins: Twins, key: str) -> None:
    for data in (PUT, DELETE):
        twins.ask(data.replace(b"/Thing/k1 ", f"/Thing/{key} ".encode("latin-1")))
    twins.ask(request("POST", "/Thing/", {"id": key}))


@pytest.mark.parametrize(
    "field",
    [
        "If-Match: *", "If-None-Match: *", "If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT", "Content-Encoding: gzip", "Connection: close",
        "Expect: 100-continue", "Transfer-Encoding: chunked", "Content-Length: 2", "Content-length: 14", "Content-Range: bytes 0-1/2", "Cookie: a=b",
        "Origin: https://elsewhere.example", "Upgrade: websocket", "Range: bytes=0-1", "Prefer: return=minimal", "Accept: text/csv", "Accept: image/png",
        "Accept-Encoding: gzip", "X-Content: \r\n folded", "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        f"X-Long: {'x' * PLACE_MAX}", "X-A: Content-Length: 3",
    ],
)  # fmt: skip
def test_fields(twins: Twins, field: str) -> None:
    for data in (PUT, POST, DELETE):
        for before in (b"\r\nHost: ", b"\r\nAuthorization: "):
            for _ in range(2):
                twins.ask(data.replace(before, b"\r\n" + field.encode() + before, 1))


@pytest.mark.parametrize("length", ["13", "15", "014", "+14", "14 ", " 14", "1 4", "14,14", "0x0e", "", "99999999999999999999"])
def test_lengths(twins: Twins, length: str) -> None:
    assert b"Content-Length: 13\r\n" in PUT
    twins.ask(PUT.replace(b"Content-Length: 13\r\n", f"Content-Length: {length}\r\n".encode()))


def test_a_length_that_is_spelled_in_lower_case(twins: Twins) -> None:
    hits = twins.hits
    for number in range(3):
        twins.ask(request("PUT", "/Thing/k1", {"name": "x" * number}).replace(b"Content-Length", b"content-length"))
    assert twins.hits == hits + 2


def test_bodies_of_any_length(twins: Twins) -> None:
    hits = twins.hits
    for number in range(20):
        twins.ask(request("PUT", "/Thing/k1", {"name": "x" * number * number}))
    assert twins.hits == hits + 20


def test_limits(twins: Twins) -> None:
    data = request("PUT", "/Thing/k1", {"name": "x" * 200})
    for limit, value in (("max_body_size", 100), ("max_header_size", 100)):
        for twin in twins.both:
            object.__setattr__(twin.node.connections.limits, limit, value)
        for twin in twins.both:
            twin.wires.clear()
        hits = twins.hits
        assert twins.ask(data)[0][9:12] in (b"413", b"431", b"414") and twins.hits == hits
        for twin in twins.both:
            object.__setattr__(twin.node.connections.limits, limit, 1 << 20)


def test_rights_end_with_the_role(twins: Twins) -> None:
    for user in ("writer", "inserter", "eraser", "few", "nobody", None):
        for right in ((), ("insert",), ("update",), ("insert", "update"), ("delete",)):
            twins.change(lambda twin, user=user, right=right: user and twin.set_role(user, right))
            for _ in range(3):
                twins.ask(
                    *[
                        request(*each, user=user)
                        for each in (("PUT", "/Thing/k1", {"size": 1}), ("POST", "/Thing", {}), ("DELETE", "/Thing/k3"))
                    ]
                )
    assert twins.hits > 20


def test_a_record_that_shows_raw_content(twins: Twins) -> None:
    content = request("PUT", "/Thing/k1", b"text", fields={"Content-Type": "text/plain"})
    assert twins.ask(content)[0].startswith(b"HTTP/1.1 204 ")
    hits = twins.hits
    twins.ask(PUT)
    assert twins.hits == hits + 1
    assert b'"name":"a"' in twins.ask(request("GET", "/Thing/k1"))[0]


def test_a_body_that_repeats_what_is_stored(twins: Twins) -> None:
    """Values that JSON shows in another form stay what they are."""

    def store_date(twin: Twin) -> None:
        from datetime import UTC, datetime

        transaction = twin.node.store.begin()
        transaction.put(twin.database.tables["Product"], "k1", {"id": "k1", "specs": datetime(2024, 1, 5, tzinfo=UTC), "stock": 1})
        transaction.apply()
        twin.node.settle()

    twins.change(store_date)
    for stock in range(4):
        twins.ask(request("PUT", "/Product/k1", {"specs": "2024-01-05T00:00:00.000Z", "stock": stock}))
    both(twins, lambda twin: re.findall("datetime", str(twin.records())) != [])


def test_subscribers_hear_of_them(twins: Twins) -> None:
    events = request("GET", "/Thing/", None, fields={"Accept": "text/event-stream"})
    twins.change(lambda twin: twin.wire(6).send(events))
    for twin in twins.both:
        assert sent(twin, 6).startswith("HTTP/1.1 200 ")
    hits = twins.hits
    twins.ask(PUT, POST, request("PUT", "/Thing/k2", {"size": 1}))
    twins.ask(DELETE)

    def heard(twin: Twin) -> list[str]:
        text = twin.plain(whole(twin.wires[6].sock.sent + b"0\r\n\r\n").decode())
        return [re.sub(r'"(version|timestamp|localTime)":[^,}]+', "", event["data"]) for event in parse_stream(text) if event.get("data")]

    found = both(twins, heard)
    assert twins.hits == hits + 4 and len(found) == 4, found


def test_another_table_at_the_address(twins: Twins) -> None:
    other = TableDefinition("Other", attributes=(*THING.attributes, Attribute("more", "String", required=True)))
    twins.change(lambda twin: twin.define(other))

    def move(twin: Twin) -> None:
        found = twin.node.resources.find("/Other", "rest")
        assert found is not None
        twin.node.resources.remove("Thing")
        twin.node.resources.set("Thing", found[0].resource)

    twins.change(move)
    assert twins.ask(PUT)[0].startswith(b"HTTP/1.1 400 ")
    twins.change(lambda twin: twin.node.resources.remove("Thing"))
    assert twins.ask(PUT)[0].startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize("step", ["handle", "authorize", "on_put", "on_post", "on_delete", "bind", "admit"])
def test_code_of_an_application_is_asked(twins: Twins, step: str) -> None:
    asked: list[str] = []

    def serve(twin: Twin) -> None:
        def own(made: Any) -> Any:
            def called(cls: Any, *args: Any) -> Any:
                asked.append(step)
                return getattr(super(own_class, cls), step)(*args)

            own_class = type("Own", (made,), {step: classmethod(called)})
            assert issubclass(own_class, TableResource)
            return own_class

        twin.node.resources.remove("Thing")
        twin.serve(twin.database.tables["Thing"], own)

    twins.change(serve)
    for _ in range(3):
        for data in (PUT, POST, DELETE):
            twins.ask(data)
    assert len(asked) >= 6 and len(asked) % 2 == 0


def test_a_listener_comes_first(twins: Twins) -> None:
    asked: list[str] = []

    def listen(twin: Twin) -> None:
        def listener(request: Any, next_: Callable[[Any], Any]) -> Any:
            asked.append(request.method)
            return next_(request)

        twin.node.server.http(listener, run_first=True)

    twins.change(listen)
    hits = twins.hits
    twins.ask(PUT, POST, DELETE)
    assert twins.hits == hits and len(asked) == 6


def test_a_listener_that_comes_while_it_waits(twins: Twins) -> None:
    def steps(twin: Twin) -> str:
        wire = twin.wire(0)
        wire.arrive(PUT)
        twin.node.server.http(lambda request, next_: next_(request), run_first=True)
        with mock.patch.object(queued_writes._Writes, "end", side_effect=StoreFailure("no")):
            twin.node.settle()
        return sent(twin)

    assert both(twins, steps).startswith("HTTP/1.1 204 ")
    twins.prepared.take_heard(), twins.general.take_heard()


def test_what_is_left_to_the_general_path_may_wait(twins: Twins) -> None:
    """For a long write that has begun meanwhile, in a task of its own."""

    class Holder:
        since, about = 0.0, "a load"

        def yield_writer(self) -> None: ...

    twin = twins.prepared
    wire = twin.wire(0)
    wire.arrive(PUT)
    assert len(twin.database.queued_writes) == 1
    env, queue = twin.database.env, twin.node.store.queue_of(twin.database)
    env.hold(Holder())  # type: ignore[arg-type]
    twin.node.run(queue.acquire(1))
    twin.node.store.commit_turn()
    assert twin.node.connections.end_turn()  # there is a task now
    assert not wire.sock.sent.startswith(b"HTTP/1.1 204 ")
    env.holder = None
    queue.release()
    twin.node.settle()
    assert wire.sock.sent.startswith(b"HTTP/1.1 204 ")
    twins.general.wire(0).send(PUT)
    twins.general.take_heard(), twin.take_heard()


def test_nothing_is_queued_behind_a_long_write(twins: Twins) -> None:
    class Holder:
        since, about = 0.0, "a load"

        def yield_writer(self) -> None:
            env.holder = None

    twin = twins.prepared
    env, hits = twin.database.env, twin.hits
    for data in (PUT, POST, DELETE):
        env.hold(Holder())  # type: ignore[arg-type]
        twin.wire(0).send(data)
        twins.general.wire(0).send(data)
        env.holder = None
        twin.node.pass_loop_time(1.0)
    assert twin.hits == hits
    twins.general.take_heard(), twin.take_heard()


def test_another_process_commits_meanwhile(twins: Twins) -> None:
    sibling = Sibling()
    try:
        path = twins.prepared.database.env.path.parent
        sibling.open(path)
        for number in range(3):
            for data in (PUT, request("PUT", "/Thing/k2", {"size": number}), DELETE):
                wire = twins.prepared.wire(0)
                wire.sock.sent = b""
                wire.arrive(data)
                sibling.write(
                    twins.prepared.node.clock.wall() + 100,
                    [["data", "Thing", "put", f"other{number}", {"id": f"other{number}", "size": number}]],
                )
                twins.prepared.node.settle()
                assert wire.sock.sent.startswith(b"HTTP/1.1 204 ")
        twins.prepared.database.check()
        table = twins.prepared.database.tables["Thing"]
        assert {key for key in ("k1", "k2", "other0", "other2") if table.get_raw(key) is not None} == {"k2", "other0", "other2"}
        assert twins.hits >= 9
        sibling.close()
    finally:
        sibling.stop()
    for data in [PUT, request("PUT", "/Thing/k2", {"size": 2}), DELETE]:
        twins.general.wire(0).send(data)
    twins.prepared.node.store.end_turn()
    twins.compare = lambda: None  # type: ignore[method-assign]  # the other one has no sibling


def test_their_number_is_bounded(twins: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twins.prepared.node.prepared.writes.kept, "_most", 8)
    for number in range(30):
        twins.ask(request("PUT", "/Thing/k1", {"size": 1}, fields={"X-Number": str(number)}))
        twins.ask(request("PUT", "/Thing/k1", {"size": 1}, fields={"X-Number": str(number)}))
    assert 0 < len(twins.prepared.node.prepared.writes.kept.values()) <= 16


def test_what_is_prepared_ends_with_the_credentials(twins: Twins) -> None:
    for _ in range(4):
        twins.change(lambda twin: twin.node.pass_time(29))
        for data in (PUT, POST, PUT):  # the first one is answered when the password has been verified
            twins.ask(data)
    hits = twins.hits
    twins.ask(PUT)
    assert twins.hits == hits + 1


def test_wrong_credentials(twins: Twins) -> None:
    wrong = authorization("root")["Authorization"].encode()
    twins.ask(PUT.replace(wrong, wrong[:-4] + b"XXXX"))


def test_an_endpoint_at_the_address(twins: Twins) -> None:
    class Endpoint:
        methods = ("POST",)

        def handle(self, request: Any) -> Any:
            from svc.messages import Response

            return Response(b"own", 200)

    assert isinstance(twins.prepared.node.rest, Rest)
    twins.change(lambda twin: twin.node.rest.serve("/Thing/", Endpoint()))  # type: ignore[arg-type]
    for _ in range(3):
        assert twins.ask(POST)[0].endswith(b"own")
    twins.change(lambda twin: twin.node.rest.serve("/Thing/", None))
    for _ in range(3):
        assert twins.ask(POST)[0].startswith(b"HTTP/1.1 201 ")


@pytest.mark.parametrize(
    "data",
    [
        b"PUT /A/k HTTP/1.1\r\nContent-Length: 2\r\n\r\n{", b"PUT /A/k HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}\r\n", b"PUT /A/k HTTP/1.1\r\n\r\n",
        b"PATCH /A/k HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", b"PUT /A/k HTTP/1.1\r\nContent-Length: 02\r\n\r\n{}", b"DELETE /A/k HTTP/1.1\r\n\r\n{}",
        b"DELETE /A/ HTTP/1.1\r\n\r\n", b"DELETE /A/k?q HTTP/1.1\r\n\r\n", b"PUT /A/k HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}", b"PUT", b"",
        b"PUT /A/k HTTP/1.1\r\nContent-Length: 2\r\n", b"PUT /A/k HTTP/1.1\r\nX: \r\n\r\nContent-Length: 0\r\n\r\n", b"POST / HTTP/1.1\r\nA: b\r\n\r\n",
    ],
)  # fmt: skip
def test_what_is_not_looked_for(data: bytes) -> None:
    assert cut_write(data) is None
