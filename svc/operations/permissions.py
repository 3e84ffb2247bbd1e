"""Whether a user may run an operation (spec: security §5.4, §6).

The order of the questions is the specification's; each level tells everything that is wrong on it:

    a role at all -> super user, who may everything but write to `system` -> the role's list of operations -> structure operations
    -> operations of super users -> rights on the table -> rights on attributes

The body has not been validated: the role comes first. So whatever cannot be understood here is left to the validation of the fields, which is asked at
once where the decision depends on it; if it has nothing against the body, the answer is no.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress
from typing import Any, NoReturn

from svc.auth.roles import MANAGED_TIME_WRITTEN, WRITABLE_SYSTEM_TABLES, Role, TableRights
from svc.auth.users import User
from svc.errors import Problem, Refusal
from svc.operations.fields import DATABASE, TABLE, given, read_fields
from svc.operations.node import Node
from svc.operations.operation import Operation
from svc.operations.operation_lists import expanded
from svc.operations.read_rights import check_reads
from svc.operations.refusals import Violations, refused, super_users_only, without_role
from svc.operations.registry import all_operations, by_name
from svc.store.system import SYSTEM, SYSTEM_WRITE
from svc.store.values.conversion import printable

Body = Mapping[str, Any]

FIRST_RECORDS = 1000  # whose names are looked at before a call: less than a millisecond

_WHOLE_DATABASE = frozenset({"create_database", "drop_database"})
_RIGHTS = ("read", "insert", "update", "delete")
_ACTIONS = {"insert": ("insert",), "update": ("update",), "upsert": ("insert", "update")}


def authorize(row: Operation, name: str, body: Body, user: User, node: Node) -> None:
    """Raise the Refusal (403) with everything that stands against it. `name`: as sent. `body` has not been validated."""
    role = user.role
    if role is None:
        raise without_role(user)
    if role.super_user:
        if body.get("database") == SYSTEM or body.get("schema") == SYSTEM:
            _check_system_write(row, body, node)
        return
    permission = row.permission
    listed = expanded(role.permission)
    if listed is not None and name not in listed:
        raise super_users_only(name)
    _check_foreign_system_write(row, body)
    if permission.kind == "table":
        _check_table(row, body, role, node, _needed_rights(row, body), name)
    elif permission.kind == "any":
        if "describe_database" in row.names or "describe_table" in row.names:
            _check_described(row, body, role, node)
    elif permission.kind == "structure":
        _check_structure(row, name, body, role, node, is_listed=listed is not None)
    elif listed is None or not permission.grantable or permission.kind != "super_user":
        raise super_users_only(name)
    else:
        _check_granted(name, body, role, node)


def offered_operations(user: User, node: Node) -> list[Operation]:
    """Those that a user may run with some body or other, as far as its role tells: what is offered. `authorize` decides. O(tables)."""
    role = user.role
    if role is None or role.super_user:
        return [] if role is None else list(all_operations())
    listed = expanded(role.permission)
    combinations = {
        (may.read, may.insert, may.update, may.delete)
        for name, database in node.store.databases.items()
        if name != SYSTEM
        for may in (role.rights(name, table) for table in list(database.tables))
    }
    sets = [frozenset(compress(_RIGHTS, each)) for each in combinations]

    def is_offered(row: Operation) -> bool:
        kind, needed = row.permission.kind, frozenset(row.permission.rights)
        if listed is not None and row.name not in listed:
            return False
        if kind == "super_user":
            return listed is not None and row.permission.grantable
        if kind == "structure" and (role.permission.get("structure_user") or listed is not None):
            return True
        if kind in ("none", "any"):
            return True
        has_choice = any(field.name == "action" for field in row.fields)
        return bool(needed) and any(needed & each if has_choice else needed <= each for each in sets)

    return [row for row in all_operations() if is_offered(row)]


# --- super users ----------------------------------------------------------------------------------------------------------------------


def _check_system_write(row: Operation, body: Body, node: Node) -> None:
    """Only a few tables of the system database take records, and its structure cannot be changed (spec: security §5.3 rule 8)."""
    if given(body, DATABASE) != SYSTEM:
        return
    kind = row.permission.kind
    if kind == "structure":
        if "create_database" not in row.names:  # that one says that it exists
            raise Problem(SYSTEM_WRITE, 403)
        return
    if kind == "table":
        rights = _needed_rights(row, body)
    elif "delete_records_before" in row.names:
        rights = ("delete",)
    else:
        return
    table = given(body, TABLE)
    if rights == ("read",) or not isinstance(table, str) or table in WRITABLE_SYSTEM_TABLES:
        return
    if table not in node.store.databases[SYSTEM].tables:
        return  # it is said not to exist
    if rights != ("insert",):
        raise Problem(SYSTEM_WRITE, 403)
    violations = Violations()
    violations.add_table(SYSTEM, table, rights)
    raise violations.refusal()


def _check_foreign_system_write(row: Operation, body: Body) -> None:
    """The same for everybody else, to whom no table of the system database is open: changes and removals are told so whatever they name, inserts
    have the refusal of a table (spec: operations §3.1 rule 10)."""
    if given(body, DATABASE) != SYSTEM:
        return
    kind = row.permission.kind
    if (kind == "table" and not {"update", "delete"}.isdisjoint(_needed_rights(row, body))) or (
        kind == "structure" and "create_database" not in row.names
    ):
        raise Problem(SYSTEM_WRITE, 403)


# --- structure, descriptions, operations of super users -------------------------------------------------------------------------------


def _check_structure(row: Operation, name: str, body: Body, role: Role, node: Node, *, is_listed: bool) -> None:
    """`is_listed`: in the role's list of operations. That grants it like any operation of super users; but a role that also has a list of
    databases means these."""
    database = _name(body, DATABASE)
    structure = role.permission.get("structure_user")
    if database is not None and database != SYSTEM:
        if structure is True or (is_listed and not isinstance(structure, (list, tuple))):
            return
        if isinstance(structure, (list, tuple)) and database in structure and _WHOLE_DATABASE.isdisjoint(row.names):
            return
    if "create_attribute" in row.names:
        _check_table(row, body, role, node, ("insert",), name)
        return
    refusal = refused(f"User does not have access to perform '{name}' against schema '{printable(database or '')}'")
    if database is None:
        _fail(row, body, refusal)
    raise refusal


def _check_described(row: Operation, body: Body, role: Role, node: Node) -> None:
    """What a role has no right on does not exist for it."""
    database = _name(body, DATABASE)
    if database is None:
        _fail(row, body, super_users_only(row.name))
    if database == SYSTEM:
        raise refused(f"Your role does not have permission to view database metadata for '{SYSTEM}'")
    if "describe_table" in row.names:
        table = _name(body, TABLE)
        if table is None:
            _fail(row, body, super_users_only(row.name))
        if not _is_visible(role.rights(database, table)):
            raise _missing(database, table, role, node)
    elif not _sees_database(role, database, node):
        violations = Violations()
        violations.add_missing_database(database)
        raise violations.refusal()


def _check_granted(name: str, body: Body, role: Role, node: Node) -> None:
    """An operation of super users that the role's list grants. It opens neither the system database nor, by way of an export, other tables."""
    if given(body, DATABASE) == SYSTEM:
        violations = Violations()
        violations.add_missing_database(SYSTEM)
        raise violations.refusal()
    inner = body.get("search_operation")
    if not isinstance(inner, Mapping):
        return
    inner_name = inner.get("operation")
    row = by_name().get(inner_name) if isinstance(inner_name, str) else None
    if row is None or row.permission.kind != "table" or row.permission.rights != ("read",):
        raise super_users_only(name)
    _check_table(row, inner, role, node, ("read",), name)


