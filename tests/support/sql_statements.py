"""Statements of SQL that svc and SQLite have to answer alike: a grammar for Hypothesis, over three tables that both have (spec: sql §10).

What differs by decision is not in it: columns that are neither grouped nor aggregated, comparisons of booleans with texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from svc.store.schema import Attribute, TableDefinition

Draw = Callable[[st.SearchStrategy[Any]], Any]

DEFINITIONS = (
    TableDefinition(
        "Author",
        attributes=(
            Attribute("id", "ID", primary_key=True),
            Attribute("name", "String", indexed=True),
            Attribute("born", "Int", indexed=True),
            Attribute("rating", "Float"),
            Attribute("active", "Boolean", indexed=True),
        ),
    ),
    TableDefinition(
        "Book",
        attributes=(
            Attribute("id", "Int", primary_key=True),
            Attribute("title", "String"),
            Attribute("author", "ID", indexed=True),
            Attribute("year", "Int", indexed=True),
            Attribute("price", "Float", indexed=True),
            Attribute("published", "Date", indexed=True),
            Attribute("tags", "String", elements=True),
        ),
    ),
    TableDefinition(
        "Loose", attributes=(Attribute("id", "ID", primary_key=True), Attribute("a", "Any", indexed=True), Attribute("b", "Any"))
    ),
)


@dataclass(frozen=True)
class TestTable:
    """`columns`: name -> `text`, `number`, `flag`, `date`, `json` or `any`. `affinity`: of SQLite's columns."""

    __test__ = False

    name: str
    columns: dict[str, str]
    affinity: dict[str, str]


AUTHOR = TestTable(
    "Author",
    {"id": "text", "name": "text", "born": "number", "rating": "number", "active": "flag"},
    {"id": "TEXT", "name": "TEXT", "born": "INTEGER", "rating": "REAL", "active": ""},
)
BOOK = TestTable(
    "Book",
    {"id": "number", "title": "text", "author": "text", "year": "number", "price": "number", "published": "date", "tags": "json"},
    {"id": "INTEGER", "title": "TEXT", "author": "TEXT", "year": "INTEGER", "price": "REAL", "published": "TEXT", "tags": ""},
)
LOOSE = TestTable("Loose", {"id": "text", "a": "any", "b": "any"}, {"id": "TEXT", "a": "", "b": ""})
TABLES = (AUTHOR, BOOK, LOOSE)

_TEXTS = ("", "a", "B", "ab", "Ab", "zz", "10", "ä")
_NUMBERS = ("0", "1", "2", "-1", "3", "10", "1.5", "-0.25", "1900", "2000")
_DATES = ("'2020-01-01T00:00:00.000Z'", "'2020-01-01'", "'2021'", "'1999-12-31T23:59:59.999Z'")


@dataclass
class Scope:
    """The columns that expressions may name: (text, type)."""

    columns: list[tuple[str, str]]

    def of(self, *kinds: str) -> list[str]:
        return [name for name, kind in self.columns if kind in kinds]


