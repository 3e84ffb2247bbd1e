"""Moving the values of an attribute to its new name (spec: schema-and-store §7.1, `@renamedFrom`).

The definition with the new name holds at once, for all records; the records are rewritten later, a slice at a time (`maintenance`). In between
a record that still has the old name is *translated* as it is read, so that no reader sees which ones have been rewritten:

1. The move is noted in the definitions, in the transaction that changes the definition, with a version that is greater than those of all records
   there are. It concerns records with a lower version: what is written later says itself what it means, under whichever name.
2. A record that has the old name and not the new one is read with the new name, and with the version of the move: a client that has the record as
   it was before sees by its entity tag that it has changed. A record that has both names stays as it is.
3. Translation is decided by the snapshot. One that is older than the change of the definition is read as it was, because its reader goes by
   the definition before. So a result that is being sent when the definition changes has the old name up to its end.
4. Everything that reads the bytes of records reads them through the table (`Table.read`), or knows what it does: `svc check`, backups, builders.
5. Rewriting a record stores what is read anyway, with a version of its own, and logs it as a put without a user, for subscribers and other
   followers of the log. Its image has the new name, too, and so have the images of all writes meanwhile. Indexes do not change. The stored key up
   to which it is done is kept with the note, in the same transaction: a process that is killed goes on from there, and so does another process.
6. When all are rewritten the note is removed. This process translates on until it has no snapshot that may be older.

A second move of a table, also of a name that is being moved, is added to the first, and the table is gone through from the beginning: translation
applies the moves in their order.

Copies of what a source has keep the versions that the source gave them: they are translated whatever their version is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from svc.store.log.entries import PUT
from svc.store.values.keys import after
from svc.store.values.records import (
    MISSING,
    NEVER,
    decode,
    encode,
    expiry_of,
    is_copy,
    is_partial,
    lsn_of,
    projection,
    refreshed_of,
    version_of,
)

if TYPE_CHECKING:
    from svc.store.env import Txn
    from svc.store.table import Table
    from svc.store.writing.write_set import WriteSet

SLICE = 50  # records


class Move(NamedTuple):
    """`version`: records with a lower one are concerned."""

    old: str
    new: str
    version: float


class MoveNote(msgspec.Struct, frozen=True, array_like=True):
    """What the definitions have of it. `done`: the stored key up to which records are rewritten. `moved`: how many were."""

    moves: tuple[Move, ...]
    done: bytes = b""
    moved: int = 0

    def to_bytes(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> MoveNote:
        return msgspec.msgpack.decode(data, type=cls)

    def adding(self, pairs: Sequence[tuple[str, str]], version: float) -> MoveNote:
        """The note with further moves, (old name, new name)."""
        return MoveNote((*self.moves, *(Move(old, new, version) for old, new in pairs)), b"", self.moved)


@dataclass(slots=True)
class _KnownMoves:
    move: Move
    since: int  # LMDB's number of the first transaction that reads by the definition with the new name


class Moves:
    """The moves of one table, as this process knows them. `is_done`: the records are rewritten; older snapshots may have them as they were."""

    def __init__(self, note: MoveNote, since: int, before: Moves | None = None) -> None:
        """`since`: see `_KnownMoves`; of moves that `before` knows, what it says."""
        known = {} if before is None else {each.move: each for each in before._moves}
        self._moves: list[_KnownMoves] = [known.get(move) or _KnownMoves(move, since) for move in note.moves]
        self._values_of = projection(tuple({each.move.old for each in self._moves}), default=MISSING)
        self._newest = max(each.move.version for each in self._moves)
        self.note = note
        self.is_done = False

    @property
    def since(self) -> int:
        """LMDB's number of the first transaction with one of the moves."""
        return min(each.since for each in self._moves)

    def translate(self, raw: bytes, txn: Txn) -> bytes:
        """The record as the definition has it; the same object if that is how it is stored."""
        version = version_of(raw)
        copied = is_copy(raw)
        if (version >= self._newest and not copied) or all(value is MISSING for value in self._values_of(raw)):
            return raw
        record = decode(raw)
        number, stamp = txn.id(), None
        for each in self._moves:
            move = each.move
            if each.since <= number and (version < move.version or copied) and move.old in record and move.new not in record:
                record = {move.new if name == move.old else name: value for name, value in record.items()}
                stamp = move.version
        if stamp is None:
            return raw
        return encode(record, version if copied else stamp, lsn_of(raw), expiry_of(raw), NEVER, refreshed_of(raw), partial=is_partial(raw))

    def rewrite_slice(self, write_set: WriteSet, table: Table, note: MoveNote) -> tuple[MoveNote, bool]:
        """Store the next records as they are read; returns (what is to be noted then, whether there are more). `note`: as of the transaction."""
        txn = write_set.txn
        cursor = txn.cursor(table.primary)
        if not (cursor.set_range(after(note.done)) if note.done else cursor.first()):
            return note, False
        done, moved, seen = note.done, note.moved, 0
        for stored, raw in list(islice(cursor.iternext(), SLICE)):
            made = self.translate(raw, txn)
            if made is not raw:
                record = decode(made)
                write_set.write_record(
                    table,
                    PUT,
                    table.encoded_key(stored, record),
                    stored,
                    made,
                    record,
                    record,
                    None,
                    expiry_of(made),
                    version=version_of(made) if is_copy(made) else None,
                    refreshed=refreshed_of(made),
                    partial=is_partial(made),
                )
                moved += 1
            done = stored
            seen += 1
        return MoveNote(note.moves, done, moved), seen == SLICE
