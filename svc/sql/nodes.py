"""What a SQL statement says: the tree that the parser makes, and that binding turns into SQLite's SQL (spec: sql §2).

Names are as written, without their quotes. `at`: characters from 0 in the text of the statement, -1 in a tree that no text stands for; it takes no part
in comparisons, so `parse(print_statement(node)) == node`. Trees are not changed once they are made: `dataclasses.replace` makes another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias


def _at() -> Any:
    return field(default=-1, compare=False)


# --- expressions --------------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Literal:
    """`value`: None, bool, int, float, str or bytes. Integers of any size. `text`: as written, "" if it is made here."""

    value: Any
    text: str = field(default="", compare=False)
    at: int = _at()


@dataclass(slots=True)
class Parameter:
    """`name`: a number from 1 (`?`, which the parser numbers, and `?3`), or a name without its prefix (`:name`, `@name`, `$name`)."""

    name: int | str
    at: int = _at()


@dataclass(slots=True)
class Column:
    """`table`, `database`: what stands before the dots, "" if nothing does. `is_quoted`: any of the names was."""

    name: str
    table: str = ""
    database: str = ""
    is_quoted: bool = field(default=False, compare=False)
    at: int = _at()
    end: int = field(default=-1, compare=False)


@dataclass(slots=True)
class Unary:
    """`operator`: `-`, `+`, `~`, `NOT`."""

    operator: str
    operand: Expression


@dataclass(slots=True)
class Binary:
    """`operator`: in upper case, in one spelling: `||`, `*`, `/`, `%`, `+`, `-`, `<<`, `>>`, `&`, `|`, `<`, `<=`, `>`, `>=`, `=` (also for `==`), `<>`
    (also for `!=`), `IS`, `IS NOT` (also `IS [NOT] DISTINCT FROM`, which mean `IS NOT` and `IS`), `AND`, `OR`, `->`, `->>`."""

    operator: str
    left: Expression
    right: Expression
    at: int = _at()  # of the operator


@dataclass(slots=True)
class Match:
    """`left LIKE right`; `operator`: `LIKE`, `GLOB`, `REGEXP`."""

    operator: str
    left: Expression
    right: Expression
    escape: Expression | None = None
    is_negated: bool = False
    at: int = _at()


@dataclass(slots=True)
class Between:
    operand: Expression
    low: Expression
    high: Expression
    is_negated: bool = False


@dataclass(slots=True)
class In:
    """`items`: expressions, perhaps none, or a query."""

    operand: Expression
    items: tuple[Expression, ...] | Query
    is_negated: bool = False


@dataclass(slots=True)
class IsNull:
    """`x IS NULL`, `ISNULL`; negated `IS NOT NULL`, `NOTNULL`, `NOT NULL`."""

    operand: Expression
    is_negated: bool = False


@dataclass(slots=True)
class Exists:
    query: Query
    at: int = _at()


@dataclass(slots=True)
class Subquery:
    """A query in parentheses as a value."""

    query: Query
    at: int = _at()


@dataclass(slots=True)
class Case:
    """`operand`: what is compared with each `when`; None: each is a condition."""

    operand: Expression | None
    whens: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None = None
    at: int = _at()


@dataclass(slots=True)
class Cast:
    """`CAST(operand AS type)`, or `CONVERT(type, operand[, style])` if `is_convert`. `type`: as written, in upper case, blanks single: `VARCHAR(10)`."""

    operand: Expression
    type: str
    style: Expression | None = None
    is_convert: bool = False
    at: int = _at()


@dataclass(slots=True)
class Collate:
    operand: Expression
    name: str


@dataclass(slots=True)
class RowValue:
    """`(a, b)`: two expressions or more."""

    items: tuple[Expression, ...]


@dataclass(slots=True)
class Call:
    """`name`: in upper case, if it is ASCII. `is_star`: `COUNT(*)`. `order_by`: of an aggregate. `over`: the name of a window, or a window; None: no
    window function.

    What has a syntax of its own is a call, too: `TRIM(chars FROM x)` is `TRIM(x, chars)`, `DATE_ADD(d, 3, days)` has the unit as a Literal text, and
    `CURRENT_TIMESTAMP` without parentheses has `args` None.
    """

    name: str
    args: tuple[Expression, ...] | None = ()
    is_distinct: bool = False
    is_star: bool = False
    order_by: tuple[OrderTerm, ...] = ()
    where: Expression | None = None  # of FILTER
    over: str | Window | None = None
    at: int = _at()


Expression: TypeAlias = (
    Literal
    | Parameter
    | Column
    | Unary
    | Binary
    | Match
    | Between
    | In
    | IsNull
    | Exists
    | Subquery
    | Case
    | Cast
    | Collate
    | RowValue
    | Call
)


# --- queries ------------------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class OrderTerm:
    """`nulls`: "", "FIRST" or "LAST"."""

    expression: Expression
    is_descending: bool = False
    nulls: str = ""


@dataclass(slots=True)
class Bound:
    """An end of a frame. `kind`: `UNBOUNDED PRECEDING`, `PRECEDING`, `CURRENT ROW`, `FOLLOWING`, `UNBOUNDED FOLLOWING`. `offset`: of two of these."""

    kind: str
    offset: Expression | None = None


@dataclass(slots=True)
class Frame:
    """`unit`: `ROWS`, `RANGE`, `GROUPS`. `end` None: only a start was given. `exclude`: "", `NO OTHERS`, `CURRENT ROW`, `GROUP`, `TIES`."""

    unit: str
    start: Bound
    end: Bound | None = None
    exclude: str = ""


@dataclass(slots=True)
class Window:
    """`base`: the name of a window that this one extends, "" if none."""

    base: str = ""
    partition_by: tuple[Expression, ...] = ()
    order_by: tuple[OrderTerm, ...] = ()
    frame: Frame | None = None


@dataclass(slots=True)
class SelectItem:
    """`alias`: "" if there is none."""

    expression: Expression
    alias: str = ""


@dataclass(slots=True)
class Star:
    """`*`, `t.*`, `db.t.*`."""

    table: str = ""
    database: str = ""
    at: int = _at()


@dataclass(slots=True)
class TableRef:
    """`alias`: "" if there is none. `database` "": the name of a common table expression, or a fault."""

    name: str
    database: str = ""
    alias: str = ""
    at: int = _at()
    end: int = field(default=-1, compare=False)


@dataclass(slots=True)
class SubqueryRef:
    query: Query
    alias: str = ""
    at: int = _at()


@dataclass(slots=True)
class TableFunction:
    """`json_each(x) AS alias`. `name`: in lower case."""

    name: str
    args: tuple[Expression, ...]
    alias: str = ""
    at: int = _at()


@dataclass(slots=True)
class Join:
    """`kind`: `INNER`, `LEFT`, `RIGHT`, `FULL`, `CROSS`, or `,`. At most one of `on` and `using` is given. Joins lean to the left, unless parentheses
    say otherwise: then `right` is a Join."""

    left: Source
    right: Source
    kind: str = "INNER"
    is_natural: bool = False
    on: Expression | None = None
    using: tuple[str, ...] = ()
    at: int = _at()


Source: TypeAlias = TableRef | SubqueryRef | TableFunction | Join


@dataclass(slots=True)
class Select:
    """`top`: of `TOP n`, which is a LIMIT. `windows`: those of the WINDOW clause."""

    items: tuple[SelectItem | Star, ...]
    source: Source | None = None
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    is_distinct: bool = False
    windows: tuple[tuple[str, Window], ...] = ()
    top: Expression | None = None
    at: int = _at()


@dataclass(slots=True)
class Values:
    """`VALUES (1, 2), (3, 4)`: rows of equal length, at least one."""

    rows: tuple[tuple[Expression, ...], ...]
    at: int = _at()


@dataclass(slots=True)
class CommonTable:
    """`name (columns) AS [NOT] MATERIALIZED (query)`. `columns`: () if none are given. `is_materialized` None: not said."""

    name: str
    query: Query
    columns: tuple[str, ...] = ()
    is_materialized: bool | None = None
    at: int = _at()


@dataclass(slots=True)
class Query:
    """`first`, then each of `others` joined by `UNION`, `UNION ALL`, `INTERSECT` or `EXCEPT`. `tables`: those of WITH; `is_recursive`: WITH RECURSIVE."""

    first: Select | Values
    others: tuple[tuple[str, Select | Values], ...] = ()
    order_by: tuple[OrderTerm, ...] = ()
    limit: Expression | None = None
    offset: Expression | None = None
    tables: tuple[CommonTable, ...] = ()
    is_recursive: bool = False


# --- statements ---------------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Assignment:
    """`columns`: one name, or several that a row value is assigned to."""

    columns: tuple[str, ...]
    value: Expression
    at: int = _at()


@dataclass(slots=True)
class Conflict:
    """`ON CONFLICT (columns) WHERE target_where DO UPDATE SET assignments WHERE where`; `assignments` (): DO NOTHING."""

    columns: tuple[str, ...] = ()
    target_where: Expression | None = None
    assignments: tuple[Assignment, ...] = ()
    where: Expression | None = None
    at: int = _at()


@dataclass(slots=True)
class Insert:
    """`columns` (): none are given. `source` None: DEFAULT VALUES."""

    table: TableRef
    columns: tuple[str, ...]
    source: Query | None
    conflicts: tuple[Conflict, ...] = ()
    returning: tuple[SelectItem | Star, ...] = ()
    tables: tuple[CommonTable, ...] = ()
    is_recursive: bool = False


@dataclass(slots=True)
class Update:
    table: TableRef
    assignments: tuple[Assignment, ...]
    source: Source | None = None  # of FROM
    where: Expression | None = None
    order_by: tuple[OrderTerm, ...] = ()
    limit: Expression | None = None
    offset: Expression | None = None
    returning: tuple[SelectItem | Star, ...] = ()
    tables: tuple[CommonTable, ...] = ()
    is_recursive: bool = False


@dataclass(slots=True)
class Delete:
    table: TableRef
    where: Expression | None = None
    order_by: tuple[OrderTerm, ...] = ()
    limit: Expression | None = None
    offset: Expression | None = None
    returning: tuple[SelectItem | Star, ...] = ()
    tables: tuple[CommonTable, ...] = ()
    is_recursive: bool = False


@dataclass(slots=True)
class Explain:
    """`EXPLAIN` or `EXPLAIN QUERY PLAN` before a statement."""

    statement: Query | Insert | Update | Delete


Statement: TypeAlias = Query | Insert | Update | Delete | Explain
