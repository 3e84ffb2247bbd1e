"""What SQLite raises, as an answer (spec: sql §7).

Names and their misuse are found by binding. What is left for SQLite are faults of values, and some of grammar; its words for these are told where they are
known here, for others could have names in them that binding has made.
"""

from __future__ import annotations

import logging
import re

import apsw

from svc.errors import Problem, QueryError, StoreFailure
from svc.sql.options import SqlOptions
from svc.sql.work import too_much

logger = logging.getLogger("svc.sql")

_VALUES = (
    (re.compile("^malformed JSON"), "A text that JSON functions take is no JSON (json_valid(x) tells)"),
    (re.compile("^(?:bad )?JSON path(?: error)?"), "A path of a JSON function is wrong: paths begin with $, as in '$.name[0]'"),
    (re.compile("^integer overflow"), "A sum of integers goes beyond 64 bits: use TOTAL(x), or CAST(x AS REAL)"),
    (re.compile("^LIKE or GLOB pattern too complex"), "A pattern of LIKE or GLOB is longer than 1,000 characters"),
    (re.compile("^input to (?:median|percentile)"), "MEDIAN and PERCENTILE take numbers"),
    (re.compile("^ESCAPE expression must be"), "ESCAPE takes one character"),
    (re.compile("^datatype mismatch"), "LIMIT and OFFSET take integers"),
    (re.compile("^JSON cannot hold BLOB values"), "JSON cannot hold bytes: use HEX(x)"),
    (re.compile("^json_object|^json_insert|^json_replace|^json_set"), "A JSON function needs a label before each value, as a text"),
)
_GRAMMAR = (
    (re.compile("^no such collation sequence"), "Unknown collation: there are BINARY, NOCASE and RTRIM"),
    (re.compile("^row value misused"), "A row of values stands where one value has to"),
    (
        re.compile("^sub-select returns (\\d+) columns? - expected (\\d+)"),
        "A sub-select has another number of columns than its place takes",
    ),
    (re.compile("^SELECTs to the left and right"), "The SELECTs of UNION, INTERSECT or EXCEPT differ in their number of columns"),
    (re.compile("^all VALUES must have"), "The rows of VALUES differ in length"),
    (
        re.compile("^(?:circular reference|multiple references to recursive|recursive reference|multiple recursive)"),
        "A recursive table may name itself once, in FROM, behind UNION",
    ),
    (re.compile("^recursive aggregate queries"), "A recursive table may not aggregate itself"),
    (re.compile("^recursive (?:window|query)"), "A recursive table may not use windows over itself"),
    (
        re.compile("^frame |^RANGE with offset|^unsupported frame"),
        "The frame of a window is wrong: RANGE with an offset needs one ORDER BY, and offsets are not negative",
    ),
    (
        re.compile("^(?:second|.*) argument (?:to|of) (?:nth_value|ntile|lag|lead)|^argument of ntile"),
        "NTILE and NTH_VALUE take a positive integer",
    ),
    (re.compile("^DISTINCT aggregates must"), "An aggregate with DISTINCT takes one argument"),
    (re.compile("^DISTINCT is not supported for window"), "A window function cannot have DISTINCT"),
    (
        re.compile("^(?:.*misuse of aggregate|.*misuse of window|misuse of)"),
        "An aggregate or a window function stands where there are no rows for it",
    ),
    (re.compile("^table .* has \\d+ values? for \\d+ columns?|^table .* has"), "A table of WITH has another number of columns than names"),
    (re.compile("^RIGHT and FULL OUTER JOINs"), "This RIGHT or FULL JOIN is not possible here: put it into a sub-select"),
)
_SIZES = re.compile(
    "^(?:too many|Expression tree is too|parser stack overflow|at most \\d+ tables|string or blob too big|SQL expression)", re.IGNORECASE
)


def problem_of(error: apsw.Error | UnicodeError, text: str, options: SqlOptions) -> Problem:
    """`text`: of the statement as it was sent, for the log."""
    if isinstance(error, UnicodeError):
        return QueryError("A text is no Unicode: bytes that are not UTF-8, or half a surrogate pair (HEX(x) shows them)", code="BAD_VALUE")
    if isinstance(error, (apsw.NoMemError, apsw.TooBigError)):
        return too_much(options)
    if isinstance(error, (apsw.IOError, apsw.CorruptError, apsw.FullError)):
        logger.error("SQLite could not run a statement", exc_info=error)
        return StoreFailure("The statement could not be run")
    message = str(error).partition(": ")[2] or str(error)
    message = message if not str(error).startswith(message) else str(error)
    for form, words in _VALUES:
        if form.search(message) or form.search(str(error)):
            return QueryError(words, code="BAD_VALUE")
    for form, words in _GRAMMAR:
        if form.search(message) or form.search(str(error)):
            return QueryError(words, code="QUERY_SYNTAX")
    if _SIZES.search(message) or _SIZES.search(str(error)):
        return QueryError("The statement is too large for SQLite: it has too many terms, tables, columns or levels", code="QUERY_TOO_LARGE")
    logger.info("SQLite refuses a statement: %s in %r", error, text[:500])
    return QueryError("Invalid SQL: SQLite refuses this statement", code="QUERY_SYNTAX")
