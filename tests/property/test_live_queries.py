"""Live queries compared with queries: random schemas, queries of all kinds, writes and expiries; clients take random numbers of events at random times.
The rows that a client makes of its events are exactly those of the query, in order."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from svc.query.matching import compile_predicate, names_of
from svc.query.plan import AllOf
from svc.query.resolve import resolve_where
from svc.realtime.live import commit_dispatcher, events, materialized_result, recomputed_result, subscription
from svc.realtime.live.subscription_index import SubscriptionIndex
from svc.store.values.keys import encode_key
from svc.store.values.records import MISSING, encode
from tests.support import plans
from tests.support.brute import Brute
from tests.support.live import LiveStore
from tests.support.live_cases import Cases
from tests.support.profile import half_by_day
from tests.support.shop import FakeTable

SEEDS = st.integers(0, 2**32)


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recomputed_result, "MIN_RUN_INTERVAL", 0.0)
        patch.setattr(recomputed_result, "RUN_INTERVAL_FACTOR", 0.0)
        made = LiveStore(tmp_path_factory.mktemp("live"))
        yield Cases(made)
        made.close()


@settings(max_examples=half_by_day(100))
@given(SEEDS)
@example(0)
def test_events_make_the_result(cases, seed):
    cases.run(random.Random(seed))


@settings(max_examples=half_by_day(100))
@given(SEEDS)
@example(6176495)  # one unindexed relationship, in the sort and in the selection
def test_events_make_the_result_of_slow_clients_with_short_queues(cases, seed):
    source = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subscription, "MAX_QUEUED", source.choice([1, 2, 5, 20]))
        patch.setattr(subscription, "MAX_RESETS", 1 << 30)
        cases.run(source, slow=source.random() < 0.5)


@settings(max_examples=half_by_day(100))
@given(SEEDS)
def test_events_make_the_result_in_tiny_slices(cases, seed):
    source = random.Random(seed)
    cases.made.clock.tick = source.choice([0.0005, 0.003])
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(materialized_result, "RECORDS_PER_STEP", source.choice([1, 3]))
            patch.setattr(materialized_result, "ROWS_PER_STEP", source.choice([1, 3]))
            patch.setattr(materialized_result, "SHARED_ROWS", source.choice([0, 2, 256]))
            patch.setattr(events, "ROWS_PER_CHECK", source.choice([1, 2]))
            patch.setattr(recomputed_result, "MAX_RUNNING", source.choice([1, 4]))
            cases.run(source)
    finally:
        cases.made.clock.tick = 0.0


@settings(max_examples=half_by_day(60))
@given(SEEDS)
def test_events_make_the_result_when_changes_are_too_many(cases, seed):
    source = random.Random(seed)
    cases.made.clock.tick = 0.003
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(commit_dispatcher, "MAX_BACKLOG", source.choice([1, 3]))
            patch.setattr(materialized_result, "MAX_COMPARED", source.choice([0, 2, 1000]))
            cases.run(source)
    finally:
        cases.made.clock.tick = 0.0


@given(SEEDS)
def test_the_index_of_subscriptions_finds_all_that_brute_force_finds(seed):
    """... and once what was filed is taken out again, nothing."""
    source = random.Random(seed)
    definitions = plans.definitions(source)
    database = SimpleNamespace(tables={}, tables_version=0)
    table, _ = [FakeTable(definition, database, []) for definition in definitions.values()]
    brute = Brute(definitions, {"A": [], "B": []})
    index: SubscriptionIndex[int] = SubscriptionIndex(table)
    filed = {}
    for number in range(source.randint(1, 80)):
        where = plans.filters(source, "A", source.randrange(3))
        filed[number] = where
        index.add(number, resolve_where(where, table))
        if filed and source.random() < 0.2:
            gone = source.choice(list(filed))
            del filed[gone]
            index.remove(gone)
    for key in plans.IDS:
        record = plans.record(source, key)
        found: dict[int, None] = {}
        index.find_unindexed(found)
        index.find_by_key(encode_key(key), found)
        index.find_by_values(encode(record, 1.0, 1, None), found)
        wanted = {number for number, where in filed.items() if brute.matches(where, record, "A")}
        assert wanted <= set(found) <= set(filed)
    for number in list(filed):
        index.remove(number)
    found = {}
    index.find_unindexed(found)
    index.find_by_values(encode({"id": "a"}, 1.0, 1, None), found)
    assert not found and not len(index)


@given(SEEDS)
def test_a_single_condition_is_found_where_it_matches_and_hardly_elsewhere(seed):
    """One condition on an attribute that has keys: what is found and does not match are only texts that a key cuts."""
    source = random.Random(seed)
    definition = plans.definitions(source)["A"]
    table = FakeTable(definition, None, [])
    where = plans.condition(source, "A")
    if len(where.path) > 1 or where.path[0] in ("one", "many", "parent", "children", "alike", "twins"):
        return
    predicate = resolve_where(where, table)
    index: SubscriptionIndex[int] = SubscriptionIndex(table)
    index.add(1, predicate)
    names = names_of(AllOf((predicate,)))
    matches = compile_predicate(predicate, names, "id")
    always: dict[int, None] = {}
    index.find_unindexed(always)
    for _ in range(10):
        record = plans.record(source, source.choice(plans.IDS))
        found: dict[int, None] = {}
        index.find_by_key(encode_key(record["id"]), found)
        index.find_by_values(encode(record, 1.0, 1, None), found)
        if matches(tuple(record.get(name, MISSING) for name in names)):
            assert found or always
        elif found and not always:
            values = record.get(where.path[0])
            texts = [value for value in (values if isinstance(values, list) else [values]) if isinstance(value, str)]
            assert any(len(text) > 256 for text in [*texts, where.value] if isinstance(text, str)), (where, record)
