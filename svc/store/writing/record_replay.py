"""The record that all its known writes make, when one of another node comes that is older than some of them (spec: schema-and-store §9).

The log has the chain of the writes in the order in which they came here. It is walked back to an image, the record before an entry, that is older than all
that was passed; from there they are carried out again in the order of their stamps, (version, name of the node), with the one that comes among them. Writes
of one transaction have the same stamp, and keep their order.

Carried out, a write does what it does where it is made: a put replaces, a deletion removes, a patch is merged into the record, or makes one if there is none
or if it has expired by the time of the patch. What comes of it depends on the writes alone, so it is the same on all nodes. That a record was removed here
because it had expired is no write: it is as it was, and has expired.

Only a newer put or deletion makes a write void for good. Then the write need not be kept. Any other may count once more is known.

Where the log has no images (`audit: false`), or does not reach back that far, the record as it is stands for what is older: the write then gets the
properties that no known newer write has set, and an older put or deletion changes nothing unless all newer writes are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from svc.store.log.entries import DELETE, EXPIRE, PATCH, PUT, LogEntry
from svc.store.values.records import decode, expiry_of, is_partial, version_of
from svc.store.writing.merge_rules import RecordWrite, logged_changes, merge, merge_write

if TYPE_CHECKING:
    from svc.store.env import Txn
    from svc.store.table import Table

_WRITES = frozenset((PUT, PATCH, DELETE))


class VersionedWrite(msgspec.Struct, gc=False):
    """A write of one record. `data`: of a put the record, of a patch the changes (`Add` increments), of a deletion None. `expiry`: that it gives, ms."""

    version: float
    node: str
    wall_ms: float
    kind: int
    data: dict[str, Any] | None
    expiry: float | None

    @property
    def stamp(self) -> tuple[float, str]:
        return self.version, self.node


class RecordState(msgspec.Struct, gc=False):
    """A record, None if there is none, when it expires, and the highest version of the writes that have made it."""

    record: dict[str, Any] | None
    expiry: float | None
    version: float


def state_of(raw: bytes | None) -> RecordState:
    return RecordState(None, None, 0.0) if raw is None else RecordState(decode(raw), expiry_of(raw), version_of(raw))


def write_of(entry: LogEntry) -> VersionedWrite:
    """What an entry says. Raises StoreFailure if it is damaged."""
    value = entry.value
    if value is None:
        return VersionedWrite(entry.version, entry.node, entry.wall_ms, entry.kind, None, None)
    data = decode(value)
    if entry.kind == PATCH:
        data = logged_changes(data)
    return VersionedWrite(entry.version, entry.node, entry.wall_ms, entry.kind, data, expiry_of(value))


def carry_out(table: Table, key: object, state: RecordState, write: VersionedWrite) -> RecordState:
    """The state after `write`. `key`: the value of the primary key, for a record that a patch makes."""
    version = max(state.version, write.version)
    if write.kind != PATCH:
        return RecordState(write.data, write.expiry, version)
    assert write.data is not None
    record, expiry = state.record, state.expiry
    if record is None or (expiry is not None and expiry <= write.wall_ms and not table.is_caching):
        record, expiry = None, None
    merged = merge(record or {}, write.data)
    name = table.primary_key
    merged[name] = write.data.get(name, key) if record is None else record[name]
    if write.expiry is not None:
        expiry = write.expiry
    elif table.expiry.by_attribute:
        expiry = table.validator.expiry(merged)
    return RecordState(merged, expiry, version)


def replay(table: Table, txn: Txn, raw: bytes | None, newest: int, key: object, write: VersionedWrite) -> RecordState | None:
    """The state once `write` is known too; None: it is void. `raw`: the record as it is stored. `newest`: the end of its chain in the log."""
    if raw is not None and (table.is_caching or is_partial(raw)):
        return None  # a copy of what the source has: that decides
    chain: list[VersionedWrite] = []  # newest in the log first
    lowest, stamp = write.version, write.stamp
    base: bytes | None = None
    lsn, is_whole, is_known = newest, True, True
    log = table.database.log
    while lsn:
        entry = log.get(txn, lsn)
        if entry is None:
            is_whole = False
            is_known = base is not None and version_of(base) < write.version
            break
        if entry.kind in _WRITES:
            passed = write_of(entry)
            if passed.kind != PATCH and passed.stamp > stamp:
                return None
            chain.append(passed)
            lowest = min(lowest, entry.version)
        base = entry.image
        if base is not None:
            if version_of(base) < lowest:
                break
        elif entry.kind == EXPIRE or (entry.previous and entry.kind in _WRITES and not table.audit and entry.version < write.version):
            is_whole = False  # there are no images: what is older than the write is taken to have come before it
            break
        lsn = entry.previous
    if not is_whole:
        return _without_images(table, raw, key, [each for each in chain if each.stamp > stamp], write, is_known=is_known)
    chain.reverse()
    chain.append(write)
    chain.sort(key=lambda each: each.stamp)
    state = state_of(base)
    for each in chain:
        state = carry_out(table, key, state, each)
    return state


def _without_images(
    table: Table, raw: bytes | None, key: object, newer: Sequence[VersionedWrite], write: VersionedWrite, *, is_known: bool
) -> RecordState | None:
    if not is_known and write.kind != PATCH:
        return None
    state = state_of(raw)
    later = [
        RecordWrite((each.version, each.node, 0), each.data, each.kind == PATCH) for each in sorted(newer, key=lambda each: each.stamp)
    ]
    incoming = RecordWrite((write.version, write.node, 0), write.data, write.kind == PATCH)
    merged = merge_write(state.record, later, incoming)
    if merged is None:
        return None if write.kind != DELETE else RecordState(None, None, max(state.version, write.version))
    record = dict(merged)
    record.setdefault(table.primary_key, key)
    return RecordState(record, write.expiry if state.record is None else state.expiry, max(state.version, write.version))
