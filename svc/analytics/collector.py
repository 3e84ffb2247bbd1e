"""Analytics of one instance: closes seconds, aggregates minutes, measures resources (spec: analytics §2, §6).

`tick` is called about once a second and begins what is due; the work itself is done by jobs, generators that stop after each short step, so that
no request waits for it. A job runs in `tick` and in `work` and reads the store again in each turn.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Executor, Future
from math import inf
from typing import Any, NamedTuple

from svc.analytics import process
from svc.analytics.aggregate import Aggregation
from svc.analytics.metric_tables import WRITTEN_AT_ONCE, Row, RowIds, aggregate_rows, maybe_time, part_of, raw_rows
from svc.analytics.recorder import IdleRecorder, Period, Recorder
from svc.analytics.statistics import whole
from svc.analytics.totals import MAX_LABEL_SETS, Totals
from svc.clock import SYSTEM_CLOCK, Clock, ClockSteps
from svc.store import Store

STEP = 60.0  # seconds: a smaller step of the clock makes no row look old
SETTLING = 3600.0  # seconds for which nothing is removed after a step: time to set the clock right again
LONG_AGO = 30 * 86400.0  # seconds: at the start, a newest row that is older than this looks like a wrong clock


class ClockWatch:
    """Compares the clock with the monotonic one, which stands still while the machine sleeps: that is a step as well."""

    def __init__(self, clock: Clock, newest_ms: float | None) -> None:
        """`newest_ms`: time of the newest row, None: there are no rows."""
        self._clock = clock
        self._steps = ClockSteps(clock)
        age = 0.0 if newest_ms is None else clock.wall() - newest_ms / 1000
        self._trusted_from = clock.monotonic() + (0.0 if -STEP <= age <= LONG_AGO else SETTLING)

    def is_settled(self) -> bool:
        """Whether there was no step for SETTLING. Sees those since the call before."""
        monotonic = self._clock.monotonic()
        if abs(self._steps.take()) > STEP:
            self._trusted_from = monotonic + SETTLING
        return monotonic >= self._trusted_from


TICK_BUDGET = 0.0007  # seconds of work in one tick, and in one slice of `work`; the last step may take as long again
SETTLED_MS = 2000  # age from which raw rows are taken: then those of other instances are there as well
# Entries and their bins in a raw row; a busier second is several rows of the same time. To encode a row is one step: it takes up to 0.8 ms.
_SIZE_OF_A_ROW = 500
_RETENTION_PAUSE = 60.0  # polling interval of old rows
_BUSY = 0.1  # share of active time from which a loop is worth a row of its own

# Written beside the aggregates; their time says nothing of which raw rows are covered.
_RESOURCE_METRICS = frozenset({"main-thread-utilization", "resource-usage", "database-size", "table-size", "storage-volume"})

_log = logging.getLogger("svc.analytics")


class AnalyticsSettings(NamedTuple):
    """`aggregate_period` in seconds; 0: raw rows only, -1: nothing is recorded at all. `storage_interval`: every n-th aggregation, 0 never.
    `max_label_sets`: of `totals`. `has_others`: other nodes may have written aggregates here too. `replicate`: they get those of this one."""

    aggregate_period: float = 60.0
    storage_interval: int = 10
    max_label_sets: int = MAX_LABEL_SETS
    has_others: bool = False
    replicate: bool = False


DEFAULT_SETTINGS = AnalyticsSettings()


class Analytics:
    """`recorder` takes the events. The instance that leads also aggregates, removes old rows and measures the store."""

    def __init__(
        self,
        store: Store,
        settings: AnalyticsSettings = DEFAULT_SETTINGS,
        *,
        node: str = "localhost",
        clock: Clock = SYSTEM_CLOCK,
        thread_id: int = 0,
        leads: bool = True,
        executor: Executor | None = None,
    ) -> None:
        """`node`: its name. `thread_id`: the number of this instance. `leads`: as after `lead`. `executor`: the pool of helper threads, to measure how long
        a job waits there."""
        self.recorder = IdleRecorder() if settings.aggregate_period < 0 else Recorder()
        self.totals = Totals(clock.wall, settings.max_label_sets)
        self._store = store
        self._node = node
        self._monotonic = clock.monotonic
        self._wall = clock.wall
        self._thread_id = thread_id
        self._executor = executor
        self._caches = store.caches
        self._storage_interval = settings.storage_interval
        self._period = settings.aggregate_period
        self._leads = False
        self._raw = raw_rows(store)
        self._aggregates = aggregate_rows(store, node if settings.has_others else None)
        self._replicate = settings.replicate
        now_ms = clock.wall() * 1000
        newest = [row for row in (self._raw.newest(now_ms), self._aggregates.newest(now_ms)) if row is not None]
        self._ids = RowIds(max((float(row["id"]) for row in newest), default=0.0), thread_id)
        times = [time for row in newest if (time := maybe_time(row)) is not None]
        self._clock = ClockWatch(clock, max(times, default=None))
        self._jobs: deque[Iterator[None]] = deque()
        self._closing = False  # a raw row is being made

        now = self._monotonic()
        self._period_began = now
        # Idle and active seconds: now, at the last raw row, at the last aggregation.
        self._load = self._raw_load = self._main_load = (0.0, 0.0)
        self._bytes_processed = 0.0
        self._next_aggregation = self._next_retention = 0.0
        self._aggregation_due = self._aggregates_now = False
        self._aggregations = 0
        self._probe: tuple[float, Future[float]] | None = None
        self._usage = process.ResourceUsage()
        self._usage_began: float | None = None
        self._place: bytes | None = None  # stored key of the last raw row that is aggregated
        self._covered_at = 0.0  # when there was nothing else to aggregate, by the monotonic clock
        if leads:
            self.lead()

    @property
    def load(self) -> tuple[float, float]:
        """Idle and active seconds of the loop since it began, as of the last `tick`."""
        return self._load

    def lead(self) -> None:
        """This instance aggregates from now on, for all of the node."""
        now = self._monotonic()
        self._leads = True
        self._next_aggregation = now + self._period / 2
        self._next_retention = now + _RETENTION_PAUSE
        self._place, age = self._find_place()
        self._covered_at = now - age

    def resign(self) -> None:
        """Another one does. What has begun is finished first, or that one would take a period for aggregated of which only some rows are there. Commits."""
        self._leads = self._aggregation_due = False
        self.work(inf)
        self._commit()

    def _commit(self) -> None:
        if self._store.has_pending:
            self._store.commit_turn()

    # --- called by the server ------------------------------------------------------------------------------------------------------

    def tick(self, idle: float, active: float) -> bool:
        """Begin due jobs and work on them for TICK_BUDGET; call it about once a second. True: more is to be done, see `work`.

        `idle`, `active`: seconds the loop has waited and worked, since it began. Writes: the store's turn has to be committed afterwards.
        """
        self._load = (idle, active)
        now = self._monotonic()
        if not self._closing:
            period = self.recorder.close()
            if period is not None:
                self._closing = True
                self._jobs.append(self._write_raw_row(period, (now - self._period_began) * 1000, self._wall() * 1000))
            self._period_began = now
        if self._aggregation_due:
            self._aggregation_due = False
            self._aggregates_now = True
            self._jobs.append(self._aggregate())
        if self._leads and self._period > 0 and now >= self._next_aggregation and not self._aggregates_now:
            self._next_aggregation = now + self._period / 2
            if now - self._covered_at >= self._period:
                # In the next tick: until then the probe has been through the queue of the helper threads.
                self._aggregation_due = True
                self._send_probe()
        if self._leads and now >= self._next_retention and not isinstance(self.recorder, IdleRecorder):
            self._next_retention = now + _RETENTION_PAUSE
            if self._clock.is_settled():
                self._jobs.append(self._raw.iter_expire(self._wall() * 1000))
                self._jobs.append(self._aggregates.iter_expire(self._wall() * 1000))
        return self.work(TICK_BUDGET)

    def work(self, budget: float) -> bool:
        """Continue the jobs for about `budget` seconds. True if there is still more."""
        now = self._monotonic
        deadline = now() + budget
        while self._jobs:
            job = self._jobs[0]
            try:
                for _ in job:
                    if now() >= deadline:
                        return True
            except Exception:
                _log.exception("analytics failed")
            self._jobs.popleft()
        return False

    def close(self) -> None:
        """Store what the current second has, before the store is closed. Commits."""
        if self._closing:
            self.work(inf)
        self.tick(*self._load)
        self.work(inf)
        self._commit()

    # --- raw rows ------------------------------------------------------------------------------------------------------------------

    def _write_raw_row(self, period: Period, period_ms: float, now_ms: float) -> Iterator[None]:
        try:
            row = {"time": int(now_ms), "period": whole(round(period_ms, 3)), "threadId": self._thread_id}
            metrics: list[Row] = []
            size = 0
            for entry in period.iter_entries():
                if entry is not None:
                    if entry["metric"] == "bytes-sent" and "distribution" in entry:
                        self._bytes_processed += entry["mean"] * entry["count"]
                    metrics.append(entry)
                    bins = entry.get("distribution")
                    size += 1 + len(bins) if isinstance(bins, list) else 1
                yield
                if size >= _SIZE_OF_A_ROW:
                    full = {**row, "metrics": metrics, "totalBytesProcessed": round(self._bytes_processed)}
                    yield from self._raw.iter_write([full], self._ids, now_ms)
                    metrics, size = [], 0
            metrics.append({"metric": "memory", "threadId": self._thread_id, **process.memory(self._caches.used)})
            metrics.append({"metric": "utilization", **self._utilization()})
            last = {**row, "metrics": metrics, "totalBytesProcessed": round(self._bytes_processed)}
            yield from self._raw.iter_write([last], self._ids, now_ms)
            yield from self.totals.iter_add(period)
            yield from period.iter_release()
        finally:
            self._closing = False

    def _utilization(self) -> dict[str, Any]:
        """Since the last raw row."""
        last, self._raw_load = self._raw_load, self._load
        return load_fields(last, self._raw_load)

    # --- aggregation ---------------------------------------------------------------------------------------------------------------

    def _find_place(self) -> tuple[bytes | None, float]:
        """Stored key of the last raw row that is aggregated already, None: no row is; and for how many seconds there has been something to aggregate,
        at most one period.

        Of the aggregates only those since the first raw row are read, of the raw rows only times.
        """
        first = self._raw.maybe_next(None)
        if first is None:
            return None, 0.0
        newest = self._aggregates.newest_since(first[1]["id"], _RESOURCE_METRICS, self._wall() * 1000)
        covered = None if newest is None else maybe_time(newest)
        # If its raw row is not there any more, all that are left have been written later.
        place = None if covered is None else self._raw.place_of(covered)
        since = maybe_time(first[1]) if covered is None else covered
        age = 0.0 if since is None else self._wall() - since / 1000
        return place, min(max(age, 0.0), self._period)

    def _aggregate(self) -> Iterator[None]:
        """All periods of which there are raw rows, one after the other."""
        try:
            had_rows = False
            now_ms = self._wall() * 1000
            part = part_of(self._store, self._node) if self._replicate else None
            while (aggregation := (yield from self._iter_period())) is not None:
                rows: list[Row] = []
                for fields in aggregation.iter_rows():
                    rows.append({"time": aggregation.time, "period": int(self._period * 1000), "node": self._node, **fields})
                    had_rows = True
                    yield
                    if len(rows) == WRITTEN_AT_ONCE:
                        yield from self._aggregates.iter_write(rows, self._ids, now_ms, part)
                        rows = []
                yield from self._aggregates.iter_write(rows, self._ids, now_ms, part)
            self._covered_at = self._monotonic() - SETTLED_MS / 1000
            resources: list[Row] = []
            for fields in self._iter_resources(had_rows):
                resources.append({"time": int(now_ms), "node": self._node, **fields})
                yield
            yield from self._aggregates.iter_write(resources, self._ids, now_ms, part)
        finally:
            self._aggregates_now = False

    def _iter_period(self) -> Generator[None, None, Aggregation | None]:
        """Take in the next raw rows, of at most one period; None: there are none.

        It goes by the order in which the rows were written. A step of the clock by more than a period ends a period.
        """
        found: Aggregation | None = None
        began = 0.0
        while (following := self._raw.maybe_next(self._place)) is not None:
            stored, row = following
            time = maybe_time(row)
            if time is not None:
                if abs(self._wall() * 1000 - time) < SETTLED_MS:
                    break
                if found is None:
                    found, began = Aggregation(), time
                elif abs(time - began) >= self._period * 1000:
                    break
                yield from found.iter_add(row)
            self._place = stored
            yield
        return found

    def _iter_resources(self, had_rows: bool) -> Iterator[Row]:
        """The rows of analytics §6."""
        last, self._main_load = self._main_load, self._load
        load = load_fields(last, self._main_load)
        if had_rows or load["utilization"] > _BUSY:
            row: Row = {"metric": "main-thread-utilization", "idle": load["idle"], "active": load["active"]}
            latency = self._take_probe()
            if latency is not None:
                row["taskQueueLatency"] = latency
            row.update(process.memory(self._caches.used))
            yield row
        now = self._monotonic()
        elapsed_ms = self._period * 1000 if self._usage_began is None else (now - self._usage_began) * 1000
        self._usage_began = now
        yield {"metric": "resource-usage", "period": whole(round(elapsed_ms, 3)), **self._usage.fields(elapsed_ms)}
        if self._storage_interval > 0 and self._aggregations % self._storage_interval == 0:
            yield from self._iter_storage()
        self._aggregations += 1

    def _iter_storage(self) -> Iterator[Row]:
        databases = self._store.databases
        for name, database in list(databases.items()):
            used = 0
            for table_name, table in list(database.tables.items()):
                if databases.get(name) is not database or database.tables.get(table_name) is not table:
                    continue  # dropped meanwhile
                size = table.size()
                used += size
                yield {"metric": "table-size", "database": name, "table": table_name, "size": size}
            if databases.get(name) is not database:
                continue
            size = database.env.file_bytes()
            yield {
                "metric": "database-size",
                "database": name,
                "size": size,
                "used": used,
                "free": max(0, size - used),
                "audit": database.log.size(database.snapshot()),
            }
            yield {"metric": "storage-volume", "database": name, **process.volume(database.env.path)}

    # --- how long a job waits for a helper thread ------------------------------------------------------------------------------------

    def _send_probe(self) -> None:
        if self._executor is not None:
            self._probe = (self._monotonic(), self._executor.submit(self._monotonic))

    def _take_probe(self) -> float | None:
        """ms, or None if the probe has not come back."""
        probe, self._probe = self._probe, None
        if probe is None or not probe[1].done():
            return None
        return max(0.0, (probe[1].result() - probe[0]) * 1000)


def load_fields(last: tuple[float, float], now: tuple[float, float]) -> dict[str, Any]:
    """`idle` and `active` in ms between two states of the loop, and the share that was active."""
    idle, active = max(0.0, now[0] - last[0]), max(0.0, now[1] - last[1])
    whole_time = idle + active
    return {
        "idle": whole(round(idle * 1000, 3)),
        "active": whole(round(active * 1000, 3)),
        "utilization": whole(round(active / whole_time, 6)) if whole_time else 0,
    }
