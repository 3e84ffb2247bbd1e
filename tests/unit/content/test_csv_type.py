from datetime import UTC, date, datetime
from typing import Any

import msgspec
import pytest

from svc.content.content_type import Shape
from svc.content.csv_type import CsvType
from svc.errors import BadBody
from svc.store.blobs import create_blob
from svc.store.blobs.blob import DESCRIPTION
from svc.store.schema import Attribute
from svc.store.values.records import encode

CSV = CsvType()
MOMENT = datetime(2024, 1, 5, 20, 7, 27, 955000, UTC)


def test_the_type() -> None:
    assert (CSV.content_type, CSV.q) == ("text/csv; charset=utf-8", 0.1)
    assert CSV.headers == [("Content-Disposition", 'attachment; filename="data.csv"')]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("a", '"a"'),
        ('a"b', '"a""b"'),
        ("a\r\nb", '"a\r\nb"'),
        ("", '""'),
        ("=1+1", '"=1+1"'),
        ("\ud800", '"\ufffd"'),
        (None, ""),
        (True, "true"),
        (False, "false"),
        (1, "1"),
        (10**40, "1" + "0" * 40),
        (1.5, "1.5"),
        (1e22, "1" + "0" * 22),
        (-2.5e-7, "-0.00000025"),
        (float("nan"), ""),
        (float("-inf"), ""),
        (MOMENT, '"2024-01-05T20:07:27.955Z"'),
        (date(2024, 1, 5), '"2024-01-05"'),
        (b"\xff\x00", '"/wA="'),
        ([1, "a"], '"[1,""a""]"'),
        ({"a": {1}}, '"{""a"":[1]}"'),
        ({2, 1}, '"[1,2]"'),
        ((), '"[]"'),
        (create_blob(b"abc", type="a/b"), f'"{{""description"":""{DESCRIPTION}"",""contentType"":""a/b"",""size"":3}}"'),
        (create_blob("abc"), '"abc"'),
    ],
    ids=[str(number) for number in range(25)],
)
def test_cells(value: Any, cell: str) -> None:
    assert CSV.encode({"x": value, "y": 1}).decode() == f'"x","y"\r\n{cell},1\r\n'


RECORDS = [{"id": "a", "n": 1, "when": MOMENT}, {"id": "b", "extra": "x", "tags": ["t"]}]
RAW = [encode(record, 1.0, number, None) for number, record in enumerate(RECORDS)]


@pytest.mark.parametrize("part", ["rows", "raw", "values"])
def test_collections(part: str) -> None:
    batch: Any = RAW if part == "raw" else RECORDS

    def written(shape: Shape) -> str:
        writer = CSV.row_writer(shape)
        return (writer.begin() + getattr(writer, part)(batch[:1]) + getattr(writer, part)(batch[1:]) + writer.end()).decode()

    assert written(Shape(("n", "id"))) == '"n","id"\r\n1,"a"\r\n,"b"\r\n'
    assert written(Shape(("id",), open=True)) == '"id","n","when"\r\n"a",1,"2024-01-05T20:07:27.955Z"\r\n"b",,\r\n'
    assert written(Shape()) == '"id","n","when"\r\n"a",1,"2024-01-05T20:07:27.955Z"\r\n"b",,\r\n'


def test_other_forms_and_no_rows() -> None:
    writer = CSV.row_writer(Shape(("x",), "value"))
    assert writer.begin() + writer.rows([1, None, [2]]) + writer.end() == b'"x"\r\n1\r\n\r\n"[2]"\r\n'
    writer = CSV.row_writer(Shape(("x", "y"), "array"))
    assert writer.rows([[1, "a"], (2, None)]) == b'"x","y"\r\n1,"a"\r\n2,\r\n'
    assert CSV.row_writer(Shape(("x", "y"))).end() == b'"x","y"\r\n'
    assert CSV.row_writer(Shape()).end() == b""
    assert CSV.row_writer(Shape(("x",), "value")).end() == b'"x"\r\n'
    assert CSV.row_writer(Shape()).failure({"error": "x"}) is None


class Struct(msgspec.Struct):
    x: int


def test_values_of_handlers() -> None:
    assert CSV.encode([{"a": 1}, {"b": 2}]) == b'"a","b"\r\n1,\r\n,2\r\n'
    assert CSV.encode([]) == b""
    assert CSV.encode("text") == b'"value"\r\n"text"\r\n'
    assert CSV.encode([1, {"a": 2}]) == b'"value"\r\n1\r\n"{""a"":2}"\r\n'
    assert CSV.encode(Struct(1)) == CSV.encode({"x": n} for n in (1,)) == b'"x"\r\n1\r\n'
    assert CSV.encode({1: 2, None: 3}) == b'"1","null"\r\n2,3\r\n'
    for value in (object(), [object()], {"a": object()}, {"a": [object()]}):
        with pytest.raises(TypeError):
            CSV.encode(value)


def test_reading() -> None:
    assert CSV.decode(b'\xef\xbb\xbfid,n\r\n"a",1\r\n', {}) == [{"id": "a", "n": 1}]
    assert CSV.decode("id,n\r\né,1".encode("latin-1"), {"charset": "iso-8859-1"}) == [{"id": "é", "n": 1}]
    assert CSV.decode(b"id,n\n1,1", {}, {"id": Attribute("id", "ID")}) == [{"id": "1", "n": 1}]
    with pytest.raises(BadBody, match="not valid utf-8 at byte 3"):
        CSV.decode(b"id,\xff", {})


def test_what_is_written_can_be_read() -> None:
    attributes = {a.name: a for a in (Attribute("id", "ID"), Attribute("when", "Date"), Attribute("tags", "String", elements=True))}
    writer = CSV.row_writer(Shape(("id", "n", "when", "extra", "tags")))
    assert CSV.decode(writer.raw(RAW) + writer.end(), {}, attributes) == RECORDS
