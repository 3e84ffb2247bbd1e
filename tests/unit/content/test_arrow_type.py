from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from svc.content import arrow_type
from svc.content.arrow_type import ARROW, BATCH_ROWS, ArrowType
from svc.content.content_type import Shape
from svc.content.registry import ContentTypes
from svc.errors import NotAcceptable
from svc.store.blobs import create_blob
from svc.store.values.records import encode
from tests.support.application import application

TYPE = ArrowType()
MOMENT = datetime(2024, 1, 5, 20, 7, 27, 955000, UTC)


def read(body: bytes) -> Any:
    return pa.ipc.open_stream(body).read_all()


def written(rows: Any, *batches: list[Any]) -> bytes:
    return rows.begin() + b"".join(map(rows.rows, batches)) + rows.end()


@pytest.mark.parametrize(
    ("values", "kind", "found"),
    [
        ([1, None, -(2**63), 2**63 - 1], "int64", None),
        ([2**63, 1], "string", [str(2**63), "1"]),
        ([1, 1.5, None], "double", [1.0, 1.5, None]),
        ([2**53 + 1, 1.5], "string", [str(2**53 + 1), "1.5"]),
        ([float("inf"), None], "double", None),
        (["a", None, "ä\x00"], "string", None),
        (["\ud800", "a"], "string", ["\ufffd", "a"]),
        ([True, False, None], "bool", None),
        ([True, 1], "string", ["true", "1"]),
        ([MOMENT, None], "timestamp[ms, tz=UTC]", None),
        ([b"\xff", None], "binary", None),
        ([[1, 2], {"a": {MOMENT}}], "string", ["[1,2]", '{"a":["2024-01-05T20:07:27.955Z"]}']),
        (["a", 1], "string", ['"a"', "1"]),
        ([None, None], "string", None),
        ([create_blob("abc"), None], "string", ['"abc"', None]),
    ],
    ids=str,
)
def test_the_type_of_a_column_is_that_of_its_values(values: list[Any], kind: str, found: list[Any] | None) -> None:
    table = read(TYPE.encode([{"x": value} for value in values]))
    assert str(table.schema.field("x").type) == kind
    assert table.column("x").to_pylist() == (values if found is None else found)


def test_a_value_that_is_no_list_is_a_row() -> None:
    assert read(TYPE.encode({"a": 1, "b": None})).to_pylist() == [{"a": 1, "b": None}]
    assert read(TYPE.encode(["x", "y"])).to_pylist() == [{"value": "x"}, {"value": "y"}]
    assert read(TYPE.encode(7)).to_pylist() == [{"value": 7}]
    assert read(TYPE.encode([])).to_pylist() == []


def test_declared_types_count_where_they_hold() -> None:
    types = {"price": "Float", "big": "BigInt", "when": "Date", "name": "String", "flag": "Boolean", "wrong": "Int", "any": "Any"}
    rows = TYPE.row_writer(Shape(tuple(types), types=types))
    first = {"price": 1, "big": 2, "when": None, "name": None, "flag": None, "wrong": "text", "any": 1}
    table = read(written(rows, [first]))
    assert {field.name: str(field.type) for field in table.schema} == {
        "price": "double",
        "big": "string",
        "when": "timestamp[ms, tz=UTC]",
        "name": "string",
        "flag": "bool",
        "wrong": "string",
        "any": "int64",
    }
    assert table.to_pylist() == [{**first, "price": 1.0, "big": "2"}]


def test_rows_come_in_batches_of_one_type() -> None:
    rows = TYPE.row_writer(Shape(("n",)))
    pieces = [rows.rows([{"n": number} for number in range(start, start + 100)]) for start in range(0, 3 * BATCH_ROWS, 100)]
    assert sum(map(bool, pieces)) > 1  # they leave before the end
    stream = pa.ipc.open_stream(rows.begin() + b"".join(pieces) + rows.end())
    batches = list(stream)
    assert len(batches) > 2
    assert [value for batch in batches for value in batch.column("n").to_pylist()] == list(range(len(pieces) * 100))


