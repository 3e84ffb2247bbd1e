"""Reading a stream, of an engine that says what the test wants."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from svc.cluster.client import Connection, Message, Unavailable
from svc.cluster.reader import Gap, Gone, Lost, Replaced, StreamReader

STATE = {"first_seq": 5, "last_seq": 9, "messages": 5, "bytes": 500}


class FakeEngine:
    """`answers`: to what is asked, by the first words of the subject."""

    def __init__(self) -> None:
        self.on_closed: set[Callable[[str], None]] = set()
        self.reason = "closed"
        self.answers: dict[str, Any] = {"STREAM.INFO": {"created": "then", "state": STATE}, "CONSUMER.CREATE": {"name": "x"}}
        self.asked: list[tuple[str, Any]] = []
        self.take: Callable[[Message], None] = lambda message: None
        self._names = itertools.count()

    async def request(self, subject: str, data: bytes, *, seconds: float) -> Message:
        found = self.answers[".".join(subject.removeprefix("$JS.API.").split(".")[:2])]
        self.asked.append((subject, json.loads(data or b"null")))
        if isinstance(found, Exception):
            raise found
        return Message("", "", {}, found if isinstance(found, bytes) else json.dumps(found).encode())

    async def publish(self, subject: str, data: bytes, *, reply: str) -> None:
        self.asked.append((subject, json.loads(data)))

    async def subscribe(self, subject: str, take: Callable[[Message], None], **more: Any) -> Any:
        self.take = take
        return self

    async def stop(self) -> None: ...

    def new_inbox(self) -> str:
        return f"_INBOX.{next(self._names)}"

    def message(self, sequence: int) -> None:
        self.take(Message("svc.log.d.a", f"$JS.ACK.S.c.1.{sequence}.1.1.0", {"L": "1"}, b"%d" % sequence))

    def status(self, number: int, text: str) -> None:
        self.take(Message("x", "", {"Status": str(number), "Description": text}, b"", number))


def scene(work: Callable[[FakeEngine, Connection], Awaitable[None]]) -> None:
    async def run() -> None:
        engine = FakeEngine()
        await work(engine, cast(Connection, engine))

    asyncio.run(run())


async def opened(connection: Connection, start: int = 5, **more: Any) -> StreamReader:
    reader = await StreamReader.open(connection, "S", start, **more)
    assert isinstance(reader, StreamReader)
    return reader


async def waiting(reader: StreamReader) -> asyncio.Task[Any]:
    task = asyncio.create_task(reader.next_batch())
    for _ in range(5):
        await asyncio.sleep(0)
    return task


def test_batches_and_requests() -> None:
    async def work(engine: FakeEngine, connection: Connection) -> None:
        reader = await opened(connection, batch=2)
        task = await waiting(reader)
        engine.message(5)
        engine.message(6)
        assert [each.sequence for each in await task] == [5, 6]
        assert len([subject for subject, _ in engine.asked if "MSG.NEXT" in subject]) == 1  # none before it comes for more
        task = await waiting(reader)
        assert len([subject for subject, _ in engine.asked if "MSG.NEXT" in subject]) == 2
        engine.status(100, "Idle Heartbeat")
        engine.status(408, "Request Timeout")
        for _ in range(5):
            await asyncio.sleep(0)
        assert len([subject for subject, _ in engine.asked if "MSG.NEXT" in subject]) == 3
        engine.message(7)
        engine.status(409, "Message Size Exceeds MaxBytes")
        assert [each.sequence for each in await task] == [7]
        await reader.close()
        assert await reader.next_batch() == Lost("closed")
        assert not engine.on_closed

    scene(work)


@pytest.mark.parametrize(
    ("start", "created", "end"),
    [(4, None, Gap(5)), (1, "then", Gap(5)), (11, None, Replaced), (5, "before", Replaced), (10, "then", None), (9, None, None)],
)
def test_where_it_begins(start: int, created: str | None, end: Any) -> None:
    async def work(engine: FakeEngine, connection: Connection) -> None:
        found = await StreamReader.open(connection, "S", start, created=created)
        if end is None:
            assert isinstance(found, StreamReader)
        elif end is Replaced:
            assert isinstance(found, Replaced)
        else:
            assert found == end

    scene(work)


@pytest.mark.parametrize(
    ("call", "answer", "end"),
    [
        ("STREAM.INFO", {"error": {"code": 404, "err_code": 10059, "description": "stream not found"}}, Gone()),
        ("STREAM.INFO", {"error": {"code": 500, "err_code": 1, "description": "odd"}}, Lost("odd")),
        ("STREAM.INFO", {"error": "odd"}, Lost("odd")),
        ("STREAM.INFO", {"error": {"err_code": []}}, None),
        ("STREAM.INFO", b"nonsense", None),
        ("STREAM.INFO", b"[" * 100_000, None),
        ("STREAM.INFO", [], None),
        ("STREAM.INFO", {}, None),
        ("STREAM.INFO", {"created": 5, "state": STATE}, None),
        ("STREAM.INFO", {"created": "x", "state": {**STATE, "last_seq": "9"}}, None),
        ("STREAM.INFO", {"created": "x", "state": None}, None),
        ("STREAM.INFO", Unavailable("away"), None),
        ("CONSUMER.CREATE", {"error": {"code": 400, "err_code": 10026, "description": "too many"}}, Lost("too many")),
        ("CONSUMER.CREATE", b"", None),
        ("CONSUMER.CREATE", Unavailable("away"), None),
    ],
)
def test_strange_answers_end_it(call: str, answer: Any, end: Any) -> None:
    async def work(engine: FakeEngine, connection: Connection) -> None:
        engine.answers[call] = answer
        found = await StreamReader.open(connection, "S", 5)
        assert found == end if end is not None else isinstance(found, Lost)
        assert not engine.on_closed  # nothing is left of it

    scene(work)


@pytest.mark.parametrize(
    ("act", "end"),
    [
        (lambda engine: engine.message(6), Gap(6)),
        (lambda engine: engine.message(4), Lost("message 4 comes where 5 is next")),
        (lambda engine: engine.take(Message("s", "", {}, b"x")), Lost("it sends what was not asked for")),
        (lambda engine: engine.take(Message("s", "$JS.ACK.S.c.1.-5.1.1.0", {}, b"x")), Lost("it sends what was not asked for")),
        (lambda engine: engine.status(409, "Consumer Deleted"), Lost("the engine has ended it: 409 Consumer Deleted")),
        (lambda engine: engine.status(400, "Bad Request"), Lost("the engine has ended it: 400 Bad Request")),
        (lambda engine: engine.status(503, ""), Lost("the engine has ended it: 503")),
        (lambda engine: engine.status(409, "Message Size Exceeds MaxBytes"), Lost("a message is larger than what is asked for at once")),
        (lambda engine: [callback("gone") for callback in list(engine.on_closed)], Lost("gone")),
    ],
)
def test_what_ends_it(act: Callable[[FakeEngine], Any], end: Any) -> None:
    async def work(engine: FakeEngine, connection: Connection) -> None:
        reader = await opened(connection)
        task = await waiting(reader)
        act(engine)
        assert await task == end
        engine.message(5)
        assert await reader.next_batch() == end  # for good

    scene(work)


def test_more_than_was_asked_for_ends_it() -> None:
    async def work(engine: FakeEngine, connection: Connection) -> None:
        reader = await opened(connection, batch=2)
        task = await waiting(reader)
        for sequence in (5, 6, 7):
            engine.message(sequence)
        assert [each.sequence for each in await task] == [5, 6]
        assert await reader.next_batch() == Lost("it sends what was not asked for")

    scene(work)


def test_a_time_may_be_later_than_the_position() -> None:
    async def work(engine: FakeEngine, connection: Connection) -> None:
        reader = await opened(connection, 1, since="2026-01-01T00:00:00Z")
        task = await waiting(reader)
        engine.message(8)
        engine.message(9)
        assert [each.sequence for each in await task] == [8, 9]
        config = next(value["config"] for subject, value in engine.asked if "CONSUMER.CREATE" in subject)
        assert (config["deliver_policy"], config["opt_start_time"]) == ("by_start_time", "2026-01-01T00:00:00Z")

    scene(work)
