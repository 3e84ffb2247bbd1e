"""Columns that the caller may not read: every clause refuses them, and SQLite gets none of their names."""

import pytest

from svc.errors import QueryError
from svc.sql.errors import MissingRights
from tests.support.sql_binding import NARROW, bound, named, printed

CLAUSES = {
    "select list": "SELECT secret FROM data.person",
    "qualified": "SELECT p.secret FROM data.person p",
    "three names": "SELECT data.person.secret FROM data.person",
    "other case": "SELECT name FROM data.person WHERE secret > 'a'",
    "expression": "SELECT UPPER(secret) || 'x' FROM data.person",
    "where": "SELECT name FROM data.person WHERE secret = '7'",
    "order": "SELECT name FROM data.person ORDER BY secret",
    "order, expression": "SELECT name FROM data.person ORDER BY -secret",
    "group": "SELECT COUNT(*) FROM data.person GROUP BY secret",
    "having": "SELECT COUNT(*) FROM data.person GROUP BY name HAVING MAX(secret) > 'a'",
    "join on": "SELECT 1 FROM data.person p JOIN data.pet q ON p.secret = q.name",
    "using": "SELECT p.id FROM data.person p JOIN data.pet q USING (secret)",
    "using, from a table that has it": "WITH g(secret) AS (VALUES ('7')) SELECT p.id FROM data.person p JOIN g USING (secret)",
    "using, to a table that has it": "WITH g(secret) AS (VALUES ('7')) SELECT p.id FROM g JOIN data.person p USING (secret)",
    "sub-select": "SELECT 1 WHERE '7' IN (SELECT secret FROM data.person)",
    "sub-select behind from": "SELECT x FROM (SELECT secret AS x FROM data.person)",
    "correlated": "SELECT name FROM data.person p WHERE EXISTS (SELECT 1 FROM shop.sale WHERE p.secret = 'x')",
    "common table": "WITH w AS (SELECT secret FROM data.person) SELECT * FROM w",
    "common table that is not used": "WITH w AS (SELECT secret FROM data.person) SELECT 1",
    "window": "SELECT RANK() OVER (ORDER BY secret) FROM data.person",
    "named window": "SELECT name FROM data.person WINDOW w AS (PARTITION BY secret)",
    "aggregate": "SELECT COUNT(secret) FROM data.person",
    "order of an aggregate": "SELECT GROUP_CONCAT(name ORDER BY secret) FROM data.person",
    "filter": "SELECT COUNT(*) FILTER (WHERE secret = 'a') FROM data.person",
    "union": "SELECT name FROM data.pet UNION SELECT secret FROM data.person",
    "order of a union": "SELECT name FROM data.person UNION SELECT name FROM data.pet ORDER BY secret",
    "table function": "SELECT 1 FROM data.person, json_each(secret)",
    "case": "SELECT CASE WHEN secret = 'a' THEN 1 END FROM data.person",
    "nested joins": "SELECT secret FROM shop.sale LEFT JOIN (data.person JOIN data.pet) ON 1",
    "star of a sub-select": "SELECT secret FROM (SELECT * FROM data.person)",
}


@pytest.mark.parametrize("clause", CLAUSES)
def test_each_clause(clause):
    with pytest.raises((MissingRights, QueryError)) as caught:
        bound(CLAUSES[clause], NARROW)
    if clause == "star of a sub-select":  # that name is no column of a table there
        assert caught.value.status_code == 400
    else:
        assert isinstance(caught.value, MissingRights)
        assert caught.value.status_code == 403


def test_columns_nobody_may_know_of_do_not_exist():
    with pytest.raises(QueryError) as caught:
        bound("SELECT hidden FROM data.person", NARROW)
    assert caught.value.message == "unknown column hidden"
    with pytest.raises(QueryError) as caught:
        bound("SELECT hiden FROM data.person", NARROW)
    assert caught.value.message == "unknown column hiden"  # no hint tells of it


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM data.person",
        "SELECT p.*, q.* FROM data.person p JOIN data.pet q ON p.id = q.owner",
        "SELECT * FROM data.person NATURAL JOIN data.pet",
        "SELECT * FROM data.person NATURAL FULL JOIN data.pet",
        "SELECT * FROM (SELECT * FROM data.person) WHERE EXISTS (SELECT * FROM data.pet)",
        "WITH g(secret) AS (VALUES ('7')) SELECT * FROM data.person p NATURAL JOIN g",
        "SELECT * FROM shop.sale LEFT JOIN (data.person NATURAL JOIN data.pet) ON 1",
    ],
)
def test_star_and_natural_joins_are_narrowed(text):
    found = printed(text, NARROW)
    assert "person.secret" not in found and "pet.secret" not in found and "p.secret" not in found and "hidden" not in found
    assert [name for name in named(text, NARROW) if name.startswith("secret")] == (["secret"] if "g(secret)" in text else [])


def test_a_column_of_this_name_elsewhere_may_be_used():
    assert printed("SELECT secret FROM data.pet p, (SELECT name AS secret FROM data.person) s", NARROW).startswith("SELECT s.secret")
    assert printed("SELECT name AS secret FROM data.pet ORDER BY secret", NARROW).endswith("ORDER BY 1")
