"""Functions on GeoJSON as statements call them: nulls, units, features."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import radians, sin
from typing import Any

import pytest

from svc.errors import QueryError, QueryTooLarge
from svc.sql.functions import FUNCTIONS, WorkMeter
from tests.unit.sql.functions.conftest import Value

SQUARE = '{"type":"Polygon","coordinates":[[[0,0],[4,0],[4,4],[0,4],[0,0]]]}'
RIGHT = '{"type":"Feature","properties":{"b":2},"geometry":{"type":"Polygon","coordinates":[[[2,0],[6,0],[6,4],[2,4],[2,0]]]}}'
FEATURE = f'{{"type":"Feature","properties":{{"a":1}},"geometry":{SQUARE}}}'
LINE = '{"type":"LineString","coordinates":[[0,0],[0,1]]}'
POINT = '{"type":"Point","coordinates":[1,1]}'
DEGREE = 111.19508023353292  # km: 6371.0088 * pi / 180


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f"geoArea('{FEATURE}')", 6_378_137**2 * radians(4) * sin(radians(4))),
        (f"geoArea('{POINT}')", 0),
        (f"geoLength('{LINE}')", DEGREE),
        (f"geoLength('{LINE}', 'kilometers')", DEGREE),
        (f"geoLength('{LINE}', 'METERS')", DEGREE * 1000),
        (f"geoLength('{LINE}', 'miles')", DEGREE / 1.609344),
        (f"geoLength('{LINE}', 'degrees')", 1),
        (f"geoLength('{LINE}', 'radians')", 0.017453292519943295),
        (f"geoLength('{LINE}', null)", DEGREE),
        ("geoDistance('[0,0]', '[0,1]')", DEGREE),
        (f"geoDistance('{POINT}', '[1,2]', 'degrees')", 1),
        ("geodistance('[0,0]', '[0,0]')", 0),
    ],
)
def test_measures(value: Value, expression: str, expected: float) -> None:
    assert value(expression) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "call",
    ["geoArea({})", "geoLength({})", "geoDistance({}, '[0,0]')", "geoDistance('[0,0]', {})", "geoDifference({0}, {0})", "geoCircle({}, 1)"],
)
@pytest.mark.parametrize("argument", [None, "", "x", "{}", 5, 1.5, b"[0,0]", "[" * 1000, '{"type":"Point","coordinates":[]}'])
def test_measures_of_nothing_are_null(value: Value, call: str, argument: Any) -> None:
    assert value(call.format("?1"), argument) is None


def test_distance_is_of_points(value: Value) -> None:
    assert value("geoDistance(?, '[0,0]')", LINE) is None
    assert value("geoDistance(?, '[0,0]')", '{"type":"MultiPoint","coordinates":[[0,0]]}') is None
    assert value("geoCircle('[0,0]', null)") is None


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("geoNear('[0,0]', '[0,1]', 112)", 1),
        ("geoNear('[0,0]', '[0,1]', 111)", 0),
        ("geoNear('[0,0]', '[0,1]', '70', 'miles')", 1),
        ("geoNear('[0,0]', '[0,1]', 1, 'degrees')", 1),
        ("geoNear(null, '[0,1]', 1)", 0),
        ("geoNear('[0,1]', 'x', 1)", 0),
        (f"geoContains('{SQUARE}', '{POINT}')", 1),
        (f"geoContains('{FEATURE}', '[1,1]')", 1),
        (f"geoContains('{POINT}', '{SQUARE}')", 0),
        (f"geoContains(null, '{POINT}')", 0),
        (f"geoContains('{SQUARE}', null)", 0),
        (f"geoContains('{SQUARE}', 'x')", 0),
        (f"geoEqual('{SQUARE}', '{FEATURE}')", 1),
        (f"geoEqual('{SQUARE}', '{POINT}')", 0),
        ("geoEqual(null, null)", 0),
        (f"geoCrosses('{SQUARE}', '{RIGHT}')", 1),
        (f"geoCrosses('{LINE}', '{POINT}')", 0),
        (f"geoCrosses('{LINE}', null)", 0),
    ],
)
def test_relations(value: Value, expression: str, expected: int) -> None:
    assert value(expression) == expected


def test_difference(value: Value) -> None:
    found = json.loads(value("geoDifference(?, ?)", FEATURE, RIGHT))
    assert (found["type"], found["properties"], found["geometry"]["type"]) == ("Feature", {"a": 1}, "Polygon")
    assert {tuple(position) for position in found["geometry"]["coordinates"][0]} == {(0, 0), (2, 0), (2, 4), (0, 4)}
    assert value("geoDifference(?, ?)", SQUARE, SQUARE) is None
    across = '{"type":"Polygon","coordinates":[[[-1,1],[5,1],[5,2],[-1,2],[-1,1]]]}'
    assert json.loads(value("geoDifference(?, ?)", SQUARE, across))["geometry"]["type"] == "MultiPolygon"


def test_circle(value: Value) -> None:
    found = json.loads(value("geoCircle('[13.4,52.5]', 1, 'miles')"))
    assert (found["type"], found["properties"], found["geometry"]["type"]) == ("Feature", {}, "Polygon")
    (ring,) = found["geometry"]["coordinates"]
    assert len(ring) == 65 and ring[0] == ring[-1]
    assert value("geoDistance('[13.4,52.5]', ?, 'miles')", json.dumps(ring[20])) == pytest.approx(1)
    assert value("geoContains(?, '[13.4,52.5]')", json.dumps(found)) == 1


@pytest.mark.parametrize(
    ("type", "coordinates"),
    [
        ("Point", [1, 2]),
        ("LineString", [[1, 2], [3, 4]]),
        ("Polygon", [[[0, 0], [1, 0], [1, 1], [0, 0]]]),
        ("MultiPoint", [[1, 2], [3, 4]]),
        ("MultiLineString", [[[1, 2], [3, 4]]]),
        ("MultiPolygon", [[[[0, 0], [1, 0], [1, 1], [0, 0]]]]),
    ],
)
def test_conversion(value: Value, type: str, coordinates: Any) -> None:
    for name in (type, type[0].lower() + type[1:], type.upper()):
        found = value("geoConvert(?, ?, ?)", json.dumps(coordinates), name, '{"a":[1]}')
        assert json.loads(found) == {"type": "Feature", "properties": {"a": [1]}, "geometry": {"type": type, "coordinates": coordinates}}
    assert json.loads(value("geoConvert(?, ?)", json.dumps(coordinates), type))["properties"] == {}


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("geoNear('[0,0]', '[0,0]', null)", "^distance is required$"),
        ("geoNear(null, null, null)", "^distance is required$"),
        ("geoNear('[0,0]', '[0,0]', 'x')", "^distance must be a number$"),
        ("geoNear('[0,0]', '[0,0]', x'31')", "^distance must be a number$"),
        ("geoCircle('[0,0]', 'x')", "^radius must be a number$"),
        ("geoConvert(null, 'point')", "^coordinates is required$"),
        ("geoConvert('', 'point')", "^coordinates is required$"),
        ("geoConvert('[1,2]', null)", "^geo_type is required$"),
        ("geoConvert('[1,2]', 'circle')", '^geo_type of "circle" is invalid .* types: Point, LineString, Polygon, MultiPoint'),
        ("geoConvert('[1,2]', 5)", "^geo_type of 5 is invalid"),
        ("geoConvert('[1,2]', 'polygon')", '^coordinates must be those of a Polygon, not "'),
        ("geoConvert('[1', 'point')", "^coordinates must be those of a Point"),
        ("geoConvert(5, 'point')", "^coordinates must be those of a Point, not 5"),
        ("geoLength(null, 'furlongs')", '^units must be one of kilometers, miles, degrees, radians, meters, not "furlongs"'),
        ("geoDistance(null, null, 5)", "^units must be one of"),
    ],
)
def test_faults(value: Value, expression: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        value(expression)
    assert (caught.value.status_code, caught.value.code) == (400, "BAD_VALUE")


def test_texts_that_stay_the_same_are_read_once(rows: Callable[..., list[Any]]) -> None:
    points = json.dumps([[1, 1], [5, 5], None, [2, 2]])
    assert rows("select geoContains(?, value) from json_each(?)", SQUARE, points) == [1, 0, 0, 1]
    assert rows("select geoContains(value, '[1,1]') from json_each(?)", f"[{SQUARE},{RIGHT},{SQUARE}]") == [1, 0, 1]


@pytest.mark.parametrize("name", ["GEOAREA", "GEOLENGTH", "GEODISTANCE", "GEOCONTAINS", "GEODIFFERENCE", "GEOCONVERT"])
def test_long_documents_need_time_and_memory(value: Value, meter: WorkMeter, name: str) -> None:
    line = json.dumps({"type": "LineString", "coordinates": [[0, 0]] * 20_000})
    assert len(line) > 150_000
    args = "?1, 'LineString'" if name == "GEOCONVERT" else ", ".join(["?1"] * FUNCTIONS[name].low)
    meter.begin(0, 0.002, 64 << 20)
    with pytest.raises(QueryTooLarge, match="maxTime"):
        value(f"{name}({args})", line)
    meter.begin(0, 10.0, 1 << 20)
    with pytest.raises(QueryTooLarge, match="maxMemory"):
        value(f"{name}({args})", line)
