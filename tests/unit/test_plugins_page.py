"""The examples of docs/plugins.md, as one application beside its plugin."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.node import Node

PAGE = Path(__file__).parents[2] / "docs" / "plugins.md"
_BLOCK = re.compile(r"^(?:\*\*(?P<file>[\w./]+)\*\*\n\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
CONFIG = "\nlast: {package: ./last.py, limit: 5}\n"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    app = tmp_path_factory.mktemp("components") / "shop"
    app.mkdir()
    (app / "schema.graphql").write_text("type Thing @table @export { id: ID @primaryKey name: String price: Float @indexed }")
    for block in _BLOCK.finditer(PAGE.read_text()):
        if block["file"] or block["language"] == "python":
            file = app / (block["file"] or "last.py")
            file.parent.mkdir(exist_ok=True)
            file.write_text(block["text"])
    with (app / "config.yaml").open("a") as config:
        config.write(CONFIG)
    made = Node(tmp_path_factory.mktemp("store"), app)
    made.run(made.applications.add(app.parent / "badwords"))
    made.run(made.applications.reload("shop"))
    assert {each.name: each.status for each in made.applications} == {"shop": "healthy", "badwords": "healthy"}, made.app.entries
    for key, thing in (("1", {"name": "Cup", "price": 3}), ("2", {"name": "Sofa", "price": 300})):
        assert made.connect().ask("PUT", f"/Thing/{key}", json.dumps(thing).encode())[0] == 204
    yield made
    made.run(made.applications.remove("shop"))  # its tasks end with it
    made.close()


@pytest.mark.parametrize(
    ("target", "status", "answer"),
    [
        ("/shop/cheaper/10", 200, {"names": ["Cup"]}),
        ("/shop/cheaper/x", 422, None),
        ("/shop/health", 200, None),
        ("/Thing/darn", 451, None),
        ("/Thing/none", 404, None),
        ("/words/", 200, {"limit": 5}),
    ],
)
def test_requests(node: Node, target: str, status: int, answer: object) -> None:
    found, _, received = node.connect().ask("GET", target)
    assert found == status
    assert answer is None or json.loads(received) == answer


def test_options_and_files_change_in_place(node: Node) -> None:
    file = node.app.directory / "config.yaml"
    file.write_text(file.read_text().replace("limit: 5", "limit: 6"))
    (node.app.directory / "words" / "more.txt").write_text("gosh")
    assert node.run(node.applications.change("shop", ["config.yaml", "words/more.txt"], reloads_code=False)) == []
    assert json.loads(node.connect().ask("GET", "/words/")[2]) == {"limit": 6}
    assert node.connect().ask("GET", "/Thing/gosh")[0] == 451
    file.write_text(file.read_text().replace("limit: 6", "limit: 5"))
    node.run(node.applications.change("shop", ["config.yaml"], reloads_code=False))
