"""What the values of bound expressions are, and how they are had as they are stored (spec: sql §3).

`type_of` tells the type of a column that an expression hands on: itself, or through COALESCE, IFNULL, IIF, CASE, NULLIF, a sub-select. Where all that may be
handed on is of one type, its values are known by it: 1 is true. Where not, or where the type is `Any`, `exact_of` makes an expression with the exact face
in place of each column, and likewise of literals and parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from svc.sql.binding.bound_nodes import BoundCall, ExactLiteral, ExactParameter, GivenLiteral, ResolvedColumn
from svc.sql.binding.walking import walk
from svc.sql.bound import Decoding
from svc.sql.catalogue import PLAIN_TYPES, ColumnType
from svc.sql.functions import EXACT_OF
from svc.sql.limits import MAX_INTEGER
from svc.sql.nodes import (
    Between,
    Binary,
    Call,
    Case,
    Cast,
    Collate,
    Exists,
    Expression,
    In,
    IsNull,
    Literal,
    Match,
    Parameter,
    Subquery,
    Unary,
)
from svc.store.values.records import encode_payload

DECODINGS = {
    ColumnType.BOOLEAN: Decoding.BOOLEAN,
    ColumnType.DATE: Decoding.DATE,
    ColumnType.JSON: Decoding.JSON,
    ColumnType.BIG: Decoding.BIG,
}
"""How a value is had back from what statements compute with, by its type. Those of other types are themselves."""


# --- types --------------------------------------------------------------------------------------------------------------------------------


def type_of(node: Expression) -> ColumnType | None:
    """None for a value that needs no decoding, and is no bytes. ANY: only `exact_of` knows; BYTES: it may be bytes."""
    find = _TYPES.get(type(node))
    return None if find is None else find(node)


def common_type(types: list[ColumnType | None]) -> ColumnType | None:
    """Of values that may each be of one of these types."""
    different = {None if each in PLAIN_TYPES else each for each in types}
    if len(different) < 2:
        return types[0] if types else None
    return ColumnType.ANY


def _type_of_literal(node: Literal) -> ColumnType | None:
    value = node.value
    if isinstance(value, (bool, bytes)):
        return ColumnType.BYTES if isinstance(value, bytes) else ColumnType.BOOLEAN
    return ColumnType.ANY if isinstance(value, int) and not is_64_bits(value) else None


def _type_of_arms(arms: list[Expression]) -> ColumnType | None:
    return common_type([type_of(arm) for arm in arms if not is_null(arm)])


def _type_of_call(node: BoundCall) -> ColumnType | None:
    function = node.function
    if function is None:
        return None
    if function.result == "first":
        args = node.args or ()
        return _type_of_arms([args[index] for index in _arms(function.name, len(args))])
    if function.result:
        return _RESULTS[function.result]
    return ColumnType.ANY if function.exact else ColumnType.BYTES if function.has_bytes else None


_RESULTS = {"boolean": ColumnType.BOOLEAN, "json": ColumnType.JSON}


_TYPES: dict[type, Callable[[Any], ColumnType | None]] = {
    ResolvedColumn: lambda node: None if node.column is None else node.column.type,
    Literal: _type_of_literal,
    GivenLiteral: _type_of_literal,
    Parameter: lambda node: ColumnType.ANY,
    Case: lambda node: _type_of_arms(_values_of(node)),
    BoundCall: _type_of_call,
    Collate: lambda node: type_of(node.operand),
    Subquery: lambda node: node.query.types[0],
    Binary: lambda node: ColumnType.JSON if node.operator == "->" else None,
}


def _values_of(node: Case) -> list[Expression]:
    values = [value for _, value in node.whens]
    return values if node.otherwise is None else [*values, node.otherwise]


def _arms(name: str, count: int) -> list[int]:
    """Which of its arguments a function hands on, one of which is its result."""
    if name in ("COALESCE", "IFNULL"):
        return list(range(count))
    if name in ("IF", "IIF"):
        return [*range(1, count, 2), *([count - 1] if count % 2 else [])]
    return [0, 2] if name in ("LAG", "LEAD") and count > 2 else [0]


# --- exact values -------------------------------------------------------------------------------------------------------------------------


def exact_of(node: Expression) -> Expression | None:
    """An expression with the same value in the form of `Decoding.EXACT`, None if that is lost."""
    make = _EXACT.get(type(node))
    return None if make is None else make(node)


def exact_or_value(node: Expression) -> Expression:
    """The same; where it is lost, the value that statements compute with, in that form."""
    found = exact_of(node)
    if found is None:
        found = Call(EXACT_OF, (node,)) if _may_be_bytes(node) else node
    return found


def _may_be_bytes(node: Expression) -> bool:
    if isinstance(node, ResolvedColumn):
        return node.column is None or node.column.type in (None, ColumnType.ANY, ColumnType.BYTES)
    return isinstance(node, Subquery) or (isinstance(node, BoundCall) and node.function is not None and node.function.has_bytes)


def _exact_column(node: ResolvedColumn) -> Expression | None:
    return node if node.column is None or node.column.type in PLAIN_TYPES else node.column.exact()


def _exact_literal(node: Literal) -> Expression:
    value = node.value
    is_itself = (
        value is None or isinstance(value, (str, float)) or (isinstance(value, int) and not isinstance(value, bool) and is_64_bits(value))
    )
    return node if is_itself else ExactLiteral(encode_payload(value), at=node.at)


def _exact_arms(arms: list[Expression]) -> list[Expression] | None:
    """None if nothing is known of any of them but its value."""
    if all(exact_of(arm) is None for arm in arms):
        return None
    return [exact_or_value(arm) for arm in arms]


def _exact_case(node: Case) -> Expression | None:
    values = _exact_arms(_values_of(node))
    if values is None:
        return None
    whens = tuple([(condition, value) for (condition, _), value in zip(node.whens, values, strict=False)])
    return Case(node.operand, whens, None if node.otherwise is None else values[-1], node.at)


def _exact_call(node: Call) -> Expression | None:
    function = node.function if isinstance(node, BoundCall) else None
    args = node.args or ()
    if function is None:
        return node if node.name == EXACT_OF else None
    if function.exact:
        return replace(node, name=function.exact)
    if function.result != "first":
        return None if function.has_bytes else node
    handed_on = _arms(function.name, len(args))
    arms = _exact_arms([args[index] for index in handed_on])
    if arms is None:
        return None
    if function.name == "NULLIF":
        return Case(None, ((Binary("=", args[0], args[1]), Literal(None)),), arms[0], node.at)
    found = list(args)
    for index, arm in zip(handed_on, arms, strict=True):
        found[index] = arm
    return replace(node, args=tuple(found))


def _exact_collate(node: Collate) -> Expression | None:
    operand = exact_of(node.operand)
    return None if operand is None else Collate(operand, node.name)


def _exact_subquery(node: Subquery) -> Expression | None:
    relation: Any = node.query  # `relations.Relation`
    query = relation.with_exact_value()
    return None if query is None else Subquery(query, node.at)


def _itself(node: Expression) -> Expression:
    return node


_EXACT: dict[type, Callable[[Any], Expression | None]] = {
    ResolvedColumn: _exact_column,
    Literal: _exact_literal,
    GivenLiteral: _exact_literal,
    Parameter: lambda node: ExactParameter(node.name, node.at),
    Case: _exact_case,
    Call: _exact_call,
    BoundCall: _exact_call,
    Collate: _exact_collate,
    Subquery: _exact_subquery,
    **dict.fromkeys((Unary, Binary, Match, Between, In, IsNull, Exists, Cast, ExactLiteral, ExactParameter), _itself),
}


def give_exact_arguments(root: object) -> None:
    """Functions that need exact faces of arguments get them. Changes the tree."""
    for node in walk(root):
        if isinstance(node, BoundCall) and node.function is not None and node.function.takes_exact and node.args:
            places = node.function.takes_exact
            node.args = tuple([exact_or_value(arg) if place in places else arg for place, arg in enumerate(node.args)])


# --- literals -----------------------------------------------------------------------------------------------------------------------------


def is_64_bits(value: int) -> bool:
    """Whether SQLite has this integer: 64 bits with a sign."""
    return -MAX_INTEGER - 1 <= value <= MAX_INTEGER


def is_null(node: Expression) -> bool:
    return isinstance(node, Literal) and node.value is None
