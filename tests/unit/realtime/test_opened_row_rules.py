"""Rules on rows where code of an application lets callers in, and where a rule lets nobody read (spec: rows §1.6)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import svc.testing
from svc.testing.application import Application
from tests.unit.testing.conftest import write_application

SCHEMA = """
type Note @table @export @allow(read: "owner==$user.username|public==true") @allow(roles: ["nobody"], read: "false") {
  id: ID @primaryKey
  owner: ID
  public: Boolean
}
type Open @table @allow(read: "owner==$user.username|public==true") @allow(roles: ["nobody"], read: "false") {
  id: ID @primaryKey
  owner: ID
  public: Boolean
}
"""
RESOURCES = """
from svc import tables

class Open(tables.Open):
    __export__ = True
    def allow_read(self, user, target):
        return True
"""
RIGHTS = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}
PERMISSION = {"data": {"tables": {"Note": RIGHTS}}}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    files = {
        "config.yaml": "rest: true\ngraphqlSchema: {files: '*.graphql'}\nresources: {files: resources.py}\n",
        "schema.graphql": SCHEMA,
        "resources.py": RESOURCES,
    }
    with svc.testing.app(write_application(tmp_path_factory.mktemp("opened") / "notes", files)) as app:
        for role in ("member", "nobody"):
            app.operation("add_role", role=role, permission=PERMISSION)
            app.operation("add_user", username=f"ann-{role}", password="blue-heron-7", role=role, active=True)
        yield app


@pytest.fixture(autouse=True)
def empty(app: Application) -> None:
    for path in ("/Note/", "/Open/"):
        app.delete(path)


@pytest.mark.parametrize("path", ["Note", "Open"])
@pytest.mark.parametrize(("name", "seen"), [("ann-member", ["1", "3"]), ("ann-nobody", []), (None, ["3"])])
def test_each_way_shows_what_the_rule_lets_be_seen(app: Application, path: str, name: str | None, seen: list[str]) -> None:
    if name is None and path == "Note":
        return  # who has no right to it
    for key, owner, public in (("1", "ann-member", False), ("2", "dan", False), ("3", "dan", True)):
        app.put(f"/{path}/{key}", {"owner": owner, "public": public})
    stream, socket, rows = app.events(f"/{path}/", user=name), app.connect(f"/{path}/", user=name), app.live(f"/{path}/", user=name)
    clients = [] if name is None else [app.mqtt(user=name)]
    for client in clients:
        assert client.subscribe(f"{path}/#") == 0
    app.settle()
    for source in (stream, socket):
        assert [event["id"] for event in source.take()] == seen
    for client in clients:
        assert [message.topic for message in client.take()] == [f"{path}/{key}" for key in seen]
    assert [row["id"] for row in rows] == seen
    for key, owner, public in (("4", "ann-member", False), ("5", "dan", False), ("6", "dan", True), ("7", "dan", False)):
        app.put(f"/{path}/{key}", {"owner": owner, "public": public})
    app.delete(f"/{path}/7")
    later = [str(int(key) + 3) for key in seen]
    for source in (stream, socket):
        assert [event["id"] for event in source.take()] == later
        source.close()
    for client in clients:
        assert [message.topic for message in client.take()] == [f"{path}/{key}" for key in later]
        client.disconnect()
    assert sorted(row["id"] for row in rows) == sorted([*seen, *later])
    rows.close()
