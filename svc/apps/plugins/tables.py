"""`ensure_table`, which the older form of a plugin is given (spec: plugins §4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from svc.api.interface import Interface
from svc.store.schema import DEFAULT_DATABASE, SCALAR_TYPES, Attribute, TableDefinition, may_be_key

_KEYS = ("table", "database", "primary_key", "attributes")
_KEYS_OF_ATTRIBUTE = ("name", "type", "elements", "indexed", "is_primary_key", "nullable")
_ALIASES = {"primaryKey": "primary_key", "isPrimaryKey": "is_primary_key"}


def table_maker(interface: Interface) -> Callable[..., Any]:
    """`ensure_table` of an instance."""

    def ensure_table(definition: Mapping[str, Any] | None = None, /, **named: Any) -> Any:
        """The class of a table, which is made, or gets the attributes it does not have yet. `definition`: `{table, database, primary_key, attributes}`,
        attributes as in the operation `create_table`; without them the table is dynamic. Raises TypeError, ValueError, SchemaError."""
        wanted = _definition({**(definition or {}), **named})
        database = interface.store.open_database(wanted.database)
        table = database.tables.get(wanted.name)
        if table is None:
            database.define_table(wanted)
        else:
            known = {attribute.name for attribute in table.definition.attributes}
            added = tuple(each for each in wanted.attributes if each.name not in known and not each.primary_key)
            if added and not wanted.dynamic:
                database.define_table(replace(table.definition, attributes=(*table.definition.attributes, *added)))
        return interface.databases.of(wanted.database)[wanted.name]

    return ensure_table


def _definition(given: Mapping[str, Any]) -> TableDefinition:
    found = _known(given, _KEYS, "ensure_table")
    name = found.get("table")
    if not isinstance(name, str) or not name:
        raise TypeError("ensure_table needs the name of a table: {'table': 'Words'}")
    listed = found.get("attributes")
    if listed is not None and not isinstance(listed, list | tuple):
        raise TypeError(f"ensure_table: attributes is a list, not {listed!r}")
    for each in ("primary_key", "database"):
        if not isinstance(found.get(each), str | None):
            raise TypeError(f"ensure_table: {each} is the name of one, not {found[each]!r}")
    key = found.get("primary_key")
    attributes = [] if listed is None else [_attribute(each, key) for each in listed]
    keys = [attribute.name for attribute in attributes if attribute.primary_key]
    if len(keys) > 1:
        raise ValueError(f"ensure_table: table {name} has several primary keys: {', '.join(keys)}")
    if not keys:
        keys = [key or "id"]
        attributes.insert(0, Attribute(keys[0], primary_key=True))
    database = found.get("database") or DEFAULT_DATABASE
    return TableDefinition(name, database, type_name=name, attributes=tuple(attributes), primary_key=keys[0], dynamic=listed is None)


def _attribute(given: Any, key: Any) -> Attribute:
    if not isinstance(given, Mapping):
        raise TypeError(f"ensure_table: an attribute is a mapping with a name, not {given!r}")
    found = _known(given, _KEYS_OF_ATTRIBUTE, "ensure_table: an attribute")
    name, elements = found.get("name"), found.get("elements")
    kind = elements if elements is not None else found.get("type") or "Any"
    if not isinstance(name, str) or not name:
        raise TypeError(f"ensure_table: an attribute needs a name: {given!r}")
    if kind not in SCALAR_TYPES:
        raise ValueError(f"ensure_table: attribute {name}: the type is one of {', '.join(SCALAR_TYPES)}, not {kind!r}")
    is_key = found.get("is_primary_key") is True or name == key
    made = Attribute(
        name,
        kind,
        elements=elements is not None,
        required=found.get("nullable") is False,
        indexed=found.get("indexed") is True and not is_key,
        primary_key=is_key,
    )
    if is_key and not may_be_key(made):
        raise ValueError(f"ensure_table: attribute {name} of type {'array' if made.elements else made.type} cannot be the primary key")
    return made


def _known(given: Mapping[str, Any], keys: tuple[str, ...], place: str) -> dict[str, Any]:
    found = {_ALIASES.get(key, key): value for key, value in given.items()}
    unknown = [key for key in found if key not in keys]
    if unknown:
        raise TypeError(f"{place} has no {unknown[0]!r}; it has {', '.join(keys)}")
    return found
