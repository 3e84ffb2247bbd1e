"""One set of rules, every door: whatever interface a caller uses, the records that it shows, counts, joins, changes or tells of are those of a brute-force
filter; while records, related records, roles and rules change and subscriptions are open (spec: rows §1)."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import svc.testing
from svc.errors import ClientError, Problem
from tests.support import tracker
from tests.support.profile import half_by_day

NAMES = ("ann", "bob", "cat", "mod")
OWNERS = (*NAMES, "dan", None)
STATES = ("draft", "published", "closed")
OPERATIONS = [
    "search_by_conditions", "search_by_id", "describe_table", "insert", "update", "delete", "sql", "read_audit_log", "export_local",
]  # fmt: skip
ROLE = dict.fromkeys(("Project", "Issue", "Comment"), tracker.RIGHTS)


class Tracker:
    """The tracker in a whole instance, with a model of its records beside."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.data: dict[str, dict[str, dict[str, Any]]] = {"Project": {}, "Issue": {}, "Comment": {}}
        self.roles = dict.fromkeys(NAMES, "member") | {"mod": "moderator"}
        permission = {"operations": OPERATIONS, "data": {"tables": ROLE}}
        for role in ("member", "moderator"):
            app.operation("add_role", role=role, permission=permission)
        for name, role in self.roles.items():
            app.operation("add_user", username=name, password="blue-heron-7", role=role, active=True)
        app.operation("add_user", username="boss", password="blue-heron-7", role="super_user", active=True)

    @property
    def now_ms(self) -> float:
        return float(self.app.clock.seconds * 1000)

    def visible(self, table: str, name: str) -> set[str]:
        data = {each: list(records.values()) for each, records in self.data.items()}
        return {record["id"] for record in data[table] if tracker.may_read(table, record, name, data, self.now_ms, self.roles[name])}

    def put(self, table: str, record: dict[str, Any]) -> None:
        answer = self.app.put(f"/{table}/{record['id']}", {name: value for name, value in record.items() if name != "id"})
        if answer.status == 409:  # another record has the number
            return
        assert answer.status == 204, (answer.status, answer.text)
        self.data[table][record["id"]] = record

    def delete(self, table: str, key: str) -> None:
        assert self.app.delete(f"/{table}/{key}").status == 204
        self.data[table].pop(key, None)

    def reset(self) -> None:
        for table in self.data:
            assert self.app.delete(f"/{table}/").status == 204
            self.data[table] = {}
        for name in NAMES:
            self.set_role(name, "moderator" if name == "mod" else "member")

    def set_role(self, name: str, role: str) -> None:
        if self.roles[name] != role:
            self.app.operation("alter_user", username=name, role=role)
            self.roles[name] = role

    def change(self, source: random.Random) -> None:
        """One change of a record, or of a role."""
        table = source.choice(["Project", "Issue", "Issue", "Comment"])
        key = f"{table[0].lower()}{source.randrange(3 if table == 'Project' else 8)}"
        kind = source.random()
        if kind < 0.15:
            self.delete(table, key)
        elif kind < 0.22:
            self.set_role(source.choice(NAMES), source.choice(["member", "moderator"]))
        elif table == "Project":
            self.put(table, {"id": key, "open": source.random() < 0.4, "members": source.sample(NAMES, source.randrange(3))})
        elif table == "Comment":
            until = int(self.now_ms) + source.choice([-1000, 3_600_000])
            record = {"id": key, "author": source.choice(NAMES), "until": until, "text": "t", "issueId": f"i{source.randrange(8)}"}
            self.put(table, record)
        else:
            record = {
                "id": key,
                "owner": source.choice(OWNERS),
                "public": source.random() < 0.3,
                "state": source.choice(STATES),
                "number": source.randrange(20),
                "weight": source.randrange(3),
                "projectId": f"p{source.randrange(3)}",
            }
            self.put(table, record)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tracker]:
    path = tracker.write_app(tmp_path_factory.mktemp("tracker"))
    (path / "config.yaml").write_text("graphqlSchema: {files: schema.graphql}\nrest: true\ngraphql: {extended: true}\n")
    with svc.testing.app(str(path), sql_access="roles", operationsApi_importRoots=[tempfile.gettempdir()]) as app:
        yield Tracker(app)


