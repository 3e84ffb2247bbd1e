"""svc schema diff: what a start would change, of a stopped server and of one that runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from svc.cli.arguments import Arguments, UsageError
from svc.cli.schema_commands import schema_command
from svc.config.document import write_document
from svc.store import Store, schema_difference
from svc.store.schema_difference import differences, stored_definitions
from svc.stubs import schema_of

FIRST = (
    "type Dog @table { id: ID @primaryKey name: String @indexed age: Float note: String } type Cat @table { id: ID @primaryKey dog: ID }"
)
SECOND = """
type Dog @table(expiration: 60) {
  id: ID @primaryKey
  called: String @indexed @renamedFrom(name: "name")
  age: Int
  weight: Float
}
type Cat @table { id: Int @primaryKey }
type Bird @table(database: "sky") { id: ID @primaryKey }
"""


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root of a stopped server with what FIRST declares, and three dogs."""
    for name in [name for name in os.environ if name.upper().startswith(("SVC_", "STORAGE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ROOTPATH", str(tmp_path / "r"))
    root = tmp_path / "r"
    root.mkdir()
    write_document(root / "svc-config.yaml", {})
    store = Store(root / "database")
    for definition in schema_of(write(tmp_path, FIRST)).definitions:
        store.open_database("data").define_table(definition)
    made = store.begin()
    for key, age in (("rex", 3), ("bello", 3.5), ("waldi", None)):
        made.put(store.databases["data"].tables["Dog"], key, {"name": key, "age": age, "note": "good"})
    made.put(store.databases["data"].tables["Cat"], "mimi", {})
    made.apply()
    store.commit_turn()
    store.close()
    return root


def write(directory: Path, schema: str) -> Path:
    (directory / "app").mkdir(exist_ok=True)
    (directory / "app" / "schema.graphql").write_text(schema)
    return directory / "app"


def run(app: Path, *flags: str) -> int:
    return schema_command(Arguments("schema", ["diff", str(app)], {}, set(flags)))


def test_the_same_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(write(tmp_path, FIRST)) == 0
    assert capsys.readouterr().out == "Nothing would change.\n"


def test_changes_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(write(tmp_path, SECOND.replace("id: Int", "id: ID"))) == 2
    assert capsys.readouterr().out == (
        "data.Cat\n"
        "  dog: ID is removed, its values stay, as undeclared properties\n"
        "data.Dog\n"
        "  called: the values of name get this name\n"
        "  age: Float becomes Int\n"
        "  weight: Float is added\n"
        "  note: String is removed, its values stay, as undeclared properties\n"
        "  expiration: none becomes 60\n"
        "  the index of name is that of called, or is built again if records have values under that name\n"
        "  warning: Dog.age: 1 of 3 records do not fit Int; they stay as they are until they are written (the key is 'bello')\n"
        "  warning: Dog.note: 3 of 3 records have values, which are kept as undeclared properties (the keys are 'bello', 'rex', 'waldi')"
        '; if it has another name now, declare that with @renamedFrom(name: "note")\n'
        "sky.Bird\n"
        "  new table\n"
    )


def test_what_would_be_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(write(tmp_path, SECOND)) == 1
    assert "  error: the primary key of Cat cannot be changed from type ID to Int; the table stays as it is\n" in capsys.readouterr().out


def test_a_renamed_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = FIRST.replace("type Dog @table", "type Hound @table @renamedFrom(name: Dog)").replace("note: String", "note: Int")
    assert run(write(tmp_path, schema)) == 2
    assert capsys.readouterr().out == (
        "data.Hound\n"
        "  the table Dog gets this name, with all it has\n"
        "  note: String becomes Int\n"
        "  warning: Hound.note: 3 of 3 records do not fit Int; they stay as they are until they are written (the keys are 'bello', 'rex', 'waldi')\n"
    )


def test_values_that_have_to_be_unique(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = 'type Dog @table { id: ID @primaryKey word: String @unique @renamedFrom(name: "note") name: String @unique }'
    assert run(write(tmp_path, schema)) == 1
    assert capsys.readouterr().out == (
        "data.Dog\n"
        '  error: Dog.word cannot be @unique: 1 value is that of several records: "good" ("bello", "rex", "waldi");'
        " the table stays as it is\n"
    )
    assert run(write(tmp_path, schema.replace("word: String @unique", "word: String"))) == 2
    assert "  the values of name have to be unique\n" in capsys.readouterr().out


def test_what_changes_before_have_left(tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed = FIRST.replace("age: Float", 'age: Float @check(expr: "age > 3")')
    (definition,) = [each for each in schema_of(write(tmp_path, changed)).definitions if each.name == "Dog"]
    store = Store(root / "database")
    store.open_database("data").define_table(definition)
    store.close()
    assert run(write(tmp_path, changed)) == 0
    assert capsys.readouterr().out == (
        "data.Dog\n"
        "  warning: Dog.age: 1 of 3 records fail the check age > 3; they stay as they are until they are written (the key is 'rex')\n"
        "Nothing would change.\n"
    )
    assert run(write(tmp_path, changed.replace("age: Float", "age: Int"))) == 2
    assert "Dog.age: 1 of 3 records fail the check" in capsys.readouterr().out, "it still holds when something else changes"
    assert run(write(tmp_path, changed.replace("age > 3", "age > 2"))) == 2
    assert "warning" not in capsys.readouterr().out


def test_the_time_for_reading_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(schema_difference, "_STEP", 1)
    monkeypatch.setattr(schema_difference, "BUDGET", -1)
    assert run(write(tmp_path, FIRST.replace("age: Float", "age: Float @unique").replace("note: String", "note: Int"))) == 2
    said = capsys.readouterr().out
    assert "  warning: Dog.note: 1 of 1 records do not fit Int" in said
    assert "  note: whether the values of age are unique was not found out within -1 seconds: the start does\n" in said
    assert "  note: only the first 1 records were counted, within -1 seconds: the start counts all\n" in said


def test_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(write(tmp_path, SECOND), "json") == 1
    answer: Any = json.loads(capsys.readouterr().out)
    cat, dog, bird = answer["tables"]
    assert cat["error"].startswith("the primary key") and bird["changes"] == [{"kind": "table_added", "attribute": "", "text": "new table"}]
    assert dog["records"] == 3 and dog["leftovers"][0] == {
        "kind": "other_type",
        "attribute": "age",
        "count": 1,
        "of": 3,
        "first_key": "'bello'",
        "keys": ["'bello'"],
    }
    assert answer["errors"] == answer["warnings"] == []


def test_faults_of_the_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(write(tmp_path, "type Dog @table { id: ")) == 1
    written = capsys.readouterr()
    assert "schema.graphql:1:" in written.err and written.out == ""
    assert run(write(tmp_path, "type Dog @table { id: "), "json") == 1
    assert json.loads(capsys.readouterr().out)["errors"]


def test_types_of_other_applications_are_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(write(tmp_path, "type Cat @table { id: ID @primaryKey dog: ID owner: Dog @relationship(from: dog) }")) == 2
    assert capsys.readouterr() == ("data.Cat\n  owner: Dog is added\n", "")


@pytest.mark.parametrize("words", [[], ["diff"], ["show", "x"], ["diff", "a", "b"]])
def test_usage(words: list[str]) -> None:
    with pytest.raises(UsageError, match="svc schema diff APP"):
        schema_command(Arguments("schema", words))


def test_it_says_what_a_load_does(root: Path, tmp_path: Path) -> None:
    """After the load, nothing is left to change; while values are being moved the answer is the same."""
    schema = schema_of(write(tmp_path, SECOND.replace("id: Int", "id: ID")))
    wanted = [each for each in schema.definitions if each.database == "data"]
    path = root / "database" / "data"
    assert [each.change.table for each in differences(path, wanted)] == ["Cat", "Dog"]
    store = Store(root / "database")
    for definition in wanted:
        store.databases["data"].define_table(definition)
    store.close()
    assert [(each.change.changes, len(each.leftovers)) for each in differences(path, wanted)] == [((), 2)] and stored_definitions(path)[
        "Dog"
    ] == wanted[1]
    retyped = [
        each for each in schema_of(write(tmp_path, SECOND.replace("called: String", "called: Int"))).definitions if each.name == "Dog"
    ]
    (found,) = differences(path, retyped)
    left = [(one.attribute, one.count) for one in found.leftovers]
    assert left == [("called", 3), ("age", 1), ("note", 3)], "not rewritten yet, and read with the new name"


def test_a_relationship_that_can_never_find_a_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = FIRST.replace("dog: ID }", "number: Long dog: Dog @relationship(from: number) }")
    assert run(write(tmp_path, schema)) == 1
    assert "the relationship Cat.dog can never find a record: Cat.number is Long and Dog.id is ID" in capsys.readouterr().err
