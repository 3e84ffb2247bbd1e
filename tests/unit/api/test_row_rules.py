"""Rules about rows and code of applications (spec: rows §1.8): `tables.X` is not narrowed; what is exported, and what it calls by `super()`, is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import svc.testing
from svc.api.context import Context, entered
from svc.errors import AccessViolation, ClientError, NotFound, RowNotAllowed
from svc.testing.application import Application
from tests.support import issues
from tests.support.issues import ISSUES, may_read, seen

CODE = """
from svc import Resource, tables, transaction


class Plain(tables.Issue):
    pass


class Bound(tables.Issue):
    def get(self, target=None):
        return super().get(target)

    def put(self, data, target=None):
        return super().put(data, target)

    def patch(self, data, target=None):
        return super().patch(data, target)

    def post(self, data, target=None):
        return super().post(data, target)

    def delete(self, target=None):
        return super().delete(target)


class Later(tables.Issue):
    async def get(self, target=None):
        return await super().get(target)

    async def put(self, data, target=None):
        return await super().put(data, target)

    async def patch(self, data, target=None):
        return await super().patch(data, target)

    async def post(self, data, target=None):
        return await super().post(data, target)

    async def delete(self, target=None):
        return await super().delete(target)


class Target(tables.Issue):
    load_as_instance = False

    async def get(self, target):
        return await super().get(target)

    async def put(self, target, data):
        return await super().put(target, data)

    async def patch(self, target, data):
        return await super().patch(target, data)

    async def post(self, target, data):
        return await super().post(target, data)

    async def delete(self, target):
        return await super().delete(target)


class Opened(tables.Issue):
    def allow_read(self, user, target):
        return True

    def allow_create(self, user, data, target):
        return True

    def allow_update(self, user, data, target):
        return True

    async def allow_delete(self, user, target):
        return True


class Both(Opened):
    def get(self, target=None):
        return super().get(target)

    async def patch(self, data, target=None):
        return await super().patch(data, target)


class Listed(tables.Issue):
    async def get(self, target=None):
        return [record.id async for record in super().search(target)]


class Itself(tables.Issue):
    def get(self, target=None):
        return self

    def post(self, data, target=None):
        self.update()
        self.votes = (self.votes or 0) + 1
        return self.votes

    def patch(self, data, target=None):
        self.update()
        for name, value in data.items():
            self[name] = value


class Copied(tables.Issue):
    def get(self, target=None):
        return {"there": self.does_exist(), "is": {**self}}


class Own(tables.Issue):
    async def get(self, target=None):
        return [record.id async for record in super().search({"conditions": [{"attribute": "votes", "comparator": "ge", "value": 0}]})]


class Trusted(tables.Issue):
    async def get(self, target=None):
        record = await tables.Issue.get(self.get_id()) if self.get_id() else None
        return record if record is not None else [each.id async for each in tables.Issue.search({})]

    async def put(self, data, target=None):
        await tables.Issue.put(self.get_id(), data)


class Steps(tables.Project):
    async def post(self, data, target=None):
        # What a rule refers to is written first, in the same transaction.
        await tables.Project.put(data["project"], {"name": "n", "open": False, "members": data["members"]})
        found = [record.id async for record in tables.Issue.as_user(self.get_current_user()).search()]
        one = await Seen.get({"id": data["issue"], "check_permission": True})
        return {"all": found, "one": None if one is None else one.id}


class Seen(tables.Issue):
    pass


class Found(Resource):
    def allow_read(self, user, target):
        return True

    async def get(self, target=None):
        return {"ids": [record.id async for record in tables.Issue.search({})]}
