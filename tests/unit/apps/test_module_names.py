"""svc.apps.modules: names of modules that others have too, mappings that are no trees, addresses that cannot be."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.application import application

SHOWN = """
from svc import Resource
class X(Resource):
    def get(self, query=None):
        return str(({},))
"""


@pytest.mark.parametrize(
    ("code", "value", "files", "shown"),
    [
        ("from p import *", "A, q.Q", {"p/__init__.py": "__all__ = ['A', 'q']\nA = 1", "p/q.py": "Q = 2"}, "(1, 2)"),
        ("from a import *", "A, '_B' in globals()", {"a.py": "A = 1\n_B = 2"}, "(1, False)"),
        ("import json", "json.loads('[1]')", {"json/tool.py": ""}, "([1],)"),
        ("import email.mime.text", "email.mime.text.__name__", {"email/other.py": ""}, "('email.mime.text',)"),
        ("import json", "json.OWN", {"json/__init__.py": "OWN = 3"}, "(3,)"),
        ("import json", "json.OWN", {"json.py": "OWN = 3"}, "(3,)"),
        ("import parts.deep.one", "parts.deep.one.A", {"parts/deep/one.py": "A = 4"}, "(4,)"),
    ],
)
def test_what_a_name_means(tmp_path: Path, code: str, value: str, files: dict[str, str], shown: str) -> None:
    with application(tmp_path, f"{code}\n{SHOWN.format(value)}", files=files) as app:
        assert app.ask("GET", "/X/") == (200, shown)


ENDLESS = """
from svc import Resource
class One(Resource):
    def get(self, query=None):
        return "one"
api = {"deep": {"one": One}}
api["deep"]["again"] = api
depth = bottom = {}
for _ in range(3000):
    bottom["next"] = {}
    bottom = bottom["next"]
nodes = [{} for _ in range(40)]
graph = nodes[0]
for node in nodes:
    node.update((f"to{number}", other) for number, other in enumerate(nodes))
"""


def test_mappings_without_an_end(tmp_path: Path) -> None:
    with application(tmp_path, ENDLESS) as app:
        assert app.ask("GET", "/api/deep/one") == (200, "one")


ADDRESSES = """
from svc import Resource
class Wrong(Resource):
    path = "/:"
class Behind(Resource):
    path = "/*/x"
class Taken(Resource):
    path = "/taken/:details"
class User(Resource):
    path = "/users/:id/posts"
    def get(self, query=None):
        return [self.get_id(), query.id]
class Fine(Resource):
    path = "/tour/:city"
    def get(self, query=None):
        return query.city
"""


def test_an_address_that_cannot_be_is_an_error_of_that_class_alone(tmp_path: Path) -> None:
    with application(tmp_path, ADDRESSES, healthy=False) as app:
        messages: Any = app.node.app.entries["resources"].messages
        assert [message.split(" at ")[0] for message in messages] == [f"resources.py: {name}" for name in ("Wrong", "Behind", "Taken")]
        assert app.ask("GET", "/tour/Rome") == (200, "Rome")
        assert app.ask("GET", "/users/7/posts") == (200, ["7", "7"])
        assert app.ask("GET", "/users/7/posts/8") == (200, ["8", "8"])
        assert app.ask("GET", "/tour/%ff")[0] == 400


def test_nothing_of_an_application_is_kept_when_its_server_has_ended(tmp_path: Path) -> None:
    with application(tmp_path, SHOWN.format("1")) as app:
        package = app.node.app.modules.package  # type: ignore[union-attr]
        assert f"{package}.resources" in sys.modules
        finders = len(sys.meta_path)
        app.node.interface.end()
        assert not [name for name in sys.modules if name.startswith(package)] and len(sys.meta_path) == finders - 1
