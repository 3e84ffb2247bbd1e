from __future__ import annotations

from typing import Any

import pytest

from svc.pages.collection import MOST_ROWS, data_page


def test_objects_in_a_list_are_a_table() -> None:
    page = data_page([{"a": 1, "b": 2}, {"b": None, "c<": "x"}])
    assert page.table is not None and page.lines is None
    assert [column.name for column in page.table.columns] == ["a", "b", "c<"]
    assert [[(cell.text, cell.kind) for cell in row] for row in page.table.rows] == [
        [("1", "number"), ("2", "number"), ("", "missing")],
        [("", "missing"), ("null", "null"), ("x", "text")],
    ]


@pytest.mark.parametrize(("value", "count"), [([], 0), ([1, {"a": 1}], 2), ((1,), 1), ({"a": 1}, None), ("x", None), (None, None)])
def test_anything_else_is_a_tree(value: Any, count: int | None) -> None:
    page = data_page(value)
    assert page.table is None and page.lines is not None and list(page.lines) and page.count == count and not page.is_cut


def test_a_long_list_is_cut() -> None:
    assert data_page(list(range(MOST_ROWS + 1))).is_cut and not data_page(list(range(MOST_ROWS))).is_cut
    assert data_page([1], has_more=True).is_cut
