"""svc.sql.writing.inserts: INSERT without ON CONFLICT."""

from datetime import UTC, datetime
from typing import Any

import pytest

from svc.errors import BadValue, CheckFailed, NotUnique, ValidationError
from svc.store import Store, Table, create_blob
from svc.store.log.entries import PUT
from svc.store.schema import Attribute, TableDefinition
from tests.support.sql_writes import Sql, records_of
from tests.unit.sql.writing.conftest import ITEM
from tests.unit.store.writing.test_long_write import Turns

MISMATCH = "There was a problem performing this insert. Please check the logs and try again."


def test_rows_of_values(sql: Sql, items: Table) -> None:
    assert sql("INSERT INTO data.Item (id, n, name) VALUES (1, 10, 'a'), (2, 20, 'b')") == {
        "message": "inserted 2 of 2 records",
        "inserted_hashes": [1, 2],
        "skipped_hashes": [],
    }
    assert sql("INSERT INTO data.Item (id, n) VALUE (2, 21), (3, 30), (3, 31)") == {
        "message": "inserted 1 of 3 records",
        "inserted_hashes": [3],
        "skipped_hashes": [2, 3],
    }
    assert records_of(items) == [{"id": 1, "n": 10, "name": "a"}, {"id": 2, "n": 20, "name": "b"}, {"id": 3, "n": 30}]


@pytest.mark.parametrize("computed", ["", " + 0"])
def test_values_are_computed_or_not(sql: Sql, items: Table, computed: str) -> None:
    """What is skipped, and where, is the same in both cases."""
    sql(
        f"INSERT INTO data.Item (id, n, flag, any) VALUES (1{computed}, ?1, TRUE, :x), (2, (SELECT 7), 0, NULL)".replace(":x", "?2"),
        [5, [True]],
    )
    answer = sql(f"INSERT INTO data.Item (id) VALUES (2{computed}), (4), (1), (4)")
    assert answer == {"message": "inserted 1 of 4 records", "inserted_hashes": [4], "skipped_hashes": [2, 1, 4]}
    assert records_of(items)[:2] == [{"id": 1, "n": 5, "flag": True, "any": [True]}, {"id": 2, "n": 7, "flag": False, "any": None}]


def test_constants_keep_their_type_beside_what_is_computed(sql: Sql, items: Table) -> None:
    sql("INSERT INTO data.Item (id, any) VALUES (1, TRUE), (2, upper('x')), (3, -?1), (4, x'01'), (5, ?2)", [5, {"a": [None]}])
    assert [(record["any"], type(record["any"])) for record in records_of(items)] == [
        (True, bool),
        ("X", str),
        (-5, int),
        (b"\x01", bytes),
        ({"a": [None]}, dict),
    ]


def test_many_expressions(sql: Sql, items: Table) -> None:
    rows = ", ".join(f"({number}, {number} * 2, 'x' || {number}, 1 = 1)" for number in range(40))
    assert sql(f"INSERT INTO data.Item (id, n, name, flag) VALUES {rows}")["message"] == "inserted 40 of 40 records"
    assert records_of(items) == [{"id": number, "n": number * 2, "name": f"x{number}", "flag": True} for number in range(40)]


def test_expressions_ask_the_database(sql: Sql, items: Table) -> None:
    sql("INSERT INTO data.Item (id, n) VALUES (1, 10)")
    sql("WITH t(x) AS (VALUES (5)) INSERT INTO data.Item (id, n) VALUES ((SELECT max(id) FROM data.Item) + 1, (SELECT x FROM t))")
    assert records_of(items) == [{"id": 1, "n": 10}, {"id": 2, "n": 5}]


