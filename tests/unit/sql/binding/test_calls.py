"""Functions, aggregates, windows."""

import pytest

from tests.support.sql_binding import ALL, RECORDS, Rows, fault, printed

ROWS = Rows(ALL, RECORDS)

PRINTED = {
    "SELECT count(*), Max(age), MIN(age, 1) FROM data.person GROUP BY id":
        "SELECT COUNT(*), MAX(person.age), MIN(person.age, 1) FROM @data.person AS person GROUP BY person.id",
    "SELECT COUNT(DISTINCT age) FILTER (WHERE name > 'a') FROM data.person":
        "SELECT COUNT(DISTINCT person.age) FILTER (WHERE person.name > 'a') FROM @data.person AS person",
    "SELECT GROUP_CONCAT(name, ';' ORDER BY age DESC) FROM data.person":
        "SELECT GROUP_CONCAT(person.name, ';' ORDER BY person.age DESC) FROM @data.person AS person",
    "SELECT SUM(age) OVER (PARTITION BY active ORDER BY id ROWS BETWEEN ? PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM data.person ORDER BY 1":
        "SELECT SUM(person.age) OVER (PARTITION BY person.active ORDER BY person.id ROWS BETWEEN ?1 PRECEDING AND CURRENT ROW EXCLUDE TIES)"
        " FROM @data.person AS person ORDER BY 1",
    "SELECT LAG(age) OVER W FROM data.person WINDOW w AS (ORDER BY id), x AS (w) ORDER BY RANK() OVER x":
        "SELECT LAG(person.age) OVER w FROM @data.person AS person WINDOW w AS (ORDER BY person.id), x AS (w) ORDER BY RANK() OVER x",
    "SELECT ARRAY(any) FROM data.person GROUP BY CAST(any AS STRING) HAVING DISTINCT_ARRAY(ARRAY(age)) <> ''":
        "SELECT ARRAY_EXACT(person.^any) FROM @data.person AS person GROUP BY CAST(CAST_STRING(person.^any) AS TEXT)"
        " HAVING DISTINCT_ARRAY(ARRAY_EXACT(person.age)) <> ''",
    "SELECT ARRAY(x) FROM (SELECT any AS x FROM data.person UNION ALL SELECT RAW FROM data.person)":
        "SELECT ARRAY_EXACT(subquery.^x) FROM (SELECT person.any AS x, person.^any AS ^x FROM @data.person AS person"
        " UNION ALL SELECT person:2.raw, person:2.^raw AS ^x FROM @data.person AS person:2) AS subquery",
    # An aggregate computes over the rows of the query whose columns it names.
    "SELECT (SELECT COUNT(p.id) FROM shop.sale) FROM data.person p":
        "SELECT (SELECT COUNT(p.id) FROM @shop.sale AS sale) FROM @data.person AS p",
    "SELECT id FROM data.person p WHERE (SELECT COUNT(*) FROM shop.sale WHERE person = p.id) > 1":
        "SELECT p.id FROM @data.person AS p WHERE (SELECT COUNT(*) FROM @shop.sale AS sale WHERE sale.person = p.id) > 1 ORDER BY p.id",
}  # fmt: skip


@pytest.mark.parametrize("text", PRINTED)
def test_what_sqlite_gets(text):
    assert printed(text) == PRINTED[text]
    ROWS.run_any(text)


FAULTS = {
    "SELECT UPER(name) FROM data.pet": 'unknown function UPER (did you mean "UPPER"?)',
    "SELECT ABS() FROM data.pet": "ABS() takes 1 argument, not 0",
    "SELECT ABS(*) FROM data.pet": "ABS(*) is not possible",
    "SELECT ABS(DISTINCT 1) FROM data.pet": "DISTINCT is not possible in ABS(), which is no aggregate",
    "SELECT ABS(1) FILTER (WHERE 1) FROM data.pet": "FILTER is not possible in ABS(), which is no aggregate",
    "SELECT ABS(1) OVER () FROM data.pet": "ABS() is not possible with OVER: it computes over no rows",
    "SELECT ROW_NUMBER() FROM data.pet": "ROW_NUMBER() needs OVER",
    "SELECT GROUP_CONCAT(DISTINCT name, ';') FROM data.pet": "GROUP_CONCAT(DISTINCT ...) has one argument",
    "SELECT JSON_EACH(name) FROM data.pet": "JSON_EACH() makes rows: it stands behind FROM",
    "SELECT CONCAT() FROM data.pet": "CONCAT() takes at least 1 argument, not 0",
    "SELECT ROUND(1, 2, 3) FROM data.pet": "ROUND() takes 1 to 2 arguments, not 3",
    "SELECT COUNT(DISTINCT name) OVER () FROM data.pet": "DISTINCT is not possible in COUNT() with OVER",
    "SELECT COUNT(name ORDER BY id) OVER () FROM data.pet": "ORDER BY is not possible among the arguments of COUNT() with OVER",
    "SELECT LAG(name) FILTER (WHERE 1) OVER () FROM data.pet": "FILTER is not possible in LAG(), which is no aggregate",
    "SELECT COUNT(*) OVER x FROM data.pet WINDOW y AS ()": "unknown window x",
    "SELECT 1 FROM data.pet WINDOW y AS (x)": "unknown window x",
    "SELECT name FROM data.pet WHERE COUNT(*) > 1": "the aggregate COUNT() is not possible in WHERE (groups are chosen by HAVING)",
    "SELECT COUNT(*) AS n FROM data.pet WHERE n > 1": "the aggregate COUNT() is not possible in WHERE (groups are chosen by HAVING)",
    "SELECT COUNT(*) FROM data.pet GROUP BY MAX(name)": "the aggregate MAX() is not possible in GROUP BY",
    "SELECT 1 FROM data.pet a JOIN data.pet b ON MAX(a.id) = 1": "the aggregate MAX() is not possible in ON",
    "SELECT name FROM data.pet ORDER BY COUNT(*)": "the aggregate COUNT() is not possible in ORDER BY",
    "SELECT MAX(COUNT(*)) FROM data.pet": "the aggregate COUNT() is not possible in the aggregate MAX()",
    "SELECT name FROM data.pet WHERE RANK() OVER () = 1": "the window function RANK() is not possible in WHERE (use a sub-select)",
    "SELECT RANK() OVER () AS r FROM data.pet WHERE r = 1": "the window function RANK() is not possible in WHERE (use a sub-select)",
    "SELECT MAX(RANK() OVER ()) FROM data.pet": "the window function RANK() is not possible in the aggregate MAX()",
    "SELECT SUM(RANK() OVER ()) OVER () FROM data.pet": "the window function RANK() is not possible in the window function SUM()",
    "SELECT name FROM data.pet p WHERE (SELECT COUNT(p.id) FROM data.person) = 1":
        "the aggregate COUNT() is not possible in WHERE (groups are chosen by HAVING)",
    "SELECT 1 LIMIT COUNT(*)": "the aggregate COUNT() is not possible in LIMIT",
    "VALUES (COUNT(*))": "the aggregate COUNT() is not possible in VALUES",
}  # fmt: skip


@pytest.mark.parametrize("text", FAULTS)
def test_what_cannot_be(text):
    found = fault(text)
    assert found.message == FAULTS[text]
    assert found.position is not None
