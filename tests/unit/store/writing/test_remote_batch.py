"""svc.store.writing.remote_batch: many writes of other nodes at a time are what they are one by one."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from svc.clock import FakeClock
from svc.store import Database, Store
from svc.store.log.entries import INVALIDATE, MESSAGE
from svc.store.log.replicated_log import ReplicatedLog
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import KEPT_BYTES, encode_key
from svc.store.values.records import encode, encode_payload, frame
from svc.store.writing import remote_batch
from svc.store.writing.remote_batch import RemoteBatch
from svc.store.writing.remote_transaction import Origin, RemoteEntry, RemoteTransaction
from svc.store.writing.remote_write import MergeFigures, RemoteWriteSet, check_transaction, read_entries
from tests.support.remote import DELETE, PATCH, PUT, START, Add, entry, origin, transaction

KEYS = [*(f"k{number}" for number in range(12)), "x" * (KEPT_BYTES + 30), "x" * (KEPT_BYTES + 31), "y" * (KEPT_BYTES - 2)]
TABLES = (
    TableDefinition(
        "Plain",
        attributes=(
            Attribute("code", "ID", primary_key=True),
            Attribute("a", "Any", indexed=True),
            Attribute("twice", "Any", indexed=True, computed_from="a"),
        ),
        primary_key="code",
    ),
    TableDefinition(
        "Silent",
        attributes=(Attribute("code", "ID", primary_key=True), Attribute("a", "Any", indexed=True)),
        primary_key="code",
        audit=False,
    ),
    TableDefinition(
        "Brief",
        attributes=(
            Attribute("code", "ID", primary_key=True),
            Attribute("a", "Any", indexed=True),
            Attribute("end", "Date", expires_at=True),
        ),
        primary_key="code",
    ),
    TableDefinition(
        "Single",
        attributes=(Attribute("code", "ID", primary_key=True), Attribute("a", "Any", indexed=True, unique=True)),
        primary_key="code",
    ),
)
VALUES: tuple[Any, ...] = (
    1,
    2.5,
    "text",
    None,
    True,
    [1, "b", 1],
    {"deep": [1]},
    1 << 70,
    datetime(2024, 5, 1, tzinfo=UTC),
    {1, 2},
    "z" * 600,
)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_batch, "MANY", 8)
    monkeypatch.setattr(remote_batch, "COLLECTED", 10)


def made_transactions(chance: random.Random) -> list[tuple[Origin, RemoteTransaction]]:
    lsns = {"a": 1, "b": 1, "own": 1}
    found: list[tuple[Origin, RemoteTransaction]] = []
    for number in range(25):
        node = chance.choice(["a", "a", "b", "own"])
        version = START + number - (chance.randrange(200) / 10 if chance.random() < 0.3 else 0)
        entries = [made_entry(chance) for _ in range(chance.choice([1, 1, 3, 12]))]
        made = transaction(lsns[node], version, entries, START + number)
        made.user, made.operation = chance.choice([(None, 0), ("ann", 2)])
        made.trace_id = chance.choice([None, b"t" * 16])
        lsns[node] = made.last_lsn + 1
        found.append((origin(node), made))
    return found


def made_entry(chance: random.Random) -> RemoteEntry:
    table, key = chance.choice(["Plain", "Plain", "Plain", "Silent", "Brief", "Single"]), chance.choice(KEYS)
    kind = chance.choice([PUT, PUT, PUT, PATCH, PATCH, DELETE, MESSAGE, INVALIDATE])
    if kind == MESSAGE:
        return RemoteEntry(MESSAGE, table, encode_key(key), frame(encode_payload("hello"), 1.0, 1, None))
    if kind in (DELETE, INVALIDATE):
        return RemoteEntry(kind, table, encode_key(key), None)
    values: dict[str, Any] = {name: chance.choice(VALUES) for name in chance.sample(["a", "b", "c"], chance.randrange(1, 4))}
    if kind == PATCH and chance.random() < 0.5:
        values["n"] = Add(chance.randrange(9))
    if table == "Brief" and chance.random() < 0.5:
        values["end"] = datetime(2026, 1, chance.randrange(1, 28), tzinfo=UTC)
    if chance.random() < 0.05 and kind == PATCH:
        values["code"] = key
    expiry = START + chance.randrange(3) * 1e6 if chance.random() < 0.1 else None
    made = entry(kind, key, values, table, expiry)
    if kind == PUT and chance.random() < 0.2:
        made.value = encode({**values, "code": key}, 1.0, 1, expiry, 100)
    if kind == PUT and chance.random() < 0.05:  # not as a node encodes it
        made.value = frame(msgspec.msgpack.encode({"a": datetime(2024, 5, 1, tzinfo=UTC), "code": key}), 1.0, 1, expiry)
    if chance.random() < 0.1:
        made.mqtt = b"note"
    return made


def apply(database: Database, sent: Iterable[tuple[Origin, RemoteTransaction]], *, together: bool) -> tuple[MergeFigures, list[Any]]:
    """In one child and commit."""
    database.store.open_writers((database,))
    log = database.log
    assert isinstance(log, ReplicatedLog)
    writes = RemoteWriteSet(database)
    batch = RemoteBatch(writes, keeps_entries=True)
    for node, each in sent:
        check_transaction(database, node, each)
        (batch if together else writes).begin(node, each)
        for read in read_entries(database, node, each, each.entries):
            if together:
                batch.add(read)
            else:
                writes.apply(read)
        log.saw(each.version)
    if together:
        batch.finish()
    writes.end()
    writes.version = log.last_version
    entries = list(writes.entries)
    writes.commit()
    database.store.commit_turn()
    return writes.figures, entries


def contents(database: Database) -> list[list[tuple[bytes, bytes]]]:
    """Of all stores with what is written, in the order of the definitions."""
    handles = [database._core[number] for number in range(1, 4)]
    for definition in TABLES:
        table = database.tables[definition.name]
        handles += [table.primary, *(index.handle for index in table.index_list)]
    txn = database.snapshot()
    return [list(txn.cursor(handle).iternext()) for handle in handles]


@pytest.mark.parametrize("seed", range(40))
def test_many_at_a_time_are_what_they_are_one_by_one(tmp_path: Path, seed: int) -> None:
    found: list[Any] = []
    for together in (False, True):
        chance = random.Random(seed)
        store = Store(tmp_path / str(together), clock=FakeClock(), node="own")
        database = store.open_database("data")
        for definition in TABLES:
            database.define_table(definition)
        database.enable_replication()
        parts = [made_transactions(chance) for _ in range(2)]
        outcomes = [apply(database, sent, together=together) for sent in parts]
        database.tables["Plain"].indexes["a"].count(database.snapshot())  # its cache has to follow
        outcomes.append(apply(database, made_transactions(chance), together=together))
        found.append((outcomes, contents(database)))
        store.check()
        store.close()
    (alone, one_by_one), (several, batched) = found
    for (figures, entries), (other_figures, other_entries) in zip(alone, several, strict=True):
        assert figures == other_figures
        assert entries == other_entries
    assert one_by_one == batched
