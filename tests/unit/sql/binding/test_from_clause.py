"""FROM: tables, sub-selects, functions, joins."""

import pytest

from svc.errors import NotFound
from tests.support.sql_binding import ALL, RECORDS, Rows, bound, fault, named, printed

ROWS = Rows(ALL, RECORDS)

PRINTED = {
    "SELECT p.id FROM data.pet AS p": "SELECT p.id FROM @data.pet AS p ORDER BY p.id",
    "SELECT data.pet.id, PET.Owner FROM data.pet": "SELECT pet.id, pet.owner FROM @data.pet AS pet ORDER BY pet.id",
    "SELECT data.p.id FROM data.pet p": "SELECT p.id FROM @data.pet AS p ORDER BY p.id",
    # Labels are unique in the statement.
    "SELECT a.id, A.id FROM data.pet A, data.pet a": "SELECT a:2.id, A.id FROM @data.pet AS A, @data.pet AS a:2",
    "SELECT s.x FROM (SELECT id AS x FROM data.pet) s": "SELECT s.x FROM (SELECT pet.id AS x FROM @data.pet AS pet) AS s",
    "SELECT x FROM (SELECT id AS x FROM data.pet)": "SELECT subquery.x FROM (SELECT pet.id AS x FROM @data.pet AS pet) AS subquery",
    "SELECT x, X FROM (SELECT id AS x, owner AS X FROM data.pet)":
        "SELECT subquery.x, subquery.X:1 FROM (SELECT pet.id AS x, pet.owner AS X:1 FROM @data.pet AS pet) AS subquery",
    # USING and NATURAL.
    "SELECT id FROM data.person JOIN data.pet USING (id, NAME)":
        "SELECT person.id FROM @data.person AS person JOIN @data.pet AS pet ON person.id = pet.id AND person.name = pet.name",
    "SELECT id, name FROM data.person RIGHT JOIN data.pet USING (id) WHERE person.name IS NULL":
        None,
    "SELECT id FROM data.person LEFT JOIN data.pet USING (id)":
        "SELECT person.id FROM @data.person AS person LEFT JOIN @data.pet AS pet ON person.id = pet.id",
    "SELECT id FROM data.person RIGHT JOIN data.pet USING (id)":
        "SELECT pet.id FROM @data.person AS person RIGHT JOIN @data.pet AS pet ON person.id = pet.id",
    "SELECT id FROM data.person FULL JOIN data.pet USING (id)":
        "SELECT COALESCE(person.id, pet.id) FROM @data.person AS person FULL JOIN @data.pet AS pet ON person.id = pet.id",
    "SELECT id FROM data.person a FULL JOIN data.pet b USING (id) JOIN shop.sale c USING (id)":
        "SELECT COALESCE(a.id, b.id) FROM @data.person AS a FULL JOIN @data.pet AS b ON a.id = b.id"
        " JOIN @shop.sale AS c ON COALESCE(a.id, b.id) = c.id",
    "SELECT b.id FROM data.person a NATURAL JOIN shop.sale b":
        "SELECT b.id FROM @data.person AS a JOIN @shop.sale AS b ON a.id = b.id AND a.any = b.any",
    "SELECT 1 FROM (SELECT id AS x FROM data.pet) a NATURAL LEFT JOIN (SELECT id AS y FROM data.pet) b":
        "SELECT 1 FROM (SELECT pet.id AS x FROM @data.pet AS pet) AS a LEFT JOIN (SELECT pet:2.id AS y FROM @data.pet AS pet:2) AS b",
    # Joins in parentheses have the columns that are used.
    "SELECT a.id, b.name FROM data.pet a LEFT JOIN (data.person b JOIN shop.sale c ON c.person = b.id) ON b.id = a.owner":
        "SELECT a.id, joins.name:1 FROM @data.pet AS a LEFT JOIN (SELECT 1 AS 1, b.name AS name:1, b.id AS id:2 FROM @data.person AS b"
        " JOIN @shop.sale AS c ON c.person = b.id) AS joins ON joins.id:2 = a.owner",
    "SELECT data.b.any FROM data.pet a, (data.person b, shop.sale)":
        "SELECT joins.any:2 FROM @data.pet AS a, (SELECT 1 AS 1, b.any AS any:1, b.^any AS any:2 FROM @data.person AS b, @shop.sale AS sale) AS joins",
    "SELECT q.amount, w.* FROM data.pet a, (data.pet b, ((SELECT 1 AS z) w JOIN shop.sale q ON 1))":
        "SELECT joins:2.amount:3, joins:2.z:2 FROM @data.pet AS a, (SELECT 1 AS 1, joins.amount:1 AS amount:1, joins.z:2 AS z:2,"
        " joins.amount:3 AS amount:3 FROM @data.pet AS b, (SELECT 1 AS 1, q.amount AS amount:1, w.z AS z:2, q.^amount AS amount:3"
        " FROM (SELECT 1 AS z) AS w JOIN @shop.sale AS q ON 1) AS joins) AS joins:2",
    "SELECT 1 FROM data.pet, (data.person b, shop.sale)":
        "SELECT 1 FROM @data.pet AS pet, (SELECT 1 AS 1 FROM @data.person AS b, @shop.sale AS sale) AS joins",
    # Functions.
    "SELECT e.key FROM data.person p, json_each(p.tags) AS e": "SELECT e.key FROM @data.person AS p, JSON_EACH(p.tags) AS e",
    "SELECT fullkey FROM json_tree('[1]', '$')": "SELECT json_tree.fullkey FROM json_each AS json_tree",
    # ON may name what comes later, if all joins are inner ones.
    "SELECT 1 FROM data.pet a JOIN data.pet b ON a.id = c.id JOIN data.pet c":
        "SELECT 1 FROM @data.pet AS a JOIN @data.pet AS b ON a.id = c.id JOIN @data.pet AS c",
}  # fmt: skip
PRINTED.pop("SELECT id, name FROM data.person RIGHT JOIN data.pet USING (id) WHERE person.name IS NULL")
PRINTED["SELECT fullkey FROM json_tree('[1]', '$')"] = "SELECT json_tree.fullkey FROM JSON_TREE('[1]', '$') AS json_tree"


