"""Tokens -> calls of functions, with what has a syntax of its own, and windows (spec: sql §2)."""

from __future__ import annotations

from collections.abc import Callable

from svc.sql.expressions import ExpressionParser
from svc.sql.limits import MAX_ARGUMENTS
from svc.sql.nodes import Bound, Call, Cast, Column, Expression, Frame, Literal, OrderTerm, Window
from svc.sql.words import NAMES, UNITS

_TYPE_WORDS = NAMES - {"quoted"}
_FRAME_UNITS = frozenset(("ROWS", "RANGE", "GROUPS"))
# In the order in which they must come: an end of a frame is not before its start.
_BOUNDS = ("UNBOUNDED PRECEDING", "PRECEDING", "CURRENT ROW", "FOLLOWING", "UNBOUNDED FOLLOWING")


class CallParser(ExpressionParser):
    __slots__ = ()

    def call(self) -> Expression:
        index = self.index
        if self.kinds[index] == "quoted":
            raise self.fault("the name of a function stands without quotes")
        name = self.tokens[index]
        if name.isascii():  # of other letters some become ASCII: `ı` is `I`
            name = name.upper()
        at = self.starts[index]
        self.index = index + 2
        outer = self.open_level()
        special = _SPECIAL.get(name)
        if special is not None:
            node = special(self, name, at)
            self.close_level(outer)
            return node
        is_distinct = is_star = False
        args: tuple[Expression, ...] = ()
        order_by: tuple[OrderTerm, ...] = ()
        kind = self.kinds[self.index]
        if kind == "*":
            self.index += 1
            is_star = True
        elif kind != ")":
            if kind == "DISTINCT":
                self.index += 1
                is_distinct = True
            elif kind == "ALL":
                self.index += 1
            args = tuple(self.expressions(MAX_ARGUMENTS))
            if self.kinds[self.index] == "ORDER":
                order_by = self.order_terms()
        self.need(")")
        where: Expression | None = None
        over: str | Window | None = None
        if self.kinds[self.index] == "FILTER" and self.kinds[self.index + 1] == "(":
            self.index += 2
            self.need("WHERE")
            where = self.expression()
            self.need(")")
        if self.kinds[self.index] == "OVER":
            over = self._over()
        self.close_level(outer)
        return Call(name, args, is_distinct, is_star, order_by, where, over, at)

    # --- what has a syntax of its own -----------------------------------------------------------------------------------------------------

    def _cast(self, name: str, at: int) -> Expression:
        operand = self.expression()
        self.need("AS")
        type_name = self.type_name()
        self.need(")")
        return Cast(operand, type_name, None, False, at)

    def _convert(self, name: str, at: int) -> Expression:
        if self.kinds[self.index] not in _TYPE_WORDS:
            raise self.unexpected("a type, as in CONVERT(type, value)")
        type_name = self.type_name()
        self.need(",")
        operand = self.expression()
        style = self.expression() if self.take(",") else None
        self.need(")")
        return Cast(operand, type_name, style, True, at)

    def type_name(self) -> str:
        """Words, and perhaps a length or two in parentheses, in upper case. Without quotes: it is printed as it is."""
        words = []
        while self.kinds[self.index] in _TYPE_WORDS:
            words.append(self._name())
        if not words:
            raise self.unexpected("a type")
        type_name = " ".join(words).upper()
        if not self.take("("):
            return type_name
        sizes = []
        while True:
            sign = self.kinds[self.index] if self.kinds[self.index] in ("+", "-") else ""
            self.index += bool(sign)
            if not self.tokens[self.index].isdecimal():
                raise self.unexpected("a number")
            sizes.append(sign + self.tokens[self.index])
            self.index += 1
            if len(sizes) > 1 or not self.take(","):
                break
        self.need(")")
        return f"{type_name}({', '.join(sizes)})"

    def _trim(self, name: str, at: int) -> Expression:
        """`TRIM(x)`, `TRIM(x, chars)`, `TRIM(FROM x)`, `TRIM(chars FROM x)`."""
        args = [] if self.kinds[self.index] in ("FROM", ")") else self.expressions()
        if len(args) < 2 and self.take("FROM"):
            args.insert(0, self.expression())
        self.need(")")
        return Call(name, tuple(args), at=at)

    def _with_unit(self, name: str, at: int) -> Expression:
        """`DATE_ADD(d, 3, days)`, `EXTRACT(d, year)`, `EXTRACT(year FROM d)`: a unit without quotes is a text."""
        args = [] if self.kinds[self.index] == ")" else self.expressions()
        if name == "EXTRACT" and len(args) == 1 and self.take("FROM"):
            args.insert(0, self.expression())
        self.need(")")
        place = _UNIT_PLACES[name]
        if len(args) > place:
            unit = args[place]
            if type(unit) is Column and not (unit.table or unit.is_quoted) and unit.name.lower() in UNITS:
                args[place] = Literal(unit.name, unit.name, unit.at)
        return Call(name, tuple(args), at=at)

    # --- order and windows ----------------------------------------------------------------------------------------------------------------

    def order_terms(self) -> tuple[OrderTerm, ...]:
        """ORDER BY and its terms; () if it does not come next."""
        if not self.take("ORDER"):
            return ()
        self.need("BY")
        terms = []
        while True:
            expression = self.expression()
            is_descending = self.take("DESC")
            if not is_descending:
                self.take("ASC")
            nulls = ""
            if self.take("NULLS"):
                nulls = self.kinds[self.index]
                if nulls not in ("FIRST", "LAST"):
                    raise self.unexpected("FIRST or LAST")
                self.index += 1
            terms.append(OrderTerm(expression, is_descending, nulls))
            if not self.another(len(terms)):
                break
        return tuple(terms)

    def _over(self) -> str | Window | None:
        """OVER is an alias, unless a window follows."""
        following = self.kinds[self.index + 1]
        if following == "(":
            self.index += 1
            return self.window()
        if following in NAMES:
            self.index += 1
            return self.name()
        return None

    def window(self) -> Window:
        """What stands in parentheses behind OVER, or behind AS in WINDOW."""
        self.need("(")
        outer = self.open_level()
        base = ""
        kind = self.kinds[self.index]
        if kind in NAMES and kind not in _FRAME_UNITS and not (kind == "PARTITION" and self.kinds[self.index + 1] == "BY"):
            base = self.name()
        partition_by: tuple[Expression, ...] = ()
        if self.take("PARTITION"):
            self.need("BY")
            partition_by = tuple(self.expressions())
        order_by = self.order_terms()
        frame = self._frame() if self.kinds[self.index] in _FRAME_UNITS else None
        self.close_level(outer)
        self.settle()
        self.need(")")
        return Window(base, partition_by, order_by, frame)

    def _frame(self) -> Frame:
        at = self.at
        unit = self.kinds[self.index]
        self.index += 1
        end: Bound | None = None
        if self.take("BETWEEN"):
            start = self._bound()
            self.need("AND")
            end = self._bound()
        else:
            start = self._bound()
        first, last = _BOUNDS.index(start.kind), _BOUNDS.index(end.kind if end else "CURRENT ROW")
        if first > last or first == len(_BOUNDS) - 1 or last == 0:
            raise self.fault("this frame ends before it begins", at)
        exclude = ""
        if self.take("EXCLUDE"):
            exclude = self._exclusion()
        return Frame(unit, start, end, exclude)

    def _bound(self) -> Bound:
        if self.kinds[self.index] == "UNBOUNDED" and self.kinds[self.index + 1] in ("PRECEDING", "FOLLOWING"):
            self.index += 2
            return Bound(f"UNBOUNDED {self.kinds[self.index - 1]}")
        if self.kinds[self.index] == "CURRENT" and self.kinds[self.index + 1] == "ROW":
            self.index += 2
            return Bound("CURRENT ROW")
        offset = self.expression()
        kind = self.kinds[self.index]
        if kind not in ("PRECEDING", "FOLLOWING"):
            raise self.unexpected("PRECEDING or FOLLOWING")
        self.index += 1
        return Bound(kind, offset)

    def _exclusion(self) -> str:
        kind = self.kinds[self.index]
        self.index += 1
        if kind == "NO":
            self.need("OTHERS")
            return "NO OTHERS"
        if kind == "CURRENT":
            self.need("ROW")
            return "CURRENT ROW"
        if kind not in ("GROUP", "TIES"):
            self.index -= 1
            raise self.unexpected("NO OTHERS, CURRENT ROW, GROUP or TIES")
        return kind


_UNIT_PLACES = {"DATE_ADD": 2, "DATE_SUB": 2, "DATE_DIFF": 2, "DATEDIFF": 2, "EXTRACT": 1}
_SPECIAL: dict[str, Callable[[CallParser, str, int], Expression]] = {
    "CAST": CallParser._cast,
    "CONVERT": CallParser._convert,
    "TRIM": CallParser._trim,
    **dict.fromkeys(_UNIT_PLACES, CallParser._with_unit),
}
