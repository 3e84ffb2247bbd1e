"""Tokens -> operands: literals, parameters, columns, and what stands in parentheses (spec: sql §2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svc.sql.limits import MAX_ARGUMENTS, MAX_COLUMNS, MAX_INTEGER, MAX_PARAMETER
from svc.sql.nodes import Call, Case, Column, Exists, Expression, Literal, Parameter, Query, RowValue, Subquery
from svc.sql.token_reader import TokenReader
from svc.sql.words import CLOCKS, NAMES, WORDS

QUERY_STARTS = frozenset(("SELECT", "VALUES", "WITH"))
_MAX_HEX_DIGITS = 16


class OperandParser(TokenReader):
    """What the classes below it read is part of operands as well."""

    __slots__ = ()

    def expression(self) -> Expression:
        raise NotImplementedError

    def query(self) -> Query:
        raise NotImplementedError

    def call(self) -> Expression:
        raise NotImplementedError

    def expressions(self, most: int = MAX_COLUMNS) -> list[Expression]:
        """One or more, with commas between them."""
        expression = self.expression
        kinds = self.kinds
        found: list[Expression] = []
        while True:
            literal = _LITERALS.get(kinds[self.index])
            if literal is not None and kinds[self.index + 1] in _LIST_MARKS:  # long lists are mostly of literals
                found.append(literal(self))
            else:
                found.append(expression())
            if not self.another(len(found), most):
                return found

    def arguments(self, most: int = MAX_ARGUMENTS) -> tuple[Expression, ...]:
        """Expressions in parentheses, perhaps none."""
        self.need("(")
        args = () if self.kinds[self.index] == ")" else tuple(self.expressions(most))
        self.need(")")
        return args

    def nested_query(self) -> Query:
        """A query in parentheses."""
        self.need("(")
        outer = self.open_level(2)
        query = self.query()
        self.close_level(outer, 2)
        self.need(")")
        return query

    def _parenthesis(self) -> Expression:
        at = self.at
        if self.kinds[self.index + 1] in QUERY_STARTS:
            return Subquery(self.nested_query(), at)
        self.index += 1
        outer = self.open_level()
        items = self.expressions()
        self.close_level(outer)
        self.need(")")
        if len(items) == 1:
            return items[0]
        return RowValue(tuple(items))

    def _exists(self) -> Expression:
        at = self.at
        self.index += 1
        return Exists(self.nested_query(), at)

    def _case(self) -> Expression:
        at = self.at
        self.index += 1
        outer = self.open_level()
        operand = None if self.kinds[self.index] == "WHEN" else self.expression()
        whens = []
        while self.take("WHEN"):
            condition = self.expression()
            self.need("THEN")
            whens.append((condition, self.expression()))
        if not whens:
            raise self.unexpected("WHEN")
        otherwise = self.expression() if self.take("ELSE") else None
        self.close_level(outer)
        self.need("END")
        return Case(operand, tuple(whens), otherwise, at)

    def _number(self) -> Expression:
        token, at = self.tokens[self.index], self.starts[self.index]
        try:
            value: int | float = int(token)
        except ValueError:
            value = self._other_number(token)
        self.index += 1
        return Literal(value, token, at)

    def _other_number(self, token: str) -> int | float:
        if token[:2] in ("0x", "0X"):
            digits = token[2:].replace("_", "").lstrip("0")
            if len(digits) > _MAX_HEX_DIGITS:
                raise self.fault(f"a hexadecimal number has at most {_MAX_HEX_DIGITS} digits")
            try:
                value = int(token, 16)
            except ValueError:
                raise self.fault("no number: a name that begins with a digit stands in backticks")
            return value if value <= MAX_INTEGER else value - 2 * (MAX_INTEGER + 1)
        if token.isdecimal():
            raise self.fault(f"a number of {len(token)} digits is too large")
        try:
            number = float(token)
        except ValueError:
            raise self.fault("no number: a name that begins with a digit stands in backticks")
        if number == float("inf"):
            raise self.fault("this number is too large for 64 bits of floating point")
        return number

    def _text(self) -> Expression:
        token, at = self.tokens[self.index], self.starts[self.index]
        self.index += 1
        return Literal(token[1:-1].replace("''", "'"), token, at)

    def _blob(self) -> Expression:
        token, at = self.tokens[self.index], self.starts[self.index]
        digits = token[2:-1]
        try:
            value = bytes.fromhex(digits)
        except ValueError:
            value = b""
        if 2 * len(value) != len(digits):
            raise self.fault("bytes are an even number of hexadecimal digits")
        self.index += 1
        return Literal(value, token, at)

    def _constant(self) -> Expression:
        """NULL, TRUE, FALSE."""
        index = self.index
        kind = self.kinds[index]
        if kind != "NULL" and self.kinds[index + 1] in (".", "("):
            return self._named()
        self.index = index + 1
        return Literal(_CONSTANTS[kind], self.tokens[index], self.starts[index])

    def _clock(self) -> Expression:
        """`CURRENT_TIMESTAMP`, and the like, without parentheses."""
        index = self.index
        if self.kinds[index + 1] in (".", "("):
            return self._named()
        self.index = index + 1
        return Call(self.kinds[index], None, at=self.starts[index])

    def _parameter(self) -> Expression:
        token, at = self.tokens[self.index], self.starts[self.index]
        if token[0] != "?":
            self.index += 1
            return Parameter(token[1:], at)
        digits = token[1:].lstrip("0")
        if len(token) == 1:
            number = self.last_number + 1
        elif not digits:
            raise self.fault("parameters are numbered from 1")
        else:
            number = int(digits) if len(digits) <= len(str(MAX_PARAMETER)) else MAX_PARAMETER + 1
        if number > MAX_PARAMETER:
            raise self.too_large(f"parameters are numbered from 1 to {MAX_PARAMETER}")
        if number > self.last_number:
            self.last_number = number
        self.index += 1
        return Parameter(number, at)

    def _named(self) -> Expression:
        """A column, or the call of a function."""
        index = self.index
        following = self.kinds[index + 1]
        if following == "(":
            return self.call()
        if following == ".":
            return self._qualified()
        token, at = self.tokens[index], self.starts[index]
        end = at + len(token)
        if self.kinds[index] == "quoted":
            token = self.unquoted(token)
            self.index = index + 1
            return Column(token, "", "", True, at, end)
        self.index = index + 1
        return Column(token, "", "", False, at, end)

    def _reserved(self) -> Expression:
        """A reserved word is a name if a dot follows."""
        if self.kinds[self.index + 1] != ".":
            raise self.unexpected("a value")
        return self._qualified()

    def _qualified(self) -> Expression:
        """`t.c`, `db.t.c`."""
        index = self.index
        first = self.name_behind_dot()
        self.index += 1
        second = self.name_behind_dot()
        if self.kinds[self.index] != ".":
            third, table, database = second, first, ""
        else:
            self.index += 1
            third, table, database = self.name_behind_dot(), second, first
            if self.kinds[self.index] == ".":
                raise self.fault("a column is written column, table.column or database.table.column")
        is_quoted = "quoted" in self.kinds[index : self.index]
        return Column(third, table, database, is_quoted, self.starts[index], self.last_end)


_CONSTANTS = {"NULL": None, "TRUE": True, "FALSE": False}

_LIST_MARKS = frozenset((",", ")"))
_LITERALS: dict[str, Callable[[Any], Expression]] = {"number": OperandParser._number, "text": OperandParser._text}
OPERANDS: dict[str, Callable[[Any], Expression]] = {
    **dict.fromkeys(WORDS - NAMES, OperandParser._reserved),
    **dict.fromkeys(NAMES, OperandParser._named),
    **dict.fromkeys(_CONSTANTS, OperandParser._constant),
    **dict.fromkeys(CLOCKS, OperandParser._clock),
    **_LITERALS,
    "blob": OperandParser._blob,
    "parameter": OperandParser._parameter,
    "(": OperandParser._parenthesis,
    "EXISTS": OperandParser._exists,
    "CASE": OperandParser._case,
}
del OPERANDS["NOT"]
