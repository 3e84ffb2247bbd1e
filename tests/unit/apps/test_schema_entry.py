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
