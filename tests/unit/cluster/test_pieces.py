"""Large requests, over a connection that is no connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import pytest

from svc.cluster import pieces
from svc.cluster.client import Connection, Message, Unavailable
from svc.cluster.pieces import IN_FLIGHT, PIECE, Answers, RequestRefused, ask, ask_series


class Wire:
    """Both ends: what is asked goes to who has subscribed. `seen`: the headers and sizes of what was sent."""

    def __init__(self) -> None:
        self.take: Callable[[Message], None] | None = None
        self.waiting: dict[str, asyncio.Future[Message]] = {}
        self.seen: list[tuple[dict[str, str], int]] = []
        self.most = 0
        self.change: Callable[[Message], Message] = lambda message: message

    async def request(self, subject: str, data: bytes, headers: Mapping[str, str], *, seconds: float) -> Message:
        self.seen.append((dict(headers), len(data)))
        reply = str(len(self.seen))
        future = self.waiting[reply] = asyncio.get_running_loop().create_future()
        self.most = max(self.most, len(self.waiting))
        assert self.take is not None
        self.take(Message(subject, reply, headers, bytes(data)))
        return await future

    async def publish(self, subject: str, data: bytes, headers: Mapping[str, str]) -> None:
        self.waiting.pop(subject).set_result(self.change(Message("", "", headers, data)))

    async def subscribe(self, subject: str, take: Callable[[Message], None], **more: Any) -> Any:
        self.take = take
        return self

    async def stop(self) -> None:
        self.take = None

    async def settle(self) -> None: ...


def scene(work: Callable[[Wire, Connection, Answers], Awaitable[None]]) -> None:
    async def run() -> None:
        async def echo(subject: str, data: bytes) -> bytes:
            if data == b"fail":
                raise ZeroDivisionError
            if data.startswith(b"large "):
                return bytes(int(data[6:]))
            return data

        wire = Wire()
        connection = cast(Connection, wire)
        answers = Answers(connection, echo)
        await answers.open("ask")
        await work(wire, connection, answers)
        answers.check()
        await answers.close()
        answers.check()
        assert answers._size == 0
        while answers._tasks:  # noqa: ASYNC110
            await asyncio.sleep(0)

    asyncio.run(run())


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 7 * PIECE + 5])
def test_any_size_arrives(size: int) -> None:
    async def work(wire: Wire, connection: Connection, answers: Answers) -> None:
        data = bytes(range(256)) * (size // 256 + 1)
        assert await ask(connection, "ask", data[:size], seconds=1) == data[:size]
        assert wire.most <= IN_FLIGHT
        assert max(sent for _, sent in wire.seen) <= PIECE

    scene(work)


def test_a_series_ends_with_an_empty_answer() -> None:
    async def work(wire: Wire, connection: Connection, answers: Answers) -> None:
        found = [part async for part in ask_series(connection, "ask", lambda number: b"%d" % number if number < 9 else b"", seconds=1)]
        assert found == [b"%d" % number for number in range(9)]
        assert wire.most <= IN_FLIGHT

    scene(work)


def test_a_handler_that_fails_tells_nothing_of_it(caplog: pytest.LogCaptureFixture) -> None:
    async def work(wire: Wire, connection: Connection, answers: Answers) -> None:
        with pytest.raises(RequestRefused, match=r"^it failed$"):
            await ask(connection, "ask", b"fail", seconds=1)

    scene(work)
    assert "ZeroDivisionError" in caplog.text


STRANGE = [
    {},
    {"Other": "1"},
    *(
        {"Piece": text}
        for text in ("", "a", "a 1", "a 1 2 3", "a -1 2", "a x 2", "a 2 2", "a 0 1", "a 0 9999", "a 0 ٣", " 0 2", "x" * 99 + " 0 2")
    ),
    *({"Fetch": text} for text in ("", "a", "a 0", "a 1 1", "a 99999999999")),
]


@pytest.mark.parametrize("headers", STRANGE, ids=str)
def test_strange_requests_are_refused(headers: dict[str, str]) -> None:
    async def work(wire: Wire, connection: Connection, answers: Answers) -> None:
        answer = await wire.request("ask", b"x", headers, seconds=1)
        assert "Error" in answer.headers

    scene(work)


def test_pieces_twice_empty_or_of_another_count_end_the_request() -> None:
    async def work(wire: Wire, connection: Connection, answers: Answers) -> None:
        for second, data in (("a 0 3", b"x"), ("a 1 4", b"x"), ("a 1 3", b""), ("a 1 3", bytes(PIECE + 1))):
            kept = await wire.request("ask", b"x", {"Piece": "a 0 3"}, seconds=1)
            assert kept.headers == {"Part": "kept"}
            assert "Error" in (await wire.request("ask", data, {"Piece": second}, seconds=1)).headers
            answers._drop(answers._requests, ("ask", "a"))
            answers.check()

    scene(work)


def test_what_is_kept_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "KEPT", 3 * PIECE)

    async def work(wire: Wire, connection: Connection, answers: Answers) -> None:
        for name in "abc":
            assert (await wire.request("ask", bytes(PIECE), {"Piece": f"{name} 0 2"}, seconds=1)).headers == {"Part": "kept"}
        assert "later" in (await wire.request("ask", b"x", {"Piece": "d 0 2"}, seconds=1)).headers["Error"]
        with pytest.raises(RequestRefused, match="too large"):
            await ask(connection, "ask", b"large %d" % (2 * PIECE), seconds=1)
        assert await ask(connection, "ask", b"small", seconds=1) == b"small"

    scene(work)


@pytest.mark.parametrize("part", ["kept", "", "a", "a 0", "a 1", "a 1000000", "a x", "a 3 3"])
def test_a_strange_answer_fails(part: str) -> None:
    async def work(wire: Wire, connection: Connection, answers: Answers) -> None:
        wire.change = lambda message: Message("", "", {"Part": part}, b"")
        with pytest.raises(Unavailable):
            await ask(connection, "ask", b"x", seconds=1)

    scene(work)


def test_an_answer_without_end_fails() -> None:
    async def work(wire: Wire, connection: Connection, answers: Answers) -> None:
        wire.change = lambda message: Message("", "", {"Part": "a 128"}, bytes(1 << 20))
        with pytest.raises(Unavailable, match="too large"):
            await ask(connection, "ask", b"x", seconds=1)

    scene(work)
