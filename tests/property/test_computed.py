"""Queries on computed attributes, against the same attribute stored; and with their indexes, against full scans."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svc.clock import FakeClock
from svc.query import parse_query, plan_query
from svc.query.execution import execute
from svc.store import Store, StoreSettings, Table
from svc.store.schema import Attribute, TableDefinition
from tests.support.profile import half_by_day
from tests.support.rows import next_rows

COMPUTED = {
    "label": Attribute("label", "String", computed_from="hall + '-' + str(row)"),
    "twice": Attribute("twice", "Float", computed_from="row * 2"),
    "words": Attribute("words", "String", elements=True, computed_from="re.split(' +', title)"),
    "day": Attribute("day", "Date", computed_from="when if row > 1 else None"),
    "any": Attribute("any", computed_from="words and [row, hall] or hall".replace("words", "title")),
    "long": Attribute("long", "String", computed_from="hall * 200"),
}
STORED = (
    Attribute("id", "ID", primary_key=True),
    Attribute("hall", "String", indexed=True),
    Attribute("row"),
    Attribute("title"),
    Attribute("when", "Date"),
)

values = st.fixed_dictionaries(
    {},
    optional={
        "hall": st.sampled_from((None, "", "A", "B", "AB")),
        "row": st.sampled_from((None, 0, 1, 2, 2.5, True, "x")),
        "title": st.sampled_from((None, "big red", "red  blue", "", 5)),
        "when": st.integers(0, 3).map(lambda day: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day)),
    },
)
conditions = st.sampled_from(
    (
        "label=A-1", "label=null", "label!=null", "label!=A-1", "label=sw=A", "label=gt=A&lt=B", "label=ct=-2", "label=ge=B-", "twice=2", "twice=gt=1",
        "twice=le=4",
        "twice==null", "words=red", "words=sw=b", "words!=red", "words=red&words=blue", "words=null", "day=ge=2026-01-02", "day=2026-01-03", "day!=null",
        "any=2", "any=A", "any=gt=1", "any=null", "long=sw=AB", "long=gt=A", f"long={'A' * 200}", f"long={'AB' * 200}", "label=A-1|twice=4",
        "hall=A&twice=gt=1",
        "hall=A&words=red",
    )
)  # fmt: skip
sorts = st.sampled_from(
    ("", "sort(label)", "sort(-label)", "sort(twice,-label)", "sort(-day)", "sort(words)", "sort(-any)", "sort(long)", "sort(-id)")
)
aggregates = st.sampled_from(
    (
        "count()", "facet(label)", "facet(words)", "facet(day)", "facet(any)", "facet(long)", "group(label)", "group(words,day;count,sum(twice))",
        "group(hall;min(label),max(day),avg(twice))", "group(any)&sort(-any)&limit(2)", "facet(twice)&limit(1)",
    )
)  # fmt: skip
selects = st.sampled_from(("", "select(id)", "select(id,label,day)", "select([twice,words])", "select(any,)", "select(*,label)"))


class Shop:
    """Three tables with the same records: computed and indexed, computed, and with the values stored."""

    def __init__(self, path: Path) -> None:
        self.store = Store(path, StoreSettings(write_async=True), clock=FakeClock())
        self.database = self.store.open_database("data")
        computed = tuple(COMPUTED.values())
        self.indexed = self.define("Indexed", *[with_index(attribute) for attribute in computed])
        self.plain = self.define("Plain", *computed)
        self.stored = self.define("Stored", *[as_stored(attribute) for attribute in computed])
        self.tables = (self.indexed, self.plain, self.stored)

    def define(self, name: str, *attributes: Attribute) -> Table:
        return self.database.define_table(TableDefinition(name, attributes=(*STORED, *attributes)))

    def write(self, records: dict[str, dict[str, Any]]) -> None:
        """Make the tables hold exactly these records."""
        for table in self.tables:
            transaction = self.store.begin()
            for _, raw in table.scan(table.database.snapshot()):
                if table.key_of(raw) not in records:
                    transaction.delete(table, table.key_of(raw))
            for key, record in records.items():
                complete = dict(record)
                if table is self.stored:
                    complete |= {name: compute(complete) for name, compute in self.plain.computed.items()}
                transaction.put(table, key, complete)
            transaction.apply()
            self.store.commit_turn()

    def rows(self, table: Table, text: str, json: bool) -> list[Any]:
        snapshot = table.database.snapshot()
        plan = plan_query(parse_query(text, table.attributes.__contains__), table, snapshot, allow_full_scan=True)
        rows = execute(plan, snapshot, json=json)
        found: list[Any] = []
        while batch := next_rows(rows, 100):
            found += batch
        if not plan.query.select and not plan.query.aggregate:
            return [table.key_of(raw) for raw in found]
        return found


def with_index(attribute: Attribute) -> Attribute:
    return Attribute(attribute.name, attribute.type, elements=attribute.elements, computed_from=attribute.computed_from, indexed=True)


def as_stored(attribute: Attribute) -> Attribute:
    return Attribute(attribute.name, attribute.type, elements=attribute.elements)


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with tempfile.TemporaryDirectory(prefix="computed-") as directory:
        made = Shop(Path(directory))
        yield made
        made.store.close()


@settings(max_examples=half_by_day(100))
@given(
    st.dictionaries(st.sampled_from("abcdefgh"), values, max_size=8),
    st.lists(st.tuples(conditions, sorts, selects), min_size=1, max_size=5),
    st.booleans(),
)
def test_queries(shop: Shop, records: dict[str, dict[str, Any]], queries: list[tuple[str, str, str]], json: bool) -> None:
    shop.write(records)
    shop.store.check()
    for parts in queries:
        text = "&".join(filter(None, parts))
        expected = shaped(shop.rows(shop.stored, text, json), parts)
        for table in (shop.plain, shop.indexed):
            assert shaped(shop.rows(table, text, json), parts) == expected, (table, text)


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), values, max_size=8),
    st.lists(st.tuples(st.just("") | conditions, aggregates), min_size=1, max_size=5),
    st.booleans(),
)
def test_aggregates(shop: Shop, records: dict[str, dict[str, Any]], queries: list[tuple[str, str]], json: bool) -> None:
    shop.write(records)
    for parts in queries:
        text = "&".join(filter(None, parts))
        expected = shop.rows(shop.stored, text, json)
        for table in (shop.plain, shop.indexed):
            assert shop.rows(table, text, json) == expected, (table, text)


def shaped(rows: list[Any], parts: tuple[str, str, str]) -> list[Any]:
    """What must be the same: the order only where one is asked for, and of whole records only what both tables store."""
    if parts[2] == "select(*,label)":
        rows = [(row["id"], row["label"], {name: row[name] for name in row if name not in COMPUTED}) for row in rows]
    return rows if parts[1] else sorted(rows, key=repr)
