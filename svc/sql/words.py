"""Words that mean something to the parser, in upper case (spec: sql §2).

Three kinds, as in SQLite: reserved ones are never names, unless they are quoted or stand behind a dot; those that join or match are names where an operand
or a name must come, but no alias without AS; all others are names wherever they do not mean what they say.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


RESERVED = _words(
    """ALL AND AS BETWEEN CASE COLLATE DISTINCT ELSE ESCAPE EXCEPT EXISTS FROM GROUP HAVING IN INTERSECT INTO IS ISNULL JOIN LIMIT NOT NOTNULL NULL ON OR
    ORDER RETURNING SELECT SET THEN UNION USING VALUES WHEN WHERE"""
)
JOINING = frozenset(("CROSS", "FULL", "INNER", "LEFT", "NATURAL", "OUTER", "RIGHT"))
MATCHING = frozenset(("GLOB", "LIKE", "MATCH", "REGEXP"))
_OTHERS = _words(
    """ASC BY CONFLICT CURRENT CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP DEFAULT DELETE DESC DO END EXCLUDE EXPLAIN FALSE FILTER FIRST
    FOLLOWING GROUPS INDEXED INSERT LAST MATERIALIZED NO NOTHING NULLS OFFSET OTHERS OVER PARTITION PLAN PRECEDING QUERY RANGE RECURSIVE ROW ROWS TIES TOP
    TRUE UNBOUNDED UPDATE VALUE WINDOW WITH"""
)
WORDS = RESERVED | JOINING | MATCHING | _OTHERS

# Kinds of tokens (see lexer) that are a name, and those that are an alias without AS.
NAMES = (WORDS - RESERVED) | {"name", "quoted"}
ALIASES = (NAMES - JOINING - MATCHING - {"DEFAULT", "DELETE", "FALSE", "INDEXED", "INSERT", "TRUE", "UPDATE"}) | {"text"}

COMPOUNDS = frozenset(("UNION", "INTERSECT", "EXCEPT"))
CLOCKS = frozenset(("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP"))

# First words of statements that other databases have, and this one does not.
UNSUPPORTED = _words(
    """ALTER ANALYZE ATTACH BEGIN CALL COMMENT COMMIT COPY CREATE DECLARE DESC DESCRIBE DETACH DO DROP END EXEC EXECUTE GRANT IMPORT KILL LOAD LOCK MERGE
    OPTIMIZE PRAGMA REINDEX RELEASE RENAME REPLACE RESET REVOKE ROLLBACK SAVEPOINT SET SHOW START TRUNCATE UNLOCK USE VACUUM"""
)

# Units and parts of dates that may stand without quotes, in lower case; `M` is months and `m` minutes.
UNITS = _words(
    """year years y quarter quarters q month months m week weeks w day days d hour hours h minute minutes second seconds s millisecond milliseconds
    ms"""
)
