"""What a call addresses, as application code sees it (spec: applications §6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, unquote_plus

from svc.errors import ClientError
from svc.query.mapping import query_from_mapping, split_options
from svc.query.mapping_members import OPTION_NAMES
from svc.query.nodes import Bound, Condition, Filter, Group, Query, RelationFilter
from svc.query.plain_parameters import PARAMETERS
from svc.query.to_mapping import query_to_mapping
from svc.query.url import parse_query
from svc.resources import target as addresses
from svc.store.values.conversion import EMPTY_KEYS

if TYPE_CHECKING:
    from svc.store import Table

_QUERY_KEYS = (
    "conditions",
    "operator",
    "limit",
    "offset",
    "select",
    "sort",
    "explain",
    "enforce_execution_order",
    "aggregate",
    "after",
    "live",
    "as_array",
)
_CAMEL = {"enforceExecutionOrder": "enforce_execution_order", "asArray": "as_array"}
_FIELDS = {
    "conditions": "where",
    "operator": "where",
    "limit": "limit",
    "offset": "offset",
    "select": "select",
    "as_array": "select",
    "sort": "sort",
    "explain": "explain",
    "enforce_execution_order": "enforce_execution_order",
    "aggregate": "aggregate",
    "after": "after",
    "live": "live",
}
SUBSCRIPTION_OPTIONS = (
    "include_descendants",
    "only_children",
    "start_time",
    "previous_count",
    "omit_current",
    "raw_events",
    "supports_transactions",
    "listener",
)
_SUBSCRIPTION_NAMES = {
    **{name: name for name in SUBSCRIPTION_OPTIONS},
    **{name.partition("_")[0] + name.partition("_")[2].title().replace("_", ""): name for name in SUBSCRIPTION_OPTIONS},
}


class _Details:
    """`given`: keys of the query object set by code. `options`: the others of them, `allow_full_scan` and the like. `values`: of the parameters of the path.
    `subscription`: options of a subscription."""

    __slots__ = ("check_permission", "given", "loaded_from_source", "options", "parse_error", "subscription", "values")

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}
        self.options: dict[str, Any] = {}
        self.values: dict[str, str] = {}
        self.subscription: dict[str, Any] | None = None
        self.check_permission = False
        self.loaded_from_source: bool | None = None
        self.parse_error: Exception | None = None


class RequestTarget(addresses.RequestTarget):
    """A record, a collection, a property, with a query.

    `RequestTarget("/42?select(name)")` is made of an address below the resource; attributes of the query object (`conditions`, `limit`, `select`, ...) may be
    read and set. It is also a mapping with several values for a name of the plain parameters of its query: `get`, `get_all`, `set`, `append`, `delete`, `has`.
    """

    __slots__ = ()

    def __init__(self, address: str | None = None) -> None:
        """Raises ClientError 400 for an address that cannot be understood."""
        if address is None:
            super().__init__()
            return
        path, mark, query = address.partition("?")
        parsed = addresses.parse_target(path if path.startswith("/") or not path else f"/{path}", query if mark else None, {})
        for name in addresses.RequestTarget.__slots__:
            setattr(self, name, getattr(parsed, name))
        self.id = self.id_text

    def _state(self) -> _Details:
        details = self.details
        if details is None:
            details = self.details = _Details()
        return cast(_Details, details)

    # --- the address -----------------------------------------------------------------------------------------------------------------

    @property
    def pathname(self) -> str:
        """The path below the resource, percent-encoded: "/42"; "" for the resource itself."""
        if self.raw is not None:
            return f"/{self.raw}"
        return "" if self.id is None else f"/{addresses.id_path(self.id, {})}"

    @property
    def search(self) -> str:
        """The query with its question mark; "" without one."""
        return f"?{self.query}" if self.query else ""

    def __str__(self) -> str:
        return self.pathname + self.search

    def __repr__(self) -> str:
        return f"<RequestTarget {self}>"

    @property
    def check_permission(self) -> bool:
        """Whether a call of code with this target is checked like one of a protocol."""
        return self.details is not None and self._state().check_permission

    @check_permission.setter
    def check_permission(self, value: bool) -> None:
        self._state().check_permission = bool(value)

    @property
    def loaded_from_source(self) -> bool | None:
        """Of a read of a caching table: whether its source was asked. None: it was no such read."""
        return None if self.details is None else self._state().loaded_from_source

    @loaded_from_source.setter
    def loaded_from_source(self, value: bool | None) -> None:
        self._state().loaded_from_source = value

    @property
    def parse_error(self) -> Exception | None:
        """Why the query cannot be understood; None if it can."""
        try:
            self.query_for(None)
        except ClientError as error:
            return error
        return None

    # --- the query object ------------------------------------------------------------------------------------------------------------

    if TYPE_CHECKING:  # the members that `_add_members` makes, and values of parameters

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    @property
    def is_plain(self) -> bool:
        """Whether the text of the query is all there is."""
        return self.details is None or not (self.details.given or self.details.options)

    def _subscribe_with(self, name: str, value: Any) -> None:
        details = self._state()
        if details.subscription is None:
            details.subscription = {}
        details.subscription[_SUBSCRIPTION_NAMES[name]] = value

    @property
    def subscription_options(self) -> dict[str, Any] | None:
        """Those of SUBSCRIPTION_OPTIONS that code has set."""
        return None if self.details is None else self._state().subscription

    def option(self, name: str) -> Any:
        return None if self.details is None else self.details.options.get(name)

    def query_for(self, table: Table | None) -> Query:
        """The query: what the text says, with what code has set in its place. Raises QueryError."""
        text = self.query
        query = Query() if not text else parse_query(text, _any_name if table is None else table.attributes.__contains__)
        details = self.details
        if details is None or not details.given:
            return query
        given = dict(details.given)
        if "operator" in given and "conditions" not in given:
            given["conditions"] = self.conditions
        if "as_array" in given and "select" not in given:
            given["select"] = self.select
        changed = query_from_mapping(given)
        return replace(query, **{_FIELDS[key]: getattr(changed, _FIELDS[key]) for key in given})

    # --- plain parameters ------------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """(name, value) of the plain parameters."""
        for piece in (self.query or "").split("&"):
            name, mark, value = piece.partition("=")
            if mark and name and "(" not in name:
                yield unquote_plus(name), unquote_plus(value)

    def get(self, name: str, default: Any = None) -> Any:
        """The first value of the plain parameter `name`, or `default`: of `?zone=UTC`, `get("zone")` is "UTC"."""
        return next((value for known, value in self if known == name), default)

    def get_all(self, name: str) -> list[str]:
        """All values of the plain parameter `name`, in their order."""
        return [value for known, value in self if known == name]

    def has(self, name: str) -> bool:
        """Whether there is a plain parameter `name`."""
        return any(known == name for known, _ in self)

    def append(self, name: str, value: Any) -> None:
        """Add a parameter, `name=value`: it is a condition as well."""
        piece = f"{quote(name, safe='')}={quote(str(value), safe='')}"
        self.query = f"{self.query}&{piece}" if self.query else piece

    def delete(self, name: str) -> None:
        """Remove all values of the parameter `name`, with the conditions that they are."""
        pieces = [piece for piece in (self.query or "").split("&") if unquote_plus(piece.partition("=")[0]) != name or "=" not in piece]
        self.query = "&".join(pieces) or None

    def set(self, name: str, value: Any) -> None:
        """Replace all values of the parameter `name` by `value`."""
        self.delete(name)
        self.append(name, value)


_TAKEN = frozenset(name for name in dir(RequestTarget) if name != "id")


class ParameterTarget(RequestTarget):
    """A target below an address with parameters, whose values are attributes of it. Members of the query object, too: a parameter may have the name of one."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name != "details" and not name.startswith("__"):  # of a copy that is being made
            details = self.details
            if details is not None and name in details.values:
                return details.values[name]
        raise AttributeError(f"a RequestTarget has no {name!r}")