def test_rows_of_a_query(sql: Sql, store: Store, items: Table, loose: Table) -> None:
    day = datetime(2024, 1, 5, tzinfo=UTC)
    transaction = store.begin()
    transaction.put(items, 1, {"flag": True, "day": day, "tags": ["x"], "big": 2**80, "any": {"a": {day}}, "data": b"\x01", "n": 4})
    transaction.apply()
    sql.end_turn()
    answer = sql(
        "INSERT INTO data.Loose (id, flag, day, tags, big, any, data, more) SELECT id + 1, flag, day, tags, big, any, data, n > 3 FROM data.Item"
    )
    assert answer == {"message": "inserted 1 of 1 records", "inserted_hashes": [2], "skipped_hashes": []}
    (found,) = records_of(loose)
    assert {name: value for name, value in found.items() if "time" not in name} == {
        "id": 2, "flag": True, "day": day, "tags": ["x"], "big": 2**80, "any": {"a": {day}}, "data": b"\x01", "more": 1,
    }  # fmt: skip
    assert type(found["flag"]) is bool
    assert sql("INSERT INTO data.Item (id) SELECT 1 WHERE 1 = 0")["message"] == "inserted 0 of 0 records"
    assert sql("INSERT INTO data.Item (id, n) SELECT id + 10, n FROM data.Item UNION ALL SELECT 5, 5 ORDER BY 1 LIMIT 5")[
        "inserted_hashes"
    ] == [5, 11]


def test_rows_of_another_database(sql: Sql, store: Store, items: Table) -> None:
    other = store.open_database("other")
    table = other.define_table(TableDefinition("Item", database="other", attributes=ITEM.attributes, structures=ITEM.structures))
    sql("INSERT INTO data.Item (id, n) VALUES (1, 10), (2, 20)")
    sql("INSERT INTO other.Item (id, n) SELECT i.id, i.n + (SELECT count(*) FROM other.Item) FROM data.Item i")
    assert records_of(table) == [{"id": 1, "n": 10}, {"id": 2, "n": 20}]
    other.check()


def test_the_columns_need_not_be_named(sql: Sql, store: Store, strict: Table) -> None:
    database = store.open_database("data")
    attributes = (
        Attribute("id", "Int", primary_key=True),
        Attribute("a", "String"),
        Attribute("b", "Int"),
        Attribute("c", computed_from="b"),
    )
    table = database.define_table(TableDefinition("Small", attributes=attributes))
    sql("INSERT INTO data.Small VALUES (1, 'x', 5)")
    sql("INSERT INTO data.Small SELECT id + 1, a, b FROM data.Small")
    sql("INSERT INTO data.Strict VALUES ('a', 'a@x', '[]', 'm', 1, 'RED', 2)")
    sql("INSERT INTO data.Strict VALUES ('b', 'b@x', '[]', 'm', 1, 'RED', 2, '2000-01-01', 5)")
    assert records_of(table) == [{"id": 1, "a": "x", "b": 5}, {"id": 2, "a": "x", "b": 5}]
    assert [(record["key"], record["small"], record["made"].year) for record in records_of(strict)] == [("a", 2, 2026), ("b", 2, 2026)]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO data.Item (id, n) VALUES (1)",
        "INSERT INTO data.Item (id, n) VALUES (1, 2), (1, 2, 3)",
        "INSERT INTO data.Item (id, n) SELECT 1",
        "INSERT INTO data.Item VALUES (1)",
        "INSERT INTO data.Item (id) SELECT * FROM data.Item",
    ],
)
def test_values_must_match_columns(sql: Sql, items: Table, statement: str) -> None:
    problem = sql.fault(statement)
    assert (problem.status_code, problem.message) == (400, MISMATCH)


