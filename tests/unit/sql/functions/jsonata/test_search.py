"""SEARCH_JSON as statements call it: faces, faults, limits."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.errors import QueryError, QueryTooLarge
from svc.sql.functions import WorkMeter
from svc.sql.functions.exact import exact_face, plain_value
from svc.sql.functions.jsonata.search import compile_expression, search_json
from tests.unit.sql.functions.conftest import Value

CREW = [{"name": "A. Diaz", "role": "lead"}, {"name": "B. Roe", "role": "cook"}, {"name": "C. Poe", "role": "cook"}]


def test_example_that_is_specified(value: Value) -> None:
    face = exact_face(CREW)
    assert json.loads(value("SEARCH_JSON(?, ?)", '$[role = "lead"].{"who": name}', face)) == {"who": "A. Diaz"}
    assert plain_value(value("svc_search_json_exact(?, ?)", '$[role = "lead"].{"who": name}', face)) == {"who": "A. Diaz"}
    assert value("SEARCH_JSON(?, ?) >= 1", '$count($[role = "lead"])', face) == 1


@pytest.mark.parametrize(
    ("expression", "data", "expected", "exact"),
    [
        ("a", {"a": "x"}, "x", "x"),
        ("a", {"a": 1.5}, 1.5, 1.5),
        ("a", {"a": True}, 1, True),
        ("a", {"a": None}, None, None),
        ("a", {}, None, None),
        ("a", {"a": []}, "[]", []),
        ("a", {"a": [1, True]}, "[1,true]", [1, True]),
        ("a", {"a": {"b": None}}, '{"b":null}', {"b": None}),
        ("a", {"a": 2**70}, "1180591620717411303424", 2**70),
        ("a", {"a": -(2**63)}, -(2**63), -(2**63)),
        ("a", {"a": datetime(2024, 1, 5, tzinfo=UTC)}, "2024-01-05T00:00:00.000Z", "2024-01-05T00:00:00.000Z"),
        ("a", {"a": b"\x00"}, b"\x00", b"\x00"),
        ("a & ''", {"a": b"\x00\xff"}, "AP8=", "AP8="),
        ("[a]", {"a": b"\x00"}, '["AA=="]', [b"\x00"]),
        ("$", "text", "text", "text"),
        ("$ + 1", 5, 6, 6),
        ("$", '{"a":1}', '{"a":1}', {"a": 1}),
        ("a", '{"a":1}', 1, 1),
        ("$[0]", "[5]", 5, 5),
        ("$", "{not json", "{not json", "{not json"),
        ("$", "5", "5", "5"),
        ("$count($)", None, 0, 0),
        ("1 + 1", None, 2, 2),
        ("$", None, None, None),
        ("$sum", {"a": 1}, None, None),
        ("function($x){$x}", {"a": 1}, None, None),
        ("{'f': $sum, 'n': a}", {"a": 1}, '{"f":null,"n":1}', {"f": None, "n": 1}),
        ("$string($)", {"a": [1, "b"]}, '{"a":[1,"b"]}', '{"a":[1,"b"]}'),
    ],
)
def test_results(value: Value, expression: str, data: Any, expected: Any, exact: Any) -> None:
    found = value("SEARCH_JSON(?, ?)", expression, exact_face(data))
    assert found == expected and (type(found) is not bool)
    faced = plain_value(value("svc_search_json_exact(?, ?)", expression, exact_face(data)))
    assert faced == exact and type(faced) is type(exact)


@pytest.mark.parametrize("expression", [None, "", "   ", 5, 1.5, b"a"])
def test_expressions_that_are_none(value: Value, expression: Any) -> None:
    with pytest.raises(QueryError, match=r"^search json expression must be a non-empty string$") as caught:
        value("SEARCH_JSON(?, null)", expression)
    assert (caught.value.status_code, caught.value.code) == (400, "BAD_VALUE")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("a[", "has a fault at position 2, near .*: the end is not possible here"),
        ("a = ", "the end is not possible here"),
        ("'abc", "no token of JSONata"),
        ("$foo(1)", r'at position 0, near "\$foo\(1\)": there is no such function'),
        ("count(1)", r"there is no such function: did you mean \$count\?"),
        ("1 + 'a'", "cannot be evaluated: . needs numbers, not a value of type string"),
        ("$sum('a')", r"\$sum needs a number, not a value of type string"),
        ("$substring(1)", r"\$substring needs a string"),
        ("$length()", r"\$length needs a string, not a value of type object"),
        ("$join(1, 2, 3)", r"\$join takes 1 to 2 arguments, not 3"),
        ("$match('a', /(/)", "the regular expression .* cannot be used: missing"),
        ("{1: 2}", "the key of an object must be a string"),
        ("%.a", "% is not possible here"),
        ("x" * 5000, "more than 4000 characters"),
        ("(" * 100, "nested deeper than 60 levels"),
        ("1" + "+1" * 1900, "nested too deeply"),
    ],
)
def test_faults(value: Value, expression: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        value("SEARCH_JSON(?, ?)", expression, exact_face({"a": 1}))
    assert (caught.value.status_code, caught.value.code) == (400, "BAD_VALUE")
    assert len(caught.value.message) < 500


@pytest.mark.parametrize(
    "expression",
    [
        "($f := function(){$f()}; $f())",
        "($f := function($x){1 + $f($x)}; $f(1))",
        "($f := function($x){$map([1..100], function($y){$f($y)})}; $f(1))",
        "[1..10000000]",
        "[1..999999]",
        "$map([1..9999], function($v){[1..9999]})",
        "[1..9999].[1..9999]",
        "$reduce([1..60], function($a, $b){$a & $a}, 'x')",
        "$reduce([1..60], function($a, $b){$append($a, $a)}, [1])",
        "$reduce([1..60], function($a, $b){[[$a, $a]]}, [1])",
        "$reduce([1..60], function($a, $b){{'x': $a, 'y': $a}}, {})",
        "$string($reduce([1..60], function($a, $b){{'x': $a, 'y': $a}}, {}))",
        "($x := $reduce([1..60], function($a, $b){{'x': $a, 'y': $a}}, {}); $x = $x)",
        "($x := $reduce([1..60], function($a, $b){{'x': $a, 'y': $a}}, {}); $distinct([$x, $x]))",
        "$count($reduce([1..60], function($a, $b){{'x': $a, 'y': $a}}, {}).**)",
        "$boolean($reduce([1..60], function($a, $b){[[$a, $a]]}, [0]))",
        "$reduce([1..60], function($a, $b){[[$a, $a]]}, [0]).b",
        "$reduce([1..60], function($a, $b){[[$a, $a]]}, [0]).*",
        "$lookup($reduce([1..60], function($a, $b){[[$a, $a]]}, [0]), 'b')",
        "$reduce([1..100000], function($a, $b){[[$a]]})",
        "$string($reduce([1..20000], function($a, $b){[[$a]]}))",
        "$reduce([1..20000], function($a, $b){[[$a]]}).a",
        "$pad('a', 1000000000)",
        "$pad('a', -1e300)",
        "$join($map([1..9999], function($v){$pad('b', 5000)}))",
        "$replace($pad('a', 5000, 'a'), 'a', $pad('b', 5000))",
        "$replace($pad('a', 5000, 'a'), /a/, $pad('b', 5000))",
        "$power(10, 400)",
        "$reduce([1..100], function($a, $b){$a * $a}, 2)",
        "1 / 0",
        "0 / 0",
        "$sqrt(-1)",
        "1e308 * 10",
        "$sort([1..100000])",
        "$match($pad('a', 1000000, 'a'), /a/)",
    ],
)
def test_hostile_expressions_end(value: Value, expression: str) -> None:
    for function in ("SEARCH_JSON", "svc_search_json_exact"):
        with pytest.raises(QueryError) as caught:
            value(f"{function}(?, ?)", expression, exact_face({"a": 1}))
        assert caught.value.status_code == 400


def test_deep_values(value: Value) -> None:
    shallow, deep, deepest = ["[" * depth + "]" * depth for depth in (100, 300, 5000)]
    assert value("SEARCH_JSON('$string($)', ?)", shallow) == shallow
    assert value("SEARCH_JSON('$', ?)", deepest) == deepest  # too deep to be JSON: text
    for expression in ("$", "$string($)", "$ = $", "{'a': $}"):
        with pytest.raises(QueryError, match="nested deeper than 200 levels"):
            value("SEARCH_JSON(?, ?)", expression, deep)


def test_time_of_the_statement(meter: WorkMeter, clock: FakeClock) -> None:
    assert search_json("$now()", None, meter) == "2024-01-05T20:07:27.955Z"
    assert search_json("$millis()", None, meter) == meter.now_ms
    clock.advance(11.0)
    with pytest.raises(QueryTooLarge, match="maxTime"):
        search_json("$sum($map([1..1000], function($x){$x}))", None, meter)
    with pytest.raises(QueryTooLarge, match="maxTime"):
        search_json("1", exact_face([0] * 20_000), meter)


def test_expressions_are_compiled_once(value: Value, meter: WorkMeter) -> None:
    compile_expression.cache_clear()
    for number in range(3):
        assert search_json("a", exact_face({"a": number}), meter) == number
    assert compile_expression.cache_info().misses == 1


def test_long_expressions_need_time(meter: WorkMeter) -> None:
    meter.begin(0, 0.002, 1000)
    assert search_json("a." * 150 + "a", None, meter) is None
    with pytest.raises(QueryTooLarge, match="maxTime"):
        search_json("a." * 1500 + "a", None, meter)
