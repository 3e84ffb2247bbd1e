"""svc.api.caching.naming: which tables can have a source."""

from __future__ import annotations

from pathlib import Path

from tests.support.application import application

CODE = """
from svc import tables

class Rates:
    def get(self, id, context):
        return {"code": "same"}

tables.Rate.source_from(Rates())
"""
SCHEMA = "type Rate @table @export { id: ID @primaryKey  code: String @indexed }"
FAULT = (
    "Rate cannot have a source, because Rate.code is @unique: its records are what the source says, also if two of them have the same code."
)


def test_a_table_with_unique_values_cannot_have_a_source(tmp_path: Path) -> None:
    with application(tmp_path, CODE, SCHEMA.replace("@indexed", "@unique"), healthy=False) as app:
        (fault,) = app.node.app.entries["resources"].faults
        assert FAULT in fault


def test_a_table_with_a_source_cannot_get_unique_values(tmp_path: Path) -> None:
    with application(tmp_path, CODE, SCHEMA) as app:
        assert app.ask("GET", "/Rate/1") == app.ask("GET", "/Rate/1") == (200, {"id": "1", "code": "same"})
        (app.node.app.directory / "schema.graphql").write_text(SCHEMA.replace("@indexed", "@unique"))
        app.node.run(app.node.applications.change("app", ["schema.graphql"], reloads_code=True))
        faults = [fault for entry in app.node.app.entries.values() for fault in entry.faults]
        assert len(faults) == 1 and FAULT in faults[0]
        assert app.ask("GET", "/Rate/2")[0] == 200, "the version before goes on"
