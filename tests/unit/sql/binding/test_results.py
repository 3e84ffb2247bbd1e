"""Values of the result: as they are stored, whatever they were inside the statement."""

import pytest

from svc.sql.bound import Decoding
from tests.support.sql_binding import ALL, RECORDS, Rows, bound, printed

ROWS = Rows(ALL, RECORDS)
PERSONS = RECORDS["data", "person"]
ANY = [record.get("any") for record in PERSONS]
ACTIVE = [record.get("active") for record in PERSONS]


def decodings(text):
    return [column.decoding.name for column in bound(text, ALL).columns]


def test_columns_are_read_by_their_exact_face():
    text = "SELECT name, age, score, active, born, tags, raw, big, any FROM data.person"
    assert decodings(text) == ["NONE"] * 2 + ["EXACT"] * 7
    first = ROWS.ask(text)[0]
    assert first == ("Ann", 30, 1.5, True, "2000-01-05T00:00:00.000Z", ["x", 1], b"\0a", 2**70, True)
    assert [type(value) for value in first[3:]] == [bool, str, list, bytes, int, bool]


def test_without_exact_all_is_what_sql_computes_with():
    found = bound("SELECT active, any, FALSE FROM data.person", ALL, exact=False)
    assert [column.decoding for column in found.columns] == [Decoding.NONE] * 3
    assert ROWS.run(found)[0] == (1, 1, 0)


HANDED_ON = {
    "COALESCE(any, 'none')": [True, [1, 2], "1", 1],
    "COALESCE(NULL, any)": ANY,
    "IFNULL(active, any)": [True, False, True, 1],
    "COALESCE(active, FALSE)": [True, False, True, False],
    "IIF(age > 20, any, active)": [True, False, True, None],
    "IF(age > 20, any)": [True, None, None, None],
    "CASE WHEN id < 'c' THEN any ELSE FALSE END": [True, [1, 2], False, False],
    "CASE id WHEN 'a' THEN any WHEN 'b' THEN 7 END": [True, 7, None, None],
    "NULLIF(any, '1')": [True, [1, 2], None, 1],
    "NULLIF(active, 0)": [True, None, True, None],
    "any COLLATE NOCASE": ANY,
    "COALESCE(any, x'00', ?)": [True, [1, 2], "1", 1],
    "CASE WHEN id = 'a' THEN x'00' ELSE any END": [b"\0", [1, 2], "1", 1],
    "(SELECT any)": ANY,
    "(SELECT x FROM (SELECT any AS x))": [1, "[1,2]", "1", 1],
    "(SELECT any FROM data.pet WHERE owner = person.id)": [True, {"a": 1}, None, None],
    "(SELECT active FROM data.pet WHERE owner = person.id ORDER BY 1 LIMIT 1)": [True, None, None, None],
    "IIF(id = 'a', TRUE, FALSE)": [True, False, False, False],
    "IIF(id = 'a', any, id || 'x')": [True, "bx", "cx", "dx"],
    "tags -> 0": ["x", None, None, None],
    "tags ->> 1": [1, None, None, None],
    "active = 1": [1, 0, 1, None],
    "active + 1": [2, 1, 2, None],
    "REGEXP_LIKE(name, '^A')": [True, False, False, False],
    "JSON_ARRAY(1, name)": [[1, "Ann"], [1, "Bob"], [1, "Cy"], [1, "Dee"]],
    "LAG(any, 1, FALSE) OVER (ORDER BY id)": [False, True, [1, 2], "1"],
    "FIRST_VALUE(active) OVER (ORDER BY id)": [True, True, True, True],
    "COALESCE(SUBSTR(raw, 1), any)": [b"\0a", [1, 2], "1", 1],
    "CAST(big AS INT)": [2**70, 5, None, None],
    "CAST(any AS STRING)": ["true", "[1,2]", "1", "1"],
    "CAST(active AS BOOLEAN)": [True, False, True, None],
    "MAX(active, 0)": [1, 0, 1, None],
}


