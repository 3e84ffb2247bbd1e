"""Statements of callers with few rights, asked of two stores that differ in what these may not read: nobody can tell which store it is (spec: sql §6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from svc.errors import Problem
from tests.support.profile import half_by_day
from tests.support.sql_engine import SqlStore, reads
from tests.support.sql_pair import KINDS, data
from tests.support.sql_statements import DEFINITIONS, statements

READABLE = {"Author": ("id", "name", "active"), "Book": ("id", "title", "author", "published")}
HIDDEN = {table: [name for name in kinds if name not in READABLE.get(table, ())] for table, kinds in KINDS.items()}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[SqlStore]]:
    made = [SqlStore(tmp_path_factory.mktemp("store"), DEFINITIONS) for _ in range(2)]
    yield made
    for store in made:
        store.close()


def fill(store: SqlStore, records: dict[str, list[dict[str, Any]]]) -> None:
    transaction = store.store.begin()
    for name, rows in records.items():
        table = store.tables[name]
        for stored in list(table.scan(table.database.snapshot())):
            transaction.delete_stored(table, *stored)
        for row in rows:
            record = table.validator.record({key: value for key, value in row.items() if value is not None}, source="json")
            transaction.put(table, row["id"], record)
    transaction.apply()
    store.end_turn()


def outcome(store: SqlStore, text: str) -> Any:
    user = store.user({table: reads(*names) for table, names in READABLE.items()})
    try:
        return store.ask(text, user=user)
    except Problem as problem:
        assert problem.status_code < 500, text
        return type(problem), problem.status_code, problem.code, problem.message


@settings(max_examples=half_by_day(40), phases=(Phase.explicit, Phase.generate))
@given(data(), data(), st.lists(statements(), min_size=20, max_size=20))
def test_nobody_can_tell_what_is_hidden(stores, records, others, asked):
    """The second store has the hidden values of `others`, and their records of tables that may not be read."""
    hidden: dict[str, list[dict[str, Any]]] = {}
    for table, rows in records.items():
        if table not in READABLE:
            hidden[table] = others[table]
            continue
        spare = [{name: row[name] for name in HIDDEN[table]} for row in others[table]]
        hidden[table] = [row | (spare[number % len(spare)] if spare else dict.fromkeys(HIDDEN[table])) for number, row in enumerate(rows)]
    for store, content in zip(stores, (records, hidden), strict=True):
        fill(store, content)
    for text in asked:
        assert outcome(stores[0], text) == outcome(stores[1], text), text
