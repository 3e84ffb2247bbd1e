"""A query of one table as a statement of SQL that finds the same rows in the same order, as far as SQL means the same by it."""

from __future__ import annotations

from datetime import datetime
from math import isfinite

from svc.query.nodes import Comparator, Query
from svc.query.plan import AllOf, AnyOf, Comparison, Predicate
from svc.query.resolve import resolve_where
from svc.store import Table
from svc.store.schema import Attribute
from svc.store.values.records import iso_text, to_ms

_NUMBERS = frozenset(("Int", "Long", "Float"))
_TEXTS = frozenset(("ID", "String"))
_SCALARS = _NUMBERS | _TEXTS | {"Boolean", "Date"}
_SIMPLE = {
    Comparator.EQUALS: "=",
    Comparator.NOT_EQUAL: "IS NOT",  # which finds null, too
    Comparator.LESS_THAN: "<",
    Comparator.LESS_THAN_EQUAL: "<=",
    Comparator.GREATER_THAN: ">",
    Comparator.GREATER_THAN_EQUAL: ">=",
}
_RANGES = {
    Comparator.BETWEEN: (">=", "<="),
    Comparator.GELT: (">=", "<"),
    Comparator.GTLE: (">", "<="),
    Comparator.GTLT: (">", "<"),
}
_LARGEST = 1 << 53  # beyond it, what is compared may be a float


def sql_form(table: Table, names: list[str], query: Query, offset: int) -> str:
    """`names`: the columns. Raises ValueError for a query that means something else in SQL, or nothing; QueryError, if it is wrong."""
    for name in names:
        attribute = table.attributes.get(name)
        if attribute is None or attribute.relationship is not None:
            raise ValueError(f"{name} is no column")
    lines = [f"SELECT {', '.join(map(_name, names))}", f"FROM {_name(table.database.name)}.{_name(table.name)}"]
    if query.where is not None:
        lines.append(f"WHERE {_condition(resolve_where(query.where, table))}")
    if query.sort:
        keys = [f"{_column(key.path, table)}{' DESC' if key.descending else ''}" for key in query.sort]
        if all(key.path != (table.primary_key,) for key in query.sort):
            keys.append(_column((table.primary_key,), table))
        lines.append(f"ORDER BY {', '.join(keys)}")
    if query.limit is not None:
        lines.append(f"LIMIT {query.limit}{f' OFFSET {offset}' if offset else ''}")
    return "\n".join(lines)


def _condition(node: Predicate, *, is_inner: bool = False) -> str:
    if isinstance(node, AllOf | AnyOf):
        text = (" AND " if isinstance(node, AllOf) else " OR ").join([_condition(each, is_inner=True) for each in node.members])
        return f"({text})" if is_inner else text
    if not isinstance(node, Comparison) or len(node.path) != 1 or node.attribute is None:
        raise ValueError("no condition of SQL")
    attribute, comparator, value = node.attribute, node.comparator, node.value
    column = _scalar(attribute)
    if comparator in _RANGES and isinstance(value, tuple):
        low, high = _RANGES[comparator]
        return f"({column} {low} {_value(value[0], attribute)} AND {column} {high} {_value(value[1], attribute)})"
    if value is None and comparator in (Comparator.EQUALS, Comparator.NOT_EQUAL):
        return f"{column} IS {'NOT ' if comparator is Comparator.NOT_EQUAL else ''}NULL"
    if comparator in _SIMPLE:
        return f"{column} {_SIMPLE[comparator]} {_value(value, attribute)}"
    if attribute.type not in _TEXTS or not isinstance(value, str) or not value:
        raise ValueError("no condition of SQL")
    text = _value(value, attribute)
    if comparator is Comparator.STARTS_WITH:
        return f"substr({column}, 1, {len(value)}) = {text}"
    if comparator is Comparator.ENDS_WITH:
        return f"substr({column}, -{len(value)}) = {text}"
    if comparator is Comparator.CONTAINS:
        return f"instr({column}, {text}) > 0"
    raise ValueError("no condition of SQL")


def _column(path: tuple[str, ...], table: Table) -> str:
    attribute = table.attributes.get(path[0])
    if attribute is None or len(path) != 1:
        raise ValueError("no column")
    return _scalar(attribute)


def _scalar(attribute: Attribute) -> str:
    """The name of a column whose values SQL compares as the query does."""
    if attribute.elements or attribute.type not in _SCALARS:
        raise ValueError(f"{attribute.name} is compared in another way")
    return _name(attribute.name)


def _name(name: str) -> str:
    if "\0" in name:
        raise ValueError("no name of SQL")
    return '"' + name.replace('"', '""') + '"'


def _value(value: object, attribute: Attribute) -> str:
    kind = attribute.type
    if kind in _TEXTS and isinstance(value, str) and "\0" not in value:
        return "'" + value.replace("'", "''") + "'"
    if kind == "Boolean" and isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if kind in _NUMBERS and isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and abs(value) <= _LARGEST:
        return repr(value)
    if kind == "Date" and isinstance(value, datetime):
        return f"'{iso_text(to_ms(value))}'"
    raise ValueError("no value of SQL")
