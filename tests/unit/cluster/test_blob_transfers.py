"""svc.cluster.blob_source and blob_transfers: blobs of one node come to another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from svc.cluster.blob_source import CONTENT, END, FAILED, LATER, MORE, NOT_HERE, BlobSource, encode_request
from svc.cluster.blob_transfers import BlobTransfers
from svc.cluster.client import Unavailable
from svc.cluster.pieces import RequestRefused
from svc.errors import ServerError
from svc.store import Store
from svc.store.blobs import Blob, create_blob
from svc.store.blobs.expected import RemoteBlob
from svc.store.blobs.files import BlobFile
from svc.store.blobs.helper import ThreadHelper
from svc.store.database import Database
from svc.store.integrity.check import check_database
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode
from svc.store.writing.remote_transaction import Origin
from tests.support.fakes import FakeClock
from tests.support.remote import apply_all, sent_since

LARGE = bytes(range(256)) * (3 * CONTENT // 256 + 5)
SMALL = b"not so small: " + bytes(20_000)


class World:
    """Nodes a, b, c, which have been told of each other's writes by hand."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = FakeClock()
        self.nodes: dict[str, Node] = {}
        for name in ("a", "b", "c"):
            self.nodes[name] = Node(path / name, name, self)

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]


class Node:
    def __init__(self, path: Path, name: str, world: World) -> None:
        self.path, self.name, self.world = path, name, world
        self.sent: dict[str, int] = {}
        self.open()
        self.database.define_table(
            TableDefinition("Item", attributes=(Attribute("id", "ID", primary_key=True), Attribute("b", "Blob")), dynamic=True)
        )
        self.database.define_table(
            TableDefinition("Own", replicate=False, attributes=(Attribute("id", "ID", primary_key=True),), dynamic=True)
        )

    def open(self) -> None:
        self.store = Store(self.path, node=self.name, clock=self.world.clock)
        self.database: Database = self.store.open_database("data")
        self.database.enable_replication()
        self.logs: dict[str, Any] = {"data": SimpleNamespace(database=self.database)}
        self.source = BlobSource(self.logs, self.world.clock, lambda table: table.definition.replicate)
        self.peers: dict[str, FakePeer] = {name: FakePeer(self, name) for name in ("a", "b", "c") if name != self.name}
        self.transfers = BlobTransfers(self.logs, self.peers, self.world.clock)
        self.received: list[tuple[str, int]] = []
        self.transfers.on_received = lambda node, database, size: self.received.append((node, size))

    def reopen(self) -> None:
        self.store.close()
        self.open()

    @property
    def table(self) -> Any:
        return self.database.tables["Item"]

    def put(self, key: str, table: str = "Item", **values: Any) -> None:
        transaction = self.store.begin()
        transaction.put(self.database.tables[table], key, {"id": key, **values})
        transaction.apply()
        self.end_turn()

    def patch(self, key: str, **values: Any) -> None:
        transaction = self.store.begin()
        transaction.patch(self.table, key, values)
        transaction.apply()
        self.end_turn()

    def end_turn(self) -> None:
        self.store.commit_turn()
        self.store.end_turn()

    def tell(self, *names: str) -> None:
        """Others apply what this one has written since the last time."""
        for name in names:
            other = self.world[name]
            origin = Origin(self.name, self.name.encode() * 8)
            apply_all(other.database, [(origin, each) for each in sent_since(self.database, self.sent.get(name, 0))])
            other.end_turn()
            self.sent[name] = self.database.log.last_lsn
            self.store.end_turn()

    def blob(self, key: str, attribute: str = "b") -> Blob:
        self.store.end_turn()
        raw = self.table.get_raw(key)
        assert raw is not None
        found: Blob = decode(raw)[attribute]
        return found

    @property
    def expected(self) -> list[int]:
        self.store.end_turn()
        state = self.database.replication
        assert state is not None
        return state.blobs.numbers(self.database.snapshot(), 0, 1000)

    async def fetch(self, rounds: int = 400, until: Callable[[], bool] | None = None) -> None:
        """Let it fetch, until nothing is expected any more."""
        self.transfers._wake = asyncio.Event()  # of this loop
        task = asyncio.ensure_future(self.transfers.run())
        for _ in range(rounds):
            await asyncio.sleep(0.005)
            self.end_turn()
            if until() if until is not None else not self.expected and not self.transfers.running:
                break
        task.cancel()
        await self.transfers.close()
        self.end_turn()


