"""What a schema would change in the databases of a root, read from their files: a server may be running or not (spec: configuration §6.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from svc.clock import SYSTEM_CLOCK
from svc.errors import SchemaError
from svc.store.backup.source import open_readonly, stored_tables
from svc.store.definitions import (
    DEFINITIONS_STORE,
    StoredTable,
    check_definition,
    check_indexes,
    indexed_attributes,
    leftovers_key,
    moves_key,
)
from svc.store.env import Txn
from svc.store.indexes.build import reader_of
from svc.store.leftovers import LeftoverNote
from svc.store.moves import Move, MoveNote, Moves
from svc.store.schema import TableDefinition
from svc.store.schema_changes import Doubt, Leftover, LeftoverCount, TableChange, former_name, merged_doubts, table_change
from svc.store.slices import run_now
from svc.store.store_names import StoreNames
from svc.store.values.computed import computed_attributes
from svc.store.values.records import expiry_of, is_copy, projection
from svc.store.writing.duplicates import Duplicates, SeenValues, search_records

DATA_FILE = "data.mdb"
Progress = Callable[[str, int, int], None]
"""Called with table, records that were read, all."""

_STEP = 1000  # records between two reports, and two reads of the clock
BUDGET = 30  # seconds for the records of a table


@dataclass(frozen=True, slots=True)
class TableDifference:
    """A table that would change, or has values that do not fit it. `leftovers`: those that would not. `unread`: what of that was not found out, in words."""

    change: TableChange
    leftovers: tuple[Leftover, ...] = ()
    unread: tuple[str, ...] = ()


def stored_definitions(path: Path) -> dict[str, TableDefinition]:
    """By name, of the database in a directory; none if there is no database. Raises StoreFailure."""
    if not (path / DATA_FILE).exists():
        return {}
    with open_readonly(path) as (env, txn):
        definitions = env.open_db(DEFINITIONS_STORE.encode(), txn, create=False)
        return {stored.definition.name: stored.definition for stored in stored_tables(txn, definitions)}


def differences(
    path: Path, wanted: Iterable[TableDefinition], progress: Progress = lambda table, done, total: None
) -> list[TableDifference]:
    """What loading these definitions would change in the database in a directory, on one snapshot; of tables that stay as they are only what changes before
    have left in them. The records of each are read for BUDGET seconds.

    Raises StoreFailure.
    """
    wanted = list(wanted)
    if not (path / DATA_FILE).exists():
        return [TableDifference(_checked(None, definition, 0)) for definition in wanted]
    with open_readonly(path) as (env, txn):
        definitions = env.open_db(DEFINITIONS_STORE.encode(), txn, create=False)
        tables = {stored.definition.name: stored for stored in stored_tables(txn, definitions)}
        names = StoreNames(txn, definitions)
        found: list[TableDifference] = []
        for definition in wanted:
            stored = tables.get(former_name(definition, tables))
            if stored is None:
                found.append(TableDifference(_checked(None, definition, 0)))
                continue
            primary = env.open_db(names.of(stored).encode(), txn, create=False)
            change = _checked(stored, definition, txn.stat(primary)["entries"])
            note = txn.get(moves_key(stored.number), None, definitions)
            records = _Records(txn, primary, change, None if note is None else MoveNote.from_bytes(note), progress)
            fault, unread = _duplicates(definition, change, records)
            if fault is not None:
                found.append(TableDifference(replace(change, changes=(), doubts=(), fault=fault)))
                continue
            left = txn.get(leftovers_key(stored.number), None, definitions)
            noted = () if left is None or change.fault else LeftoverNote.from_bytes(left).doubts
            leftovers, uncounted = _leftovers(definition, merged_doubts(noted, change, definition), records)
            if change.changes or change.fault or leftovers or uncounted:
                found.append(TableDifference(change, leftovers, (*unread, *uncounted)))
        return found


class _OutOfTime(Exception):
    """The records of a table were read for BUDGET seconds."""


class _Records:
    """The records of a table as they would be read once the change is made. (stored key, raw) of all that have not expired, at each call. Raises _OutOfTime."""

    def __init__(self, txn: Txn, primary: Any, change: TableChange, note: MoveNote | None, progress: Progress) -> None:
        self._txn = txn
        self._primary = primary
        self._change = change
        self._progress = progress
        self._now_ms = SYSTEM_CLOCK.wall() * 1000
        self._end = SYSTEM_CLOCK.monotonic() + BUDGET
        planned = [Move(old, new, inf) for old, new in change.consequences.moves]
        known = () if note is None else note.moves
        self._moves = Moves(MoveNote((*known, *planned)), 0) if known or planned else None

    def __call__(self) -> Iterator[tuple[bytes, bytes]]:
        for number, (stored, raw) in enumerate(self._txn.cursor(self._primary).iternext()):
            if number % _STEP == 0:
                if number and SYSTEM_CLOCK.monotonic() > self._end:
                    raise _OutOfTime
                self._progress(f"{self._change.database}.{self._change.table}", number, self._change.records)
            expiry = expiry_of(raw)
            if expiry is None or expiry > self._now_ms or is_copy(raw):
                yield stored, raw if self._moves is None else self._moves.translate(raw, self._txn)


def _duplicates(definition: TableDefinition, change: TableChange, records: _Records) -> tuple[str | None, tuple[str, ...]]:
    """(why the attributes that become unique cannot, None if they can; of which that is not known)."""
    unread = []
    computed = computed_attributes(definition, {}, definition.name) if change.consequences.unique else {}
    keys = projection((definition.primary_key,))
    for name in change.consequences.unique:
        if name in computed and not computed[name].is_set:
            continue
        value_of = computed[name].reader() if name in computed else reader_of(name)
        found = Duplicates()
        try:
            run_now(search_records(records, value_of, lambda raw: keys(raw)[0], SeenValues(), found))
        except _OutOfTime:
            unread.append(f"whether the values of {name} are unique was not found out within {BUDGET} seconds: the start does")
        fault = found.fault(definition.name, name)
        if fault is not None:
            return fault, ()
    return None, tuple(unread)


def _leftovers(definition: TableDefinition, doubts: tuple[Doubt, ...], records: _Records) -> tuple[tuple[Leftover, ...], tuple[str, ...]]:
    """(what was counted; that it was not all)."""
    if not doubts:
        return (), ()
    count = LeftoverCount(definition, doubts)
    unread: tuple[str, ...] = ()
    try:
        for stored, raw in records():
            count.add(stored, raw)
    except _OutOfTime:
        unread = (f"only the first {count.total:,} records were counted, within {BUDGET} seconds: the start counts all",)
    return tuple(count.leftovers()), unread


def _checked(stored: StoredTable | None, definition: TableDefinition, records: int) -> TableChange:
    """The change, with what the store has against the definition alone."""
    before = None if stored is None else stored.definition
    try:
        check_definition(definition)
        check_indexes(definition, 0 if before is None else len(indexed_attributes(before)))
    except SchemaError as error:
        return TableChange(definition.database, definition.name, records, fault=error.message)
    return table_change(before, definition, records)
