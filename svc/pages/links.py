"""Addresses of records, collections and queries, relative to a page. There are none where the caller may not read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast
from urllib.parse import unquote

from svc.auth.roles import rights
from svc.auth.users import user_of
from svc.messages import Request
from svc.query.narrowing import view_of
from svc.query.nodes import MAX_SORT_KEYS, Aggregate, Comparator, Condition, Conversion, Filter, Group, Query, SortKey
from svc.query.printer import print_parts, print_query
from svc.query.tables import rule_members
from svc.resources import Registration, Resources, TableResource
from svc.resources.target import id_path
from svc.store import Table
from svc.store.schema import Attribute

_LONGEST = 200  # characters of a path that is compared


def near_address(resources: Resources, request: Request) -> str:
    """` (did you mean /Product/?)`; "" if there is nothing alike that the caller may read."""
    path = request.pathname
    if len(path) > _LONGEST:
        return ""
    segments = unquote(path, errors="replace").split("/")[1:]
    wanted = [_folded("/".join(segments[:count])) for count in range(1, len(segments) + 1)]
    for registration in resources.values():
        depth = registration.path.count("/")
        if registration.path and depth < len(wanted) and _folded(registration.path) == wanted[depth] and is_readable(registration, request):
            return f" (did you mean {resources.path_to(registration.path, '')}?)"
    return ""


def _folded(name: str) -> str:
    return name.casefold().removesuffix("s")


TITLES = ("name", "title", "label")  # what records are called, if they have one of these
MOST_ITEMS = 20  # elements of a list of foreign keys that have links of their own
_LONGEST_REPEATED = 1000  # characters of a query that many links of a page repeat
_LONGEST_VALUE = 1000  # characters of a value in the condition of a link


class Links:
    """Of one page. `root`: the relative address of the server's root."""

    def __init__(self, resources: Resources, request: Request, root: str) -> None:
        self._resources = resources
        self._request = request
        self._root = root
        self._titles: dict[str, str] = {}
        self._tables: dict[str, Registration] | None = None  # by database and name, those that answer and that the caller may read

    def collection(self, table: Table) -> str:
        """The address of a collection; "" if there is none for this caller."""
        registration = self.registration(table)
        return "" if registration is None else self._at(registration, "")

    def matching(self, table: Table, name: str, value: Any) -> tuple[str, bool]:
        """(the address of the records whose attribute `name` is this value, "" if there is none for this caller; whether their number may be told: the
        caller may read all of them, and no code of an application says otherwise)."""
        registration, query = self.registration(table), equal_to(name, value)
        if registration is None or not query:
            return "", False
        is_plain = not hasattr(registration.resource, "application")
        if is_plain and not rights(user_of(self._request), table).attribute(name).read:
            return "", False
        return f"{self._at(registration, '')}?{query}", is_plain and not rule_members(view_of(user_of(self._request), table))

    def title_of(self, table: Table) -> str:
        """The attribute that records of a table are called by; "" if there is none, or the caller may not read it of each record, or code of an application
        has a say in it."""
        known = self._titles.get(_identity(table))
        if known is None:
            known = self._titles[_identity(table)] = self._find_title(table)
        return known

    def _find_title(self, table: Table) -> str:
        registration, user = self.registration(table), user_of(self._request)
        if registration is None or hasattr(registration.resource, "application") or rule_members(view_of(user, table)):
            return ""
        may, known = rights(user, table), table.attributes
        return next((name for name in TITLES if name in known and known[name].type == "String" and may.attribute(name).read), "")

    def record(self, table: Table, key: Any) -> str:
        """The address of the record `key`, whether or not there is one; "" for a table that has no address, and a value that cannot be a key."""
        registration = self.registration(table)
        return "" if registration is None else self.record_at(registration, key)

    def record_at(self, registration: Registration, key: Any) -> str:
        resource = registration.resource
        key = tuple(key) if isinstance(key, list) else key
        parts = key if isinstance(key, tuple) else (key,)
        if not parts or not all(type(part) in (str, int, float) and part != "" for part in parts):
            return ""
        try:
            path = id_path(key, resource.properties, untyped=getattr(resource, "untyped_keys", False))
        except (ValueError, ArithmeticError):  # a part of a character, an invalid number
            return ""
        return self._at(registration, path)

    def prefix(self, registration: Registration) -> str:
        """What a key of letters and digits has to follow to be the address of its record: nothing in it could be read as something else, and nothing else
        answers below the address. "" where that is not so."""
        if getattr(registration.resource, "untyped_keys", False) or registration.pattern is not None or not registration.path:
            return ""
        path = self._resources.path_to(registration.path, "")
        if any(each.path.startswith(f"{registration.path}/") or each.pattern is not None for each in self._resources.values()):
            return ""
        return "" if any(each.startswith(path) for each in self._resources.reserved) else self._root + path[1:]

    def _at(self, registration: Registration, relative: str) -> str:
        return self._root + self._resources.path_to(registration.path, relative)[1:]

    def tables(self) -> Iterator[Table]:
        """Those that have an address that the caller may read."""
        for registration in self._readable().values():
            yield cast(type[TableResource], registration.resource).table

    def registration(self, table: Table) -> Registration | None:
        """Where the records of a table are; None if there is no address, or none that the caller may read."""
        return self._readable().get(_identity(table))

    def _readable(self) -> dict[str, Registration]:
        if self._tables is None:
            self._tables = {}
            for registration in self._resources.values():
                resource = registration.resource
                if issubclass(resource, TableResource) and is_readable(registration, self._request):
                    self._tables.setdefault(_identity(resource.table), registration)
        return self._tables


