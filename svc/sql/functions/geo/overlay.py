"""What is left of polygons without others.

    1. All edges are cut where they meet, so that two of them are the same or have no more than ends in common.
    2. For each of these parts it is found which polygons lie on its left and which on its right: by the edges above it.
    3. Parts with the result on one side only are its boundary; directed with the result on the left, they are joined to rings.
    4. Rings that run counterclockwise are outer ones, the others holes, which belong to the smallest outer ring around them.

Nothing is rounded before the end (`planar`), so no ring is left open, and what polygons touch, share or cross themselves does not matter.
"""

from __future__ import annotations

from functools import cmp_to_key

from svc.sql.functions.geo.geojson import Geometry, Line, Polygon, Position
from svc.sql.functions.geo.planar import (
    SCALE_BITS,
    Edge,
    Planar,
    Point,
    Region,
    Vertex,
    meeting_pairs,
    middle,
    of_geometry,
    order,
    parts,
    shared_points,
    side,
)
from svc.sql.functions.meter import WorkMeter

_CUT_BYTES = 300  # of a point where edges meet
_RING = 3  # positions of a closed ring that is no more than a line
_Ring = list[Point]


def difference(first: Geometry, second: Geometry, meter: WorkMeter) -> list[Polygon]:
    """Polygons, whose rings are closed; [] if nothing is left."""
    a, b = of_geometry(first), of_geometry(second)
    rings = _rings(boundary_of_difference(a.regions, b.regions, meter))
    outer = [ring for ring in rings if _is_counterclockwise(ring)]
    polygons = [[ring] for ring in outer]
    for hole in [ring for ring in rings if not _is_counterclockwise(ring)]:
        polygons[_home(hole, outer, meter)].append(hole)
    names = b.names | a.names
    named = [[_named(_without_straight(ring, a), names) for ring in polygon] for polygon in polygons]
    # What is narrower than a float can tell is nothing.
    return [[ring for ring in polygon if len(ring) > _RING] for polygon in named if len(polygon[0]) > _RING]


def boundary_of_difference(own: list[Region], other: list[Region], meter: WorkMeter) -> dict[Point, list[Point]]:
    """From each point to the next ones, with what is left of `own` on the left; {} if nothing is left."""
    regions = [*own, *other]
    bits = [1 << number for number, region in enumerate(regions) for _ in region.edges]  # a set of bits is what regions lie at a place
    edges = [edge for region in regions for edge in region.edges]
    mask = (1 << len(own)) - 1
    cuts = _cuts(edges, meter)
    try:
        sides: dict[tuple[Point, Point], int] = {}
        for number, edge in enumerate(edges):
            for part in parts(edge, cuts.get(number, [])):
                sides[part] = sides.get(part, 0) ^ bits[number]
        following: dict[Point, list[Point]] = {}
        for (start, end), changing in sides.items():
            if changing:
                meter.check_time()
                left = _left_of(start, end, edges, bits)
                is_left, is_right = _is_result(left, mask), _is_result(left ^ changing, mask)
                if is_left != is_right:
                    before, after = (start, end) if is_left else (end, start)
                    following.setdefault(before, []).append(after)
        return following
    finally:
        meter.hold(-_CUT_BYTES * sum(map(len, cuts.values())))


def _is_result(regions: int, own: int) -> bool:
    return bool(regions & own) and not regions & ~own


def _cuts(edges: list[Edge], meter: WorkMeter) -> dict[int, list[Point]]:
    cuts: dict[int, list[Point]] = {}
    for i, j in meeting_pairs(edges, edges, meter):
        if i < j:
            for at in shared_points(edges[i], edges[j]):
                meter.hold(2 * _CUT_BYTES)
                cuts.setdefault(i, []).append(at)
                cuts.setdefault(j, []).append(at)
    return cuts


def _left_of(start: Point, end: Point, edges: list[Edge], bits: list[int]) -> int:
    """The regions beside the middle of a part, above it, or left of it if it is vertical: by the edges that lie above."""
    at = middle(start, end)
    x, d = at.x, at.d
    is_vertical = start.x * end.d == end.x * start.d
    found = 0
    for edge, bit in zip(edges, bits, strict=True):
        # Half of the edge's span counts, so that of two that meet in a vertex one does.
        spans = edge[0] * d < x <= edge[2] * d if is_vertical else edge[0] * d <= x < edge[2] * d
        if spans and side(edge, at) < 0:
            found ^= bit
    return found


