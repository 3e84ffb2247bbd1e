"""What a schema would change in the databases of a root, read from their files: a server may be running or not (spec: configuration §6.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svc.errors import SchemaError
from svc.store.backup.source import open_readonly, stored_tables
from svc.store.definitions import DEFINITIONS_STORE, StoredTable, check_definition, check_indexes, indexed_attributes, moves_key
from svc.store.moves import MoveNote, Moves
from svc.store.schema import TableDefinition
from svc.store.schema_changes import Leftover, LeftoverCount, TableChange, former_name, table_change
from svc.store.store_names import StoreNames

DATA_FILE = "data.mdb"
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
    path: Path, wanted: Iterable[TableDefinition], progress: Callable[[str, int, int], None] = lambda table, done, total: None
) -> list[TableDifference]:
    """What loading these definitions would change in the database in a directory, on one snapshot; of tables that stay as they are nothing.

    `progress`: called with table, records that were read, all. Raises StoreFailure.
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
            leftovers: tuple[Leftover, ...] = ()
            if change.doubts:
                leftovers = _count(change, definition, txn.get(moves_key(stored.number), None, definitions), txn, primary, progress)
            if change.changes or change.fault:
                found.append(TableDifference(change, leftovers))
        return found


def _checked(stored: StoredTable | None, definition: TableDefinition, records: int) -> TableChange:
    """The change, with what the store has against the definition alone."""
    before = None if stored is None else stored.definition
    try:
        check_definition(definition)
        check_indexes(definition, 0 if before is None else len(indexed_attributes(before)))
    except SchemaError as error:
        return TableChange(definition.database, definition.name, records, fault=error.message)
    return table_change(before, definition, records)


def _count(
    change: TableChange, definition: TableDefinition, note: bytes | None, txn: Any, primary: Any, progress: Callable[[str, int, int], None]
) -> tuple[Leftover, ...]:
    count = LeftoverCount(definition, change.doubts, by_new_names=False)
    moves = None if note is None else Moves(MoveNote.from_bytes(note), 0)
    for number, (stored, raw) in enumerate(txn.cursor(primary).iternext()):
        if number % _STEP == 0:
            progress(f"{change.database}.{change.table}", number, change.records)
        count.add(stored, raw if moves is None else moves.translate(raw, txn))
    return tuple(count.leftovers())