@pytest.mark.parametrize("empty", ["NULL", "''", "lower('')"])
def test_records_without_a_key_get_one(sql: Sql, store: Store, items: Table, strict: Table, empty: str) -> None:
    answer = sql("INSERT INTO data.Strict (need) VALUES (1), (2)")
    assert answer["message"] == "inserted 2 of 2 records" and all(len(key) == 36 for key in answer["inserted_hashes"])
    answer = sql(f"INSERT INTO data.Strict (key, need) VALUES ('x', 1), ({empty}, 2)")
    assert answer["inserted_hashes"][0] == "x" and len(answer["inserted_hashes"][1]) == 36
    assert {record["key"] for record in records_of(strict)} >= set(answer["inserted_hashes"])
    if empty == "NULL":
        answer = sql("INSERT INTO data.Item (n, id) VALUES (1, NULL), (2, 7), (3 + 0, NULL)")
        first, seven, third = answer["inserted_hashes"]
        assert seven == 7 and third == first + 1 and [record["id"] for record in records_of(items)] == sorted([first, 7, third])
        answer = sql("INSERT INTO data.Item DEFAULT VALUES")
        assert answer["inserted_hashes"] == [third + 1]


def test_defaults_and_times(sql: Sql, strict: Table) -> None:
    sql("INSERT INTO data.Strict (key, need, made, __createdtime__) VALUES ('a', 1, NULL, 5)")
    (record,) = records_of(strict)
    assert record["must"] == "default" and record["made"].year == 2026 and "__createdtime__" not in record


@pytest.mark.parametrize("computed", ["", " + 0"])
def test_what_is_wrong_with_the_rows(sql: Sql, strict: Table, computed: str) -> None:
    problem = sql.fault(
        f"INSERT INTO data.Strict (key, need, color) VALUES ('a', 1{computed}, 'RED'), ('b', 'x', 'GREEN'), (NULL, NULL, NULL)"
    )
    assert isinstance(problem, ValidationError)
    assert problem.message == (
        'Element 1 ("b"): Value "x" in property need must be an integer from -2147483648 to 2147483647. '
        'Element 1 ("b"): Value "GREEN" in property color must be one of RED, BLUE. Element 2: Property need is required and cannot be null'
    )
    assert [(fault["index"], fault.get("key"), fault["attribute"]) for fault in problem.faults] == [
        (1, "b", "need"),
        (1, "b", "color"),
        (2, None, "need"),
    ]
    assert records_of(strict) == []
    problem = sql.fault(f"INSERT INTO data.Strict (key, need) VALUES (5{computed}, 1)")
    assert problem.message == "Value 5 in property key must be a string (5)"


@pytest.mark.parametrize("computed", ["", " + 0"])
def test_constraints_hold(sql: Sql, strict: Table, computed: str) -> None:
    sql("INSERT INTO data.Strict (key, mail, need) VALUES ('a', 'a@x', 1)")
    problem = sql.fault(f"INSERT INTO data.Strict (key, mail, need) VALUES ('b', 'b@x', 1{computed}), ('c', 'a@x', 1)")
    assert type(problem) is NotUnique and problem.faults[0]["key"] == "c"
    problem = sql.fault(f"INSERT INTO data.Strict (key, small, need) VALUES ('b', 5, 1{computed}), ('c', 10, 1)")
    assert type(problem) is CheckFailed and problem.faults[0]["key"] == "c"
    problem = sql.fault(f"INSERT INTO data.Strict (key, mail, need) VALUES ('b', 'x', 1{computed}), ('c', 'x', 1)")
    assert type(problem) is NotUnique
    problem = sql.fault(f"INSERT INTO data.Strict (key, need) VALUES ('{'x' * 700}', 1{computed})")
    assert type(problem) is BadValue
    assert len(records_of(strict)) == 1


@pytest.mark.parametrize(
    ("statement", "code", "text"),
    [
        ("(id, nothing) VALUES (1, 2)", "UNKNOWN_ATTRIBUTE", "unknown column Item.nothing"),
        ("(id, ID) VALUES (1, 2)", "QUERY_SYNTAX", "column id is given twice"),
        ("(id, n) VALUES (1, nothing)", "UNKNOWN_ATTRIBUTE", "unknown column nothing"),
        ("(id, double) VALUES (1, 5)", "VALIDATION", "computed"),
        ("(id) VALUES (1) RETURNING nothing", "UNKNOWN_ATTRIBUTE", "unknown column nothing"),
        ("(id) VALUES (?)", "BAD_VALUE", "parameter"),
    ],
)
def test_statements_that_are_refused(sql: Sql, items: Table, statement: str, code: str, text: str) -> None:
    problem = sql.fault(f"INSERT INTO data.Item {statement}")
    assert (problem.status_code, problem.code) == (400, code) and text in problem.message


