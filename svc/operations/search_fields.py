"""The members of a search body -> query nodes (spec: operations §3.2).

    condition       {attribute, comparator, value}, or their older names search_attribute, search_type, search_value
    group           {operator, conditions}
    attribute       "name", "a.b" or ["a", "b"]: through objects and relationships; "$id" is the primary key
    get_attributes  ["name", "*", {"name": "owner", "select": [...]}]
    sort            {attribute, descending, next}

Unknown members are ignored, as everywhere in operations. Depth and size are bounded. Whatever is malformed raises a 400 that names the member,
`'conditions[1].value'`; names of no attribute are collected and told together.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from svc.errors import BadValue, ClientError, QueryError, ValidationError
from svc.query.calls import MAX_DEPTH, MAX_PATH
from svc.query.mapping import MAX_NODES
from svc.query.mapping_members import COMPARATORS, MAX_ROWS, plain_value
from svc.query.matching import CLOSED_RANGES
from svc.query.nodes import MAX_SORT_KEYS, Comparator, Condition, Filter, Group, Query, Select, SelectItem, SortKey
from svc.query.resolve import related_table
from svc.query.tables import AnyTable
from svc.store.schema import Attribute
from svc.store.values.conversion import is_encodable, printable

LISTED_COMPARATORS = (
    Comparator.EQUALS,
    Comparator.CONTAINS,
    Comparator.STARTS_WITH,
    Comparator.ENDS_WITH,
    Comparator.GREATER_THAN,
    Comparator.GREATER_THAN_EQUAL,
    Comparator.LESS_THAN,
    Comparator.LESS_THAN_EQUAL,
    Comparator.BETWEEN,
    Comparator.NOT_EQUAL,
    Comparator.GELT,
    Comparator.GTLE,
    Comparator.GTLT,
)

_RANGE_ENDS = frozenset((str, int, float, datetime))
_VALUE = "must be a string, a number, a boolean, null or an array of these"
_PATH = "must be a string or an array of strings"
_COMPARATOR = f"must be one of [{', '.join(LISTED_COMPARATORS)}]"
_TOO_MANY = f"is beyond the {MAX_NODES} conditions, names and values that a search may have"

Path = tuple[str, ...]


class MemberFault(Exception):
    """An invalid member. `at`: its path below the code that catches this."""

    def __init__(self, at: str, what: str, code: str = "") -> None:
        super().__init__(at, what)
        self.at = at
        self.what = what
        self.code = code

    def below(self, place: str) -> MemberFault:
        """The same, seen from a level further out."""
        self.at = f"{place}.{self.at}" if self.at else place
        return self

    def problem(self) -> ClientError:
        text = f"'{printable(self.at)}' {self.what}"
        return QueryError(text, code=self.code) if self.code else ValidationError(text)


_FORMER = {"attribute": ("search_attribute",), "comparator": ("search_type", "operator"), "value": ("search_value",)}


def _as_sent(at: str, data: Mapping[str, Any]) -> str:
    """The place of a fault in a condition, by the name that its member was sent under."""
    if data.get(at) is None:
        return next((name for name in _FORMER.get(at, ()) if data.get(name) is not None), at)
    return at


class SearchReader:
    """Reads one body for one table; `table` None: for the faults alone, there is no such table.

    `leaf_operator`: a leaf may call its comparator `operator` (§14). `is_open`: names that the table does not declare are no faults.
    """

    __slots__ = ("_attributes", "_count", "_is_open", "_leaf_operator", "_table", "_unknown")

    def __init__(self, table: AnyTable | None, *, leaf_operator: bool = False, is_open: bool = False) -> None:
        self._table = table
        self._attributes: Mapping[str, Attribute] = {} if table is None else table.attributes
        self._leaf_operator = leaf_operator
        self._is_open = is_open
        self._count = 0
        self._unknown: dict[str, None] = {}

    def query(
        self,
        conditions: Any = None,
        operator: Any = None,
        get_attributes: Any = None,
        sort: Any = None,
        limit: Any = None,
        offset: Any = None,
        reverse: Any = None,
        *,
        where: Filter | None = None,
        natural: Path = (),
    ) -> Query:
        """The query of a body whose other members have been checked. `where`: in place of conditions. `natural`: what rows are in the order of,
        if nothing else is asked for and they are wanted backwards; default the primary key. Raises ClientError."""
        try:
            if conditions is not None:
                where = self.filters(conditions, _operator(operator))
            keys = () if sort is None else self.sort(sort)
            select = None if get_attributes is None else self.select(get_attributes)
        except MemberFault as fault:
            raise fault.problem() from None
        self.check_known()
        if reverse:
            keys = self.reversed(keys or ((SortKey(natural),) if natural else ()))
        return Query(where, select, keys, row_count(offset) or 0, row_count(limit))

    def check_known(self) -> None:
        """Raise for the names that no attribute has."""
        if self._unknown:
            *others, last = map(printable, self._unknown)
            names = f"{', '.join(others)} and {last}" if others else last
            raise QueryError(f"unknown attribute '{names}'", code="UNKNOWN_ATTRIBUTE")

    # --- conditions ------------------------------------------------------------------------------------------------------------------

    def filters(self, conditions: list[Any], operator: str, depth: int = 0) -> Filter:
        """Conditions joined by an operator; at least one."""
        if depth > MAX_DEPTH:
            raise MemberFault("conditions", f"must not be nested deeper than {MAX_DEPTH} levels")
        if type(conditions) is not list:
            raise MemberFault("conditions", "must be an array")
        if not conditions:
            raise MemberFault("conditions", "must contain at least 1 item")
        self._add(len(conditions), "conditions")
        found: list[Filter] = []
        number = 0
        try:
            for number, element in enumerate(conditions):  # noqa: B007 - for the fault
                found.append(self._filter(element, depth))
        except MemberFault as fault:
            raise fault.below(f"conditions[{number}]") from None
        return found[0] if len(found) == 1 else Group(operator, tuple(found))

    def _filter(self, data: Any, depth: int) -> Filter:
        if type(data) is not dict and not isinstance(data, Mapping):
            raise MemberFault("", "must be an object")
        get = data.get
        name = get("attribute")
        if name is None:
            name = get("search_attribute")
        group = get("conditions")
        if group is not None:
            if name is not None:
                raise MemberFault("", "must be a condition or a group, not both")
            return self.filters(group, _operator(get("operator")), depth + 1)
        given = get("comparator")
        if given is None:
            given = get("search_type")
            if given is None and self._leaf_operator:
                given = get("operator")
        comparator = Comparator.EQUALS if given is None else COMPARATORS.get(given) if type(given) is str else None
        value = get("value", self)  # which no client can send
        if value is self:
            value = get("search_value", self)
            if value is self:
                raise MemberFault("attribute" if name is None else "value", "is required")
        try:
            if comparator is None:
                raise MemberFault("comparator", _COMPARATOR, "UNUSABLE_OPERATOR")
            return self.condition(name, comparator, value)
        except MemberFault as fault:
            fault.at = _as_sent(fault.at, data)
            raise

    def condition(self, name: Any, comparator: Comparator, value: Any) -> Condition:
        if type(name) is str and name in self._attributes:
            path: Path = (name,)
        else:
            path = self.path(name, "attribute")
            if len(path) == 1 and path[0][0] == "$":
                path = self._metadata(path[0])
        if comparator in CLOSED_RANGES:
            if not isinstance(value, list | tuple) or len(value) != 2:
                raise MemberFault("value", "must be an array of exactly two strings or numbers", "BAD_VALUE")
            ends = (self._value(value[0]), self._value(value[1]))
            if not _RANGE_ENDS.issuperset(map(type, ends)):
                raise MemberFault("value", "must be an array of exactly two strings or numbers", "BAD_VALUE")
            return Condition(path, comparator, ends)
        return Condition(path, comparator, self._value(value))

    def _value(self, value: Any, depth: int = 0) -> object:
        kind = type(value)
        if kind is str:
            if value.isascii() or is_encodable(value):
                return value
        elif kind is list or kind is tuple:
            if depth < MAX_DEPTH:
                self._add(len(value), "value")
                return tuple([self._value(element, depth + 1) for element in value])
        else:
            try:
                return plain_value(value)
            except BadValue:
                pass
        raise MemberFault("value", _VALUE, "BAD_VALUE")

    def _metadata(self, name: str) -> Path:
        """The attribute that a condition or a sort key on metadata of the record speaks of."""
        table = self._table
        if table is None or name in self._attributes:
            return (name,)
        if name == "$id":
            return (table.primary_key,)
        for attribute in self._attributes.values():
            if (name.lower() == "$updatedtime" and attribute.updated_time) or (name == "$expiresAt" and attribute.expires_at):
                return (attribute.name,)
        raise MemberFault("attribute", f"{name} can only be selected here", "UNUSABLE_OPERATOR")

    # --- sort ------------------------------------------------------------------------------------------------------------------------

    def sort(self, data: Any) -> tuple[SortKey, ...]:
        keys: list[SortKey] = []
        at = "sort"
        while data is not None:
            if not isinstance(data, Mapping):
                raise MemberFault(at, "must be an object")
            if len(keys) == MAX_SORT_KEYS:
                raise MemberFault(at, f"is more than {MAX_SORT_KEYS} attributes to sort by")
            descending = data.get("descending")
            if descending is not None and type(descending) is not bool:
                raise MemberFault(f"{at}.descending", "must be a boolean")
            try:
                path = self.path(data.get("attribute"), "attribute")
                if len(path) == 1 and path[0][0] == "$":
                    path = self._metadata(path[0])
            except MemberFault as fault:
                raise fault.below(at) from None
            keys.append(SortKey(path, descending is True))
            data, at = data.get("next"), at + ".next"
        return tuple(keys)

    def reversed(self, keys: tuple[SortKey, ...]) -> tuple[SortKey, ...]:
        """The same order backwards, ties included."""
        last = SortKey((self._table.primary_key if self._table is not None else "",), True)
        return (*[SortKey(key.path, not key.descending) for key in keys], last)

    # --- get_attributes --------------------------------------------------------------------------------------------------------------

    def select(self, data: list[Any]) -> Select | None:
        """None: the stored record."""
        items = self._items(data, self._table, "get_attributes", 0)
        table = self._table
        if "*" in data:
            if table is not None and table.definition.dynamic:
                known = {SelectItem((name,)): None for name, attribute in table.attributes.items() if attribute.stored}
                items = [*known, *[item for item in items if item.path != ("*",) and item not in known]]
            elif len(items) == 1:
                return None
        return Select(tuple(items), nulls=True)

    def _items(self, data: Any, table: AnyTable | None, at: str, depth: int) -> list[SelectItem]:
        if type(data) is not list:
            raise MemberFault(at, "must be an array")
        if not data:
            raise MemberFault(at, "must contain at least 1 item")
        if depth > MAX_DEPTH:
            raise MemberFault(at, f"must not be nested deeper than {MAX_DEPTH} levels")
        self._add(len(data), at)
        found: dict[Path, SelectItem] = {}
        for number, element in enumerate(data):
            try:
                item = self._item(element, table, depth)
            except MemberFault as fault:
                raise fault.below(f"{at}[{number}]") from None
            found[item.path] = item
        return list(found.values())

    def _item(self, data: Any, table: AnyTable | None, depth: int) -> SelectItem:
        if type(data) is str:
            if data == "*" or (table is not None and data in table.attributes):
                return SelectItem((data,))
            return SelectItem(self.path(data, "", table=table))
        if not isinstance(data, Mapping):
            raise MemberFault("", "must be a string or an object")
        path = self.path(data.get("name"), "name", table=table)
        nested = data.get("select")
        if nested is None or nested == "*" or nested == ["*"]:
            return SelectItem(path)
        if isinstance(nested, str):
            nested = [nested]
        if len(path) > 1:
            raise MemberFault("name", "must be one name: nested selections are nested")
        attribute = None if table is None else table.attributes.get(path[0])
        # What is inside an object has no declared names: nothing is unknown there.
        inner = None if attribute is None or attribute.relationship is None or table is None else related_table(table, attribute)
        return SelectItem(path, nested=Select(tuple(self._items(nested, inner, "select", depth + 1)), nulls=True))

    # --- names -----------------------------------------------------------------------------------------------------------------------

    def path(self, name: Any, at: str, *, table: Any = ...) -> Path:
        """The path that a name stands for. A declared name with a dot is one name. `table`: another than the one searched; None: unknown."""
        of: AnyTable | None = self._table if table is ... else table
        if type(name) is str:
            if of is not None and name in of.attributes:
                return (name,)
            if not name:
                raise MemberFault(at, "is not allowed to be empty")
            if not is_encodable(name):
                raise MemberFault(at, "must be Unicode text")
            if name[0] == "$":
                return (name,)
            path = tuple(name.split(".")) if "." in name else (name,)
        elif name is None:
            raise MemberFault(at, "is required")
        elif isinstance(name, list) and name and all(type(part) is str and is_encodable(part) for part in name):
            path = tuple(name)
        else:
            raise MemberFault(at, _PATH)
        if not all(path):
            raise MemberFault(at, "must not have empty names")
        if len(path) > MAX_PATH:
            raise MemberFault(at, f"must not have more than {MAX_PATH} names")
        if of is not None and not self._is_open and not _is_known(path, of):
            self._unknown[".".join(path)] = None
        return path

    def _add(self, count: int, at: str) -> None:
        self._count += count
        if self._count > MAX_NODES:
            raise MemberFault(at, _TOO_MANY)


def row_count(value: Any) -> int | None:
    """A checked `limit` or `offset` as the query core takes it."""
    return None if value is None else min(int(value), MAX_ROWS - 1)


def _is_known(path: Path, table: AnyTable) -> bool:
    """Whether the first name is an attribute, and behind each relationship the next one."""
    for at, name in enumerate(path):
        attribute = table.attributes.get(name)
        if attribute is None:
            return name == table.primary_key or (at > 0 and name[0] == "$")
        if attribute.relationship is None:
            return True
        table = related_table(table, attribute)
    return True


def _operator(given: Any) -> str:
    if given is None:
        return "and"
    if isinstance(given, str) and given.lower() in ("and", "or"):
        return given.lower()
    raise MemberFault("operator", "must be one of [and, or]")
