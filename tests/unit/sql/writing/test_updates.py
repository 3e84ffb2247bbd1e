"""svc.sql.writing.updates: UPDATE and DELETE."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.errors import CheckFailed, NotFound, NotUnique, Problem, StillReferenced, ValidationError
from svc.store import Store, Table, create_blob
from svc.store.log.entries import DELETE, PATCH
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode
from tests.support.sql_writes import Sql, records_of

DAY = datetime(2024, 1, 5, 10, 30, tzinfo=UTC)


@pytest.fixture
def three(sql: Sql, items: Table) -> Table:
    sql("INSERT INTO data.Item (id, n, name) VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')")
    return items


def test_each_record_gets_what_is_computed_from_its_old_values(sql: Sql, three: Table) -> None:
    assert sql("UPDATE data.Item SET n = n * 10, ratio = n WHERE n > 10") == {
        "message": "updated 2 of 2 records",
        "update_hashes": [2, 3],
        "skipped_hashes": [],
    }
    assert [(record["n"], record.get("ratio")) for record in records_of(three)] == [(10, None), (200, 20), (300, 30)]
    assert sql("UPDATE data.Item SET n = 1 WHERE id = 99")["message"] == "updated 0 of 0 records"
    assert sql("UPDATE data.Item SET n = 1")["message"] == "updated 3 of 3 records"


def test_columns_change_places(sql: Sql, items: Table) -> None:
    sql("INSERT INTO data.Item (id, n, big) VALUES (1, 5, 7)")
    sql("UPDATE data.Item SET n = big, big = n")
    sql("UPDATE data.Item AS i SET (n, big) = (i.n + 1, i.big + 1)")
    assert records_of(items) == [{"id": 1, "n": 8, "big": 6}]


def test_the_order_and_the_number_of_records_can_be_given(sql: Sql, three: Table) -> None:
    assert sql("UPDATE data.Item SET n = 0 ORDER BY n DESC LIMIT 1 OFFSET 1")["update_hashes"] == [2]
    assert sql("DELETE FROM data.Item ORDER BY id DESC LIMIT 2")["deleted_hashes"] == [3, 2]


def test_values_come_from_other_tables(sql: Sql, three: Table, loose: Table) -> None:
    sql("INSERT INTO data.Loose (id, item, text) VALUES ('x', 1, 'X'), ('y', 1, 'Y'), ('z', 3, 'Z')")
    assert sql("UPDATE data.Item SET name = l.text FROM data.Loose l WHERE l.item = Item.id AND l.id <> 'x'")["update_hashes"] == [1, 3]
    assert [record["name"] for record in records_of(three)] == ["Y", "b", "Z"]
    assert sql("UPDATE data.Item SET name = l.text FROM data.Loose l WHERE l.item = Item.id")["message"] == "updated 2 of 2 records"
    assert records_of(three)[0]["name"] in ("X", "Y")
    sql("UPDATE data.Item SET (name, n) = (SELECT text, item * 7 FROM data.Loose l WHERE l.item = Item.id ORDER BY text DESC)")
    assert [(record["name"], record["n"]) for record in records_of(three)] == [("Y", 7), (None, None), ("Z", 21)]
    sql("WITH most(n) AS (SELECT max(item) FROM data.Loose) UPDATE data.Item SET n = (SELECT n FROM most) WHERE id = 1")
    sql("DELETE FROM data.Item WHERE id IN (SELECT item FROM data.Loose WHERE text = 'Z')")
    assert [record["n"] for record in records_of(three)] == [3, None]


def test_what_it_reads_of_its_own_table_is_what_was_there_before(sql: Sql, three: Table) -> None:
    sql("UPDATE data.Item SET n = (SELECT sum(i.n) FROM data.Item i WHERE i.id <= Item.id)")
    assert [record["n"] for record in records_of(three)] == [10, 30, 60]
    sql("UPDATE data.Item SET n = (SELECT max(n) FROM data.Item) + 1 WHERE n = (SELECT min(n) FROM data.Item)")
    assert [record["n"] for record in records_of(three)] == [61, 30, 60]


def test_windows_number_records(sql: Sql, three: Table) -> None:
    sql("UPDATE data.Item SET big = row_number() OVER (ORDER BY n DESC)")
    assert [record["big"] for record in records_of(three)] == [3, 2, 1]


@pytest.mark.parametrize(
    ("column", "value", "stored"),
    [
        ("flag", "1", True),
        ("flag", "n > 1000", False),
        ("flag", "'true'", True),
        ("flag", "FALSE", False),
        ("day", "'2024-01-05T10:30:00Z'", DAY),
        ("day", "1704450600000", DAY),
        ("tags", """'["x", "y"]'""", ["x", "y"]),
        ("tags", "NULL", None),
        ("data", "x'00ff'", b"\x00\xff"),
        ("data", "'AP8='", b"\x00\xff"),
        ("big", "123456789012345678901234567890", 123456789012345678901234567890),
        ("big", "'123456789012345678901234567890'", 123456789012345678901234567890),
        ("ratio", "n / 4.0", 2.5),
        ("n", "n / 2.5", 4),
        ("place", """'{"city": "X", "days": ["2024-01-05T10:30:00.000Z"]}'""", {"city": "X", "days": [DAY]}),
        ("any", "TRUE", True),
        ("any", "1", 1),
        ("any", "2.0", 2),
        ("any", "'[1]'", "[1]"),
        ("any", "x'01'", b"\x01"),
        ("any", "upper(name)", "A"),
        ("any", "NULL", None),
        ("any", "-9223372036854775809", -9223372036854775809),
    ],
)
def test_values_have_the_type_of_their_attribute(sql: Sql, three: Table, column: str, value: str, stored: Any) -> None:
    sql(f"UPDATE data.Item SET {column} = {value} WHERE id = 1")
    found = records_of(three)[0][column]
    assert (found, type(found)) == (stored, type(stored))


@pytest.mark.parametrize("value", [True, [1, {"a": None}], {"a": [True]}, 2**70, "x", 1.5, None, b"\x01", DAY])
def test_parameters_keep_their_type(sql: Sql, three: Table, value: Any) -> None:
    sql("UPDATE data.Item SET any = ?2 WHERE id = ?1", [1, value])
    sql("UPDATE data.Item SET any = :value WHERE id = :id", {"id": 2, "value": value})
    for record in records_of(three)[:2]:
        assert (record["any"], type(record["any"])) == (value, type(value))


@pytest.mark.parametrize("value", [True, [1, {"a": DAY}], {"a": {1, 2}}, 2**70, "2024", 1.5, b"\x01", DAY, {1, "x"}, -(2**63), 0])
@pytest.mark.parametrize("expression", ["i.any", "coalesce(i.any, 1)", "CASE WHEN i.id > 0 THEN i.any ELSE 5 END"])
def test_what_a_column_has_is_handed_on_as_it_is(sql: Sql, store: Store, items: Table, value: Any, expression: str) -> None:
    transaction = store.begin()
    transaction.put(items, 1, {"any": value})
    transaction.put(items, 2, {})
    transaction.apply()
    sql.end_turn()
    sql(f"UPDATE data.Item SET any = (SELECT {expression} FROM data.Item i WHERE i.id = 1) WHERE id = 2")
    first, second = records_of(items)
    assert (second["any"], type(second["any"])) == (first["any"], type(first["any"])) == (value, type(value))


def test_the_rest_of_an_object_that_changes_stays_what_it_is(sql: Sql, store: Store, items: Table) -> None:
    transaction = store.begin()
    transaction.put(items, 1, {"any": {"day": DAY, "n": 1}})
    transaction.apply()
    sql.end_turn()
    sql("UPDATE data.Item SET any = ?", [{"day": "2024-01-05T10:30:00.000Z", "n": 2}])
    assert records_of(items)[0]["any"] == {"day": DAY, "n": 2}


@pytest.mark.parametrize(
    ("assignment", "text"),
    [
        ("flag = 2", "Value 2 in property flag must be a boolean (1)"),
        ("flag = 'yes'", 'Value "yes" in property flag must be a boolean (1)'),
        ("n = 'x'", 'Value "x" in property n must be an integer from -2147483648 to 2147483647 (1)'),
        ("n = n + 0.5", "Value 10.5 in property n must be an integer from -2147483648 to 2147483647 (1)"),
        ("n = 3000000000", "Value 3000000000 in property n must be an integer from -2147483648 to 2147483647 (1)"),
        ("name = 5", "Value 5 in property name must be a string (1)"),
        ("tags = 'x'", 'Value "x" in property tags must be a list (1)'),
        ("day = 'now'", "must be a date"),
        ("place = '{}'", "Property place.city is required (1)"),
        ("data = '?'", "base64"),
        ("double = 4", "Property double is computed and cannot be given a value (1)"),
    ],
)
def test_values_that_are_refused(sql: Sql, three: Table, assignment: str, text: str) -> None:
    before = records_of(three)
    problem = sql.fault(f"UPDATE data.Item SET {assignment} WHERE id = 1")
    assert isinstance(problem, ValidationError) and text in problem.message
    assert problem.faults[0]["key"] == 1 and problem.faults[0]["attribute"] == assignment.partition(" ")[0]
    assert "index" not in problem.faults[0] and records_of(three) == before


def test_of_many_faults_the_first_are_told(sql: Sql, items: Table) -> None:
    sql("INSERT INTO data.Item (id) VALUES " + ", ".join(f"({number})" for number in range(40)))
    problem = sql.fault("UPDATE data.Item SET n = id || 'x' WHERE id <> 1")
    assert len(problem.faults) == 20 and problem.faults[1]["key"] == 2 and problem.message.count("must be") == 20


def test_the_primary_key_stays(sql: Sql, three: Table) -> None:
    for statement in ("SET id = 5", "SET n = 1, ID = id", "SET (n, id) = (1, 2)"):
        problem = sql.fault(f"UPDATE data.Item {statement}")
        assert (problem.status_code, problem.code) == (400, "BAD_VALUE") and "primary key id" in problem.message


def test_times_are_not_written(sql: Sql, strict: Table, clock: FakeClock) -> None:
    sql("INSERT INTO data.Strict (key, need, made, changed) VALUES ('a', 1, '2000-01-01', 5)")
    (before,) = records_of(strict)
    assert before["made"].year == 2026 and before["changed"] > 5
    clock.advance(60)
    assert sql("UPDATE data.Strict SET made = '2000-01-01', changed = 5, __createdtime__ = 7")["message"] == "updated 1 of 1 records"
    (after,) = records_of(strict)
    assert after == before | {"changed": after["changed"]} and after["changed"] >= before["changed"] + 60_000


@pytest.mark.parametrize(
    ("statement", "code", "text"),
    [
        ("SET nothing = 1", "UNKNOWN_ATTRIBUTE", "unknown column Item.nothing"),
        ("SET n = nothing", "UNKNOWN_ATTRIBUTE", "unknown column nothing"),
        ("SET n = 1 WHERE nothing = 1", "UNKNOWN_ATTRIBUTE", "unknown column nothing"),
        ("SET n = 1, N = 2", "QUERY_SYNTAX", "column n is given twice"),
        ("SET (n, big) = (1, 2, 3)", "QUERY_SYNTAX", "2 columns are set to 3 values"),
        ("SET (n, big) = 1", "QUERY_SYNTAX", "2 columns are set to 1 value"),
        ("SET (n, big) = (SELECT 1)", "QUERY_SYNTAX", "2 columns are set to 1 value"),
        ("SET n = count(*)", "", ""),
        ("SET item = 1 RETURNING nothing", "UNKNOWN_ATTRIBUTE", "Item.item"),
        ("SET n = 1 RETURNING nothing", "UNKNOWN_ATTRIBUTE", "unknown column nothing"),
    ],
)
def test_statements_that_are_refused(sql: Sql, three: Table, statement: str, code: str, text: str) -> None:
    problem = sql.fault(f"UPDATE data.Item {statement}")
    assert problem.status_code == 400 and text in problem.message and (not code or problem.code == code)


@pytest.mark.parametrize("statement", ["UPDATE {} SET n = 1", "DELETE FROM {}", "INSERT INTO {} (id) VALUES (1)"])
def test_tables_that_cannot_be_written(sql: Sql, three: Table, statement: str) -> None:
    problem = sql.fault(statement.format("Item"))
    assert (problem.status_code, problem.message) == (400, "schema not defined for table Item")
    for name in ("data.Nothing", "nothing.Item"):
        assert isinstance(sql.fault(statement.format(name)), NotFound)
    problem = sql.fault(statement.format("system.svc_user"))
    assert (problem.status_code, problem.message) == (
        403,
        "The 'system' database, tables and records are used internally by svc and cannot be updated or removed.",
    )


def test_dynamic_tables_learn(sql: Sql, loose: Table) -> None:
    sql("INSERT INTO data.Loose (id) VALUES ('a'), ('b')")
    assert sql("UPDATE data.Loose SET color = 'red', `deep one` = ? WHERE id = 'a'", [[1, 2]])["message"] == "updated 1 of 1 records"
    assert loose.attributes["color"].indexed and loose.attributes["deep one"].indexed
    first, second = records_of(loose)
    assert (first["color"], first["deep one"]) == ("red", [1, 2]) and "color" not in second
    assert sql("UPDATE data.Loose SET COLOR = upper(color), size = 5 RETURNING id, color, size") == [
        {"id": "a", "color": "RED", "size": 5},
        {"id": "b", "color": None, "size": 5},
    ]
    problem = sql.fault("UPDATE data.Loose SET `a/b` = 1")
    assert problem.status_code == 400 and "a/b" not in loose.attributes


def test_constraints_hold(sql: Sql, strict: Table) -> None:
    sql("INSERT INTO data.Strict (key, mail, nick, need) VALUES ('a', 'a@x', '[\"A\"]', 1), ('b', 'b@x', '[\"B\", \"C\"]', 2)")
    faults: list[tuple[str, type[Problem], int]] = [
        ("mail = 'a@x' WHERE key = 'b'", NotUnique, 409),
        ("mail = 'same'", NotUnique, 409),
        ("nick = '[\"A\"]' WHERE key = 'b'", NotUnique, 409),
        ("small = 10 WHERE key = 'b'", CheckFailed, 400),
        ("need = NULL", ValidationError, 400),
        ("must = NULL", ValidationError, 400),
        ("color = 'GREEN'", ValidationError, 400),
    ]
    for text, kind, status in faults:
        problem = sql.fault(f"UPDATE data.Strict SET {text}")
        assert type(problem) is kind and problem.status_code == status, text
        assert any(fault.get("key") in ("a", "b") for fault in problem.faults), text
    assert (
        sql("UPDATE data.Strict SET mail = CASE key WHEN 'a' THEN 'b@x' ELSE 'a@x' END, small = 9, color = 'RED'")["message"]
        == "updated 2 of 2 records"
    )
    assert [record["mail"] for record in records_of(strict)] == ["b@x", "a@x"]


def test_what_is_deleted(sql: Sql, three: Table) -> None:
    assert sql("DELETE FROM data.Item WHERE id = 2") == {
        "message": "1 of 1 record successfully deleted",
        "deleted_hashes": [2],
        "skipped_hashes": [],
    }
    assert sql("DELETE FROM data.Item WHERE id = 2")["message"] == "0 of 0 records successfully deleted"
    assert sql("DELETE FROM data.Item")["message"] == "2 of 2 records successfully deleted"
    assert records_of(three) == []


def test_what_becomes_of_records_that_refer_to_a_deleted_one(sql: Sql, three: Table, children: Callable[[str], Table]) -> None:
    cascade, set_null, restrict = children("cascade"), children("setNull"), children("restrict")
    for table in (cascade, set_null):
        sql(f"INSERT INTO data.{table.name} (id, itemId) VALUES (1, 1), (2, 2)")
    sql(f"INSERT INTO data.{restrict.name} (id, itemId) VALUES (1, 3)")
    assert sql("DELETE FROM data.Item WHERE id = 1")["deleted_hashes"] == [1]
    assert [record["id"] for record in records_of(cascade)] == [2]
    assert [record["itemId"] for record in records_of(set_null)] == [None, 2]
    problem = sql.fault("DELETE FROM data.Item")
    assert isinstance(problem, StillReferenced) and problem.key == 3
    assert len(records_of(three)) == 2


def test_keys_of_several_segments(sql: Sql, store: Store) -> None:
    attributes = (Attribute("id", primary_key=True), Attribute("n", "Int"))
    table = store.open_database("data").define_table(TableDefinition("Path", attributes=attributes, split_segments=True))
    answer = sql("INSERT INTO data.Path (id, n) VALUES ('a/b', 1), (?, 2), ('c', 3)", [["a", 5]])
    assert answer["inserted_hashes"] == [["a", "b"], ["a", 5], "c"]
    keys = sql("UPDATE data.Path SET n = n + 1")["update_hashes"]
    assert all(key in keys for key in (["a", 5], ["a", "b"], "c")) and len(keys) == 3
    assert sorted(record["n"] for record in records_of(table)) == [2, 3, 4]
    assert len(sql("UPDATE data.Path SET n = n + 1 RETURNING id, n")) == 3
    assert len(sql("DELETE FROM data.Path")["deleted_hashes"]) == 3 and records_of(table) == []


def test_the_log_has_what_was_written(sql: Sql, three: Table) -> None:
    heard: list[Any] = []
    three.database.store.on_commit.append(lambda database, entries: heard.extend(entries))
    sql("UPDATE data.Item SET n = n + 1 WHERE id < 3")
    sql("DELETE FROM data.Item WHERE id = 3")
    assert [(entry.kind, entry.user, entry.operation) for entry in heard] == [(PATCH, "anna", 2), (PATCH, "anna", 2), (DELETE, "anna", 0)]
    assert decode(heard[0].value) == {"n": 11} and heard[0].changed == ("n",)


def test_expired_records_are_not_there(sql: Sql, store: Store, items: Table, clock: FakeClock) -> None:
    transaction = store.begin()
    transaction.put(items, 1, {"n": 1}, expires_at=clock.wall() * 1000 + 5000)
    transaction.apply()
    sql.end_turn()
    clock.advance(10)
    assert sql("UPDATE data.Item SET n = 2")["message"] == "updated 0 of 0 records"
    assert sql("INSERT INTO data.Item (id, n) VALUES (1, 3)")["message"] == "inserted 1 of 1 records"


def test_blobs_stay_with_their_record_and_are_copied_to_others(sql: Sql, store: Store) -> None:
    attributes = (Attribute("id", "Int", primary_key=True), Attribute("a", "Blob"), Attribute("b", "Blob"), Attribute("c"))
    table = store.open_database("data").define_table(TableDefinition("Paper", attributes=attributes))
    transaction = store.begin()
    large = b"x" * 20_000
    transaction.put(table, 1, {"a": create_blob(large), "c": [{"inside": create_blob(large)}]})
    transaction.put(table, 2, {"a": create_blob(b"small")})
    transaction.apply()
    sql.end_turn()
    sql("UPDATE data.Paper SET b = a, a = NULL, c = c")
    first, second = records_of(table)
    assert first["b"].read() == large and first["c"][0]["inside"].read() == large and second["b"].read() == b"small"
    assert len(dict(table.database.ledger.files(table.database.snapshot()))) == 2
