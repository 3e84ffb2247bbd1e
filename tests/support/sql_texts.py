"""Statements made up at random, as a person or a program might write them: SQLite's own language, and what is written here only."""

from __future__ import annotations

import random

DATABASE = "data"
TABLES = ("t", "u", "Odd name")
COLUMNS = ("id", "a", "b", "key", "order", 'q"x', "left", "end")  # of each table
_RESERVED = {"order"}
_AGGREGATES = ("count", "SUM", "max", "MIN", "avg", "total", "group_concat")
_SCALARS = (
    ("abs", 1),
    ("Lower", 1),
    ("coalesce", 2),
    ("length", 1),
    ("ifnull", 2),
    ("nullif", 2),
    ("iif", 3),
    ("typeof", 1),
    ("replace", 3),
    ("hex", 1),
)
_BINARY = ("+", "-", "*", "/", "%", "||", "<", "<=", ">", ">=", "=", "==", "<>", "!=", "&", "|", "<<", ">>", "AND", "OR", "and", "Or", "IS", "IS NOT",
           "is distinct from", "IS NOT DISTINCT FROM", "->", "->>")  # fmt: skip
_POSTFIX = ("ISNULL", "NOTNULL", "NOT NULL", "IS NULL", "IS NOT NULL", "IS TRUE", "COLLATE nocase", 'COLLATE "BINARY"', "is not FALSE")
_JOINS = (
    ",",
    "JOIN",
    "inner join",
    "LEFT JOIN",
    "LEFT OUTER JOIN",
    "CROSS JOIN",
    "right JOIN",
    "FULL OUTER JOIN",
    "NATURAL JOIN",
    "NATURAL LEFT JOIN",
)
_NUMBERS = ("1", "2", "3", "10", "1.5", ".5", "2.", "1e3", "0x1F", "9223372036854775807", "-9223372036854775808", "1.5E-2")
_LITERALS = ("NULL", "'a'", "'it''s'", "''", "x'00Ff'", "TRUE", "FALSE", "'1'", "'[1,{\"a\":2}]'", "'$[0]'", "'é'")


