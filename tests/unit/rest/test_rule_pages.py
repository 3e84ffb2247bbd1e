"""A rule with `|` takes neither pages nor the order of a list away (spec: rows §1.5, query §8.2, §8.3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import svc.testing
from svc.testing.application import Application

SCHEMA = """
type Team @table @export { id: ID @primaryKey  members: [ID] @indexed  tasks: [Task] @relationship(to: "teamId") }
type Task @table @export @allow(read: "owner==$user.username|team.members==$user.username") {
  id: ID @primaryKey
  owner: ID @indexed
  weight: Int @indexed
  teamId: ID @indexed
  team: Team @relationship(from: "teamId")
}
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Application]:
    (tmp_path / "schema.graphql").write_text(SCHEMA)
    (tmp_path / "config.yaml").write_text("graphqlSchema: {files: schema.graphql}\nrest: true\n")
    with svc.testing.app(str(tmp_path)) as made:
        rights = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}
        made.operation("add_role", role="member", permission={"data": {"tables": {"Task": rights, "Team": rights}}})
        made.operation("add_user", username="ann", password="blue-heron-7", role="member", active=True)
        made.put("/Team/", [{"id": "ours", "members": ["ann"]}, {"id": "theirs", "members": ["zoe"]}])
        tasks = [{"id": f"h{number:03}", "owner": "zoe", "teamId": "theirs", "weight": number % 3} for number in range(300)]
        tasks += [{"id": f"a{number:02}", "owner": "ann", "weight": number % 5} for number in range(0, 12, 2)]
        tasks += [{"id": f"a{number:02}", "owner": "zoe", "teamId": "ours", "weight": number % 5} for number in range(1, 12, 2)]
        made.put("/Task/", tasks)
        yield made


@pytest.mark.parametrize("query", ["limit(5)", "select(id)&limit(5)", "weight=ge=0&limit(5)", "weight=ge=0&weight=le=9&limit(3)"])
def test_each_page_leads_to_the_next(app: Application, query: str) -> None:
    path, found = f"/Task/?{query}", list[str]()
    while path:
        answer = app.get(path, user="ann")
        found += [row if isinstance(row, str) else row["id"] for row in answer.json]
        link = re.search("<([^>]*)>", answer.headers.get("Link") or "")
        path = "" if link is None else f"/Task/{link[1]}"
    assert sorted(found) == [f"a{number:02}" for number in range(12)]
    assert "weight" in query or found == sorted(found)


def test_a_list_without_conditions_comes_in_the_order_of_the_keys(app: Application) -> None:
    assert app.get("/Task/?select(id)", user="ann").json == [f"a{number:02}" for number in range(12)]
