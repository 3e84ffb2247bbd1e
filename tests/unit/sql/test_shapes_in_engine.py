"""Statements that differ in their literals only are prepared once, and answered as if each were."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from svc.awaitables import is_waiting
from svc.errors import NotFound, Problem, QueryError, QueryTooLarge
from svc.sql import engine as engine_module
from svc.sql.errors import SqlSyntaxError
from svc.sql.options import SqlOptions
from svc.store.schema import Attribute, TableDefinition
from tests.support.sql_engine import SqlStore, reads

COLUMNS = (
    Attribute("id", "ID", primary_key=True),
    Attribute("name", "String", indexed=True),
    Attribute("rank", "Long", indexed=True),
    Attribute("score", "Float"),
    Attribute("active", "Boolean"),
    Attribute("made", "Date", indexed=True),
    Attribute("data", "Bytes"),
    Attribute("big", "BigInt"),
    Attribute("other", "Any", indexed=True),
)
ITEM = TableDefinition("Item", attributes=COLUMNS)
DAY = "2024-01-05T00:00:00.000Z"
RECORDS: list[dict[str, Any]] = [
    {"id": "a", "name": "one", "rank": 1, "score": 1.5, "active": True, "other": True},
    {"id": "b", "name": "two", "rank": 2, "score": -2.0, "active": False, "other": 2, "big": 5},
    {"id": "c", "name": "true", "rank": -3, "score": 3.0, "other": "2"},
    {"id": "d", "name": "it's", "rank": 1 << 53, "other": "true"},
    {"id": "e", "other": 2.5},
]


@pytest.fixture
def tables(tmp_path):
    made = SqlStore(tmp_path, [ITEM])
    made.put("Item", RECORDS)
    yield made
    made.close()


@pytest.fixture
def parsed(monkeypatch):
    """The texts that were parsed."""
    found: list[str] = []
    parse = engine_module.parse

    def noted(text: str, *rest: Any) -> Any:
        found.append(text)
        return parse(text, *rest)

    monkeypatch.setattr(engine_module, "parse", noted)
    return found


# (a statement, others of its shape)
SAME = {
    "id = 'a'": ["id = 'b'", "id = ''", "id = 'it''s'", "id = 'é\U0001f600'", "id = 'a\0'", "id = 'c'"],
    "'one' = name": ["'two' = name", "'it''s' = name"],
    "name <> 'one'": ["name <> 'two'"],
    "name IS 'one'": ["name IS 'two'", "name IS 'nobody'"],
    "name IS NOT 'one'": ["name IS NOT 'two'"],
    "rank = 1": ["rank = 2", "rank = 007", "rank = 999999999999999999"],
    "rank = 1.0": ["rank = 2.0", "rank = 2.5"],
    "rank = -1": ["rank = -3", "rank = -0"],
    "score = 1": ["score = 3"],
    "score = - 1.5": ["score = - 2.0", "score = - 0.0"],
    "made = '2024-01-05'": [f"made = '{DAY}'"],
    "other = 1": ["other = 2"],
    "other = '1'": ["other = '2'", "other = 'x'"],
    "other = 1.0": ["other = 2.5", "other = 2.0"],
    "id IN ('a', 'b')": ["id IN ('c', 'c')", "id IN ('', 'd')"],
    "id NOT IN ('a', 'b')": ["id NOT IN ('c', 'd')"],
    "rank IN (1, 2.0, '3')": ["rank IN (5, 3.0, '3')"],
    "id = 'a' AND rank = 1 OR name = 'x'": ["id = 'b' AND rank = 2 OR name = 'two'"],
    "id IN (SELECT id FROM data.Item WHERE rank = 1)": ["id IN (SELECT id FROM data.Item WHERE rank = 2)"],
    "EXISTS (SELECT * FROM data.Item AS o WHERE o.id = Item.id AND o.id = 'a')": [
        "EXISTS (SELECT * FROM data.Item AS o WHERE o.id = Item.id AND o.id = 'b')"
    ],
    "id = 'a' LIMIT 1": ["id = 'b' LIMIT 1"],
    "name = 'one' AND rank > 0": ["name = 'two' AND rank > 0"],
}


@pytest.mark.parametrize("first", SAME)
def test_the_others_are_not_parsed_and_answered_the_same(tables, parsed, first):
    tables.ask(f"SELECT * FROM data.Item WHERE {first}")
    for other in SAME[first]:
        text = f"SELECT * FROM data.Item WHERE {other}"
        parsed.clear()
        found = tables.ask(text)
        assert parsed == []
        assert found == tables.ask(f"{text} --"), text
        assert parsed == [f"{text} --"]


# (a statement, others of its shape, or nearly: some literal of theirs is part of what is prepared)
OTHERS = {
    "id FROM data.Item WHERE rank > 1": ["id FROM data.Item WHERE rank > 2"],
    "id FROM data.Item WHERE rank BETWEEN 1 AND 2": ["id FROM data.Item WHERE rank BETWEEN 2 AND 3"],
    "id FROM data.Item WHERE name LIKE 'o%'": ["id FROM data.Item WHERE name LIKE 't%'"],
    "id FROM data.Item WHERE active = 1": ["id FROM data.Item WHERE active = 0"],
    "id FROM data.Item WHERE active = 'x'": ["id FROM data.Item WHERE active = 'true'", "id FROM data.Item WHERE active = 'false'"],
    "id FROM data.Item WHERE big = '4'": ["id FROM data.Item WHERE big = '5'"],
    "id FROM data.Item WHERE other = 'x'": ["id FROM data.Item WHERE other = 'true'", "id FROM data.Item WHERE other = 'FALSE'"],
    "id FROM data.Item WHERE other IN ('x', 1)": [
        "id FROM data.Item WHERE other IN ('2', 1)",
        "id FROM data.Item WHERE other IN ('true', 1)",
    ],
    "id FROM data.Item WHERE rank IN ('1')": ["id FROM data.Item WHERE rank IN ('01')", "id FROM data.Item WHERE rank IN ('2')"],
    "id FROM data.Item WHERE id = 'a' LIMIT 1": ["id FROM data.Item WHERE id = 'a' LIMIT 0"],
    "id FROM data.Item WHERE id <> 'a' ORDER BY 1 LIMIT 2": ["id FROM data.Item WHERE id <> 'b' ORDER BY 1 LIMIT 3"],
    "id, rank FROM data.Item WHERE id <> 'a' ORDER BY 1": ["id, rank FROM data.Item WHERE id <> 'a' ORDER BY 2"],
    "id = 'a' FROM data.Item WHERE id = 'a'": ["id = 'b' FROM data.Item WHERE id = 'a'"],
    "id = 'a' AS x FROM data.Item WHERE x": ["id = 'b' AS x FROM data.Item WHERE x"],
    "id = 'a' AS x FROM data.Item WHERE x AND name = 'one'": ["id = 'b' AS x FROM data.Item WHERE x AND name = 'two'"],
    "COUNT(*) FROM data.Item GROUP BY id = 'a'": ["COUNT(*) FROM data.Item GROUP BY id = 'zz'"],
    "COUNT(*) FROM data.Item GROUP BY id HAVING id = 'a'": ["COUNT(*) FROM data.Item GROUP BY id HAVING id = 'zz'"],
    "id = 'a', COUNT(*) FROM data.Item GROUP BY id = 'a'": ["id = 'b', COUNT(*) FROM data.Item GROUP BY id = 'b'"],
    "id FROM data.Item ORDER BY id = 'a', id": ["id FROM data.Item ORDER BY id = 'b', id"],
    "COUNT(*) FILTER (WHERE id = 'a') FROM data.Item": ["COUNT(*) FILTER (WHERE id = 'zz') FROM data.Item"],
    "1.5 FROM data.Item WHERE id = 'a'": ["1.50 FROM data.Item WHERE id = 'a'", "1.5 FROM data.Item WHERE id = 'b'"],
    "(SELECT name FROM data.Item WHERE id = 'a') FROM data.Item": ["(SELECT name FROM data.Item WHERE id = 'b') FROM data.Item"],
    "id FROM data.Item WHERE id IN (SELECT 'a' FROM data.Item WHERE id = 'b')": [
        "id FROM data.Item WHERE id IN (SELECT 'c' FROM data.Item WHERE id = 'b')"
    ],
    "id FROM data.Item WHERE id = 'a' UNION SELECT id = 'a' FROM data.Item ORDER BY 1": [
        "id FROM data.Item WHERE id = 'b' UNION SELECT id = 'c' FROM data.Item ORDER BY 1"
    ],
}


@pytest.mark.parametrize("first", OTHERS)
def test_what_differs_in_more_is_answered_as_it_says(tables, first):
    async def named(text: str) -> Any:
        found = tables.engine.run(text, None, tables.caller())
        found = await found if is_waiting(found) else found  # on a busy machine a thread answers
        rows = list(found.found)
        while not found.done:
            rows += await found.more()
        tables.end_turn()
        return [list(row.items()) for row in rows], found.columns

    for text in (first, *OTHERS[first], first):
        assert asyncio.run(named(f"SELECT {text}")) == asyncio.run(named(f"SELECT {text} --"))


def test_half_a_surrogate_pair_is_refused(tables):
    tables.ask("SELECT id FROM data.Item WHERE id = 'a'")
    with pytest.raises(SqlSyntaxError) as found:
        tables.ask("SELECT id FROM data.Item WHERE id = '\ud800'")
    assert found.value.position == 37


def test_fewer_characters_than_the_limit(tmp_path, parsed):
    tables = SqlStore(tmp_path, [ITEM], SqlOptions(max_length=60))
    try:
        assert tables.ask("SELECT id FROM data.Item WHERE id = 'a'") == []
        with pytest.raises(QueryTooLarge):
            tables.ask(f"SELECT id FROM data.Item WHERE id = '{'a' * 30}'")
    finally:
        tables.close()


@pytest.mark.parametrize("parameters", [[1], {"a": 1}, "", 0, "x"])
def test_parameters_that_the_statement_does_not_have(tables, parameters):
    tables.ask("SELECT id FROM data.Item WHERE id = 'a'")
    with pytest.raises(QueryError) as found:
        tables.ask("SELECT id FROM data.Item WHERE id = 'b'", parameters)
    with pytest.raises(QueryError) as expected:
        tables.ask("SELECT id FROM data.Item WHERE id = 'b' --", parameters)
    assert found.value.message == expected.value.message


@pytest.mark.parametrize("parameters", [None, [], {}, ()])
def test_no_parameters(tables, parsed, parameters):
    tables.ask("SELECT id FROM data.Item WHERE id = 'a'", parameters)
    assert tables.ask("SELECT id FROM data.Item WHERE id = 'b'", parameters) == [["b"]]
    assert len(parsed) == 1


def test_parameters_beside_literals(tables):
    for name, expected in (("one", [["a"]]), ("two", [])):
        assert tables.ask(f"SELECT id FROM data.Item WHERE id = ? AND name = '{name}' AND rank = ?", ["a", 1]) == expected


def test_each_caller_has_statements_of_their_own(tables):
    text = "SELECT * FROM data.Item WHERE id = '%s'"
    narrow = tables.user({"Item": reads("id", "name")})
    assert len(tables.ask(text % "a")[0]) == len(COLUMNS)
    assert tables.ask(text % "a", user=narrow) == [["a", "one"]]
    assert tables.ask(text % "b", user=narrow) == [["b", "two"]]
    assert len(tables.ask(text % "b")[0]) == len(COLUMNS)
    with pytest.raises(Problem):
        tables.ask(text % "b", user=tables.user({}))


def test_a_table_that_changes(tables):
    text = "SELECT rank FROM data.Item WHERE rank = 'x' OR name = '%s'"
    assert tables.ask(text % "one") == [[1]]
    assert tables.ask(text % "two") == [[2]]
    changed = TableDefinition("Item", attributes=(COLUMNS[0], Attribute("name", "Any"), Attribute("rank", "String")))
    tables.tables["Item"] = tables.store.open_database("data").define_table(changed)
    tables.end_turn()
    assert tables.ask(text % "two") == tables.ask(f"{text % 'two'} --")
    assert tables.ask(text % "true") == tables.ask(f"{text % 'true'} --")
    tables.store.open_database("data").drop_table("Item")
    tables.end_turn()
    with pytest.raises(NotFound):
        tables.ask(text % "three")


def test_the_plan_is_that_of_the_statement_that_is_run(tables, parsed):
    text = "SELECT id FROM data.Item WHERE name = '%s'"
    tables.ask(text % "one")
    plans = [tables.ask(text % "two", explain=True), tables.ask(f"EXPLAIN {text % 'one'}"), tables.ask(f"EXPLAIN {text % 'two'}")]
    assert all(plan == plans[0] for plan in plans) and "index name: equal" in plans[0]["plan"]
    assert tables.ask(text % "two") == [["b"]]


def test_writes_are_what_they_say(tables):
    for key in "xyz":
        assert tables.ask(f"INSERT INTO data.Item (id, name) VALUES ('{key}', 'n{key}')")["inserted_hashes"] == [key]
        assert tables.ask(f"UPDATE data.Item SET rank = 5 WHERE id = '{key}' AND name = 'n{key}'")["update_hashes"] == [key]
        assert tables.ask(f"SELECT name, rank FROM data.Item WHERE id = '{key}'") == [[f"n{key}", 5]]
        assert tables.ask(f"DELETE FROM data.Item WHERE id = '{key}'")["deleted_hashes"] == [key]


def test_what_takes_long_is_read_by_a_thread_with_its_own_values(tmp_path):
    tables = SqlStore(tmp_path, [ITEM])
    try:
        tables.put("Item", [{"id": f"k{number:04}", "name": f"n{number % 2}"} for number in range(5000)])
        for name in ("n0", "n1", "n2", "n0"):
            found = tables.ask(f"SELECT name, id FROM data.Item WHERE name = '{name}'")
            assert len(found) == (0 if name == "n2" else 2500) and {row[0] for row in found} <= {name}
    finally:
        tables.close()
