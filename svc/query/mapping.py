"""The query object: a mapping, as a QUERY body or Python code gives it -> nodes, and back (spec: query §9).

    query      conditions, operator, select, as_array, sort, limit, offset, explain, enforce_execution_order, aggregate, after, live;
               or a list, which is its conditions
    condition  {attribute, comparator, value}; search_attribute, search_type and search_value are the same
    group      {operator, conditions}
    related    {attribute, conditions, operator, select, sort, limit, offset}: some record that the relationship leads to
    select     "name" (bare values) or a list of "name", {name}, {name, select, as_array}, {name, conditions, sort, limit, ...}
    sort       {attribute, descending, next}
    aggregate  "count", {facet: attribute}, {group: [attribute, ...], functions: ["count", {"sum": attribute}, ...]}
    attribute  "name", "a.b" or ["a", "b"]; only the list can say a name with a dot

Members may be spelt in camelCase; null counts as not given, but for a value. Values have a type of their own, so only a declared type
converts them. Who writes the mapping is not trusted: depth and size are bounded, and whatever is malformed raises QueryError with the member
at fault, `'conditions[1].value'`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import date
from math import isfinite

from svc.errors import BadValue, QueryError
from svc.query.calls import MAX_CURSOR, MAX_DEPTH, MAX_PATH, is_cursor
from svc.query.hints import did_you_mean
from svc.query.nodes import (
    AGGREGATE_FUNCTIONS,
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
from svc.store.values.conversion import MAX_BITS, is_encodable, printable, shown, to_date

MAX_NODES = 10_000  # conditions, groups, names and elements of values in one query
MAX_SORT_KEYS = 32
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
"""What code may put into a query object and says how to run it, not what to find (spec: query §9)."""

_RANGES = (Comparator.BETWEEN, Comparator.GELT, Comparator.GTLE, Comparator.GTLT)


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
_LEVEL = ("conditions", "operator", "sort", "limit", "offset")
_QUERY = (*_LEVEL, "select", "as_array", "explain", "enforce_execution_order", "aggregate", "after", "live")
_CONDITION = ("attribute", "comparator", "value")
_GROUP = ("operator", "conditions")
_RELATED = ("attribute", "select", "as_array", *_LEVEL)
_ITEM = ("name", "select", "as_array", *_LEVEL)
_SORT = ("attribute", "descending", "next")
_VECTOR_SORT = ("target", "distance", "ef")
_AGGREGATE = ("facet", "group", "functions")
_SEARCH_NAMES = {"search_attribute": "attribute", "search_type": "comparator", "search_value": "value"}


def query_from_mapping(data: object) -> Query:
    """The query that `data` describes. Raises QueryError: QUERY_SYNTAX, UNUSABLE_OPERATOR or BAD_VALUE. `QUERY_OPTIONS` are no members of it.

    >>> query_from_mapping([{"attribute": "price", "comparator": "<", "value": 5}]).where.comparator
    <Comparator.LESS_THAN: 'less_than'>
    """
    reader = _MappingReader()
    members = _members({"conditions": data} if isinstance(data, (list, tuple)) else data, _QUERY, "")
    where, sort, offset, limit = reader.level(members, "")
    query = Query(
        where,
        reader.select(members, ""),
        sort,
        offset,
        limit,
        _flag(members, "explain", ""),
        _flag(members, "enforce_execution_order", ""),
        reader.aggregate(members.get("aggregate"), "aggregate"),
        _cursor(members.get("after"), "after"),
        _flag(members, "live", ""),
    )
    if query.aggregate is not None and (query.select is not None or query.after is not None):
        raise _fault("aggregate", f"cannot stand beside '{'after' if query.select is None else 'select'}'")
    if query.live and (query.after is not None or query.explain):
        raise _fault("live", f"cannot stand beside '{'explain' if query.after is None else 'after'}'")
    return query


def split_options(data: object) -> tuple[object, dict[str, object]]:
    """What `query_from_mapping` takes, and the options that stood beside it under their snake_case names. For code, which may give them.

    >>> split_options({"limit": 5, "allowFullScan": False})
    ({'limit': 5}, {'allow_full_scan': False})
    """
    if not isinstance(data, Mapping):
        return data, {}
    options = {_OPTION_NAMES[name]: value for name, value in data.items() if isinstance(name, str) and name in _OPTION_NAMES}
    if not options:
        return data, options
    return {name: value for name, value in data.items() if not isinstance(name, str) or name not in _OPTION_NAMES}, options


_OPTION_NAMES = {**{name: name for name in QUERY_OPTIONS}, **{_camel_case(name): name for name in QUERY_OPTIONS}}


class _MappingReader:
    """Reads one query object; counts what it has read and how deep it is."""

    __slots__ = ("_count", "_depth")

    def __init__(self) -> None:
        self._count = 0
        self._depth = -1  # the conditions and the selection of the query itself are no nesting

    def level(self, members: dict[str, object], at: str) -> tuple[Filter | None, tuple[SortKey, ...], int, int | None]:
        """(where, sort, offset, limit) of the whole query or of related records."""
        where = self._conditions(members, at)
        sort = self._sort(members.get("sort"), _join(at, "sort"))
        offset = _row_count(members.get("offset"), _join(at, "offset"))
        return where, sort, offset or 0, _row_count(members.get("limit"), _join(at, "limit"))

    # conditions

    def _conditions(self, members: dict[str, object], at: str) -> Filter | None:
        """`conditions` joined by `operator`. None: there are none."""
        given = members.get("conditions")
        at_conditions = _join(at, "conditions")
        operator = members.get("operator")
        if operator is None:
            operator = "and"
        elif not isinstance(operator, str) or operator.lower() not in ("and", "or"):
            raise _fault(_join(at, "operator"), "must be one of [and, or]")
        elements: list[tuple[object, str]]
        if given is None:
            elements = []
        elif isinstance(given, Mapping):
            elements = [(given, at_conditions)]
        elif isinstance(given, (list, tuple)):
            elements = [(element, f"{at_conditions}[{number}]") for number, element in enumerate(given)]
        else:
            raise _fault(at_conditions, "must be a list of conditions")
        is_or = operator.lower() == "or"
        if is_or and len(elements) < 2:
            raise _fault(at_conditions, "must hold at least two conditions when they are joined with 'or'")
        self._enter(at_conditions)
        filters = [self._filter(element, at_element) for element, at_element in elements]
        self._depth -= 1
        if len(filters) < 2:
            return filters[0] if filters else None
        return Group("or" if is_or else "and", tuple(filters))

    def _filter(self, data: object, at: str) -> Filter:
        self._add(at)
        if not isinstance(data, Mapping):
            raise _fault(at, "must be an object: a condition or a group")
        if data.get("conditions") is None:
            return self._condition(data, at)
        if data.get("attribute") is None and data.get("search_attribute") is None:
            group = self._conditions(_members(data, _GROUP, at), at)
            if group is None:
                raise _fault(_join(at, "conditions"), "must hold at least one condition")
            return grouped(group)
        members = _members(data, _RELATED, at)
        path = self._path(members.get("attribute"), _join(at, "attribute"))
        if len(path) > 1:
            raise _fault(_join(at, "attribute"), "must be one name: conditions of related records are nested")
        return RelationFilter(path, self._related_query(members, at))

    def _condition(self, data: Mapping[object, object], at: str) -> Condition:
        members = _members(data, _CONDITION, at)
        path = self._path(members.get("attribute"), _join(at, "attribute"))
        comparator = _comparator(members.get("comparator"), _join(at, "comparator"), path)
        if "value" not in members:
            raise _fault(_join(at, "value"), "is missing")
        given = members["value"]
        at_value = _join(at, "value")
        if comparator in _RANGES and (not isinstance(given, (list, tuple)) or len(given) != 2):
            raise QueryError(
                f"Invalid value for attribute {printable('.'.join(path))}: a range needs exactly two ends, '{at_value}' must be a list of two",
                code="BAD_VALUE",
            )
        return Condition(path, comparator, self._value(given, at_value, path))

    def _value(self, value: object, at: str, path: tuple[str, ...]) -> object:
        """The value of a condition, with a type that nodes have: a list is a tuple, and so on."""
        self._add(at)
        if isinstance(value, (list, tuple)):
            self._enter(at)
            elements = tuple([self._value(element, f"{at}[{number}]", path) for number, element in enumerate(value)])
            self._depth -= 1
            return elements
        try:
            return plain_value(value)
        except BadValue:
            raise QueryError(
                f"Invalid value for attribute {printable('.'.join(path))}: {shown(value)}, '{at}' must be a plain value", code="BAD_VALUE"
            ) from None

    def _related_query(self, members: dict[str, object], at: str) -> Query:
        where, sort, offset, limit = self.level(members, at)
        return Query(where, self.select(members, at), sort, offset, limit)

    # select, sort, aggregate

    def select(self, members: dict[str, object], at: str) -> Select | None:
        """`select` with `as_array`."""
        given = members.get("select")
        as_array = _flag(members, "as_array", at)
        at_select = _join(at, "select")
        if as_array and not isinstance(given, (list, tuple)):
            raise _fault(_join(at, "as_array"), "needs a list in 'select'")
        if given is None:
            return None
        self._enter(at_select)
        if isinstance(given, (list, tuple)):
            if not given:
                raise _fault(at_select, "must name at least one attribute")
            items = tuple([self._item(element, f"{at_select}[{number}]") for number, element in enumerate(given)])
            select = Select(items, "array" if as_array else "object")
        else:
            item = self._item(given, at_select)
            select = Select((item,), "object" if item.path == ("*",) else "value")
        self._depth -= 1
        return select

    def _item(self, data: object, at: str) -> SelectItem:
        if isinstance(data, str):
            return SelectItem(self._path(data, at))
        self._add(at)
        if not isinstance(data, Mapping):
            raise _fault(at, "must be the name of an attribute, or an object with one")
        members = _members(data, _ITEM, at)
        path = self._path(members.get("name"), _join(at, "name"))
        if len(members) == 1:
            return SelectItem(path)
        if len(path) > 1 or path == ("*",):
            raise _fault(_join(at, "name"), "must be one name: nested selections are nested")
        if any(name in members for name in _LEVEL):
            query = self._related_query(members, at)
            return SelectItem(path, query=None if query == Query() else query)
        return SelectItem(path, nested=self.select(members, at))

    def _sort(self, data: object, at: str) -> tuple[SortKey, ...]:
        keys: list[SortKey] = []
        while data is not None:
            if not isinstance(data, Mapping):
                raise _fault(at, "must be an object with 'attribute' and 'descending'")
            if any(name in data for name in _VECTOR_SORT):
                raise QueryError(
                    f"Sorting by distance cannot be used, '{at}' must have the members {_listed(_SORT)}", code="UNUSABLE_OPERATOR"
                )
            if len(keys) == MAX_SORT_KEYS:
                raise _fault(at, f"is more than {MAX_SORT_KEYS} attributes to sort by")
            members = _members(data, _SORT, at)
            keys.append(SortKey(self._path(members.get("attribute"), _join(at, "attribute")), _flag(members, "descending", at)))
            data, at = members.get("next"), _join(at, "next")
        return tuple(keys)

    def aggregate(self, data: object, at: str) -> Aggregate | None:
        if data is None:
            return None
        if data == "count":
            return Aggregate("count")
        if not isinstance(data, Mapping):
            raise _fault(at, "must be 'count' or an object with 'facet' or 'group'")
        members = _members(data, _AGGREGATE, at)
        if ("facet" in members) is ("group" in members) or ("facet" in members and "functions" in members):
            raise _fault(at, "must have either 'facet', or 'group' and maybe 'functions'")
        if "facet" in members:
            return Aggregate("facet", (self._path(members["facet"], _join(at, "facet")),))
        given = members["group"]
        at_group = _join(at, "group")
        elements = given if isinstance(given, (list, tuple)) else (given,)
        keys = tuple([self._path(element, f"{at_group}[{number}]") for number, element in enumerate(elements)])
        if len(set(keys)) < len(keys):
            raise _fault(at_group, "must name each attribute once")
        if not keys and not members.get("functions"):
            raise _fault(at_group, "must name attributes, or 'functions' must be given")
        return Aggregate("group", keys, self._functions(members.get("functions"), _join(at, "functions")))

    def _functions(self, data: object, at: str) -> tuple[tuple[str, tuple[str, ...] | None], ...]:
        if data is None:
            return (("count", None),)
        if not isinstance(data, (list, tuple)):
            raise _fault(at, 'must be a list such as ["count", {"sum": "price"}]')
        functions: list[tuple[str, tuple[str, ...] | None]] = []
        for number, element in enumerate(data):
            at_element = f"{at}[{number}]"
            self._add(at_element)
            if element == "count":
                functions.append(("count", None))
                continue
            if not isinstance(element, Mapping) or len(element) != 1:
                raise _fault(at_element, 'must be "count" or an object with one member, such as {"sum": "price"}')
            name, path = next(iter(element.items()))
            if name not in AGGREGATE_FUNCTIONS[1:]:
                raise _fault(at_element, f"must have one of the members {_listed(AGGREGATE_FUNCTIONS[1:])}")
            functions.append((name, self._path(path, _join(at_element, name))))
        if len(set(functions)) < len(functions):
            raise _fault(at, "must hold each function once")
        return tuple(functions) or (("count", None),)

    # pieces

    def _path(self, data: object, at: str) -> tuple[str, ...]:
        self._add(at)
        if data is None:
            raise _fault(at, "is missing")
        if isinstance(data, str):
            path = tuple(str.__str__(data).split("."))
        elif isinstance(data, (list, tuple)) and all(isinstance(name, str) for name in data):
            path = tuple([str.__str__(name) for name in data])
        else:
            raise _fault(at, "must be the name of an attribute or a list of names")
        if not path or not all(path):
            raise _fault(at, "must not have empty names")
        if len(path) > MAX_PATH:
            raise _fault(at, f"must not have more than {MAX_PATH} names")
        return path

    def _enter(self, at: str) -> None:
        if self._depth == MAX_DEPTH:
            raise _fault(at, f"is nested deeper than {MAX_DEPTH} levels")
        self._depth += 1

    def _add(self, at: str) -> None:
        self._count += 1
        if self._count > MAX_NODES:
            raise _fault(at, f"is beyond the {MAX_NODES} conditions, names and values that a query may have")


def plain_value(value: object) -> object:
    """A value that is no list, with a type that nodes have: a date is a datetime, and so on. Raises BadValue for what cannot be compared."""
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
        moment = to_date(value)
        if moment is not None:
            return moment
    raise BadValue(f"{shown(value)} is no plain value")


def _members(data: object, known: Collection[str], at: str) -> dict[str, object]:
    """The members that are given, under their snake_case names. A null is not given, unless it is a value."""
    if not isinstance(data, Mapping):
        raise _fault(at, "must be an object or a list of conditions")
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
            raise _fault(_join(at, canonical), "is given twice")
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
        return _fault(_join(at, shown(name)), "is no member: names are texts")
    if known is _QUERY and name in ("attribute", "value", "comparator"):
        hint = 'conditions stand in "conditions"'
    elif known is _CONDITION and name == "operator":
        hint = 'did you mean "comparator"?'
    elif name in _OPTION_NAMES:
        hint = "it can only be given by code"
    else:
        hint = did_you_mean(name, known) or f"members are {', '.join(known)}"
    return _fault(_join(at, printable(name)), f"is unknown ({hint})")


def _comparator(given: object, at: str, path: tuple[str, ...]) -> Comparator:
    if given is None:
        return Comparator.EQUALS
    found = COMPARATORS.get(given) if isinstance(given, str) else None
    if found is None:
        hint = did_you_mean(given, COMPARATORS) if isinstance(given, str) else ""
        message = f"Unknown query comparator {shown(given)}, '{at}' must be one of {_listed(Comparator)}" + (f" ({hint})" if hint else "")
        raise QueryError(message, code="UNUSABLE_OPERATOR")
    return found


def _flag(members: dict[str, object], name: str, at: str) -> bool:
    value = members.get(name, False)
    if type(value) is not bool:
        raise _fault(_join(at, name), "must be true or false")
    return value


def _row_count(value: object, at: str) -> int | None:
    if value is None:
        return None
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int or not 0 <= value < MAX_ROWS:
        raise _fault(at, f"must be a whole number from 0 to {MAX_ROWS - 1}")
    return value


def _cursor(value: object, at: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not is_cursor(value):
        raise _fault(at, f"must be a cursor: at most {MAX_CURSOR} of A-Z a-z 0-9 _ -, exactly as it was given")
    return str.__str__(value)


def _fault(at: str, what: str) -> QueryError:
    """QUERY_SYNTAX for the member `at`, empty for the query itself."""
    return QueryError(f"Unable to parse query, {_subject(at)} {what}", code="QUERY_SYNTAX")


def _subject(at: str) -> str:
    return f"'{printable(at)}'" if at else "it"


def _join(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _listed(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"


# --- nodes -> mapping ----------------------------------------------------------------------------------------------------------------


def query_to_mapping(query: Query) -> dict[str, object]:
    """The inverse: `query_from_mapping(query_to_mapping(query)) == query` for every query that a mapping can say.

    Raises ValueError for what it cannot: conditions of the URL language, whose texts get their type only from a table; groups of one.
    """
    mapping = _level_to_mapping(query)
    for name in ("explain", "enforce_execution_order", "live"):
        if getattr(query, name):
            mapping[name] = True
    aggregate = query.aggregate
    if aggregate is not None:
        keys = [_path_to_mapping(path) for path in aggregate.keys]
        if aggregate.kind == "count":
            mapping["aggregate"] = "count"
        elif aggregate.kind == "facet":
            mapping["aggregate"] = {"facet": keys[0]}
        else:
            functions = [name if path is None else {name: _path_to_mapping(path)} for name, path in aggregate.functions]
            mapping["aggregate"] = {"group": keys, "functions": functions}
    if query.after is not None:
        mapping["after"] = query.after
    return mapping


def _level_to_mapping(query: Query) -> dict[str, object]:
    mapping: dict[str, object] = {}
    where = query.where
    if isinstance(where, Group) and len(where.members) > 1:
        mapping.update(_filter_to_mapping(where))
    elif where is not None:
        mapping["conditions"] = [_filter_to_mapping(where)]
    if query.sort:
        following: dict[str, object] | None = None
        for key in reversed(query.sort):
            following = {
                "attribute": _path_to_mapping(key.path),
                **({"descending": True} if key.descending else {}),
                **({} if following is None else {"next": following}),
            }
        mapping["sort"] = following
    if query.offset:
        mapping["offset"] = query.offset
    if query.limit is not None:
        mapping["limit"] = query.limit
    if query.select is not None:
        mapping.update(_select_to_mapping(query.select))
    return mapping


def _filter_to_mapping(node: Filter) -> dict[str, object]:
    if isinstance(node, Condition):
        value = node.value
        if node.conversion is not Conversion.TYPED or isinstance(value, Bound):
            raise ValueError(f"a value with {node.conversion} conversion has no form in a query object")
        return {"attribute": _path_to_mapping(node.path), "comparator": str(node.comparator), "value": _value_to_mapping(value)}
    if isinstance(node, Group):
        return {"operator": node.operator, "conditions": [_filter_to_mapping(member) for member in node.members]}
    return {"attribute": _path_to_mapping(node.path), "conditions": [], **_level_to_mapping(node.query)}


def _value_to_mapping(value: object) -> object:
    return [_value_to_mapping(element) for element in value] if isinstance(value, (list, tuple)) else value


def _select_to_mapping(select: Select) -> dict[str, object]:
    items = [_item_to_mapping(item) for item in select.items]
    if select.shape == "value":
        if select.items[0].path == ("*",):
            raise ValueError("a bare value of all properties has no form in a query object")
        return {"select": items[0]}
    return {"select": items, **({"as_array": True} if select.shape == "array" else {})}


def _item_to_mapping(item: SelectItem) -> object:
    path = _path_to_mapping(item.path)
    if item.nested is not None and item.query is not None:
        raise ValueError("a nested selection beside a relation filter has no form in a query object")
    if item.nested is not None:
        return {"name": path, **_select_to_mapping(item.nested)}
    if item.query is not None:
        return {"name": path, "conditions": [], **_level_to_mapping(item.query)}
    return path if isinstance(path, str) else {"name": path}


def _path_to_mapping(path: tuple[str, ...]) -> str | list[str]:
    return list(path) if any("." in name for name in path) else ".".join(path)
