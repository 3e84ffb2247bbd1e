"""Long bodies: `decode_slices` of every type gives what `decode` gives, with pauses."""

from typing import Any

import pytest

from svc.content import cbor_reader, csv_reader, json_pieces, json_split, msgpack_reader, ndjson_type
from svc.content.content_type import SLICE_BYTES, ContentType, run
from svc.content.registry import ContentTypes
from svc.errors import BadBody

TYPES = ContentTypes.built_in()
RECORDS = [{"id": str(number), "n": number, "text": "x" * (number % 50)} for number in range(3000)]
WITH_LARGE = [*RECORDS[:900], {"id": "large", "text": "y" * (3 * SLICE_BYTES)}, *RECORDS[900:]]


def pauses(kind: ContentType, body: bytes, parameters: dict[str, str]) -> tuple[int, Any]:
    reading = kind.decode_slices(body, parameters)
    count = 0
    while True:
        try:
            next(reading)
        except StopIteration as end:
            return count, end.value
        count += 1


@pytest.mark.parametrize(
    "name",
    [
        "application/json",
        "application/cbor",
        "application/x-msgpack",
        "application/x-msgpack;sequence=true",
        "application/x-ndjson",
        "text/csv",
    ],
)
@pytest.mark.parametrize("records", [RECORDS, WITH_LARGE], ids=["small", "large"])
def test_a_long_list(name: str, records: list[dict[str, Any]]) -> None:
    kind = TYPES.writer(name)
    parameters = {"sequence": "true"} if "sequence" in name else {}
    body = kind.encode(records)
    expected = kind.decode(body, parameters)
    assert len(expected) == len(records)
    count, value = pauses(kind, body, parameters)
    assert value == expected
    assert count >= len(body) // SLICE_BYTES // 4
    for faulty in (body[:-3], body + b'\xc1"', body[:-9] + b"\xff" + body[-8:]):
        try:
            expected = kind.decode(faulty, parameters)
        except BadBody as error:
            with pytest.raises(BadBody) as caught:
                run(kind.decode_slices(faulty, parameters))
            assert caught.value.message == error.message
        else:
            assert run(kind.decode_slices(faulty, parameters)) == expected


@pytest.mark.parametrize("name", ["application/json", "application/cbor", "application/x-msgpack"])
@pytest.mark.parametrize(
    "value", [[], {}, 1, {"a": RECORDS}, list(range(100_000)), [[], "x" * SLICE_BYTES], {"a": "x" * SLICE_BYTES}], ids=range(7)
)
def test_other_values(name: str, value: Any) -> None:
    kind = TYPES.writer(name)
    assert run(kind.decode_slices(kind.encode(value), {})) == value
    assert (
        run(kind.decode_slices(kind.row_writer().begin() + kind.row_writer(count=0).end(), {})) == []
        if name != "application/x-msgpack"
        else True
    )


@pytest.mark.parametrize("name", ["application/json", "application/cbor", "application/x-msgpack"])
def test_nothing_is_read_of_nothing(name: str) -> None:
    with pytest.raises(BadBody):
        run(TYPES.writer(name).decode_slices(b"", {}))


def test_cbor_arrays_of_indefinite_length() -> None:
    cbor = TYPES.writer("application/cbor")
    writer = cbor.row_writer()
    body = writer.begin() + writer.rows(WITH_LARGE) + writer.end()
    count, value = pauses(cbor, body, {})
    assert (value, count > 10) == (WITH_LARGE, True)
    for faulty in (body[:-1], body + b"\xff", body[:-1] + b"\x81\xff\xff"):
        with pytest.raises(BadBody):
            run(cbor.decode_slices(faulty, {}))


# --- any shape -------------------------------------------------------------------------------------------------------------------------

ROWS = [{"id": number, "text": "x" * 20} for number in range(3_000)]
SHAPES = {
    "one object": {f"name {number}": {"n": number, "of": [1, 2]} for number in range(2_000)},
    "a list in an object": {"before": 1, "rows": ROWS, "after": [True]},
    "objects in objects": {"a": {"b": {"c": {"d": ROWS}}}},
    "few long lists": [[[number] * 3 for number in range(2_000)], "text", ROWS],
    "numbers": [list(range(30_000))],
}


@pytest.mark.parametrize("name", ["application/json", "application/cbor", "application/x-msgpack"])
@pytest.mark.parametrize("value", SHAPES.values(), ids=SHAPES)
def test_any_shape_is_read_in_slices(name: str, value: Any) -> None:
    kind = TYPES.writer(name)
    body = kind.encode(value)
    count, read = pauses(kind, body, {})
    assert read == value
    assert count >= len(body) // (2 * SLICE_BYTES)


