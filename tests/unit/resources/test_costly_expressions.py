"""A list of records whose checks take long is written in slices (spec: schema-and-store §4.3)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from svc.store.writing.long_write import LongWrite
from tests.support.node import Node

SCHEMA = """
type Text @table @export {
  id: ID @primaryKey
  text: String @check(expr: "len([x for x in text]) > 0")
}
"""


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_the_turn_is_given_back_between_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    app = tmp_path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    node = Node(tmp_path / "store", app)
    assert node.app.status == "healthy", node.app.entries
    began: list[LongWrite] = []
    run = LongWrite.run

    async def noted(self: LongWrite) -> None:
        began.append(self)
        await run(self)

    monkeypatch.setattr(LongWrite, "run", noted)
    wire = node.connect()
    for text, in_slices in (("short", 0), ("x" * 30_000, 1)):
        records = [{"id": f"{len(text)}-{number}", "text": text} for number in range(5)]
        assert wire.ask(method, "/Text/", json.dumps(records).encode())[0] in (201, 204)
        assert len(began) == in_slices
        assert json.loads(wire.ask("GET", f"/Text/{len(text)}-4")[2])["text"] == text
    assert wire.ask("PUT", "/Text/one", json.dumps({"text": "x" * 30_000}).encode())[0] == 204
    assert len(began) == 1, "one record has nothing to be cut into"
    assert node.errors == []
    node.close()
