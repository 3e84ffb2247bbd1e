"""How geometries lie in the plane of their coordinates: exactly, by integers.

A coordinate is a whole number of 2**-64 degrees, which floats of more than 2**-12 degrees are anyway. So on which side of a line a point lies is decided
without any rounding. A point where lines meet is a quotient: `Point` has a common denominator, which is 1 for positions that were given.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cmp_to_key
from itertools import pairwise
from math import gcd
from typing import NamedTuple, TypeAlias

from svc.sql.functions.geo.geojson import Geometry, Line, Position
from svc.sql.functions.meter import WorkMeter

SCALE_BITS = 64
_SCALE = 2.0**SCALE_BITS

Vertex: TypeAlias = tuple[int, int]
Edge: TypeAlias = tuple[int, int, int, int]  # from (x, y) to (x, y), from the left to the right, a vertical one upwards
Box: TypeAlias = tuple[int, int, int, int]  # least x and y, greatest x and y

OUTSIDE, BOUNDARY, INSIDE = -1, 0, 1


class Point(NamedTuple):
    """x / d, y / d; d > 0, and the three have no common divisor."""

    x: int
    y: int
    d: int


class Region(NamedTuple):
    """A polygon: what lies within an odd number of its rings."""

    edges: list[Edge]
    box: Box
    vertices: list[Vertex]  # one of each ring


class Path(NamedTuple):
    """A line. `ends`: its first and last vertex, or () if it is closed."""

    edges: list[Edge]
    vertices: list[Vertex]
    ends: tuple[Vertex, ...]


class Planar:
    """A geometry on the plane. `names`: the positions that vertices were made of."""

    __slots__ = ("box", "edges", "names", "paths", "points", "regions")

    def __init__(self, geometry: Geometry) -> None:
        self.names: dict[Vertex, Position] = {}
        self.points = [self._vertex(position) for position in geometry.points]
        self.paths = [_path([self._vertex(position) for position in line]) for line in geometry.lines if line]
        self.regions = [region for polygon in geometry.polygons if (region := self._region(polygon)) is not None]
        self.edges = [edge for path in self.paths for edge in path.edges] + [edge for region in self.regions for edge in region.edges]
        self.box = _box(list(self.names))

    def _vertex(self, position: Position) -> Vertex:
        vertex = int(position[0] * _SCALE), int(position[1] * _SCALE)
        self.names.setdefault(vertex, position)
        return vertex

    def _region(self, rings: list[Line]) -> Region | None:
        found = [[self._vertex(position) for position in ring] for ring in rings if ring]
        edges = [edge for ring in found for edge in _edges(ring)]
        return Region(edges, _box([vertex for ring in found for vertex in ring]), [ring[0] for ring in found]) if edges else None


def of_geometry(geometry: Geometry) -> Planar:
    if geometry.planar is None:
        geometry.planar = Planar(geometry)
    return geometry.planar  # type: ignore[no-any-return]


def _path(vertices: list[Vertex]) -> Path:
    return Path(_edges(vertices), vertices, () if vertices[0] == vertices[-1] else (vertices[0], vertices[-1]))


def _edges(vertices: list[Vertex]) -> list[Edge]:
    return [(*start, *end) if start < end else (*end, *start) for start, end in pairwise(vertices) if start != end]


def _box(vertices: list[Vertex]) -> Box:
    if not vertices:
        return (1, 1, 0, 0)
    xs, ys = [vertex[0] for vertex in vertices], [vertex[1] for vertex in vertices]
    return min(xs), min(ys), max(xs), max(ys)


def boxes_meet(a: Box, b: Box) -> bool:
    return a[0] <= b[2] and b[0] <= a[2] and a[1] <= b[3] and b[1] <= a[3]


# --- points and edges ----------------------------------------------------------------------------------------------------------------------


def point(x: int, y: int, d: int) -> Point:
    if d == 1:
        return Point(x, y, 1)
    divisor = gcd(x, y, d)
    if d < 0:
        divisor = -divisor
    return Point(x // divisor, y // divisor, d // divisor)


def order(a: Point, b: Point) -> int:
    """Negative if a is left of b, or below it; 0 if they are the same."""
    return a.x * b.d - b.x * a.d or a.y * b.d - b.y * a.d


def middle(start: Point, end: Point) -> Point:
    return Point(start.x * end.d + end.x * start.d, start.y * end.d + end.y * start.d, 2 * start.d * end.d)


def side(edge: Edge, at: Point) -> int:
    """Positive: left of the edge, or above it; 0: on its line."""
    ax, ay, bx, by = edge
    x, y, d = at
    return (bx - ax) * (y - ay * d) - (by - ay) * (x - ax * d)


def lies_on(edge: Edge, at: Point) -> bool:
    ax, ay, bx, by = edge
    x, y, d = at
    return ax * d <= x <= bx * d and min(ay, by) * d <= y <= max(ay, by) * d and side(edge, at) == 0


def shared_points(first: Edge, second: Edge) -> list[Point]:
    """The point where two edges meet, or the two ends of what they have in common; [] if there is none."""
    ax, ay, bx, by = first
    cx, cy, dx, dy = second
    if ax > dx or cx > bx or min(ay, by) > max(cy, dy) or min(cy, dy) > max(ay, by):
        return []
    start = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
    end = (bx - ax) * (dy - ay) - (by - ay) * (dx - ax)
    if start == 0 and end == 0:
        low, high = max((ax, ay), (cx, cy)), min((bx, by), (dx, dy))
        return [Point(*low, 1), Point(*high, 1)] if low < high else [Point(*low, 1)] if low == high else []
    if (start > 0 and end > 0) or (start < 0 and end < 0):
        return []
    other_start = (dx - cx) * (ay - cy) - (dy - cy) * (ax - cx)
    other_end = (dx - cx) * (by - cy) - (dy - cy) * (bx - cx)
    if (other_start > 0 and other_end > 0) or (other_start < 0 and other_end < 0):
        return []
    for turn, x, y in ((start, cx, cy), (end, dx, dy), (other_start, ax, ay), (other_end, bx, by)):
        if turn == 0:
            return [Point(x, y, 1)]
    whole = other_start - other_end
    return [point(ax * whole + (bx - ax) * other_start, ay * whole + (by - ay) * other_start, whole)]


def meeting_pairs(first: list[Edge], second: list[Edge], meter: WorkMeter) -> Iterator[tuple[int, int]]:
    """The numbers of edges that may have a point in common."""
    order = sorted(range(len(second)), key=lambda number: second[number][0])
    boxes = [(second[number][0], second[number][2], number) for number in order]
    for place, (ax, _, bx, _) in enumerate(first):
        meter.check_time()
        for least, most, number in boxes:
            if least > bx:
                break
            if most >= ax:
                yield place, number


def parts(edge: Edge, cuts: list[Point]) -> list[tuple[Point, Point]]:
    """An edge, cut at points that lie on it."""
    ax, ay, bx, by = edge
    start, end = Point(ax, ay, 1), Point(bx, by, 1)
    between = {cut for cut in cuts if cut != start and cut != end}
    if not between:
        return [(start, end)]
    # All lie on one line, from the left to the right, or upwards.
    inner = sorted(between, key=cmp_to_key(order))
    return list(zip([start, *inner], [*inner, end], strict=True))


def locate(region: Region, at: Point) -> int:
    """OUTSIDE, on the BOUNDARY or INSIDE."""
    x, y, d = at
    box = region.box
    if not (box[0] * d <= x <= box[2] * d and box[1] * d <= y <= box[3] * d):
        return OUTSIDE
    is_inside = False
    for ax, ay, bx, by in region.edges:
        a_above, b_above = ay * d > y, by * d > y
        if a_above == b_above:
            if a_above:
                continue
            # At most touched: at an end, or along it if it is horizontal.
            if (ay * d == y and ax * d == x) or (by * d == y and (bx * d == x or (ay == by and ax * d <= x <= bx * d))):
                return BOUNDARY
            continue
        turn = (bx - ax) * (y - ay * d) - (by - ay) * (x - ax * d)
        if turn == 0:
            return BOUNDARY
        if (turn > 0) == b_above:
            is_inside = not is_inside
    return INSIDE if is_inside else OUTSIDE
