"""What a subscription to a table asks for, from its address and query (spec: realtime §1, rules 1 and 4)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from svc.auth.users import user_of
from svc.errors import QuerySyntaxError
from svc.messages import Request
from svc.query.nodes import Comparator, Condition, Filter, Group, Query, Select, SelectItem
from svc.realtime.resume import parse_event_id
from svc.realtime.subscription_request import SubscriptionRequest
from svc.resources.target import RequestTarget

if TYPE_CHECKING:
    from svc.resources.table_base import TableBase

LIVE = "live() keeps the result of a whole query up to date"


def subscribed_query(resource: type[TableBase], target: RequestTarget) -> Query:
    """The query of the address. Raises QueryError."""
    query = resource.queries.parse(target.query, resource.table) if target.query else Query()
    if target.property is not None:
        query = replace(query, select=Select((SelectItem((target.property,), nested=query.select),), "value"))
    if query.live and target.id is not None:
        only: Filter = Condition((resource.table.primary_key,), Comparator.EQUALS, target.id)
        query = replace(query, where=only if query.where is None else Group("and", (only, query.where)))
    return query


def subscription_request(resource: type[TableBase], query: Query, target: RequestTarget, request: Request) -> SubscriptionRequest:
    """Raises QueryError."""
    refuse_whole_results(query, target.query or "")
    return SubscriptionRequest(
        resource.table,
        target.id,
        target.prefix,
        query.where,
        query.select,
        user_of(request),
        after=parse_event_id(request.block.get("last-event-id")),
        allow_full_scan=resource.allow_full_scan,
    )


def refuse_whole_results(query: Query, text: str) -> None:
    """Raise QueryError for what speaks of a result as a whole, of which single events know nothing. `text`: the query in the address, for positions."""
    aggregate = query.aggregate
    if aggregate is not None:
        raise _refused(aggregate.kind, text)
    for name, given in (("sort", query.sort), ("limit", query.limit is not None or query.offset), ("after", query.after is not None)):
        if given:
            raise _refused(name, text)
    if query.counted:
        raise _refused("_count", text)


def _refused(call: str, text: str) -> QuerySyntaxError:
    said = call if call.startswith("_") else f"{call}(...)"
    return QuerySyntaxError(f"'{said}' in a subscription", max(0, text.find(call)), text, LIVE)
