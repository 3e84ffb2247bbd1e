"""svc.apps.schema_leftovers: what a changed schema leaves behind is counted and said, while requests are served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.apps import schema_leftovers
from svc.store import Table
from svc.store.definitions import leftovers_key
from svc.store.env import Txn
from svc.store.leftovers import LeftoverNote, read_note
from svc.store.schema import Attribute, TableDefinition
from svc.store.schema_changes import LeftoverCount, SavedCount, noted_doubts
from svc.store.values.keys import encode_key
from tests.support.application import Application, application

SCHEMA = "type Thing @table @export { id: ID @primaryKey  a: Float @indexed  note: String }"
CHANGED = "type Thing @table @export { id: ID @primaryKey  b: Int @indexed @renamedFrom(name: a) }"
LEFT = [
    "Thing.b: 2 of 300 records do not fit Int; they stay as they are until they are written (the keys are '100', '200')",
    "Thing.note: 1 of 300 records have values, which are kept as undeclared properties (the key is '101')"
    '; if it has another name now, declare that with @renamedFrom(name: "note")',
]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Application]:
    with application(tmp_path, "", SCHEMA) as made:
        records: list[dict[str, Any]] = [{"id": str(number), "a": number} for number in range(300)]
        records[100]["a"] = records[200]["a"] = 0.5
        records[101]["note"] = "x"
        assert made.ask("POST", "/Thing/", records)[0] == 201
        yield made


def reload(app: Application, schema: str) -> list[str]:
    (app.node.app.directory / "schema.graphql").write_text(schema)
    app.node.run(app.node.applications.change("app", ["schema.graphql"], reloads_code=True))
    return app.node.app.entries["graphqlSchema"].messages


def test_a_load_that_leaves_values_behind_says_so(app: Application) -> None:
    assert reload(app, CHANGED) == LEFT and app.node.app.status == "warning"
    assert app.ask("GET", "/Thing/7") == (200, {"id": "7", "b": 7})
    assert reload(app, CHANGED + " ") == LEFT, "nothing has changed since"
    for key, number in (("100", 1), ("200", 2)):
        assert app.ask("PATCH", f"/Thing/{key}", {"b": number})[0] == 204
    assert reload(app, CHANGED) == LEFT[1:]
    note = read_note(*thing(app))
    assert note is not None and note.doubts == (("removed", "note"),)
    assert app.ask("PUT", "/Thing/101", {"b": 1})[0] == 204
    assert reload(app, CHANGED + " ") == [] and read_note(*thing(app)) is None


def thing(app: Application) -> tuple[Table, Txn]:
    app.node.store.commit_turn()
    database = app.node.store.databases["data"]
    return database.tables["Thing"], database.snapshot()


def test_a_count_goes_on_where_it_was(app: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the next process: what is in memory of the first count is gone."""
    reload(app, CHANGED)
    table, snapshot = thing(app)
    note = read_note(table, snapshot)
    assert note is not None and note.count is not None and note.count.counts == (2, 1) and not note.count.behind
    begun = SavedCount(encode_key("298"), 7, (20, 0), (tuple([encode_key(f"x{number}") for number in range(20)]), ()))
    counted = {app.node.clock.wall() * 1000: "20 of 85 records", 0.0: "2 of 300 records"}
    for counted_ms, expected in counted.items():
        writer = table.database.writer()
        writer.put(
            leftovers_key(table.number),
            LeftoverNote(note.doubts, counted_ms, begun).to_bytes(),
            True,
            True,
            False,
            table.database.definitions,
        )
        table.database.env.touch()
        app.node.store.commit_turn()
        assert expected in reload(app, CHANGED)[0]


def wait_for(app: Application, messages: list[str], count: int) -> None:
    for _ in range(1000):
        if len(messages) >= count:
            return
        app.node.run(_turn())
    raise AssertionError(messages)


