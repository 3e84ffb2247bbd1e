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
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec

from svc.store.log.entries import DELETE, EXPIRE, PATCH, PUT, LogEntry
from svc.store.values.records import HAS_EXPIRY, IS_COPY, decode, expiry_of, is_partial, lsn_of, version_of
from svc.store.values.validation import Add
from svc.store.writing.merge_rules import RecordWrite, logged_changes, merge, merge_write

if TYPE_CHECKING:
    from svc.store.env import Txn
    from svc.store.table import Table

_WRITES = frozenset((PUT, PATCH, DELETE))
_MOST_CHAINS = 1000  # that are remembered
_NEVER, _LAST = (0.0, ""), (inf, "")


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
        if entry.is_copied:  # what was before plays no part in the record
            base = entry.value
            is_whole = entry.kind != PATCH and (base is None or version_of(base) < lowest)
            is_known = entry.kind == PUT and base is not None and version_of(base) < write.version
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
        elif entry.kind == EXPIRE or _is_end_without_images(table, entry, write.version):
            is_whole = False
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


def _is_end_without_images(table: Table, entry: LogEntry, version: float) -> bool:
    """Whether what is behind an entry need not be known for a write of this version: there are no images, and the newest write at that time was older, and with
    it all before. Of one that was late itself that cannot be said."""
    return entry.previous != 0 and entry.kind in _WRITES and not table.audit and not entry.is_merged and entry.version < version


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


# -- increments of a counter that many increment


class KnownChain(msgspec.Struct):
    """What the newest entries of a record's chain say, for increments that come late: of a counter there may be thousands of newer ones, and they need not be
    carried out again for each. `newest`: LSN of the end of the chain. `reaches`: no entry that was not looked at has a higher version. `replaced`: stamp of
    the newest put or deletion, `assigned`: of the newest assignment of each property. `names`: the properties that the record had before all of that, or else
    those of the oldest write, `first`: they keep their place in the record."""

    newest: int
    reaches: float
    replaced: tuple[float, str]
    assigned: dict[str, tuple[float, str]]
    names: frozenset[str]
    first: tuple[float, str]


Chains = dict[tuple[int, bytes], KnownChain]
"""By number of the table, and key."""


def add_late(table: Table, txn: Txn, raw: bytes, key: bytes, write: VersionedWrite, chains: Chains) -> tuple[bool, RecordState | None]:
    """(whether this is known here, what `replay` would say): of a patch that increments integers which the record has. `chains` is kept up to date; the caller
    calls `entry_added` when the entry is in the log."""
    changes = write.data
    if write.kind != PATCH or not changes or write.expiry is not None or raw[0] & (HAS_EXPIRY | IS_COPY):
        return False, None
    if table.is_caching or table.expiry.by_attribute:
        return False, None
    record = decode(raw)
    for name, change in changes.items():
        if type(change) is not Add or type(change.value) is not int or type(record.get(name)) is not int:
            return False, None
    place = (table.number, key)
    chain = _known(table, txn, lsn_of(raw), write.version, chains.get(place), frozenset(record))
    if chain is None:
        chains.pop(place, None)
        return False, None
    if len(chains) >= _MOST_CHAINS:
        chains.clear()
    chains[place] = chain
    stamp = write.stamp
    if chain.replaced > stamp:
        return True, None
    if stamp <= chain.first or chain.replaced not in (_NEVER, chain.first) or not chain.names.issuperset(changes):
        return False, None
    for name, change in changes.items():
        if chain.assigned.get(name, _NEVER) <= stamp:
            record[name] = change.applied_to(record[name])
    return True, RecordState(record, None, version_of(raw))


def entry_added(table: Table, key: bytes, before: int, lsn: int, chains: Chains) -> None:
    """The entry of an `add_late`, behind the entry `before`, is in the log."""
    chain = chains.get((table.number, key))
    if chain is not None and chain.newest == before:
        chain.newest = lsn


def _known(table: Table, txn: Txn, newest: int, version: float, known: KnownChain | None, now: frozenset[str]) -> KnownChain | None:
    """What is said by all entries from this version on; None: the log does not reach back that far, or expiry plays a part. `now`: the properties that the
    record has."""
    if known is not None and known.reaches >= version:
        known = None  # begin again, to look further back
    elif known is not None and known.newest == newest:
        return known
    replaced, assigned = (_NEVER, {}) if known is None else (known.replaced, dict(known.assigned))
    log = table.database.log
    lsn, reaches = newest, 0.0
    first, names = _LAST, frozenset[str]()
    while lsn:
        if known is not None and lsn == known.newest:
            reaches = known.reaches
            if known.first < first:
                first, names = known.first, known.names
            break
        entry = log.get(txn, lsn)
        if entry is None or entry.kind not in _WRITES:
            return None
        if entry.is_copied:
            if entry.kind != PUT or entry.value is None or entry.value[0] & (HAS_EXPIRY | IS_COPY) or version_of(entry.value) >= version:
                return None
            reaches = version_of(entry.value)
            first, names = _NEVER, frozenset(decode(entry.value))
            break
        passed = write_of(entry)
        if passed.expiry is not None:
            return None
        if _is_end_without_images(table, entry, version):
            reaches, first, names = entry.version, _NEVER, now
            break
        if passed.stamp <= first:
            first, names = passed.stamp, frozenset(passed.data or ())
        if passed.kind != PATCH:
            replaced = max(replaced, passed.stamp)
        for name, value in (passed.data or {}).items():
            if type(value) is not Add:
                assigned[name] = max(assigned.get(name, _NEVER), passed.stamp)
        if entry.image is not None:
            if entry.image[0] & (HAS_EXPIRY | IS_COPY):
                return None
            reaches = version_of(entry.image)
            if reaches < version:
                first, names = _NEVER, frozenset(decode(entry.image))
                break
            reaches = 0.0
        lsn = entry.previous
    return KnownChain(newest, reaches, replaced, assigned, names, first)
