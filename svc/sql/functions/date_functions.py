"""Functions on dates, in UTC (spec: sql §11.3). Null, and what is no date, gives null."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from svc.sql.functions.date_formats import formatter, iso_with_offset
from svc.sql.functions.dates import DAY, HOUR, MAX_MS, MINUTE, SECOND, WEEK, Moment, add_months, civil, moment_of, ms_of
from svc.sql.functions.function import Function, OwnFunction, number_of, own, refused, text_of
from svc.sql.functions.meter import WorkMeter

_MONTHS = {"months": 1, "quarters": 3, "years": 12}
_MS = {"days": DAY, "weeks": WEEK, "hours": HOUR, "minutes": MINUTE, "seconds": SECOND, "milliseconds": 1}
_SHORT = {
    "y": "years", "Q": "quarters", "M": "months", "w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds", "ms": "milliseconds",
}  # fmt: skip
_UNITS = {**_SHORT, "q": "quarters", **{unit: unit for unit in (*_MONTHS, *_MS)}, **{unit[:-1]: unit for unit in (*_MONTHS, *_MS)}}
_MOST_MONTHS = 12 * 600_000  # from one end of the calendar beyond the other
_MOST_OFFSET = 100 * 60  # minutes: what can be written in four digits
_HOURS = 16  # smaller numbers are offsets in hours


def _unit(value: Any) -> str:
    """Raises QueryError: a unit that is not known is a fault of the statement."""
    unit = _UNITS.get(value) or _UNITS.get(value.lower()) if type(value) is str else None
    if unit is None:
        raise refused(f"the unit of a date must be one of {', '.join(f'{name} ({short})' for short, name in _SHORT.items())}", value)
    return unit


def _rounded(value: float) -> int:
    """To the nearest whole number, halves away from zero."""
    whole = int(abs(value) + 0.5)
    return -whole if value < 0 else whole


def _added(value: Any, amount: Any, unit: Any, sign: int) -> int | None:
    unit = _unit(unit)
    ms, number = ms_of(value), number_of(amount)
    if ms is None or number is None:
        return None
    number *= sign
    if unit in _MONTHS:
        months = _rounded(number * _MONTHS[unit]) if abs(number) < _MOST_MONTHS else _MOST_MONTHS
        ms = add_months(ms, months)
    elif unit == "days" or unit == "weeks":
        ms += _rounded(number * (_MS[unit] // DAY)) * DAY if abs(number) <= MAX_MS else 2 * MAX_MS
    else:
        ms += int(number * _MS[unit]) if abs(number) <= 2 * MAX_MS else 2 * MAX_MS
    return ms if -MAX_MS <= ms <= MAX_MS else None


def date_add(value: Any, amount: Any, unit: Any) -> int | None:
    return _added(value, amount, unit, 1)


def date_sub(value: Any, amount: Any, unit: Any) -> int | None:
    return _added(value, amount, unit, -1)


def date_diff(a: Any, b: Any, unit: Any = "ms") -> int | float | None:
    """a - b, with fractions of the unit: those of a month by the length of the month that was begun."""
    unit = _unit(unit)
    first, second = ms_of(a), ms_of(b)
    if first is None or second is None:
        return None
    if unit in _MONTHS:
        months = _months_between(first, second) / _MONTHS[unit]
        return int(months) if months == int(months) else months
    whole, rest = divmod(first - second, _MS[unit])
    return whole if not rest else (first - second) / _MS[unit]


def _months_between(a: int, b: int) -> float:
    """From the end whose day of the month is the later one, which is in every month that has the other."""
    (year_a, month_a, day_a), (year_b, month_b, day_b) = civil(a // DAY), civil(b // DAY)
    if day_a < day_b:
        return -_months_between(b, a)
    whole = (year_b - year_a) * 12 + month_b - month_a
    anchor = add_months(a, whole)
    step = 1 if b >= anchor else -1
    return -(whole + step * (b - anchor) / (add_months(a, whole + step) - anchor))


def date_format(value: Any, pattern: Any) -> str | None:
    ms = ms_of(value)
    return None if ms is None or pattern is None else formatter(text_of(pattern))(moment_of(ms))


_PARTS = {"year": "YYYY", "month": "MM", "day": "DD", "hour": "HH", "minute": "mm", "second": "ss", "millisecond": "SSS"}


def extract(value: Any, part: Any) -> str | None:
    name = part.lower() if type(part) is str else ""
    pattern = _PARTS.get(name) or _PARTS.get(name.removesuffix("s"))
    if pattern is None:
        raise refused(f"what is extracted of a date must be one of {', '.join(_PARTS)}", part)
    return date_format(value, pattern)


def offset_utc(value: Any, offset: Any) -> str | None:
    ms, number = ms_of(value), number_of(offset)
    if ms is None or number is None:
        return None
    minutes = number * 60 if -_HOURS < number < _HOURS else number
    return iso_with_offset(ms, int(minutes)) if abs(minutes) < _MOST_OFFSET else None


def _part(number_of_moment: Callable[[Moment], int]) -> Callable[[Any], int | None]:
    def part(value: Any) -> int | None:
        ms = ms_of(value)
        return None if ms is None else number_of_moment(moment_of(ms))

    return part


def _civil_part(index: int) -> Callable[[Any], int | None]:
    def part(value: Any) -> int | None:
        ms = ms_of(value)
        return None if ms is None else civil(ms // DAY)[index]

    return part


def _date(meter: WorkMeter) -> Callable[..., str | None]:
    def date(*values: Any) -> str | None:
        ms = ms_of(values[0]) if values else meter.now_ms
        return None if ms is None else iso_with_offset(ms)

    return date


def server_time(now_ms: int) -> str:
    """In the time zone of the machine."""
    zone = datetime.fromtimestamp(now_ms / 1000).astimezone().utcoffset()
    return iso_with_offset(now_ms, int(zone.total_seconds()) // 60 if zone is not None else 0)


def _now(meter: WorkMeter) -> Callable[[], int]:
    return lambda: meter.now_ms


def _formatted_now(pattern: str) -> Callable[[WorkMeter], Callable[[], str]]:
    form = formatter(pattern)
    return lambda meter: lambda: form(moment_of(meter.now_ms))


_NOW = "the time of the statement, ms since the epoch"
_UNIT = "y, Q, M, w, d, h, m, s, ms, or their names"

DATE_FUNCTIONS = (
    OwnFunction(Function("CURRENT_DATE", 0, 0, summary="the date, `2026-01-05`"), _formatted_now("YYYY-MM-DD")),
    OwnFunction(Function("CURRENT_TIME", 0, 0, summary="the time of day, `10:00:00.123`"), _formatted_now("HH:mm:ss.SSS")),
    OwnFunction(Function("CURRENT_TIMESTAMP", 0, 0, summary=_NOW), _now),
    OwnFunction(Function("NOW", 0, 0, summary=_NOW), _now),
    OwnFunction(Function("GETDATE", 0, 0, summary=_NOW), _now),
    OwnFunction(
        Function("GET_SERVER_TIME", 0, 0, summary="the time as `YYYY-MM-DDTHH:mm:ss.SSSZZ` in the zone of the server"),
        lambda meter: lambda: server_time(meter.now_ms),
    ),
    OwnFunction(Function("DATE", 0, 1, summary="a date, or the time of the statement, as `YYYY-MM-DDTHH:mm:ss.SSSZZ`"), _date),
    own(Function("DATE_ADD", 3, 3, summary=f"a date later by a number of units ({_UNIT}), as ms"), date_add),
    own(Function("DATE_SUB", 3, 3, summary="the same, earlier"), date_sub),
    own(Function("DATE_DIFF", 2, 3, summary="the first date minus the second, in a unit with fractions, by default ms"), date_diff),
    own(Function("DATEDIFF", 2, 3, summary="DATE_DIFF"), date_diff),
    own(Function("DATE_FORMAT", 2, 2, summary="a date by a format: `YYYY-MM-DD HH:mm`"), date_format),
    own(Function("EXTRACT", 2, 2, summary="a part of a date as text with leading zeros: year, month, day, hour, minute, second, millisecond"), extract),
    own(Function("OFFSET_UTC", 2, 2, summary="a date at an offset in hours, from 16 on in minutes, as `YYYY-MM-DDTHH:mm:ss.SSSZZ`"), offset_utc),
    own(Function("YEAR", 1, 1, summary="the year of a date"), _civil_part(0)),
    own(Function("MONTH", 1, 1, summary="1 to 12"), _civil_part(1)),
    own(Function("DAY", 1, 1, summary="1 to 31"), _civil_part(2)),
    own(Function("DAYOFWEEK", 1, 1, summary="0 to 6, 0 is Sunday"), _part(lambda moment: moment.weekday)),
    own(Function("HOUR", 1, 1, summary="0 to 23"), _part(lambda moment: moment.hour)),
    own(Function("MINUTE", 1, 1, summary="0 to 59"), _part(lambda moment: moment.minute)),
    own(Function("SECOND", 1, 1, summary="0 to 59"), _part(lambda moment: moment.second)),
)  # fmt: skip
