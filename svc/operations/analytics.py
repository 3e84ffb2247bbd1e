"""Reading the aggregated analytics (spec: operations §14, analytics §8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from svc.operations.call import Call
from svc.operations.fields import GET_ATTRIBUTES, Field
from svc.operations.metric_names import analytics_table, metric_names_of
from svc.operations.operation import SUPER_USER, Operation
from svc.operations.searches import CONDITIONS
from svc.operations.searching import reader_for, rows_of
from svc.operations.visible_names import VisibleNames
from svc.query import plan_query
from svc.query.nodes import Comparator, Condition, Filter, Group, Select, SelectItem
from svc.resources import PlannedQuery
from svc.store.values.records import decode

BUILTIN = ("table-size", "database-size", "storage-volume", "main-thread-utilization", "resource-usage", "utilization")
_KINDS = ("builtin", "custom")
_ID = SelectItem(("id",))


def get_analytics(call: Call) -> PlannedQuery:
    began = call.node.clock.monotonic()
    table = analytics_table(call.node.store)
    query = reader_for(call, table, leaf_operator=True).query(call["conditions"], None, call["get_attributes"])
    members: list[Filter] = []
    for name, comparator in (("start_time", Comparator.GREATER_THAN_EQUAL), ("end_time", Comparator.LESS_THAN)):
        if call[name] is not None:
            members.append(Condition(("id",), comparator, call[name]))
    members.append(Condition(("metric",), Comparator.EQUALS, call["metric"]))
    if not call.is_super_user:
        visible = VisibleNames(call.node, call.user).condition(call["metric"])
        if visible is not None:
            members.append(visible)
    if query.where is not None:
        members.append(query.where)
    select = query.select
    if select is not None and not {_ID, SelectItem(("$id",)), SelectItem(("*",))}.intersection(select.items):
        select = Select((_ID, *select.items), nulls=True)
    query = replace(query, where=Group("and", tuple(members)), select=select)
    plan = plan_query(query, call.node.searches.view(table), table.database.snapshot(), allow_full_scan=True)
    return rows_of(call, table, plan, None, began)


async def list_metrics(call: Call) -> list[str]:
    kinds = call["metric_types"]
    found: list[str] = []
    if "builtin" in kinds:
        found += BUILTIN
    if "custom" in kinds:
        names = await metric_names_of(call.node.store).catch_up(analytics_table(call.node.store))
        found += sorted(set(names).difference(BUILTIN))
    return found


async def describe_metric(call: Call) -> dict[str, Any]:
    table = analytics_table(call.node.store)
    newest = (await metric_names_of(call.node.store).catch_up(table)).get(call["metric"])
    raw = None if newest is None else table.get_by(newest, table.database.snapshot())
    if raw is None:
        return {}
    row = {"node": call.node.name, **decode(raw)}
    return {"attributes": [{"name": name, "type": type_name(value)} for name, value in row.items()]}


def type_name(value: object) -> str:
    """What a client calls the type of a value.

    >>> type_name("a"), type_name(1.5), type_name(True), type_name([1]), type_name(None)
    ('string', 'number', 'boolean', 'object', 'object')
    """
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "object"


def _metric_types(value: Any, field: Field) -> str | None:
    return None if all(name in _KINDS for name in value) else f"must be one of [{', '.join(_KINDS)}]"


METRIC = Field("metric", "string", "Name of the metric.", required=True)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="get_analytics",
        category="analytics",
        summary="Read the aggregated rows of a metric",
        permission=SUPER_USER,
        handler=get_analytics,
        fields=(
            METRIC,
            Field("start_time", "number", "First `id`, in ms."),
            Field("end_time", "number", "`id` in ms before which the last row is."),
            GET_ATTRIBUTES,
            CONDITIONS,
        ),
        returns="Rows of `system.svc_analytics`, ascending by `id`, which is always among their attributes.",
        notes="A caller that is not a super user gets no rows that name tables on which it has no right. With `analytics.replicate` there are rows of several"
        " nodes: `node` says whose one is, and a condition on it selects.\n\n"
        "Conditions may name what only some metrics have, and call their comparator `operator`. The metrics and their fields are described in analytics.",
        example={
            "metric": "duration",
            "start_time": 1767600000000,
            "end_time": 1767603600000,
            "get_attributes": ["path", "mean", "p95"],
            "conditions": [{"attribute": "method", "operator": "equals", "value": "operation"}],
        },
        example_answer=[{"id": 1767600060000, "path": "search_by_id", "mean": 0.8, "p95": 2.1}],
    ),
    Operation(
        name="list_metrics",
        category="analytics",
        summary="List the names of metrics",
        permission=SUPER_USER,
        handler=list_metrics,
        fields=(Field("metric_types", "strings", "Any of `builtin` and `custom`.", default=["builtin"], check=_metric_types),),
        returns="Names: the built-in ones, and as `custom` all others that have rows.",
        example={"metric_types": ["builtin"]},
        example_answer=list(BUILTIN),
    ),
    Operation(
        name="describe_metric",
        category="analytics",
        summary="Describe the fields of a metric",
        permission=SUPER_USER,
        handler=describe_metric,
        fields=(METRIC,),
        returns="`attributes`, each with `name` and `type`, of the newest row; `{}` for a metric without rows.",
        example={"metric": "table-size"},
        example_answer={
            "attributes": [
                {"name": "node", "type": "string"},
                {"name": "id", "type": "number"},
                {"name": "time", "type": "number"},
                {"name": "metric", "type": "string"},
                {"name": "database", "type": "string"},
                {"name": "table", "type": "string"},
                {"name": "size", "type": "number"},
            ]
        },
    ),
)
