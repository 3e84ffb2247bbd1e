"""A long write with arbitrary work: schema changes and removals that touch many pages or records (`long_write`).

Readers see the table as it was until the commit, and are delayed by no more than a slice. Writers of the database wait in its queue. It is all
done or not at all, whatever happens.

The work runs on the long writer's thread while the loop stands still, until it yields: None where others may be served, or a call of LMDB that
takes long. That is made while the loop goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from svc.store.disk.faults import LmdbError, store_problem
from svc.store.env import Txn
from svc.store.slices import SLICE
from svc.store.writing.long_write import LongWrite, WriteStage, wait_uncancelled
from svc.store.writing.write_set import WriteSet

if TYPE_CHECKING:
    from svc.store.database import Database
    from svc.store.slices import Slices

LmdbCall = Callable[[Txn], object]
Steps = Iterator[LmdbCall | None]
Change = Callable[[WriteSet], Steps]


class _Work:
    """`long_write.Work`."""

    adds = False

    def __init__(self, database: Database, change: Change, size: int) -> None:
        self.database = database
        self.size = max(size, 1)
        self._change = change

    def steps(self, write_set: WriteSet) -> Iterator[None]:
        return self._change(write_set)  # type: ignore[return-value]

    def forget(self, slices: Slices) -> None:
        pass


class LongTask(LongWrite):
    """`change`: called again for each attempt. It raises the Problem that prevents it, and ends with `Database.announce_change` if
    `announces`: that it changes definitions.

    `size`: about how many records it touches, to estimate how long other writers will wait.
    """

    def __init__(self, database: Database, change: Change, size: int, user: str | None, *, announces: bool = True) -> None:
        self._announces = announces
        super().__init__(database.store, _Work(database, change, size), {}, user, 0)

    async def _write(self) -> bool:
        slices = self._store.slices
        while self._has_steps:
            await slices.take()
            if self.stage is not WriteStage.WRITING:
                return False
            call = self.with_writer(self._change_slice)
            self._note_changes()
            if call is not None and not await self._call(call):
                return False
        self._announced = self._announces
        self._announced |= self.with_writer(lambda _: self._set.end_long())
        return True

    def _change_slice(self, txn: Txn) -> LmdbCall | None:
        """Work for a slice; returns what is to be called then."""
        now = self._now
        end = now() + SLICE
        self.since = self.since or end
        for call in self._steps:
            if call is not None or now() >= end:
                return call
        self._has_steps = False
        return None

    async def _call(self, call: LmdbCall) -> bool:
        """False if everything was undone meanwhile."""
        made = self._env.start_long(call)
        if await wait_uncancelled(made):
            raise asyncio.CancelledError
        if self.stage is not WriteStage.WRITING:
            return False
        try:
            made.result()
        except LmdbError as error:
            raise store_problem(error, self._env.path) from error
        return True

    def finish(self) -> None:
        committing = self.stage is WriteStage.COMMITTING
        super().finish()
        if committing and self.stage is WriteStage.COMMITTED:
            self._database.read_definitions()

    def _rewind(self) -> None:
        self._announced = True  # memory may be ahead of what is stored
        super()._rewind()
