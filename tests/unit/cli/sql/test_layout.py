"""Rows for people."""

from __future__ import annotations

import json
from typing import Any
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from svc.cli.sql.layout import MIN_COLUMN, SAMPLE, JsonWriter, LineWriter, TableWriter, narrowed, snippet

VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=40)
    | st.lists(st.text(max_size=9), max_size=4)
)


def is_harmless(text: str) -> bool:
    return not any(category(character)[0] == "C" or category(character) in ("Zl", "Zp") for character in text)


def table(*batches: list[dict[str, Any]], width: int | None = 60, color: bool = False) -> list[str]:
    written: list[str] = []
    writer = TableWriter(written.append, width=width, color=color)
    for batch in batches:
        writer.rows(batch)
    writer.end()
    return "".join(written).splitlines()


def lines(*rows: dict[str, Any]) -> str:
    written: list[str] = []
    LineWriter(written.append).rows(rows)
    return "".join(written)


def test_a_table() -> None:
    rows = [{"id": 1, "name": "fern", "tags": ["a", {"b": 1}], "new": True}, {"id": 20, "name": None, "tags": "", "new": False}]
    assert table(rows) == [
        "id  name  tags             new",
        "──  ────  ───────────────  ─────",
        ' 1  fern  ["a", {"b": 1}]  true',
        "20  NULL                   false",
    ]


def test_null_is_not_an_empty_text_nor_the_word() -> None:
    shown = table([{"a": None, "b": "", "c": "NULL"}], color=True)
    assert shown[2] == "\x1b[2mNULL\x1b[0m     NULL"


def test_nothing_without_rows() -> None:
    assert table() == table([]) == []


def test_wide_values_are_shortened_to_the_terminal() -> None:
    shown = table([{"id": 7, "text": "word" * 100, "note": "日本語" * 30}], width=40)
    assert shown[2] == " 7  wordwordwordword…  日本語日本語日本…"
    assert all(cell_len(line) <= 40 for line in shown)


def test_a_pipe_gets_all_of_them() -> None:
    assert table([{"id": 7, "text": "word" * 100}], width=None)[2] == " 7  " + "word" * 100


def test_the_first_rows_decide_and_later_ones_are_not_kept() -> None:
    written: list[str] = []
    writer = TableWriter(written.append, width=80)
    for number in range(0, SAMPLE, 100):
        assert not written
        writer.rows([{"id": number + n} for n in range(100)])
    assert len("".join(written).splitlines()) == SAMPLE + 2
    writer.rows([{"id": 12345678}, {"id": None}])
    assert "".join(written).splitlines()[-2:] == ["12…", "NU…"]


def test_too_many_columns_come_record_by_record() -> None:
    row = {f"attribute{n}": "x" * 20 for n in range(9)}
    assert table([row]) == lines(row).splitlines()


def test_line_by_line() -> None:
    assert lines({"id": 1, "long name": "one\ntwo\x1b[2J"}, {"id": None, "long name": ""}) == (
        "       id = 1\nlong name = one\n            two\\x1b[2J\n\n       id = NULL\nlong name = \n\n"
    )


@given(st.lists(st.fixed_dictionaries({"a": VALUES, "b\x07": VALUES, "c": VALUES}), min_size=1, max_size=5), st.integers(40, 90))
def test_no_value_commands_the_terminal(rows: list[dict[str, Any]], width: int) -> None:
    for line in table(rows, width=width):
        assert is_harmless(line) and cell_len(line) <= width
    assert is_harmless(lines(*rows).replace("\n", ""))
    written: list[str] = []
    writer = JsonWriter(written.append)
    writer.rows(rows)
    writer.end()
    text = "".join(written)
    assert is_harmless(text.replace("\n", ""))
    assert json.loads(text) == rows


def test_json_without_rows() -> None:
    written: list[str] = []
    JsonWriter(written.append).end()
    assert written == ["[]\n"]


@given(st.lists(st.integers(0, 500), min_size=1, max_size=12), st.integers(1, 200))
def test_columns_fit(needed: list[int], room: int) -> None:
    widths = narrowed(needed, room)
    if widths is None:
        assert sum(min(each, MIN_COLUMN) for each in needed) > room or len(needed) * MIN_COLUMN > room
    else:
        assert sum(widths) <= room
        assert all(width == each or width >= MIN_COLUMN for width, each in zip(widths, needed, strict=True))


@pytest.mark.parametrize(
    ("text", "position", "shown"),
    [
        ("select form", 7, "select form\n       ^"),
        ("select 1\n\tform x\nwhere", 10, " form x\n ^"),
        ("select", 6, "select\n      ^"),
        ("select", 99, "select\n      ^"),
        ("日本 form", 3, "日本 form\n     ^"),
        ("\x1b form", 2, "\\x1b form\n     ^"),
    ],
)
def test_the_place_in_a_statement(text: str, position: int, shown: str) -> None:
    assert snippet(text, position, 40) == shown


@given(st.text(max_size=200), st.integers(0, 220), st.integers(10, 60))
def test_the_place_in_any_text(text: str, position: int, width: int) -> None:
    line, caret = snippet(text, position, width).split("\n")
    assert is_harmless(line) and cell_len(line) <= width
    assert set(caret) <= set(" ^") and len(caret) <= width + 1


def test_a_place_far_to_the_right() -> None:
    line, caret = snippet("x" * 5000 + " form " + "y" * 5000, 5001, 41).split("\n")
    assert line[len(caret) - 1 :].startswith("form ")
    assert line[0] == line[-1] == "…"
