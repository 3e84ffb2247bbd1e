"""Tokens -> expressions, with the precedences of SQLite (spec: sql §2).

Operators do not call each other: those that wait for their right operand lie on a stack, and are made into nodes when one comes that binds no tighter. So
a chain of operators, however long, needs no more of Python's stack than a single one. What follows SQLite's grammar in particular:

- A prefix operator takes all that binds tighter than itself, wherever it stands: `1 + NOT 2 = 3` is `1 + (NOT (2 = 3))`.
- Between BETWEEN and its AND everything may stand that binds tighter than AND.
- Comparisons and IS, LIKE, BETWEEN, IN are of one rank and lean to the left: `a = b IN (c)` is `(a = b) IN (c)`.

A chain of more than CHAIN ANDs, ORs or `||`, which mean the same whatever way they lean, becomes a balanced tree; others lean to the left.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from svc.sql.limits import CHAIN, MAX_DEPTH
from svc.sql.nodes import (
    Between,
    Binary,
    Collate,
    Expression,
    In,
    IsNull,
    Literal,
    Match,
    Query,
    Select,
    Star,
    TableFunction,
    TableRef,
    Unary,
)
from svc.sql.operands import OPERANDS, QUERY_STARTS, OperandParser
from svc.sql.words import MATCHING

WAITING, OR, AND, NOT, EQUALITY, ORDER, BITS, SUM, PRODUCT, CONCAT, COLLATE, PREFIX, PRIMARY = range(13)
PRECEDENCES = {
    "OR": OR, "AND": AND, "=": EQUALITY, "<>": EQUALITY, "IS": EQUALITY, "IS NOT": EQUALITY, "<": ORDER, "<=": ORDER, ">": ORDER, ">=": ORDER,
    "&": BITS, "|": BITS, "<<": BITS, ">>": BITS, "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "%": PRODUCT, "||": CONCAT, "->": CONCAT, "->>": CONCAT,
}  # fmt: skip

_BINARY: dict[str, tuple[int, str]] = {
    **{mark: (precedence, mark) for mark, precedence in PRECEDENCES.items() if mark not in ("AND", "IS", "IS NOT")},
    "==": (EQUALITY, "="),
    "!=": (EQUALITY, "<>"),
}
_PREFIXES = {"-": PREFIX, "+": PREFIX, "~": PREFIX, "NOT": NOT}
_CHAINED = frozenset(("AND", "OR", "||"))

Build: TypeAlias = Callable[[Expression], Expression]
Term: TypeAlias = tuple[Expression, int, int]  # of a chain: an operand, how deep it is, where the operator before it is
# An operator without its right operand: its precedence; its name, or what makes a node of the right operand; the left operand, or those of a chain; how
# deep that is; where the operator is.
Waiting: TypeAlias = tuple[int, str | Build, Expression | list[Term] | None, int, int]


class ExpressionParser(OperandParser):
    __slots__ = ()

    def expression(self) -> Expression:
        waiting: list[Waiting] = []
        while True:
            kind = self.kinds[self.index]
            operand = OPERANDS.get(kind)
            if operand is None:
                precedence = _PREFIXES.get(kind)
                if precedence is None:
                    raise self.unexpected("a value")
                if len(waiting) > MAX_DEPTH + len(PRECEDENCES):
                    raise self.too_deep()
                at = self.starts[self.index]
                waiting.append((precedence, partial(_unary, kind, at, self.tokens[self.index]), None, 0, at))
                self.index += 1
                continue
            node: Expression | None = operand(self)
            while node is not None:
                kind = self.kinds[self.index]
                binary = _BINARY.get(kind)
                if binary is not None:
                    self._binary(waiting, node, *binary)
                    break
                infix = _INFIX.get(kind)
                if infix is None:
                    if waiting:
                        node = self._reduced(waiting, node, OR)
                        if waiting:
                            raise self.unexpected("AND")  # of BETWEEN
                    if self.height:
                        self.settle()
                    return node
                node = infix(self, waiting, node)

    # --- operators ------------------------------------------------------------------------------------------------------------------------

    def _wait(self, waiting: list[Waiting], precedence: int, operator: str | Build, left: Expression | list[Term] | None, at: int) -> None:
        waiting.append((precedence, operator, left, self.height, at))
        self.height = 0

    def _reduced(self, waiting: list[Waiting], node: Expression, precedence: int) -> Expression:
        """`node` as the right operand of all that bind as `precedence` or tighter."""
        while waiting and waiting[-1][0] >= precedence:
            _, operator, left, height, at = waiting.pop()
            if isinstance(left, list):
                assert isinstance(operator, str)
                left.append((node, self.height, at))
                node, self.height = _chain(operator, left, CHAIN)
                continue
            if height > self.height:
                self.height = height
            self.height += 1
            if self.height > MAX_DEPTH:
                raise self.too_deep()
            if isinstance(operator, str):
                assert left is not None
                node = Binary(operator, left, node, at)
            else:
                node = operator(node)
        return node

    def _binary(self, waiting: list[Waiting], node: Expression, precedence: int, operator: str) -> None:
        at = self.starts[self.index]
        self.index += 1
        if waiting:
            if operator in _CHAINED:
                node = self._reduced(waiting, node, precedence + 1)
                if waiting and waiting[-1][1] == operator:
                    _, _, left, height, before = waiting.pop()
                    assert left is not None
                    terms = left if isinstance(left, list) else [(left, height, -1)]
                    terms.append((node, self.height, before))
                    self.height = 0
                    self._wait(waiting, precedence, operator, terms, at)
                    return
            node = self._reduced(waiting, node, precedence)
        self._wait(waiting, precedence, operator, node, at)

    def _and(self, waiting: list[Waiting], node: Expression) -> Expression | None:
        if waiting:
            node = self._reduced(waiting, node, NOT)
            if waiting and waiting[-1][0] == WAITING:
                _, operator, _, height, at = waiting.pop()
                assert not isinstance(operator, str)
                self.index += 1
                self.height = max(self.height, height)
                self._wait(waiting, EQUALITY, partial(operator, node), None, at)
                return None
        self._binary(waiting, node, AND, "AND")
        return None

    def _is(self, waiting: list[Waiting], node: Expression) -> Expression | None:
        node = self._reduced(waiting, node, EQUALITY)
        at = self.at
        self.index += 1
        is_negated = self.take("NOT")
        if self.take("DISTINCT"):
            self.need("FROM")
            is_negated = not is_negated
        self._wait(waiting, EQUALITY, partial(_is, "IS NOT" if is_negated else "IS", node, at), None, at)
        return None

    def _not(self, waiting: list[Waiting], node: Expression) -> Expression | None:
        self.index += 1
        kind = self.kinds[self.index]
        negated = _NEGATED.get(kind)
        if negated is not None:
            return negated(self, waiting, node, True)
        if kind != "NULL":
            raise self.unexpected("LIKE, IN, BETWEEN or NULL")
        return self._is_null(waiting, node, True)

    def _is_null(self, waiting: list[Waiting], node: Expression, is_negated: bool = False) -> Expression:
        node = self._reduced(waiting, node, EQUALITY)
        self.index += 1
        self.height += 1
        return IsNull(node, is_negated)

    def _not_null(self, waiting: list[Waiting], node: Expression) -> Expression:
        return self._is_null(waiting, node, True)

    def _match(self, waiting: list[Waiting], node: Expression, is_negated: bool = False) -> Expression | None:
        node = self._reduced(waiting, node, EQUALITY)
        operator = self.kinds[self.index]
        if operator == "MATCH":
            raise self.fault("there is no MATCH: LIKE, REGEXP or GLOB is meant?")
        at = self.at
        self.index += 1
        self._wait(waiting, EQUALITY, partial(Match, operator, node, is_negated=is_negated, at=at), None, at)
        return None

    def _escape(self, waiting: list[Waiting], node: Expression) -> Expression | None:
        node = self._reduced(waiting, node, ORDER)
        match = waiting[-1][1] if waiting else None
        if not (isinstance(match, partial) and match.func is Match and match.args[0] == "LIKE" and len(match.args) == 2):
            raise self.fault("ESCAPE belongs behind the pattern of LIKE")
        _, _, _, height, at = waiting.pop()
        self.index += 1
        self.height = max(self.height, height)
        self._wait(waiting, EQUALITY, partial(match, node), None, at)
        return None

    def _between(self, waiting: list[Waiting], node: Expression, is_negated: bool = False) -> Expression | None:
        node = self._reduced(waiting, node, EQUALITY)
        at = self.at
        self.index += 1
        self._wait(waiting, WAITING, partial(Between, node, is_negated=is_negated), None, at)
        return None

    def _collate(self, waiting: list[Waiting], node: Expression) -> Expression:
        node = self._reduced(waiting, node, COLLATE)
        self.index += 1
        name = self.name("the name of a collation")
        self.height += 1
        return Collate(node, name)

    def _in(self, waiting: list[Waiting], node: Expression, is_negated: bool = False) -> Expression:
        node = self._reduced(waiting, node, EQUALITY)
        self.index += 1
        height = self.height
        items: tuple[Expression, ...] | Query
        if self.kinds[self.index] != "(":
            items = self._table_as_query()
        elif self.kinds[self.index + 1] in QUERY_STARTS:
            items = self.nested_query()
        else:
            self.index += 1
            outer = self.open_level()
            items = () if self.kinds[self.index] == ")" else tuple(self.expressions(len(self.text)))
            self.close_level(outer)
            self.need(")")
        self.height = max(self.height, height + 1)
        return In(node, items, is_negated)

    def _table_as_query(self) -> Query:
        """`x IN t`, `x IN db.t`, `x IN f(y)`: all columns of it."""
        at = self.at
        outer = self.open_level(2)
        name, database = self.name("( or the name of a table"), ""
        if self.take("."):
            database, name = name, self.name_behind_dot()
        source: TableRef | TableFunction
        if not database and self.kinds[self.index] == "(":
            source = TableFunction(name.lower(), self.arguments(), "", at)
        else:
            source = TableRef(name, database, "", at, self.last_end)
        self.close_level(outer, 2)
        return Query(Select((Star(),), source))


def _unary(operator: str, at: int, token: str, operand: Expression) -> Expression:
    """A minus before a number is part of it: only so is the smallest integer none that is too large first."""
    if operator == "-" and type(operand) is Literal and type(operand.value) in (int, float) and operand.value >= 0:
        return Literal(-operand.value, token + operand.text, at)
    return Unary(operator, operand)


def _is(operator: str, left: Expression, at: int, right: Expression) -> Expression:
    if type(right) is Literal and right.value is None:
        return IsNull(left, operator == "IS NOT")
    return Binary(operator, left, right, at)


def _chain(operator: str, terms: list[Term], most: int) -> tuple[Expression, int]:
    """The tree and its height. Up to `most` terms lean to the left. Halves are chains in parentheses when they are printed: they may have half as many, so
    that the first, which gets none, is not too long when it is read again."""
    if len(terms) > most:
        middle = len(terms) // 2
        left, left_height = _chain(operator, terms[:middle], CHAIN // 2)
        right, right_height = _chain(operator, terms[middle:], CHAIN // 2)
        return Binary(operator, left, right, terms[middle][2]), max(left_height, right_height) + 1
    node, height, _ = terms[0]
    for operand, operand_height, at in terms[1:]:
        node = Binary(operator, node, operand, at)
        height = max(height, operand_height) + 1
    return node, height


_NEGATED: dict[str, Callable[..., Expression | None]] = {  # a last argument True, if NOT stands before it
    **dict.fromkeys(MATCHING, ExpressionParser._match),
    "BETWEEN": ExpressionParser._between,
    "IN": ExpressionParser._in,
}
_INFIX: dict[str, Callable[..., Expression | None]] = {
    **_NEGATED,
    "AND": ExpressionParser._and,
    "IS": ExpressionParser._is,
    "NOT": ExpressionParser._not,
    "ISNULL": ExpressionParser._is_null,
    "NOTNULL": ExpressionParser._not_null,
    "ESCAPE": ExpressionParser._escape,
    "COLLATE": ExpressionParser._collate,
}
