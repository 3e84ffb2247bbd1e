"""Roles, and the rights of a role on the records of a table (spec: security §5.2, §5.3, §5.6).

A role's permission is evaluated once per table into `TableRights` and kept with the role. It is evaluated again when the table's definition is
another object, and a changed role is another `Role`. So a check costs a few dict look-ups.

What the role `anonymous` may do, everyone may: its rights are those of callers without a user or without a role, and are added to those of every
other role when these are evaluated. All roles are read again when one is changed, so that a role never has former rights of `anonymous`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from svc.errors import AccessViolation, NamedTable, Problem
from svc.store.schema import Allow, TableDefinition
from svc.store.system import ROLE_TABLE, SECRETS, SYSTEM, USER_TABLE
from svc.store.values.records import decode

if TYPE_CHECKING:
    from svc.store import Database

# The only tables of the system database that take records from callers (spec: security §5.3 rule 8).
WRITABLE_SYSTEM_TABLES = frozenset({"svc_nodes", "svc_role", USER_TABLE})

_MANAGED_TIMES = frozenset({"__createdtime__", "__updatedtime__"})

MANAGED_TIME_WRITTEN = (
    "Internal timestamp attributes - '__createdtime__' and '__updatedtime__' - cannot be inserted to or updated by svc users."
)


@dataclass(frozen=True, slots=True)
class AttributeRights:
    read: bool = False
    insert: bool = False
    update: bool = False


_NOTHING = AttributeRights()


@dataclass(frozen=True, slots=True)
class RowConditions:
    """What the `@allow`s of a table demand of records, for one role (spec: rows §1.1): for each action conditions in the query language, of which one must
    hold. None: the action is not narrowed."""

    read: tuple[str, ...] | None = None
    create: tuple[str, ...] | None = None
    update: tuple[str, ...] | None = None
    delete: tuple[str, ...] | None = None


def row_conditions(allow: Iterable[Allow], role: str) -> RowConditions | None:
    """Those that count for a role: of the `@allow`s that name it, or if none does, of those that name no role. None: they narrow nothing.

    >>> row_conditions([Allow(read="public==true"), Allow(("editor",), read="true")], "reader").read
    ('public==true',)
    """
    found = list(allow)
    applying = [each for each in found if each.roles is not None and role in each.roles] or [each for each in found if each.roles is None]
    conditions = {
        action: tuple([text for each in applying if (text := getattr(each, action)) is not None]) or None
        for action in ("read", "create", "update", "delete")
    }
    return RowConditions(**conditions) if any(conditions.values()) else None


@dataclass(frozen=True, slots=True)
class TableRights:
    """Rights on one table. `attributes` None: every attribute, also undeclared ones, may be written as the table; else those listed.

    `all`: everything is allowed without further checks. `readable`: the names that may be seen, None: all, undeclared ones too.
    `managed`: attributes whose values only the store sets. `rows`: what narrows these rights to some records, None: nothing does.
    """

    read: bool = False
    insert: bool = False
    update: bool = False
    delete: bool = False
    attributes: Mapping[str, AttributeRights] | None = None
    all: bool = False
    readable: frozenset[str] | None = None
    managed: frozenset[str] = _MANAGED_TIMES
    rows: RowConditions | None = None
    table: str = field(default="", compare=False)  # its name, for messages to users with some right on it

    @property
    def any(self) -> bool:
        """Whether anything is allowed. Without it a caller learns nothing about the table."""
        return self.read or self.insert or self.update or self.delete

    def attribute(self, name: str) -> AttributeRights:
        """The rights on one attribute, declared or not."""
        listed = self.attributes
        given = AttributeRights(False, self.insert, self.update) if listed is None else listed.get(name, _NOTHING)
        return AttributeRights(self.read and (self.readable is None or name in self.readable), given.insert, given.update)

    @property
    def writes_all(self) -> bool:
        """Whether any property may be written, whether there is a record or not."""
        return self.all or (self.attributes is None and self.insert and self.update)

    def check_write(self, names: Iterable[str], *, insert: bool | None, user: object = None) -> None:
        """Whether properties of these names, sent by a caller, may be written. Raises 403 (401 without a user) for the first that may not.

        `insert`: the record is new, else it exists; None: one of both. The rights on the table itself are the caller's business.
        """
        attributes = self.attributes
        if attributes is None:
            return
        for name in names:
            if name in self.managed:
                raise Problem(MANAGED_TIME_WRITTEN, 403)
            right = attributes.get(name)
            if right is None or not ((insert is not False and right.insert) or (insert is not True and right.update)):
                needed = "insert or update" if insert is None else "insert" if insert else "update"
                raise AccessViolation(user, right=needed, resource=self.table, attribute=str(name))

    def check_over(self, names: Iterable[str], stored: Mapping[str, Any] | None, user: object = None) -> None:
        """Whether properties of these names may be written over the record `stored`, None: where there is none. Raises as `check_write`.

        To be asked inside the transaction that writes, of the record it finds.
        """
        if not (self.insert if stored is None else self.update):
            raise AccessViolation(user, right="insert" if stored is None else "update", resource=self.table)
        self.check_write(names, insert=stored is None, user=user)

    def keep_forbidden(self, record: dict[str, Any], stored: bytes | Mapping[str, Any] | None) -> dict[str, Any]:
        """The record that a PUT of `record` over `stored` may store: attributes without the right to update keep their values. Changes `record`.

        `stored`: the record now, raw or decoded, None if there is none: then nothing is changed.
        """
        attributes = self.attributes
        if attributes is None or stored is None:
            return record
        before = decode(stored) if isinstance(stored, bytes) else stored
        for name in [name for name in record if name not in before and not _may_update(attributes, name)]:
            del record[name]
        record.update((name, value) for name, value in before.items() if not _may_update(attributes, name))
        return record


NO_RIGHTS = TableRights()
ALL_RIGHTS = TableRights(True, True, True, True, all=True)
OPENED = TableRights(True, True, True, True, all=True)  # by code of an application: all rights on one table, those of the role on others
ON_ROWS = TableRights(True, True, True, True, all=True)  # of code of an application on the rows that its caller may see and write
_READ_ONLY = TableRights(read=True)


def _may_update(attributes: Mapping[str, AttributeRights], name: str) -> bool:
    right = attributes.get(name)
    return right is not None and right.update


class Role:
    """A role as stored, and its rights. `access`: a free mapping for applications, None if the role has none."""

    __slots__ = ("_anonymous", "_databases", "_narrowed", "_rights", "access", "id", "permission", "role", "super_user", "viewers")

    def __init__(
        self,
        role_id: str,
        name: str,
        permission: Mapping[str, Any],
        access: Any = None,
        databases: Mapping[str, Database] | None = None,
        anonymous: Role | None = None,
    ) -> None:
        """`databases`: where the definitions are found that rights are evaluated against. `anonymous`: the role whose rights are added to these."""
        self.id = role_id
        self.role = name
        self.permission = permission
        self.access = access
        self.super_user = permission.get("super_user") is True
        self._anonymous = anonymous
        self._databases: Mapping[str, Database] = {} if databases is None else databases
        self._rights: dict[tuple[str, str], tuple[TableDefinition, TableRights]] = {}
        self._narrowed: dict[str, tuple[Database, int, bool]] = {}  # see `is_narrowed`
        self.viewers: dict[object, Any] = {}  # what `query.views` keeps of the users who have this role

    def __repr__(self) -> str:
        return f"<Role {self.role}>"

    def as_record(self) -> dict[str, Any]:
        record = {"id": self.id, "role": self.role, "permission": self.permission}
        if self.access is not None:
            record["access"] = self.access
        return record

    def rights(self, database: str, table: str) -> TableRights:
        """NO_RIGHTS for a table that does not exist, so that callers do not learn whether it exists."""
        if self.super_user and database != SYSTEM:
            return ALL_RIGHTS
        owner = self._databases.get(database)
        found = None if owner is None else owner.tables.get(table)
        if found is None:
            return NO_RIGHTS
        definition = found.definition
        known = self._rights.get((database, table))
        if known is not None and known[0] is definition:
            return known[1]
        evaluated = evaluate(self.permission, definition, database)
        if self._anonymous is not None:
            evaluated = union(evaluated, self._anonymous.rights(database, table), definition)
        rows = row_conditions(definition.allow, self.role) if definition.allow else None
        if rows is not None or evaluated.rows is not None:
            evaluated = replace(evaluated, rows=rows, all=evaluated.all and rows is None)
        elif evaluated is ALL_RIGHTS and database != SYSTEM:
            evaluated = replace(evaluated)  # not those of a super user: relationships may lead to tables of which not all may be seen
        self._rights[database, table] = (definition, evaluated)
        return evaluated

    def is_narrowed(self, database: Database) -> bool:
        """Whether some table of the database has conditions on its records for this role."""
        known = self._narrowed.get(database.name)
        version = database.tables_version
        if known is not None and known[1] == version and known[0] is database:
            return known[2]
        found = not self.super_user and any(
            table.definition.allow and row_conditions(table.definition.allow, self.role) is not None
            for table in list(database.tables.values())
        )
        self._narrowed[database.name] = (database, version, found)
        return found


class HasRole(Protocol):
    """A user: `auth.users.User`. `role` None: without rights."""

    @property
    def role(self) -> Role | None: ...


def role_of(user: HasRole | None, table: NamedTable) -> Role | None:
    """The role whose rights count: of callers without a user and of users without a valid role that is `anonymous`, None if there is no such role."""
    role = None if user is None else user.role
    if role is not None:
        return role
    found: Role | None = table.database.store.anonymous_role()
    return found


NOBODY = Role("", "anonymous", {})  # in the place of `anonymous` where there is no such role: code of an application may let its callers in


def narrowing_role(user: HasRole | None, table: NamedTable) -> Role:
    """The role whose rules on rows count."""
    return role_of(user, table) or NOBODY


def rights(user: HasRole | None, table: NamedTable) -> TableRights:
    """The rights of `user` on a table, None: of anonymous callers."""
    role = None if user is None else user.role
    if role is None:
        role = role_of(user, table)
        if role is None:
            return NO_RIGHTS
    return role.rights(table.database.name, table.name)


def role_rights(user: HasRole | None, database: str, table: str) -> TableRights:
    """As `rights`, of a table that may not exist; none for callers without a role."""
    return NO_RIGHTS if user is None or user.role is None else user.role.rights(database, table)


def union(one: TableRights, other: TableRights, definition: TableDefinition) -> TableRights:
    """What one of the two allows, on a table of this definition. Pure."""
    if one.all or not other.any:
        return one
    if other.all or not one.any:
        return other
    flags = {right: getattr(one, right) or getattr(other, right) for right in ("read", "insert", "update", "delete")}
    readable = _either_readable(one, other)
    attributes = _either_written(one, other, definition)
    everything = readable is None and attributes is None and all(flags.values())
    return TableRights(
        **flags,
        attributes=attributes,
        all=everything,
        readable=readable,
        managed=one.managed | other.managed,
        table=one.table or other.table,
    )


def _either_readable(one: TableRights, other: TableRights) -> frozenset[str] | None:
    found: frozenset[str] = frozenset()
    for may in (one, other):
        if may.read:
            if may.readable is None:
                return None
            found |= may.readable
    return found


_UNDECLARED = ""  # not the name of an attribute


class _Attributes(dict[str, AttributeRights]):
    """Rights by attribute. `others`: those on every attribute that is not among them: undeclared ones."""

    others: AttributeRights

    def get(self, name: str, default: Any = None) -> Any:
        return dict.get(self, name, self.others)


def _either_written(one: TableRights, other: TableRights, definition: TableDefinition) -> Mapping[str, AttributeRights] | None:
    def either(name: str) -> AttributeRights:
        first, second = one.attribute(name), other.attribute(name)
        return AttributeRights(first.read or second.read, first.insert or second.insert, first.update or second.update)

    others = either(_UNDECLARED)
    if (others.insert, others.update) == (one.insert or other.insert, one.update or other.update):
        return None
    found = _Attributes({attribute.name: either(attribute.name) for attribute in definition.attributes})
    found.others = others
    return found


def more_than_records(permission: Mapping[str, Any]) -> list[str]:
    """What a permission gives beyond rights on records: `super_user`, `structure_user`, `operations`."""
    return [name for name in ("super_user", "structure_user", "operations") if permission.get(name) not in (None, False, [], ())]


def covers(role: Role, permission: Mapping[str, Any], databases: Mapping[str, Database]) -> bool:
    """Whether `role` has itself all rights on structure and records that `permission` gives. Rights on tables that do not exist may apply
    later, so only a role with all rights on the database covers them."""
    if role.super_user:
        return True
    if permission.get("super_user") is True:
        return False
    own, wanted = role.permission.get("structure_user"), permission.get("structure_user")
    if wanted is True and own is not True:
        return False
    if isinstance(wanted, (list, tuple)) and not all(_is_among(database, own) for database in wanted):
        return False
    for database, value in permission.items():
        if _is_among(database, own):
            continue
        owner = databases.get(database)
        for name, given in _mapping(_mapping(value).get("tables")).items():
            table = None if owner is None else owner.tables.get(name)
            if table is None:
                if any(_mapping(given).get(right) is True for right in ("read", "insert", "update", "delete")):
                    return False
            elif not _is_within(evaluate(permission, table.definition, database), role.rights(database, name)):
                return False
    return True


def roles_with_rights(databases: Mapping[str, Database], database: str, table: str) -> list[str]:
    """The names of the roles whose permission names this table, in order."""
    roles = databases[SYSTEM].tables.get(ROLE_TABLE) if SYSTEM in databases else None
    if roles is None:
        return []
    found = []
    for _, raw in roles.scan(roles.database.snapshot()):
        record = decode(raw)
        tables = _mapping(_mapping(_mapping(record.get("permission")).get(database)).get("tables"))
        if table in tables and isinstance(record.get("role"), str):
            found.append(record["role"])
    return sorted(found)


def role_names(databases: Mapping[str, Database]) -> set[str]:
    """Of the roles that there are."""
    roles = databases[SYSTEM].tables.get(ROLE_TABLE) if SYSTEM in databases else None
    if roles is None:
        return set()
    names = [decode(raw).get("role") for _, raw in roles.scan(roles.database.snapshot())]
    return {name for name in names if isinstance(name, str)}


def _is_among(database: Any, structure: Any) -> bool:
    return structure is True or (isinstance(structure, (list, tuple)) and database in structure)


def _is_within(given: TableRights, own: TableRights) -> bool:
    if any(getattr(given, right) and not getattr(own, right) for right in ("read", "insert", "update", "delete")):
        return False
    if given.read and own.readable is not None and (given.readable is None or not given.readable <= own.readable):
        return False
    if own.attributes is None:
        return True
    if given.attributes is None:
        return not (given.insert or given.update)
    return not any(
        getattr(right, action) and not getattr(own.attributes.get(name, _NOTHING), action)
        for name, right in given.attributes.items()
        for action in ("insert", "update")
    )


def evaluate(permission: Mapping[str, Any], definition: TableDefinition, database: str) -> TableRights:
    """The rights that a permission object gives on a table. Pure. What is malformed gives nothing."""
    if permission.get("super_user") is True:
        return ALL_RIGHTS if database != SYSTEM else _system_rights(definition)
    if database == SYSTEM:
        return NO_RIGHTS
    structure = permission.get("structure_user")
    if _is_among(database, structure):
        return ALL_RIGHTS
    given = _mapping(_mapping(_mapping(permission.get(database)).get("tables")).get(definition.name))
    read, insert, update, delete = (given.get(name) is True for name in ("read", "insert", "update", "delete"))
    listed = given.get("attribute_permissions")
    if not listed:
        return TableRights(
            read, insert, update, delete, all=read and insert and update and delete, managed=_managed(definition), table=definition.name
        )
    attributes = _attribute_rights(listed, definition, AttributeRights(read, insert, update))
    return TableRights(
        read,
        insert,
        update,
        delete,
        attributes,
        readable=frozenset(name for name, right in attributes.items() if right.read),
        managed=_managed(definition),
        table=definition.name,
    )


def _attribute_rights(listed: Any, definition: TableDefinition, table: AttributeRights) -> dict[str, AttributeRights]:
    """Rules 2 and 4: the listed attributes that exist, within the table's rights, and the primary key with whatever any of them has."""
    entries = [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, (list, tuple)) else []
    given = {entry["attribute_name"]: entry for entry in entries if isinstance(entry.get("attribute_name"), str)}
    managed = _managed(definition)
    result: dict[str, AttributeRights] = {}
    for attribute in definition.attributes:
        entry = given.get(attribute.name)
        if entry is None:
            continue
        settable = attribute.name not in managed
        result[attribute.name] = AttributeRights(
            table.read and entry.get("read") is True,
            settable and table.insert and entry.get("insert") is True,
            settable and table.update and entry.get("update") is True,
        )
    # Also when nothing is left of the key's own entry: a record is useless without its key.
    result[definition.primary_key] = AttributeRights(
        any(right.read for right in result.values()),
        any(right.insert for right in result.values()),
        any(right.update for right in result.values()),
    )
    return result


def _system_rights(definition: TableDefinition) -> TableRights:
    """A super user's rights on a table of the system database (rule 8)."""
    secrets = SECRETS.get(definition.name)
    if definition.name not in WRITABLE_SYSTEM_TABLES:
        return (
            _READ_ONLY
            if secrets is None
            else TableRights(read=True, readable=frozenset(each.name for each in definition.attributes) - secrets)
        )
    if secrets is None:
        return ALL_RIGHTS
    # Secrets can be neither read nor, as clear text, written: passwords are set where they are hashed.
    attributes = {
        attribute.name: AttributeRights() if attribute.name in secrets else AttributeRights(True, True, True)
        for attribute in definition.attributes
    }
    return TableRights(True, True, True, True, attributes, readable=frozenset(attributes) - secrets, managed=_managed(definition))


def _managed(definition: TableDefinition) -> frozenset[str]:
    return _MANAGED_TIMES | {attribute.name for attribute in definition.attributes if attribute.created_time or attribute.updated_time}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
