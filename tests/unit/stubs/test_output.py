from __future__ import annotations

import os
from pathlib import Path

import pytest

from svc.stubs import STUBS, SchemaFaults, refresh_types, schema_of, write_stubs, write_typescript
from svc.stubs.output import write_changed

SCHEMA = "type Product @table @export { id: ID @primaryKey name: String! }"


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "schema.graphql").write_text(SCHEMA)
    return tmp_path


def test_stubs_are_written_once(app: Path) -> None:
    written = write_stubs(app)
    assert {path.relative_to(app).as_posix() for path in written} == {
        f"typings/svc/{name}.pyi" for name in ("__init__", "_schema", "_types", "testing")
    }
    before = {path: path.stat().st_mtime_ns for path in written}
    assert write_stubs(app) == []
    assert {path: path.stat().st_mtime_ns for path in written} == before


def test_only_what_has_changed_is_written_again(app: Path) -> None:
    write_stubs(app)
    (app / "schema.graphql").write_text(SCHEMA.replace("name", "title"))
    assert write_stubs(app) == [app / STUBS / "_schema.pyi"]


def test_a_faulty_schema_leaves_the_stubs_as_they_are(app: Path) -> None:
    write_stubs(app)
    before = (app / STUBS / "_schema.pyi").read_bytes()
    (app / "schema.graphql").write_text("type Product @table {")
    with pytest.raises(SchemaFaults, match=r"schema\.graphql:1:"):
        write_stubs(app)
    assert (app / STUBS / "_schema.pyi").read_bytes() == before
    with pytest.raises(SchemaFaults):
        write_typescript(app, app / "client.ts")
    assert not (app / "client.ts").exists()


def test_a_file_is_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "below" / "x.pyi"
    assert write_changed(path, "one")
    path.chmod(0o640)

    def fail(*arguments: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no room"):
        write_changed(path, "two")
    assert path.read_text() == "one"
    assert [each.name for each in path.parent.iterdir()] == ["x.pyi"]
    monkeypatch.undo()
    assert write_changed(path, "two")
    assert path.read_text() == "two"
    assert path.stat().st_mode & 0o777 == 0o640


def test_the_schema_is_that_of_the_configuration(app: Path) -> None:
    (app / "config.yaml").write_text("rest: {path: /api}\ngraphqlSchema: {files: tables/*.graphql}\n")
    (app / "tables").mkdir()
    (app / "tables" / "a.graphql").write_text('type A @table @export { id: ID @primaryKey b: B @relationship(from: "bId") bId: ID }')
    (app / "tables" / "b.graphql").write_text(
        'type B @table(database: "other") { id: ID @primaryKey }\ntype C @table { id: ID @primaryKey x: Unknown }'
    )
    with pytest.raises(SchemaFaults, match="another database"):
        schema_of(app)
    (app / "tables" / "a.graphql").write_text("type A @table @export { id: ID @primaryKey }")
    schema = schema_of(app)
    assert [(each.database, each.name) for each in schema.definitions] == [("data", "A"), ("data", "C"), ("other", "B")]
    assert schema.prefix == "api/"
    assert "Unknown" in schema.warnings[0]


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        ("[]", r"config\.yaml: must be a mapping"),
        ("a: [", r"config\.yaml: "),
        ("graphqlSchema: {files: ../x}", "leads out"),
        ("graphqlSchema: {files: 3}", "pattern"),
    ],
)
def test_what_is_wrong_with_the_configuration_is_said(app: Path, config: str, fault: str) -> None:
    (app / "config.yaml").write_text(config)
    with pytest.raises(SchemaFaults, match=fault):
        schema_of(app)


def test_a_file_that_is_no_text_is_a_fault(app: Path) -> None:
    (app / "schema.graphql").write_bytes(b"\xff\xfe")
    with pytest.raises(SchemaFaults, match=r"schema\.graphql: "):
        schema_of(app)


def test_an_application_without_a_schema_has_no_tables(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("rest: true\n")
    assert schema_of(tmp_path).definitions == ()
    with pytest.raises(SchemaFaults, match="no directory"):
        schema_of(tmp_path / "missing")


def test_what_has_been_written_is_brought_up_to_date(app: Path) -> None:
    assert refresh_types(app) == []
    assert not (app / "typings").exists()
    write_stubs(app)
    write_typescript(app, app / "svc-client.ts")
    assert refresh_types(app) == []
    (app / "schema.graphql").write_text(SCHEMA.replace("name", "title"))
    assert refresh_types(app) == [app / STUBS / "_schema.pyi", app / "svc-client.ts"]
    (app / "schema.graphql").write_text("type")
    with pytest.raises(SchemaFaults):
        refresh_types(app)


def test_a_fault_of_the_disk_names_the_file_that_was_to_be_written(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.ts").mkdir()
    with pytest.raises(OSError, match="a/b\\.ts'"):
        write_changed(tmp_path / "a" / "b.ts", "text")
    with pytest.raises(OSError, match="'/proc/b\\.ts'"):
        write_changed(Path("/proc/b.ts"), "text")
