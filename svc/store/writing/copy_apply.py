"""A copy of another node's database, which lies in a file here, is put in the place of what this one has (spec: replication §7).

Record by record, in turns like those of `remote_apply`, while others read and write. How far it has come is in `$replication`, written with the records: after
a crash it goes on there. What the copy does not have is removed, but for what this node has written and the other one has not heard of.

While it goes on nothing of other nodes is applied: the positions of all of them are those of the copy once it has ended.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from svc.store.copy_reader import END, RECORD, REMOVED, TABLE
from svc.store.disk.faults import LmdbError, store_problem
from svc.store.log.replicated_log import ReplicatedLog
from svc.store.replication_state import StreamHint
from svc.store.values.keys import after
from svc.store.writing.applied_batch import AppliedBatch
from svc.store.writing.copied_write import BadCopy, CopiedRecord, CopyWriteSet
from svc.store.writing.remote_apply import TURN, TurnOutcome, in_place
from svc.store.writing.remote_transaction import INCARNATION_BYTES, Origin

if TYPE_CHECKING:
    from svc.store.database import Database
    from svc.store.replication_state import ReplicationState
    from svc.store.table import Table

logger = logging.getLogger("svc.store")

MOST_LSN = 1 << 63
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

    def applied_of(self, origin: Origin) -> int:
        return next((lsn for node, incarnation, lsn in self.applied if (node, incarnation) == (origin.node, origin.incarnation)), 0)


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
        self._database = database
        self._state = state
        self._head = head
        self._pieces = pieces
        self._own_streams = own_streams
        found = progress_of(database)
        self._at = found if found is not None and found.copy == copy else CopyProgress(copy)
        self._rows: list[Any] = []
        self._loaded = -1
        self._is_done = False
        snapshot = database.snapshot()
        self._own = Origin(database.node, state.incarnation(snapshot))
        self._known = head.applied_of(self._own)
        self._keeps = self._known + 1 < database.log.first_lsn(snapshot)

    async def run(self, tell: Callable[[int], object]) -> None:
        while not self._is_done:
            await self._database.store.slices.take()
            self._load()
            batch: TurnOutcome | None = await in_place(self._database, self._attempt)
            if batch is None:
                continue
            problem = await batch.committed
            if problem is not None:
                found = progress_of(self._database)
                self._at = found if found is not None and found.copy == self._at.copy else CopyProgress(self._at.copy)
                raise problem
            tell(self._at.piece)

    def _load(self) -> None:
        """Have the rows of the piece that is next."""
        at = self._at
        if self._loaded == at.piece:
            return
        data = self._pieces(at.piece)
        if data is None:
            raise BadCopy("The copy has no end")
        self._rows = rows_of(data)
        self._loaded = at.piece

    def _attempt(self) -> TurnOutcome:
        """Put as many in place as there is time for. Raises WriterBusy, Problem."""
        database, now = self._database, self._database.clock.monotonic
        end = now() + TURN
        database.store.open_writers((database,), wait=False)
        if database.env.reserve.is_low:
            database.require_space()
        batch = TurnOutcome()
        writes = CopyWriteSet(database, self._head.node, self._known, keeps=self._keeps, wall_ms=database.clock.wall() * 1000)
        before = self._at
        at = self._at = msgspec.structs.replace(before)
        try:
            is_done = False
            for step in self._steps(writes, at):
                is_done = step
                if now() >= end:
                    break
            self._finish(writes, at, is_done=is_done)
        except BaseException as error:
            writes.rollback()
            self._at = before
            if isinstance(error, LmdbError):
                raise store_problem(error, database.env.path) from error
            raise
        writes.commit()
        self._is_done = is_done
        database.store.applied(AppliedBatch(database, [batch.done]))
        return batch

    def _steps(self, writes: CopyWriteSet, at: CopyProgress) -> Iterator[bool]:
        """Each puts a record in place, and says whether that was all. Ends with the piece."""
        while at.row < len(self._rows):
            kind, *values = self._rows[at.row]
            table = self._database.tables.get(at.table) if at.table else None
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
                    if values[0] not in self._head.definitions or values[0] not in self._database.tables:
                        at.table = ""
            at.row += 1
            yield kind == END
        at.piece += 1
        at.row = 0

    def _remove_between(self, writes: CopyWriteSet, at: CopyProgress, table: Table, stored: bytes | None) -> Iterator[bool]:
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
            yield False

    def _finish(self, writes: CopyWriteSet, at: CopyProgress, *, is_done: bool) -> None:
        state, head, txn = self._state, self._head, writes.txn
        log = self._database.log
        assert isinstance(log, ReplicatedLog)
        writes.end()
        if is_done:
            own = self._own.node
            applied: dict[Origin, int] = {
                Origin(node, incarnation): lsn
                for node, incarnation, lsn in head.applied
                if (node, incarnation) != (own, self._own.incarnation)
            }
            applied[Origin(head.node, head.incarnation)] = head.newest
            hints: Mapping[str, StreamHint] = {
                stream: StreamHint(created, sequence) for stream, created, sequence in head.hints if stream not in self._own_streams
            }
            state.end_copying(txn, applied, hints, self._known)
        else:
            state.set_copying(txn, _encode(at))
        log.saw(head.version)
        for entry in writes.entries:
            log.saw(entry.version)
        log.save_clock(txn)
        writes.version = log.last_version
        writes.writes_unlogged = True
