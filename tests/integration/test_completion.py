"""What editors offer in an application with stubs, asked of pyright's language server (Language Server Protocol 3.17)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.stubs import write_stubs

pytestmark = pytest.mark.programs

SCHEMA = (Path(__file__).parent / "typed" / "schema.graphql").read_text("utf-8")
LIMIT = 300  # seconds
CODE = """from svc import Resource, databases, tables

tables.
databases.shop.


async def read() -> None:
    product = await tables.Product.get("x")
    if product:
        product.
    tables.Product.search({"conditions": [{"attribute": ""}]})
    tables.Product.search({"sort": {"attribute": "", "": True}})
    await tables.Product.create({"": 1})
    changed = await tables.Product.update("x")
    changed.


class Seat(databases.shop.Seat):
    def get(self) -> None:
        self.
"""


class Editor:
    """The client's side, over the pipes of the server."""

    def __init__(self, directory: Path) -> None:
        command = [sys.executable, "-c", "import sys; from basedpyright.langserver import main; sys.exit(main())", "--stdio"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=directory)
        self.uri = directory.as_uri()
        self._number = 0
        folders = [{"uri": self.uri, "name": "app"}]
        self.ask("initialize", {"processId": None, "rootUri": self.uri, "workspaceFolders": folders, "capabilities": {}})
        self.tell("initialized", {})
        document = {"uri": f"{self.uri}/resources.py", "languageId": "python", "version": 1, "text": CODE}
        self.tell("textDocument/didOpen", {"textDocument": document})

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        length = 0
        while (line := self.process.stdout.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        message: dict[str, Any] = json.loads(self.process.stdout.read(length))
        return message

    def tell(self, method: str, parameters: Any) -> None:
        self._send({"method": method, "params": parameters})

    def ask(self, method: str, parameters: Any) -> Any:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": parameters})
        while True:
            message = self._receive()
            if "method" in message and "id" in message:  # a question of the server
                items = message["params"].get("items", []) if message["method"] == "workspace/configuration" else []
                self._send({"id": message["id"], "result": [None] * len(items) if items else None})
            elif message.get("id") == self._number and "method" not in message:
                assert "error" not in message, message
                return message["result"]

    def offered(self, line: str, behind: str) -> set[str]:
        """What is offered in the line of CODE that contains this text, behind it."""
        number, text = next((number, text) for number, text in enumerate(CODE.splitlines()) if line in text)
        position = {"line": number, "character": text.index(behind, text.index(line)) + len(behind)}
        found = self.ask("textDocument/completion", {"textDocument": {"uri": f"{self.uri}/resources.py"}, "position": position})
        items = found["items"] if isinstance(found, dict) else found or []
        return {item["label"].strip("\"'") for item in items}


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    directory = tmp_path_factory.mktemp("edited")
    (directory / "schema.graphql").write_text(SCHEMA)
    (directory / "resources.py").write_text(CODE)
    write_stubs(directory)
    editor = Editor(directory)
    yield editor
    editor.ask("shutdown", None)
    editor.tell("exit", None)
    editor.process.communicate(timeout=LIMIT)


@pytest.mark.parametrize(
    ("line", "behind", "names"),
    [
        ("tables.", "tables.", {"Product", "Brand", "Folder"}),
        ("databases.shop.", "shop.", {"Seat", "Product"}),
        ("        product.", "product.", {"name", "price", "brand", "copy", "get_id"}),
        ('"conditions"', '"attribute": "', {"name", "price", "brand.country"}),
        ('{"sort"', '"attribute": "', {"name", "price", "brand.country"}),
        ("create(", '{"', {"name", "stock", "tags", "class"}),
        ("    changed.", "changed.", {"name", "price", "add_to", "save", "does_exist"}),
        ("        self.", "self.", {"price", "code", "update", "get_id"}),
    ],
)
def test_editors_offer_what_there_is(editor: Editor, line: str, behind: str, names: set[str]) -> None:
    assert names <= editor.offered(line, behind)
