"""How large a statement may be. A larger one is refused with QUERY_TOO_LARGE before anything of it is done (spec: sql §7)."""

from __future__ import annotations

MAX_LENGTH = 1 << 18  # characters

# Levels from the root of a tree to its deepest leaf: parentheses, functions, operators one within another. A sub-select is two levels. Whoever walks over
# a tree may call itself for each level; chains of AND, OR and || are no deeper than CHAIN, however long.
MAX_DEPTH = 100
CHAIN = 32

# What SQLite would refuse.
MAX_COLUMNS = 2000  # of a result or a row; also terms of ORDER BY and GROUP BY
MAX_COMPOUND = 500  # SELECTs joined by UNION, INTERSECT, EXCEPT
MAX_TABLES = 64  # in one FROM
MAX_ARGUMENTS = 1000  # of a function
MAX_PARAMETER = 32_766
MAX_INTEGER = (1 << 63) - 1
