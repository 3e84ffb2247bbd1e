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
from svc.store.definitions import DEFINITIONS_STORE, StoredTable, check_definition, check_indexes, indexed_attributes, moves_key
from svc.store.env import Txn
from svc.store.indexes.build import reader_of
from svc.store.moves import Move, MoveNote, Moves
from svc.store.schema import TableDefinition
from svc.store.schema_changes import Leftover, LeftoverCount, TableChange, former_name, table_change
from svc.store.store_names import StoreNames
from svc.store.values.computed import computed_attributes
from svc.store.values.records import expiry_of, is_copy, projection
from svc.store.writing.duplicates import Duplicates, SeenValues, search_records

DATA_FILE = "data.mdb"
Progress = Callable[[str, int, int], None]
"""Called with table, records that were read, all."""

_STEP = 10_000  # records between two reports


@dataclass(frozen=True, slots=True)
class TableDifference:
    """A table that would change. `leftovers`: values that would not fit."""

    change: TableChange
    leftovers: tuple[Leftover, ...] = ()


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
    """What loading these definitions would change in the database in a directory, on one snapshot; of tables that stay as they are nothing.

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
            fault = _duplicates(definition, change, records)
            if fault is not None:
                found.append(TableDifference(replace(change, changes=(), doubts=(), fault=fault)))
            elif change.changes or change.fault:
                found.append(TableDifference(change, _leftovers(definition, change, records)))
        return found


class _Records:
    """The records of a table as they would be read once the change is made. (stored key, raw) of all that have not expired, at each call."""

    def __init__(self, txn: Txn, primary: Any, change: TableChange, note: MoveNote | None, progress: Progress) -> None:
        self._txn = txn
        self._primary = primary
        self._change = change
        self._progress = progress
        self._now_ms = SYSTEM_CLOCK.wall() * 1000
        planned = [Move(old, new, inf) for old, new in change.consequences.moves]
        known = () if note is None else note.moves
        self._moves = Moves(MoveNote((*known, *planned)), 0) if known or planned else None

    def __call__(self) -> Iterator[tuple[bytes, bytes]]:
        for number, (stored, raw) in enumerate(self._txn.cursor(self._primary).iternext()):
            if number % _STEP == 0:
                self._progress(f"{self._change.database}.{self._change.table}", number, self._change.records)
            expiry = expiry_of(raw)
            if expiry is None or expiry > self._now_ms or is_copy(raw):
                yield stored, raw if self._moves is None else self._moves.translate(raw, self._txn)


def _duplicates(definition: TableDefinition, change: TableChange, records: _Records) -> str | None:
    """Why the attributes that become unique cannot."""
    computed = computed_attributes(definition, {}, definition.name) if change.consequences.unique else {}
    keys = projection((definition.primary_key,))
    for name in change.consequences.unique:
        if name in computed and not computed[name].is_set:
            continue
        value_of = computed[name].reader() if name in computed else reader_of(name)
        found = Duplicates()
        for _ in search_records(records, value_of, lambda raw: keys(raw)[0], SeenValues(), found):
            pass
        fault = found.fault(definition.name, name)
        if fault is not None:
            return fault
    return None


def _leftovers(definition: TableDefinition, change: TableChange, records: _Records) -> tuple[Leftover, ...]:
    if not change.doubts:
        return ()
    count = LeftoverCount(definition, change.doubts)
    for stored, raw in records():
        count.add(stored, raw)
    return tuple(count.leftovers())


def _checked(stored: StoredTable | None, definition: TableDefinition, records: int) -> TableChange:
    """The change, with what the store has against the definition alone."""
    before = None if stored is None else stored.definition
    try:
        check_definition(definition)
        check_indexes(definition, 0 if before is None else len(indexed_attributes(before)))
    except SchemaError as error:
        return TableChange(definition.database, definition.name, records, fault=error.message)
    return table_change(before, definition, records)
