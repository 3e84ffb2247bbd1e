"""Queries of a caching table: what they find and what is stale or evicted is loaded, then they are run (spec: caching §1.4).

A query is run once to see what it finds. What is loaded may have changed, and then others are found in its place, with a limit for instance: it is run until
it finds nothing that was not loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from svc.api.caching.directives import Directives, directives_of
from svc.api.context import AnyContext, Context
from svc.awaitables import is_waiting
from svc.errors import ClientError, NotCached, Problem
from svc.query import AnyRows
from svc.query.execution import execute
from svc.query.lasting_run import LastingRun
from svc.resources import PlannedQuery
from svc.store.values.keys import Key, encode_key, storage_key
from svc.store.values.records import expiry_of, is_partial

if TYPE_CHECKING:
    from svc.api.caching.cache import TableCache

STEP = 64  # records found between two polls of the clock
MOST_FOUND = 1000  # records that a query may have to load
TOGETHER = 50  # of these that are loaded at a time

Plan = Callable[[], PlannedQuery]


class Search:
    """One query of a table. `plan`: plans it on the snapshot of the turn."""

    def __init__(self, cache: TableCache, plan: Plan, context: AnyContext | None, target: Any = None) -> None:
        self._cache = cache
        self._table = cache.table
        self._store = cache.table.database.store
        self._plan = plan
        self._context = None if context is None else Context.within(context)
        self._directives: Directives = replace(directives_of(context, target), no_cache=False, no_store=False, max_age=None)
        self._tried: set[bytes] = set()  # stored keys

    def run(self) -> Any:
        """The planned query, with all that it finds loaded, or an awaitable of it. Raises what planning and sources raise."""
        found = self._look()
        return found if type(found) is PlannedQuery else self._load_all(found)

    def run_for(self, keys: Iterable[Key]) -> Any:
        """The same for records that are named, and that are loaded if they are not here."""
        if self._directives.is_local:
            return self._plan()
        now_ms = self._store.clock.wall() * 1000
        due = []
        for key in keys:
            stored = storage_key(encode_key(key))
            raw = self._table.get_entry(stored)
            expiry = None if raw is None else expiry_of(raw)
            if raw is None or (expiry is not None and expiry <= now_ms):
                due.append(key)
                self._tried.add(stored)
                self._check_number(len(due))
        return self._load_all(due) if due else self._plan()

    async def _load_all(self, found: Any) -> PlannedQuery:
        """Load, and look again, until a query finds nothing more. `found`: see `_look`."""
        while type(found) is not PlannedQuery:
            if is_waiting(found):
                found = await found
            else:
                await self._load_each(found)
                found = self._look()
        return found

    # --- what is to be loaded ----------------------------------------------------------------------------------------------------------

    def _look(self) -> Any:
        """The planned query if it finds nothing that has to be loaded, else the keys of what has to, or an awaitable of either."""
        rows = self._plan()
        query = rows.plan.query
        if query.aggregate is not None or query.explain or rows.table is not self._table:
            return rows
        now_ms, snapshot = self._store.clock.wall() * 1000, self._table.database.snapshot()
        if not self._table.expiry.has_due(snapshot, now_ms):
            return rows
        found: dict[bytes, bytes] = {}
        run = execute(rows.plan, snapshot)
        steps = self._stale(run, now_ms, found)
        if not self._store.slices.run(steps):
            return self._look_later(steps, LastingRun(run, self._table.database, lambda: f"a search of {self._table.name}"), found)
        return self._due(found) if found else rows

    def _stale(self, run: AnyRows, now_ms: float, found: dict[bytes, bytes]) -> Iterator[None]:
        """Collect the records that have to be loaded, by stored key."""
        try:
            while not run.done:
                for stored, raw in run.step_pairs(STEP):
                    expiry = expiry_of(raw)
                    if expiry is not None and expiry <= now_ms and stored not in self._tried:
                        found[stored] = raw
                        self._check_number(len(found))
                yield
        finally:
            run.close()

    async def _look_later(self, steps: Iterator[None], lasting: LastingRun, found: dict[bytes, bytes]) -> Any:
        try:
            await self._store.slices.exhaust(lasting.steps(steps))
        finally:
            lasting.close()
        return self._due(found) if found else self._plan()

    def _due(self, found: dict[bytes, bytes]) -> Any:
        """The keys of these, unless the source is not to be asked: then the planned query."""
        if self._directives.is_local:
            return self._plan()
        if self._directives.only_if_cached:
            if any(map(is_partial, found.values())):
                raise NotCached
            return self._plan()
        self._tried.update(found)
        return [self._table.key_of(raw) for raw in found.values()]

    # --- loading -----------------------------------------------------------------------------------------------------------------------

    async def _load_each(self, keys: list[Key]) -> None:
        for start in range(0, len(keys), TOGETHER):
            waiting, failed = [], []
            for key in keys[start : start + TOGETHER]:
                try:
                    result = self._cache.load_stored(key, None, self._context, self._directives)
                except Problem as problem:
                    failed.append(problem)
                    break
                if is_waiting(result):
                    waiting.append(result)
            for outcome in (*failed, *await asyncio.gather(*waiting, return_exceptions=True)):
                if isinstance(outcome, BaseException):
                    raise outcome

    def _check_number(self, found: int) -> None:
        if found + len(self._tried) > MOST_FOUND:
            raise ClientError(
                f"The query finds more than {MOST_FOUND} records that have to be loaded from the source: limit it", code="QUERY_TOO_LARGE"
            )
