"""What becomes of a record that was found: `select` (contract: http §6.8).

A selection is compiled into one function from the raw record to the value that is returned. The usual selections, names of the record's own
attributes, decode only these and cost little more than the decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from svc.errors import QueryError
from svc.query.nodes import Select, SelectItem, SortKey
from svc.query.plan import AnyOf, Predicate, Related, iter_members
from svc.query.resolve import related_table, resolve_sort_key, resolve_where
from svc.query.tables import AnyTable
from svc.store.records import (
    MISSING,
    decode,
    decode_json,
    decode_payload_json,
    encode_payload,
    expiry_of,
    projection,
    version_of,
)
from svc.store.schema import Attribute

Shaper = Callable[[bytes], Any]
ReadRelated = Callable[[AnyTable, Attribute, SelectItem, Predicate | None, tuple[SortKey, ...], bool], Shaper]


def _plain_version(raw: bytes) -> float | int:
    version = version_of(raw)
    return int(version) if version.is_integer() else version


def _plain_expiry(raw: bytes) -> object:
    expiry = expiry_of(raw)
    if expiry is None:
        return MISSING
    return int(expiry) if expiry.is_integer() else expiry


def validate_select(select: Select, table: AnyTable) -> None:
    """Raises QueryError for what can be seen from the definition; names that are not declared are read from the record."""
    for item in select.items:
        attribute = table.attributes.get(item.path[0])
        relationship = None if attribute is None else attribute.relationship
        if attribute is None or relationship is None:
            if item.query is not None:
                raise QueryError(f"{item.path[0]} is not a relationship, [...] cannot be used with it", code="UNUSABLE_OPERATOR")
            continue
        target = related_table(table, attribute)
        if item.nested is not None:
            validate_select(item.nested, target)
        if item.query is not None:
            if item.query.where is not None:
                resolve_where(item.query.where, target)
            for key in item.query.sort:
                resolve_sort_key(key, target)
            if item.query.select is not None:
                validate_select(item.query.select, target)
        if len(item.path) > 1:
            validate_select(Select((SelectItem(item.path[1:]),), "value"), target)


def columns_of(select: Select | None, table: AnyTable) -> tuple[str, ...]:
    """The names of the result's columns: the selection, else the declared stored attributes (http §7.3)."""
    stored = tuple([attribute.name for attribute in table.attributes.values() if attribute.stored])
    if select is None:
        return stored
    names: dict[str, None] = {}
    for item in select.items:
        names.update(dict.fromkeys(stored if item.path == ("*",) else (".".join(item.path),)))
    return tuple(names)


def joins(select: Select | None, table: AnyTable) -> bool:
    """Whether the selection reads other tables."""
    if select is None:
        return False
    return any((found := table.attributes.get(item.path[0])) is not None and found.relationship is not None for item in select.items)


def compile_select(
    select: Select, table: AnyTable, *, json: bool, read_related: ReadRelated, where: Predicate | None, sort: tuple[SortKey, ...]
) -> Shaper:
    """`read_related` reads relationships. `where`, `sort`: the query's own, because they also narrow and order what a to-many relationship
    selects (http §6.7, §6.8)."""
    items = select.items
    if all(_is_plain(item, table) for item in items):
        return _plain(tuple([item.path[0] for item in items]), select.shape, json)
    getters = [(".".join(item.path), _getter(item, table, json, read_related, where, sort)) for item in items]
    if select.shape == "value":
        getter = getters[0][1]
        return lambda raw: _or_null(getter(raw))
    if select.shape == "array":
        return lambda raw: [_or_null(getter(raw)) for _, getter in getters]
    whole = decode_json if json else decode

    def shape(raw: bytes) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name, getter in getters:
            if name == "*":
                result.update(whole(raw))
                continue
            value = getter(raw)
            if value is not MISSING:
                result[name] = value
        return result

    return shape


def enumerable_select(table: AnyTable, *, related: bool = False) -> Select | None:
    """What a whole record of the table shows: None for its stored properties, else these and what is declared `@enumerable`.

    `related`: as a related record. Then relationships are left out, or two that lead to each other would never end.
    """
    names = [
        attribute.name
        for attribute in table.attributes.values()
        if attribute.enumerable and (attribute.computed_from is not None or (attribute.relationship is not None and not related))
    ]
    return Select((SelectItem(("*",)), *[SelectItem((name,)) for name in names])) if names else None


