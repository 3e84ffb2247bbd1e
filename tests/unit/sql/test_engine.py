"""Statements from their text to their rows."""

from __future__ import annotations

import asyncio
import gc
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from svc.errors import NotFound, QueryError, QueryTooLarge
from svc.sql.connections import MOST_IDLE
from svc.sql.engine import MOST_PREPARED, SqlRows
from svc.sql.errors import MissingRights
from svc.sql.options import SqlOptions
from svc.store.schema import Attribute, TableDefinition
from tests.support.sql_engine import SqlStore, reads

ITEM = TableDefinition(
    "Item",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("name", "String", indexed=True),
        Attribute("rank", "Long", indexed=True),
        Attribute("active", "Boolean"),
        Attribute("made", "Date"),
        Attribute("tags", "String", elements=True),
        Attribute("data", "Bytes"),
        Attribute("big", "BigInt"),
        Attribute("other", "Any"),
        Attribute("secret", "String"),
    ),
)
MADE = datetime(2024, 1, 5, 20, 7, 27, 955000, tzinfo=UTC)
FIRST = {
    "id": "a", "name": "one", "rank": 1, "active": True, "made": MADE, "tags": ["x", "y"], "data": b"\0\xff", "big": 2**70,
    "other": {"k": [1, True]}, "secret": "s",
}  # fmt: skip
SHORT = SqlOptions(max_time=0.2, max_memory=16 << 20, max_length=5000)


@pytest.fixture
def tables(tmp_path):
    made = SqlStore(tmp_path, [ITEM])
    made.put("Item", [FIRST, {"id": "b", "name": "two", "rank": 2, "active": False, "other": True}, {"id": "c"}])
    yield made
    made.close()


@pytest.fixture
def many(tmp_path):
    """5,000 records, and little time."""
    made = SqlStore(tmp_path, [ITEM], SHORT)
    made.put("Item", [{"id": f"k{n:04}", "name": f"n{n % 10}", "rank": n} for n in range(5000)])
    yield made
    made.close()


def test_values_come_back_as_they_are_stored(tables):
    assert tables.ask("SELECT * FROM data.Item WHERE id = 'a'") == [list(FIRST.values())]
    assert tables.ask("SELECT other, active, name FROM data.Item WHERE id <> 'a'") == [[True, False, "two"], [None, None, None]]
    assert tables.ask("SELECT COALESCE(other, 'none') FROM data.Item") == [[{"k": [1, True]}], [True], ["none"]]


def test_statements_without_a_table(tables):
    assert tables.ask("select 2 + 2, 'a' || 'b', null, true") == [[4, "ab", None, True]]


def test_date_with_modifiers_is_that_of_sqlite(tables):
    plain, *others = tables.ask(
        "SELECT DATE(made), date(made, '+1 day'), DATE(made, 'start of month', '-1 day') FROM data.Item WHERE id = 'a'"
    )[0]
    assert (plain, others) == ("2024-01-05T20:07:27.955+0000", ["2024-01-06", "2023-12-31"])


@pytest.mark.parametrize(
    ("text", "given", "rows"),
    [
        ("SELECT id FROM data.Item WHERE rank = ?", [2], [["b"]]),
        ("SELECT id FROM data.Item WHERE rank = ?2 AND name = ?1", ["one", 1], [["a"]]),
        ("SELECT id FROM data.Item WHERE rank = :n OR rank = :n + 1", {"n": 1}, [["a"], ["b"]]),
        ("SELECT ?, ?, ?, ?", [None, True, 2**70, ["x", {"y": 1}]], [[None, True, 2**70, ["x", {"y": 1}]]]),
        ("SELECT ?, ?", [b"\0", MADE], [[b"\0", MADE]]),
        ("SELECT id FROM data.Item WHERE made = ? AND big = ?", [MADE, 2**70], [["a"]]),
        ("SELECT value FROM json_each(?)", [["x", "y"]], [["x"], ["y"]]),
        ("SELECT id FROM data.Item WHERE rank = 1", {}, [["a"]]),
        ("SELECT :p, @p, $p", {"p": 1}, [[1, 1, 1]]),
        ("SELECT ?, ?1", [1], [[1, 1]]),
    ],
)
def test_parameters(tables, text, given, rows):
    assert tables.ask(text, given) == rows


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        ("SELECT ?", [], "The statement has 1 parameter, and 'parameters' 0 values"),
        ("SELECT ?", None, "The statement has 1 parameter, and 'parameters' 0 values"),
        ("SELECT ?, ?", [1, 2, 3], "The statement has 2 parameters, and 'parameters' 3 values"),
        ("SELECT 1", [1], "The statement has 0 parameters, and 'parameters' 1 value"),
        ("SELECT :a, :b", {"a": 1}, "'parameters' lacks b"),
        ("SELECT :a", {"a": 1, "c": 2}, "'parameters' has c, which the statement does not; it has a"),
        ("SELECT :a", [1], "The statement has parameters by name, so 'parameters' must be an object with a"),
        ("SELECT ?", {"a": 1}, "'parameters' must be a list of values for ?, or an object for :name; the statement has 1 by position"),
        ("SELECT ?", "x", "'parameters' must be a list of values for ?, or an object for :name; the statement has 1 by position"),
        ("SELECT ?, :a", [1], "A statement has parameters by position (?) or by name (:name), not both"),
        ("SELECT ?", ["\ud800"], "Parameter 1 is no Unicode text"),
        ("SELECT :x", {"x": float("nan")}, "Parameter x is no finite number"),
        ("SELECT ?", [object()], "Parameter 1 has a type that no record can have: object"),
    ],
)
def test_wrong_parameters(tables, text, given, message):
    with pytest.raises(QueryError) as caught:
        tables.ask(text, given)
    assert (caught.value.message, caught.value.code, caught.value.status_code) == (message, "BAD_VALUE", 400)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT JSON('{')", "A text that JSON functions take is no JSON (json_valid(x) tells)"),
        (
            "SELECT SUM(x) FROM (SELECT 9223372036854775807 AS x UNION ALL SELECT 1)",
            "A sum of integers goes beyond 64 bits: use TOTAL(x), or CAST(x AS REAL)",
        ),
        ("SELECT id FROM data.Item LIMIT 'x'", "LIMIT and OFFSET take integers"),
        ("SELECT MEDIAN(name) FROM data.Item", "MEDIAN and PERCENTILE take numbers"),
        ("SELECT x'ff' || ''", "A text is no Unicode: bytes that are not UTF-8, or half a surrogate pair (HEX(x) shows them)"),
        (
            "SELECT UPPER(x'ff' || '')",
            "A text is no Unicode: bytes that are not UTF-8, or half a surrogate pair (HEX(x) shows them)",
        ),
    ],
)
def test_faults_of_values(tables, text, message):
    with pytest.raises(QueryError) as caught:
        tables.ask(text)
    assert (caught.value.message, caught.value.code) == (message, "BAD_VALUE")