@pytest.mark.parametrize("text", PRINTED)
def test_what_sqlite_gets(text):
    assert printed(text) == PRINTED[text]
    ROWS.run_any(text)


FAULTS = {
    "SELECT 1 FROM orders": "schema not defined for table orders",
    "SELECT p.id FROM data.pet": "unknown column p.id",
    "SELECT pet.id FROM data.pet p": 'unknown column pet.id (this table is called "p" here)',
    "SELECT pett.id FROM data.pet": 'unknown column pett.id (did you mean "pet"?)',
    "SELECT shop.pet.id FROM data.pet": 'unknown column shop.pet.id (this table is called "pet" here)',
    "SELECT nmae FROM data.pet": 'unknown column nmae (did you mean "name"?)',
    "SELECT p.nmae FROM data.pet p": 'unknown column p.nmae (did you mean "name"?)',
    'SELECT "Rex" FROM data.pet': "unknown column Rex (texts stand in single quotes)",
    "SELECT name FROM data.pet, data.person": "ambiguous column reference name",
    "SELECT a.name FROM data.pet a, data.person a": "ambiguous column reference a.name",
    "SELECT NAME FROM data.Odd": "ambiguous column reference NAME",
    "SELECT 1 FROM data.pet a, data.person b JOIN shop.sale USING (name)": "unknown column name (USING takes columns that both sides have)",
    "SELECT 1 FROM data.pet JOIN data.person USING (age)": "unknown column age (USING takes columns that both sides have)",
    "SELECT 1 FROM data.pet JOIN data.person USING (nam)": 'unknown column nam (did you mean "name"?)',
    "SELECT 1 FROM data.pet a JOIN data.person b JOIN data.pet c USING (id) WHERE id = 1": "ambiguous column reference id",
    "SELECT 1 FROM data.pet a JOIN data.person b FULL JOIN data.pet c USING (id)": "ambiguous column reference id",
    "SELECT 1 FROM data.pet a NATURAL JOIN (data.pet b, data.pet c)": "ambiguous column reference id",
    "SELECT * FROM data.pet a JOIN data.person b ON 1 NATURAL FULL JOIN data.pet c": "ambiguous column reference id",
    "SELECT * FROM data.pet a JOIN data.pet b ON 1 NATURAL JOIN (data.person FULL JOIN shop.sale USING (id))": "ambiguous column reference any",
    "SELECT b.nmae FROM data.pet a, (data.pet b, shop.sale)": 'unknown column b.nmae (did you mean "name"?)',
    "SELECT amuont FROM data.pet a, (data.pet b, shop.sale)": 'unknown column amuont (did you mean "amount"?)',
    "SELECT * FROM (data.pet a JOIN data.person b ON 1) FULL JOIN shop.sale USING (any)": "ambiguous column reference any",
    "SELECT 1 FROM json_eech('[]')": 'unknown table function json_eech (did you mean "json_each"?)',
    "SELECT 1 FROM json_each()": "json_each() takes 1 to 2 arguments, not 0",
    "SELECT 1 FROM data.pet a LEFT JOIN data.pet b ON a.id = c.id JOIN data.pet c": "ON of an outer join names a table that comes behind it",
    "SELECT 1 FROM data.pet a, (SELECT a.id)": "unknown column a.id",
    "SELECT 1 FROM data.pet a JOIN (data.pet b JOIN data.pet c ON a.id = b.id)": "unknown column a.id",
}


