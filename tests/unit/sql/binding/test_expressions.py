"""Expressions: operators, rows of values, sub-selects."""

import pytest

from tests.support.sql_binding import ALL, RECORDS, Rows, fault, printed

ROWS = Rows(ALL, RECORDS)
FROM = " FROM data.person"

PRINTED = {
    "-age + ~2 * (3 - 1)": "-person.age + ~2 * (3 - 1)",
    "age / 2, age % 2, 7 / 2": "person.age / 2, person.age % 2, 7 / 2",
    "name || 'x' COLLATE nocase": "person.name || 'x' COLLATE NOCASE",
    "tags -> '$[0]', tags ->> 0": "person.tags -> '$[0]', person.tags ->> 0",
    "name LIKE 'A%' ESCAPE '!' AND name NOT GLOB 'x*'": "person.name LIKE 'A%' ESCAPE '!' AND person.name NOT GLOB 'x*'",
    "age BETWEEN 1 AND 2 OR age NOT BETWEEN ? AND :x": "person.age BETWEEN 1 AND 2 OR person.age NOT BETWEEN ?1 AND ?2",
    "CASE age WHEN 1 THEN 'a' ELSE 'b' END": "CASE person.age WHEN 1 THEN 'a' ELSE 'b' END",
    "CAST(age AS varchar(10)), CAST('5' AS INT)": "CAST(CAST_STRING(person.age) AS TEXT), CAST_INT_EXACT('5')",
    "CAST(any AS STRING), CONVERT(DATE, born, 23)": "CAST(CAST_STRING(person.^any) AS TEXT), CAST_DATE(person.born, 23)",
    "name REGEXP '^A', name NOT REGEXP ?": "REGEXP_LIKE(person.name, '^A'), NOT REGEXP_LIKE(person.name, ?1)",
    "CURRENT_TIMESTAMP, current_date, NOW()": "CURRENT_TIMESTAMP(), CURRENT_DATE(), NOW()",
    "(id, name) = ('a', 'b'), (1, 2) < (3, 4)": "(person.id, person.name) = ('a', 'b'), (1, 2) < (3, 4)",
    "(id, name) = (SELECT id, name FROM data.pet)": "(person.id, person.name) = (SELECT pet.id, pet.name FROM @data.pet AS pet)",
    "(id, name) IN (('a', 'b'), ('c', 'd'))": None,
    "(id, name) IN (SELECT id, name FROM data.pet)": "(person.id, person.name) IN (SELECT pet.id, pet.name FROM @data.pet AS pet)",
    "id IN ()": "person.id IN ()",
    "id IN data.pet": None,
    "name IS NULL, name IS NOT NULL, name IS NOT 'x'": "person.name IS NULL, person.name IS NOT NULL, person.name IS NOT 'x'",
    "NOT EXISTS (SELECT pet.* FROM data.pet)":
        "NOT EXISTS (SELECT pet.id, pet.owner, pet.name, pet.active, pet.any, pet.secret FROM @data.pet AS pet)",
    "x'00ff', 1.5, 0x10, NULL, TRUE, FALSE": "x'00ff', 1.5, 16, NULL, 1, 0",
}  # fmt: skip


@pytest.mark.parametrize("text", [text for text, expected in PRINTED.items() if expected is not None])
def test_what_sqlite_gets(text):
    assert printed(f"SELECT {text}{FROM}") == f"SELECT {PRINTED[text]} FROM @data.person AS person ORDER BY person.id"
    ROWS.run_any(f"SELECT {text}{FROM}")


FAULTS = {
    "SELECT (1, 2)": "2 values where there can be one",
    "SELECT (SELECT 1, 2)": "2 values where there can be one",
    "SELECT (1, 2) = 1": "2 values are compared with 1",
    "SELECT (1, 2) IN (1, 2)": "2 values are compared with 1",
    "SELECT 1 IN (SELECT 1, 2)": "1 values are looked for among rows of 2",
    "SELECT (1, 2) BETWEEN 1 AND 2": "2 values are compared with 1",
    "SELECT CAST(1 AS FLAOT)": 'unknown type FLAOT (did you mean "FLOAT"?)',
    "SELECT CAST(1 AS MONEY(1))": "unknown type MONEY(1) (there are INT, FLOAT, STRING, BOOLEAN, DATE)",
    "SELECT 'a' COLLATE german": "unknown collation german: there are BINARY, NOCASE and RTRIM",
    "SELECT (1, (2, 3)) = (1, 2)": "2 values where there can be one",
    "SELECT id IN data.pet FROM data.pet": "1 values are looked for among rows of 6",
}


@pytest.mark.parametrize("text", FAULTS)
def test_what_cannot_be(text):
    assert fault(text).message == FAULTS[text]


def test_aliases_stand_for_their_expression():
    assert printed("SELECT age + 1 AS b FROM data.person WHERE b > 1 AND EXISTS (SELECT 1 FROM data.pet WHERE b = 2)") == (
        "SELECT person.age + 1 FROM @data.person AS person WHERE person.age + 1 > 1"
        " AND EXISTS (SELECT 1 FROM @data.pet AS pet WHERE person.age + 1 = 2) ORDER BY person.id"
    )
    assert fault("SELECT age AS b, b + 1 FROM data.person").message == "unknown column b"
