import math
from datetime import UTC, datetime
from typing import Any

import pytest

from svc.content.cbor_reader import SMALL, decode_cbor
from svc.content.hashable import MAX_COMPOUND, MAX_NUMBERS
from svc.errors import BadBody

MARCH = datetime(2013, 3, 21, 20, 4, tzinfo=UTC)

# RFC 8949, appendix A; what is refused there is in REFUSED.
VECTORS = [
    ("00", 0),
    ("01", 1),
    ("0a", 10),
    ("17", 23),
    ("1818", 24),
    ("1819", 25),
    ("1864", 100),
    ("1903e8", 1000),
    ("1a000f4240", 1000000),
    ("1b000000e8d4a51000", 1000000000000),
    ("1bffffffffffffffff", 18446744073709551615),
    ("c249010000000000000000", 18446744073709551616),
    ("3bffffffffffffffff", -18446744073709551616),
    ("c349010000000000000000", -18446744073709551617),
    ("20", -1),
    ("29", -10),
    ("3863", -100),
    ("3903e7", -1000),
    ("f90000", 0.0),
    ("f98000", -0.0),
    ("f93c00", 1.0),
    ("fb3ff199999999999a", 1.1),
    ("f93e00", 1.5),
    ("f97bff", 65504.0),
    ("fa47c35000", 100000.0),
    ("fa7f7fffff", 3.4028234663852886e38),
    ("fb7e37e43c8800759c", 1.0e300),
    ("f90001", 5.960464477539063e-8),
    ("f90400", 0.00006103515625),
    ("f9c400", -4.0),
    ("fbc010666666666666", -4.1),
    ("f97c00", math.inf),
    ("f97e00", math.nan),
    ("f9fc00", -math.inf),
    ("fa7f800000", math.inf),
    ("fa7fc00000", math.nan),
    ("faff800000", -math.inf),
    ("fb7ff0000000000000", math.inf),
    ("fb7ff8000000000000", math.nan),
    ("fbfff0000000000000", -math.inf),
    ("f4", False),
    ("f5", True),
    ("f6", None),
    ("f7", None),  # undefined
    ("c074323031332d30332d32315432303a30343a30305a", MARCH),
    ("c11a514b67b0", MARCH),
    ("c1fb41d452d9ec200000", MARCH.replace(microsecond=500000)),
    ("d74401020304", b"\x01\x02\x03\x04"),
    ("d818456449455446", b"dIETF"),
    ("d82076687474703a2f2f7777772e6578616d706c652e636f6d", "http://www.example.com"),
    ("40", b""),
    ("4401020304", b"\x01\x02\x03\x04"),
    ("60", ""),
    ("6161", "a"),
    ("6449455446", "IETF"),
    ("62225c", '"\\'),
    ("62c3bc", "\u00fc"),
    ("63e6b0b4", "\u6c34"),
    ("64f0908591", "\U00010151"),
    ("80", []),
    ("83010203", [1, 2, 3]),
    ("8301820203820405", [1, [2, 3], [4, 5]]),
    ("98190102030405060708090a0b0c0d0e0f101112131415161718181819", list(range(1, 26))),
    ("a0", {}),
    ("a201020304", {1: 2, 3: 4}),
    ("a26161016162820203", {"a": 1, "b": [2, 3]}),
    ("826161a161626163", ["a", {"b": "c"}]),
    ("a56161614161626142616361436164614461656145", {"a": "A", "b": "B", "c": "C", "d": "D", "e": "E"}),
    ("5f42010243030405ff", b"\x01\x02\x03\x04\x05"),
    ("7f657374726561646d696e67ff", "streaming"),
    ("9fff", []),
    ("9f018202039f0405ffff", [1, [2, 3], [4, 5]]),
    ("9f01820203820405ff", [1, [2, 3], [4, 5]]),
    ("83018202039f0405ff", [1, [2, 3], [4, 5]]),
    ("83019f0203ff820405", [1, [2, 3], [4, 5]]),
    ("9f0102030405060708090a0b0c0d0e0f101112131415161718181819ff", list(range(1, 26))),
    ("bf61610161629f0203ffff", {"a": 1, "b": [2, 3]}),
    ("826161bf61626163ff", ["a", {"b": "c"}]),
    ("bf6346756ef563416d7421ff", {"Fun": True, "Amt": -2}),
    # What the specification adds.
    ("d9010283010203", {1, 2, 3}),
    ("d90102828101820102", {(1,), (1, 2)}),
    ("d9010281d9010281 01", {frozenset((1,))}),
    ("d90103a2 01616120 f6", {1: "a", -1: None}),
    ("d840 43010203", b"\x01\x02\x03"),
    ("d9d9f7 01", 1),
    ("c4 82 21 196ab3", 273.15),
    ("c4 82 02 01", 100),
    ("c5 82 20 03", 1.5),
    ("c5 82 01 03", 6),
    ("d825 50 000102030405060708090a0b0c0d0e0f", "00010203-0405-0607-0809-0a0b0c0d0e0f"),
    ("d864 194d0f", datetime(2024, 1, 5, tzinfo=UTC)),
    ("d903ec 6a 323031332d30332d3231", datetime(2013, 3, 21, tzinfo=UTC)),
    ("c1 fb 41d966185ffd1eb8", datetime(2024, 1, 5, 20, 7, 27, 955000, UTC)),
    ("c1 fb 424d7ffa20bfffdf", datetime(9999, 12, 31, 23, 59, 59, 999000, UTC)),
    ("c1 3b0000000e7791f6ff", datetime(1, 1, 1, tzinfo=UTC)),
    ("a2 6161 01 6161 02", {"a": 2}),  # of duplicate keys the last wins
    ("a1 81 01 02", {(1,): 2}),
    ("a1 d9010281 01 02", {frozenset((1,)): 2}),
    ("a1 c1 00 02", {datetime(1970, 1, 1, tzinfo=UTC): 2}),
    ("82 f7 a1 61 61 81 f7", [None, {"a": [None]}]),
    ("d9010281 f7", {None}),
    ("a1 f7 01", {None: 1}),
    ("a1 f5 01", {True: 1}),
]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return type(one) is type(other) and one == other


