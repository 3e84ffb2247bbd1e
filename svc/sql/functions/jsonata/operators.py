"""What the operators of expressions do with values."""

from __future__ import annotations

from collections.abc import Callable
from math import fmod
from typing import Any

from svc.sql.functions.jsonata.values import UNDEFINED, Fault, Sequence, Work, equal, is_number, listed, type_name
from svc.sql.functions.jsonata.writing import text_of

MAX_RANGE = 1_000_000
_BITS = 1000  # of an integer, as in records

Operator = Callable[[Any, Any, Work], Any]


def _arithmetic(name: str, compute: Callable[[Any, Any], Any]) -> Operator:
    def operator(a: Any, b: Any, work: Work) -> Any:
        work.spend(1)
        for value in (a, b):
            if not is_number(value) and value is not UNDEFINED:
                raise Fault(f"{name} needs numbers, not a value of type {type_name(value)}")
        if a is UNDEFINED or b is UNDEFINED:
            return UNDEFINED
        return as_number(lambda: compute(a, b))

    return operator


def as_number(compute: Callable[[], Any]) -> int | float:
    """A result that is a number: whole ones as integers, as records have them. Raises Fault."""
    try:
        result = compute()
        if type(result) is int:
            return result if result.bit_length() <= _BITS else float(result)
    except (OverflowError, ZeroDivisionError, ValueError):
        result = None
    if type(result) is not float or result - result != 0.0:
        raise Fault("the result is no number, or beyond the range of numbers")
    return int(result) if result.is_integer() and abs(result) <= 2**53 else result


def _divide(a: int | float, b: int | float) -> int | float:
    return a // b if type(a) is int and type(b) is int and b and a % b == 0 else a / b


def _remainder(a: int | float, b: int | float) -> int | float:
    """With the sign of the first."""
    if type(a) is int and type(b) is int:
        rest = abs(a) % abs(b)
        return -rest if a < 0 else rest
    return fmod(a, b)


def _comparison(name: str, holds: Callable[[Any, Any], bool]) -> Operator:
    def operator(a: Any, b: Any, work: Work) -> Any:
        work.spend(1)
        for value in (a, b):
            if not is_number(value) and type(value) is not str and value is not UNDEFINED:
                raise Fault(f"{name} compares numbers or strings, not a value of type {type_name(value)}")
        if a is UNDEFINED or b is UNDEFINED:
            return UNDEFINED
        if is_number(a) != is_number(b):
            raise Fault(f"{name} cannot compare a number with a string")
        return holds(a, b)

    return operator


def order(a: Any, b: Any) -> int:
    """-1, 0 or 1; what is undefined comes last. Raises Fault for what has no order."""
    if a is UNDEFINED or b is UNDEFINED:
        return int(a is UNDEFINED) - int(b is UNDEFINED)
    if not (is_number(a) and is_number(b)) and not (type(a) is str and type(b) is str):
        raise Fault("only numbers or strings can be put in order, and not both")
    return int(a > b) - int(a < b)


def _equals(a: Any, b: Any, work: Work) -> bool:
    return a is not UNDEFINED and b is not UNDEFINED and equal(a, b, work)


def _differs(a: Any, b: Any, work: Work) -> bool:
    return a is not UNDEFINED and b is not UNDEFINED and not equal(a, b, work)


def _includes(a: Any, b: Any, work: Work) -> bool:
    if a is UNDEFINED or b is UNDEFINED or isinstance(a, list) or type(a) is dict:
        return False
    elements = listed(b)
    work.spend(len(elements))
    return any((type(element) is type(a) or (is_number(element) and is_number(a))) and element == a for element in elements)


def _join(a: Any, b: Any, work: Work) -> str:
    first = "" if a is UNDEFINED else text_of(a, work)
    second = "" if b is UNDEFINED else text_of(b, work)
    work.spend_text(len(first) + len(second))
    return first + second


def _range(a: Any, b: Any, work: Work) -> Any:
    for value in (a, b):
        if value is not UNDEFINED and type(value) is not int:
            raise Fault("a range is from one integer to another")
    if a is UNDEFINED or b is UNDEFINED or a > b:
        return UNDEFINED
    if b - a >= MAX_RANGE:
        raise Fault(f"a range has at most {MAX_RANGE} elements")
    work.spend(b - a + 1)
    return Sequence(range(a, b + 1))


subtract = _arithmetic("-", lambda a, b: a - b)

OPERATORS: dict[str, Operator] = {
    "+": _arithmetic("+", lambda a, b: a + b),
    "-": subtract,
    "*": _arithmetic("*", lambda a, b: a * b),
    "/": _arithmetic("/", _divide),
    "%": _arithmetic("%", _remainder),
    "<": _comparison("<", lambda a, b: a < b),
    "<=": _comparison("<=", lambda a, b: a <= b),
    ">": _comparison(">", lambda a, b: a > b),
    ">=": _comparison(">=", lambda a, b: a >= b),
    "=": _equals,
    "!=": _differs,
    "in": _includes,
    "&": _join,
    "..": _range,
}
