"""What stands behind FROM: tables, sub-selects, functions, and how they are joined (spec: sql §2).

USING and NATURAL become conditions with ON, as SQLite makes them: the left side of `USING (c)` is the leftmost column `c`, and where there are RIGHT or FULL
joins the first of all columns `c` to the left that is not null.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from svc.errors import QueryError
from svc.query.hints import did_you_mean
from svc.sql.binding.bound_nodes import BoundTable, ResolvedColumn
from svc.sql.binding.common_tables import CommonTableEntry, State, own_relation
from svc.sql.binding.expressions import ExpressionBinder
from svc.sql.binding.faults import misuse, without_rights
from svc.sql.binding.nested import NestedSource
from svc.sql.binding.relations import BoundSelect, Relation, RelationColumn
from svc.sql.binding.scopes import Entry, Scope
from svc.sql.binding.sources import AmbiguousName, ColumnsSource, JsonValue, MergedColumn, PlainColumn, Source, SourceColumn, TableSource
from svc.sql.binding.statement import Statement
from svc.sql.binding.walking import walk
from svc.sql.catalogue import ColumnType
from svc.sql.errors import ambiguous_column, unknown_column
from svc.sql.functions import FUNCTIONS
from svc.sql.nodes import Binary, Expression, Join, Query, SubqueryRef, TableFunction, TableRef
from svc.sql.nodes import Source as SourceNode

if TYPE_CHECKING:
    from svc.sql.binding.queries import QueryBinder

GIVEN_SCHEMA = "main"  # where the rows are that the caller of `bind_query` gives

_OUTER = frozenset(("LEFT", "RIGHT", "FULL"))
_JSON_COLUMNS = {
    "key": None, "value": None, "type": ColumnType.TEXT, "atom": None, "id": ColumnType.INTEGER, "parent": ColumnType.INTEGER,
    "fullkey": ColumnType.TEXT, "path": ColumnType.TEXT,
}  # fmt: skip
TABLE_FUNCTIONS = tuple(name.lower() for name, function in FUNCTIONS.items() if function.kind == "table")


@dataclass(slots=True)
class FromClause:
    """`source`: as SQLite has it. What names more than it may yet know is bound by `complete`: conditions of joins, with the number of sources up to each;
    arguments of functions."""

    source: SourceNode
    conditions: list[tuple[Join, Expression, int]] = field(default_factory=list)
    functions: list[tuple[TableFunction, tuple[Expression, ...]]] = field(default_factory=list)


class FromBinder:
    def __init__(self, statement: Statement, expressions: ExpressionBinder, queries: QueryBinder) -> None:
        self._statement = statement
        self._expressions = expressions
        self._queries = queries

    def from_clause(self, node: SourceNode, scope: Scope) -> FromClause:
        """Adds the sources to `scope`."""
        joins: list[Join] = []
        while isinstance(node, Join):
            joins.append(node)
            node = node.left
        clause = FromClause(TableRef(""))
        first, clause.source = self._source(node, scope, clause)
        scope.add(Entry(first))
        has_right_joins = any(join.kind in ("RIGHT", "FULL") for join in joins)
        for join in reversed(joins):
            source, right = self._source(join.right, scope, clause)
            entry = Entry(source, join.kind)
            on = self._merge(join, scope, entry, has_right_joins)
            scope.add(entry)
            clause.source = Join(clause.source, right, join.kind, on=on, at=join.at)
            if join.on is not None:
                clause.conditions.append((clause.source, join.on, len(scope.entries)))
        return clause

    def complete(self, clause: FromClause, scope: Scope) -> None:
        bind = self._expressions.bind
        for join, condition, count in clause.conditions:
            join.on = bind(condition, scope)
            if len(scope.entries) > count and (join.kind in _OUTER or scope.has_right_joins):
                self._check_condition(join.on, scope, count)
        for function, args in clause.functions:
            function.args = tuple([bind(arg, scope) for arg in args])

    def _check_condition(self, on: Expression, scope: Scope, count: int) -> None:
        later = {entry.source.label for entry in scope.entries[count:]}
        for part in walk(on):
            if isinstance(part, ResolvedColumn) and part.table in later:
                raise misuse("ON of an outer join names a table that comes behind it", part.at)

    # --- sources --------------------------------------------------------------------------------------------------------------------------

    def _source(self, node: SourceNode, scope: Scope, clause: FromClause) -> tuple[Source, SourceNode]:
        if isinstance(node, TableRef):
            return self._table(node, scope)
        if isinstance(node, SubqueryRef):
            label = self._statement.labels.label(node.alias or "subquery")
            relation = self._queries.query(node.query, scope.outer, scope.tables)
            relation.name_columns()
            scope.depth = max(scope.depth, relation.depth)
            return _relation_source(relation, node.alias, label), SubqueryRef(relation, label, node.at)
        if isinstance(node, TableFunction):
            return self._function(node, clause)
        inner = Scope(scope.outer, scope.tables)
        inner.no_aggregates = inner.no_windows = "ON"
        joins = self.from_clause(node, inner)
        self.complete(joins, inner)
        scope.depth = max(scope.depth, inner.depth + 1)
        select = BoundSelect((), joins.source, scope=inner)
        label = self._statement.labels.label("joins")
        return NestedSource(inner, select, label), SubqueryRef(Query(select), label)

    def _table(self, node: TableRef, scope: Scope) -> tuple[Source, SourceNode]:
        statement = self._statement
        alias = node.alias or node.name
        if node.database:
            view = statement.catalogue.view(node.database, node.name, node.at)
            statement.views[view] = None
            label = statement.labels.label(alias)
            source = TableSource(node.alias or view.table.name, label, view.columns, view)
            return source, BoundTable(view.sql_name, view.schema, label, node.at, view=view)
        entry = None if scope.tables is None else scope.tables.find(node.name)
        if entry is not None:
            label = statement.labels.label(alias)
            relation = self._common_table(entry, node, scope)
            return _relation_source(relation, node.alias or entry.node.name, label), TableRef(entry.label, "", label, node.at)
        given = statement.given.get(node.name)
        if given is not None:
            name, columns = given
            label = statement.labels.label(alias)
            return TableSource(node.alias or name, label, columns), TableRef(name, GIVEN_SCHEMA, label, node.at)
        raise QueryError(f"schema not defined for table {node.name}", code="QUERY_SYNTAX", position=node.at if node.at >= 0 else None)

    def _common_table(self, entry: CommonTableEntry, node: TableRef, scope: Scope) -> Relation:
        if entry.state is not State.BOUND or entry.relation is None:
            return own_relation(entry, node, scope)
        scope.depth = max(scope.depth, entry.relation.depth)
        return entry.relation

    def _function(self, node: TableFunction, clause: FromClause) -> tuple[Source, SourceNode]:
        if node.name not in TABLE_FUNCTIONS:
            hint = did_you_mean(node.name, TABLE_FUNCTIONS)
            raise misuse(f"unknown table function {node.name[:100]}" + (f" ({hint})" if hint else ""), node.at)
        if not 1 <= len(node.args) <= 2:
            raise misuse(f"{node.name}() takes 1 to 2 arguments, not {len(node.args)}", node.at)
        label = self._statement.labels.label(node.alias or node.name)
        bound = TableFunction(node.name, (), label, node.at)
        clause.functions.append((bound, node.args))
        columns: list[SourceColumn] = [
            JsonValue(name, label) if name == "value" else PlainColumn(name, column_type, label)
            for name, column_type in _JSON_COLUMNS.items()
        ]
        return ColumnsSource(node.alias or node.name, label, columns), bound

    # --- USING ----------------------------------------------------------------------------------------------------------------------------

    def _merge(self, join: Join, scope: Scope, entry: Entry, has_right_joins: bool) -> Expression | None:
        """What USING or NATURAL asks for. `scope` has the sources to the left."""
        try:
            pairs = list(self._pairs(join, scope, entry, has_right_joins))
        except AmbiguousName as fault:
            raise ambiguous_column(fault.args[0], join.at if join.at >= 0 else None) from None
        entry.merged = [column for column, _ in pairs]
        equal: list[Expression] = [Binary("=", left, column.expression(), join.at) for column, left in pairs]
        while len(equal) > 1:  # a balanced tree
            halves = [equal[index : index + 2] for index in range(0, len(equal), 2)]
            equal = [Binary("AND", each[0], each[1], join.at) if len(each) > 1 else each[0] for each in halves]
        return equal[0] if equal else None

    def _pairs(self, join: Join, scope: Scope, entry: Entry, has_right_joins: bool) -> Iterator[tuple[SourceColumn, Expression]]:
        """(the column of the right side, what it has to be equal to). Raises AmbiguousName."""
        if join.is_natural:
            for shown in entry.source.shown():
                left = self._left(shown.name, scope, has_right_joins, join.at)
                column = None if left is None else entry.source.find(shown.name, True)
                if left is not None and column is not None:
                    yield column, left
        for name in join.using:
            found = entry.source.find(name, True) or entry.source.find(name, False)
            left = self._left(name, scope, has_right_joins, join.at)
            if found is None or left is None:
                sources = [entry.source] if found is None else scope.sources()
                raise self._not_in_both(name, sources, join.at)
            yield found, left

    def _not_in_both(self, name: str, sources: list[Source], at: int) -> Exception:
        fault = without_rights(self._statement.catalogue, sources, name, at)
        if fault is not None:
            return fault
        hint = did_you_mean(name, [each for source in sources for each in source.names()])
        return unknown_column(name, hint or "USING takes columns that both sides have", at if at >= 0 else None)

    def _left(self, name: str, scope: Scope, has_right_joins: bool, at: int) -> Expression | None:
        """What a column of this name to the left is, for USING. Raises AmbiguousName."""
        for is_exact in (True, False):
            found: list[SourceColumn] = []
            for entry in scope.entries:
                column = entry.source.find(name, is_exact)
                if column is None:
                    continue
                if found and not entry.merges(column):
                    raise AmbiguousName(name)
                found.append(column)
                if not has_right_joins:
                    break
            if found:
                self._statement.count_columns(len(found), at)
                return MergedColumn(found).expression() if len(found) > 1 else found[0].expression()
        return None


def _relation_source(relation: Relation, alias: str, label: str) -> Source:
    return ColumnsSource(alias, label, [RelationColumn(relation, index, label) for index in range(len(relation.names))])