# --- rights on tables and attributes --------------------------------------------------------------------------------------------------


def _needed_rights(row: Operation, body: Body) -> tuple[str, ...]:
    """Of the row; for loads those of their `action`."""
    action = body.get("action")
    if isinstance(action, str) and action in _ACTIONS and any(field.name == "action" for field in row.fields):
        return _ACTIONS[action]
    return row.permission.rights


def _check_table(row: Operation, body: Body, role: Role, node: Node, rights: tuple[str, ...], name: str) -> None:
    database, table_name = _name(body, DATABASE), _name(body, TABLE)
    if database is None or table_name is None or not rights:
        _fail(row, body, super_users_only(name))
    may = role.rights(database, table_name)
    if not _is_visible(may):
        raise _missing(database, table_name, role, node)
    violations = Violations()
    missing = [right for right in rights if not getattr(may, right)]
    if missing:
        violations.add_table(database, table_name, missing)
        raise violations.refusal()
    if "read" in rights:
        check_reads(body, node.store.databases[database].tables[table_name], role, violations)
    elif may.attributes is not None:
        if "create_attribute" in row.names:
            attribute = body.get("attribute")
            violations.add_missing_attribute(database, table_name, attribute if isinstance(attribute, str) else "")
        else:
            _check_records(body.get("records"), may, violations, (database, table_name), rights)
    violations.check()


def _check_records(records: Any, may: TableRights, violations: Violations, place: tuple[str, str], rights: tuple[str, ...]) -> None:
    """Every name that any of the records has. Most of them have the same, so this is one comparison of sets for each.

    Of many records only the first: all of them take 34 ms for 100,000. `record_writes` looks at the rest, in slices, before anything is written.
    """
    if not isinstance(records, (list, tuple)):
        return
    names: dict[Any, None] = {}
    known = names.keys()
    for record in records[:FIRST_RECORDS]:
        if isinstance(record, dict) and not record.keys() <= known:
            names.update(dict.fromkeys(record))
    written = [name for name in names if isinstance(name, str)]
    if not may.managed.isdisjoint(written):
        raise Problem(MANAGED_TIME_WRITTEN, 403)
    violations.check_attributes(*place, may, written, rights)


# --- small things ---------------------------------------------------------------------------------------------------------------------


def _name(body: Body, field: Any) -> str | None:
    """The name of a database or table; None if it is missing or not a string."""
    value = given(body, field)
    if value is None:
        value = field.default
    return value if isinstance(value, str) else None


def _is_visible(may: TableRights) -> bool:
    return may.read or may.insert or may.update or may.delete


def _sees_database(role: Role, database: str, node: Node) -> bool:
    found = node.store.databases.get(database)
    if found is None or database == SYSTEM:
        return False
    structure = role.permission.get("structure_user")
    if structure is True or (isinstance(structure, (list, tuple)) and database in structure):
        return True
    return any(_is_visible(role.rights(database, table)) for table in found.tables)


def missing_table(violations: Violations, database: str, table: str, role: Role | None, node: Node) -> None:
    """Collect that a table does not exist, or its database, if nothing of that is open to the role."""
    if role is not None and _sees_database(role, database, node):
        violations.add_missing_table(database, table)
    else:
        violations.add_missing_database(database)


def _missing(database: str, table: str, role: Role, node: Node) -> Refusal:
    violations = Violations()
    missing_table(violations, database, table, role, node)
    return violations.refusal()


def _fail(row: Operation, body: Body, refusal: Refusal) -> NoReturn:
    """The decision depends on a field that is malformed: say what is wrong with it, or, if nothing is, no."""
    read_fields(body, row.fields)
    raise refusal
