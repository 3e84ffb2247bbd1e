"""Comparisons of columns with literals, where they differ from SQLite's."""

import pytest

from tests.support.sql_binding import ALL, RECORDS, Rows, bound, fault, printed

ROWS = Rows(ALL, RECORDS)
BIG = 2**63

CONDITIONS = {
    # Booleans as texts.
    "active = 'true'": "active = 1",
    "'FALSE' <> active": "0 <> active",
    "active IS NOT 'false'": "active IS NOT 0",
    "active IN ('true', 'x')": "active IN (1, 'x')",
    "active BETWEEN 'false' AND 'true'": "active BETWEEN 0 AND 1",
    "active = TRUE": "active = 1",
    "active = 'yes'": "active = 'yes'",
    "name = 'true'": "name = {'true'}",
    "any = 'true'": "any IN ('true', 1)",
    "'false' = any": "any IN ('false', 0)",
    "any <> 'true'": "any NOT IN ('true', 1)",
    "any IS 'true'": "any IS 'true' OR any IS 1",
    "any IS NOT 'true'": "any IS NOT 'true' AND any IS NOT 1",
    "any IN ('true', 5)": "any IN ('true', 1, 5)",
    "any || '' = 'true'": "any || '' = 'true'",
    # Whether something is true.
    "active IS TRUE": "active IS 1",
    "active IS NOT FALSE": "active IS NOT 0",
    "any IS TRUE": "(any AND 1) IS 1",
    "age IS NOT TRUE": "(age AND 1) IS NOT 1",
    # Numbers as texts.
    "any IN ('1', '007', '-2.5', '0', '0.5', '1e3', 'a')": "any IN ('1', 1, '007', '-2.5', -2.5, '0', 0, '0.5', 0.5, '1e3', 'a')",
    "any = '1'": "any = {'1'}",
    "age IN ('20', '020')": "age IN ('20', 'text 020')",
    "name IN (1, '2')": "name IN (1, {'2'})",
    "any IN ('1', name, ?)": "any IN ('1', 1, name, ?1)",
    "any + 0 IN ('1')": "any + 0 IN ('1')",
    "big = '5'": "big = 5",
    "big = '05'": "big = '05'",
    "big IN ('1180591620717411303424')": "big IN ('1180591620717411303424')",
    # Integers beyond 64 bits.
    f"big > {BIG}": f"big > '{BIG}'",
    f"any = {BIG}": f"any = '{BIG}'",
    f"name = {BIG}": f"name = '{BIG}'",
    f"{-BIG - 1} < big": f"'{-BIG - 1}' < big",
    f"age < {BIG}": "age < 9e999",
    f"age > {-BIG - 1}": "age > -9e999",
    f"score < {BIG}": "score < 9.223372036854776e+18",
    f"score < {10**400}": "score < 9e999",
    f"age IN ({BIG}, {BIG - 1}, {-BIG})": f"age IN (9e999, {{{BIG - 1}}}, {{{-BIG}}})",
    f"CASE big WHEN {BIG} THEN 1 END": f"CASE big WHEN '{BIG}' THEN 1 END",
}


@pytest.mark.parametrize("text", CONDITIONS)
def test_what_sqlite_gets(text):
    found = printed(f"SELECT 1 FROM data.person WHERE {text}").replace("person.", "")
    assert found == f"SELECT 1 FROM @data.person AS person WHERE {CONDITIONS[text]} ORDER BY id"
    ROWS.run_any(f"SELECT 1 FROM data.person WHERE {text}")


