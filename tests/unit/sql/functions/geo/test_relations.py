"""Relations of geometries: a table by hand, and properties."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.clock import FakeClock
from svc.errors import QueryTooLarge
from svc.sql.functions import WorkMeter
from svc.sql.functions.geo.geojson import Geometry, parse
from svc.sql.functions.geo.relations import contains, equals, intersects

METER = WorkMeter(FakeClock())


def of(kind: str, *coordinates: Any) -> Geometry:
    found = parse(json.dumps({"type": kind, "coordinates": coordinates[0] if len(coordinates) == 1 else coordinates}))
    assert found is not None
    return found


def box(x: float, y: float, size: float) -> list[list[float]]:
    return [[x, y], [x + size, y], [x + size, y + size], [x, y + size], [x, y]]


SQUARE = of("Polygon", [box(0, 0, 10)])
DONUT = of("Polygon", [box(0, 0, 10), box(4, 4, 2)])
TWO = of("MultiPolygon", [[box(0, 0, 4)], [box(6, 0, 4)]])
LINE = of("LineString", [[0, 0], [4, 4], [8, 0]])
RING = of("LineString", box(0, 0, 4))


@pytest.mark.parametrize(
    ("first", "second", "meet", "contained"),
    [
        (SQUARE, of("Point", [5, 5]), True, True),
        (SQUARE, of("Point", [0, 5]), True, False),
        (SQUARE, of("Point", [0, 0]), True, False),
        (SQUARE, of("Point", [11, 5]), False, False),
        (SQUARE, of("Point", [5, 10.000000000000002]), False, False),
        (SQUARE, of("MultiPoint", [[0, 0], [5, 5]]), True, True),
        (SQUARE, of("MultiPoint", [[0, 0], [10, 5]]), True, False),
        (SQUARE, of("MultiPoint", [[5, 5], [11, 5]]), True, False),
        (SQUARE, of("LineString", [[1, 1], [9, 9]]), True, True),
        (SQUARE, of("LineString", [[0, 0], [10, 10]]), True, True),
        (SQUARE, of("LineString", [[0, 0], [10, 0]]), True, False),
        (SQUARE, of("LineString", [[0, 0], [10, 0], [5, 5]]), True, True),
        (SQUARE, of("LineString", [[1, 1], [11, 1]]), True, False),
        (SQUARE, of("LineString", [[-5, 5], [15, 5]]), True, False),
        (SQUARE, of("LineString", [[-5, 0], [0, -5]]), False, False),
        (SQUARE, of("LineString", [[-5, 5], [5, -5]]), True, False),
        (SQUARE, SQUARE, True, True),
        (SQUARE, of("Polygon", [box(0, 0, 5)]), True, True),
        (SQUARE, of("Polygon", [box(5, 5, 6)]), True, False),
        (SQUARE, of("Polygon", [box(10, 0, 5)]), True, False),
        (SQUARE, of("Polygon", [box(10, 10, 5)]), True, False),
        (SQUARE, of("Polygon", [box(11, 0, 5)]), False, False),
        (SQUARE, of("Polygon", [box(-5, -5, 20)]), True, False),
        (SQUARE, DONUT, True, True),
        (SQUARE, TWO, True, True),
        (DONUT, SQUARE, True, False),
        (DONUT, of("Point", [5, 5]), False, False),
        (DONUT, of("Point", [4, 5]), True, False),
        (DONUT, of("Point", [2, 2]), True, True),
        (DONUT, of("Polygon", [box(4.5, 4.5, 1)]), False, False),
        (DONUT, of("Polygon", [box(4, 4, 2)]), True, False),
        (DONUT, of("Polygon", [box(3, 3, 4)]), True, False),
        (DONUT, of("LineString", [[1, 5], [9, 5]]), True, False),
        (DONUT, of("LineString", [[4, 4], [6, 4]]), True, False),
        (TWO, of("LineString", [[1, 1], [9, 1]]), True, False),
        (TWO, of("Point", [5, 1]), False, False),
        (TWO, of("MultiPoint", [[1, 1], [7, 1]]), True, True),
        (LINE, of("Point", [2, 2]), True, True),
        (LINE, of("Point", [4, 4]), True, True),
        (LINE, of("Point", [0, 0]), True, False),
        (LINE, of("Point", [2, 3]), False, False),
        (LINE, of("MultiPoint", [[0, 0], [2, 2]]), True, True),
        (LINE, of("LineString", [[1, 1], [3, 3]]), True, True),
        (LINE, of("LineString", [[3, 3], [4, 4], [5, 3]]), True, True),
        (LINE, of("LineString", [[1, 1], [5, 5]]), True, False),
        (LINE, of("LineString", [[0, 4], [4, 0]]), True, False),
        (LINE, of("LineString", [[0, 1], [3, 4]]), False, False),
        (LINE, LINE, True, True),
        (LINE, SQUARE, True, False),
        (RING, of("Point", [0, 0]), True, True),
        (RING, of("Polygon", [box(0, 0, 4)]), True, False),
        (of("Point", [1, 1]), of("Point", [1, 1]), True, True),
        (of("Point", [1, 1]), of("Point", [1, 2]), False, False),
        (of("MultiPoint", [[1, 1], [2, 2]]), of("Point", [2, 2]), True, True),
        (of("MultiPoint", [[1, 1], [2, 2]]), of("LineString", [[1, 1], [3, 3]]), True, False),
        (SQUARE, of("LineString", [[5, 5]]), True, True),
        (of("LineString", [[0.1, 0.1], [0.3, 0.3]]), of("Point", [0.2, 0.2]), True, True),
        (of("Polygon", []), SQUARE, False, False),
        (SQUARE, of("MultiPoint", []), False, False),
    ],
)
def test_relations(first: Geometry, second: Geometry, meet: bool, contained: bool) -> None:
    assert intersects(first, second, METER) is intersects(second, first, METER) is meet
    assert contains(first, second, METER) is contained


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (of("Point", [1, 2]), of("Point", [1.0, 2.0, 5]), True),
        (of("Point", [1, 2]), of("Point", [2, 1]), False),
        (of("Point", [1, 2]), of("MultiPoint", [[1, 2]]), False),
        (of("MultiPoint", [[1, 2], [3, 4]]), of("MultiPoint", [[3, 4], [1, 2]]), True),
        (LINE, of("LineString", [[8, 0], [4, 4], [0, 0]]), True),
        (LINE, of("LineString", [[0, 0], [8, 0]]), False),
        (SQUARE, of("Polygon", [box(0, 0, 10)[2:] + box(0, 0, 10)[1:3]]), True),
        (SQUARE, of("Polygon", [box(0, 0, 10)[::-1]]), True),
        (SQUARE, of("Polygon", [[[0, 0], [5, 0], *box(0, 0, 10)[1:]]]), False),
        (SQUARE, DONUT, False),
        (TWO, of("MultiPolygon", [[box(6, 0, 4)], [box(0, 0, 4)]]), True),
        (TWO, of("MultiPolygon", [[box(0, 0, 4)]]), False),
    ],
)
def test_equality(first: Geometry, second: Geometry, expected: bool) -> None:
    assert equals(first, second) is equals(second, first) is expected and equals(first, first)


COORDINATES = st.integers(0, 6)
POINTS = st.tuples(COORDINATES, COORDINATES).map(list)


@given(st.lists(POINTS, min_size=2, max_size=6), st.lists(POINTS, min_size=2, max_size=6))
def test_what_is_contained_has_points_in_common(first: list[Any], second: list[Any]) -> None:
    for a in (of("LineString", first), of("Polygon", [first])):
        for b in (of("LineString", second), of("Polygon", [second]), of("Point", second[0])):
            assert intersects(a, b, METER) is intersects(b, a, METER)
            if contains(a, b, METER):
                assert intersects(a, b, METER)


@given(st.lists(POINTS, min_size=2, max_size=6), st.integers(-3, 3), st.integers(-3, 3))
def test_relations_do_not_depend_on_the_place(line: list[Any], x: int, y: int) -> None:
    moved = [[a + x, b + y] for a, b in line]
    square, there = of("Polygon", [box(1, 1, 3)]), of("Polygon", [box(1 + x, 1 + y, 3)])
    assert contains(square, of("LineString", line), METER) is contains(there, of("LineString", moved), METER)
    assert intersects(square, of("LineString", line), METER) is intersects(there, of("LineString", moved), METER)


def test_time(clock: FakeClock, meter: WorkMeter) -> None:
    clock.advance(11)
    for relation in (contains, intersects):
        with pytest.raises(QueryTooLarge, match="maxTime"):
            relation(SQUARE, DONUT, meter)