def test_dynamic_tables_learn(sql: Sql, loose: Table) -> None:
    sql("INSERT INTO data.Loose (id, color) VALUES ('a', 'red'), ('b', NULL)")
    assert loose.attributes["color"].indexed
    assert sql("INSERT INTO data.Loose (id, COLOR, size) VALUES ('c', 'blue', 1 + 1) RETURNING size, color") == [
        {"size": 2, "color": "blue"}
    ]
    assert "COLOR" not in loose.attributes
    assert sql.fault("INSERT INTO data.Loose (id, new) VALUES ('d', nothing)").code == "UNKNOWN_ATTRIBUTE"
    assert "new" not in loose.attributes


def test_many_rows_are_a_long_write(sql: Sql, turns: Turns, items: Table) -> None:
    rows = ", ".join(f"({number}, {number})" for number in range(200))
    answer = turns.finish(sql.whole(f"INSERT INTO data.Item (id, n) VALUES {rows}, (5, 5)"))
    assert answer["message"] == "inserted 200 of 201 records" and answer["skipped_hashes"] == [5] and len(records_of(items)) == 200
    rows = ", ".join(f"({number}, {number} + 0)" for number in range(150, 300))
    answer = turns.finish(sql.whole(f"INSERT INTO data.Item (id, n) VALUES {rows}"))
    assert answer["message"] == "inserted 100 of 150 records" and answer["skipped_hashes"] == list(range(150, 200))
    bad: Any = turns.start(sql.whole(f"INSERT INTO data.Item (id, n) VALUES {rows}, (1000, 'x')"))
    turns.until(bad.done)
    assert bad.exception().faults[0]["index"] == 150 and len(records_of(items)) == 300


def test_new_keys_of_a_long_insert_are_those_of_its_own_transaction(sql: Sql, turns: Turns, items: Table) -> None:
    rows = ", ".join(f"({number} + 0)" for number in range(100))
    keys = turns.finish(sql.whole(f"INSERT INTO data.Item (n) VALUES {rows}"))["inserted_hashes"]
    assert keys == list(range(keys[0], keys[0] + 100))
    assert sql("INSERT INTO data.Item (n) VALUES (1)")["inserted_hashes"] == [keys[-1] + 1]


def test_blobs_are_copied(sql: Sql, turns: Turns, store: Store) -> None:
    attributes = (Attribute("id", "Int", primary_key=True), Attribute("a", "Blob"))
    table = store.open_database("data").define_table(TableDefinition("Paper", attributes=attributes))
    large = b"x" * 20_000
    turns.finish(sql.whole("INSERT INTO data.Paper (id, a) VALUES (1, ?), (2, 'text')", [create_blob(large)]))
    turns.turn()
    turns.finish(sql.whole("INSERT INTO data.Paper (id, a) SELECT id + 10, a FROM data.Paper"))
    turns.turn()
    assert [record["a"].read() for record in records_of(table)] == [large, b"text", large, b"text"]
    assert len(dict(table.database.ledger.files(table.database.snapshot()))) == 2


def test_subscribers_and_the_log_hear_of_it(sql: Sql, items: Table) -> None:
    heard: list[Any] = []
    items.database.store.on_commit.append(lambda database, entries: heard.extend(entries))
    sql("INSERT INTO data.Item (id, n) VALUES (1, 1), (2, 1 + 1)")
    assert [(entry.kind, entry.user, entry.operation, entry.table) for entry in heard] == [(PUT, "anna", 1, "Item")] * 2
