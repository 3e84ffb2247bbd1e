"""CAST and CONVERT."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from svc.errors import QueryError
from svc.sql.functions import find_cast
from svc.sql.functions.exact import exact_face, plain_value
from svc.sql.functions.function import Function
from tests.unit.sql.functions.conftest import Value

MOMENT = datetime(2024, 1, 5, 20, 7, 27, 55_000, UTC)


def cast(type: str) -> Function:
    found = find_cast(type)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("types", "name"),
    [
        ("INT INTEGER BIGINT int Int INT(11)", "svc_cast_int"),
        ("NUMBER FLOAT DECIMAL DECIMAL(10,2) numeric REAL DOUBLE", "svc_cast_float"),
        ("STRING VARCHAR VARCHAR(10) text CHAR(1)", "svc_cast_string"),
        ("BOOLEAN bool", "svc_cast_boolean"),
        ("DATE DATETIME TIMESTAMP", "svc_cast_date"),
    ],
)
def test_types(types: str, name: str) -> None:
    assert {cast(type).sqlite for type in types.split()} == {name}


@pytest.mark.parametrize("type", ["", "BLOB", "FOO", "(10)", "INT8X", "x" * 10_000])
def test_types_that_are_none(type: str) -> None:
    assert find_cast(type) is None


@pytest.mark.parametrize(
    ("type", "given", "expected"),
    [
        ("INT", 5, 5), ("INT", 5.9, 5), ("INT", -5.9, -5), ("INT", "12abc", 12), ("INT", " -12.9", -12), ("INT", "abc", 0), ("INT", "", 0),
        ("INT", "1208925819614629174706176", "1208925819614629174706176"), ("INT", -(2**63), -(2**63)),
        ("INT", "9223372036854775808", "9223372036854775808"), ("INT", 1e20, "100000000000000000000"), ("INT", b"7", 7),
        ("INT", "9" * 1_000_000, None), ("INT", float("inf"), None), ("FLOAT", 5, 5.0), ("FLOAT", "1.5", 1.5), ("FLOAT", "1.5e3x", 1500.0),
        ("FLOAT", ".5", 0.5), ("FLOAT", "x", 0.0), ("FLOAT", b"1.5", 1.5), ("FLOAT", "1e999", None), ("FLOAT", "9" * 1_000_000, None),
        ("FLOAT", 2**63 - 1, 9.223372036854775807e18), ("STRING", 5, "5"), ("STRING", 5.0, "5"), ("STRING", 1.5, "1.5"), ("STRING", "a", "a"),
        ("STRING", True, "true"), ("STRING", False, "false"), ("STRING", [1, "a", None], '[1,"a",null]'),
        ("STRING", {"a": MOMENT}, '{"a":"2024-01-05T20:07:27.055Z"}'), ("STRING", MOMENT, "2024-01-05T20:07:27.055Z"),
        ("STRING", 2**70, "1180591620717411303424"), ("STRING", b"\xc3\xa4\xff", "ä�"), ("BOOLEAN", 1, 1), ("BOOLEAN", 0, 0), ("BOOLEAN", 0.5, 1),
        ("BOOLEAN", "true", 1), ("BOOLEAN", " FALSE ", 0), ("BOOLEAN", "1", 1), ("BOOLEAN", "0.0", 0), ("BOOLEAN", "x", None), ("BOOLEAN", "", None),
        ("BOOLEAN", "x" * 1_000_000, None), ("BOOLEAN", b"true", 1), ("DATE", 1_704_485_247_055, "2024-01-05T20:07:27.055Z"),
        ("DATE", "2024-01-05", "2024-01-05T00:00:00.000Z"), ("DATE", "0000-01-01", "0000-01-01T00:00:00.000Z"),
        ("DATE", "2024-01-05T21:07+01:00", "2024-01-05T20:07:00.000Z"), ("DATE", "9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        ("DATE", "+010000-01-01", None), ("DATE", "-000001-12-31", None), ("DATE", "x", None), ("DATE", b"2024-01-05", None),
    ],
)  # fmt: skip
def test_casts(value: Value, type: str, given: Any, expected: object) -> None:
    function = cast(type)
    found = value(f"{function.sqlite}(?)", exact_face(given) if function.takes_exact else given)
    assert found == expected and isinstance(found, expected.__class__)


@pytest.mark.parametrize("given", ["1208925819614629174706176", 5, "-7x", 1e20])
def test_exact_integers(value: Value, given: Any) -> None:
    function = cast("INT")
    assert plain_value(value(f"{function.exact}(?)", given)) == int(value(f"{function.sqlite}(?)", given))


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        (1, "01/05/24"), (101, "01/05/2024"), (2, "24.01.05"), (103, "05/01/2024"), (104, "05.01.2024"), (5, "05-01-24"), (106, "05 Jan 2024"),
        (107, "Jan 05, 2024"), (8, "20:07:27"), (110, "01-05-2024"), (111, "2024/01/05"), (12, "240105"), (112, "20240105"), (120, "2024-01-05 20:07:27"),
        (121, "2024-01-05 20:07:27.055"), (126, "2024-01-05T20:07:27.055"), (127, "2024-01-05T20:07:27.055Z"), (100, "Jan 5 2024 8:07PM"), ("112", "20240105"),
        (112.0, "20240105"),
    ],
)  # fmt: skip
def test_styles_of_dates(value: Value, style: Any, expected: str) -> None:
    for given in ("2024-01-05T20:07:27.055Z", 1_704_485_247_055, exact_face(MOMENT)):
        assert value("svc_cast_string(?, ?)", given, style) == expected
    assert value("svc_cast_string('x', ?)", style) is None


@pytest.mark.parametrize("style", [999, -1, "x", 1e300, 1.5])
def test_styles_that_are_not_known(value: Value, style: Any) -> None:
    with pytest.raises(QueryError, match="the style of a date must be one of 0, 1, 2"):
        value("svc_cast_string('2024-01-05', ?)", style)


def test_other_types_have_no_styles(value: Value) -> None:
    assert value("svc_cast_int('5', 101)") == 5 and value("svc_cast_date('2024-01-05', 101)") == "2024-01-05T00:00:00.000Z"


@pytest.mark.parametrize("type", ["INT", "FLOAT", "STRING", "BOOLEAN", "DATE"])
def test_null_stays_null(value: Value, type: str) -> None:
    assert value(f"{cast(type).sqlite}(null)") is None
    assert value(f"{cast(type).sqlite}(null, 101)") is None
