"""The text of a statement -> its tree (spec: sql §2): SQLite's language for queries and changes of records, and some of what other databases write.

    TokenReader         token_reader  a place in the tokens (lexer), errors (hints), how deep the tree is
    OperandParser       operands      literals, columns, what stands in parentheses
    ExpressionParser    expressions   operators
    CallParser          calls         functions and windows
    QueryParser         queries       SELECT, VALUES, FROM
    StatementParser     here          INSERT, UPDATE, DELETE, EXPLAIN

`svc/sql/printer.py` is the inverse. Every error has a position in the text. What a parsed tree can be relied on for: `limits`; rows of VALUES are equally
long; names are not empty; numbers are finite; a minus before a number is part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from svc.errors import QueryError
from svc.sql.errors import UnsupportedStatement, insert_mismatch
from svc.sql.limits import MAX_LENGTH
from svc.sql.nodes import (
    Assignment,
    Conflict,
    Delete,
    Explain,
    Expression,
    Insert,
    Query,
    SelectItem,
    Source,
    Star,
    Statement,
    TableRef,
    Update,
)
from svc.sql.queries import QueryParser
from svc.sql.words import UNSUPPORTED

_ON_CONFLICT = "use INSERT ... ON CONFLICT"
_RESOLUTIONS = ("ABORT", "FAIL", "IGNORE", "REPLACE", "ROLLBACK")
_BEHIND_UPDATED = ("SET",)
_BEHIND_DELETED = ("WHERE", "RETURNING", "ORDER", "LIMIT")


def parse(text: str, max_length: int = MAX_LENGTH) -> Statement:
    """The tree of one statement, with or without `;` behind it. O(length).

    >>> parse("SELECT 2 + 2 AS n").first.items[0].alias
    'n'

    Raises SqlSyntaxError, UnsupportedStatement, StatementTooLarge, or what `insert_mismatch` returns; nothing else, whatever the text is.
    """
    return StatementParser(text, max_length).whole()


class StatementParser(QueryParser):
    __slots__ = ("is_inserting",)

    def __init__(self, text: str, max_length: int = MAX_LENGTH) -> None:
        super().__init__(text, max_length)
        self.is_inserting = False  # the rows that are read are those of an INSERT

    def whole(self) -> Statement:
        statement = self._explain() if self.kinds[0] == "EXPLAIN" else self._statement()
        if self.kinds[self.index] == ";":
            while self.take(";"):
                pass
            if self.kinds[self.index]:
                raise self.fault("one statement per request")
        elif self.kinds[self.index]:
            raise self.unexpected("")
        return statement

    def _explain(self) -> Explain:
        self.index += 1
        if self.take("QUERY"):
            self.need("PLAN")
        return Explain(self._statement())

    def _statement(self) -> Query | Insert | Update | Delete:
        kind = self.kinds[self.index]
        if kind in ("SELECT", "VALUES"):
            return self.query()
        if kind == "WITH":
            return self._with()
        change = _CHANGES.get(kind)
        if change is not None:
            return change(self)
        word = self.tokens[self.index].upper()
        if word in UNSUPPORTED and kind != "quoted":
            raise UnsupportedStatement(word, _ON_CONFLICT if word == "REPLACE" else "", self.at)
        if kind == "(":
            raise self.fault("a statement does not stand in parentheses")
        if not kind:
            raise self.fault("the statement is empty")
        raise self.unexpected("SELECT, INSERT, UPDATE or DELETE")

    def _with(self) -> Query | Insert | Update | Delete:
        tables, is_recursive = self.common_tables()
        change = _CHANGES.get(self.kinds[self.index])
        if change is None:
            return self.query_with(tables, is_recursive)
        statement = change(self)
        statement.tables, statement.is_recursive = tables, is_recursive
        return statement

    # --- changes --------------------------------------------------------------------------------------------------------------------------

    def _insert(self) -> Insert:
        self._refuse_or("INSERT")
        self.need("INTO")
        table = self._target()
        columns = self.names() if self.kinds[self.index] == "(" else ()
        source: Query | None = None
        kind = self.kinds[self.index]
        if kind == "DEFAULT":
            self.index += 1
            self.need("VALUES")
        elif kind == "VALUE" or kind == "VALUES":
            self.kinds[self.index] = "VALUES"
            self.is_inserting = True
            source = self.query()
            self.is_inserting = False
        elif kind in ("SELECT", "WITH"):
            source = self.query()
        else:
            raise self.unexpected("VALUES or SELECT" if columns else "columns in parentheses, VALUES or SELECT")
        conflicts = self._conflicts()
        return Insert(table, columns, source, conflicts, self._returning())

    def uneven_rows(self, at: int) -> QueryError:
        return insert_mismatch(at) if self.is_inserting else super().uneven_rows(at)

    def _conflicts(self) -> tuple[Conflict, ...]:
        conflicts: list[Conflict] = []
        while self.kinds[self.index] == "ON":
            at = self.at
            if conflicts and not conflicts[-1].columns:
                raise self.fault("an ON CONFLICT without columns is the last one")
            self.index += 1
            self.need("CONFLICT")
            columns: tuple[str, ...] = ()
            target_where: Expression | None = None
            if self.kinds[self.index] == "(":
                columns = self.names()
                target_where = self._where()
            self.need("DO")
            if self.take("NOTHING"):
                conflicts.append(Conflict(columns, target_where, (), None, at))
                continue
            if not self.take("UPDATE"):
                raise self.unexpected("NOTHING or UPDATE")
            assignments = self._assignments()
            conflicts.append(Conflict(columns, target_where, assignments, self._where(), at))
        return tuple(conflicts)

    def _update(self) -> Update:
        self._refuse_or("UPDATE")
        table = self._target(_BEHIND_UPDATED)
        assignments = self._assignments()
        source: Source | None = self.sources() if self.take("FROM") else None
        where = self._where()
        returning = self._returning()
        order_by = self.order_terms()
        limit, offset = self.limits()
        return Update(table, assignments, source, where, order_by, limit, offset, returning or self._returning())

    def _delete(self) -> Delete:
        self.index += 1
        self.need("FROM")
        table = self._target(_BEHIND_DELETED)
        where = self._where()
        returning = self._returning()
        order_by = self.order_terms()
        limit, offset = self.limits()
        return Delete(table, where, order_by, limit, offset, returning or self._returning())

    def _refuse_or(self, kind: str) -> None:
        """`INSERT OR REPLACE`, `UPDATE OR IGNORE`."""
        if self.kinds[self.index + 1] == "OR":
            word = self.tokens[self.index + 2].upper()
            raise UnsupportedStatement(f"{kind} OR {word}" if word in _RESOLUTIONS else f"{kind} OR", _ON_CONFLICT, self.at)
        self.index += 1

    def _target(self, behind_alias: Container[str] = ()) -> TableRef:
        """The table that is changed. Another name for it needs AS, unless one of `behind_alias` follows it: so a word that is missing or wrong is no name."""
        at = self.at
        name, database = self.name("the name of a table"), ""
        if self.take("."):
            database, name = name, self.name_behind_dot()
            if self.kinds[self.index] == ".":
                raise self.fault("a table is written database.table")
        end = self.last_end
        is_aliased = self.kinds[self.index] == "AS" or self.kinds[self.index + 1] in behind_alias
        alias = self.alias() if is_aliased else ""
        if self.kinds[self.index] == "INDEXED" or (self.kinds[self.index] == "NOT" and self.kinds[self.index + 1] == "INDEXED"):
            raise self.fault("INDEXED BY is not possible: indexes are chosen by the planner")
        return TableRef(name, database, alias, at, end)

    def _assignments(self) -> tuple[Assignment, ...]:
        self.need("SET")
        assignments = []
        while True:
            at = self.at
            columns = self.names() if self.kinds[self.index] == "(" else (self.name("the name of a column"),)
            if self.kinds[self.index] == ".":
                raise self.fault("a column that is set has no table before it", at)
            if not self.take("=="):
                self.need("=")
            assignments.append(Assignment(columns, self.expression(), at))
            if not self.another(len(assignments)):
                break
        return tuple(assignments)

    def _where(self) -> Expression | None:
        return self.expression() if self.take("WHERE") else None

    def _returning(self) -> tuple[SelectItem | Star, ...]:
        return self.items() if self.take("RETURNING") else ()


_CHANGES: dict[str, Callable[[StatementParser], Insert | Update | Delete]] = {
    "INSERT": StatementParser._insert,
    "UPDATE": StatementParser._update,
    "DELETE": StatementParser._delete,
}
