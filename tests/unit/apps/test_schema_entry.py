"""svc.apps.schema_entry: attributes of a large table become unique, beside requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from svc.apps import schema_uniqueness
from svc.store.writing import unique_proof
from svc.store.writing.unique_proof import DefinitionProof, UnprovedChange
from tests.support.application import Application, application

SCHEMA = "type Thing @table @export { id: ID @primaryKey  mail: String }"
UNIQUE = SCHEMA.replace("mail: String", "mail: String @unique")


def change(app: Application, schema: str) -> list[str]:
    (app.node.app.directory / "schema.graphql").write_text(schema)
    app.node.run(app.node.applications.change("app", ["schema.graphql"], reloads_code=True))
    return app.node.app.entries["graphqlSchema"].messages


def test_duplicates_are_an_error_and_the_table_is_served_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unique_proof, "SMALL", 10)
    with application(tmp_path, "", SCHEMA) as app:
        assert app.ask("POST", "/Thing/", [{"id": str(number), "mail": f"m{number}"} for number in range(100)])[0] == 201
        assert app.ask("PUT", "/Thing/twin", {"mail": "m7"})[0] == 204
        fault = 'cannot be @unique: 1 value is that of several records: "m7" ("7", "twin")'
        assert change(app, UNIQUE) == [f"table data.Thing: Thing.mail {fault}", "the version before goes on serving"]
        assert app.node.app.status == "error"
        assert app.ask("PUT", "/Thing/other", {"mail": "m8"})[0] == 204
        assert app.ask("DELETE", "/Thing/other")[0] == app.ask("PUT", "/Thing/twin", {"mail": "new"})[0] == 204
        assert change(app, UNIQUE) == []
        assert app.ask("PUT", "/Thing/other", {"mail": "m8"})[0] == 409


def test_a_proof_that_never_holds_is_made_in_one_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def complete(proof: DefinitionProof, writer: object) -> None:
        tries.append(proof)
        raise UnprovedChange

    tries: list[DefinitionProof] = []
    monkeypatch.setattr(unique_proof, "SMALL", 0)
    monkeypatch.setattr(DefinitionProof, "complete", complete)
    with application(tmp_path, "", SCHEMA) as app:
        assert app.ask("PUT", "/Thing/1", {"mail": "m"})[0] == 204
        assert change(app, UNIQUE) == []
        assert len(tries) == schema_uniqueness.TRIES - 1
        assert app.ask("PUT", "/Thing/2", {"mail": "m"})[0] == 409


RULED = SCHEMA.replace("String", "String @indexed").replace(
    "@export", '@export @allow(roles: [editor], read: "mail==$user.username") @allow(read: "false")'
)
MISSPELT = RULED.replace("read:", "reed:", 1)
CODE = """
class Own(tables.Thing):
    pass
"""
ENTRIES = {
    "config.yaml": "graphqlSchema: {files: '*.graphql'}\nresources: {files: resources.py}\nrest: true\nroles: {files: roles.yaml}\n",
    "roles.yaml": "editor: {data: {Thing: {read: true}}}",
}


def test_rules_about_rows_take_effect_with_a_reload_that_builds_nothing(tmp_path: Path) -> None:
    with application(tmp_path, "", SCHEMA.replace("mail: String", "mail: String @indexed"), files=ENTRIES) as app:
        table = app.node.store.databases["data"].tables["Thing"]
        index = table.indexes["mail"]
        assert app.ask("PUT", "/Thing/1", {"mail": "m"})[0] == 204
        assert change(app, RULED) == []
        assert [each.roles for each in table.definition.allow] == [("editor",), None]
        assert table.indexes["mail"] is index and table.definition == app.node.store.databases["data"].tables["Thing"].definition
        assert change(app, SCHEMA.replace("mail: String", "mail: String @indexed")) == []
        assert table.definition.allow == ()


def test_a_fault_of_a_rule_leaves_the_version_before(tmp_path: Path) -> None:
    with application(tmp_path, CODE, RULED, files=ENTRIES) as app:
        rules = app.node.store.databases["data"].tables["Thing"].definition.allow
        assert change(app, MISSPELT) == [
            "schema.graphql:1:58: @allow of Thing has no argument reed, did you mean 'read'?", "the version before goes on serving"
        ]  # fmt: skip
        assert app.node.app.status == "error"
        assert app.node.store.databases["data"].tables["Thing"].definition.allow == rules
        assert app.ask("GET", "/Own/")[0] == app.ask("GET", "/Thing/")[0] == 200


def test_nothing_of_an_application_is_served_whose_first_rules_are_at_fault(tmp_path: Path) -> None:
    with application(tmp_path, CODE, SCHEMA + " type Other @table @export { id: ID }", files=ENTRIES) as app:
        assert app.ask("GET", "/Own/")[0] == 200
    with application(tmp_path, CODE, MISSPELT + " type Other @table @export { id: ID }", healthy=False, files=ENTRIES) as app:
        assert app.node.app.entries["graphqlSchema"].messages == [
            "schema.graphql:1:58: @allow of Thing has no argument reed, did you mean 'read'?",
            "nothing of the application is served: without the rules of its schema, rows would be seen that are to be hidden",
        ]
        assert set(app.node.app.entries) == {"config", "graphqlSchema"}
        for address in ("/Thing/", "/Other/", "/Own/"):
            status, answer = app.ask("GET", address)
            assert status == 503 and "did you mean 'read'?" in str(answer), address
        assert change(app, RULED + " type Other @table @export { id: ID }") == []
        assert app.node.app.status == "healthy" and set(app.node.app.entries) >= {"graphqlSchema", "resources", "roles"}
        assert [app.ask("GET", address)[0] for address in ("/Thing/", "/Other/", "/Own/")] == [200, 200, 200]


def test_what_the_store_refuses_of_a_table_with_rules_ends_the_load(tmp_path: Path) -> None:
    with application(tmp_path, CODE, SCHEMA, files=ENTRIES):
        pass
    with application(tmp_path, CODE, RULED.replace("id: ID", "id: Long"), healthy=False, files=ENTRIES) as app:
        assert app.ask("GET", "/Own/")[0] == app.ask("GET", "/Thing/")[0] == 503


def test_a_role_that_is_not_there_is_a_warning_unless_the_application_brings_it(tmp_path: Path) -> None:
    with application(tmp_path, "", RULED, files=ENTRIES) as app:
        assert app.node.app.entries["graphqlSchema"].messages == []
        assert change(app, RULED.replace("[editor]", "[editor, edtor]")) == [
            "schema.graphql:1:41: @allow of Thing is for the role edtor, which does not exist, did you mean 'editor'?"
        ]
        assert app.node.app.status == "warning"
