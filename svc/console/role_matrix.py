"""The permission of a role as a matrix of databases and tables by rights, and back (spec: console §11). Pure.

A form says with `shown` which tables, and which attributes of them, it has cells for. `applied` changes what these cells say otherwise than the permission
does, and nothing else: tables, attributes and members that the form has no cell for are as they were, in their order.

    t:DATABASE:TABLE:RIGHT          a cell of a table
    o:DATABASE:TABLE                only the attributes that are chosen
    a:DATABASE:TABLE:NAME:RIGHT     a cell of an attribute
    x:DATABASE[:TABLE[:NAME]]       remove what does not exist any more
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import quote

import msgspec

from svc.auth.granting import ATTRIBUTE_RIGHTS, TABLE_RIGHTS
from svc.auth.roles import row_conditions
from svc.console.effective_rights import narrowing
from svc.errors import ClientError
from svc.store.schema import TableDefinition

NOT_DATABASES = ("super_user", "structure_user", "operations", "cluster_user")
"""Members of a permission that are no databases."""
MOST_TABLES = 100  # of a page
MOST_INLINE = 150  # attributes of a page, of all its tables
MOST_ATTRIBUTES = 500  # of the page of one table
MOST_DIFFERENCES = 200  # that are listed
_MANAGED = frozenset(("__createdtime__", "__updatedtime__"))

Place = tuple[str, str]
"""Database and table."""
Definitions = Mapping[Place, TableDefinition]


@dataclass(slots=True)
class AttributeRow:
    """`flags`: right -> whether it is given. `is_settable`: not one that the store sets."""

    name: str
    cell: str
    flags: dict[str, bool]
    exists: bool = True
    is_settable: bool = True


@dataclass(slots=True)
class TableRow:
    """`only`: whether there is a list of attributes. `attributes`: None: there is no room for them; `count`: how many they are. `rules`: what narrows which
    right. `faults`: what `alter_role` says of it."""

    database: str
    name: str
    cell: str
    exists: bool
    flags: dict[str, bool]
    only: bool
    count: int
    attributes: list[AttributeRow] | None = None
    rules: list[tuple[str, list[str]]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


@dataclass(slots=True)
class FormFaults:
    """What the form itself asks for and cannot be: sentences by table."""

    by_place: dict[Place, str] = field(default_factory=dict)


# --- reading ------------------------------------------------------------------------------------------------------------------------------


def databases_of(permission: Mapping[str, Any]) -> list[str]:
    return [name for name in permission if name not in NOT_DATABASES]


def places_of(permission: Mapping[str, Any]) -> Iterator[Place]:
    """The tables that a permission names."""
    for database in databases_of(permission):
        for table in _mapping(_mapping(permission[database]).get("tables")):
            if isinstance(table, str):
                yield database, table


def entry_of(permission: Mapping[str, Any], place: Place) -> Mapping[str, Any]:
    return _mapping(_mapping(_mapping(permission.get(place[0])).get("tables")).get(place[1]))


def has_rights(permission: Mapping[str, Any], place: Place) -> bool:
    entry = entry_of(permission, place)
    return any(entry.get(right) is True for right in TABLE_RIGHTS)


def table_rows(
    permission: Mapping[str, Any], role: str, places: Iterable[Place], definitions: Definitions, most: int = MOST_INLINE
) -> list[TableRow]:
    """The rows of these tables. `most`: attributes in all; a table whose attributes do not fit has none."""
    rows = []
    for place in places:
        definition, entry = definitions.get(place), entry_of(permission, place)
        names = _attribute_names(definition, entry)
        allow = () if definition is None else definition.allow
        conditions = row_conditions(allow, role) if allow else None
        row = TableRow(
            *place,
            field_name(*place),
            definition is not None,
            {right: entry.get(right) is True for right in TABLE_RIGHTS},
            bool(_listed(entry)),
            len(names),
            rules=[] if conditions is None else narrowing(conditions),
        )
        if definition is not None and len(names) <= most:
            most -= len(names)
            row.attributes = attribute_rows(place, definition, entry, names)
        rows.append(row)
    return rows


def attribute_rows(place: Place, definition: TableDefinition, entry: Mapping[str, Any], names: Sequence[str]) -> list[AttributeRow]:
    given = {
        each["attribute_name"]: each for each in _listed(entry) if isinstance(each, Mapping) and isinstance(each.get("attribute_name"), str)
    }
    stamps = _MANAGED | {each.name for each in definition.attributes if each.created_time or each.updated_time}
    declared = _MANAGED | {each.name for each in definition.attributes}
    rows = []
    for name in names:
        source = given.get(name, {}) if given else entry
        rights = ("read",) if name in stamps and not given else ATTRIBUTE_RIGHTS
        flags = {right: right in rights and source.get(right) is True for right in ATTRIBUTE_RIGHTS}
        rows.append(AttributeRow(name, field_name(*place, name), flags, name in declared, name not in stamps))
    return rows


def _attribute_names(definition: TableDefinition | None, entry: Mapping[str, Any]) -> list[str]:
    """Those that there are, and others that the list names."""
    names = {} if definition is None else dict.fromkeys(each.name for each in definition.attributes)
    for each in _listed(entry):
        if isinstance(each, Mapping) and isinstance(each.get("attribute_name"), str):
            names.setdefault(each["attribute_name"])
    return list(names)


class Shown(msgspec.Struct):
    """What a form has cells for. `tables`: database, table, and the attributes, None without cells for them. `structure`: databases; `operations`: names;
    both None on a form without the role's other members."""

    tables: list[tuple[str, str, list[str] | None]] = []
    structure: list[str] | None = None
    operations: list[str] | None = None


