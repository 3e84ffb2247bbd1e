"""A bound tree -> SQLite's SQL (spec: sql §2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from svc.errors import QueryError
from svc.sql.binding.bound_nodes import BoundCall, BoundTable, ExactLiteral, ExactParameter, GivenLiteral, ResolvedColumn
from svc.sql.binding.faces import is_64_bits
from svc.sql.binding.relations import BoundSelect, Relation
from svc.sql.nodes import Expression, Literal, OrderTerm, Parameter, SelectItem, Statement, Values, Window
from svc.sql.printer import Printer

_CONSTANT = re.compile(
    "\0([0-9]+)\0"
)  # the place of a constant, until it is known how many parameters there are; no literal has the character NUL
_MOST_GIVEN = 256  # literals of a statement that become parameters


class SqlitePrinter(Printer):
    """`parameters`: (number or name in the statement, whether its exact value is meant) of each parameter of the text. `constants`: values that are given as
    further parameters, because SQLite has no literal for them, or because of a `GivenLiteral`.

    A `GivenLiteral` is a parameter in conditions only: SQLite tells by their text which expressions of select lists, GROUP BY, HAVING, ORDER BY and windows
    are the same, so whatever is in these is printed with its literals.
    """

    METHODS: ClassVar = {
        **Printer.METHODS,
        ResolvedColumn: "resolved_column",
        BoundCall: "call",
        ExactParameter: "parameter",
        ExactLiteral: "literal",
        GivenLiteral: "given_literal",
        BoundSelect: "select",
        Relation: "query",
        BoundTable: "table",
    }

    def __init__(self) -> None:
        self.constants: list[object] = []
        self._numbers: dict[tuple[int | str, bool], int] = {}
        self._quoted = _Quoted()
        self._places: list[int | None] = []
        self._kept: set[int] = set()  # places of given literals that are literals somewhere
        self._given = 0
        self._compared_by_text = 0  # levels of clauses whose expressions are

    @property
    def parameters(self) -> list[tuple[int | str, bool]]:
        return list(self._numbers)

    @property
    def holes(self) -> tuple[int | None, ...]:
        return tuple([None if place in self._kept else place for place in self._places])

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
        return self._constant(value, None)

    def given_literal(self, node: GivenLiteral) -> str:
        if self._compared_by_text or self._given >= _MOST_GIVEN:
            self._kept.add(node.at)
            return self.literal(node)
        self._given += 1
        return self._constant(node.value, node.at)

    def _constant(self, value: object, place: int | None) -> str:
        self.constants.append(value)
        self._places.append(place)
        return f"\0{len(self.constants) - 1}\0"

    # --- clauses whose expressions are compared by their text -----------------------------------------------------------------------------

    def select_item(self, node: SelectItem) -> str:
        return self._by_text(super().select_item, node)

    def grouping(self, terms: Iterable[Expression]) -> str:
        return self._by_text(super().grouping, terms)

    def having(self, condition: Expression) -> str:
        return self._by_text(super().having, condition)

    def order_by(self, terms: Iterable[OrderTerm]) -> str:
        return self._by_text(super().order_by, terms)

    def windows(self, windows: Iterable[tuple[str, Window]]) -> str:
        return self._by_text(super().windows, windows)

    def values(self, node: Values) -> str:
        return self._by_text(super().values, node)

    def _by_text(self, clause: Callable[[Any], str], part: Any) -> str:
        self._compared_by_text += 1
        text = clause(part)
        self._compared_by_text -= 1
        return text


class _Quoted(dict[str, str]):
    """Each name in double quotes."""

    def __missing__(self, name: str) -> str:
        quoted = self[name] = '"' + name.replace('"', '""') + '"'
        return quoted
