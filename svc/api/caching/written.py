"""Writes to a caching table, which its source gets before they are committed here (spec: caching §6)."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from svc.api.caching.directives import Directives, directives_of
from svc.api.caching.entry import SourceContext
from svc.api.caching.sources import Source, check_written, problem_of
from svc.api.context import Context
from svc.awaitables import is_waiting, settled, then
from svc.content.unchanged import restore_json
from svc.messages import Request
from svc.store.entity_tags import CREATE
from svc.store.log.entries import DELETE, INVALIDATE, MESSAGE, PATCH
from svc.store.values.keys import Key, decode_key, storage_key
from svc.store.values.records import decode, decode_payload, is_partial
from svc.store.writing.merge_rules import log_changes, merge
from svc.store.writing.write_list import INSERT, UPDATE, Write, check_message
from svc.store.writing.write_set import RowGuard

if TYPE_CHECKING:
    from svc.api.caching.cache import TableCache

_MERGING = frozenset((PATCH, UPDATE))


def write_through(cache: TableCache, writes: list[Write], holder: Any) -> Awaitable[None] | None:
    """Have the source carry out the writes of a transaction to its table, in their order. Returns an awaitable if that takes longer than a call.

    `holder`: the request, or whatever else the transaction is of. Raises what the source raises: nothing may be committed then.
    """
    return _Writing(cache, holder).go_on(writes, 0)


class _Writing:
    """The writes of one transaction."""

    def __init__(self, cache: TableCache, holder: Any) -> None:
        self._cache = cache
        self._table = cache.table
        self._directives: Directives = directives_of(holder)
        self._restore = getattr(holder, "restore", None)
        self._reading = replace(self._directives, max_age=None)
        self._asking = (
            holder if isinstance(holder, Request | Context) else Context(getattr(holder, "user", None), getattr(holder, "trace_id", None))
        )
        self._context = SourceContext(cache.table, None, self._asking)

    def go_on(self, writes: list[Write], number: int) -> Awaitable[None] | None:
        for index in range(number, len(writes)):
            result = settled(self._write(writes[index]))
            if is_waiting(result):
                return self._rest(result, writes, index + 1)
        return None

    async def _rest(self, waiting: Any, writes: list[Write], number: int) -> None:
        result = settled(await waiting)
        while is_waiting(result):
            result = settled(await result)
        rest = self.go_on(writes, number)
        if rest is not None:
            await rest

    def _write(self, write: Write) -> Any:
        """Have the source carry out one write, or an awaitable of that."""
        if write.fetched is not None:
            return None
        key: Any = decode_key(write.key) if write.key else None
        kind = write.kind
        if kind == MESSAGE:
            if write.rows is not None:
                check_message(write, write.rows, self._table.database.snapshot())
            return self._call("publish", key, decode_payload(write.payload or b"\xc0"))
        if kind == INVALIDATE:
            return self._invalidate(key)
        age = self._directives.max_age
        if age is not None and write.data is not None and write.expires_at is None:
            write.expires_at = self._table.database.clock.wall() * 1000 + age * 1000
        if kind == DELETE:
            if write.rows is not None:
                return then(self._loaded(key), lambda raw: self._delete_ruled(write, key, raw, write.rows))
            if write.precondition is not None:
                write.precondition.check(self._here(write))
            return self._call("delete", key)
        if kind in _MERGING:
            return then(self._loaded(key), lambda raw: self._merge(write, key, raw))
        here = self._here(write)
        if kind == INSERT and here is not None:
            return None  # it is skipped here, too
        if write.precondition is CREATE or (write.precondition is None and write.rows is None and self._is_complete(write)):
            return self._put(write, key, here)
        return then(self._loaded(key), lambda raw: self._put(write, key, raw))

    def _is_complete(self, write: Write) -> bool:
        """Whether what is written does not depend on what the record was, but perhaps for the types of values that are repeated."""
        decide = write.decide
        return decide is None or decide is restore_json or decide is self._restore or isinstance(decide, partial)

    def _here(self, write: Write) -> bytes | None:
        return self._table.get_by(write.key, self._table.database.snapshot())

    def _loaded(self, key: Key) -> Any:
        """The whole record, loaded if it is not here, or an awaitable of it; None if there is none."""
        return self._cache.load_stored(key, None, self._asking, self._reading)

    # What rules on rows say is asked before the source has written: it asks nobody (spec: rows §1.4).

    def _delete_ruled(self, write: Write, key: Key, raw: bytes | None, rows: RowGuard | None) -> Any:
        assert rows is not None
        table, stored = self._table, storage_key(write.key)
        txn = table.database.snapshot()
        is_there = raw is not None and rows.can_see(table, txn, stored, raw)
        if write.precondition is not None:
            write.precondition.check(raw if is_there else None)
        if not is_there:
            return None  # it is skipped here, too
        assert raw is not None
        if write.found is not None:  # by a query: what may not be deleted is left alone
            return self._call("delete", key) if rows.may_delete(table, txn, stored, raw) else None
        rows.check_deleted(table, txn, stored, raw)
        return self._call("delete", key)

    def _is_seen(self, write: Write, raw: bytes) -> bool:
        return write.rows is None or write.rows.can_see(self._table, self._table.database.snapshot(), storage_key(write.key), raw)

    def _check_seen(self, write: Write, raw: bytes | None) -> None:
        if write.rows is not None and raw is not None:
            write.rows.check_seen(self._table, self._table.database.snapshot(), storage_key(write.key), raw)

    def _check_rules(self, write: Write, key: Key, raw: bytes | None, record: dict[str, Any]) -> None:
        if write.rows is None:
            return
        table = self._table
        whole = dict(record)
        whole[table.primary_key] = list(key) if type(key) is tuple else key
        if table.validator.completes:
            whole = table.validator.complete(whole, is_new=raw is None)
        if table.stamps:
            table.validator.stamp(whole, table.database.clock.wall() * 1000, None if raw is None else decode(raw))
        write.rows.check_written(table, table.database.snapshot(), storage_key(write.key), raw, whole)

    def _put(self, write: Write, key: Key, raw: bytes | None) -> Any:
        if write.rows is not None and write.kind == INSERT and raw is not None:
            return None  # it is skipped here, too
        if write.precondition is not CREATE:
            self._check_seen(write, raw)
        if write.precondition is not None:
            write.precondition.check(raw)
        assert write.data is not None
        stored = None if raw is None or is_partial(raw) else decode(raw)
        record = write.data if write.decide is None else write.decide(write.data, stored)
        self._check_rules(write, key, raw, dict(record))
        return self._call("put", key, dict(record))

    def _merge(self, write: Write, key: Key, raw: bytes | None) -> Any:
        if write.precondition is not None:
            write.precondition.check(raw)
        if write.kind == UPDATE and (raw is None or not self._is_seen(write, raw)):
            return None  # it is skipped here, too
        self._check_seen(write, raw)
        changes = write.data
        assert changes is not None
        stored = None if raw is None else decode(raw)
        if write.decide is not None:
            changes = write.decide(changes, stored)
        if write.rows is not None:
            self._check_rules(write, key, raw, merge({} if stored is None else stored, changes))
        if self._cache.canonical is not None and self._cache.canonical.has("patch"):
            return self._call("patch", key, log_changes(changes))
        record = merge({} if stored is None else stored, changes)
        record[self._table.primary_key] = list(key) if type(key) is tuple else key
        if stored is None:
            record = self._table.validator.record(record, source="native")
        return self._call("put", key, record)

    def _call(self, name: str, key: Any, *data: Any) -> Any:
        source = self._cache.canonical
        return None if source is None or not source.has(name) else self._called(source, name, key, data)

    def _invalidate(self, key: Any) -> Any:
        """Intermediate sources hear of it, never the canonical one."""
        sources = [source for source in self._cache.intermediates if source.has("invalidate")]
        return self._invalidate_each(sources, key)

    def _invalidate_each(self, sources: list[Source], key: Any) -> Any:
        if not sources:
            return None
        return then(self._called(sources[0], "invalidate", key, ()), lambda _: self._invalidate_each(sources[1:], key))

    def _called(self, source: Source, name: str, key: Any, data: tuple[Any, ...]) -> Any:
        try:
            result = source.call(name, key, self._context, *data)
            if is_waiting(result):
                return self._awaited(result, name, key)
            check_written(result)
        except Exception as error:
            raise self._problem(error, name, key) from error
        return None

    async def _awaited(self, result: Awaitable[Any], name: str, key: Any) -> None:
        try:
            check_written(await result)
        except Exception as error:
            raise self._problem(error, name, key) from error

    def _problem(self, error: Exception, name: str, key: Any) -> Exception:
        return problem_of(error, f"{self._table.name} {str(key)[:200]!r}", f"{name} of its source")