def shown_field(rows: Iterable[TableRow], structure: list[str] | None = None, operations: list[str] | None = None) -> str:
    """The field `shown`. Tables that do not exist have no cells."""
    tables = [
        (row.database, row.name, None if row.attributes is None else [each.name for each in row.attributes]) for row in rows if row.exists
    ]
    return msgspec.json.encode(Shown(tables, structure, operations)).decode()


def fingerprint(role: Mapping[str, Any]) -> str:
    """Of a role as a form has shown it."""
    content = [role.get("id"), role.get("role"), role.get("permission"), role.get("access")]
    return sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:32]


# --- the form -----------------------------------------------------------------------------------------------------------------------------


def applied(permission: Mapping[str, Any], fields: Mapping[str, str]) -> tuple[dict[str, Any], FormFaults]:
    """The permission as a form of it says, and what is wrong with the form. Raises ClientError for a form that none of our pages has sent."""
    faults = FormFaults()
    result = dict(permission)
    shown = _read_shown(fields.get("shown", "{}"))
    for database, table, names in shown.tables:
        entry = _mapping(_mapping(result.get(database)).get("tables")).get(table)
        _set_entry(result, (database, table), entry, _applied_entry(entry, fields, (database, table), names, faults))
    if any(name.startswith("x:") for name in fields):
        for place in list(places_of(permission)):
            if f"x:{field_name(*place)}" in fields:
                _set_entry(result, place, entry_of(result, place), None)
        for name in databases_of(permission):
            if f"x:{field_name(name)}" in fields:
                result.pop(name, None)
    if shown.operations is not None:
        _apply_flags(result, fields, shown)
    return result, faults


def _set_entry(result: dict[str, Any], place: Place, before: Any, entry: Any) -> None:
    """Put an entry in its place, where the former one is; None: remove that."""
    if entry is before:
        return
    database, table = place
    owner = _mapping(result.get(database))
    tables = {name: value for name, value in _mapping(owner.get("tables")).items() if name != table or entry is not None}
    if entry is not None:
        tables[table] = entry
    if tables or owner.keys() - {"tables"}:
        result[database] = {**owner, "tables": tables}
    else:
        result.pop(database, None)


def _read_shown(text: str) -> Shown:
    try:
        found = msgspec.json.decode(text, type=Shown)
    except (msgspec.DecodeError, RecursionError):
        raise ClientError("The form does not say what it shows") from None
    if len(found.tables) > MOST_TABLES or sum(len(names or ()) for _, _, names in found.tables) > MOST_ATTRIBUTES + MOST_INLINE:
        raise ClientError("The form shows more than a page has")
    return found


def _applied_entry(entry: Any, fields: Mapping[str, str], place: Place, names: list[str] | None, faults: FormFaults) -> Any:
    """The entry of a table; the same object if the form says nothing else, None: there is none."""
    given, at = _mapping(entry), field_name(*place)
    if entry is not None and not isinstance(entry, Mapping):
        return entry
    flags = {right: f"t:{at}:{right}" in fields for right in TABLE_RIGHTS}
    listed = given.get("attribute_permissions")
    wanted = listed
    if names is not None:
        wanted = _applied_list(listed, fields, at, names)
        if f"o:{at}" in fields and not wanted:
            faults.by_place[place] = "No attribute is chosen: an empty list would mean all of them"
    is_same = all(flags[right] == (given.get(right) is True) for right in TABLE_RIGHTS) and wanted is listed
    if is_same:
        return entry
    others = given.keys() - {*TABLE_RIGHTS, "attribute_permissions"}
    if not (any(flags.values()) or wanted or others or place in faults.by_place):
        return None
    return {**given, **flags, "attribute_permissions": [] if wanted is None else wanted}


