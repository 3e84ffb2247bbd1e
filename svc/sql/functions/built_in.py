"""The functions of SQLite that statements may call: all others are unknown (spec: sql §11).

They are those that depend on nothing but their arguments, and take time and memory in proportion to them: SQLite cannot interrupt a call, and what a value
may be long (SQLITE_LIMIT_LENGTH) bounds each result. So these are not here, though they are pure:

    instr, replace, trim      quadratic; there are ours. LIKE and GLOB are as well, and bounded by SQLITE_LIMIT_LIKE_PATTERN_LENGTH alone
    lower, upper              of ASCII only; there are ours
    json_patch                quadratic in the members of its objects
    json_pretty(x, indent)    allocates the indent for each level before it looks at the length; the form without is there
    jsonb_*, json_each_*      results that no client can read
    randomblob, zeroblob      nothing to be said with them
    like, glob, match, ->     operators
    geopoly_*, rtree*, fts*   of modules that are not in use
    sqlite_*, changes, ...    say something of the process, or do something to it
"""

from __future__ import annotations

from svc.sql.functions.function import Function, Kind, Result


def _rows(
    kind: Kind, names: str, low: int, high: int | None, summary: str, *, result: Result = "", sqlite: str = "", has_bytes: bool = False
) -> list[Function]:
    """Functions that differ by their names. `sqlite`: what all of them are in SQLite, if it is not their own name."""
    return [
        Function(name, low, high, kind, result, summary=summary, sqlite=sqlite or name.lower(), has_bytes=has_bytes)
        for name in names.split()
    ]


