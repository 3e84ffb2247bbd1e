"""Analytics of one instance: closes seconds, aggregates minutes, measures resources (spec: analytics §2, §6).

`tick` is called about once a second and begins what is due; the work itself is done by jobs, generators that stop after each short step, so that
no request waits for it. A job runs in `tick` and in `work` and reads the store again in each turn.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from typing import Any

from svc.analytics import process
from svc.analytics.aggregate import Aggregation
from svc.analytics.metric_tables import Row, aggregate_rows, raw_rows
from svc.analytics.recorder import IdleRecorder, Period, Recorder
from svc.analytics.statistics import whole
from svc.analytics.totals import MAX_LABEL_SETS, Totals
from svc.clock import SYSTEM_CLOCK, Clock
from svc.store import Store

TICK_BUDGET = 0.005  # seconds of work in one tick
SETTLED_MS = 2000  # age from which raw rows are taken: then those of other instances are there as well
_RETENTION_PAUSE = 60.0  # polling interval of old rows
_BUSY = 0.1  # share of active time from which a loop is worth a row of its own

# Written beside the aggregates; their time says nothing of which raw rows are covered.
_RESOURCE_METRICS = frozenset({"main-thread-utilization", "resource-usage", "database-size", "table-size", "storage-volume"})

_log = logging.getLogger("svc.analytics")


class Analytics:
    """`recorder` takes the events. Instance 0 also aggregates, removes old rows and measures the store."""

    def __init__(
        self,
        store: Store,
        aggregate_period: float = 60.0,
        *,
        node: str = "localhost",
        clock: Clock = SYSTEM_CLOCK,
        storage_interval: int = 10,
        thread_id: int = 0,
        executor: Executor | None = None,
        array_buffers: Callable[[], int] | None = None,
        max_label_sets: int = MAX_LABEL_SETS,
    ) -> None:
        """`aggregate_period` in seconds; 0: raw rows only, -1: nothing is recorded at all. `storage_interval`: every n-th aggregation, 0 never.

        `executor`: the pool of helper threads, to measure how long a job waits there. `array_buffers`: bytes in buffers the server accounts for.
        `max_label_sets`: of `totals`.
        """
        self.recorder = IdleRecorder() if aggregate_period < 0 else Recorder()
        self.totals = Totals(clock.wall, max_label_sets)
        self._store = store
        self._node = node
        self._monotonic = clock.monotonic
        self._wall = clock.wall
        self._thread_id = thread_id
        self._executor = executor
        self._array_buffers = array_buffers or (lambda: store.caches.used)
        self._storage_interval = storage_interval
        self._period = aggregate_period if thread_id == 0 else 0.0
        self._raw = raw_rows(store, thread_id)
        self._aggregates = aggregate_rows(store)
        self._jobs: deque[Iterator[None]] = deque()
        self._closing = False  # a raw row is being made

        now = self._monotonic()
        self._period_began = now
        self._load = self._raw_load = self._main_load = (
            0.0,
            0.0,
        )  # idle and active seconds: now, at the last raw row, at the last aggregation
        self._bytes_processed = 0.0
        self._next_aggregation = now + self._period / 2
        self._next_retention = now + _RETENTION_PAUSE
        self._aggregation_due = False
        self._aggregations = 0
        self._probe: tuple[float, Future[float]] | None = None
        self._usage = process.ResourceUsage()
        self._usage_began: float | None = None
        self._covered_ms = self._find_covered()

    @property
    def load(self) -> tuple[float, float]:
        """Idle and active seconds of the loop since it began, as of the last `tick`."""
        return self._load

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
            self._jobs.append(self._aggregate())
        if self._period > 0 and now >= self._next_aggregation:
            self._next_aggregation = now + self._period / 2
            if self._wall() * 1000 - self._covered_ms >= self._period * 1000:
                # In the next tick: until then the probe has been through the queue of the helper threads.
                self._aggregation_due = True
                self._send_probe()
        if self._thread_id == 0 and now >= self._next_retention and not isinstance(self.recorder, IdleRecorder):
            self._next_retention = now + _RETENTION_PAUSE
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
            self.work(float("inf"))
        self.tick(*self._load)
        self.work(float("inf"))
        if self._store.has_pending:
            self._store.commit_turn()

    # --- raw rows ------------------------------------------------------------------------------------------------------------------

    def _write_raw_row(self, period: Period, period_ms: float, now_ms: float) -> Iterator[None]:
        try:
            metrics: list[Row] = []
            for entry in period.iter_entries():
                if entry["metric"] == "bytes-sent" and "mean" in entry:
                    self._bytes_processed += entry["mean"] * entry["count"]
                metrics.append(entry)
                yield
            yield from self.totals.iter_add(period.numbers, period.flags, metrics)
            metrics.append({"metric": "memory", "threadId": self._thread_id, **process.memory(self._array_buffers())})
            metrics.append({"metric": "utilization", **self._utilization()})
            row = {
                "time": int(now_ms),
                "period": whole(round(period_ms, 3)),
                "metrics": metrics,
                "threadId": self._thread_id,
                "totalBytesProcessed": round(self._bytes_processed),
            }
            yield from self._raw.iter_write([row], now_ms)
        finally:
            self._closing = False

    def _utilization(self) -> dict[str, Any]:
        """Since the last raw row."""
        last, self._raw_load = self._raw_load, self._load
        return load_fields(last, self._raw_load)

    # --- aggregation ---------------------------------------------------------------------------------------------------------------

    def _find_covered(self) -> float:
        """Time in ms up to which raw rows are aggregated already: that of the newest aggregate, else of just before the first raw row.

        Aggregates older than all raw rows do not matter, so little is read.
        """
        first = self._raw.first_after(0)
        if first is None:
            return self._wall() * 1000
        newest = self._aggregates.newest_time(first["time"] - self._period * 1000, _RESOURCE_METRICS)
        return float(first["time"]) - 1 if newest is None else newest

    def _aggregate(self) -> Iterator[None]:
        period_ms = int(self._period * 1000)
        now_ms = self._wall() * 1000
        settled_ms = now_ms - SETTLED_MS
        aggregation = Aggregation()
        first = self._raw.first_after(self._covered_ms)
        if first is not None and first["time"] <= settled_ms:
            # After a pause, begin where the next rows are: one aggregation covers one period.
            after_ms = max(self._covered_ms, float(first["time"]) - 1)
            for raw in self._raw.iter_between(after_ms, min(after_ms + period_ms, settled_ms)):
                yield from aggregation.iter_add(raw)
        rows: list[Row] = []
        if aggregation.time is not None:
            for fields in aggregation.iter_rows():
                rows.append({"time": aggregation.time, "period": period_ms, "node": self._node, **fields})
                yield
        self._covered_ms = max(self._covered_ms, settled_ms) if aggregation.time is None else float(aggregation.time)
        for fields in self._iter_resources(bool(rows)):
            rows.append({"time": int(now_ms), "node": self._node, **fields})
            yield
        yield from self._aggregates.iter_write(rows, now_ms)

    def _iter_resources(self, had_rows: bool) -> Iterator[Row]:
        """The rows of analytics §6."""
        last, self._main_load = self._main_load, self._load
        load = load_fields(last, self._main_load)
        if had_rows or load["utilization"] > _BUSY:
            row: Row = {"metric": "main-thread-utilization", "idle": load["idle"], "active": load["active"]}
            latency = self._take_probe()
            if latency is not None:
                row["taskQueueLatency"] = latency
            row.update(process.memory(self._array_buffers()))
            yield row
        now = self._monotonic()
        elapsed_ms = self._period * 1000 if self._usage_began is None else (now - self._usage_began) * 1000
        self._usage_began = now
        yield {"metric": "resource-usage", "period": whole(round(elapsed_ms, 3)), **self._usage.fields(elapsed_ms)}
        if self._storage_interval > 0 and self._aggregations % self._storage_interval == 0:
            yield from self._iter_storage()
        self._aggregations += 1

    def _iter_storage(self) -> Iterator[Row]:
        for name, figures in self._store.stats().databases.items():
            used = sum(figures.tables.values())
            yield {
                "metric": "database-size",
                "database": name,
                "size": figures.size,
                "used": used,
                "free": max(0, figures.size - used),
                "audit": figures.log_size,
            }
            for table, size in figures.tables.items():
                yield {"metric": "table-size", "database": name, "table": table, "size": size}
            yield {"metric": "storage-volume", "database": name, **process.volume(self._store.path / name)}

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
