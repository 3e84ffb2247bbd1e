import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import cbor2
import pytest

from svc.content.cbor_reader import decode_cbor
from svc.content.cbor_type import CborType
from svc.content.content_type import Shape
from svc.errors import NotAcceptable, StoreFailure
from svc.store.blobs import create_blob
from svc.store.values.records import encode

CBOR = CborType()
MOMENT = datetime(2024, 1, 5, 20, 7, 27, 955000, UTC)


@pytest.mark.parametrize(
    ("value", "document"),
    [
        (0, "00"),
        (-1, "20"),
        (2**64 - 1, "1bffffffffffffffff"),
        (-(2**64), "3bffffffffffffffff"),
        (2**64, "c249010000000000000000"),
        (-(2**64) - 1, "c349010000000000000000"),
        (1.1, "fb3ff199999999999a"),
        (math.nan, "f97e00"),
        (True, "f5"),
        (None, "f6"),
        ("\u00fc", "62c3bc"),
        (b"\x01", "4101"),
        ([1, [2]], "82018102"),
        ({"a": 1, "b": [None]}, "a2616101616281f6"),
        (MOMENT, "c1fb41d966185ffd1eb8"),
        (MOMENT.replace(microsecond=955999), "c1fb41d966185ffd1eb8"),
        (datetime(2024, 1, 5, tzinfo=UTC), "c11a65974680"),
        (datetime(2024, 1, 5), "c11a65974680"),
        (date(2024, 1, 5), "c11a65974680"),
        ({3, 1, 2}, "d9010283010203"),
        (frozenset(), "d9010280"),
        ({1: "a", "b": 2}, "d90103a2016161616202"),
        ({(1, 2): 3}, "d90103a182010203"),
        ({datetime(1970, 1, 1, tzinfo=UTC): 3}, "d90103a1c10003"),
        ({frozenset((1,)): 3}, "d90103a1d90102810103"),
        ([{"a": MOMENT, "b": {"c": {1}}}], "81a26161c1fb41d966185ffd1eb86162a16163d901028101"),
        (Decimal("1.5"), "fb3ff8000000000000"),
        ("\ud800", "63efbfbd"),
        ({"\ud800": ["\udfff"]}, "a163efbfbd8163efbfbd"),
        (create_blob(b"\xff", type="image/png"), "41ff"),
        ((n for n in (1, 2)), "820102"),
    ],
    ids=[str(number) for number in range(31)],
)
def test_values_as_cbor(value: Any, document: str) -> None:
    assert CBOR.encode(value).hex() == document


def test_what_has_no_cbor() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    for value in (object(), [object()], {"a": {object()}}, cycle, 1j, int):
        with pytest.raises(TypeError):
            CBOR.encode(value)
    deep: list[Any] = []
    for _ in range(3000):
        deep = [deep]
    with pytest.raises(NotAcceptable):
        CBOR.encode(deep)


RECORDS: list[dict[str, Any]] = [
    {"id": "a", "n": 1, "nothing": None, "list": [1, {"x": 1.5}]},
    {"id": "b", "when": MOMENT, "tags": {"x", "y"}, "big": 10**40, "map": {1: "a", (1, 2): MOMENT}, "bytes": b"\xff"},
    {"id": "c", "nested": {"when": [MOMENT, {MOMENT}]}},
]
RAW = [encode(record, 1.0, number, None) for number, record in enumerate(RECORDS)]
BLOB = encode({"id": "d", "blob": create_blob(b"abc", type="image/png"), "when": MOMENT}, 1.0, 3, None)


def test_stored_records_are_what_their_values_are() -> None:
    for record, raw in zip(RECORDS, RAW, strict=True):
        body = CBOR.encode_stored(raw)
        assert body == CBOR.encode(record)
        assert decode_cbor(body) == record
    assert decode_cbor(CBOR.encode_stored(BLOB)) == {"id": "d", "blob": b"abc", "when": MOMENT}
    with pytest.raises(StoreFailure):
        CBOR.encode_stored(RAW[0][:-1])


@pytest.mark.parametrize("count", [1, 23, 24, 255, 256, 300])
def test_rows_are_an_array_of_indefinite_length(count: int) -> None:
    raws = [RAW[number % 3] for number in range(count)]
    records = [RECORDS[number % 3] for number in range(count)]
    for part in ("raw", "rows", "values"):
        writer = CBOR.row_writer(Shape())
        batch: Any = raws if part == "raw" else records
        body = writer.begin() + getattr(writer, part)(batch) + getattr(writer, part)(batch[:1]) + writer.end()
        assert body[:1] == b"\x9f" and body[-1:] == b"\xff"
        assert decode_cbor(body) == [*records, records[0]]


def test_an_empty_collection_and_a_failure() -> None:
    writer = CBOR.row_writer(Shape())
    assert writer.begin() + writer.end() == b"\x9f\xff"
    writer = CBOR.row_writer(Shape())
    assert decode_cbor(writer.begin() + writer.rows([1]) + (writer.failure({"error": "x"}) or b"") + writer.end()) == [1, {"error": "x"}]


def test_others_read_what_we_write() -> None:
    loaded = cbor2.loads(CBOR.encode(RECORDS[1] | {"map": None}))
    assert loaded == RECORDS[1] | {"map": None}
