"""SELECT, UNION, WITH, ORDER BY, LIMIT: what they are bound to."""

import pytest

from tests.support.sql_binding import ALL, RECORDS, Rows, fault, named, printed

ROWS = Rows(ALL, RECORDS)

PRINTED = {
    # The order of the primary key, where the statement gives none.
    "SELECT name FROM data.pet": "SELECT pet.name FROM @data.pet AS pet ORDER BY pet.id",
    "SELECT name FROM data.pet WHERE name > 'a' LIMIT 2": "SELECT pet.name FROM @data.pet AS pet WHERE pet.name > 'a' ORDER BY pet.id LIMIT 2",
    "SELECT name FROM data.pet WHERE id = 'p'": "SELECT pet.name FROM @data.pet AS pet WHERE pet.id = {'p'}",
    "SELECT name FROM data.pet WHERE ? = id AND name = 'x'": "SELECT pet.name FROM @data.pet AS pet WHERE ?1 = pet.id AND pet.name = {'x'}",
    "SELECT name FROM data.pet WHERE id = owner": "SELECT pet.name FROM @data.pet AS pet WHERE pet.id = pet.owner ORDER BY pet.id",
    "SELECT id FROM shop.sale WHERE person = 'a' AND amount > 1":
        "SELECT sale.id FROM @shop.sale AS sale WHERE sale.person = {'a'} AND sale.amount > 1 ORDER BY sale.id",
    "SELECT id FROM shop.sale WHERE amount > ?": "SELECT sale.id FROM @shop.sale AS sale WHERE sale.amount > ?1 ORDER BY sale.id",
    "SELECT any FROM shop.sale WHERE at > 'x' AND amount BETWEEN 1 AND 2 ORDER BY 1 LIMIT 1":
        "SELECT sale.^any FROM @shop.sale AS sale WHERE sale.at > 'x' AND sale.amount BETWEEN 1 AND 2 ORDER BY sale.any LIMIT 1",
    "SELECT id FROM shop.sale WHERE person LIKE 'a%' LIMIT 1":
        "SELECT sale.id FROM @shop.sale AS sale WHERE sale.person LIKE 'a%' ORDER BY sale.id LIMIT 1",
    "SELECT id FROM shop.sale WHERE id > 1 AND person IN ('a', 'b')":
        "SELECT sale.id FROM @shop.sale AS sale WHERE sale.id > 1 AND sale.person IN ({'a'}, {'b'}) ORDER BY sale.id",
    "SELECT id FROM shop.sale WHERE person IN (SELECT id FROM data.pet)":
        "SELECT sale.id FROM @shop.sale AS sale WHERE sale.person IN (SELECT pet.id FROM @data.pet AS pet) ORDER BY sale.id",
    "SELECT DISTINCT name FROM data.pet": "SELECT DISTINCT pet.name FROM @data.pet AS pet",
    "SELECT COUNT(*) FROM data.pet": "SELECT COUNT(*) FROM @data.pet AS pet",
    "SELECT p.name FROM data.pet p, data.person": "SELECT p.name FROM @data.pet AS p, @data.person AS person",
    "SELECT ROW_NUMBER() OVER () FROM data.pet": "SELECT ROW_NUMBER() OVER () FROM @data.pet AS pet ORDER BY pet.id",
    "SELECT 1 WHERE 'a' IN (SELECT id FROM data.pet LIMIT 1)":
        "SELECT 1 WHERE 'a' IN (SELECT pet.id FROM @data.pet AS pet ORDER BY pet.id LIMIT 1)",
    "SELECT 1 WHERE 'a' IN (SELECT id FROM data.pet)": "SELECT 1 WHERE 'a' IN (SELECT pet.id FROM @data.pet AS pet)",
    # TOP is a limit.
    "SELECT TOP 3 name FROM data.pet ORDER BY name": "SELECT pet.name FROM @data.pet AS pet ORDER BY pet.name LIMIT 3",
    "SELECT TOP (?) name FROM data.pet ORDER BY 1": "SELECT pet.name FROM @data.pet AS pet ORDER BY 1 LIMIT ?1",
    # Aliases: ORDER BY asks for them first, all others for columns first.
    "SELECT owner AS name FROM data.pet ORDER BY name": "SELECT pet.owner FROM @data.pet AS pet ORDER BY 1",
    "SELECT owner AS name FROM data.pet ORDER BY name || ''": "SELECT pet.owner FROM @data.pet AS pet ORDER BY pet.name || ''",
    "SELECT owner AS o FROM data.pet WHERE o = 'a' ORDER BY o COLLATE nocase DESC NULLS LAST":
        "SELECT pet.owner FROM @data.pet AS pet WHERE pet.owner = {'a'} ORDER BY 1 COLLATE NOCASE DESC NULLS LAST",
    "SELECT owner AS name FROM data.pet WHERE name = 'a' ORDER BY 1":
        "SELECT pet.owner FROM @data.pet AS pet WHERE pet.name = {'a'} ORDER BY 1",
    "SELECT owner AS o, COUNT(*) AS n FROM data.pet GROUP BY o HAVING n > 1 ORDER BY n":
        "SELECT pet.owner, COUNT(*) FROM @data.pet AS pet GROUP BY pet.owner HAVING COUNT(*) > 1 ORDER BY 2",
    "SELECT owner AS name, COUNT(*) FROM data.pet GROUP BY owner, name":
        "SELECT pet.owner, COUNT(*) FROM @data.pet AS pet GROUP BY pet.owner, pet.name",
    "SELECT * FROM data.pet a JOIN data.pet b ON b.id = a.id ORDER BY name":
        "SELECT a.id, a.owner, a.name, a.^active, a.^any, a.secret, b.id, b.owner, b.name, b.^active, b.^any, b.secret"
        " FROM @data.pet AS a JOIN @data.pet AS b ON b.id = a.id ORDER BY 3",
    # Positions.
    "SELECT owner, COUNT(*) FROM data.pet GROUP BY 1 ORDER BY 2 DESC":
        "SELECT pet.owner, COUNT(*) FROM @data.pet AS pet GROUP BY pet.owner ORDER BY 2 DESC",
    "SELECT 5, COUNT(*) FROM data.pet GROUP BY 1": "SELECT 5, COUNT(*) FROM @data.pet AS pet GROUP BY ''",
    "SELECT 5 AS five, COUNT(*) FROM data.pet GROUP BY five": "SELECT 5, COUNT(*) FROM @data.pet AS pet GROUP BY ''",
    # UNION: ORDER BY can name columns only.
    "SELECT name FROM data.pet UNION SELECT id FROM data.person ORDER BY name DESC":
        "SELECT pet.name FROM @data.pet AS pet UNION SELECT person.id FROM @data.person AS person ORDER BY 1 DESC",
    "SELECT name FROM data.pet UNION SELECT id FROM data.person ORDER BY id COLLATE NOCASE LIMIT 1":
        "SELECT pet.name FROM @data.pet AS pet UNION SELECT person.id FROM @data.person AS person ORDER BY 1 COLLATE NOCASE LIMIT 1",
    "VALUES (1) UNION SELECT age FROM data.person ORDER BY age": "VALUES (1) UNION SELECT person.age FROM @data.person AS person ORDER BY 1",
    "SELECT id FROM data.pet UNION SELECT id FROM data.person ORDER BY 1 DESC":
        "SELECT pet.id FROM @data.pet AS pet UNION SELECT person.id FROM @data.person AS person ORDER BY 1 DESC",
    "SELECT id, age + 1 FROM data.person EXCEPT SELECT id, 1 FROM data.pet ORDER BY age + 1":
        "SELECT person.id, person.age + 1 FROM @data.person AS person EXCEPT SELECT pet.id, 1 FROM @data.pet AS pet ORDER BY 2",
    "VALUES (1, 'a'), (2, 'b')": "VALUES (1, 'a'), (2, 'b')",
    "SELECT column1 FROM (VALUES (1), (2)) v ORDER BY 1": "SELECT v.column1 FROM (VALUES (1), (2)) AS v ORDER BY 1",
    # WITH: in any order, with names of their own.
    "WITH w AS (SELECT id FROM x), x AS (SELECT id FROM data.pet) SELECT * FROM w":
        "WITH w (id) AS (SELECT x.id FROM x AS x), x (id) AS (SELECT pet.id FROM @data.pet AS pet) SELECT w.id FROM w AS w",
    "WITH w(a, A) AS NOT MATERIALIZED (SELECT id, name FROM data.pet) SELECT A, a FROM W":
        "WITH w (a, A:1) AS NOT MATERIALIZED (SELECT pet.id, pet.name FROM @data.pet AS pet) SELECT W.A:1, W.a FROM w AS W",
    "WITH w AS (SELECT 1 AS a) SELECT (WITH w AS (SELECT 2 AS b) SELECT b FROM w) FROM w":
        "WITH w (a) AS (SELECT 1) SELECT (WITH w:2 (b) AS (SELECT 2) SELECT w:2.b FROM w:2 AS w:2) FROM w AS w",
    "WITH w AS (WITH x AS (SELECT 1 AS a) SELECT a FROM x), x AS (SELECT a FROM w) SELECT a FROM x":
        "WITH w (a) AS (WITH x:2 (a) AS (SELECT 1) SELECT x.a FROM x:2 AS x), x (a) AS (SELECT w.a FROM w AS w) SELECT x:2.a FROM x AS x:2",
    "WITH w AS (SELECT 1 AS a), x AS (WITH y AS (SELECT a FROM w) SELECT a FROM y) SELECT a FROM x":
        "WITH w (a) AS (SELECT 1), x (a) AS (WITH y (a) AS (SELECT w.a FROM w AS w) SELECT y.a FROM y AS y) SELECT x.a FROM x AS x",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT i FROM n":
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT n.i + 1 FROM n AS n WHERE n.i < 3) SELECT n:2.i FROM n AS n:2",
    # Scopes: an inner name before an outer one; other labels where aliases are the same.
    "SELECT name FROM data.person p WHERE EXISTS (SELECT 1 FROM data.pet p WHERE p.owner = age)":
        "SELECT p.name FROM @data.person AS p WHERE EXISTS (SELECT 1 FROM @data.pet AS p:2 WHERE p:2.owner = p.age) ORDER BY p.id",
    "SELECT (SELECT MAX(amount) FROM shop.sale WHERE person = person.id) AS m FROM data.person WHERE m > 1":
        "SELECT (SELECT MAX(sale.amount) FROM @shop.sale AS sale WHERE sale.person = person.id) FROM @data.person AS person"
        " WHERE (SELECT MAX(sale.amount) FROM @shop.sale AS sale WHERE sale.person = person.id) > 1 ORDER BY person.id",
    "SELECT id FROM data.person WHERE EXISTS (SELECT * FROM data.pet)":
        "SELECT person.id FROM @data.person AS person WHERE EXISTS (SELECT 1 FROM @data.pet AS pet) ORDER BY person.id",
}  # fmt: skip


