"""`grant` and `revoke`: rights of a role one at a time, decided inside the transaction that writes (spec: operations §5, security §5.9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from svc.auth.granting import ATTRIBUTE_RIGHTS, TABLE_RIGHTS, granted, revoked
from svc.auth.users import ANONYMOUS
from svc.errors import ClientError, NotFound, ValidationError
from svc.operations.accounts import INSERT, UPDATE, change_accounts, check_change, check_grant
from svc.operations.call import Call
from svc.operations.fields import IMPERSONATE, REPLICATED, Field
from svc.operations.node import Node
from svc.operations.operation import SUPER_USER, Operation
from svc.operations.roles import is_role_name
from svc.store import Database, Table, Transaction
from svc.store.env import Txn
from svc.store.schema import DEFAULT_DATABASE, TableDefinition
from svc.store.system import ROLE_TABLE, SYSTEM
from svc.store.values.conversion import printable

Change = Callable[[Mapping[str, Any], str, TableDefinition, list[str], str | None], dict[str, Any]]

_MANAGED_TIMES = ("__createdtime__", "__updatedtime__")


def grant(call: Call) -> Any:
    return _change(call, granted, creates=True)


def revoke(call: Call) -> Any:
    return _change(call, revoked, creates=False)


def _change(call: Call, change: Change, *, creates: bool) -> Any:
    name, rights = call["role"], list(dict.fromkeys(call["rights"]))
    if not is_role_name(name):
        raise ValidationError("Role is invalid")
    table, attribute = find_target(call.node.store.databases, call["on"])
    _check_rights(rights, table, attribute, creates=creates)
    directory, roles = call.node.directory, call.node.store.databases[SYSTEM].tables[ROLE_TABLE]

    def work(transaction: Transaction, txn: Txn) -> Callable[[], dict[str, Any]]:
        before = directory.role_named(name, txn)
        if before is None and not creates:
            raise NotFound(f"{name} role not found")
        given = {} if before is None else before.get("permission")
        given = given if isinstance(given, dict) else {}
        if before is not None:
            check_change(call, before)
        if given.get("super_user") is True:
            raise ClientError(f"{name} is a role of super users, who have every right: none can be granted or revoked")
        permission = change(given, table.database.name, table.definition, rights, attribute)
        check_grant(call, permission, None if before is None else before.get("access"))
        if before is None:
            if directory.role_record(name, txn) is not None:
                raise ClientError(f"A role with id '{name}' already exists", 409, "CONFLICT")
            record = dict(roles.validator.record({"id": name, "role": name, "permission": permission}))
            transaction.put(roles, name, record)
        else:
            transaction.patch(roles, before["id"], roles.validator.changes({"permission": permission}))
        role_id = name if before is None else before["id"]
        answer = {"message": _message(name, rights, table, attribute, creates), "id": role_id, "role": name, "permission": permission}
        file = file_of(call.node, name)
        if file is not None:
            answer["warning"] = f"{file} brings the role {name} along: the next start sets it to what the file says"
        return lambda: answer

    return change_accounts(call, INSERT if creates else UPDATE, work)


def find_target(databases: Mapping[str, Database], text: str) -> tuple[Table, str | None]:
    """The table, and maybe the attribute, that `[database.]table[.attribute]` names. Raises NotFound, or ClientError if it may be read in two ways."""
    parts = text.split(".")
    found: dict[tuple[str, str, str | None], Table] = {}
    unknown = ""
    for database, rest in ((DEFAULT_DATABASE, parts), (parts[0], parts[1:])):
        tables = databases[database].tables if database in databases and database != SYSTEM else {}
        for cut, attribute in ((len(rest), None), (len(rest) - 1, rest[-1] if len(rest) > 1 else None)):
            table = tables.get(".".join(rest[:cut])) if rest[:cut] else None
            if table is None or (attribute is None and cut < len(rest)):
                continue
            if attribute is None or table.definition.attribute(attribute) is not None or attribute in _MANAGED_TIMES:
                found[database, table.name, attribute] = table
            else:
                unknown = f"Attribute '{printable(attribute)}' does not exist on '{database}.{table.name}'"
    if not found:
        raise NotFound(unknown or f"There is no table '{printable(text)}', and no attribute of one")
    if len(found) > 1:
        ways = " or ".join(sorted(".".join(part for part in way if part) for way in found))
        raise ClientError(f"'{text}' may be {ways}: write it so")
    ((_, _, attribute), table) = next(iter(found.items()))
    return table, attribute


def _check_rights(rights: list[str], table: Table, attribute: str | None, *, creates: bool) -> None:
    known = TABLE_RIGHTS if attribute is None else ATTRIBUTE_RIGHTS
    wrong = [right for right in rights if right not in known]
    if wrong:
        raise ValidationError(
            f"'rights' on {'a table' if attribute is None else 'an attribute'} are {', '.join(known)}, not {printable(wrong[0])}"
        )
    if attribute is None:
        return
    if attribute == table.primary_key and not creates:
        raise ValidationError(f"'{attribute}' is the primary key: it has the rights that any other attribute has")
    if (attribute in table.stamps or attribute in _MANAGED_TIMES) and rights != ["read"]:
        raise ValidationError(f"'{attribute}' can only be read: the store sets it")


def _message(name: str, rights: list[str], table: Table, attribute: str | None, creates: bool) -> str:
    target = f"{table.database.name}.{table.name}" + (f".{attribute}" if attribute else "")
    listed = ", ".join(rights)
    if not creates:
        return f"The role {name} may no longer {listed} {target}"
    if name == ANONYMOUS:
        return f"Everyone, without a login too, may {listed} {target}"
    return f"The role {name} may {listed} {target}"


def file_of(node: Node, name: str) -> str | None:
    """The file of an application that brings a role along, with the application's name; None: none does."""
    return next((f"{app.name}/{app.role_files[name]}" for app in node.apps if name in app.role_files), None)


