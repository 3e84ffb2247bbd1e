"""The one query model: every query language becomes these nodes (architecture §5). Comparable, hashable, printable.

They are never changed after construction. Frozen classes would enforce it, but take more than twice as long to make, and a search makes several.

Positions count characters from 0 in the source string, -1 if unknown; they do not take part in comparison.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

MAX_SORT_KEYS = 32  # of one query, in whatever language
MAX_GROUP_KEYS = 32
MAX_GROUP_FUNCTIONS = 128
AGGREGATE_FUNCTIONS = ("count", "sum", "avg", "min", "max")  # `count` alone takes no attribute


class Comparator(StrEnum):
    """Names of query §11."""

    EQUALS = "equals"
    NOT_EQUAL = "not_equal"
    LESS_THAN = "less_than"
    LESS_THAN_EQUAL = "less_than_equal"
    GREATER_THAN = "greater_than"
    GREATER_THAN_EQUAL = "greater_than_equal"
    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"
    CONTAINS = "contains"
    BETWEEN = "between"  # both ends included; the three below are its forms with an open end (spec: operations §3.2)
    GELT = "gelt"
    GTLE = "gtle"
    GTLT = "gtlt"
    PREFIX = "prefix"


class Conversion(StrEnum):
    """How the text of a URL value becomes a value (spec: query §4)."""

    TYPED = "typed"  # not text: a value of a query object, converted by declared type only
    CONVERTING = "converting"  # `==`, `!=`, ranges: prefixes, null, declared type, autoconversion
    STRICT = "strict"  # `=`, `===`, `!==`: declared type only
    TEXT = "text"  # `=sw=`, `=ct=`, `=ew=`: always text
    FORCED = "forced"  # `null`, `number:5`, `date:...`: already typed by the caller, the declared type has no say


@dataclass(slots=True, unsafe_hash=True)
class Condition:
    """`value`: one value; a pair (low, high) for `BETWEEN` and its open forms, each of which converts by itself.

    A chained range is one such condition, because on a list one and the same element must lie between both ends. Its ends may be `Bound`s,
    when they are to be converted differently.
    """

    path: tuple[str, ...]
    comparator: Comparator
    value: object
    conversion: Conversion = Conversion.TYPED
    position: int = field(default=-1, compare=False)


@dataclass(slots=True, unsafe_hash=True)
class Bound:
    """One end of a chained range whose ends are written differently: `price=gt=number:5&lt=9`."""

    value: object
    conversion: Conversion


@dataclass(slots=True, unsafe_hash=True)
class Group:
    operator: str  # "and" | "or"
    members: tuple[Filter, ...]
    position: int = field(default=-1, compare=False)


@dataclass(slots=True, unsafe_hash=True)
class RelationFilter:
    """`products[price=gt=10&sort(-price)&limit(3)]`: some related record satisfies `query.where` (spec: query §7)."""

    path: tuple[str, ...]
    query: Query
    position: int = field(default=-1, compare=False)


Filter = Condition | Group | RelationFilter


def grouped(node: Filter) -> Filter:
    """What is in brackets of its own, as a member of what is around them.

    Conditions beside each other that go through one relationship speak of the same related record (spec: query §7). One in brackets does not, so these
    stay where they may tell it apart.
    """
    return Group("and", (node,), node.position) if type(node) is Condition and len(node.path) > 1 else node


@dataclass(slots=True, unsafe_hash=True)
class SortKey:
    path: tuple[str, ...]
    descending: bool = False
    position: int = field(default=-1, compare=False)


@dataclass(slots=True, unsafe_hash=True)
class SelectItem:
    """`name`, `name{...}` (nested), `name[...]` (relation filter), `*`, or a pseudo-attribute (`$id`).

    `alias`: its name in the result, if that is not its path. `constant`: the value that it has in every row, whatever the record is; with an alias.
    """

    path: tuple[str, ...]
    nested: Select | None = None
    query: Query | None = None
    position: int = field(default=-1, compare=False)
    alias: str | None = None
    constant: str | None = None

    @property
    def name(self) -> str:
        """Its name in the result."""
        return ".".join(self.path) if self.alias is None else self.alias


@dataclass(slots=True, unsafe_hash=True)
class Select:
    """`shape`: "value" (one bare value), "object" or "array" (spec: query §8). `nulls`: an object has null for what a record does not have
    (spec: operations §3.2), else leaves it out."""

    items: tuple[SelectItem, ...]
    shape: str = "object"
    nulls: bool = False


@dataclass(slots=True, unsafe_hash=True)
class Aggregate:
    """`count()`, `facet(a)`, `group(a,b;count,sum(x))`: rows made of the records found. Sort and limit of the query speak of these rows."""

    kind: str  # "count" | "facet" | "group"
    keys: tuple[tuple[str, ...], ...] = ()  # the paths to group by, exactly one for a facet; none: all records are one group
    functions: tuple[tuple[str, tuple[str, ...] | None], ...] = ()  # of a group: ("count", None), ("sum", ("price",))


@dataclass(slots=True, unsafe_hash=True)
class Query:
    """At most one of `select` and `aggregate`; an `aggregate` has no `after`, which is a cursor. `live`: the caller subscribes to changes
    of the result; not together with a cursor or `explain`. `counted`: the answer tells how many records there are without cursor and limit."""

    where: Filter | None = None
    select: Select | None = None
    sort: tuple[SortKey, ...] = ()
    offset: int = 0
    limit: int | None = None
    explain: bool = False
    enforce_execution_order: bool = False
    aggregate: Aggregate | None = None
    after: str | None = None
    live: bool = False
    counted: bool = False
    plans: dict[object, object] = field(default_factory=dict, init=False, compare=False, repr=False)  # of the planner, for the next time
