"""A chart as coordinates and texts, which a template writes as SVG. Pure; every number in it is finite."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from svc.console.charts.axes import Scale, moment_of, scale_of, time_ticks, unit_of, value_text
from svc.console.charts.series import Chart, Line, Value, thinned
from svc.pages.cells import shortened

WIDTH, HEIGHT = 360, 190
LEFT, RIGHT, TOP, BOTTOM = 50, 350, 10, 166
MOST_POINTS = 300  # of a line
MOST_NAME = 60  # characters


@dataclass(slots=True)
class Tick:
    at: float
    text: str


@dataclass(slots=True)
class Drawn:
    """`path`: of an SVG path, "" nothing. `marker`: where its last value is, None: there is none. `summary`: its values in words."""

    name: str
    path: str
    marker: tuple[float, float] | None
    summary: str


@dataclass(slots=True)
class Drawing:
    """`low`, `high`: the ends of the axis of time, ms. `rows`: the values as a table: the time, and the text of each line's value."""

    key: str
    title: str
    description: str
    across: list[Tick]
    up: list[Tick]
    lines: list[Drawn]
    rows: list[tuple[str, str, list[str]]]
    left_out: int
    low: int
    high: int


def drawing_of(chart: Chart, low_ms: float, high_ms: float) -> Drawing:
    """`low_ms`, `high_ms`: the ends of the axis of time."""
    chart = thinned(chart, MOST_POINTS)
    known = [value for line in chart.lines for value in line.values if value is not None]
    most = max([*known, chart.top or 0.0], default=0.0)
    factor = unit_of(most)[1] if chart.unit == "bytes" else 0.01 if chart.unit == "%" else 1.0
    scale = scale_of(min(known, default=0.0), most, factor)
    across = [Tick(_x(ms, low_ms, high_ms), text) for ms, text in time_ticks(low_ms, high_ms)]
    up = [Tick(_y(value, scale), value_text(value, chart.unit)) for value in scale.ticks]
    names = [shortened(line.name, MOST_NAME) for line in chart.lines]
    lines = [_drawn(name, line, chart, scale, (low_ms, high_ms)) for name, line in zip(names, chart.lines, strict=True)]
    first, last = moment_of(low_ms), moment_of(high_ms)
    description = f"From {_long(first)} to {_long(last)} UTC. " + " ".join(f"{each.name}: {each.summary}." for each in lines)
    columns = list(zip(*(line.values for line in chart.lines), strict=True))
    measured = [at for at, values in enumerate(columns) if any(value is not None for value in values)]
    rows = [
        (
            f"{moment_of(ms):%Y-%m-%dT%H:%M:%SZ}",
            f"{moment_of(ms):%d %b %H:%M:%S}",
            [value_text(value, chart.unit) for value in columns[at]],
        )
        for at, ms in enumerate(chart.times)
        if measured and measured[0] <= at <= measured[-1]
    ]
    return Drawing(chart.key, chart.title, description, across, up, lines, rows, chart.left_out, int(low_ms), int(high_ms))


def _long(moment: datetime) -> str:
    return f"{moment:%d %b %Y %H:%M}"


def _drawn(name: str, line: Line, chart: Chart, scale: Scale, ends: tuple[float, float]) -> Drawn:
    points = [None if value is None else (_x(ms, *ends), _y(value, scale)) for ms, value in zip(chart.times, line.values, strict=True)]
    known = [value for value in line.values if value is not None]
    last = next((point for point in reversed(points) if point is not None), None)
    return Drawn(name, path_of(points), last, _summary(known, chart.unit))


def _summary(known: list[float], unit: str) -> str:
    if not known:
        return "nothing was measured"
    return f"least {value_text(min(known), unit)}, most {value_text(max(known), unit)}, latest {value_text(known[-1], unit)}"


def path_of(points: list[tuple[float, float] | None]) -> str:
    """A line through these points, interrupted where there is none. A point alone is a line without length, which has round ends.

    >>> path_of([(0, 1), (2, 3), None, (4.5, 5)])
    'M0 1L2 3M4.5 5h0'
    """
    pieces: list[str] = []
    is_open = False
    for at, point in enumerate(points):
        if point is None:
            is_open = False
            continue
        pieces.append(f"{'L' if is_open else 'M'}{point[0]:g} {point[1]:g}")
        follows = points[at + 1] if at + 1 < len(points) else None
        if not is_open and follows is None:
            pieces.append("h0")
        is_open = True
    return "".join(pieces)


def _x(ms: float, low: float, high: float) -> float:
    return round(LEFT + min(max((ms - low) / (high - low), 0.0), 1.0) * (RIGHT - LEFT), 1)


def _y(value: Value, scale: Scale) -> float:
    return round(BOTTOM - scale.share(value or 0.0) * (BOTTOM - TOP), 1)
