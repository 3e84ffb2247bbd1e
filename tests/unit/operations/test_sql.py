"""The operation `sql`: fields, rights, answers (spec: operations §15). What statements mean is tested in tests/unit/sql."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from svc.auth.users import User
from svc.errors import NotFound, Problem, QueryError, Refusal
from svc.messages import HeaderBlock, Request
from svc.operations.refusals import REFUSED
from svc.sql.errors import MissingRights
from svc.store.schema import Attribute, TableDefinition
from tests.support.operations import OperationsNode
from tests.support.statements import FakeEngine, FakeRows, statements_of

READ = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with OperationsNode(tmp_path_factory.mktemp("node")) as made:
        database = made.store.open_database("garden")
        database.define_table(TableDefinition("plant", "garden", attributes=(Attribute("id", "Int", primary_key=True), Attribute("pin"))))
        yield made


@pytest.fixture
def engine(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    engine = FakeEngine()
    monkeypatch.setattr(node.node, "statements", statements_of(engine))
    return engine


def refusal(node: OperationsNode, user: User | None = None, **fields: Any) -> Any:
    with pytest.raises(Problem) as caught:
        node.run("sql", user, **fields)
    error = caught.value
    return error.body if isinstance(error, Refusal) else (error.status_code, error.message)


def test_rows(node: OperationsNode, engine: FakeEngine) -> None:
    engine.answers["SELECT id FROM garden.plant"] = FakeRows(["id"], [{"id": 1}], [{"id": 2}])
    assert node.run("sql", sql="SELECT id FROM garden.plant") == [{"id": 1}, {"id": 2}]
    [(_, parameters, caller)] = engine.calls
    assert (parameters, caller.user, caller.authorized, caller.joined, caller.explain) == (None, node.admin, True, None, False)
    assert engine.rows[0].is_closed


@pytest.mark.parametrize("parameters", [[1, "a", None], {"name": "x"}, [], {}])
def test_parameters_and_explain_are_handed_on(node: OperationsNode, engine: FakeEngine, parameters: Any) -> None:
    engine.answers["SELECT ?"] = {"text": "SCAN"}
    assert node.run("sql", sql="SELECT ?", parameters=parameters, explain=True) == {"text": "SCAN"}
    assert engine.calls[0][1] == parameters and engine.calls[0][2].explain is True


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_write_answers_its_body(node: OperationsNode, engine: FakeEngine, is_slow: bool) -> None:
    body = {"message": "2 of 2 records successfully deleted", "deleted_hashes": [1, 2], "skipped_hashes": []}
    engine.answers["DELETE FROM garden.plant"] = body
    engine.is_slow = is_slow
    assert node.run("sql", sql="DELETE FROM garden.plant") == body


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "The 'sql' parameter is missing from the request body"),
        ({"sql": None}, "The 'sql' parameter is missing from the request body"),
        ({"sql": ""}, "'sql' is not allowed to be empty"),
        ({"sql": 5}, "'sql' must be a string"),
        ({"sql": ["select 1"]}, "'sql' must be a string"),
        ({"sql": "select '\ud800'"}, "'sql' must be a well-formed Unicode string"),
        ({"sql": "select 1", "explain": "yes"}, "'explain' must be a boolean"),
    ],
)
def test_fields(node: OperationsNode, engine: FakeEngine, fields: dict[str, Any], text: str) -> None:
    assert refusal(node, **fields) == (400, text)
    assert engine.calls == []


@pytest.mark.parametrize("is_slow", [False, True])
def test_faults_of_a_statement_are_told_as_they_are(node: OperationsNode, engine: FakeEngine, is_slow: bool) -> None:
    engine.is_slow = is_slow
    engine.answers["SELECT x"] = QueryError("unknown column x", code="UNKNOWN_ATTRIBUTE", position=7)
    engine.answers["SELECT * FROM a.b"] = NotFound("database 'a' does not exist")
    assert refusal(node, sql="SELECT x") == (400, "unknown column x")
    assert refusal(node, sql="SELECT * FROM a.b") == (404, "database 'a' does not exist")


@pytest.mark.parametrize("is_slow", [False, True])
def test_missing_rights_are_the_object_of_the_role_check(node: OperationsNode, engine: FakeEngine, is_slow: bool) -> None:
    ann = node.user("ann", {"super_user": False, "garden": {"tables": {"plant": READ}}})
    engine.is_slow = is_slow
    missing = [("garden", "plant", "update", ""), ("garden", "plant", "update", "pin")]
    engine.answers["UPDATE garden.plant SET pin = 1"] = MissingRights(ann, missing)
    assert refusal(node, ann, sql="UPDATE garden.plant SET pin = 1") == {
        "error": REFUSED,
        "unauthorized_access": [
            {
                "schema": "garden",
                "table": "plant",
                "required_table_permissions": ["update"],
                "required_attribute_permissions": [{"attribute_name": "pin", "required_permissions": ["update"]}],
            }
        ],
        "invalid_schema_items": [],
    }


def test_what_is_hidden_does_not_exist(node: OperationsNode, engine: FakeEngine) -> None:
    ann = node.user("ann", {"super_user": False, "garden": {"tables": {"plant": READ}}})
    bob = node.user("bob", {"super_user": False})

    def items(user: User, *missing: str) -> Any:
        engine.answers["SELECT 1"] = MissingRights(user, [(missing[0], missing[1], "read", missing[2])], is_hidden=True)
        body = refusal(node, user, sql="SELECT 1")
        assert body["unauthorized_access"] == []
        return body["invalid_schema_items"]

    assert items(ann, "garden", "plant", "pin") == ["Attribute 'pin' does not exist on 'garden.plant'"]
    assert items(ann, "garden", "keeper", "") == items(ann, "garden", "keeper", "") == ["Table 'garden.keeper' does not exist"]
    assert items(bob, "garden", "plant", "") == items(bob, "garden", "plant", "") == ["database 'garden' does not exist"]
    assert items(bob, "system", "svc_user", "") == ["database 'system' does not exist"]


def test_who_may_call_it(node: OperationsNode, engine: FakeEngine) -> None:
    engine.answers["SELECT 1"] = [{"1": 1}]
    plain = node.user("ann", {"super_user": False})
    assert node.run("sql", plain, sql="SELECT 1") == [{"1": 1}]
    listed = node.user("bob", {"super_user": False, "operations": ["read_only"]})
    assert node.run("sql", listed, sql="SELECT 1") == [{"1": 1}]
    other = node.user("eve", {"super_user": False, "operations": ["insert"]})
    assert refusal(node, other, sql="SELECT 1")["unauthorized_access"] == ["Operation 'sql' is restricted to 'super_user' roles"]
    nobody = User("nil", True, None)
    assert "has no role" in refusal(node, nobody, sql="SELECT 1")["unauthorized_access"][0]
    with pytest.raises(Problem) as caught:
        node.send({"operation": "sql", "sql": "SELECT 1"}, None)
    assert caught.value.status_code == 401
    assert [caller.user for _, _, caller in engine.calls] == [plain, listed]


def test_impersonation_lends_rights(node: OperationsNode, engine: FakeEngine) -> None:
    engine.answers["SELECT 1"] = [{"1": 1}]
    wish = {"role": {"permission": {"super_user": False, "garden": {"tables": {"plant": READ}}}}, "username": "ann"}
    node.run("sql", sql="SELECT 1", impersonate=wish)
    [(_, _, caller)] = engine.calls
    assert caller.user.username == "ann" and not caller.user.super_user


def test_code_gets_python_values_and_its_transaction_is_joined(node: OperationsNode, engine: FakeEngine) -> None:
    engine.answers["SELECT 1"] = FakeRows(["x"], [{"x": b"\xff"}], [{"x": {1}}])
    joined: Any = object()
    body = {"operation": "sql", "sql": "SELECT 1"}
    assert node.wait(lambda: node.operations.perform(body, joined=joined)) == [{"x": b"\xff"}, {"x": {1}}]
    [(_, _, caller)] = engine.calls
    assert (caller.user, caller.authorized, caller.joined) == (None, False, joined)


def test_an_answer_over_http_is_streamed(node: OperationsNode, engine: FakeEngine) -> None:
    from svc.http.compression import Compression
    from svc.http.decoding import RequestDecoder
    from svc.operations.endpoint import OperationsEndpoint

    endpoint = OperationsEndpoint(
        node.operations, compression=Compression(0), decoder=RequestDecoder(1 << 20, 1 << 20), report=lambda error: None
    )
    engine.answers["SELECT a"] = lambda parameters, caller: FakeRows(["a"], [{"a": 1}], [{"a": 2}])

    def ask(accept: str) -> tuple[dict[str, str], bytes]:
        fields = HeaderBlock([("content-type", "application/json"), ("accept", accept)])
        request = Request("POST", "/", fields, b'{"operation": "sql", "sql": "SELECT a"}')
        request.user = node.admin

        async def run() -> tuple[dict[str, str], bytes]:
            response = endpoint.handle(request)
            response = response if not asyncio.iscoroutine(response) else await response
            return dict(response.pairs), b"".join([chunk async for chunk in response.body])

        found = node.wait(run)
        assert request.handler_path == "sql"
        return found  # type: ignore[no-any-return]

    fields, body = ask("application/json")
    assert (fields["Content-Type"], body) == ("application/json", b'[{"a":1},{"a":2}]')
    assert ask("text/csv")[1] == b'"a"\r\n1\r\n2\r\n'
