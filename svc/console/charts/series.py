"""Figures of consecutive spans as charts: lines with names, numbers with a unit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from svc.console.charts.figures import RATE, SHARE, Figures, PathFigures

MOST_LINES = 8  # of one chart: more are not told apart
MOST_TOP = 20  # paths in the table

Value = float | None


@dataclass(slots=True)
class Line:
    """`values`: one for each span, None where nothing was measured."""

    name: str
    values: list[Value]


@dataclass(slots=True)
class Chart:
    """`key`: of its element. `unit`: "%": shares from 0 to 1; "bytes". `times`: where each span begins, ms. `left_out`: lines without room."""

    key: str
    title: str
    unit: str
    times: Sequence[float]
    lines: list[Line] = field(default_factory=list)
    left_out: int = 0
    top: float | None = None
    """The value that the axis at least reaches."""

    @property
    def is_empty(self) -> bool:
        return all(value is None for line in self.lines for value in line.values)


Spans = Sequence[Figures | None]
"""Figures by span, None where nothing was read."""


def charts_of(spans: Spans, times: Sequence[float], metric: str = "") -> list[Chart]:
    """The charts of what runs on the server; those without a value are left out. `metric`: the name of the one that was chosen."""
    found = [
        Chart("requests", "Requests per second", "/s", times, [Line("requests", of(spans, _rate))]),
        Chart("success", "Share of success", "%", times, [Line("success", of(spans, _success))], top=1.0),
        Chart("latency", "Latency", "ms", times, [Line(name, of(spans, _latency(at))) for at, name in enumerate(("median", "p90", "p95"))]),
        _by_name("utilization", "Utilization", "%", spans, times, lambda each: _of_instances(each.busy)),
        _by_name("memory", "Resident memory", "bytes", spans, times, lambda each: _of_instances(each.resident)),
        _by_name("heap", "Heap in use", "bytes", spans, times, lambda each: _of_instances(each.heap)),
        _by_name(
            "open", "Open connections", "", spans, times, lambda each: {_PROTOCOLS.get(name, name): n for name, n in each.open.items()}
        ),
        Chart("accepted", "Connections accepted per second", "/s", times, [Line("accepted", of(spans, _accepted))]),
    ]
    found[3].top = 1.0
    found.append(_by_name("lag", "Replication lag", "ms", spans, times, lambda each: each.lags))
    if metric:
        found += own_charts(spans, times)
    return [chart for chart in found if not chart.is_empty]


def own_charts(spans: Spans, times: Sequence[float]) -> list[Chart]:
    """Of the metric that was chosen: its values, and how often there was one."""
    values = _by_name(
        "own", "Values", "", spans, times, lambda each: {name: n for name, n in each.own.items() if name not in (RATE, SHARE)}
    )
    share = Chart("own-share", "Share of yes", "%", times, [Line("yes", of(spans, lambda each: each.own.get(SHARE)))], top=1.0)
    rate = Chart("own-rate", "Recorded per second", "/s", times, [Line("recorded", of(spans, lambda each: each.own.get(RATE)))])
    return [values, share, rate]


def sizes_chart(key: str, title: str, times: Sequence[float], sizes: Sequence[Mapping[str, float] | None], unit: str = "bytes") -> Chart:
    """A line for each name."""
    return _lines(key, title, unit, times, [dict(each or {}) for each in sizes])


def of(spans: Spans, value: Callable[[Figures], Any]) -> list[Value]:
    return [None if each is None else finite(value(each)) for each in spans]


def finite(value: Any) -> Value:
    """None for what cannot be drawn.

    >>> finite(2), finite(float("nan")), finite(10**400), finite("1"), finite(True)
    (2.0, None, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None


def top_paths(spans: Spans) -> tuple[list[tuple[tuple[str, str], PathFigures]], int]:
    """Paths and methods with the most requests, and how many there were."""
    found: dict[tuple[str, str], PathFigures] = {}
    for each in spans:
        for key, figures in () if each is None else each.paths.items():
            found.setdefault(key, PathFigures()).add(figures)
    ordered = sorted(found.items(), key=lambda each: (-each[1].requests, each[0]))
    return ordered[:MOST_TOP], len(ordered)


def thinned(chart: Chart, most: int) -> Chart:
    """With at most so many spans: neighbours become one, with their mean."""
    step = -(-len(chart.times) // most)
    if step <= 1:
        return chart
    lines = [Line(line.name, [_mean(line.values[at : at + step]) for at in range(0, len(line.values), step)]) for line in chart.lines]
    return Chart(chart.key, chart.title, chart.unit, chart.times[::step], lines, chart.left_out, chart.top)


def _mean(values: Iterable[Value]) -> Value:
    known = [value for value in values if value is not None]
    return finite(sum(value / len(known) for value in known)) if known else None


_PROTOCOLS = {"ws": "WebSocket", "mqtt": "MQTT"}


def _rate(each: Figures) -> Value:
    return each.requests * 1000 / each.covered_ms if each.covered_ms > 0 else None


def _accepted(each: Figures) -> Value:
    return each.accepted * 1000 / each.covered_ms if each.covered_ms > 0 else None


def _success(each: Figures) -> Value:
    return each.successes / each.answered if each.answered else None


def _latency(at: int) -> Callable[[Figures], Value]:
    return lambda each: None if each.latency is None else each.latency[at]


def _of_instances(values: Mapping[int | None, float]) -> dict[str, float]:
    return {"all instances" if number is None else f"instance {number}": value for number, value in sorted(values.items(), key=str)}


def _by_name(
    key: str, title: str, unit: str, spans: Spans, times: Sequence[float], values: Callable[[Figures], Mapping[str, float]]
) -> Chart:
    return _lines(key, title, unit, times, [{} if each is None else values(each) for each in spans])


def _lines(key: str, title: str, unit: str, times: Sequence[float], values: Sequence[Mapping[str, float]]) -> Chart:
    """A line for each name; if there are too many, for those whose last value is the highest."""
    last: dict[str, float] = {}
    for each in values:
        for name, value in each.items():
            number = finite(value)
            if number is not None:
                last[name] = number
    chosen = sorted(last, key=lambda name: -last[name])[:MOST_LINES]
    lines = [Line(name, [finite(each.get(name)) for each in values]) for name in last if name in chosen]
    return Chart(key, title, unit, times, lines, len(last) - len(lines))
