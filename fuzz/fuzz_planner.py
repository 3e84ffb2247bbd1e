"""The planner and the executor: whatever the schema, the data, the query and the figures, the result is that of brute force.

An input is the seed of a case (`tests/support/plans.py`): two tables whose indexes and records are drawn, and some queries of each kind over
them, each planned with figures that have nothing to do with the data, so that any way may be taken. Invariant:

1. A query finds the records that brute force finds, in the same order if there is a sort or no condition; a selection shows the same
   objects, an aggregate gives the same rows. `explain` works for every plan, and what it gives has a JSON form.
2. All pages of a query together are the whole: nothing comes twice and nothing is missing, also when each page is planned anew.
3. Without full scans a query is refused with a query fault, or finds the same.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.runner import mutate, run
from svc.errors import QueryError
from svc.query import cursor, plan_query
from svc.query.execution import execute
from svc.query.explain import Explanation
from svc.query.nodes import Query, SortKey
from svc.store.values.records import decode
from tests.support import plans
from tests.support.brute import Brute
from tests.support.rows import next_rows
from tests.support.shop import FakeTable

CORPUS = Path(__file__).parent / "corpus" / "planner"
QUERIES = 6  # of each kind over the tables of a case

cursor.MAX_CHARACTERS = 1 << 16  # keys of 600 characters make long cursors; here all pages are wanted


def generate(source: random.Random, corpus: Sequence[bytes]) -> bytes:
    if corpus and source.random() < 0.1:
        return mutate(source, source.choice(corpus))
    return source.randbytes(8)


def check(data: bytes) -> None:
    source = random.Random(data)
    definitions, records = plans.definitions(source), plans.records(source)
    database = SimpleNamespace(tables={})
    tables = {name: FakeTable(definition, database, records[name]) for name, definition in definitions.items()}
    brute = Brute(definitions, records)
    for _ in range(QUERIES):
        name = source.choice("AB")
        check_records(plans.query(source, name), tables[name], brute, source)
        check_selection(plans.query(source, name), tables[name], brute, source)
        check_aggregate(plans.counted(source, name), tables[name], brute, source)
        check_pages(plans.query(source, name), tables[name], brute, source)


def planned(query: Query, table: FakeTable, source: random.Random, *, scan: bool = True) -> Any:
    return plan_query(query, table, None, allow_full_scan=scan, statistics=plans.AnyFigures(source))


def drain(rows: Any) -> list[Any]:
    found: list[Any] = []
    while batch := next_rows(rows, 3):
        found += batch
    assert rows.done
    return found


def ids(rows: Any) -> list[str]:
    return [decode(raw)["id"] for raw in drain(rows)]


def check_records(query: Query, table: FakeTable, brute: Brute, source: random.Random) -> None:
    plan = planned(query, table, source)
    explanation = Explanation(plan, None)
    while not explanation.step():
        pass
    found = ids(execute(plan, None))
    expected = [record["id"] for record in brute.run(query, table.name)]
    everything = [record["id"] for record in brute.run(Query(query.where), table.name)]
    same(query, found, expected, everything)
    shown = explanation.result()
    json.dumps(shown)
    assert shown["actualRows"] == len(found), (query, shown)
    try:
        narrow = planned(query, table, source, scan=False)
    except QueryError as error:
        assert error.status_code == 400 and error.code == "NOT_INDEXED", error
        return
    same(query, ids(execute(narrow, None)), expected, everything)


def same(query: Query, found: list[str], expected: list[str], everything: list[str]) -> None:
    if query.sort or query.where is None:
        assert found == expected, (query, found, expected)
    else:
        assert len(found) == len(expected) == len(set(found)), (query, found, expected)
        assert set(found) <= set(everything), (query, found, everything)


def check_selection(query: Query, table: FakeTable, brute: Brute, source: random.Random) -> None:
    query = replace(query, select=plans.selection(source, table.name), sort=query.sort or (SortKey(("id",)),))
    assert query.select is not None
    expected = [brute.shape(record, query.select, table.name, query.where, query.sort) for record in brute.run(query, table.name)]
    plan = planned(query, table, source)
    assert drain(execute(plan, None)) == expected, (query, expected)
    drain(execute(plan, None, json=True))


def check_aggregate(query: Query, table: FakeTable, brute: Brute, source: random.Random) -> None:
    found = drain(execute(planned(query, table, source), None))
    expected = brute.run(query, table.name)
    assert found == expected, (query, found, expected)


def check_pages(query: Query, table: FakeTable, brute: Brute, source: random.Random) -> None:
    query = replace(query, offset=0, limit=source.randint(1, 4))
    plan = planned(query, table, source)
    rows = execute(plan, None)
    found = ids(rows)
    expected = [record["id"] for record in brute.run(Query(query.where, sort=query.sort), table.name)]
    while (place := rows.next_cursor()) is not None:
        rows = execute(planned(replace(query, after=place), table, source), None)
        found += ids(rows)
    if plan.order is None:
        assert set(found) <= set(expected), (query, found, expected)
    else:
        same(replace(query, limit=None), found, expected, expected)


if __name__ == "__main__":
    sys.exit(run("planner", generate, check, CORPUS))
