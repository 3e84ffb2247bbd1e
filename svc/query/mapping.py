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
converts them. The mapping is not trusted: depth and size are bounded, and malformed input raises QueryError with the member
at fault, `'conditions[1].value'`.
"""

from __future__ import annotations

from collections.abc import Mapping

from svc.errors import BadValue, QueryError
from svc.query.calls import MAX_DEPTH, MAX_PATH
from svc.query.mapping_members import (
    AGGREGATE_MEMBERS,
    CONDITION_MEMBERS,
    GROUP_MEMBERS,
    ITEM_MEMBERS,
    LEVEL_MEMBERS,
    OPTION_NAMES,
    QUERY_MEMBERS,
    RANGES,
    RELATED_MEMBERS,
    SORT_MEMBERS,
    VECTOR_SORT_MEMBERS,
    comparator_of,
    cursor_of,
    fault,
    flag,
    joined,
    listed,
    members_of,
    plain_value,
    row_count,
)
from svc.query.nodes import (
    AGGREGATE_FUNCTIONS,
    MAX_GROUP_FUNCTIONS,
    MAX_GROUP_KEYS,
    MAX_SORT_KEYS,
    Aggregate,
    Condition,
    Filter,
    Group,
    Query,
    RelationFilter,
    Select,
    SelectItem,
    SortKey,
    grouped,
)
from svc.store.values.conversion import printable, shown

MAX_NODES = 10_000  # conditions, groups, names and elements of values in one query


def query_from_mapping(data: object) -> Query:
    """The query that `data` describes, without `QUERY_OPTIONS`. Raises QueryError: QUERY_SYNTAX, UNUSABLE_OPERATOR or BAD_VALUE.

    >>> query_from_mapping([{"attribute": "price", "comparator": "<", "value": 5}]).where.comparator
    <Comparator.LESS_THAN: 'less_than'>
    """
    reader = _MappingReader()
    members = members_of({"conditions": data} if isinstance(data, (list, tuple)) else data, QUERY_MEMBERS, "")
    where, sort, offset, limit = reader.level(members, "")
    query = Query(
        where,
        reader.select(members, ""),
        sort,
        offset,
        limit,
        flag(members, "explain", ""),
        flag(members, "enforce_execution_order", ""),
        reader.aggregate(members.get("aggregate"), "aggregate"),
        cursor_of(members.get("after"), "after"),
        flag(members, "live", ""),
    )
    if query.aggregate is not None and (query.select is not None or query.after is not None):
        raise fault("aggregate", f"cannot be used with '{'after' if query.select is None else 'select'}'")
    if query.live and (query.after is not None or query.explain):
        raise fault("live", f"cannot be used with '{'explain' if query.after is None else 'after'}'")
    return query


def split_options(data: object) -> tuple[object, dict[str, object]]:
    """Split `data` into the query object for `query_from_mapping` and its options under their snake_case names. For queries given by code.

    >>> split_options({"limit": 5, "allowFullScan": False})
    ({'limit': 5}, {'allow_full_scan': False})
    """
    if not isinstance(data, Mapping):
        return data, {}
    options = {OPTION_NAMES[name]: value for name, value in data.items() if isinstance(name, str) and name in OPTION_NAMES}
    if not options:
        return data, options
    return {name: value for name, value in data.items() if not isinstance(name, str) or name not in OPTION_NAMES}, options


class _MappingReader:
    """Reads one query object; counts what it has read and how deep it is."""

    __slots__ = ("_count", "_depth")

    def __init__(self) -> None:
        self._count = 0
        self._depth = -1  # the conditions and the selection of the query itself are no nesting

    def level(self, members: dict[str, object], at: str) -> tuple[Filter | None, tuple[SortKey, ...], int, int | None]:
        """(where, sort, offset, limit) of the whole query or of related records."""
        where = self._conditions(members, at)
        sort = self._sort(members.get("sort"), joined(at, "sort"))
        offset = row_count(members.get("offset"), joined(at, "offset"))
        return where, sort, offset or 0, row_count(members.get("limit"), joined(at, "limit"))

    # conditions

    def _conditions(self, members: dict[str, object], at: str) -> Filter | None:
        """`conditions` joined by `operator`. None if there are no conditions."""
        given = members.get("conditions")
        at_conditions = joined(at, "conditions")
        operator = members.get("operator")
        if operator is None:
            operator = "and"
        elif not isinstance(operator, str) or operator.lower() not in ("and", "or"):
            raise fault(joined(at, "operator"), "must be one of [and, or]")
        elements: list[tuple[object, str]]
        if given is None:
            elements = []
        elif isinstance(given, Mapping):
            elements = [(given, at_conditions)]
        elif isinstance(given, (list, tuple)):
            elements = [(element, f"{at_conditions}[{number}]") for number, element in enumerate(given)]
        else:
            raise fault(at_conditions, "must be a list of conditions")
        is_or = operator.lower() == "or"
        if is_or and len(elements) < 2:
            raise fault(at_conditions, "must hold at least two conditions when they are joined with 'or'")
        self._enter(at_conditions)
        filters = [self._filter(element, at_element) for element, at_element in elements]
        self._depth -= 1
        if len(filters) < 2:
            return filters[0] if filters else None
        return Group("or" if is_or else "and", tuple(filters))

    def _filter(self, data: object, at: str) -> Filter:
        self._add(at)
        if not isinstance(data, Mapping):
            raise fault(at, "must be an object: a condition or a group")
        if data.get("conditions") is None:
            return self._condition(data, at)
        if data.get("attribute") is None and data.get("search_attribute") is None:
            group = self._conditions(members_of(data, GROUP_MEMBERS, at), at)
            if group is None:
                raise fault(joined(at, "conditions"), "must hold at least one condition")
            return grouped(group)
        members = members_of(data, RELATED_MEMBERS, at)
        path = self._path(members.get("attribute"), joined(at, "attribute"))
        if len(path) > 1:
            raise fault(joined(at, "attribute"), "must be one name: conditions of related records are nested")
        return RelationFilter(path, self._related_query(members, at))

    def _condition(self, data: Mapping[object, object], at: str) -> Condition:
        members = members_of(data, CONDITION_MEMBERS, at)
        path = self._path(members.get("attribute"), joined(at, "attribute"))
        comparator = comparator_of(members.get("comparator"), joined(at, "comparator"), path)
        if "value" not in members:
            raise fault(joined(at, "value"), "is missing")
        given = members["value"]
        at_value = joined(at, "value")
        if comparator in RANGES and (not isinstance(given, (list, tuple)) or len(given) != 2):
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
        as_array = flag(members, "as_array", at)
        at_select = joined(at, "select")
        if as_array and not isinstance(given, (list, tuple)):
            raise fault(joined(at, "as_array"), "needs a list in 'select'")
        if given is None:
            return None
        self._enter(at_select)
        if isinstance(given, (list, tuple)):
            if not given:
                raise fault(at_select, "must name at least one attribute")
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
            raise fault(at, "must be the name of an attribute, or an object with one")
        members = members_of(data, ITEM_MEMBERS, at)
        path = self._path(members.get("name"), joined(at, "name"))
        if len(members) == 1:
            return SelectItem(path)
        if len(path) > 1 or path == ("*",):
            raise fault(joined(at, "name"), "must be one name: nested selections are nested")
        if any(name in members for name in LEVEL_MEMBERS):
            query = self._related_query(members, at)
            return SelectItem(path, query=None if query == Query() else query)
        return SelectItem(path, nested=self.select(members, at))

    def _sort(self, data: object, at: str) -> tuple[SortKey, ...]:
        keys: list[SortKey] = []
        while data is not None:
            if not isinstance(data, Mapping):
                raise fault(at, "must be an object with 'attribute' and 'descending'")
            if any(name in data for name in VECTOR_SORT_MEMBERS):
                raise QueryError(
                    f"Sorting by distance cannot be used, '{at}' must have the members {listed(SORT_MEMBERS)}", code="UNUSABLE_OPERATOR"
                )
            if len(keys) == MAX_SORT_KEYS:
                raise fault(at, f"is more than {MAX_SORT_KEYS} attributes to sort by")
            members = members_of(data, SORT_MEMBERS, at)
            keys.append(SortKey(self._path(members.get("attribute"), joined(at, "attribute")), flag(members, "descending", at)))
            data, at = members.get("next"), joined(at, "next")
        return tuple(keys)

    def aggregate(self, data: object, at: str) -> Aggregate | None:
        if data is None:
            return None
        if data == "count":
            return Aggregate("count")
        if not isinstance(data, Mapping):
            raise fault(at, "must be 'count' or an object with 'facet' or 'group'")
        members = members_of(data, AGGREGATE_MEMBERS, at)
        if ("facet" in members) is ("group" in members) or ("facet" in members and "functions" in members):
            raise fault(at, "must have either 'facet', or 'group' and maybe 'functions'")
        if "facet" in members:
            return Aggregate("facet", (self._path(members["facet"], joined(at, "facet")),))
        given = members["group"]
        at_group = joined(at, "group")
        elements = given if isinstance(given, (list, tuple)) else (given,)
        if len(elements) > MAX_GROUP_KEYS:
            raise fault(at_group, f"has more than {MAX_GROUP_KEYS} attributes")
        keys = tuple([self._path(element, f"{at_group}[{number}]") for number, element in enumerate(elements)])
        if len(set(keys)) < len(keys):
            raise fault(at_group, "must name each attribute once")
        if not keys and not members.get("functions"):
            raise fault(at_group, "must name attributes, or 'functions' must be given")
        return Aggregate("group", keys, self._functions(members.get("functions"), joined(at, "functions")))

    def _functions(self, data: object, at: str) -> tuple[tuple[str, tuple[str, ...] | None], ...]:
        if data is None:
            return (("count", None),)
        if not isinstance(data, (list, tuple)):
            raise fault(at, 'must be a list such as ["count", {"sum": "price"}]')
        if len(data) > MAX_GROUP_FUNCTIONS:
            raise fault(at, f"has more than {MAX_GROUP_FUNCTIONS} functions")
        functions: list[tuple[str, tuple[str, ...] | None]] = []
        for number, element in enumerate(data):
            at_element = f"{at}[{number}]"
            self._add(at_element)
            if element == "count":
                functions.append(("count", None))
                continue
            if not isinstance(element, Mapping) or len(element) != 1:
                raise fault(at_element, 'must be "count" or an object with one member, such as {"sum": "price"}')
            name, path = next(iter(element.items()))
            if name not in AGGREGATE_FUNCTIONS[1:]:
                raise fault(at_element, f"must have one of the members {listed(AGGREGATE_FUNCTIONS[1:])}")
            functions.append((name, self._path(path, joined(at_element, name))))
        if len(set(functions)) < len(functions):
            raise fault(at, "must hold each function once")
        return tuple(functions) or (("count", None),)

    # pieces

    def _path(self, data: object, at: str) -> tuple[str, ...]:
        self._add(at)
        if data is None:
            raise fault(at, "is missing")
        if isinstance(data, str):
            path = tuple(str.__str__(data).split("."))
        elif isinstance(data, (list, tuple)) and all(isinstance(name, str) for name in data):
            path = tuple([str.__str__(name) for name in data])
        else:
            raise fault(at, "must be the name of an attribute or a list of names")
        if not path or not all(path):
            raise fault(at, "must not have empty names")
        if len(path) > MAX_PATH:
            raise fault(at, f"must not have more than {MAX_PATH} names")
        return path

    def _enter(self, at: str) -> None:
        if self._depth == MAX_DEPTH:
            raise fault(at, f"is nested deeper than {MAX_DEPTH} levels")
        self._depth += 1

    def _add(self, at: str) -> None:
        self._count += 1
        if self._count > MAX_NODES:
            raise fault(at, f"is beyond the {MAX_NODES} conditions, names and values that a query may have")
