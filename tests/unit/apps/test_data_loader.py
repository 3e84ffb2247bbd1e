"""The entry `dataLoader` (spec: components §1)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from svc.apps import data_loader
from svc.errors import NoSpace, StoreFailure
from svc.siblings.leadership import LeadAlone
from svc.store.writing.long_write import LongWrite
from tests.support.application import application
from tests.support.loading import Loading

SCHEMA = """
type T @table { id: ID @primaryKey  a: Int  b: String  at: Date  raw: Bytes  changed: Float @updatedTime }
type Strict @table @sealed { id: Long @primaryKey  name: String!  price: Float @indexed }
type Free @table { id: Any @primaryKey }
type File @table { id: ID @primaryKey  content: Blob }
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Loading]:
    world = Loading(tmp_path, SCHEMA)
    yield world
    world.close()


def without_times(records: dict[Any, dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    return {key: {name: value for name, value in record.items() if name != "changed"} for key, record in records.items()}


def test_records_are_made_once_and_their_hashes_kept(world: Loading) -> None:
    world.write("data/t.json", {"table": "T", "records": [{"id": "x", "a": 1}, {"b": "ä", "id": "y"}]})
    assert world.load().messages == []
    assert without_times(world.records()) == {"x": {"id": "x", "a": 1}, "y": {"id": "y", "b": "ä"}}
    text = '{"b":"ä","id":"y"}'
    assert world.hashes()["data:T:y"]["hash"] == hashlib.sha256(text.encode()).hexdigest()
    assert world.reports == [("info", "dataLoader: data/t.json: data.T: 2 made")]
    before = world.versions()
    world.reopen()
    world.load()
    assert world.versions() == before and len(world.reports) == 1


def test_a_changed_file_changes_its_fields_alone(world: Loading) -> None:
    world.write("data/t.json", {"table": "T", "records": [{"id": "x", "a": 1, "b": "old"}, {"id": "y", "a": 1}]})
    world.load()
    world.write("data/t.json", {"table": "T", "records": [{"id": "x", "a": 2}, {"id": "y", "a": 1}, {"id": "z"}]})
    before = world.versions()
    world.load()
    assert world.versions() == before + 2
    assert without_times(world.records()) == {"x": {"id": "x", "a": 2, "b": "old"}, "y": {"id": "y", "a": 1}, "z": {"id": "z"}}
    world.write("data/t.json", {"table": "T", "records": [{"id": "x", "a": 3}]})
    world.load()
    assert without_times(world.records())["x"] == {"id": "x", "a": 3, "b": "old"} and len(world.records()) == 3
    assert all(not row["before"] for row in world.hashes().values())


def test_what_users_have_made_or_changed_is_left_alone(world: Loading) -> None:
    world.put({"id": "own", "a": 5})
    world.write("data/t.json", {"table": "T", "records": [{"id": name, "a": 1} for name in ("own", "changed", "extended", "removed")]})
    world.load()
    world.put({"id": "changed", "a": 7})
    world.put({"id": "extended", "a": 1, "b": "more"})
    world.delete("removed")
    world.load()
    expected = {
        "own": {"id": "own", "a": 5},
        "changed": {"id": "changed", "a": 7},
        "extended": {"id": "extended", "a": 1, "b": "more"},
        "removed": {"id": "removed", "a": 1},  # what does not exist is made
    }
    assert without_times(world.records()) == expected
    world.write("data/t.json", {"table": "T", "records": [{"id": name, "a": 2} for name in ("own", "changed", "extended", "removed")]})
    world.load()
    expected["extended"]["a"] = expected["removed"]["a"] = 2
    assert without_times(world.records()) == expected
    assert set(world.hashes()) == {"data:T:changed", "data:T:extended", "data:T:removed"}


def test_json_and_yaml_mean_the_same(world: Loading) -> None:
    world.write(
        "data/t.yaml",
        """
        table: T
        records:
          - id: x
            b: 2024-01-05T10:00:00Z
            at: 2024-01-05T10:00:00Z
            raw: !!binary aGVsbG8=
            some: 2024-01-05
            time: 10:30
            answer: no
            1: one
          - id: "12"
        """,
    )
    world.load()
    moment = datetime(2024, 1, 5, 10, tzinfo=UTC)
    record = {
        "id": "x",
        "b": "2024-01-05T10:00:00Z",
        "at": moment,
        "raw": b"hello",
        "some": "2024-01-05",
        "time": "10:30",
        "answer": "no",
        "1": "one",
    }
    assert without_times(world.records()) == {"x": record, "12": {"id": "12"}}
    (world.directory / "data/t.yaml").unlink()
    same = {**record, "at": "2024-01-05T10:00:00Z", "raw": "aGVsbG8="}
    world.write("data/t.json", {"table": "T", "records": [same, {"id": "12"}]})
    before = world.versions()
    assert world.load().messages == []
    assert world.versions() == before


def test_a_missing_table_is_made_of_the_first_record(world: Loading) -> None:
    world.write("data/new.json", {"database": "shop", "table": "New", "records": [{"id": 1, "name": "a"}, {"id": "1", "other": True}]})
    assert world.load().messages == []
    table = world.table("New", "shop")
    assert world.records("New", "shop") == {1: {"id": 1, "name": "a"}, "1": {"id": "1", "other": True}}
    assert set(table.attributes) == {"id", "name", "other"} and set(table.indexes) == {"name", "other"}
    assert set(world.hashes()) == {"shop:New:1", 'shop:New:"1"'}
    table.check()
    assert world.faults("data/other.json", {"table": "Other", "records": [{"name": "a"}]}) == [
        "data/other.json: there is no table data.Other, and the first record has no id to make one of"
    ]
    assert world.faults("data/other.json", {"database": ".x", "table": "Other", "records": [{"id": 1}]})
    assert world.load().messages == []


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("data/a.json", "{", "Invalid JSON"),
        ("data/a.json", "[]", "it must be an object with table and records"),
        ("data/a.json", "", "Invalid JSON"),
        ("data/a.yaml", "", "it must be an object with table and records"),
        ("data/a.yaml", "a: b: c", "line 1, column 5: mapping values are not allowed"),
        (
            "data/a.yaml",
            "a: !!python/object:os.system x",
            "line 1, column 4: the tag tag:yaml.org,2002:python/object:os.system is not known",
        ),
        ("data/a.yaml", "[" * 100_000, "nested too deeply"),
        ("data/a.json", "[" * 100_000, "nested too deeply"),
        ("data/a.json", b"\xff", "Invalid JSON"),
        ("data/a.json", {"records": []}, "it has no table"),
        ("data/a.json", {"table": 5, "records": []}, "table must be the name of a table"),
        ("data/a.json", {"table": "T"}, "it has no records"),
        ("data/a.json", {"table": "T", "records": {}}, "records must be a list"),
        ("data/a.json", {"database": 5, "table": "T", "records": []}, "database must be the name"),
        ("data/a.json", {"database": "system", "table": "svc_user", "records": []}, "the database system cannot be loaded"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_and_the_others_are_loaded(world: Loading, name: str, content: Any, words: str) -> None:
    world.write("data/good.json", {"table": "T", "records": [{"id": "x"}]})
    (message,) = world.faults(name, content)
    assert message.startswith(f"{name}: ") and words in message
    assert "x" in world.records()


def test_other_files_and_those_that_cannot_be_read_are_faults(world: Loading) -> None:
    world.write("data/a.csv", "id\n1\n")
    world.write("data/b.json", {"table": "T", "records": []})
    (world.directory / "data/c.json").symlink_to("nowhere.json")
    os.mkfifo(world.directory / "data/d.json")
    status = world.load(["data/*"])
    assert status.messages.pop() == "data/d.json: it is no regular file"
    assert status.messages[0] == "data/a.csv: a file of records is .json, .yaml or .yml, not .csv"
    assert all(message.startswith(("data/a.csv", "data/c.json: it cannot be read: No such file")) for message in status.messages)


def test_a_file_that_is_too_large_is_refused(world: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.apps.data_files.MAX_JSON", 1 << 20)
    monkeypatch.setattr("svc.apps.data_files.MAX_RECORDS", 3)
    assert "larger than 1 MB" in world.faults("data/a.json", " " * (1 << 20) + "{}")[0]
    assert "it has 4 records, and a file can have 3" in world.faults("data/a.json", {"table": "T", "records": [{}] * 4})[0]


def test_keys_that_mean_nothing_are_a_warning(world: Loading) -> None:
    world.write("data/a.json", {"table": "T", "dataBase": "shop", "records": [{"id": "x"}]})
    status = world.load()
    assert (status.status, status.messages) == ("warning", ["data/a.json: 'dataBase' is none of database, table, records"])


def test_a_bad_record_is_named_and_the_others_are_stored(world: Loading) -> None:
    records = [
        {"id": 1, "name": "a", "price": 1},
        {"id": 2, "price": "much"},
        "text",
        {"name": "b"},
        {"id": 1, "name": "twice"},
        {"id": 3, "name": "c", "unknown": 1},
        {"id": "x", "name": "d"},
        {"id": 4, "name": "e", "price": [[0] * 1000] * 300},
        {"id": 5, "name": "f"},
    ]
    messages = world.faults("data/s.json", {"table": "Strict", "records": records})
    assert set(world.records("Strict")) == {1, 5}
    starts = [
        'record 1 (id 2, line 1): Value "much" in property price must be a number. Property name is required',
        "record 2 (line 1): it must be an object, not a text",
        "record 3 (line 1): it has no value for the primary key id",
        "record 4 (id 1, line 1): record 0 has the same id",
        "record 5 (id 3, line 1): Property unknown is not allowed",
        'record 6 (id x, line 1): Value "x" in property id must be an integer',
        "record 7 (id 4, line 1): it has too many values",
    ]
    assert len(messages) == len(starts)
    for message, start in zip(messages, starts, strict=True):
        assert message.startswith(f"data/s.json: {start}"), message


def test_of_many_bad_records_the_first_are_told(world: Loading) -> None:
    messages = world.faults("data/s.json", {"table": "Strict", "records": [{"id": number} for number in range(200)]})
    assert len(messages) == 51 and messages[-1] == "data/s.json: 150 more records are at fault"


def test_names_and_values_of_every_kind_are_told_or_stored(world: Loading) -> None:
    records = [
        {"id": "é" * 300, "a": 1},
        {"id": "\ud800"},
        {"id": ["a", 1]},
        {"id": {"a": 1}},
        {"id": None},
        {"id": True},
        {"id": 1.5},
        {"id": 2**70},
    ]
    records += [
        {"id": "n", "nan": float("nan")},
        {"id": "big", "deep": json.loads("[" * 80 + "]" * 80)},
        {"id": "k" * 600},
        {"id": "k" * 599 + "j"},
    ]
    messages = world.faults("data/f.json", json.dumps({"table": "Free", "records": records}))
    stored = world.records("Free") if not any("Invalid JSON" in each for each in messages) else {}
    assert messages
    for record in records:
        key = record["id"]
        if isinstance(key, str | float) and key in stored:
            assert stored[key] == record
    text = "table: Free\nrecords:\n- {id: n, x: .nan}\n- {id: m, x: .inf}\n- {id: ok, x: &a [1, 2], y: *a}\n"
    messages = world.faults("data/f.yaml", text)
    assert len(messages) == 2 and world.records("Free")["ok"] == {"id": "ok", "x": [1, 2], "y": [1, 2]}


def test_aliases_cannot_make_a_record_without_bounds(world: Loading) -> None:
    lines = ["table: Free", "records:", "- id: x", "  a0: &a0 [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]"]
    lines += [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    (message,) = world.faults("data/f.yaml", "\n".join(lines))
    assert "it has too many values" in message


def test_long_keys_that_cannot_be_ordered_hinder_no_other(world: Loading) -> None:
    keys = ["k" * 600, "k" * 599 + "j", "ordinary"]
    messages = world.faults("data/t.json", {"table": "T", "records": [{"id": key} for key in keys]})
    assert len(messages) == 1 and "ordinary" in world.records() and len(world.records()) == 2


def test_an_increment_is_no_more_than_an_object(world: Loading) -> None:
    world.write("data/f.json", {"table": "Free", "records": [{"id": "x", "n": {"__op__": "add", "value": 1}}]})
    world.load()
    world.write("data/f.json", {"table": "Free", "records": [{"id": "x", "n": {"__op__": "add", "value": 2}}]})
    world.load()
    assert world.records("Free")["x"]["n"] == {"__op__": "add", "value": 2}


def test_blobs_are_stored(world: Loading) -> None:
    text = "aGVsbG8=" * 20_000
    world.write("data/f.json", {"table": "File", "records": [{"id": "x", "content": text}]})
    assert world.load().messages == []
    assert world.load().messages == []
    assert [str(row["id"]) for row in world.hashes().values()] == ["data:File:x"]
    world.store.check()


def test_a_changed_file_is_loaded_alone_and_keeps_the_faults_of_others(world: Loading) -> None:
    world.write("data/a.json", "{")
    world.write("data/b.json", {"table": "T", "records": [{"id": "x", "a": 1}]})
    entry = world.entry()
    world.run(entry.start())
    status = entry.context.status
    assert len(status.messages) == 1
    world.write("data/b.json", {"table": "T", "records": [{"id": "x", "a": 2}]})
    world.write("data/c.json", {"table": "T", "records": [{"id": "not yet"}]})
    status.begin()
    assert world.run(entry.change(["data/b.json"]))
    assert world.records()["x"]["a"] == 2 and "not yet" not in world.records()
    assert status.status == "error" and len(status.messages) == 1
    (world.directory / "data/a.json").unlink()
    status.begin()
    assert world.run(entry.change(["data/a.json", "data/c.json"]))
    assert status.messages == [] and "not yet" in world.records()


def test_another_instance_brings_them(world: Loading) -> None:
    """This one has nothing to do until that has ended."""
    world.write("data/t.json", {"table": "T", "records": [{"id": "x"}]})
    waiting: list[tuple[str, Callable[[], None]]] = []
    lead = LeadAlone()
    lead.is_held = False

    def wait(subject: str, on_lead: Callable[[], None]) -> LeadAlone:
        waiting.append((subject, on_lead))
        return lead

    world.runtime.lead = wait
    entry = world.entry()
    world.run(entry.start())
    assert world.records() == {} and entry.context.status.status != "error"
    ((subject, on_lead),) = waiting
    assert "dataLoader" in subject
    lead.is_held = True

    async def take_over() -> None:
        on_lead()
        while not world.records():  # noqa: ASYNC110 - it is a task of its own
            await asyncio.sleep(0.001)

    world.run(take_over())


def test_large_files_say_how_far_they_are(world: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_loader, "PROGRESS", 4000)
    monkeypatch.setattr("svc.apps.data_entry.PROGRESS", 4000)
    world.write("data/t.json", {"table": "T", "records": [{"id": f"{number:05}", "a": number} for number in range(9000)]})
    assert world.load().messages == []
    assert {level for level, _ in world.reports} == {"notify"}
    assert [text for _, text in world.reports] == [
        "dataLoader: data/t.json: 4000 of 9000 records",
        "dataLoader: data/t.json: 8000 of 9000 records",
        "dataLoader: data/t.json: data.T: 9000 made",
    ]
    assert len(world.records()) == 9000
    world.table().check()


@pytest.mark.parametrize("step", range(1, 4))
@pytest.mark.parametrize("first", [True, False])
def test_an_end_between_two_commits_loses_nothing(world: Loading, step: int, first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write("data/t.json", {"table": "T", "records": [{"id": "x", "a": 1, "b": "old"}]})
    if not first:
        world.load()
        world.write("data/t.json", {"table": "T", "records": [{"id": "x", "a": 2}, {"id": "y"}]})
    real, runs = LongWrite.run, 0

    async def run(self: LongWrite) -> None:
        nonlocal runs
        runs += 1
        if runs == step:
            raise StoreFailure("the process ends here")
        await real(self)

    with monkeypatch.context() as patch:
        patch.setattr(LongWrite, "run", run)
        world.load()
    world.reopen()
    if not first:
        world.write("data/t.json", {"table": "T", "records": [{"id": "x", "a": 3}, {"id": "y"}]})
    assert world.load().messages == []
    expected = {"x": {"id": "x", "a": 1, "b": "old"}} if first else {"x": {"id": "x", "a": 3, "b": "old"}, "y": {"id": "y"}}
    assert without_times(world.records()) == expected
    assert all(not row["before"] for row in world.hashes().values())


def test_a_record_that_is_made_by_another_in_the_meantime_is_left_alone(world: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write("data/t.json", {"table": "T", "records": [{"id": "x", "a": 1}, {"id": "y", "a": 1}]})
    real, runs = LongWrite.run, 0

    async def run(self: LongWrite) -> None:
        nonlocal runs
        runs += 1
        if runs == 2:
            world.put({"id": "x", "a": 9})
        await real(self)

    monkeypatch.setattr(LongWrite, "run", run)
    world.load()
    assert without_times(world.records()) == {"x": {"id": "x", "a": 9}, "y": {"id": "y", "a": 1}}
    assert set(world.hashes()) == {"data:T:y"}


def test_two_loads_at_once_do_everything_once(world: Loading) -> None:
    world.write("data/t.json", {"table": "T", "records": [{"id": f"{number}", "a": number} for number in range(3000)]})
    entries = [world.entry(), world.entry()]

    async def both() -> None:
        await asyncio.gather(*(entry.start() for entry in entries))

    world.run(both())
    assert [entry.context.status.messages for entry in entries] == [[], []]
    assert len(world.records()) == 3000 and world.versions() == 3000
    assert all(not row["before"] for row in world.hashes().values())


def test_a_table_that_is_changed_meanwhile_is_looked_at_once_more(world: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write("data/t.json", {"table": "T", "records": [{"id": "x", "a": 1}, {"id": "y", "a": "text"}]})
    real, runs = LongWrite.run, 0

    async def run(self: LongWrite) -> None:
        nonlocal runs
        runs += 1
        if runs == 2:
            world.define(SCHEMA.replace("a: Int", "a: Any"))
        await real(self)

    monkeypatch.setattr(LongWrite, "run", run)
    assert world.load().messages == []
    assert without_times(world.records()) == {"x": {"id": "x", "a": 1}, "y": {"id": "y", "a": "text"}}


def test_an_application_brings_its_data(tmp_path: Path) -> None:
    files = {
        "config.yaml": "rest: true\ngraphqlSchema: {files: schema.graphql}\ndataLoader: {files: data/*.yaml}\nresources: true\n",
        "data/shows.yaml": "table: Show\nrecords:\n  - {id: a, title: A show}\n",
    }
    with application(tmp_path, "", files=files) as app:
        assert app.ask("GET", "/Show/a") == (200, {"id": "a", "title": "A show"})
        directory = app.node.app.directory
        (directory / "data/shows.yaml").write_text("table: Show\nrecords:\n  - {id: a, title: Another}\n  - {id: b, title: B}\n")
        app.node.run(app.node.applications.change("app", ["data/shows.yaml"], reloads_code=False))
        assert app.ask("GET", "/Show/a") == (200, {"id": "a", "title": "Another"})
        (directory / "data/shows.yaml").write_text("table: Show\nrecords: 5\n")
        app.node.run(app.node.applications.change("app", ["data/shows.yaml"], reloads_code=False))
        assert app.node.app.entries["dataLoader"].messages == ["data/shows.yaml: records must be a list"]
        assert ("error", "dataLoader: data/shows.yaml: records must be a list") in app.node.reports


def test_a_fault_in_the_schema_does_not_make_tables_of_records(tmp_path: Path) -> None:
    good = "type Show @table @export { sku: ID @primaryKey  title: String }"
    files = {
        "config.yaml": "rest: true\ngraphqlSchema: {files: schema.graphql}\ndataLoader: {files: data/*.yaml}\nresources: true\n",
        "data/shows.yaml": "table: Show\nrecords:\n  - {id: own, sku: a}\n",
        "schema.graphql": good.replace("}", ""),
    }
    with application(tmp_path, "", files=files, healthy=False) as app:
        missing = "data/shows.yaml: there is no table data.Show, and none is made of the records while the schema has errors"
        assert app.node.app.entries["dataLoader"].messages == [missing]
        assert "data" not in app.node.store.databases
        (app.node.app.directory / "schema.graphql").write_text(good)
        app.node.run(app.node.applications.change("app", ["schema.graphql"], reloads_code=False))
        assert app.node.app.status == "healthy"
        assert app.ask("GET", "/Show/a") == (200, {"sku": "a", "id": "own"})


def test_a_table_that_is_dropped_meanwhile_ends_the_load(world: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write("data/t.json", {"table": "T", "records": [{"id": f"{number}"} for number in range(50)]})
    real, runs = LongWrite.run, 0

    async def run(self: LongWrite) -> None:
        nonlocal runs
        runs += 1
        if runs == 2:
            world.table().database.drop_table("T")
        await real(self)

    monkeypatch.setattr(LongWrite, "run", run)
    (message,) = world.load().messages
    assert message == "data/t.json: Table 'data.T' does not exist"
    assert runs == 2


def test_a_full_disk_is_told_and_the_rest_comes_with_the_next_load(world: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_loader, "CHUNK", 10)
    world.write("data/t.json", {"table": "T", "records": [{"id": f"{number:02}"} for number in range(50)]})
    real, runs = LongWrite.run, 0

    async def run(self: LongWrite) -> None:
        nonlocal runs
        runs += 1
        if runs == 6:
            raise NoSpace
        await real(self)

    with monkeypatch.context() as patch:
        patch.setattr(LongWrite, "run", run)
        (message,) = world.load().messages
    assert "disk" in message or "space" in message.lower()
    assert len(world.records()) == 20
    assert world.load().messages == []
    assert len(world.records()) == world.versions() == 50


def test_what_takes_long_goes_on_behind_the_open_ports(world: Loading) -> None:
    world.runtime.patience = 0.0
    world.write("data/t.json", {"table": "T", "records": [{"id": str(number)} for number in range(3000)] + [{"a": 1}]})
    world.write("data/u.json", {"table": "T", "records": [{"id": "late"}], "other": 1})
    entry = world.entry()
    status = entry.context.status
    world.run(entry.start())
    status.end(1)
    assert (status.status, status.messages) == ("loading", [])
    assert "late" not in world.records()
    assert world.reports == [("notify", "dataLoader: records are still being loaded, while requests are served")]
    assert entry._work is not None
    world.run(asyncio.wait({entry._work}))
    assert len(world.records()) == 3001
    missing = "data/t.json: record 3000 (line 1): it has no value for the primary key id"
    unknown = "data/u.json: 'other' is none of database, table, records"
    assert (status.status, status.messages) == ("error", [missing, unknown])
    assert [each for each in world.reports if each[0] in ("error", "warn")] == [
        ("error", f"dataLoader: {missing}"),
        ("warn", f"dataLoader: {unknown}"),
    ]


def test_a_file_that_changes_while_others_are_loaded_comes_after_them(world: Loading) -> None:
    world.runtime.patience = 0.0
    world.write("data/t.json", {"table": "T", "records": [{"id": str(number)} for number in range(3000)]})
    entry = world.entry()
    world.run(entry.start())
    world.write("data/u.json", {"table": "T", "records": [{"id": "x"}], "other": 1})
    world.runtime.patience = None
    status = entry.context.status
    status.begin()
    world.run(entry.change(["data/u.json"]))
    status.end(1)
    assert len(world.records()) == 3001
    assert (status.status, status.messages) == ("warning", ["data/u.json: 'other' is none of database, table, records"])
    assert [level for level, _ in world.reports if level == "warn"] == []  # the application tells what it has waited for
    (world.directory / "data/u.json").unlink()
    status.begin()
    world.run(entry.change(["data/u.json"]))
    status.end(1)
    assert (status.status, status.messages) == ("healthy", [])


def test_a_load_that_goes_on_ends_with_its_entry(world: Loading) -> None:
    world.runtime.patience = 0.0
    world.write("data/t.json", {"table": "T", "records": [{"id": str(number)} for number in range(3000)]})
    entry = world.entry()
    world.run(entry.start())
    entry.withdraw()
    assert len(world.runtime.ending) == 1
    world.run(asyncio.wait(list(world.runtime.ending)))
    count = len(world.records())
    assert count < 3000
    world.run(asyncio.sleep(0.01))
    assert len(world.records()) == count and not world.runtime.ending
    world.runtime.patience = None
    assert world.load().messages == [] and len(world.records()) == 3000