def test_a_statement_that_was_seen_is_not_read_again(tables, monkeypatch):
    text = "SELECT COUNT(*) FROM data.Item"
    assert tables.ask(text) == [[3]]
    with monkeypatch.context() as patch:
        patch.setattr("svc.sql.engine.parse", None)
        assert tables.ask(text) == [[3]]
    for number in range(MOST_PREPARED):
        tables.ask(f"SELECT {number}")
    with monkeypatch.context() as patch, pytest.raises(TypeError):
        patch.setattr("svc.sql.engine.parse", None)
        tables.ask(text)


def test_a_changed_definition_is_seen(tables):
    text = "SELECT * FROM data.Item WHERE id = 'c'"
    assert len(tables.ask(text)[0]) == 10
    changed = TableDefinition("Item", attributes=(*ITEM.attributes, Attribute("more", "Int")))
    tables.store.databases["data"].define_table(changed)
    tables.end_turn()
    assert len(tables.ask(text)[0]) == 11
    tables.store.databases["data"].drop_table("Item")
    tables.end_turn()
    with pytest.raises(NotFound, match=r"Table 'data.Item' does not exist"):
        tables.ask(text)


# --- rights -------------------------------------------------------------------------------------------------------------------------------


def test_what_may_not_be_read_is_not_there(tables):
    user = tables.user({"Item": reads("id", "name")})
    assert tables.ask("SELECT * FROM data.Item", user=user) == [["a", "one"], ["b", "two"], ["c", None]]
    with pytest.raises(QueryError, match="unknown column secret"):  # without any right on it
        tables.ask("SELECT id FROM data.Item WHERE secret = 's'", user=user)
    with pytest.raises(MissingRights) as caught:
        tables.ask("SELECT 1 FROM data.Nothing", user=user)
    assert caught.value.is_hidden
    with pytest.raises(MissingRights):
        tables.ask("SELECT * FROM data.Item", user=tables.user({}))


def test_callers_who_see_different_things_share_nothing(tables):
    text = "SELECT * FROM data.Item WHERE id = 'a'"
    few, more = tables.user({"Item": reads("id")}), tables.user({"Item": reads("id", "name")})
    for _ in range(2):
        assert tables.ask(text, user=few) == [["a"]]
        assert tables.ask(text, user=more) == [["a", "one"]]
        assert len(tables.ask(text)[0]) == 10
    assert len({connection.key for connection in tables.engine._pool._idle}) == 3


def test_connections_are_bounded(tables):
    for _ in range(MOST_IDLE + 5):
        tables.ask("SELECT id FROM data.Item", user=tables.user({"Item": reads("id")}))
    assert len(tables.engine._pool) == MOST_IDLE


# --- what takes long ----------------------------------------------------------------------------------------------------------------------

ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT COUNT(*) FROM r"


