"""What brings rows into live queries, and out of them, without a change of a record: rules on rows name the account's record, or the time (spec: rows §1.6).

The tables of accounts are followed as long as there are results whose rules name attributes of an account's record. Results whose rules name `$now` are run
again about once a second, one after the other, each no more than a tenth of the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from svc.realtime.commit_feed import CommitFeed
from svc.realtime.live.recomputed_result import RecomputedResult, TurnScheduler
from svc.store import Database, LogEntry, Store
from svc.store.values.keys import encode_key


class ViewerChanges:
    """Of all results of one process."""

    def __init__(self, store: Store, feed: CommitFeed, scheduler: TurnScheduler) -> None:
        self._store = store
        self._feed = feed
        self._scheduler = scheduler
        self._of_accounts: dict[bytes, dict[RecomputedResult, None]] = {}  # by the encoded name of the account
        self._of_time: dict[RecomputedResult, None] = {}
        self._followed: list[Database] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        return self._task is None

    def add(self, result: RecomputedResult) -> None:
        spec = result.spec
        if spec.is_volatile:
            self._of_time[result] = None
        name = None if spec.viewpoint is None else spec.viewpoint.username
        if spec.account_names and name is not None:
            self._of_accounts.setdefault(encode_key(name), {})[result] = None
            self._follow()

    def discard(self, result: RecomputedResult) -> None:
        """Harmless if it is not there."""
        self._of_time.pop(result, None)
        name = None if result.spec.viewpoint is None else result.spec.viewpoint.username
        if name is None:
            return
        key = encode_key(name)
        results = self._of_accounts.get(key, {})
        results.pop(result, None)
        if not results:
            self._of_accounts.pop(key, None)
        if not self._of_accounts:
            for database in self._followed:
                self._feed.remove(database, self._committed)
            self._followed.clear()

    def _follow(self) -> None:
        from svc.query.viewer import account_tables

        for database in dict.fromkeys(table.database for table in account_tables(self._store)):
            if database not in self._followed:
                self._feed.add(database, self._committed)
                self._followed.append(database)

    def _committed(self, database: Database, entries: list[LogEntry]) -> None:
        for entry in entries:
            results = self._of_accounts.get(entry.key)
            table = database.tables.get(entry.table) if results else None
            if results and table is not None and table.definition.account:
                for result in list(results):
                    result.refresh()

    def time_has_passed(self) -> None:
        """About once a second."""
        if self._of_accounts:
            self._follow()  # a table of accounts may have come
        if self._of_time and self._task is None:
            self._task = self._scheduler.spawn(self._refresh_all())

    async def _refresh_all(self) -> None:
        try:
            await self._scheduler.slices.exhaust(self._refresh_each())
        finally:
            self._task = None

    def _refresh_each(self) -> Iterator[None]:
        for result in list(self._of_time):
            if not result.is_closed:
                result.refresh()
            yield
