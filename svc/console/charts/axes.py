"""Round numbers and times at axes, and numbers as people read them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from math import floor, isfinite, log10
from typing import NamedTuple

LARGEST = 1e300  # what is beyond is drawn there
_SMALLEST = 1e-300
_TICKS = 4
_TIME_TICKS = 6
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_TIME_STEPS = (
    *(each * _SECOND for each in (1, 5, 10, 30)),
    *(each * _MINUTE for each in (1, 2, 5, 10, 15, 30)),
    *(each * _HOUR for each in (1, 2, 3, 6, 12)),
    *(each * _DAY for each in (1, 2, 5, 10, 30, 60, 180, 365)),
)
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


class Scale(NamedTuple):
    """The ends of an axis, and where it has its ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def share(self, value: float) -> float:
        """Where a value is, from 0 to 1."""
        value = min(max(value, -LARGEST), LARGEST)
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)


def scale_of(least: float, most: float, factor: float = 1.0) -> Scale:
    """A scale that has 0 and these values. `factor`: of the unit whose numbers are round.

    >>> scale_of(3, 17)
    Scale(low=0.0, high=20.0, ticks=(0.0, 5.0, 10.0, 15.0, 20.0))
    """
    low, high = (min(max(value, -LARGEST), LARGEST) / factor for value in (min(least, 0.0), max(most, 0.0)))
    if high - low < _SMALLEST:
        high = low + 1.0
    step = round_step((high - low) / _TICKS)
    first, last = floor(low / step), -floor(-high / step)
    ticks = tuple([number * step * factor for number in range(first, last + 1)])
    return Scale(ticks[0], ticks[-1], ticks)


def round_step(least: float) -> float:
    """1, 2 or 5 with zeros, not below this.

    >>> [round_step(value) for value in (0.3, 1, 2.1, 70)]
    [0.5, 1.0, 5.0, 100.0]
    """
    power = 10.0 ** floor(log10(least))
    return next((power * each for each in (1, 2, 5) if power * each >= least * 0.999_999), power * 10)


def unit_of(most: float) -> tuple[str, float]:
    """The unit in which sizes up to this are written, and how many bytes it is.

    >>> unit_of(300 << 20)
    ('MiB', 1048576)
    """
    power = 0
    while power + 1 < len(_UNITS) and most >= 1024 ** (power + 1):
        power += 1
    return _UNITS[power], 1024**power


def number_text(value: float) -> str:
    """Three digits, or all before the point.

    >>> [number_text(value) for value in (0, 0.12345, 5.0, 12.345, 123456.7, 1e21, -2.5)]
    ['0', '0.123', '5', '12.3', '123,457', '1e+21', '-2.5']
    """
    size = abs(value)
    if not isfinite(value):
        return ""
    if size >= 1e15 or (0 < size < 0.001):
        return f"{value:.3g}"
    return f"{value:,.0f}" if size >= 1000 else f"{value:.3g}"


def value_text(value: float | None, unit: str) -> str:
    """With its unit; "" for what was not measured.

    >>> value_text(0.987, "%"), value_text(3 << 20, "bytes"), value_text(2, "ms"), value_text(2, "")
    ('98.7 %', '3 MiB', '2 ms', '2')
    """
    if value is None:
        return ""
    if unit == "%":
        return f"{number_text(value * 100)} %"
    if unit == "bytes":
        name, size = unit_of(abs(value))
        return f"{number_text(value / size)} {name}"
    return f"{number_text(value)} {unit}".rstrip()


def time_ticks(low_ms: float, high_ms: float) -> list[tuple[float, str]]:
    """Round times of this range with what is written there, in UTC.

    >>> time_ticks(1767225610000, 1767226210000)[:2]
    [(1767225720000, '00:02'), (1767225840000, '00:04')]
    """
    step = next((each for each in _TIME_STEPS if (high_ms - low_ms) / each <= _TIME_TICKS), _TIME_STEPS[-1])
    first = -floor(-low_ms / step)
    return [(at * step, tick_text(at * step, step)) for at in range(first, min(floor(high_ms / step), first + 2 * _TIME_TICKS) + 1)]


def tick_text(ms: float, step: float) -> str:
    moment = moment_of(ms)
    return f"{moment.day} {moment:%b}" if step >= _DAY else f"{moment:%H:%M:%S}" if step < _MINUTE else f"{moment:%H:%M}"


def moment_of(ms: float) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
