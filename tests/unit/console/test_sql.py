"""Statements in the console (spec: console §14). What statements mean is tested in tests/unit/sql."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from svc.api.statements import Statements
from svc.auth.users import User
from svc.pages.collection import MOST_ROWS
from svc.sql.engine import SqlEngine
from tests.support.console import ConsoleAnswer, ConsoleSite

HOSTILE = "\"'><img src=x onerror=alert(1)></textarea><script>alert(2)</script>"
READ = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleSite]:
    made = ConsoleSite(tmp_path_factory.mktemp("console"))
    node = made.node
    node.node.statements = Statements(lambda: SqlEngine(node.store, node.executor), 10_000, node.clock)
    for table in ("plant", "safe"):
        node.run("create_table", database="garden", table=table, primary_key="id")
    node.run("insert", database="garden", table="plant", records=[{"id": n, "name": f"n{n}"} for n in range(700)])
    yield made
    made.close()
    node.node.statements.close()


@pytest.fixture
def ann(site: ConsoleSite) -> User:
    return site.node.user("ann", {"super_user": False, "garden": {"tables": {"plant": READ}}})


def ask(site: ConsoleSite, sql: str, user: User | str = "admin", **fields: str) -> ConsoleAnswer:
    return site.post("/console/sql", {"sql": sql, **fields}, user)


def kept(answer: ConsoleAnswer) -> tuple[str | None, str | None]:
    found: dict[str, str] = next(found for tag, found in answer.page.elements if tag == "details" and "data-history" in found)
    return found.get("data-text"), found.get("data-more")


def test_rows_of_a_query(site: ConsoleSite) -> None:
    answer = ask(site, "SELECT id, name FROM garden.plant\r\nWHERE id < ? ORDER BY id", parameters="[2]")
    assert answer.status == 200 and answer.page.rows == [["id", "name"], ["0", "n0"], ["1", "n1"]]
    assert '"name": "n1"' in answer.page.text and "2 rows in" in answer.page.text and "bytes of JSON" in answer.page.text
    assert "SELECT id, name FROM garden.plant\nWHERE" in answer.body.decode(), "the statement stays"
    assert kept(answer) == ("SELECT id, name FROM garden.plant\nWHERE id < ? ORDER BY id", "[2]")


def test_of_many_rows_the_first_are_shown_and_all_are_sent_as_a_file(site: ConsoleSite) -> None:
    answer = ask(site, "SELECT id FROM garden.plant")
    assert len(answer.page.rows) == MOST_ROWS + 1 and "The first 500 rows" in answer.page.text
    file = ask(site, "SELECT id FROM garden.plant", **{"as": "csv"})
    assert len(file.body.splitlines()) == 701 and ("Content-Disposition", 'attachment; filename="sql.csv"') in file.headers


def test_no_rows(site: ConsoleSite) -> None:
    answer = ask(site, "SELECT id FROM garden.plant WHERE id = 1000")
    assert answer.status == 200 and "0 rows in" in answer.page.text and "[]" in answer.page.text


def test_a_write_and_its_plan(site: ConsoleSite) -> None:
    sql = "UPDATE garden.plant SET name = 'x' WHERE id = 7"
    answer = ask(site, sql, explain="true")
    assert answer.status == 200 and '"plan"' in answer.page.text
    assert ask(site, "SELECT name FROM garden.plant WHERE id = 7").page.rows[1] == ["n7"]
    assert "updated 1 of 1 records" in ask(site, sql).page.text
    assert ask(site, "SELECT name FROM garden.plant WHERE id = 7").page.rows[1] == ["x"]


@pytest.mark.parametrize(
    ("sql", "status", "text", "marked"),
    [
        ("SELECT id\nFRM garden.plant", 400, "Line 2, column", "<mark>"),
        ("SELECT nosuch FROM garden.plant", 400, "unknown column nosuch", ""),
        ("SELECT 1 FROM plant", 400, "schema not defined for table plant", ""),
        ("SELECT 1 FROM garden.nosuch", 404, "nosuch", ""),
        ("", 400, "is not allowed to be empty", ""),
    ],
)
def test_faults(site: ConsoleSite, sql: str, status: int, text: str, marked: str) -> None:
    answer = ask(site, sql)
    assert answer.status == status and text in answer.page.text and marked in answer.body.decode()
    assert answer.page.find("textarea", name="sql")["aria-invalid"] == "true" and answer.page.find("div", id="fault")


def test_parameters_that_are_no_json(site: ConsoleSite) -> None:
    answer = ask(site, "SELECT ?", parameters="[1,]")
    assert answer.status == 400 and "'parameters' is not JSON" in answer.page.text and "line 1, column 4" in answer.page.text
    assert answer.page.find("input", name="parameters")["value"] == "[1,]"


def test_what_the_caller_may_not_read_is_not_there(site: ConsoleSite, ann: User) -> None:
    assert ask(site, "SELECT id FROM garden.plant WHERE id = 1", ann).page.rows[1] == ["1"]
    assert "garden.safe" not in site.get("/console/sql", ann).page.text and "garden.safe" in site.get("/console/sql").page.text
    answer = ask(site, "SELECT id FROM garden.safe", ann)
    assert answer.status == 403 and '"invalid_schema_items"' in answer.page.text
    assert ask(site, "DELETE FROM garden.plant", ann).status == 403
    assert site.get("/console/sql", site.node.user("bob", {"super_user": False, "operations": ["list_users"]})).status == 403


def test_only_its_own_forms_are_taken(site: ConsoleSite) -> None:
    assert site.post("/console/sql", {"sql": "DELETE FROM garden.plant"}, token=None).status == 403
    assert site.get("/console/sql", None).status == 401


def test_nothing_of_a_value_is_markup(site: ConsoleSite) -> None:
    answer = ask(site, "SELECT ? AS x", parameters='["' + HOSTILE.replace('"', '\\"') + '"]')
    assert answer.page.rows[1] == [HOSTILE]
    answer = ask(site, HOSTILE, parameters=HOSTILE)
    assert answer.status == 400 and answer.page.find("input", name="parameters")["value"] == HOSTILE
    assert site.get("/console/sql?sql=%3C%2Ftextarea%3E%3Cscript%3E").page.text.count("</textarea><script>") == 1


def test_statements_with_secrets_are_not_kept(site: ConsoleSite) -> None:
    assert kept(ask(site, "SELECT 'hunter' AS password")) == (None, None)
    assert kept(ask(site, "SELECT 1")) == ("SELECT 1", "")
    assert kept(site.get("/console/sql?sql=SELECT+1")) == (None, None)