class FakePeer:
    """What a node has of another one. `answers`: instead of the other's, by number of the request."""

    def __init__(self, own: Node, name: str) -> None:
        self.own, self.name = own, name
        self.is_connected = True
        self.asked = 0
        self.answers: Callable[[int, bytes], bytes] | None = None
        self.break_after: int | None = None

    async def ask_series(self, kind: str, requests: Callable[[int], bytes], *, seconds: float) -> AsyncIterator[bytes]:
        assert kind == "blob"
        other = self.own.world[self.name]
        for number in range(10_000):
            if not self.is_connected or (self.break_after is not None and self.asked >= self.break_after):
                raise Unavailable("it is gone")
            self.asked += 1
            other.store.end_turn()
            answer = await other.source.answer(self.own.name, requests(number))
            if self.answers is not None:
                answer = self.answers(number, answer)
            if not answer:
                return
            yield answer


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    for node in world.nodes.values():
        node.database.check()
        node.store.close()


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_content_follows_the_record(world: World) -> None:
    a, b = world["a"], world["b"]
    a.put("x", b=create_blob(LARGE, type="image/png"), more=[create_blob(SMALL)], inline=create_blob(b"few"))
    a.tell("b")
    blob = b.blob("x")
    assert (blob.size, blob.type, blob.is_arriving) == (len(LARGE), "image/png", True)
    assert b.blob("x", "inline").read() == b"few"
    assert blob.files is b.database.blobs and len(b.expected) == 2
    with pytest.raises(ServerError) as refusal:
        blob.read()
    assert refusal.value.code == "BLOB_ARRIVING"

    async def work() -> None:
        reading = asyncio.ensure_future(blob.bytes())  # waits for it
        await b.fetch()
        assert await reading == LARGE

    run(work())
    assert b.blob("x").read() == LARGE and b.blob("x", "more")[0].read() == SMALL  # type: ignore[index]
    assert not b.expected and sum(size for _, size in b.received) == len(LARGE) + len(SMALL)
    assert b.database.log.last_lsn == a.database.log.last_lsn


def test_a_blob_that_comes_again_with_its_record_has_the_same_file(world: World) -> None:
    a, b = world["a"], world["b"]
    a.put("x", b=create_blob(SMALL))
    a.tell("b")
    run(b.fetch())
    number = b.blob("x").number
    a.put("x", b=a.blob("x"), n=1)
    a.tell("b")
    assert b.blob("x").number == number and not b.expected and b.blob("x").read() == SMALL
    a.put("x", b=create_blob(LARGE))
    a.tell("b")
    assert b.blob("x").number != number
    run(b.fetch())
    assert b.blob("x").read() == LARGE


def test_a_blob_that_comes_late_is_there_for_as_long_as_the_log_has_it(world: World) -> None:
    """The record has that of a newer write already."""
    a, b, c = world["a"], world["b"], world["c"]
    a.put("x", n=1)
    a.tell("b", "c")
    for node, content in ((a, LARGE), (c, SMALL)):
        world.clock.advance(1)
        node.patch("x", b=create_blob(content))
    c.tell("b")
    a.tell("b")
    world.clock.advance(1)
    a.put("x", b=create_blob(SMALL), n=2)
    a.tell("b")
    b.database.check()
    run(b.fetch())
    (late,) = [entry for entry in b.database.log.read(b.database.snapshot()) if entry.is_merged]
    assert late.value is not None and decode(late.value)["b"].read() == LARGE and b.blob("x").read() == SMALL


def test_after_a_start_what_is_missing_is_known(world: World) -> None:
    a, b = world["a"], world["b"]
    a.put("x", b=create_blob(LARGE))
    a.put("y", b=create_blob(SMALL))
    a.tell("b")
    b.peers["a"].break_after = 2
    run(b.fetch(20))
    assert b.blob("x").is_arriving
    b.reopen()
    assert b.blob("x").is_arriving
    run(b.fetch())
    assert b.blob("x").read() == LARGE and b.blob("y").read() == SMALL