# reading

Door = Callable[[Tracker, str, str], set[str]]


def keys(rows: Any) -> set[str]:
    found = [row["id"] for row in rows]
    assert len(set(found)) == len(found)
    return set(found)


def rest(site: Tracker, table: str, name: str) -> set[str]:
    found = keys(site.app.get(f"/{table}/", user=name).json)
    assert site.app.get(f"/{table}/?count()", user=name).json == {"count": len(found)}
    assert int(site.app.get(f"/{table}/?limit(1)", user=name, headers={"Prefer": "count=exact"}).headers["X-Total-Count"]) == len(found)
    return found


def rest_records(site: Tracker, table: str, name: str) -> set[str]:
    found = set()
    for key in site.data[table]:
        status = site.app.get(f"/{table}/{key}", user=name).status
        assert status in (200, 404)
        if status == 200:
            found.add(key)
    return found


def joined(site: Tracker, table: str, name: str) -> set[str]:
    """What the other tables lead to."""
    ways = {"Project": ("Issue", "project", False), "Issue": ("Project", "issues", True), "Comment": ("Issue", "comments", True)}
    other, relation, many = ways[table]
    found: set[str] = set()
    for row in site.app.get(f"/{other}/?select(id,{relation}{{id}})", user=name).json:
        related = row.get(relation)
        found |= {each["id"] for each in (related if many else [related] if related else [])}
    return found


def graphql(site: Tracker, table: str, name: str) -> set[str]:
    answer = site.app.post("/graphql", {"query": f"{{ {table} {{ id }} }}"}, user=name).json
    assert "errors" not in answer, answer
    return keys(answer["data"][table])


def sql(site: Tracker, table: str, name: str) -> set[str]:
    answer = site.app.post("/sql", {"sql": f"SELECT id FROM data.{table}"}, user=name)
    assert answer.status == 200, answer.text
    found = keys(answer.json)
    counted = site.app.post("/sql", {"sql": f"SELECT count(*) AS n FROM data.{table}"}, user=name).json
    assert counted == [{"n": len(found)}]
    return found


def operate(site: Tracker, name: str, operation: str, table: str, **fields: Any) -> Any:
    """The answer to a user who sends an operation."""
    interface = site.app.instance.server.operations_interface.operations
    body = {"operation": operation, "schema": "data", "table": table, **fields}
    return site.app.run(interface.perform(body, interface.node.directory.get_user(name), authorize=True))


def operations(site: Tracker, table: str, name: str) -> set[str]:
    condition = {"search_attribute": "id", "search_type": "greater_than", "search_value": ""}
    found = keys(operate(site, name, "search_by_conditions", table, conditions=[condition], get_attributes=["*"]))
    by_id = operate(site, name, "search_by_id", table, ids=sorted(site.data[table]), get_attributes=["id"]) if site.data[table] else []
    assert keys(by_id) == found
    assert operate(site, name, "describe_table", table, exact_count=True)["record_count"] == len(found)
    return found


def contents(site: Tracker, table: str, name: str) -> set[str]:
    """Lists in other forms, query objects, pages one after the other."""
    lines = site.app.get(f"/{table}/", user=name, headers={"Accept": "application/x-ndjson"}).text.splitlines()
    found = keys(json.loads(line) for line in lines)
    cells = csv.DictReader(io.StringIO(site.app.get(f"/{table}/?select(id,)", user=name, headers={"Accept": "text/csv"}).text))
    assert keys(cells) == found
    assert keys(site.app.query(f"/{table}/", {"select": ["id"]}, user=name).json) == found
    for order in ("id", "-id"):
        path, paged = f"/{table}/?sort({order})&limit(2)", list[Any]()
        while path:
            answer = site.app.get(path, user=name)
            paged += answer.json
            link = re.search("<([^>]*)>", answer.headers.get("Link") or "")
            path = "" if link is None else f"/{table}/{link[1]}"
        assert keys(paged) == found
    return found


