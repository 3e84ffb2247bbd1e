"""A copy of another node's database, which lies in a file here, is put in the place of what this one has (spec: replication §11).

Record by record, as long writes that end as soon as others want to write (`long_write`). How far it has come is in `$replication`, in the commit of the
records: after a crash it goes on there. What the copy does not have is removed, but for what this node has written and the other one has not heard of.

While it goes on nothing of other nodes is applied: the positions of all of them are those of the copy once it has ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from svc.store.copy_reader import EndRow, RecordRow, RemovedRow, Row, TableRow
from svc.store.log.replicated_log import ReplicatedLog
from svc.store.replication_state import StreamHint
from svc.store.values.keys import after
from svc.store.writing.copied_inserts import CopiedInserts
from svc.store.writing.copied_write import BadCopy, CopiedRecord, CopyWriteSet
from svc.store.writing.long_write import LongWrite
from svc.store.writing.remote_transaction import INCARNATION_BYTES, Origin

if TYPE_CHECKING:
    from svc.store.database import Database
    from svc.store.env import Txn
    from svc.store.replication_state import ReplicationState
    from svc.store.slices import Slices
    from svc.store.table import Table
    from svc.store.writing.write_set import WriteSet

logger = logging.getLogger("svc.store")

MOST_LSN = 1 << 63
BATCH = 4 << 20  # bytes that are put in place in one commit, if nobody waits for it
_ROW = 32  # bytes of a row without its parts
_USUAL = 1000  # rows of a batch
_TOGETHER, _TOGETHER_BYTES = 32, 1 << 16  # records that are put in place in one step, at most


class CopyHead(msgspec.Struct, array_like=True):
    """What is known of a copy before its pieces. `incarnation`, `newest`: of the other node's database, and the LSN up to which its log was copied.
    `applied`: (node, incarnation, LSN) of the origins that it has applied. `hints`: (stream, created, sequence) where their streams are read on, and its own.
    `definitions`: of the tables, by name. `size`: bytes of the pieces, about."""

    node: str
    incarnation: bytes
    newest: int
    version: float
    applied: list[tuple[str, bytes, int]]
    hints: list[tuple[str, str, int]]
    definitions: dict[str, bytes]
    size: int

    def check(self) -> None:
        """Raises BadCopy."""
        numbers = [self.newest, *(each[2] for each in (*self.applied, *self.hints))]
        is_right = (
            all(0 <= number < MOST_LSN for number in numbers)
            and all(len(each) == INCARNATION_BYTES for each in (self.incarnation, *(each[1] for each in self.applied)))
            and all(0 < len(name.encode()) <= 255 for name in (self.node, *(each[0] for each in (*self.applied, *self.hints))))
            and 0 <= self.version < 1e300
        )
        if not is_right:
            raise BadCopy(f"The copy that {self.node[:100]!r} sends has a head that none can have")

    def known_of(self, own: Origin, former: tuple[bytes, int] | None) -> int:
        """LSN up to which this node's log was applied there. `former`: see `ReplicationState.former`."""
        found = {incarnation: lsn for node, incarnation, lsn in self.applied if node == own.node}
        if own.incarnation in found or former is None:
            return found.get(own.incarnation, 0)
        return min(found.get(former[0], 0), former[1])


class CopyProgress(msgspec.Struct, array_like=True):
    """How far a copy was put in place. `copy`: tells copies apart. `piece`, `row`: the next one. `table`: whose records are under way, "": none, or it does not
    exist here. `stored`: the key of the last one of them. `removed`: the table has no more records."""

    copy: bytes
    piece: int = 0
    row: int = 0
    table: str = ""
    stored: bytes = b""
    removed: bool = False


Pieces = Callable[[int], bytes | None]
"""The piece with a number, from 0 on; None: there is no such. Raises OSError."""
_decode_progress = msgspec.msgpack.Decoder(CopyProgress).decode
_encode = msgspec.msgpack.Encoder().encode
_decode_rows = msgspec.msgpack.Decoder(list[Row]).decode


def progress_of(database: Database) -> CopyProgress | None:
    """Of the copy that is being put in place; None: none is."""
    assert database.replication is not None
    found = database.replication.copying(database.snapshot())
    return _decode_progress(found) if found else None


