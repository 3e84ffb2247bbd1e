"""svc.sql.tables.plans"""

from __future__ import annotations

import pytest

from svc.sql.tables.plans import Order, Plan, Way, explained, plan_text, read_plan
from svc.sql.tables.spans import EQ, GE, GLOB, IS, IS_NULL, LIKE, LT, NOT_NULL

PLANS = [
    (Plan(Way.SCAN, 0, (0, 1)), "scan, about 7 rows"),
    (Plan(Way.SCAN, -2, (), order=Order.COLUMN, is_descending=True), "scan, in descending order, about 7 rows"),
    (Plan(Way.KEY, 0, (1,), (EQ,)), "key: equal, about 7 rows"),
    (Plan(Way.KEY, 0, (1,), (EQ, GE)), "key: equal, about 7 rows"),
    (Plan(Way.INDEX, 3, (1,), (IS,), Order.KEY), 'index a\x1f"b": equal, in order, about 7 rows'),
    (Plan(Way.INDEX, 3, (1,), (GE, LT), is_index_only=True), 'index a\x1f"b": range, without records, about 7 rows'),
    (Plan(Way.INDEX, 3, (1,), (GE, GLOB), has_limit=True, has_offset=True), 'index a\x1f"b": prefix, about 7 rows'),
    (Plan(Way.INDEX, 3, (1,), (LIKE,)), 'index a\x1f"b": prefix, about 7 rows'),
    (Plan(Way.INDEX, 3, (1,), (IS_NULL,)), 'index a\x1f"b": null, about 7 rows'),
    (Plan(Way.INDEX, 3, (1,), (NOT_NULL,)), 'index a\x1f"b": not null, about 7 rows'),
    (Plan(Way.INDEX, 3, (1,), order=Order.COLUMN), 'index a\x1f"b": all, in order, about 7 rows'),
]


@pytest.mark.parametrize(("plan", "words"), PLANS)
def test_a_text_is_a_plan(plan: Plan, words: str) -> None:
    text = plan_text(plan, 'a\x1f"b"', 7)
    assert text.rpartition("\x1f")[0] == words
    assert read_plan(text) == plan


def test_numbers_of_rows() -> None:
    assert plan_text(Plan(Way.SCAN, 0, ()), "", 1).startswith("scan, about 1 row\x1f")
    assert plan_text(Plan(Way.SCAN, 0, ()), "", 1_234_567).startswith("scan, about 1,234,567 rows\x1f")


def test_what_sqlite_says_of_a_plan() -> None:
    text = plan_text(Plan(Way.KEY, 0, (1,), (EQ,)), "", 1)
    assert explained(f"SCAN i VIRTUAL TABLE INDEX 0:{text} LEFT-JOIN") == "SCAN i: key: equal, about 1 row LEFT-JOIN"
    assert explained("SCAN json_each VIRTUAL TABLE INDEX 1:") == "SCAN json_each"
    assert explained("USE TEMP B-TREE FOR ORDER BY") == "USE TEMP B-TREE FOR ORDER BY"
