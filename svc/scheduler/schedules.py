"""When jobs run: cron expressions and intervals (spec: components §3.1).

Moments are whole milliseconds since the epoch, UTC.

A cron expression is about the clock on the wall of a time zone. Each time on that clock that matches is one moment, also on the days on which the clock
is set: a time that is skipped is the moment that it would have been had the clock not been set yet (02:30 is then shown as 03:30), one that
comes twice is its first moment (PEP 495, `fold=0`). So moments need not be in the order of the times on the clock; each counts once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

MIN_INTERVAL_MS = 1000
MAX_INTERVAL_MS = 365 * 86_400_000
MAX_EXPRESSION = 250  # characters

SHORTCUTS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_SECOND = timedelta(seconds=1)
_LONGEST_GAP = timedelta(hours=25)  # by which a clock was ever set forward: a day, where the date line was moved
_FIELD = re.compile(r"[0-9A-Za-z*,/\-]+", re.ASCII)
_EVERY_NTH = {2: "1-31/", 4: "0-6/"}  # `*/n` as a day is a restriction; cronsim takes what begins with a star for none
_INTERVAL = re.compile(r"([0-9]{1,9})([smhd]?)", re.ASCII)
_UNITS = {"": 1000, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Schedule(Protocol):
    """`text`: as it was written, with what belongs to it; a job whose schedule has another text has a new one. `is_made_up`: whether a moment
    at which nothing could run is made up later. `anchor`: when the job was first known, ms."""

    @property
    def text(self) -> str: ...

    @property
    def is_made_up(self) -> bool: ...

    def next_after(self, moment: int, anchor: int) -> int | None:
        """The first moment later than this one; None if there is none."""

    def last_until(self, moment: int, anchor: int) -> int | None:
        """The last moment that is not later than this one."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Every `ms` from the anchor on, which itself is none of the moments."""

    ms: int
    text: str
    is_made_up: bool = False

    def next_after(self, moment: int, anchor: int) -> int | None:
        return anchor + max((moment - anchor) // self.ms + 1, 1) * self.ms

    def last_until(self, moment: int, anchor: int) -> int | None:
        times = (moment - anchor) // self.ms
        return anchor + times * self.ms if times >= 1 else None


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression on the clock of a time zone."""

    expression: str
    zone: tzinfo
    text: str
    is_made_up: bool = True

    def next_after(self, moment: int, anchor: int) -> int | None:
        after = _EPOCH + moment * _MS
        found: datetime | None = None
        start = _on_wall(after, self.zone) - self._gap_before(after)
        for time in self._times(start - _SECOND, reverse=False):
            at = self._moment_of(time)
            if at <= after:
                continue
            found = at if found is None else min(found, at)
            if _on_wall(at, self.zone) == time:  # what is later on the clock is later, unless this was skipped
                break
        return None if found is None else (found - _EPOCH) // _MS

    def last_until(self, moment: int, anchor: int) -> int | None:
        until = _EPOCH + moment * _MS
        for time in self._times(_on_wall(until, self.zone) + _SECOND, reverse=True):
            at = self._moment_of(time)
            if at <= until and _on_wall(at, self.zone) == time:
                break
        else:
            return None
        last = (at - _EPOCH) // _MS
        while (following := self.next_after(last, anchor)) is not None and following <= moment:  # a time that was skipped
            last = following
        return last

    def _times(self, start: datetime, *, reverse: bool) -> Iterator[datetime]:
        """The times on the clock that match, later, or else earlier, than `start`."""
        try:
            yield from CronSim(self.expression, start, reverse=reverse)
        except OverflowError:  # the end of the calendar
            return

    def _moment_of(self, time: datetime) -> datetime:
        return time.replace(tzinfo=self.zone).astimezone(UTC)

    def _gap_before(self, moment: datetime) -> timedelta:
        """By how much the clock was set forward in the last day: times of the gap may still be to come."""
        now = moment.astimezone(self.zone).utcoffset() or timedelta()
        before = (moment - _LONGEST_GAP).astimezone(self.zone).utcoffset() or timedelta()
        return max(now - before, timedelta())


def _on_wall(moment: datetime, zone: tzinfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def read_interval(given: Any) -> Interval:
    """Seconds, or a string with a unit. Raises ValueError.

    >>> [read_interval(each).ms for each in (90, "90", "90s", "5m", "1h", "1d", 1.5)]
    [90000, 90000, 90000, 300000, 3600000, 86400000, 1500]
    """
    ms: float = -1
    if isinstance(given, int | float) and not isinstance(given, bool):
        ms = given * 1000 if abs(given) < MAX_INTERVAL_MS else -1
    elif isinstance(given, str) and (found := _INTERVAL.fullmatch(given.strip())) is not None:
        ms = int(found[1]) * _UNITS[found[2]]
    else:
        raise ValueError(f"interval must be a number of seconds or a string such as 90s, 5m, 1h or 1d, not {_shown(given)}")
    if not MIN_INTERVAL_MS <= ms <= MAX_INTERVAL_MS:
        raise ValueError(f"interval must be from 1 s to 365 d, not {_shown(given)}")
    return Interval(int(ms), f"every {int(ms)} ms")


def read_cron(given: Any, timezone: Any = None) -> Cron:
    """A cron expression of five fields, or one of SHORTCUTS, in this time zone, by default UTC. Raises ValueError."""
    if not isinstance(given, str) or len(given) > MAX_EXPRESSION:
        raise ValueError(f"cron must be a string such as '30 2 * * MON-FRI', not {_shown(given)}")
    expression = SHORTCUTS.get(given.strip().lower(), given.strip())
    if expression.startswith("@"):
        raise ValueError(f"cron: {_shown(given)} is none of {', '.join(SHORTCUTS)}")
    fields = expression.split()
    if len(fields) != 5:
        raise ValueError(f"cron: {_shown(given)} has {len(fields)} fields; it needs five: minute, hour, day of month, month, day of week")
    for field in fields:
        if _FIELD.fullmatch(field) is None:
            raise ValueError(f"cron: {_shown(given)}: {_shown(field)} is not a value, a list, a range or a step")
    for place, every in _EVERY_NTH.items():
        fields[place] = re.sub(r"(^|,)\*/", rf"\g<1>{every}", fields[place])
    zone = _zone(timezone)
    text = f"{' '.join(fields).upper()} {timezone or 'UTC'}"
    cron = Cron(" ".join(fields), zone, text)
    try:
        is_possible = next(CronSim(cron.expression, datetime(2000, 1, 1)), None) is not None
    except CronSimError as error:
        raise ValueError(f"cron: {_shown(given)}: {_fault(str(error))}") from None
    except (AssertionError, ValueError, IndexError):
        raise ValueError(f"cron: {_shown(given)} cannot be read") from None
    if not is_possible:
        raise ValueError(f"cron: {_shown(given)} never comes")
    return cron


def _fault(text: str) -> str:
    """What is wrong, from the library's "Bad day-of-month"."""
    return f"the {text[4:].replace('-', ' ')} cannot be" if text.startswith("Bad ") else text


def _zone(given: Any) -> tzinfo:
    if given is None:
        return UTC
    if not isinstance(given, str) or not given or len(given) > MAX_EXPRESSION:
        raise ValueError(f"timezone must be the name of a time zone such as Europe/Berlin, not {_shown(given)}")
    try:
        return ZoneInfo(given)
    except (OSError, ValueError, LookupError):  # also of a path that leads out of the directory of the zones
        raise ValueError(f"timezone: {_shown(given)} is not known; names are such as Europe/Berlin or UTC") from None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
