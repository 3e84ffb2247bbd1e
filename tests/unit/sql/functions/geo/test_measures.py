"""Areas, lengths, distances: values of other programs with the same formulas, and of geometry."""

from __future__ import annotations

import json
from math import pi
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.sql.functions.geo.geojson import Geometry, parse
from svc.sql.functions.geo.measures import AREA_RADIUS, MILE, RADIUS, UNITS, area, circle, distance, length

POSITIONS = st.tuples(st.floats(-180, 180), st.floats(-90, 90))


def of(kind: str, coordinates: Any) -> Geometry:
    found = parse(json.dumps({"type": kind, "coordinates": coordinates}))
    assert found is not None
    return found


def square(size: float, at: tuple[float, float] = (0, 0)) -> list[list[float]]:
    x, y = at
    return [[x, y], [x + size, y], [x + size, y + size], [x, y + size], [x, y]]


def test_area_that_is_specified() -> None:
    assert area(of("Polygon", [square(0.123456)])) == pytest.approx(188871526.05, abs=0.01)


def test_areas() -> None:
    whole, hole = area(of("Polygon", [square(2)])), area(of("Polygon", [square(1, (0.5, 0.5))]))
    assert area(of("Polygon", [square(2), square(1, (0.5, 0.5))])) == pytest.approx(whole - hole)
    assert area(of("MultiPolygon", [[square(2)], [square(1, (0.5, 0.5))]])) == pytest.approx(whole + hole)
    assert area(of("Polygon", [square(2)[::-1]])) == pytest.approx(whole)
    octant = [[0, 0], [90, 0], [90, 90], [0, 90]]  # between two meridians, to the pole: by this formula without the curve of its edges
    assert area(of("Polygon", [octant])) == pytest.approx(AREA_RADIUS**2 * pi / 2)
    for nothing in (
        of("Point", [1, 2]),
        of("LineString", square(1)),
        of("Polygon", []),
        of("Polygon", [[]]),
        of("Polygon", [[[0, 0], [1, 1], [0, 0]]]),
    ):
        assert area(nothing) == 0


def test_distances() -> None:
    assert distance((-75.343, 39.984), (-75.534, 39.123)) * UNITS["miles"] == pytest.approx(60.35329997171415)
    assert distance((0, 0), (0, 90)) == pytest.approx(pi / 2)
    assert distance((-90, 0), (90, 0)) == distance((0, 90), (7, -90)) == pytest.approx(pi)
    assert distance((179.5, 0), (-179.5, 0)) * UNITS["degrees"] == pytest.approx(1)
    assert distance((13.4, 52.5), (13.4, 52.5)) == 0
    assert UNITS["kilometers"] * 1000 == UNITS["meters"] == RADIUS == UNITS["miles"] * MILE


def test_lengths() -> None:
    line = [[0, 0], [1, 0], [1, 1]]
    assert length(of("LineString", line)) * 180 / pi == pytest.approx(2)
    assert length(of("MultiLineString", [line, line])) * 180 / pi == pytest.approx(4)
    assert length(of("Polygon", [[*line, [0, 0]]])) * 180 / pi == pytest.approx(2 + 2**0.5, rel=1e-4)
    assert length(of("Point", [1, 2])) == length(of("LineString", [])) == length(of("LineString", [[1, 1]])) == 0


@given(POSITIONS, POSITIONS)
def test_distances_are_symmetric_and_no_more_than_half_around(a: tuple[float, float], b: tuple[float, float]) -> None:
    assert distance(a, b) == pytest.approx(distance(b, a)) and 0 <= distance(a, b) <= pi


@given(st.tuples(st.floats(-180, 180), st.floats(-89, 89)), st.floats(1e-6, 1))
def test_circles_are_at_their_distance(center: tuple[float, float], radius: float) -> None:
    ring = circle(center, radius)
    assert len(ring) == 65 and ring[0] == ring[-1]
    assert all(distance(center, position) == pytest.approx(radius, rel=1e-6) for position in ring)


def test_circles_begin_in_the_north_and_run_west() -> None:
    ring = circle((0, 0), 0.01)
    assert ring[0] == (0, pytest.approx(0.572957795)) and ring[16] == (pytest.approx(-0.572957795), pytest.approx(0))


@pytest.mark.parametrize("value", [1e308, -1e308, 1e15, 5e-324])
def test_odd_numbers(value: float) -> None:
    assert 0 <= distance((value, value), (0, 0)) <= pi + 1e-9
    assert all(-1e309 < number < 1e309 for position in circle((value, value), value) for number in position)
