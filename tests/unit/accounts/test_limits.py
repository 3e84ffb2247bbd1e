"""How often something may be done in an hour."""

from __future__ import annotations

from svc.accounts import limits
from svc.accounts.limits import HourlyLimit
from svc.clock import FakeClock


def test_so_many_at_once_and_one_more_each_part_of_an_hour() -> None:
    clock = FakeClock()
    limit = HourlyLimit(4, clock.monotonic)
    assert [limit.admit("a") for _ in range(6)] == [True] * 4 + [False] * 2
    assert limit.wait("a") == 900.0 and limit.wait("b") == 0.0
    clock.advance(899)
    assert not limit.admit("a")
    clock.advance(1)
    assert limit.admit("a") and not limit.admit("a")
    clock.advance(3600)
    assert [limit.admit("a") for _ in range(5)] == [True] * 4 + [False]


def test_what_others_have_counted_never_waits_longer_than_an_hour() -> None:
    clock = FakeClock()
    limit = HourlyLimit(2, clock.monotonic)
    for _ in range(100):
        limit.count("a")
    assert limit.wait("a") == 1800.0


def test_it_does_not_grow_without_bounds() -> None:
    limit = HourlyLimit(1, FakeClock().monotonic)
    for number in range(limits.MAX_KEYS + 100):
        limit.count(str(number))
    assert len(limit) == limits.MAX_KEYS
    assert limit.wait(str(limits.MAX_KEYS)) > 0 and limit.wait("0") == 0