def rows_of(piece: bytes) -> list[Row]:
    """Its rows. Raises BadCopy for what is none of a copy."""
    try:
        return _decode_rows(piece)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadCopy("A piece of the copy cannot be read") from error


class CopyCheck:
    """Whether pieces are in order and complete, before anything of them is put in place. `is_complete`: the end has come."""

    def __init__(self) -> None:
        self.is_complete = False
        self._count = 0
        self._stored = b""
        self._may_have_records = False

    def take(self, piece: bytes) -> None:
        """The next piece. Raises BadCopy."""
        for row in rows_of(piece):
            if self.is_complete:
                raise BadCopy("The copy goes on behind its end")
            if type(row) is RecordRow:
                if not self._may_have_records or row.stored <= self._stored:
                    raise BadCopy("The records of the copy are not in order")
                self._stored = row.stored
            elif type(row) is TableRow:
                self._may_have_records, self._stored = True, b""
            elif type(row) is EndRow:
                if row.count != self._count:
                    raise BadCopy(f"The copy has {self._count} rows instead of {row.count}")
                self.is_complete = True
                continue
            else:
                self._may_have_records = False
            self._count += 1


async def apply_copy(
    database: Database, copy: bytes, head: CopyHead, pieces: Pieces, own_streams: Sequence[str] = (), *, tell: Callable[[int], object]
) -> None:
    """Put it in place, or go on with it if it is the one that is under way. `copy`: tells it apart. `own_streams`: of which no hint is taken. `tell`: is called
    with the number of pieces that are done.

    When this returns all of it is on disk, and the positions of all origins are those of the copy. Nothing of other nodes may be applied meanwhile. Cancelled,
    or if it raises, it can go on later: BadCopy, Overloaded, NoSpace, StoreFailure, OSError.
    """
    assert database.replication is not None
    head.check()
    await _Applying(database, database.replication, copy, head, pieces, own_streams).run(tell)


class _Applying:
    def __init__(
        self, database: Database, state: ReplicationState, copy: bytes, head: CopyHead, pieces: Pieces, own_streams: Sequence[str]
    ) -> None:
        self.database = database
        self.state = state
        self.head = head
        self.own = Origin(database.node, state.incarnation(database.snapshot()))
        self.known = head.known_of(self.own, state.former(database.snapshot()))
        self.own_streams = own_streams
        found = progress_of(database)
        self.at = found if found is not None and found.copy == copy else CopyProgress(copy)
        self._pieces = pieces
        self._rows: list[Row] = []
        self._loaded = -1

    async def run(self, tell: Callable[[int], object]) -> None:
        is_done = False
        while not is_done:
            work = _Batch(self)
            write = _CopyLongWrite(self.database, work)
            work.is_over = write.is_over
            await write.run()
            await asyncio.sleep(0)  # in which those run that are admitted now
            self.at, is_done = work.at, work.is_done
            tell(self.at.piece)

    def rows(self, number: int) -> list[Row]:
        """Of the piece with this number. Raises BadCopy, OSError."""
        if self._loaded != number:
            data = self._pieces(number)
            if data is None:
                raise BadCopy("The copy has no end")
            self._rows = rows_of(data)
            self._loaded = number
        return self._rows


