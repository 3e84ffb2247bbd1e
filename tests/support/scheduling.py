"""Schedulers over a store, with a clock that a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from svc.clock import FakeClock
from svc.loop import new_loop
from svc.scheduler import JobRun, JobSpec, Scheduler, read_jobs
from svc.siblings import Siblings
from svc.store import Store
from svc.store.system import SCHEDULER_HISTORY_TABLE, SCHEDULER_STATE_TABLE, SYSTEM, ensure_system
from svc.store.values.records import decode

Handler = Callable[[JobRun], Any]


def specs(*jobs: dict[str, Any]) -> list[JobSpec]:
    found, faults = read_jobs({"jobs": [{"handler": "jobs.py#run", **job} for job in jobs]})
    assert not faults, faults
    return found


class World:
    """A data directory, and the instances on it. `alive`: names of those that are thought to run. `runs`: (instance, job, seconds, catch_up)."""

    def __init__(self, path: Path, wall: float = 1_767_225_600.0) -> None:
        self.path = path
        self.clock = FakeClock(wall=wall)
        self.alive: set[str] = set()
        self.reports: list[tuple[str, str, str]] = []
        self.runs: list[tuple[str, str, float, bool]] = []
        self.schedulers: dict[str, Scheduler] = {}
        self.loop, self._turns = new_loop()
        self._turns.end_turn = self._end_turn
        self._open()

    def _open(self) -> None:
        self.store = Store(self.path, clock=self.clock)
        ensure_system(self.store)

    def _end_turn(self) -> bool:
        if self.store.has_pending:
            self.store.commit_turn()
        self.store.end_turn()
        return False

    def instance(
        self, name: str, *jobs: dict[str, Any], handler: Handler | None = None, app: str = "shop", real: bool = False
    ) -> Scheduler:
        """Start one; with jobs of an application, which note their runs, or call `handler`. `real`: it is this process, among others over the path."""
        siblings = Siblings(self.path, self.loop) if real else None
        scheduler = Scheduler(
            self.store,
            self.clock,
            self.loop,
            name if siblings is None else siblings.identity,
            self.alive.__contains__ if siblings is None else siblings.is_alive,
            report=lambda *line: self.reports.append(line),
        )
        self.schedulers[name] = scheduler
        self.alive.add(name)
        self.set(name, *jobs, handler=handler, app=app)
        scheduler.start()
        self.settle()
        return scheduler

    def set(self, name: str, *jobs: dict[str, Any], handler: Handler | None = None, app: str = "shop") -> None:
        def note(run: JobRun) -> Any:
            self.runs.append((name, run.job_name, run.scheduled_at.timestamp(), run.catch_up))
            return handler(run) if handler is not None else None

        self.schedulers[name].remove(app)  # as the switch from one version of an application to the next does
        self.schedulers[name].set(app, [(spec, note) for spec in specs(*jobs)])

    def kill(self, name: str) -> None:
        """The process ends without a word."""
        scheduler = self.schedulers.pop(name)
        self.alive.discard(name)
        scheduler._is_stopped = True
        if scheduler._timer is not None:
            scheduler._timer.cancel()
        tasks, scheduler._busy = list(scheduler._busy), {}
        for task in tasks:  # what it would write at its end is not written
            coroutine = task.get_coro()
            task.cancel()
            assert coroutine is not None
        scheduler._tables.change = _gone  # type: ignore[assignment,method-assign]
        self.run(asyncio.sleep(0))
        self.run(asyncio.sleep(0))

    def stop(self, name: str) -> None:
        self.run(self.schedulers.pop(name).stop())
        self.alive.discard(name)

    def run(self, awaitable: Awaitable[Any]) -> Any:
        async def awaited() -> Any:
            return await awaitable

        return self.loop.run_until_complete(awaited())

    def settle(self, names: list[str] | None = None, turns: int = 3) -> None:
        """Each instance looks at the clock, until there is nothing to do."""
        for _ in range(turns):
            for name in names or list(self.schedulers):
                self.schedulers[name].tick()
            self.run(self._settled())

    async def _settled(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    def advance(self, seconds: float, names: list[str] | None = None) -> list[tuple[str, str, float, bool]]:
        """Returns the runs that began."""
        before = len(self.runs)
        self.clock.advance(seconds)
        self.settle(names)
        return self.runs[before:]

    def set_clock(self, seconds: float) -> None:
        """Set the clock on the wall by so much; no time passes."""
        self.clock.advance(seconds)
        self.clock._monotonic -= seconds

    def records(self, table: str) -> dict[str, dict[str, Any]]:
        stored = self.store.databases[SYSTEM].tables[table]
        found = [decode(raw) for _, raw in stored.scan(stored.database.snapshot())]
        self.store.end_turn()
        return {record["id"]: record for record in found}

    @property
    def states(self) -> dict[str, dict[str, Any]]:
        return self.records(SCHEDULER_STATE_TABLE)

    @property
    def history(self) -> list[dict[str, Any]]:
        return sorted(self.records(SCHEDULER_HISTORY_TABLE).values(), key=lambda record: (record["started"], record["number"]))

    def close(self) -> None:
        for name in list(self.schedulers):
            self.stop(name)
        self.run(asyncio.sleep(0))
        self.store.close()
        self.loop.close()


async def _gone(*_: Any) -> Any:
    raise asyncio.CancelledError