def test_a_crash_behind_the_last_byte_is_noticed(world: World) -> None:
    a, b = world["a"], world["b"]
    a.put("x", b=create_blob(SMALL))
    a.tell("b")
    (number,) = b.expected
    file = b.database.blobs.create_expected(number)
    assert file is not None and b.database.blobs.create_expected(number) is None, "it is locked"
    file.write(SMALL)
    file.finish()
    b.peers["a"].is_connected = False
    run(b.fetch())
    assert not b.expected and b.blob("x").read() == SMALL


@pytest.mark.parametrize("name", ["write", "finish"])
def test_the_end_waits_for_what_a_thread_writes(world: World, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Its descriptor is that of another file as soon as it is closed, perhaps that of a database."""
    a, b = world["a"], world["b"]
    a.put("x", b=create_blob(SMALL))
    a.tell("b")
    begun, go_on = Event(), Event()
    inner: Any = getattr(BlobFile, name)
    is_open: list[bool] = []

    def slow(file: BlobFile, *arguments: Any) -> None:
        begun.set()
        assert go_on.wait(60)
        is_open.append(bool(file._descriptors))
        inner(file, *arguments)

    monkeypatch.setattr(BlobFile, name, slow)

    async def work() -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as executor:
            monkeypatch.setattr(b.store, "helper", ThreadHelper(loop, executor))
            task = asyncio.ensure_future(b.transfers.run())
            await asyncio.to_thread(begun.wait, 60)
            task.cancel()
            end = asyncio.ensure_future(b.transfers.close())
            for _ in range(5):
                await asyncio.sleep(0)
            go_on.set()
            await end

    run(work())
    assert is_open == [True]
    b.reopen()
    run(b.fetch())
    assert b.blob("x").read() == SMALL


def test_others_that_have_it_are_asked(world: World) -> None:
    a, b, c = world["a"], world["b"], world["c"]
    a.put("x", b=create_blob(LARGE))
    a.tell("b", "c")
    c.peers["a"].is_connected = False
    run(c.fetch(10))
    assert c.expected, "b does not have it yet"
    run(b.fetch())
    c.transfers.connected()
    run(c.fetch())
    assert c.blob("x").read() == LARGE and {node for node, _ in c.received} == {"b"}


def test_one_goes_on_where_another_has_stopped(world: World) -> None:
    a, b, c = world["a"], world["b"], world["c"]
    a.put("x", b=create_blob(LARGE))
    a.tell("b", "c")
    run(b.fetch())
    c.peers["a"].break_after = 2
    run(c.fetch())
    assert c.blob("x").read() == LARGE and [node for node, _ in c.received] == ["a", "a", "b", "b"]


def test_what_has_failed_arrives_as_failed(world: World) -> None:
    a, b = world["a"], world["b"]

    async def broken() -> AsyncIterator[bytes]:
        yield bytes(10_000)
        raise OSError("the camera is gone")

    async def work() -> None:
        a.put("x", b=create_blob(broken(), size=None))
        a.tell("b")
        assert b.blob("x").size is None
        for _ in range(20):
            await asyncio.sleep(0.005)
        await b.fetch()
        assert not b.expected
        with pytest.raises(ServerError) as failure:
            await b.blob("x").bytes()
        assert failure.value.code == "BLOB_BROKEN"

    run(work())


def test_what_still_arrives_there_is_waited_for(world: World) -> None:
    a, b = world["a"], world["b"]

    async def work() -> None:
        gate = asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield LARGE[: CONTENT + 10]
            await gate.wait()
            yield LARGE[CONTENT + 10 :]

        a.put("x", b=create_blob(slow()))
        a.tell("b")
        task = asyncio.ensure_future(b.fetch())
        for _ in range(20):
            await asyncio.sleep(0.005)
        assert b.expected and a.source.is_busy
        gate.set()
        await task
        assert b.blob("x").read() == LARGE and b.blob("x").size == len(LARGE)

    run(work())


@pytest.mark.parametrize(
    "wrong",
    [
        lambda number, answer: answer + b"x" if answer[:1] == END else answer,
        lambda number, answer: answer[:-1] if answer[:1] == END else answer,
        lambda number, answer: MORE + answer[1:] if answer[:1] == END else answer,
        lambda number, answer: answer[:1] + b"" if number == 1 else answer,
        lambda number, answer: END + answer[1:],
        lambda number, answer: b"?",
        lambda number, answer: MORE + bytes(CONTENT),
        lambda number, answer: MORE + bytes(2 * CONTENT),
    ],
)
def test_other_bytes_than_the_reference_says_are_refused(world: World, wrong: Any) -> None:
    a, b = world["a"], world["b"]
    a.put("x", b=create_blob(LARGE))
    a.tell("b")
    b.peers["a"].answers = wrong
    run(b.fetch(30))
    assert len(b.expected) == 1 and b.blob("x").is_arriving
    b.peers["a"].answers = None
    b.transfers.connected()
    run(b.fetch())
    assert b.blob("x").read() == LARGE


def test_a_record_that_is_gone_needs_no_content(world: World) -> None:
    b = world["b"]
    state = b.database.replication
    assert state is not None
    state.blobs.expect(b.database.env.writer(), 77, RemoteBlob("a", b"12345678", 5, None))
    b.database.env.touch()
    b.database.env.commit()
    assert b.expected == [77], "the ledger does not have it: its record, and what the log had of it, are gone"
    run(b.fetch())
    assert not b.expected and not b.received
    b.store.end_turn()
    assert state.blobs.locals(b.database.snapshot(), b"", 10) == []


def test_many_come_a_few_at_a_time(world: World) -> None:
    a, b = world["a"], world["b"]
    for number in range(30):
        a.put(f"k{number}", b=create_blob(SMALL + bytes([number])))
    a.tell("b")
    most = 0

    def look() -> bool:
        nonlocal most
        most = max(most, b.transfers.running)
        return not b.expected

    run(b.fetch(4000, look))
    assert not b.expected and 0 < most <= 4
    assert all(b.blob(f"k{number}").read() == SMALL + bytes([number]) for number in range(30))


def test_who_asks_for_what_is_not_sent_gets_nothing(world: World) -> None:
    a = world["a"]
    a.put("secret", table="Own", b=create_blob(SMALL))
    raw = a.database.tables["Own"].get_raw("secret")
    assert raw is not None
    blob: Any = decode(raw)["b"]
    identity = a.database.blobs.identity

    async def work() -> None:
        for database, who, number in (
            ("data", identity, blob.number),
            ("data", b"somebody", 1),
            ("none", identity, 1),
            ("data", identity, 5),
        ):
            assert await a.source.answer("b", encode_request(database, who, number, 0)) == NOT_HERE
        for data in (
            b"",
            b"\xc1",
            b"\x95\x02\xa1d\xc4\x01x\x01\x00",
            encode_request("data", identity, -1, 0),
            encode_request("data", identity, 1, -5),
        ):
            with pytest.raises(RequestRefused):
                await a.source.answer("b", data)
        a.put("x", b=create_blob(SMALL))
        number = a.blob("x").number
        assert number is not None
        assert await a.source.answer("b", encode_request("data", identity, number, 0)) == END + SMALL
        assert await a.source.answer("b", encode_request("data", identity, number, 10**9)) == b""
        assert await a.source.drain(0.0) and LATER != FAILED

    run(work())


def test_the_check_of_a_database_knows_what_is_yet_to_come(world: World) -> None:
    a, b = world["a"], world["b"]
    a.put("x", b=create_blob(SMALL))
    a.tell("b")
    b.store.close()
    report = check_database(b.path / "data", blob_paths=b.store.blob_paths)
    assert report.ok and any("yet to come" in note for note in report.notes)
    b.open()


def test_who_ends_waits_for_those_that_fetch_and_not_for_those_that_are_gone(world: World) -> None:
    a, b = world["a"], world["b"]
    a.put("x", b=create_blob(LARGE))
    a.tell("b")
    b.peers["a"].break_after = 2

    async def work() -> None:
        await b.fetch(20)
        assert a.source.is_busy and not await a.source.drain(0.0)
        world.clock.advance(6)
        assert not a.source.is_busy and await a.source.drain(0.0)
        b.peers["a"].break_after = None
        b.transfers.connected()
        await b.fetch()
        assert not a.source.is_busy, "it has all of it"

    run(work())
