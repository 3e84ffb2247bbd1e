"""Small queries that pages run besides the one of their address, with the rights of the caller: neighbours of a record, labels of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from svc.errors import Problem
from svc.http.row_stream import QueryExecution
from svc.messages import Request
from svc.pages.links import Links
from svc.query.nodes import Comparator, Condition, Query, Select, SelectItem, SortKey
from svc.resources import Registration, RequestTarget, TableResource

MOST_SLICES = 4  # of work for one of them; what is not found by then is not shown


class Lookups:
    """For one page. `now`, `wall`: seconds."""

    def __init__(self, request: Request, now: Callable[[], float], wall: Callable[[], float]) -> None:
        self._request = request
        self._now = now
        self._wall = wall

    async def find(self, registration: Registration, names: tuple[str, ...], query: Query) -> list[dict[str, Any]] | None:
        """These attributes of what a query finds, of those that the caller may read. None: it is not allowed, or takes too long."""
        resource = registration.resource
        if not issubclass(resource, TableResource) or hasattr(resource, "application"):
            return None
        target = RequestTarget()
        target.is_collection = True
        try:
            resource.authorize("get", target, None, self._request)
            visible = resource.visible(target)
            select = Select(tuple([SelectItem((name,)) for name in names if visible is None or name in visible]))
            shaped = replace(query, select=select)
            planned = resource.planned(shaped, target, self._request, self._now())
            execution = QueryExecution(planned, native=True, whole=True, now=self._now, wall_ms=self._wall() * 1000, reader=self._request)
        except Problem:
            return None
        try:
            for _ in range(MOST_SLICES):
                if execution.gather():
                    return execution.values()
                execution.keep()
                await execution.wait_for_slice()
            return None
        except Problem:
            return None
        finally:
            execution.close()

    async def neighbours(self, registration: Registration, key: Any, links: Links) -> tuple[str, str]:
        """The addresses of the records before and behind one in the order of the keys, of those that the caller may read; "" where there is none, or none is
        found soon."""
        resource = registration.resource
        if not issubclass(resource, TableResource):
            return "", ""
        name, value = resource.table.primary_key, list(key) if isinstance(key, tuple) else key
        addresses = []
        for descending in (True, False):
            comparator = Comparator.LESS_THAN if descending else Comparator.GREATER_THAN
            query = Query(Condition((name,), comparator, value), sort=(SortKey((name,), descending),), limit=1)
            found = await self.find(registration, (name,), query)
            other = found[0].get(name) if found else None
            addresses.append("" if other is None else links.record_at(registration, other))
        return addresses[0], addresses[1]
