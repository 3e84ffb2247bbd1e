"""A tree -> SQL: `parse(print_statement(tree)) == tree` for every tree that `parse` makes (spec: sql §2).

All names are quoted, so that none is taken for a word. Parentheses stand where an operand binds less tightly than the operator that has it.

`Printer` has a method for each node; a class below it prints other names, other literals, or other nodes (`METHODS`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import ClassVar

from svc.sql import expressions, nodes
from svc.sql.expressions import PRECEDENCES, PRIMARY
from svc.sql.limits import MAX_INTEGER
from svc.sql.nodes import Expression, OrderTerm, Query, Select, SelectItem, Source, Star, Statement, Values, Window


def print_statement(statement: Statement) -> str:
    """
    >>> from svc.sql.parser import parse
    >>> print_statement(parse("select a from data.t where (a+1)*2 == 6 -- three"))
    'SELECT "a" FROM "data"."t" WHERE ("a" + 1) * 2 = 6'

    Raises ValueError for floats that are not finite, which the language cannot say.
    """
    return Printer().statement(statement)


class Printer:
    """Methods take a node and return its text, without blanks around it."""

    METHODS: ClassVar[Mapping[type, str]] = {
        nodes.Literal: "literal", nodes.Parameter: "parameter", nodes.Column: "column", nodes.Unary: "unary", nodes.Binary: "binary",
        nodes.Match: "match", nodes.Between: "between", nodes.In: "in_list", nodes.IsNull: "is_null", nodes.Exists: "exists",
        nodes.Subquery: "subquery", nodes.Case: "case", nodes.Cast: "cast", nodes.Collate: "collate", nodes.RowValue: "row_value", nodes.Call: "call",
        nodes.TableRef: "table", nodes.SubqueryRef: "subquery_table", nodes.TableFunction: "table_function", nodes.Join: "join",
        nodes.Select: "select", nodes.Values: "values", nodes.SelectItem: "select_item", nodes.Star: "star", nodes.Query: "query",
        nodes.Insert: "insert", nodes.Update: "update", nodes.Delete: "delete", nodes.Explain: "explain",
    }  # fmt: skip
    COMMA = ", "

    def print(self, node: object) -> str:
        text: str = getattr(self, self.METHODS[type(node)])(node)
        return text

    def statement(self, node: Statement) -> str:
        return self.print(node)

    # --- names and values -----------------------------------------------------------------------------------------------------------------

    def name(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def names(self, names: Iterable[str]) -> str:
        return self.COMMA.join(map(self.name, names))

    def qualified(self, *names: str) -> str:
        """Names with dots between them; empty ones are left out."""
        return ".".join(self.name(name) for name in names if name)

    def aliased(self, text: str, alias: str) -> str:
        return f"{text} AS {self.name(alias)}" if alias else text

    def literal(self, node: nodes.Literal) -> str:
        value = node.value
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, str):
            return self.special_literal(value) if "\0" in value else "'" + value.replace("'", "''") + "'"
        if isinstance(value, int):
            return str(value) if -MAX_INTEGER - 1 <= value <= MAX_INTEGER else self.special_literal(value)
        if isinstance(value, float):
            return repr(value) if isfinite(value) else self.special_literal(value)
        return f"x'{value.hex()}'"

    def special_literal(self, value: str | int | float) -> str:
        """A text with the character NUL, an integer beyond 64 bits, a float that is not finite: SQLite has no literals for these, our language for two."""
        if isinstance(value, str):
            return "'" + value.replace("'", "''") + "'"
        if isinstance(value, float):
            raise ValueError(f"no literal for {value}")
        return str(value)

    def parameter(self, node: nodes.Parameter) -> str:
        return f"?{node.name}" if isinstance(node.name, int) else f":{node.name}"

    def column(self, node: nodes.Column) -> str:
        return self.qualified(node.database, node.table, node.name)

    # --- operators ------------------------------------------------------------------------------------------------------------------------

    def operand(self, node: Expression, least: int) -> str:
        """In parentheses, if it binds less tightly than `least`."""
        text = self.print(node)
        return f"({text})" if self.precedence(node) < least else text

    def precedence(self, node: Expression) -> int:
        kind = type(node)
        if isinstance(node, nodes.Binary):
            return PRECEDENCES[node.operator]
        if isinstance(node, nodes.Unary):
            return expressions.NOT if node.operator == "NOT" else expressions.PREFIX
        return _PRECEDENCES.get(kind, PRIMARY)

    def unary(self, node: nodes.Unary) -> str:
        if node.operator == "NOT":
            return "NOT " + self.operand(node.operand, expressions.NOT)
        operand = self.operand(node.operand, expressions.PREFIX)
        blank = " " if operand[0] in "-+" else ""  # `--` is a comment
        return f"{node.operator}{blank}{operand}"

    def binary(self, node: nodes.Binary) -> str:
        precedence = PRECEDENCES[node.operator]
        return f"{self.operand(node.left, precedence)} {node.operator} {self.operand(node.right, precedence + 1)}"

    def match(self, node: nodes.Match) -> str:
        text = f"{self._compared(node.left)} {_NOT[node.is_negated]}{node.operator} {self._compared(node.right, 1)}"
        return text if node.escape is None else f"{text} ESCAPE {self._compared(node.escape, 1)}"

    def between(self, node: nodes.Between) -> str:
        low, high = self._compared(node.low, 1), self._compared(node.high, 1)
        return f"{self._compared(node.operand)} {_NOT[node.is_negated]}BETWEEN {low} AND {high}"

    def in_list(self, node: nodes.In) -> str:
        items = self.print(node.items) if isinstance(node.items, Query) else self.list(node.items)
        return f"{self._compared(node.operand)} {_NOT[node.is_negated]}IN ({items})"

    def is_null(self, node: nodes.IsNull) -> str:
        return f"{self._compared(node.operand)} IS {_NOT[node.is_negated]}NULL"

    def collate(self, node: nodes.Collate) -> str:
        return f"{self.operand(node.operand, expressions.COLLATE)} COLLATE {self.name(node.name)}"

    def _compared(self, node: Expression, more: int = 0) -> str:
        return self.operand(node, expressions.EQUALITY + more)

    # --- other expressions ----------------------------------------------------------------------------------------------------------------

    def list(self, items: Iterable[object]) -> str:
        return self.COMMA.join(map(self.print, items))

    def row_value(self, node: nodes.RowValue) -> str:
        return f"({self.list(node.items)})"

    def exists(self, node: nodes.Exists) -> str:
        return f"EXISTS ({self.print(node.query)})"

    def subquery(self, node: nodes.Subquery) -> str:
        return f"({self.print(node.query)})"

    def case(self, node: nodes.Case) -> str:
        parts = ["CASE"]
        if node.operand is not None:
            parts.append(self.print(node.operand))
        parts.extend(f"WHEN {self.print(condition)} THEN {self.print(value)}" for condition, value in node.whens)
        if node.otherwise is not None:
            parts.append(f"ELSE {self.print(node.otherwise)}")
        return " ".join([*parts, "END"])

    def cast(self, node: nodes.Cast) -> str:
        if not node.is_convert:
            return f"CAST({self.print(node.operand)} AS {node.type})"
        style = () if node.style is None else (self.print(node.style),)
        return f"CONVERT({self.COMMA.join((node.type, self.print(node.operand), *style))})"

    def call(self, node: nodes.Call) -> str:
        if node.args is None:
            return self.function_name(node)
        args = "*" if node.is_star else self.list(node.args)
        if node.is_distinct:
            args = f"DISTINCT {args}"
        if node.order_by:
            args += " " + self.order_by(node.order_by)
        text = f"{self.function_name(node)}({args})"
        if node.where is not None:
            text += f" FILTER (WHERE {self.print(node.where)})"
        if node.over is not None:
            text += " OVER " + (self.name(node.over) if isinstance(node.over, str) else self.window(node.over))
        return text

    def function_name(self, node: nodes.Call) -> str:
        return node.name

    def order_by(self, terms: Iterable[OrderTerm]) -> str:
        return "ORDER BY " + self.COMMA.join(map(self.order_term, terms))

    def order_term(self, node: OrderTerm) -> str:
        nulls = f" NULLS {node.nulls}" if node.nulls else ""
        return f"{self.print(node.expression)}{' DESC' if node.is_descending else ''}{nulls}"

    def window(self, node: Window) -> str:
        parts = [self.name(node.base)] if node.base else []
        if node.partition_by:
            parts.append(f"PARTITION BY {self.list(node.partition_by)}")
        if node.order_by:
            parts.append(self.order_by(node.order_by))
        if node.frame is not None:
            parts.append(self.frame(node.frame))
        return f"({' '.join(parts)})"

    def frame(self, node: nodes.Frame) -> str:
        ends = self.bound(node.start) if node.end is None else f"BETWEEN {self.bound(node.start)} AND {self.bound(node.end)}"
        return f"{node.unit} {ends}" + (f" EXCLUDE {node.exclude}" if node.exclude else "")

    def bound(self, node: nodes.Bound) -> str:
        # Of an offset that binds less tightly than AND the end of the frame would be a part.
        return node.kind if node.offset is None else f"{self._compared(node.offset)} {node.kind}"

    # --- queries --------------------------------------------------------------------------------------------------------------------------

    def query(self, node: Query) -> str:
        parts = [self.common_tables(node.tables, node.is_recursive), self.print(node.first)]
        for operator, part in node.others:
            parts += (operator, self.print(part))
        return _joined(*parts, *self._order_and_limit(node))

    def common_tables(self, tables: tuple[nodes.CommonTable, ...], is_recursive: bool) -> str:
        """With a blank behind it, unless there are none."""
        return f"WITH {'RECURSIVE ' if is_recursive else ''}{self.COMMA.join(map(self.common_table, tables))}" if tables else ""

    def common_table(self, node: nodes.CommonTable) -> str:
        columns = f" ({self.names(node.columns)})" if node.columns else ""
        materialized = "" if node.is_materialized is None else _NOT[not node.is_materialized] + "MATERIALIZED "
        return f"{self.name(node.name)}{columns} AS {materialized}({self.print(node.query)})"

    def _order_and_limit(self, node: Query | nodes.Update | nodes.Delete) -> Iterable[str]:
        if node.order_by:
            yield self.order_by(node.order_by)
        if node.limit is not None:
            yield f"LIMIT {self.print(node.limit)}"
        if node.offset is not None:
            yield f"OFFSET {self.print(node.offset)}"

    def select(self, node: Select) -> str:
        top = "" if node.top is None else f"TOP ({self.print(node.top)})"
        return _joined(
            "SELECT DISTINCT" if node.is_distinct else "SELECT",
            top,
            self.list(node.items),
            "" if node.source is None else f"FROM {self.print(node.source)}",
            self.where(node.where),
            self.grouping(node.group_by) if node.group_by else "",
            "" if node.having is None else self.having(node.having),
            self.windows(node.windows) if node.windows else "",
        )

    def where(self, node: Expression | None) -> str:
        return "" if node is None else f"WHERE {self.print(node)}"

    def grouping(self, terms: Iterable[Expression]) -> str:
        return f"GROUP BY {self.list(terms)}"

    def having(self, condition: Expression) -> str:
        return f"HAVING {self.print(condition)}"

    def windows(self, windows: Iterable[tuple[str, Window]]) -> str:
        return "WINDOW " + self.COMMA.join(f"{self.name(name)} AS {self.window(window)}" for name, window in windows)

    def values(self, node: Values) -> str:
        return "VALUES " + self.COMMA.join(f"({self.list(row)})" for row in node.rows)

    def select_item(self, node: SelectItem) -> str:
        return self.aliased(self.print(node.expression), node.alias)

    def star(self, node: Star) -> str:
        return self.qualified(node.database, node.table) + ".*" if node.table else "*"

    def table(self, node: nodes.TableRef) -> str:
        return self.aliased(self.qualified(node.database, node.name), node.alias)

    def subquery_table(self, node: nodes.SubqueryRef) -> str:
        return self.aliased(f"({self.print(node.query)})", node.alias)

    def table_function(self, node: nodes.TableFunction) -> str:
        return self.aliased(f"{self.name(node.name)}({self.list(node.args)})", node.alias)

    def join(self, node: nodes.Join) -> str:
        return f"{self.print(node.left)}{self.join_operator(node)}{self._joined_table(node.right)}{self.join_constraint(node)}"

    def join_operator(self, node: nodes.Join) -> str:
        if node.kind == ",":
            return self.COMMA
        return f" {'NATURAL ' if node.is_natural else ''}{'' if node.kind == 'INNER' else node.kind + ' '}JOIN "

    def join_constraint(self, node: nodes.Join) -> str:
        if node.on is not None:
            return f" ON {self.print(node.on)}"
        return f" USING ({self.names(node.using)})" if node.using else ""

    def _joined_table(self, node: Source) -> str:
        return f"({self.print(node)})" if isinstance(node, nodes.Join) else self.print(node)

    # --- statements -----------------------------------------------------------------------------------------------------------------------

    def explain(self, node: nodes.Explain) -> str:
        return "EXPLAIN " + self.print(node.statement)

    def insert(self, node: nodes.Insert) -> str:
        columns = f" ({self.names(node.columns)})" if node.columns else ""
        return _joined(
            self.common_tables(node.tables, node.is_recursive),
            f"INSERT INTO {self.print(node.table)}{columns}",
            "DEFAULT VALUES" if node.source is None else self.print(node.source),
            *map(self.conflict, node.conflicts),
            self.returning(node.returning),
        )

    def conflict(self, node: nodes.Conflict) -> str:
        return _joined(
            "ON CONFLICT",
            f"({self.names(node.columns)})" if node.columns else "",
            self.where(node.target_where),
            f"DO UPDATE SET {self.assignments(node.assignments)}" if node.assignments else "DO NOTHING",
            self.where(node.where),
        )

    def assignments(self, assignments: Iterable[nodes.Assignment]) -> str:
        return self.COMMA.join(map(self.assignment, assignments))

    def assignment(self, node: nodes.Assignment) -> str:
        columns = self.name(node.columns[0]) if len(node.columns) == 1 else f"({self.names(node.columns)})"
        return f"{columns} = {self.print(node.value)}"

    def update(self, node: nodes.Update) -> str:
        return _joined(
            self.common_tables(node.tables, node.is_recursive),
            f"UPDATE {self.print(node.table)} SET {self.assignments(node.assignments)}",
            "" if node.source is None else f"FROM {self.print(node.source)}",
            self.where(node.where),
            self.returning(node.returning),
            *self._order_and_limit(node),
        )

    def delete(self, node: nodes.Delete) -> str:
        return _joined(
            self.common_tables(node.tables, node.is_recursive),
            f"DELETE FROM {self.print(node.table)}",
            self.where(node.where),
            self.returning(node.returning),
            *self._order_and_limit(node),
        )

    def returning(self, items: tuple[SelectItem | Star, ...]) -> str:
        return f"RETURNING {self.list(items)}" if items else ""


def _joined(*parts: str) -> str:
    """With blanks between them; empty ones are left out."""
    return " ".join(part for part in parts if part)


_NOT = ("", "NOT ")
_PRECEDENCES: dict[type, int] = {
    **dict.fromkeys((nodes.Match, nodes.Between, nodes.In, nodes.IsNull), expressions.EQUALITY),
    nodes.Collate: expressions.COLLATE,
}
