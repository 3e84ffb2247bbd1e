"""Descriptions of tables (spec: operations §2, "Table description"): what is in them, and what a caller may see of it.

A description is made in steps: of many tables, of many expired records, and of a long log not everything can be looked at in one turn.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from typing import Any

from svc.auth.roles import ALL_RIGHTS, TableRights
from svc.operations.call import Call
from svc.operations.row_rules import count_visible, is_narrowed, read_view
from svc.store import Database, Table
from svc.store.leftovers import LeftoverNote, counted, read_note
from svc.store.record_counts import count_records
from svc.store.schema import ACTIONS, Allow, Attribute, Structure

Steps = Generator[None, None, dict[str, Any]]


def rights_of(call: Call, database: str, table: str) -> TableRights:
    """What the caller may do with a table, as far as it decides what is shown."""
    if not call.authorized:
        return ALL_RIGHTS
    role = None if call.user is None else call.user.role
    return TableRights() if role is None else role.rights(database, table)


def sees(may: TableRights) -> bool:
    """Whether a user with these rights may know that the table exists."""
    return may.read or may.insert or may.update or may.delete


def may_define(call: Call, database: str) -> bool:
    """Whether the caller may make tables in the database: a super user, or one with `structure_user`."""
    if call.is_super_user:
        return True
    role = None if call.user is None else call.user.role
    structure = None if role is None else role.permission.get("structure_user")
    return structure is True or (isinstance(structure, (list, tuple)) and database in structure)


def describe_tables(call: Call, database: Database) -> Steps:
    """Name -> description of the tables that the caller may know of."""
    found: dict[str, Any] = {}
    for table in list(database.tables.values()):
        may = rights_of(call, database.name, table.name)
        if sees(may):
            found[table.name] = yield from describe_table(call, table, may)
    return found


def describe_table(call: Call, table: Table, may: TableRights) -> Steps:
    """One description. Every step is on the snapshot of its turn."""
    database, definition = table.database, table.definition
    view = read_view(call, table)
    counted: tuple[int, int] | None
    if view is None:
        for _ in database.last_writes.find(table):
            yield
        counted = yield from count_records(table, exact=call["exact_count"])
    else:
        counted = (yield from count_visible(view)) if call["exact_count"] else None
    txn = database.snapshot()
    found: dict[str, Any] = {
        "schema": database.name,
        "name": table.name,
        "hash_attribute": table.primary_key,
        "audit": table.audit,
        "schema_defined": not definition.dynamic,
        "attributes": [
            describe_attribute(attribute, structures, builtin=definition.dynamic)
            for structures in ({structure.name: structure for structure in definition.structures},)
            for attribute in definition.attributes
            if (attribute.computed_from is None or call["include_computed"]) and sees_attribute(may, attribute.name)
        ],
    }
    if not is_narrowed(call, database):  # these are of all tables
        found |= {"db_size": database.env.used_bytes(), "db_audit_size": database.log.size(txn)}
    if view is None:
        found["table_size"] = table.size(txn)
    if counted is not None:
        count, low = counted
        found["record_count"] = count
        if low < count:
            found["estimated_record_range"] = [low, count]
    last = database.last_writes.of(table) if view is None else None
    if last is not None:
        found["last_updated_record"] = last
    if definition.expiration is not None:
        found["expiration"] = f"{definition.expiration:g}s"
    if not definition.replicate:
        found["replicate"] = False
    if definition.sealed:
        found["sealed"] = True
    if definition.check is not None:
        found["check"] = definition.check.expression
    if definition.account:
        found["account"] = True
    if definition.allow and may_define(call, database.name):
        found["allow"] = [describe_rule(rule) for rule in definition.allow]
    if table.moves is not None and not table.moves.is_done:
        names = {move.new: move.old for move in table.moves.note.moves if sees_attribute(may, move.new)}
        found["moving"] = {"renamed_from": names} | ({"records": table.moves.note.moved} if view is None else {})
    if building := [index.attribute for index in table.stored_indexes if not index.ready and sees_attribute(may, index.attribute)]:
        found["building"] = building
    if unproved := [name for name in table.unproved if sees_attribute(may, name)]:
        found["not_unique_yet"] = unproved
    note = read_note(table, txn) if view is None else None
    if note is not None:
        found["leftovers"] = _describe_leftovers(table, note, may)
    paths = call.node.resources.addresses_of(table)
    if paths:
        found["paths"] = paths
    yield
    return found


def _describe_leftovers(table: Table, note: LeftoverNote, may: TableRights) -> dict[str, Any]:
    """What changes of the definition have left in records, as it was last counted."""
    found = []
    for each in counted(table, note):
        is_read = may.read and (may.readable is None or (each.attribute in may.readable and table.primary_key in may.readable))
        if is_read or (each.attribute and sees_attribute(may, each.attribute)):
            found.append({"kind": each.kind, "attribute": each.attribute, "type": each.type, "records": each.count})
            if is_read:
                found[-1]["keys"] = list(each.keys)
    return {
        "counted": None if note.count is None else note.counted_ms,
        "complete": note.count is not None and not note.count.behind,
        "records": 0 if note.count is None else note.count.total,
        "found": found,
    }


def sees_attribute(may: TableRights, name: str) -> bool:
    if may.attributes is None and may.readable is None:
        return True
    right = may.attribute(name)
    return right.read or right.insert or right.update


def describe_rule(rule: Allow) -> dict[str, Any]:
    """What an `@allow` says."""
    shown: dict[str, Any] = {} if rule.roles is None else {"roles": list(rule.roles)}
    return shown | {action: text for action in ACTIONS if (text := getattr(rule, action)) is not None}


def describe_attribute(attribute: Attribute, structures: Mapping[str, Structure], *, builtin: bool = False) -> dict[str, Any]:
    """`builtin`: of a dynamic table, whose times need no mention."""
    shown: dict[str, Any] = {"attribute": attribute.name}
    if attribute.elements:
        shown["type"], shown["elements"] = "array", attribute.type
    elif attribute.type != "Any":
        shown["type"] = attribute.type
    if attribute.enum is not None:
        shown["enum"] = list(attribute.enum.values)
    if attribute.primary_key:
        shown["is_primary_key"] = True
    if attribute.indexed:
        shown["indexed"] = True
    if attribute.unique:
        shown["unique"] = True
    if attribute.check is not None:
        shown["check"] = attribute.check.expression
    if attribute.created_time and not builtin:
        shown["assigned_created_time"] = True
    if attribute.updated_time and not builtin:
        shown["assigned_updated_time"] = True
    if attribute.required:
        shown["nullable"] = False
    if attribute.default:
        shown["default"] = json.loads(attribute.default)
    if attribute.computed_from is not None:
        shown["computed"] = True
    structure = structures.get(attribute.type)
    if structure is not None:
        shown["properties"] = [
            {"type": "array" if member.elements else member.type, "name": member.name} for member in structure.attributes
        ]
    return shown
