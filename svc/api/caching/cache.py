"""Reading a table through its source: what is fresh is served, what is not is fetched (spec: caching §1-§5).

`TableCache` hangs on the table of the store (`Table.caching`), where REST, the classes of applications and operations find it. A hit is what a read of a
table without a source is, and a look at the expiry.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import replace
from typing import Any

from svc.analytics.recorder import IdleRecorder, Recorder
from svc.api.caching.absences import Absences
from svc.api.caching.directives import NONE, Directives, directives_of
from svc.api.caching.entry import Entry, SourceContext
from svc.api.caching.fetches import Fetches, SourceCall
from svc.api.caching.loading import Load
from svc.api.caching.searches import Search
from svc.api.caching.sources import (
    SERVED_STALE,
    Source,
    again,
    is_unreachable,
    problem_of,
    status_of_error,
)
from svc.api.caching.written import write_through
from svc.api.context import AnyContext
from svc.api.target import RequestTarget
from svc.auth.users import user_of
from svc.awaitables import is_waiting
from svc.clock import AHEAD
from svc.errors import ClientError, NotCached, Problem, ServerError
from svc.loop import contained
from svc.messages import CallState, Headers, Request
from svc.query.narrowing import view_of
from svc.resources import PlannedQuery
from svc.store import Store, Table
from svc.store.env import Txn
from svc.store.expiry_index import ExpiryTimes
from svc.store.values.keys import MAX_STORED, Key, encode_key, storage_key
from svc.store.values.records import (
    IS_PARTIAL,
    expiry_of,
    is_partial,
    refreshed_of,
    version_of,
)
from svc.store.writing.write_list import Write

logger = logging.getLogger("svc.applications")

ALLOW_STALE = "allow_stale_while_revalidate"


class _HitState(CallState):
    """Of a request that was answered from the table."""

    loaded_from_source = False
    metric_type = "cache-hit"


class TableCache:
    """The sources of one table, and what is under way with them. `owner`: the class that has named the source, for its rules."""

    def __init__(self, table: Table, store: Store, loop: asyncio.AbstractEventLoop, recorder: Recorder | None = None) -> None:
        self.table = table
        self.owner: Any = None
        self.store = store
        self._wall = store.clock.wall
        self._loop = loop
        recorder = IdleRecorder() if recorder is None else recorder
        self._note_hit = recorder.yes_no("cache-hit", table.name)
        self.fetches = Fetches(table, store.clock, loop, recorder.bucket("cache-resolution", table.name))
        self.absences = Absences()
        self.canonical: Source | None = None
        self._intermediates: list[Source] = []
        self._times: dict[Source, ExpiryTimes] = {}  # that were given with sources, the latest last
        self._applied: ExpiryTimes | None = None
        self.getters: list[Source] = []  # those with a `get`, in the order in which they are asked
        self._tasks: set[asyncio.Task[None]] = set()
        self._following: dict[str, tuple[Source, asyncio.Task[None]]] = {}  # by name of the source

    # --- sources -----------------------------------------------------------------------------------------------------------------------

    def add(self, source: Source, owner: Any, times: ExpiryTimes) -> None:
        """Take a source, in place of the one of the same name. Raises ClientError for a second canonical one."""
        if source.is_intermediate:
            self._intermediates = [each for each in self._intermediates if each.name != source.name] + [source]
        else:
            if self.canonical is not None and self.canonical.name != source.name:
                raise ClientError(
                    f"{self.table.name} has a canonical source already, {self.canonical.name}: {source.name} can be an intermediate one"
                )
            self.canonical = source
        self.owner = owner
        self._times = {each: given for each, given in self._times.items() if each is self.canonical or each in self._intermediates}
        self.getters = [each for each in (*self._intermediates, self.canonical) if each is not None and each.has("get")]
        if times != ExpiryTimes():
            self._times[source] = times
        self._apply_times()
        self.table.cache(self)

    def remove(self, source: Source) -> None:
        """The source goes, unless another one has taken its place; what it is being asked for is finished. A table without sources is `drop_unused`'s."""
        if self.canonical is source:
            self.canonical = None
        self._intermediates = [each for each in self._intermediates if each is not source]
        self.getters = [each for each in self.getters if each is not source]
        self._times.pop(source, None)
        self._apply_times()
        self.stop_following(source)

    def stop_following(self, source: Source) -> None:
        """Apply its events no longer. Harmless if another source has taken its place."""
        following = self._following.get(source.name)
        if following is not None and following[0] is source:
            del self._following[source.name]
            following[1].cancel()

    def _apply_times(self) -> None:
        times = next(reversed(self._times.values()), None)
        if times != self._applied:
            self._applied = times
            self.table.expiry.set_times(times)

    def drop_unused(self) -> bool:
        """Without sources the table is no cache any more. Returns whether that is so."""
        if self.canonical is not None or self._intermediates:
            return False
        self.table.cache(None)
        return True

    def follow(self, source: Source, run: Coroutine[Any, Any, None]) -> None:
        """Apply the events of a source, with `run`, in place of those of the one of the same name."""
        before = self._following.pop(source.name, None)
        if before is not None:
            before[1].cancel()
        self._following[source.name] = source, self._loop.create_task(run)

    def close(self) -> None:
        """The server ends: nothing more is followed or fetched."""
        for task in (*(task for _, task in self._following.values()), *self._tasks):
            task.cancel()
        self.fetches.close()

    @property
    def intermediates(self) -> list[Source]:
        return self._intermediates

    # --- reading -----------------------------------------------------------------------------------------------------------------------

    def read(
        self,
        key: Key,
        target: Any,
        context: AnyContext | None,
        txn: Txn | None = None,
        directives: Directives | None = None,
        rules: Any = None,
    ) -> Any:
        """The record as stored, None if there is none, or an awaitable of it. `txn`: what is read from, default the turn's snapshot. `directives`:
        if they are not those of the call. `rules`: the class that is asked, if it says itself what may be stale.

        Raises NotCached if it would have to be fetched and must not be, Overloaded, and the Problem that a failed source is.
        """
        data = encode_key(key)
        stored = data if len(data) < MAX_STORED else storage_key(data)
        raw = self.table.get_entry(stored, txn)
        if directives is None:
            if type(context) is Request and context._state is None and raw is not None and "cache-control" not in context.block.fields:
                # A request that says nothing of caches, to the table itself: almost all of them are hits.
                now_ms = self._wall() * 1000
                expiry = expiry_of(raw)
                if (expiry is None or (expiry > now_ms and not _is_ahead(raw, now_ms))) and not isinstance(target, RequestTarget):
                    self._note_hit(True)
                    context._state = _HitState()
                    self._show_age(context, raw, now_ms)
                    return raw
            directives = directives_of(context, target)
        if raw is not None and not self._is_stale(raw, directives):
            self._note_hit(True)
            self._answered(raw, False, target, context)
            return raw
        return self._read_stale(key, stored, raw, directives, target, context, rules)

    def _is_stale(self, raw: bytes, directives: Directives) -> bool:
        expiry, now_ms = expiry_of(raw), self._wall() * 1000
        if expiry is not None and (expiry <= now_ms or _is_ahead(raw, now_ms)):
            return True
        return directives is not NONE and (directives.no_cache or self._is_older(raw, directives.max_age))

    def _is_absent(self, stored: bytes, key: Key, directives: Directives) -> bool:
        """Whether the source has said that there is no such record, and that still holds."""
        absence = self.absences.find(stored)
        if absence is None or directives.no_cache:
            return False
        now_ms = self._wall() * 1000
        if absence.expires <= now_ms:
            self.absences.forget(stored)
            return False
        if directives.max_age is not None and now_ms - absence.learned > directives.max_age * 1000:
            return False
        database = self.table.database
        if max(database.log.chain_ends(database.snapshot(), self.table.number, encode_key(key), None)) > absence.since:
            self.absences.forget(stored)
            return False
        return True

    def _is_older(self, raw: bytes, seconds: float | None) -> bool:
        if seconds is None:
            return False
        refreshed = refreshed_of(raw)
        return self._wall() * 1000 - (version_of(raw) if refreshed is None else refreshed) > seconds * 1000

    def _read_stale(
        self, key: Key, stored: bytes, raw: bytes | None, directives: Directives, target: Any, context: AnyContext | None, rules: Any
    ) -> Any:
        whole = None if raw is None or raw[0] & IS_PARTIAL else raw
        if raw is None and len(self.absences) and self._is_absent(stored, key, directives):
            self._note_hit(True)
            self._answered(None, False, target, context)
            return None
        if not self.getters:
            return whole
        if type(context) is SourceContext and context.is_loading(self.table, key):
            raise ServerError(f"the source of {self.name_of(key)} asks for that record itself", 500)
        if directives.is_local:
            self._answered(whole, False, target, context)
            return whole
        if directives.only_if_cached:
            if whole is None:
                raise NotCached
            self._answered(whole, False, target, context)
            return whole
        if not directives.no_cache:
            self._note_hit(False)
            if whole is not None and self._may_be_stale(whole, key, context, rules):
                self._refresh_behind(key, stored, whole, directives, context)
                self._answered(whole, False, target, context)
                return whole
        flight, own = self._flight(key, stored, whole, directives, context)
        if flight.is_settled:
            return self._outcome(flight, key, whole, directives, target, context)
        return self._wait(flight, own, key, stored, whole, directives, target, context)

    async def _wait(
        self,
        flight: SourceCall,
        own: bool,
        key: Key,
        stored: bytes,
        whole: bytes | None,
        directives: Directives,
        target: Any,
        context: AnyContext | None,
    ) -> bytes | None:
        while not await self.fetches.wait(flight, own=own):
            another = self.fetches.find(stored)
            if another is None or another is flight:
                flight, own = self._start(key, stored, whole, directives, context, alone=False), True
            else:
                flight = another
        return self._outcome(flight, key, whole, directives, target, context)

    def _may_be_stale(self, whole: bytes, key: Key, context: AnyContext | None, rules: Any) -> bool:
        """Whether a class of the table serves this record, which is stale, while it is refreshed."""
        owner = rules or self.owner
        static = None if owner is None else inspect.getattr_static(owner, ALLOW_STALE, None)
        if static is None:
            return False
        holder = owner if isinstance(static, classmethod | staticmethod) else owner(key, context)
        try:
            allowed = getattr(holder, ALLOW_STALE)(Entry(self.table, whole, context), key)
        except BaseException as error:
            raise contained(error)
        if allowed is not True and allowed is not False and allowed is not None:
            if inspect.iscoroutine(allowed):
                allowed.close()
            raise TypeError(f"{ALLOW_STALE} of {owner.__name__} must return True or False, not a value of type {type(allowed).__name__}")
        return allowed is True

    def _refresh_behind(self, key: Key, stored: bytes, whole: bytes, directives: Directives, context: AnyContext | None) -> None:
        if self.fetches.find(stored) is None:
            try:
                flight = self._start(key, stored, whole, directives, context)
            except Problem as problem:  # there are too many calls
                logger.warning("%s is not refreshed: %s", self.name_of(key), problem.message)
                return
            if flight.is_settled:
                self._report(flight, key)
            else:
                self.spawn(self._report_later(flight, key))

    async def _report_later(self, flight: SourceCall, key: Key) -> None:
        await self.fetches.wait(flight, own=True)
        self._report(flight, key)

    def _report(self, flight: SourceCall, key: Key) -> None:
        """Log the error of a flight for which nobody has waited."""
        if flight.error is not None:
            problem = problem_of(flight.error, self.name_of(key))
            logger.warning("refreshed behind an answer: %s", problem.message)

    @staticmethod
    def refuse_hidden(target: Any, context: AnyContext | None) -> None:
        """Raise NotCached for a copy that the caller may not read, as if it were not here, where nothing else may be asked for."""
        if directives_of(context, target).only_if_cached:
            raise NotCached

    # --- what the caller gets ----------------------------------------------------------------------------------------------------------

    def _outcome(
        self, flight: SourceCall, key: Key, whole: bytes | None, directives: Directives, target: Any, context: AnyContext | None
    ) -> bytes | None:
        error = flight.error
        if error is None:
            self._answered(flight.raw, flight.is_fetched, target, context, flight.milliseconds)
            return flight.raw
        if whole is not None:
            may_be = SERVED_STALE if directives.stale_if_error else ()
            served = not directives.must_revalidate if is_unreachable(error) else status_of_error(error) in may_be
            if served:
                self._answered(whole, False, target, context)
                return whole
        if isinstance(error, Problem) and not flight.began:
            raise again(error)
        if flight.problem is None:
            flight.problem = problem_of(error, self.name_of(key))  # once: it may be logged
        raise again(flight.problem)

    def _answered(self, raw: bytes | None, is_loaded: bool, target: Any, context: AnyContext | None, milliseconds: float = 0.0) -> None:
        """Note how a read was answered where it can be seen."""
        if isinstance(target, RequestTarget):
            target.loaded_from_source = is_loaded
        if type(context) is not Request:
            if context is not None:
                context.state.loaded_from_source = is_loaded
            return
        state = context.state
        state.loaded_from_source = is_loaded
        if isinstance(target, RequestTarget) and state.owner is not self.table:
            return  # it is not this table that was asked for
        state.metric_type = "cache-miss" if is_loaded else "cache-hit"
        if self._tells_nothing(context):
            return
        if is_loaded:
            context.response_headers.append("Server-Timing", f"cache-resolve;dur={milliseconds:.2f}, miss")
        elif raw is not None:
            self._show_age(context, raw, self._wall() * 1000)

    def _tells_nothing(self, request: Request) -> bool:
        """Whether rules narrow what the caller may read: then nothing says whether there is a copy, which may be one of a hidden record (spec: rows §1.7)."""
        return view_of(user_of(request), self.table) is not self.table

    def _show_age(self, request: Request, raw: bytes, now_ms: float) -> None:
        refreshed = refreshed_of(raw)
        if refreshed is not None and not self._tells_nothing(request):
            seconds = int((now_ms - refreshed) / 1000)
            age = ("Age", str(seconds) if seconds > 0 else "0")
            if request.added_headers is None:
                request.added_headers = Headers.trusted([age])
            else:
                request.added_headers.set(*age)

    def name_of(self, key: Key) -> str:
        """The record, for messages."""
        return f"{self.table.name} {str(key)[:200]!r}"

    # --- fetching ----------------------------------------------------------------------------------------------------------------------

    def _flight(
        self, key: Key, stored: bytes, whole: bytes | None, directives: Directives, context: AnyContext | None
    ) -> tuple[SourceCall, bool]:
        """The flight for a record, and whether it was begun for this caller."""
        flight = self.fetches.find(stored)
        if flight is not None:
            return flight, False
        return self._start(key, stored, whole, directives, context), True

    def _start(
        self,
        key: Key,
        stored: bytes,
        whole: bytes | None,
        directives: Directives,
        context: AnyContext | None,
        *,
        alone: bool = True,
    ) -> SourceCall:
        database = self.table.database
        since = database.log.newest_lsn(database.snapshot())
        flight = SourceCall(stored, Load(self, key, whole, since, directives, context).run, self._known)
        self.fetches.start(flight, alone=alone)
        return flight

    def _known(self, flight: SourceCall) -> bytes | None:
        """The record, if another process has refreshed it since the flight began."""
        raw = self.table.get_entry(flight.stored)
        if raw is None or is_partial(raw) or self._is_stale(raw, NONE):
            return None
        refreshed = refreshed_of(raw)
        return raw if refreshed is not None and refreshed >= flight.since else None

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine for which nobody waits."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- several -----------------------------------------------------------------------------------------------------------------------

    def load_stored(
        self, key: Key, target: Any, context: AnyContext | None, directives: Directives | None = None, rules: Any = None
    ) -> Any:
        """`read`, or an awaitable of it, which ends when what was fetched can be read by all: it is stored, whatever the directives say."""
        if directives is None:
            directives = directives_of(context, target)
        result = self.read(key, target, context, directives=replace(directives, no_store=False), rules=rules)
        if is_waiting(result):
            return self._until_stored(key, result)
        flight = self._flight_of(key)
        return result if flight is None or not flight.storing else self._until_stored(key, result)

    async def _until_stored(self, key: Key, result: Any) -> bytes | None:
        raw: bytes | None = await result if is_waiting(result) else result
        flight = self._flight_of(key)
        if flight is not None and flight.is_settled:
            await self.fetches.wait_stored(flight)
        return raw

    # --- queries -----------------------------------------------------------------------------------------------------------------------

    def find(self, plan: Callable[[], PlannedQuery], context: AnyContext | None, target: Any = None) -> Any:
        """The query that `plan` makes, with all that it finds loaded, or an awaitable of it. Raises what `plan` and sources raise."""
        return Search(self, plan, context, target).run() if self.getters else plan()

    def find_keys(self, keys: Iterable[Key], plan: Callable[[], PlannedQuery], context: AnyContext | None) -> Any:
        """The same for records that are named, and that are loaded if they are not here."""
        return Search(self, plan, context).run_for(keys) if self.getters else plan()

    def _flight_of(self, key: Key) -> SourceCall | None:
        data = encode_key(key)
        return self.fetches.find(data if len(data) < MAX_STORED else storage_key(data))

    # --- writing -----------------------------------------------------------------------------------------------------------------------

    def write_through(self, writes: list[Write], holder: Any) -> Awaitable[None] | None:
        """See `written`."""
        return write_through(self, writes, holder)


def _is_ahead(raw: bytes, now_ms: float) -> bool:
    """Whether a copy was fetched while the clock was ahead: how long it is to be kept counts from then."""
    return (refreshed_of(raw) or 0.0) > now_ms + AHEAD * 1000
