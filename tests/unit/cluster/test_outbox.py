"""svc.cluster.outbox: the log of a database becomes the messages of its stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from svc.cluster.assembly import Assembler, Delivery
from svc.cluster.outbox import NotPublished, Outbox, StreamEnd
from svc.cluster.streams import Accepted, Conflict, NotStored, Publication
from svc.cluster.wire import Head, Message
from svc.store import Store
from svc.store.schema import Attribute, TableDefinition, definition_from_bytes
from svc.store.table_drops import drop_table
from tests.unit.store.writing.test_long_write import Turns

INCARNATION = b"12345678"


def table_of(name: str, *more: Attribute) -> TableDefinition:
    return TableDefinition(name, attributes=(Attribute("id", "ID", primary_key=True), *more))


class FakeStream:
    """An engine's stream in memory. `outcomes`: what publishing gives instead of the usual, first ones first."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.dropped = 0
        self.outcomes: list[Publication] = []
        self.opened = 0
        self.full = asyncio.Event()

    async def open(self) -> StreamEnd:
        self.opened += 1
        last = self.dropped + len(self.messages)
        head = self.messages[-1] if self.messages else None
        return StreamEnd(last if head else 0, head, last > 0)

    async def publish(self, message: Message, expected: int) -> Publication:
        await asyncio.sleep(0)
        if self.outcomes:
            return self.outcomes.pop(0)
        last = self.dropped + len(self.messages) if self.messages else 0
        if expected != last:
            return Conflict(last)
        self.messages.append(message)
        return Accepted(self.dropped + len(self.messages))

    def drop_all(self) -> None:
        """They were old."""
        self.dropped += len(self.messages)
        self.messages.clear()


class World:
    """A database, its outbox, and a stream."""

    def __init__(self, path: Path) -> None:
        self.store = Store(path, node="a")
        self.database = self.store.open_database("data")
        self.database.define_table(table_of("Item"))
        self.database.define_table(table_of("Own"))
        self.stream = FakeStream()
        self.noted = 0

    def outbox(self, incarnation: bytes = INCARNATION) -> Outbox:
        async def connect() -> FakeStream:
            return self.stream

        return Outbox(self.database, "a", incarnation, connect, is_sent=lambda table: table.name != "Own", noted=lambda: self.noted)

    def put(self, *names: str, table: str = "Item") -> int:
        transaction = self.store.begin()
        for name in names:
            transaction.put(self.database.tables[table], name, {"id": name})
        transaction.apply()
        self.store.commit_turn()
        self.store.end_turn()
        return self.database.log.last_lsn

    def publish(self, outbox: Outbox, until: Callable[[], bool] | None = None) -> None:
        """Let it publish what there is."""

        async def run() -> None:
            task = asyncio.ensure_future(outbox.run())
            for _ in range(10_000):
                await asyncio.sleep(0)
                self.store.end_turn()
                if until() if until is not None else outbox.published == self.database.log.last_lsn:
                    break
            else:
                raise AssertionError("it does not end")
            task.cancel()

        asyncio.run(run())

    def keys_read(self, applied: int = 0) -> list[list[str]]:
        """What a reader gets, by transaction."""
        assembler = Assembler(INCARNATION, applied)
        found = []
        for message in self.stream.messages:
            taken = assembler.take(message.headers(), message.body)
            if isinstance(taken, Delivery):
                found += [[entry.key.decode(errors="replace")[1:].rstrip("\0") for entry in each.entries] for each in taken.transactions]
        return found

    def places(self) -> list[tuple[int, int]]:
        """(P, L) of the messages with transactions."""
        return [(message.previous, message.last_lsn) for message in self.stream.messages if message.last_lsn > message.previous]

    def definitions(self) -> list[dict[str, Any]]:
        found = []
        assembler = Assembler(INCARNATION, 0)
        for message in self.stream.messages:
            taken = assembler.take(message.headers(), message.body)
            if isinstance(taken, Delivery) and taken.definitions:
                found.append({name: definition_from_bytes(data) for name, data in taken.definitions.items()})
        return found


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.store.close()


def test_what_is_there_and_what_comes(world: World) -> None:
    world.put("A")
    world.put("B", "C")
    world.put("secret", table="Own")
    outbox = world.outbox()
    world.publish(outbox)
    assert world.keys_read() == [["A"], ["B", "C"]]
    world.put("D")
    outbox.wake()
    world.publish(outbox)
    assert world.keys_read() == [["A"], ["B", "C"], ["D"]]


def test_it_goes_on_behind_what_the_stream_has(world: World) -> None:
    lsn = world.put("A")
    world.publish(world.outbox())
    world.put("B")
    world.publish(world.outbox())
    assert world.keys_read() == [["A"], ["B"]]
    assert world.places() == [(0, lsn), (lsn, lsn + 1)]


