"""svc.store.values.keys: the encodings byte by byte, the order of one long list of values, limits, and what is refused."""

from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum, StrEnum
from itertools import pairwise

import pytest

from svc.errors import BadValue
from svc.store.values.keys import (
    MAX_STORED,
    after,
    decode_key,
    encode_key,
    encode_primary,
    index_key,
    index_keys,
    index_prefix_range,
    is_cut,
    is_hashed,
    kind_range,
    list_prefix_range,
    prefix_range,
    split,
    storage_high,
    storage_key,
    storage_low,
)


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


# value, its encoding, what decode_key gives
ENCODINGS = [
    (None, "02", None),
    (False, "03", False),
    (True, "04", True),
    (0, "08 8000000000000000", 0),
    (0.0, "08 8000000000000000", 0),
    (-0.0, "08 8000000000000000", 0),
    (1, "08 bff0000000000000", 1),
    (1.0, "08 bff0000000000000", 1),
    (-1, "08 400fffffffffffff", -1),
    (-1.0, "08 400fffffffffffff", -1),
    (2.5, "08 c004000000000000", 2.5),
    (-2.5, "08 3ffbffffffffffff", -2.5),
    (2**53 - 1, "08 c33fffffffffffff", 2**53 - 1),
    (2**53, "08 c340000000000000 80", 2**53),
    (2.0**53, "08 c340000000000000 80", 2**53),
    (2**53 + 1, "08 c340000000000000 8101", 2**53 + 1),
    (2**53 + 3, "08 c340000000000002 7fff", 2**53 + 3),
    (-(2**53) + 1, "08 3cc0000000000000", -(2**53) + 1),
    (-(2**53), "08 3cbfffffffffffff 80", -(2**53)),
    (-(2**53) - 1, "08 3cbfffffffffffff 7fff", -(2**53) - 1),
    (5e-324, "08 8000000000000001", 5e-324),
    (-5e-324, "08 7ffffffffffffffe", -5e-324),
    (datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC), "08 bff0000000000000", 1),
    (datetime(1970, 1, 1, 0, 0, 0, 1000), "08 bff0000000000000", 1),
    (datetime(1970, 1, 1, 2, 0, 0, 1999, tzinfo=timezone(timedelta(hours=2))), "08 bff0000000000000", 1),
    ("", "10 00", ""),
    ("ab", "10 6162 00", "ab"),
    ("a\0", "10 61 0101 00", "a\0"),
    ("\1", "10 0102 00", "\1"),
    ("\0\1", "10 0101 0102 00", "\0\1"),
    ("\1\1", "10 0102 0102 00", "\1\1"),
    ("é", "10 c3a9 00", "é"),
    ("😀", "10 f09f9880 00", "😀"),
    (Colour.RED, "10 726564 00", "red"),
    (Level.HIGH, "08 c008000000000000", 3),
    (b"", "18 00", b""),
    (b"\xff\0\1", "18 ff 0101 0102 00", b"\xff\0\1"),
    (bytearray(b"a"), "18 61 00", b"a"),
    ([], "20 00", ()),
    ((), "20 00", ()),
    (["a", 1], "20 106100 08bff0000000000000 00", ("a", 1)),
    ([[], [None]], "20 2000 200200 00", ((), (None,))),
]

# Strictly ascending (spec: schema-and-store §10.1-§10.2).
ASCENDING = [
    None, False, True,
    -1.7976931348623157e308, -(2**1000) + 1, -(10**40) - 1, -(10**40), -(2**64), -(2**63) - 1, -(2**63), -(2**53) - 2, -(2**53) - 1, -(2**53),
    -(2**53) + 1, -65536, -256.5, -256, -2, -1.5, -1, -0.5, -1e-300, -5e-324,
    0, 5e-324, 1e-300, 0.1, 0.5, 1, 1.5, 2, 9, 10, 255, 256, 65536, 1e9, datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 0, 0, 0, 1000),
    2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**53 + 3, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64, 10**40 - 1, 10**40, 10**40 + 1,
    2**1000 - 1, 2**1000, 1.7976931348623157e308,
    "", "\0", "\0\0", "\0\1", "\0a", "\1", "\1\0", "\2", " ", "1", "10", "2", "A", "Z", "a", "a\0", "a\0b", "a\1", "a ", "aa", "b", "z",
    "\x7f", "\x80", "ß", "\u07ff", "\u0800", "\uffff", "\U00010000", "😀", "\U0010ffff",
    b"", b"\0", b"\0\0", b"\0\1", b"\1", b"\1\0", b"a", b"\xff", b"\xff\xff",
    [], [None], [None, None], [False], [0], [0, 5], [1], ["a"], ["a", None], ["a", "b"], ["a\0"], ["b"], [b""], [[]], [[], 1], [[1]],
]  # fmt: skip


