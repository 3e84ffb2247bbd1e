"""A bound tree -> SQLite's SQL (spec: sql §2)."""

from __future__ import annotations

import re
from typing import ClassVar

from svc.errors import QueryError
from svc.sql.binding.bound_nodes import BoundCall, BoundTable, ExactLiteral, ExactParameter, ResolvedColumn
from svc.sql.binding.faces import is_64_bits
from svc.sql.binding.relations import BoundSelect, Relation
from svc.sql.nodes import Literal, Parameter, Statement
from svc.sql.printer import Printer

_CONSTANT = re.compile(
    "\0([0-9]+)\0"
)  # the place of a constant, until it is known how many parameters there are; no literal has the character NUL


class SqlitePrinter(Printer):
    """`parameters`: (number or name in the statement, whether its exact value is meant) of each parameter of the text. `constants`: values that are given as
    further parameters, because SQLite has no literal for them."""

    METHODS: ClassVar = {
        **Printer.METHODS,
        ResolvedColumn: "resolved_column",
        BoundCall: "call",
        ExactParameter: "parameter",
        ExactLiteral: "literal",
        BoundSelect: "select",
        Relation: "query",
        BoundTable: "table",
    }

    def __init__(self) -> None:
        self.constants: list[object] = []
        self._numbers: dict[tuple[int | str, bool], int] = {}
        self._quoted = _Quoted()

    @property
    def parameters(self) -> list[tuple[int | str, bool]]:
        return list(self._numbers)

    def statement(self, node: Statement) -> str:
        text = super().statement(node)
        if self.constants:
            first = len(self._numbers) + 1
            text = _CONSTANT.sub(lambda found: f"?{first + int(found[1])}", text)
        return text

    def name(self, name: str) -> str:
        return self._quoted[name]

    def resolved_column(self, node: ResolvedColumn) -> str:
        return f"{self._quoted[node.table]}.{self._quoted[node.name]}"

    def parameter(self, node: Parameter) -> str:
        return f"?{self._numbers.setdefault((node.name, type(node) is ExactParameter), len(self._numbers) + 1)}"

    def literal(self, node: Literal) -> str:
        value = node.value
        if isinstance(value, bool):
            return "1" if value else "0"  # TRUE is a column where there is one of this name
        if isinstance(value, int) and not is_64_bits(value):
            message = f"the integer {str(value)[:60]} has more than 64 bits: it can be compared with a column, or be a result, but not be computed with"
            raise QueryError(message, code="BAD_VALUE", position=node.at if node.at >= 0 else None)
        return super().literal(node)

    def special_literal(self, value: str | int | float) -> str:
        if isinstance(value, float):
            return "NULL" if value != value else "9e999" if value > 0 else "-9e999"
        self.constants.append(value)
        return f"\0{len(self.constants) - 1}\0"


class _Quoted(dict[str, str]):
    """Each name in double quotes."""

    def __missing__(self, name: str) -> str:
        quoted = self[name] = '"' + name.replace('"', '""') + '"'
        return quoted
