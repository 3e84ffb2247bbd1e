"""svc.clock: steps of the time of day, and the time that is recorded for a write."""

import pytest

from svc.clock import ClockSteps, FakeClock, stamp_time


def test_steps_are_what_is_not_time_that_has_passed() -> None:
    clock = FakeClock()
    steps = ClockSteps(clock)
    clock.advance(500)
    assert steps.take() == 0
    clock.step(-7200)
    clock.advance(1)
    assert steps.take() == pytest.approx(-7200)
    assert steps.take() == 0


@pytest.mark.parametrize(("version", "expected"), [(1_000_000.0, 1_000_000.0), (1_060_000.0, 1_060_000.0), (1_060_001.0, 1_000_000.0)])
def test_versions_that_are_ahead_are_no_times(version: float, expected: float) -> None:
    assert stamp_time(version, 1_000_000.0) == expected
