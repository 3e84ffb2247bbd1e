"""Transactions of other nodes, made for tests, and what a store is to make of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import permutations, product
from typing import Any

from svc.store import Database, Table
from svc.store.log.entries import DELETE, EXPIRE, MESSAGE, PATCH, PUT
from svc.store.log.replicated_log import ReplicatedLog
from svc.store.values.keys import encode_key, storage_key
from svc.store.values.records import decode, encode, expiry_of, version_of
from svc.store.values.validation import Add
from svc.store.writing.merge_rules import log_changes
from svc.store.writing.remote_batch import RemoteBatch
from svc.store.writing.remote_transaction import Origin, RemoteEntry, RemoteTransaction
from svc.store.writing.remote_write import MergeFigures, RemoteWriteSet, check_transaction, read_entries

START = 1_767_225_600_000.0  # ms: the time at which `FakeClock` begins
KEY = "code"


def origin(node: str) -> Origin:
    return Origin(node, node.encode().ljust(8, b"-")[:8])


def entry(
    kind: int, key: Any, data: dict[str, Any] | None, table: str = "Seat", expiry: float | None = None, primary: str = KEY
) -> RemoteEntry:
    """As an origin has it: a put with its key, a patch with increments as the log has them."""
    value = None
    if data is not None:
        data = {**data, primary: key} if kind == PUT else log_changes(data)
        value = encode(data, 1.0, 1, expiry)
    return RemoteEntry(kind, table, encode_key(key), value)


def transaction(lsn: int, version: float, entries: list[RemoteEntry], wall_ms: float | None = None) -> RemoteTransaction:
    return RemoteTransaction(lsn, lsn + len(entries) - 1, version, version if wall_ms is None else wall_ms, None, 0, None, entries)


class Sent:
    """A write of one record, as a node has made it: kind, data, expiry; `stamp`: (version, node)."""

    def __init__(self, kind: int, data: dict[str, Any] | None, stamp: tuple[float, str], expiry: float | None = None) -> None:
        self.kind = kind
        self.data = data
        self.stamp = stamp
        self.expiry = expiry

    def to(self, key: Any, table: str = "Seat") -> tuple[Origin, RemoteTransaction]:
        return origin(self.stamp[1]), transaction(1, self.stamp[0], [entry(self.kind, key, self.data, table, self.expiry)])


def in_order(writes: Iterable[Sent], key: Any) -> tuple[dict[str, Any] | None, float | None]:
    """(record, expiry) that the writes make of nothing, carried out by their stamps: written down as plainly as can be, and of nothing that is tested."""
    record: dict[str, Any] | None = None
    expiry: float | None = None
    for write in sorted(writes, key=lambda each: each.stamp):
        if write.kind == DELETE:
            record, expiry = None, None
        elif write.kind == PUT:
            assert write.data is not None
            record, expiry = {**write.data, KEY: key}, write.expiry
        else:
            assert write.data is not None
            if record is None or (expiry is not None and expiry <= write.stamp[0]):
                record, expiry = {}, None
            record = dict(record)
            for name, value in write.data.items():
                base = record.get(name)
                record[name] = value if not isinstance(value, Add) else base + value.value if isinstance(base, int) else value.value
            record[KEY] = key
            expiry = expiry if write.expiry is None else write.expiry
    return record, expiry


def apply_all(database: Database, sent: Iterable[tuple[Origin, RemoteTransaction]]) -> MergeFigures:
    """Apply them in this order, in one child and commit, without looking where they come from."""
    database.store.open_writers((database,))
    assert isinstance(database.log, ReplicatedLog)
    writes = RemoteWriteSet(database)
    batch = RemoteBatch(writes, keeps_entries=True)
    for node, each in sent:
        check_transaction(database, node, each)
        batch.begin(node, each)
        for read in read_entries(database, node, each, each.entries):
            batch.add(read)
        database.log.saw(each.version)
    batch.finish()
    writes.end()
    database.log.save_clock(writes.txn)
    writes.version = database.log.last_version
    writes.commit()
    database.store.commit_turn()
    return writes.figures


def stored(table: Table, key: Any) -> tuple[dict[str, Any] | None, float | None, float | None]:
    """(record, expiry, version) as they are stored, expired or not."""
    raw = table.get_entry(storage_key(encode_key(key)))
    return (None, None, None) if raw is None else (decode(raw), expiry_of(raw), version_of(raw))


def histories(
    kinds: Sequence[str], length: int, stamps: Sequence[tuple[float, str]], make: Callable[[str, int, tuple[float, str]], Sent]
) -> Iterable[tuple[tuple[str, ...], list[Sent], list[list[Sent]]]]:
    """(kinds, writes, all orders of arrival) of all histories of so many writes."""
    for names in product(kinds, repeat=length):
        writes = [make(name, number, stamps[number]) for number, name in enumerate(names)]
        yield names, writes, [list(order) for order in permutations(writes)]


def sent_since(database: Database, lsn: int) -> list[RemoteTransaction]:
    """What the log has of this node's own transactions behind this LSN, as they are sent."""
    found: list[RemoteTransaction] = []
    before = 0
    for each in database.log.read(database.snapshot(), lsn + 1):
        if each.node != database.node or each.kind == EXPIRE or each.is_repeated:
            continue
        if each.transaction != before:
            before = each.transaction
            found.append(RemoteTransaction(each.lsn, each.lsn, each.version, each.wall_ms, each.user, each.operation, each.trace_id, []))
        found[-1].entries.append(RemoteEntry(each.kind, each.table, each.key, each.value, each.changed, each.mqtt))
        found[-1].last_lsn = each.lsn
    return found


__all__ = ["DELETE", "MESSAGE", "PATCH", "PUT", "Add"]
