"""GeoJSON (RFC 7946) as functions take it: values or their JSON text, features, bare geometries, and positions alone."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

Position: TypeAlias = tuple[float, float]  # longitude, latitude
Line: TypeAlias = list[Position]
Polygon: TypeAlias = list[Line]  # the outer ring, and holes

MAX_COORDINATE = 1e15  # of a plane, too: degrees are far below
_MAX_DEPTH = 20  # of collections within collections
_decode = msgspec.json.Decoder().decode


class Geometry:
    """What a text of GeoJSON has in it. `type`: that of the geometry, a feature's is that of its geometry. `properties`: of a feature. `planar`: for
    `planar.of_geometry`."""

    __slots__ = ("lines", "planar", "points", "polygons", "properties", "type")

    def __init__(self, type: str) -> None:
        self.type = type
        self.points: list[Position] = []
        self.lines: list[Line] = []
        self.polygons: list[Polygon] = []
        self.properties: dict[str, Any] = {}
        self.planar: Any = None


class _NoGeometry(Exception):
    pass


def decode_json(text: Any) -> Any:
    """The value of a JSON text; None for what is none."""
    if type(text) is not str:
        return None
    try:
        return _decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None


def parse(text: Any) -> Geometry | None:
    """None for null and for what is no GeoJSON. Rings that are not closed are closed.

    >>> parse('{"type": "Point", "coordinates": [1, 2]}').points, parse("[1, 2]").points, parse("[1]")
    ([(1.0, 2.0)], [(1.0, 2.0)], None)
    """
    value = decode_json(text)
    if type(value) is list:
        value = {"type": "Point", "coordinates": value}
    if type(value) is not dict:
        return None
    try:
        if value.get("type") == "Feature":
            properties = value.get("properties")
            geometry = _geometry(value.get("geometry"))
            geometry.properties = properties if type(properties) is dict else {}
            return geometry
        return _geometry(value)
    except _NoGeometry:
        return None


def has_coordinates(type: str, coordinates: Any) -> bool:
    """Whether these are coordinates of a type of geometry."""
    try:
        _add(Geometry(type), type, coordinates)
    except _NoGeometry:
        return False
    return True


def _geometry(value: Any) -> Geometry:
    if type(value) is not dict or type(value.get("type")) is not str:
        raise _NoGeometry
    found = Geometry(value["type"])
    waiting: list[tuple[Any, int]] = [(value, 0)]
    while waiting:
        part, depth = waiting.pop()
        if type(part) is not dict or depth > _MAX_DEPTH:
            raise _NoGeometry
        kind = part.get("type")
        if kind == "Feature":
            waiting.append((part.get("geometry"), depth + 1))
        elif kind == "GeometryCollection" or kind == "FeatureCollection":
            members = part.get("geometries" if kind == "GeometryCollection" else "features")
            waiting += [(member, depth + 1) for member in reversed(_list(members))]
        else:
            _add(found, kind, part.get("coordinates"))
    return found


def _add(found: Geometry, kind: Any, coordinates: Any) -> None:
    if kind == "Point":
        found.points.append(_position(coordinates))
    elif kind == "MultiPoint":
        found.points += _positions(coordinates)
    elif kind == "LineString":
        found.lines.append(_positions(coordinates))
    elif kind == "MultiLineString":
        found.lines += [_positions(line) for line in _list(coordinates)]
    elif kind == "Polygon":
        found.polygons.append(_polygon(coordinates))
    elif kind == "MultiPolygon":
        found.polygons += [_polygon(polygon) for polygon in _list(coordinates)]
    else:
        raise _NoGeometry


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise _NoGeometry
    return value


def _polygon(value: Any) -> Polygon:
    rings = [_positions(ring) for ring in _list(value)]
    for ring in rings:
        if ring and ring[0] != ring[-1]:
            ring.append(ring[0])
    return rings


def _positions(value: Any) -> Line:
    return [_position(position) for position in _list(value)]


def _position(value: Any) -> Position:
    if type(value) is not list or len(value) < 2:
        raise _NoGeometry
    longitude, latitude = value[0], value[1]
    for number in (longitude, latitude):
        if (type(number) is not float and type(number) is not int) or not -MAX_COORDINATE <= number <= MAX_COORDINATE:
            raise _NoGeometry
    return float(longitude), float(latitude)
