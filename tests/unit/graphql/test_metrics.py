"""What a GraphQL request is recorded as (spec: analytics §3)."""

from __future__ import annotations

from pathlib import Path

import svc.testing

CODE = """
from svc import tables

class Source:
    def get(self, id):
        return {"text": "a"}

tables.Page.sourced_from(Source())
"""


def test_records_of_a_source_give_the_request_no_type(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("graphql: {extended: true}\ngraphqlSchema:\n  files: '*.graphql'\njsResource:\n  files: '*.py'\n")
    (tmp_path / "schema.graphql").write_text("type Page @table @export { id: ID @primaryKey  text: String }")
    (tmp_path / "resources.py").write_text(CODE)
    with svc.testing.app(tmp_path) as app:
        recorder = app.instance.server.analytics.recorder
        recorder.close()
        mutation = 'mutation { put_Page(id: "1", input: {text: "b"}) { text } }'
        for body, accept in (
            (mutation, "application/json"),
            ('{ Page(id: "1") { text } }', "application/json"),
            ('{ Page(id: "1") { text } }', "text/event-stream"),
        ):
            assert app.post("/graphql", {"query": body}, headers={"accept": accept}).status == 200
        period = recorder.close()
        assert period is not None
        for _ in period.iter_entries():
            pass
        assert [key for key in period.numbers if key[0] == "duration"] == [("duration", "graphql", "POST", None)]
