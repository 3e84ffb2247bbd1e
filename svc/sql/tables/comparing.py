"""Conditions that SQLite leaves to us: a plan finds nothing but what fulfils them, or what it finds is tested here, as SQLite would (spec: sql §9).

SQLite converts before it compares, depending on both sides, of which a cursor knows only the value of the other one. Beside a column of numbers a text that
looks like a number is one, whatever it comes from. Beside a column of texts a number is a text if it is a parameter or a literal, but beside a column of
numbers a text would be a number: so texts are left to us in statements that compare them with parameters, literals, and each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import eq, ge, gt, le, lt
from typing import Any

from svc.sql.affinity import number_of_text, text_of_number
from svc.sql.catalogue import ColumnType
from svc.sql.tables.spans import EQ, GE, GT, IS, LE, LT, SHORT
from svc.sql.tables.values import SqlValue, numeric_value

NUMBERS = frozenset((ColumnType.INTEGER, ColumnType.REAL))
_TESTS: dict[int, Callable[[Any, Any], bool]] = {EQ: eq, GT: gt, GE: ge, LT: lt, LE: le, IS: eq}
_EXACT = 1 << 53


def is_left_to_us(kind: ColumnType, operators: Sequence[int], *, is_plain: bool) -> bool:
    """Whether comparisons of a column of this type need no test of SQLite. `is_plain`: see above."""
    if kind is ColumnType.TEXT:
        return is_plain and all(operator == EQ for operator in operators)
    return kind in NUMBERS and all(operator in _TESTS and operator != IS for operator in operators)


def has_exact_span(kind: ColumnType, operator: int, value: object) -> bool:
    """Whether the span of a comparison has only what fulfils it."""
    if operator not in _TESTS:
        return False
    if kind is ColumnType.TEXT:
        return type(value) is str and len(value) <= SHORT
    return kind in NUMBERS and (type(value) is int or type(value) is float) and abs(value) < _EXACT


def comparison(kind: ColumnType, operator: int, value: SqlValue) -> Callable[[SqlValue], bool]:
    """The test of a value of a column of this type, TEXT, INTEGER or REAL.

    >>> comparison(ColumnType.REAL, LT, " 5e0 ")(4), comparison(ColumnType.TEXT, EQ, 5)("5"), comparison(ColumnType.TEXT, EQ, None)(None)
    (True, True, False)
    """
    if value is None:
        return lambda own: False
    if kind is ColumnType.TEXT:
        if type(value) is int or type(value) is float:
            value = text_of_number(value)
    elif type(value) is str:
        number, is_exact = numeric_value(value)
        if number is not None:
            value = number if is_exact else number_of_text(value)
    holds, place = _TESTS[operator], sort_place(value)
    return lambda own: own is not None and holds(sort_place(own), place)


def sort_place(value: SqlValue) -> tuple[int, Any]:
    """What a value is sorted by as SQLite does it."""
    if value is None:
        return 0, 0
    return (2, value) if type(value) is str else (3, value) if type(value) is bytes else (1, value)
