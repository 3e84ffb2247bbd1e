"""Whose statement it is, and how its names are resolved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from svc.sql.bound import BoundQuery
from svc.sql.catalogue import Catalogue
from svc.sql.nodes import Query
from svc.sql.writing.reading import Columns
from svc.store.schema import TableDefinition

T = TypeVar("T")
Bind = Callable[[Query, Catalogue, Columns], BoundQuery]


AskedQuery = tuple[BoundQuery, Columns]
"""And the columns of tables whose rows are given when it is run."""


class BoundQueries:
    """What was made of the queries of one statement the last time: it is the same for the same rights and the same definition of the table that is written to.
    To be kept with what is kept of the statement."""

    __slots__ = ("_definition", "_made", "_next", "queries")

    def __init__(self) -> None:
        self.queries: list[AskedQuery] = []
        self._made: list[Any] = []
        self._definition: TableDefinition | None = None
        self._next = 0

    def begin(self, definition: TableDefinition) -> None:
        """The first of the things that are made follows."""
        self._next = 0
        if self._definition is not definition or not all([view.is_current for query, _ in self.queries for view in query.tables]):  # noqa: C419 - faster
            self._definition = definition
            self.queries, self._made = [], []

    def once(self, make: Callable[[], T]) -> T:
        """What `make` returns, or has returned before at this place."""
        if self._next == len(self._made):
            self._made.append(make())
        self._next += 1
        return self._made[self._next - 1]  # type: ignore[no-any-return]


class WriteContext:
    """Whose statement it is. `parameter`: the value of one, by number or name; raises ClientError."""

    def __init__(self, catalogue: Catalogue, user: object, parameter: Callable[[int | str], Any], bind: Bind, bound: BoundQueries) -> None:
        self.catalogue = catalogue
        self.user = user
        self.parameter = parameter
        self._bind = bind
        self._bound = bound

    def bind(self, query: Query, given: Columns | None = None, catalogue: Catalogue | None = None) -> BoundQuery:
        """Resolve the names of a query; `given`: the columns of tables whose rows are given when it is run. `catalogue`: in place of the caller's."""
        bound = self._bind(query, catalogue or self.catalogue, given or {})
        self._bound.queries.append((bound, given or {}))
        return bound

    def once(self, make: Callable[[], T]) -> T:
        """What `make` returns, which depends neither on parameters nor on records: it is called for the first of all runs of a statement."""
        return self._bound.once(make)
