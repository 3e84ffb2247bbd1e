"""Cron expressions and intervals (spec: components §3.1)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from svc.scheduler.schedules import Cron, read_cron, read_interval
from tests.support.profile import examples, half_by_day


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def shown(moment: int | None, zone: str = "UTC") -> str:
    assert moment is not None
    return datetime.fromtimestamp(moment / 1000, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M %z")


def following(cron: Cron, start: str, count: int, zone: str) -> list[str]:
    moment: int | None = ms(start)
    found = []
    for _ in range(count):
        assert moment is not None
        moment = cron.next_after(moment, 0)
        found.append(shown(moment, zone))
    return found


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        ("30 2 * * *", "2026-01-01T02:30:00Z", "2026-01-02 02:30"),
        ("30 2 * * *", "2026-01-01T02:29:59.999Z", "2026-01-01 02:30"),
        ("*/15 * * * *", "2026-01-01T00:01:00Z", "2026-01-01 00:15"),
        ("0 9-17/4 * * MON-FRI", "2026-01-02T17:00:00Z", "2026-01-05 09:00"),
        ("0 0 1,15 * *", "2026-01-02T00:00:00Z", "2026-01-15 00:00"),
        ("0 0 * jan,Mar *", "2026-01-31T00:00:00Z", "2026-03-01 00:00"),
        ("0 0 * * 0", "2026-01-01T00:00:00Z", "2026-01-04 00:00"),
        ("0 0 * * 7", "2026-01-01T00:00:00Z", "2026-01-04 00:00"),
        ("0 0 * * sun", "2026-01-01T00:00:00Z", "2026-01-04 00:00"),
        ("0 0 13 * 5", "2026-01-03T00:00:00Z", "2026-01-09 00:00"),  # both days are restricted: either
        ("0 0 13 * 5", "2026-01-09T00:00:00Z", "2026-01-13 00:00"),
        ("0 0 */10 * 5", "2026-01-02T00:00:00Z", "2026-01-09 00:00"),  # a step is a restriction, too
        ("0 0 */10 * 5", "2026-01-09T00:00:00Z", "2026-01-11 00:00"),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29 00:00"),
        ("0 0 L * *", "2026-02-01T00:00:00Z", "2026-02-28 00:00"),
        ("@hourly", "2026-01-01T00:00:00Z", "2026-01-01 01:00"),
        ("@daily", "2026-01-01T00:00:00Z", "2026-01-02 00:00"),
        ("@midnight", "2026-01-01T00:00:00Z", "2026-01-02 00:00"),
        ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04 00:00"),
        ("@Monthly", "2026-01-01T00:00:00Z", "2026-02-01 00:00"),
        ("@yearly", "2026-01-01T00:00:00Z", "2027-01-01 00:00"),
    ],
)
def test_the_next_moment_of_a_cron_expression(expression: str, after: str, expected: str) -> None:
    assert shown(read_cron(expression).next_after(ms(after), 0)) == f"{expected} +0000"


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("", "0 fields"),
        ("* * * *", "has 4 fields"),
        ("* * * * * *", "has 6 fields"),
        ("60 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of month"),
        ("* * 32 * *", "day of month"),
        ("* * * 13 *", "month"),
        ("* * * * 8", "day of week"),
        ("* * * * FOO", "day of week"),
        ("5-1 * * * *", "minute"),
        ("*/0 * * * *", "minute"),
        ("1,,2 * * * *", "minute"),
        ("0 0 30 2 *", "day of month"),
        ("0 0 31 4,6,9,11 *", "day of month"),
        ("0 0 * * 5#2", "'5#2'"),
        ("0 0 * * 5L/2", "day of week"),
        ("@reboot", "@hourly"),
        ("٣ * * * *", "is not a value"),
        ("* " * 200, "must be a string"),
        (5, "must be a string"),
        (None, "must be a string"),
        (["* * * * *"], "must be a string"),
    ],
)
def test_what_is_no_cron_expression_is_refused(expression: Any, words: str) -> None:
    with pytest.raises(ValueError, match=r"^cron") as error:
        read_cron(expression)
    assert words in str(error.value)


@pytest.mark.parametrize("zone", ["Nowhere/Town", "", "../etc/passwd", "/etc/localtime", 5, "Europe", "a\0b", "x" * 1000])
def test_what_is_no_time_zone_is_refused(zone: Any) -> None:
    with pytest.raises(ValueError, match="timezone"):
        read_cron("* * * * *", zone)


@pytest.mark.parametrize(
    "given",
    ["", "0", 0, 0.9, "366d", 366 * 86400, "5 m", "5w", "-5s", "1.5s", True, None, [5], float("nan"), 10**400, float("inf"), "1" * 5000],
)
def test_what_is_no_interval_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="interval"):
        read_interval(given)


def test_a_time_that_is_skipped_is_an_hour_later_on_the_clock() -> None:
    cron = read_cron("30 2 * * *", "Europe/Berlin")
    assert following(cron, "2026-03-28T00:00:00Z", 3, "Europe/Berlin") == [
        "2026-03-28 02:30 +0100",
        "2026-03-29 03:30 +0200",
        "2026-03-30 02:30 +0200",
    ]
    half_hours = read_cron("*/30 * * * *", "Europe/Berlin")
    assert following(half_hours, "2026-03-29T00:20:00Z", 5, "Europe/Berlin") == [
        "2026-03-29 01:30 +0100",
        "2026-03-29 03:00 +0200",
        "2026-03-29 03:30 +0200",
        "2026-03-29 04:00 +0200",
        "2026-03-29 04:30 +0200",
    ]


def test_a_time_that_comes_twice_counts_once() -> None:
    cron = read_cron("30 2 * * *", "Europe/Berlin")
    assert following(cron, "2026-10-24T20:00:00Z", 2, "Europe/Berlin") == ["2026-10-25 02:30 +0200", "2026-10-26 02:30 +0100"]
    hours = read_cron("@hourly", "Europe/Berlin")
    assert following(hours, "2026-10-24T23:30:00Z", 3, "Europe/Berlin") == [
        "2026-10-25 02:00 +0200",
        "2026-10-25 03:00 +0100",
        "2026-10-25 04:00 +0100",
    ]


def test_a_day_that_is_skipped_runs_at_the_same_time_of_the_next() -> None:
    """Samoa had no 30 December 2011."""
    cron = read_cron("0 10 * * *", "Pacific/Apia")
    assert following(cron, "2011-12-29T10:00:00Z", 3, "Pacific/Apia") == [
        "2011-12-29 10:00 -1000",
        "2011-12-31 10:00 +1400",
        "2012-01-01 10:00 +1400",
    ]
    only = read_cron("0 10 30 12 *", "Pacific/Apia")
    assert following(only, "2011-01-01T10:00:00Z", 2, "Pacific/Apia") == ["2011-12-31 10:00 +1400", "2012-12-30 10:00 +1400"]


FIELD_VALUES = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]


@st.composite
def fields(draw: st.DrawFn, low: int, high: int) -> str:
    def term() -> str:
        first = draw(st.integers(low, high))
        last = draw(st.integers(first, high))
        step = draw(st.integers(1, 7))
        return draw(st.sampled_from([f"{first}", f"{first}-{last}", f"{first}-{last}/{step}"]))

    kind = draw(st.integers(0, 3))
    return "*" if kind <= 1 else f"*/{draw(st.integers(1, 9))}" if kind == 2 else ",".join(term() for _ in range(draw(st.integers(1, 2))))


EXPRESSIONS = st.tuples(*[fields(low, high) for low, high in FIELD_VALUES]).map(" ".join)
ZONES = {
    "Europe/Berlin": "2026-03-29T01:00:00Z",
    "America/New_York": "2026-11-01T06:00:00Z",
    "Australia/Lord_Howe": "2026-04-04T15:00:00Z",  # by half an hour
    "Pacific/Apia": "2011-12-30T10:00:00Z",
    "UTC": "2026-01-01T00:00:00Z",
}


def matching_moments(expression: str, zone: str, start: datetime, hours: int) -> list[int]:
    """By the definition: each minute on the clock that matches, at the moment PEP 495 gives it."""
    parts = expression.split()
    sets = []
    for part, (low, high) in zip(parts, FIELD_VALUES, strict=True):
        values: set[int] = set()
        for term in part.split(","):
            body, _, step = term.partition("/")
            first, _, last = (f"{low}-{high}" if body == "*" else body).partition("-")
            values.update(range(int(first), int(last or first) + 1, int(step or 1)))
        sets.append(values)
    either = parts[2] != "*" and parts[4] != "*"
    wall = start.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0, second=0) - timedelta(hours=60)
    found = set()
    for minute in range((hours + 120) * 60):
        time = wall + timedelta(minutes=minute)
        weekday = time.isoweekday() % 7
        day = time.day in sets[2]
        of_week = weekday in sets[4] or (weekday == 0 and 7 in sets[4])
        if (
            time.minute in sets[0]
            and time.hour in sets[1]
            and time.month in sets[3]
            and ((day or of_week) if either else (day and of_week))
        ):
            found.add(int(time.replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000))
    first_ms = int(start.timestamp() * 1000)
    return sorted(moment for moment in found if first_ms < moment <= first_ms + hours * 3_600_000)


@settings(max_examples=half_by_day(60), deadline=None)
@given(EXPRESSIONS, st.sampled_from(sorted(ZONES)), st.integers(-40, 20))
def test_moments_are_those_of_the_definition(expression: str, zone: str, offset: int) -> None:
    try:
        cron = read_cron(expression, zone)
    except ValueError:
        return
    start = datetime.fromisoformat(ZONES[zone]).astimezone(UTC) + timedelta(hours=offset)
    expected = matching_moments(expression, zone, start, 36)
    moment, end = int(start.timestamp() * 1000), int(start.timestamp() * 1000) + 36 * 3_600_000
    found: list[int] = []
    while (following := cron.next_after(moment, 0)) is not None and following <= end and len(found) < 40:
        found.append(following)
        moment = following
    assert found == expected[:40]
    for one, other in pairwise(found):
        assert cron.last_until(other - 1, 0) == one
        assert cron.last_until(other, 0) == other


@settings(max_examples=examples(60), deadline=None)
@given(EXPRESSIONS, st.integers(0, 400))
def test_without_a_change_of_the_clock_moments_are_those_of_the_library(expression: str, day: int) -> None:
    if "*/" in " ".join((expression.split()[2], expression.split()[4])):
        return  # what begins with a star is no restriction to it
    try:
        cron = read_cron(expression)
    except ValueError:
        return
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day)
    theirs = CronSim(expression, start)
    moment = int(start.timestamp() * 1000)
    for _ in range(5):
        following = cron.next_after(moment, 0)
        assert following == int(next(theirs).timestamp() * 1000)
        moment = following


@given(st.integers(1, 10**6), st.integers(0, 10**12), st.integers(-(10**7), 10**12))
def test_intervals_lie_on_a_grid_from_the_anchor_on(seconds: int, anchor: int, offset: int) -> None:
    interval = read_interval(seconds)
    moment = anchor + offset
    following, last = interval.next_after(moment, anchor), interval.last_until(moment, anchor)
    assert following is not None and following > moment and (following - anchor) % interval.ms == 0 and following > anchor
    assert last is None or (anchor < last <= moment < last + interval.ms == following)


@settings(deadline=None)
@given(
    st.lists(st.text(st.sampled_from("0123456789*/,-LWSUNMOJAF#?"), max_size=8), min_size=4, max_size=6).map(" ".join)
    | st.text(max_size=30)
)
def test_anything_is_an_expression_or_refused(text: str) -> None:
    try:
        cron = read_cron(text, "Europe/Berlin")
    except ValueError as error:
        assert str(error).startswith("cron")
        return
    moment = cron.next_after(ms("2026-03-28T00:00:00Z"), 0)
    assert moment is not None
    assert cron.last_until(moment, 0) == moment and cron.next_after(moment - 1, 0) == moment