"""
WRITING = ("Plain", "Bound", "Later", "Target", "Opened", "Both")
READING = (*WRITING, "Itself")
USERS = ("ann", "bob", "eve", "mod", "ann")


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    path: Path = tmp_path_factory.mktemp("app")
    (path / "config.yaml").write_text(
        "rest: true\ngraphqlSchema: {files: schema.graphql}\nroles: {files: roles.yaml}\nresources: {files: resources.py}\n"
    )
    (path / "schema.graphql").write_text(issues.SCHEMA)
    (path / "roles.yaml").write_text(issues.ROLES)
    (path / "resources.py").write_text(CODE)
    with svc.testing.app(path) as app:
        yield app


@pytest.fixture(autouse=True)
def filled(app: Application) -> None:
    issues.fill(app)


@contextmanager
def without_anonymous(app: Application) -> Iterator[None]:
    """Nobody has the rights of everybody."""
    role = next(role for role in app.operation("list_roles") if role["role"] == "anonymous")
    app.operation("drop_role", id=role["id"])
    try:
        yield
    finally:
        app.operation("add_role", role="anonymous", permission=role["permission"])


def ids(rows: Any) -> list[str]:
    return sorted(row["id"] for row in rows)


@pytest.mark.parametrize("name", READING)
def test_records(app: Application, name: str) -> None:
    for user in USERS:
        for issue in ISSUES[:8]:
            answer = app.get(f"/{name}/{issue['id']}", user=user)
            assert answer.status == (200 if may_read(issue, user) else 404), (name, user, issue)
            assert answer.status == 404 or "private" in answer.headers["Cache-Control"]
            assert app.get(f"/{name}/{issue['id']}?select(title)", user=user).status == answer.status
            assert app.get(f"/{name}/{issue['id']}.title", user=user).status == answer.status
            assert app.get(f"/{name}/{issue['id']}").status == 200  # the super user


@pytest.mark.parametrize("name", WRITING)
def test_collections(app: Application, name: str) -> None:
    for user in USERS:
        assert ids(app.get(f"/{name}/", user=user).json) == seen(user)
        assert ids(app.get(f"/{name}/?state=draft&title=title%201", user=user).json) == seen(user, state="draft", title="title 1")
        assert app.get(f"/{name}/?count()", user=user).json == {"count": len(seen(user))}
        query = {"conditions": [{"attribute": "owner", "value": "bob"}]}
        assert ids(app.query(f"/{name}/", query, user=user).json) == seen(user, owner="bob")
        related = app.get(f"/{name}/?select(id,project{{id}})&id=i01", user=user).json
        assert related == [] or ("project" in related[0]) == (user in ("ann", "bob"))


def test_collections_that_code_makes(app: Application) -> None:
    for user in USERS:
        assert sorted(app.get("/Listed/", user=user).json) == seen(user)
        assert sorted(app.get("/Own/", user=user).json) == seen(user)
        assert sorted(app.get("/Trusted/", user=user).json) == [issue["id"] for issue in ISSUES]
        assert sorted(app.get("/Found/", user=user).json["ids"]) == [issue["id"] for issue in ISSUES]


def test_an_instance_of_a_hidden_record_is_one_of_no_record(app: Application) -> None:
    assert app.get("/Copied/i02", user="ann").json == {"there": False, "is": {}}
    assert app.get("/Copied/i02", user="bob").json["is"]["title"] == "title 2"
    assert app.get("/Trusted/i02", user="ann").json["title"] == "title 2"  # code has read it
    assert app.post("/Itself/i02", {}, user="ann").status == 404
    assert app.post("/Itself/i05", {}, user="ann").status == 403  # it may be read, and is somebody else's
    assert app.post("/Itself/i03", {}, user="ann").json == 4
    assert app.patch("/Itself/i03", {"owner": "bob"}, user="ann").json["code"] == "ROW_NOT_ALLOWED"
    assert [app.get(f"/Issue/{key}").json["votes"] for key in ("i02", "i05", "i03")] == [2, 5, 4]


@pytest.mark.parametrize("name", WRITING)
def test_changes(app: Application, name: str) -> None:
    for method in (app.put, app.patch):
        assert method(f"/{name}/i03", {"owner": "ann", "votes": 9}, user="ann").status in (200, 204)
        assert method(f"/{name}/i02", {"owner": "ann", "votes": 9}, user="ann").status == 404
        refused = method(f"/{name}/i05", {"owner": "ann", "votes": 9}, user="ann")
        assert (refused.status, refused.json["code"]) == (403, "ROW_NOT_ALLOWED")
        assert method(f"/{name}/i03", {"owner": "bob"}, user="ann").json["code"] == "ROW_NOT_ALLOWED"
        assert method(f"/{name}/new", {"owner": "bob"}, user="ann").json["code"] == "ROW_NOT_ALLOWED"
    assert app.post(f"/{name}/", {"id": "n1", "owner": "ann"}, user="ann").status == 201
    assert app.post(f"/{name}/", {"id": "n2", "owner": "bob"}, user="ann").status == 403
    several = [{"id": "n3", "owner": "ann"}, {"id": "n4", "owner": "bob"}]
    assert app.post(f"/{name}/", several, user="ann").status == 403
    assert app.put(f"/{name}/", several, user="ann").status == 403
    assert [app.get(f"/Issue/{key}").status for key in ("n1", "n2", "n3", "n4")] == [200, 404, 404, 404]
    assert app.get("/Issue/i02").json["votes"] == 2 and app.get("/Issue/i05").json["votes"] == 5


@pytest.mark.parametrize("name", WRITING)
def test_deletions(app: Application, name: str) -> None:
    may = {each["id"] for each in ISSUES if each["owner"] == "ann" and each["state"] == "draft"}
    kept = next(each["id"] for each in ISSUES if each["owner"] == "ann" and each["state"] != "draft")
    assert app.delete(f"/{name}/{kept}", user="ann").status == 403
    assert app.delete(f"/{name}/i02", user="ann").status == app.delete(f"/{name}/nothing", user="ann").status
    assert app.delete(f"/{name}/?votes=ge=0&state=draft", user="ann").status == 204
    left = {each["id"] for each in app.get("/Issue/").json}
    assert left == {each["id"] for each in ISSUES} - may


def test_callers_without_a_role_are_narrowed(app: Application) -> None:
    with without_anonymous(app):
        assert app.get("/Issue/", user=None).status == 401
        for name in ("Opened", "Both"):
            assert ids(app.get(f"/{name}/", user=None).json) == seen(None)
            assert app.get(f"/{name}/i01", user=None).status == 404
            assert app.get(f"/{name}/i05", user=None).status == 200
            assert app.patch(f"/{name}/i05", {"votes": 1}, user=None).status == 401
            assert app.patch(f"/{name}/i01", {"votes": 1}, user=None).status == 404


def test_reads_of_a_transaction_see_what_it_has_written(app: Application) -> None:
    answer = app.post("/Steps/", {"project": "p2", "members": ["eve"], "issue": "i06"}, user="eve")
    assert answer.status == 200, answer.text
    of_p2 = {each["id"] for each in ISSUES if each["projectId"] == "p2"}
    assert sorted(answer.json["all"]) == sorted({*seen("eve"), *of_p2})
    assert answer.json["one"] == "i06"
    answer = app.post("/Steps/", {"project": "p2", "members": [], "issue": "i06"}, user="bob")
    gone = {each["id"] for each in ISSUES if each["projectId"] == "p2" and each["owner"] != "bob" and not each["public"]}
    assert sorted(answer.json["all"]) == sorted(set(seen("bob")) - gone)
    assert answer.json["one"] is None


def test_conflicts_with_hidden_records_name_none(app: Application) -> None:
    for name in ("Issue", "Later"):
        hidden = app.post(f"/{name}/", {"id": "n", "owner": "ann", "code": "c2"}, user="ann")
        assert (hidden.status, hidden.json["code"]) == (409, "NOT_UNIQUE")
        assert "i02" not in hidden.text and "property code" in hidden.text
        shown = app.post(f"/{name}/", {"id": "n", "owner": "ann", "code": "c0"}, user="ann")
        assert shown.status == 409 and "i00" in shown.text
        assert "i02" in app.post(f"/{name}/", {"id": "n", "owner": "ann", "code": "c2"}).text


# --- as a user --------------------------------------------------------------------------------------------------------------------------------


def test_a_table_as_a_user_sees_it(app: Application) -> None:
    for user in (*USERS, None):
        table = app.instance.interface.tables.Issue.as_user(user)
        assert sorted(each.id for each in app.run(table.search().to_list())) == seen(user)
        assert sorted(
            each.id for each in app.run(table.search({"conditions": [{"attribute": "owner", "value": "bob"}]}).to_list())
        ) == seen(user, owner="bob")
        for issue in ISSUES[:6]:
            record = app.run(table.get(issue["id"]))
            assert (record is not None) == may_read(issue, user)
            assert record is None or record.title == issue["title"]


async def _related(tables: Any, user: Any) -> tuple[Any, list[str]]:
    comments = {each.id: await each.issue async for each in tables.Comment.as_user(user).search()}
    issue = await tables.Issue.as_user(user).get("i01")
    project = None if issue is None else await issue.project
    return comments, [] if project is None else sorted([each.id async for each in project.issues])


def test_related_records_of_a_user(app: Application) -> None:
    tables = app.instance.interface.tables
    for user in ("ann", "bob", "eve"):
        comments, issues = app.run(_related(tables, user))
        assert sorted(f"i{key[1:]}" for key, issue in comments.items() if issue is not None) == seen(user)
        assert issues == (seen(user, projectId="p1") if user != "eve" else [])


def test_rights_of_a_user(app: Application) -> None:
    permission = {"data": {"tables": {"Issue": {"read": True, "insert": True, "update": False, "delete": False, "attribute_permissions": [
        {"attribute_name": "title", "read": True, "insert": True, "update": False},
        {"attribute_name": "owner", "read": False, "insert": True, "update": False},
    ]}}}}  # fmt: skip
    role = app.operation("add_role", role="narrow", permission=permission)
    app.operation("add_user", username="nan", password="a long one", role="narrow", active=True)
    tables = app.instance.interface.tables
    table = tables.Issue.as_user("nan")
    try:
        with without_anonymous(app):
            record = app.run(table.get("i05"))
            assert dict(record) == {"id": "i05", "title": "title 1"} and record.votes is None
            assert [dict(each) for each in app.run(table.search({"limit": 1}).to_list())] == [{"id": "i00", "title": "title 0"}]
            with pytest.raises(AccessViolation):
                app.run(table.search({"conditions": [{"attribute": "votes", "value": 5}]}).to_list())
            with pytest.raises(AccessViolation):
                app.run(table.patch("i05", {"title": "x"}))
            with pytest.raises(AccessViolation):
                app.run(table.create({"id": "n", "owner": "nan", "votes": 1}))
            with pytest.raises(AccessViolation):
                app.run(table.post([{"owner": "nan", "votes": 1}] * 60))
            assert dict(app.run(table.create({"id": "n", "owner": "nan", "title": "t"}))) == {"id": "n", "title": "t"}
            with pytest.raises(AccessViolation):
                app.run(tables.Project.as_user("nan").get("p0"))
            with pytest.raises(AccessViolation):
                app.run(record.comments.to_list())
            assert app.run(_first(record.project)) is None  # what leads to it may not be read
    finally:
        app.operation("drop_user", username="nan")
        app.operation("drop_role", id=role["id"])


async def _first(related: Any) -> Any:
    return await related


def test_writes_of_a_user(app: Application) -> None:
    tables = app.instance.interface.tables
    table = tables.Issue.as_user("ann")
    app.run(table.patch("i03", {"title": "new"}))
    app.run(table.put("i06", {"owner": "ann", "title": "whole"}))
    assert app.run(table.create({"id": "n", "owner": "ann"})).id == "n"
    assert [each.id for each in app.run(table.post([{"id": "n1", "owner": "ann"}, {"id": "n2", "owner": "ann"}]))] == ["n1", "n2"]
    refused: list[tuple[Callable[[], Any], type[Exception]]] = [
        (lambda: table.patch("i02", {"title": "x"}), NotFound),
        (lambda: table.patch("i05", {"title": "x"}), RowNotAllowed),
        (lambda: table.put("i03", {"owner": "bob"}), RowNotAllowed),
        (lambda: table.create({"owner": "bob"}), RowNotAllowed),
        (lambda: table.delete("i05"), RowNotAllowed),
    ]
    for call, error in refused:
        with pytest.raises(error):
            app.run(call())
    assert app.run(table.delete("i02"))
    assert app.get("/Issue/i02").status == 200
    assert app.run(table.delete({"conditions": [{"attribute": "state", "value": "draft"}]}))
    left = {each["id"] for each in app.get("/Issue/?state=draft").json}
    assert left == {each["id"] for each in ISSUES if each["state"] == "draft" and each["owner"] != "ann"}


async def _together(tables: Any, transaction: Any) -> Any:
    async with transaction():
        await tables.Project.put("p2", {"open": False, "members": ["ann"]})
        found = await tables.Issue.as_user("ann").get("i02")
        await tables.Issue.put("i02", {"owner": "ann", "state": "draft"})
        await tables.Issue.as_user("ann").patch("i02", {"title": "together"})
        again = await tables.Issue.as_user("ann").get("i02")
        return found.title, again.title, await tables.Issue.as_user("eve").get("i02")


def test_calls_take_part_in_the_open_transaction(app: Application) -> None:
    interface = app.instance.interface
    assert app.run(_together(interface.tables, interface.transaction)) == ("title 2", "together", None)
    assert app.get("/Issue/i02").json["title"] == "together"


def test_whom_it_may_be(app: Application) -> None:
    table = app.instance.interface.tables.Issue
    with pytest.raises(ClientError, match="no active user 'nobody'"):
        table.as_user("nobody")
    with pytest.raises(TypeError):
        table.as_user(5)  # type: ignore[arg-type]
    assert repr(table.as_user("ann")) == "<Issue as ann>" and repr(table.as_user(None)) == "<Issue as an anonymous caller>"


def test_lists_that_are_long_keep_attribute_rights(app: Application) -> None:
    permission = {"data": {"tables": {"Issue": {"read": True, "insert": True, "update": False, "delete": False, "attribute_permissions": [
        {"attribute_name": "owner", "read": True, "insert": True, "update": False}]}}}}  # fmt: skip
    role = app.operation("add_role", role="short", permission=permission)
    app.operation("add_user", username="sho", password="a long one", role="short", active=True)
    try:
        for name in ("Issue", "Bound", "Later"):
            assert app.post(f"/{name}/", [{"owner": "sho", "votes": 1}] * 60, user="sho").status == 403
            assert app.post(f"/{name}/", [{"owner": "sho"}] * 60, user="sho").status == 201
    finally:
        app.operation("drop_user", username="sho")
        app.operation("drop_role", id=role["id"])


# --- tables with a source ---------------------------------------------------------------------------------------------------------------------

CACHED = """
type Cached @table @export @allow(read: "owner==$user.username", create: "owner==$user.username", update: "owner==$user.username", delete: "state==draft") {
  id: ID @primaryKey  owner: ID @indexed  state: String  n: Int
}
"""
SOURCES = """
from svc import Resource, tables

