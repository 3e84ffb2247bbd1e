"""svc.operations.csv_cast and csv_rows: what cells stand for, and rows in pieces of every size."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.errors import BadValue, ValidationError
from svc.operations import csv_rows
from svc.operations.csv_cast import CsvColumns, autocast, column_name_fault
from svc.operations.csv_rows import CsvRowParser
from svc.store.schema import Attribute
from svc.store.values.conversion import text_to_value
from svc.store.writing.bulk_batch import RefusedRecord

CASTS: list[tuple[str, Any]] = [
    ("true", True), ("TRUE", True), ("True", "True"), ("false", False), ("FALSE", False), ("tRUE", "tRUE"), ("t", "t"),
    ("null", None), ("NULL", None), ("Null", "Null"), ("undefined", None), ("UNDEFINED", "UNDEFINED"),
    ("0", 0), ("-0", 0), ("7", 7), ("-7", -7), ("+7", "+7"), ("007", "007"), ("0.5", 0.5), ("00.5", "00.5"), ("-0.5", -0.5), (".5", ".5"),
    ("5.", "5."), ("5.0", 5), ("2.50", 2.5), ("1e3", "1e3"), ("1E3", "1E3"), ("1.5e3", "1.5e3"), ("1_000", "1_000"), ("1,5", "1,5"), ("0x1f", "0x1f"),
    (" 5", " 5"), ("5 ", "5 "), ("٥", "٥"), ("12345678901234567890", 12345678901234567890), ("NaN", "NaN"), ("nan", "nan"), ("Infinity", "Infinity"),
    ("inf", "inf"), ("-inf", "-inf"), ("-", "-"), ("1e400", "1e400"), ("9" * 1000, "9" * 1000),
    ('{"a": [1, 2.0]}', {"a": [1, 2]}), ("[1, null]", [1, None]), ("[]", []), ("{}", {}), ("{a}", "{a}"), ("[1", "[1"), ("[1}", "[1}"), ("{", "{"),
    ("[NaN]", "[NaN]"), ('["\\ud800"]', ["\ud800"]), ("2024-01-05T10:00:00Z", "2024-01-05T10:00:00Z"), ("2024-01-05", "2024-01-05"), ("text", "text"),
    ("ünï", "ünï"), ('"', '"'),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), CASTS)
def test_autocast(text: str, value: Any) -> None:
    if text != '["\\ud800"]':
        found = autocast(text)
        assert found == value and type(found) is type(value)


@given(st.lists(st.sampled_from([text for text, _ in CASTS]), min_size=1, max_size=6))
def test_columns_are_cast_as_cells_are(cells: list[str]) -> None:
    columns = CsvColumns(["a"], {}, "id", frozenset())
    found = [record["a"] for record in columns.records([[cell] for cell in cells], [0] * len(cells))]  # type: ignore[index]
    for value, cell in zip(found, cells, strict=True):
        expected = autocast(cell)
        assert value == expected and (type(value) is type(expected) or {type(value), type(expected)} == {int, float})


TYPED = {
    name: Attribute(name, kind)
    for name, kind in (("i", "Int"), ("f", "Float"), ("b", "Boolean"), ("d", "Date"), ("s", "String"), ("big", "BigInt"), ("x", "Any"))
} | {"l": Attribute("l", "Int", elements=True), "id": Attribute("id", "ID", primary_key=True)}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("i", "7", 7), ("i", "007", 7), ("i", "null", None), ("f", "2.50", 2.5), ("f", "3", 3), ("f", "1e3", 1000), ("b", "TRUE", True),
        ("b", "false", False), ("s", "null", "null"), ("s", "12", "12"), ("s", "[1]", "[1]"), ("big", "9" * 30, int("9" * 30)), ("x", "12", 12),
        ("d", "2024-01-05T10:00:00Z", datetime(2024, 1, 5, 10, tzinfo=UTC)), ("d", "1704448800000", datetime(2024, 1, 5, 10, tzinfo=UTC)),
        ("l", "[1,2]", [1, 2]), ("id", "12", "12"),
    ],
)  # fmt: skip
def test_declared_types_decide(name: str, text: str, value: Any) -> None:
    assert CsvColumns([name], TYPED, "id", frozenset()).records([[text], [text]], [1, 2]) == [{name: value}] * 2


kinds = st.sampled_from(("Int", "Long", "BigInt", "Float", "Boolean", "Date"))


@given(kinds, st.lists(st.text("0123456789.-+eEtrufalsn", max_size=18), min_size=1, max_size=4))
def test_a_column_says_what_each_of_its_cells_does(kind: str, cells: list[str]) -> None:
    cells = [cell for cell in cells if cell] or ["1"]
    columns = CsvColumns(["a"], {"a": Attribute("a", kind)}, "id", frozenset())
    found = columns.records([[cell] for cell in cells], [0] * len(cells))
    for record, cell in zip(found, cells, strict=True):
        try:
            value = text_to_value(Attribute("a", kind), cell)
        except BadValue as error:
            assert record == RefusedRecord(error.message, None, "a")
        else:
            assert record == {"a": value}


def test_what_a_type_cannot_take_refuses_its_row() -> None:
    columns = CsvColumns(["id", "i", "f"], TYPED, "id", frozenset())
    found = columns.records([["a", "x", "1.5"], ["b", "2", ""], ["null", "3", "y"]], [2, 3, 4])
    assert found == [
        RefusedRecord('Invalid value for attribute i: "x", expecting Int', "a", "i"),
        {"id": "b", "i": 2},
        RefusedRecord(
            "Invalid hash value: 'null' is not a valid hash attribute value, check log for more info. "
            'Invalid value for attribute f: "y", expecting Float',
            None,
            "id",
        ),
    ]


def test_shapes_of_rows() -> None:
    columns = CsvColumns(["id", "a", "b"], {}, "id", frozenset(("b",)))
    rows = [["1", "x", "y"], ["2"], ["3", "", "z", "more"], ["", "", ""], ["", "w", ""]]
    lines = [2, 3, 5, 6, 7]
    assert columns.records(rows, lines) == [{"id": 1, "a": "x"}, {"id": 2}, {"id": 3}, {"a": "w"}]
    assert lines == [2, 3, 5, 7]
    assert columns.records([], []) == []
    assert CsvColumns(["a"], {}, "id", frozenset(("a",))).records([["1"]], lines) == [] and not lines


def test_column_names() -> None:
    assert column_name_fault(["id", "a b", "ü"]) is None
    for names, fault in (
        (["a/b"], "a/b"), (["id", ""], ""), (["null"], "null"), (["a", "`"], "`"), (["a", "b", "a"], "a"), (["x" * 251], "x" * 251),
    ):  # fmt: skip
        assert column_name_fault(names) == fault


# -- rows


def read(pieces: list[str], limit: int = 3) -> list[list[str]]:
    rows = CsvRowParser()
    found = []
    for piece in pieces:
        rows.feed(piece)
        while some := rows.rows(limit):
            assert len(some) <= limit
            found += some
    rows.finish()
    while some := rows.rows(limit):
        found += some
    rows.check_end()
    return found


def test_lines_of_rows() -> None:
    text = 'a,b\r\n\r\n1,2\n"x\ny\n",3\n\n"4",5\n6,7\r8,9'
    for cut in range(len(text)):
        rows = CsvRowParser()
        found: list[tuple[int, str]] = []
        for piece in (text[:cut], text[cut:], None):
            if piece is None:
                rows.finish()
            else:
                rows.feed(piece)
            while some := rows.rows(2):
                found += zip(rows.lines, [row[1] for row in some], strict=True)
        assert found == [(1, "b"), (3, "2"), (4, "3"), (8, "5"), (9, "7"), (10, "9")]


def written(cell: str, quoted: bool) -> str:
    return '"' + cell.replace('"', '""') + '"' if quoted or any(character in cell for character in ',"\r\n') else cell


cells = st.text(st.sampled_from('ab,"\r\n\u2028\x0c \u00fc'), max_size=5)


@given(
    st.lists(st.lists(cells, min_size=1, max_size=3), max_size=6),
    st.sampled_from(("\n", "\r\n", "\r")),
    st.booleans(),
    st.lists(st.integers(0, 80), max_size=6),
)
def test_rows_are_the_same_however_they_arrive(table: list[list[str]], end: str, all_quoted: bool, cuts: list[int]) -> None:
    text = "".join([",".join([written(cell, all_quoted or row == [""]) for cell in row]) + end for row in table])
    places = sorted(min(cut, len(text)) for cut in cuts)
    pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    assert read(pieces) == table == read(list(text))


@given(st.text(st.sampled_from('a,"\r\n'), max_size=30), st.integers(1, 7))
def test_any_text_is_read_the_same_way_in_pieces(text: str, size: int) -> None:
    def outcome(pieces: list[str]) -> Any:
        try:
            return read(pieces)
        except ValidationError:
            return None

    assert outcome([text[start : start + size] for start in range(0, len(text), size)]) == outcome([text])


def test_byte_order_mark_and_blank_lines() -> None:
    assert read(["\ufeffid,a\r\n\r\n1,x\r\n", "\n\n2,\ufeff"]) == [["id", "a"], ["1", "x"], ["2", "\ufeff"]]
    assert read([""]) == read([]) == read(["\n\r\n"]) == []


def test_what_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValidationError, match="quoted cell that begins in line 3"):
        read(['id\n1\n"a\n', "b\n"])
    monkeypatch.setattr(csv_rows, "MAX_ROW", 100)
    with pytest.raises(ValidationError, match="begins in line 2 is longer than 100 characters"):
        read(['id\n"'] + ["aaaaaaaaa\n"] * 20)
    with pytest.raises(ValidationError, match="begins in line 1 is longer"):
        read(["x" * 99, "y" * 10])
    with pytest.raises(ValidationError, match="field larger than field limit"):
        read(['"' + "x" * (csv_rows.MAX_CELL + 1) + '"\n'])
