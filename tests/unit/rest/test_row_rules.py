"""Rules on rows over REST: reading, counting, joining, writing (spec: rows §1.3, §1.4)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import tracker
from tests.support.node import Node, Wire


class Site:
    """The tracker behind REST."""

    def __init__(self, path: Path) -> None:
        self.node = Node(path / "data", tracker.write_app(path / "app"))
        assert not self.node.errors, self.node.errors
        self.store = self.node.store
        tracker.grant_all(self.store)
        self.now_ms = self.node.clock.wall() * 1000
        tracker.fill(self.store, self.now_ms)
        self.data = {"Project": tracker.PROJECTS, "Issue": tracker.ISSUES, "Comment": tracker.comments(self.now_ms)}
        self.wire: Wire = self.node.connect()

    def as_(self, name: str) -> Site:
        self.node.as_user(tracker.caller(self.store, name))
        return self

    def ask(self, method: str, target: str, body: Any = None, **fields: str) -> tuple[int, dict[str, str], Any]:
        content = b"" if body is None else json.dumps(body).encode()
        status, answered, rest = self.wire.ask(
            method, target, content, {"Content-Type": "application/json", "Accept": "application/json", **fields}
        )
        return status, answered, json.loads(rest) if rest else None

    def get(self, target: str) -> Any:
        status, _, body = self.ask("GET", target)
        assert status == 200, (status, body)
        return body

    def stored(self, key: str, table: str = "Issue") -> Any:
        from svc.store.values.records import decode

        raw = self.store.databases["data"].tables[table].get_raw(key)
        return None if raw is None else decode(raw)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path)
    yield found
    found.wire.sock.close()
    found.node.connections.close_all()
    found.node.close()


@pytest.mark.parametrize("name", tracker.CALLERS)
def test_a_caller_sees_what_the_rules_let_him(site: Site, name: str) -> None:
    site.as_(name)
    for table in ("Project", "Issue", "Comment"):
        expected = tracker.visible(table, name, site.data, site.now_ms)
        keys = sorted(record["id"] for record in expected)
        assert sorted(record["id"] for record in site.get(f"/{table}/")) == keys
        assert site.get(f"/{table}/?count()") == {"count": len(keys)}
        for record in site.data[table]:
            status, fields, body = site.ask("GET", f"/{table}/{record['id']}")
            assert status == (200 if record["id"] in keys else 404), (table, record)
            if status == 200:
                assert fields["cache-control"].startswith("private") or name == "root"
            else:
                assert body == site.ask("GET", f"/{table}/nobody")[2]
            assert site.ask("GET", f"/{table}/{record['id']}?select(id)")[0] == status
            assert site.ask("GET", f"/{table}/{record['id']}.id")[0] == status
            assert site.ask("HEAD", f"/{table}/{record['id']}")[0] == status
            tag = f'"{"0" * 11}"'
            assert site.ask("GET", f"/{table}/{record['id']}", **{"If-None-Match": tag})[0] == status


@pytest.mark.parametrize("name", tracker.CALLERS)
def test_conditions_counts_facets_groups_pages_and_joins_are_about_what_is_seen(site: Site, name: str) -> None:
    site.as_(name)
    issues = tracker.visible("Issue", name, site.data, site.now_ms)
    projects = {record["id"]: record for record in tracker.visible("Project", name, site.data, site.now_ms)}
    comments = tracker.visible("Comment", name, site.data, site.now_ms)
    for _ in range(3):  # the first time, as a shape, and prepared
        for state in ("draft", "published", "closed"):
            keys = [record["id"] for record in issues if record["state"] == state]
            assert [record["id"] for record in site.get(f"/Issue/?state={state}&sort(id)")] == keys
            assert site.get(f"/Issue/?state={state}&count()") == {"count": len(keys)}
    facet = {row["value"]: row["count"] for row in site.get("/Issue/?facet(state)")}
    assert facet == {state: count for state in ("draft", "published", "closed") if (count := sum(r["state"] == state for r in issues))}
    sums = {row["projectId"]: row["sum.weight"] for row in site.get("/Issue/?group(projectId;sum(weight))")}
    assert sums == {key: sum(r["weight"] for r in issues if r["projectId"] == key) for key in {r["projectId"] for r in issues}}

    rows = site.get("/Issue/?sort(id)&select(id,project{id,members},comments{id})")
    for row, record in zip(rows, issues, strict=True):
        seen = projects.get(record["projectId"])
        assert row.get("project") == (None if seen is None else {"id": seen["id"], "members": seen["members"]})
        assert sorted(each["id"] for each in row["comments"]) == sorted(each["id"] for each in comments if each["issueId"] == row["id"])
    rows = site.get("/Issue/?state=draft&sort(id)&select(id,project{members})")
    assert [row.get("project", {}).get("members") for row in rows] == [
        projects.get(record["projectId"], {}).get("members") for record in issues if record["state"] == "draft"
    ], "the rule, which goes through the project, does not narrow what is shown of it"
    assert [row["id"] for row in site.get("/Project/?issues.state=draft&sort(id)")] == sorted(
        {record["projectId"] for record in issues if record["state"] == "draft" and record["projectId"] in projects}
    )
    assert [row["id"] for row in site.get("/Comment/?issue.number=ge=0&sort(id)")] == sorted(
        each["id"] for each in comments if each["issueId"] in {record["id"] for record in issues}
    )

    found, cursor = [], ""
    while True:
        status, fields, body = site.ask("GET", f"/Issue/?number=ge=0&sort(-weight,id)&limit(5){cursor}")
        assert status == 200
        found += [record["id"] for record in body]
        link = fields.get("link", "")
        if 'rel="next"' not in link:
            break
        cursor = "&after(" + link.split("after(")[1].split(")")[0] + ")"
    assert found == [record["id"] for record in sorted(issues, key=lambda record: (-record["weight"], record["id"]))]


def test_two_callers_in_turn_are_not_mistaken_for_each_other(site: Site) -> None:
    for _ in range(4):
        for name in ("ann", "bob", "guest", "cat"):
            expected = [record["id"] for record in tracker.visible("Issue", name, site.data, site.now_ms) if record["state"] == "draft"]
            assert [record["id"] for record in site.as_(name).get("/Issue/?state=draft&sort(id)")] == expected


def test_time_passes(site: Site) -> None:
    site.as_("cat")
    assert len(site.get("/Comment/")) == 8
    site.node.clock.advance(61.0)
    assert site.get("/Comment/") == []


def refused(site: Site, method: str, target: str, body: Any = None) -> tuple[int, str]:
    status, _, answer = site.ask(method, target, body)
    return status, "" if answer is None else answer.get("code", "")


def test_writes(site: Site) -> None:
    site.as_("bob")  # i01, i05, i09 are his; i04 (p2) may be read; i02 (p3, cat's) may not
    hidden, seen, own = "i02", "i04", "i01"
    assert tracker.may_read("Issue", tracker.ISSUES[4], "bob", site.data, site.now_ms)
    for method, body in (("PUT", {"owner": "bob"}), ("PATCH", {"weight": 1}), ("DELETE", None)):
        before = site.stored(hidden)
        missing = site.ask("DELETE", "/Issue/none") if method == "DELETE" else (404, {}, None)
        assert site.ask(method, f"/Issue/{hidden}", body)[0] == missing[0]
        assert site.stored(hidden) == before
        before = site.stored(seen)
        assert refused(site, method, f"/Issue/{seen}", body) == (403, "ROW_NOT_ALLOWED")
        assert site.stored(seen) == before
    assert refused(site, "PUT", f"/Issue/{seen}/weight", 3) == (403, "ROW_NOT_ALLOWED")
    assert site.ask("PATCH", f"/Issue/{own}", {"weight": 9})[0] == 204
    assert refused(site, "PATCH", f"/Issue/{own}", {"owner": "ann"}) == (403, "ROW_NOT_ALLOWED")
    assert refused(site, "PUT", f"/Issue/{own}", {"owner": "ann", "weight": 1}) == (403, "ROW_NOT_ALLOWED")
    assert refused(site, "DELETE", f"/Issue/{own}") == (403, "ROW_NOT_ALLOWED")  # it is published
    assert site.ask("PATCH", f"/Issue/{own}", {"state": "draft"})[0] == 204
    assert site.ask("DELETE", f"/Issue/{own}")[0] == 204
    assert site.stored(own) is None


def test_new_records(site: Site) -> None:
    site.as_("bob")
    assert refused(site, "POST", "/Issue/", {"owner": "ann"}) == (403, "ROW_NOT_ALLOWED")
    assert refused(site, "POST", "/Issue/", {}) == (403, "ROW_NOT_ALLOWED")
    assert refused(site, "PUT", "/Issue/new", {"owner": "ann"}) == (403, "ROW_NOT_ALLOWED")
    assert refused(site, "PATCH", "/Issue/new", {"owner": "ann"}) == (403, "ROW_NOT_ALLOWED")
    assert site.stored("new") is None
    status, _, key = site.ask("POST", "/Issue/", {"owner": "bob"})
    assert status == 201 and site.stored(key)["owner"] == "bob"
    before = len(site.as_("root").get("/Issue/"))
    site.as_("bob")
    assert site.ask("POST", "/Issue/", [{"owner": "bob"}, {"owner": "ann"}])[0] == 403
    assert len(site.as_("root").get("/Issue/")) == before, "a list is stored as a whole or not at all"
    assert site.as_("mod").ask("POST", "/Issue/", {"owner": "ann"})[0] == 201, "no rule speaks of what moderators create"
    site.as_("guest")
    assert refused(site, "POST", "/Issue/", {"owner": "guest"})[0] == 401


def test_collections_are_narrowed_and_not_refused(site: Site) -> None:
    site.as_("bob")
    drafts = [record["id"] for record in tracker.ISSUES if record["owner"] == "bob" and record["state"] == "draft"]
    status, fields, _ = site.ask("DELETE", "/Issue/?weight=ge=0&state=draft")
    assert status == 204 and int(fields["x-deleted-count"]) == len(drafts) > 0
    left = {record["id"] for record in site.as_("root").get("/Issue/")}
    assert left == {record["id"] for record in tracker.ISSUES} - set(drafts)
    status, fields, _ = site.as_("mod").ask("DELETE", "/Issue/")
    assert status == 204
    assert {record["state"] for record in site.as_("root").get("/Issue/")} == {"published"}


def test_unique_values_of_hidden_records(site: Site) -> None:
    status, _, body = site.as_("bob").ask("POST", "/Issue/", {"owner": "ann", "number": 2})
    assert (status, body["code"]) == (403, "ROW_NOT_ALLOWED"), "what may not be written tells nothing of others"


def test_a_rule_changes_with_the_schema(site: Site) -> None:
    from dataclasses import replace

    site.as_("cat")
    assert 0 < len(site.get("/Issue/")) < len(tracker.ISSUES)
    database = site.store.databases["data"]
    table = database.tables["Issue"]
    database.define_table(replace(table.definition, allow=()))
    assert len(site.get("/Issue/")) == len(tracker.ISSUES)


def test_the_requirement_of_an_index_is_about_the_caller(site: Site) -> None:
    site.as_("ann")
    status, _, body = site.ask("GET", "/Issue/?weight=3")
    assert (status, body["code"]) == (400, "NOT_INDEXED")
