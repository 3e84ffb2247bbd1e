"""svc.sql.writing.conflicts: ON CONFLICT."""

from typing import Any

import pytest

from svc.clock import FakeClock
from svc.errors import NotUnique, ValidationError
from svc.store import Store, Table
from svc.store.log.entries import PATCH, PUT
from svc.store.schema import Attribute, TableDefinition
from tests.support.sql_writes import Sql, records_of
from tests.unit.store.writing.test_long_write import Turns


@pytest.fixture
def two(sql: Sql, items: Table) -> Table:
    sql("INSERT INTO data.Item (id, n, name) VALUES (1, 10, 'a'), (2, 20, 'b')")
    return items


@pytest.fixture
def mails(sql: Sql, strict: Table) -> Table:
    sql("INSERT INTO data.Strict (key, mail, nick, need) VALUES ('a', 'a@x', '[\"A\", \"AA\"]', 1), ('b', 'b@x', '[\"B\"]', 2)")
    return strict


def test_a_record_that_exists_is_changed(sql: Sql, two: Table) -> None:
    heard: list[Any] = []
    two.database.store.on_commit.append(lambda database, entries: heard.extend(entries))
    assert sql(
        "INSERT INTO data.Item (id, n) VALUES (1, 1), (3, 3), (2, 2) ON CONFLICT (id) DO UPDATE SET n = n + excluded.n, name = 'new'"
    ) == {
        "message": "inserted 1 of 3 records, updated 2",
        "inserted_hashes": [3],
        "skipped_hashes": [],
        "update_hashes": [1, 2],
    }
    assert records_of(two) == [{"id": 1, "n": 11, "name": "new"}, {"id": 2, "n": 22, "name": "new"}, {"id": 3, "n": 3}]
    assert [(entry.kind, entry.operation) for entry in heard] == [(PUT, 3), (PATCH, 3), (PATCH, 3)]


def test_only_where_the_condition_holds(sql: Sql, two: Table) -> None:
    assert sql(
        "INSERT INTO data.Item AS i (id, n, name) SELECT id, 15, 'x' FROM data.Item ON CONFLICT (id) DO UPDATE SET (n, name) = (excluded.n, excluded.name)"
        " WHERE i.n < excluded.n"
    ) == {"message": "inserted 0 of 2 records, updated 1", "inserted_hashes": [], "skipped_hashes": [2], "update_hashes": [1]}
    assert records_of(two) == [{"id": 1, "n": 15, "name": "x"}, {"id": 2, "n": 20, "name": "b"}]


def test_names_without_excluded_are_those_of_the_record(sql: Sql, two: Table) -> None:
    sql(
        "INSERT INTO data.Item (id, n, name) VALUES (1, 1, 'x') ON CONFLICT (id) DO UPDATE SET n = Item.n + (SELECT count(*) FROM data.Item i WHERE"
        " i.n >= excluded.n), name = name || EXCLUDED.NAME WHERE n = 10"
    )
    assert records_of(two)[0] == {"id": 1, "n": 12, "name": "ax"}


def test_what_a_row_lacks_has_its_default_in_excluded(sql: Sql, mails: Table) -> None:
    sql(
        "INSERT INTO data.Strict (key, need) VALUES ('a', 5) ON CONFLICT (key) DO UPDATE SET color = 'RED', must = excluded.must, mail = excluded.mail"
    )
    found = records_of(mails)[0]
    assert (found["color"], found["must"], found["mail"], found["need"]) == ("RED", "default", None, 1)


def test_nothing_is_done(sql: Sql, two: Table, mails: Table) -> None:
    for clause in ("ON CONFLICT DO NOTHING", "ON CONFLICT (id) DO NOTHING", ""):
        assert sql(f"INSERT INTO data.Item (id) VALUES (1), (2) {clause}") == {
            "message": "inserted 0 of 2 records",
            "inserted_hashes": [],
            "skipped_hashes": [1, 2],
        }
    rows = "('c', 'a@x', NULL, 1), ('d', 'd', ?, 1), ('e', 'e', NULL, 1)"
    answer = sql(f"INSERT INTO data.Strict (key, mail, nick, need) VALUES {rows} ON CONFLICT DO NOTHING", [["X", "B"]])
    assert answer == {"message": "inserted 1 of 3 records", "inserted_hashes": ["e"], "skipped_hashes": ["a", "b"]}
    assert len(records_of(mails)) == 3


def test_what_is_unique_afterwards_may_be_swapped(sql: Sql, mails: Table) -> None:
    before = {record["key"]: record["mail"] for record in records_of(mails)}
    sql("UPDATE data.Strict SET mail = CASE mail WHEN 'a@x' THEN 'b@x' ELSE 'a@x' END WHERE mail IN ('a@x', 'b@x')")
    swapped = before | {"a": before["b"], "b": before["a"]}
    assert {record["key"]: record["mail"] for record in records_of(mails)} == swapped != before


