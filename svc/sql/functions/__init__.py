"""The functions of statements: which there are, and those that SQLite does not have (spec: sql §11).

    FUNCTIONS      all that a statement may call, by name in upper case
    find_function  the one that a call means
    find_cast      the function that CAST and CONVERT call for a type
    register       makes ours known to a connection, with the `WorkMeter` of its statements

    function     what a row of the table says           dates, date_formats, date_functions
    built_in     the list of SQLite's                   text_functions, patterns
    meter        limits                                 aggregates
    exact        faces                                  conversion
                                                        geo: GeoJSON; jsonata: SEARCH_JSON

Exact faces. A function gets the value faces of its arguments, but for those of `takes_exact`: there it needs exact faces, and bytes that it gets there must be
what `encode_payload` has made. A column has one. Of any other expression that can be a BLOB, binding makes one by calling EXACT_OF; one that cannot be a BLOB
is its own exact face. Where the result of a call is itself a result, or an argument of `takes_exact`, binding calls the variant `exact` if there is one.

Ours have names of their own in SQLite, `svc_x`, so that what SQLite knows stays what it is. Null is the result where an argument is null or cannot be used,
unless it is said otherwise; QueryError (400 BAD_VALUE) is for what is wrong with a statement whatever its rows are: a unit, a pattern, an expression.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

import apsw

from svc.sql.functions.aggregates import AGGREGATE_FUNCTIONS
from svc.sql.functions.built_in import BUILT_IN, DATE_WITH_MODIFIERS
from svc.sql.functions.conversion import CAST_FUNCTIONS, CAST_NAMES
from svc.sql.functions.date_functions import DATE_FUNCTIONS
from svc.sql.functions.exact import exact_of_plain
from svc.sql.functions.function import Function, OwnFunction, Scalar
from svc.sql.functions.geo.functions import GEO_FUNCTIONS
from svc.sql.functions.jsonata.search import JSON_FUNCTIONS
from svc.sql.functions.meter import WorkMeter
from svc.sql.functions.patterns import PATTERN_FUNCTIONS
from svc.sql.functions.text_functions import TEXT_FUNCTIONS

__all__ = ["EXACT_OF", "FUNCTIONS", "Function", "WorkMeter", "find_cast", "find_function", "register"]

EXACT_OF = "svc_exact"
"""The name in SQLite of the function that makes an exact face of a value face."""


def _named(own: OwnFunction) -> OwnFunction:
    name = f"svc_{own.function.name.lower().replace(' ', '_')}"
    return replace(own, function=replace(own.function, sqlite=name, exact=f"{name}_exact" if own.make_exact is not None else ""))


_OWN = [_named(own) for own in chain(DATE_FUNCTIONS, TEXT_FUNCTIONS, PATTERN_FUNCTIONS, AGGREGATE_FUNCTIONS, GEO_FUNCTIONS, JSON_FUNCTIONS)]
_CASTS = {own.function.name: _named(own) for own in CAST_FUNCTIONS}

FUNCTIONS: Mapping[str, Function] = {function.name.upper(): function for function in chain(BUILT_IN, [own.function for own in _OWN])}


def find_function(name: str, count: int) -> Function | None:
    """What a call with so many arguments means; None if there is no such function. Whether it takes so many is not looked at."""
    return DATE_WITH_MODIFIERS if name == "DATE" and count >= DATE_WITH_MODIFIERS.low else FUNCTIONS.get(name)


def find_cast(type: str) -> Function | None:
    """The function that converts to a type, written like `VARCHAR(10)`; None if there is no such type. It takes a style as a second argument."""
    own = CAST_NAMES.get(type.partition("(")[0].strip().upper())
    return None if own is None else _CASTS[own.function.name].function


def register(connection: apsw.Connection, meter: WorkMeter) -> None:
    """Make ours known to a connection, whose limits are set; `meter` belongs to it."""
    meter.max_length = connection.limit(apsw.SQLITE_LIMIT_LENGTH)
    exact: Scalar = exact_of_plain
    connection.create_scalar_function(EXACT_OF, exact, 1, deterministic=True)
    for own in chain(_OWN, _CASTS.values()):
        function = own.function
        for name, make in ((function.sqlite, own.make), (function.exact, own.make_exact)):
            if make is None:
                continue
            call = make(meter)
            for count in _counts(function):
                if function.kind == "aggregate":
                    connection.create_window_function(name, call, count)
                else:
                    connection.create_scalar_function(name, call, count, deterministic=own.is_fixed)


def _counts(function: Function) -> Iterator[int]:
    """Numbers of arguments as SQLite has them: -1 is any."""
    return iter((-1,)) if function.high is None else iter(range(function.low, function.high + 1))
