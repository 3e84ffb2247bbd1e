from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svc.pages.cells import CELL, DEEPEST, MOST_MEMBERS, MOST_VALUES, cell_of, lines_of, shortened
from svc.store.blobs import create_blob
from svc.store.values.records import MISSING
from tests.support.profile import half_by_day


@pytest.mark.parametrize(
    ("value", "text", "kind"),
    [
        (MISSING, "", "missing"),
        (None, "null", "null"),
        (True, "true", "literal"),
        (0, "0", "number"),
        (-1.5, "-1.5", "number"),
        (float("nan"), "nan", "number"),
        ("", "", "text"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>", "text"),
        ("a\u202eb", "a\\u202eb", "text"),
        ("a\x00\x1b[2Jb\ud800", "a\\u0000\\u001b[2Jb\\ud800", "text"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab", "text"),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05.000Z", "date"),
        (datetime(2026, 1, 2), "2026-01-02T00:00:00.000Z", "date"),
        (date(2026, 1, 2), "2026-01-02T00:00:00.000Z", "date"),
        (b"abc", "3 bytes", "bytes"),
        ({}, "{}", "nested"),
        ([1, "a", None], '[1, "a", null]', "nested"),
        ((1, 2), "[1, 2]", "nested"),
        ({"a": {"b": [True]}}, "{a: {b: [true]}}", "nested"),
        ({2, 1}, "[1, 2]", "nested"),
        ({1: "x"}, '{1: "x"}', "nested"),
    ],
)
def test_a_value_as_text(value: Any, text: str, kind: str) -> None:
    cell = cell_of(value)
    assert (cell.text, cell.kind, cell.is_cut) == (text, kind, False)


def test_a_blob_is_its_type_and_size() -> None:
    assert cell_of(create_blob(b"x" * 2048, type="image/png")).text == "image/png, 2,048 bytes"


def test_an_integer_that_python_does_not_print() -> None:
    assert cell_of(1 << 40_000).text == "an integer of 40001 bits"


@pytest.mark.parametrize(
    "value", ["x" * 1_000_000, {"k" * 100_000: "v"}, ["x" * 50] * 10_000, {str(n): n for n in range(10_000)}, [[[["y" * 999]]]]]
)
def test_what_is_long_is_cut(value: Any) -> None:
    cell = cell_of(value)
    assert cell.is_cut and cell.text.endswith("…") and len(cell.text) < 3 * CELL


def test_nesting_without_end_ends() -> None:
    own: list[Any] = []
    own.append(own)
    assert cell_of(own).is_cut
    assert len(list(lines_of(own))) == 2 * DEEPEST + 1


def test_a_tree_shows_what_is_left_out() -> None:
    lines = list(lines_of({"a": list(range(1000)), "b": {}, "c": 1}))
    assert [line.kind for line in lines[:3]] == ["open", "open", "value"] and lines[-1].kind == "close"
    assert [(line.name, line.cell.text) for line in lines[-3:-1] if line.cell is not None] == [("b", "{}"), ("c", "1")]
    assert [line.more for line in lines if line.kind == "more"] == [1000 - MOST_MEMBERS]


def test_trees_share_a_budget() -> None:
    budget = [MOST_VALUES]
    lines = [line for _ in range(100) for line in lines_of([list(range(150))] * 150, budget)]
    assert sum(line.kind == "value" for line in lines) < MOST_VALUES + 100
    assert [line.kind for line in lines].count("open") == [line.kind for line in lines].count("close")


def test_keys_are_shown_like_values() -> None:
    assert [line.name for line in lines_of({"\u202e<b>": 1})] == [None, "\\u202e<b>", None]


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@settings(max_examples=half_by_day(100))
@given(json_like)
def test_anything_has_a_short_text_without_characters_that_change_others(value: Any) -> None:
    cell = cell_of(value)
    assert len(cell.text) < 10 * CELL
    assert shortened(cell.text, 10**6) == cell.text
    assert list(lines_of(value))
