"""Limits of functions, by statement."""

from __future__ import annotations

import pytest

from svc.clock import FakeClock
from svc.errors import QueryTooLarge
from svc.sql.functions import WorkMeter


def test_time(meter: WorkMeter, clock: FakeClock) -> None:
    clock.advance(9.5)
    meter.check_time()
    assert meter.remaining() == 0.5
    with pytest.raises(QueryTooLarge, match=r"takes longer than 10 s \(sql.maxTime\)") as caught:
        meter.expect(0.6)
    assert (caught.value.status_code, caught.value.budget) == (400, "seconds")
    clock.advance(1.0)
    assert meter.remaining() == 0
    with pytest.raises(QueryTooLarge):
        meter.check_time()


def test_statements_that_pause(meter: WorkMeter, clock: FakeClock) -> None:
    meter.hold(1000)
    clock.advance(60.0)
    meter.resume(5.0)
    meter.expect(5.0)
    assert meter.held == 1000 and meter.now_ms == 1_704_485_247_955
    with pytest.raises(QueryTooLarge, match="longer than 5 s"):
        meter.expect(5.1)


def test_what_is_late_is_said_by_the_statement(meter: WorkMeter, clock: FakeClock) -> None:
    meter.begin(0, 0.002, 1000, lambda: TimeoutError("elsewhere"))
    with pytest.raises(TimeoutError, match="elsewhere"):
        meter.expect(0.003)


def test_bytes(meter: WorkMeter) -> None:
    meter.begin(0, 1.0, 1000)
    meter.hold(900)
    meter.hold(-500)
    assert meter.held == 400
    with pytest.raises(QueryTooLarge, match=r"hold more than 1000 bytes at one time \(sql.maxMemory\)"):
        meter.hold(601)
    meter.begin(0, 1.0, 1000)
    assert meter.held == 0


def test_length(meter: WorkMeter) -> None:
    meter.max_length = 10
    meter.check_length(10)
    with pytest.raises(QueryTooLarge, match=r"a value of more than 10 bytes"):
        meter.check_length(11)
