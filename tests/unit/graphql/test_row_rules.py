"""Rules about rows in GraphQL (spec: rows §1.3, §1.4): what a caller may not read is nowhere, for callers in turn with the same documents."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.support import issues
from tests.support.graphql import SUPER_USER, Shop, open_shop
from tests.support.issues import COMMENTS, ISSUES, PROJECTS, may_read, may_read_project, seen

RESOURCES = """
from svc import tables


class Coded(tables.Issue):
    async def put(self, data, target=None):
        return await super().put(data, target)

    async def delete(self, target=None):
        return await super().delete(target)


class Read(tables.Issue):
    def get(self, target=None):
        return super().get(target)


class Opened(tables.Issue):
    def allow_read(self, user, target=None):
        return True

    def allow_delete(self, user, target=None):
        return True
"""
CALLERS = ("ann", "bob", "eve", None, "mod", "ann")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with open_shop(
        tmp_path_factory.mktemp("app"), "{extended: true}", schema=issues.SCHEMA, resources=RESOURCES, roles=issues.ROLES
    ) as shop:
        yield shop


@pytest.fixture(autouse=True)
def filled(shop: Shop) -> None:
    issues.fill(shop.app)


def ids(rows: Any) -> list[str]:
    return sorted(row["id"] for row in rows)


@pytest.mark.parametrize("name", ["Issue", "Read", "Opened"])
def test_lists(shop: Shop, name: str) -> None:
    for _ in range(3):
        for user in CALLERS:
            assert ids(shop.data(f"{{ {name} {{ id owner }} }}", user=user)[name]) == seen(user)
            for state in ("draft", "open"):
                found = shop.data(f"query ($state: String) {{ {name}(state: $state) {{ id }} }}", {"state": state}, user=user)
                assert ids(found[name]) == seen(user, state=state)
            both = shop.data(f'{{ {name}(owner: "bob", title: "title 1") {{ id }} }}', user=user)[name]
            assert ids(both) == seen(user, owner="bob", title="title 1")
        assert len(shop.data(f"{{ {name} {{ id }} }}")[name]) == len(ISSUES)


@pytest.mark.parametrize("name", ["Issue", "Read", "Opened"])
def test_records_by_their_keys(shop: Shop, name: str) -> None:
    query = f"query ($id: ID) {{ {name}(id: $id) {{ id title }} }}"
    for _ in range(3):
        for issue in ISSUES[:6]:
            for user in CALLERS:
                expected = [{"id": issue["id"], "title": issue["title"]}] if may_read(issue, user) else []
                assert shop.data(query, {"id": issue["id"]}, user=user)[name] == expected
            assert len(shop.data(query, {"id": issue["id"]})[name]) == 1


@pytest.mark.parametrize("name", ["Issue", "Read", "Opened"])
def test_options_of_lists(shop: Shop, name: str) -> None:
    for user in CALLERS:
        expected = seen(user)
        found = shop.data(f'{{ {name}(_sort: "-id", _limit: 4, _offset: 2) {{ id }} }}', user=user)[name]
        assert [row["id"] for row in found] == expected[::-1][2:6]
        found = shop.data(f'{{ {name}(_where: "owner==ann|owner==bob") {{ id }} }}', user=user)[name] if name == "Issue" else None
        assert found is None or ids(found) == sorted(seen(user, owner="ann") + seen(user, owner="bob"))


def test_pages(shop: Shop) -> None:
    for user in CALLERS[:3]:
        found: list[str] = []
        after = ""
        for _ in range(20):
            more = f', _after: "{after}"' if after else ""
            status, body = shop.ask(f'{{ Issue(_sort: "id", _limit: 3{more}) {{ id }} }}', user=user)
            assert status == 200
            found += [row["id"] for row in body["data"]["Issue"]]
            after = body.get("extensions", {}).get("next", {}).get("Issue", "")
            if not after:
                break
        assert found == seen(user)


def test_related_records(shop: Shop) -> None:
    query = "{ Comment { id issue { id project { name } } } Project { id issues { id } } }"
    for _ in range(2):
        for user in ("ann", "bob", "eve", "mod", "ann"):
            found = shop.data(query, user=user)
            readable = {each["id"] for each in ISSUES if may_read(each, user)}
            projects = {each["id"]: each["name"] for each in PROJECTS if may_read_project(each, user)}
            assert len(found["Comment"]) == len(COMMENTS)
            for comment in found["Comment"]:
                issue = ISSUES[int(comment["id"][1:])]
                if issue["id"] not in readable:
                    assert comment["issue"] is None
                    continue
                name = projects.get(issue["projectId"])
                assert comment["issue"] == {"id": issue["id"], "project": None if name is None else {"name": name}}
            assert sorted(each["id"] for each in found["Project"]) == sorted(projects)
            for project in found["Project"]:
                assert ids(project["issues"]) == seen(user, projectId=project["id"])


def test_conditions_through_related_records(shop: Shop) -> None:
    for user in ("ann", "bob", "eve", "mod", "ann"):
        found = shop.data('{ Comment(issue: {state: "draft"}) { id } }', user=user)["Comment"]
        assert ids(found) == [f"k{each[1:]}" for each in seen(user, state="draft")]
        by_id = shop.data('{ Comment(issue: {id: "i01"}) { id } }', user=user)["Comment"]
        assert ids(by_id) == (["k01"] if may_read(ISSUES[1], user) else [])


def test_rules_that_name_the_time(shop: Shop) -> None:
    assert shop.app.put("/Timed/1", {"until": shop.app.clock.now.replace(year=2000).isoformat()}).status == 204
    later = shop.app.clock.now.replace(year=shop.app.clock.now.year + 1).isoformat()
    assert shop.app.put("/Timed/2", {"until": later}).status == 204
    for _ in range(3):
        assert ids(shop.data("{ Timed { id } }", user="ann")["Timed"]) == ["2"]
        assert shop.data('{ Timed(id: "1") { id } }', user="ann")["Timed"] == []
        assert len(shop.data("{ Timed { id } }")["Timed"]) == 2


@pytest.mark.parametrize("suffix", ["Issue", "Coded", "Opened"])
def test_changes_of_records(shop: Shop, suffix: str) -> None:
    put = f"mutation ($id: ID!, $input: {suffix}Input!) {{ put_{suffix}(id: $id, input: $input) {{ id title }} }}"
    own, hidden, public = ISSUES[3], ISSUES[2], ISSUES[5]
    assert own["owner"] == "ann" and not may_read(hidden, "ann") and public["public"] and public["owner"] == "eve"
    data = shop.data(put, {"id": own["id"], "input": {**own, "title": "new"}}, user="ann")
    assert data == {f"put_{suffix}": {"id": own["id"], "title": "new"}}
    assert shop.error(put, {"id": hidden["id"], "input": {**hidden, "title": "new"}}, user="ann")[:2] == (404, "NOT_FOUND")
    assert shop.error(put, {"id": public["id"], "input": {**public, "title": "new"}}, user="ann")[:2] == (403, "ROW_NOT_ALLOWED")
    assert shop.error(put, {"id": own["id"], "input": {**own, "owner": "bob"}}, user="ann")[:2] == (403, "ROW_NOT_ALLOWED")
    assert shop.error(put, {"id": "new", "input": {"owner": "bob"}}, user="ann")[:2] == (403, "ROW_NOT_ALLOWED")
    patch = f"mutation ($id: ID!, $input: {suffix}Input!) {{ patch_{suffix}(id: $id, input: $input) {{ id }} }}"
    assert shop.data(patch, {"id": own["id"], "input": {"votes": 7}}, user="ann") == {f"patch_{suffix}": {"id": own["id"]}}
    assert shop.error(patch, {"id": hidden["id"], "input": {"votes": 7}}, user="ann")[:2] == (404, "NOT_FOUND")
    assert shop.error(patch, {"id": public["id"], "input": {"votes": 7}}, user="ann")[:2] == (403, "ROW_NOT_ALLOWED")
    create = f"mutation ($input: {suffix}Input!) {{ create_{suffix}(input: $input) {{ id owner }} }}"
    assert shop.data(create, {"input": {"id": "n", "owner": "ann"}}, user="ann") == {f"create_{suffix}": {"id": "n", "owner": "ann"}}
    assert shop.error(create, {"input": {"id": "m", "owner": "bob"}}, user="ann")[:2] == (403, "ROW_NOT_ALLOWED")
    assert shop.app.get(f"/Issue/{hidden['id']}").json["title"] == hidden["title"]


@pytest.mark.parametrize("suffix", ["Issue", "Coded", "Opened"])
def test_deletions(shop: Shop, suffix: str) -> None:
    delete = f"mutation ($id: ID!) {{ delete_{suffix}(id: $id) }}"
    draft = next(each for each in ISSUES if each["owner"] == "ann" and each["state"] == "draft")
    later = next(each for each in ISSUES if each["owner"] == "ann" and each["state"] != "draft")
    hidden = next(each for each in ISSUES if not may_read(each, "ann"))
    for key in (hidden["id"], "nothing"):  # the two cannot be told from each other
        assert shop.data(delete, {"id": key}, user="ann") == {f"delete_{suffix}": False}
    assert shop.error(delete, {"id": later["id"]}, user="ann")[:2] == (403, "ROW_NOT_ALLOWED")
    assert shop.data(delete, {"id": draft["id"]}, user="ann") == {f"delete_{suffix}": True}
    left = {row["id"] for row in shop.data("{ Issue { id } }")["Issue"]}
    assert left == {each["id"] for each in ISSUES} - {draft["id"]}
    assert shop.data(delete, {"id": hidden["id"]}, user="mod") == {f"delete_{suffix}": True}


def test_a_list_of_changes_is_one_transaction(shop: Shop) -> None:
    query = """mutation { a: create_Issue(input: {id: "n", owner: "ann", title: "t"}) { id title }
                          b: patch_Issue(id: "i05", input: {votes: 1}) { id } }"""
    assert shop.error(query, user="ann")[:2] == (403, "ROW_NOT_ALLOWED")
    assert shop.app.get("/Issue/n").status == 404


def test_a_record_that_its_writer_may_not_read_any_more(shop: Shop) -> None:
    query = 'mutation { patch_Issue(id: "i01", input: {title: "t"}) { id title project { name } } }'
    assert shop.data(query, user="mod")["patch_Issue"]["title"] == "t"
    query = 'mutation { patch_Project(id: "p1", input: {members: ["eve"]}) { id name } }'  # there is no rule about changes
    assert shop.data(query, user="bob") == {"patch_Project": None}


def test_unique_values_of_hidden_records(shop: Shop) -> None:
    hidden, seen_one = ISSUES[2], ISSUES[0]
    create = "mutation ($input: IssueInput!) { create_Issue(input: $input) { id } }"
    status, body = shop.ask(create, {"input": {"id": "n", "owner": "ann", "code": hidden["code"]}}, user="ann")
    assert (status, hidden["id"] in str(body), "property code" in str(body)) == (409, False, True), body
    status, body = shop.ask(create, {"input": {"id": "n", "owner": "ann", "code": seen_one["code"]}}, user="ann")
    assert (status, seen_one["id"] in str(body)) == (409, True)
    status, body = shop.ask(create, {"input": {"id": "n", "owner": "ann", "code": hidden["code"]}})
    assert (status, hidden["id"] in str(body)) == (409, True)


def test_answers_are_private(shop: Shop) -> None:
    app: Any = shop.app.as_user(None)
    answer = app.post("/graphql", {"query": "{ Issue { id } }"})
    assert "private" in answer.headers["Cache-Control"]
    assert shop.ask("{ Issue { id } }", user=SUPER_USER)[0] == 200


@pytest.mark.parametrize("name", ["Issue", "Opened"])
def test_lists_that_are_followed(shop: Shop, name: str) -> None:
    for user in ("ann", "eve", "ann"):
        stream = shop.app.events(
            f"/graphql?query={quote(f'subscription {{ {name} {{ id }} }}')}", user=user, headers={"Accept": "text/event-stream"}
        )
        assert ids(stream[-1]["data"][name]) == seen(user)
        assert shop.app.put("/Issue/n1", {"owner": "bob", "projectId": "p2"}).status == 204
        assert ids(stream[-1]["data"][name]) == seen(user)
        assert shop.app.patch("/Issue/n1", {"owner": user}).status == 204
        assert ids(stream[-1]["data"][name]) == [*seen(user), "n1"]
        assert shop.app.delete("/Issue/n1").status == 204
        assert ids(stream[-1]["data"][name]) == seen(user)
        stream.close()
