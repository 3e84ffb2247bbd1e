"""Series as SVG (spec: console §4): well formed, finite, and with its values in words."""

from __future__ import annotations

import re
from math import isfinite
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from svc.console.charts.axes import number_text, scale_of, time_ticks
from svc.console.charts.drawing import BOTTOM, HEIGHT, LEFT, MOST_POINTS, RIGHT, TOP, WIDTH, drawing_of
from svc.console.charts.series import MOST_LINES, Chart, Line, finite, sizes_chart, thinned
from svc.console.console import DIRECTORY
from tests.support.pages import Parsed

_VALUES = st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, 5e-324, 1e308, -1e308, 1e-300])
_NAMES = st.text(max_size=20) | st.just("\"'><img src=x onerror=alert(1)>")
_TEMPLATE = Environment(
    loader=FileSystemLoader(DIRECTORY), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
).from_string('{% from "chart.html" import chart %}{{ chart(d) }}')


def svg_of(chart: Chart, low: float, high: float) -> str:
    text = _TEMPLATE.render(d=drawing_of(chart, low, high)).encode("utf-8", "replace").decode()
    Parsed(text.encode())
    found = re.search('<svg class="plot".*?</svg>', text, re.DOTALL)
    assert found is not None
    return found[0]


def numbers_of(svg: str) -> list[float]:
    root = ElementTree.fromstring(svg)
    found: list[float] = []
    for element in root.iter():
        for name, value in element.attrib.items():
            if name in ("d", "x", "y", "cx", "cy", "r", "width", "height", "viewBox"):
                found += [float(each) for each in re.findall(r"-?[0-9.]+(?:e[+-]?[0-9]+)?|nan|inf", value)]
    return found


@given(st.lists(st.tuples(_NAMES, st.lists(_VALUES, min_size=1, max_size=20)), max_size=4), st.sampled_from(["", "%", "bytes", "ms", "/s"]))
def test_any_series_is_a_picture_of_finite_numbers(lines: list[tuple[str, list[float | None]]], unit: str) -> None:
    count = max((len(values) for _, values in lines), default=0)
    chart = Chart("x", "<Title>", unit, [1.7e12 + 10_000 * at for at in range(count)])
    chart.lines = [Line(name, [*values, *[None] * (count - len(values))]) for name, values in lines]
    svg = svg_of(chart, 1.7e12, 1.7e12 + 600_000)
    for number in numbers_of(svg):
        assert isfinite(number) and -10 <= number <= max(WIDTH, HEIGHT)
    assert "<img" not in svg and "<Title>" not in svg


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 10**400, "5", None, True])
def test_what_is_no_number_is_a_gap(value: object) -> None:
    assert finite(value) is None
    chart = sizes_chart("x", "x", [0, 1, 2], [{"a": 1}, {"a": value}, {"a": 2}])  # type: ignore[dict-item]
    assert chart.lines[0].values == [1, None, 2]
    drawn = drawing_of(chart, 0, 2).lines[0]
    assert drawn.path.count("M") == 2 and drawn.path.count("h0") == 2


def test_a_summary_says_least_most_and_latest() -> None:
    chart = Chart("x", "Latency", "ms", [0, 10_000, 20_000], [Line("median", [3.0, None, 1.5])])
    drawing = drawing_of(chart, 0, 20_000)
    assert drawing.description.endswith("UTC. median: least 1.5 ms, most 3 ms, latest 1.5 ms.")
    assert [row[2] for row in drawing.rows] == [["3 ms"], [""], ["1.5 ms"]]
    assert drawing.lines[0].marker is not None and drawing.lines[0].marker[0] == RIGHT
    nothing = drawing_of(Chart("x", "Latency", "ms", [0], [Line("median", [None])]), 0, 1)
    assert nothing.lines[0].summary == "nothing was measured" and nothing.rows == [] and nothing.lines[0].marker is None


def test_points_are_where_their_values_are() -> None:
    chart = Chart("x", "x", "", [0, 100], [Line("a", [0.0, 10.0])])
    drawing = drawing_of(chart, 0, 100)
    assert drawing.lines[0].path == f"M{LEFT} {BOTTOM}L{RIGHT} {TOP}"
    assert [tick.text for tick in drawing.up] == ["0", "5", "10"]


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
def test_a_scale_holds_its_values_and_zero(first: float, second: float) -> None:
    least, most = sorted((first, second))
    scale = scale_of(least, most)
    assert scale.low <= min(least, 0) * 0.999999 or scale.low <= least
    assert scale.high >= min(most, 1e300) * 0.999999 or scale.high >= most
    assert 2 <= len(scale.ticks) <= 8 and all(isfinite(tick) for tick in scale.ticks) and scale.ticks[0] < scale.ticks[-1]


@given(st.integers(0, 4 * 10**12), st.integers(1000, 365 * 86_400_000))
def test_ticks_of_time_are_few_and_within_the_range(low: int, length: int) -> None:
    ticks = time_ticks(low, low + length)
    assert len(ticks) <= 8 and all(low <= at <= low + length for at, _ in ticks)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_short(value: float) -> None:
    assert 0 < len(number_text(value)) <= 21


def test_long_series_are_thinned_and_many_lines_are_left_out() -> None:
    chart = Chart("x", "x", "", range(1000), [Line("a", [float(at) for at in range(1000)])])
    short = thinned(chart, MOST_POINTS)
    assert len(short.times) == len(short.lines[0].values) <= MOST_POINTS and short.lines[0].values[0] == 1.5
    many = sizes_chart("x", "x", [0], [{f"db{at}": at for at in range(20)}])
    assert len(many.lines) == MOST_LINES and many.left_out == 12 and many.lines[-1].name == "db19"
