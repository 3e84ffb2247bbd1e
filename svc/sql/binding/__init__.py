"""Binding: the tree of a query -> SQLite's SQL (spec: sql §2 to §4, §6).

Every name is resolved here. SQLite gets no name that a statement has, but those of tables and columns that the caller may read, so neither its answers nor
its errors can tell of others.

    bind_query        here
    QueryBinder       queries: SELECT, UNION, WITH, ORDER BY; from_clause: FROM, joins
    ExpressionBinder  expressions, calls: functions; dialect: what differs from SQLite
    Scope             scopes: which column a name means; sources: what has columns
    Relation          relations: a bound query; faces: types and exact values of expressions; results: those of the result
    rewrite           rewriting: counts and groups without records (index_only), large joins (materialised_joins)
    hand_on_records   record_columns: results with most of a record
    SqlitePrinter     printing
"""

from __future__ import annotations

from collections.abc import Mapping

from svc.sql.binding.conversions import is_plain
from svc.sql.binding.faces import give_exact_arguments
from svc.sql.binding.figures import Figures
from svc.sql.binding.printing import SqlitePrinter
from svc.sql.binding.queries import QueryBinder
from svc.sql.binding.record_columns import hand_on_records
from svc.sql.binding.results import exact_result
from svc.sql.binding.rewriting import rewrite
from svc.sql.binding.statement import Statement
from svc.sql.bound import BoundQuery, ResultColumn
from svc.sql.catalogue import Catalogue, ColumnView
from svc.sql.nodes import Query


def bind_query(
    query: Query,
    catalogue: Catalogue,
    text: str = "",
    *,
    given: Mapping[str, tuple[ColumnView, ...]] | None = None,
    exact: bool = True,
    figures: Figures | None = None,
) -> BoundQuery:
    """`text`: of the statement. `given`: the columns of rows that the caller has, by the name that they have as a table without a database. `exact`: values of
    the result are as they are stored, where an expression hands on a column; else all are what SQL computes with. `figures`: of the tables; with them the
    query may become another one with the same answer, None: it does not.

    Raises QueryError with a position, MissingRights, NotFound, and what `catalogue` raises.
    """
    statement = Statement(catalogue, given or {}, text)
    relation = QueryBinder(statement).query(query, None, None, is_result=True)
    if exact:
        relation, columns = exact_result(relation, statement.labels.label("result"))
    else:
        columns = tuple(map(ResultColumn, relation.names))
    if statement.takes_exact:
        give_exact_arguments(relation)
    special = [] if figures is None else rewrite(relation, statement.relations, figures, statement.table_labels)
    layout = () if figures is None or not exact else hand_on_records(relation)
    printer = SqlitePrinter()
    printed = printer.statement(relation)
    return BoundQuery(
        printed,
        columns,
        tuple([name for name, _ in printer.parameters]),
        tuple(statement.views),
        tuple(printer.constants),
        frozenset(index for index, (_, is_exact) in enumerate(printer.parameters) if is_exact),
        layout,
        (*statement.views, *special),
        is_plain(relation),
        printer.holes,
    )
