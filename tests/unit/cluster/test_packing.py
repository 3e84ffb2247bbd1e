"""svc.cluster.packing: what of a log becomes messages, where they end, and how much is held meanwhile. Any log: tests/property/test_wire.py."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from svc.clock import FakeClock
from svc.cluster import packing
from svc.cluster.assembly import Delivery, Taken
from svc.cluster.packing import LogPacker, Row
from svc.cluster.wire import BATCH, CHUNK, MAX_BODY, Message, decode_body
from svc.errors import StoreFailure
from svc.store import Database, Store
from svc.store.caching import FetchedAnswer, State
from svc.store.log.entries import DELETE, EXPIRE, INVALIDATE, MESSAGE, PATCH, PUT, RELOCATE, LogEntry, encode_entry
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import encode_key
from svc.store.values.records import encode
from tests.support.wire import INCARNATION, NODE, made_log, received, sent, transactions_in

TABLE = TableDefinition("Item", attributes=(Attribute("id", "ID", primary_key=True), Attribute("stock", "Int", indexed=True)))


def row(lsn: int, transaction: int | None = None, size: int = 10, **changes: Any) -> Row:
    value = encode({"id": lsn, "text": "x" * size}, 1.0, lsn, None)
    entry = LogEntry(
        lsn, lsn if transaction is None else transaction, 1.0, 1.0, "Item", 1, encode_key(lsn), PUT, None, NODE, 0, value, ("id",), None
    )
    return lsn, encode_entry(structs.replace(entry, **changes))


def pack(rows: list[Row], previous: int = 0, **options: Any) -> list[Message]:
    return [message for message in LogPacker(NODE, INCARNATION, **options).messages(rows, previous) if message is not None]


def positions(messages: list[Message]) -> list[tuple[int, int, int, int]]:
    return [(message.previous, message.last_lsn, message.chunk, message.chunks) for message in messages]


def kinds(messages: list[Message]) -> list[int]:
    return [entry.kind for transaction in transactions_in(received(messages)) for entry in transaction.entries]


# -- which


@pytest.mark.parametrize(
    ("changes", "goes"),
    [
        *(({"kind": kind}, True) for kind in (PUT, PATCH, MESSAGE)),
        *(({"kind": kind, "value": None}, True) for kind in (DELETE, MESSAGE, INVALIDATE)),
        ({"kind": EXPIRE, "value": None}, False),
        ({"kind": RELOCATE}, False),
        ({"node": "node-b"}, False),
        ({"node": "node-a2"}, False),
        ({"node": ""}, False),
        ({"table_number": 7}, False),
        ({"table_number": 0}, False),  # what is left of an entry that was removed
        ({"value": encode({"id": 1}, 0.5, 1, None, refreshed=1e12)}, False),
        ({"value": encode({"id": 1, "text": "abc" * 2000}, 0.5, 1, None, refreshed=1e12)}, False),  # its entry is packed
        ({"value": encode({"id": 1, "text": "abc" * 2000}, 1.0, 1, None)}, True),
        ({"trace_id": bytes(range(16)), "image": b"image"}, True),
    ],
)
def test_which_entries_go(changes: dict[str, Any], goes: bool) -> None:
    rows = [row(1, **changes)]
    messages = pack(rows, left_out={7})
    found = transactions_in(received(messages))
    assert len(found) == goes
    assert not goes or found == sent(rows)


@pytest.mark.parametrize("expiry", [None, 5e12])
@pytest.mark.parametrize("text", ["x", "abc" * 2000])
def test_a_write_to_a_table_with_a_source_goes_as_one_to_any_table(text: str, expiry: float | None) -> None:
    value = encode({"id": 1, "text": text}, 1.0, 1, expiry, refreshed=1e12)  # the version is that of its transaction: it was not fetched
    (found,) = transactions_in(received(pack([row(1, value=value)])))
    assert found.entries[0].value == encode({"id": 1, "text": text}, 1.0, 1, expiry)


def test_a_transaction_keeps_what_is_left_of_it() -> None:
    rows = [row(4, 4, table_number=7), row(5, 4), row(6, 4, kind=EXPIRE, value=None), row(7, table_number=7), row(8)]
    first, second = transactions_in(received(pack(rows, 3, left_out={7}), 3))
    assert (first.lsn, first.last_lsn, len(first.entries)) == (4, 6, 1)
    assert (second.lsn, second.last_lsn) == (8, 8)


def test_what_is_left_out_may_change_while_it_reads() -> None:
    left_out: set[int] = set()

    def rows() -> Iterator[Row]:
        yield row(1)
        left_out.add(1)
        yield row(2)

    (transaction,) = transactions_in(received(LogPacker(NODE, INCARNATION, left_out=left_out).messages(rows(), 0)))
    assert transaction.lsn == 1


# -- where they end


def test_nothing_makes_no_message() -> None:
    assert pack([]) == pack([row(1, node="node-b")]) == []


def test_a_message_covers_what_is_behind_it() -> None:
    foreign = {"node": "node-b"}
    rows = [row(3), row(4, 4, **foreign), row(5, 4, **foreign), row(6, 6, 900), row(7, 6, 900), row(9, **foreign)]
    assert positions(pack(rows, 2)) == [(2, 9, 0, 0)]
    assert positions(pack(rows, 2, batch=1000)) == [(2, 5, 0, 0), (5, 7, 0, 0)]
    assert positions(pack(rows, 2, batch=100_000, chunk=1500)) == [(2, 5, 0, 0), (5, 5, 1, 0), (5, 7, 2, 2)]
    assert positions(pack(rows[:5], 2)) == [(2, 7, 0, 0)]


def test_no_message_ends_within_a_transaction_that_begins_with_what_is_not_sent() -> None:
    rows = [row(1), row(2, 2, 900, table_number=7), row(3, 2, 900), row(4, 2, 900)]
    assert positions(pack(rows, batch=500, left_out={7})) == [(0, 1, 0, 0), (1, 4, 0, 0)]
    assert positions(pack(rows, chunk=1500, left_out={7})) == [(0, 1, 0, 0), (1, 1, 1, 0), (1, 4, 2, 2)]


def test_a_message_has_about_64_KiB() -> None:
    rows = [row(n, size=400) for n in range(1, 1001)]
    messages = pack(rows)
    sizes = [decode_body(message.body)[1] for message in messages]
    assert all(BATCH * 0.8 < size <= BATCH for size in sizes[:-1]) and sizes[-1] <= BATCH
    assert all(len(message.body) < size // 2 for message, size in zip(messages, sizes, strict=True))
    assert transactions_in(received(messages)) == sent(rows)


def test_a_transaction_above_64_KiB_is_one_message_and_one_above_512_is_several() -> None:
    rows = [row(1), *(row(n, 2, 1000) for n in range(2, 402)), row(402)]
    assert positions(pack(rows)) == [(0, 1, 0, 0), (1, 401, 0, 0), (401, 402, 0, 0)]
    rows = [row(1), *(row(n, 2, 1000) for n in range(2, 1202)), row(1202)]
    messages = pack(rows)
    assert positions(messages) == [(0, 1, 0, 0), (1, 1, 1, 0), (1, 1, 2, 0), (1, 1201, 3, 3), (1201, 1202, 0, 0)]
    assert transactions_in(received(messages)) == sent(rows)
    assert max(decode_body(message.body)[1] for message in messages) <= CHUNK


@pytest.mark.parametrize("size", [CHUNK - 200, CHUNK, CHUNK + 1, 2 * CHUNK, 5 * CHUNK])
def test_an_entry_larger_than_a_chunk(size: int) -> None:
    rows = [row(1), row(2, 2), row(3, 2, size), row(4, 2), row(5)]
    messages = pack(rows)
    assert transactions_in(received(messages)) == sent(rows)
    assert all(decode_body(message.body)[1] <= CHUNK + 200 for message in messages)
    last = next(message for message in messages if message.chunks)
    assert last.chunks == last.chunk


def test_a_large_transaction_is_never_held() -> None:
    """Rows are asked for one by one, and each chunk is made before the row that would not fit any more has a follower."""
    asked = 0

    def rows() -> Iterator[Row]:
        nonlocal asked
        for lsn in range(1, 5001):
            asked = lsn
            yield row(lsn, 1, 1000)

    before = entries = 0
    for message in LogPacker(NODE, INCARNATION).messages(rows(), 0):
        assert message is not None
        found = len(decode_body(message.body)[0].transactions[0].entries)
        entries += found
        assert asked - before <= CHUNK // 1000 + 1
        assert asked - entries <= 1
        before = asked
    assert entries == 5000


def test_the_caller_gets_its_turn() -> None:
    rows: list[Row | None] = [None, row(1, 1), None, row(2, 1), None]
    found = list(LogPacker(NODE, INCARNATION).messages(rows, 0))
    assert found[:3] == [None, None, None]
    assert transactions_in(received(found)) == sent([each for each in rows if each is not None])


def test_many_names_of_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_NAMES", 2)
    rows = [row(n, table=f"T{n % 5}") for n in range(1, 20)]
    assert transactions_in(received(pack(rows))) == sent(rows)


def test_a_format_of_the_log_that_is_not_known() -> None:
    lsn, data = row(1)
    for number in (0, 4, 8, 255):
        with pytest.raises(StoreFailure, match=f"format {number}"):
            pack([(lsn, bytes((number,)) + data[1:])])
        with pytest.raises(StoreFailure, match=f"format {number}"):
            pack([(lsn, bytes((number,)) + data[1:])], left_out={1})


# -- definitions


def test_definitions_go_before_what_is_behind_their_lsn() -> None:
    packer = LogPacker(NODE, INCARNATION)
    packer.define(0, {"Item": b"one", "T": b""})
    packer.define(5, {"Item": b"two"})
    packer.define(9, {"Item": b"three"})
    rows = [row(4, node="node-b"), row(5), row(8), row(9)]
    found = list(packer.messages(rows, 2))
    assert positions([each for each in found if each is not None]) == [(2, 4, 0, 0), (4, 7, 0, 0), (7, 7, 0, 0), (7, 9, 0, 0), (9, 9, 0, 0)]
    said = [
        each.definitions or [transaction.lsn for transaction in each.transactions]
        for each in received(found, 2)
        if isinstance(each, Delivery)
    ]
    assert said == [{"Item": b"one", "T": b""}, [5], {"Item": b"two"}, [8, 9], {"Item": b"three"}]
    assert list(packer.messages([], 9)) == []


def test_definitions_wait_until_the_log_has_been_read_up_to_them() -> None:
    packer = LogPacker(NODE, INCARNATION)
    packer.define(7, {"Item": b"one"})
    packer.define(7, {"Item": b"two"})
    assert list(packer.messages([row(5, node="node-b")], 2)) == []
    assert list(packer.messages([], 2, 6)) == []
    (message,) = packer.messages([], 2, 7)
    assert message is not None and (message.previous, message.last_lsn) == (2, 7)
    assert decode_body(message.body)[0].definitions == {"Item": b"two"}


@pytest.mark.parametrize("sizes", [(CHUNK - 10, 10), (CHUNK + 1,), (3 * CHUNK, 0, 5), (CHUNK, CHUNK)])
@pytest.mark.parametrize("size", [10, 700])
def test_large_definitions(sizes: tuple[int, ...], size: int) -> None:
    rows = [row(1), *(row(n, 2, 1000) for n in range(2, 2 + size)), row(900)]
    packer = LogPacker(NODE, INCARNATION)
    wanted = {f"T{number}": b"d" * length for number, length in enumerate(sizes)}
    packer.define(1, wanted)
    messages = list(packer.messages(rows, 0))
    assert all(message is not None and decode_body(message.body)[1] < MAX_BODY for message in messages)
    found = list(received(messages))
    assert [bool(each.definitions) for each in found if isinstance(each, Delivery)] == [False, True, False, False][
        : 4 if size == 700 else 3
    ]
    assert next(each.definitions for each in found if isinstance(each, Delivery) and each.definitions) == wanted
    assert transactions_in(found) == sent(rows)
    assert (Taken.PART in found) == (sum(sizes) > CHUNK or size == 700)


def test_entries_of_others_are_not_unpacked() -> None:
    """And so they may be damaged."""
    lsn, data = row(1, size=5000, node="node-b")
    assert data[0] > 4
    assert pack([(lsn, data[:-1])]) == []
    lsn, data = row(1, size=5000)
    with pytest.raises(StoreFailure, match="damaged"):
        pack([(lsn, data[:-1])])


# -- a log that the store has written


def rows_of(database: Database, most: int = 3) -> Iterator[Row | None]:
    """As an outbox reads it: a few at a time, each in a snapshot of its own."""
    lsn, done = 1, False
    while not done:
        rows, done = database.log.read_encoded(database.snapshot(), lsn, most)
        yield from rows
        yield None
        lsn = rows[-1][0] + 1 if rows else lsn


def test_what_a_store_has_written(tmp_path: Path) -> None:
    store = Store(tmp_path / "database", clock=FakeClock(), node=NODE)
    database = store.open_database("data")
    table = database.define_table(TABLE)
    cached = database.define_table(replace(TABLE, name="Cached", expiration=10.0))
    cached.cache(store)
    for number in range(12):
        transaction = store.begin("anna")
        transaction.put(table, f"k{number}", {"stock": number})
        transaction.publish(table, f"k{number}", {"said": number})
        if number % 3 == 0:
            transaction.patch(table, "k0", {"stock": {"__op__": "add", "value": 1}})
            transaction.put(table, f"large {number}", {"text": "x" * 5000})
        if number % 4 == 0:
            transaction.store_fetched(cached, number, FetchedAnswer(State.NEW, 1 << 40, 5.0), {"stock": 1})
        transaction.apply()
        if number % 2:
            store.commit_turn()
    transaction = store.begin()
    transaction.delete(table, "k3")
    transaction.invalidate(cached, 4)
    transaction.apply()
    store.commit_turn()
    for options in ({}, {"batch": 1}, {"batch": 500, "chunk": 300}):
        messages = [message for message in LogPacker(NODE, INCARNATION, **options).messages(rows_of(database), 0) if message is not None]
        found = transactions_in(received(messages))
        assert found == sent([each for each in rows_of(database) if each is not None])
        assert len(found) == 13
        assert [entry.kind for entry in found[-1].entries] == [DELETE, INVALIDATE]
        assert {entry.table for each in found[:-1] for entry in each.entries} == {"Item"}
    store.close()


def test_the_reference_has_everything() -> None:
    """The logs of tests/property/test_wire.py have what there may be."""
    rows = made_log(random.Random(1), 300, 3000)
    assert {data[0] for _, data in rows} == {1, 2, 3, 5, 6, 7}
    assert {data[1] for _, data in rows} == set(range(1, 8))
    assert set(kinds(pack(rows))) == {PUT, PATCH, DELETE, MESSAGE, INVALIDATE}
