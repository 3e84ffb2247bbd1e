"""Keys: the order of the bytes is the order of the values, whatever the values are, also after joining, cutting and hashing."""

import itertools
import math
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from svc.errors import BadValue
from svc.store.values.keys import (
    KEPT_BYTES,
    MAX_STORED,
    after,
    decode_key,
    encode_key,
    encode_primary,
    index_key,
    index_prefix_range,
    is_cut,
    kind_range,
    list_prefix_range,
    prefix_range,
    split,
    storage_high,
    storage_key,
    storage_low,
)

# -- the reference: what schema-and-store §10 says, in the plainest way


def compare(a: Any, b: Any) -> int:
    """-1, 0 or 1."""
    rank_a, rank_b = rank(a), rank(b)
    if rank_a != rank_b:
        return -1 if rank_a < rank_b else 1
    if isinstance(a, (list, tuple)):
        for x, y in zip(a, b, strict=False):
            order = compare(x, y)
            if order:
                return order
        return (len(a) > len(b)) - (len(a) < len(b))
    if isinstance(a, str):
        a, b = list(map(ord, a)), list(map(ord, b))
    elif rank_a == 3:
        a, b = as_number(a), as_number(b)  # Python compares int and float exactly
    elif a is None:
        return 0
    return (a > b) - (a < b)


def rank(value: Any) -> int:
    for number, kind in enumerate((type(None), bool, (int, float, datetime), str, bytes, (list, tuple))):
        if isinstance(value, kind):
            return number if number < 2 else number + 1
    raise AssertionError(value)


def as_number(value: Any) -> Any:
    return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1) if isinstance(value, datetime) else value


def canonical(value: Any) -> Any:
    """What comes back: whole numbers as int, dates as ms, lists as tuples."""
    if isinstance(value, (list, tuple)):
        return tuple(map(canonical, value))
    value = as_number(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


# -- values, many of them close to each other or to a limit of the encoding

near_limits = st.builds(
    lambda base, exponent, offset: base * 2**exponent + offset,
    st.sampled_from((1, -1, 3, -3)),
    st.sampled_from((0, 1, 31, 52, 53, 54, 62, 63, 64, 100, 996)),
    st.integers(-3, 3),
)
numbers = st.one_of(
    st.integers(-(2**1000), 2**1000),
    st.integers(-5, 5),
    near_limits,
    near_limits.map(float),
    st.floats(allow_nan=False, allow_infinity=False),
    st.datetimes(timezones=st.just(UTC)),
)
characters = st.one_of(st.characters(codec="utf-8"), st.sampled_from("\0\1\2\3ab\x7f\x80\u07ff\u0800\uffff\U00010000\U0010ffff"))
short_texts = st.text(characters, max_size=6)
# Around the places where index keys are cut (256 characters) and primary keys are hashed (494 and 510 bytes).
long_texts = st.builds(
    lambda character, length, tail: character * length + tail,
    st.sampled_from("a\0é中😀"),
    st.sampled_from((100, 122, 123, 126, 127, 163, 164, 165, 168, 169, 245, 246, 247, 252, 253, 254, 255, 256, 257, 490, 492, 506, 508)),
    short_texts,
)
texts = short_texts | long_texts
scalars = st.one_of(st.none(), st.booleans(), numbers, texts, st.binary(max_size=5))
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple), max_leaves=6)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """Two values, often with something in common."""
    a = draw(values)
    kind = draw(st.sampled_from(("any", "same kind", "longer", "equal")))
    if kind == "same kind" and isinstance(a, str):
        return a, a[: draw(st.integers(0, len(a)))] + draw(short_texts)
    if kind == "same kind" and rank(a) == 3:
        return a, draw(numbers)
    if kind == "longer" and isinstance(a, str):
        return a, a + draw(texts)
    if kind == "longer" and isinstance(a, (list, tuple)):
        return a, [*a, draw(values)]
    return a, a if kind == "equal" else draw(values)


@given(pairs())
@example((2**53, 2**53 + 1))
@example((2.0**53, 2**53 + 1))
@example((-0.0, 0))
@example(("a", "a\0"))
@example((True, 1))
def test_the_order_of_the_bytes_is_the_order_of_the_values(pair: tuple[Any, Any]) -> None:
    a, b = encode_key(pair[0]), encode_key(pair[1])
    assert (a > b) - (a < b) == compare(*pair)