def test_a_unique_attribute_finds_the_record(sql: Sql, mails: Table) -> None:
    answer = sql(
        "INSERT INTO data.Strict (key, mail, need) VALUES ('new', 'b@x', 7), (NULL, 'c@x', 8) ON CONFLICT (mail) DO UPDATE SET need = excluded.need,"
        " must = excluded.key RETURNING key, need, must"
    )
    assert answer[0] == {"key": "b", "need": 7, "must": "new"} and answer[1]["need"] == 8
    assert sql("INSERT INTO data.Strict (key, nick, need) VALUES ('x', '[\"AA\"]', 9) ON CONFLICT (nick) DO UPDATE SET need = 9")[
        "update_hashes"
    ] == ["a"]
    assert isinstance(
        sql.fault("INSERT INTO data.Strict (key, mail, need) VALUES ('x', 'a@x', 1) ON CONFLICT (nick) DO NOTHING"), NotUnique
    )
    assert isinstance(sql.fault("INSERT INTO data.Strict (key, mail, need) VALUES ('x', 'a@x', 1) ON CONFLICT (key) DO NOTHING"), NotUnique)
    assert sql("INSERT INTO data.Strict (key, mail, need) VALUES ('a', 'zzz', 1) ON CONFLICT (mail) DO UPDATE SET need = 0")[
        "skipped_hashes"
    ] == ["a"]


def test_several_clauses(sql: Sql, mails: Table) -> None:
    answer = sql(
        "INSERT INTO data.Strict (key, mail, need) VALUES ('a', 'new@x', 5), ('c', 'b@x', 6), ('d', 'd@x', 7)"
        " ON CONFLICT (key) DO UPDATE SET need = 50 ON CONFLICT (mail) DO UPDATE SET need = 60"
    )
    assert answer == {
        "message": "inserted 1 of 3 records, updated 2",
        "inserted_hashes": ["d"],
        "skipped_hashes": [],
        "update_hashes": ["a", "b"],
    }
    assert [(record["key"], record["need"]) for record in records_of(mails)] == [("a", 50), ("b", 60), ("d", 7)]


@pytest.mark.parametrize(
    "rows",
    [
        "('a', 'x', 1), ('a', 'y', 2)",
        "('new', 'x', 1), ('new', 'y', 2)",
        "('new', 'x', 1), ('other', 'x', 2)",
        "('a', 'x', 1), ('q', 'a@x', 2)",
    ],
)
def test_a_record_is_not_changed_twice(sql: Sql, mails: Table, rows: str) -> None:
    before = records_of(mails)
    problem = sql.fault(
        f"INSERT INTO data.Strict (key, mail, need) VALUES {rows} ON CONFLICT (key) DO UPDATE SET need = 0 ON CONFLICT (mail) DO UPDATE SET need = 1"
    )
    assert problem.status_code == 400 and "cannot change a record twice" in problem.message and records_of(mails) == before


def test_rows_that_meet_each_other_are_skipped(sql: Sql, items: Table, mails: Table) -> None:
    assert sql("INSERT INTO data.Item (id, n) VALUES (5, 1), (5, 2) ON CONFLICT DO NOTHING")["skipped_hashes"] == [5]
    assert sql("INSERT INTO data.Strict (key, mail, need) VALUES ('x', 'x', 1), ('y', 'x', 2) ON CONFLICT (mail) DO NOTHING")[
        "inserted_hashes"
    ] == ["x"]
    long = "q" * 2000
    sql(f"INSERT INTO data.Strict (key, mail, need) VALUES ('l', '{long}1', 1), ('m', '{long}2', 2) ON CONFLICT (mail) DO NOTHING")
    assert len(records_of(mails)) == 5