def open_things(tables):
    gc.collect()
    return tables.store.databases["data"].env.open_snapshots(), len(tables.store.snapshots), tables.store.snapshots.readers


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        (ENDLESS, "sql.maxTime"),
        ("SELECT COUNT(*) FROM data.Item AS a, data.Item AS b, data.Item AS c", "sql.maxTime"),
        ("SELECT a.id || b.id FROM data.Item AS a, data.Item AS b ORDER BY 1", "sql.max"),
        ("WITH RECURSIVE r(n, s) AS (SELECT 1, 'a' UNION ALL SELECT n + 1, s || s FROM r) SELECT MAX(LENGTH(s)) FROM r", "sql.maxMemory"),
        ("SELECT LENGTH(REPLACE(GROUP_CONCAT(id), 'k', GROUP_CONCAT(id))) FROM data.Item", "sql.maxMemory"),
    ],
)
def test_what_takes_too_much_ends(many, text, setting):
    with pytest.raises(QueryTooLarge, match=setting):
        many.ask(text)
    assert open_things(many) == (0, 0, 0)
    assert many.ask("SELECT COUNT(*) FROM data.Item") == [[5000]]


def test_a_long_statement_has_all_rows(many):
    many.engine.options = replace(SHORT, max_time=600.0)  # on a busy machine it takes what it takes
    rows = many.ask("SELECT a.id, b.rank FROM data.Item AS a, data.Item AS b WHERE b.rank < 3 ORDER BY a.rank DESC, b.rank")
    assert len(rows) == 15000
    assert rows[:4] == [["k4999", 0], ["k4999", 1], ["k4999", 2], ["k4998", 0]]
    assert open_things(many) == (0, 0, 0)


def test_rows_come_as_of_the_begin(many):
    async def run() -> list[Any]:
        found = await many.engine.run("SELECT id FROM data.Item", None, many.caller())
        assert not found.done
        many.put("Item", [{"id": "z"}])
        rows = list(found.found)
        while not found.done:
            rows += await found.more()
        return rows

    assert len(asyncio.run(run())) == 5000
    assert many.ask("SELECT COUNT(*) FROM data.Item") == [[5001]]


def test_other_work_goes_on(many):
    async def run() -> int:
        turns = 0
        task = asyncio.ensure_future(many.answer(ENDLESS, None, many.caller()))
        while not task.done():
            await asyncio.sleep(0.001)
            turns += 1
        assert isinstance(task.exception(), QueryTooLarge)
        return turns

    assert asyncio.run(run()) > 5


@pytest.mark.parametrize("way", ["cancelled", "closed", "dropped"])
def test_a_caller_that_leaves_ends_it(many, way):
    async def run() -> None:
        if way == "cancelled":
            task = asyncio.ensure_future(many.answer(ENDLESS, None, many.caller()))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            found: SqlRows | None = await many.engine.run("SELECT id FROM data.Item", None, many.caller())
            assert found is not None and not found.done
            if way == "closed":
                found.close()
                found.close()
            found = None
            gc.collect()
        end = time.monotonic() + 30
        while open_things(many) != (0, 0, 0) and time.monotonic() < end:
            await asyncio.sleep(0.005)
            many.end_turn()  # which lets go of the snapshot of the turn

    asyncio.run(run())
    assert open_things(many) == (0, 0, 0)


def test_a_statement_that_is_too_long(many):
    with pytest.raises(QueryTooLarge, match=r"5012 characters, more than 5000 \(sql.maxLength\)"):
        many.ask("SELECT " + "1" * 5005)
    assert len(many.ask("SELECT " + ", ".join(["1"] * 1500))[0]) == 1500


def test_a_long_statement_is_read_on_a_thread(many):
    names = ", ".join(["i.id"] * 500)
    assert len(many.ask(f"SELECT {names} FROM data.Item AS i WHERE i.rank = 7" + " " * 1500)[0]) == 500
    for text, fault, message in (
        (f"SELECT {names} FROM data.Nothing AS i" + " " * 1500, NotFound, "Table 'data.Nothing' does not exist"),
        (f"SELECT {names}, nothing FROM data.Item AS i" + " " * 1500, QueryError, "unknown column nothing"),
    ):
        with pytest.raises(fault, match=message):
            many.ask(text)
    assert open_things(many) == (0, 0, 0)


# --- plans --------------------------------------------------------------------------------------------------------------------------------


def test_plans(tables):
    answer = tables.ask("SELECT name FROM data.Item WHERE rank = 2", explain=True)
    assert tables.ask("EXPLAIN SELECT name FROM data.Item WHERE rank = 2") == answer
    assert answer["plan"].count("\n") == 0 and "index rank: equal" in answer["plan"]
    assert [list(step) for step in answer["steps"]] == [["step"]]
    with pytest.raises(QueryError, match="unknown column secret"):
        tables.ask("EXPLAIN SELECT secret FROM data.Item", user=tables.user({"Item": reads("id")}))


def test_a_plan_is_that_of_now(tables):
    asked = "SELECT * FROM data.Item"
    count = len(tables.ask("SELECT id FROM data.Item"))
    assert f"about {count} rows" in tables.ask(asked, explain=True)["plan"]
    tables.ask("DELETE FROM data.Item LIMIT 1")
    assert f"about {count - 1} rows" in tables.ask(asked, explain=True)["plan"]
