"""svc.store.writing.duplicates: what is said of values that several records have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from svc.errors import SchemaError
from svc.store import Store
from svc.store.schema import Attribute, TableDefinition
from svc.store.writing.duplicates import Duplicates, SeenValues, numbers_of, refuse_duplicates

LONG = "x" * 300


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1, 2, "1", True, None, None, {"a": 1}, {"a": 1}], ""),
        ([1, 1.0], '1 value is that of several records: 1 ("0", "1")'),
        ([[1, [2]], [[2]]], '1 value is that of several records: [2] ("0", "1")'),
        ([["a", "b"], ["b", "a"]], '2 values are that of several records: "a" ("0", "1"), "b" ("0", "1")'),
        ([[LONG + "1", LONG + "2"], LONG + "3"], ""),
        ([b"a", b"a", "a"], '1 value is that of several records: of 1 bytes ("0", "1")'),
        (["a"] * 5, '1 value is that of several records: "a" ("0", "1", "2", ...)'),
        ([list(range(9)), list(range(9))], '9 values are that of several records: 0 ("0", "1"), 1 ("0", "1"), 2 ("0", "1"), 3 ("0", "1"), 4 ("0", "1"), ...'),
    ],
)  # fmt: skip
def test_both_searches_say_the_same(open_store: Callable[..., Store], values: list[Any], said: str) -> None:
    store = open_store()
    attributes = (Attribute("id", "ID", primary_key=True), Attribute("a", "Any", indexed=True))
    table = store.open_database("data").define_table(TableDefinition("T", attributes=attributes, primary_key="id"))
    transaction = store.begin()
    for number, value in enumerate(values):
        transaction.put(table, str(number), {"id": str(number), "a": value})
    store.commit_now(transaction)
    table.database.env.end_snapshot()
    for is_built in (True, False):
        found = ""
        try:
            refuse_duplicates(table.database.snapshot(), table, table.indexes["a"], 0.0, is_built=is_built)
        except SchemaError as error:
            found = error.message.removeprefix("T.a cannot be @unique: ")
        assert found == said


def test_long_strings_are_named_in_full() -> None:
    found = Duplicates()
    assert found.fault("T", "a") is None
    for key in "12":
        found.add(key, [LONG + key, LONG])
    assert found.count == 1 and (found.fault("T", "a") or "").endswith('("1", "2")')


def test_seen_values() -> None:
    seen = SeenValues()
    (one,), (same,) = numbers_of([1, 1.0, None]), numbers_of(1)
    assert one == same and seen.add(one) and not seen.add(one)
    seen.remove(one)
    seen.remove(one)
    assert seen.add(one)
