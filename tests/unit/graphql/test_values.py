"""Values of arguments and variables."""

from typing import Any

import pytest
from graphql.language import OperationDefinitionNode

from svc.graphql.document import parse_document
from svc.graphql.faults import DocumentError
from svc.graphql.operation import Operation
from svc.graphql.values import literal


def operation(variables: str) -> Operation:
    return Operation(parse_document(f"query ({variables}) {{ a }}"), None, extended=False)


def argument(text: str) -> Any:
    node = parse_document(f"{{ a(b: {text}) }}").operation(None)
    assert isinstance(node, OperationDefinitionNode)
    return node.selection_set.selections[0].arguments[0].value  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("declared", "given", "value"),
    [
        ("$x: String", {"x": "a"}, "a"),
        ("$x: String", {}, None),
        ("$x: String", None, None),
        ("$x: String", {"x": None, "y": 1}, None),
        ('$x: String = "d"', {}, "d"),
        ('$x: String = "d"', {"x": None}, None),
        ('$x: String! = "d"', {}, "d"),
        ("$x: Int = 5", {"x": "no check"}, "no check"),
        ("$x: Any = {a: {b: 1.0, c: null}}", {}, {"a": {"b": 1, "c": None}}),
        ("$x: Any = null", {}, None),
    ],
)
def test_variables(declared: str, given: Any, value: Any) -> None:
    assert operation(declared).variables(given) == {"x": value}


@pytest.mark.parametrize(
    ("declared", "given", "message"),
    [
        ("$x: String!", {}, "Variable $x is required, but not provided."),
        ("$x: String!", None, "Variable $x is required, but not provided."),
        ("$x: String!", {"x": None}, "Variable $x must not be null."),
        ('$x: String! = "d"', {"x": None}, "Variable $x must not be null."),
        ("$x: String! = null", {}, "Variable $x must not be null."),
        ("$x: Any = [1]", {}, "Value type, ListValue, is not supported."),
        ("$x: Any = {a: B}", {}, "Value type, EnumValue, is not supported."),
    ],
)
def test_faults_of_variables(declared: str, given: Any, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        operation(declared).variables(given)
    assert (caught.value.message, caught.value.code) == (message, "BAD_VALUE")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"a\\u00e9"', "aé"),
        ('"""\n  a\n    b\n"""', "a\n  b"),
        ("12345678901234567890123", 12345678901234567890123),
        ("-0.5e1", -5),
        ("1.5", 1.5),
        ("true", True),
        ("null", None),
        ("{a: {b: [], c: $v}}", None),
        ("{a: {c: $v}}", {"a": {"c": {"d": 1}}}),
    ],
)
def test_literals(text: str, value: Any) -> None:
    if "[]" in text:
        with pytest.raises(DocumentError, match="Value type, ListValue, is not supported"):
            literal(argument(text), {"v": 1}, "Argument")
        return
    assert literal(argument(text), {"v": {"d": 1}}, "Argument") == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "Argument type, ListValue, is not supported."),
        ("RED", "Argument type, EnumValue, is not supported."),
        ("$w", "Variable $w is not defined."),
        ("1e999", "The number 1e999 is out of range."),
        ("1" * 303, "The number has more than 302 digits."),
        ("{a: 1, a: 2}", "'a' is given twice in an object."),
        ("{a: " * 60 + "1" + "}" * 60, "The value is nested deeper than 50 levels."),
    ],
)
def test_literals_that_are_no_values(text: str, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        literal(argument(text), {}, "Argument")
    assert caught.value.message == message
    assert caught.value.location is not None


def test_lists_and_enums_of_the_extended_form() -> None:
    assert literal(argument("[1, {a: [RED]}]"), {}, "Argument", lists=True) == [1, {"a": ["RED"]}]
