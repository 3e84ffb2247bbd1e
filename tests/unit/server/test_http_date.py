"""The `Date` field."""

from svc.clock import FakeClock
from svc.server.http_date import HttpDate


def test_the_date_follows_the_clock_second_by_second() -> None:
    clock = FakeClock()
    date = HttpDate(clock).value
    assert date() == "Thu, 01 Jan 2026 00:00:00 GMT"
    clock.advance(0.9)
    first = date()
    assert first is date()
    clock.advance(0.1)
    assert date() == "Thu, 01 Jan 2026 00:00:01 GMT"
