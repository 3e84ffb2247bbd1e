"""svc.content.long_records: the same bytes as in one call, and no call with very many values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svc.content import long_records
from svc.content.cbor_type import CborType
from svc.content.content_type import ContentType
from svc.content.json_type import JsonType
from svc.content.long_records import LONG, count_values, decode_record_slices, is_long, record_pieces
from svc.content.msgpack_reader import decode_msgpack
from svc.content.msgpack_type import MsgpackType
from svc.store.values.records import decode, decode_json, encode
from tests.support.profile import examples

START = datetime(2026, 1, 5, tzinfo=UTC)
RECORDS: dict[str, dict[str, Any]] = {
    "objects": {"id": 1, "many": [{"n": number, "text": f"text {number}"} for number in range(5000)]},
    "dates": {"id": 2, "times": [START + timedelta(minutes=number) for number in range(8000)]},
    "object": {"id": 3, "by_name": {f"name {number}": {"list": [number, None, True, 1.5]} for number in range(3000)}},
    "lists": {"id": 4, "lists": [[list(range(900))] * 3, [[[{"x": list(range(2000))}]]]] * 9, "end": "é" * 30},
    "sets": {"id": 5, "sets": [{number, number + 1} for number in range(6000)], "bytes": [b"\xff" * 9] * 4000, "big": [1 << 90] * 3000},
    "keys": {"id": 6, "keys": [{1: "a", 2.5: "b"}] * 4000, "deep": {"n": {7: list(range(3000))}}},
    "text": {"id": 7, "text": "long " * 40_000},
}
KINDS: list[ContentType] = [JsonType(), CborType(), MsgpackType()]


def stored(record: dict[str, Any]) -> bytes:
    return encode(record, 1.0, 1, None)


def decoded(raw: bytes, *, native: bool) -> tuple[int, Any]:
    """The number of pauses, and the record."""
    steps, pauses = decode_record_slices(raw, native=native), 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return pauses, done.value
        pauses += 1


@pytest.mark.parametrize("name", RECORDS)
def test_the_same_values_in_steps(name: str) -> None:
    raw = stored(RECORDS[name])
    assert is_long(raw) == (name not in ("text", "keys"))  # which have few values
    for native, whole in ((True, decode(raw)), (False, decode_json(raw))):
        pauses, record = decoded(raw, native=native)
        assert record == whole and list(record) == list(whole)
        assert pauses >= 1 or name in ("text", "keys")


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_same_bytes_in_pieces(name: str, kind: ContentType) -> None:
    raw = stored(RECORDS[name])
    whole = kind.encode_stored(raw)
    body = b"".join(record_pieces(raw, kind, None))
    read = {"application/json": kind.decode, "application/cbor": lambda body, _: cbor2.loads(body)}
    decode_body = read.get(kind.name, lambda body, _: decode_msgpack(body))
    assert len(body) == len(whole) and decode_body(body, {}) == decode_body(whole, {})
    one = b"".join(record_pieces(raw, kind, frozenset({"id"})))
    assert decode_body(one, {}) == {"id": RECORDS[name]["id"]}


def test_no_step_has_very_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real = long_records.stored_decoders

    def counted(*, json: bool) -> Any:
        return [lambda part, decode=decode: sizes.append(len(part)) or decode(part) for decode in real(json=json)]

    monkeypatch.setattr(long_records, "stored_decoders", counted)
    for name in ("objects", "dates", "object", "lists"):
        decoded(stored(RECORDS[name]), native=False)
    assert len(sizes) > 40 and max(sizes) <= 2 * LONG


def test_short_ones_are_not_looked_into() -> None:
    assert not is_long(stored({"id": 1, "text": "x" * 1000}))
    assert count_values([1, {"a": [2, "x" * 640]}]) == 6 + 10
    assert count_values(list(range(5000))) == count_values({"a": "x" * 100_000}) == 1001


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.text(max_size=9) | st.binary(max_size=5) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=4), inner, max_size=6),
    max_leaves=20,
)


@settings(max_examples=examples(25))
@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=6), st.integers(1, 3))
def test_any_record(record: dict[str, Any], times: int) -> None:
    raw = stored({**record, "again": [record] * (400 * times)})
    assert decoded(raw, native=True)[1] == decode(raw)
    assert decoded(raw, native=False)[1] == decode_json(raw)
    for kind in KINDS:
        assert b"".join(record_pieces(raw, kind, None)) == kind.encode_stored(raw)
