"""Functions on GeoJSON (spec: sql §11.5). Measures of null, and of what is no GeoJSON, are null; relations of them are false."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svc.content.json_type import encode_plain
from svc.sql.functions.function import Function, OwnFunction, Scalar, bad_argument, number_of, refused
from svc.sql.functions.geo import measures
from svc.sql.functions.geo.geojson import Geometry, Position, decode_json, has_coordinates, parse
from svc.sql.functions.geo.overlay import difference
from svc.sql.functions.geo.relations import contains, equals, intersects
from svc.sql.functions.meter import WorkMeter
from svc.store.values.conversion import shown

_KEPT = 100_000  # characters of a text whose geometry is kept: some MB
_TYPES = ("Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon")
_TYPE_NAMES = {name.lower(): name for name in _TYPES}


class _Reader:
    """The geometry of an argument, None for what is none. That of a text that is the same from row to row is kept."""

    __slots__ = ("_geometry", "_meter", "_text")

    def __init__(self, meter: WorkMeter) -> None:
        self._meter = meter
        self._text: Any = None
        self._geometry: Geometry | None = None

    def __call__(self, text: Any) -> Geometry | None:
        if type(text) is not str:
            return None
        if text == self._text:
            return self._geometry
        self._meter.admit(len(text))
        geometry = parse(text)
        if len(text) <= _KEPT:
            self._text, self._geometry = text, geometry
        return geometry

    def point(self, text: Any) -> Position | None:
        geometry = self(text)
        return geometry.points[0] if geometry is not None and geometry.type == "Point" else None


def _unit(value: Any) -> float:
    """The length of an arc of one radian. Raises QueryError: a unit that is not known is a fault of the statement."""
    factor = measures.UNITS["kilometers"] if value is None else measures.UNITS.get(value.lower()) if type(value) is str else None
    if factor is None:
        raise refused(f"units must be one of {', '.join(measures.UNITS)}", value)
    return factor


def _number(value: Any, name: str) -> float:
    number = number_of(value)
    if number is None:
        raise bad_argument(f"{name} must be a number")
    return number


# --- measures ------------------------------------------------------------------------------------------------------------------------------


def _area(meter: WorkMeter) -> Scalar:
    read = _Reader(meter)

    def geo_area(text: Any) -> float | None:
        geometry = read(text)
        return None if geometry is None else measures.area(geometry)

    return geo_area


def _length(meter: WorkMeter) -> Scalar:
    read = _Reader(meter)

    def geo_length(text: Any, units: Any = None) -> float | None:
        factor, geometry = _unit(units), read(text)
        return None if geometry is None else measures.length(geometry) * factor

    return geo_length


def _distance(meter: WorkMeter) -> Scalar:
    first_point, second_point = _Reader(meter).point, _Reader(meter).point

    def geo_distance(first: Any, second: Any, units: Any = None) -> float | None:
        factor, start, end = _unit(units), first_point(first), second_point(second)
        return None if start is None or end is None else measures.distance(start, end) * factor

    return geo_distance


def _near(meter: WorkMeter) -> Scalar:
    distance_of = _distance(meter)

    def geo_near(first: Any, second: Any, distance: Any, units: Any = None) -> int:
        if distance is None:
            raise bad_argument("distance is required")
        limit = _number(distance, "distance")
        found = distance_of(first, second, units)
        return int(found is not None and found <= limit)

    return geo_near


# --- relations -----------------------------------------------------------------------------------------------------------------------------


def _relation(holds: Callable[[Geometry, Geometry, WorkMeter], bool]) -> Callable[[WorkMeter], Scalar]:
    def make(meter: WorkMeter) -> Scalar:
        read_first, read_second = _Reader(meter), _Reader(meter)

        def relation(first: Any, second: Any) -> int:
            a, b = read_first(first), read_second(second)
            return 0 if a is None or b is None else int(holds(a, b, meter))

        return relation

    return make


# --- features ------------------------------------------------------------------------------------------------------------------------------


def feature(kind: str, coordinates: Any, properties: dict[str, Any]) -> str:
    return encode_plain({"type": "Feature", "properties": properties, "geometry": {"type": kind, "coordinates": coordinates}}).decode()


def _difference(meter: WorkMeter) -> Scalar:
    read_first, read_second = _Reader(meter), _Reader(meter)

    def geo_difference(first: Any, second: Any) -> str | None:
        a, b = read_first(first), read_second(second)
        if a is None or b is None:
            return None
        found = difference(a, b, meter)
        if not found:
            return None
        return feature("Polygon", found[0], a.properties) if len(found) == 1 else feature("MultiPolygon", found, a.properties)

    return geo_difference


def _circle(meter: WorkMeter) -> Scalar:
    point = _Reader(meter).point

    def geo_circle(center: Any, radius: Any, units: Any = None) -> str | None:
        factor, position = _unit(units), point(center)
        if position is None or radius is None:
            return None
        return feature("Polygon", [measures.circle(position, _number(radius, "radius") / factor)], {})

    return geo_circle


def _convert(meter: WorkMeter) -> Scalar:
    def geo_convert(coordinates: Any, geo_type: Any, properties: Any = None) -> str:
        if coordinates is None or coordinates == "":
            raise bad_argument("coordinates is required")
        if geo_type is None or geo_type == "":
            raise bad_argument("geo_type is required")
        kind = _TYPE_NAMES.get(geo_type.lower()) if type(geo_type) is str else None
        if kind is None:
            raise bad_argument(f"geo_type of {shown(geo_type)} is invalid please use one of the following types: {', '.join(_TYPES)}")
        meter.admit(len(coordinates) + len(properties or "") if type(coordinates) is type(properties or "") is str else 0)
        found = decode_json(coordinates)
        if not has_coordinates(kind, found):
            raise refused(f"coordinates must be those of a {kind}", coordinates)
        named = decode_json(properties)
        return feature(kind, found, named if type(named) is dict else {})

    return geo_convert


_UNITS = f"units: {', '.join(measures.UNITS)}"

GEO_FUNCTIONS = (
    OwnFunction(Function("geoArea", 1, 1, summary="the area of polygons, m²"), _area),
    OwnFunction(Function("geoLength", 1, 2, summary=f"the length of lines; {_UNITS}"), _length),
    OwnFunction(Function("geoDistance", 2, 3, summary=f"the distance of two points; {_UNITS}"), _distance),
    OwnFunction(Function("geoNear", 3, 4, result="boolean", summary="whether two points are within a distance"), _near),
    OwnFunction(Function("geoContains", 2, 2, result="boolean", summary="whether the second lies in the first as a whole"), _relation(contains)),
    OwnFunction(
        Function("geoEqual", 2, 2, result="boolean", summary="whether both are of one type and have the same positions"),
        _relation(lambda a, b, meter: equals(a, b)),
    ),
    OwnFunction(Function("geoCrosses", 2, 2, result="boolean", summary="whether both have a point in common"), _relation(intersects)),
    OwnFunction(Function("geoDifference", 2, 2, result="json", summary="a feature of what is in the first polygon and not in the second"), _difference),
    OwnFunction(Function("geoCircle", 2, 3, result="json", summary=f"a feature: a polygon of 64 corners around a point; {_UNITS}"), _circle),
    OwnFunction(Function("geoConvert", 2, 3, result="json", summary="a feature of coordinates, a type and perhaps properties"), _convert),
)  # fmt: skip
