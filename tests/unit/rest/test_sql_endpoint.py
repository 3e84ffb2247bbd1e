"""`/sql` on the ports of the applications (spec: sql §1). What statements mean is tested in tests/unit/sql."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from svc.auth.roles import Role
from svc.auth.users import User
from svc.content.arrow_type import ARROW
from svc.errors import NotFound, QueryError, QueryTooLarge
from svc.http.bodies import LONG_BODY, QUERY_MAX
from svc.messages import HeaderBlock, Request
from svc.sql.errors import MissingRights
from tests.support.application import ADMIN, Application, application
from tests.support.pages import BROWSER, Parsed
from tests.support.statements import FakeEngine, FakeRows, statements_of

FORM = "application/x-www-form-urlencoded"
READ = {"read": True, "insert": False, "update": False, "delete": False}


class Site:
    def __init__(self, app: Application) -> None:
        self.app = app
        self.engine = FakeEngine({"SELECT 1": lambda parameters, caller: FakeRows(["1"], [{"1": 1}])})
        self.serve("roles")

    def serve(self, access: str) -> None:
        self.app.node.rest.serve_sql(statements_of(self.engine), self.app.node.store, access)

    def post(self, body: Any, **fields: str) -> tuple[int, Any]:
        return self.app.ask("POST", "/sql", body, **fields)

    def page(self, **values: str) -> tuple[int, Parsed]:
        return self.read(self.app.answer("POST", "/sql", urlencode(values).encode(), accept=BROWSER, content_type=FORM))

    def form(self, query: str = "") -> tuple[int, Parsed]:
        return self.read(self.app.answer("GET", f"/sql{query}", accept=BROWSER))

    @staticmethod
    def read(answer: tuple[int, dict[str, str], Any]) -> tuple[int, Parsed]:
        status, fields, body = answer
        assert fields["content-type"] == "text/html; charset=utf-8"
        assert "script-src 'self';" in fields["content-security-policy"] and "form-action 'self'" in fields["content-security-policy"]
        return status, Parsed(body)

    def as_role(self, permission: dict[str, Any]) -> User:
        user = User("ann", True, Role("r", "r", permission, databases=self.app.node.store.databases))
        self.app.node.as_user(user)
        return user


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    with application(tmp_path_factory.mktemp("app"), "") as made:
        yield made


@pytest.fixture
def site(app: Application) -> Iterator[Site]:
    identify = app.node.dispatcher._identify
    yield Site(app)
    app.node.dispatcher._identify = identify
    assert app.errors == []


# --- programs


def test_a_statement_as_json(site: Site) -> None:
    assert site.post({"sql": "SELECT 1"}) == (200, [{"1": 1}])
    [(_, parameters, caller)] = site.engine.calls
    assert (parameters, caller.explain, caller.authorized, caller.user.super_user) == (None, False, True, True)


def test_fields_of_the_answer(site: Site) -> None:
    status, fields, _ = site.app.answer("POST", "/sql", {"sql": "SELECT 1"})
    assert status == 200
    assert fields["cache-control"] == "private, no-cache"
    assert "etag" not in fields and "Accept" in fields["vary"]


@pytest.mark.parametrize("parameters", [[5, "a"], {"n": None}])
def test_parameters(site: Site, parameters: Any) -> None:
    site.engine.answers["SELECT ?"] = [{"a": 1}]
    assert site.post({"sql": "SELECT ?", "parameters": parameters, "explain": False})[0] == 200
    packed = msgspec.msgpack.encode({"sql": "SELECT ?", "parameters": parameters})
    assert site.post(packed, content_type="application/x-msgpack")[0] == 200
    query = urlencode({"parameters": json.dumps(parameters)})
    assert site.app.ask("POST", f"/sql?{query}", b"SELECT ?", content_type="application/sql")[0] == 200
    form = urlencode({"sql": "SELECT ?", "parameters": json.dumps(parameters)}).encode()
    assert site.post(form, content_type=FORM)[0] == 200
    assert [given for _, given, _ in site.engine.calls] == [parameters] * 4


def test_a_statement_as_text(site: Site) -> None:
    site.engine.answers["SELECT 'ä'"] = [{"a": 1}]
    assert site.post("SELECT 'ä'".encode(), content_type="application/sql") == (200, [{"a": 1}])
    assert site.post("\ufeffSELECT 'ä'".encode(), content_type="application/sql; charset=utf-8")[0] == 200
    assert site.post("SELECT 'ä'".encode("latin-1"), content_type="application/sql; charset=iso-8859-1")[0] == 200
    status, problem = site.post(b"SELECT '\xe4'", content_type="application/sql")
    assert (status, problem["code"]) == (400, "BAD_BODY")
    assert site.app.ask("POST", "/sql?explain", b"SELECT 'x'", content_type="application/sql")[0] == 500  # no text of the fake's
    site.app.errors.clear()
    assert site.engine.calls[-1][2].explain is True
    status, problem = site.app.ask("POST", "/sql?n=5", b"SELECT 1", content_type="application/sql")
    assert (status, "'parameters', as JSON, and 'explain'" in problem["detail"]) == (400, True)
    assert site.app.ask("POST", "/sql?parameters=[1", b"SELECT 1", content_type="application/sql")[0] == 400
    assert site.app.ask("POST", "/sql?parameters=%ff", b"SELECT 1", content_type="application/sql")[0] == 400


@pytest.mark.parametrize("is_slow", [False, True])
def test_answers_in_the_type_that_is_asked_for(site: Site, is_slow: bool) -> None:
    import pyarrow as pa

    site.engine.is_slow = is_slow
    site.engine.answers["S"] = lambda parameters, caller: FakeRows(["a"], [{"a": 1}], [{"a": 2}])
    assert site.post({"sql": "S"}) == (200, [{"a": 1}, {"a": 2}])
    assert site.post({"sql": "S"}, accept="text/csv") == (200, b'"a"\r\n1\r\n2\r\n')
    assert msgspec.msgpack.decode(site.post({"sql": "S"}, accept="application/x-msgpack")[1]) == [{"a": 1}, {"a": 2}]
    stream = pa.ipc.open_stream(site.post({"sql": "S"}, accept=ARROW)[1])
    assert stream.read_all().to_pylist() == [{"a": 1}, {"a": 2}]
    before = len(site.engine.calls)
    assert site.post({"sql": "S"}, accept="image/png")[0] == 406
    assert len(site.engine.calls) == before


def test_a_write_answers_its_body(site: Site) -> None:
    body = {"message": "updated 1 of 1 records", "update_hashes": ["a"], "skipped_hashes": []}
    site.engine.answers["UPDATE"] = body
    assert site.post({"sql": "UPDATE"}) == (200, body)


def test_explained(site: Site) -> None:
    site.engine.answers["SELECT 1"] = lambda parameters, caller: {"text": "SCAN", "is": caller.explain}
    assert site.post({"sql": "SELECT 1", "explain": True}) == (200, {"text": "SCAN", "is": True})
    status, fields, body = site.app.answer("POST", "/sql", {"sql": "SELECT 1"}, prefer="explain")
    assert (status, fields["preference-applied"], body["is"]) == (200, "explain", True)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "The 'sql' parameter is missing from the request body"),
        ({"sql": None}, "The 'sql' parameter is missing from the request body"),
        ({"sql": ""}, "'sql' is not allowed to be empty"),
        ({"sql": 5}, "'sql' must be a string"),
        ({"sql": "SELECT 1", "explain": 1}, "'explain' must be a boolean"),
        ([], "The body must be an object with 'sql'; one statement per request"),
        (5, "The body must be an object with 'sql'"),
        (b"{", "Invalid JSON: Input data was truncated"),
        (b"", "POST needs a body"),
    ],
)
def test_what_is_no_statement(site: Site, body: Any, text: str) -> None:
    status, problem = site.post(body)
    assert (status, problem["detail"]) == (400, text)
    assert site.engine.calls == []


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x", "image/png", ""])
def test_types_that_hold_no_statement(site: Site, kind: str) -> None:
    assert site.post(b"SELECT 1", content_type=kind)[0] == 415


def test_methods(site: Site) -> None:
    status, fields, _ = site.app.answer("OPTIONS", "/sql")
    assert (status, fields["allow"]) == (204, "GET, HEAD, POST, OPTIONS")
    status, fields, _ = site.app.answer("PUT", "/sql", {})
    assert (status, fields["allow"]) == (405, "GET, HEAD, POST, OPTIONS")
    assert site.app.ask("GET", "/sql")[0] == 406
    assert site.app.ask("GET", "/sql/")[0] == 404


def test_faults_have_their_place(site: Site) -> None:
    site.engine.answers["SELECT x"] = QueryError("unknown column x", code="UNKNOWN_ATTRIBUTE", position=7)
    status, problem = site.post({"sql": "SELECT x"})
    assert (status, problem["code"], problem["detail"], problem["position"]) == (400, "UNKNOWN_ATTRIBUTE", "unknown column x", 7)
    site.engine.answers["SELECT x"] = FakeRows(["x"], [{"x": 1}], QueryTooLarge("too long", budget="seconds"))
    assert site.post({"sql": "SELECT x"}) == (200, [{"x": 1}, {"error": "QueryTooLarge: too long"}])


def test_metrics_know_it_by_one_name(site: Site) -> None:
    found: list[tuple[str, str]] = []
    site.app.node.dispatcher._request_done = lambda path, method, *rest: found.append((path, method))  # type: ignore[method-assign]
    site.post({"sql": "SELECT 1"})
    site.post({"sql": 5})
    del site.app.node.dispatcher._request_done
    site.app.node.dispatcher._request_done = site.app.node.recorder.request_done
    assert found == [("sql", "POST"), ("sql", "POST")]


# --- who may


def test_a_resource_of_that_name_comes_first(tmp_path: Path) -> None:
    code = """
