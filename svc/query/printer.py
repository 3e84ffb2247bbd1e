"""Nodes -> URL query language: `parse_query(print_query(query)) == query` for every query that language can say.

The text is canonical: what a client wrote in different ways is printed in one. Everything but letters, digits and `-_~` is encoded.
Not printable, because the language has no form for them: ranges with an empty text that is not forced to be one; values typed by a query
object whose type a text would lose (lists, bytes),
groups of one member (their member is printed), `explain` and `enforce_execution_order`.
"""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

from svc.query.nodes import (
    Aggregate,
    Bound,
    Comparator,
    Condition,
    Conversion,
    Filter,
    Group,
    Query,
    RelationFilter,
    Select,
    SelectItem,
    SortKey,
    grouped,
)

_CONVERTING = {
    Comparator.EQUALS: "==",
    Comparator.NOT_EQUAL: "!=",
    Comparator.LESS_THAN: "=lt=",
    Comparator.LESS_THAN_EQUAL: "=le=",
    Comparator.GREATER_THAN: "=gt=",
    Comparator.GREATER_THAN_EQUAL: "=ge=",
    Comparator.STARTS_WITH: "=sw=",
    Comparator.CONTAINS: "=ct=",
    Comparator.ENDS_WITH: "=ew=",
}
_MAY_BE_EMPTY = frozenset({"==", "!=", "===", "!=="})
_STRICT = {Comparator.EQUALS: "===", Comparator.NOT_EQUAL: "!=="}
_RANGES = {
    Comparator.BETWEEN: ("=ge=", "&=le="),
    Comparator.GELT: ("=ge=", "&=lt="),
    Comparator.GTLE: ("=gt=", "&=le="),
    Comparator.GTLT: ("=gt=", "&=lt="),
}


def print_query(query: Query) -> str:
    """The query as text, without `?`.

    >>> from svc.query.url import parse_query
    >>> print_query(parse_query("price>20&price<=60&(tags=a|tags=b)&limit(5)"))
    'price=gt=20&price=le=60&(tags===a|tags===b)&limit(5)'

    Raises ValueError for what the language cannot say.
    """
    return _level(query)


def print_parts(query: Query) -> list[str]:
    """Its conditions, one by one, and its calls: any of them joined by `&` are a query too.

    >>> from svc.query.url import parse_query
    >>> print_parts(parse_query("price>20&(tags=a|tags=b)&sort(price)&limit(5)"))
    ['price=gt=20', '(tags===a|tags===b)', 'sort(price)', 'limit(5)']

    Raises ValueError for what the language cannot say.
    """
    where = query.where
    conditions = () if where is None else where.members if isinstance(where, Group) and where.operator == "and" else (where,)
    return [*(_filter(member, in_and=True) for member in conditions), *_calls(query)]


def _level(query: Query) -> str:
    """Conditions and calls of the whole query or of one relation filter."""
    where = query.where
    parts = []
    if where is not None:
        calls = bool(query.select or query.sort or query.offset or query.limit is not None or query.aggregate or query.after or query.live)
        calls = calls or query.counted
        parts.append(_filter(where, in_and=calls or (isinstance(where, Group) and where.operator == "and")))
        if isinstance(where, Group) and where.operator == "and" and len(where.members) > 1:
            parts = [_filter(member, in_and=True) for member in where.members]
    return "&".join([*parts, *_calls(query)])


def _calls(query: Query) -> list[str]:
    parts = []
    if query.sort:
        parts.append(f"sort({','.join(map(_sort_key, query.sort))})")
    if query.limit is not None:
        parts.append(f"limit({query.offset},{query.offset + query.limit})" if query.offset else f"limit({query.limit})")
    elif query.offset:
        parts.append(f"limit({query.offset},)")
    if query.select is not None:
        parts.append(f"select({_selection(query.select)})")
    if query.aggregate is not None:
        parts.append(_aggregate(query.aggregate))
    if query.after is not None:
        parts.append(f"after({query.after})")
    if query.live:
        parts.append("live()")
    if query.counted:
        parts.append("_count=exact")
    return parts