BUILT_IN: tuple[Function, ...] = (
    # Aggregates.
    *_rows("aggregate", "COUNT", 0, 1, "how many values there are that are not null; `COUNT(*)` counts rows"),
    *_rows("aggregate", "SUM TOTAL", 1, 1, "the sum; of no values null, or 0.0"),
    *_rows("aggregate", "AVG MEAN", 1, 1, "the average", sqlite="avg"),
    *_rows("aggregate", "MIN MAX", 1, None, "the first or last value in order; of several arguments that of these", has_bytes=True),
    *_rows("aggregate", "GROUP_CONCAT", 1, 2, "the values joined by a separator, by default a comma"),
    *_rows("aggregate", "STRING_AGG", 2, 2, "the values joined by a separator"),
    *_rows("aggregate", "MEDIAN", 1, 1, "the median"),
    *_rows("aggregate", "PERCENTILE PERCENTILE_CONT PERCENTILE_DISC", 2, 2, "a percentile: of 0 to 100, or as a share of 1"),
    *_rows("aggregate", "JSON_GROUP_ARRAY", 1, 1, "the values as JSON", result="json"),
    *_rows("aggregate", "JSON_GROUP_OBJECT", 2, 2, "names and values as JSON", result="json"),
    # Functions of windows.
    *_rows("window", "ROW_NUMBER RANK DENSE_RANK PERCENT_RANK CUME_DIST", 0, 0, "the place of a row"),
    *_rows("window", "NTILE", 1, 1, "which of so many parts a row is in"),
    *_rows("window", "LAG LEAD", 1, 3, "the value of a row before or after; how far, and what if there is none", result="first", has_bytes=True),
    *_rows("window", "FIRST_VALUE LAST_VALUE", 1, 1, "the value of the first or last row of the frame", result="first", has_bytes=True),
    *_rows("window", "NTH_VALUE", 2, 2, "the value of the nth row of the frame", result="first", has_bytes=True),
    # Logical.
    *_rows("scalar", "COALESCE", 2, None, "the first argument that is not null", result="first", has_bytes=True),
    *_rows("scalar", "IFNULL", 2, 2, "the first argument that is not null", result="first", has_bytes=True),
    *_rows("scalar", "IF IIF", 2, None, "the value behind the first condition that holds, else the last", result="first", sqlite="iif", has_bytes=True),
    *_rows("scalar", "NULLIF", 2, 2, "the first argument, null if it equals the second", result="first", has_bytes=True),
    *_rows("scalar", "LIKELY UNLIKELY", 1, 1, "its argument: a hint for the planner", result="first", has_bytes=True),
    *_rows("scalar", "TYPEOF", 1, 1, "null, integer, real, text or blob"),
    # Numbers.
    *_rows("scalar", "ABS SIGN EXP FLOOR SQRT LN LOG2 LOG10 TRUNC", 1, 1, "of a number"),
    *_rows("scalar", "CEIL CEILING", 1, 1, "the next whole number", sqlite="ceil"),
    *_rows("scalar", "POW POWER", 2, 2, "a power", sqlite="pow"),
    *_rows("scalar", "LOG", 1, 2, "the logarithm to the base 10, or that of the first argument"),
    *_rows("scalar", "MOD", 2, 2, "the remainder"),
    *_rows("scalar", "ROUND", 1, 2, "rounded to places after the point"),
    *_rows("scalar", "PI", 0, 0, "3.14159..."),
    *_rows("scalar", "RANDOM", 0, 0, "an integer of 64 bits, another one for each row"),
    *_rows("scalar", "DEGREES RADIANS SIN COS TAN ASIN ACOS ATAN SINH COSH TANH ASINH ACOSH ATANH", 1, 1, "of an angle"),
    *_rows("scalar", "ATAN2", 2, 2, "the angle of a point"),
    # Text.
    *_rows("scalar", "LEN LENGTH", 1, 1, "the number of characters", sqlite="length"),
    *_rows("scalar", "OCTET_LENGTH", 1, 1, "the number of bytes"),
    *_rows("scalar", "CONCAT", 1, None, "the arguments as one text, nulls left out"),
    *_rows("scalar", "CONCAT_WS", 2, None, "the arguments joined by the first, nulls left out"),
    *_rows("scalar", "SUBSTRING SUBSTR", 2, 3, "from a position, the first is 1, to the end or so many characters", sqlite="substr", has_bytes=True),
    *_rows("scalar", "CHAR", 0, None, "the characters of code points"),
    *_rows("scalar", "UNICODE", 1, 1, "the code point of the first character"),
    *_rows("scalar", "HEX", 1, 1, "bytes as hexadecimal digits"),
    *_rows("scalar", "UNHEX", 1, 2, "hexadecimal digits as bytes", has_bytes=True),
    *_rows("scalar", "QUOTE", 1, 1, "a value as a literal"),
    *_rows("scalar", "FORMAT PRINTF", 1, None, "values by a format: `%5.2f`", sqlite="format"),
    # Dates as SQLite has them; `DATE` of one argument is ours.
    *_rows("scalar", "DATETIME TIME JULIANDAY UNIXEPOCH", 0, None, "a date, by modifiers"),
    *_rows("scalar", "STRFTIME", 1, None, "a date by a format, by modifiers"),
    *_rows("scalar", "TIMEDIFF", 2, 2, "the time between two dates"),
    # JSON.
    *_rows("scalar", "JSON JSON_PRETTY", 1, 1, "JSON text without blanks, or with lines", result="json"),
    *_rows("scalar", "JSON_ARRAY", 0, None, "a list", result="json"),
    *_rows("scalar", "JSON_OBJECT", 0, None, "an object of names and values", result="json"),
    *_rows("scalar", "JSON_SET JSON_INSERT JSON_REPLACE JSON_ARRAY_INSERT", 1, None, "with values at paths", result="json"),
    *_rows("scalar", "JSON_REMOVE", 1, None, "without what is at paths", result="json"),
    *_rows("scalar", "JSON_EXTRACT", 2, None, "what is at a path; at several a list"),
    *_rows("scalar", "JSON_QUOTE", 1, 1, "a value as JSON", result="json"),
    *_rows("scalar", "JSON_TYPE JSON_ARRAY_LENGTH JSON_VALID", 1, 2, "of JSON text, or what is at a path"),
    *_rows("scalar", "JSON_ERROR_POSITION", 1, 1, "where JSON text has a fault, 0 if it has none"),
    *_rows("table", "JSON_EACH JSON_TREE", 1, 2, "the elements of a list or members of an object as rows; at all depths"),
)  # fmt: skip

DATE_WITH_MODIFIERS = Function("DATE", 2, None, summary="a date by modifiers, `2026-01-05`", sqlite="date")
"""What DATE is with more arguments than ours has."""