@pytest.mark.parametrize("later", [1.5, "a", 2**63, True, [1]])
def test_a_value_that_its_column_cannot_hold_ends_the_stream(later: Any) -> None:
    rows = TYPE.row_writer(Shape(("n",)))
    rows.rows([{"n": 1}] * BATCH_ROWS)
    rows.rows([{"n": None}, {"n": later}])
    with pytest.raises(NotAcceptable, match="The column 'n' has integers in its first rows"):
        rows.end()
    assert rows.failure({"error": "no"}) is None


def test_columns_without_rows() -> None:
    rows = TYPE.row_writer(Shape(("a", "b"), types={"a": "Int"}))
    assert read(rows.begin() + rows.end()).schema == pa.schema([("a", pa.int64()), ("b", pa.string())])


def test_shapes() -> None:
    assert read(written(TYPE.row_writer(Shape(("a",), "value")), [1, 2])).to_pylist() == [{"a": 1}, {"a": 2}]
    assert read(written(TYPE.row_writer(Shape(("a", "b"), "array")), [[1, "x"]])).to_pylist() == [{"a": 1, "b": "x"}]
    opened = TYPE.row_writer(Shape(("a",), open=True))
    assert read(opened.values([{"a": 1, "b": 2}, {"c": 3}]) + opened.end()).column_names == ["a", "b", "c"]
    fixed = TYPE.row_writer(Shape(("a",)))
    assert read(fixed.values([{"a": 1, "b": 2}, 7]) + fixed.end()).to_pylist() == [{"a": 1}, {"a": None}]


def test_stored_records() -> None:
    rows = TYPE.row_writer(Shape(("id", "n"), open=True))
    raw = [encode(record, 1.0, number, None) for number, record in enumerate([{"id": "a", "n": 1}, {"id": "b", "x": MOMENT}])]
    assert read(rows.raw(raw) + rows.end()).to_pylist() == [{"id": "a", "n": 1, "x": None}, {"id": "b", "n": None, "x": MOMENT}]


def test_it_is_for_those_who_name_it() -> None:
    types = ContentTypes.built_in()
    assert types.writer(ARROW).name == ARROW
    assert types.writer("application/*").name != ARROW
    assert types.reader(ARROW) is None


def test_without_the_library_it_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_type, "is_installed", lambda: False)
    types = ContentTypes.built_in()
    with pytest.raises(NotAcceptable, match="needs pyarrow on the server, the extra 'arrow' of svc") as caught:
        types.writer(ARROW)
    assert ARROW not in caught.value.message.partition(";")[0]
    with pytest.raises(NotAcceptable) as other:
        types.writer("image/png")
    assert "arrow" not in other.value.message


def test_queries_and_records_over_rest(tmp_path: Path) -> None:
    with application(tmp_path, "class Chair(tables.Seat): pass\n") as app:
        for number in range(3):
            seat = {
                "id": str(number),
                "stock": number,
                "price": number / 2,
                "since": "2024-01-05T20:07:27.955Z",
                "place": number or "x",
                "tags": ["a"],
            }
            assert app.ask("PUT", f"/Chair/{number}", seat)[0] == 204

        def ask(target: str) -> Any:
            status, fields, body = app.answer("GET", target, accept=ARROW)
            assert (status, fields["content-type"]) == (200, ARROW)
            return read(body)

        table = ask("/Chair/?select(id,stock,price,since,place,tags)&sort(id)")
        assert {field.name: str(field.type) for field in table.schema} == {
            "id": "string",
            "stock": "int64",
            "price": "double",
            "since": "timestamp[ms, tz=UTC]",
            "place": "string",
            "tags": "string",
        }
        assert table.column("price").to_pylist() == [0.0, 0.5, 1.0]
        assert table.column("place").to_pylist() == ['"x"', "1", "2"]
        assert table.column("tags").to_pylist() == ['["a"]'] * 3
        assert ask("/Chair/?sort(id)").column("stock").to_pylist() == [0, 1, 2]
        assert ask("/Chair/1").to_pylist()[0]["since"] == MOMENT
        assert ask("/Chair/1?select(stock)").to_pylist() == [{"stock": 1}]
        assert ask("/Chair/?id==nothing").num_rows == 0
        assert ask("/Chair/?group(stock;count)").to_pylist() == [{"stock": number, "count": 1} for number in range(3)]
