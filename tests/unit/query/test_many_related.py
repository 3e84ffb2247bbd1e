"""One record that relates very many: every step deals with a bounded number of them, and what they leave is freed in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc import freeing
from svc.query import execute, parse_query, plan_query
from svc.query.aggregate import AggregateRows
from svc.query.steps import STEP, distinct, exhaust, of_parts
from svc.store import Store, Table
from svc.store.writing.bulk_write import load_records
from tests.support.shop import brand_definition, product_definition

COUNT = 6000


@pytest.fixture(scope="module")
def brands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    path: Path = tmp_path_factory.mktemp("many")
    store = Store(path)
    database = store.open_database("data")
    products = [{"id": f"p{n:05}", "name": f"n{n % 7}", "price": n % 90, "brandId": "b1"} for n in range(COUNT)]
    for definition, records in ((brand_definition(), [{"id": "b1", "name": "one"}]), (product_definition(), products)):
        for _ in load_records(database.define_table(definition), records, validate=False):
            pass
    yield database.tables["Brand"]
    store.close()


@pytest.fixture
def freed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the containers that are given to be freed."""
    lengths: list[int] = []

    def note(container: Any) -> None:
        if len(container) > freeing.AT_ONCE:
            lengths.append(len(container))

    for name in ("steps", "select", "functions", "followers", "relations", "sorting", "sources", "grouping"):
        monkeypatch.setattr(f"svc.query.{name}.free_later", note)
    return lengths


def steps_of(table: Table, text: str) -> tuple[list[Any], int, Any]:
    """The rows, the number of steps, and the execution."""
    snapshot = table.database.snapshot()
    run = execute(plan_query(parse_query(text, table.attributes.__contains__), table, snapshot, allow_full_scan=True), snapshot, json=True)
    rows: list[Any] = []
    steps = 0
    while not run.done:
        rows += run.step(64)
        steps += 1
    return rows, steps, run


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("select(id,products{id})", COUNT),
        ("select(id,products[price=ge=45&select(id)])", COUNT // 2 - 15),
        ("select(id,products[sort(-price)&select(id)])", COUNT),
        ("select(id,products[sort(name)&limit(5)&select(id)])", 5),
    ],
)
def test_a_list_of_very_many_is_made_in_steps(brands: Table, freed: list[int], text: str, shown: int) -> None:
    rows, steps, run = steps_of(brands, text)
    assert len(rows) == 1 and len(rows[0]["products"]) == shown
    assert steps > COUNT // STEP * 2, "it is found and shaped in many steps"
    assert COUNT in freed
    run.close()
    assert len(rows[0]["products"]) == shown, "what was returned stays"


def test_a_sort_that_is_abandoned_is_freed_in_pieces(brands: Table, freed: list[int]) -> None:
    products = brands.database.tables["Product"]
    snapshot = products.database.snapshot()
    run = execute(plan_query(parse_query("price=ge=0&sort(-stock)", products.attributes.__contains__), products, snapshot), snapshot)
    while not run.step(10):
        assert not run.done
    run.close()
    assert sum(freed) > COUNT // 4


def test_groups_are_freed_in_pieces(brands: Table, freed: list[int]) -> None:
    products = brands.database.tables["Product"]
    snapshot = products.database.snapshot()
    plan = plan_query(parse_query("group(id;count,sum(price))", products.attributes.__contains__), products, snapshot, allow_full_scan=True)
    run = AggregateRows(plan, snapshot)
    for _ in range(COUNT // 1024 + 2):
        run.step(10)
    run.close()
    assert sum(freed) > COUNT // 2


def test_distinct_gives_each_key_once_in_parts() -> None:
    lists = [[(b"%06d" % n, n) for n in range(3000)], [(b"%06d" % n, n) for n in range(2000, 4000)], []]
    parts = list(distinct(lists, 100))
    assert [number for part in parts for _, number in part] == list(range(4000))
    assert max(map(len, parts)) < 200
    assert list(distinct([[], []])) == [] and list(distinct([[(b"a", 1)], [(b"a", 1)]])) == [[(b"a", 1)]]


def test_parts_are_joined_with_pauses() -> None:
    lists = [list(range(5000)), [], [1, 2]]
    steps = of_parts(lists, lambda part: [number + 1 for number in part])
    assert sum(1 for _ in steps) >= 3
    assert exhaust(of_parts([[1], [], [2, 3]], lambda part: [str(number) for number in part])) == [["1"], [], ["2", "3"]]