@pytest.mark.parametrize(("document", "value"), VECTORS, ids=[text.replace(" ", "")[:30] for text, _ in VECTORS])
def test_vectors(document: str, value: Any) -> None:
    body = bytes.fromhex(document)
    assert same(decode_cbor(body), value)
    with pytest.raises(BadBody, match="Invalid CBOR"):
        decode_cbor(body + b"\x00")
    for length in range(len(body)):
        with pytest.raises(BadBody, match="Invalid CBOR"):
            decode_cbor(body[:length])


REFUSED = {
    "": "end of stream",
    "f0": "simple value 16",
    "f8ff": "simple value 255",
    "81e5": "simple value 5",
    "a1 6161 81 e5": "simple value 5",
    "d90102 81 f0": "simple value 16",
    "ff": "break",
    "1c": "subtype 0x1c",
    "82 01 61ff": "not UTF-8 at byte 4",
    "63 eda080": "not UTF-8",
    "7f 61c3 61a9 ff": "not UTF-8",
    "bf 01 ff": "missing value",
    "01 02": "second at byte 1",
    "9b ffffffffffffffff": "end of stream",
    "9a ffffffff": "end of stream",
    "ba ffffffff": "end of stream",
    "5b 7fffffffffffffff": "end of stream",
    "7a ffffffff": "end of stream",
    "d81c 81 d81d 00": "tag 29",  # a list that contains itself
    "d81c 80": "tag 28",
    "d90100 82 63616263 d81900": "tag 25",
    "d823 6161": "tag 35",
    "d824 6161": "tag 36",
    "d81e 82 01 03": "tag 30",
    "d834 44 61616161": "tag 52",
    "d90104 44 61616161": "tag 260",
    "d9a7f8 82 01 02": "tag 43000",
    "d94e20 01": "tag 20000",
    "c0 6161": "invalid date",
    "c1 6161": "invalid date",
    "c1 f97e00": "invalid date",
    "c1 fb7fefffffffffffff": "invalid date",
    "c1 1bffffffffffffffff": "invalid date",
    "d864 1a7fffffff": "invalid date",
    "d903ec 01": "invalid date",
    "c2 01": "an integer of more than 1000 bits, or an invalid one",
    "c2 587e" + "ff" * 126: "an integer of more than 1000 bits",
    "c4 82 1a7fffffff 01": "a fraction that is out of range",
    "c4 82 190190 01": "a fraction that is out of range",
    "c4 81 01": "a fraction that is out of range",
    "c5 82 19044c 01": "a fraction that is out of range",
    "c5 82 1a7fffffff 01": "a fraction that is out of range",
    "d840 6161": "invalid array of integers",
    "d825 41 00": "invalid UUID",
    "d90102 01": "a set must be an array",
    "d90102 81 a0": "an object cannot be",
    "d90103 01": "invalid map",
    "a1 a0 01": "an object cannot be",
    "a1 81a0 01": "an object cannot be",
    "a1 d90103a0 01": "invalid map, or a map as a key",
}


