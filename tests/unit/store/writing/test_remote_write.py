"""svc.store.writing.remote_write, record_replay: the writes of other nodes, in whatever order they arrive (spec: schema-and-store §9)."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from svc.errors import PreconditionFailed
from svc.store import Database, Store
from svc.store.entity_tags import MERGED, Precondition, etag_of, etag_of_version, tag_of_view, version_tag
from svc.store.integrity.check import check_database
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode
from tests.support.remote import DELETE, PATCH, PUT, START, Add, Sent, apply_all, histories, in_order, stored

EVERYTHING = bool(os.environ.get("SVC_ALL_HISTORIES"))  # by hand: a minute
SHARE = 1 if EVERYTHING else 5  # of the histories of four writes one of so many

NUMBERS = TableDefinition(
    "Seat",
    attributes=(
        Attribute("code", "ID", primary_key=True),
        Attribute("a", "Any", indexed=True),
        Attribute("b", "String", indexed=True, unique=True),
    ),
    primary_key="code",
)
STAMPS = [(START - 4000, "b"), (START - 3000, "a"), (START - 3000, "b"), (START - 2000, "a")]


def made(name: str, number: int, stamp: tuple[float, str]) -> Sent:
    kind, data, expiry = PATCH, {}, None
    if name in ("put", "brief put"):
        kind, data = PUT, {"a": 10 * (number + 1), "b": f"b{number}"}
    elif name == "delete":
        return Sent(DELETE, None, stamp)
    elif name in ("assign", "brief assign"):
        data = {"a": 100 * (number + 1)}
    elif name == "both":
        data = {"b": f"c{number}", "a": -number}
    elif name == "add":
        data = {"a": Add(number + 1)}
    if name.startswith("brief"):
        expiry = STAMPS[2][0] if number < 2 else STAMPS[3][0] + 1e9
    return Sent(kind, data, stamp, expiry)


@pytest.fixture
def database(store: Store) -> Database:
    database = store.open_database("data")
    database.define_table(NUMBERS)
    database.enable_replication()
    return database


@pytest.mark.parametrize(
    "kinds",
    [("put", "delete", "assign", "both", "add"), ("put", "brief put", "brief assign", "add", "delete")],
    ids=["plain", "expiring"],
)
@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_every_order_of_arrival_of_every_history(database: Database, kinds: tuple[str, ...], length: int) -> None:
    table = database.tables["Seat"]
    share = SHARE if length == 4 else 1
    sent: list[Any] = []
    expected: list[tuple[str, Any, list[Sent], tuple[str, ...]]] = []
    for number, (names, writes, orders) in enumerate(histories(kinds, length, STAMPS, made)):
        for place, order in enumerate(orders):
            if (number * len(orders) + place) % share:
                continue
            key = f"{number}.{place}"
            expected.append((key, in_order(writes, key), order, names))
            sent += [each.to(key) for each in order]
    apply_all(database, sent)
    for key, (record, expiry), order, names in expected:
        found, until, version = stored(table, key)
        told = (names, [each.stamp for each in order])
        assert found == record, told
        if record is not None:
            assert list(found) == list(record), told  # in this order, else equal records would be different bytes
            assert until == expiry, told
            assert version == max(each.stamp[0] for each in order), told
    database.check()
    database.store.close()
    assert check_database(database.env.path).findings == []


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_every_order_of_arrival_without_images(store: Store, length: int) -> None:
    """As long as the log has all of the writes."""
    database = store.open_database("data")
    table = database.define_table(replace(NUMBERS, audit=False))
    database.enable_replication()
    sent: list[Any] = []
    expected: list[tuple[str, Any, list[Sent], tuple[str, ...]]] = []
    share = 12 * SHARE if length == 4 else 1
    for number, (names, writes, orders) in enumerate(histories(("put", "delete", "assign", "both", "add"), length, STAMPS, made)):
        for place, order in enumerate(orders):
            if not (number * len(orders) + place) % share:
                key = f"{number}.{place}"
                expected.append((key, in_order(writes, key)[0], order, names))
                sent += [each.to(key) for each in order]
    apply_all(database, sent)
    wrong = []
    for key, record, order, names in expected:
        if (found := stored(table, key)[0]) != record:
            wrong.append((names, [each.stamp for each in order], found, record))
    assert wrong == [], (len(wrong), len(expected))


def test_the_entity_tag_says_that_the_content_has_changed_under_its_version(database: Database) -> None:
    table = database.tables["Seat"]
    version = STAMPS[3][0]

    def tag() -> str:
        raw = table.get_raw("x")
        assert raw is not None
        database.store.end_turn()
        return etag_of(raw)

    apply_all(database, [Sent(PATCH, {"a": 1}, STAMPS[3]).to("x")])
    whole = tag()
    assert whole == etag_of_version(version)
    apply_all(database, [Sent(PUT, {"a": 5, "b": "late"}, STAMPS[1]).to("x")])
    first = tag()
    assert first.startswith(whole + MERGED) and len(first) == 20
    apply_all(database, [Sent(PUT, {"a": 6, "b": "void"}, STAMPS[0]).to("x")])
    assert tag() == first
    apply_all(database, [Sent(PATCH, {"a": 6}, STAMPS[2]).to("x")])
    assert tag() == first, "a newer write has set it"
    apply_all(database, [Sent(PATCH, {"b": "later"}, (STAMPS[1][0] + 1, "a")).to("x")])
    second = tag()
    assert second not in (first, whole)
    raw = table.get_raw("x")
    assert raw is not None and decode(raw) == {"a": 1, "b": "later", "code": "x"}
    assert version_tag(tag_of_view(raw, frozenset(("a",)))) == second
    Precondition(if_match=(second,)).check(raw)
    Precondition(if_version=version).check(raw)
    for stale in (
        Precondition(if_match=(whole,)),
        Precondition(if_match=(first,)),
        Precondition(if_none_match=(second,)),
        Precondition(if_unmodified_since=version // 1000 + 1),
        Precondition(if_version=version + 1),
    ):
        with pytest.raises(PreconditionFailed):
            stale.check(raw)
    database.store.end_turn()
    apply_all(database, [Sent(PATCH, {"a": 7}, (version + 1, "a")).to("x")])
    assert tag() == etag_of_version(version + 1)
    database.check()


def test_without_images_the_last_write_of_each_property_wins(store: Store) -> None:
    database = store.open_database("data")
    table = database.define_table(replace(NUMBERS, audit=False))
    database.enable_replication()
    stamps = [(START - 100 + number, "a") for number in range(6)]
    apply_all(database, [Sent(PUT, {"a": 1, "b": "one"}, stamps[0]).to("x"), Sent(PATCH, {"a": 4}, stamps[4]).to("x")])
    apply_all(database, [Sent(PATCH, {"a": 2, "b": "two"}, stamps[2]).to("x"), Sent(PUT, {"a": 3}, stamps[1]).to("x")])
    record, _, version = stored(table, "x")
    assert record is not None and record["a"] == 4 and version == stamps[4][0]
    apply_all(database, [Sent(PATCH, {"a": Add(1)}, stamps[5]).to("x"), Sent(DELETE, None, (stamps[5][0] + 1, "b")).to("x")])
    apply_all(database, [Sent(PUT, {"a": 0}, stamps[3]).to("x")])
    assert stored(table, "x")[0] is None
    database.check()
    store.close()
    assert check_database(database.env.path).findings == []


@pytest.mark.parametrize("audit", [True, False])
def test_a_counter_that_was_incremented_on_both_sides(database: Database, audit: bool) -> None:
    table = database.define_table(replace(NUMBERS, audit=audit))
    apply_all(database, [Sent(PUT, {"a": 0, "b": "counter"}, (START - 9000, "a")).to("x")])
    apply_all(database, [Sent(PATCH, {"a": Add(1)}, (START - 8000 + number, "a")).to("x") for number in range(300)])
    figures = apply_all(database, [Sent(PATCH, {"a": Add(1)}, (START - 8000 + number, "b")).to("x") for number in range(300)])
    assert (figures.late, figures.void) == (300, 0)
    assert stored(table, "x")[0] == {"a": 600, "b": "counter", "code": "x"}
    apply_all(database, [Sent(PATCH, {"a": 7}, (START - 7900, "c")).to("x")])
    assert stored(table, "x")[0] == {"a": 7 + 398, "b": "counter", "code": "x"}
    apply_all(database, [Sent(PATCH, {"a": Add(1)}, (START - 7950, "d")).to("x"), Sent(PATCH, {"a": Add(1)}, (START - 7850, "d")).to("x")])
    assert stored(table, "x")[0] == {"a": 7 + 399, "b": "counter", "code": "x"}
    database.check()
