import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from svc.content import msgpack_reader
from svc.content.content_type import Shape, run
from svc.content.msgpack_reader import decode_msgpack
from svc.content.msgpack_type import MsgpackType
from svc.errors import NotAcceptable, StoreFailure
from svc.store.blobs import create_blob
from svc.store.values.records import encode


def decode_sequence(body: bytes) -> Any:
    return run(msgpack_reader.decode_sequence(body))


MSGPACK = MsgpackType()
SEQUENCE = MSGPACK.as_sequence()
MOMENT = datetime(2024, 1, 5, 20, 7, 27, 955000, UTC)


@pytest.mark.parametrize(
    ("value", "document"),
    [
        (0, "00"),
        (-1, "ff"),
        (2**64 - 1, "cfffffffffffffffff"),
        (-(2**63), "d38000000000000000"),
        (2**64, "c70942010000000000000000"),
        (-(2**63) - 1, "c70942ff7fffffffffffffff"),
        ({"a": [2**64]}, "81a16191c70942010000000000000000"),
        (1.1, "cb3ff199999999999a"),
        (math.inf, "cb7ff0000000000000"),
        (True, "c3"),
        (None, "c0"),
        ("\u00fc", "a2c3bc"),
        (b"\x01", "c40101"),
        ([1, [2]], "92019102"),
        ({"a": 1, "b": [None]}, "82a16101a16291c0"),
        (MOMENT, "d7ffe3b093006598617f"),
        (datetime(2024, 1, 5, tzinfo=UTC), "d6ff65974680"),
        (datetime(2024, 1, 5), "d6ff65974680"),
        (date(2024, 1, 5), "d6ff65974680"),
        (datetime(1, 1, 1, tzinfo=UTC), "c70cff00000000fffffff1886e0900"),
        (datetime(2200, 1, 1, tzinfo=UTC), "d7ff" + (7258118400).to_bytes(8, "big").hex()),
        ({3, 1, 2}, "d67393010203"),
        (set(), "d47390"),
        ({1: "a", "b": 2}, "8201a161a16202"),
        ({(1, 2): 3}, "8192010203"),
        ({datetime(1970, 1, 1, tzinfo=UTC): 3}, "81d6ff0000000003"),
        (Decimal("1.5"), "cb3ff8000000000000"),
        ("\ud800", "a3efbfbd"),
        ({"\ud800": ["\udfff"]}, "81a3efbfbd91a3efbfbd"),
        ({"\ud800"}, "c7057391a3efbfbd"),
        (create_blob(b"\xff", type="image/png"), "c401ff"),
        ((n for n in (1, 2)), "920102"),
    ],
    ids=[str(number) for number in range(32)],
)
def test_values_as_msgpack(value: Any, document: str) -> None:
    assert MSGPACK.encode(value).hex() == document


def test_what_has_no_msgpack() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    for value in (object(), [object()], {"a": {object()}}, cycle, 1j, int):
        with pytest.raises(TypeError):
            MSGPACK.encode(value)
    deep: list[Any] = []
    for _ in range(3000):
        deep = [deep]
    with pytest.raises(NotAcceptable):
        MSGPACK.encode(deep)


RECORDS: list[dict[str, Any]] = [
    {"id": "a", "n": 1, "nothing": None, "list": [1, {"x": 1.5}]},
    {"id": "b", "when": MOMENT, "tags": {"x", "y"}, "big": 10**40, "map": {1: "a", (1, 2): MOMENT}, "bytes": b"\xff"},
    {"id": "c", "nested": {"when": [MOMENT, {MOMENT, 2**70}]}},
    {"id": "\u0627\u0644", "float": 1.1, "n": 0xD4C7},
]
RAW = [encode(record, 1.0, number, None if number % 2 else 5.0) for number, record in enumerate(RECORDS)]


def test_stored_records_are_what_their_values_are() -> None:
    for record, raw in zip(RECORDS, RAW, strict=True):
        body = MSGPACK.encode_stored(raw)
        assert decode_msgpack(body) == decode_msgpack(MSGPACK.encode(record)) == record
    assert MSGPACK.encode_stored(RAW[0]) == RAW[0][25:]
    blob = encode({"id": "d", "blob": create_blob(b"abc", type="image/png"), "when": MOMENT}, 1.0, 3, None)
    assert decode_msgpack(MSGPACK.encode_stored(blob)) == {"id": "d", "blob": b"abc", "when": MOMENT}
    with pytest.raises(StoreFailure):
        MSGPACK.encode_stored(RAW[1][:-1])


@pytest.mark.parametrize("count", [1, 15, 16, 65535, 65536])
@pytest.mark.parametrize("known", [True, False])
def test_rows_are_one_array(count: int, known: bool) -> None:
    raws = [RAW[number % 4] for number in range(count)]
    records = [RECORDS[number % 4] for number in range(count)]
    for part in ("raw", "rows") if count < 100 else ("raw",):
        writer = MSGPACK.row_writer(Shape(), count if known else None)
        batch: Any = raws if part == "raw" else records
        body = writer.begin()
        assert bool(body) is known
        for start in range(0, count, 1000):
            body += getattr(writer, part)(batch[start : start + 1000])
        body += writer.end()
        assert msgspec.msgpack.decode(body, type=list[msgspec.Raw]).__len__() == count
        if count < 100:
            assert decode_msgpack(body) == records


def test_an_array_that_is_not_whole_is_not_ended() -> None:
    writer = MSGPACK.row_writer(Shape(), 2)
    writer.rows([1])
    assert writer.failure({"error": "x"}) is None
    with pytest.raises(RuntimeError, match="1 rows were found where 2"):
        writer.end()


def test_sequences() -> None:
    assert (SEQUENCE.name, SEQUENCE.content_type, SEQUENCE.needs_count) == (
        "application/x-msgpack",
        "application/x-msgpack;sequence=true",
        False,
    )
    writer = SEQUENCE.row_writer(Shape())
    body = writer.begin() + writer.raw(RAW[:2]) + writer.rows(RECORDS[2:]) + writer.end()
    assert decode_sequence(body) == RECORDS
    assert SEQUENCE.decode(body, {"sequence": "true"}) == RECORDS
    assert SEQUENCE.encode([1, "a"]) == b"\x01\xa1a"
    assert SEQUENCE.encode({}) == b"\x80"
    assert MSGPACK.under("application/msgpack").as_sequence().content_type == "application/msgpack;sequence=true"


def test_others_read_what_we_write() -> None:
    record = RECORDS[1] | {"tags": None, "big": None, "map": {1: "a"}}
    assert msgspec.msgpack.decode(MSGPACK.encode(record)) == record
