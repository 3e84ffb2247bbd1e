"""Every plan beside brute force: random schemas with relationships, data and queries; selections, aggregates, pages; the real store with its
index caches on, off and half loaded."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from svc.errors import QueryError
from svc.query import plan_query
from svc.query.execution import execute
from svc.query.explain import explain
from svc.query.nodes import Query
from svc.store import Store, StoreSettings
from svc.store.indexes.cache import IndexCache
from svc.store.values.records import decode, decode_payload_json, encode_payload
from tests.support import plans
from tests.support.brute import Brute
from tests.support.profile import half_by_day
from tests.support.rows import next_rows
from tests.support.shop import FakeTable

SEEDS = st.integers(0, 2**32)


@pytest.fixture(autouse=True, scope="module")
def long_cursors():
    """Keys of 600 characters and several sort keys make cursors longer than a URL should be; here all pages are wanted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("svc.query.cursor.MAX_CHARACTERS", 1 << 16)
        yield


def fakes(definitions, data):
    database = SimpleNamespace(tables={}, tables_version=0)
    return {name: FakeTable(definition, database, data[name]) for name, definition in definitions.items()}


def case(source):
    definitions = plans.definitions(source)
    data = plans.records(source)
    return fakes(definitions, data), Brute(definitions, data), source.choice("AB")


def drain(rows, step=3):
    found = []
    while batch := next_rows(rows, step):
        found += batch
    assert rows.done
    return found


def planned(query, table, txn=None, statistics=None):
    return plan_query(query, table, txn, allow_full_scan=True, statistics=statistics)


def ids(rows):
    return [decode(raw)["id"] for raw in drain(rows)]


def same_rows(query, found, expected, everything):
    """Content, and order as far as the query defines it."""
    if query.sort or query.where is None:
        assert found == expected
    elif query.limit is None:
        assert sorted(found) == sorted(expected)
    else:
        assert len(found) == len(expected) and set(found) <= set(everything) and len(set(found)) == len(found)


@given(SEEDS)
def test_a_plan_finds_what_brute_force_finds(seed):
    source = random.Random(seed)
    tables, brute, name = case(source)
    query = plans.query(source, name)
    plan = planned(query, tables[name], statistics=plans.AnyFigures(source))
    explain(plan)
    expected = [record["id"] for record in brute.run(query, name)]
    everything = [record["id"] for record in brute.run(Query(query.where), name)]
    same_rows(query, ids(execute(plan, None)), expected, everything)


@given(SEEDS)
def test_a_selection_shows_what_brute_force_shows(seed):
    source = random.Random(seed)
    tables, brute, name = case(source)
    query = replace(plans.query(source, name), select=plans.selection(source, name), limit=None, offset=0)
    if not query.sort:
        query = replace(query, sort=(plans.SortKey(("id",)),))
    expected = [brute.shape(record, query.select, name, query.where, query.sort) for record in brute.run(query, name)]
    plan = planned(query, tables[name], statistics=plans.AnyFigures(source))
    found = drain(execute(plan, None))
    assert found == expected
    assert [list(row) for row in found] == [list(row) for row in expected]
    assert drain(execute(plan, None, json=True)) == [decode_payload_json(encode_payload(row)) for row in expected]


@given(SEEDS)
def test_an_aggregate_counts_what_brute_force_counts(seed):
    source = random.Random(seed)
    tables, brute, name = case(source)
    query = plans.counted(source, name)
    plan = planned(query, tables[name], statistics=plans.AnyFigures(source))
    explain(plan)
    found, expected = drain(execute(plan, None)), brute.run(query, name)
    assert found == expected
    assert [list(row) for row in found] == [list(row) for row in expected]
    assert [[type(value) is datetime for value in row.values()] for row in found] == [
        [type(value) is datetime for value in row.values()] for row in expected
    ]


def pages(query, table, source, change=None) -> Iterator[list[str]]:
    """The pages of a query, each planned with other figures; before each but the first `change()` may give another table."""
    cursor = None
    while True:
        rows = execute(planned(replace(query, after=cursor), table, statistics=plans.AnyFigures(source)), None)
        yield ids(rows)
        cursor = rows.next_cursor()
        if cursor is None:
            return
        if change is not None:
            table = change()


@given(SEEDS)
def test_all_pages_together_are_the_whole(seed):
    source = random.Random(seed)
    tables, brute, name = case(source)
    query = replace(plans.query(source, name), offset=0, limit=source.randint(1, 4))
    first = planned(query, tables[name], statistics=plans.AnyFigures(source))
    found = [key for page in pages(query, tables[name], source) for key in page]
    if first.order is None:
        return  # a union or a join: no cursor
    expected = [record["id"] for record in brute.run(Query(query.where, sort=query.sort), name)]
    if query.sort or query.where is None:
        assert found == expected
    else:
        assert len(set(found)) == len(found) and set(found) <= set(expected)


