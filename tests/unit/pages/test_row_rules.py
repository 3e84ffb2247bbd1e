"""Rules about rows in what browsers are shown (spec: rows §1.3): nothing tells of records that the visitor may not read."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import svc.testing
from svc.testing.application import Application
from tests.support import issues
from tests.support.issues import ISSUES, may_read, may_read_project, seen
from tests.support.pages import BROWSER


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    path: Path = tmp_path_factory.mktemp("app")
    (path / "config.yaml").write_text(
        "rest: {includeExpensiveRecordCountEstimates: true}\ngraphqlSchema: {files: schema.graphql}\nroles: {files: roles.yaml}\n"
    )
    (path / "schema.graphql").write_text(issues.SCHEMA)
    (path / "roles.yaml").write_text(issues.ROLES)
    with svc.testing.app(path) as app:
        issues.fill(app)
        yield app


def page(app: Application, path: str, user: str | None) -> tuple[int, str]:
    answer = app.get(path, user=user, headers={"Accept": BROWSER})
    assert answer.headers["Content-Type"].startswith("text/html"), answer.headers
    return answer.status, answer.text


def named(text: str) -> list[str]:
    return [issue["id"] for issue in ISSUES if issue["id"] in text]


def test_collections(app: Application) -> None:
    for user in ("ann", "bob", None, "mod", "ann"):
        status, text = page(app, "/Issue/", user)
        assert (status, named(text)) == (200, seen(user))
        status, text = page(app, "/Issue/?state=draft", user)
        assert (status, named(text)) == (200, seen(user, state="draft"))
        status, text = page(app, "/Issue/?facet(state)", user)
        assert status == 200 and named(text) == []


def test_the_number_of_records_is_that_of_those_that_are_seen(app: Application) -> None:
    whole = "of 24"
    assert whole in page(app, "/Issue/?limit(2)", "mod")[1]
    for user in ("ann", "eve", None):
        assert whole not in page(app, "/Issue/?limit(2)", user)[1]


def test_records(app: Application) -> None:
    for user in ("ann", "bob", "eve"):
        for issue in ISSUES[:8]:
            status, text = page(app, f"/Issue/{issue['id']}", user)
            assert status == (200 if may_read(issue, user) else 404)
            assert (issue["title"] in text) == (status == 200)
            assert page(app, f"/Issue/{issue['id']}?select(title)", user)[0] == status


def test_records_that_lead_to_hidden_ones(app: Application) -> None:
    for user in ("ann", "bob"):
        for project in issues.PROJECTS:
            status, text = page(app, f"/Project/{project['id']}", user)
            assert status == (200 if may_read_project(project, user) else 404)
            number = sum(issue["projectId"] == project["id"] for issue in ISSUES)
            assert f"({number})" not in text, text
    status, text = page(app, "/Comment/?select(id,issue{id,title})", "ann")
    assert status == 200 and named(text) == seen("ann")


def test_descriptions_do_not_say_how_many_there_are(app: Application) -> None:
    for user, is_told in (("ann", False), ("mod", True), (None, False)):
        found = app.get("/Issue", user=user).json
        assert ("auditSize" in found, "recordCount" in found) == (is_told, is_told)
        assert found["attributes"]
    found = app.get("/Issue").json
    assert found["recordCount"] == len(ISSUES) and found["auditSize"] >= len(ISSUES)
    assert app.get("/Comment", user="ann").json["recordCount"] == len(ISSUES)  # no rule is about these


def test_plans(app: Application) -> None:
    asked = {"Prefer": "explain"}
    for query in ("state=draft&title=title%201", "title=title%201&state=draft"):
        found = app.get(f"/Issue/?{query}", user="ann", headers=asked).json
        assert found.pop("planMilliseconds") >= 0 and found.pop("scanMilliseconds") >= 0
        assert found == {
            "conditions": [
                {"attribute": "state", "comparator": "equals", "value": "draft"},
                {"attribute": "title", "comparator": "equals", "value": "title 1"},
            ],
            "operator": "and",
            "selectApplied": False,
            "actualRows": len(seen("ann", state="draft", title="title 1")),
        }
    found = app.get("/Issue/", user="ann", headers=asked).json
    assert found["conditions"] == [] and "owner" not in str(found)
    found = app.get("/Issue/?state=draft", headers=asked).json
    assert {"access", "estimatedRows", "examined"} < found.keys()
    assert {"role": "moderator", "action": "delete", "text": "state!=published"} in found["rules"]
    assert {"role": None, "action": "create", "text": "owner==$user.username"} in found["rules"] and len(found["rules"]) == 7
    assert "rules" not in app.get("/Comment/?text=a", headers=asked).json
    planned = {"conditions": [{"attribute": "state", "value": "draft"}], "explain": True}
    assert app.query("/Issue/", planned, user="ann").json == {
        "conditions": [{"attribute": "state", "comparator": "equals", "value": "draft"}],
        "operator": "and",
        "selectApplied": False,
    }
    assert len(app.query("/Issue/", planned).json["rules"]) == 7
