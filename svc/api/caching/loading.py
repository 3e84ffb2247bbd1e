"""One load of one record: the sources are asked, and what they say is stored, together with what they have written (spec: caching §1, §2).

asking --an Answer--> understood --its transaction is handed to the store--> the caller has the record --committed--> the flight is over
   '----error------------'---------> the transaction is undone, the caller has the error
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from svc.api.caching.absences import Absence
from svc.api.caching.directives import Directives
from svc.api.caching.entry import SourceContext
from svc.api.caching.fetches import SourceCall
from svc.api.caching.sources import Answer, Source, to_version, understand
from svc.api.context import AnyContext
from svc.api.transactions import LATEST, Transaction
from svc.awaitables import is_waiting, settled, then
from svc.clock import stamp_time
from svc.errors import Problem, ServerError
from svc.store.blobs import UnsavedContent, blobs_in
from svc.store.caching import FetchedAnswer, State
from svc.store.values.keys import Key
from svc.store.values.records import HAS_FILES, decode, encode, frame, lsn_of, raw_payload, version_of

if TYPE_CHECKING:
    from svc.api.caching.cache import TableCache

logger = logging.getLogger("svc.applications")


class Load:
    """`whole`: the record that is here, if all of it is. `since`: LSN of the newest log entry. `context`: of the caller."""

    def __init__(
        self, cache: TableCache, key: Key, whole: bytes | None, since: int, directives: Directives, context: AnyContext | None
    ) -> None:
        self._cache = cache
        self._table = cache.table
        self._key = key
        self._whole = whole
        self._since = since
        self._directives = directives
        self._asking = context

    def run(self, flight: SourceCall) -> Any:
        """The record as stored, None if there is none, or an awaitable of it. Raises what the sources raise."""
        self._flight = flight
        own = self._own = SourceContext(self._table, self._whole, self._asking, self._key)
        own.state.source = self._cache
        transaction = self._transaction = own.state.transaction = Transaction(self._cache.store, own)
        transaction.source = self._cache
        try:
            result = then(self._ask(0), self._take)
        except BaseException as error:
            self._failed(error)
            raise
        if is_waiting(result):
            transaction.is_lasting = True
            return self._run_later(result)
        return result

    async def _run_later(self, result: Awaitable[bytes | None]) -> bytes | None:
        try:
            return await result
        except BaseException as error:
            self._failed(error)
            raise

    def _failed(self, error: BaseException) -> None:
        self._transaction.abort()
        self._transaction.close()
        logger.debug("%s could not be loaded: %s", self._cache.name_of(self._key), error)

    # --- asking ------------------------------------------------------------------------------------------------------------------------

    def _ask(self, number: int) -> Any:
        """The Answer of the first source, from that with this number on, that has the record, or an awaitable of it."""
        sources = self._cache.getters
        for index in range(number, len(sources)):
            source = sources[index]
            available = source.is_available
            if is_waiting(available):
                return self._ask_rest(index, self._ask_when(available, source))
            if not available:
                continue
            result = self._ask_one(source)
            if is_waiting(result):
                return self._ask_rest(index, result)
            if result.state is not State.MISSING or not source.is_intermediate:
                return result
        canonical = self._cache.canonical
        if canonical is not None and canonical.has("get"):
            raise ConnectionRefusedError("the source says that it is not available")
        return Answer(State.MISSING)

    async def _ask_rest(self, index: int, result: Awaitable[Any]) -> Any:
        answer = settled(await result)
        while is_waiting(answer):
            answer = settled(await answer)
        if answer is not None and (answer.state is not State.MISSING or not self._cache.getters[index].is_intermediate):
            return answer
        rest = self._ask(index + 1)
        return await rest if is_waiting(rest) else rest

    async def _ask_when(self, available: Awaitable[Any], source: Source) -> Any:
        return self._ask_one(source) if await available else None

    def _ask_one(self, source: Source) -> Any:
        return then(source.call("get", self._key, self._own), understand)

    # --- storing -----------------------------------------------------------------------------------------------------------------------

    def _take(self, answer: Answer) -> Any:
        """Have what the source says stored, if it is to be; returns the record as stored, or an awaitable of it. The commit is not waited for."""
        table, own, writes = self._table, self._own, self._transaction.writes
        now_ms = table.database.clock.wall() * 1000
        expires_at = _expiry(own.state.expires_at)
        is_stored = not (self._directives.no_store or own.state.no_cache_store)
        if answer.state is State.MISSING:
            if is_stored and table.get_entry(self._flight.stored) is not None:
                writes.store_fetched(table, self._key, FetchedAnswer(State.MISSING, self._since))
            if is_stored and expires_at is not None:
                self._cache.absences.add(self._flight.stored, Absence(self._since, now_ms, expires_at))
            self._apply()
            return None
        if answer.state is State.UNCHANGED:
            whole = self._whole
            if whole is None:
                raise ServerError("its status is 304, and there is nothing here that could be unchanged", 502)
            expiry = table.expiry.time_for(decode(whole), expires_at, now_ms)
            if is_stored:
                writes.store_fetched(table, self._key, FetchedAnswer(State.UNCHANGED, self._since, refreshed=now_ms), expires_at=expiry)
            self._apply()
            return frame(raw_payload(whole), version_of(whole), lsn_of(whole), expiry, whole[0] & HAS_FILES, now_ms)
        record = self._validated(answer)
        version = self._version_of(answer)
        if table.stamps:
            time = version if self._says_version(answer) else stamp_time(version, now_ms)
            table.validator.stamp(record, time, None if self._whole is None else decode(self._whole))
        expiry = table.expiry.time_for(record, expires_at, now_ms)
        has_files = UnsavedContent.alive and any(blob.unsaved is not None for blob in blobs_in(record))
        if is_stored or has_files:  # what is in files is served from the record that they belong to
            writes.store_fetched(table, self._key, FetchedAnswer(State.NEW, self._since, version, now_ms), record, expires_at=expiry)
        if has_files:
            return self._save_files(record, version, expiry, now_ms)
        raw = encode(record, version, 0, expiry, refreshed=now_ms)
        self._apply()
        return raw

    async def _save_files(self, record: dict[str, Any], version: float, expiry: float | None, now_ms: float) -> bytes:
        """Content that goes into files comes first."""
        await self._transaction.writes.save_blobs()
        raw = encode(record, version, 0, expiry, refreshed=now_ms)
        self._apply()
        return raw

    def _validated(self, answer: Answer) -> dict[str, Any]:
        table, key = self._table, self._key
        assert answer.record is not None
        record = {**answer.record, table.primary_key: list(key) if type(key) is tuple else key}
        try:
            return table.validator.record(record, source="json" if answer.is_json else "native")
        except Problem as problem:
            raise ServerError(f"what it returned is no record of this table: {problem.message}", 502) from None

    def _says_version(self, answer: Answer) -> bool:
        """Whether the source says when the record was changed."""
        return self._own.last_modified is not None or answer.version is not None

    def _version_of(self, answer: Answer) -> float:
        if self._own.last_modified is not None:
            return to_version(self._own.last_modified)
        return self._cache.store.next_version() if answer.version is None else answer.version

    def _apply(self) -> None:
        """Hand the transaction to the store. What prevents it does not concern the caller."""
        try:
            waiting = self._transaction.apply()
        except Problem as problem:
            self._not_stored(problem)
            return
        if waiting is None:
            self._applied()
        else:
            self._flight.storing = True
            self._cache.spawn(self._apply_later(waiting))

    async def _apply_later(self, waiting: Awaitable[None]) -> None:
        try:
            await waiting
        except Problem as problem:
            self._not_stored(problem)
        except BaseException:
            self._cache.fetches.stored(self._flight, None)
            raise
        else:
            self._applied()

    def _not_stored(self, problem: Problem) -> None:
        self._transaction.abort()
        self._transaction.close()
        self._cache.fetches.stored(self._flight, problem)

    def _applied(self) -> None:
        self._transaction.close()
        flight, fetches, pending = self._flight, self._cache.fetches, self._own.pending_commit
        if pending is None:  # nothing was written, or a long write is on the disk
            fetches.stored(flight, None)
        elif pending.outcome is not None:
            fetches.stored(flight, pending.outcome[0])
        else:
            flight.storing = True
            pending.on_done = lambda problem: fetches.stored(flight, problem)


def _expiry(given: Any) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < LATEST:
        raise ServerError("the expires_at that it has set is no time in ms", 502)
    return float(given)
