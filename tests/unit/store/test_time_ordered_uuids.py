"""Keys that are made: UUIDs of version 7, each greater than the one before (RFC 9562 §5.7, §6.2)."""

from __future__ import annotations

import os
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.clock import FakeClock
from svc.store.time_ordered_uuids import TimeOrderedUuids

pytestmark = pytest.mark.programs

NOW = 1_767_225_600.0


def ms_of(key: str) -> int:
    return UUID(key).int >> 80


def test_they_have_the_layout_of_version_7() -> None:
    clock = FakeClock(NOW + 0.1235)
    key = TimeOrderedUuids(clock).new()
    assert str(UUID(key)) == key and UUID(key).version == 7 and UUID(key).variant == RFC_4122
    assert ms_of(key) == int(NOW * 1000) + 123
    assert UUID(key).int >> 64 & 0xFFF == 2048, "half a millisecond"


@given(st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=1, max_size=50))
def test_each_is_greater_than_the_one_before_whatever_the_clock_does(steps: list[float]) -> None:
    clock = FakeClock(NOW)
    uuids = TimeOrderedUuids(clock)
    latest = NOW
    found = [uuids.new()]
    for step in steps:
        clock.advance(max(step, 1.0 - clock.wall()))
        latest = max(latest, clock.wall())
        found.append(uuids.new())
        assert 0 <= ms_of(found[-1]) - int(latest * 1000) <= 1, "the time is that of the clock, or the latest there was"
    assert found == sorted(set(found))
    assert [UUID(key).int for key in found] == sorted(UUID(key).int for key in found)


def test_many_in_one_moment_are_different_and_in_order() -> None:
    uuids = TimeOrderedUuids(FakeClock(NOW))
    found = [uuids.new() for _ in range(10_000)]
    assert found == sorted(set(found))
    assert len({key[19:] for key in found}) == len(found), "what is random is so in each"


def test_a_forked_process_does_not_make_the_same_ones() -> None:
    uuids = TimeOrderedUuids(FakeClock(NOW))
    uuids.new()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, uuids.new().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 36).decode() != uuids.new()
    os.close(reader)
    os.close(writer)