@pytest.mark.parametrize(("value", "encoded", "decoded"), ENCODINGS, ids=[repr(row[0]) for row in ENCODINGS])
def test_an_encoding_is_as_documented_and_comes_back(value: object, encoded: str, decoded: object) -> None:
    data = bytes.fromhex(encoded)
    assert encode_key(value) == data
    back = decode_key(data)
    assert (back, type(back)) == (decoded, type(decoded))
    assert split(data + b"\x10more\0") == (data, b"\x10more\0")


def test_bytes_are_in_the_order_of_the_values() -> None:
    for smaller, greater in pairwise(ASCENDING):
        assert encode_key(smaller) < encode_key(greater), (smaller, greater)
        assert index_key(smaller) < index_key(greater), (smaller, greater)


def test_joined_encodings_are_in_the_order_of_the_pairs() -> None:
    some = ASCENDING[::5]
    pairs = [(a, b) for a in some for b in some]
    assert [encode_key(a) + encode_key(b) for a, b in pairs] == sorted(encode_key(a) + encode_key(b) for a, b in pairs)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        float("-inf"),
        {},
        {"a": 1},
        set(),
        object(),
        1j,
        10**309,
        -(10**309),
        "\ud800",
        ["a", {}],
        [float("nan")],
    ],
    ids=lambda value: str(type(value)),
)
def test_what_has_no_place_in_the_order_is_refused(value: object) -> None:
    with pytest.raises(BadValue):
        encode_key(value)
    assert index_keys(value) in ((), [encode_key("a")], [])


def test_a_list_nested_without_end_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(BadValue):
        encode_key(endless)


@pytest.mark.parametrize(
    "data",
    [
        "", "00", "01", "05", "ff", "0202", "08", "0880", "08 bff00000000000", "08 bff000000000000000", "08 7fffffffffffffff",
        "08 fff0000000000000 80", "08 fff8000000000000 80", "08 000fffffffffffff 80", "08 c340000000000000", "08 c340000000000000 81",
        "08 c340000000000000 8100", "08 c340000000000000 8102", "08 c340000000000000 7f01", "10", "1061", "10 6100 6100", "10 ff00", "10 0100",
        "10 0103 00", "10 eda080 00", "18", "1861", "18 01 00", "20", "20 02", "20 05 00", "20 00 00", "20 1061 00",
    ],
)  # fmt: skip
def test_other_bytes_are_no_key(data: str) -> None:
    with pytest.raises(ValueError):
        decode_key(bytes.fromhex(data))


def test_lists_nest_64_deep() -> None:
    for depth, possible in ((64, True), (65, False), (100_000, False)):
        data = b"\x20" * depth + b"\0" * depth
        assert split(data + b"\2") == (data, b"\2")
        if possible:
            assert encode_key(decode_key(data)) == data
        else:
            with pytest.raises(ValueError):
                decode_key(data)


# -- primary keys


@pytest.mark.parametrize("value", ["", "a", "a" * 659, "é" * 659, "中" * 659, "😀" * 494, 0, 2**64, 1.5, ("a", 1), "\0" * 659])
def test_primary_keys_within_the_limits(value: object) -> None:
    data = encode_primary(value)
    assert data == encode_key(value)
    assert len(storage_key(data)) <= MAX_STORED
    assert is_hashed(storage_key(data)) == (len(data) >= MAX_STORED)


@pytest.mark.parametrize("value", [None, True, False, {}, "a" * 660, "😀" * 500, ("a" * 400, "b" * 300), ("😀" * 300, "😀" * 300)])
def test_what_cannot_be_a_primary_key(value: object) -> None:
    with pytest.raises(BadValue):
        encode_primary(value)


def test_a_key_is_stored_as_it_is_up_to_509_bytes() -> None:
    longest, next_longer = encode_key("a" * 507), encode_key("a" * 508)
    assert storage_key(longest) == longest
    assert storage_key(next_longer)[:494] == next_longer[:494]
    assert len({longest, storage_key(next_longer), storage_key(encode_key("a" * 509))}) == 3
    with pytest.raises(ValueError):
        decode_key(storage_key(next_longer))


def test_long_keys_that_differ_early_keep_their_order() -> None:
    keys = [encode_key(text) for text in ("a" * 492, "a" * 493 + "b" * 100, "a" * 491 + "b", "a" * 491 + "b" * 100, "b" * 600, "c")]
    keys.sort()
    assert list(map(storage_key, keys)) == sorted(map(storage_key, keys))