class sql(Resource):
    def allow_create(self, *_): return True
    def post(self, data, target=None):
        return {"own": data}
"""
    with application(tmp_path, code) as app:
        site = Site(app)
        assert site.post({"a": 1})[1] == {"own": {"a": 1}}
        assert site.engine.calls == []


def test_super_users_only(site: Site) -> None:
    site.serve("super_users")
    assert site.post({"sql": "SELECT 1"})[0] == 200
    site.as_role({"super_user": False, "data": {"tables": {"Seat": READ}}})
    status, problem = site.post({"sql": "SELECT 1"})
    assert (status, problem["detail"]) == (403, "SQL is for super users here (sql.access)")
    assert site.form()[0] == 403
    site.app.node.as_user(None)
    assert site.post({"sql": "SELECT 1"})[0] == 401
    status, page = site.form()
    assert (status, "Must login" in page.text) == (401, True)
    assert len(site.engine.calls) == 1


def test_everyone_by_the_rights_of_their_role(site: Site) -> None:
    user = site.as_role({"super_user": False, "data": {"tables": {"Seat": READ}}})
    assert site.post({"sql": "SELECT 1"})[0] == 200
    site.app.node.as_user(None)
    assert site.post({"sql": "SELECT 1"})[0] == 200
    assert [caller.user for _, _, caller in site.engine.calls] == [user, None]


def test_rights_that_are_missing(site: Site) -> None:
    user = site.as_role({"super_user": False, "data": {"tables": {"Seat": READ}}})

    def answer(user: User | None, attribute: str, *, is_hidden: bool) -> tuple[int, Any]:
        site.engine.answers["S"] = MissingRights(user, [("data", "Seat", "update", attribute)], is_hidden=is_hidden)
        return site.post({"sql": "S"})

    status, problem = answer(user, "price", is_hidden=False)
    assert (status, problem["faults"][0]["attribute"]) == (403, "price")
    assert answer(user, "", is_hidden=False)[0] == 403
    status, problem = answer(user, "", is_hidden=True)
    assert (status, problem["detail"]) == (404, "Table 'data.Seat' does not exist")
    status, problem = answer(user, "secret", is_hidden=True)
    assert (status, problem["detail"], problem["code"]) == (400, "unknown column secret", "UNKNOWN_ATTRIBUTE")
    site.app.node.as_user(None)
    assert answer(None, "", is_hidden=True)[0] == 401
    site.engine.answers["S"] = NotFound("database 'no' does not exist")
    assert site.post({"sql": "S"})[0] == 404


def test_long_bodies_are_for_those_who_may_do_something(site: Site) -> None:
    text = "SELECT 1" + " " * LONG_BODY
    coded = gzip.compress(json.dumps({"sql": "SELECT 1"}).encode())
    site.engine.answers[text] = [{"a": 1}]

    def limit(user: User | None) -> tuple[int, int]:
        request = Request("POST", "/sql", HeaderBlock([("content-length", "1000000")]))
        request.user = user
        found = site.app.node.rest.receive(request)
        return found.size, found.error.status_code

    assert limit(ADMIN) == (QUERY_MAX, 413)
    assert limit(site.as_role({"super_user": False, "data": {"tables": {"Seat": READ}}})) == (QUERY_MAX, 413)
    assert site.post({"sql": text})[0] == 200
    assert site.post(coded, content_encoding="gzip")[0] == 200
    assert limit(site.as_role({"super_user": False})) == (LONG_BODY, 403)
    assert limit(None) == (LONG_BODY, 401)
    site.app.node.as_user(None)
    assert site.post({"sql": text})[0] == 401
    assert site.post(coded, content_encoding="gzip")[0] == 401
    site.serve("super_users")
    assert limit(site.as_role({"super_user": False, "data": {"tables": {"Seat": READ}}})) == (LONG_BODY, 403)


def test_pages_of_other_sites_are_nobody(site: Site) -> None:
    body = urlencode({"sql": "SELECT 1"}).encode()
    status, _, _ = site.app.answer("POST", "/sql", body, accept=BROWSER, content_type=FORM, origin="https://evil.example")
    assert status == 200 and site.engine.calls[0][2].user is None
    site.serve("super_users")
    assert site.app.answer("POST", "/sql", body, accept=BROWSER, content_type=FORM, origin="https://evil.example")[0] == 401
    assert site.app.answer("POST", "/sql", body, accept=BROWSER, content_type=FORM, origin="http://localhost")[0] == 200


# --- browsers


def test_the_form(site: Site) -> None:
    status, page = site.form()
    assert status == 200
    assert page.find("form", method="post", action="./sql")
    assert "autofocus" in page.find("textarea", name="sql")
    assert page.find("input", name="parameters")
    assert "Result" not in page.text
    assert site.engine.calls == []
    _, page = site.form(f"?{urlencode({'sql': 'SELECT <b> 1', 'parameters': '[5]'})}")
    assert "SELECT <b> 1" in page.text and page.find("input", name="parameters")["value"] == "[5]"
    assert site.engine.calls == []
    status, fields, body = site.app.answer("HEAD", "/sql", accept=BROWSER)
    assert (status, fields["cache-control"], body) == (200, "no-store", None)


def test_rows_on_a_page(site: Site) -> None:
    site.engine.answers["SELECT a,\n b"] = FakeRows(["a", "b"], [{"a": "<script>", "b": None}], [{"a": True, "b": [1]}])
    status, page = site.page(sql="SELECT a,\r\n b", parameters=' {"n": 5} ')
    assert status == 200
    assert site.engine.calls[0][:2] == ("SELECT a,\n b", {"n": 5})
    assert page.rows == [["a", "b"], ["<script>", "null"], ["true", "[1]"]]
    assert "2 rows in" in page.text
    assert "autofocus" not in page.find("textarea", name="sql")
    assert "SELECT a,\n b" in page.text and page.find("input", name="parameters")["value"] == ' {"n": 5} '
    assert site.engine.rows[0].is_closed
    site.engine.answers["SELECT none"] = FakeRows(["a", "b"], [])
    assert site.page(sql="SELECT none")[1].rows == [["a", "b"]]


def test_a_page_shows_the_first_rows_and_columns(site: Site) -> None:
    site.engine.answers["S"] = rows = FakeRows(["n"], *[[{"n": n} for n in range(start, start + 150)] for start in range(0, 9000, 150)])
    _, page = site.page(sql="S")
    assert len(page.rows) == 501 and "The first 500 rows" in page.text
    assert rows.is_closed and rows.asked == 3
    wide = {f"c{n}": n for n in range(100)}
    site.engine.answers["S"] = FakeRows(list(wide), [wide])
    _, page = site.page(sql="S")
    assert len(page.rows[0]) == 60 and "40 more columns without room: c60" in page.text


def test_other_answers_on_a_page(site: Site) -> None:
    site.engine.answers["UPDATE"] = {"message": "updated 1 of 1 records", "update_hashes": ["<a>"], "skipped_hashes": []}
    assert "updated 1 of 1 records" in site.page(sql="UPDATE")[1].text
    site.engine.answers["S"] = lambda parameters, caller: {"plan": "SCAN Seat\n  <x>", "steps": []} if caller.explain else [{"a": 1}]
    assert "SCAN Seat\n  <x>" in site.page(sql="S", explain="true")[1].text


def test_rows_as_a_file(site: Site) -> None:
    site.engine.answers["S"] = lambda parameters, caller: FakeRows(["a"], [{"a": 1}], [{"a": 2}])
    status, fields, body = site.app.answer("POST", "/sql", urlencode({"sql": "S", "as": "csv"}).encode(), accept=BROWSER, content_type=FORM)
    assert (status, body, fields["content-type"]) == (200, b'"a"\r\n1\r\n2\r\n', "text/csv; charset=utf-8")
    assert "attachment" in fields["content-disposition"]


def test_faults_on_a_page(site: Site) -> None:
    site.engine.answers["SELECT x,\n y <z>"] = QueryError("unknown column y", code="UNKNOWN_ATTRIBUTE", position=11)
    status, page = site.page(sql="SELECT x,\r\n y <z>")
    assert status == 400
    assert page.find("p", role="alert") and "unknown column y" in page.text
    assert page.find("textarea")["aria-describedby"] == page.find("p", role="alert")["id"]
    assert page.text.count("SELECT x,\n y <z>") == 2  # the statement, and the place
    status, page = site.page(sql="SELECT 1", parameters="[1")
    assert (status, "'parameters' must be JSON, a list or an object" in page.text, "SELECT 1" in page.text) == (400, True, True)
    assert site.page(sql="")[0] == 400
    site.engine.answers["S"] = FakeRows(["a"], [{"a": 1}], QueryTooLarge("The statement took too long", budget="seconds"))
    status, page = site.page(sql="S")
    assert (status, "The statement took too long" in page.text) == (400, True)
    site.engine.answers["S"] = MissingRights(None, [("data", "Seat", "read", "")])
    assert site.page(sql="S")[0] == 401


def test_the_home_page_leads_there(site: Site) -> None:
    def interfaces() -> list[str]:
        return [each["path"] for each in site.app.ask("GET", "/_pages/")[1]["interfaces"]]

    assert "/sql" in interfaces()
    _, page = site.read(site.app.answer("GET", "/_pages/", accept=BROWSER))
    assert page.links["/sql"] == "../sql"
    site.serve("super_users")
    assert "/sql" in interfaces()
    site.as_role({"super_user": False, "data": {"tables": {"Seat": READ}}})
    assert "/sql" not in interfaces()
    site.serve("roles")
    assert "/sql" in interfaces()
    site.as_role({"super_user": False})
    assert "/sql" not in interfaces()
