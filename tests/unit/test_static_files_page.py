"""The examples of docs/static-files.md: each configuration with the requests that follow it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.node import Node

PAGE = (Path(__file__).parents[2] / "docs" / "static-files.md").read_text("utf-8")
FILES = [*re.findall(r"^(web/\S+)$", PAGE, re.MULTILINE), "web/members/area.html", "web/Product.txt"]


def sections() -> list[tuple[str, str, list[tuple[str, str, str, str]]]]:
    """(config.yaml, Python, (method, path, `Accept`, answer) of each request) of each section that has them."""
    found = []
    for section in PAGE.split("\n## "):
        config = re.search(r"```yaml\n# config.yaml\n(.*?)```", section, re.DOTALL)
        rows = re.findall(r"^\| `([A-Z]+) (\S+)`(?:, `Accept: (\S+)`)? \| (.*) \|$", section, re.MULTILINE)
        if config and rows:
            code = re.search(r"```python\n(.*?)```", section, re.DOTALL)
            found.append((config[1], code[1] if code else "", rows))
    return found


@pytest.mark.parametrize(("config", "code", "rows"), sections(), ids=["site", "single page", "guarded"])
def test_what_the_page_says_is_answered(tmp_path: Path, config: str, code: str, rows: list[tuple[str, str, str, str]]) -> None:
    app = tmp_path / "shop"
    for name in FILES:
        (app / name).parent.mkdir(parents=True, exist_ok=True)
        (app / name).write_text(name)
    (app / "config.yaml").write_text(config)
    (app / "resources.py").write_text(code)
    (app / "schema.graphql").write_text("type Product @table @export { id: ID @primaryKey }")
    node = Node(tmp_path / "store", app)
    assert node.app.status == "healthy", node.app.entries
    if code:
        node.as_user(None)
    for method, path, accept, answer in rows:
        status, fields, body = node.connect().ask(method, path, fields={"Accept": accept or "*/*"})
        number, _, rest = answer.partition(" ")
        assert status == int(number), path
        assert not rest or rest.strip("`") in (body.decode(), fields.get("location")), path
    node.close()
