"""Trees of SQL statements as Hypothesis draws them: all that `svc.sql.parser.parse` can make, and nothing else."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from svc.sql import nodes

DEPTH = 2  # levels below the statement; beyond them are leaves only
_WORDS = (
    "a",
    "id",
    "key",
    "order",
    "select",
    "Name",
    "a.b",
    'a"b',
    "a`b",
    "a]b",
    " ",
    "é",
    "日本",
    "1a",
    "x y",
    "null",
    "-- no",
    "/*",
    "'",
)
_FUNCTIONS = ("COUNT", "SUM", "F", "LEFT", "REPLACE", "IF", "LIKE", "GROUP_CONCAT", "ROW_NUMBER", "É_1", "CURRENT_DATE", "VALUE")
_SPECIAL = (("TRIM", 2), ("DATE_ADD", 3), ("DATEDIFF", 3), ("EXTRACT", 2))
_TYPES = ("INT", "VARCHAR(10)", "DECIMAL(10, -2)", "DOUBLE PRECISION", "STRING")
_OPERATORS = (
    "||",
    "*",
    "/",
    "%",
    "+",
    "-",
    "<<",
    ">>",
    "&",
    "|",
    "<",
    "<=",
    ">",
    ">=",
    "=",
    "<>",
    "IS",
    "IS NOT",
    "AND",
    "OR",
    "->",
    "->>",
)
_BOUNDS = ("UNBOUNDED PRECEDING", "PRECEDING", "CURRENT ROW", "FOLLOWING", "UNBOUNDED FOLLOWING")

_texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=4)
names = st.sampled_from(_WORDS) | _texts.map(lambda text: text.replace("\0", "")).filter(bool)
_maybe_name = st.just("") | names
_parameters = st.integers(1, 32_766) | st.from_regex(r"\A[A-Za-z0-9_$]{1,4}\Z")


def _is_folded(operator: str, operand: nodes.Expression) -> bool:
    """Whether the parser makes a number of it."""
    return operator == "-" and isinstance(operand, nodes.Literal) and type(operand.value) in (int, float) and operand.value >= 0


@st.composite
def literals(draw: st.DrawFn) -> nodes.Literal:
    numbers = st.integers(-(2**70), 2**70) | st.integers(-3, 3) | st.floats(allow_nan=False, allow_infinity=False)
    return nodes.Literal(draw(st.none() | st.booleans() | numbers | _texts | st.binary(max_size=3)))


@st.composite
def _columns(draw: st.DrawFn) -> nodes.Column:
    table = draw(_maybe_name)
    return nodes.Column(draw(names), table, draw(_maybe_name) if table else "")


_leaves = literals() | _columns() | _parameters.map(nodes.Parameter)


def _rows(depth: int, least: int = 0, most: int = 2) -> st.SearchStrategy[tuple[nodes.Expression, ...]]:
    return st.lists(expressions(depth), min_size=least, max_size=most).map(tuple)


def _maybe(depth: int) -> st.SearchStrategy[nodes.Expression | None]:
    return st.none() | expressions(depth)


@st.composite
def expressions(draw: st.DrawFn, depth: int = DEPTH) -> nodes.Expression:
    if depth <= 0 or draw(st.integers(0, 3)) == 0:
        return draw(_leaves)
    return draw(draw(st.sampled_from(_KINDS))(depth - 1))


@st.composite
def _unary(draw: st.DrawFn, depth: int) -> nodes.Expression:
    operator, operand = draw(st.sampled_from(("-", "+", "~", "NOT"))), draw(expressions(depth))
    return operand if _is_folded(operator, operand) else nodes.Unary(operator, operand)


@st.composite
def _binary(draw: st.DrawFn, depth: int) -> nodes.Expression:
    operator, left, right = draw(st.sampled_from(_OPERATORS)), draw(expressions(depth)), draw(expressions(depth))
    if operator in ("IS", "IS NOT") and isinstance(right, nodes.Literal) and right.value is None:
        return nodes.IsNull(left, operator == "IS NOT")
    return nodes.Binary(operator, left, right)


@st.composite
def _compared(draw: st.DrawFn, depth: int) -> nodes.Expression:
    one, is_negated = expressions(depth), draw(st.booleans())
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return nodes.Between(draw(one), draw(one), draw(one), is_negated)
    if kind == 1:
        return nodes.In(draw(one), draw(_rows(depth) | queries(depth)), is_negated)
    if kind == 2:
        return nodes.IsNull(draw(one), is_negated)
    operator = draw(st.sampled_from(("LIKE", "GLOB", "REGEXP")))
    return nodes.Match(operator, draw(one), draw(one), draw(_maybe(depth)) if operator == "LIKE" else None, is_negated)


@st.composite
def _simple(draw: st.DrawFn, depth: int) -> nodes.Expression:
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return nodes.Exists(draw(queries(depth)))
    if kind == 1:
        return nodes.Subquery(draw(queries(depth)))
    if kind == 2:
        return nodes.Collate(draw(expressions(depth)), draw(names))
    if kind == 3:
        return nodes.RowValue(draw(_rows(depth, 2, 3)))
    is_convert = kind == 4
    style = draw(_maybe(depth)) if is_convert else None
    return nodes.Cast(draw(expressions(depth)), draw(st.sampled_from(_TYPES)), style, is_convert)


@st.composite
def _case(draw: st.DrawFn, depth: int) -> nodes.Expression:
    whens = st.lists(st.tuples(expressions(depth), expressions(depth)), min_size=1, max_size=2).map(tuple)
    return nodes.Case(draw(_maybe(depth)), draw(whens), draw(_maybe(depth)))


@st.composite
def _call(draw: st.DrawFn, depth: int) -> nodes.Expression:
    kind = draw(st.integers(0, 7))
    if kind == 0:
        return nodes.Call("CURRENT_TIMESTAMP", None)
    if kind == 1:
        name, most = draw(st.sampled_from(_SPECIAL))
        return nodes.Call(name, draw(_rows(depth, 0, most)))
    args = draw(_rows(depth))
    is_star = not args and draw(st.booleans())
    over = draw(st.none() | st.none() | names | windows(depth))
    order_by = draw(_terms(depth)) if args else ()
    is_distinct = bool(args) and draw(st.booleans())
    return nodes.Call(draw(st.sampled_from(_FUNCTIONS)), args, is_distinct, is_star, order_by, draw(st.none() | _maybe(depth)), over)


_KINDS: tuple[Any, ...] = (_unary, _binary, _binary, _binary, _compared, _compared, _simple, _case, _call)


def _terms(depth: int) -> st.SearchStrategy[tuple[nodes.OrderTerm, ...]]:
    term = st.builds(nodes.OrderTerm, expressions(depth), st.booleans(), st.sampled_from(("", "FIRST", "LAST")))
    return st.lists(term, max_size=2).map(tuple)


@st.composite
def _frames(draw: st.DrawFn, depth: int) -> nodes.Frame:
    first = draw(st.integers(0, 3))
    last = draw(st.integers(max(first, 1), 4))
    bounds = []
    for place in (first, last):
        kind = _BOUNDS[place]
        bounds.append(nodes.Bound(kind, draw(expressions(depth)) if kind in ("PRECEDING", "FOLLOWING") else None))
    exclude = draw(st.sampled_from(("", "NO OTHERS", "CURRENT ROW", "GROUP", "TIES")))
    end = None if first <= 2 and draw(st.booleans()) else bounds[1]
    return nodes.Frame(draw(st.sampled_from(("ROWS", "RANGE", "GROUPS"))), bounds[0], end, exclude)


def windows(depth: int) -> st.SearchStrategy[nodes.Window]:
    return st.builds(nodes.Window, _maybe_name, _rows(depth), _terms(depth), st.none() | _frames(depth))


# --- queries ------------------------------------------------------------------------------------------------------------------------------


@st.composite
def _items(draw: st.DrawFn, depth: int, least: int = 1) -> tuple[nodes.SelectItem | nodes.Star, ...]:
    items: list[nodes.SelectItem | nodes.Star] = []
    for _ in range(draw(st.integers(least, 2))):
        if draw(st.integers(0, 4)) == 0:
            table = draw(_maybe_name)
            items.append(nodes.Star(table, draw(_maybe_name) if table else ""))
        else:
            items.append(nodes.SelectItem(draw(expressions(depth)), draw(_maybe_name)))
    return tuple(items)


@st.composite
def _tables(draw: st.DrawFn, depth: int) -> nodes.Source:
    kind = draw(st.integers(0, 5 if depth > 0 else 3))
    if kind == 4:
        return nodes.SubqueryRef(draw(queries(depth)), draw(_maybe_name))
    if kind == 5:
        return nodes.TableFunction(draw(names).lower(), draw(_rows(depth)), draw(_maybe_name))
    return nodes.TableRef(draw(names), draw(_maybe_name), draw(_maybe_name))


@st.composite
def sources(draw: st.DrawFn, depth: int) -> nodes.Source:
    source = draw(_tables(depth))
    for _ in range(draw(st.integers(0, 2))):
        right = draw(sources(depth - 1) if depth > 0 and draw(st.booleans()) else _tables(depth))
        kind = draw(st.sampled_from(("INNER", "LEFT", "RIGHT", "FULL", "CROSS", ",")))
        is_natural = kind != "," and draw(st.booleans())
        on: nodes.Expression | None = None
        using: tuple[str, ...] = ()
        if not is_natural and draw(st.booleans()):
            on = draw(expressions(depth))
        elif not is_natural:
            using = tuple(draw(st.lists(names, max_size=2)))
        source = nodes.Join(source, right, kind, is_natural, on, using)
    return source


@st.composite
def _parts(draw: st.DrawFn, depth: int) -> nodes.Select | nodes.Values:
    if draw(st.integers(0, 6)) == 0:
        width = draw(st.integers(1, 2))
        row = st.lists(expressions(depth), min_size=width, max_size=width).map(tuple)
        return nodes.Values(draw(st.lists(row, min_size=1, max_size=2).map(tuple)))
    source = draw(st.none() | sources(depth))
    defined = st.lists(st.tuples(names, windows(depth)), max_size=1).map(tuple)
    group_by, having = draw(_rows(depth)), draw(_maybe(depth))
    top = draw(st.none() | st.none() | _leaves)
    return nodes.Select(draw(_items(depth)), source, draw(_maybe(depth)), group_by, having, draw(st.booleans()), draw(defined), top)


@st.composite
def _common_tables(draw: st.DrawFn, depth: int) -> dict[str, Any]:
    """Arguments of a node: the tables of WITH."""
    if depth <= 0 or draw(st.integers(0, 3)):
        return {}
    columns = st.lists(names, max_size=2).map(tuple)
    table = st.builds(nodes.CommonTable, names, queries(depth - 1), columns, st.sampled_from((None, True, False)))
    return {"tables": tuple(draw(st.lists(table, min_size=1, max_size=2))), "is_recursive": draw(st.booleans())}


@st.composite
def queries(draw: st.DrawFn, depth: int = DEPTH) -> nodes.Query:
    first = draw(_parts(depth - 1))
    operators = st.sampled_from(("UNION", "UNION ALL", "INTERSECT", "EXCEPT"))
    others = tuple(draw(st.lists(st.tuples(operators, _parts(depth - 1)), max_size=1)))
    with_tables = draw(_common_tables(depth))
    last = others[-1][1] if others else first
    if isinstance(last, nodes.Values):
        return nodes.Query(first, others, **with_tables)
    limited = {} if last.top is not None and not others else draw(_limits(depth - 1))
    return nodes.Query(first, others, draw(_terms(depth - 1)), **limited, **with_tables)


@st.composite
def _limits(draw: st.DrawFn, depth: int) -> dict[str, Any]:
    limit = draw(_maybe(depth))
    return {"limit": limit, "offset": draw(_maybe(depth)) if limit is not None else None}


# --- statements ---------------------------------------------------------------------------------------------------------------------------

_targets = st.builds(nodes.TableRef, names, _maybe_name, _maybe_name)


def _assignments(depth: int, least: int = 1) -> st.SearchStrategy[tuple[nodes.Assignment, ...]]:
    columns = st.lists(names, min_size=1, max_size=2).map(tuple)
    return st.lists(st.builds(nodes.Assignment, columns, expressions(depth)), min_size=least, max_size=2).map(tuple)


@st.composite
def _conflicts(draw: st.DrawFn, depth: int) -> tuple[nodes.Conflict, ...]:
    conflicts = []
    count = draw(st.integers(0, 2))
    for number in range(count):
        columns = tuple(draw(st.lists(names, min_size=0 if number == count - 1 else 1, max_size=2)))
        target_where = draw(_maybe(depth)) if columns else None
        assignments = draw(_assignments(depth, 0))
        conflicts.append(nodes.Conflict(columns, target_where, assignments, draw(_maybe(depth)) if assignments else None))
    return tuple(conflicts)


@st.composite
def _inserts(draw: st.DrawFn, depth: int) -> nodes.Insert:
    columns = tuple(draw(st.lists(names, max_size=2)))
    source, conflicts = draw(st.none() | queries(depth)), draw(_conflicts(depth))
    return nodes.Insert(draw(_targets), columns, source, conflicts, draw(_items(depth, 0)), **draw(_common_tables(depth)))


@st.composite
def _changes(draw: st.DrawFn, depth: int) -> nodes.Update | nodes.Delete:
    arguments: dict[str, Any] = {
        "table": draw(_targets),
        "where": draw(_maybe(depth)),
        "order_by": draw(_terms(depth)),
        "returning": draw(_items(depth, 0)),
        **draw(_limits(depth)),
        **draw(_common_tables(depth)),
    }
    if draw(st.booleans()):
        return nodes.Delete(**arguments)
    return nodes.Update(**arguments, assignments=draw(_assignments(depth)), source=draw(st.none() | sources(depth)))


@st.composite
def statements(draw: st.DrawFn, depth: int = DEPTH) -> nodes.Statement:
    statement = draw(queries(depth) | _inserts(depth - 1) | _changes(depth - 1))
    return nodes.Explain(statement) if draw(st.integers(0, 9)) == 0 else statement