@given(SEEDS)
def test_without_a_sort_the_next_page_keeps_the_order_of_the_first(seed):
    source = random.Random(seed)
    tables, brute, name = case(source)
    query = replace(plans.query(source, name), offset=0, limit=source.randint(1, 4), sort=(), enforce_execution_order=False)
    statistics = plans.AnyFigures(source)
    rows = execute(planned(query, tables[name], statistics=statistics), None)
    found, cursor = ids(rows), rows.next_cursor()
    if cursor is None:
        return
    while cursor is not None:
        rows = execute(planned(replace(query, after=cursor), tables[name], statistics=plans.AnyFigures(source)), None)
        found += ids(rows)
        cursor = rows.next_cursor()
    expected = [record["id"] for record in brute.run(Query(query.where), name)]
    assert sorted(found) == sorted(expected)
    whole = ids(execute(planned(replace(query, limit=None), tables[name], statistics=statistics), None))
    assert found == whole


@given(SEEDS)
def test_pages_are_stable_while_records_come_and_go(seed):
    source = random.Random(seed)
    definitions = plans.definitions(source)
    keys = [f"{n:02}" for n in range(12)]
    data = {"A": [plans.record(source, key) for key in keys], "B": plans.records(source)["B"]}
    query = replace(plans.query(source, "A"), offset=0, limit=source.randint(1, 4))
    brute = Brute(definitions, data)
    kept = {record["id"] for record in data["A"] if source.random() < 0.6}

    def change():
        for record in list(data["A"]):
            if record["id"] not in kept and source.random() < 0.3:
                data["A"].remove(record)
        if source.random() < 0.7:
            data["A"].append(plans.record(source, f"{source.randrange(12):02}+{source.randrange(10**9)}"))
        return fakes(definitions, data)["A"]

    # What a kept record's relationships lead to within A may come and go, and with it the record itself.
    if any(name in ("parent", "children", "twins", "back", "backs", "owner") for name in names_in(query)):
        return
    first = fakes(definitions, data)["A"]
    everything = {record["id"] for record in brute.run(Query(query.where), "A")}
    rows = execute(planned(query, first, statistics=plans.AnyFigures(source)), None)
    found = ids(rows)
    cursor = rows.next_cursor()
    if cursor is None:
        return
    for _ in range(200):
        rows = execute(planned(replace(query, after=cursor), change(), statistics=plans.AnyFigures(source)), None)
        found += ids(rows)
        cursor = rows.next_cursor()
        if cursor is None:
            break
    else:
        pytest.skip("records were added faster than pages were read")
    assert [key for key in found if key in kept] == list(dict.fromkeys(key for key in found if key in kept))
    assert set(found) >= everything & kept