def test_definitions_go_before_what_needs_them(world: World) -> None:
    world.put("A")
    outbox = world.outbox()
    world.publish(outbox)
    assert world.definitions()[0] == {"Item": table_of("Item")}
    world.database.define_table(table_of("Item", Attribute("name", "String")))
    world.database.define_table(table_of("Own", Attribute("name", "String")))
    outbox.wake()
    world.publish(outbox, lambda: len(world.definitions()) > 1)
    assert world.definitions()[-1] == {"Item": table_of("Item", Attribute("name", "String"))}


def test_what_was_not_stored_is_sent_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.cluster.outbox.FIRST_PAUSE", 0.0)
    world.stream.outcomes = [NotStored("no answer"), Conflict(7)]
    world.put("A")
    outbox = world.outbox()
    outbox._pause = 0.0
    world.publish(outbox)
    assert world.keys_read() == [["A"]] and world.stream.opened == 3
    assert world.definitions()[0] == {"Item": table_of("Item")}
    assert outbox.reason == ""


def test_a_stream_whose_messages_were_old(world: World) -> None:
    world.noted = world.put("A")
    world.publish(world.outbox())
    world.stream.drop_all()
    world.put("B")
    world.publish(world.outbox())
    assert world.keys_read(applied=world.noted) == [["B"]]


def test_an_engine_that_has_lost_all_gets_it_again(world: World) -> None:
    world.noted = world.put("A")
    world.publish(world.outbox())
    world.stream = FakeStream()
    world.publish(world.outbox())
    assert world.keys_read() == [["A"]]


def test_a_log_that_is_older_than_its_stream(world: World) -> None:
    """A copy of the files of an earlier time: its LSNs would say something else than the same ones in the stream."""
    lsn = world.put("A")
    world.stream.messages = [Message(lsn + 5, lsn + 4, INCARNATION)]
    outbox = world.outbox()
    world.publish(outbox, lambda: bool(outbox.reason))
    assert "the files of another time" in outbox.reason
    assert len(world.stream.messages) == 1


def test_another_incarnation_begins_with_the_log(world: World) -> None:
    world.put("A")
    world.publish(world.outbox(b"another_"))
    first = len(world.stream.messages)
    world.publish(world.outbox())
    assert {message.incarnation for message in world.stream.messages[first:]} == {INCARNATION}
    assert world.stream.messages[first].previous == 0


def test_a_stream_that_cannot_be_opened(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(self: FakeStream) -> StreamEnd:
        raise NotPublished("the engine is away")

    monkeypatch.setattr(FakeStream, "open", fail)
    world.put("A")
    outbox = world.outbox()
    world.publish(outbox, lambda: outbox.reason == "the engine is away")
    assert outbox.published == -1


def test_large_transactions_are_cut(world: World) -> None:
    names = [f"{number:06}" for number in range(20_000)]
    world.put(*names)
    world.publish(world.outbox())
    assert [message.chunk for message in world.stream.messages if message.chunk][:2] == [1, 2]
    assert [sorted(keys) for keys in world.keys_read()] == [names]


def test_the_head_of_a_message_is_enough(world: World) -> None:
    """Of the last message a restart reads no more than its headers."""
    lsn = world.put("A")
    world.stream.messages = [Message(lsn, 0, INCARNATION)]
    assert isinstance(world.stream.messages[0], Head)
    world.put("B")
    world.publish(world.outbox())
    assert world.places() == [(0, lsn), (lsn, lsn + 1)]


def test_what_fails_unexpectedly_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    first, fails = FakeStream.open, [ZeroDivisionError("a defect")]

    async def fail(self: FakeStream) -> StreamEnd:
        if fails:
            raise fails.pop()
        return await first(self)

    monkeypatch.setattr(FakeStream, "open", fail)
    world.put("A")
    outbox = world.outbox()
    outbox._pause = 0.0
    world.publish(outbox)
    assert world.keys_read() == [["A"]] and outbox.reason == ""
    assert "cannot be published" in caplog.text


def test_a_restored_database_goes_on_where_its_former_log_parts(world: World) -> None:
    """The stream has one message of what came after the backup, and all of that before it."""
    world.put("a")
    last = world.put("b")
    outbox = world.outbox()
    world.publish(outbox)
    count = len(world.stream.messages)
    world.put("c")
    restored = Outbox(
        world.database, "a", b"restored", outbox._connect, is_sent=lambda table: True, noted=lambda: 0, former=(INCARNATION, last - 1)
    )
    world.publish(restored)
    sent = world.stream.messages[count:]
    assert {message.incarnation for message in sent} == {b"restored"} and sent[0].previous == last - 1 and sent[-1].last_lsn == last + 1
    assert all(
        message.former == (INCARNATION, last - 1) and message.headers()["B"] == f"{INCARNATION.hex()} {last - 1}" for message in sent
    )


def test_a_table_that_is_not_sent_is_not_sent_once_it_is_dropped(world: World) -> None:
    """Also by a process that has never seen it."""
    world.database.define_table(replace(table_of("Own"), replicate=False))
    world.database.enable_replication()
    world.put("secret", table="Own")
    world.put("open")
    turns = Turns(world.store)
    turns.finish(drop_table(world.database.tables["Own"]))
    turns.loop.close()
    world.publish(world.outbox())
    assert world.keys_read() == [["open"]]
