"""A copy of another node's database, which lies in a file here, is put in the place of what this one has (spec: replication §11).

Record by record, as long writes that end as soon as others want to write (`long_write`). How far it has come is in `$replication`, in the commit of the
records: after a crash it goes on there. What the copy does not have is removed, but for what this node has written and the other one has not heard of.

While it goes on nothing of other nodes is applied: the positions of all of them are those of the copy once it has ended.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from svc.store.copy_reader import END, RECORD, REMOVED, TABLE
from svc.store.log.replicated_log import ReplicatedLog
from svc.store.replication_state import StreamHint
from svc.store.values.keys import after
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
_TYPES: dict[int, list[type]] = {TABLE: [int, str], RECORD: [int, bytes, bytes, list], REMOVED: [int, list], END: [int, int]}


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
_decode_rows = msgspec.msgpack.Decoder(list[Any]).decode


def progress_of(database: Database) -> CopyProgress | None:
    """Of the copy that is being put in place; None: none is."""
    assert database.replication is not None
    found = database.replication.copying(database.snapshot())
    return _decode_progress(found) if found else None


def rows_of(piece: bytes) -> list[Any]:
    """Its rows. Raises BadCopy for what is none of a copy."""
    try:
        rows = _decode_rows(piece)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadCopy("A piece of the copy cannot be read") from error
    for row in rows:
        wanted = _TYPES.get(row[0]) if type(row) is list and row and type(row[0]) is int else None
        if wanted is None or [*map(type, row)] != wanted or (wanted[-1] is list and not all(type(each) is bytes for each in row[-1])):
            raise BadCopy("A piece of the copy has something that is no row")
    return rows


class CopyCheck:
    """Whether pieces are in order and complete, before anything of them is put in place. `is_complete`: the end has come."""

    def __init__(self) -> None:
        self.is_complete = False
        self._count = 0
        self._stored = b""
        self._may_have_records = False

    def take(self, piece: bytes) -> None:
        """The next piece. Raises BadCopy."""
        for kind, *values in rows_of(piece):
            if self.is_complete:
                raise BadCopy("The copy goes on behind its end")
            if kind == END:
                if values[0] != self._count:
                    raise BadCopy(f"The copy has {self._count} rows instead of {values[0]}")
                self.is_complete = True
                continue
            self._count += 1
            if kind == TABLE:
                self._may_have_records, self._stored = True, b""
            elif kind == RECORD:
                if not self._may_have_records or values[0] <= self._stored:
                    raise BadCopy("The records of the copy are not in order")
                self._stored = values[0]
            else:
                self._may_have_records = False


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
        self._rows: list[Any] = []
        self._loaded = -1

    async def run(self, tell: Callable[[int], object]) -> None:
        is_done = False
        while not is_done:
            work = _Batch(self)
            write = _CopyLongWrite(self.database, work)
            work.is_over = write.is_over
            await write.run()
            self.at, is_done = work.at, work.is_done
            tell(self.at.piece)

    def rows(self, number: int) -> list[Any]:
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

    def forget(self, slices: Slices) -> None:
        pass

    def steps(self, write_set: WriteSet) -> Iterator[None]:
        assert isinstance(write_set, CopyWriteSet)
        self.is_done = False
        at = self.at = msgspec.structs.replace(self._applying.at)
        count = size = 0
        for done in self._steps(write_set, at):
            count += 1
            size += done
            if size >= BATCH or self.is_done or self.is_over():
                break
            yield
        self.size = max(count, 1)
        self._finish(write_set, at)

    def _steps(self, writes: CopyWriteSet, at: CopyProgress) -> Iterator[int]:
        """Each puts a record in place, and gives its bytes, about. Without end: it `is_done`."""
        definitions = self._applying.head.definitions
        while True:
            rows = self._applying.rows(at.piece)
            if at.row >= len(rows):
                at.piece += 1
                at.row = 0
                continue
            kind, *values = rows[at.row]
            table = self.database.tables.get(at.table) if at.table else None
            if kind == RECORD:
                if table is not None:
                    yield from self._remove_between(writes, at, table, values[0])
                    writes.replace(table, CopiedRecord(table, *values))
                    at.stored = values[0]
            else:
                if table is not None and not at.removed:
                    yield from self._remove_between(writes, at, table, None)
                    at.removed = True
                if kind == REMOVED and table is not None:
                    writes.replace(table, CopiedRecord(table, None, None, values[0]))
                elif kind == TABLE:
                    at.table, at.stored, at.removed = values[0], b"", False
                    if values[0] not in definitions or values[0] not in self.database.tables:
                        at.table = ""
            at.row += 1
            self.is_done = kind == END
            yield _ROW + (len(values[1]) + sum(map(len, values[2])) if kind == RECORD else 0)

    def _remove_between(self, writes: CopyWriteSet, at: CopyProgress, table: Table, stored: bytes | None) -> Iterator[int]:
        """Remove what is here between the last record and this one, None: to the end of the table."""
        while True:
            cursor = writes.txn.cursor(table.primary)
            if not (cursor.set_range(after(at.stored)) if at.stored else cursor.first()):
                return
            found = cursor.key()
            if stored is not None and found >= stored:
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


class _CopyLongWrite(LongWrite):
    def __init__(self, database: Database, work: _Batch) -> None:
        super().__init__(database.store, work, {}, None, 0)
        self._applying = work._applying

    def _open(self, txn: Txn) -> CopyWriteSet:
        applying, database = self._applying, self._database
        known = applying.known
        keeps = known + 1 < database.log.first_lsn(txn)
        return CopyWriteSet(database, applying.head.node, known, keeps=keeps, wall_ms=self.wall_ms, txn=txn)
