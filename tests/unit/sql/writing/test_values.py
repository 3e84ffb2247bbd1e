"""svc.sql.writing.values: what becomes of values on their way from SQL to an attribute."""

from datetime import UTC, datetime
from typing import Any

import pytest

from svc.sql.nodes import Binary, Column, Literal, Parameter, Unary
from svc.sql.writing.values import NO_CONSTANT, constant_of, converter_of, copy_of, restore_nested, weight_of
from svc.store import Blob
from svc.store.schema import Attribute

BOOLEAN = Attribute("a", "Boolean")
LIST = Attribute("a", "String", elements=True)
STRUCTURE = Attribute("a", "Address")


@pytest.mark.parametrize(
    ("attribute", "value", "converted"),
    [
        (BOOLEAN, 1, True),
        (BOOLEAN, 0, False),
        (BOOLEAN, 1.0, True),
        (BOOLEAN, -0.0, False),
        (BOOLEAN, "true", True),
        (BOOLEAN, "FALSE", False),
        (BOOLEAN, True, True),
        (BOOLEAN, None, None),
        (BOOLEAN, 2, 2),
        (BOOLEAN, 0.5, 0.5),
        (BOOLEAN, float("nan"), float("nan")),
        (BOOLEAN, "yes", "yes"),
        (BOOLEAN, "1", "1"),
        (LIST, '["a", "b"]', ["a", "b"]),
        (LIST, " [1]", [1]),
        (LIST, "[]", []),
        (LIST, ["a"], ["a"]),
        (LIST, "a", "a"),
        (LIST, "[", "["),
        (LIST, '"a"', '"a"'),
        (LIST, "null", "null"),
        (LIST, "[" * 100_000, "[" * 100_000),
        (LIST, '["\ud800"]', '["\ud800"]'),
        (LIST, "", ""),
        (STRUCTURE, '{"city": "x", "n": 123456789012345678901234567890}', {"city": "x", "n": 123456789012345678901234567890}),
        (STRUCTURE, "{city}", "{city}"),
        (STRUCTURE, 5, 5),
        *[(Attribute("a", kind), True, 1) for kind in ("Int", "Long", "Float", "BigInt")],
        (Attribute("a", "Int"), "5", "5"),
        (Attribute("a", "String"), datetime(2024, 1, 5, tzinfo=UTC), "2024-01-05T00:00:00.000Z"),
        (Attribute("a", "ID"), [1], [1]),
        (Attribute("a", "String"), 5, 5),
        (Attribute("a", "String"), b"x", b"x"),
    ],
)
def test_values_of_types_that_sql_does_not_have(attribute: Attribute, value: Any, converted: Any) -> None:
    convert = converter_of(attribute)
    assert convert is not None
    result = convert(value)
    assert type(result) is type(converted) and (result == converted or converted != converted)


@pytest.mark.parametrize("kind", ["Any", "Date", "Bytes", "Blob"])
def test_all_others_are_left_to_the_validator(kind: str) -> None:
    assert converter_of(Attribute("a", kind)) is None
    assert converter_of(None) is None


def test_what_need_not_be_computed() -> None:
    values = {1: [1, {"a": []}], "name": True}

    def read(name: int | str) -> Any:
        return values[name]

    assert constant_of(Literal(True), read) is True
    assert constant_of(Literal(None), read) is None
    assert constant_of(Literal(b"x"), read) == b"x"
    assert constant_of(Parameter("name"), read) is True
    assert constant_of(Unary("-", Literal(2**70)), read) == -(2**70)
    assert constant_of(Unary("+", Literal(1.5)), read) == 1.5
    for expression in (
        Column("a"),
        Unary("~", Literal(1)),
        Unary("-", Literal("1")),
        Unary("-", Literal(True)),
        Unary("NOT", Literal(1)),
        Unary("-", Parameter(1)),
        Binary("+", Literal(1), Literal(1)),
    ):
        assert constant_of(expression, read) is NO_CONSTANT
    found = constant_of(Parameter(1), read)
    given: Any = values[1]
    assert found == given and found is not given and found[1] is not given[1] and found[1]["a"] is not given[1]["a"]


def test_a_parameter_that_is_nested_without_end_is_none_that_can_be_stored() -> None:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    assert type(copy_of(deep)) is list


def test_unchanged_parts_of_computed_json_keep_their_types() -> None:
    day = datetime(2024, 1, 5, tzinfo=UTC)
    stored = {"meta": {"day": day, "n": 1, "more": [b"x"]}, "text": day}
    given = {"meta": {"day": "2024-01-05T00:00:00.000Z", "n": 2, "more": ["eA=="]}, "text": "2024-01-05T00:00:00.000Z", "new": {"a": 1}}
    assert restore_nested(given, stored) == {
        "meta": {"day": day, "n": 2, "more": [b"x"]},
        "text": "2024-01-05T00:00:00.000Z",
        "new": {"a": 1},
    }
    assert given["meta"] == {"day": "2024-01-05T00:00:00.000Z", "n": 2, "more": ["eA=="]}
    assert restore_nested(given, None) is given
    plain = {"text": "x", "n": 1}
    assert restore_nested(plain, stored) is plain


def test_large_values_weigh_more() -> None:
    small = weight_of("x")
    assert weight_of("x" * 10_000) > small + 9000
    assert weight_of(b"x" * 10_000) > 10_000
    assert weight_of(["x" * 100] * 100) > 10_000
    assert weight_of({str(number): "x" * 100 for number in range(100)}) > 10_000
    assert weight_of({1, 2, 3}) > weight_of(1)
    assert weight_of(Blob(b"x" * 10_000)) > 10_000
    assert all(0 < weight_of(value) < 200 for value in (None, True, 1, 1.5, datetime.now(UTC)))
