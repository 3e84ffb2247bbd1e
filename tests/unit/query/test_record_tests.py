"""svc.query.record_tests: what a rule says of one record, and of the few of a list, beside the filter of many."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from svc.query import parse_query
from svc.query.functions import filter_of
from svc.query.links import Links
from svc.query.list_rows import whole, whole_with
from svc.query.matching import reads_others
from svc.query.plan import Never, Predicate, iter_members
from svc.query.record_tests import record_test, records_test, text_equality
from svc.query.relations import Lookups
from svc.query.resolve import resolve_where
from svc.store import Store, StoreSettings, Table
from svc.store.schema import Attribute, Relationship, TableDefinition

OWN = (
    Attribute("id", "ID", primary_key=True),
    Attribute("owner", "ID", indexed=True),
    Attribute("tags", "String", elements=True),
    Attribute("size", "Any"),
)
LEADS = (
    Attribute("parentId", "ID", indexed=True),
    Attribute("parent", "Node", relationship=Relationship("Node", from_="parentId")),
    Attribute("children", "Node", elements=True, relationship=Relationship("Node", to="parentId")),
)
CONDITIONS = [
    "owner==ann",
    "owner!=ann",
    "owner==null",
    "tags==ann",
    "owner==ann|tags==ann",
    "owner==ann&tags==bob",
    "owner==ann&tags==ann&size!=1",
    "owner==ann|tags==bob|size=lt=2",
    "size=gt=1|size==true",
    "id==n3",
    "parent.owner==ann",
    "parent.parent.owner==ann",
    "parent.owner==ann|owner==bob",
    "parent.owner==ann&(size=lt=3|children.owner==bob)",
    "children.owner==ann",
    "(owner==ann|parent.owner==bob)&(tags==bob|parent.tags==ann)&id!=n1",
    "parent.owner==null",
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    store = Store(tmp_path_factory.mktemp("store"), StoreSettings(write_async=True))
    made = store.open_database("data").define_table(
        TableDefinition("Node", "data", type_name="Node", attributes=(*OWN, *LEADS), primary_key="id")
    )
    source = random.Random(1)
    transaction = store.begin()
    for number in range(60):
        record: dict[str, Any] = {"id": f"n{number}", "owner": source.choice(["ann", "bob", None, ["ann"], ["bob"], 5])}
        if source.random() < 0.7:
            record["tags"] = source.choice([["ann"], ["ann", "bob"], [], "ann", {"ann"}])
        if source.random() < 0.7:
            record["size"] = source.choice([0, 1, 2.5, "ann", True, datetime(2026, 1, 1, tzinfo=UTC), {"a": 1}])
        record["parentId"] = source.choice([f"n{source.randrange(70)}", f"n{source.randrange(70)}", None, ["n1", "n2"], 7, "x" * 600])
        transaction.put(made, record["id"], record)
    transaction.apply()
    store.commit_turn()
    yield made
    store.close()


def predicate_of(text: str, table: Table) -> Predicate:
    where = parse_query(text).where
    assert where is not None
    return resolve_where(where, table)


@pytest.mark.parametrize("text", CONDITIONS)
def test_one_record_passes_as_it_does_among_many(table: Table, text: str) -> None:
    txn = table.database.snapshot()
    predicate = predicate_of(text, table)
    pairs = list(table.scan(txn))
    expected = filter_of(predicate, table, Links())(pairs, Lookups(txn))
    test = record_test(predicate, table)
    assert [pair for pair in pairs if test(pair[1], txn)] == expected
    if "id" not in text:
        assert 0 < len(expected) < len(pairs)
    if not reads_others(predicate):
        members = tuple(iter_members(predicate))
        raws = [raw for _, raw in pairs]
        assert records_test(members, table)(raws) == [raw for _, raw in expected]


def test_nothing_to_test_and_nothing_that_passes(table: Table) -> None:
    assert record_test(None, table)(b"", None) is True
    assert record_test(Never(("id",), predicate_of("owner==a", table).comparator), table)(b"", None) is False  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["owner==ann", "tags==ann"])
def test_rows_that_are_decoded_anyway(table: Table, text: str) -> None:
    """Together, where nothing but text is text in JSON, and where something else is; and all of them pass, or some."""
    members = tuple(iter_members(predicate_of(text, table)))
    equal = text_equality(members, table)
    assert equal is not None
    test = records_test(members, table)
    rows = whole_with(*equal, test)
    raws = [raw for _, raw in table.scan(table.database.snapshot())]
    for some in (raws, test(raws), raws[:1], [], *[[raw] for raw in raws]):
        assert rows(some, None) == whole(test(some), None)


@pytest.mark.parametrize("text", ["owner!=ann", "id==ann", "size==1", "owner==ann&tags==ann", "parent.owner==ann", "owner==null"])
def test_what_is_more_than_a_text(table: Table, text: str) -> None:
    assert text_equality(tuple(iter_members(predicate_of(text, table))), table) is None