class TextSource:
    """Statements over TABLES that SQLite parses, of random form; `dialect`: also what SQLite does not know."""

    def __init__(self, source: random.Random, *, dialect: bool = False, depth: int = 4) -> None:
        self._source = source
        self._dialect = dialect
        self._depth = depth
        self._has_columns = True
        # SQLite numbers those with names, too, counts `:p` and `@p` as two, and does not see that `?` and `?1` are one.
        self._parameters = source.choice((("?",), ("?1", "?2"), (":p", ":q"), ("@p",), ("$p",)))

    # --- small things ---------------------------------------------------------------------------------------------------------------------

    def _chance(self, probability: float) -> bool:
        return self._source.random() < probability

    def _one(self, *choices: str) -> str:
        return self._source.choice(choices)

    def _some(self, make: object, most: int = 3) -> str:
        assert callable(make)
        return self._one(", ", ",").join(make() for _ in range(self._source.randint(1, most)))

    def _maybe(self, text: str, probability: float = 0.3) -> str:
        return text if self._chance(probability) else ""

    def name(self, name: str) -> str:
        is_plain = name.isalnum() and name not in _RESERVED
        form = self._source.randrange(8)
        if form == 0 or not (is_plain or form < 3):
            return '"' + name.replace('"', '""') + '"'
        if form == 1:
            return "`" + name.replace("`", "``") + "`"
        if form == 2:
            return f"[{name}]"
        return name.upper() if form == 3 and name.isascii() else name

    def _table(self) -> str:
        name = self._source.choice(TABLES)
        return self.name(DATABASE) + "." + self.name(name) if self._chance(0.5) else self.name(name)

    def _column(self) -> str:
        if not self._has_columns:
            return self._one(*_LITERALS)
        column = self.name(self._source.choice(COLUMNS))
        prefix = self._source.randrange(10)
        if prefix == 0:
            return self.name("t") + "." + column
        return f"{self.name(DATABASE)}.t.{column}" if prefix == 1 and self._chance(0.3) else column

    # --- expressions ----------------------------------------------------------------------------------------------------------------------

    def expression(self) -> str:
        if self._depth <= 0 or self._chance(0.2):
            return self._leaf()
        self._depth -= 1
        kinds = [self._operators] * 3 + [
            self._prefixed,
            self._postfixed,
            self._parenthesis,
            self._match,
            self._between,
            self._in,
            self._case,
            self._call,
        ]
        kinds += [
            self._subquery,
            self._aggregate if self._has_columns else self._operators,
            self._special if self._dialect else self._operators,
        ]
        text = self._source.choice(kinds)()
        self._depth += 1
        return text

    def _leaf(self) -> str:
        kind = self._source.randrange(10)
        if kind < 4:
            return self._column()
        if kind < 7:
            return self._one(*_NUMBERS)
        return self._one(*self._parameters) if kind == 9 and self._chance(0.3) else self._one(*_LITERALS)

    def _operators(self) -> str:
        parts = [self.expression()]
        for _ in range(self._source.randint(1, 3)):
            parts += (self._one(*_BINARY), self.expression())
        return " ".join(parts)

    def _prefixed(self) -> str:
        return self._one("-", "- ", "+", "~", "NOT ", "not ", "- -") + " " + self.expression()

    def _postfixed(self) -> str:
        return f"{self.expression()} {self._one(*_POSTFIX)}"

    def _parenthesis(self) -> str:
        return f"({self.expression()})"

    def _not(self) -> str:
        return self._one("", "", "NOT ", "not ")

    def _match(self) -> str:
        operator = self._one("LIKE", "like", "GLOB")
        if operator != "GLOB" and self._chance(0.3):
            escape = self._one("'#'", self._leaf())
            return f"{self.expression()} {self._not()}{operator} {self._leaf()} ESCAPE {escape}"
        return f"{self.expression()} {self._not()}{operator} {self.expression()}"

    def _between(self) -> str:
        return f"{self.expression()} {self._not()}BETWEEN {self.expression()} AND {self.expression()}"

    def _in(self) -> str:
        items = self._source.choice(
            (
                lambda: f"({self._some(self.expression)})",
                lambda: "()",
                lambda: f"({self.query()})",
                self._table,
                lambda: "(VALUES (1), (2))",
            )
        )()
        return f"{self.expression()} {self._not()}IN {items}"

    def _case(self) -> str:
        whens = " ".join(f"WHEN {self.expression()} THEN {self.expression()}" for _ in range(self._source.randint(1, 2)))
        operand, otherwise = self._maybe(f"{self.expression()} "), self._maybe(f"ELSE {self.expression()} ", 0.5)
        return f"CASE {operand}{whens} {otherwise}END"

    def _call(self) -> str:
        name, count = self._source.choice(_SCALARS)
        if self._chance(0.2):
            return f"CAST({self.expression()} AS {self._one('TEXT', 'integer', 'varchar(10)', 'decimal(5, 2)', 'double precision')})"
        return f"{name}({', '.join(self.expression() for _ in range(count))})"

    def _aggregate(self) -> str:
        name = self._one(*_AGGREGATES)
        kind = self._source.randrange(5)
        if kind == 0:
            text = f"count({self._one('*', ' * ')})"
        else:
            text = f"{name}({self._maybe('DISTINCT ', 0.2)}{self.expression()}{self._maybe(f' ORDER BY {self._terms()}', 0.1)})"
        text += self._maybe(f" FILTER (WHERE {self.expression()})", 0.2)
        return text + self._maybe(f" OVER {self._one(self.window(), self.window(), 'w')}", 0.3)

    def window(self) -> str:
        partition = self._maybe(f"PARTITION BY {self._some(self.expression, 2)} ", 0.5)
        order = self._maybe(f"ORDER BY {self._terms()} ", 0.6)
        frame = ""
        if self._chance(0.4):
            frame = self._one(
                "ROWS 1 PRECEDING", "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "GROUPS BETWEEN 1 PRECEDING AND 1+1 FOLLOWING",
                "rows between 2 following and unbounded following", "RANGE UNBOUNDED PRECEDING", "ROWS CURRENT ROW",
            ) + self._one("", "", " EXCLUDE TIES", " EXCLUDE NO OTHERS", " exclude current row", " EXCLUDE GROUP")  # fmt: skip
        return f"({partition}{order}{frame})"

    def _subquery(self) -> str:
        kind = self._source.randrange(4)
        if kind == 0:
            return f"EXISTS ({self.query()})"
        if kind == 1:
            return (
                f"({self.expression()}, {self.expression()}) {self._one('=', '<', '>=', 'IS')} ({self.expression()}, {self.expression()})"
            )
        return f"({self.query()})"

    def _special(self) -> str:
        one = self.expression
        return self._source.choice(
            (
                lambda: f"CONVERT({self._one('INT', 'varchar(5)', 'DATE')}, {one()}{self._maybe(', 3')})",
                lambda: f"TRIM({self._maybe(one())} FROM {one()})",
                lambda: f"DATE_ADD({one()}, {one()}, {self._one('days', 'M', 'ms', 'HOUR', one())})",
                lambda: f"DATE_DIFF({one()}, {one()}{self._maybe(', weeks')})",
                lambda: f"EXTRACT({self._one('year', 'day')} FROM {one()})",
                lambda: f"EXTRACT({one()}, month)",
                lambda: f"{one()} {self._not()}REGEXP {one()}",
                lambda: self._one("CURRENT_TIMESTAMP", "current_date()", "NOW()", "CURRENT_TIME"),
                lambda: self._one("12345678901234567890", "-99999999999999999999", "group.x", "t.select", "1_000", "'nul \0'"),
                lambda: f"COUNT(DISTINCT {one()})",
            )
        )()

    # --- queries --------------------------------------------------------------------------------------------------------------------------

    def _terms(self) -> str:
        def term() -> str:
            return self.expression() + self._one("", "", " ASC", " DESC", " desc NULLS LAST", " NULLS FIRST")

        return self._some(term, 2)

    def _item(self) -> str:
        kind = self._source.randrange(8)
        if kind == 0:
            return self._one("*", "t.*")
        alias = self._one("", "", "", " AS x", " y", " AS 'z z'", " as [key]", " first", ' "q"')
        return self.expression() + alias

    def _select(self) -> str:
        self._depth -= 1
        distinct = self._one("", "", "", "DISTINCT ", "ALL ")
        if self._dialect and self._chance(0.2):
            distinct += self._one("TOP 5 ", "TOP (2 + 3) ", "top ? ")
        text = f"{self._one('SELECT', 'select')} {distinct}{self._some(self._item)}"
        if self._chance(0.85):
            text += f" FROM {self._sources()}"
            text += self._maybe(f" WHERE {self.expression()}", 0.5)
            text += self._maybe(f" GROUP BY {self._some(self.expression, 2)}{self._maybe(f' HAVING {self.expression()}')}", 0.2)
            text += self._maybe(f" WINDOW w AS {self.window()}{self._maybe(', v AS (w ORDER BY id)')}", 0.2)
        self._depth += 1
        return text

    def _sources(self) -> str:
        text = self._source_text()
        while self._chance(0.3):
            join = self._one(*_JOINS)
            text += f"{'' if join == ',' else ' '}{join} {self._source_text()}"
            if not join.startswith("NATURAL"):
                text += self._one("", f" ON {self.expression()}", f" ON {self.expression()}", f" USING ({self.name('id')})")
        return text

    def _source_text(self) -> str:
        alias = self._one("", "", " AS t", " t", " AS x", " u")
        kind = self._source.randrange(12)
        if kind == 0 and self._depth > 0:
            return f"({self.query()}){alias}"
        if kind == 1:
            return f"json_each({self._one(*_LITERALS)}){alias}"
        if kind == 2 and self._depth > 0:
            self._depth -= 1
            text = f"({self._table()} JOIN {self._sources()}){self._maybe(' AS j', 0.2) if self._dialect else ''}"
            self._depth += 1
            return text
        return self._table() + alias

    def query(self) -> str:
        if self._depth <= 0:
            return f"SELECT {self._leaf()}"
        self._depth -= 1
        text = ""
        if self._chance(0.15):
            tables = ", ".join(
                f"{name}{self._maybe('(id, a)')} AS {self._one('', '', 'MATERIALIZED ', 'NOT MATERIALIZED ')}({self.query()})"
                for name in ("cte", "other")[: self._source.randint(1, 2)]
            )
            text = f"WITH {self._maybe('RECURSIVE ')}{tables} "
        parts = [self._select() if self._chance(0.9) else f"VALUES ({self.expression()}), ({self.expression()})"]
        while self._chance(0.15):
            parts += (self._one("UNION", "UNION ALL", "INTERSECT", "except"), self._select())
        text += " ".join(parts)
        if not parts[-1].startswith("VALUES"):
            text += self._maybe(f" ORDER BY {self._terms()}")
            if not (self._dialect and "top" in text.lower()):
                text += self._maybe(f" LIMIT {self._one('5', '2, 3', '4 OFFSET 1', self._parameters[0], '1 + 1', '-1')}", 0.2)
        self._depth += 1
        return text

    # --- statements -----------------------------------------------------------------------------------------------------------------------

    def statement(self) -> str:
        kind = self._source.randrange(10)
        if kind < 3:
            self._has_columns = False
            text = f"SELECT {self.expression()}"
        else:
            text = self.query() if kind < 7 else (self._insert, self._update, self._delete)[kind - 7]()
        if self._chance(0.2):
            text = self._spread(text)
        if self._chance(0.1):
            text = self._one("EXPLAIN ", "explain query plan ") + text
        return text + self._one("", "", ";", " ; ", " -- end", "/* end */")

    def _spread(self, text: str) -> str:
        """Other blanks and comments between words, where no quotation is in the way."""
        if any(quote in text for quote in "'\"`["):
            return text
        return "".join(self._one("\n", "\t", " /* x */ ", " --x\n", "  ") if char == " " and self._chance(0.3) else char for char in text)

    def _assignments(self) -> str:
        def assignment() -> str:
            if self._chance(0.2):
                return f"(a, {self.name('b')}) = {self._one('(1, 2)', f'({self.expression()}, {self.expression()})')}"
            return f"{self.name(self._one('a', 'b', 'key'))} = {self.expression()}"

        return self._some(assignment, 2)

    def _insert(self) -> str:
        table = self._one("data.t", "t", "data.[t] AS x")
        values = self._one("VALUES", "values", "VALUE") if self._dialect else "VALUES"
        columns, source = self._source.choice(
            (
                ("(id, a)", f"{values} ({self.expression()}, 2), (3, {self.expression()})"),
                (" (a)", f"SELECT {self.expression()} FROM u{'' if self._dialect else ' WHERE 1'}"),
                ("", "DEFAULT VALUES"),
                ("", f"{values} (1, 2, 3, {self.expression()}, 5, 6, 7, 8)"),
            )
        )
        conflict = ""
        if "DEFAULT" not in source and self._chance(0.3):
            conflict = self._one(
                " ON CONFLICT DO NOTHING",
                " on conflict (id) do nothing",
                f" ON CONFLICT (id) DO UPDATE SET {self._assignments()} WHERE {self.expression()}",
            )
        return f"INSERT INTO {table}{columns} {source}{conflict}{self._maybe(f' RETURNING {self._some(self._item)}')}"

    def _update(self) -> str:
        table = self._one("data.t", "t AS x", "[t]")
        parts = [f"UPDATE {table} SET {self._assignments()}", self._maybe("FROM u"), self._maybe(f"WHERE {self.expression()}", 0.7)]
        return " ".join(part for part in (*parts, self._maybe(f"RETURNING {self._some(self._item)}")) if part)

    def _delete(self) -> str:
        parts = ["DELETE FROM " + self._one("data.t", "t", "data.t AS x"), self._maybe(f"WHERE {self.expression()}", 0.7)]
        return " ".join(part for part in (*parts, self._maybe(f"RETURNING {self._some(self._item)}")) if part)