# --- rings ---------------------------------------------------------------------------------------------------------------------------------


def _rings(following: dict[Point, list[Point]]) -> list[_Ring]:
    """Rings without their last point; no point is twice in one."""
    left = {(start, end) for start, ends in following.items() for end in ends}
    rings: list[_Ring] = []
    for first in [(start, end) for start, ends in following.items() for end in ends]:
        ring: _Ring = []
        places: dict[Point, int] = {}
        edge = first
        while edge in left:
            left.remove(edge)
            before, at = edge
            place = places.get(at)
            if place is None:
                places[at] = len(ring)
                ring.append(at)
            else:  # what lies between the two visits is a ring of its own
                rings.append(ring[place:])
                for each in ring[place + 1 :]:
                    del places[each]
                del ring[place + 1 :]
            ends = following[at]
            edge = (at, ends[0] if len(ends) == 1 else _first_clockwise(before, at, ends))
        if len(ring) > 2:
            rings.append(ring)
    return rings


def _first_clockwise(before: Point, at: Point, ends: list[Point]) -> Point:
    """Where the boundary of what lies on the left goes on: the edge that is met first when the one that led to `at` turns clockwise about it."""
    back = _direction(at, before)

    def compare(one: Point, other: Point) -> int:
        a, b = _direction(at, one), _direction(at, other)
        difference = _half(back, a) - _half(back, b)
        return difference or _turn(a, b)

    return min(ends, key=cmp_to_key(compare))


def _direction(start: Point, end: Point) -> tuple[int, int]:
    return end.x * start.d - start.x * end.d, end.y * start.d - start.y * end.d


def _turn(a: tuple[int, int], b: tuple[int, int]) -> int:
    """Positive if b is counterclockwise of a."""
    turn = a[0] * b[1] - a[1] * b[0]
    return 1 if turn > 0 else -1 if turn < 0 else 0


def _half(back: tuple[int, int], direction: tuple[int, int]) -> int:
    """0 for the first half of a clockwise turn from `back`, 1 for its middle, 2 for the second half."""
    return _turn(back, direction) + 1


def _is_counterclockwise(ring: _Ring) -> bool:
    """By the turn at the lowest of its leftmost points."""
    at = min(ring, key=cmp_to_key(order))
    place = ring.index(at)
    return _turn(_direction(at, ring[place - 1]), _direction(at, ring[(place + 1) % len(ring)])) < 0


def _home(hole: _Ring, outer: list[_Ring], meter: WorkMeter) -> int:
    """The number of the smallest ring around a hole: of two around it, one lies in the other."""
    if len(outer) == 1:
        return 0
    meter.check_time()
    around = [number for number, ring in enumerate(outer) if _lies_in(hole, ring)]
    return max(around, key=lambda number: sum(_lies_in(outer[number], outer[other]) for other in around if other != number))


def _lies_in(ring: _Ring, other: _Ring) -> bool:
    """Of two rings that have no more than points in common."""
    at = middle(ring[0], ring[1])
    is_inside = False
    before = other[-1]
    for after in other:
        is_above = after.y * at.d > at.y * after.d
        if is_above != (before.y * at.d > at.y * before.d):
            turn = _turn(_direction(before, after), _direction(before, at))
            if (turn > 0) == is_above:
                is_inside = not is_inside
        before = after
    return is_inside


def _without_straight(ring: _Ring, own: Planar) -> _Ring:
    """Without points on straight lines that were no vertices of the polygon."""
    kept = []
    for number, at in enumerate(ring):
        is_given = at.d == 1 and (at.x, at.y) in own.names
        if is_given or _turn(_direction(at, ring[number - 1]), _direction(at, ring[(number + 1) % len(ring)])) != 0:
            kept.append(at)
    return kept


def _named(ring: _Ring, names: dict[Vertex, Position]) -> Line:
    """The closed ring of positions: those that were given, or the nearest floats."""
    line: Line = []
    for x, y, d in ring:
        position = names.get((x, y)) if d == 1 else None
        position = position or (x / (d << SCALE_BITS), y / (d << SCALE_BITS))
        if not line or position != line[-1]:
            line.append(position)
    return line if line[0] == line[-1] else [*line, line[0]]