class _Batch:
    """`long_write.Work`: as much of the copy as is put in place in one commit. Ends early for other writers."""

    adds = True

    def __init__(self, applying: _Applying) -> None:
        self.database = applying.database
        self.size = _USUAL
        self.at = applying.at
        self.is_done = False
        self.is_over: Callable[[], bool] = lambda: False
        self._applying = applying
        self._inserts: CopiedInserts | None = None

    def forget(self, slices: Slices) -> None:
        pass

    def steps(self, write_set: WriteSet) -> Iterator[None]:
        assert isinstance(write_set, CopyWriteSet)
        self.is_done = False
        self._inserts = None
        at = self.at = msgspec.structs.replace(self._applying.at)
        count = size = 0
        for done in self._steps(write_set, at):
            if done is not None:
                count += 1
                size += done
                if size >= BATCH or self.is_done or self.is_over():
                    break
            yield
        yield from self._end_inserts()
        self.size = max(count, 1)
        self._finish(write_set, at)

    def _steps(self, writes: CopyWriteSet, at: CopyProgress) -> Iterator[int | None]:
        """Each puts records in place, and gives their bytes, about; None: it may not end here. Without end: it `is_done`."""
        definitions = self._applying.head.definitions
        while True:
            rows = self._applying.rows(at.piece)
            if at.row >= len(rows):
                at.piece += 1
                at.row = 0
                continue
            row = rows[at.row]
            table = self.database.tables.get(at.table) if at.table else None
            if type(row) is RecordRow:
                if table is not None:
                    yield from self._records(writes, at, table, rows)
                    continue
            else:
                yield from self._end_inserts()
                if table is not None and not at.removed:
                    yield from self._remove_between(writes, at, table, None)
                    at.removed = True
                if type(row) is TableRow:
                    at.table, at.stored, at.removed = row.name, b"", False
                    if row.name not in definitions or row.name not in self.database.tables:
                        at.table = ""
                elif type(row) is RemovedRow and table is not None:
                    writes.replace(table, CopiedRecord(table, None, None, row.history))
            at.row += 1
            self.is_done = type(row) is EndRow
            yield _ROW

    def _records(self, writes: CopyWriteSet, at: CopyProgress, table: Table, rows: list[Row]) -> Iterator[int | None]:
        """The records that follow in the piece."""
        inserts = self._inserts
        if inserts is None:
            inserts = self._inserts = CopiedInserts(writes, table)
        here = _next_key(writes.txn, table, at.stored)
        count = size = 0
        while at.row < len(rows) and type(row := rows[at.row]) is RecordRow:
            if row.stored <= at.stored:
                raise BadCopy("The records of the copy are not in order")
            is_new = (here is None or row.stored < here) and inserts.add(row)
            if not is_new:
                inserts.write(is_end=here is None)
                yield from inserts.end()
                yield from self._remove_between(writes, at, table, row.stored)
                writes.replace(table, CopiedRecord(table, row.stored, row.raw, row.history))
                here = _next_key(writes.txn, table, row.stored)
            at.stored = row.stored
            at.row += 1
            count += 1
            size += _ROW + len(row.raw) + sum(map(len, row.history))
            if not is_new or count >= _TOGETHER or size >= _TOGETHER_BYTES:
                inserts.write(is_end=here is None)
                yield size
                count = size = 0
        inserts.write(is_end=here is None)
        yield size

    def _end_inserts(self) -> Iterator[None]:
        """Something else is done now."""
        inserts, self._inserts = self._inserts, None
        if inserts is not None:
            yield from inserts.end()

    def _remove_between(self, writes: CopyWriteSet, at: CopyProgress, table: Table, stored: bytes | None) -> Iterator[int]:
        """Remove what is here between the last record and this one, None: to the end of the table."""
        while True:
            found = _next_key(writes.txn, table, at.stored)
            if found is None or (stored is not None and found >= stored):
                return
            writes.remove(table, found)
            at.stored = found
            yield _ROW

    def _finish(self, writes: CopyWriteSet, at: CopyProgress) -> None:
        applying, txn = self._applying, writes.txn
        state, head, own = applying.state, applying.head, applying.own
        log = self.database.log
        assert isinstance(log, ReplicatedLog)
        writes.end()
        if self.is_done:
            applied = {Origin(node, incarnation): lsn for node, incarnation, lsn in head.applied}
            applied.pop(own, None)
            applied[Origin(head.node, head.incarnation)] = head.newest
            hints = {
                stream: StreamHint(created, sequence) for stream, created, sequence in head.hints if stream not in applying.own_streams
            }
            state.end_copying(txn, applied, hints, applying.known)
        else:
            state.set_copying(txn, _encode(at))
        log.saw(head.version)
        log.save_clock(txn)
        writes.writes_unlogged = True


def _next_key(txn: Txn, table: Table, stored: bytes) -> bytes | None:
    """The stored key behind this one, b"": the first. None: there is no such."""
    cursor = txn.cursor(table.primary)
    return cursor.key() if (cursor.set_range(after(stored)) if stored else cursor.first()) else None


class _CopyLongWrite(LongWrite):
    def __init__(self, database: Database, work: _Batch) -> None:
        super().__init__(database.store, work, {}, None, 0)
        self._applying = work._applying

    def _open(self, txn: Txn) -> CopyWriteSet:
        applying, database = self._applying, self._database
        known = applying.known
        keeps = known + 1 < database.log.first_lsn(txn)
        return CopyWriteSet(database, applying.head.node, known, keeps=keeps, wall_ms=self.wall_ms, txn=txn)