def _add_members() -> None:
    """Keys of the query object and its options, as attributes of targets. They are no matter of `__getattr__` and `__setattr__`, which would make all that is
    read and written of a target ten times as dear."""
    for key in _QUERY_KEYS:
        for name in (key, *(camel for camel, plain in _CAMEL.items() if plain == key)):
            setattr(RequestTarget, name, _member_of_query(name, key))
    for name, option in OPTION_NAMES.items():
        setattr(RequestTarget, name, _option(name, option))
    for name, option in _SUBSCRIPTION_NAMES.items():
        if name not in OPTION_NAMES:
            setattr(RequestTarget, name, _subscription_option(name, option))


def _member_of_query(name: str, key: str) -> property:
    def get(self: RequestTarget) -> Any:
        details = self.details
        if details is not None:
            if name in details.values:
                return details.values[name]
            if key in details.given:
                return details.given[key]
        return _shown(self.query_for(None), key)

    def set_(self: RequestTarget, value: Any) -> None:
        self._state().given[key] = value

    return property(get, set_)


def _option(name: str, option: str) -> property:
    def get(self: RequestTarget) -> Any:
        details = self.details
        if details is None:
            return None
        return details.values[name] if name in details.values else details.options.get(option)

    def set_(self: RequestTarget, value: Any) -> None:
        self._state().options[option] = value

    return property(get, set_)


def _subscription_option(name: str, option: str) -> property:
    def get(self: RequestTarget) -> Any:
        details = self.details
        if details is not None and name in details.values:
            return details.values[name]
        return None if details is None or details.subscription is None else details.subscription.get(option)

    def set_(self: RequestTarget, value: Any) -> None:
        self._subscribe_with(name, value)

    return property(get, set_)


_add_members()


