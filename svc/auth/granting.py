"""Changes of a permission object one right at a time: on a table as a whole, or on one of its attributes (spec: security §5.2, §5.9).

An entry without list of attributes gives its rights on every attribute, also on undeclared ones. With a list only what is listed counts, and an empty
list is none. So an entry is opened out into a list of all declared attributes where one of them is to differ, and folded again when they are alike;
and in an entry with a list a right on the table is there as long as it is on an attribute.

Pure: a permission is returned, the given one is not changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from svc.store.schema import TableDefinition

TABLE_RIGHTS = ("read", "insert", "update", "delete")
ATTRIBUTE_RIGHTS = ("read", "insert", "update")

_Listed = dict[str, dict[str, bool]]  # attribute -> right -> whether it is given


def granted(
    permission: Mapping[str, Any], database: str, definition: TableDefinition, rights: Collection[str], attribute: str | None = None
) -> dict[str, Any]:
    """The permission with these rights on a table, or on one attribute of it, added. `rights`: of TABLE_RIGHTS, for an attribute of ATTRIBUTE_RIGHTS."""
    flags, listed = _entry(permission, database, definition.name)
    if attribute is None:
        for given in listed.values():
            given.update((right, True) for right in rights if right in ATTRIBUTE_RIGHTS)
        for right in rights:
            flags[right] = True
        if listed:  # the others have those only that are given on the table as a whole
            for name in _names(definition):
                listed.setdefault(name, {right: right in rights for right in ATTRIBUTE_RIGHTS})
    elif listed or not all(flags[right] for right in rights):
        listed = listed or _opened(flags, definition)
        listed.setdefault(attribute, dict.fromkeys(ATTRIBUTE_RIGHTS, False)).update(dict.fromkeys(rights, True))
        flags.update(dict.fromkeys(rights, True))
    return _with_entry(permission, database, definition, flags, listed)


def revoked(
    permission: Mapping[str, Any], database: str, definition: TableDefinition, rights: Collection[str], attribute: str | None = None
) -> dict[str, Any]:
    """The permission without these rights on a table, or on one attribute of it. `rights`: as for `granted`."""
    flags, listed = _entry(permission, database, definition.name)
    if attribute is None:
        flags.update(dict.fromkeys(rights, False))
        for given in listed.values():
            given.update((right, False) for right in rights if right in ATTRIBUTE_RIGHTS)
    elif listed or any(flags[right] for right in rights):
        listed = listed or _opened(flags, definition)
        listed.setdefault(attribute, dict.fromkeys(ATTRIBUTE_RIGHTS, False)).update(dict.fromkeys(rights, False))
        for right in rights:
            flags[right] = flags[right] and any(given[right] for given in listed.values())
    return _with_entry(permission, database, definition, flags, listed)


def _entry(permission: Mapping[str, Any], database: str, table: str) -> tuple[dict[str, bool], _Listed]:
    found = _mapping(_mapping(_mapping(permission.get(database)).get("tables")).get(table))
    flags = {right: found.get(right) is True for right in TABLE_RIGHTS}
    entries = [entry for entry in found.get("attribute_permissions") or () if isinstance(entry, Mapping)]
    listed = {
        entry["attribute_name"]: {right: flags[right] and entry.get(right) is True for right in ATTRIBUTE_RIGHTS}
        for entry in entries
        if isinstance(entry.get("attribute_name"), str)
    }
    if listed:  # a right that no attribute has would be on all of them when the list is gone
        flags |= {right: any(given[right] for given in listed.values()) for right in ATTRIBUTE_RIGHTS}
    return flags, listed


def _with_entry(
    permission: Mapping[str, Any], database: str, definition: TableDefinition, flags: dict[str, bool], listed: _Listed
) -> dict[str, Any]:
    if _is_alike(flags, listed, definition):
        listed = {}
    listed = {name: given for name, given in listed.items() if any(given.values())}
    entries = [{"attribute_name": name, **given} for name, given in listed.items()]
    of_database = dict(_mapping(permission.get(database)))
    tables = dict(_mapping(of_database.get("tables")))
    if any(flags.values()):
        tables[definition.name] = {**flags, "attribute_permissions": entries}
    else:
        tables.pop(definition.name, None)
    result = {name: value for name, value in permission.items() if name != database}
    if tables:
        result[database] = {**of_database, "tables": tables}
    return result


def _opened(flags: Mapping[str, bool], definition: TableDefinition) -> _Listed:
    """The list that says the same of the declared attributes as none."""
    if not any(flags[right] for right in ATTRIBUTE_RIGHTS):
        return {}
    return {name: {right: flags[right] for right in ATTRIBUTE_RIGHTS} for name in _names(definition)}


def _is_alike(flags: Mapping[str, bool], listed: _Listed, definition: TableDefinition) -> bool:
    """Whether the list says the same of all declared attributes as the rights on the table."""
    return bool(listed) and all(
        name in listed and listed[name] == {right: flags[right] for right in ATTRIBUTE_RIGHTS} for name in _names(definition)
    )


def _names(definition: TableDefinition) -> list[str]:
    return [attribute.name for attribute in definition.attributes]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
