"""A line once a minute."""

from __future__ import annotations

from svc.clock import FakeClock
from svc.seldom import MAX_KEYS, Seldom


def test_a_line_a_minute_with_the_number_of_those_left_out() -> None:
    clock = FakeClock()
    seldom = Seldom(clock.monotonic)
    assert seldom.count("a") == 1
    clock.advance(59)
    assert seldom.count("a") is None
    assert seldom.count("a") is None
    assert seldom.count("b") == 1
    clock.advance(1)
    assert seldom.count("a") == 3
    assert seldom.count("a") is None


def test_the_number_of_keys_is_bounded() -> None:
    clock = FakeClock()
    seldom = Seldom(clock.monotonic)
    assert all(seldom.count(number) == 1 for number in range(MAX_KEYS))
    assert seldom.count("one more") is None
    clock.advance(30)
    assert seldom.count("one more") is None
    clock.advance(30)
    assert seldom.count("one more") == 1
    assert len(seldom._written) <= MAX_KEYS
