from typing import Any

import pytest

from svc.content import csv_reader
from svc.content.content_type import run
from svc.content.csv_reader import SLICE_CELLS, QuotedCell, iter_rows
from svc.content.csv_type import CsvType
from svc.errors import BadBody, BadValue
from svc.store.schema import Attribute
from svc.store.values.conversion import date_from_text


def decode_csv(text: str, attributes: Any) -> Any:
    return run(csv_reader.decode_csv(text, attributes))


CASES: list[tuple[str, list[list[str]]]] = [
    # RFC 4180, section 2
    ("aaa,bbb,ccc\r\nzzz,yyy,xxx\r\n", [["aaa", "bbb", "ccc"], ["zzz", "yyy", "xxx"]]),
    ("aaa,bbb,ccc\r\nzzz,yyy,xxx", [["aaa", "bbb", "ccc"], ["zzz", "yyy", "xxx"]]),
    ('"aaa","bbb","ccc"\r\nzzz,yyy,xxx', [["aaa", "bbb", "ccc"], ["zzz", "yyy", "xxx"]]),
    ('"aaa","b\r\nbb","ccc"\r\nzzz,yyy,xxx', [["aaa", "b\r\nbb", "ccc"], ["zzz", "yyy", "xxx"]]),
    ('"aaa","b""bb","ccc"', [["aaa", 'b"bb', "ccc"]]),
    # What it leaves open
    ("", []),
    ("\r\n\n\r", []),
    ("a\nb\rc\r\nd", [["a"], ["b"], ["c"], ["d"]]),
    ('a\n"b"\rc\r\nd', [["a"], ["b"], ["c"], ["d"]]),
    ("a,\n,b\n,", [["a", ""], ["", "b"], ["", ""]]),
    ('"a",\n,"b"\n,', [["a", ""], ["", "b"], ["", ""]]),
    ('""', [[""]]),
    ('"",""', [["", ""]]),
    ('""""', [['"']]),
    ('"a,b",c', [["a,b", "c"]]),
    ('x\n\n\n"y"\n\nz\n', [["x"], ["y"], ["z"]]),
    ("a\vb\u2028c\x85d", [["a\vb\u2028c\x85d"]]),
    ('"a\vb\u2028c\x85d"', [["a\vb\u2028c\x85d"]]),
]


@pytest.mark.parametrize(("text", "rows"), CASES, ids=lambda value: repr(value)[:30])
def test_rows(text: str, rows: list[list[str]]) -> None:
    assert [cells for _, cells in iter_rows(text)] == rows


def test_lines_are_counted_also_within_cells() -> None:
    text = 'a,b\r\n\r\n"1\r\n2\n3\r4",x\r\nc,d\n"e",f\rg,h'
    assert [line for line, _ in iter_rows(text)] == [1, 3, 7, 8, 9]


def test_quoted_cells_are_known() -> None:
    ((_, cells),) = iter_rows('1,"1",""')
    assert [type(cell) is QuotedCell for cell in cells] == [False, True, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "first row must have the names"),
        ("\r\n\r\n", "first row must have the names"),
        ("a,b\n1,2\n3\n", "1 cells in line 3, but 2 columns"),
        ("a,b\n1,2,3\n", "3 cells in line 2, but 2 columns"),
        ('a\n\n"x\ny",2', "2 cells in line 3, but 1 columns"),
        ("a,,b\n", "column 2 has no name, in line 1"),
        ('"",a\n', "column 1 has no name, in line 1"),
        ("a,b,a\n", "two columns are named a, in line 1"),
        ('a\n"b', "begins in line 2 has no end"),
        ('a\n"b""', "begins in line 2 has no end"),
        ('a\n"b"c\n', "characters after a quoted cell, in line 2"),
        ('a\n"b" \n', "characters after a quoted cell, in line 2"),
        ('a\nb"c\n', "a quote in a cell that is not quoted, in line 2"),
        ('a\n"b\n\n"c\n', "characters after a quoted cell, in line 4"),
    ],
)
def test_what_is_no_csv(text: str, message: str) -> None:
    with pytest.raises(BadBody, match=message):
        decode_csv(text, None)