@pytest.mark.parametrize("length", [1, 400, 491, 492, 493, 494, 506, 507, 508, 509, 600])
def test_scan_bounds_let_no_key_slip(length: int) -> None:
    keys = [encode_key("a" * size + tail) for size in range(485, 520) for tail in ("", "\0", "b", "\U0010ffff")]
    bound = encode_key("a" * length)
    assert all(storage_key(key) >= storage_low(bound) for key in keys if key >= bound)
    assert all(storage_key(key) < storage_high(bound) for key in keys if key < bound)
    assert len(storage_low(bound)) < MAX_STORED
    assert len(storage_high(bound)) < MAX_STORED


# -- index keys


def test_an_index_key_holds_256_characters() -> None:
    whole, cut = index_key("é" * 200), index_key("a" * 257)
    assert whole == encode_key("é" * 200)
    assert not is_cut(whole)
    assert cut == b"\x10" + b"a" * 256 + b"\xff"
    assert is_cut(cut)
    assert index_key("a" * 256) < cut == index_key("a" * 256 + "b") < index_key("a" * 255 + "b")


@pytest.mark.parametrize("value", ["😀" * 256, "😀" * 300, b"\xff" * 600, ["a" * 300, "b" * 300], "\0" * 256])
def test_an_index_key_has_at_most_510_bytes(value: object) -> None:
    assert len(index_key(value)) == MAX_STORED
    assert is_cut(index_key(value))
    assert len(after(index_key(value))) == 511


def test_numbers_and_lists_are_not_taken_for_cut_text() -> None:
    for value in (-1, -(2**53) - 1, [b"\xff"], b"\xff", 2**1000 - 1, None):
        assert not is_cut(index_key(value))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, [None]),
        ("a", ["a"]),
        (True, [True]),
        ([], []),
        (["b", "a", "b"], ["b", "a"]),
        ([1, 1.0, True], [1, True]),
        ([None, {}, 1], [None, 1]),
        ([[1, 2], 3], [[1, 2], 3]),
        ({"a": 1}, []),
        (float("nan"), []),
    ],
)
def test_index_keys_of_a_value(value: object, expected: list[object]) -> None:
    assert list(index_keys(value)) == [encode_key(element) for element in expected]


# -- ranges


def test_after_separates_a_key_from_all_that_follow() -> None:
    keys = sorted(map(encode_key, ASCENDING))
    for key, following in pairwise(keys):
        assert key < after(key) <= following


@pytest.mark.parametrize("kind", [(type(None),), (int, float, datetime), (str,), (bytes,), (list,)], ids=repr)
def test_a_kind_is_a_range(kind: tuple[type, ...]) -> None:
    members = [value for value in ASCENDING if type(value) in kind]
    for member in members:
        low, high = kind_range(member)
        assert [value for value in ASCENDING if low <= encode_key(value) < high] == members


def test_each_boolean_is_a_kind() -> None:
    assert kind_range(False) == (encode_key(False), encode_key(True))


@pytest.mark.parametrize("prefix", ["", "a", "a/b/", "a\0", "\0", "\1", "\U0010ffff", "ab"])
def test_a_prefix_is_a_range(prefix: str) -> None:
    low, high = prefix_range(prefix)
    for text in [value for value in ASCENDING if isinstance(value, str)] + [
        "a/b",
        "a/b/",
        "a/b/c",
        "a/bc",
        "\U0010ffff\U0010ffff",
        "a" * 600,
    ]:
        assert (low <= encode_key(text) < high) == text.startswith(prefix)
        if len(text) <= 256:
            index_low, index_high = index_prefix_range(prefix)
            assert (index_low <= index_key(text) < index_high) == text.startswith(prefix)
    assert not low <= encode_key(b"a") < high
    assert not low <= encode_key(10) < high


@pytest.mark.parametrize("length", [255, 256, 257, 600])
def test_a_long_prefix_finds_everything_in_the_index(length: int) -> None:
    for character in ("a", "😀"):
        low, high = index_prefix_range(character * length)
        assert low <= index_key(character * length) < high
        assert low <= index_key(character * 700) < high
        assert not low <= index_key("b") < high
        assert len(low) <= 511
        assert len(high) <= 511


def test_a_list_prefix_is_a_range() -> None:
    low, high = list_prefix_range(["a"])
    inside = [value for value in ASCENDING if low <= encode_key(value) < high]
    assert inside == [["a", None], ["a", "b"]]