def _applied_list(listed: Any, fields: Mapping[str, str], at: str, names: list[str]) -> Any:
    """The list of attributes; the same object if the form says nothing else."""
    entries = listed if isinstance(listed, list) else []
    if f"o:{at}" not in fields:
        return [] if entries else listed
    cells = {name: {right: f"a:{at}:{field_name(name)}:{right}" in fields for right in ATTRIBUTE_RIGHTS} for name in names}
    result = []
    for each in entries:
        name = each.get("attribute_name") if isinstance(each, Mapping) else None
        flags = cells.pop(name, None) if isinstance(name, str) else None
        if flags is None:
            result.append(each)
        elif f"x:{at}:{field_name(str(name))}" not in fields:
            is_same = all(flags[right] == (each.get(right) is True) for right in ATTRIBUTE_RIGHTS)
            result.append(each if is_same else {**each, **flags})
    result += [{"attribute_name": name, **flags} for name, flags in cells.items() if any(flags.values())]
    return listed if isinstance(listed, list) and result == entries else result


def _apply_flags(result: dict[str, Any], fields: Mapping[str, str], shown: Shown) -> None:
    """`super_user`, `structure_user` and `operations`."""
    is_super = "super_user" in fields
    if is_super != (result.get("super_user") is True):
        result["super_user"] = is_super
    before = result.get("structure_user")
    listed = before if isinstance(before, list) else []
    structure = fields.get("structure", "")
    if structure == "some":
        wanted = _chosen(listed, fields, "s", shown.structure)
        if not isinstance(before, list) or wanted != listed:
            result["structure_user"] = wanted
    elif structure == "all" and before is not True:
        result["structure_user"] = True
    elif structure == "none" and (before is True or isinstance(before, list)):
        result["structure_user"] = False
    operations = result.get("operations")
    if "has_operations" not in fields:
        result.pop("operations", None)
    else:
        names = operations if isinstance(operations, list) else []
        wanted = _chosen(names, fields, "p", shown.operations)
        if not isinstance(operations, list) or wanted != names:
            result["operations"] = wanted


def _chosen(before: list[Any], fields: Mapping[str, str], kind: str, shown: list[str] | None) -> list[Any]:
    """A list of names: those that were in it and are still chosen, or have no cell, and then those that are new."""
    cells = set(shown or ())
    kept = [name for name in before if not isinstance(name, str) or name not in cells or f"{kind}:{field_name(name)}" in fields]
    return kept + [name for name in shown or () if name not in before and f"{kind}:{field_name(name)}" in fields]


# --- two permissions ----------------------------------------------------------------------------------------------------------------------


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """A line for each cell that is another one in `after`; at most MOST_DIFFERENCES, and one that says that there are more."""
    found: list[str] = []
    for line in _differences(before, after):
        if len(found) == MOST_DIFFERENCES:
            found.append("and more")
            break
        found.append(line)
    return found


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if name in NOT_DATABASES or not _is_of_tables(old) or not _is_of_tables(new):
            yield f"{name}: {_text(old)} becomes {_text(new)}"
            continue
        tables, others = _mapping(_mapping(old).get("tables")), _mapping(_mapping(new).get("tables"))
        for table in dict.fromkeys((*tables, *others)):
            yield from _table_differences(f"{name}.{table}", tables.get(table), others.get(table))


def _table_differences(place: str, old: Any, new: Any) -> Iterator[str]:
    if old == new:
        return
    if (old is not None and not isinstance(old, Mapping)) or (new is not None and not isinstance(new, Mapping)):
        yield f"{place}: {_text(old)} becomes {_text(new)}"
        return
    if new is None:
        yield f"{place}: not named any more"
        return
    old, known = _mapping(old), ("attribute_permissions",)
    for right in dict.fromkeys((*TABLE_RIGHTS, *old, *new)):
        if right not in known and old.get(right) != new.get(right):
            yield f"{place}: {right} {_text(old.get(right))} becomes {_text(new.get(right))}"
    first, second = _by_name(old), _by_name(new)
    if not first and not second:
        return
    for name in dict.fromkeys((*first, *second)):
        if first.get(name) != second.get(name):
            yield f"{place}.{name}: {_rights_text(first.get(name))} becomes {_rights_text(second.get(name))}"


def _by_name(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {str(each.get("attribute_name")) if isinstance(each, Mapping) else _text(each): each for each in _listed(entry)}


def _rights_text(entry: Any) -> str:
    if entry is None:
        return "not listed"
    rights = [right for right in ATTRIBUTE_RIGHTS if isinstance(entry, Mapping) and entry.get(right) is True]
    return ", ".join(rights) or "no right"


def _is_of_tables(value: Any) -> bool:
    return value is None or (isinstance(value, Mapping) and isinstance(value.get("tables", {}), Mapping))


def _text(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, default=str)[:500]


# --- small things -------------------------------------------------------------------------------------------------------------------------


def field_name(*names: str) -> str:
    """
    >>> field_name("data", "a:b")
    'data:a%3Ab'
    """
    return ":".join([quote(name, safe="") for name in names])


def _listed(entry: Mapping[str, Any]) -> list[Any]:
    listed = entry.get("attribute_permissions")
    return listed if isinstance(listed, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
