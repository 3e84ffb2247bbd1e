"""Writing many records of one table in the order of their keys, within a `WriteSet`.

Order makes it fast: records and the entries of each index are written through one cursor, so that LMDB finds most positions next to the one
before. Index entries come last, so records and indexes agree only when all steps have been taken.

    writer.begin(), writer.write(...) once or several times, writer.end()     # or steps(...), which is all of it

After each `write` they agree but for the indexes that a load leaves out, which `end` is for: so the write may end there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from svc.store.expiry_index import PARTIAL
from svc.store.log.entries import entry_encoder
from svc.store.values.comparison import changed_names
from svc.store.values.keys import KEPT_BYTES, index_keys
from svc.store.values.records import HAS_FILES, decode, encode, expiry_of, is_partial, lsn_of
from svc.store.writing.index_runs import IndexRuns, write_run
from svc.store.writing.write_set import WriteSet, check_order

if TYPE_CHECKING:
    from svc.store.env import Cursor
    from svc.store.table import Table
    from svc.store.writing.deferred_indexes import DeferredBatch


MANY = 32  # records that are written in one step


class BatchItem(msgspec.Struct, gc=False):
    """What is to be written under a key. `key`: encoded, whole. `number`: of the record, for messages. Not for the garbage collector, as `Write`."""

    stored: bytes
    key: bytes
    data: dict[str, Any]
    number: int


class BatchRules(Protocol):
    """What becomes of items. None: the item is left out. `kind`: of the log entries, PUT or PATCH."""

    kind: int

    def new(self, item: BatchItem) -> tuple[dict[str, Any], dict[str, Any] | None] | None:
        """(the record where there is none, the changes to log; None: the record itself)."""

    def over(self, item: BatchItem, old: dict[str, Any], is_live: bool) -> tuple[dict[str, Any], dict[str, Any] | None] | None:
        """(the record in place of `old`, the changes to log; None: the record itself). Not `is_live`: `old` has expired."""


Outcome = tuple[dict[str, Any], dict[str, Any] | None, tuple[str, ...], float | None, int]
"""(the record, the changes to log or None, names of the changed attributes, its expiry, LSN of the entry before in its chain)."""


class BatchWriter:
    """Writes items of one table as `rules` say; for one transaction, with nothing else written in between. All in steps of less than 1 ms."""

    def __init__(
        self, write_set: WriteSet, table: Table, rules: BatchRules, deferred: DeferredBatch | None = None, *, asks: bool = False
    ) -> None:
        """`deferred`: takes the entries of the indexes that are left out. `asks`: the rules call `admit` themselves, so that one record need not hinder all."""
        self._set = write_set
        self._deferred = deferred
        self._table = table
        self._rules = rules
        self._stamp = table.validator.stamp if table.stamps else None
        self._may_expire = table.expiry.is_possible
        self._has_deleted = write_set.log.has_deleted(write_set.txn)
        self._encode_log = entry_encoder(
            kind=rules.kind,
            operation=write_set.operation,
            table=table.name,
            table_number=table.number,
            transaction=write_set.first_lsn,
            wall_ms=write_set.wall_ms,
            version=write_set.version,
            node=write_set.database.node,
            user=write_set.user,
            trace_id=write_set.trace_id,
        )
        self._constraints = table.constraints
        self._admits = self._constraints is not None and not asks
        self._unique = () if self._constraints is None else self._constraints.unique
        self._pending: dict[bytes, dict[str, Any]] = {}  # records of the step under way, if any of their values are unique
        self._runs = [
            IndexRuns(index)
            for index in table.index_list
            if not index.unique and (index.computed is None or write_set.can_maintain(table, index))
        ]

    def steps(self, order: list[bytes], items: Mapping[bytes, BatchItem]) -> Iterator[None]:
        """Write the items in the order of their stored keys."""
        yield from self.begin()
        yield from self.write(order, items)
        yield from self.end()

    def begin(self) -> Iterator[None]:
        """Before the first `write`."""
        if self._deferred is not None:
            yield from self._deferred.begin()

    def write(self, order: list[bytes], items: Mapping[bytes, BatchItem]) -> Iterator[None]:
        """Write those of `items` that are in `order`: stored keys, sorted."""
        txn, table = self._set.txn, self._table
        cursor = txn.cursor(table.primary)
        is_empty = not txn.stat(table.primary)["entries"]
        for start in range(0, len(order), MANY):
            some = order[start : start + MANY]
            self._write_records(cursor, [items[stored] for stored in some], {} if is_empty else dict(cursor.getmulti(some)))
            yield
        for run in self._runs:
            if self._deferred is None or not self._deferred.leaves_out(run.index):
                yield from write_run(self._set, run)

    def end(self) -> Iterator[None]:
        """After the last `write`."""
        if self._deferred is None:
            return
        for run in self._runs:
            if self._deferred.leaves_out(run.index):
                yield from self._deferred.add(run.index, (yield from run.merged()))
        self._deferred.end()

    def _write_records(self, cursor: Cursor, items: list[BatchItem], found: dict[bytes, bytes]) -> None:
        """`found`: the records that are stored under their keys."""
        table, version, compress_above = self._table, self._set.version, self._set.compress_above
        log, encode_log = self._set.log, self._encode_log
        refreshed = self._set.wall_ms if table.is_caching else None
        fresh: list[tuple[bytes, dict[str, Any]]] = []
        rows: list[tuple[bytes, bytes]] = []
        logged: list[bytes] = []
        lsn = log.last_lsn + 1
        for item in items:
            stored = item.stored
            old_raw = found.get(stored)
            if table.moves is not None and old_raw is not None:
                old_raw = table.moves.translate(old_raw, self._set.txn)
            outcome = self._insert(item, rows[-1][0] if rows else b"") if old_raw is None else self._replace(item, old_raw)
            if outcome is None:
                continue
            record, changes, changed, expiry, previous = outcome
            if old_raw is None:
                fresh.append((stored, record))
            raw = encode(record, version, lsn, expiry, compress_above, refreshed, partial=expiry == PARTIAL)
            if raw[0] & HAS_FILES or (old_raw is not None and old_raw[0] & HAS_FILES):
                self._set.change_files(table, stored, lsn, old_raw, record)
            rows.append((stored, raw))
            if self._unique:
                self._pending[stored] = record
            value = raw if changes is None else encode(changes, version, lsn, expiry, compress_above, refreshed)
            logged.append(encode_log(item.key, previous, value, changed, old_raw if table.audit else None))
            lsn += 1
        cursor.putmulti(rows)
        self._pending.clear()
        self._set.written_bytes += sum([len(raw) for _, raw in rows])
        log.append_encoded(self._set.txn, logged)
        for run in self._runs:
            run.add(fresh)

    def _insert(self, item: BatchItem, before: bytes) -> Outcome | None:
        """A record under a key that has none. `before`: the stored key that is written before it, b"" if none is."""
        table, write_set = self._table, self._set
        made = self._rules.new(item)
        if made is None:
            return None
        if len(item.stored) >= KEPT_BYTES:
            check_order(table, write_set.txn, item.stored, before)
        record, changes = made
        if self._stamp is not None:
            self._stamp(record, write_set.stamp_ms, None)
        if self._admits:
            self.admit(item.stored, None, record)
        for index in self._unique:  # at once: the next record of the batch is compared with it
            write_set.reindex(
                index, item.stored, (), index_keys(record.get(index.attribute) if index.computed is None else index.computed(record))
            )
        if changes is not None:
            changes.update((name, record[name]) for name in table.stamps if name in record)
        expiry = None
        if self._may_expire:
            expiry = table.expiry.time_for(record, None, write_set.wall_ms)
            table.expiry.change(write_set.txn, item.stored, None, expiry)
        previous = write_set.log.resume_chain(write_set.txn, table.number, item.key) if self._has_deleted else 0
        return record, changes, tuple(record), expiry, previous

    def _replace(self, item: BatchItem, old_raw: bytes) -> Outcome | None:
        """A record in place of a stored one, and what that changes in its indexes."""
        table, write_set, stored = self._table, self._set, item.stored
        is_live = table.is_live(old_raw, write_set.wall_ms)
        old = decode(old_raw)
        made = self._rules.over(item, old, is_live)
        if made is None:
            return None
        record, changes = made
        if self._deferred is not None:
            self._deferred.replaced(stored)
        if self._stamp is not None:
            self._stamp(record, write_set.stamp_ms, old if is_live else None)
        if self._admits:
            self.admit(stored, old if is_live else None, record)
        expiry = table.expiry.time_for(record, None, write_set.wall_ms)
        if changes is not None:
            changes.update((name, record[name]) for name in table.stamps if name in record)
            if expiry is None and not table.expiry.by_attribute:
                expiry = expiry_of(old_raw)
            if is_partial(old_raw):  # it stays a part: the source has the rest, and what is written now
                record, expiry = table.part_of(record), PARTIAL
        table.expiry.change(write_set.txn, stored, expiry_of(old_raw), expiry)
        changed = changed_names(old, record)
        for index in table.stored_indexes:
            if index.attribute in changed:
                write_set.reindex(index, stored, index_keys(old.get(index.attribute)), index_keys(record.get(index.attribute)))
        if table.computed_indexes:
            write_set.reindex_computed(table, stored, old, record, changed)
        return record, changes, changed, expiry, lsn_of(old_raw)

    def admit(self, stored: bytes, old: dict[str, Any] | None, record: dict[str, Any]) -> None:
        """Raise CheckFailed or NotUnique if the table does not admit the record in place of `old`, None if there is none that is live."""
        if self._constraints is not None:
            if self._stamp is not None:
                record = record.copy()
                self._stamp(record, self._set.stamp_ms, old)
            self._constraints.refuse(self._set, self._table, stored, old, record, self._pending)
