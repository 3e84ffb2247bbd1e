"""Entries of the transaction log: what was encoded comes back, packed or not, and packed is only what takes fewer pages of LMDB then."""

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from svc.errors import StoreFailure
from svc.store.log.entries import IN_LEAF, KINDS, PACK_TO, LogEntry, decode_entry, decode_head, encode_entry, is_entry_of_copy
from svc.store.values.records import NEVER, encode, is_copy
from tests.support.profile import half_by_day

PAGE, PAGE_HEADER = 4096, 16

sizes = st.integers(0, 10_000) | st.sampled_from((0, 1, 30_000, PACK_TO))
moments = st.none() | st.floats(0, 1e15)


def text(size: int, seed: int, letters: int) -> str:
    """Text of so many different letters: of few of them, a frame is small."""
    return "".join(random.Random(seed).choices("".join(map(chr, range(48, 48 + letters))), k=size))


@st.composite
def raws(draw: st.DrawFn) -> bytes | None:
    """A record, or none."""
    if draw(st.booleans()):
        return None
    record = {"id": 1, "text": text(draw(sizes), draw(st.integers(0, 3)), draw(st.sampled_from((1, 4, 60, 1000))))}
    return encode(record, 1.5, draw(st.integers(0, 2**64 - 1)), draw(moments), draw(st.sampled_from((NEVER, 0, 4096))), draw(moments))


entries = st.builds(
    LogEntry,
    st.integers(1, 2**64 - 1),
    st.integers(1, 2**64 - 1),
    st.floats(0, 1e15),
    st.floats(0, 1e15),
    st.text(max_size=20),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=600),
    st.integers(1, len(KINDS) - 1),
    st.none() | st.text(max_size=20),
    st.text(max_size=20),
    st.integers(0, 2**64 - 1),
    raws(),
    st.lists(st.text(max_size=8), max_size=8).map(tuple),
    raws(),
    st.integers(0, 3),
    st.none() | st.binary(min_size=16, max_size=16).filter(any),
    st.none() | st.binary(max_size=200) | st.just(bytes(5000)),
)


def pages(size: int) -> int:
    """That an entry of this size has for itself."""
    return 0 if size <= IN_LEAF else (size + PAGE_HEADER + PAGE - 1) // PAGE


@settings(max_examples=half_by_day(200))
@given(entries)
def test_an_entry_comes_back(entry: LogEntry) -> None:
    data = encode_entry(entry)
    assert decode_entry(entry.lsn, data) == entry
    head = decode_head(entry.lsn, data)
    assert is_entry_of_copy(data) == (entry.value is not None and is_copy(entry.value))
    if data[0] > 4:
        assert head == structs.replace(entry, value=None, image=None)
        frame = len(data) - len(encode_entry(head))
        assert pages(len(data)) < pages(len(data) - frame + len(entry.value or b"") + len(entry.image or b""))
    else:
        assert head == entry


@settings(max_examples=half_by_day(200))
@given(entries, st.integers(0, 255), st.integers(0, 2**32 - 1))
@example(LogEntry(1, 1, 0.0, 0.0, "", 1, b"", 1, None, "", 0, encode({"a": "a" * 3000}, 1.0, 1, None), (), None), 1, 2**31)
def test_damage_is_found_or_bounded(entry: LogEntry, value: int, place: int) -> None:
    """A byte of a frame is another: what is read is an entry, or a StoreFailure."""
    data = encode_entry(entry)
    if data[0] < 4:
        return
    head = len(encode_entry(decode_head(entry.lsn, data)))
    behind = 0 if entry.trace_id is None and entry.mqtt is None else 16 if entry.mqtt is None else 20 + len(entry.mqtt)
    at = head - behind + place % (len(data) - head)
    try:
        found = decode_entry(entry.lsn, data[:at] + bytes((value,)) + data[at + 1 :])
    except StoreFailure:
        return
    assert len(found.value or b"") + len(found.image or b"") <= PACK_TO
    assert structs.replace(found, value=None, image=None) == structs.replace(entry, value=None, image=None)
