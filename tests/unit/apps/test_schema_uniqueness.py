"""svc.apps.schema_uniqueness: an application starts before it is known that values of a large table are unique."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from svc.apps import schema_uniqueness
from svc.store import Store, Table
from svc.store.disk.writer_gate import WriterGate
from svc.store.schema import Attribute, TableDefinition
from svc.store.writing import unique_proof
from tests.support.application import Application, application

SCHEMA = "type Thing @table @export { id: ID @primaryKey  mail: String @indexed }"
UNIQUE = SCHEMA.replace("@indexed", "@unique")


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """A hundred records, and proofs that wait until this is set."""
    monkeypatch.setattr(unique_proof, "SMALL", 10)
    monkeypatch.setattr(schema_uniqueness, "PATIENCE", 0.001)
    with application(tmp_path, "", SCHEMA) as app:
        assert app.ask("POST", "/Thing/", [{"id": str(number), "mail": f"m{number}"} for number in range(100)])[0] == 201
    define, held = schema_uniqueness.define, asyncio.Event()

    async def wait(*of: Any) -> Any:
        await held.wait()
        return await define(*of)

    monkeypatch.setattr(schema_uniqueness, "define", wait)
    return held


@contextmanager
def started(path: Path, schema: str = UNIQUE) -> Iterator[tuple[Application, Table]]:
    with application(path, "", schema, healthy=False) as app:
        yield app, app.node.store.databases["data"].tables["Thing"]


def finish(app: Application, held: asyncio.Event) -> None:
    held.set()
    task = app.node.app.loaded("graphqlSchema").uniqueness._work  # type: ignore[union-attr]
    app.run(asyncio.wait({task}))
    app.node.settle()


def status(app: Application) -> tuple[str, list[str]]:
    entry = app.node.app.entries["graphqlSchema"]
    return entry.status, entry.messages


def test_requests_are_served_while_values_are_compared(tmp_path: Path, held: asyncio.Event) -> None:
    with started(tmp_path) as (app, table):
        assert table.unproved == ("mail",) and status(app) == ("loading", [])
        assert app.ask("GET", "/Thing/?mail=m7")[1] == [{"id": "7", "mail": "m7"}]
        assert app.ask("PUT", "/Thing/other", {"mail": "new"})[0] == 204
        finish(app, held)
        assert table.unproved == () and status(app) == ("healthy", [])
        assert app.ask("PUT", "/Thing/twin", {"mail": "new"})[0] == 409


def test_a_record_that_breaks_it_meanwhile_is_found(tmp_path: Path, held: asyncio.Event) -> None:
    with started(tmp_path) as (app, table):
        assert app.ask("PUT", "/Thing/twin", {"mail": "m7"})[0] == 204
        finish(app, held)
        fault = 'table data.Thing: Thing.mail cannot be @unique: 1 value is that of several records: "m7" ("7", "twin")'
        assert status(app) == ("error", [fault])
        assert table.unproved == () and not table.indexes["mail"].unique
        assert app.ask("GET", "/Thing/7") == (200, {"id": "7", "mail": "m7"}), "the table is served without"


def test_a_stop_in_between_leaves_it_to_the_next_start(tmp_path: Path, held: asyncio.Event) -> None:
    with started(tmp_path) as (app, table):
        assert table.unproved == ("mail",)
        app.node.applications.close()
        app.node.settle()
    held.set()
    with started(tmp_path) as (app, table):
        finish(app, held)
        assert table.indexes["mail"].unique


def test_another_version_decides(tmp_path: Path, held: asyncio.Event) -> None:
    with started(tmp_path) as (app, table):
        (app.node.app.directory / "schema.graphql").write_text(SCHEMA)
        app.node.run(app.node.applications.change("app", ["schema.graphql"], reloads_code=True))
        assert table.unproved == ()
        held.set()
        app.node.settle()
        assert not table.indexes["mail"].unique and app.ask("PUT", "/Thing/twin", {"mail": "m7"})[0] == 204


def test_a_definition_waits_for_another_process_without_stopping_the_loop(tmp_path: Path) -> None:
    """It may be one that hangs, until its parent ends it: an application that is not loaded then would stay away."""
    store = Store(tmp_path)
    database = store.open_database("data")
    known = TableDefinition("Thing", attributes=(Attribute("id", "ID", primary_key=True),))
    database.define_table(known)
    changed = TableDefinition("Thing", attributes=(*known.attributes, Attribute("mail", "String", indexed=True)))
    other = WriterGate(database.env.path)

    async def run() -> None:
        assert other.try_acquire_exclusive()
        change, _, _ = await schema_uniqueness.define(database, known)
        assert not change.changes, "what changes nothing needs no writer"
        defining = asyncio.ensure_future(schema_uniqueness.define(database, changed))
        await asyncio.sleep(0)
        assert other.is_awaited() and not defining.done()
        other.release_exclusive()
        assert (await defining)[2].definition == changed

    asyncio.run(run())
    other.close()
    store.close()