def _filter(node: Filter, *, in_and: bool) -> str:
    """`in_and`: it becomes a member of an `and`, so groups need parentheses; else of an `or`."""
    if isinstance(node, Condition):
        return _condition(node)
    if isinstance(node, RelationFilter):
        return f"{_path(node.path)}[{_level(node.query)}]"
    if len(node.members) == 1:
        member = node.members[0]
        return _filter(member, in_and=in_and) if grouped(member) is member else f"({_filter(member, in_and=True)})"
    is_and = node.operator == "and"
    text = ("&" if is_and else "|").join([_filter(member, in_and=is_and) for member in node.members])
    return text if is_and and not in_and else f"({text})"


def _condition(node: Condition) -> str:
    path = _path(node.path)
    ends = _RANGES.get(node.comparator)
    if ends is not None:
        assert isinstance(node.value, (tuple, list))
        return path + ends[0] + _given(_value(node.value[0], node.conversion)) + ends[1] + _given(_value(node.value[1], node.conversion))
    operators = _STRICT if node.conversion is Conversion.STRICT else _CONVERTING
    operator = operators.get(node.comparator)
    if operator is None:
        raise ValueError(f"{node.comparator} with {node.conversion} conversion has no form in the URL language")
    if node.comparator is Comparator.STARTS_WITH and node.value == "":
        return path + "==*"
    value = _value(node.value, node.conversion)
    return path + operator + (value if operator in _MAY_BE_EMPTY else _given(value))


def _given(value: str) -> str:
    if not value:
        raise ValueError("a range or a part of a text cannot be empty in the URL language")
    return value


def _value(value: object, conversion: Conversion) -> str:
    if isinstance(value, Bound):
        return _value(value.value, value.conversion)
    if conversion in (Conversion.STRICT, Conversion.TEXT):
        return _quote(str(value))
    if conversion is Conversion.CONVERTING:
        # A text that reads as a keyword is one only if it stands there unencoded.
        return "%6Eull" if value == "null" else _quote(str(value))
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"boolean:{'true' if value else 'false'}"
    if isinstance(value, (int, float)):
        return f"number:{_quote(repr(value))}"
    if isinstance(value, datetime):
        return f"date:{_quote(value.isoformat(timespec='milliseconds').replace('+00:00', 'Z'))}"
    if isinstance(value, str):
        return f"string:{_quote(value)}"
    raise ValueError(f"a value of type {type(value).__name__} has no form in the URL language")


def _selection(select: Select) -> str:
    items = ",".join(map(_item, select.items))
    if select.shape == "array":
        return f"[{items}]"
    if select.shape == "object" and len(select.items) == 1 and select.items[0].path != ("*",):
        return items + ","
    return items


def _item(item: SelectItem) -> str:
    path = _call_path(item.path)
    if item.nested is not None:
        return f"{path}{{{','.join(map(_item, item.nested.items))}}}"
    if item.query is not None:
        return f"{path}[{_level(item.query)}]"
    return path


def _sort_key(key: SortKey) -> str:
    path = _call_path(key.path)
    if key.descending:
        return f"-{path}"
    return f"+{path}" if path.startswith(("-", "%2B")) else path


def _aggregate(aggregate: Aggregate) -> str:
    if aggregate.kind == "facet":
        return f"facet({_path(aggregate.keys[0])})"
    if aggregate.kind == "count":
        return "count()"
    functions = [name if path is None else f"{name}({_group_path(path)})" for name, path in aggregate.functions]
    return f"group({','.join(map(_group_path, aggregate.keys))};{','.join(functions)})"


def _group_path(path: tuple[str, ...]) -> str:
    if any("," in name or ";" in name for name in path):
        raise ValueError("a name with , or ; has no form inside group")
    return _path(path)


def _call_path(path: tuple[str, ...]) -> str:
    if any("," in name or "{" in name or "}" in name for name in path):
        raise ValueError("a name with , { or } has no form inside select and sort")
    return _path(path)


def _path(path: tuple[str, ...]) -> str:
    return ".".join("*" if name == "*" else _quote(name, "$") for name in path)


def _quote(text: str, safe: str = "") -> str:
    """Percent-encode; the dot too, which separates names."""
    return quote(text, safe=safe).replace(".", "%2E")
