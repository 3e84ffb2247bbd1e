"""get_analytics, list_metrics, describe_metric (spec: operations §14, analytics §8)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from svc.errors import Problem
from svc.operations.metric_names import metric_names_of
from svc.resources import Resource
from svc.store import Table
from svc.store.schema import Attribute, TableDefinition
from tests.support.operations import OperationsNode

T = 1767600000000
BUILTIN = ["table-size", "database-size", "storage-volume", "main-thread-utilization", "resource-usage", "utilization"]


def add(node: OperationsNode, *rows: dict[str, Any]) -> None:
    table = node.store.databases["system"].tables["svc_analytics"]
    transaction = node.store.begin()
    for row in rows:
        transaction.put(table, row["id"], {"id": row["id"], "time": int(row["id"]), "period": 60000, "node": "here", **row})
    transaction.apply()
    node.store.commit_turn()


@pytest.fixture
def node(tmp_path):
    with OperationsNode(tmp_path) as made:
        for minute in range(5):
            moment = T + minute * 60000
            add(
                made,
                {"id": moment, "metric": "duration", "path": "Plant", "method": "GET", "mean": minute, "count": 3},
                {
                    "id": moment + 0.5,
                    "metric": "duration",
                    "path": "search_by_id",
                    "method": "operation",
                    "mean": 10.5 * minute,
                    "count": 1,
                },
                {"id": moment + 1, "metric": "table-size", "database": "garden", "table": "plant", "size": 8192},
            )
        yield made


def analytics(node: OperationsNode, metric: str = "duration", **fields: Any) -> list[Any]:
    return node.run("get_analytics", metric=metric, **fields)


def refused(node: OperationsNode, operation: str, **fields: Any) -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        node.run(operation, **fields)
    return caught.value.status_code, caught.value.message


def test_rows_of_a_metric_from_one_time_to_before_another(node):
    found = analytics(node, start_time=T + 60000, end_time=T + 120000.5)
    assert [row["id"] - T for row in found] == [60000, 60000.5, 120000]
    first = {"id": T + 60000, "time": T + 60000, "period": 60000, "node": "here"}
    assert found[0] == {**first, "metric": "duration", "path": "Plant", "method": "GET", "mean": 1, "count": 3}
    assert [row["id"] - T for row in analytics(node, start_time=T + 240000)] == [240000, 240000.5]
    assert [row["id"] - T for row in analytics(node, end_time=T + 1)] == [0, 0.5]
    assert len(analytics(node)) == 10
    assert analytics(node, "nothing") == []


def test_the_key_is_always_selected(node):
    assert analytics(node, get_attributes=["path", "mean", "p95"], end_time=T + 0.5) == [{"id": T, "path": "Plant", "mean": 0, "p95": None}]
    assert list(analytics(node, get_attributes=["mean", "id"], end_time=T + 0.5)[0]) == ["mean", "id"]
    assert analytics(node, select=["node"], end_time=T + 0.5) == [{"id": T, "node": "here"}]
    assert len(analytics(node, get_attributes=["*"], end_time=T + 0.5)[0]) == 9


@pytest.mark.parametrize("member", ["comparator", "operator", "search_type"])
def test_conditions_may_call_their_comparator_operator(node, member):
    conditions = [{"attribute": "mean", member: "greater_than", "value": 20}, {"attribute": "method", "value": "operation"}]
    assert [row["mean"] for row in analytics(node, conditions=conditions)] == [21, 31.5, 42]


def test_groups_in_conditions(node):
    group = {
        "operator": "or",
        "conditions": [{"attribute": "mean", "operator": "lt", "value": 1}, {"attribute": "count", "operator": "==", "value": 1}],
    }
    assert len(analytics(node, conditions=[group])) == 6


def test_conditions_on_what_only_some_metrics_have(node):
    assert len(analytics(node, "table-size", conditions=[{"attribute": "size", "comparator": "ge", "value": 1}])) == 5
    assert analytics(node, conditions=[{"attribute": "size", "comparator": "ge", "value": 1}]) == []


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "'metric' is required"),
        ({"metric": 5}, "'metric' must be a string"),
        ({"metric": "a", "start_time": "x"}, "'start_time' must be a number"),
        ({"metric": "a", "end_time": float("nan")}, "'end_time' must be a number"),
        ({"metric": "a", "conditions": {}}, "'conditions' must be an array"),
        ({"metric": "a", "conditions": [5]}, "'conditions[0]' must be an object"),
        ({"metric": "a", "get_attributes": "id"}, "'get_attributes' must be an array"),
        ({"metric": "a", "get_attributes": [{}]}, "'get_attributes[0].name' is required"),
    ],
)
def test_faulty_requests(node, fields, text):
    assert refused(node, "get_analytics", **fields) == (400, text)


def test_built_in_metrics_are_listed_whether_they_have_rows_or_not(node):
    assert node.run("list_metrics") == BUILTIN
    assert node.run("list_metrics", metric_types=["builtin"]) == BUILTIN


def test_custom_metrics_are_those_with_rows(node):
    assert node.run("list_metrics", metric_types=["custom"]) == ["duration"]
    add(node, {"id": T + 10**6, "metric": "pricing-time", "mean": 1}, {"id": T + 10**6 + 1, "metric": "a"})
    assert node.run("list_metrics", metric_types=["custom"]) == ["a", "duration", "pricing-time"]
    assert node.run("list_metrics", metric_types=["custom", "builtin"]) == [*BUILTIN, "a", "duration", "pricing-time"]
    assert node.run("list_metrics", metric_types=[]) == []


def test_names_without_rows_are_forgotten(node):
    assert node.run("list_metrics", metric_types=["custom"]) == ["duration"]
    add(node, {"id": T + 10**6, "metric": "newer"})
    table = node.store.databases["system"].tables["svc_analytics"]
    transaction = node.store.begin()
    for row in analytics(node):
        transaction.delete(table, row["id"])
    for row in analytics(node, "table-size"):
        transaction.delete(table, row["id"])
    transaction.apply()
    node.store.commit_turn()
    assert node.run("list_metrics", metric_types=["custom"]) == ["newer"]
    assert node.run("describe_metric", metric="duration") == {}


@pytest.mark.parametrize("value", ["custom", ["other"], [5], {}])
def test_faulty_types_of_metrics(node, value):
    status, text = refused(node, "list_metrics", metric_types=value)
    assert status == 400 and text.startswith("'metric_types' must be")


def test_rows_are_read_once(node, monkeypatch):
    node.run("list_metrics", metric_types=["custom"])
    read: list[Any] = []
    scan = Table.scan

    def counted(self: Table, *arguments: Any, **options: Any) -> Any:
        for item in scan(self, *arguments, **options):
            read.append(item)
            yield item

    monkeypatch.setattr(Table, "scan", counted)
    add(node, {"id": T + 10**6, "metric": "newer"})
    assert node.run("list_metrics", metric_types=["custom"]) == ["duration", "newer"]
    assert len(read) == 1  # the first, to see whether rows have been removed


def test_rows_of_other_nodes_count_though_their_ids_are_lower(node):
    """They come when they come; and the clock of a node may be ahead."""
    assert node.run("list_metrics", metric_types=["custom"]) == ["duration"]
    add(node, {"id": T + 4e10, "metric": "ahead", "node": "there"}, {"id": T + 5, "metric": "late", "node": "there"})
    assert node.run("list_metrics", metric_types=["custom"]) == ["ahead", "duration", "late"]
    add(node, {"id": T + 10, "metric": "ahead", "flag": True, "node": "there"})
    names = [each["name"] for each in node.run("describe_metric", metric="ahead")["attributes"]]
    assert "flag" not in names, "the newest row is that with the highest id"


@pytest.mark.parametrize("lost", ["the beginning of the log", "an entry"])
def test_all_rows_are_read_again_when_the_log_has_lost_some(node, lost):
    assert node.run("list_metrics", metric_types=["custom"]) == ["duration"]
    database = node.store.databases["system"]
    read = database.log.newest_lsn(database.snapshot())
    add(node, {"id": T + 5, "metric": "late"}, {"id": T + 6, "metric": "later"})
    writes = database.writer()
    if lost == "an entry":
        database.log.remove(writes, [read + 1])
    else:
        database.log.prune(writes, 4e12, 1000)
    database.env.touch()
    node.store.commit_turn()
    assert node.run("list_metrics", metric_types=["custom"]) == ["duration", "late", "later"]


def test_many_rows_are_read_in_slices_by_several_at_once(node):
    add(node, *[{"id": T + 10**6 + n, "metric": f"m{n % 7}"} for n in range(1000)])

    async def both() -> list[Any]:
        names = metric_names_of(node.store)
        table = node.store.databases["system"].tables["svc_analytics"]
        return await asyncio.gather(names.catch_up(table), names.catch_up(table))

    first, second = node.wait(both)
    assert first == second and len(first) == 9


def test_a_metric_is_described_by_its_newest_row(node):
    add(node, {"id": T + 10**6, "metric": "duration", "path": "a", "mean": 1.5, "flag": True, "deep": {"a": 1}, "list": [1]})
    assert node.run("describe_metric", metric="duration") == {
        "attributes": [
            {"name": "node", "type": "string"},
            {"name": "id", "type": "number"},
            {"name": "time", "type": "number"},
            {"name": "period", "type": "number"},
            {"name": "metric", "type": "string"},
            {"name": "path", "type": "string"},
            {"name": "mean", "type": "number"},
            {"name": "flag", "type": "boolean"},
            {"name": "deep", "type": "object"},
            {"name": "list", "type": "object"},
        ]
    }
    assert node.run("describe_metric", metric="nothing") == {}
    assert refused(node, "describe_metric") == (400, "'metric' is required")


@pytest.mark.parametrize("operation", ["get_analytics", "list_metrics", "describe_metric"])
def test_analytics_are_for_super_users_and_may_be_granted(node, operation):
    ann = node.user("ann", {"super_user": False})
    with pytest.raises(Problem) as caught:
        node.run(operation, ann, metric="table-size")
    assert caught.value.status_code == 403
    bob = node.user("bob", {"super_user": False, "operations": ["read_only"]})
    assert node.run(operation, bob, metric="duration" if operation == "get_analytics" else "table-size")


def test_rows_name_only_tables_that_the_caller_may_see(node):
    for name in ("plant", "payroll"):
        node.store.open_database("garden").define_table(TableDefinition(name, attributes=(Attribute("id", primary_key=True),)))
        node.node.resources.set(name.title(), type(name, (Resource,), {"table": node.store.databases["garden"].tables[name]}))
    add(
        node,
        {"id": T + 2, "metric": "table-size", "database": "garden", "table": "payroll", "size": 1},
        {"id": T + 3, "metric": "database-size", "database": "garden"},
        {"id": T + 4, "metric": "database-size", "database": "vault"},
        {"id": T + 5, "metric": "cache-hit", "path": "plant"},
        {"id": T + 6, "metric": "cache-hit", "path": "payroll"},
        {"id": T + 7, "metric": "duration", "path": "Payroll", "method": "GET"},
    )
    nothing = node.user("ann", {"operations": ["get_analytics"]})
    rights = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}
    some = node.user("bob", {"operations": ["get_analytics"], "garden": {"tables": {"plant": rights}}})

    def names(user: Any, metric: str) -> set[Any]:
        rows = node.run("get_analytics", user, metric=metric)
        return {row.get("table") or row.get("database") or row.get("path") for row in rows}

    assert [names(nothing, metric) for metric in ("table-size", "database-size", "cache-hit")] == [set(), set(), set()]
    assert names(nothing, "duration") == {"search_by_id"}
    assert [names(some, metric) for metric in ("table-size", "database-size", "cache-hit")] == [{"plant"}, {"garden"}, {"plant"}]
    assert names(some, "duration") == {"search_by_id", "Plant"}
    assert names(node.admin, "table-size") == {"plant", "payroll"} and names(node.admin, "database-size") == {"garden", "vault"}
