"""Times as whole ms since the epoch: from values of statements, to the calendar and back (spec: sql §11.3).

The calendar is the proleptic Gregorian one, for all that ECMAScript's dates can be: 100,000,000 days on each side of 1970, so years -271821 to 275760.
`datetime` ends at 9999 and begins at 1, and is used where it is enough. Anything else is no time: None.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

MAX_MS = 8_640_000_000_000_000
SECOND, MINUTE, HOUR, DAY, WEEK = 1000, 60_000, 3_600_000, 86_400_000, 604_800_000
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December")
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LONGEST = 100  # characters of a date
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_ERA = 146_097  # days of 400 years
_EPOCH_DAY = 719_468  # days from the 1st of March of the year 0 to 1970

# ISO 8601: calendar, week and ordinal dates, extended or basic; [0-9], for \d takes the digits of every script.
_iso = re.compile(
    r"([+-][0-9]{6}|[0-9]{4})(?:-?([0-9]{2})(?:-?([0-9]{2}))?|-?W([0-9]{2})(?:-?([1-7]))?|-?([0-9]{3}))?"
    r"(?:[Tt ]([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2})(?:[.,]([0-9]+))?)?)?\s?([Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
).fullmatch
_rfc2822 = re.compile(
    r"(?:(Mon|Tue|Wed|Thu|Fri|Sat|Sun),?\s+)?([0-9]{1,2})\s+([a-z]{3})\s+([0-9]{4}|[0-9]{2})"
    r"\s+([0-9]{2}):([0-9]{2})(?::([0-9]{2}))?\s+([a-z]{1,3}|[+-][0-9]{4})",
    re.IGNORECASE,
).fullmatch
_comment = re.compile(r"\([^()]*\)")
_ZONES = {
    "Z": 0, "UT": 0, "UTC": 0, "GMT": 0, "EST": -300, "EDT": -240, "CST": -360, "CDT": -300, "MST": -420, "MDT": -360, "PST": -480, "PDT": -420,
}  # fmt: skip
_MONTH_OF = {name[:3].lower(): number for number, name in enumerate(MONTHS, 1)}


def ms_of(value: Any) -> int | None:
    """The time that a value stands for: a number of ms, ISO 8601 or RFC 2822 text, UTC if it names no zone.

    >>> ms_of("2024-01-05T21:07:27.9559+01:00"), ms_of(1704485247955.7), ms_of("Fri, 05 Jan 2024 21:07:27 +0100")
    (1704485247955, 1704485247955, 1704485247000)
    >>> ms_of("2024-02-30"), ms_of(1e300), ms_of("1704485247955"), ms_of(None)
    (None, None, None, None)
    """
    if type(value) is str:
        if len(value) == 24 and value[23] == "Z" and value[10] == "T":  # as columns have them
            try:
                return (datetime.fromisoformat(value) - _EPOCH) // _MILLISECOND
            except ValueError:
                pass
        return _from_text(value) if len(value) <= _LONGEST else None
    if type(value) is int or type(value) is float:
        return int(value) if -MAX_MS <= value <= MAX_MS else None
    return None


def _from_text(text: str) -> int | None:
    text = text.strip()
    found = _iso(text)
    ms = _from_rfc2822(text) if found is None else _from_iso(found)
    return ms if ms is not None and -MAX_MS <= ms <= MAX_MS else None


def _from_iso(found: re.Match[str]) -> int | None:
    year_text, month, day, week, weekday, ordinal, hour, minute, second, fraction, zone = found.groups()
    year = int(year_text)
    if year_text == "-000000":
        return None
    if week is not None:
        first = days_of(year, 1, 4)  # the week that has the 4th of January is the first
        days = first - (first + 3) % 7 + 7 * (int(week) - 1) + int(weekday or 1) - 1
        if not 1 <= int(week) <= 53 or (week == "53" and civil(days + 4 - int(weekday or 1))[0] != year):
            return None
    elif ordinal is not None:
        days = days_of(year, 1, 1) + int(ordinal) - 1
        if civil(days)[0] != year:
            return None
    else:
        if not _is_date(year, int(month or 1), int(day or 1)):
            return None
        days = days_of(year, int(month or 1), int(day or 1))
    time = _time_of_day(int(hour or 0), int(minute or 0), int(second or 0), int((fraction or "")[:3].ljust(3, "0")))
    if time is None:
        return None
    offset = 0
    if zone is not None and zone not in "Zz":
        offset = _offset(zone.replace(":", "").ljust(5, "0"))
    return days * DAY + time - offset * MINUTE


def _from_rfc2822(text: str) -> int | None:
    found = _rfc2822(" ".join(_comment.sub(" ", text).split()))
    if found is None:
        return None
    weekday, day_text, name, year_text, hour, minute, second, zone = found.groups()
    year = int(year_text)
    if len(year_text) == 2:
        year += 2000 if year <= 49 else 1900
    month, day = _MONTH_OF.get(name.lower(), 0), int(day_text)
    offset = _ZONES.get(zone.upper()) if zone[0] not in "+-" else _offset(zone)
    time = _time_of_day(int(hour), int(minute), int(second or 0), 0)
    if not month or not _is_date(year, month, day) or offset is None or time is None:
        return None
    days = days_of(year, month, day)
    if weekday is not None and WEEKDAYS[(days + 4) % 7][:3] != weekday.title():
        return None
    return days * DAY + time - offset * MINUTE


def _time_of_day(hour: int, minute: int, second: int, milli: int) -> int | None:
    """Ms; 24:00 is the end of the day."""
    if minute > 59 or second > 59 or hour > 24 or (hour == 24 and (minute or second or milli)):
        return None
    return hour * HOUR + minute * MINUTE + second * SECOND + milli


def _offset(text: str) -> int:
    """Minutes, of `+hhmm`."""
    minutes = int(text[1:3]) * 60 + int(text[3:5])
    return -minutes if text[0] == "-" else minutes


def _is_date(year: int, month: int, day: int) -> bool:
    return 1 <= month <= 12 and 1 <= day <= days_in_month(year, month)


def days_in_month(year: int, month: int) -> int:
    if month == 2 and year % 4 == 0 and (year % 100 or year % 400 == 0):
        return 29
    return _MONTH_DAYS[month - 1]


def days_of(year: int, month: int, day: int) -> int:
    """Days since the epoch.

    >>> days_of(1970, 1, 1), days_of(2000, 3, 1), days_of(0, 1, 1)
    (0, 11017, -719528)
    """
    # Years begin in March here, so that the day that some have is their last.
    if month <= 2:
        year -= 1
        month += 12
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month - 457) // 5 + day - 1 - _EPOCH_DAY


def civil(days: int) -> tuple[int, int, int]:
    """(year, month, day) of a number of days since the epoch.

    >>> civil(0), civil(11016), civil(-719528)
    ((1970, 1, 1), (2000, 2, 29), (0, 1, 1))
    """
    era, day = divmod(days + _EPOCH_DAY, _ERA)
    year = (day - day // 1460 + day // 36524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    return (era * 400 + year + (month > 9), month + 3 if month < 10 else month - 9, day)


class Moment(NamedTuple):
    """A time as clocks at `offset` minutes before UTC show it. `weekday`: 0 is Sunday. `ms`: since the epoch, in UTC."""

    year: int
    month: int
    day: int
    weekday: int
    hour: int
    minute: int
    second: int
    milli: int
    ms: int
    offset: int


def moment_of(ms: int, offset: int = 0) -> Moment:
    days, rest = divmod(ms + offset * MINUTE, DAY)
    year, month, day = civil(days)
    second, milli = divmod(rest, 1000)
    minute, second = divmod(second, 60)
    hour, minute = divmod(minute, 60)
    return Moment(year, month, day, (days + 4) % 7, hour, minute, second, milli, ms, offset)


def add_months(ms: int, months: int) -> int:
    """The same day and time of another month; its last day, if that has fewer. May be beyond `MAX_MS`.

    >>> add_months(ms_of("2024-01-31"), 1) == ms_of("2024-02-29")
    True
    """
    days, rest = divmod(ms, DAY)
    year, month, day = civil(days)
    more, month = divmod(month - 1 + months, 12)
    year, month = year + more, month + 1
    return days_of(year, month, min(day, days_in_month(year, month))) * DAY + rest
