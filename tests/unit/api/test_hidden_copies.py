"""Hidden records of tables with a source, and of classes that let callers in, are as none in all that an answer tells (spec: rows §1.3, §1.7)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import svc.testing
from svc.testing.application import Application

SCHEMA = """
type Copy @table(expiration: 100) @export
  @allow(read: "owner==$user.username", create: "owner==$user.username", update: "owner==$user.username", delete: "owner==$user.username") {
  id: ID @primaryKey
  owner: ID @indexed
}
type Note @table @export @allow(read: "owner==$user.username") { id: ID @primaryKey  owner: ID @indexed }
"""
CODE = """
from svc import Resource, tables

class Source(Resource):
    def get(self, target):
        return {"owner": "zoe"} if target.id == "hidden" else None

tables.Copy.sourced_from(Source)

class Copies(tables.Copy):
    async def get(self, target):
        return await super().get(target)

class Open(tables.Note):
    def allow_read(self, user, target):
        return True
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Application]:
    (tmp_path / "schema.graphql").write_text(SCHEMA)
    (tmp_path / "resources.py").write_text(CODE)
    (tmp_path / "config.yaml").write_text("graphqlSchema: {files: schema.graphql}\nrest: true\nresources: {files: resources.py}\n")
    with svc.testing.app(str(tmp_path)) as made:
        rights = {"read": True, "insert": True, "update": True, "delete": True, "attribute_permissions": []}
        made.operation("add_role", role="member", permission={"data": {"tables": {"Copy": rights, "Note": rights}}})
        made.operation("add_user", username="ann", password="blue-heron-7", role="member", active=True)
        made.put("/Note/hidden", {"owner": "zoe"})
        assert made.get("/Copy/hidden").json == {"id": "hidden", "owner": "zoe"}  # it is here
        yield made


def told(app: Application, method: str, path: str, user: str | None, body: Any = None, **headers: str) -> Any:
    arguments = (path,) if body is None else (path, body)
    found = getattr(app, method)(*arguments, user=user, headers={name.replace("_", "-"): value for name, value in headers.items()})
    fields = {name.lower(): value for name, value in found.headers.items() if name.lower() != "date"}
    return found.status, fields, found.text


@pytest.mark.parametrize("place", ["Copy", "Copies"])
@pytest.mark.parametrize("directive", ["", "no-cache", "only-if-cached", "max-age=10"])
def test_nothing_tells_of_a_copy(app: Application, place: str, directive: str) -> None:
    headers = {"Cache_Control": directive} if directive else {}
    for query in ("", "?select(owner)"):
        found = told(app, "get", f"/{place}/hidden{query}", "ann", **headers)
        assert found == told(app, "get", f"/{place}/none{query}", "ann", **headers)
        assert found[0] == (504 if directive == "only-if-cached" else 404)


def test_nothing_tells_of_a_copy_to_who_deletes(app: Application) -> None:
    for match in ("", "*"):
        headers = {"If_Match": match} if match else {}
        assert told(app, "delete", "/Copy/hidden", "ann", **headers) == told(app, "delete", "/Copy/none", "ann", **headers)


def test_super_users_are_told_the_age(app: Application) -> None:
    assert app.get("/Copy/hidden").headers["Age"] == "0"


def test_what_is_not_there_is_answered_as_what_is_hidden(app: Application) -> None:
    for user in (None, "ann"):
        assert told(app, "get", "/Open/hidden", user) == told(app, "get", "/Open/none", user)
