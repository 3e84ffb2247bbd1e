"""Reading a table: records, queries, its description (architecture §11; spec: http §2.2, query, http §10.1)."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote

from svc.auth.roles import ALL_RIGHTS, ON_ROWS, OPENED
from svc.auth.users import user_of
from svc.awaitables import then
from svc.messages import Request
from svc.query import Plan, plan_query
from svc.query.authorization import narrow_query
from svc.query.explain import explain
from svc.query.mapping import query_from_mapping
from svc.query.narrowing import is_view
from svc.query.nodes import Comparator, Condition, Query, Select, SelectItem
from svc.query.select import enumerable_select
from svc.query.shaped_plan import UNRESTRICTED
from svc.query.tables import AnyTable, is_volatile, rule_members
from svc.resources.resource import PlannedQuery, StoredRecord
from svc.resources.table_base import TableBase
from svc.resources.target import RequestTarget
from svc.store import Table
from svc.store.record_counts import count_records
from svc.store.schema import Attribute

NO_QUERY = Query()


LONG_QUERY = 2048  # characters: each takes up to a microsecond to parse, and as much to plan


class TableReading(TableBase):
    """GET and QUERY."""

    @classmethod
    def on_get(cls, target: RequestTarget, data: Any, request: Request) -> Any:
        if target.id is not None:
            table = cls.table
            if table.caching is not None:
                is_part = target.property is not None or table.has_enumerable or (target.query is not None and "select" in target.query)
                read = table.caching.load_stored if is_part else table.caching.read  # a part is made by a query
                raw = read(target.id, target, request, rules=cls.staleness)
                if raw is not None and type(raw) is not bytes:
                    return then(raw, lambda raw: cls._found(raw, target, request))
            else:
                raw = table.get_raw(target.id)
            return cls._found(raw, target, request)
        if target.is_root:
            return cls.describe(cls.visible(target), is_whole=target.rights is ALL_RIGHTS or not rule_members(cls.seen_by(request)))
        if cls.table.caching is not None:
            return cls.table.caching.find(partial(cls.on_search, target, data, request), request, target)
        if target.query is not None and len(target.query) > LONG_QUERY:
            return cls._search_in_turns(target.query, target, request)
        return cls.on_search(target, data, request)

    @classmethod
    def _found(cls, raw: bytes | None, target: RequestTarget, request: Request) -> StoredRecord | None:
        if target.rights is not ALL_RIGHTS:
            view = cls.seen_by(request)  # also of no record: the answer is that to one which is hidden
            if raw is not None and is_view(view) and not view.holds("read", b"", raw, cls.table.database.snapshot()):
                if cls.table.caching is not None:
                    cls.table.caching.refuse_hidden(target, request)
                return None
        return None if raw is None else StoredRecord(cls.table, raw, cls.visible(target))

    @classmethod
    def select_one(cls, record: StoredRecord, target: RequestTarget, request: Request) -> PlannedQuery:
        """`/Product/42?select(name)`: the selection of one record; other conditions on its URL are ignored (spec: http §2.2). A property of the
        target is selected as an object with this one name; what the query selects is then selected from its value."""
        select = None
        if target.query and "select" in target.query:
            select = cls.queries.parse(target.query, cls.table).select
        if target.property is not None:
            select = Select((SelectItem((target.property,), nested=select),))
        elif select is None:
            select = enumerable_select(cls.table) or Select((SelectItem(("*",)),))
        query = narrow_query(Query(select=select), cls.table, user_of(request), cls._opened(target))
        only = Query(Condition((cls.table.primary_key,), Comparator.EQUALS, target.id), query.select, limit=1)
        return PlannedQuery(cls.table, plan_query(only, cls.seen_by(request), cls.table.database.snapshot()), record.visible)

    @classmethod
    def on_search(cls, target: RequestTarget, data: Any, request: Request) -> PlannedQuery:
        began = cls.store.clock.monotonic()
        text, table, queries = target.query, cls.table, cls.queries
        if not text:
            return cls.planned(NO_QUERY, target, request, began)
        query = queries.known(text, table)
        if query is None:
            plan = cls._maybe_plan_by_shape(text, target, request)
            if plan is not None:
                return PlannedQuery(table, plan, cls.visible(target), cls.store.clock.monotonic() - began)
            query = queries.parse(text, table)
        return cls.planned(query, target, request, began)

    @classmethod
    async def _search_in_turns(cls, text: str, target: RequestTarget, request: Request) -> PlannedQuery:
        """A query of a thousand conditions is parsed, planned and run in a turn each, because each of these takes milliseconds."""
        slices = cls.store.slices
        await slices.take()
        query = cls.queries.parse(text, cls.table)
        await slices.take()
        found = cls.planned(query, target, request, cls.store.clock.monotonic())
        await slices.take()
        return found

    @classmethod
    def _opened(cls, target: RequestTarget) -> Table | None:
        """The table, if code of an application has opened it to the caller."""
        return cls.table if target.rights is OPENED else None

    @classmethod
    def _maybe_plan_by_shape(cls, text: str, target: RequestTarget, request: Request) -> Plan | None:
        table = cls.table
        if target.prefix is not None or table.has_enumerable or target.rights is OPENED or target.rights is ON_ROWS:
            return None
        if target.rights is ALL_RIGHTS:
            return cls.queries.shapes.maybe_plan(text, table, table.database.snapshot(), UNRESTRICTED, cls.allow_full_scan)
        view = cls.seen_by(request)
        if is_volatile(view):
            return None
        return cls.queries.shapes.maybe_plan(text, view, table.database.snapshot(), user_of(request), cls.allow_full_scan)

    @classmethod
    def on_query(cls, target: RequestTarget, data: Any, request: Request) -> Any:
        """The records that a query object finds, or its plan, if it asks for that (spec: query §9)."""
        began = cls.store.clock.monotonic()
        if cls.table.caching is not None:
            plan = partial(cls.planned, query_from_mapping(data), target, request, began)
            return then(cls.table.caching.find(plan, request, target), partial(cls._shown, request=request))
        return cls._shown(cls.planned(query_from_mapping(data), target, request, began), request)

    @classmethod
    def _shown(cls, rows: PlannedQuery, request: Request) -> Any:
        if not rows.plan.query.explain:
            return rows
        return explain(rows.plan, cls.table.database.snapshot(), names_rules=request.user is not None and request.user.super_user)

    @classmethod
    def planned(
        cls, query: Query, target: RequestTarget, request: Request, began: float, allow_full_scan: bool | None = None
    ) -> PlannedQuery:
        """Plan a query by `target.rights`."""
        table = cls.table
        visible = cls.visible(target)
        if table.has_enumerable and query.select is None and query.aggregate is None and request.method != "DELETE":
            query = replace(query, select=enumerable_select(table))
        seen: AnyTable = table
        if target.rights is not ALL_RIGHTS:  # all rights on this table say nothing of those that its relationships lead to
            if target.rights is not ON_ROWS:
                query = narrow_query(query, table, user_of(request), cls._opened(target))
            seen = cls.seen_by(request, "delete" if request.method == "DELETE" else None)
        scans = cls.allow_full_scan if allow_full_scan is None else allow_full_scan
        plan = plan_query(query, seen, table.database.snapshot(), allow_full_scan=scans, key_prefix=target.prefix)
        return PlannedQuery(table, plan, visible, cls.store.clock.monotonic() - began)

    @classmethod
    def describe(cls, visible: frozenset[str] | None = None, *, is_whole: bool = True) -> Any:
        """http §10.1. An awaitable if many entries of the log have to be counted; each is counted once. `is_whole`: the caller may read all records; else
        nothing is told of how many there are."""
        if not is_whole:
            return cls._description(visible, counts=False)
        if cls.shows_record_count:
            return cls._description_with_count(visible)
        steps = cls.table.database.log.counts.catch_up()
        slices = cls.store.slices
        return then(None if slices.run(steps) else slices.exhaust(steps), lambda _: cls._description(visible))

    @classmethod
    async def _description_with_count(cls, visible: frozenset[str] | None) -> dict[str, Any]:
        slices = cls.store.slices
        await slices.exhaust(cls.table.database.log.counts.catch_up())
        count, _ = await slices.result(count_records(cls.table))
        return cls._description(visible, count)

    @classmethod
    def _description(cls, visible: frozenset[str] | None, count: int | None = None, *, counts: bool = True) -> dict[str, Any]:
        table = cls.table
        definition = table.definition
        found: dict[str, Any] = {
            "records": f"/{quote(cls.name)}/" if cls.name else "/",
            "name": table.name,
            "database": table.database.name,
        }
        if counts:
            found["auditSize"] = table.database.log.counts.of(table.number)
        if count is not None:  # an estimate whose range is a point
            found |= {"recordCount": count, "estimatedRecordRange": [count, count]}
        if definition.check is not None:
            found["check"] = definition.check.expression
        found["attributes"] = [describe_attribute(a) for a in definition.attributes if visible is None or a.name in visible]
        return found


def describe_attribute(attribute: Attribute) -> dict[str, Any]:
    """One element of `attributes` in a description (spec: http §10.1)."""
    shown: dict[str, Any] = {"name": attribute.name, "attribute": attribute.name, "type": "array" if attribute.elements else attribute.type}
    if attribute.primary_key:
        shown["isPrimaryKey"] = True
    if attribute.required:
        shown["nullable"] = False
    if attribute.default:
        shown["default"] = json.loads(attribute.default)
    if attribute.indexed:
        shown["indexed"] = True
    if attribute.unique:
        shown["unique"] = True
    if attribute.check is not None:
        shown["check"] = attribute.check.expression
    if attribute.elements:
        shown["elements"] = attribute.type
    if attribute.enum is not None:
        shown["enum"] = list(attribute.enum.values)
    if attribute.relationship is not None:
        relationship = attribute.relationship
        shown["relationship"] = {k: v for k, v in (("from", relationship.from_), ("to", relationship.to)) if v}
    if attribute.computed_from is not None:
        shown["computed"] = True
    if attribute.created_time:
        shown["assignCreatedTime"] = True
    if attribute.updated_time:
        shown["assignUpdatedTime"] = True
    if attribute.expires_at:
        shown["expiresAt"] = True
    if attribute.description:
        shown["description"] = attribute.description
    return shown
