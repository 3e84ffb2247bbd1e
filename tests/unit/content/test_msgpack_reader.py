import math
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from svc.content import msgpack_reader
from svc.content.content_type import run
from svc.content.hashable import MAX_COMPOUND, MAX_NUMBERS
from svc.content.msgpack_reader import MAX_SETS, MAX_SPLITS, SMALL, decode_msgpack, decode_msgpack_slices
from svc.errors import BadBody


def decode_sequence(body: bytes) -> Any:
    return run(msgpack_reader.decode_sequence(body))


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# One of each format of the specification.
VECTORS: list[tuple[str, Any]] = [
    ("c0", None),
    ("c2", False),
    ("c3", True),
    ("00", 0),
    ("7f", 127),
    ("e0", -32),
    ("ff", -1),
    ("cc ff", 255),
    ("cd ffff", 65535),
    ("ce ffffffff", 4294967295),
    ("cf ffffffffffffffff", 18446744073709551615),
    ("d0 80", -128),
    ("d1 8000", -32768),
    ("d2 80000000", -2147483648),
    ("d3 8000000000000000", -9223372036854775808),
    ("ca 3fc00000", 1.5),
    ("cb 3ff199999999999a", 1.1),
    ("cb 7ff0000000000000", math.inf),
    ("a0", ""),
    ("a1 61", "a"),
    ("a2 c3bc", "\u00fc"),
    ("d9 01 61", "a"),
    ("da 0001 61", "a"),
    ("db 00000001 61", "a"),
    ("c4 01 ff", b"\xff"),
    ("c5 0001 ff", b"\xff"),
    ("c6 00000001 ff", b"\xff"),
    ("90", []),
    ("92 01 91 02", [1, [2]]),
    ("dc 0001 01", [1]),
    ("dd 00000001 01", [1]),
    ("80", {}),
    ("82 a161 01 a162 02", {"a": 1, "b": 2}),
    ("82 a161 01 a161 02", {"a": 2}),
    ("82 01 a161 c4016b 02", {1: "a", b"k": 2}),
    ("81 91 01 02", {(1,): 2}),
    ("81 c0 02", {None: 2}),
    ("de 0001 a161 01", {"a": 1}),
    ("df 00000001 a161 01", {"a": 1}),
    ("d6 ff 00000000", EPOCH),
    ("d7 ff e3b093006598617f", datetime(2024, 1, 5, 20, 7, 27, 955000, UTC)),
    ("c7 0c ff 00000000 fffffff1886e0900", datetime(1, 1, 1, tzinfo=UTC)),
    ("c7 09 42 010000000000000000", 2**64),
    ("c7 09 42 feffffffffffffffff", -(2**64) - 1),
    ("d4 42 ff", -1),
    ("d4 73 90", set()),
    ("d5 73 91 01", {1}),
    ("c7 05 73 92 a161 91 01", {"a", (1,)}),
    ("c8 0001 73 90", set()),
    ("c9 00000001 73 90", set()),
    ("c7 04 73 91 d4 73 90", {frozenset()}),
]


@pytest.mark.parametrize(("document", "value"), VECTORS, ids=[text.replace(" ", "") for text, _ in VECTORS])
def test_vectors(document: str, value: Any) -> None:
    body = bytes.fromhex(document)
    decoded = decode_msgpack(body)
    assert type(decoded) is type(value) and decoded == value
    assert decode_sequence(body + b"\xc0" + body) == [value, None, value]
    with pytest.raises(BadBody, match=f"trailing characters at byte {len(body)}"):
        decode_msgpack(body + b"\x00")
    for length in range(1, len(body)):
        for decode in (decode_msgpack, decode_sequence):
            with pytest.raises(BadBody, match="Invalid MessagePack"):
                decode(body[:length])


def timestamp_64(ns: int, seconds: int = 1704485247) -> bytes:
    return b"\xd7\xff" + (ns << 34 | seconds).to_bytes(8, "big")


def timestamp_96(ns: int, seconds: int = -1) -> bytes:
    return b"\xc7\x0c\xff" + ns.to_bytes(4, "big") + seconds.to_bytes(8, "big", signed=True)


