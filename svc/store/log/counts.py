"""How many entries of the transaction log each table has (spec: http §10.1, `auditSize`).

The log is not ordered by table, so each entry has to be read once. Background work does that, and what it has counted is stored (`figures`); a request
reads what came since, at most MOST_STEPS times STEP entries. Entries never change: what has been counted is kept in blocks of BLOCK LSNs, so that when the
oldest entries are removed, whole blocks are forgotten and one is counted again. Whoever removes others says so (`forget`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from struct import Struct as Layout

from svc.store.disk.faults import LmdbError, store_problem
from svc.store.env import Cursor, Environment, Handle, Txn

BLOCK = 2048  # entries
STEP = 256  # entries read between two reads of the clock
MOST_STEPS = 400  # of one request: a log that is longer is counted in the background

_LSN = Layout(">Q")
TABLE = Layout(">I")
_TABLE_AT = 4  # offset in an entry, see `log`


class EntryCounts:
    """The counts of one log, as of the last `catch_up`."""

    __slots__ = ("_blocks", "_entries", "_env", "_first", "_next")

    def __init__(self, env: Environment, entries: Handle) -> None:
        self._env = env
        self._entries = entries
        self._blocks: dict[int, Counter[int]] = {}  # LSN // BLOCK -> number of a table -> its entries
        self._first = 0  # LSN: what is counted begins here, and ends before `_next`
        self._next = 0

    def of(self, table_number: int) -> int:
        """The number of entries of a table, found when `catch_up` last came to its end."""
        return sum([counts[table_number] for counts in self._blocks.values()])

    def catch_up(self) -> Iterator[None]:
        """Take in what has changed, in steps of less than a millisecond, each on the snapshot of its turn; MOST_STEPS of them."""
        return islice(self.catch_up_all(), MOST_STEPS)

    def catch_up_all(self) -> Iterator[None]:
        """The same to the end."""
        while self._step(self._env.snapshot()):
            yield

    def state(self) -> tuple[int, int, dict[int, dict[int, int]]]:
        """(LSN at which what is counted begins, LSN before which it ends, LSN // BLOCK -> number of a table -> its entries)."""
        return self._first, self._next, {block: dict(counts) for block, counts in self._blocks.items()}

    def restore(self, state: tuple[int, int, dict[int, dict[int, int]]]) -> None:
        """Go on from what `state` was."""
        self._first, self._next, blocks = state
        self._blocks = {block: Counter(counts) for block, counts in blocks.items()}

    def forget(self) -> None:
        """Entries in the middle were removed: count all again."""
        self._blocks.clear()
        self._first = self._next = 0

    def _step(self, txn: Txn) -> bool:
        """False if there is nothing left to do."""
        try:
            cursor = txn.cursor(self._entries)
            if not cursor.first():
                return False
            oldest: int = _LSN.unpack(cursor.key())[0]
            if oldest > self._first:
                self._forget(cursor, oldest)
            return self._count(cursor, None)
        except LmdbError as error:
            raise store_problem(error, self._env.path) from error

    def _forget(self, cursor: Cursor, oldest: int) -> None:
        """The entries before `oldest` are no longer there."""
        self._first = oldest
        block = oldest // BLOCK
        for number in [number for number in self._blocks if number <= block]:
            del self._blocks[number]
        counted, self._next = self._next, max(self._next, oldest)
        if counted > oldest:
            end = min(counted, (block + 1) * BLOCK)
            self._next = oldest
            self._count(cursor, end)
            self._next = counted

    def _count(self, cursor: Cursor, end: int | None) -> bool:
        """Count the entries from `_next` on: those before `end`, or the next STEP of them. False if there were fewer than that."""
        found = cursor.set_range(_LSN.pack(self._next))
        for _ in range(BLOCK if end is not None else STEP):
            if not found:
                return False
            key, data = cursor.item()
            lsn: int = _LSN.unpack(key)[0]
            if end is not None and lsn >= end:
                return False
            self._blocks.setdefault(lsn // BLOCK, Counter())[TABLE.unpack_from(data, _TABLE_AT)[0]] += 1
            self._next = lsn + 1
            found = cursor.next()
        return True
