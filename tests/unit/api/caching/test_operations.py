"""Operations on a table with a source: searches load what they find, writes go to the source first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from svc.api.caching import TableCache
from svc.api.caching.sources import Source
from svc.errors import Problem
from svc.store.expiry_index import ExpiryTimes
from svc.store.schema import Attribute, TableDefinition
from tests.support.operations import OperationsNode

RATE = TableDefinition(
    "Rate",
    attributes=(Attribute("id", "ID", primary_key=True), Attribute("value", "Int"), Attribute("name", "String", indexed=True)),
    expiration=60.0,
)


class Origin:
    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self.said: list[Any] = []

    async def get(self, id: str, context: Any) -> Any:
        self.said.append(("get", id))
        return self.kept.get(id)

    async def put(self, id: str, data: Any, context: Any) -> None:
        if data["value"] == 13:
            raise ValueError
        self.said.append(("put", id, data))
        self.kept[id] = data

    def delete(self, id: str, context: Any) -> None:
        self.said.append(("delete", id))


def test_operations(tmp_path: Path) -> None:
    with OperationsNode(tmp_path) as node:
        table = node.store.open_database("data").define_table(RATE)
        origin = Origin()
        cache = TableCache(table, node.store, node.loop)
        cache.add(Source(origin), None, ExpiryTimes())
        origin.kept = {"a": {"value": 1, "name": "x"}, "b": {"value": 2, "name": "x"}}
        on = {"database": "data", "table": "Rate"}
        assert node.run("search_by_id", ids=["a", "none", "b"], get_attributes=["*"], **on) == [
            {"id": "a", "value": 1, "name": "x"},
            {"id": "b", "value": 2, "name": "x"},
        ]
        assert origin.said == [("get", "a"), ("get", "none"), ("get", "b")]
        origin.said.clear()
        node.clock.advance(100)
        origin.kept["a"] = {"value": 5, "name": "x"}
        assert node.run("search_by_value", attribute="name", value="x", get_attributes=["value"], **on) == [{"value": 5}, {"value": 2}]
        conditions = [{"attribute": "name", "comparator": "equals", "value": "x"}]
        assert len(node.run("search_by_conditions", conditions=conditions, get_attributes=["*"], **on)) == 2
        assert sorted(origin.said) == [("get", "a"), ("get", "b")]
        origin.said.clear()
        assert node.run("insert", records=[{"id": "c", "value": 3}, {"id": "a", "value": 9}], **on)["skipped_hashes"] == ["a"]
        assert origin.said == [("put", "c", {"value": 3, "id": "c"})]
        origin.said.clear()
        node.run("update", records=[{"id": "c", "value": 4}, {"id": "nothing", "value": 9}], **on)
        assert origin.said == [("put", "c", {"value": 4, "id": "c"}), ("get", "nothing")]
        origin.said.clear()
        node.run("upsert", records=[{"id": "c", "name": "y"}], **on)
        node.run("delete", ids=["c"], **on)
        assert origin.said == [("put", "c", {"value": 4, "id": "c", "name": "y"}), ("delete", "c")]
        with pytest.raises(Problem, match="cannot be written"):
            node.run("insert", records=[{"id": "d", "value": 4}, {"id": "e", "value": 13}], **on)
        assert table.get_raw("d") is None and table.get_raw("e") is None
        node.store.check()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "search", [{"operation": "search_by_id", "ids": ["a", "b"]}, {"operation": "search_by_value", "attribute": "name", "value": "x"}]
)
def test_an_export_loads_each_record_once(tmp_path: Path, search: dict[str, Any]) -> None:
    with OperationsNode(tmp_path) as node:
        table = node.store.open_database("data").define_table(RATE)
        origin = Origin()
        cache = TableCache(table, node.store, node.loop)
        cache.add(Source(origin), None, ExpiryTimes())
        on = {"database": "data", "table": "Rate", "get_attributes": ["*"]}
        origin.kept = {"a": {"value": 1, "name": "x"}, "b": {"value": 2, "name": "x"}}
        node.run("search_by_id", ids=["a", "b"], **on)
        node.clock.advance(100)
        origin.said.clear()
        origin.kept["a"]["value"] = 3
        started = node.run("export_local", format="json", path=str(tmp_path), filename="rates", search_operation={**search, **on})

        async def ended() -> None:
            job = node.node.jobs._jobs[started["job_id"]]
            assert job.task is not None
            await job.task

        node.wait(ended)
        assert [row["value"] for row in json.loads((tmp_path / "rates.json").read_text())] == [3, 2]
        assert sorted(origin.said) == [("get", "a"), ("get", "b")]
