"""Tokens -> queries: SELECT, VALUES, what joins them, and what they read (spec: sql §2)."""

from __future__ import annotations

from dataclasses import replace

from svc.errors import QueryError
from svc.sql.calls import CallParser
from svc.sql.limits import MAX_COLUMNS, MAX_COMPOUND, MAX_TABLES
from svc.sql.nodes import (
    CommonTable,
    Expression,
    Join,
    Query,
    Select,
    SelectItem,
    Source,
    Star,
    SubqueryRef,
    TableFunction,
    TableRef,
    Values,
    Window,
)
from svc.sql.operands import OPERANDS, QUERY_STARTS
from svc.sql.words import ALIASES, COMPOUNDS, JOINING, NAMES

_JOIN_STARTS = JOINING | {",", "JOIN"}
_DIRECTIONS = JOINING - {"NATURAL", "OUTER"}


class QueryParser(CallParser):
    __slots__ = ()

    def query(self) -> Query:
        return self.query_with(*self.common_tables())

    def query_with(self, tables: tuple[CommonTable, ...], is_recursive: bool) -> Query:
        """A query whose WITH has been read."""
        first = self._part()
        others: list[tuple[str, Select | Values]] = []
        last = first
        while self.kinds[self.index] in COMPOUNDS:
            operator = self.kinds[self.index]
            self.index += 1
            if operator == "UNION" and self.take("ALL"):
                operator = "UNION ALL"
            last = self._part()
            others.append((operator, last))
            if len(others) == MAX_COMPOUND:
                raise self.too_large(f"more than {MAX_COMPOUND} queries are joined by UNION, INTERSECT or EXCEPT")
        if self.kinds[self.index] in ("ORDER", "LIMIT") and isinstance(last, Values):
            raise self.fault("VALUES has no ORDER BY and no LIMIT: write SELECT * FROM (VALUES ...)")
        at = self.at
        order_by = self.order_terms()
        limit, offset = self.limits()
        if self.kinds[self.index] in COMPOUNDS and self.at > at:
            raise self.fault("ORDER BY and LIMIT belong behind the last SELECT", at)
        if limit is not None and not others and isinstance(first, Select) and first.top is not None:
            raise self.fault("TOP and LIMIT are the same", at)
        return Query(first, tuple(others), order_by, limit, offset, tables, is_recursive)

    def common_tables(self) -> tuple[tuple[CommonTable, ...], bool]:
        """WITH and its tables, and whether it is RECURSIVE; () if it does not come next."""
        if not self.take("WITH"):
            return (), False
        is_recursive = self.kinds[self.index + 1] not in ("AS", "(") and self.take("RECURSIVE")
        tables: list[CommonTable] = []
        while True:
            at = self.at
            name = self.name("the name of a common table expression")
            columns = self.names() if self.kinds[self.index] == "(" else ()
            self.need("AS")
            is_materialized: bool | None = None
            if self.take("MATERIALIZED"):
                is_materialized = True
            elif self.take("NOT"):
                self.need("MATERIALIZED")
                is_materialized = False
            query = self.nested_query()
            self.settle()
            tables.append(CommonTable(name, query, columns, is_materialized, at))
            if not self.another(len(tables)):
                break
        return tuple(tables), is_recursive

    def limits(self) -> tuple[Expression | None, Expression | None]:
        """LIMIT and OFFSET, in either form."""
        if not self.take("LIMIT"):
            if self.kinds[self.index] == "OFFSET":
                raise self.fault("OFFSET belongs behind LIMIT; LIMIT -1 is no limit")
            return None, None
        limit = self.expression()
        if self.take("OFFSET"):
            return limit, self.expression()
        if self.take(","):
            return self.expression(), limit
        return limit, None

    def _part(self) -> Select | Values:
        kind = self.kinds[self.index]
        if kind == "SELECT":
            return self._select()
        if kind == "VALUES":
            return self.values()
        if kind == "(" and self.kinds[self.index + 1] in ("SELECT", "(", "VALUES", "WITH"):
            raise self.fault("no parentheses here: a query in parentheses is a value or a table")
        raise self.unexpected("SELECT or VALUES")

    def values(self) -> Values:
        at = self.at
        self.index += 1
        rows: list[tuple[Expression, ...]] = []
        while True:
            row_at = self.at
            row = self.arguments(MAX_COLUMNS)
            if not row:
                raise self.fault("a row has at least one value", row_at)
            if rows and len(row) != len(rows[0]):
                raise self.uneven_rows(row_at)
            rows.append(row)
            if not self.take(","):
                break
        return Values(tuple(rows), at)

    def uneven_rows(self, at: int) -> QueryError:
        return self.fault("all rows of VALUES have the same number of values", at)

    # --- SELECT ---------------------------------------------------------------------------------------------------------------------------

    def _select(self) -> Select:
        at = self.at
        self.index += 1
        is_distinct = self.take("DISTINCT")
        if not is_distinct:
            self.take("ALL")
        top = self._top() if self.kinds[self.index] == "TOP" else None
        items = self.items()
        source: Source | None = None
        where: Expression | None = None
        having: Expression | None = None
        group_by: tuple[Expression, ...] = ()
        windows: tuple[tuple[str, Window], ...] = ()
        if self.take("FROM"):
            source = self.sources()
        if self.take("WHERE"):
            where = self.expression()
        if self.take("GROUP"):
            self.need("BY")
            group_by = tuple(self.expressions())
        if self.take("HAVING"):
            having = self.expression()
        if self._is_window_clause():
            windows = self._windows()
        return Select(items, source, where, group_by, having, is_distinct, windows, top, at)

    def _top(self) -> Expression | None:
        """`TOP n`, `TOP (n)`; None if this is a column."""
        following = self.kinds[self.index + 1]
        if following not in ("number", "parameter", "("):
            return None
        self.index += 1
        top = OPERANDS[following](self)
        self.settle()
        if self.kinds[self.index] == "name" and self.tokens[self.index].upper() == "PERCENT":
            raise self.fault("TOP takes a number of rows")
        return top

    def items(self) -> tuple[SelectItem | Star, ...]:
        """What SELECT or RETURNING lists."""
        items: list[SelectItem | Star] = []
        while True:
            items.append(self._item())
            if not self.another(len(items)):
                break
        return tuple(items)

    def _item(self) -> SelectItem | Star:
        kinds, index = self.kinds, self.index
        if kinds[index] == "*":
            self.index += 1
            return Star(at=self.starts[index])
        if kinds[index + 1] == ".":
            if kinds[index + 2] == "*":
                table = self.name_behind_dot()
                self.index += 2
                return Star(table, "", self.starts[index])
            if kinds[index + 3] == "." and kinds[index + 4] == "*":
                database = self.name_behind_dot()
                self.index += 1
                table = self.name_behind_dot()
                self.index += 2
                return Star(table, database, self.starts[index])
        return SelectItem(self.expression(), self.alias())

    def alias(self) -> str:
        """What stands behind AS, or a name without it; "" if there is none."""
        kind = self.kinds[self.index]
        if kind == "AS":
            self.index += 1
            if self.kinds[self.index] != "text":
                return self.name()
        elif kind not in ALIASES or self._is_window_clause():
            return ""
        elif kind != "text":
            return self._name()
        alias = self.tokens[self.index][1:-1].replace("''", "'")
        if not alias or "\0" in alias:
            raise self.fault("a name is empty, or contains the character NUL")
        self.index += 1
        return alias

    def _is_window_clause(self) -> bool:
        """WINDOW is a name, unless the name of a window and AS follow."""
        index = self.index
        return self.kinds[index] == "WINDOW" and self.kinds[index + 1] in NAMES and self.kinds[index + 2] == "AS"

    def _windows(self) -> tuple[tuple[str, Window], ...]:
        self.index += 1
        windows = []
        while True:
            name = self.name("the name of a window")
            self.need("AS")
            windows.append((name, self.window()))
            if not self.another(len(windows)):
                break
        return tuple(windows)

    # --- FROM -----------------------------------------------------------------------------------------------------------------------------

    def sources(self) -> Source:
        """What stands behind FROM."""
        counted = self.table_count
        self.table_count = 0
        source = self._joined()
        self.table_count = counted
        self.settle()
        return source

    def _joined(self) -> Source:
        """Tables and their joins, to the left; `height` is that of the result."""
        source = self._source()
        while self.kinds[self.index] in _JOIN_STARTS:
            at = self.at
            kind, is_natural = self._join_kind()
            height = self.height
            right = self._source()
            height = max(height, self.height)
            on: Expression | None = None
            using: tuple[str, ...] = ()
            is_constrained = self.kinds[self.index] == "USING" or (self.kinds[self.index] == "ON" and not self._is_conflict())
            if is_constrained and is_natural:
                raise self.fault("a NATURAL join has neither ON nor USING")
            if is_constrained and self.take("ON"):
                outer = self.open_level()
                on = self.expression()
                self.close_level(outer)
                height = max(height, self.height - 1)
            elif is_constrained:
                self.index += 1
                using = self.names()
            self.height = height + 1
            source = Join(source, right, kind, is_natural, on, using, at)
        return source

    def _is_conflict(self) -> bool:
        """ON CONFLICT of an INSERT from a query is no condition of a join."""
        return self.kinds[self.index + 1] == "CONFLICT" and self.kinds[self.index + 2] in ("(", "DO")

    def _join_kind(self) -> tuple[str, bool]:
        if self.take(","):
            return ",", False
        at = self.at
        words: list[str] = []
        while self.kinds[self.index] in JOINING:
            words.append(self.kinds[self.index])
            self.index += 1
        self.need("JOIN")
        kinds = [word for word in words if word in _DIRECTIONS]
        kind = kinds[0] if kinds else "INNER"
        is_outer = "OUTER" in words
        if len(kinds) > 1 or len(set(words)) < len(words) or (is_outer and kind in ("INNER", "CROSS")):
            raise self.fault("no such join: [NATURAL] [INNER | CROSS | LEFT [OUTER] | RIGHT [OUTER] | FULL [OUTER]] JOIN", at)
        return kind, "NATURAL" in words

    def _source(self) -> Source:
        if self.kinds[self.index] == "(":
            if self.kinds[self.index + 1] in QUERY_STARTS:
                at = self.at
                return self._counted(SubqueryRef(self.nested_query(), self.alias(), at))
            return self._nested_joins()
        at = self.at
        self.height = 0
        name, database = self.name("the name of a table"), ""
        if self.take("."):
            database, name = name, self.name_behind_dot()
            if self.kinds[self.index] == ".":
                raise self.fault("a table is written database.table")
        elif self.kinds[self.index] == "(":
            outer = self.open_level()
            args = self.arguments()
            self.close_level(outer)
            return self._counted(TableFunction(name.lower(), args, self.alias(), at))
        end = self.last_end
        source = TableRef(name, database, self.alias(), at, end)
        if self.kinds[self.index] == "INDEXED" or (self.kinds[self.index] == "NOT" and self.kinds[self.index + 1] == "INDEXED"):
            raise self.fault("INDEXED BY is not possible: indexes are chosen by the planner")
        return self._counted(source)

    def _counted(self, source: Source) -> Source:
        self.table_count += 1
        if self.table_count > MAX_TABLES:
            raise self.too_large(f"more than {MAX_TABLES} tables are joined")
        return source

    def _nested_joins(self) -> Source:
        """Joins in parentheses. With an alias they are a sub-select, as in SQLite; a single table has just another alias."""
        at = self.at
        self.index += 1
        outer = self.open_level()
        source = self._joined()
        self.settle()
        self.close_level(outer)
        self.need(")")
        alias = self.alias()
        if not alias:
            return source
        if isinstance(source, Join):
            self.height += 1
            return SubqueryRef(Query(Select((Star(),), source)), alias, at)
        return replace(source, alias=alias)