def test_large_tables_are_counted_behind_the_load(app: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    monkeypatch.setattr(schema_leftovers, "PATIENCE", 0.0)
    monkeypatch.setattr(app.node.applications.runtime, "report", lambda name, level, text: reported.append(f"{level}: {text}"))
    messages = reload(app, CHANGED)
    wait_for(app, messages, len(LEFT))
    assert messages == LEFT and app.node.app.status == "warning"
    assert [each for each in reported if each.startswith("warn")] == [f"warn: graphqlSchema: {text}" for text in LEFT]
    assert "info: graphqlSchema: data.Thing: b: the values of a get this name" in reported


def test_a_table_that_changes_again_is_counted_by_its_last_definition(app: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_leftovers, "PATIENCE", 0.0)
    reload(app, CHANGED)
    messages = reload(app, SCHEMA.replace("a: Float", "b: String"))
    wait_for(app, messages, 1)
    assert messages[0].startswith("Thing.b: 300 of 300 records do not fit String")


def test_values_that_an_enum_has_lost(tmp_path: Path) -> None:
    schema = "enum Color { RED BLUE } type Thing @table @export { id: ID @primaryKey  color: Color }"
    with application(tmp_path, "", schema) as app:
        assert app.ask("POST", "/Thing/", [{"id": "1", "color": "RED"}, {"id": "2", "color": "BLUE"}])[0] == 201
        assert reload(app, schema.replace(" BLUE", "")) == [
            "Thing.color: 1 of 2 records do not fit Color; they stay as they are until they are written (the key is '2')"
        ]
        assert app.ask("GET", "/Thing/2") == (200, {"id": "2", "color": "BLUE"})
        assert app.ask("PUT", "/Thing/2", {"color": "BLUE"})[0] == 400


RENAMED = 'type Item @table @export @renamedFrom(name: "Thing") { id: ID @primaryKey  a: Float @indexed  note: String }'


def test_a_renamed_table(app: Application) -> None:
    roles = app.node.store.databases["system"].tables["svc_role"]
    made = app.node.store.begin()
    for name, tables in (("clerk", {"Thing": {"read": True}}), ("other", {"Other": {"read": True}})):
        made.put(roles, name, {"role": name, "permission": {"data": {"tables": tables}}})
    made.apply()
    app.node.store.commit_turn()
    assert reload(app, RENAMED) == ["the table Thing is Item now: rights that roles have on Thing do not hold for it (clerk)"]
    assert app.ask("GET", "/Item/7") == (200, {"id": "7", "a": 7}) and app.ask("GET", "/Thing/7")[0] == 404
    assert app.ask("PUT", "/Item/new", {"a": 1})[0] == 204 and app.ask("GET", "/Item/?a=1&select(id)")[1] == ["1", "new"]
    assert reload(app, RENAMED + " ") == []
    app.node.store.databases["data"].define_table(TableDefinition("Thing", attributes=(Attribute("id", "ID", primary_key=True),)))
    assert reload(app, RENAMED) == ["Item: @renamedFrom has no effect, since there are both tables, Thing and Item"]


async def _turn() -> None:
    """Gives other tasks a turn."""


def test_a_count_of_an_earlier_definition_is_not_noted(app: Application) -> None:
    reload(app, SCHEMA.replace("a: Float", 'a: Float @check(expr: "a > 0")'))
    table, _ = thing(app)
    earlier = schema_leftovers.DoubtfulTable(table, table.definition)
    doubts = tuple(noted_doubts([("fails_check", "a")], table.definition, {}))
    count = LeftoverCount(table.definition, doubts, SavedCount(b"", 300, (7,), ((),)))
    reload(app, SCHEMA.replace("a: Float", 'a: Float @check(expr: "a > 1")'))
    note = read_note(*thing(app))
    app.node.run(schema_leftovers._save(app.node.store, earlier, doubts, count, b""))
    assert read_note(*thing(app)) == note and note is not None and note.doubts == (("fails_check", "a"),)