GIVEN = {
    "name = 'a' AND 'b' <> name AND name IS 'c' AND name IS NOT 'd' AND name IN ('e')":
        "name = {'a'} AND {'b'} <> name AND name IS {'c'} AND name IS NOT {'d'} AND name IN ({'e'})",
    "age = -1 AND age <> 1.5 AND age IN (1, NULL) AND score = 1 AND score IS 2.5":
        "age = {-1} AND age <> {1.5} AND age IN ({1}, NULL) AND score = {1} AND score IS {2.5}",
    "any = 1 AND any = 'x' AND any = 1.5 AND any = '1'": "any = {1} AND any = {'x'} AND any = {1.5} AND any = {'1'}",
    "born = '2020' AND born IN ('2021')": "born = {'2020'} AND born IN ({'2021'})",
    # By these, ways through a table are chosen.
    "name > 'a' AND age BETWEEN 1 AND 2 AND name LIKE 'a%'": "name > 'a' AND age BETWEEN 1 AND 2 AND name LIKE 'a%'",
    # Other classes of values, and types of columns for which some values are others.
    "name = 1 AND age = '1' AND born = 1 AND name = x'00'": "name = 1 AND age = '1' AND born = 1 AND name = x'00'",
    "active = 1 AND big = 1 AND raw = 'a' AND tags = 'a'": "active = 1 AND big = 1 AND raw = 'a' AND tags = 'a'",
    "any IN ('a', 1)": "any IN ('a', 1)",
    "name || '' = 'a' AND 'a' = 'a'": "name || '' = 'a' AND 'a' = 'a'",
    "CASE name WHEN 'a' THEN 1 END": "CASE name WHEN 'a' THEN 1 END",
    # Sub-selects.
    "EXISTS (SELECT name = 'a' FROM data.pet AS p WHERE p.name = 'b' GROUP BY p.name, p.name = 'c' HAVING p.name = 'c' ORDER BY p.name = 'c')":
        "EXISTS (SELECT p.name = 'a' FROM @data.pet AS p WHERE p.name = {'b'} GROUP BY p.name, p.name = 'c' HAVING p.name = 'c' ORDER BY p.name = 'c')",
}  # fmt: skip


@pytest.mark.parametrize("text", GIVEN)
def test_literals_in_whose_place_others_may_stand(text):
    found = printed(f"SELECT 1 FROM data.person WHERE {text}").replace("person.", "")
    assert found == f"SELECT 1 FROM @data.person AS person WHERE {GIVEN[text]} ORDER BY id"
    ROWS.run_any(f"SELECT 1 FROM data.person WHERE {text}")


def test_how_many_literals_are_given():
    def count(condition: str) -> int:
        return len(bound(f"SELECT 1 FROM data.person WHERE {condition}", ALL).holes)

    items = ", ".join(["1"] * 64)
    assert count(f"age IN ({items})") == 64
    assert count(f"age IN ({items}, 1)") == 0
    assert count(" AND ".join([f"age IN ({items})"] * 5)) == 256


def test_where_they_are_in_the_text():
    text = "SELECT title = 'a' AS x FROM data.person JOIN data.pet AS p ON p.id = 'b' WHERE x AND age = -1 AND x"
    found = bound(text, ALL)
    assert found.constants == ("b", "a", -1, "a")
    # What stands in the select list too cannot be another there.
    assert found.holes == (text.index("'b'"), None, text.index("-1"), None)
    assert bound("SELECT id FROM data.person WHERE name = 'a\0' AND ? = '\0'", ALL).holes == (40, None)


def test_columns_of_sub_selects_are_columns():
    found = printed("SELECT 1 FROM (SELECT active AS a, any AS b FROM data.person) WHERE a = 'true' AND b IN ('1')")
    assert "WHERE subquery.a = 1 AND subquery.b IN ('1', 1)" in found


def test_answers():
    assert ROWS.ask("SELECT id FROM data.person WHERE any IN ('1')") == [("a",), ("c",), ("d",)]
    assert ROWS.ask("SELECT id FROM data.person WHERE active = 'true'") == [("a",), ("c",)]
    assert ROWS.ask("SELECT id FROM shop.sale WHERE any = 'true'") == [(1,), (2,)]
    assert ROWS.ask(f"SELECT id FROM data.person WHERE big = {2**70}") == [("a",)]


@pytest.mark.parametrize("text", [f"{BIG} + 1", f"ABS({BIG})", f"age + 1 = {BIG}", f"active = {BIG} AND 1"])
def test_integers_beyond_64_bits_are_no_floats(text):
    found = fault(f"SELECT 1 FROM data.person WHERE {text}")
    assert found.message.startswith(f"the integer {BIG} has more than 64 bits")
    assert found.position == 32 + text.index(str(BIG))