@pytest.fixture(scope="module")
def small_slices():
    """A step looks at a few records, so that there is something left when the snapshot is taken away."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SLICE", "FIRST_SLICE", "FEWEST"):
            patch.setattr(f"svc.query.executor.{name}", 2)
        yield


@given(SEEDS)
def test_a_result_goes_on_with_another_snapshot(small_slices, seed):
    """Where it can: nothing is missing, nothing comes twice, and the order is the same."""
    source = random.Random(seed)
    tables, _, name = case(source)
    query = plans.query(source, name)
    plan = planned(query, tables[name], statistics=plans.AnyFigures(source))
    expected = ids(execute(plan, None))
    rows, found = execute(plan, None), []
    while not rows.done:
        found += [decode(raw)["id"] for raw in rows.step(source.randint(1, 3))]
        if source.random() < 0.5 and not rows.done:
            seen = rows._seen
            if not rows.move(None):
                assert plan.order is None or plan.sort or seen is rows._moved or rows._compiled.scanned
                return
    assert found == expected


def names_in(query):
    return {part for part in repr(query).replace("'", " ").replace("(", " ").split() if part.isalpha()}


@given(SEEDS, st.sampled_from(["a", "e/", "f", "x"]))
def test_a_collection_below_a_key_holds_what_begins_with_it(seed, prefix):
    source = random.Random(seed)
    tables, brute, name = case(source)
    query = plans.query(source, name)
    plan = plan_query(query, tables[name], allow_full_scan=True, key_prefix=prefix, statistics=plans.AnyFigures(source))
    matches = [record["id"] for record in brute.run(Query(query.where, sort=query.sort), name) if record["id"].startswith(prefix)]
    expected = matches[query.offset : None if query.limit is None else query.offset + query.limit]
    same_rows(query, ids(execute(plan, None)), expected, matches)


# the real store


class Stored:
    """One store with some pairs of tables, emptied and filled for each example."""

    def __init__(self, path) -> None:
        self.store = Store(path, StoreSettings(write_async=True))
        self.databases = []
        for number in range(4):
            definitions = plans.definitions(random.Random(number))
            database = self.store.open_database(f"d{number}")
            self.databases.append((definitions, {name: database.define_table(made) for name, made in definitions.items()}, database))

    def fill(self, number, data, source):
        """The records of `data`, and some that have expired but are still in the indexes."""
        definitions, tables, database = self.databases[number]
        transaction = self.store.begin()
        for table in tables.values():
            for _, raw in table.scan(database.snapshot()):
                transaction.delete(table, decode(raw)["id"])
        transaction.apply()
        self.store.commit_turn()
        transaction = self.store.begin()
        for name, table in tables.items():
            for record in data[name]:
                transaction.put(table, record["id"], dict(record))
            for key in ("B/gone", "bb/gone", "h/gone"):
                transaction.put(table, key, plans.record(source, key), expires_at=1000.0)
        transaction.apply()
        self.store.commit_turn()
        return definitions, tables, database


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    found = Stored(tmp_path_factory.mktemp("plans"))
    yield found
    found.store.close()


def set_caches(tables, txn, mode, source):
    for table in tables.values():
        for index in table.indexes.values():
            index.drop_cache()
            if mode == "on":
                index.count(txn, b"\x02", b"\xff")
            elif mode == "half":
                index.refused = 0
                index.cache = cache = IndexCache()
                index._caches._recent[index] = None
                index.waiting = True
                index._caches._queue.append(index)
                cache.extend(index.scan_built(txn), source.randrange(4))
                cache.complete = False
            else:
                index.refused = 10**9
                index.cache = None


@pytest.mark.parametrize("mode", ["off", "on", "half"])
@settings(max_examples=half_by_day(40))
@given(seed=SEEDS)
@example(seed=0)
def test_the_store_finds_what_brute_force_finds(stored, mode, seed):
    source = random.Random(seed)
    data = plans.records(source)
    definitions, tables, database = stored.fill(source.randrange(4), data, source)
    brute = Brute(definitions, data)
    txn = database.snapshot()
    set_caches(tables, txn, mode, source)
    for _ in range(4):
        name = source.choice("AB")
        query = plans.query(source, name)
        everything = [record["id"] for record in brute.run(Query(query.where), name)]
        same_rows(query, ids(execute(planned(query, tables[name], txn), txn)), [r["id"] for r in brute.run(query, name)], everything)
        query = plans.counted(source, name)
        assert drain(execute(planned(query, tables[name], txn), txn)) == brute.run(query, name)
        query = replace(plans.query(source, name), offset=0, limit=2)
        found, cursor = [], None
        while True:
            rows = execute(planned(replace(query, after=cursor), tables[name], txn), txn)
            found += ids(rows)
            cursor = rows.next_cursor()
            if cursor is None:
                break
        if planned(query, tables[name], txn).order is not None:
            same_rows(replace(query, limit=None), found, [r["id"] for r in brute.run(Query(query.where, sort=query.sort), name)], [])
    for table in tables.values():
        for index in table.indexes.values():
            index.drop_cache()


@given(seed=SEEDS)
def test_a_result_goes_on_while_records_come_and_go(small_slices, stored, seed):
    """Each record that stays is there once."""
    source = random.Random(seed)
    data = plans.records(source)
    for table in data.values():
        table += [plans.record(source, f"more{number}") for number in range(source.randrange(12))]
    definitions, tables, database = stored.fill(source.randrange(4), data, source)
    name = source.choice("AB")
    query = replace(plans.query(source, name), offset=0, limit=None)
    if any(member in ("parent", "children", "twins", "back", "backs", "owner") for member in names_in(query)):
        return  # what relationships lead to may come and go, and with it the record itself
    kept = {record["id"] for record in data[name] if source.random() < 0.6}
    expected = sorted(record["id"] for record in Brute(definitions, data).run(Query(query.where), name) if record["id"] in kept)
    snapshots, found = [database.open_snapshot()], []
    rows = execute(planned(query, tables[name], snapshots[0]), snapshots[0])
    try:
        while not rows.done:
            found += [decode(raw)["id"] for raw in rows.step(2)]
            if source.random() < 0.3 and not rows.done:
                transaction = stored.store.begin()
                for record in data[name]:
                    if record["id"] not in kept and source.random() < 0.3:
                        transaction.delete(tables[name], record["id"])
                transaction.put(tables[name], f"new{source.randrange(1000)}", plans.record(source, "new"))
                transaction.apply()
                stored.store.commit_turn()
                snapshots.pop().abort()
                snapshots.append(database.open_snapshot())
                if not rows.move(snapshots[0]):
                    return
    finally:
        rows.close()
        snapshots[0].abort()
    assert sorted(key for key in found if key in kept) == expected


def test_a_refusal_does_not_depend_on_figures():
    for seed in range(300):
        source = random.Random(seed)
        tables, _, name = case(source)
        query = plans.query(source, name)
        outcomes = set()
        for _ in range(3):
            try:
                plan_query(query, tables[name], allow_full_scan=False, statistics=plans.AnyFigures(source))
                outcomes.add("planned")
            except QueryError as error:
                outcomes.add(error.message)
        assert len(outcomes) == 1