class Statements:
    """Draws one statement. `names` counts aliases, so that each is another one."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._aliases = 0

    def pick(self, choices: Sequence[Any]) -> Any:
        return self._draw(st.sampled_from(choices))

    def chance(self, percent: int) -> bool:
        return bool(self._draw(st.integers(0, 99)) < percent)

    def count(self, low: int, high: int) -> int:
        return int(self._draw(st.integers(low, high)))

    def alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases}"

    # -- expressions

    def number(self, scope: Scope, depth: int) -> str:
        columns = scope.of("number", "any")
        kind = self.count(0, 9) if depth > 0 else self.count(0, 3)
        if kind <= 1 and columns:
            return str(self.pick(columns))
        if kind <= 3:
            return str(self.pick(_NUMBERS))
        if kind == 4:
            return f"({self.number(scope, depth - 1)} {self.pick('+-*/%')} {self.number(scope, depth - 1)})"
        if kind == 5:
            return f"{self.pick(('ABS', 'ROUND', 'COALESCE'))}({self.number(scope, depth - 1)}{''})".replace("COALESCE(", "COALESCE(NULL, ")
        if kind == 6:
            return f"LENGTH({self.text(scope, depth - 1)})"
        if kind == 7:
            return f"CASE WHEN {self.condition(scope, depth - 1)} THEN {self.number(scope, depth - 1)} ELSE {self.number(scope, depth - 1)} END"
        if kind == 8:
            return f"IFNULL({self.number(scope, depth - 1)}, {self.pick(_NUMBERS)})"
        return f"-({self.number(scope, depth - 1)})"

    def text(self, scope: Scope, depth: int) -> str:
        columns = scope.of("text", "any")
        kind = self.count(0, 6) if depth > 0 else self.count(0, 2)
        if kind <= 1 and columns:
            return str(self.pick(columns))
        if kind <= 2:
            return f"'{self.pick(_TEXTS)}'"
        if kind == 3:
            return f"({self.text(scope, depth - 1)} || {self.text(scope, depth - 1)})"
        if kind == 4:
            return f"{'HEX'}({self.text(scope, depth - 1)})"
        if kind == 5:
            return f"SUBSTR({self.text(scope, depth - 1)}, {self.count(1, 3)}, {self.count(1, 2)})"
        return f"REPLACE({self.text(scope, depth - 1)}, 'a', 'x')"

    def condition(self, scope: Scope, depth: int) -> str:
        kind = self.count(0, 15) if depth > 0 else self.count(3, 12)
        dates, flags, any_columns = scope.of("date"), scope.of("flag"), [name for name, _ in scope.columns]
        if kind <= 1:
            return f"({self.condition(scope, depth - 1)} {self.pick(('AND', 'OR'))} {self.condition(scope, depth - 1)})"
        if kind == 2:
            return f"NOT ({self.condition(scope, depth - 1)})"
        if kind == 3 and dates:
            return f"{self.pick(dates)} {self.comparison()} {self.pick(_DATES)}"
        if kind == 4 and flags:
            return f"{self.pick(flags)} = {self.pick(('1', '0', 'TRUE', 'FALSE'))}"
        if kind == 5:
            return f"{self.pick(any_columns)} IS {self.pick(('NULL', 'NOT NULL'))}" if any_columns else "1"
        if kind == 6:
            return f"{self.text(scope, 0)} {self.pick(('LIKE', 'NOT LIKE', 'GLOB'))} '{self.pick(('a%', 'A_', '%b%', 'z*', '%', 'ab'))}'"
        if kind == 7:
            low, high = self.number(scope, 0), self.number(scope, 0)
            return f"{self.number(scope, 0)} {self.pick(('BETWEEN', 'NOT BETWEEN'))} {low} AND {high}"
        if kind == 8:
            items = ", ".join([self.number(scope, 0) for _ in range(self.count(1, 4))])
            return f"{self.number(scope, 0)} {self.pick(('IN', 'NOT IN'))} ({items})"
        if kind == 9:
            items = ", ".join([f"'{self.pick(_TEXTS[:-2])}x'" for _ in range(self.count(1, 3))])
            return f"{self.text(scope, 0)} IN ({items})"
        if kind == 10:
            return f"{self.text(scope, depth - 1)} {self.comparison()} {self.text(scope, depth - 1)}"
        if kind == 13:
            return f"{self.number(scope, 0)} {self.pick(('IN', 'NOT IN'))} ({self.column_query('number', scope, depth - 1)})"
        if kind == 14:
            return f"{self.pick(('EXISTS', 'NOT EXISTS'))} ({self.column_query('number', scope, depth - 1)})"
        if kind == 15:
            return f"{self.number(scope, 0)} {self.comparison()} ({self.scalar_query(scope, depth - 1)})"
        return f"{self.number(scope, depth - 1)} {self.comparison()} {self.number(scope, depth - 1)}"

    def comparison(self) -> str:
        return str(self.pick(("=", "<>", "<", "<=", ">", ">=", "IS", "IS NOT")))

    # -- queries as values

    def column_query(self, kind: str, outer: Scope, depth: int) -> str:
        table = self.pick(TABLES)
        alias = self.alias()
        scope = Scope([(f"{alias}.{name}", kind) for name, kind in table.columns.items()])
        inner = Scope(scope.columns + outer.columns) if self.chance(40) else scope
        value = self.number(scope, 0)
        return f"SELECT {value} FROM data.{table.name} AS {alias} WHERE {self.condition(inner, max(depth, 0))}"

    def scalar_query(self, outer: Scope, depth: int) -> str:
        table = self.pick(TABLES)
        alias = self.alias()
        scope = Scope([(f"{alias}.{name}", kind) for name, kind in table.columns.items()])
        inner = Scope(scope.columns + outer.columns) if self.chance(40) else scope
        value = f"{self.pick(('COUNT', 'MIN', 'MAX', 'SUM'))}({self.number(scope, 0)})"
        return f"SELECT {value} FROM data.{table.name} AS {alias} WHERE {self.condition(inner, max(depth, 0))}"

    # -- sources

    def source(self, depth: int, is_joined: bool = False) -> tuple[str, Scope]:
        """(text, its columns)"""
        if depth > 0 and self.chance(25):
            alias = self.alias()
            query, kinds = self.plain(depth - 1)
            return f"({query}) AS {alias}", Scope([(f"{alias}.c{number}", kind) for number, kind in enumerate(kinds)])
        table = self.pick(TABLES)
        alias = self.alias()
        return f"data.{table.name} AS {alias}", Scope([(f"{alias}.{name}", kind) for name, kind in table.columns.items()])

    def sources(self, depth: int) -> tuple[str, Scope]:
        text, scope = self.source(depth)
        for _ in range(self.pick((0, 0, 0, 1, 1, 2))):
            other, more = self.source(depth - 1)
            kind = self.pick(("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", ","))
            both = Scope(scope.columns + more.columns)
            text += f"{kind} {other}" if kind == "," else f" {kind} {other}"
            if kind not in (",", "CROSS JOIN"):
                text += f" ON {self.joined(scope, more, both)}"
            scope = both
        return text, scope

    def joined(self, left: Scope, right: Scope, both: Scope) -> str:
        kind = self.pick(("text", "number", "any"))
        ones, others = left.of(kind, "any"), right.of(kind, "any")
        condition = f"{self.pick(ones)} = {self.pick(others)}" if ones and others else self.condition(both, 0)
        return f"{condition} AND {self.condition(both, 0)}" if self.chance(30) else condition

    # -- queries

    def plain(self, depth: int) -> tuple[str, list[str]]:
        """(a query whose columns are c0, c1 ..., the types of these)"""
        text, scope = self.sources(depth)
        kinds: list[str] = []
        items: list[str] = []
        for number in range(self.count(1, 3)):
            kind = self.pick(("number", "text", "column"))
            if kind == "column":
                name, kind = self.pick(scope.columns)
                items.append(f"{name} AS c{number}")
            else:
                value = self.number(scope, depth) if kind == "number" else self.text(scope, depth)
                items.append(f"{value} AS c{number}")
                kind = "any"
            kinds.append(kind)
        distinct = "DISTINCT " if self.chance(15) else ""
        where = f" WHERE {self.condition(scope, depth)}" if self.chance(70) else ""
        return f"SELECT {distinct}{', '.join(items)} FROM {text}{where}", kinds

    def grouped(self, depth: int) -> tuple[str, int]:
        """(a query with groups, the number of its columns)"""
        text, scope = self.sources(depth)
        keys = [self.pick(scope.columns)[0] for _ in range(self.count(0, 2))]
        items = [f"{key} AS c{number}" for number, key in enumerate(keys)]
        for _ in range(self.count(1, 3)):
            items.append(f"{self.aggregate(scope, depth)} AS c{len(items)}")
        where = f" WHERE {self.condition(scope, depth)}" if self.chance(50) else ""
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        having = f" HAVING {self.aggregate(scope, 0)} {self.comparison()} {self.pick(_NUMBERS)}" if keys and self.chance(30) else ""
        return f"SELECT {', '.join(items)} FROM {text}{where}{group}{having}", len(items)

    def aggregate(self, scope: Scope, depth: int) -> str:
        where = f" FILTER (WHERE {self.condition(scope, 0)})" if self.chance(15) else ""
        kind = self.count(0, 5)
        if kind == 0:
            return f"COUNT(*){where}"
        if kind == 1:
            return f"COUNT(DISTINCT {self.pick(scope.columns)[0]}){where}"
        if kind == 2:
            return f"{self.pick(('MIN', 'MAX'))}({self.text(scope, 0)}){where}"
        return f"{self.pick(('COUNT', 'SUM', 'TOTAL', 'MIN', 'MAX'))}({self.number(scope, 0)}){where}"

    def windowed(self, depth: int) -> tuple[str, int]:
        text, scope = self.source(depth)
        partition = f"PARTITION BY {self.pick(scope.columns)[0]} " if self.chance(60) else ""
        order = ", ".join([name for name, _ in scope.columns])
        frame = self.pick(("", "", " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", " GROUPS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"))
        function = self.pick(
            (
                "ROW_NUMBER()",
                "RANK()",
                f"SUM({self.number(scope, 0)})",
                "COUNT(*)",
                f"LAG({self.pick(scope.columns)[0]})",
                f"FIRST_VALUE({self.text(scope, 0)})",
            )
        )
        where = f" WHERE {self.condition(scope, depth)}" if self.chance(40) else ""
        column = self.pick(scope.columns)[0]
        return f"SELECT {column} AS c0, {function} OVER ({partition}ORDER BY {order}{frame}) AS c1 FROM {text}{where}", 2

    def statement(self) -> str:
        kind = self.count(0, 9)
        if kind <= 4:
            query, kinds = self.plain(2)
            columns = len(kinds)
        elif kind <= 6:
            query, columns = self.grouped(2)
        elif kind == 7:
            query, columns = self.windowed(1)
        elif kind == 8:
            left, right = self.grouped(1), self.grouped(1)
            if left[1] != right[1]:
                right = left
            query, columns = f"{left[0]} {self.pick(('UNION', 'UNION ALL', 'INTERSECT', 'EXCEPT'))} {right[0]}", left[1]
        else:
            inner, kinds = self.plain(1)
            alias = self.alias()
            scope = Scope([(f"{alias}.c{number}", each) for number, each in enumerate(kinds)])
            query = f"WITH w AS ({inner}) SELECT {self.number(scope, 1)} AS c0 FROM w AS {alias} WHERE {self.condition(scope, 1)}"
            columns = 1
        if self.chance(50):
            order = ", ".join([f"{number + 1}{self.pick(('', ' DESC', ' ASC NULLS LAST'))}" for number in range(columns)])
            query += f" ORDER BY {order}"
            if self.chance(50):
                query += f" LIMIT {self.count(0, 5)}"
                if self.chance(50):
                    query += f" OFFSET {self.count(0, 3)}"
        return query


@st.composite
def statements(draw: Draw) -> str:
    """A SELECT over Author, Book and Loose of the database `data`. Where its order is not total it has no LIMIT."""
    return Statements(draw).statement()
