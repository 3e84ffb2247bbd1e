"""A top-level field of a table: planned by the query core, without an answer of its own in between (spec: graphql §4).

A client sends one document again and again with other values. What the values have no say in is made once for each field: the selection, and the
plan of the conditions' names (`query.shaped_plan`), for each set of names and the rights of each role.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svc.auth.roles import ALL_RIGHTS, OPENED
from svc.auth.users import user_of
from svc.errors import Problem
from svc.graphql.conditions import Path, argument_values, table_conditions
from svc.graphql.faults import with_location
from svc.graphql.list_options import list_query
from svc.graphql.names import Names
from svc.graphql.selection import Field
from svc.graphql.selects import Selects, has_arguments, named
from svc.messages import Request
from svc.query import plan_query
from svc.query.authorization import check_select, narrow_query
from svc.query.compiled_plan import prepare_select
from svc.query.definition_cache import Definitions
from svc.query.nodes import Comparator, Condition, Filter, Group, Query, Select
from svc.query.plan import Plan
from svc.query.shaped_plan import UNRESTRICTED, Reader, ShapedPlan, rights_of
from svc.query.shapes import Slot
from svc.query.tables import AnyTable, is_volatile
from svc.resources import PlannedQuery, RequestTarget, TableResource


class _FieldPlan:
    """What is kept of a field: `select` None if it depends on variables. `names`: the state of the names of types that it was made with. `plans`: by the
    paths of the conditions, the rights, and the table as the caller may see it."""

    __slots__ = ("_definitions", "_names", "plans", "resource", "select")

    def __init__(self, resource: type[TableResource], select: Select | None, names: tuple[int, ...]) -> None:
        self.resource = resource
        self.select = select
        self._names = names
        self._definitions = Definitions(resource.table)
        self.plans: dict[tuple[tuple[Path, ...], int, int], ShapedPlan | _WholePlan] = {}

    def holds(self, table: AnyTable, names: tuple[int, ...]) -> bool:
        """Whether definitions and names are still the same."""
        return self._names == names and self._definitions.hold(table)


class _WholePlan:
    """The query of all records, for the rights of one role, of one view of the table."""

    __slots__ = ("_query", "_rights", "_seen")

    def __init__(self, query: Query, table: AnyTable, seen: AnyTable, reader: Reader) -> None:
        self._query = query if reader is UNRESTRICTED else narrow_query(query, table, reader)
        self._rights, self._seen = rights_of(reader, table), seen  # whose ids it is found by

    def plan(self, values: list[Any], table: AnyTable, txn: object) -> Plan:
        return plan_query(self._query, table, txn)


def kept_plan(
    field: Field, resource: type[TableResource], argument: str, target: RequestTarget, request: Request, names: Names, seen: AnyTable
) -> ShapedPlan | None:
    """The plan of a field whose only condition is that of `argument`, if one is kept for the rights of the caller and still holds. `seen`: see `seen_by`."""
    kept: _FieldPlan | None = field.plans.get(resource)
    table = resource.table
    if kept is None or not kept.holds(table, names.state):
        return None
    rights = UNRESTRICTED if target.rights is ALL_RIGHTS else rights_of(user_of(request), table)
    plan = kept.plans.get((((argument,),), id(rights), id(seen)))
    return plan if type(plan) is ShapedPlan else None


def seen_by(resource: type[TableResource], target: RequestTarget, request: Request) -> AnyTable:
    """The table as the caller may see it, by `target.rights`: what is planned for."""
    return resource.table if target.rights is ALL_RIGHTS else resource.seen_by(request)


class TableFields:
    """Plans the fields of one run. `variables`: of the operation."""

    def __init__(self, request: Request, names: Names, variables: Mapping[str, Any], *, extended: bool) -> None:
        self._request = request
        self._names = names
        self._variables = variables
        self._extended = extended

    def admitted(self, field: Field, resource: type[TableResource]) -> RequestTarget:
        """The list that a field reads, with the rights of the caller. Raises Problem, with the place of the field."""
        target = RequestTarget()
        target.is_collection = True
        try:
            resource.authorize("get", target, None, self._request)
        except Problem as problem:
            raise with_location(problem, field.node) from None
        return target

    def prepare(self, field: Field, resource: type[TableResource], target: RequestTarget, seen: AnyTable) -> None:
        """Make what does not depend on data, for a selection of very many fields. Called on a helper thread: what it makes is found in caches then. Raises
        Problem, with the place of the field."""
        try:
            select = self._kept(field, resource, target).select
            if select is not None:
                prepare_select(select, seen)
        except Problem as problem:
            raise with_location(problem, field.node) from None

    def planned(self, field: Field, resource: type[TableResource], target: RequestTarget, txn: Any) -> PlannedQuery:
        """The rows of a field; they are selected as its answer has them. Raises Problem, with the place of the field."""
        try:
            return self._planned(field, resource, target, txn)
        except Problem as problem:
            raise with_location(problem, field.node) from None

    def check(self, field: Field, resource: type[TableResource]) -> None:
        """Refuse a field that selects by name what the caller may not read, for code of an application would leave it out. Raises Problem."""
        target = RequestTarget()
        target.is_collection = True
        resource.authorize("query", target, None, self._request)
        self._check(self._select(field, resource, target), resource, target)

    def _check(self, select: Select, resource: type[TableResource], target: RequestTarget) -> None:
        if target.rights is not ALL_RIGHTS:
            check_select(select, resource.table, user_of(self._request), resource.table if target.rights is OPENED else None)

    def query(self, field: Field, resource: type[TableResource], target: RequestTarget) -> Query:
        """The query of a field, for what plans queries itself. Raises Problem."""
        values, options = argument_values(field.arguments, self._variables, extended=self._extended)
        paths, found = table_conditions(values, resource.table)
        select = self.checked_select(field, resource, target)
        where = conditions(paths, found)
        if not options:
            return Query(where, select)
        given = list_query(options, resource.table, resource.queries)
        members = tuple([each for each in (where, given.where) if each is not None])
        where = Group("and", members) if len(members) > 1 else members[0] if members else None
        return Query(where, select, given.sort, given.offset, given.limit, after=given.after)

    def checked_select(self, field: Field, resource: type[TableResource], target: RequestTarget) -> Select:
        """What a field selects. Refuses what the caller may not read, by `target.rights`. Raises Problem."""
        select = self._kept(field, resource, target).select or self._select(field, resource, target)
        self._check(select, resource, target)
        return select

    def record(self, field: Field, resource: type[TableResource], key: Any, txn: Any) -> PlannedQuery:
        """One record, selected as the field says. Raises Problem."""
        table = resource.table
        target = RequestTarget()
        resource.authorize("get", target, None, self._request)
        select = self.checked_select(field, resource, target)
        query = Query(Condition((table.primary_key,), Comparator.EQUALS, key), select, limit=1)
        if target.rights is not ALL_RIGHTS:
            query = narrow_query(query, table, user_of(self._request))
        return PlannedQuery(table, plan_query(query, seen_by(resource, target, self._request), txn), target.rights.readable)

    def _planned(self, field: Field, resource: type[TableResource], target: RequestTarget, txn: Any) -> PlannedQuery:
        request, table = self._request, resource.table
        values, options = argument_values(field.arguments, self._variables, extended=self._extended)
        visible, seen = target.rights.readable, seen_by(resource, target, request)
        if options:
            query = self.query(field, resource, target)
            if target.rights is not ALL_RIGHTS:
                query = narrow_query(query, table, user_of(request))
            return PlannedQuery(table, plan_query(query, seen, txn, allow_full_scan=resource.allow_full_scan), visible)
        paths, found = table_conditions(values, table)
        reader: Reader = UNRESTRICTED if target.rights is ALL_RIGHTS else user_of(request)
        kept = self._kept(field, resource, target)
        # The definitions are those of `kept`, and a plan keeps the rights and the view that it was made for, so no others have their ids.
        place = (tuple(paths), id(rights_of(reader, table)), id(seen))
        plan = kept.plans.get(place)
        if plan is None:
            select = kept.select or self._select(field, resource, target)
            if reader is not UNRESTRICTED:
                check_select(select, table, reader)
            plan = _new_plan(paths, select, resource, seen, reader)
            if kept.select is not None and not is_volatile(seen):
                if len(kept.plans) >= field.most_plans:
                    kept.plans.clear()
                kept.plans[place] = plan
        return PlannedQuery(table, plan.plan(found, seen, txn), visible)

    def _kept(self, field: Field, resource: type[TableResource], target: RequestTarget) -> _FieldPlan:
        kept: _FieldPlan | None = field.plans.get(resource)
        names = self._names.state
        if kept is None or not kept.holds(resource.table, names):
            field.plans.clear()
            select = None if has_arguments(field.nested) else self._select(field, resource, target)
            kept = field.plans[resource] = _FieldPlan(resource, select, names)
        return kept

    def _select(self, field: Field, resource: type[TableResource], target: RequestTarget) -> Select:
        """What is selected, for a caller with `target.rights`: who may not read all that is named is told nothing else about it. Raises Problem."""
        assert field.nested is not None
        try:
            return Selects(self._names.type_name, self._variables, resource.queries, extended=self._extended).of_table(
                field.nested, resource.table
            )
        except Problem:
            self._check(named(field.nested, resource.table), resource, target)
            raise


def _new_plan(paths: list[Path], select: Select, resource: type[TableResource], seen: AnyTable, reader: Reader) -> ShapedPlan | _WholePlan:
    if not paths:
        return _WholePlan(Query(select=select), resource.table, seen, reader)
    template = Query(conditions(paths, [Slot(index) for index in range(len(paths))]), select)
    return ShapedPlan(template, seen, reader, resource.allow_full_scan)


def conditions(paths: list[Path], values: list[Any]) -> Filter | None:
    """All of them hold."""
    members = tuple([Condition(path, Comparator.EQUALS, value) for path, value in zip(paths, values, strict=True)])
    return None if not members else members[0] if len(members) == 1 else Group("and", members)
