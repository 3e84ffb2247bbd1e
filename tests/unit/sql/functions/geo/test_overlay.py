"""What is left of polygons: a table by hand, and what must hold for any polygons."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.clock import FakeClock
from svc.errors import QueryTooLarge
from svc.sql.functions import WorkMeter
from svc.sql.functions.geo.geojson import Geometry, Line, Polygon, parse
from svc.sql.functions.geo.overlay import difference
from svc.sql.functions.geo.planar import INSIDE, Point, locate, of_geometry

METER = WorkMeter(FakeClock())


def of(*polygons: Any) -> Geometry:
    found = parse(json.dumps({"type": "MultiPolygon", "coordinates": polygons}))
    assert found is not None
    return found


def box(x: float, y: float, width: float, height: float = 0) -> list[list[float]]:
    right, top = x + width, y + (height or width)
    return [[x, y], [right, y], [right, top], [x, top], [x, y]]


def area(ring: Line) -> float:
    return sum(a[0] * b[1] - b[0] * a[1] for a, b in pairwise(ring)) / 2


def total(polygons: list[Polygon]) -> float:
    return sum(area(ring) for polygon in polygons for ring in polygon)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (of([box(0, 0, 4)]), of([box(2, 0, 4)]), [[5]]),
        (of([box(0, 0, 4)]), of([box(10, 0, 4)]), [[5]]),
        (of([box(0, 0, 4)]), of([box(4, 0, 4)]), [[5]]),
        (of([box(0, 0, 4)]), of([box(0, 0, 4)]), []),
        (of([box(1, 1, 2)]), of([box(0, 0, 4)]), []),
        (of([box(0, 0, 4)]), of([box(1, 1, 2)]), [[5, 5]]),
        (of([box(0, 0, 9)]), of([box(1, 1, 2)], [box(5, 5, 2)]), [[5, 5, 5]]),
        (of([box(0, 0, 4)]), of([box(1, -1, 2, 6)]), [[5], [5]]),
        (of([box(0, 0, 4)]), of([box(-1, 1, 6, 2), box(1, 1.5, 1, 1)]), [[5], [5], [5]]),
        (of([box(0, 0, 9), box(3, 3, 3)]), of([box(4, 4, 1)]), [[5, 5]]),
        (of([box(0, 0, 9), box(3, 3, 3)]), of([box(-1, 4, 11, 1)]), [[9], [9]]),
        (of([box(0, 0, 4)], [box(6, 0, 4)]), of([box(3, 1, 4, 1)]), [[9], [9]]),
        (of([box(0, 0, 4)]), of([[[0, 0], [4, 0], [4, 4]]]), [[4]]),
        (of([box(0, 0, 4)]), of([[[2, 0], [4, 2], [2, 4], [0, 2]]]), [[4], [4], [4], [4]]),
        (of([[[0, 0], [4, 4], [4, 0], [0, 4]]]), of([box(9, 9, 1)]), [[4], [4]]),
        (of([box(0, 0, 4)]), of([]), [[5]]),
        (of([]), of([box(0, 0, 4)]), []),
        (of([[[0, 0], [1, 1], [0, 0]]]), of([box(0, 0, 4)]), []),
    ],
)
def test_how_many_positions_the_rings_have(first: Geometry, second: Geometry, expected: list[list[int]]) -> None:
    found = difference(first, second, METER)
    assert sorted([[len(ring) for ring in polygon] for polygon in found]) == sorted(expected)


def test_positions_are_those_given() -> None:
    """Not the nearest ones of a grid; and others the nearest floats."""
    found = difference(of([[[0.1, 0.1], [0.7, 0.1], [0.7, 0.7], [0.1, 0.7]]]), of([[[0.3, 0.2], [1, 0.2], [1, 0.5], [0.3, 0.5]]]), METER)
    assert [len(polygon) for polygon in found] == [1]
    assert {*found[0][0]} == {(0.1, 0.1), (0.7, 0.1), (0.7, 0.2), (0.3, 0.2), (0.3, 0.5), (0.7, 0.5), (0.7, 0.7), (0.1, 0.7)}


COORDINATES = st.integers(0, 8)
RINGS = st.lists(st.tuples(COORDINATES, COORDINATES).map(list), min_size=3, max_size=8)
POLYGONS = st.lists(RINGS, min_size=1, max_size=2)


@given(POLYGONS, POLYGONS, st.lists(st.tuples(st.integers(0, 800), st.integers(0, 800)), min_size=20, max_size=20))
def test_a_point_is_in_it_if_it_is_in_the_one_only(first: Any, second: Any, points: list[tuple[int, int]]) -> None:
    """Of any rings, which may cross themselves and each other: what they enclose an odd number of times."""
    a, b = of(first), of(second)
    found = difference(a, b, METER)
    left = of_geometry(of(*found)).regions
    one, other = of_geometry(a).regions, of_geometry(b).regions
    for x, y in points:
        at = Point((x * 7919 + 13) << 49, (y * 7907 + 17) << 49, 1)  # between the lines
        is_expected = any(locate(region, at) == INSIDE for region in one) and not any(locate(region, at) == INSIDE for region in other)
        assert any(locate(region, at) == INSIDE for region in left) == is_expected


@given(POLYGONS, POLYGONS)
def test_parts_are_the_whole(first: Any, second: Any) -> None:
    """What is left without the other, and what the other takes away."""
    a, b = of(first), of(second)
    left = difference(a, b, METER)
    taken = difference(a, of(*difference(a, b, METER)), METER)
    assert total(left) + total(taken) == pytest.approx(total(difference(a, of([]), METER)), abs=1e-9)
    assert all(area(polygon[0]) > 0 and all(area(hole) < 0 for hole in polygon[1:]) for polygon in left)
    assert all(ring[0] == ring[-1] and len(ring) > 3 for polygon in left for ring in polygon)


@given(POLYGONS)
def test_nothing_is_left_of_itself(rings: Any) -> None:
    assert difference(of(rings), of(rings), METER) == []
    assert difference(of(rings), of([ring[::-1] for ring in rings]), METER) == []


def test_limits(meter: WorkMeter, clock: FakeClock) -> None:
    comb = [[x, (x % 2) * 100] for x in range(100)]
    across = [[y, x] for x, y in comb]
    first, second = of([[*comb, [99, -1], [0, -1]]]), of([[*across, [-1, 99], [-1, 0]]])
    assert difference(first, second, meter) and meter.held == 0
    meter.begin(0, 10.0, 100_000)
    with pytest.raises(QueryTooLarge, match="100000 bytes"):
        difference(first, second, meter)
    clock.advance(11)
    with pytest.raises(QueryTooLarge, match="maxTime"):
        difference(first, second, meter)
