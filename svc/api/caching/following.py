"""Events of an active source: what changes there changes here (spec: caching §7)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from svc.api.caching.sources import Source, to_version
from svc.api.calls import each
from svc.api.context import Context
from svc.api.target import RequestTarget
from svc.awaitables import is_waiting, settled
from svc.clock import stamp_time
from svc.errors import ClientError
from svc.loop import contained
from svc.store import Store, Table, Transaction
from svc.store.caching import FetchedAnswer, State
from svc.store.values.conversion import check_key
from svc.store.values.records import decode, version_of
from svc.store.writing.commit import commit, wait_committed
from svc.store.writing.merge_rules import merge

if TYPE_CHECKING:
    from svc.api.caching.cache import TableCache

logger = logging.getLogger("svc.applications")

FIRST_PAUSE = 1.0  # seconds before a source is asked for its events again
LONGEST_PAUSE = 60.0
_NEVER_VOID = 1 << 62  # LSN: what a source says by itself is not an answer that others may have overtaken; its time decides


class SourceFollower:
    """The events of one source of a table."""

    def __init__(self, cache: TableCache, source: Source, store: Store) -> None:
        self._cache = cache
        self._table = cache.table
        self._source = source
        self._store = store

    async def run(self) -> None:
        """Apply events for as long as the server runs."""
        pause = FIRST_PAUSE
        while True:
            try:
                async for event in each(await self._subscribe()):
                    pause = FIRST_PAUSE
                    await self._take(event)
            except BaseException as raised:
                error = contained(raised)
                logger.error("%r of %s: its events cannot be followed: %s", self._source, self._table.name, error, exc_info=error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _subscribe(self) -> Any:
        request = RequestTarget()
        request.is_collection = True
        events = self._source.subscribe(request)
        while is_waiting(events) and not hasattr(events, "__aiter__"):
            events = settled(await events)
        return events

    async def _take(self, event: Any) -> None:
        """Apply one event. One that cannot be understood is reported, and the next follows."""
        try:
            transaction = self._store.begin()
            transaction.source = self._cache
            for write in _of(event, "writes") or () if _of(event, "type") == "transaction" else (event,):
                self._collect(transaction, write, event)
            if transaction.has_writes:
                await self._commit(transaction)
        except BaseException as raised:
            error = contained(raised)
            logger.error("%r of %s: an event cannot be applied: %s", self._source, self._table.name, error, exc_info=error)

    @staticmethod
    async def _commit(transaction: Transaction) -> None:
        holder = Context()
        waiting = commit(transaction, holder)
        if waiting is not None:
            await waiting
        if holder.pending_commit is not None:
            await wait_committed(holder.pending_commit)

    def _collect(self, transaction: Transaction, event: Any, whole: Any) -> None:
        table, kind, value = self._table_of(event), _of(event, "type"), _of(event, "value")
        id = _of(event, "id")
        if kind == "message":
            transaction.publish(table, None if id is None else check_key(table.definition, id), value, source="native")
            return
        key = check_key(table.definition, id)
        if not table.is_caching:
            _write(transaction, table, kind, key, value)
            return
        timestamp = _of(event, "timestamp")
        timestamp = _of(whole, "timestamp") if timestamp is None else timestamp
        version = self._store.next_version() if timestamp is None else to_version(timestamp)
        raw = transaction.get_raw(table, key)
        if raw is not None and timestamp is not None and version_of(raw) > version:
            return  # older than what is here
        if kind == "invalidate" or (kind in ("put", "patch") and self._has_own_get(table)):
            transaction.invalidate(table, key)
        elif kind == "delete":
            transaction.store_fetched(table, key, FetchedAnswer(State.MISSING, _NEVER_VOID))
        elif kind in ("put", "patch"):
            if kind == "patch":
                if raw is None:
                    return  # it is loaded whole when it is asked for
                value = merge(decode(raw), dict(value or {}))
            if not isinstance(value, Mapping):
                raise ClientError(f"the value of a {kind} is {type(value).__name__}, not an object")
            record = table.validator.record({**value, table.primary_key: list(key) if type(key) is tuple else key}, source="native")
            if table.stamps:
                time = stamp_time(version, self._store.clock.wall() * 1000) if timestamp is None else version
                table.validator.stamp(record, time, None if raw is None else decode(raw))
            transaction.store_fetched(table, key, FetchedAnswer(State.NEW, _NEVER_VOID, version), record)
        else:
            raise ClientError(f"{kind!r} is no type of event: put, patch, delete, invalidate, message or transaction")

    def _table_of(self, event: Any) -> Table:
        name = _of(event, "table")
        if name is None or name == self._table.name:
            return self._table
        table = self._table.database.tables.get(name)
        if table is None:
            raise ClientError(f"there is no table {name!r} in the database {self._table.database.name}")
        return table

    @staticmethod
    def _has_own_get(table: Table) -> bool:
        owner = None if table.caching is None else table.caching.owner
        return owner is not None and "get" in owner._own_verbs


def _of(event: Any, name: str) -> Any:
    return event.get(name) if isinstance(event, Mapping) else getattr(event, name, None)


def _write(transaction: Transaction, table: Table, kind: Any, key: Any, value: Any) -> None:
    """A change of a table without a source, in the transaction of one that has one."""
    if kind == "put":
        transaction.put(table, key, table.validator.record({**value, table.primary_key: key}, source="native"))
    elif kind == "patch":
        transaction.patch(table, key, table.validator.changes(dict(value), source="native"))
    elif kind == "delete":
        transaction.delete(table, key)
    elif kind == "invalidate":
        transaction.invalidate(table, key)
    else:
        raise ClientError(f"{kind!r} is no type of event: put, patch, delete, invalidate, message or transaction")
