"""What the planner decides and the executor follows: predicates with typed values, accesses to records, and the plan itself.

All of it is comparable data that is never changed after construction (frozen classes take twice as long to make); nothing here reads a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from svc.query.nodes import Comparator, Query, Select, SortKey

if TYPE_CHECKING:
    from svc.query.tables import AnyTable
    from svc.store.schema import Attribute, Relationship

# predicates


@dataclass(slots=True)
class Comparison:
    """One condition on a value of the record itself. `value` is typed: a pair for ranges with two ends. `path` has more than one name
    for properties of nested objects."""

    path: tuple[str, ...]
    comparator: Comparator
    value: object
    attribute: Attribute | None = field(default=None, compare=False)


@dataclass(slots=True)
class AllOf:
    members: tuple[Predicate, ...]


@dataclass(slots=True)
class AnyOf:
    members: tuple[Predicate, ...]


@dataclass(slots=True)
class Never:
    """A condition that no record can fulfil, such as a range that starts at null. `path` and `comparator` are those of the query."""

    path: tuple[str, ...]
    comparator: Comparator


@dataclass(slots=True)
class RelatedCondition:
    """Some record that `relationship` leads to satisfies `where`; None: there is one. `target` is its table."""

    name: str
    relationship: Relationship
    where: Predicate | None
    target: AnyTable = field(compare=False, repr=False)
    many: bool = field(default=False, compare=False)


Predicate = Comparison | AllOf | AnyOf | Never | RelatedCondition

# accesses to records


@dataclass(slots=True)
class Nothing:
    """No record can match."""


@dataclass(slots=True)
class KeyLookup:
    """Records by their stored primary keys, each once, in the order of the keys."""

    keys: tuple[bytes, ...]


@dataclass(slots=True)
class KeyRange:
    """The records with low <= encoded primary key < high; None is an open end. Without ends: a full scan.

    `behind`: the stored key of the record behind which it begins, in its direction.
    """

    low: bytes | None = None
    high: bytes | None = None
    reverse: bool = False
    behind: bytes | None = None


@dataclass(slots=True)
class IndexRange:
    """The records with an index key from low (inclusive) to high (exclusive).

    `distinct`: a record may have several keys in the range, of which the first counts. `single`: the range is one index key, so records
    come in the order of their primary keys. `behind`: the entry in the range behind which it begins, in its direction.
    """

    attribute: str
    low: bytes | None
    high: bytes | None
    distinct: bool = False
    single: bool = False
    reverse: bool = False
    behind: tuple[bytes, bytes] | None = None


@dataclass(slots=True)
class OrderedIndex:
    """The records of an index range in sort order, ties by primary key. `keys` are all sort keys; the first is the index's attribute.

    `behind`: the entry behind which it begins in this order; only with a single sort key, and only if the index key is not cut.
    """

    attribute: str
    low: bytes | None
    high: bytes | None
    keys: tuple[SortKey, ...]
    behind: tuple[bytes, bytes] | None = None


@dataclass(slots=True)
class Branch:
    """One access and the filter for the records it finds."""

    access: Access
    filter: Predicate | None


@dataclass(slots=True)
class Union:
    """The branches one after the other; a record counts at its first occurrence."""

    branches: tuple[Branch, ...]


@dataclass(slots=True)
class ThroughRelated:
    """The records that lead to a matching record of another table: that table is searched by `inner`, and the records come from there.

    `relationship.from_` given: by the index on the foreign key (or the key itself); else by the primary key that the related records hold.
    """

    related: RelatedCondition
    inner: Branch


Access = Nothing | KeyLookup | KeyRange | IndexRange | OrderedIndex | Union | ThroughRelated


# pages


@dataclass(slots=True)
class Order:
    """The order of the rows, if it has pages: by `keys`, else by the keys of the index of the attribute `index`
    (a record at its first key), else by primary key. Ties by primary key."""

    keys: tuple[SortKey, ...] = ()
    index: str | None = None


@dataclass(slots=True)
class Position:
    """The position of a row in an `Order`: the values of the sort keys as `matching.sort_bytes` encodes them, or the index key, and the stored
    primary key. No two rows have the same position."""

    parts: tuple[bytes, ...]
    primary: bytes
    before: int = field(default=0, compare=False)
    """How many rows there were up to this one, as far as the client has read page by page."""


class AnyRows(Protocol):
    """One execution of a plan: raw records, or values if `Plan.is_shaped`.

    `keeps_rows`: to be set by a caller that holds the rows of all steps: they count together, and weights stay known.
    """

    keeps_rows: bool

    @property
    def done(self) -> bool:
        """Whether no more rows come."""

    @property
    def examined(self) -> int:
        """Index entries and records looked at so far."""

    @property
    def joins(self) -> bool:
        """Whether rows hold related records, so that some may be large: see `weight`."""

    @property
    def is_costly(self) -> bool:
        """Whether it takes work beyond reading what it returns: joins, sorts, aggregates."""

    @property
    def has_weights(self) -> bool:
        """Whether any of them weighs more than one."""

    def weight(self, value: object) -> int:
        """The number of records that a row of the last step, or a value in it, shows."""

    def step(self, max_rows: int) -> list[Any]:
        """Do a bounded piece of work and return up to `max_rows` rows, maybe none; `done` tells whether more can come."""

    def step_pairs(self, max_rows: int) -> list[Any]:
        """The same as `step`, but (stored primary key, raw record) whatever the plan selects; of an aggregate, its rows."""

    def let_go(self) -> None:
        """Keep nothing that refers to the read transaction, which has ended. Then `move`, or `close`."""

    def move(self, txn: Any) -> bool:
        """Go on with another read transaction, behind what was looked at; that before may be aborted. False: that cannot be done."""

    def next_cursor(self) -> str | None:
        """After the last row of a page (a plan with limit): the cursor of the next page, None if there is nothing more, or no cursor."""

    def close(self) -> None:
        """Release the store's iterators. May be called more than once."""


@dataclass(slots=True)
class Plan:
    """How one query of one table is answered. Made by `planner.plan_query`; may be run any number of times.

    `served` are the conditions that `access` answers; `filter` is what is left to test, also of `served` where the access finds more than
    matches. `sort` is what is left to sort in memory, empty if `access` delivers the order. `order` is the order that results from it, None if
    there are no pages; rows up to `position` are left out, None if the access does that.
    Of an aggregate, all this speaks of the records that are counted; `offset` and `limit` are those of its rows.

    Where the plan was made for a shape (`shaped_plan`), the conditions of `query` have slots in place of values, which the predicates have.
    """

    table: AnyTable
    query: Query
    access: Access
    served: tuple[Predicate, ...]
    filter: Predicate | None
    sort: tuple[SortKey, ...]
    offset: int
    limit: int | None
    order: Order | None = None
    position: Position | None = None
    before: int = 0
    """Rows of the pages before this one, when they were read; 0 for a page that does not begin behind a cursor."""
    compiled: dict[bool, object] = field(default_factory=dict, repr=False, compare=False)  # what the executor made of it, by `json`
    shared: dict[object, object] | None = field(
        default=None, repr=False, compare=False
    )  # ... as far as all plans of one shape have the same

    @property
    def select(self) -> Select | None:
        """None: the records themselves."""
        return self.query.select

    @property
    def is_shaped(self) -> bool:
        """Whether rows are values, not raw records."""
        return self.query.select is not None or self.query.aggregate is not None


def iter_members(predicate: Predicate | None) -> Iterator[Predicate]:
    """The members of an AND in order; anything else is its own only member."""
    if isinstance(predicate, AllOf):
        yield from predicate.members
    elif predicate is not None:
        yield predicate