def check_parameters(address: str) -> None:
    """Raise ValueError for an address with a parameter whose value code could not read, because targets have something else of its name."""
    for segment in address.split("/"):
        if segment[:1] in (":", "*") and segment[1:] in _TAKEN:
            raise ValueError(f"the address '{address}' has a parameter {segment[1:]!r}: targets have another attribute of this name")


def target_with(given: Any, options: Mapping[str, Any], table: Table | None) -> RequestTarget:
    """The target of a subscription: an argument, with keyword arguments beside it. Raises ClientError, QueryError."""
    if options and not isinstance(given, RequestTarget):
        if isinstance(given, list | tuple) and (not given or isinstance(given[0], Mapping)):
            given = {"conditions": given}
        elif not isinstance(given, Mapping):
            given = {} if given is None else {"id": given}
        given, options = {**given, **options}, {}
    target = as_target(given, table, subscribes=True)
    for name, value in options.items():
        setattr(target, name, value)
    return target


def as_target(given: Any, table: Table | None, *, subscribes: bool = False) -> RequestTarget:
    """The target that an argument of a class-level method means: an id, a `RequestTarget`, a query object, a list of conditions.

    `subscribes`: a mapping may have the options of a subscription. Raises ClientError, QueryError.
    """
    if isinstance(given, RequestTarget):
        return given
    if isinstance(given, addresses.RequestTarget):
        return for_application(given)
    target = RequestTarget()
    if given is None:
        target.is_collection = True
    elif isinstance(given, Mapping):
        _read_mapping(target, given, table, subscribes)
    elif isinstance(given, (list, tuple)) and (not given or isinstance(given[0], Mapping)):
        target.is_collection = True
        target.conditions = list(given)
    else:
        target.id = tuple(given) if isinstance(given, list) else given
    return target


def _read_mapping(target: RequestTarget, given: Mapping[Any, Any], table: Table | None, subscribes: bool) -> None:
    query, options = split_options(given)
    members: dict[str, Any] = dict(cast(Mapping[str, Any], query))
    for name in ("id", "check_permission", "checkPermission", "property"):
        if name in members:
            value = members.pop(name)
            setattr(target, "check_permission" if name == "checkPermission" else name, value)
    if subscribes:
        for name in _SUBSCRIPTION_NAMES.keys() & members.keys():
            target._subscribe_with(name, members.pop(name))
    below = [members.pop(name) for name in ("is_collection", "isCollection") if name in members]
    details = target._state()
    details.options.update(options)
    details.given.update({_CAMEL.get(name, name): value for name, value in members.items()})
    unknown = [name for name in details.given if name not in _QUERY_KEYS]
    if unknown:
        query_from_mapping({name: details.given[name] for name in unknown})  # says what is wrong with it
    if target.id in EMPTY_KEYS:
        target.id = None
    target.is_collection = target.id is None or any(below)


def for_application(target: addresses.RequestTarget) -> RequestTarget:
    """The target of a protocol's request, from now on one that application code can use."""
    if not isinstance(target, RequestTarget):
        target.__class__ = RequestTarget
    return cast(RequestTarget, target)


def new_target() -> RequestTarget:
    """`RequestTarget()`."""
    target = _new(RequestTarget)
    _begin(target)
    return target


_new, _begin = RequestTarget.__new__, addresses.RequestTarget.__init__


def with_parameters(target: addresses.RequestTarget, values: Mapping[str, str]) -> None:
    """From now on one that has the values of the parameters of its address, for application code."""
    target.__class__ = ParameterTarget
    cast(RequestTarget, target)._state().values.update(values)


def _any_name(name: str) -> bool:
    """Without a table every name may be that of an attribute, but for those of plain parameters."""
    return name not in PARAMETERS


def _shown(query: Query, key: str) -> Any:
    """A part of a parsed query as the query object has it. Values of conditions that came as text are text."""
    if key == "conditions":
        where = query.where
        if where is None:
            return []
        return [_condition(member) for member in where.members] if isinstance(where, Group) else [_condition(where)]
    if key == "operator":
        return query.where.operator if isinstance(query.where, Group) else "and"
    if key in ("limit", "offset", "explain", "enforce_execution_order", "after", "live"):
        return getattr(query, key)
    return query_to_mapping(replace(query, where=None)).get(key)


def _condition(node: Filter) -> dict[str, Any]:
    if isinstance(node, Group):
        return {"operator": node.operator, "conditions": [_condition(member) for member in node.members]}
    if isinstance(node, RelationFilter):
        return {"attribute": list(node.path), "conditions": [] if node.query.where is None else [_condition(node.query.where)]}
    assert isinstance(node, Condition)
    value = node.value
    if isinstance(value, tuple):
        value = [end.value if isinstance(end, Bound) else end for end in value]
    return {"attribute": node.path[0] if len(node.path) == 1 else list(node.path), "comparator": str(node.comparator), "value": value}
