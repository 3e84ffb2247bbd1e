"""Areas, lengths and distances on a sphere."""

from __future__ import annotations

from itertools import pairwise
from math import asin, atan2, cos, degrees, pi, radians, sin, sqrt

from svc.sql.functions.geo.geojson import Geometry, Line, Polygon, Position

AREA_RADIUS = 6_378_137.0  # m, at the equator
RADIUS = 6_371_008.8  # m, on average
MILE = 1609.344  # m
CIRCLE_STEPS = 64

UNITS = {"kilometers": RADIUS / 1000, "miles": RADIUS / MILE, "degrees": 180 / pi, "radians": 1.0, "meters": RADIUS}
"""For each unit, how long an arc of one radian is."""


def area(geometry: Geometry) -> float:
    """m², of all polygons."""
    return sum(map(_polygon_area, geometry.polygons), 0.0)


def _polygon_area(rings: Polygon) -> float:
    if not rings:
        return 0.0
    return abs(_ring_area(rings[0])) - sum([abs(_ring_area(ring)) for ring in rings[1:]])


def _ring_area(ring: Line) -> float:
    points = ring[:-1]
    if len(points) < 3:
        return 0.0
    total = 0.0
    for index, (_, latitude) in enumerate(points):
        before, after = points[index - 1], points[(index + 1) % len(points)]
        total += radians(after[0] - before[0]) * sin(radians(latitude))
    return total * AREA_RADIUS * AREA_RADIUS / 2


def length(geometry: Geometry) -> float:
    """Radians, of all lines and rings."""
    lines = [*geometry.lines, *(ring for polygon in geometry.polygons for ring in polygon)]
    return sum([distance(start, end) for line in lines for start, end in pairwise(line)], 0.0)


def distance(first: Position, second: Position) -> float:
    """Radians, by the haversine formula."""
    latitude, other = radians(first[1]), radians(second[1])
    half = sin((other - latitude) / 2) ** 2 + sin(radians(second[0] - first[0]) / 2) ** 2 * cos(latitude) * cos(other)
    return 2 * atan2(sqrt(half), sqrt(max(0.0, 1 - half)))


def circle(center: Position, radius: float) -> Line:
    """The closed ring of positions at a distance in radians, counterclockwise from the north."""
    latitude, longitude = radians(center[1]), radians(center[0])
    ring = []
    for step in range(CIRCLE_STEPS):
        bearing = -2 * pi * step / CIRCLE_STEPS
        sine = min(1.0, max(-1.0, sin(latitude) * cos(radius) + cos(latitude) * sin(radius) * cos(bearing)))
        turn = atan2(sin(bearing) * sin(radius) * cos(latitude), cos(radius) - sin(latitude) * sine)
        ring.append((degrees(longitude + turn), degrees(asin(sine))))
    return [*ring, ring[0]]
