"""What a table has been left with by changes of its definition: noted with the definition, until no record has any of it (spec: schema-and-store §7).

The note is written in the transaction that changes the definition, so it is there whenever the definition is. It names doubts (`schema_changes.Doubt`), not
records: those are counted beside requests when a schema is loaded (`apps.schema_leftovers`). The count is saved with the note now and then, so that
one that a process did not finish goes on in the next, and when it is complete, for `describe_table`. Then doubts of which there is nothing are removed,
and with the last of them the note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from svc.store.definitions import leftovers_key
from svc.store.schema_changes import Doubt, Leftover, LeftoverCount, SavedCount, TableChange, merged_doubts, noted_doubts

if TYPE_CHECKING:
    from svc.store.env import Txn
    from svc.store.schema import TableDefinition
    from svc.store.stored_table import StoredTable


class LeftoverNote(msgspec.Struct, frozen=True, array_like=True):
    """`doubts`: their kinds and names. `count`: what was counted of them by `counted_ms`, None: nothing yet."""

    doubts: tuple[tuple[str, str], ...]
    counted_ms: float = 0.0
    count: SavedCount | None = None

    def to_bytes(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> LeftoverNote:
        return msgspec.msgpack.decode(data, type=cls)


def read_note(table: StoredTable, txn: Txn) -> LeftoverNote | None:
    """What is noted of a table; None: no record of it is in doubt."""
    data = txn.get(leftovers_key(table.number), None, table.database.definitions)
    return None if data is None else LeftoverNote.from_bytes(data)


def note_doubts(writer: Txn, table: StoredTable, change: TableChange, definition: TableDefinition) -> None:
    """Add those of a change to the note of the table that gets `definition`. Part of the transaction that stores it."""
    known = read_note(table, writer)
    doubts = merged_doubts(() if known is None else known.doubts, change, definition)
    if known is None or change.doubts or known.doubts != _named(doubts):  # else what was counted holds
        _write(writer, table, LeftoverNote(_named(doubts)) if doubts else None)


def save_count(writer: Txn, table: StoredTable, doubts: tuple[Doubt, ...], count: LeftoverCount, now_ms: float, *, behind: bytes) -> None:
    """Note what is counted of these doubts. `behind`: the stored key up to which records are, b"": all are. Nothing if there are other doubts by now."""
    known = read_note(table, writer)
    if known is None or known.doubts != _named(doubts):
        return
    saved = count.saved(behind)
    if behind:
        _write(writer, table, LeftoverNote(known.doubts, now_ms, saved))
        return
    found = [number for number, each in enumerate(saved.counts) if each]
    kept = tuple([known.doubts[number] for number in found])
    counts, keys = tuple([saved.counts[number] for number in found]), tuple([saved.keys[number] for number in found])
    _write(writer, table, LeftoverNote(kept, now_ms, SavedCount(b"", saved.total, counts, keys)) if kept else None)


def counted(table: StoredTable, note: LeftoverNote) -> list[Leftover]:
    """What the note of a table says is left, complete or not."""
    if note.count is None:
        return []
    doubts = tuple(noted_doubts(note.doubts, table.definition, {}))
    return LeftoverCount(table.definition, doubts, note.count).leftovers() if _named(doubts) == note.doubts else []


def _named(doubts: tuple[Doubt, ...]) -> tuple[tuple[str, str], ...]:
    return tuple([(doubt.kind, doubt.name) for doubt in doubts])


def _write(writer: Txn, table: StoredTable, note: LeftoverNote | None) -> None:
    key, definitions = leftovers_key(table.number), table.database.definitions
    if note is None:
        writer.delete(key, b"", definitions)
    else:
        writer.put(key, note.to_bytes(), True, True, False, definitions)
