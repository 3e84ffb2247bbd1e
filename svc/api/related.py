"""Related records of a record that was read: `await seat.show`, `async for seat in show.seats` (spec: applications §4)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Mapping
from functools import partial
from typing import Any, TypeVar

from svc.api.context import AnyContext, UserContext
from svc.api.results import Items, Results
from svc.auth.roles import rights
from svc.auth.users import user_of
from svc.errors import AccessViolation
from svc.query import plan_query
from svc.query.narrowing import view_of
from svc.query.nodes import Comparator, Condition, Conversion, Filter, Group, Query
from svc.query.resolve import is_many, related_table
from svc.resources import PlannedQuery
from svc.store import Table
from svc.store.schema import Attribute

_T_co = TypeVar("_T_co", covariant=True)


class RelatedRecord(Items[_T_co]):
    """The one record that a relationship leads to: awaited, it is that record or None."""

    def __init__(self, found: Results[_T_co] | None) -> None:
        super().__init__(())
        self._found = found

    def __await__(self) -> Generator[Any, Any, _T_co | None]:  # type: ignore[override]
        return self._first().__await__()

    async def _first(self) -> _T_co | None:
        return None if self._found is None else await self._found.first()

    async def _iterate(self) -> AsyncIterator[_T_co]:
        record = await self._first()
        if record is not None:
            yield record


def related(table: Table, attribute: Attribute, values: Mapping[str, Any], context: AnyContext | None) -> Any:
    """What the relationship `attribute` of a record with these values leads to: awaitable if that is one record, else iterable."""
    relationship = attribute.relationship
    assert relationship is not None
    target: Any = related_table(table, attribute)
    start = values.get(relationship.from_ or table.primary_key)
    end = (relationship.to or target.primary_key,)
    many = is_many(attribute, table)
    starts = start if isinstance(start, list) else [start]
    conditions: list[Filter] = [Condition(end, Comparator.EQUALS, value, Conversion.FORCED) for value in starts if value is not None]
    if not conditions:
        return Items(()) if many else RelatedRecord(None)
    where = conditions[0] if len(conditions) == 1 else Group("or", tuple(conditions))

    def plan() -> PlannedQuery:
        if type(context) is UserContext:  # of a record that was read as a user: so are those that it leads to
            user = user_of(context)
            may = rights(user, target)
            if not may.read:
                raise AccessViolation(user, right="read", resource=may.table)
            query = plan_query(Query(where), view_of(user, target), target.database.snapshot(), allow_full_scan=True)
            return PlannedQuery(target, query, may.readable)
        return PlannedQuery(target, plan_query(Query(where), target, target.database.snapshot(), allow_full_scan=True))

    caching = target.caching
    if caching is None:
        load = None
    elif end == (target.primary_key,):
        load = partial(caching.find_keys, [value for value in starts if value is not None])
    else:
        load = caching.find
    results: Results[Any] = Results(plan, context, load)
    return results if many else RelatedRecord(results)
