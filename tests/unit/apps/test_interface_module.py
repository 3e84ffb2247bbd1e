"""What `svc` is to modules of an application: `server`, `auth`, `config` and `resources` are objects, not the packages of these names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.node import Node

CODE = """
import svc
from svc import auth, config, contentTypes, resources, server, ClientError, Response
from svc import *
import helpers

names = sorted(name for name in dir(svc) if not name.startswith("_"))
same = svc.server is server and helpers.server is server
try:
    svc.nothing
except AttributeError as error:
    missing = str(error)

async def listen(request, next):
    return {"user": (await auth("nobody")), "app": config.get("rest"), "known": "Thing" in resources}

server.http(listen)
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    app = tmp_path / "shop"
    app.mkdir()
    (app / "schema.graphql").write_text("type Thing @table @export { id: ID @primaryKey }")
    (app / "resources.py").write_text(CODE)
    (app / "helpers.py").write_text("from svc import server\n")
    made = Node(tmp_path / "store", app)
    yield made
    made.close()


def test_the_objects_of_the_instance_are_what_is_imported(node: Node) -> None:
    assert node.app.modules is not None
    (module,) = node.app.modules.loaded
    found: dict[str, Any] = vars(module)
    assert repr(found["server"]) == "<server of shop>"
    assert found["same"]
    assert "tables" in found["names"]
    assert "nothing" in found["missing"]
    assert node.connect().ask("GET", "/else")[2] == b'{"user":null,"app":true,"known":true}'


def test_the_listeners_of_an_application_go_with_it(node: Node) -> None:
    node.run(node.applications.remove("shop"))
    assert node.connect().ask("GET", "/else")[0] == 404


def test_a_module_that_fails_listens_to_nothing(tmp_path: Path) -> None:
    app = tmp_path / "shop"
    app.mkdir()
    (app / "resources.py").write_text("server.http(lambda request, next: {'half': True}, run_first=True)\nraise KeyError('after that')\n")
    node = Node(tmp_path / "store", app)
    assert node.connect().ask("GET", "/else")[0] == 404
    assert not node.listeners
    node.close()
