"""Values of callers in rules on rows, as a caller may choose them (spec: rows §1.2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import svc.testing
from svc.testing.application import Application

SCHEMA = """
type Person @table @account @export { username: ID @primaryKey  team: String  teams: [String] }
type Equal @table @export @allow(read: "team==$user.team") { id: ID @primaryKey  team: Int @indexed }
type Strict @table @export @allow(read: "team===$user.team") { id: ID @primaryKey  team: Int }
type Other @table @export @allow(read: "team!=$user.team") { id: ID @primaryKey  team: Int @indexed }
type Member @table @export @allow(read: "team==$user.teams") { id: ID @primaryKey  team: Int @indexed }
type Mixed @table @export @allow(read: "team==$user.team|flag==$user.team|share==$user.team") {
  id: ID @primaryKey
  team: Date
  flag: Boolean
  share: Float
}
type Named @table @export @allow(read: "owner==$user.username") { id: ID @primaryKey  owner: Int @indexed }
"""
TABLES = ("Equal", "Strict", "Other", "Member", "Mixed", "Named")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Application]:
    (tmp_path / "schema.graphql").write_text(SCHEMA)
    (tmp_path / "config.yaml").write_text("graphqlSchema: {files: schema.graphql}\nrest: true\n")
    with svc.testing.app(str(tmp_path)) as made:
        rights = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}
        made.operation("add_role", role="member", permission={"data": {"tables": dict.fromkeys(TABLES, rights)}})
        for table in TABLES:
            made.put(f"/{table}/", [{"id": "none"}, {"id": "null", "owner" if table == "Named" else "team": None}])
        yield made


@pytest.mark.parametrize("text", ["null", "", "NULL", "abc"])
def test_no_text_finds_what_is_nobodys(app: Application, text: str) -> None:
    app.operation("add_user", username="ann", password="blue-heron-7", role="member", active=True)
    app.put("/Person/ann", {"team": text, "teams": [text]})
    for table in TABLES:
        assert app.get(f"/{table}/", user="ann").json == [], table
        assert {app.get(f"/{table}/{key}", user="ann").status for key in ("none", "null")} == {404}, table


def test_a_name_is_not_null(app: Application) -> None:
    app.operation("add_user", username="null", password="blue-heron-7", role="member", active=True)
    assert app.get("/Named/", user="null").json == []
