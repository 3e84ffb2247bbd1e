"""Content types: what is written can be read again, and whatever is sent is a value or the sender's fault (spec: http §7)."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from svc.content import cbor_reader, json_pieces, json_type, msgpack_reader
from svc.content.content_type import ContentType, Shape, run
from svc.content.csv_reader import CsvRecord
from svc.content.registry import ContentTypes
from svc.errors import BadBody, BadValue, ClientError
from svc.store.schema import Attribute
from svc.store.values.records import encode as encode_record
from tests.support.profile import half_by_day

TYPES = ContentTypes.built_in()
JSON: ContentType = TYPES["application/json"]
CBOR: ContentType = TYPES["application/cbor"]
MSGPACK: ContentType = TYPES["application/x-msgpack"]
CSV: ContentType = TYPES["text/csv"]
NDJSON: ContentType = TYPES["application/x-ndjson"]
FORM: ContentType = TYPES["application/x-www-form-urlencoded"]
READERS = (JSON, CBOR, MSGPACK, CSV, NDJSON, FORM)
WRITERS = [kind for name in TYPES if (kind := TYPES.named(name)) is not None]

ATTRIBUTES = {
    attribute.name: attribute
    for attribute in (
        Attribute("id", "ID"),
        Attribute("n", "Int"),
        Attribute("price", "Float"),
        Attribute("when", "Date"),
        Attribute("yes", "Boolean"),
        Attribute("big", "BigInt"),
        Attribute("image", "Bytes"),
        Attribute("tags", "String", elements=True),
        Attribute("address", "Address"),
    )
}

text = st.text(max_size=12)
integers = (
    st.integers() | st.integers(-(10**300), 10**300) | st.sampled_from([2**53, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, -(2**64)])
)
finite = st.floats(allow_nan=False, allow_infinity=False)
dates = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)).map(
    lambda moment: moment.replace(tzinfo=UTC, microsecond=moment.microsecond // 1000 * 1000, fold=0)
)
plain = st.none() | st.booleans() | integers | finite | text
json_values = st.recursive(plain, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=12)
keys = st.booleans() | integers | finite | text | st.binary(max_size=6) | dates | st.tuples(integers, text)
native_values = st.recursive(
    plain | dates | st.binary(max_size=20) | st.sets(keys, max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=12,
)
native_records = st.dictionaries(text, native_values, max_size=5)


def typed(value: Any) -> Any:
    """The value with the types of its numbers, so that 1, 1.0 and True are three things, and NaN is itself."""
    if isinstance(value, dict):
        return [(typed(key), typed(member)) for key, member in value.items()]
    if isinstance(value, list | tuple):
        return [typed(element) for element in value]
    if isinstance(value, set | frozenset):
        return {repr(typed(element)) for element in value}
    return (type(value).__name__, repr(value))


def one_number(value: Any) -> Any:
    """The value as JSON gives it back: whole floats up to 2**53 are integers."""
    if isinstance(value, dict):
        return {key: one_number(member) for key, member in value.items()}
    if isinstance(value, list):
        return [one_number(element) for element in value]
    return int(value) if type(value) is float and value.is_integer() and abs(value) <= 2**53 else value


@given(json_values)
def test_json(value: Any) -> None:
    assert typed(JSON.decode(JSON.encode(value), {})) == typed(one_number(value))


@given(st.lists(json_values, max_size=4))
def test_ndjson(lines: list[Any]) -> None:
    assert typed(NDJSON.decode(NDJSON.encode(lines), {})) == typed(one_number(lines))


@pytest.mark.parametrize("kind", [CBOR, MSGPACK], ids=lambda kind: kind.name)
@given(value=native_values | st.floats())
def test_cbor_and_msgpack_lose_nothing(kind: ContentType, value: Any) -> None:
    assert typed(kind.decode(kind.encode(value), {})) == typed(value)


@given(st.dictionaries(text, text | st.lists(text, min_size=2, max_size=3), max_size=4))
@example({"{": ""})
def test_forms_keep_text(fields: dict[str, Any]) -> None:
    if len(fields) == 1 and next(iter(fields)).startswith(("{", "[")):
        with pytest.raises(BadBody, match="JSON"):
            FORM.decode(FORM.encode(fields), {})
    else:
        assert FORM.decode(FORM.encode(fields), {}) == fields


cells = st.none() | st.booleans() | st.integers(-(2**900), 2**900) | finite.filter(lambda value: abs(value) < 2.0**999) | text
tables = st.lists(text.filter(bool), min_size=2, max_size=4, unique=True).flatmap(
    lambda names: st.tuples(st.just(names), st.lists(st.tuples(*[cells] * len(names)), max_size=4))
)


@given(tables)
def test_csv_loses_null_alone(table: tuple[list[str], list[tuple[Any, ...]]]) -> None:
    """A record of nothing but null is a row of commas, which is no record."""
    names, rows = table
    records = [dict(zip(names, row, strict=True)) for row in rows]
    writer = CSV.row_writer(Shape(tuple(names)))
    body = writer.begin() + (writer.rows(records) if records else b"") + writer.end()
    expected = [found for record in records if (found := {name: value for name, value in record.items() if value is not None})]
    found = CSV.decode(body, {})
    assert found == expected
    for one, other in zip(found, expected, strict=True):
        assert [type(value) is str for value in one.values()] == [type(value) is str for value in other.values()]


@settings(max_examples=half_by_day(100))
@given(st.lists(native_records, max_size=6), st.integers(1, 6))
def test_rows_are_what_one_list_is(values: list[dict[str, Any]], batch: int) -> None:
    """However a collection is written, it reads as the list of its records."""
    raws = [encode_record(value, 1.0, 1, None) for value in values]
    for kind in (JSON, CBOR, MSGPACK, NDJSON):
        expected = kind.decode(kind.encode(values), {})
        for part, rows in (("raw", raws), ("values", values)):
            writer = kind.row_writer(Shape(), len(values))
            pieces = [getattr(writer, part)(rows[start : start + batch]) for start in range(0, len(rows), batch)]
            found = kind.decode(writer.begin() + b"".join(pieces) + writer.end(), {})
            if kind.native:
                assert typed(found) == typed(expected)
            else:
                assert unordered(found) == unordered(expected)  # the order of a set is that of the store, or of its values


def unordered(value: Any) -> Any:
    if isinstance(value, list):
        return sorted(map(unordered, value), key=repr)
    return {key: unordered(member) for key, member in value.items()} if isinstance(value, dict) else value


@given(native_values | st.floats() | st.text(st.characters()))
def test_every_type_writes_every_value(value: Any) -> None:
    for kind in WRITERS:
        assert type(kind.encode(value)) is bytes


# --- whatever is sent ----------------------------------------------------------------------------------------------------------------------

ALLOWED = (str, int, float, bool, type(None), bytes, datetime)


def assert_storable(value: Any) -> None:
    """No exotic object comes out of a decoder, and numbers have a size."""
    if type(value) in (dict, CsvRecord, list, set, tuple, frozenset):
        for element in value:
            assert_storable(element)
        if type(value) is dict:
            for member in value.values():
                assert_storable(member)
        return
    assert type(value) in ALLOWED, type(value)
    if type(value) is datetime:
        assert value.utcoffset() == timedelta(0)


def assert_read_or_refused(kind: ContentType, body: bytes, parameters: dict[str, str], attributes: Any) -> None:
    try:
        value = kind.decode(body, parameters, attributes)
    except (BadBody, BadValue) as error:
        assert error.status_code == 400
        error.message.encode()
        return
    assert_storable(value)
    try:
        encode_record({"value": value}, 1.0, 1, None)
    except ClientError:
        return
    for writer in WRITERS:
        writer.encode(value)


documents = st.one_of(
    [native_values.map(kind.encode) if kind.native else json_values.map(kind.encode) for kind in READERS if kind is not CSV]
    + [st.lists(st.dictionaries(st.sampled_from(sorted(ATTRIBUTES)), cells, min_size=1), max_size=3).map(CSV.encode)]
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    body = bytearray(draw(documents))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(body)))
        body[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(body)


parameters = st.sampled_from([{}, {}, {}, {"sequence": "true"}, {"charset": "utf-16"}, {"charset": "latin-1"}, {"charset": "x"}])


@pytest.mark.parametrize("kind", READERS, ids=lambda kind: kind.name)
@settings(max_examples=half_by_day(100))
@given(body=st.binary(max_size=60) | mutated(), given_parameters=parameters, attributes=st.sampled_from([None, ATTRIBUTES]))
def test_anything_is_a_value_or_a_bad_body(kind: ContentType, body: bytes, given_parameters: dict[str, str], attributes: Any) -> None:
    assert_read_or_refused(kind, body, given_parameters, attributes)


@given(st.integers(0, 70_000), native_values)
def test_any_tag_is_a_plain_value_or_a_bad_body(tag: int, value: Any) -> None:
    assert_read_or_refused(CBOR, b"\xda" + tag.to_bytes(4, "big") + CBOR.encode(value), {}, None)


@given(st.integers(-128, 127), st.binary(max_size=20) | native_values.map(MSGPACK.encode))
def test_any_extension_is_a_plain_value_or_a_bad_body(code: int, data: bytes) -> None:
    assert_read_or_refused(MSGPACK, msgspec.msgpack.encode(msgspec.msgpack.Ext(code, data)), {}, None)


@given(st.lists(st.sampled_from(["a", "n", "price", ",", '"', '""', "\n", "\r\n", "\r", "1", "true", "null", "é"]), max_size=20))
def test_any_csv(parts: list[str]) -> None:
    assert_read_or_refused(CSV, "".join(parts).encode(), {}, ATTRIBUTES)


@pytest.mark.parametrize("kind", [JSON, CBOR, MSGPACK], ids=lambda kind: kind.name)
@settings(max_examples=half_by_day(100))
@given(
    body=mutated() | st.lists(native_values, max_size=5).flatmap(lambda values: st.sampled_from([kind.encode(values) for kind in WRITERS]))
)
def test_slices_are_the_whole(kind: ContentType, body: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:  # so that short bodies count as long ones
        patch.setattr(json_type, "SLICE_BYTES", 8)
        patch.setattr(json_pieces, "PIECE", 8)
        patch.setattr(msgpack_reader, "SLICE_BYTES", 8)
        for reader in (cbor_reader, msgpack_reader):
            patch.setattr(reader, "SMALL", 8)
        assert outcome(kind, body, slices=True) == outcome(kind, body, slices=False)


def outcome(kind: ContentType, body: bytes, slices: bool) -> Any:
    try:
        return typed(run(kind.decode_slices(body, {})) if slices else kind.decode(body, {}))
    except BadBody as error:
        return error.message


def test_nan_is_null_where_there_is_none() -> None:
    assert JSON.encode([math.nan]) == b"[null]"
    assert math.isnan(CBOR.decode(CBOR.encode(math.nan), {}))
