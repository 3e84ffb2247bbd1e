"""Values to times and back: forms of text, the calendar, its ends."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.sql.functions.dates import DAY, MAX_MS, add_months, civil, days_in_month, days_of, moment_of, ms_of

EPOCH = date(1970, 1, 1)


def ms(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp()) * 1000  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-05", ms(2024, 1, 5)),
        ("2024-01", ms(2024, 1, 1)),
        ("2024", ms(2024, 1, 1)),
        ("20240105", ms(2024, 1, 5)),
        ("2024-005", ms(2024, 1, 5)),
        ("2024005", ms(2024, 1, 5)),
        ("2024-366", ms(2024, 12, 31)),
        ("2013-W06-5", ms(2013, 2, 8)),
        ("2013W065", ms(2013, 2, 8)),
        ("2013-W06", ms(2013, 2, 4)),
        ("2020-W53-7", ms(2021, 1, 3)),
        ("2024-01-05T21", ms(2024, 1, 5, 21)),
        ("2024-01-05 21:07", ms(2024, 1, 5, 21, 7)),
        ("2024-01-05T21:07:27", ms(2024, 1, 5, 21, 7, 27)),
        ("20240105T210727Z", ms(2024, 1, 5, 21, 7, 27)),
        ("2024-01-05T21:07:27.9Z", ms(2024, 1, 5, 21, 7, 27) + 900),
        ("2024-01-05T21:07:27,9559999Z", ms(2024, 1, 5, 21, 7, 27) + 955),
        ("2024-01-05T24:00", ms(2024, 1, 6)),
        ("2024-01-05T21:07:27+01:30", ms(2024, 1, 5, 19, 37, 27)),
        ("2024-01-05T21:07:27 -0100", ms(2024, 1, 5, 22, 7, 27)),
        ("2024-01-05T21:07:27+01", ms(2024, 1, 5, 20, 7, 27)),
        ("  2024-01-05  ", ms(2024, 1, 5)),
        ("0000-01-01", -62_167_219_200_000),
        ("+002024-01-05", ms(2024, 1, 5)),
        ("-000001-12-31", -62_167_305_600_000),
        ("+275760-09-13", MAX_MS),
        ("-271821-04-20", -MAX_MS),
        ("Fri, 05 Jan 2024 21:07:27 +0100", ms(2024, 1, 5, 20, 7, 27)),
        ("5 jan 2024 21:07 GMT", ms(2024, 1, 5, 21, 7)),
        ("Fri, 05 Jan 24 21:07:27 EST", ms(2024, 1, 6, 2, 7, 27)),
        ("01 Jan 50 00:00 Z", ms(1950, 1, 1)),
        ("Fri, 05 Jan 2024 21:07:27 (night) GMT", ms(2024, 1, 5, 21, 7, 27)),
        (0, 0),
        (-1, -1),
        (1.9, 1),
        (-1.9, -1),
        (MAX_MS, MAX_MS),
    ],
)
def test_what_a_time_is(text: object, expected: int) -> None:
    assert ms_of(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        None, "", " ", "now", "2024-13-01", "2024-00-10", "2024-02-30", "2023-02-29", "2023-366", "2024-000", "2021-W53-1", "2024-W00-1", "2024-01-05T25:00",
        "2024-01-05T24:01", "2024-01-05T21:60", "2024-01-05T21:07:60", "2024-1-5", "05.01.2024", "1704485247955", "-000000-01-01", "+275760-09-14",
        "-271821-04-19T23:59", "2024-01-05x", "2024-01-05T", "２０２４-01-05", "Sat, 05 Jan 2024 21:07:27 GMT", "05 Foo 2024 21:07 GMT",
        "31 Feb 2024 21:07 GMT", "05 Jan 2024 21:07 XYZ", "2024-99-99T99:99:99.999Z", "2024-W01-5T21:07:27.95Z0", "1" * 1_000_000, "(" * 90, b"2024-01-05",
        MAX_MS + 1, -MAX_MS - 1, 1e300, float("inf"), float("nan"),
    ],
)  # fmt: skip
def test_what_is_none(text: object) -> None:
    assert ms_of(text) is None


@given(st.dates())
def test_calendar_is_that_of_the_standard_library(day: date) -> None:
    days = (day - EPOCH).days
    assert civil(days) == (day.year, day.month, day.day)
    assert days_of(*civil(days)) == days
    assert moment_of(days * DAY).weekday == day.isoweekday() % 7


@given(st.integers(-MAX_MS, MAX_MS), st.integers(-960, 960))
def test_moments_are_times_again(ms: int, offset: int) -> None:
    moment = moment_of(ms, offset)
    assert 1 <= moment.month <= 12 and 1 <= moment.day <= days_in_month(moment.year, moment.month)
    minutes = (days_of(moment.year, moment.month, moment.day) * 24 + moment.hour) * 60 + moment.minute
    assert ((minutes - offset) * 60 + moment.second) * 1000 + moment.milli == ms


@given(st.datetimes(timezones=st.just(UTC)))
def test_iso_text_of_any_time_is_read(moment: datetime) -> None:
    expected = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert ms_of(moment.isoformat()) == ms_of(moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")) == expected


@given(st.text(max_size=60))
def test_any_text_is_a_time_or_none(text: str) -> None:
    found = ms_of(text)
    assert found is None or -MAX_MS <= found <= MAX_MS


@pytest.mark.parametrize(
    ("start", "months", "expected"),
    [
        ("2024-01-31", 1, "2024-02-29"),
        ("2023-01-31", 1, "2023-02-28"),
        ("2024-02-29", 12, "2025-02-28"),
        ("2024-03-31", -1, "2024-02-29"),
        ("2024-01-31", -2, "2023-11-30"),
        ("2024-12-15", 1, "2025-01-15"),
        ("0000-01-31", -1, "-000001-12-31"),
    ],
)
def test_months(start: str, months: int, expected: str) -> None:
    begin, end = ms_of(start), ms_of(expected)
    assert begin is not None and add_months(begin, months) == end