def as_user(site: Tracker, table: str, name: str) -> set[str]:
    """Code of the application that looks as the user."""
    seen = getattr(site.app.tables, table).as_user(name)
    found = keys([{"id": row.id} for row in site.app.run(seen.search({}).to_list())])
    assert {key for key in site.data[table] if site.app.run(seen.get(key)) is not None} == found
    return found


def export(site: Tracker, table: str, name: str) -> set[str]:
    """A job that writes what a super user searches in the name of the user."""
    condition = {"search_attribute": "id", "search_type": "greater_than", "search_value": ""}
    search = {"operation": "search_by_conditions", "schema": "data", "table": table, "conditions": [condition], "get_attributes": ["*"]}
    with tempfile.TemporaryDirectory() as path:
        asked = {"path": path, "filename": "rows", "format": "json", "search_operation": search, "impersonate": {"username": name}}
        operate(site, "boss", "export_local", table, **asked)
        site.app.settle()
        return keys(json.loads((Path(path) / "rows.json").read_text()))


def history(site: Tracker, table: str, name: str) -> set[str]:
    """Of the log, the records that are there: an entry is shown only if its record may be read."""
    found = {key for entry in operate(site, name, "read_audit_log", table) for key in entry["hash_values"]}
    return {key for key in site.visible(table, name) if key not in found} | (found & site.data[table].keys())


DOORS: dict[str, Door] = {
    "rest": rest, "records": rest_records, "contents": contents, "graphql": graphql, "sql": sql, "operations": operations,
    "as_user": as_user, "history": history, "export": export,
}  # fmt: skip


def compare(site: Tracker) -> None:
    for name in NAMES:
        for table in site.data:
            expected = site.visible(table, name)
            for door, look in DOORS.items():
                assert look(site, table, name) == expected, (door, table, name, site.roles[name], site.now_ms, site.data[table])
        reached = {
            "Project": {site.data["Issue"][key].get("projectId") for key in site.visible("Issue", name)} & site.visible("Project", name),
            "Issue": {
                key for key in site.visible("Issue", name) if site.data["Issue"][key].get("projectId") in site.visible("Project", name)
            },
            "Comment": {
                key for key in site.visible("Comment", name) if site.data["Comment"][key].get("issueId") in site.visible("Issue", name)
            },
        }
        for table, expected in reached.items():
            assert joined(site, table, name) == expected, (table, name)


@settings(max_examples=half_by_day(6), deadline=None)
@given(st.integers(0, 2**32))
def test_every_door_shows_what_a_filter_finds(site: Tracker, seed: int) -> None:
    source = random.Random(seed)
    site.reset()
    for _ in range(3):
        for _ in range(8):
            site.change(source)
        compare(site)
    site.app.clock.advance(3601)
    compare(site)


# changing


