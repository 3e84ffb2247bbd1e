"""Calls of functions: which function a name means, whether it can stand there, and over the rows of which query it computes (spec: sql §2)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from svc.errors import QueryError
from svc.query.hints import did_you_mean
from svc.sql.binding.bound_nodes import BoundCall
from svc.sql.binding.faults import misuse
from svc.sql.binding.scopes import Scope
from svc.sql.functions import FUNCTIONS, Function, find_cast, find_function
from svc.sql.nodes import Bound, Call, Cast, Expression, Frame, Match, Unary, Window

if TYPE_CHECKING:
    from svc.sql.binding.expressions import ExpressionBinder

_SHOWN = 100  # characters of a name in a message
_TYPES = ("INT", "FLOAT", "STRING", "BOOLEAN", "DATE")
_AFFINITIES = {"CAST STRING": "TEXT", "CAST FLOAT": "REAL"}  # that comparisons have in SQLite; whole numbers may be texts of digits


class CallBinder:
    def __init__(self, expressions: ExpressionBinder) -> None:
        self._expressions = expressions
        self._seen: list[set[Scope]] = []

    def note(self, scope: Scope) -> None:
        """A column of `scope` is named: the aggregates that are being bound may compute over its rows."""
        for scopes in self._seen:
            scopes.add(scope)

    def call(self, node: Call, scope: Scope) -> Expression:
        function = _function(node)
        if node.over is not None:
            return self._window_call(node, function, scope)
        if function.is_aggregate(len(node.args or ())):
            return self._aggregate(node, function, scope)
        if function.kind == "window":
            raise misuse(f"{node.name}() needs OVER", node.at)
        for is_there, what in (
            (node.is_distinct, "DISTINCT"),
            (node.order_by, "ORDER BY"),
            (node.where is not None, "FILTER"),
            (node.is_star, "*"),
        ):
            if is_there:
                raise misuse(f"{what} is not possible in {node.name}(), which is no aggregate", node.at)
        return self._bound(node, function, scope)

    def cast(self, node: Cast, scope: Scope) -> Expression:
        function = find_cast(node.type)
        if function is None:
            hint = did_you_mean(node.type, _TYPES) or f"there are {', '.join(_TYPES)}"
            raise misuse(f"unknown type {node.type[:_SHOWN]} ({hint})", node.at)
        args = (node.operand,) if node.style is None else (node.operand, node.style)
        found = self._bound(Call("CAST", args, at=node.at), function, scope)
        affinity = _AFFINITIES.get(function.name)
        return found if affinity is None else Cast(found, affinity, at=node.at)

    def match(self, node: Match, scope: Scope) -> Expression:
        """`text REGEXP pattern`: of ours, since SQLite has none."""
        found: Expression = self._bound(Call("REGEXP_LIKE", (node.left, node.right), at=node.at), FUNCTIONS["REGEXP_LIKE"], scope)
        return Unary("NOT", found) if node.is_negated else found

    def _bound(self, node: Call, function: Function, scope: Scope) -> BoundCall:
        bind = self._expressions.bind
        args = tuple([bind(arg, scope) for arg in node.args or ()])
        if function.takes_exact:
            self._expressions.statement.takes_exact = True
        order_by, where = self._expressions.terms(node.order_by, scope), self._expressions.maybe(node.where, scope)
        return BoundCall(function.sqlite, args, node.is_distinct, node.is_star, order_by, where, None, node.at, function)

    # --- aggregates -----------------------------------------------------------------------------------------------------------------------

    def _aggregate(self, node: Call, function: Function, scope: Scope) -> Expression:
        if node.is_distinct and len(node.args or ()) != 1:
            raise misuse(f"{node.name}(DISTINCT ...) has one argument", node.at)
        before = scope.no_aggregates, scope.no_windows
        scope.no_aggregates = scope.no_windows = f"the aggregate {node.name}()"
        named: set[Scope] = set()
        self._seen.append(named)
        try:
            found = self._bound(node, function, scope)
        finally:
            self._seen.pop()
            scope.no_aggregates, scope.no_windows = before
        owner = _owner(scope, named)
        if owner.no_aggregates:
            raise self.no_aggregate(node.name, owner.no_aggregates, node.at)
        owner.aggregates[id(found)] = found
        return found

    def no_aggregate(self, name: str, place: str, at: int) -> QueryError:
        hint = " (groups are chosen by HAVING)" if place == "WHERE" else ""
        return misuse(f"the aggregate {name}() is not possible in {place}{hint}", at)

    # --- windows --------------------------------------------------------------------------------------------------------------------------

    def _window_call(self, node: Call, function: Function, scope: Scope) -> Expression:
        is_aggregate = function.is_aggregate(len(node.args or ()))
        if not is_aggregate and function.kind != "window":
            raise misuse(f"{node.name}() is not possible with OVER: it computes over no rows", node.at)
        if scope.no_windows:
            raise self.no_window(node.name, scope.no_windows, node.at)
        if node.is_distinct:
            raise misuse(f"DISTINCT is not possible in {node.name}() with OVER", node.at)
        if node.order_by:
            raise misuse(f"ORDER BY is not possible among the arguments of {node.name}() with OVER", node.at)
        if node.where is not None and not is_aggregate:
            raise misuse(f"FILTER is not possible in {node.name}(), which is no aggregate", node.at)
        scope.no_windows = f"the window function {node.name}()"
        try:
            found = self._bound(node, function, scope)
            assert node.over is not None
            found.over = (
                self.named_window(node.over, scope, node.at) if isinstance(node.over, str) else self.window(node.over, scope, node.at)
            )
        finally:
            scope.no_windows = ""
        scope.has_windows = True
        return found

    def no_window(self, name: str, place: str, at: int) -> QueryError:
        hint = "" if place.startswith("the ") else " (use a sub-select)"
        return misuse(f"the window function {name}() is not possible in {place}{hint}", at)

    def named_window(self, name: str, scope: Scope, at: int) -> str:
        """The name under which the window is known to SQLite."""
        found = scope.windows.get(name)
        if found is None:
            hint = did_you_mean(name, scope.windows)
            raise misuse(f"unknown window {name[:_SHOWN]}" + (f" ({hint})" if hint else ""), at)
        return found

    def window(self, node: Window, scope: Scope, at: int) -> Window:
        """`at`: of what has it."""
        expressions = self._expressions
        return Window(
            self.named_window(node.base, scope, at) if node.base else "",
            tuple([expressions.bind(each, scope) for each in node.partition_by]),
            expressions.terms(node.order_by, scope),
            None if node.frame is None else self._frame(node.frame, scope),
        )

    def _frame(self, node: Frame, scope: Scope) -> Frame:
        end = None if node.end is None else self._end(node.end, scope)
        return replace(node, start=self._end(node.start, scope), end=end)

    def _end(self, node: Bound, scope: Scope) -> Bound:
        return Bound(node.kind, self._expressions.maybe(node.offset, scope))


def _owner(scope: Scope, named: set[Scope]) -> Scope:
    """Over the rows of which query an aggregate computes: of the innermost whose columns it names, else of that in which it stands."""
    around: Scope | None = scope
    while around is not None:
        if around in named:
            return around
        around = around.outer
    return scope


def _function(node: Call) -> Function:
    """Raises QueryError if there is none, or if it takes another number of arguments."""
    count = len(node.args or ())
    function = find_function(node.name, count)
    if function is None:
        hint = did_you_mean(node.name, FUNCTIONS)
        raise misuse(f"unknown function {node.name[:_SHOWN]}" + (f" ({hint})" if hint else ""), node.at)
    if function.kind == "table":
        raise misuse(f"{node.name}() makes rows: it stands behind FROM", node.at)
    if node.is_star and function.name != "COUNT":
        raise misuse(f"{node.name}(*) is not possible", node.at)
    if not node.is_star and not (function.low <= count and (function.high is None or count <= function.high)):
        raise misuse(f"{node.name}() takes {_arguments(function)}, not {count}", node.at)
    return function


def _arguments(function: Function) -> str:
    least, most = function.low, function.high
    if least == most:
        return "no arguments" if not least else "1 argument" if least == 1 else f"{least} arguments"
    return f"{least} to {most} arguments" if most is not None else f"at least {least} argument{'s' if least != 1 else ''}"
