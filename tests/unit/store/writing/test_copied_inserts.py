"""svc.store.writing.copied_inserts: records that are new here end as `CopyWriteSet.replace` would have them, to the byte."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from svc.clock import FakeClock
from svc.store.blobs import create_blob
from svc.store.copy_reader import EndRow, RecordRow, TableRow
from svc.store.integrity.check import check_database
from svc.store.log.entries import LogEntry, decode_entry, encode_any
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import FORMAT, PAYLOAD_AT, decode, encode_payload, frame, version_of
from svc.store.values.validation import Add
from svc.store.writing.copied_inserts import CopiedInserts
from svc.store.writing.copied_write import BadCopy
from svc.store.writing.copy_apply import CopyHead, rows_of
from svc.store.writing.remote_transaction import MOST_MS
from tests.support.copies import CopyNode

pytestmark = pytest.mark.programs

ITEM = TableDefinition(
    "Item",
    attributes=(
        Attribute("id", primary_key=True),
        *(Attribute(name, indexed=True) for name in ("n", "text", "list")),
        Attribute("mail", indexed=True, unique=True),
        Attribute("twice", computed_from="(n or 0) * 2", indexed=True),
    ),
    dynamic=True,
)
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Pair:
    """A node that is copied, and the same one twice: `bulk`, and `single`, which takes record by record."""

    def __init__(self, path: Path, clock: FakeClock, definition: TableDefinition) -> None:
        self.source = CopyNode(path, "a", clock, definition)
        self.other = CopyNode(path, "c", clock, definition)
        self.bulk = CopyNode(path / "bulk", "b", clock, definition)
        self.single = CopyNode(path / "single", "b", clock, definition)
        self.inserted = 0

    def close(self) -> None:
        for node in (self.source, self.other, self.bulk, self.single):
            node.store.check()
            node.close()
            assert check_database(node.path / "data").findings == []

    def copy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        head, pieces = self.source.pieces()
        add = CopiedInserts.add

        def counted(inserts: CopiedInserts, row: RecordRow) -> bool:
            is_taken = add(inserts, row)
            self.inserted += is_taken
            return is_taken

        with monkeypatch.context() as patch:
            patch.setattr(CopiedInserts, "add", counted)
            self.bulk.take(head, pieces)
        with monkeypatch.context() as patch:
            patch.setattr(CopiedInserts, "add", lambda inserts, row: False)
            self.single.take(head, pieces)


@pytest.fixture
def pair(tmp_path: Path, clock: FakeClock) -> Iterator[Pair]:
    found = Pair(tmp_path, clock, ITEM)
    yield found
    found.close()


def content(node: CopyNode) -> dict[str, list[tuple[bytes, bytes]]]:
    """All that is stored, but for what says which database it is."""
    database, table = node.database, node.table
    snapshot = database.open_snapshot()
    try:
        stores = {index.attribute: index.handle for index in table.index_list}
        stores |= {"records": table.primary, "$log": database.log._entries, "$deleted": database.log._deleted, "$expiry": database.expiry}
        return {name: list(snapshot.cursor(handle).iternext()) for name, handle in stores.items()}
    finally:
        snapshot.abort()


def value(chance: random.Random) -> Any:
    return chance.choice(
        (
            lambda: chance.randrange(100),
            lambda: chance.random(),
            lambda: 1 << 70,
            lambda: 10**400,
            lambda: float("nan"),
            lambda: None,
            lambda: EPOCH + timedelta(milliseconds=chance.randrange(10**9)),
            lambda: "text" * chance.randrange(3),
            lambda: "x" * 3000,
            lambda: "".join(chance.choices("abcdefgh", k=2500)),
            lambda: "long" * 2000,
            lambda: b"bytes",
            lambda: {1, 2},
            lambda: {"a": [1], "b": {2: 3}},
            lambda: [chance.randrange(5) for _ in range(chance.randrange(4))],
        )
    )()


def act(chance: random.Random, node: CopyNode, key: Any) -> None:
    what = chance.random()
    now = node.clock.wall() * 1000
    if what < 0.6:
        record = {"id": key, **{name: value(chance) for name in ("n", "text", "list", "other", "d") if chance.random() < 0.7}}
        expiry = now + chance.randrange(1, 10**6) if chance.random() < 0.2 else None
        node.write(lambda transaction, table: transaction.put(table, key, record, expires_at=expiry))
    elif what < 0.7:
        node.write(lambda transaction, table: transaction.patch(table, key, {"n": 1}))
    elif what < 0.8:
        node.write(lambda transaction, table: transaction.patch(table, key, {"count": Add(1)}))
    else:
        node.write(lambda transaction, table: transaction.delete(table, key))


@pytest.mark.parametrize("seed", range(20))
def test_the_same_as_record_by_record(pair: Pair, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chance = random.Random(seed)
    keys: list[Any] = [*range(60), *(f"k{number}" for number in range(60)), *("long" * 124 + str(number) for number in range(5))]
    monkeypatch.setattr("svc.store.copy_reader.PIECE", chance.choice((100, 5000, 1 << 20)))
    monkeypatch.setattr("svc.store.writing.copy_apply.BATCH", chance.choice((1, 5000, 1 << 20)))
    monkeypatch.setattr("svc.store.writing.copy_apply._TOGETHER", chance.choice((1, 3, 32)))
    for _ in range(chance.choice((100, 300))):
        node = chance.choice((pair.source, pair.source, pair.other))
        pair.source.clock.advance(chance.random() / 100)
        act(chance, node, chance.choice(keys))
    if chance.random() < 0.7:
        pair.source.hear(pair.other)
    if chance.random() < 0.2:
        pair.source.prune()
    if chance.random() < 0.5:
        state = chance.getstate()
        for node in (pair.bulk, pair.single):
            chance.setstate(state)
            for _ in range(chance.choice((1, 10, 50))):
                act(chance, node, chance.choice(keys))
    pair.source.put("last")
    for _ in range(2):
        pair.copy(monkeypatch)
        act(chance, pair.source, chance.choice(keys))
    assert content(pair.bulk) == content(pair.single)
    assert pair.inserted > 5


def test_blobs_and_keys_that_are_cut_are_taken_one_by_one(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.source.put("a" * 600, n=1)
    pair.source.put("b", n=create_blob(b"x" * 50_000))
    pair.source.put("c", n=create_blob(b"x"))
    pair.source.put("d")
    pair.copy(monkeypatch)
    assert pair.inserted == 2
    assert content(pair.bulk)["n"] == content(pair.single)["n"]


def test_records_that_are_not_in_order_are_refused(pair: Pair) -> None:
    pair.source.put("a", n=1)
    pair.source.put("b", n=2)
    head, pieces = pair.source.pieces()
    table, first, second, end = [row for piece in pieces for row in rows_of(piece)]
    for rows in ((second, first), (first, first)):
        with pytest.raises(BadCopy, match="not in order"):
            pair.bulk.take(head, [msgspec.msgpack.encode([table, *rows, end])])
    assert pair.bulk.records() == {}


def take(node: CopyNode, head: CopyHead, row: RecordRow, name: str) -> bool:
    try:
        node.take(head, [msgspec.msgpack.encode([TableRow("Item"), row, EndRow(2)])], name.encode())
    except BadCopy:
        return False
    finally:
        node.store.end_turn()
    return True


def is_taken(pair: Pair, monkeypatch: pytest.MonkeyPatch, head: CopyHead, row: RecordRow) -> bool:
    """By both, or by none. Nothing is left that the next one meets."""
    name = str(pair.inserted)
    pair.inserted += 1
    taken = take(pair.bulk, head, row, name)
    with monkeypatch.context() as patch:
        patch.setattr(CopiedInserts, "add", lambda inserts, row: False)
        assert take(pair.single, head, row, name) == taken
    assert content(pair.bulk) == content(pair.single)
    return taken


def record_row(pieces: list[bytes]) -> RecordRow:
    (row,) = [row for piece in pieces for row in rows_of(piece) if type(row) is RecordRow]
    return row


@pytest.mark.parametrize("size", [10, 3000, 9000])
def test_any_damage_of_an_entry_is_seen_by_both(pair: Pair, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    chance = random.Random(size)
    pair.source.put("k", n=1, text="long " * (size // 5), d=EPOCH)
    head, pieces = pair.source.pieces()
    row = record_row(pieces)
    taken = 0
    for number in range(120):
        data = bytearray(row.history[0])
        if number % 3:
            data[chance.randrange(min(len(data), 150))] ^= 1 << chance.randrange(8)
        elif chance.random() < 0.5:
            del data[chance.randrange(len(data)) :]
        else:
            data += b"x" * chance.choice((1, 16))
        taken += is_taken(pair, monkeypatch, head, RecordRow(row.stored, b"", [bytes(data)]))
    assert 5 < taken < 115


def test_what_no_node_writes_is_refused(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.source.put("k", n=1)
    head, pieces = pair.source.pieces()
    row = record_row(pieces)
    entry = decode_entry(0, row.history[0])
    value = entry.value
    assert value is not None and value[0] == FORMAT

    def made(payload: bytes, flags: int = 0, expiry: float | None = None, version: float = entry.version, **changes: Any) -> RecordRow:
        raw = frame(payload, version, 7, expiry, flags)
        said = LogEntry(**{name: getattr(entry, name) for name in entry.__struct_fields__} | {"value": raw} | changes)
        return RecordRow(row.stored, b"", [encode_any(said)])

    right = value[PAYLOAD_AT:]
    wrong = [
        made(msgspec.msgpack.encode({"id": "k", 1: 2})),
        made(msgspec.msgpack.encode({"id": "k", None: 2})),
        made(msgspec.msgpack.encode({"id": "other"})),
        made(msgspec.msgpack.encode({"n": 1})),
        made(msgspec.msgpack.encode(["id", "k"])),
        made(msgspec.msgpack.encode({"id": "k", "n": msgspec.msgpack.Ext(0x7F, b"nothing")})),
        made(b"\x91" * 100_000),
        made(right, expiry=float("nan")),
        made(right, expiry=float("inf")),
        made(right, version=float("nan")),
        made(right, version=-1.0),
        made(right, version=entry.version - 1),
        made(right, version=MOST_MS),
        made(right, wall_ms=float("inf")),
        made(right, wall_ms=MOST_MS),
        made(right, node=""),
        made(right, flags=0x20),
        made(right, flags=0x08),
        made(right, flags=0x02),
        RecordRow(row.stored + b"x", b"", row.history),
        RecordRow(row.stored, b"", []),
    ]
    for number, each in enumerate(wrong):
        assert not is_taken(pair, monkeypatch, head, each), number
    # The same map said in another way is stored as a record is.
    assert is_taken(pair, monkeypatch, head, made(b"\xdf\x00\x00\x00\x02" + right[1:]))
    (_, raw), *_ = content(pair.bulk)["records"]
    assert raw[PAYLOAD_AT:] == encode_payload(decode(raw)) == right and version_of(raw) == entry.version
