"""What a statement may grow to: no recursion, no time and no memory beyond what its text is worth."""

import pytest

from svc.errors import QueryError
from svc.sql.binding.statement import MAX_COPIED_DEPTH, MAX_RELATIONS
from svc.sql.errors import StatementTooLarge
from tests.support.sql_binding import ALL, FakeCatalogue, bound, columns

WIDE = FakeCatalogue({("data", "wide"): columns("id " + " ".join(f"c{number}:ANY" for number in range(500)))})

FITS = {
    "functions": "SELECT " + "ABS(" * 98 + "age" + ")" * 98 + " FROM data.person",
    "sub-selects": "SELECT " + "(SELECT " * 48 + "any" + ")" * 48 + " FROM data.person",
    "sub-selects behind FROM": "SELECT * FROM " + "(SELECT * FROM " * 48 + "data.person" + ")" * 48,
    "distinct ones": "SELECT DISTINCT any FROM " + "(SELECT DISTINCT any FROM " * 48 + "data.person" + ")" * 48,
    "sub-selects of sub-selects": "SELECT " + "(SELECT x FROM (SELECT " * 24 + "any" + " AS x))" * 24 + " FROM data.person",
    "distinct sub-selects": "SELECT DISTINCT "
    + "(SELECT DISTINCT x FROM (SELECT DISTINCT " * 24
    + "any"
    + " AS x))" * 24
    + " FROM data.person",
    "exists": "SELECT 1 FROM data.pet WHERE " + "EXISTS (SELECT 1 FROM data.pet WHERE " * 32 + "1" + ")" * 32,
    "joins in parentheses": "SELECT * FROM " + "(data.pet LEFT JOIN " * 30 + "data.pet" + " ON 1)" * 30,
    "conditions": "SELECT 1 FROM data.person WHERE " + " AND ".join(["age = 1"] * 3000),
    "tables of WITH": "WITH w0 AS (SELECT any FROM data.pet), "
    + ", ".join(f"w{number} AS (SELECT any FROM w{number - 1})" for number in range(1, MAX_RELATIONS - 1))
    + f" SELECT * FROM w{MAX_RELATIONS - 2}",
    "tables of WITH, the other way": "WITH "
    + ", ".join(f"w{number} AS (SELECT any FROM w{number + 1})" for number in range(40))
    + ", w40 AS (SELECT any FROM data.pet) SELECT * FROM w0",
    "deep tables of WITH": "WITH w0 AS (SELECT any FROM data.pet), "
    + ", ".join(f"w{number} AS (SELECT {'COALESCE(1, ' * 80}any{')' * 80} AS any FROM w{number - 1})" for number in range(1, 40))
    + " SELECT any FROM w39",
    "a deep alias": "SELECT " + "ABS(" * 28 + "age" + ")" * 28 + " AS b FROM data.person WHERE " + "ABS(" * 95 + "b" + ")" * 95,
}


@pytest.mark.parametrize("name", FITS)
def test_what_fits(name):
    bound(FITS[name], ALL)


TOO_LARGE = {
    "columns": ("SELECT *, *, *, *, * FROM data.wide", "more than 2000 columns"),
    "stars": (" UNION ALL ".join(["SELECT * FROM data.wide"] * 50), "*, USING and NATURAL stand for more than 20000 columns"),
    "stars of one": ("SELECT " + ", ".join(["*"] * 1000) + " FROM data.wide", "*, USING and NATURAL stand for more than 20000 columns"),
    "natural joins": (
        "SELECT 1 FROM data.wide " + " ".join(f"NATURAL FULL JOIN data.wide AS w{number}" for number in range(60)),
        "*, USING and NATURAL stand for more than 20000 columns",
    ),
    "copies": (
        "SELECT " + " + ".join(["c1"] * 20) + " AS b FROM data.wide WHERE " + " AND ".join(["b"] * 2000),
        "the expressions that aliases stand for are large, and used often (b): use a sub-select",
    ),
    "deep copies": (
        "SELECT " + "ABS(" * MAX_COPIED_DEPTH + "c1" + ")" * MAX_COPIED_DEPTH + " AS b FROM data.wide WHERE b",
        f"the alias b stands for an expression of more than {MAX_COPIED_DEPTH} levels: use a sub-select",
    ),
    "copies of copies": (
        "SELECT c1 + c1 AS a FROM data.wide WHERE "
        + "".join(
            f"(SELECT {a}+{a}+{a}+{a} AS {b} FROM data.wide WHERE {b}+{b}+{b}+{b} < "
            for a, b in zip("abcdefghij", "bcdefghijk", strict=True)
        )
        + "1"
        + ")" * 10,
        "",
    ),
    "tables of WITH": (
        "WITH w0 AS (SELECT 1 AS a), " + ", ".join(f"w{n} AS (SELECT a FROM w{n - 1})" for n in range(1, 2000)) + " SELECT * FROM w1999",
        f"more than {MAX_RELATIONS} sub-selects and tables of WITH are each built on the next",
    ),
    "tables of WITH, the other way": (
        "WITH " + ", ".join(f"w{n} AS (SELECT a FROM w{n + 1})" for n in range(1000)) + ", w1000 AS (SELECT 1 AS a) SELECT * FROM w0",
        f"more than {MAX_RELATIONS} sub-selects and tables of WITH are each built on the next",
    ),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_what_does_not(name):
    text, message = TOO_LARGE[name]
    with pytest.raises((StatementTooLarge, QueryError)) as caught:
        bound(text, WIDE)
    assert caught.value.message.startswith(message)
    assert isinstance(caught.value, StatementTooLarge)
    assert caught.value.status_code == 400
