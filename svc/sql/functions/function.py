"""What a statement may call, as rows of a table (spec: sql §11)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from svc.errors import QueryError
from svc.sql.affinity import text_of_number
from svc.sql.functions.meter import WorkMeter
from svc.store.values.conversion import shown

Kind: TypeAlias = Literal["scalar", "aggregate", "window", "table"]
Result: TypeAlias = Literal["", "boolean", "json", "first"]
Scalar: TypeAlias = Callable[..., Any]  # what is called, or makes what is called


@dataclass(frozen=True, slots=True)
class Function:
    """`name`: as documentation spells it. `low`, `high`: how many arguments it takes, `high` None: as many as there are.

    kind         `aggregate`: also with OVER. MIN and MAX are aggregates of one argument, and scalar with more: `is_aggregate`
    result       what is to be done with what it gives: `boolean` is 1 or 0, `json` is JSON text; `first`: one of the arguments, unchanged, so its exact face
                 if the arguments have theirs
    sqlite       its name in SQLite
    exact        "" or the name in SQLite of the variant whose result is an exact face
    takes_exact  the arguments that have to be exact faces, for both variants (see the package)
    has_bytes    the result may be a BLOB, which is no exact face
    """

    name: str
    low: int
    high: int | None
    kind: Kind = "scalar"
    result: Result = ""
    exact: str = ""
    summary: str = ""
    sqlite: str = ""
    takes_exact: tuple[int, ...] = ()
    has_bytes: bool = False

    def is_aggregate(self, count: int) -> bool:
        """Whether a call with so many arguments takes the rows of a group."""
        return self.kind == "aggregate" and (count < 2 or self.name not in ("MIN", "MAX"))


@dataclass(frozen=True, slots=True)
class OwnFunction:
    """A function that SQLite does not have. `make` gives what is called for one connection; of an aggregate, a class with the methods of a window function.
    `make_exact`: the same for the variant `exact`. `is_fixed`: equal arguments give equal results, within one statement.
    """

    function: Function
    make: Callable[[WorkMeter], Scalar]
    make_exact: Callable[[WorkMeter], Scalar] | None = None
    is_fixed: bool = True


def own(function: Function, call: Scalar) -> OwnFunction:
    """A function that needs nothing but its arguments."""
    return OwnFunction(function, lambda meter: call)


def bad_argument(message: str) -> QueryError:
    return QueryError(message, code="BAD_VALUE")


def text_of(value: Any) -> str:
    """The text of a value that is not null: a number as JSON writes it, whole ones without a fraction; bytes as UTF-8.

    >>> text_of(5.0), text_of(0.1), text_of(1e300), text_of(b"a\\xff")
    ('5', '0.1', '1e+300', 'a\\ufffd')
    """
    if type(value) is str:
        return value
    if type(value) is bytes:
        return value.decode("utf-8", "replace")
    return str(int(value)) if type(value) is float and value.is_integer() and abs(value) <= _EXACT else str(value)


def sql_text(value: Any) -> str:
    """The text of a value that is not null as SQLite writes it.

    >>> sql_text(5.0), sql_text(0.5), sql_text(7)
    ('5.0', '0.5', '7')
    """
    return text_of_number(value) if type(value) is float else text_of(value)


def number_of(value: Any) -> int | float | None:
    """A number, or that of a numeral; None for anything else, and what is not finite.

    >>> number_of(" 1.5 "), number_of("12"), number_of("x"), number_of("nan"), number_of(None), number_of("1" * 5000)
    (1.5, 12, None, None, None, None)
    """
    kind = type(value)
    if kind is int:
        return value  # type: ignore[no-any-return]
    if kind is str:
        if len(value) > _NUMERAL or "_" in value:
            return None
        try:
            return int(value)
        except ValueError:
            try:
                value = float(value)
            except ValueError:
                return None
    elif kind is not float:
        return None
    return value if value - value == 0.0 else None


def refused(what: str, value: Any) -> QueryError:
    return bad_argument(f"{what}, not {shown(value)}")


_EXACT = 2**53
_NUMERAL = 400  # characters of a numeral
