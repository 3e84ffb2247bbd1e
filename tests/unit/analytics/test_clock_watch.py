"""A clock that has stepped is not trusted for an hour (spec: analytics §2.2)."""

import pytest

from svc.analytics.collector import LONG_AGO, SETTLING, ClockWatch
from svc.clock import FakeClock


@pytest.mark.parametrize("step", [-86400.0, -61.0, 61.0, 86400.0])
def test_a_step_is_waited_for(step: float) -> None:
    clock = FakeClock()
    watch = ClockWatch(clock, None)
    assert watch.is_settled()
    clock.advance(60)
    clock.step(step)
    assert not watch.is_settled()
    clock.advance(SETTLING - 1)
    assert not watch.is_settled()
    clock.advance(1)
    assert watch.is_settled()


def test_small_corrections_do_not_count() -> None:
    clock = FakeClock()
    watch = ClockWatch(clock, None)
    for _ in range(100):
        clock.advance(60)
        clock.step(-2)
        assert watch.is_settled()


@pytest.mark.parametrize(("age", "settled"), [(0.0, True), (3 * 86400.0, True), (LONG_AGO + 1, False), (-3600.0, False)])
def test_the_newest_row_tells_of_the_clock_at_the_start(age: float, settled: bool) -> None:
    clock = FakeClock()
    assert ClockWatch(clock, (clock.wall() - age) * 1000).is_settled() is settled
