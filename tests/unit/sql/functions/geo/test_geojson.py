"""What is GeoJSON, and what is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.sql.functions.geo.geojson import parse

POINT = {"type": "Point", "coordinates": [1, 2]}
RING = [[0, 0], [1, 0], [1, 1]]


@pytest.mark.parametrize(
    ("value", "type", "points", "lines", "polygons"),
    [
        (POINT, "Point", [(1, 2)], [], []),
        ([1, 2.5], "Point", [(1, 2.5)], [], []),
        ({"type": "Point", "coordinates": [1, 2, 300]}, "Point", [(1, 2)], [], []),
        ({"type": "MultiPoint", "coordinates": [[1, 2], [3, 4]]}, "MultiPoint", [(1, 2), (3, 4)], [], []),
        ({"type": "LineString", "coordinates": [[1, 2], [3, 4]]}, "LineString", [], [[(1, 2), (3, 4)]], []),
        ({"type": "MultiLineString", "coordinates": [[[1, 2], [3, 4]], []]}, "MultiLineString", [], [[(1, 2), (3, 4)], []], []),
        ({"type": "Polygon", "coordinates": [RING]}, "Polygon", [], [], [[[(0, 0), (1, 0), (1, 1), (0, 0)]]]),
        ({"type": "MultiPolygon", "coordinates": [[RING], []]}, "MultiPolygon", [], [], [[[(0, 0), (1, 0), (1, 1), (0, 0)]], []]),
        ({"type": "Feature", "properties": {"a": 1}, "geometry": POINT}, "Point", [(1, 2)], [], []),
        ({"type": "GeometryCollection", "geometries": [POINT, POINT]}, "GeometryCollection", [(1, 2), (1, 2)], [], []),
        ({"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": POINT}]}, "FeatureCollection", [(1, 2)], [], []),
    ],
)
def test_geometries(value: Any, type: str, points: list[Any], lines: list[Any], polygons: list[Any]) -> None:
    found = parse(json.dumps(value))
    assert found is not None
    assert (found.type, found.points, found.lines, found.polygons) == (type, points, lines, polygons)
    assert found.properties == (value.get("properties", {}) if isinstance(value, dict) else {})


@pytest.mark.parametrize(
    "text",
    [
        None, 5, 1.5, b"{}", "", "x", "null", "5", "{}", "[]", "[1]", '["a","b"]', "[true,false]", "[[1,2]]", '{"type":"Point"}',
        '{"type":"Point","coordinates":null}',
        '{"type":"Point","coordinates":[1,null]}', '{"type":"Point","coordinates":[1e16,0]}', '{"type":"point","coordinates":[1,2]}',
        '{"type":5,"coordinates":[1,2]}',
        '{"type":"Feature","geometry":null}', '{"type":"Feature"}', '{"type":"GeometryCollection"}', '{"type":"GeometryCollection","geometries":[5]}',
        '{"type":"Polygon","coordinates":[[1,2]]}', '{"type":"Polygon","coordinates":{"a":1}}', "[" * 100_000, '{"a":' * 100_000, f"[{10**400},0]", "[1e999,0]",
        '{"type":"GeometryCollection","geometries":[' * 30 + "]}" * 30, '[1,2] "', '{"type":"Foo","coordinates":[1,2]}',
    ],
)  # fmt: skip
def test_what_is_none(text: Any) -> None:
    assert parse(text) is None


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["Point", "Polygon", "Feature", "x"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["type", "coordinates", "geometry", "geometries", "features"]), inner, max_size=4)
    ),
    max_leaves=30,
)


@given(JSON)
def test_any_json_is_a_geometry_or_none(value: Any) -> None:
    found = parse(json.dumps(value))
    assert found is None or isinstance(found.type, str)
