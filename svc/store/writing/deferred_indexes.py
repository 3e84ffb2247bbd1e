"""Indexes that a large load leaves out, and builds when it has ended (spec: schema-and-store §7).

Values of records that arrive in any order lie all over an index, so that each batch changes a page for almost every entry, and the more the larger
the table is. Sorted once, the entries of all batches fill one page after the other.

    ready --first batch that leaves it out--> not ready --build--> ready
                                                  '--the load is cancelled, or the process ends--> the background builder builds it

A batch that leaves an index out notes in its own transaction that the index has to be built from the beginning, as `build` does: nothing answers
from it until then, and whatever happens it is built. Its entries go into a file, as a sorted run, and count when the batch is committed.

All others go on to maintain the index. So it never has an entry that is wrong, and what the file has of a record is right unless the record was
written to since. Which ones were is in the log: what `changed` names is left out of the merge, and entered as it is at the end. If the log cannot
tell, or if they are too many, the background builder does it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

from svc.errors import Problem
from svc.store.definitions import build_key
from svc.store.indexes.build import value_reader
from svc.store.indexes.sorted_runs import Merge, Run, RunFile
from svc.store.log.written_since import written_since
from svc.store.values.keys import index_keys
from svc.store.writing.index_runs import split_entry
from svc.store.writing.long_task import LongTask, Steps
from svc.store.writing.write_set import WriteSet

if TYPE_CHECKING:
    from svc.store.indexes.index import Index
    from svc.store.table import Table

logger = logging.getLogger("svc.store")

WORTHWHILE = 16_384  # records that a load has written when it begins to leave indexes out
FEW = 1024  # records of others that the table may have: more are a table that an application queries
MAX_CHANGED = 100_000  # records
CHUNK = 1 << 18  # entries of an index that are entered in one transaction, unless other writers wait for it
MOST_RUNS = 2048  # of an index, of which the merge has a block in memory
_LOOKED_AT = 64  # records in one step
_ENTERED = 100  # index entries in one step


class DeferredIndexes:
    """What one load leaves out of the indexes of a table. `close` it."""

    def __init__(self, table: Table) -> None:
        """Raises OSError."""
        self.table = table
        self.indexes = [index for index in table.index_list if index.ready and index.has_values and not index.unique]
        self.file = RunFile(table.database.env.path)
        self.runs: dict[Index, list[Run]] = {index: [] for index in self.indexes}
        self.changed: set[bytes] = set()  # stored keys of records that were written to, after a batch had them or before
        self.last_lsn: int | None = None  # up to which `changed` knows; None: no batch is committed, there is nothing to know
        self.is_lost = False  # entries are missing: it cannot be built from these
        for index in self.indexes:
            index.is_deferred = True

    def close(self) -> None:
        """What is not built is left to the background builder."""
        for index in self.indexes:
            index.is_deferred = False
        try:
            # To free the pages of a large file takes many milliseconds.
            self.table.database.store.helper.run(self.file.close, lambda result, error: None)
        except RuntimeError:  # its threads have ended
            self.file.close()

    async def build(self, user: str | None) -> None:
        """Build the indexes; those that cannot be are left to the background builder, and the log says why. No batch may be under way."""
        for index in self.indexes:
            try:
                if self.is_lost or not await self._build(index, user):
                    logger.info("the index %s.%s is left to be built in the background", self.table.name, index.attribute)
            except (Problem, OSError) as error:
                logger.warning("the index %s.%s is left to be built in the background: %s", self.table.name, index.attribute, error)

    async def _build(self, index: Index, user: str | None) -> bool:
        merge = Merge.of(self.file, self.runs[index])
        while True:
            part = _Part(self, index, merge)
            task = LongTask(self.table.database, part.steps, CHUNK, user)
            part.is_over = task.is_over
            await task.run()
            await asyncio.sleep(0)  # in which those run that are admitted now
            if not part.is_possible:
                return False
            self.changed, self.last_lsn, merge = part.changed, part.last_lsn, part.merge
            if part.is_last:
                return True


class DeferredBatch:
    """What one attempt to write a batch leaves out; `keep` it once that is committed."""

    def __init__(self, deferred: DeferredIndexes, write_set: WriteSet) -> None:
        self._deferred = deferred
        self._set = write_set
        self._runs: dict[Index, Run] = {}
        self._changed: set[bytes] = set()
        self._is_lost = deferred.is_lost
        self._last_lsn = 0

    def leaves_out(self, index: Index) -> bool:
        """Whether the entries of this index go to `add`. Notes that it has to be built."""
        if index not in self._deferred.runs:
            return False
        self._set.leave_out(self._deferred.table, index)
        return True

    def begin(self) -> Iterator[None]:
        """Find out what others have written since the batch before. Before anything is written, in short steps."""
        deferred = self._deferred
        known = yield from _changed_since(deferred, self._set, self._changed)
        self._is_lost |= not known

    def end(self) -> None:
        """The last entry of the batch is in the log."""
        self._last_lsn = self._set.log.last_lsn

    def replaced(self, stored: bytes) -> None:
        """The batch writes a record that was there."""
        self._changed.add(stored)

    def add(self, index: Index, entries: list[bytes]) -> Iterator[None]:
        """Take the sorted entries of new records. In short steps."""
        run = self._runs[index] = []
        if self._is_lost:
            return
        try:
            yield from self._deferred.file.write(entries, run)
        except OSError as error:  # the records are what counts
            logger.warning("the index %s.%s cannot be built at the end of the load: %s", self._deferred.table.name, index.attribute, error)
            self._is_lost = True

    def keep(self) -> None:
        """The batch is committed."""
        deferred = self._deferred
        for index, run in self._runs.items():
            deferred.runs[index].append(run)
        deferred.changed |= self._changed
        deferred.is_lost = (
            self._is_lost or len(deferred.changed) > MAX_CHANGED or any(len(runs) > MOST_RUNS for runs in deferred.runs.values())
        )
        deferred.last_lsn = self._last_lsn


class _Part:
    """The next CHUNK entries of an index, as one transaction: see `DeferredIndexes._build`. The attributes are of the last attempt."""

    def __init__(self, deferred: DeferredIndexes, index: Index, merge: Merge) -> None:
        self._deferred = deferred
        self._index = index
        self._merge = merge
        self.is_over: Callable[[], bool] = lambda: False  # asked whether to end early

    def steps(self, write_set: WriteSet) -> Steps:
        deferred, index, txn = self._deferred, self._index, write_set.txn
        table = deferred.table
        database = table.database
        note = build_key(table.number, index.attribute)
        self.merge, self.changed, self.last_lsn = self._merge.copy(), set(deferred.changed), database.log.last_lsn
        # Another process may have begun to build it, or the schema may have changed.
        self.is_possible = table.indexes.get(index.attribute) is index and txn.get(note, None, database.definitions) == b""
        if self.is_possible:
            self.is_possible = yield from _changed_since(deferred, write_set, self.changed)
        self.is_last = False
        if self.is_possible:
            yield from self._enter(write_set)
            if self.is_last:
                yield from self._enter_changed(write_set)
                txn.delete(note, b"", database.definitions)
        database.announce_change(txn)

    def _enter(self, write_set: WriteSet) -> Steps:
        cursor = write_set.txn.cursor(self._index.handle)
        changed = self.changed
        count = 0
        while count < CHUNK and not (count and self.is_over()):
            yield from self.merge.fill()
            entries = self.merge.take()
            if not entries:
                self.is_last = True
                return
            count += len(entries)
            yield None
            for start in range(0, len(entries), _ENTERED):
                pairs = list(map(split_entry, entries[start : start + _ENTERED]))
                cursor.putmulti([pair for pair in pairs if pair[1] not in changed] if changed else pairs)
                yield None

    def _enter_changed(self, write_set: WriteSet) -> Steps:
        """The records that were written to, as they are now."""
        txn, table, index = write_set.txn, self._deferred.table, self._index
        value_of = value_reader(index)
        for number, stored in enumerate(self.changed):
            raw = table.read(stored, txn)
            if raw is not None:
                for key in index_keys(value_of(raw)):
                    txn.put(key, stored, True, True, False, index.handle)
            if not number % _LOOKED_AT:
                yield None


def _changed_since(deferred: DeferredIndexes, write_set: WriteSet, changed: set[bytes]) -> Generator[None, None, bool]:
    """Add the stored keys of the records that were written to after `deferred.last_lsn`. False: it is not known of all of them."""
    if deferred.last_lsn is None:
        return True
    return (yield from written_since(write_set.log, write_set.txn, deferred.table.number, deferred.last_lsn, changed, most=MAX_CHANGED))
