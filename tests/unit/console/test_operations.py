"""Operations in the console (spec: console §14)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from svc.auth.users import User
from svc.operations.registry import all_operations
from svc.pages.collection import MOST_ROWS
from tests.support.console import ConsoleAnswer, ConsoleSite
from tests.support.pages import Parsed

HOSTILE = "\"'><img src=x onerror=alert(1)></textarea><script>alert(2)</script>"
READ = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleSite]:
    made = ConsoleSite(tmp_path_factory.mktemp("console"))
    made.node.run("create_table", database="garden", table="plant", primary_key="id")
    made.node.run("insert", database="garden", table="plant", records=[{"id": n, "name": f"n{n}"} for n in range(700)])
    yield made
    made.close()


@pytest.fixture
def ann(site: ConsoleSite) -> User:
    return site.node.user("ann", {"super_user": False, "garden": {"tables": {"plant": READ}}})


def path(name: str = "", query: str = "") -> str:
    return f"/console/operations{'/' if name else ''}{name}{query}"


def value_of(page: Parsed, name: str) -> str:
    return next(found.get("value", "") for tag, found in page.elements if tag == "input" and found.get("name") == name)


def area(answer: ConsoleAnswer, name: str) -> str:
    found = re.search(rf'name="{re.escape(name)}"[^>]*>\n(.*?)</textarea>', answer.body.decode(), re.DOTALL)
    assert found is not None
    return found[1]


# --- the list ---------------------------------------------------------------------------------------------------------------------------


def test_all_that_a_super_user_may_run_are_listed(site: ConsoleSite) -> None:
    page = site.get(path()).page
    available = [row.name for row in all_operations() if "501" not in row.returns]
    assert [name for name in available if page.links.get(name) != f"./operations/{name}"] == []
    assert "set_secret" not in page.links, "it is answered with 501"
    assert "Databases and tables" in page.text and f"{len(available)} operations that your user may run" in page.text


def test_a_search_finds_names_and_summaries(site: ConsoleSite) -> None:
    page = site.get(path(query="?q=drop_TABLE")).page
    assert {name for name in page.links if name.startswith("drop_")} == {"drop_table"} and "describe_all" not in page.links
    assert value_of(page, "q") == "drop_TABLE"
    page = site.get(path(query="?q=%22%3E%3Cscript%3E")).page
    assert value_of(page, "q") == '"><script>' and "0 of " in page.text


def test_others_see_what_their_role_allows(site: ConsoleSite, ann: User) -> None:
    page = site.get(path(), ann).page
    assert "search_by_id" in page.links and "describe_all" in page.links
    assert not {"insert", "add_user", "restart", "drop_table"} & page.links.keys()
    granted = site.node.user("bob", {"super_user": False, "operations": ["list_users", "read_only"]})
    page = site.get(path(), granted).page
    assert "list_users" in page.links and "add_user" not in page.links and "insert" not in page.links
    nothing = site.node.user("none", {"super_user": False})
    assert "search_by_id" not in site.get(path(), nothing).page.links


def test_who_has_no_role_or_no_login_sees_nothing(site: ConsoleSite) -> None:
    assert site.get(path(), User("nobody")).status == 403
    assert site.get(path(), None).status == 401 and "describe_all" not in site.get(path(), None).page.text


def test_what_is_not_offered_is_refused(site: ConsoleSite, ann: User) -> None:
    assert site.get(path("add_user"), ann).status == 403
    token = value_of(site.get(path(), ann).page, "_token")
    answer = site.post(path("add_user"), {"username": "x"}, ann, token=token)
    assert answer.status == 403
    answer = site.post(path(), {".body": '{"operation": "list_users"}'}, ann)
    assert answer.status == 403 and "not authorized" in answer.page.text.lower()
    assert site.get(path("nosuch")).status == 404 and site.get(path("insert/x")).status == 404


# --- forms ------------------------------------------------------------------------------------------------------------------------------


def test_an_address_fills_the_form_in(site: ConsoleSite) -> None:
    answer = site.get(path("search_by_conditions", "?table=plant&schema=garden&conditions=%5B%5D"))
    page = answer.page
    assert value_of(page, "table") == "plant" and value_of(page, "database") == "garden" and area(answer, "conditions") == "[]"
    assert page.find("input", name="table")["list"] == "names-table" and page.find("option", value="plant")
    assert "Table. (name)" in page.text and page.find("p", id="help-table")
    assert "password" not in [found.get("value") for tag, found in site.get(path("add_user", "?password=password")).page.elements]


def test_an_operation_is_run_by_its_form(site: ConsoleSite) -> None:
    answer = site.post(path("search_by_id"), {"database": "garden", "table": "plant", "ids": "[1, 2]", "get_attributes": '["id", "name"]'})
    page = answer.page
    assert answer.status == 200 and page.rows == [["id", "name"], ["1", "n1"], ["2", "n2"]]
    assert "200, 0.0 ms, 43 bytes of JSON" in page.text and '"name": "n2"' in page.text
    assert value_of(page, "table") == "plant", "the form stays filled in"


def test_a_body_is_run_as_it_is(site: ConsoleSite) -> None:
    body = '{"operation": "describe_table",\r\n "database": "garden", "table": "plant"}'
    answer = site.post(path(), {".body": body})
    assert answer.status == 200 and '"record_count": 700' in answer.page.text and "describe_table" in answer.page.text
    assert area(answer, ".body").replace("&#34;", '"') == body.replace("\r\n", "\n")


def test_of_many_rows_the_first_are_shown_and_all_are_sent_as_a_file(site: ConsoleSite) -> None:
    form = {"database": "garden", "table": "plant", "query": "select(id,name)"}
    answer = site.post(path("search_by_conditions"), form)
    assert answer.status == 200, answer.page.text
    assert len(answer.page.rows) == MOST_ROWS + 1 and "The first 500 rows" in answer.page.text and "Download as CSV" in answer.page.text
    file = site.post(path("search_by_conditions"), form | {"as": "json"})
    assert len(json.loads(file.body)) == 700
    assert ("Content-Disposition", 'attachment; filename="search_by_conditions.json"') in file.headers
    csv = site.post(path("search_by_conditions"), form | {"as": "csv"})
    assert csv.body.splitlines()[0] == b'"id","name"' and len(csv.body.splitlines()) == 701
    assert ("X-Content-Type-Options", "nosniff") in csv.headers


def test_a_form_becomes_json_and_json_a_form_and_nothing_is_run(site: ConsoleSite) -> None:
    form = {"username": "eve", "password": "secret-word", "role": "super_user", "active": "true", ".to": "json"}
    answer = site.post(path("add_user"), form)
    assert answer.status == 200 and "secret-word" not in answer.body.decode()
    assert '"username": "eve"' in area(answer, ".body").replace("&#34;", '"')
    body = '{"operation": "search_by_id", "table": "plant", "ids": [1], "more": 2}'
    answer = site.post(path(), {".body": body, ".to": "form"})
    assert (
        value_of(answer.page, "table") == "plant"
        and area(answer, "ids") == "[1]"
        and "Without a field in this form: more" in answer.page.text
    )
    assert [each["username"] for each in site.node.run("list_users")] == ["admin"]


# --- what is wrong ----------------------------------------------------------------------------------------------------------------------


def test_faults_stand_at_their_fields(site: ConsoleSite) -> None:
    answer = site.post(path("search_by_value"), {"table": "plant", "database": "a`b", "limit": "ten"})
    page = answer.page
    assert answer.status == 400 and "400 VALIDATION" in page.text
    assert page.find("p", id="fault-database") and page.find("p", id="fault-limit") and page.find("p", id="fault-value")
    assert page.find("input", id="field-limit")["aria-invalid"] == "true" and value_of(page, "limit") == "ten"
    assert page.find("input", id="field-limit")["aria-describedby"] == "fault-limit help-limit"


def test_json_that_cannot_be_read_is_marked(site: ConsoleSite) -> None:
    answer = site.post(path(), {".body": '{"operation":\r\n  x}'})
    assert answer.status == 400 and "Line 2, column 3" in answer.page.text and "<mark>x</mark>" in answer.body.decode()
    assert "BAD_BODY" in answer.page.text
    answer = site.post(path("search_by_id"), {"table": "plant", "ids": "[1,\n 2"})
    assert answer.status == 400 and "Line 2, column 3" in answer.page.text and answer.page.find("p", id="fault-ids")


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ('{"operation": "describe_tabel"}', 400, 'did you mean "describe_table"'),
        ("{}", 400, "Invalid JSON"),
        ('{"a": 1}', 400, "must include an 'operation' property"),
        ("[1]", 400, "A body is an object"),
        ("", 400, "Enter a body"),
        ('{"operation": "describe_table", "table": "nosuch"}', 404, "nosuch"),
        ('{"operation": ["x"]}', 400, "must include an 'operation' property"),
    ],
)
def test_bodies_that_are_wrong(site: ConsoleSite, body: str, status: int, text: str) -> None:
    answer = site.post(path(), {".body": body})
    assert answer.status == status and text in answer.page.text and answer.page.find("div", id="fault")


def test_a_refusal_is_shown_whole(site: ConsoleSite, ann: User) -> None:
    body = {"operation": "insert", "database": "garden", "table": "plant", "records": [{"id": 1000}]}
    answer = site.post(path(), {".body": json.dumps(body)}, ann)
    assert answer.status == 403 and '"required_table_permissions"' in answer.page.text
    assert site.node.run("search_by_id", database="garden", table="plant", ids=[1000], get_attributes=["*"]) == []


def test_what_destroys_is_confirmed_once(site: ConsoleSite) -> None:
    site.node.run("create_table", database="garden", table="weed", primary_key="id")
    form = {"database": "garden", "table": "weed"}
    assert "required" in site.get(path("drop_table")).page.find("input", name=".sure")
    answer = site.post(path("drop_table"), form)
    assert answer.status == 400 and "NOT_CONFIRMED" in answer.page.text and "weed" in site.node.run("describe_all")["garden"]
    body = json.dumps({"operation": "drop_table"} | form)
    answer = site.post(path(), {".body": body})
    assert answer.status == 400 and answer.page.find("input", name=".sure"), "the box is there now"
    answer = site.post(path("drop_table"), {".body": body, ".sure": "true"})
    assert answer.status == 200 and "weed" not in site.node.run("describe_all")["garden"]


def test_forms_of_other_sites_do_nothing(site: ConsoleSite) -> None:
    form = {"database": "garden", "table": "new", "primary_key": "id"}
    assert site.post(path("create_table"), form, token=None).status == 403
    assert site.post(path("create_table"), form, token="0" * 32).status == 403
    assert "new" not in site.node.run("describe_all")["garden"]


def test_internal_fields_are_dropped(site: ConsoleSite, ann: User) -> None:
    body = {"operation": "create_authentication_tokens", "username": "admin", "bypass_auth": True}
    answer = site.post(path(), {".body": json.dumps(body)}, ann)
    assert answer.status >= 400 and '"operation_token":' not in answer.page.text


def test_nothing_of_a_value_is_markup(site: ConsoleSite) -> None:
    site.node.run("upsert", database="garden", table="plant", records=[{"id": 0, "name": HOSTILE}])
    answer = site.post(path("search_by_id"), {"database": "garden", "table": "plant", "ids": "[0]", "get_attributes": '["*"]'})
    assert HOSTILE in answer.page.rows[1]
    for form in (
        {".body": HOSTILE},
        {".body": json.dumps({"operation": HOSTILE})},
        {".body": json.dumps({"operation": "insert", HOSTILE: 1})},
    ):
        page = site.post(path(), form).page
        assert "img" not in {tag for tag, found in page.elements if found.get("src") == "x"}
    page = site.post(path("search_by_id"), {"table": HOSTILE, "ids": HOSTILE}).page
    assert value_of(page, "table") == HOSTILE


# --- what a browser keeps ---------------------------------------------------------------------------------------------------------------


def kept(answer: ConsoleAnswer) -> str | None:
    found: dict[str, str] = next(found for tag, found in answer.page.elements if tag == "details" and "data-history" in found)
    return found.get("data-text")


def test_the_page_says_what_may_be_kept(site: ConsoleSite) -> None:
    form = {"username": "kay", "password": "secret-word", "role": "super_user", "active": "true"}
    answer = site.post(path("add_user"), form)
    assert answer.status == 200 and "secret-word" not in answer.body.decode()
    assert json.loads(kept(answer) or "") == {"operation": "add_user", "username": "kay", "role": "super_user", "active": True}
    answer = site.post(path(), {".body": json.dumps({"operation": "alter_user", "username": "kay", "password": "secret-word"})})
    assert answer.status == 200 and "secret-word" not in answer.body.decode(), "it is not shown again"
    site.node.run("drop_user", username="kay")
    assert kept(site.get(path("add_user"))) is None
    assert kept(site.post(path("add_user"), form | {".to": "json"})) is None


def test_an_answer_that_is_a_file_is_sent(site: ConsoleSite) -> None:
    page = site.get(path("get_backup")).page
    assert "data-download" in page.find("form", **{"class": "statement"}) and "The answer is a file" in page.text
    answer = site.post(path("get_backup"), {"database": "garden"})
    assert answer.status == 200 and answer.body[:2] == b"\x1f\x8b"
    assert any(value.startswith("attachment") for name, value in answer.headers if name == "Content-Disposition")


def test_entries_of_logs_are_a_table(site: ConsoleSite) -> None:
    answer = site.post(path("read_transaction_log"), {"database": "garden", "table": "plant", "limit": "2"})
    assert answer.status == 200 and answer.page.rows[0][:1] == ["operation"] and len(answer.page.rows) == 3
    file = site.post(path("read_transaction_log"), {"database": "garden", "table": "plant", "limit": "2", "as": "json"})
    assert len(json.loads(file.body)) == 2


def test_configuration_is_changed_as_json(site: ConsoleSite) -> None:
    answer = site.get(path("set_configuration"))
    body: Any = json.loads(area(answer, ".body").replace("&#34;", '"'))
    assert body["operation"] == "set_configuration" and "As a form" not in answer.page.text
