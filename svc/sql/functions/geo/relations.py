"""Whether geometries have points in common, contain one another, or are equal. In the plane of their coordinates, and exactly (`planar`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from svc.sql.functions.geo.geojson import Geometry, Line
from svc.sql.functions.geo.overlay import boundary_of_difference
from svc.sql.functions.geo.planar import (
    BOUNDARY,
    INSIDE,
    OUTSIDE,
    Edge,
    Planar,
    Point,
    boxes_meet,
    lies_on,
    locate,
    meeting_pairs,
    middle,
    of_geometry,
    parts,
    shared_points,
)
from svc.sql.functions.meter import WorkMeter


def intersects(first: Geometry, second: Geometry, meter: WorkMeter) -> bool:
    """Whether they have any point in common."""
    a, b = of_geometry(first), of_geometry(second)
    if not boxes_meet(a.box, b.box):
        return False
    # Where no edges meet, each connected part lies in a region of the other as a whole or not at all: one vertex of it tells.
    for one, other in ((a, b), (b, a)):
        for vertex in _vertices(one):
            meter.check_time()
            if _touches(other, Point(*vertex, 1)):
                return True
    return any(shared_points(a.edges[i], b.edges[j]) for i, j in meeting_pairs(a.edges, b.edges, meter))


def _vertices(planar: Planar) -> Iterator[tuple[int, int]]:
    """All points, and one vertex of each line and ring."""
    yield from planar.points
    for path in planar.paths:
        yield path.vertices[0]
    for region in planar.regions:
        yield from region.vertices


def _touches(planar: Planar, at: Point) -> bool:
    return (
        (at.d == 1 and (at.x, at.y) in planar.points)
        or any(locate(region, at) != OUTSIDE for region in planar.regions)
        or any(lies_on(edge, at) for path in planar.paths for edge in path.edges)
    )


def contains(first: Geometry, second: Geometry, meter: WorkMeter) -> bool:
    """Whether no point of the second lies outside of the first, and one lies in its interior: not on the edge of a polygon or at the end of a line."""
    a, b = of_geometry(first), of_geometry(second)
    if not (b.points or b.paths or b.regions) or not (
        a.box[0] <= b.box[0] and a.box[1] <= b.box[1] and a.box[2] >= b.box[2] and a.box[3] >= b.box[3]
    ):
        return False
    is_inner = False
    for vertex in b.points:
        meter.check_time()
        found = _point_in(a, Point(*vertex, 1))
        if found == OUTSIDE:
            return False
        is_inner |= found == INSIDE
    for edges, is_area in ((_edges_of(b.paths), False), (_edges_of(b.regions), True)):
        for at in _middles(edges, a.edges, meter):
            found = _edge_in(a, at, is_area)
            if found == OUTSIDE:
                return False
            is_inner |= found == INSIDE
    if b.regions:
        if boundary_of_difference(b.regions, a.regions, meter):
            return False
        is_inner = is_inner or bool(boundary_of_difference(b.regions, [], meter))  # it has an area
    elif b.paths and not _edges_of(b.paths):  # lines of one position
        return _contains_points(a, [path.vertices[0] for path in b.paths])
    return is_inner


def _contains_points(a: Planar, vertices: list[tuple[int, int]]) -> bool:
    found = [_point_in(a, Point(*vertex, 1)) for vertex in vertices]
    return OUTSIDE not in found and INSIDE in found


def _edges_of(things: list[Any]) -> list[Edge]:
    return [edge for thing in things for edge in thing.edges]


def _middles(edges: list[Edge], cutting: list[Edge], meter: WorkMeter) -> Iterator[Point]:
    """The middle of each part of edges that others cut: all of a part lies where its middle does."""
    cuts: dict[int, list[Point]] = {}
    for i, j in meeting_pairs(edges, cutting, meter):
        found = shared_points(edges[i], cutting[j])
        if found:
            cuts.setdefault(i, []).extend(found)
    for number, edge in enumerate(edges):
        for start, end in parts(edge, cuts.get(number, [])):
            meter.check_time()
            yield middle(start, end)


def _point_in(a: Planar, at: Point) -> int:
    if (at.x, at.y) in a.points:
        return INSIDE
    found = _edge_in(a, at, False)
    return BOUNDARY if found == INSIDE and _is_end(a, at) else found


def _is_end(a: Planar, at: Point) -> bool:
    """Whether it is the end of a line, and inside of nothing."""
    if any(locate(region, at) == INSIDE for region in a.regions):
        return False
    holding = [path for path in a.paths if any(lies_on(edge, at) for edge in path.edges)]
    return bool(holding) and all((at.x, at.y) in path.ends for path in holding)


def _edge_in(a: Planar, at: Point, is_area: bool) -> int:
    """Where a point of an edge lies. `is_area`: the edge is that of a region, which lines cannot contain."""
    best = OUTSIDE
    for region in a.regions:
        best = max(best, locate(region, at))
        if best == INSIDE:
            return INSIDE
    if not is_area and any(lies_on(edge, at) for path in a.paths for edge in path.edges):
        return INSIDE
    return best


# --- equality ------------------------------------------------------------------------------------------------------------------------------


def equals(first: Geometry, second: Geometry) -> bool:
    """Whether they are of one type and have the same positions, wherever a ring begins and whichever way a line runs."""
    return first.type == second.type and _canonical(first) == _canonical(second)


def _canonical(geometry: Geometry) -> tuple[Any, ...]:
    polygons = sorted([(_ring(rings[0]), sorted(map(_ring, rings[1:]))) for rings in geometry.polygons if rings])
    return sorted(geometry.points), sorted([min(line, line[::-1]) for line in geometry.lines]), polygons


def _ring(ring: Line) -> Line:
    """From its least position on, in the direction of the lesser neighbour."""
    positions = ring[:-1]
    if not positions:
        return ring
    least = min(positions)
    forms = []
    for start, position in enumerate(positions):
        if position == least:
            turned = positions[start:] + positions[:start]
            forms += [turned, [turned[0], *turned[:0:-1]]]
    return min(forms)
