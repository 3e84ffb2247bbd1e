"""What the planner decides and the executor follows: predicates with typed values, ways to reach records, and the plan itself.

All of it is frozen, comparable data; nothing here reads a table. `Plan.explain` shows it to the caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from svc.query.nodes import Comparator, Query, Select, SortKey

if TYPE_CHECKING:
    from svc.query.executor import Rows
    from svc.query.tables import AnyTable
    from svc.store.schema import Attribute, Relationship

# predicates


@dataclass(frozen=True, slots=True)
class Comparison:
    """One condition on a value of the record itself. `value` is typed: a pair for ranges with two ends. `path` has more than one name
    for properties of nested objects."""

    path: tuple[str, ...]
    comparator: Comparator
    value: object
    attribute: Attribute | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class AllOf:
    members: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    members: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Never:
    """A condition that no record can fulfil, such as a range that starts at null. `path` and `comparator` are what was asked."""

    path: tuple[str, ...]
    comparator: Comparator


@dataclass(frozen=True, slots=True)
class Related:
    """Some record that `relationship` leads to satisfies `where`; None: there is one. `target` is its table."""

    name: str
    relationship: Relationship
    where: Predicate | None
    target: AnyTable = field(compare=False, repr=False)
    many: bool = field(default=False, compare=False)


Predicate = Comparison | AllOf | AnyOf | Never | Related

# ways to reach records


@dataclass(frozen=True, slots=True)
class Nothing:
    """No record can match."""


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """Records by their stored primary keys, each once, in the order of the keys."""

    keys: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The records with low <= encoded primary key < high; None is an open end. Without ends: a full scan."""

    low: bytes | None = None
    high: bytes | None = None
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class IndexRange:
    """The records with an index key from low (inclusive) to high (exclusive).

    `distinct`: a record may have several keys in the range, of which the first counts. `single`: the range is one index key, so records
    come in the order of their primary keys.
    """

    attribute: str
    low: bytes | None
    high: bytes | None
    distinct: bool = False
    single: bool = False
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class OrderedIndex:
    """The records of an index range in sort order, ties by primary key. `keys` are all sort keys; the first is the index's attribute."""

    attribute: str
    low: bytes | None
    high: bytes | None
    keys: tuple[SortKey, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """One way and the filter for what it finds."""

    access: Access
    filter: Predicate | None


@dataclass(frozen=True, slots=True)
class Union:
    """The branches one after the other; a record counts at its first occurrence."""

    branches: tuple[Branch, ...]


@dataclass(frozen=True, slots=True)
class ThroughRelated:
    """The records that lead to a matching record of another table: that table is searched by `inner`, and the records come from there.

    `relationship.from_` given: by the index on the foreign key (or the key itself); else by the primary key that the related records hold.
    """

    related: Related
    inner: Branch


Access = Nothing | KeyLookup | KeyRange | IndexRange | OrderedIndex | Union | ThroughRelated


@dataclass(slots=True)
class Plan:
    """How one query of one table is answered. Made by `planner.plan_query`; may be run any number of times.

    `served` are the conditions that `access` answers; `filter` is what is left to test, also of `served` where the access finds more than
    matches. `sort` is what is left to sort in memory, empty if `access` delivers the order.
    """

    table: AnyTable
    query: Query
    access: Access
    served: tuple[Predicate, ...]
    filter: Predicate | None
    sort: tuple[SortKey, ...]
    offset: int
    limit: int | None
    compiled: object = field(default=None, repr=False, compare=False)  # what the executor made of it, kept for the next run

    @property
    def select(self) -> Select | None:
        """None: the records themselves."""
        return self.query.select

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of a tabular form of the result (http §7.3)."""
        from svc.query.select import columns_of  # see `run`

        return columns_of(self.query.select, self.table)

    def run(self, txn: object, now_ms: float = 0.0, *, json: bool = False) -> Rows:
        """Begin an execution on a read transaction, which must stay open until the rows are exhausted or closed.

        `json`: selected values are ready for a JSON encoder (dates are text).
        """
        from svc.query.executor import Rows  # the executor needs these nodes; only here do they need it

        return Rows(self, txn, json=json)

    def explain(self) -> dict[str, object]:
        """`{conditions, operator, postOrdering, selectApplied}` in execution order (schema-and-store §11.12)."""
        served = [_explain_predicate(member) | {"access": _ACCESS[type(self.access)]} for member in self.served]
        tested = [_explain_predicate(member) for member in iter_members(self.filter) if member not in self.served]
        conditions, operator = [*served, *tested], "and"
        if len(conditions) == 1 and isinstance(conditions[0].get("conditions"), list) and conditions[0].get("operator") == "or":
            conditions, operator = conditions[0]["conditions"], "or"
        return {
            "conditions": conditions,
            "operator": operator,
            "postOrdering": [{"attribute": ".".join(key.path), "descending": key.descending} for key in self.sort] or None,
            "selectApplied": self.query.select is not None,
        }


def iter_members(predicate: Predicate | None) -> Iterator[Predicate]:
    """The members of an AND in order; anything else is its own only member."""
    if isinstance(predicate, AllOf):
        yield from predicate.members
    elif predicate is not None:
        yield predicate


_ACCESS: dict[type, str] = {
    Nothing: "nothing",
    KeyLookup: "primary key",
    KeyRange: "primary key",
    IndexRange: "index",
    OrderedIndex: "index",
    Union: "union",
    ThroughRelated: "join",
}


def _explain_predicate(predicate: Predicate) -> dict[str, Any]:
    match predicate:
        case Comparison():
            return {"attribute": ".".join(predicate.path), "comparator": str(predicate.comparator), "value": predicate.value}
        case Never():
            return {"attribute": ".".join(predicate.path), "comparator": str(predicate.comparator), "value": None}
        case AllOf() | AnyOf():
            operator = "and" if isinstance(predicate, AllOf) else "or"
            return {"operator": operator, "conditions": [_explain_predicate(member) for member in predicate.members]}
        case Related():
            inner = [_explain_predicate(member) for member in iter_members(predicate.where)]
            return {"attribute": predicate.name, "operator": "and", "conditions": inner}