@pytest.mark.parametrize("document", REFUSED, ids=lambda text: text.replace(" ", "")[:30])
def test_what_is_refused(document: str) -> None:
    with pytest.raises(BadBody, match=REFUSED[document]) as caught:
        decode_cbor(bytes.fromhex(document))
    assert caught.value.status_code == 400
    assert caught.value.message.startswith("Invalid CBOR: ")


@pytest.mark.parametrize(
    "part", [b"\x81", b"\x9f", b"\xa1\x61a", b"\xd9\x01\x02\x81", b"\xd9\xd9\xf7", b"\x9a\x01\x00\x00\x00", b"\xa1"], ids=bytes.hex
)
@pytest.mark.parametrize("end", [b"", b"\x00"], ids=["open", "closed"])
def test_nesting_is_bounded(part: bytes, end: bytes) -> None:
    with pytest.raises(BadBody):
        decode_cbor(part * 100_000 + end)
    with pytest.raises(BadBody):
        decode_cbor(part * 1000 + end)


def test_deep_but_not_too_deep() -> None:
    value: Any = decode_cbor(b"\x81" * 300 + b"\x01")
    for _ in range(300):
        (value,) = value
    assert value == 1


def test_many_keys_that_are_not_text() -> None:
    """They could be chosen to collide: text keys may be any number, others only as many as do no harm."""
    numbers = b"".join([b"\x1a" + number.to_bytes(4, "big") for number in range(MAX_NUMBERS + 1)])
    with pytest.raises(BadBody, match="more than 10000"):
        decode_cbor(b"\xd9\x01\x02\x99" + (MAX_NUMBERS + 1).to_bytes(2, "big") + numbers)
    assert len(decode_cbor(b"\xd9\x01\x02\x99" + MAX_NUMBERS.to_bytes(2, "big") + numbers[:-5])) == MAX_NUMBERS
    lists = [b"\x81\x19" + number.to_bytes(2, "big") for number in range(MAX_COMPOUND + 1)]
    with pytest.raises(BadBody, match="more than 256"):
        decode_cbor(b"\xd9\x01\x02\x99" + (MAX_COMPOUND + 1).to_bytes(2, "big") + b"".join(lists))
    with pytest.raises(BadBody, match="more than 256"):
        decode_cbor(b"\xbf" + b"\x00".join(lists) + b"\x00\xff")
    padding = b"\x59\x80\x00" + bytes(0x8000)
    assert len(padding) > SMALL
    assert decode_cbor(b"\x82" + padding + b"\xa1\x61a\x01")[1] == {"a": 1}
    with pytest.raises(BadBody, match="map key must be a text string or byte string, not int"):
        decode_cbor(b"\x82" + padding + b"\xa1\x01\x01")