@given(values)
def test_a_value_comes_back(value: Any) -> None:
    data = encode_key(value)
    back = decode_key(data)
    assert back == canonical(value)
    assert repr(back) == repr(canonical(value))  # True is not 1, 1 is not 1.0
    assert encode_key(back) == data


@given(pairs(), st.binary(max_size=3))
def test_no_encoding_is_the_beginning_of_another(pair: tuple[Any, Any], rest: bytes) -> None:
    a, b = encode_key(pair[0]), encode_key(pair[1])
    assert a == b or not b.startswith(a)
    assert split(a + rest) == (a, rest)
    assert a < after(a)
    assert a >= b or after(a) <= b


@given(pairs(), pairs())
def test_joined_encodings_sort_as_pairs(first: tuple[Any, Any], second: tuple[Any, Any]) -> None:
    a, b = encode_key(first[0]) + encode_key(second[0]), encode_key(first[1]) + encode_key(second[1])
    assert (a > b) - (a < b) == (compare(*first) or compare(*second))


@given(pairs())
def test_index_keys_never_contradict_the_order(pair: tuple[Any, Any]) -> None:
    a, b = map(index_key, pair)
    order = compare(*pair)
    assert max(len(a), len(b)) <= MAX_STORED
    if order == 0:
        assert a == b
    elif a == b:
        assert is_cut(a)
    else:
        assert (a > b) - (a < b) == order
    for value, key in zip(pair, (a, b), strict=True):
        assert is_cut(key) or key == encode_key(value)


keys = texts | numbers | st.lists(texts | numbers, min_size=1, max_size=4)


@given(keys, keys)
def test_stored_keys_are_unique_and_ordered_as_documented(first: Any, second: Any) -> None:
    try:
        a, b = encode_primary(first), encode_primary(second)
    except BadValue:
        return
    stored_a, stored_b = storage_key(a), storage_key(b)
    assert len(stored_a) <= MAX_STORED
    assert (stored_a == stored_b) == (a == b)
    if a[:KEPT_BYTES] != b[:KEPT_BYTES] or (len(a) < MAX_STORED and len(b) < MAX_STORED):
        assert (stored_a > stored_b) - (stored_a < stored_b) == (a > b) - (a < b)
    assert stored_a >= storage_low(b) or a < b
    assert stored_a < storage_high(b) or a >= b


@given(texts, texts)
def test_prefixes_are_ranges(prefix: str, text: str) -> None:
    for whole in (text, prefix + text):
        low, high = prefix_range(prefix)
        assert (low <= encode_key(whole) < high) == whole.startswith(prefix)
        low, high = index_prefix_range(prefix)
        found = low <= index_key(whole) < high
        assert found or not whole.startswith(prefix)
        if len(prefix) <= 100:
            assert found == whole.startswith(prefix)


@given(st.lists(scalars, max_size=3), values)
def test_list_prefixes_are_ranges(prefix: list[Any], value: Any) -> None:
    low, high = list_prefix_range(prefix)
    for key in (value, prefix, [*prefix, value], [value, *prefix]):
        key = canonical(key)
        expected = isinstance(key, tuple) and len(key) > len(prefix) and compare(key[: len(prefix)], prefix) == 0
        assert (low <= encode_key(key) < high) == expected


@given(values, values)
def test_kinds_are_ranges(a: Any, b: Any) -> None:
    low, high = kind_range(a)
    same = a is b if isinstance(a, bool) else rank(a) == rank(b)
    assert (low <= encode_key(b) < high) == same


@given(st.binary(max_size=40) | st.lists(st.sampled_from(b"\0\1\2\3\4\x08\x10\x18\x20\x61\x7f\x80\x81\xc3\xff"), max_size=16).map(bytes))
def test_any_bytes_are_a_key_or_refused(data: bytes) -> None:
    try:
        value = decode_key(data)
    except ValueError:
        return
    assert encode_key(value) == data


def test_the_reference_agrees_with_itself() -> None:
    some = [
        None,
        False,
        True,
        -1,
        -0.0,
        0.5,
        2**70,
        math.pi,
        datetime(2024, 1, 1, tzinfo=UTC),
        "",
        "a",
        "é",
        b"",
        b"a",
        [],
        [1],
        [1, 2],
        [2],
    ]
    for a, b in itertools.product(some, some):
        assert compare(a, b) == -compare(b, a)