def select_from(value: object, nested: Select) -> object:
    """A nested selection from a plain value: objects are narrowed, lists element by element, anything else stays."""
    if isinstance(value, list):
        return [select_from(element, nested) for element in value]
    if not isinstance(value, Mapping):
        return value
    result: dict[str, object] = {}
    for item in nested.items:
        if item.path == ("*",):
            result.update(value)
            continue
        found = _at_path(value, item.path)
        if found is not MISSING:
            result[".".join(item.path)] = found if item.nested is None else select_from(found, item.nested)
    return result


def narrowing(where: Predicate | None, name: str) -> Predicate | None:
    """What the conditions of the query's AND demand of the records of the relationship `name`."""
    found = [
        member.where for member in iter_members(where) if isinstance(member, Related) and member.name == name and member.where is not None
    ]
    if len(found) < 2:
        return found[0] if found else None
    return AnyOf(tuple(found))  # each condition by itself found its record; all of these matched


def _is_plain(item: SelectItem, table: AnyTable) -> bool:
    name = item.path[0]
    if (
        len(item.path) > 1
        or item.nested is not None
        or item.query is not None
        or name == "*"
        or name in _PSEUDO
        or name in ("$id", "$record")
    ):
        return False
    attribute = table.attributes.get(name)
    return attribute is None or attribute.stored


def _plain(names: tuple[str, ...], shape: str, json: bool) -> Shaper:
    values_of = projection(names, json)
    if shape == "value":
        return lambda raw: _or_null(values_of(raw)[0])
    if shape == "array":
        return lambda raw: [None if value is MISSING else value for value in values_of(raw)]
    return lambda raw: {name: value for name, value in zip(names, values_of(raw), strict=True) if value is not MISSING}


def _getter(
    item: SelectItem, table: AnyTable, json: bool, read_related: ReadRelated, where: Predicate | None, sort: tuple[SortKey, ...]
) -> Shaper:
    name = item.path[0]
    if name == "*":
        return decode_json if json else decode
    if name == "$record":
        return decode_json if json else decode
    if name in _PSEUDO:
        return _PSEUDO[name]
    attribute = table.attributes.get(name)
    if attribute is not None and attribute.relationship is not None:
        through = tuple([SortKey(key.path[1:], key.descending) for key in sort if key.path[0] == name and len(key.path) > 1])
        return read_related(table, attribute, item, narrowing(where, name), through, json)
    if attribute is not None and attribute.computed_from is not None:
        values_of = computed_reader(table, (name,), json)
    else:
        values_of = projection((table.primary_key if name == "$id" else name,), json)
    rest, nested = item.path[1:], item.nested

    def get(raw: bytes) -> object:
        value = values_of(raw)[0]
        if rest:
            value = _at_path(value, rest)
        return value if nested is None or value is MISSING else select_from(value, nested)

    return get


def computed_reader(table: AnyTable, names: tuple[str, ...], json: bool = False) -> Callable[[bytes], tuple[Any, ...]]:
    """The values of these attributes of a raw record, some of which are computed; it decodes what they are made from."""
    functions: Mapping[str, Callable[[dict[str, Any]], object]] = getattr(table, "computed", {})
    found = [(name, functions.get(name)) for name in names]
    sources = [(name,) if function is None else getattr(function, "names", None) for name, function in found]
    needed = None if None in sources else tuple(dict.fromkeys([name for source in sources for name in source or ()]))
    stored_of = None if needed is None else projection(needed)

    def values_of(raw: bytes) -> tuple[Any, ...]:
        if stored_of is None or needed is None:
            record = decode(raw)
        else:
            record = {name: value for name, value in zip(needed, stored_of(raw), strict=True) if value is not MISSING}
        return tuple([record.get(name, MISSING) if function is None else function(record) for name, function in found])

    if not json:
        return values_of
    return lambda raw: tuple([value if type(value) in _SAME_IN_JSON else _json_form(value) for value in values_of(raw)])


def _json_form(value: Any) -> Any:
    return value if value is MISSING else decode_payload_json(encode_payload(value))


def _at_path(value: object, path: tuple[str, ...]) -> object:
    """The value at a path into nested objects; through a list, the list of what its elements hold."""
    for at, name in enumerate(path):
        if isinstance(value, list):
            found = [_at_path(element, path[at:]) for element in value]
            return [element for element in found if element is not MISSING]
        if not isinstance(value, Mapping):
            return MISSING
        value = value.get(name, MISSING)
    return value


def _or_null(value: object) -> object:
    return None if value is MISSING else value


_SAME_IN_JSON = frozenset((str, int, float, bool, type(None)))

_PSEUDO: dict[str, Shaper] = {
    "$updatedtime": _plain_version,
    "$updatedTime": _plain_version,
    "$expiresAt": _plain_expiry,
}
