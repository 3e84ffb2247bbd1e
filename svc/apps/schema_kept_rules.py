"""Rules about rows of a table that several applications declare (spec: rows §1.1).

The rules that one of them declares hold for all. While one of those that could declare them is not loaded yet, or could not be, a declaration without rules
takes none away: the table keeps those that it has, until all are known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from svc.apps.schema_uniqueness import define
from svc.store.schema import TableDefinition
from svc.store.schema_changes import former_name

if TYPE_CHECKING:
    from svc.apps.entry import EntryContext
    from svc.store import Database, Table


@dataclass(frozen=True, slots=True)
class KeptRules:
    """A table that was defined with the rules that it had, and declared without. `is_final`: its definition is about to change anyhow, and is left alone."""

    table: Table
    is_final: bool


def with_kept_rules(definition: TableDefinition, database: Database, context: EntryContext) -> TableDefinition:
    """The definition itself, or with the rules that the table has, if others may declare them."""
    if definition.allow or not context.runtime.hides_rules(context.app.name):
        return definition
    stored = database.tables.get(former_name(definition, database.tables))
    return definition if stored is None or not stored.definition.allow else replace(definition, allow=stored.definition.allow)


async def settle_rules(kept: Iterable[KeptRules], context: EntryContext) -> None:
    """Once all applications are loaded: of these tables, those that no other one declares with rules lose them. Raises SchemaError."""
    hides_rules = context.runtime.hides_rules(context.app.name)
    for each in kept:
        table = each.table
        others = context.app.known_definitions().get(table.database.name, {}).values()
        if not table.is_there or any(other.name == table.name and other.allow for other in others):
            continue
        if hides_rules or each.is_final:
            reason = (
                "not every application that may declare them could be loaded"
                if hides_rules
                else "its @unique attributes are being looked at"
            )
            text = f"{table.name} is declared without rules about rows, and keeps those that it had until the next load: {reason}"
            context.status.warn(text)
            context.runtime.tell(context.app.name, "warn", f"{context.key}: {text}")
        elif table.definition.allow:
            await define(table.database, replace(table.definition, allow=()))