@pytest.mark.parametrize("ns", [955_000_000, 955_000_001, 955_499_999, 955_999_499, 955_999_500, 955_999_999])
def test_times_are_cut_to_whole_ms(ns: int) -> None:
    to_ms = datetime(2024, 1, 5, 20, 7, 27, 955_000, UTC), datetime(1969, 12, 31, 23, 59, 59, 955_000, UTC)
    for document, expected in ((timestamp_64(ns), to_ms[0]), (timestamp_96(ns), to_ms[1])):
        for around, found in (
            (document, lambda value: value),
            (b"\x92\xc4\x02\xd7\xff" + document, lambda value: value[1]),
            (b"\x81\xa1a" + document, lambda value: value["a"]),
            (b"\xc7" + bytes((len(document) + 1,)) + b"\x73\x91" + document, lambda value: value.pop()),
            (b"\x92" + b"\xc6" + (2 << 20).to_bytes(4, "big") + bytes(2 << 20) + document, lambda value: value[1]),
        ):
            moment = found(decode_msgpack(around))
            assert (
                moment.replace(microsecond=moment.microsecond // 1000 * 1000)
                == expected
                == found(run(decode_msgpack_slices(around))).replace(microsecond=955_000)
            )
            assert decode_sequence(around + b"\xc0")[1] is None


def test_bytes_that_look_like_a_time_stay() -> None:
    content = timestamp_64(955_999_999) + timestamp_96(955_999_999)
    documents = [content, {"a": content}, [content, 5]]
    for document in documents:
        assert decode_msgpack(msgspec.msgpack.encode(document)) == document
    assert decode_msgpack(b"\x92\xc4" + bytes((len(content),)) + content + timestamp_64(999_999_999))[0] == content
    assert decode_msgpack(b"\x91\xc4" + bytes((200,)) + b"\xd7\xff" * 100) == [b"\xd7\xff" * 100]


REFUSED = {
    "": "truncated at byte 0",
    "c1": "invalid opcode .* at byte 0",
    "92 01 c1": "at byte 2",
    "82 a161 01 a1ff 02": "at byte 4",
    "a3 eda080": "at byte 0",
    "dd ffffffff": "at byte 0",
    "91 df ffffffff": "at byte 1",
    "c6 ffffffff": "at byte 0",
    "db ffffffff 61": "at byte 0",
    "92 01": "truncated at byte 2",
    "d4 05 00": "extension type 5 is not known",
    "d4 01 00": "extension type 1 is not known",
    "c7 00 42": "integer of 0 bits",
    "c7 7f 42" + "01" * 127: "integer of 1016 bits",
    "d4 73 01": "a set must be an array",
    "d5 73 91 80": "an object cannot be",
    "d4 ff 00": "timestamp",
    "d7 ff ffffffffffffffff": "timestamp",
    "c7 0c ff 00000000 7fffffffffffffff": "Timestamp",
    "81 80 01": "a set or an object cannot be a key",
    "81 d4 73 90 01": "a set or an object cannot be a key",
    "81 91 80 01": "a set or an object cannot be a key",
}


@pytest.mark.parametrize("document", REFUSED, ids=lambda text: text.replace(" ", "")[:30])
def test_what_is_refused(document: str) -> None:
    with pytest.raises(BadBody, match=REFUSED[document]) as caught:
        decode_msgpack(bytes.fromhex(document))
    assert caught.value.status_code == 400
    assert caught.value.message.startswith("Invalid MessagePack: ")


def test_a_sequence_names_the_place() -> None:
    assert decode_sequence(b"") == []
    with pytest.raises(BadBody, match="at byte 3"):
        decode_sequence(b"\x01\x91\x02\xc1")


@pytest.mark.parametrize("part", [b"\x91", b"\x81\xa1a", b"\x81", b"\xdd\x01\x00\x00\x00", b"\xd5\x73\x91"], ids=bytes.hex)
@pytest.mark.parametrize("end", [b"", b"\x00"], ids=["open", "closed"])
@pytest.mark.parametrize("levels", [20_000, 100_000])
def test_nesting_is_bounded(part: bytes, end: bytes, levels: int) -> None:
    with pytest.raises(BadBody):
        decode_msgpack(part * levels + end)


def test_nesting_is_bounded_above_all_for_large_parts() -> None:
    large = b"\xc6" + (SMALL + 1).to_bytes(4, "big") + bytes(SMALL + 1)
    value = decode_msgpack(b"\x91" * MAX_SPLITS + large)
    for _ in range(MAX_SPLITS):
        (value,) = value
    assert value == bytes(SMALL + 1)
    with pytest.raises(BadBody, match="nested too deeply for its size"):
        decode_msgpack(b"\x91" * (MAX_SPLITS + 1) + large)


def test_sets_in_sets_are_bounded() -> None:
    def nested(levels: int) -> bytes:
        document = b"\x01"
        for _ in range(levels):
            document = b"\xc7" + bytes((len(document) + 1,)) + b"\x73\x91" + document
        return document

    assert decode_msgpack(nested(1)) == {1}
    assert len(decode_msgpack(nested(MAX_SETS - 1))) == 1
    with pytest.raises(BadBody, match="sets are nested too deeply"):
        decode_msgpack(nested(MAX_SETS))


def test_large_documents_are_the_same() -> None:
    rows: list[dict[str, Any]] = [{"id": n, "list": [n, None, 1.5], "text": "x" * (n % 100), "big": b"y" * (n * 40)} for n in range(1500)]
    for value in (
        rows,
        {"rows": rows, "x": 1},
        [rows, rows[:3], 1, rows[:900]],
        list(range(100_000)),
        {str(n): n for n in range(20_000)},
        "é" * SMALL,
    ):
        body = msgspec.msgpack.encode(value)
        assert len(body) > SMALL
        assert decode_msgpack(body) == value
        with pytest.raises(BadBody, match="trailing"):
            decode_msgpack(body + b"\x00")
        with pytest.raises(BadBody):
            decode_msgpack(body[:-1])


def test_many_keys_that_are_not_text() -> None:
    """They could be chosen to collide: text keys may be any number, others only as many as do no harm."""

    def a_set(elements: list[Any]) -> bytes:
        return msgspec.msgpack.encode(msgspec.msgpack.Ext(0x73, msgspec.msgpack.encode(elements)))

    assert len(decode_msgpack(a_set(list(range(MAX_NUMBERS))))) == MAX_NUMBERS
    with pytest.raises(BadBody, match="more than 10000"):
        decode_msgpack(a_set(list(range(MAX_NUMBERS + 1))))
    with pytest.raises(BadBody, match="more than 256"):
        decode_msgpack(a_set([[n] for n in range(MAX_COMPOUND + 1)]))
    assert len(decode_msgpack(a_set([str(n) for n in range(50_000)]))) == 50_000
    with pytest.raises(BadBody, match="Expected `str`"):
        decode_msgpack(msgspec.msgpack.encode({n: n for n in range(20_000)}))
    rows = [{n: n} for n in range(20_000)]
    assert decode_msgpack(msgspec.msgpack.encode(rows)) == rows
