"""svc.query.lasting_run: an execution whose snapshot is given up at any step goes on with the current data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.errors import SnapshotLost
from svc.query import execute, parse_query, plan_query
from svc.query.lasting_run import LastingRun
from svc.store import Store, Table
from svc.store.values.records import decode
from svc.store.writing.bulk_write import load_records
from tests.support.shop import brand_definition, product_definition
from tests.support.snapshots import give_up_snapshots, reader_slots

COUNT = 700


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Table]]:
    path: Path = tmp_path_factory.mktemp("shop")
    store = Store(path)
    database = store.open_database("data")
    brands = [{"id": f"b{n}", "name": f"brand {n}", "country": "DE"} for n in range(40)]
    products = [{"id": f"p{n:04}", "name": f"n{n % 7}", "price": n % 90, "stock": n, "brandId": f"b{n % 40}"} for n in range(COUNT)]
    for definition, records in ((brand_definition(), brands), (product_definition(), products)):
        for _ in load_records(database.define_table(definition), records, validate=False):
            pass
    yield store, database.tables["Product"]
    store.close()


def found(shop: tuple[Store, Table], text: str, every: int) -> list[Any]:
    """The rows of a query whose snapshot is given up after so many steps, again and again; 0: never."""
    store, table = shop
    database = table.database
    store.end_turn()
    before = reader_slots(database.env)
    plan = plan_query(parse_query(text, table.attributes.__contains__), table, database.snapshot(), allow_full_scan=True)
    run = execute(plan, database.snapshot())
    lasting = LastingRun(run, database, lambda: "a test")
    rows: list[Any] = []
    steps = 0
    try:
        while not run.done:
            lasting.use()
            rows += run.step(64)
            steps += 1
            store.end_turn()
            if every and not steps % every and steps < 3.5 * every:
                give_up_snapshots(store)
                assert reader_slots(database.env) <= before, "nothing refers to it"
            assert steps < 100_000
    finally:
        run.close()
        lasting.close()
    assert len(store.snapshots) == 0
    return [decode(row) if type(row) is bytes else row for row in rows]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "price>20",
        "price>20&sort(-price)",
        "price>20&stock<600&select(id,brand{name})",
        "brand.name=brand%207&select(id)",
        "brand.name==brand*&price>20&select(id,brand{name})",
        "sort(stock)",
        "stock>3&sort(brand.name)",
        "sort(-stock)&limit(3,500)",
        "count()",
        "brand.name==brand*&count()",
        "facet(name)",
        "group(brandId;count,sum(price))",
    ],
)
def test_it_finds_the_same(shop: tuple[Store, Table], text: str) -> None:
    """`every` steps: enough for each time to get on."""
    expected = found(shop, text, 0)
    assert expected
    for every in (20, 33):
        assert found(shop, text, every) == expected


def test_it_is_lost_where_nothing_has_an_order(shop: tuple[Store, Table]) -> None:
    with pytest.raises(SnapshotLost, match="Very many results"):
        found(shop, "price>20|name=n1", 1)


def test_it_is_lost_where_the_number_of_rows_was_told(shop: tuple[Store, Table]) -> None:
    store, table = shop
    run = execute(plan_query(parse_query("", table.attributes.__contains__), table, None, allow_full_scan=True), table.database.snapshot())
    lasting = LastingRun(run, table.database, lambda: "a test")
    lasting.is_fixed = True
    give_up_snapshots(store)
    with pytest.raises(SnapshotLost):
        lasting.use()
    run.close()
    lasting.close()


def test_steps_are_taken_on_the_snapshot_that_there_is(shop: tuple[Store, Table]) -> None:
    store, table = shop
    run = execute(plan_query(parse_query("", table.attributes.__contains__), table, None, allow_full_scan=True), table.database.snapshot())
    lasting = LastingRun(run, table.database, lambda: "a test")
    keys: list[bytes] = []

    def collect() -> Iterator[None]:
        while not run.done:
            keys.extend(stored for stored, _ in run.step_pairs(50))
            yield

    for number, _ in enumerate(lasting.steps(collect())):
        if number % 5 == 2:
            give_up_snapshots(store)
    assert len(set(keys)) == len(keys) == COUNT and lasting.has_moved
    lasting.close()