# --- rows ---------------------------------------------------------------------------------------------------------------------------------


def _rights_fault(value: list[str], field: Field) -> str | None:
    return None if value else "must name at least one right"


_FIELDS = (
    Field("role", "string", "Name of the role.", required=True),
    Field("rights", "strings", "`read`, `insert`, `update`, `delete`; the last not on an attribute.", required=True, check=_rights_fault),
    Field(
        "on", "string", "The table or attribute: `table`, `database.table`, `table.attribute` or `database.table.attribute`.", required=True
    ),
    REPLICATED,
    IMPERSONATE,
)
_READ_PLANTS = {
    "data": {"tables": {"plant": {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}}}
}
_RETURNS = "`{message, id, role, permission}`, and `warning` if an application brings the role along and will set it back."

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="grant",
        category="users",
        summary="Give a role rights on a table or on one attribute; make the role if there is none.",
        permission=SUPER_USER,
        handler=grant,
        fields=_FIELDS,
        returns=_RETURNS,
        notes="A right on an attribute is one on the table for that attribute, and for the primary key. What else the role may do stays.\n\n"
        "What the role `anonymous` may do, everyone may, without a login too. Think twice before it may write: anybody who reaches the server "
        "may then fill the disk.",
        example={"role": "anonymous", "rights": ["read"], "on": "plant"},
        example_answer={
            "message": "Everyone, without a login too, may read data.plant",
            "id": "anonymous",
            "role": "anonymous",
            "permission": _READ_PLANTS,
        },
    ),
    Operation(
        name="revoke",
        category="users",
        summary="Take rights on a table, or on one attribute, from a role.",
        permission=SUPER_USER,
        handler=revoke,
        fields=_FIELDS,
        returns=_RETURNS,
        notes="Rights that the role does not have are no error. A right on one attribute less leaves that on the other declared ones.",
        example={"role": "gardener", "rights": ["delete"], "on": "plant"},
        example_answer={
            "message": "The role gardener may no longer delete data.plant",
            "id": "gardener",
            "role": "gardener",
            "permission": _READ_PLANTS,
        },
    ),
)
