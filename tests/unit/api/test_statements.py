"""`sql` of applications (spec: applications §7, sql §1). What statements mean is tested in tests/unit/sql."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from svc.api.context import Context
from svc.api.statements import Statements
from svc.errors import ClientError, QueryTooLarge, ServerError
from tests.support.application import Application, application, user_named
from tests.support.statements import FakeEngine, FakeRows, statements_of

CODE = """
import svc
from svc import get_context, sql as imported, transaction

same = sql is imported is svc.sql

def returned(text):
    return sql(text)

async def awaited(text, *parameters):
    return await sql(text, *parameters)

async def iterated(text, most=None):
    found = []
    async for row in sql(text):
        found.append(row)
        if len(found) == most:
            break
    return found

async def in_transaction(text):
    async with transaction() as txn:
        return await sql(text), txn

class Ask(Resource):
    def allow_read(self, *_): return True
    def get(self, target=None):
        get_context().authorize = target.get("checked") == "yes"
        return sql("S")
"""
ROWS = [[{"a": datetime(2024, 1, 5, tzinfo=UTC)}], [], [{"a": {1, 2}}, {"a": b"\xff"}]]
ALL = [row for part in ROWS for row in part]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    with application(tmp_path_factory.mktemp("app"), CODE) as made:
        yield made


@pytest.fixture
def engine(app: Application) -> FakeEngine:
    engine = FakeEngine({"S": lambda parameters, caller: FakeRows(["a"], *ROWS)})
    app.node.interface.statements = statements_of(engine, most_rows=3)
    return engine


def test_it_is_there_without_an_import_and_with_one(app: Application) -> None:
    assert app.module.same
    assert repr(app.module.sql) == "<function sql>"


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_query_awaited_is_a_list(app: Application, engine: FakeEngine, is_slow: bool) -> None:
    engine.is_slow = is_slow
    assert app.run(app.module.awaited("S", [1])) == ALL
    assert app.run(app.module.awaited("S", {"n": 1})) == ALL
    assert [parameters for _, parameters, _ in engine.calls] == [[1], {"n": 1}]
    assert all(rows.is_closed for rows in engine.rows)


def test_a_list_has_a_bound_and_an_iteration_none(app: Application, engine: FakeEngine) -> None:
    rows = [[{"a": n} for n in range(start, start + 10)] for start in range(0, 100, 10)]
    engine.answers["S"] = lambda parameters, caller: FakeRows(["a"], *rows)
    with pytest.raises(QueryTooLarge, match="async for"):
        app.run(app.module.awaited("S"))
    assert app.run(app.module.iterated("S")) == [{"a": n} for n in range(100)]
    assert app.run(app.module.iterated("S", 15)) == [{"a": n} for n in range(15)]
    assert [found.asked for found in engine.rows] == [0, 9, 1]
    app.node.settle()
    assert all(found.is_closed for found in engine.rows)


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_write_is_what_it_has_done(app: Application, engine: FakeEngine, is_slow: bool) -> None:
    engine.is_slow = is_slow
    engine.answers["UPDATE"] = body = {"message": "updated 0 of 0 records", "update_hashes": [], "skipped_hashes": []}
    assert app.run(app.module.awaited("UPDATE")) == body
    with pytest.raises(TypeError, match="finds no rows"):
        app.run(app.module.iterated("UPDATE"))


def test_a_call_is_made_when_it_is_awaited(app: Application, engine: FakeEngine) -> None:
    call = app.module.returned("S")
    assert engine.calls == []
    assert app.run(call) == ALL
    with pytest.raises(RuntimeError, match="awaited once"):
        app.run(call)
    with pytest.raises(TypeError, match="the text of a statement, not int"):
        app.module.returned(5)


def test_faults_are_raised(app: Application, engine: FakeEngine) -> None:
    engine.answers["S"] = FakeRows(["a"], [{"a": 1}], ClientError("late"))
    with pytest.raises(ClientError, match="late"):
        app.run(app.module.iterated("S"))
    assert engine.rows[0].is_closed
    engine.answers["S"] = ClientError("no")
    with pytest.raises(ClientError, match="no"):
        app.run(app.module.awaited("S"))


def test_it_has_all_rights_unless_the_context_says_otherwise(app: Application, engine: FakeEngine) -> None:
    app.run(app.module.awaited("S"))
    user = user_named("ann")
    context = Context(user)
    app.run(app.module.awaited("S", None, context))
    context.authorize = True
    app.run(app.module.awaited("S", None, context))
    app.run(app.module.awaited("S", None, {"user": user}))
    assert [(caller.user, caller.authorized) for _, _, caller in engine.calls] == [
        (None, False),
        (user, False),
        (user, True),
        (user, False),
    ]


def test_a_handler_returns_it(app: Application, engine: FakeEngine) -> None:
    engine.answers["S"] = lambda parameters, caller: FakeRows(["a"], [{"a": 1}], [{"a": 2}])
    assert app.ask("GET", "/Ask/") == (200, [{"a": 1}, {"a": 2}])
    assert app.ask("GET", "/Ask/?checked=yes")[0] == 200
    assert [(caller.user.super_user, caller.authorized) for _, _, caller in engine.calls] == [(True, False), (True, True)]


def test_it_takes_part_in_the_open_transaction(app: Application, engine: FakeEngine) -> None:
    found, txn = app.run(app.module.in_transaction("S"))
    assert found == ALL and engine.calls[0][2].joined is txn
    app.run(app.module.awaited("S"))
    assert engine.calls[1][2].joined is None


def test_what_is_written_without_a_transaction_is_on_disk(app: Application, engine: FakeEngine) -> None:
    store = app.node.store

    def put(parameters: Any, caller: Any) -> Any:
        from svc.store.writing.commit import commit

        transaction = store.begin("ann")
        transaction.put(store.databases["data"].tables["Plain"], "x", {"id": "x", "stock": 1})
        commit(transaction, caller.context, 0)
        return {"message": "inserted 1 of 1 records"}

    engine.answers["INSERT"] = put
    assert app.run(app.module.awaited("INSERT")) == {"message": "inserted 1 of 1 records"}
    assert not store.has_pending
    assert app.ask("GET", "/Plain/x")[1]["stock"] == 1


def test_not_on_helper_threads(app: Application, engine: FakeEngine) -> None:
    from svc import run_in_thread

    def work() -> None:
        app.module.returned("S").run()

    with pytest.raises(RuntimeError, match="thread"):
        app.run(run_in_thread(work))
    assert engine.calls == []


def test_the_engine_is_loaded_once_for_the_first_statement(app: Application) -> None:
    engine = FakeEngine({"S": lambda parameters, caller: [{"a": parameters}], "F": ClientError("no")})
    steps: list[str] = []

    async def load() -> None:
        steps.append("load")
        await asyncio.sleep(0)

    def make() -> Any:
        steps.append("make")
        return engine

    statements = Statements(make, 10, app.node.clock, load)
    app.node.interface.statements = statements
    statements.close()

    async def both() -> Any:
        return await asyncio.gather(app.module.awaited("S", [1]), app.module.awaited("S", [2]))

    assert app.run(both()) == [[{"a": [1]}], [{"a": [2]}]]
    assert steps == ["load", "load", "make"]
    with pytest.raises(ClientError):
        app.run(app.module.awaited("F"))
    assert steps == ["load", "load", "make"]
    statements.close()
    assert engine.is_closed


def test_without_an_engine(app: Application) -> None:
    app.node.interface.statements = None
    with pytest.raises(ServerError, match="SQL is not available"):
        app.run(app.module.awaited("S"))


def test_a_module_of_that_name_comes_first(tmp_path: Path) -> None:
    files = {"lib/__init__.py": "", "lib/sql.py": "answer = 42\n", "sql.py": "answer = 7\n", "other/__init__.py": "own = sql\n"}
    code = "from lib import sql as inner\nimport lib, sql, other\nfound = inner.answer, lib.sql.answer, sql.answer, repr(other.own)\n"
    with application(tmp_path, code, files=files) as app:
        assert app.module.found == (42, 42, 7, "<function sql>")
