"""Records: whatever can be stored comes back, in the same order, as the same types; whatever bytes are read, only StoreFailure is raised."""

import struct
from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from svc.errors import StoreFailure
from svc.store.values.records import MISSING, NEVER, decode, decode_json, encode, expiry_of, iso_text, lsn_of, projection, to_ms, version_of
from tests.support.profile import half_by_day

moments = st.datetimes(timezones=st.just(UTC)) | st.datetimes()
integers = st.integers() | st.integers(-(2**1000), 2**1000) | st.sampled_from((2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1))
texts = st.text(st.characters(codec="utf-8"), max_size=8)
scalars = st.one_of(
    st.none(), st.booleans(), integers, st.floats(allow_nan=False, allow_infinity=False), texts, st.binary(max_size=8), moments
)
hashables = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2).map(tuple) | st.frozensets(inner, max_size=2), max_leaves=4)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(texts, inner, max_size=3),
        st.dictionaries(hashables, inner, max_size=3),
        st.sets(hashables, max_size=3),
    ),
    max_leaves=8,
)
names = st.one_of(st.sampled_from(("id", "name", "a.b", "class", "", "é")), texts)
record_values = st.dictionaries(names, values, max_size=6)
thresholds = st.sampled_from((NEVER, 0))  # compressed is what becomes smaller: that takes some repetition


def stored(value: Any, hashable: bool = False) -> Any:
    """What a value is when it comes back: tuples as lists (unless something must be hashable), dates in UTC with whole ms."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return aware.replace(microsecond=aware.microsecond // 1000 * 1000)
    if isinstance(value, (list, tuple)):
        elements = [stored(element, hashable) for element in value]
        return tuple(elements) if hashable else elements
    if isinstance(value, (set, frozenset)):
        members = {stored(element, True) for element in value}
        return frozenset(members) if hashable else members
    if isinstance(value, dict):
        return {stored(key, True): stored(element) for key, element in value.items()}
    return value


def shape(value: Any) -> Any:
    """The types of a value and the order of its properties, for comparison beyond `==`; members of sets are equal by `==` only."""
    if isinstance(value, dict):
        return [(shape(key), shape(element)) for key, element in value.items()]
    if isinstance(value, (list, tuple)):
        return [shape(element) for element in value]
    return type(value)


@settings(max_examples=half_by_day(100))
@given(record_values, st.floats(1, 1e15), st.integers(0, 2**64 - 1), st.none() | st.floats(0, 1e15), thresholds)
def test_a_record_comes_back(record: dict[str, Any], version: float, lsn: int, expiry: float | None, compress_above: int) -> None:
    raw = encode(record, version, lsn, expiry, compress_above)
    back = decode(raw)
    assert back == stored(record)
    assert shape(back) == shape(stored(record))
    assert (version_of(raw), lsn_of(raw), expiry_of(raw)) == (version, lsn, expiry)
    assert encode(back, version, lsn, expiry, compress_above) == raw


def plain(value: Any) -> Any:
    """A record for JSON, as JSON gives it back."""
    return msgspec.json.decode(msgspec.json.encode(value))


json_scalars = st.one_of(st.none(), st.booleans(), integers, texts, moments)
json_values = st.recursive(
    json_scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
)


@given(st.dictionaries(names, json_values, max_size=6))
def test_the_json_form_is_the_record_with_dates_as_text(record: dict[str, Any]) -> None:
    def expected(value: Any) -> Any:
        if isinstance(value, datetime):
            return iso_text(to_ms(value))
        if isinstance(value, list):
            return list(map(expected, value))
        return {key: expected(element) for key, element in value.items()} if isinstance(value, dict) else value

    form = decode_json(encode(record, 1.0, 1, None))
    assert form == expected(record)
    assert shape(form) == shape(expected(record))
    assert plain(form) == form


@settings(max_examples=half_by_day(100))
@given(record_values)
def test_every_record_has_a_json_form(record: dict[str, Any]) -> None:
    msgspec.json.encode(decode_json(encode(record, 1.0, 1, None)))


@given(record_values, st.lists(names, max_size=4), thresholds)
def test_a_projection_is_a_part_of_the_record(record: dict[str, Any], wanted: list[str], compress_above: int) -> None:
    raw = encode(record, 1.0, 1, None, compress_above)
    for json, read in ((False, decode), (True, decode_json)):
        whole = read(raw)
        assert projection(tuple(wanted), json)(raw) == tuple(whole.get(name, MISSING) for name in wanted)


@given(moments)
def test_iso_text_is_the_date(moment: datetime) -> None:
    text = iso_text(to_ms(moment))
    assert len(text) == 24
    assert datetime.fromisoformat(text) == stored(moment)


@given(st.binary(max_size=60), st.sampled_from((0x10, 0x11, 0x12, 0x00)))
def test_damaged_bytes_are_store_failures(payload: bytes, first: int) -> None:
    raw = bytes((first,)) + struct.pack(">dQ", 1.0, 1) + payload
    for read in (decode, decode_json, projection(("a",)), projection(("a",), True)):
        try:
            read(raw)
        except StoreFailure:
            continue


@given(record_values, st.data(), thresholds)
def test_a_changed_byte_is_a_record_or_a_store_failure(record: dict[str, Any], data: st.DataObject, compress_above: int) -> None:
    raw = bytearray(encode({**record, "more": "of this " * 9}, 1.0, 1, None, compress_above))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    for read in (decode, decode_json, projection(("id",)), projection(("id",), True)):
        try:
            read(bytes(raw))
        except StoreFailure:
            continue
