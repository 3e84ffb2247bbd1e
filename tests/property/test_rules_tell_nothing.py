"""What is hidden makes no difference: two instances, one of them with records more that a rule hides, give the same answers to a caller who may not read
them, whatever is asked (spec: rows §1.3, §1.5, §1.7)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

import svc.testing
from svc.errors import Problem
from svc.testing.application import Application
from tests.support import tracker

SECRET = "SECRET"
VISIBLE: list[tuple[str, dict[str, Any]]] = [
    ("Project", {"id": "p1", "open": True, "members": ["zoe"]}),
    ("Project", {"id": "p2", "open": False, "members": ["ann"]}),
    ("Issue", {"id": "i1", "owner": "ann", "state": "draft", "number": 1, "weight": 3, "projectId": "p1"}),
    ("Issue", {"id": "i2", "owner": "bob", "public": True, "state": "published", "number": 2, "weight": 1, "projectId": "ph"}),
    ("Issue", {"id": "i3", "owner": "bob", "state": "draft", "number": 3, "weight": 3, "projectId": "p2"}),
    ("Comment", {"id": "c1", "author": "ann", "until": 0, "text": "t", "issueId": "i1"}),
    ("Comment", {"id": "c2", "author": "bob", "until": 9_000_000_000_000, "text": "t", "issueId": "h1"}),
    ("Comment", {"id": "c3", "author": "bob", "until": 9_000_000_000_000, "text": "t", "issueId": "i2"}),
]
HIDDEN: list[tuple[str, dict[str, Any]]] = [
    ("Project", {"id": "ph", "open": False, "members": ["zoe"]}),
    ("Issue", {"id": "h1", "owner": "zoe", "state": SECRET, "number": 77, "weight": 9, "projectId": "p1"}),
    ("Issue", {"id": "h2", "owner": "zoe", "state": "draft", "number": 78, "weight": 3, "projectId": "ph"}),
    ("Issue", {"id": "i1.csv", "owner": "zoe", "state": SECRET, "number": 80, "projectId": "p1"}),
    ("Issue", {"id": "i1/state", "owner": "zoe", "state": SECRET, "number": 81}),
    ("Comment", {"id": "ch", "author": "zoe", "until": 0, "text": SECRET, "issueId": "i1"}),
]
CALLERS = ("ann", "bob", None)
KEYS = ("h1", "h2", "none", "i1.csv", "i1.json", "i1/state", "i1/number", "i1", "i2", "h1.json", "h1.state", "h1/state", "h1/", "i1/")
CONDITIONS: list[dict[str, str]] = [
    {},
    {"If-None-Match": "*"},
    {"If-Match": '"x"'},
    {"Range": "bytes=0-3"},
    {"If-Modified-Since": "Mon, 01 Jan 2035 00:00:00 GMT"},
    {"Prefer": "explain"},
    {"Accept": "text/html"},
    {"Accept": "text/csv"},
    {"Accept": "image/png"},
]
ISSUES = (
    "", "?count()", "?facet(state)", "?facet(project.open)", "?group(state;count,sum(weight),min(number))", "?group(project.open;count)",
    "?group(;count,max(number))", "?state==draft", "?state==S*", "?number==77", "?number=gt=2&sort(-number)", "?sort(-project.id)",
    "?sort(-comments.text)&id=ge=a", "?limit(1)", "?limit(2)&sort(-number)", "?project.id=ph", "?comments.text=t", "?owner==z*", "?id==h*",
    "?[weight==3|state==published]", "?comments[sort(-text)&limit(1)]", "?project.issues.number=ge=2", "?project.open==false",
    "?select(id,project{id,issues{id,comments{id}}})", "?select(id,comments{id,issue{id,project{id}}})", "?project.id!=p1", "?comments.id==null",
)  # fmt: skip
PROJECTS = (
    "", "?select(id,issues{id,number})", "?issues.number=gt=1", "?issues.owner=zoe", "?facet(issues.state)", "?sort(-issues.number)&id=ge=a",
    "?group(issues.owner;count,sum(issues.weight))", "?select(id,issues[sort(-number)&limit(1)])",
)  # fmt: skip
COMMENTS = (
    "", "?select(id,issue{id})", "?issue.id==h1", "?issue.number=gt=0", "?facet(issue.state)", "?group(issue.owner;count)", "?issueId==h1",
    "?sort(-issue.number)&id=ge=a", "?issue.number!=1",
)  # fmt: skip
LISTS: list[dict[str, str]] = [
    {},
    {"Prefer": "count=exact"},
    {"Prefer": "count=estimated"},
    {"Prefer": "explain"},
    {"Accept": "text/csv"},
    {"Accept": "application/x-ndjson"},
    {"Accept": "text/html"},
]
STATEMENTS = (
    "SELECT * FROM data.Issue",
    "SELECT count(*) AS c, max(number) AS m, min(id) AS i, group_concat(id) AS g FROM data.Issue",
    "SELECT * FROM data.Comment c LEFT JOIN data.Issue i ON c.issueId = i.id",
    "SELECT * FROM data.Issue FULL OUTER JOIN data.Project ON Issue.projectId = Project.id",
    "SELECT id FROM data.Comment c WHERE NOT EXISTS (SELECT 1 FROM data.Issue i WHERE i.id = c.issueId)",
    "SELECT id FROM data.Comment WHERE issueId NOT IN (SELECT id FROM data.Issue)",
    "WITH x AS (SELECT * FROM data.Issue) SELECT max(number) AS m FROM x",
    "SELECT id FROM data.Issue UNION SELECT id FROM data.Project",
    "SELECT id, row_number() OVER (ORDER BY number) AS r, count(*) OVER () AS c, lag(state) OVER (ORDER BY number) AS l FROM data.Issue",
    "SELECT owner, count(*) AS c FROM data.Issue GROUP BY owner",
    "SELECT id FROM data.Issue ORDER BY number DESC LIMIT 1",
    "SELECT id FROM data.Issue WHERE number IN (77, 78) OR id = 'h1'",
    f"SELECT abs(-9223372036854775807 - 1) FROM data.Issue WHERE state = '{SECRET}'",
    "EXPLAIN SELECT * FROM data.Issue WHERE number = 77",
    "UPDATE data.Issue SET weight = weight WHERE owner = 'zoe' RETURNING *",
    "DELETE FROM data.Issue WHERE owner = 'zoe' RETURNING *",
)
DOCUMENTS = (
    "{ Issue { id project { id issues { id number } } comments { id issue { id } } } }",
    '{ Issue(id: "h1") { id state } }',
    "{ Comment { id issue { id state project { id } } } }",
    "{ Project { id issues { id } } }",
)
OPERATIONS: list[tuple[str, dict[str, Any]]] = [
    ("describe_all", {}),
    ("describe_database", {}),
    *[("describe_table", {"table": table, "exact_count": exact}) for table in ("Issue", "Remark") for exact in (False, True)],
    ("search_by_id", {"table": "Issue", "ids": ["h1", "i1", "i1.csv"], "get_attributes": ["*"]}),
    ("search_by_value", {"table": "Issue", "attribute": "owner", "value": "*", "get_attributes": ["*"]}),
    ("search_by_value", {"table": "Comment", "attribute": "id", "value": "*", "get_attributes": ["id", "issue"]}),
    ("system_information", {"attributes": ["table_size", "database_metrics"]}),
]  # fmt: skip


def made(path: Any, *, has_hidden: bool) -> Application:
    app = svc.testing.app(str(tracker.write_app(path)), sql_access="roles")
    app.operation("create_table", database="data", table="Remark", primary_key="id")  # of which no rule speaks
    permission = {"data": {"tables": dict.fromkeys(("Project", "Issue", "Comment", "Remark"), tracker.RIGHTS)}}
    for role in ("member", "moderator", "anonymous"):
        try:
            app.operation("add_role", role=role, permission=permission)
        except Problem:  # it is there
            app.operation("alter_role", role=role, permission=permission)
    for name in ("ann", "bob", "zoe"):
        app.operation("add_user", username=name, password="blue-heron-7", role="member", active=True)
    for table, record in VISIBLE + (HIDDEN if has_hidden else []):
        assert app.put(f"/{table}/{quote(record['id'], safe='')}", record).status == 204
    return app


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Application, Application]]:
    with (
        made(tmp_path_factory.mktemp("with") / "app", has_hidden=True) as one,
        made(tmp_path_factory.mktemp("without") / "app", has_hidden=False) as other,
    ):
        yield one, other


def answer(app: Application, method: str, path: str, user: str | None, body: Any = None, headers: dict[str, str] | None = None) -> Any:
    """What a caller can see of an answer, but times and entity tags."""
    call = getattr(app, method)
    arguments = (path,) if body is None else (path, body)
    found = call(*arguments, user=user, headers=headers or {})
    fields = {name.lower(): value for name, value in found.headers.items()}
    for name in ("date", "etag", "last-modified", "content-length", "server-timing"):
        fields.pop(name, None)
    assert found.status < 500
    return found.status, fields, plain(found.text)


def plain(text: str) -> str:
    return re.sub(r"\d{13}(\.\d+)?", "<ms>", text)


def same(pair: tuple[Application, Application], method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> None:
    for user in CALLERS:
        if user is None and path == "/sql":
            continue
        one, other = (answer(app, method, path, user, body, headers) for app in pair)
        assert one == other, (user, method, path, body, headers)


@pytest.mark.parametrize("key", KEYS)
def test_records(pair: tuple[Application, Application], key: str) -> None:
    for headers in CONDITIONS:
        same(pair, "get", f"/Issue/{key}", headers=headers)
    for method in ("get", "head", "options"):
        same(pair, method, f"/Issue/{key}?select(id,project{{id,issues{{id}}}})")


@pytest.mark.parametrize("headers", LISTS, ids=str)
def test_lists(pair: tuple[Application, Application], headers: dict[str, str]) -> None:
    for table, queries in (("Issue", ISSUES), ("Project", PROJECTS), ("Comment", COMMENTS)):
        for query in queries:
            same(pair, "get", f"/{table}/{query}", headers=headers)


def test_query_objects(pair: tuple[Application, Application]) -> None:
    condition = {"attribute": "number", "comparator": "greater_than", "value": 1}
    for found in ({"explain": True}, {"conditions": [condition], "limit": 2}, {"conditions": [condition], "explain": True}):
        same(pair, "query", "/Issue/", found)


def test_descriptions(pair: tuple[Application, Application]) -> None:
    for path in ("/Issue", "/Project", "/Comment", "/", "/graphql"):
        for accept in ("application/json", "text/html"):
            same(pair, "get", path, headers={"Accept": accept})


@pytest.mark.parametrize("statement", STATEMENTS)
def test_sql(pair: tuple[Application, Application], statement: str) -> None:
    same(pair, "post", "/sql", {"sql": statement})


@pytest.mark.parametrize("document", DOCUMENTS)
def test_graphql(pair: tuple[Application, Application], document: str) -> None:
    same(pair, "post", "/graphql", {"query": document})


@pytest.mark.parametrize(("operation", "fields"), OPERATIONS, ids=str)
def test_operations(pair: tuple[Application, Application], operation: str, fields: dict[str, Any]) -> None:
    def asked(app: Application, name: str) -> str:
        interface = app.instance.server.operations_interface.operations
        user = interface.node.directory.get_user(name)
        try:
            return plain(repr(app.run(interface.perform({"operation": operation, "database": "data", **fields}, user, authorize=True))))
        except Problem as problem:
            return plain(f"{problem.status_code} {problem.message}")

    for name in ("ann", "bob"):
        one, other = (asked(app, name) for app in pair)
        assert one == other, (operation, name)
