"""Times as text, by formats of tokens: `YYYY-MM-DD` (spec: sql §11.3).

    YYYY YY          year                       H HH h hh    hour, of 24 or 12
    Q                quarter                    m mm         minute
    M MM MMM MMMM    month, `Jan`, `January`    s ss         second
    D DD             day of the month           S SS SSS     tenths, hundredths of a second, milliseconds
    DDD DDDD         day of the year            A a          `AM` or `am`
    d ddd dddd       day of the week, 0 is Sunday, `Sun`, `Sunday`
    Z ZZ             offset, `+01:00`, `+0100`  X x          seconds, ms since the epoch

What stands in brackets is text, and so is all else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from svc.sql.functions.dates import MINUTE, MONTHS, WEEKDAYS, Moment, days_of, moment_of
from svc.sql.functions.function import bad_argument
from svc.store.values.records import iso_text

MAX_FORMAT = 1000  # characters
_YEAR_1, _YEAR_10000 = -62_135_596_800_000, 253_402_300_800_000
_token = re.compile(
    r"\[([^\[\]]*)\]|\\(.)|Y{4}|YY|Q|M{1,4}|D{1,4}|d{3,4}|d|HH?|hh?|mm?|ss?|S{1,3}|A|a|ZZ?|x|X|[^\[\\YQMDdHhmsSAaZxX]+|.", re.DOTALL
)


def _year(moment: Moment) -> str:
    year = moment.year
    return f"{year:04}" if 0 <= year <= 9999 else f"+{year}" if year > 0 else f"-{-year:04}"


def _offset(offset: int, colon: str) -> str:
    minutes = abs(offset)
    return f"{'-' if offset < 0 else '+'}{minutes // 60:02}{colon}{minutes % 60:02}"


def _day_of_year(moment: Moment) -> int:
    return days_of(moment.year, moment.month, moment.day) - days_of(moment.year, 1, 1) + 1


_TOKENS: dict[str, Callable[[Moment], str]] = {
    "YYYY": _year,
    "YY": lambda moment: f"{abs(moment.year) % 100:02}",
    "Q": lambda moment: str((moment.month + 2) // 3),
    "MMMM": lambda moment: MONTHS[moment.month - 1],
    "MMM": lambda moment: MONTHS[moment.month - 1][:3],
    "MM": lambda moment: f"{moment.month:02}",
    "M": lambda moment: str(moment.month),
    "DDDD": lambda moment: f"{_day_of_year(moment):03}",
    "DDD": lambda moment: str(_day_of_year(moment)),
    "DD": lambda moment: f"{moment.day:02}",
    "D": lambda moment: str(moment.day),
    "dddd": lambda moment: WEEKDAYS[moment.weekday],
    "ddd": lambda moment: WEEKDAYS[moment.weekday][:3],
    "d": lambda moment: str(moment.weekday),
    "HH": lambda moment: f"{moment.hour:02}",
    "H": lambda moment: str(moment.hour),
    "hh": lambda moment: f"{moment.hour % 12 or 12:02}",
    "h": lambda moment: str(moment.hour % 12 or 12),
    "mm": lambda moment: f"{moment.minute:02}",
    "m": lambda moment: str(moment.minute),
    "ss": lambda moment: f"{moment.second:02}",
    "s": lambda moment: str(moment.second),
    "SSS": lambda moment: f"{moment.milli:03}",
    "SS": lambda moment: f"{moment.milli // 10:02}",
    "S": lambda moment: str(moment.milli // 100),
    "A": lambda moment: "AM" if moment.hour < 12 else "PM",
    "a": lambda moment: "am" if moment.hour < 12 else "pm",
    "ZZ": lambda moment: _offset(moment.offset, ""),
    "Z": lambda moment: _offset(moment.offset, ":"),
    "X": lambda moment: str(moment.ms // 1000),
    "x": lambda moment: str(moment.ms),
}


@lru_cache(maxsize=128)
def formatter(pattern: str) -> Callable[[Moment], str]:
    """A function Moment -> text. Raises QueryError for a format that is too long.

    >>> formatter("dddd D[th] h:mm a")(moment_of(1704485247955))
    'Friday 5th 8:07 pm'
    """
    if len(pattern) > MAX_FORMAT:
        raise bad_argument(f"a date format has at most {MAX_FORMAT} characters")
    template: list[str] = []
    parts: list[Callable[[Moment], str]] = []
    for found in _token.finditer(pattern):
        token = found[0]
        if token in _TOKENS:
            parts.append(_TOKENS[token])
            template.append("%s")
        else:
            literal = found[1] if found[1] is not None else found[2] if found[2] is not None else token
            template.append(literal.replace("%", "%%"))
    text = "".join(template)
    return lambda moment: text % tuple([part(moment) for part in parts])


def iso_utc(ms: int) -> str:
    """ISO 8601 with ms and Z, as columns have it.

    >>> iso_utc(1704485247955), iso_utc(-62167219200000)
    ('2024-01-05T20:07:27.955Z', '0000-01-01T00:00:00.000Z')
    """
    return iso_text(ms) if _YEAR_1 <= ms < _YEAR_10000 else _CANONICAL(moment_of(ms))


def iso_with_offset(ms: int, offset: int = 0) -> str:
    """`YYYY-MM-DDTHH:mm:ss.SSSZZ`. `offset`: minutes.

    >>> iso_with_offset(1704485247955), iso_with_offset(-1, -90)
    ('2024-01-05T20:07:27.955+0000', '1969-12-31T22:29:59.999-0130')
    """
    return f"{iso_utc(ms + offset * MINUTE)[:-1]}{_offset(offset, '')}"


_CANONICAL = formatter("YYYY-MM-DD[T]HH:mm:ss.SSS[Z]")
