"""Columns in queries with groups."""

import pytest

from tests.support.sql_binding import ALL, bound, fault

ALLOWED = [
    "SELECT owner, COUNT(*) FROM data.pet GROUP BY owner",
    "SELECT owner || 'x', UPPER(owner), COUNT(*) FROM data.pet GROUP BY owner",
    "SELECT UPPER(owner) || 'x' FROM data.pet GROUP BY UPPER(owner)",
    "SELECT UPPER(owner) AS o FROM data.pet GROUP BY o ORDER BY UPPER(owner), MAX(name)",
    "SELECT name, owner FROM data.pet GROUP BY id",
    "SELECT p.name, MAX(s.amount) FROM data.person p JOIN shop.sale s ON s.person = p.id GROUP BY p.id",
    "SELECT * FROM data.pet GROUP BY id HAVING name > 'a'",
    "SELECT id FROM data.person FULL JOIN data.pet USING (id) GROUP BY id",
    "SELECT owner, (SELECT name FROM data.person WHERE id = owner) FROM data.pet GROUP BY owner",
    "SELECT MAX(name || owner), COUNT(*) FILTER (WHERE name > 'a') FROM data.pet",
    "SELECT 1, 'a', ? FROM data.pet GROUP BY owner",
    "SELECT owner, SUM(COUNT(*)) OVER (ORDER BY owner) FROM data.pet GROUP BY owner",
    "SELECT b.name FROM data.pet a LEFT JOIN (data.person b JOIN shop.sale c ON c.person = b.id) ON b.id = a.owner GROUP BY b.id",
    "SELECT id FROM data.person p WHERE age = (SELECT MAX(age) FROM data.person WHERE name = p.name)",
    "SELECT (SELECT COUNT(p.id) FROM shop.sale) FROM data.person p",
    "SELECT x FROM (SELECT owner AS x FROM data.pet) GROUP BY x",
]


@pytest.mark.parametrize("text", ALLOWED)
def test_columns_that_have_one_value(text):
    bound(text, ALL)


REFUSED = {
    "SELECT name, COUNT(*) FROM data.pet": "name",
    "SELECT name, COUNT(*) FROM data.pet GROUP BY owner": "name",
    "SELECT owner || name FROM data.pet GROUP BY owner": "name",
    "SELECT * FROM data.pet GROUP BY owner": "id",
    "SELECT name, MAX(id) FROM data.pet": "name",
    "SELECT COUNT(*) FROM data.pet GROUP BY owner HAVING name > 'a'": "name",
    "SELECT COUNT(*) FROM data.pet ORDER BY name": "name",
    "SELECT COUNT(*) FROM data.pet GROUP BY owner ORDER BY name || owner": "name",
    "SELECT owner FROM data.pet GROUP BY UPPER(owner)": "owner",
    "SELECT s.amount FROM data.person p JOIN shop.sale s ON s.person = p.id GROUP BY p.id": "amount",
    "SELECT owner, (SELECT age FROM data.person WHERE id = pet.name) FROM data.pet GROUP BY owner": "name",
    "SELECT owner, COUNT(*) OVER (ORDER BY name) FROM data.pet GROUP BY owner": "name",
    "SELECT owner, COUNT(*) OVER w FROM data.pet GROUP BY owner WINDOW w AS (ORDER BY name)": "name",
    "SELECT person.id FROM data.person FULL JOIN data.pet USING (id) GROUP BY id": "id",
    "SELECT p.name, (SELECT COUNT(p.id) FROM shop.sale) FROM data.person p": "name",
    "SELECT x FROM (SELECT owner AS x, name AS y FROM data.pet) GROUP BY y": "x",
}


@pytest.mark.parametrize("text", REFUSED)
def test_columns_that_may_have_several(text):
    found = fault(text)
    assert found.message == f"select column '{REFUSED[text]}' must be in group by"
    assert found.status_code == 400
    assert found.position is not None
