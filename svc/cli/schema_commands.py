"""`svc schema diff`: what a start with an application would change in the tables of a root (spec: configuration §6.1)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from svc.cli.arguments import FAILED, Arguments, UsageError, complete_installation, fail, named_directory
from svc.cli.preparing import read_config

if TYPE_CHECKING:
    from pathlib import Path

    from svc.config import Config
    from svc.store.schema import TableDefinition
    from svc.store.schema_difference import TableDifference
    from svc.stubs import ApplicationSchema

CHANGES = 2
"""The exit status if there is something to change, and no fault."""


def schema_command(arguments: Arguments) -> int:
    if len(arguments.words) != 2 or arguments.words[0] != "diff":
        raise UsageError("svc schema diff APP shows what a start with the application in the directory APP would change.")
    return _diff(arguments)


def _diff(arguments: Arguments) -> int:
    from svc.errors import Problem
    from svc.stubs import SchemaFaults

    directory = named_directory(arguments.words[1])
    config = read_config(complete_installation(arguments), arguments)
    faults: list[str] = []
    try:
        schema = _schema_of(directory, config)
    except SchemaFaults as error:
        faults += error.messages
        schema = None
    except Problem as error:
        return fail(error.message)
    except OSError as error:
        return fail(f"{directory} cannot be read: {error.strerror or error}")
    try:
        found = [] if schema is None else _differences(schema, config)
    except Problem as error:
        return fail(error.message)
    warnings = [] if schema is None else list(schema.warnings)
    if "json" in arguments.flags:
        print(_json(found, faults, warnings))
    else:
        _show(found, faults, warnings)
    if faults or any(each.change.fault for each in found):
        return FAILED
    return CHANGES if any(each.change.changes for each in found) else 0


def _schema_of(directory: Path, config: Config) -> ApplicationSchema:
    """Types that the application does not have are those of other tables of the root (spec: schema-and-store §1.5)."""
    from svc.store.schema_difference import stored_definitions
    from svc.stubs import schema_of

    declared = schema_of(directory).definitions
    own = {(each.database, name) for each in declared for name in (each.name, each.renamed_from) if name is not None}
    known: dict[str, dict[str, TableDefinition]] = {}
    for database in {name for name, _ in own}:
        stored = stored_definitions(config.database_path(database) / database)
        known[database] = {each.type_name: each for each in stored.values() if each.type_name and (database, each.name) not in own}
    return schema_of(directory, known)


def _differences(schema: ApplicationSchema, config: Config) -> list[TableDifference]:
    from svc.store.schema_difference import differences

    found = []
    for database in sorted({each.database for each in schema.definitions}):
        wanted = [each for each in schema.definitions if each.database == database]
        path = config.database_path(database) / database
        found += differences(path, wanted, _show_progress if sys.stderr.isatty() else lambda table, done, total: None)
    return found


def _show_progress(table: str, done: int, total: int) -> None:
    print(f"\r\x1b[K{table}: {done:,} of {total:,} records\r", end="", file=sys.stderr, flush=True)


def _show(found: list[TableDifference], faults: list[str], warnings: list[str]) -> None:
    for sentence in faults:
        print(f"error: {sentence}", file=sys.stderr)
    for sentence in warnings:
        print(f"warning: {sentence}", file=sys.stderr)
    for each in found:
        change = each.change
        print(f"{change.database}.{change.table}")
        for line in change.changes:
            print(f"  {line.sentence}")
        for leftover in each.leftovers:
            print(f"  warning: {leftover.sentence(change.table)}")
        for sentence in each.unread:
            print(f"  note: {sentence}")
        if change.fault:
            print(f"  error: {change.fault}; the table stays as it is")
    if not any(each.change.changes or each.change.fault for each in found) and not faults:
        print("Nothing would change.")


def _json(found: list[TableDifference], faults: list[str], warnings: list[str]) -> str:
    import msgspec

    tables: list[dict[str, Any]] = [
        {
            "database": each.change.database,
            "table": each.change.table,
            "records": each.change.records,
            "changes": [{"kind": line.kind, "attribute": line.attribute, "text": line.sentence} for line in each.change.changes],
            "leftovers": [
                {
                    "kind": one.kind,
                    "attribute": one.attribute,
                    "count": one.count,
                    "of": one.total,
                    "first_key": one.keys[0],
                    "keys": one.keys,
                }
                for one in each.leftovers
            ],
            "unread": each.unread,
            "error": each.change.fault or None,
        }
        for each in found
    ]
    return msgspec.json.encode({"tables": tables, "errors": faults, "warnings": warnings}).decode()