@pytest.mark.parametrize("text", FAULTS)
def test_what_cannot_be(text):
    found = fault(text)
    assert found.message == FAULTS[text]
    assert found.status_code == 400


def test_positions():
    assert fault("SELECT id, nmae FROM data.pet").position == 11
    assert fault("SELECT id FROM data.pet, orders").position == 25
    assert fault("SELECT id FROM data.pet JOIN data.person USING (x)").position == 24
    assert fault("SELECT x.* FROM data.pet").position == 7


def test_a_database_or_a_table_that_is_not_there():
    for text in ("SELECT 1 FROM nowhere.pet", "SELECT 1 FROM data.nothing", "SELECT 1 FROM data.PET"):
        with pytest.raises(NotFound):
            bound(text, ALL)


def test_star_has_the_columns_of_using_once_and_no_hidden_ones():
    person = [column.name for column in ALL.views["data", "person"].columns if column.is_shown]
    assert named("SELECT * FROM data.person") == person
    assert named("SELECT * FROM data.person JOIN shop.sale USING (id)") == [*person, "person", "amount", "at", "any1"]
    assert named("SELECT b.* FROM data.person a JOIN shop.sale b USING (id)") == ["id", "person", "amount", "at", "any"]
    assert named("SELECT * FROM data.pet FULL JOIN shop.sale USING (id)") == [
        "id",
        "owner",
        "name",
        "active",
        "any",
        "secret",
        "person",
        "amount",
        "at",
        "any1",
    ]
    assert named("SELECT title FROM data.person") == ["title"]


def test_star_beside_aliases():
    assert named("SELECT *, owner AS o FROM data.pet") == ["id", "o", "name", "active", "any", "secret"]
    assert named("SELECT *, UPPER(name) AS name FROM data.pet") == ["id", "owner", "name", "active", "any", "secret"]
    assert named("SELECT *, owner AS name FROM data.pet") == ["id", "name", "active", "any", "secret"]
    assert named("SELECT *, age + 1 AS older FROM data.person")[-1] == "older"
    assert named("SELECT *, * FROM data.Odd") == ["key", "order", 'a"b', "Name", "name", "key1", "order1", 'a"b1', "Name1", "name1"]
    assert named("SELECT * FROM (SELECT *, owner AS o FROM data.pet)") == ["id", "owner", "name", "active", "any", "secret", "o"]
    assert "UPPER(pet.name), pet.^active" in printed("SELECT *, UPPER(name) AS name FROM data.pet")


def test_rows_that_the_caller_gives():
    given = {"excluded": ALL.views["data", "pet"].columns}
    assert printed("SELECT excluded.name, p.any FROM data.pet p, excluded", given=given) == (
        "SELECT excluded.name, p.^any FROM @data.pet AS p, main.excluded AS excluded"
    )
    assert printed("SELECT e.any FROM Excluded e", given=given) == "SELECT e.^any FROM main.excluded AS e"
    assert "WITH excluded" in printed("WITH excluded AS (SELECT 1 AS a) SELECT a FROM excluded", given=given)
    assert fault("SELECT x FROM excluded", given=given).message == "unknown column x"