def is_readable(registration: Registration, request: Request) -> bool:
    """Whether the caller may read there over REST, as far as that is known without asking the application's code."""
    if registration.fault or registration.pattern is not None or not registration.visible("rest"):
        return False
    resource, user = registration.resource, user_of(request)
    if "get" not in resource.verbs:
        return False
    if "allow_read" in (resource.own_rights or ()):
        return True
    if not issubclass(resource, TableResource):
        return user is not None and user.super_user
    if user is not None and user.super_user and not resource.is_system:
        return True
    return rights(user, resource.table).read


def equal_to(name: str, value: Any) -> str:
    """The query for the records whose attribute is this value; "" if the language cannot say it."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return _equal(name, value)


def _equal(name: str, value: Any) -> str:
    condition = _condition(name, value)
    if condition is None:
        return ""
    try:
        return print_query(Query(condition))
    except ValueError:
        return ""


def _condition(name: str, value: Any) -> Condition | None:
    """That an attribute has this value; None if the language cannot say it."""
    if value is None:
        return Condition((name,), Comparator.EQUALS, None, Conversion.FORCED)
    if not isinstance(value, str | int | float):
        return None
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return Condition((name,), Comparator.EQUALS, text, Conversion.CONVERTING) if len(text) <= _LONGEST_VALUE else None


def printed(query: Query) -> str | None:
    """The query as a reference relative to the collection; None if the language cannot say it."""
    try:
        return f"?{print_query(query)}"
    except ValueError:
        return None


def conditions_of(query: Query) -> tuple[Filter, ...]:
    """What all records of a result have in common, one by one."""
    where = query.where
    if where is None:
        return ()
    return where.members if isinstance(where, Group) and where.operator == "and" else (where,)


def with_conditions(query: Query, conditions: tuple[Filter, ...]) -> Query:
    """The first page of the same query with these conditions."""
    where = None if not conditions else conditions[0] if len(conditions) == 1 else Group("and", conditions)
    return replace(query, where=where, after=None, offset=0)


class Variants:
    """The first pages of variants of a query, as references. A page has many, so its parts are printed once; none of a query that is long, or that the
    language cannot say.

    >>> from svc.query.url import parse_query
    >>> variants = Variants(parse_query("a==1&b==2&sort(c)&limit(5,10)"))
    >>> variants.without(0), variants.orders_by("d")[1:3], variants.with_value("d", 5)
    ('?b==2&sort(c)&limit(5)', ('?a==1&b==2&sort(-d)&limit(5)', '?a==1&b==2&sort(c,d)&limit(5)'), '?a==1&b==2&d==5')
    """

    def __init__(self, query: Query) -> None:
        self.conditions: list[str] = []
        self._order: list[str] = []
        self._rest: list[str] = []
        self.is_empty = True
        self._shape: list[str] = []  # what rows consist of
        self._before = self._behind = ""
        self._keys: dict[str, str] = {}  # of the order, by attribute
        try:
            conditions, order = print_parts(Query(query.where)), print_parts(Query(sort=query.sort))
            shape = print_parts(Query(select=query.select, aggregate=query.aggregate))
        except ValueError:
            return
        limit = [] if query.limit is None else [f"limit({query.limit})"]
        rest = [*limit, *shape, *(["_count=exact"] if query.counted else [])]
        if sum(map(len, (*conditions, *order, *rest))) <= _LONGEST_REPEATED:
            self.is_empty, self.conditions, self._order, self._rest, self._shape = False, conditions, order, rest, shape
            self._before = "".join([f"{each}&" for each in conditions])
            self._behind = "".join([f"&{each}" for each in rest])
            keys = order[0][len("sort(") : -1].split(",") if order else []
            self._keys = {key.path[0] if len(key.path) == 1 else text: text for key, text in zip(query.sort, keys, strict=True)}

    def text(self) -> str:
        """The first page itself, without `?`."""
        return "&".join([*self.conditions, *self._order, *self._rest])

    def limited(self, limit: str) -> str:
        """With another limit, "" none. `limit`: the call, and other calls behind it."""
        return _reference(*self.conditions, *self._order, *([limit] if limit else ()), *self._shape)

    def whole(self) -> str:
        """With the columns that rows usually have."""
        return _reference(*self.conditions, *self._order, *[each for each in self._rest if each not in self._shape])

    def without(self, number: int) -> str:
        """Without the condition of this number."""
        return _reference(*self.conditions[:number], *self.conditions[number + 1 :], *self._order, *self._rest)

    def orders_by(self, name: str) -> tuple[str, str, str, str]:
        """In other orders: by an attribute, upwards and downwards; and by it as a further one, or in another direction where it is one already. "" for what the
        language cannot say, and for the last two if there is no order."""
        try:
            down = "" if self.is_empty else print_parts(Query(sort=(SortKey((name,), True),)))[0][len("sort(") : -1]
        except ValueError:
            down = ""
        if not down:
            return "", "", "", ""
        up = down[1:] if not down.startswith(("--", "-%2B")) else f"+{down[1:]}"
        return self._ordered(up), self._ordered(down), self._further(name, up), self._further(name, down)

    def _ordered(self, keys: str) -> str:
        return f"?{self._before}sort({keys}){self._behind}"

    def _further(self, name: str, key: str) -> str:
        keys = self._keys
        if not keys or (len(keys) >= MAX_SORT_KEYS and name not in keys):
            return ""
        return self._ordered(",".join({**keys, name: key}.values()))

    def narrowed(self, name: str, value: Any) -> str:
        """With the condition that an attribute has this value; "" if the language cannot say it."""
        condition = "" if self.is_empty else _equal(name, value)
        return condition and _reference(*self.conditions, condition, *self._order, *self._rest)

    def counted(self, name: str) -> str:
        """The values of an attribute with their numbers."""
        try:
            return "" if self.is_empty else _reference(*self.conditions, *print_parts(Query(aggregate=Aggregate("facet", ((name,),)))))
        except ValueError:
            return ""

    def with_value(self, name: str, value: Any) -> str:
        """The records behind one row of an aggregate, whose key is this value; "" if the language cannot say it."""
        condition = "" if self.is_empty else _equal(name, value)
        return condition and _reference(*self.conditions, condition)


def _reference(*parts: str) -> str:
    return f"?{'&'.join(parts)}"


def can_be_sorted(attribute: Attribute, table: Table, query: Query, *, scans: bool) -> bool:
    """Whether the planner sorts the result of a query by this attribute (spec: query §8)."""
    if not attribute.stored or attribute.type == "Blob":
        return False
    index = table.indexes.get(attribute.name)
    return attribute.name == table.primary_key or scans or query.where is not None or (index is not None and index.ready)


def _identity(table: Table) -> str:
    return f"{table.database.name}/{table.name}"
