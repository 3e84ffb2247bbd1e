"""What has become of jobs: their records in the system database (spec: components §3.4).

    svc_scheduler_state      a record for each job: the last moment that was taken, who runs it, how the last run went
    svc_scheduler_history    a record for each of the last runs

A moment is *claimed* before its run begins: in a write transaction, which one process at a time has, the record of the job is read, and written
with the moment. So no moment is claimed twice. The claim is on the disk before the function is called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from svc.store import Store, Table
from svc.store.system import SCHEDULER_HISTORY_TABLE, SCHEDULER_STATE_TABLE, SYSTEM
from svc.store.values.records import decode
from svc.store.writing.commit import wait_committed
from svc.store.writing.transaction import Transaction

KEPT_RUNS = 1000  # of each job, in the history
MAX_ERROR = 4000  # characters of an error that are kept

GONE = "the process that ran it has ended"

WAITING, RUNNING, SUCCEEDED, FAILED, INTERRUPTED = "waiting", "running", "succeeded", "failed", "interrupted"


@dataclass(frozen=True, slots=True)
class JobState:
    """The record of a job. Times in ms since the epoch. `anchor`: since when its moments count. `claimed`: the last moment that was taken, None before the
    first one. `owner`, `heartbeat`: of the run that goes on, and the last one. `number`: of runs so far.
    `by_hand`: the last run was asked for, and took no moment."""

    application: str
    job: str
    schedule: str
    anchor: int
    claimed: int | None = None
    status: str = WAITING
    owner: str = ""
    heartbeat: int = 0
    catch_up: bool = False
    started: int | None = None
    ended: int | None = None
    duration: float | None = None
    error: str | None = None
    number: int = 0
    by_hand: bool = False

    @property
    def since(self) -> int:
        """Moments up to this one are done with."""
        return self.anchor if self.claimed is None else max(self.claimed, self.anchor)


@dataclass(slots=True)
class Outcome:
    """What a change came to. `state`: the record as it is then. `is_changed`: whether it was written."""

    state: JobState
    is_changed: bool


Change = Callable[[JobState | None], JobState | None]
"""The record that is there -> the one to write; None: none. Called in the write transaction; may be called again."""


@dataclass
class JobTables:
    """The two tables of a store."""

    store: Store
    _fields: tuple[str, ...] = field(default=JobState.__slots__, init=False)

    @property
    def _state(self) -> Table:
        return self.store.databases[SYSTEM].tables[SCHEDULER_STATE_TABLE]

    @property
    def _history(self) -> Table:
        return self.store.databases[SYSTEM].tables[SCHEDULER_HISTORY_TABLE]

    def read(self, application: str, job: str) -> JobState | None:
        """The record of a job as it is now."""
        raw = self._state.get_raw(_key(application, job))
        return None if raw is None else self._decoded(raw)

    async def change(self, application: str, job: str, change: Change) -> Outcome | None:
        """Change a record, and its run in the history. Returns when that is on the disk; None if there is none and none is made.

        Raises the Problem that prevents it.
        """
        table, history = self._state, self._history
        key = _key(application, job)
        outcome: list[Outcome | None] = [None]

        def attempt() -> Transaction | None:
            # Read with the right to write: no other process changes it before this is committed.
            raw = table.get_raw(key, table.database.writer(wait=False))
            before = None if raw is None else self._decoded(raw)
            after = change(before)
            if after is None or after == before:
                outcome[0] = None if before is None else Outcome(before, False)
                return None
            outcome[0] = Outcome(after, True)
            transaction = self.store.begin()
            transaction.may_use_reserve = True  # it takes little space, and stays as large as it is
            transaction.put(table, key, {"id": key, **{name: getattr(after, name) for name in self._fields}})
            if before is not None and before.status == RUNNING and before.number != after.number:
                _note_run(transaction, history, replace(before, status=INTERRUPTED, error=GONE))
            if after.number:
                _note_run(transaction, history, after)
            transaction.apply(wait=False)
            return transaction

        transaction = await self.store.write_when_free(lambda: (table.database,), attempt)
        if transaction is not None:
            await wait_committed(transaction)
        return outcome[0]

    def _decoded(self, raw: bytes) -> JobState:
        record = decode(raw)
        known: dict[str, Any] = {name: record[name] for name in self._fields if name in record}
        return JobState(**known)


def _note_run(transaction: Transaction, history: Table, state: JobState) -> None:
    """The last KEPT_RUNS runs of a job take turns in as many records."""
    key = f"{_key(state.application, state.job)}:{state.number % KEPT_RUNS}"
    record = {
        "id": key,
        "application": state.application,
        "job": state.job,
        "number": state.number,
        "scheduled_at": state.started if state.by_hand else state.claimed,
        "by_hand": state.by_hand,
        "catch_up": state.catch_up,
        "started": state.started,
        "ended": state.ended,
        "duration": state.duration,
        "status": state.status,
        "error": state.error,
        "owner": state.owner,
    }
    transaction.put(history, key, record)


def _key(application: str, job: str) -> str:
    return f"{application}:{job}"