@pytest.mark.parametrize("text", HANDED_ON)
def test_what_hands_a_column_on(text):
    found = ROWS.ask(f"SELECT {text} AS x FROM data.person", {1: b"z"})
    values = [row[0] for row in found]
    assert values == HANDED_ON[text]
    assert list(map(type, values)) == list(map(type, HANDED_ON[text]))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT any FROM (SELECT id, any FROM data.person) ORDER BY id",
        "SELECT * FROM (SELECT any FROM (SELECT any, id FROM data.person ORDER BY id))",
        "WITH w AS (SELECT id, any FROM data.person) SELECT w.any FROM w ORDER BY id",
        "WITH w(a) AS (SELECT any FROM data.person ORDER BY id), x AS MATERIALIZED (SELECT a AS b FROM w) SELECT COALESCE(b, 0) FROM x",
        "SELECT x FROM (SELECT any AS x, id FROM data.person WHERE id < 'c' UNION ALL SELECT any, id FROM data.person WHERE id >= 'c') ORDER BY id",
        "SELECT any FROM (SELECT any, COUNT(*), id FROM data.person GROUP BY id) ORDER BY id",
        "SELECT any FROM (SELECT DISTINCT any, id FROM data.person) ORDER BY id",
        "WITH RECURSIVE w(n, v) AS (SELECT id, any FROM data.person WHERE id = 'a' UNION ALL SELECT p.id, p.any FROM w, data.person p"
        " WHERE p.id > n AND NOT EXISTS (SELECT 1 FROM data.person q WHERE q.id > n AND q.id < p.id)) SELECT v FROM w ORDER BY n",
        "SELECT any FROM data.person FULL JOIN (SELECT any FROM data.pet WHERE 0) x USING (any) ORDER BY id",
        "SELECT any FROM shop.sale RIGHT JOIN (data.person p FULL JOIN (SELECT any FROM data.pet WHERE 0) x USING (any)) USING (id, any) ORDER BY id",
        "SELECT v FROM (VALUES (1, NULL)) a LEFT JOIN (SELECT id, any AS v FROM data.person UNION ALL VALUES (0, 5)) b ON b.id <> 0 ORDER BY id",
        "SELECT column2 FROM (VALUES (1, TRUE), (2, x'00')) UNION ALL SELECT any FROM data.person WHERE id > 'a' ORDER BY 1",
        "SELECT p.any FROM data.pet a RIGHT JOIN (data.person p LEFT JOIN shop.sale s ON 0) ON 0 ORDER BY p.id",
    ],
)
def test_exact_values_go_through_sub_selects(text):
    if "VALUES (1, TRUE)" in text:
        assert [row[0] for row in ROWS.ask(text)] == [True, 1, "1", [1, 2], b"\0"]
    else:
        assert [row[0] for row in ROWS.ask(text)] == ANY
    assert decodings(text) == ["EXACT"]


def test_values_that_are_lost_on_the_way():
    text = "SELECT {} FROM (SELECT any AS a FROM data.person UNION SELECT x'00') ORDER BY a"
    assert ROWS.ask(text.format("a")) == [(1,), ("1",), ("[1,2]",), (b"\0",)]
    assert ROWS.ask(text.format("COALESCE(a, a)")) == [(1,), ("1",), ("[1,2]",), (b"\0",)]
    assert ROWS.ask(text.format("COALESCE(a, TRUE)")) == [(1,), ("1",), ("[1,2]",), (b"\0",)]
    assert ROWS.ask(text.format("CASE WHEN 1 THEN a ELSE a END")) == [(1,), ("1",), ("[1,2]",), (b"\0",)]
    assert ROWS.ask(text.format("a COLLATE NOCASE")) == [(1,), ("1",), ("[1,2]",), (b"\0",)]
    assert ROWS.ask("SELECT (SELECT DISTINCT any FROM data.person WHERE id = 'a'), (SELECT MAX(any) FROM data.person)") == [(1, "[1,2]")]
    assert ROWS.ask("SELECT x FROM (SELECT DISTINCT any AS x, RANK() OVER () FROM data.person) ORDER BY x LIMIT 1") == [(1,)]
    assert ROWS.ask("SELECT x FROM (SELECT MAX(raw) AS x FROM data.person)") == [(b"\0a",)]


def test_a_recursive_table_hands_on_its_own_column():
    text = "WITH w(n, v) AS (SELECT 1, any FROM data.person WHERE id = 'b' UNION ALL SELECT n + 1, v FROM w WHERE n < 3) SELECT v FROM w"
    assert ROWS.ask(text) == [([1, 2],)] * 3


def test_known_types_where_faces_are_lost():
    assert ROWS.ask("SELECT active FROM data.person UNION SELECT active FROM data.pet") == [(None,), (False,), (True,)]
    assert ROWS.ask("SELECT DISTINCT active FROM data.person ORDER BY 1 DESC") == [(True,), (False,), (None,)]
    assert ROWS.ask("SELECT active, COUNT(*) FROM data.person GROUP BY active") == [(None, 1), (False, 1), (True, 2)]
    assert decodings("SELECT born, tags, big, active FROM data.person EXCEPT SELECT born, tags, big, active FROM data.person") == [
        "DATE", "JSON", "BIG", "BOOLEAN",
    ]  # fmt: skip
    assert decodings("SELECT active FROM data.person UNION SELECT name FROM data.person") == ["NONE"]
    assert decodings("SELECT any FROM data.person UNION SELECT any FROM data.person") == ["NONE"]
    assert decodings("SELECT active FROM (SELECT active FROM data.person UNION SELECT TRUE)") == ["BOOLEAN"]