records, heard = {}, []


class Source(Resource):
    def get(self, target=None):
        return records.get(self.get_id())

    def put(self, data, target=None):
        heard.append(("put", self.get_id()))
        records[self.get_id()] = data

    def delete(self, target=None):
        heard.append(("delete", self.get_id()))
        records.pop(self.get_id(), None)


class Coded(tables.Cached):
    def get(self, target=None):
        return super().get(target)

    async def put(self, data, target=None):
        return await super().put(data, target)


class Bound(tables.Cached):
    def get(self, target=None):
        return {"there": self.does_exist()}


tables.Cached.source_from(Source, expiration=3600)
"""


@pytest.fixture
def cached(tmp_path: Path) -> Iterator[Application]:
    rights = "{read: true, insert: true, update: true, delete: true}"
    (tmp_path / "config.yaml").write_text(
        "rest: true\ngraphqlSchema: {files: schema.graphql}\nroles: {files: roles.yaml}\nresources: {files: resources.py}\n"
    )
    (tmp_path / "schema.graphql").write_text(CACHED)
    (tmp_path / "roles.yaml").write_text(f"member:\n  data: {{Cached: {rights}}}\n")
    (tmp_path / "resources.py").write_text(SOURCES)
    with svc.testing.app(tmp_path) as app:
        for name in ("ann", "bob"):
            app.operation("add_user", username=name, password="a long one", role="member", active=True)
        records = app.module("resources").records
        for number in range(4):
            owner = ("ann", "bob")[number % 2]
            records[f"c{number}"] = {"id": f"c{number}", "owner": owner, "state": ("draft", "open")[number // 2], "n": number}
        yield app


@pytest.mark.parametrize("is_loaded", [True, False])
def test_records_of_a_source(cached: Application, is_loaded: bool) -> None:
    if is_loaded:
        for number in range(4):
            assert cached.get(f"/Cached/c{number}").status == 200
    for name in ("Cached", "Coded"):
        for user, own in (("ann", 0), ("bob", 1), ("ann", 0)):
            for number in range(4):
                assert cached.get(f"/{name}/c{number}", user=user).status == (200 if number % 2 == own else 404)
            assert ids(cached.get(f"/{name}/", user=user).json) == [f"c{number}" for number in range(4) if number % 2 == own]
    assert cached.get("/Bound/c1", user="ann").json == {"there": False}
    assert cached.get("/Bound/c1", user="bob").json == {"there": True}


@pytest.mark.parametrize("is_loaded", [True, False])
def test_a_source_hears_of_nothing_that_a_rule_is_against(cached: Application, is_loaded: bool) -> None:
    if is_loaded:
        for number in range(4):
            assert cached.get(f"/Cached/c{number}").status == 200
    heard = cached.module("resources").heard
    for name in ("Cached", "Coded"):
        assert cached.put(f"/{name}/c1", {"owner": "ann"}, user="ann").status == 404
        assert cached.patch(f"/{name}/c1", {"owner": "ann"}, user="ann").status == 404
        assert cached.put(f"/{name}/c0", {"owner": "bob"}, user="ann").status == 403
        assert cached.patch(f"/{name}/c0", {"owner": "bob"}, user="ann").status == 403
        assert cached.put(f"/{name}/new", {"owner": "bob"}, user="ann").status == 403
        assert cached.delete(f"/{name}/c1", user="ann").status == cached.delete(f"/{name}/nothing", user="ann").status
        assert cached.delete(f"/{name}/c2", user="ann").status == 403
    assert heard == []
    assert cached.delete("/Cached/", user="ann").status == 204
    assert {key for _, key in heard} <= {"c0"}
    assert cached.put("/Coded/c2", {"owner": "ann", "n": 9}, user="ann").status in (200, 204)
    assert cached.put("/Cached/new", {"owner": "ann"}, user="ann").status == 204
    assert heard[-2:] == [("put", "c2"), ("put", "new")]
    assert cached.delete("/Cached/c0", user="ann").status == 204


async def _asked(tables: Any, context: Context) -> Any:
    with entered(context):
        found = [each.id async for each in tables.Issue.search({"check_permission": True})]
        get = [each.id async for each in tables.Issue.get({"limit": 100, "check_permission": True})]
        context.state.authorize = True
        return found, get, [each.id async for each in tables.Issue.search()], await tables.Issue.get("i02"), await tables.Issue.get("i00")


def test_code_that_asks_for_rights_is_narrowed(app: Application) -> None:
    tables = app.instance.interface.tables
    user = app.instance.server.accounts.directory.get_user("ann")
    found, get, searched, hidden, shown = app.run(_asked(tables, Context(user)))
    assert sorted(found) == sorted(get) == sorted(searched) == seen("ann")
    assert hidden is None and shown.id == "i00"
    nobody = Context(app.instance.server.accounts.directory.get_user("eve"))
    assert sorted(app.run(_asked(tables, nobody))[0]) == seen("eve")


# --- followers --------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("user", ["ann", None])
def test_those_whom_code_lets_in_follow_what_they_may_read(app: Application, user: str | None) -> None:
    with without_anonymous(app):
        rows = app.live("/Opened/", user=user)
        events = app.events("/Opened/", user=user)
        assert sorted(row["id"] for row in rows) == seen(user)
        assert sorted(event["id"] for event in events) == seen(user)
        before = len(events)
        assert app.put("/Issue/n1", {"owner": "bob", "projectId": "p2"}).status == 204
        assert app.put("/Issue/n2", {"owner": "bob", "public": True}).status == 204
        assert sorted(row["id"] for row in rows) == sorted([*seen(user), "n2"])
        assert [event["id"] for event in events[before:]] == ["n2"]
        rows.close()
        events.close()


async def _followed(table: Any, change: Any) -> list[Any]:
    subscription = await table.subscribe(omit_current=True)
    await change()
    found = [(await anext(subscription)).id]
    await subscription.aclose()
    return found


def test_a_user_follows_what_it_may_read(app: Application) -> None:
    tables: Any = app.instance.interface.tables

    async def change() -> None:
        await tables.Issue.put("n1", {"owner": "bob"})
        await tables.Issue.put("n2", {"owner": "ann"})

    assert app.run(_followed(tables.Issue.as_user("ann"), change)) == ["n2"]
    assert app.run(_followed(tables.Issue.as_user("mod"), change)) == ["n1"]
