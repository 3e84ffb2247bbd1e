"""Members of a query object: their names in both spellings, checked values, and the error for a member at fault."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import date
from math import isfinite

from svc.errors import BadValue, QueryError
from svc.query.calls import MAX_CURSOR, is_cursor
from svc.query.hints import did_you_mean
from svc.query.nodes import (
    Comparator,
)
from svc.store.values.conversion import MAX_BITS, is_encodable, printable, shown, to_date

MAX_ROWS = 10**18  # of limit and offset, as the URL language has it

QUERY_OPTIONS = (
    "allow_full_scan",
    "ensure_loaded",
    "force_nulls",
    "only_if_cached",
    "no_cache",
    "no_cache_store",
    "stale_if_error",
    "must_revalidate",
    "replicate_to",
    "replicated_confirmation",
    "replicate_from",
    "row_filter",
    "event_filter",
    "vector_filter",
)
"""Options that code may put into a query object: how to run it, not what to find (spec: query §9)."""

RANGES = (Comparator.BETWEEN, Comparator.GELT, Comparator.GTLE, Comparator.GTLT)


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


COMPARATORS: dict[str, Comparator] = {
    **{str(comparator): comparator for comparator in Comparator},
    **{_camel_case(comparator): comparator for comparator in Comparator},
    **dict.fromkeys(("equal", "eq", "=", "==", "==="), Comparator.EQUALS),
    **dict.fromkeys(("ne", "!=", "!=="), Comparator.NOT_EQUAL),
    **dict.fromkeys(("lt", "<"), Comparator.LESS_THAN),
    **dict.fromkeys(("le", "<="), Comparator.LESS_THAN_EQUAL),
    **dict.fromkeys(("gt", ">"), Comparator.GREATER_THAN),
    **dict.fromkeys(("ge", ">="), Comparator.GREATER_THAN_EQUAL),
    **dict.fromkeys(("gele", "..."), Comparator.BETWEEN),
    "sw": Comparator.STARTS_WITH,
    "ew": Comparator.ENDS_WITH,
    "ct": Comparator.CONTAINS,
}
LEVEL_MEMBERS = ("conditions", "operator", "sort", "limit", "offset")
QUERY_MEMBERS = (*LEVEL_MEMBERS, "select", "as_array", "explain", "enforce_execution_order", "aggregate", "after", "live")
CONDITION_MEMBERS = ("attribute", "comparator", "value")
GROUP_MEMBERS = ("operator", "conditions")
RELATED_MEMBERS = ("attribute", "select", "as_array", *LEVEL_MEMBERS)
ITEM_MEMBERS = ("name", "select", "as_array", *LEVEL_MEMBERS)
SORT_MEMBERS = ("attribute", "descending", "next")
VECTOR_SORT_MEMBERS = ("target", "distance", "ef")
AGGREGATE_MEMBERS = ("facet", "group", "functions")
_SEARCH_NAMES = {"search_attribute": "attribute", "search_type": "comparator", "search_value": "value"}


OPTION_NAMES = {**{name: name for name in QUERY_OPTIONS}, **{_camel_case(name): name for name in QUERY_OPTIONS}}


def plain_value(value: object) -> object:
    """A single value in a type that nodes have: a date is a datetime, and so on. Raises BadValue for values that cannot be compared."""
    kind = type(value)
    if kind is bool or value is None:
        return value
    if isinstance(value, str):
        if is_encodable(value):
            return str.__str__(value)
    elif isinstance(value, int):
        if value.bit_length() <= MAX_BITS:
            return int(value)
    elif isinstance(value, float):
        if isfinite(value):
            return float(value)
    elif isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    elif isinstance(value, date):  # a datetime is one too
        converted = to_date(value)
        if converted is not None:
            return converted
    raise BadValue(f"{shown(value)} is not a plain value")


def members_of(data: object, known: Collection[str], at: str) -> dict[str, object]:
    """The members that are given, under their snake_case names. A null is not given, unless it is a value."""
    if not isinstance(data, Mapping):
        raise fault(at, "must be an object or a list of conditions")
    members: dict[str, object] = {}
    for name, value in data.items():
        canonical = name if isinstance(name, str) else None
        if canonical is not None and canonical not in known:
            canonical = _spelt_otherwise(canonical, known)
        if canonical is None:
            raise _unknown(name, known, at)
        if value is None and canonical != "value":
            continue
        if canonical in members:
            raise fault(joined(at, canonical), "is given twice")
        members[canonical] = value
    return members


def _spelt_otherwise(name: str, known: Collection[str]) -> str | None:
    """The known member that `name` spells in camelCase or by its name of the operations API."""
    for canonical in known:
        if _camel_case(canonical) == name:
            return canonical
    for other, canonical in _SEARCH_NAMES.items():
        if canonical in known and "comparator" in known and name in (other, _camel_case(other)):
            return canonical
    return None


def _unknown(name: object, known: Collection[str], at: str) -> QueryError:
    if not isinstance(name, str):
        return fault(joined(at, shown(name)), "is an unknown member: names must be strings")
    if known is QUERY_MEMBERS and name in ("attribute", "value", "comparator"):
        hint = 'conditions belong in "conditions"'
    elif known is CONDITION_MEMBERS and name == "operator":
        hint = 'did you mean "comparator"?'
    elif name in OPTION_NAMES:
        hint = "it can only be given by code"
    else:
        hint = did_you_mean(name, known) or f"members are {', '.join(known)}"
    return fault(joined(at, printable(name)), f"is unknown ({hint})")


def comparator_of(given: object, at: str, path: tuple[str, ...]) -> Comparator:
    if given is None:
        return Comparator.EQUALS
    found = COMPARATORS.get(given) if isinstance(given, str) else None
    if found is None:
        hint = did_you_mean(given, COMPARATORS) if isinstance(given, str) else ""
        message = f"Unknown query comparator {shown(given)}, '{at}' must be one of {listed(Comparator)}" + (f" ({hint})" if hint else "")
        raise QueryError(message, code="UNUSABLE_OPERATOR")
    return found


def flag(members: dict[str, object], name: str, at: str) -> bool:
    value = members.get(name, False)
    if type(value) is not bool:
        raise fault(joined(at, name), "must be true or false")
    return value


def row_count(value: object, at: str) -> int | None:
    if value is None:
        return None
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int or not 0 <= value < MAX_ROWS:
        raise fault(at, f"must be a whole number from 0 to {MAX_ROWS - 1}")
    return value


def cursor_of(value: object, at: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not is_cursor(value):
        raise fault(at, f"must be a cursor: at most {MAX_CURSOR} of A-Z a-z 0-9 _ -, exactly as the server returned it")
    return str.__str__(value)


def fault(at: str, what: str) -> QueryError:
    """QUERY_SYNTAX for the member `at`, empty for the query itself."""
    return QueryError(f"Unable to parse query, {_subject(at)} {what}", code="QUERY_SYNTAX")


def _subject(at: str) -> str:
    return f"'{printable(at)}'" if at else "it"


def joined(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def listed(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"
