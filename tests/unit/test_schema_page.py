"""The requests of docs/schema.md are answered as the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.support.node import Node

PAGE = (Path(__file__).parents[2] / "docs" / "schema.md").read_text("utf-8")


def test_constraints(tmp_path: Path) -> None:
    section = PAGE[PAGE.index("## Constraints") :]
    schema = re.search(r"```graphql\n(.*?)```", section, re.DOTALL)
    rows = re.findall(r"^\| `([A-Z]+) (/\S+)`(?: `(.*?)`)? \| (\d+)(?: `(.*)`)? \|$", section, re.MULTILINE)
    assert schema and len(rows) == 8
    app = tmp_path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(schema[1])
    node = Node(tmp_path / "store", app)
    for method, path, body, status, answer in rows:
        found, _, text = node.connect().ask(method, path, body.encode())
        assert found == int(status), (path, text)
        if answer.startswith("{"):
            assert text.decode() == answer
        elif answer:
            assert json.loads(text)["error"].startswith(answer)
    node.close()
