"""What a caller is told of the record that a write is in conflict with (spec: schema-and-store §4.4, rows §1.4)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import svc.testing
from svc.testing.application import Application

SCHEMA = """
type Team @table @export { id: ID @primaryKey  name: String @unique }
type Player @table @export @allow(read: "owner==$user.username") {
  id: ID @primaryKey
  owner: ID @indexed
  mail: String @unique
  teamId: ID @indexed
  team: Team @relationship(from: teamId, onDelete: restrict)
}
"""
ROLES = """
member:
  data:
    Team: {read: true, insert: true, update: true, delete: true}
    Player: {read: true, insert: true, update: true, delete: true}
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Application]:
    (tmp_path / "config.yaml").write_text("rest: true\ngraphqlSchema: {files: schema.graphql}\nroles: {files: roles.yaml}\n")
    (tmp_path / "schema.graphql").write_text(SCHEMA)
    (tmp_path / "roles.yaml").write_text(ROLES)
    with svc.testing.app(tmp_path) as app:
        for name in ("ann", "bob"):
            app.operation("add_user", username=name, password="a long one", role="member", active=True)
        assert app.put("/Team/t", {"name": "T"}).status == 204
        assert app.put("/Player/secret", {"owner": "bob", "teamId": "t", "mail": "m"}).status == 204
        yield app


def test_a_record_that_hidden_ones_refer_to(app: Application) -> None:
    narrowed = app.delete("/Team/t", user="ann")
    assert (narrowed.status, narrowed.json["code"]) == (409, "STILL_REFERENCED")
    assert "secret" not in narrowed.text and "1 record" not in narrowed.text
    assert "1 record refers" not in app.delete("/Team/t", user="bob").text  # others may refer to it that bob does not see
    assert "Player 'secret'" in app.delete("/Team/t").text


def test_a_unique_value_of_a_hidden_record(app: Application) -> None:
    for user, is_named in (("ann", False), ("bob", True), ("ann", False)):
        refused = app.post("/Player/", {"owner": user, "mail": "m"}, user=user)
        assert (refused.status, "secret" in refused.text, "property mail" in refused.text) == (409, is_named, True)
    listed = app.post("/Player/", [{"owner": "ann", "mail": "n"}, {"owner": "ann", "mail": "m"}], user="ann")
    assert listed.status == 409 and "secret" not in listed.text
    assert "of Team" in app.post("/Team/", {"name": "T"}, user="ann").text  # no rule is about teams