@pytest.mark.parametrize("name", ["application/json", "application/cbor", "application/x-msgpack"])
def test_faults_of_long_documents_have_a_place(name: str) -> None:
    kind = TYPES.writer(name)
    body = kind.encode([ROWS * 3, ROWS * 3])
    assert len(body) > 1 << 19
    for faulty in (body[:-3], body + b"\x01", body[: len(body) // 2] + b"\xc1\xff}" + body[len(body) // 2 + 3 :]):
        with pytest.raises(BadBody, match=r"byte \d+|truncated"):
            run(kind.decode_slices(faulty, {}))


@pytest.mark.parametrize("name", ["application/json", "application/cbor", "application/x-msgpack", "application/x-ndjson"])
def test_values_of_one_document_have_a_limit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (cbor_reader, json_split, json_pieces, msgpack_reader, ndjson_type):
        monkeypatch.setattr(module, "MAX_VALUES", 30_000)
    for module in (cbor_reader, json_split, msgpack_reader):
        monkeypatch.setattr(module, "EXACT", 0)
    kind = TYPES.writer(name)
    for value in (list(range(50_000)), [list(range(50_000))]):
        with pytest.raises(BadBody, match="more than 30000 values"):
            run(kind.decode_slices(kind.encode(value), {}))


@pytest.mark.parametrize("space", [b" ", b"\n", b"\t\r\n "], ids=["blanks", "lines", "mixed"])
@pytest.mark.parametrize("document", [b"[1,2]", b'{"a":[]}', b'"text"'], ids=["list", "object", "text"])
def test_white_space_around_json_is_skipped_in_slices(space: bytes, document: bytes) -> None:
    kind = TYPES.writer("application/json")
    blanks = space * (5_000_000 // len(space))
    for body, least in ((blanks + document, 4), (document + blanks, 4), (blanks + document + blanks, 8)):
        count, value = pauses(kind, body, {})
        assert value == kind.decode(document, {})
        assert count >= least


def test_white_space_inside_json_has_a_limit() -> None:
    kind = TYPES.writer("application/json")
    assert run(kind.decode_slices(b"[1," + b" " * 1_000_000 + b"2]", {})) == [1, 2]
    with pytest.raises(BadBody, match=r"white space \(byte \d+\)"):
        run(kind.decode_slices(b"[1," + b" " * 3_000_000 + b"2]", {}))


def test_json_is_nested_only_so_deep() -> None:
    kind = TYPES.writer("application/json")
    deep = b"[" * 400 + b"1," * 200_000 + b"2" + b"]" * 400
    assert pauses(kind, deep, {})[0] > 2
    with pytest.raises(BadBody, match="nested too deeply"):
        run(kind.decode_slices(b"[" * 100_000 + b"]" * 100_000, {}))


def test_a_row_of_csv_has_only_so_many_columns() -> None:
    kind = TYPES.reader("text/csv")
    assert kind is not None
    names = [f"c{number}" for number in range(csv_reader.MAX_COLUMNS)]
    for quote in ("", '"'):
        header = ",".join([f"{quote}{name}{quote}" for name in names])
        assert list(run(kind.decode_slices(f"{header}\n".encode(), {}))) == []
        with pytest.raises(BadBody, match="more than 10000 columns, in line 1"):
            run(kind.decode_slices(f"{header},{quote}one{quote}\n".encode(), {}))
    with pytest.raises(BadBody, match="in line 2 has more than 100000 quotes"):
        run(kind.decode_slices(b'a\n"' + b'""' * 200_000 + b'"', {}))


def test_csv_without_quotes_is_read_in_windows() -> None:
    kind = TYPES.reader("text/csv")
    assert kind is not None
    for end in ("\n", "\r\n", "\r"):
        text = end.join(["a,b", *[f"{number},{'x' * (number % 70)}y" for number in range(20_000)]])
        for body in (text, text + end, text + 3 * end):
            count, rows = pauses(kind, body.encode(), {})
            assert [row["a"] for row in rows] == list(range(20_000))
            assert rows[69]["b"] == "x" * 69 + "y"
            assert count >= 10


def test_a_field_of_a_form_has_only_so_many_escapes() -> None:
    kind = TYPES.reader("application/x-www-form-urlencoded")
    assert kind is not None
    assert run(kind.decode_slices(b"a=" + b"%41" * 100_000, {})) == {"a": "A" * 100_000}
    with pytest.raises(BadBody, match=r"field at byte 4 has more than 200000 percent-encoded bytes"):
        run(kind.decode_slices(b"b=1&a=" + b"%41" * 300_000, {}))
    count, value = pauses(kind, b"a=1&" * 50_000, {})
    assert (count, value) == (50, {"a": ["1"] * 50_000})