def may_write(site: Tracker, action: str, name: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> bool:
    """The rules of issues once more."""
    if site.roles[name] == "moderator":
        return action != "delete" or (before or {}).get("state") != "published"
    if action == "create":
        return (after or {}).get("owner") == name
    assert before is not None
    if action == "update":
        return before.get("owner") == name and (after or {}).get("owner") == name
    return before.get("owner") == name and before.get("state") == "draft"


def write_rest(site: Tracker, name: str, action: str, key: str, record: dict[str, Any]) -> bool:
    if action == "delete":
        return bool(site.app.delete(f"/Issue/{key}", user=name).status == 204)
    if action == "update":
        return bool(site.app.patch(f"/Issue/{key}", record, user=name).status == 204)
    return bool(site.app.put(f"/Issue/{key}", record, user=name).status == 204)


def write_operation(site: Tracker, name: str, action: str, key: str, record: dict[str, Any]) -> bool:
    try:
        if action == "delete":
            return bool(operate(site, name, "delete", "Issue", ids=[key])["deleted_hashes"])
        if action == "update":
            return bool(operate(site, name, "update", "Issue", records=[{"id": key, **record}])["update_hashes"])
        return bool(operate(site, name, "insert", "Issue", records=[{"id": key, **record}])["inserted_hashes"])
    except Problem as problem:
        assert problem.status_code in (403, 404), problem.message
        return False


def write_sql(site: Tracker, name: str, action: str, key: str, record: dict[str, Any]) -> bool:
    if action == "delete":
        text, values = "DELETE FROM data.Issue WHERE id = ?", [key]
    elif action == "update":
        text, values = f"UPDATE data.Issue SET {', '.join(f'{each} = ?' for each in record)} WHERE id = ?", [*record.values(), key]
    else:
        text, values = f"INSERT INTO data.Issue (id, {', '.join(record)}) VALUES (?{', ?' * len(record)})", [key, *record.values()]
    answer = site.app.post("/sql", {"sql": text, "parameters": values}, user=name)
    assert answer.status in (200, 403), answer.text
    written = {"delete": "deleted_hashes", "update": "update_hashes", "create": "inserted_hashes"}[action]
    return bool(answer.status == 200 and answer.json[written])


def write_graphql(site: Tracker, name: str, action: str, key: str, record: dict[str, Any]) -> bool:
    calls = {
        "delete": ("mutation ($id: ID!) { delete_Issue(id: $id) }", {"id": key}),
        "update": ("mutation ($id: ID!, $v: IssuePatch!) { patch_Issue(id: $id, input: $v) { id } }", {"id": key, "v": record}),
        "create": ("mutation ($id: ID!, $v: IssueInput!) { put_Issue(id: $id, input: $v) { id } }", {"id": key, "v": record}),
    }
    text, variables = calls[action]
    answer = site.app.post("/graphql", {"query": text, "variables": variables}, user=name).json
    codes = {error["extensions"]["code"] for error in answer.get("errors", ())}
    assert codes <= {"ROW_NOT_ALLOWED", "NOT_FOUND"}, answer
    return not codes


def write_as_user(site: Tracker, name: str, action: str, key: str, record: dict[str, Any]) -> bool:
    issues = site.app.tables.Issue.as_user(name)
    verbs = {"delete": issues.delete, "update": issues.patch, "create": issues.put}
    try:
        site.app.run(verbs[action](*((key,) if action == "delete" else (key, record))))
    except ClientError as error:
        assert error.status_code in (403, 404), error.message
        return False
    return True


WRITERS = {"rest": write_rest, "operation": write_operation, "sql": write_sql, "graphql": write_graphql, "as_user": write_as_user}


@settings(max_examples=half_by_day(10), deadline=None)
@given(st.integers(0, 2**32))
def test_every_door_changes_what_the_rules_allow(site: Tracker, seed: int) -> None:
    source = random.Random(seed)
    site.reset()
    for _ in range(10):
        site.change(source)
    for _ in range(24):
        if source.random() < 0.2:
            site.change(source)
        name, door = source.choice(NAMES), source.choice(sorted(WRITERS))
        key = f"i{source.randrange(10)}"
        before = site.data["Issue"].get(key)
        seen = key in site.visible("Issue", name)
        action = "create" if before is None else source.choice(["update", "delete"])
        record: dict[str, Any] = {"owner": source.choice(NAMES), "state": source.choice(STATES)}
        if action == "update" and source.random() < 0.5:
            record = {"weight": source.randrange(5)}
        after = None if action == "delete" else {**(before or {}), **record, "id": key}
        expected = (action == "create" or seen) and may_write(site, action, name, before, after)
        done = WRITERS[door](site, name, action, key, record)
        stored = site.app.get(f"/Issue/{key}")
        if expected and after is not None:
            site.data["Issue"][key] = after
        elif expected:
            del site.data["Issue"][key]
        assert (stored.json if stored.status == 200 else None) == site.data["Issue"].get(key), (door, name, action, key, before, record)
        if action != "delete" or seen:  # to delete what is not there, or not there for the caller, is no fault
            assert done is expected, (door, name, action, key, before, record)


def test_the_app_is_there(site: Tracker) -> None:
    assert Path(tracker.__file__).is_file()
    assert site.app.get("/Issue/").status == 200
