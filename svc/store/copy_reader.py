"""The records of some tables and their histories, read for another node that is to have them (spec: replication §11).

    reader = CopyReader(database, tables)
    pieces = reader.pieces()          bytes of about PIECE, and None where others may have their turn
    ...
    reader.close()                    at the end, or at any time

All of it is as of the commit when the reader was made. Each piece is MessagePack, an array of rows, in this order:

    [TABLE, name]                     the records of a table follow, in the order of their stored keys
    [RECORD, key, raw, [entry ...]]   one of them: its stored key; the record as it is stored, empty: it is the value of the last entry; its history in the log,
                                      oldest first, as the log has it
    [REMOVED, [entry ...]]            behind all records of a table: one that is not there any more, of which the log knows
    [END, count]                      of the rows before it, in all pieces

Copies of what a source has are left out: each node asks for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from svc.store.disk.faults import LmdbError, store_problem
from svc.store.log.entries import HAS_VALUE, PUT, decode_entry, is_merged
from svc.store.slices import SLICE
from svc.store.values.records import IS_COPY, lsn_of

if TYPE_CHECKING:
    from svc.store.database import Database
    from svc.store.env import Txn
    from svc.store.table import Table

PIECE = 448 << 10  # bytes from which on a piece is full. One row may be much larger
TABLE, RECORD, REMOVED, END = range(4)  # the first of a row
HISTORY, HISTORY_BYTES = 1000, 256 << 10  # entries of one record, the newest ones: what is older only serves to merge what comes very late
_STEPS = 32  # records between two looks at the clock
_encode = msgspec.msgpack.Encoder().encode


class TableRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=TABLE):
    name: str


class RecordRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=RECORD):
    stored: bytes
    raw: bytes
    history: list[bytes]


class RemovedRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=REMOVED):
    history: list[bytes]


class EndRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=END):
    count: int


Row = TableRow | RecordRow | RemovedRow | EndRow


class CopyReader:
    """`newest`: LSN of the newest entry of the log as of then. `size`: about how many bytes the pieces have together."""

    def __init__(self, database: Database, tables: Sequence[Table]) -> None:
        self._database = database
        self._tables = tables
        self._snapshot = database.store.snapshots.hold(
            database, fresh=True, reader="a copy for another node", is_kept=True, is_private=True
        )
        self._is_open = True
        self._now = database.clock.monotonic
        self._count = 0
        txn = self.txn
        self.newest = database.log.newest_lsn(txn)
        self._first = database.log.first_lsn(txn)
        self.size = sum(table.size(txn) for table in tables)

    @property
    def txn(self) -> Txn:
        """Raises SnapshotLost once it is closed."""
        return self._snapshot.use()

    def close(self) -> None:
        """Harmless when done."""
        if self._is_open:
            self._is_open = False
            self._snapshot.abort()

    def pieces(self) -> Iterator[bytes | None]:
        """Raises StoreFailure, SnapshotLost."""
        rows: list[Row] = []
        size = 0
        steps, end = 0, self._now() + SLICE
        try:
            for row, row_size in self._rows():
                rows.append(row)
                size += row_size
                if size >= PIECE:
                    self._count += len(rows)
                    yield _encode(rows)
                    rows, size = [], 0
                steps += 1
                if steps >= _STEPS and self._now() >= end:
                    yield None
                    steps, end = 0, self._now() + SLICE
        except LmdbError as error:
            raise store_problem(error, self._database.env.path) from error
        self._count += len(rows)
        yield _encode([*rows, EndRow(self._count)])

    def _rows(self) -> Iterator[tuple[Row, int]]:
        for table in self._tables:
            yield TableRow(table.name), len(table.name) + 16
            yield from self._records(table)
            yield from self._removed(table)

    def _records(self, table: Table) -> Iterator[tuple[Row, int]]:
        txn, moves, first, history_of = self.txn, table.moves, self._first, self._database.log.encoded_history
        for stored, raw in txn.cursor(table.primary).iternext():
            if raw[0] & IS_COPY:
                continue
            lsn = lsn_of(raw)
            history = history_of(txn, lsn, HISTORY, HISTORY_BYTES) if lsn >= first else []
            if moves is not None:
                raw = moves.translate(raw, self.txn)
            if len(history) == 1 and _is_value(history[0], raw):
                yield RecordRow(stored, b"", history), len(stored) + len(history[0]) + 32
            else:
                yield RecordRow(stored, raw, history), len(stored) + len(raw) + sum(map(len, history)) + 32

    def _removed(self, table: Table) -> Iterator[tuple[Row, int]]:
        for lsn in self._database.log.removed_of(self.txn, table.number):
            history = [] if lsn < self._first else self._database.log.encoded_history(self.txn, lsn, HISTORY, HISTORY_BYTES)
            if history and not _has_copy(history[-1]):
                yield RemovedRow(history), sum(map(len, history)) + 32


def _is_value(data: bytes, raw: bytes) -> bool:
    """Whether the record is what this entry says."""
    return data[1] == PUT and not is_merged(data) and (data.endswith(raw) or decode_entry(0, data).value == raw)


def _has_copy(data: bytes) -> bool:
    value = decode_entry(0, data).value if data[2] & HAS_VALUE else None
    return value is not None and bool(value[0] & IS_COPY)
