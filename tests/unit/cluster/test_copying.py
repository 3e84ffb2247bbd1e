"""svc.cluster.copying, copy_offers, copy_spool: a database is copied from another node, without sockets (spec: replication §11)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from svc.clock import FakeClock
from svc.cluster import copy_offers, copying
from svc.cluster.client import Unavailable
from svc.cluster.copy_offers import COPY, CopyOffers, request_copy, request_piece
from svc.cluster.copy_spool import Spool, SpoolWriter
from svc.cluster.copying import DatabaseCopying
from svc.cluster.pieces import PIECE, RequestRefused
from svc.store.schema import definition_to_bytes
from svc.store.writing.copied_write import BadCopy
from svc.store.writing.copy_apply import CopyHead
from tests.support.copies import ITEM, CopyNode

Change = Callable[[int, bytes], bytes]


class DirectSource:
    """A peer whose answers come at once. `change`: what becomes of them, by number; `refuse`: raises."""

    def __init__(self, offers: CopyOffers, name: str = "a", asker: str = "b") -> None:
        self.name = name
        self.is_connected = True
        self.change: Change = lambda number, data: data
        self.head: Callable[[bytes], bytes] = lambda data: data
        self.asked = 0
        self._offers = offers
        self._asker = asker

    async def ask(self, kind: str, data: bytes, *, seconds: float) -> bytes:
        assert kind == COPY
        self.asked += 1
        return self.head(await self._offers.copy(self._asker, data))

    async def ask_series(self, kind: str, requests: Callable[[int], bytes], *, seconds: float) -> AsyncIterator[bytes]:
        number = 0
        while True:
            answer = self.change(number, await self._offers.piece(self._asker, requests(number)))
            if not answer:
                return
            yield answer
            number += 1


class World:
    """Node b copies from node a."""

    def __init__(self, path: Path, clock: FakeClock) -> None:
        self.a, self.b = CopyNode(path, "a", clock), CopyNode(path, "b", clock)
        self.offers = CopyOffers("a", {"data": self.a.database}.get, lambda name: ("L__data__a", "then", 7), lambda table: True)
        self.source = DirectSource(self.offers)
        self.directory = path / "copies"
        self.paused: list[bool] = []

    def copying(self, **sources: Any) -> DatabaseCopying:
        async def pause() -> None:
            self.paused.append(True)

        return DatabaseCopying(
            self.b.database,
            self.directory,
            lambda: {"a": self.source, **sources},
            pause,
            lambda: self.paused.append(False),
            own_stream="L__data__b",
        )

    @asynccontextmanager
    async def turns(self) -> AsyncIterator[None]:
        async def turn() -> None:
            while True:
                await asyncio.sleep(0)
                for node in (self.a, self.b):
                    if node.store.has_pending:
                        node.store.commit_turn()
                    node.store.end_turn()

        task = asyncio.ensure_future(turn())
        try:
            yield
        finally:
            task.cancel()
            self.offers.close()
            for node in (self.a, self.b):
                node.store.end_turn()

    def run(self, work: Callable[[], Awaitable[None]]) -> None:
        async def all_of_it() -> None:
            async with self.turns():
                await asyncio.wait_for(work(), 60)

        asyncio.run(all_of_it())

    async def copy(self, keeper: DatabaseCopying, until: Callable[[], bool]) -> None:
        task = asyncio.ensure_future(keeper.run())
        keeper.want("a")
        while not until() and not task.done():  # noqa: ASYNC110 - that comes from the store
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, FakeClock())
    chance = random.Random(1)
    for number in range(300):
        world.a.put(f"k{number:03}", n=number, text=chance.randbytes(4000).hex())
    world.b.put("own", n=1)
    yield world
    for node in (world.a, world.b):
        node.store.check()
        node.close()


def is_copied(world: World) -> bool:
    return len(world.b.records()) == 301 and world.paused[-1:] == [False]


def test_it_is_fetched_and_put_in_place(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    keeper = world.copying()
    world.run(lambda: world.copy(keeper, lambda: is_copied(world)))
    assert world.paused == [True, False] and len(world.offers) == 0 and not list(world.directory.iterdir())
    state = world.b.database.replication
    assert state is not None and state.applied(world.b.database.snapshot(), world.a.origin) == 300
    assert state.all_hints(world.b.database.snapshot())["L__data__a"].sequence == 7
    world.b.store.end_turn()
    assert "% of the copy from a is fetched" in caplog.text and "in place" in caplog.text and "MB/s" in caplog.text


def test_what_lies_is_asked_again_later_and_nothing_of_it_is_put_in_place(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(copying, "LONGEST_PAUSE", 0.0)

    def endless(number: int, data: bytes) -> bytes:
        return data or b"\0\0\0\1\x90"

    def endless_and_large(number: int, data: bytes) -> bytes:
        frame = msgspec.msgpack.encode([[0, "x" * (PIECE - 12)]])
        frame = len(frame).to_bytes(4) + frame
        assert len(frame) == PIECE
        return frame

    def other_head(**values: Any) -> Callable[[bytes], bytes]:
        def change(data: bytes) -> bytes:
            number, head = msgspec.msgpack.decode(data, type=tuple[bytes, CopyHead])
            return msgspec.msgpack.encode((number, msgspec.structs.replace(head, **values)))

        return change

    lies: list[Change] = [
        lambda number, data: data[:-1],
        lambda number, data: data[1:],
        lambda number, data: data[: len(data) // 2],
        lambda number, data: b"" if number else data,
        lambda number, data: b"",
        lambda number, data: data[::-1],
        lambda number, data: b"\xff" * 100,
        lambda number, data: data * 2,
        endless,
        endless_and_large,
    ]
    monkeypatch.setattr(copying, "_MORE", 1 << 20)
    heads = [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: b"\x91" * 1000,
        other_head(node="c"),
        other_head(newest=-1),
        other_head(incarnation=b"x"),
        other_head(applied=[("b", world.b.origin.incarnation, 1 << 40)]),
        other_head(applied=[("b", b"", 1)]),
        other_head(version=float("nan")),
        other_head(hints=[("", "", 1)]),
    ]
    keeper = world.copying()

    async def work() -> None:
        for lie in lies:
            world.source.change = lie
            assert not await attempt()
        world.source.change = lambda number, data: data
        for head in heads:
            world.source.head = head
            assert not await attempt()
        world.source.head = lambda data: data
        world.source.change = lambda number, data: data.replace(b"k299", b"k29\xff")
        assert not await attempt()
        world.source.change = lambda number, data: data
        assert await attempt()

    async def attempt() -> bool:
        keeper.want("a")
        return await keeper._attempt()

    world.run(work)
    assert is_copied(world) and not list(world.directory.iterdir())


def test_another_node_is_asked_when_one_fails(world: World) -> None:
    other = DirectSource(world.offers, "c")

    async def unreachable(kind: str, data: bytes, *, seconds: float) -> bytes:
        raise Unavailable("it is away")

    other.ask = unreachable  # type: ignore[method-assign]
    keeper = world.copying(c=other)
    keeper.want("c")
    world.run(lambda: world.copy(keeper, lambda: is_copied(world)))
    assert world.source.asked == 1


def test_killed_while_it_is_put_in_place(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.store.writing.copy_apply.BATCH", 1)
    keeper = world.copying()
    world.run(lambda: world.copy(keeper, lambda: keeper.is_mixed and len(world.b.records()) > 20))
    assert keeper.is_mixed and not is_copied(world)
    world.b.close()
    world.b.open()
    again = world.copying()
    assert again.is_mixed
    world.source.is_connected = False
    world.run(lambda: world.copy(again, lambda: is_copied(world)))
    assert world.source.asked == 1, "nothing is needed of the other node any more"


def test_killed_and_the_file_is_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.store.writing.copy_apply.BATCH", 1)
    keeper = world.copying()
    world.run(lambda: world.copy(keeper, lambda: keeper.is_mixed and len(world.b.records()) > 20))
    for path in world.directory.iterdir():
        path.unlink()
    again = world.copying()
    world.run(lambda: world.copy(again, lambda: is_copied(world)))
    assert world.source.asked == 2


def test_one_that_is_copied_itself_and_too_many_are_refused(world: World) -> None:
    async def work() -> None:
        for node in ("b", "c"):
            await world.offers.copy(node, request_copy("data"))
        with pytest.raises(RequestRefused, match="2 copies"):
            await world.offers.copy("d", request_copy("data"))
        await world.offers.copy("b", request_copy("data"))  # in place of its other one
        assert len(world.offers) == 2
        with pytest.raises(RequestRefused, match="does not have"):
            await world.offers.copy("b", request_copy("other"))
        for data in (b"", b"\x91\x01", b"\x92\x02\xa1x", b"\xff" * 9):
            with pytest.raises(RequestRefused):
                await world.offers.copy("b", data)
            with pytest.raises(RequestRefused):
                await world.offers.piece("b", data)

    world.run(work)
    assert len(world.offers) == 0


def test_a_reader_that_goes_away_frees_the_snapshot(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_offers, "IDLE", 0.02)

    async def work() -> None:
        number, _ = msgspec.msgpack.decode(await world.offers.copy("b", request_copy("data")), type=tuple[bytes, CopyHead])
        assert len(await world.offers.piece("b", request_piece(number, 0))) == PIECE
        with pytest.raises(RequestRefused):
            await world.offers.piece("c", request_piece(number, 1))
        while len(world.offers):  # noqa: ASYNC110 - a timer ends it
            await asyncio.sleep(0.005)
        with pytest.raises(RequestRefused):
            await world.offers.piece("b", request_piece(number, 1))
        assert len(world.a.store.snapshots) == 0

    world.run(work)


def test_pieces_are_asked_for_in_their_order(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_offers, "PIECE", 1000)

    async def work() -> None:
        number, _ = msgspec.msgpack.decode(await world.offers.copy("b", request_copy("data")), type=tuple[bytes, CopyHead])
        second, first = await asyncio.gather(*(world.offers.piece("b", request_piece(number, place)) for place in (1, 0)))
        assert len(first) == len(second) == 1000 and first != second
        with pytest.raises(RequestRefused, match="order"):
            await world.offers.piece("b", request_piece(number, 100))

    world.run(work)


def test_the_file_is_whole_or_not_there(tmp_path: Path) -> None:
    head = CopyHead("a", bytes(8), 5, 1.0, [], [], {"Item": definition_to_bytes(ITEM)}, 5)
    piece = msgspec.msgpack.encode([[0, "Item"], [3, 1]])
    path = tmp_path / "new" / "x.copy"
    writer = SpoolWriter(path, head)
    for byte in len(piece).to_bytes(4) + piece:
        writer.add(bytes((byte,)))
        assert not path.exists()
    writer.finish()
    spool = Spool(path)
    assert spool.head == head and spool.piece(0) == piece and spool.piece(1) is None and spool.piece(0) == piece
    spool.close()
    data = path.read_bytes()
    for end in range(len(data)):
        path.write_bytes(data[:end])
        with pytest.raises(BadCopy):
            cut = Spool(path)
            try:
                if cut.piece(0) is None:
                    raise BadCopy("cut")
            finally:
                cut.close()
    writer = SpoolWriter(path, head)
    writer.add(len(piece).to_bytes(4))
    with pytest.raises(BadCopy):
        writer.finish()
    writer.close()
    assert not path.with_name("x.copy.part").exists()