ATTRIBUTES = {
    attribute.name: attribute
    for attribute in (
        Attribute("id", "ID"),
        Attribute("price", "Float"),
        Attribute("listDate", "Date"),
        Attribute("tags", "String", elements=True),
        Attribute("specs", "Any"),
        Attribute("image", "Bytes"),
    )
}


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ("id\n", []),
        ("id,price\n1,49.5\n2,\n", [{"id": "1", "price": 49.5}, {"id": "2"}]),
        ('id,price\n"1","49.50"\n', [{"id": "1", "price": 49.5}]),
        ('id,price\n"",""\n', [{"id": "", "price": None}]),
        ("id,price\nnull,null\n", [{"id": "null", "price": None}]),
        ('specs,other\n1,2.5\n"1","2.5"\n', [{"specs": 1, "other": 2.5}, {"specs": "1", "other": "2.5"}]),
        ('specs,other\ntrue,null\n"true",""\n', [{"specs": True, "other": None}, {"specs": "true", "other": ""}]),
        ('specs\n"[1,2]"\n', [{"specs": "[1,2]"}]),
        ('id,tags\na,"[""x"",""y""]"\n', [{"id": "a", "tags": ["x", "y"]}]),
        ("id,listDate\na,2024-01-05\n", [{"id": "a", "listDate": date_from_text("2024-01-05")}]),
        ('id,image\na,"/wA="\n', [{"id": "a", "image": "/wA="}]),
        ('"i""d", x \n1,2\n', [{'i"d': 1, " x ": 2}]),
        ("id,price\n,\n", []),
        ("id,price\n,\n1,2\n,,,\n\n,\n", [{"id": "1", "price": 2}]),
        ('id,price\n"",\n', [{"id": ""}]),
    ],
)
def test_records(text: str, records: list[dict[str, Any]]) -> None:
    found = decode_csv(text, ATTRIBUTES)
    assert found == records
    assert [list(map(type, record.values())) for record in found] == [list(map(type, record.values())) for record in records]
    assert all(type(name) is str for record in found for name in record)


def test_a_value_that_does_not_fit_names_its_line() -> None:
    with pytest.raises(BadValue, match=r'Invalid value for attribute price: "x", expecting Float \(line 3\)'):
        decode_csv("id,price\na,1\nb,x\n", ATTRIBUTES)


def test_long_bodies_are_read_with_pauses() -> None:
    reading = csv_reader.decode_csv("a,b\n" + "1,2\n" * SLICE_CELLS, None)
    assert len(list(reading)) == 2


@pytest.mark.parametrize("text", ["a;b\n1;2\n", "a\tb\n1\t2\n", "sep=;\na;b\n", "a|b\n", "a;b"])
def test_other_separators_than_commas_are_refused(text: str) -> None:
    for attributes in (ATTRIBUTES, None):
        with pytest.raises(BadBody, match=r"the header is one column.*separated by commas, not by"):
            decode_csv(text, attributes)


def test_a_single_column_may_have_any_name() -> None:
    assert decode_csv('"a;b"\n1\n', None) == [{"a;b": 1}]
    assert decode_csv("a;b\n1\n", {"a;b": Attribute("a;b", "Int")}) == [{"a;b": 1}]
    assert decode_csv("a;b,c\n1,2\n", None) == [{"a;b": 1, "c": 2}]


def test_without_a_header_no_row_is_lost() -> None:
    for value in ("absent", "ABSENT"):
        with pytest.raises(BadBody, match="header=absent cannot be read"):
            CsvType().decode(b"1,2\r\n", {"header": value})
    assert CsvType().decode(b"a,b\r\n1,2\r\n", {"header": "present"}) == [{"a": 1, "b": 2}]