@pytest.mark.parametrize(
    ("clause", "code", "text"),
    [
        (
            "(n) DO NOTHING",
            "UNKNOWN_ATTRIBUTE",
            "ON CONFLICT (n) needs the primary key of the table, or one of its attributes that are @unique",
        ),
        ("(id, n) DO NOTHING", "UNKNOWN_ATTRIBUTE", "ON CONFLICT (id, n) needs"),
        ("(id) WHERE n > 1 DO NOTHING", "QUERY_SYNTAX", "takes no WHERE"),
        ("(id) DO UPDATE SET id = 5", "BAD_VALUE", "primary key"),
        ("(id) DO UPDATE SET nothing = 5", "UNKNOWN_ATTRIBUTE", "unknown column Item.nothing"),
        ("(id) DO UPDATE SET n = excluded.nothing", "UNKNOWN_ATTRIBUTE", "unknown column excluded.nothing"),
        ("(id) DO UPDATE SET n = excluded.double", "UNKNOWN_ATTRIBUTE", "unknown column excluded.double"),
        ("(id) DO UPDATE SET n = nothing.n", "UNKNOWN_ATTRIBUTE", "nothing.n"),
        ("(id) DO UPDATE SET n = 1 WHERE nothing", "UNKNOWN_ATTRIBUTE", "unknown column nothing"),
    ],
)
def test_clauses_that_are_refused(sql: Sql, two: Table, clause: str, code: str, text: str) -> None:
    problem = sql.fault(f"INSERT INTO data.Item (id) VALUES (1) ON CONFLICT {clause}")
    assert (problem.status_code, problem.code) == (400, code) and text in problem.message


def test_values_that_are_refused(sql: Sql, two: Table) -> None:
    problem = sql.fault("INSERT INTO data.Item (id, name) VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET n = excluded.name")
    assert isinstance(problem, ValidationError) and problem.faults[0]["key"] == 1 and problem.faults[0]["attribute"] == "n"


def test_values_keep_their_type(sql: Sql, two: Table) -> None:
    sql("INSERT INTO data.Item (id, flag, any, tags) VALUES (1, TRUE, ?, '[\"t\"]') ON CONFLICT (id) DO UPDATE SET flag = excluded.flag, any = excluded.any,"
        " tags = excluded.tags, big = excluded.flag", [{"a": [True]}])  # fmt: skip
    found = records_of(two)[0]
    assert found["flag"] is True and found["any"] == {"a": [True]} and found["tags"] == ["t"] and found["big"] == 1


def test_dynamic_tables_learn(sql: Sql, loose: Table) -> None:
    sql("INSERT INTO data.Loose (id) VALUES ('a')")
    answer = sql(
        "INSERT INTO data.Loose (id, color) VALUES ('a', 'red') ON CONFLICT (id) DO UPDATE SET shade = excluded.color RETURNING shade, color"
    )
    assert answer == [{"shade": "red", "color": None}] and loose.attributes["shade"].indexed


def test_an_expired_record_is_none(sql: Sql, store: Store, items: Table, clock: FakeClock) -> None:
    transaction = store.begin()
    transaction.put(items, 1, {"n": 1}, expires_at=clock.wall() * 1000 + 5000)
    transaction.apply()
    sql.end_turn()
    clock.advance(10)
    answer = sql("INSERT INTO data.Item (id, n) VALUES (1, 3) ON CONFLICT (id) DO UPDATE SET n = 100")
    assert answer["inserted_hashes"] == [1] and records_of(items)[0]["n"] == 3


def test_keys_of_several_segments(sql: Sql, store: Store) -> None:
    attributes = (Attribute("id", primary_key=True), Attribute("n", "Int"))
    table = store.open_database("data").define_table(TableDefinition("Path", attributes=attributes, split_segments=True))
    sql("INSERT INTO data.Path (id, n) VALUES ('a/b', 1)")
    answer = sql("INSERT INTO data.Path (id, n) VALUES ('a/b', 5) ON CONFLICT (id) DO UPDATE SET n = n + excluded.n")
    assert answer["update_hashes"] == [["a", "b"]] and records_of(table)[0]["n"] == 6


def test_as_many_rows_as_a_turn_takes(sql: Sql, items: Table) -> None:
    rows = ", ".join(f"({number}, {number})" for number in range(50))
    sql(f"INSERT INTO data.Item (id, n) VALUES {rows}")
    assert (
        sql(f"INSERT INTO data.Item (id, n) VALUES {rows} ON CONFLICT (id) DO UPDATE SET n = n + 1")["message"]
        == "inserted 0 of 50 records, updated 50"
    )


def test_many_rows(sql: Sql, turns: Turns, items: Table) -> None:
    rows = ", ".join(f"({number}, {number})" for number in range(100))
    turns.finish(sql.whole(f"INSERT INTO data.Item (id, n) VALUES {rows}"))
    rows = ", ".join(f"({number}, {number})" for number in range(50, 150))
    answer = turns.finish(
        sql.whole(f"INSERT INTO data.Item (id, n) VALUES {rows} ON CONFLICT (id) DO UPDATE SET n = n + excluded.n WHERE n >= 60")
    )
    assert answer["message"] == "inserted 50 of 100 records, updated 40"
    assert answer["update_hashes"] == list(range(60, 100)) and answer["skipped_hashes"] == list(range(50, 60))
    assert [record["n"] for record in records_of(items)] == [*range(60), *range(120, 200, 2), *range(100, 150)]