@pytest.mark.parametrize("text", PRINTED)
def test_what_sqlite_gets(text):
    assert printed(text) == PRINTED[text]
    ROWS.run_any(text)


FAULTS = {
    "SELECT *": "* needs FROM",
    "SELECT * FROM empty.nothing": "* stands for no column here",
    "VALUES (1) UNION SELECT age FROM data.person ORDER BY -age":
        "behind UNION, INTERSECT and EXCEPT only columns of the result can be ordered by",
    "SELECT x.* FROM data.pet p": "unknown column x.*",
    "SELECT TOP 1 1 UNION SELECT 2": "TOP is not possible beside UNION, INTERSECT and EXCEPT: use LIMIT",
    "SELECT 1 UNION SELECT 1, 2": "the sides of UNION have 1 and 2 columns",
    "SELECT name FROM data.pet ORDER BY 2": "ORDER BY 2: there are 1 columns",
    "SELECT name FROM data.pet GROUP BY 0": "GROUP BY 0: there are 1 columns",
    "SELECT COUNT(*) FROM data.pet GROUP BY 1": "the rows of a group make an aggregate: it is nothing to GROUP BY",
    "SELECT name FROM data.pet HAVING name = 'a'": "HAVING chooses groups: it needs GROUP BY or an aggregate",
    "SELECT id FROM data.pet UNION SELECT id FROM data.person ORDER BY nam": "behind UNION, INTERSECT and EXCEPT only columns of the result can be ordered by",
    "SELECT id FROM data.pet LIMIT id": "unknown column id",
    "WITH w AS (SELECT 1), W AS (SELECT 2) SELECT 1": "WITH has two tables of the name W",
    "WITH w(a) AS (SELECT 1, 2) SELECT 1": "the table w of WITH has 2 columns, and 1 names for them",
    "WITH w AS (SELECT * FROM w) SELECT 1": "the table w of WITH needs itself: it may be named behind FROM in what follows its first UNION",
    "WITH w AS (SELECT * FROM x), x AS (SELECT * FROM w) SELECT 1":
        "the table w of WITH needs itself: it may be named behind FROM in what follows its first UNION",
    "WITH w AS (SELECT 1 UNION SELECT * FROM (SELECT * FROM w)) SELECT 1":
        "the table w of WITH needs itself: it may be named behind FROM in what follows its first UNION",
    "WITH w(a) AS (SELECT 1 UNION SELECT x.a FROM w x, w y) SELECT 1": "a SELECT names the recursive table w more than once",
    "WITH w(a) AS (SELECT 1 EXCEPT SELECT a FROM w) SELECT 1": "a recursive table is made by UNION or UNION ALL, not by EXCEPT",
    "WITH w(a) AS (SELECT 1 UNION SELECT COUNT(*) FROM w) SELECT 1": "what names the recursive table itself has no aggregates, groups and windows",
    "WITH w(a) AS (SELECT 1 UNION SELECT a FROM w UNION SELECT 2) SELECT 1": "what a recursive table begins with stands before what names the table itself",
    "SELECT 1 FROM data.pet WINDOW w AS (), W AS ()": "there are two windows of the name W",
}  # fmt: skip


@pytest.mark.parametrize("text", FAULTS)
def test_what_cannot_be(text):
    found = fault(text)
    assert found.message == FAULTS[text]
    assert found.status_code == 400


def test_names_of_result_columns():
    assert named("SELECT p.id, s.id, amount * 2, COUNT( * ) AS n, sum(amount) FROM data.person p, shop.sale s GROUP BY p.id, s.id, amount") == [
        "id", "id1", "amount * 2", "n", "SUM(amount)",
    ]  # fmt: skip
    assert named("SELECT NAME, owner AS Name FROM data.pet") == ["name", "Name"]
    assert named("SELECT id AS a, id AS a, id AS a1 FROM data.pet") == ["a", "a2", "a1"]
    assert named("VALUES (1, 2)") == ["column1", "column2"]
    assert named("SELECT * FROM (SELECT id, owner AS id FROM data.pet)") == ["id", "id1"]
    assert named('SELECT name, "Name", KEY FROM data.Odd') == ["name", "Name", "key"]