def test_order_groups_and_distinct_go_by_values():
    # 1 and true are equal, so one of both stands for them.
    found = ROWS.ask("SELECT any, COUNT(*) FROM data.person GROUP BY any ORDER BY any")
    assert [count for _, count in found] == [2, 1, 1]
    assert found[0][0] in (True, 1) and found[2][0] == [1, 2]
    found = ROWS.ask("SELECT DISTINCT any FROM data.person ORDER BY any DESC LIMIT 2")
    assert found == [([1, 2],), ("1",)]
    assert printed("SELECT any AS x, active FROM data.person ORDER BY x, 2 DESC, 1 COLLATE NOCASE") == (
        "SELECT person.^any, person.^active FROM @data.person AS person ORDER BY person.any, person.active DESC, person.any COLLATE NOCASE"
    )
    assert printed("SELECT any FROM data.person WHERE any = 1 GROUP BY any HAVING any > 0") == (
        "SELECT person.^any FROM @data.person AS person WHERE person.any = {1} GROUP BY person.any HAVING person.any > 0"
    )
    assert printed("SELECT DISTINCT any, RANDOM(), 1 FROM data.person") == (
        "SELECT person.^any, RANDOM(), 1 FROM @data.person AS person GROUP BY person.any, 2"
    )
    assert printed("SELECT DISTINCT any, RANK() OVER () FROM data.person").startswith("SELECT DISTINCT person.any, RANK()")


def test_union_all_is_ordered_by_values():
    found = ROWS.ask("SELECT any FROM data.person UNION ALL SELECT any FROM data.pet ORDER BY any LIMIT 4 OFFSET 1")
    assert [value_of(row[0]) for row in found] == [1, 1, 1, "1"]
    assert True in [row[0] for row in found]
    assert ROWS.ask("SELECT 1 AS n, any FROM data.person WHERE id = 'a' UNION ALL SELECT 2, FALSE ORDER BY n DESC") == [
        (2, False),
        (1, True),
    ]


def value_of(value):
    return int(value) if isinstance(value, bool) else value


def test_literals_and_parameters():
    assert ROWS.ask("SELECT TRUE, FALSE, 1, NULL, x'ff'") == [(True, False, 1, None, b"\xff")]
    assert ROWS.ask(f"SELECT {2**64}, -{2**64}") == [(2**64, -(2**64))]
    assert ROWS.ask("VALUES (1, TRUE), (2, 'x')") == [(1, True), (2, "x")]
    assert ROWS.ask("VALUES (TRUE), (FALSE)") == [(True,), (False,)]
    found = bound("SELECT ?2, :x, ?2 + 1, COALESCE(?2, 5) FROM data.person WHERE any = :x LIMIT 1", ALL)
    assert [found.parameters[index] for index in sorted(found.exact_parameters)] == [2, "x"]
    assert len(found.parameters) == 4
    assert ROWS.ask("SELECT ?1 AS x, ?1 + 1", {1: True}) == [(True, 2)]
    assert ROWS.ask("SELECT x, y FROM (SELECT ?1 AS x, :y AS y)", {1: [1], "y": 2**70}) == [([1], 2**70)]
    assert ROWS.ask("SELECT 'a' || ?", {1: "b"}) == [("ab",)]


def test_texts_with_nul_are_given_beside_the_text():
    found = bound("SELECT 'a\0b', ?, 'c\0d' || ? FROM data.pet WHERE name <> 'x\0' LIMIT 1", ALL)
    assert "\0" not in found.text
    assert found.constants == ("a\0b", "c\0d", "x\0")
    assert found.parameters == (1, 2)
    assert ROWS.run(found, {1: 5, 2: "e"}) == [("a\0b", 5, "c\0de")]


def test_values_of_json_each():
    text = """SELECT key, value FROM json_each('{"a": true, "b": null, "c": [1, {"d": 2}], "e": "x", "f": 1.5}')"""
    assert ROWS.ask(text) == [("a", True), ("b", None), ("c", [1, {"d": 2}]), ("e", "x"), ("f", 1.5)]
    assert ROWS.ask("SELECT p.id, e.value FROM data.person p, json_each(p.tags) e ORDER BY 2 DESC") == [("a", "x"), ("a", 1)]
    assert decodings("SELECT value FROM json_each('[]') GROUP BY value") == ["NONE"]


def test_lists_of_values():
    assert ROWS.ask("SELECT ARRAY(any), ARRAY(DISTINCT age) FROM data.person") == [(ANY, [30, 20, None])]
    [(found,)] = ROWS.ask("SELECT DISTINCT_ARRAY(ARRAY(active)) FROM data.person")
    assert sorted(map(str, found)) == ["False", "None", "True"]
    assert ROWS.ask("SELECT age, ARRAY(active) AS a FROM data.person GROUP BY age HAVING age = 20") == [(20, [False, None])]


def test_tables_that_are_read():
    found = bound("WITH w AS (SELECT 1 FROM shop.sale) SELECT 1 FROM data.pet a, data.pet b WHERE 1 IN (SELECT age FROM data.person)", ALL)
    assert [view.table.name for view in found.tables] == ["sale", "pet", "person"]


def test_a_column_that_is_called_like_a_hidden_one():
    mark = "\x1f"
    found = bound(f'SELECT "{mark}any", any FROM (SELECT id AS "{mark}any", any FROM data.person) ORDER BY 1', ALL)
    assert ROWS.run(found)[0] == ("a", True)
