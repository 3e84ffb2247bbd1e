"""Where the language differs from SQLite's (spec: sql §2): comparisons of a column with literals.

- A text that says a boolean is one, for a column of booleans, and may be one for a column of any type.
- A text in the list of IN that is a number finds the number too, unless it begins with a zero that counts for nothing.
- A literal that is compared for equality, and means what it is in SQLite whatever its value is, becomes a `GivenLiteral`. Not so the ends of ranges: how
  a table is read is chosen by them.
- An integer beyond 64 bits, for which SQLite has no literal, is its digits where it is compared with a column that may have such numbers; for others it
  is more, or less, than all there is.
"""

from __future__ import annotations

import re
from math import inf

from svc.sql.binding.bound_nodes import GivenLiteral, ResolvedColumn
from svc.sql.binding.faces import is_64_bits
from svc.sql.catalogue import ColumnType
from svc.sql.nodes import Binary, Expression, In, Literal

COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">=", "IS", "IS NOT"))
_EQUALITIES = {"=": "OR", "<>": "AND", "IS": "OR", "IS NOT": "AND"}
WORDS = {"true": True, "TRUE": True, "false": False, "FALSE": False}
_GIVEN = {
    ColumnType.TEXT: frozenset((str,)),
    ColumnType.DATE: frozenset((str,)),
    ColumnType.INTEGER: frozenset((int, float)),
    ColumnType.REAL: frozenset((int, float)),
    ColumnType.ANY: frozenset((str, int, float)),
}
_MOST_GIVEN = 64  # items of a list of IN
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?", re.ASCII)
_ZEROS = re.compile(r"\s*[-+]?0[0-9]", re.ASCII)
_MAX_DIGITS = 300  # of a number that a text may be


def comparison(operator: str, left: Expression, right: Expression, at: int) -> Expression:
    """`left operator right`. Both are bound."""
    if operator in ("IS", "IS NOT") and isinstance(right, Literal) and isinstance(right.value, bool):
        return _truth(operator, left, right, at)
    column_type = type_of_column(left)
    if column_type is not None and isinstance(right, Literal):
        return _with_literal(operator, left, right, column_type, at)
    column_type = type_of_column(right)
    if column_type is not None and isinstance(left, Literal):
        mirrored = _with_literal(_MIRRORED[operator], right, left, column_type, at)
        if isinstance(mirrored, Binary):
            return Binary(operator, mirrored.right, mirrored.left, at)
        return mirrored
    return Binary(operator, left, right, at)


_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "IS": "IS", "IS NOT": "IS NOT"}


def _truth(operator: str, left: Expression, right: Literal, at: int) -> Expression:
    """`x IS TRUE` asks whether x is true, not whether it is 1."""
    if type_of_column(left) is not ColumnType.BOOLEAN:
        left = Binary("AND", left, Literal(1))
    return Binary(operator, left, Literal(int(right.value)), at)


def _with_literal(operator: str, column: Expression, literal: Literal, column_type: ColumnType, at: int) -> Expression:
    found = literal_for(literal, column_type)
    word = WORDS.get(literal.value) if isinstance(literal.value, str) else None
    if operator not in _EQUALITIES:
        return Binary(operator, column, found, at)
    if word is None or column_type is not ColumnType.ANY:
        return Binary(operator, column, _given(found, column_type) if found is literal else found, at)
    if operator in ("=", "<>"):
        return In(column, (literal, Literal(int(word))), operator == "<>")
    return Binary(_EQUALITIES[operator], Binary(operator, column, literal, at), Binary(operator, column, Literal(int(word)), at), at)


def _given(literal: Literal, column_type: ColumnType) -> Literal:
    """`literal`: one that `literal_for` does not change."""
    if literal.at < 0 or type(literal.value) not in _GIVEN.get(column_type, ()):
        return literal
    return GivenLiteral(literal.value, literal.text, literal.at)


def literal_for(literal: Literal, column_type: ColumnType) -> Literal:
    """What a literal is for a column that it is compared with."""
    value = literal.value
    if isinstance(value, str):
        if column_type is ColumnType.BOOLEAN and value in WORDS:
            return Literal(int(WORDS[value]), at=literal.at)
        if column_type is ColumnType.BIG:
            number = _number(value)
            return literal if number is None else literal_for(Literal(number, at=literal.at), column_type)
    elif isinstance(value, int) and not isinstance(value, bool) and not is_64_bits(value):
        if column_type in (ColumnType.BIG, ColumnType.ANY, ColumnType.TEXT):
            return Literal(str(value), at=literal.at)
        if column_type is ColumnType.REAL:
            return Literal(_float(value), at=literal.at)
        if column_type is ColumnType.INTEGER:
            return Literal(inf if value > 0 else -inf, at=literal.at)
    return literal


def items_for(column: Expression, items: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """The items of a list of IN: what is a literal in them, for that column."""
    column_type = type_of_column(column)
    if column_type is None:
        return items
    may_be_given = len(items) <= _MOST_GIVEN and column_type is not ColumnType.ANY  # there the value decides how many items it is
    found: list[Expression] = []
    for item in items:
        if not isinstance(item, Literal):
            found.append(item)
            continue
        value = item.value
        if isinstance(value, str) and column_type in (ColumnType.INTEGER, ColumnType.REAL) and _ZEROS.match(value):
            found.append(Literal(f"text {value}", at=item.at))  # SQLite would take it as a number
            continue
        literal = literal_for(item, column_type)
        found.append(_given(literal, column_type) if may_be_given and literal is item else literal)
        if isinstance(value, str) and column_type is ColumnType.ANY:
            also = WORDS.get(value)
            number = _number(value) if also is None else int(also)
            if number is not None and (isinstance(number, float) or is_64_bits(number)):
                found.append(Literal(number, at=item.at))
    return tuple(found)


def type_of_column(node: Expression) -> ColumnType | None:
    """None for what is no column, and for a column whose values are computed."""
    return node.column.type if isinstance(node, ResolvedColumn) and node.column is not None else None


def _number(text: str) -> int | float | None:
    found = _NUMBER.fullmatch(text) if len(text) <= _MAX_DIGITS else None
    if found is None:
        return None
    return int(text) if found[1] is None else float(text)


def _float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf
