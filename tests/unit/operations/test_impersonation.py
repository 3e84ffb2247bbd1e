"""Running with the rights of another user (spec: security §7)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.errors import Problem, Refusal
from svc.store.schema import Attribute, TableDefinition
from tests.support.operations import OperationsNode

RIGHTS = {"read": True, "insert": True, "update": False, "delete": False}
READER: dict[str, Any] = {"data": {"tables": {"plant": {**RIGHTS, "attribute_permissions": []}}}}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path) as node:
        node.store.open_database("data").define_table(TableDefinition("plant", attributes=(Attribute("id", primary_key=True),)))
        for name, permission in (
            ("reader", READER),
            ("root", {"super_user": True}),
            ("caretaker", {"operations": ["list_roles", "user_info"]}),
        ):
            node.run("add_role", role=name, permission=permission)
        for name, role, active in (("bob", "reader", True), ("zoe", "root", True), ("old", "reader", False), ("cara", "caretaker", True)):
            node.run("add_user", username=name, password="x", role=role, active=active)
        yield node


def who(node: OperationsNode, wish: Any, **fields: Any) -> Any:
    return node.run("user_info", impersonate=wish, **fields)


def problem(node: OperationsNode, wish: Any, user: Any = None, operation: str = "user_info", **fields: Any) -> tuple[int, Any]:
    with pytest.raises(Problem) as raised:
        node.run(operation, user, impersonate=wish, **fields)
    error = raised.value
    return error.status_code, error.body if isinstance(error, Refusal) else error.message


def test_the_three_forms(node: OperationsNode) -> None:
    user = who(node, {"username": "bob"})
    assert (user["username"], user["role"]["id"]) == ("bob", "reader")
    assert user["role"]["permission"] == {**READER, "super_user": False, "cluster_user": False}
    user = who(node, {"role_name": "reader"})
    assert (user["username"], user["role"]["role"]) == ("admin", "reader")
    user = who(node, {"role_name": "reader", "username": "nobody in particular"})
    assert (user["username"], user["role"]["role"]) == ("nobody in particular", "reader")
    user = who(node, {"role": {"permission": READER}})
    assert (user["username"], user["role"]["permission"]["data"]) == ("admin", READER["data"])
    user = who(node, {"role": {"permission": {}}, "username": "x"})
    assert user["username"] == "x"


def test_precedence(node: OperationsNode) -> None:
    everything = {"role": {"permission": {"structure_user": True}}, "role_name": "reader", "username": "bob"}
    assert who(node, everything)["role"]["permission"]["structure_user"] is True
    assert who(node, {**everything, "role": None})["role"]["role"] == "reader"
    assert who(node, {"role_name": "caretaker", "username": "bob"})["role"]["role"] == "caretaker"
    assert who(node, {"role": None, "role_name": None, "username": "bob"})["role"]["role"] == "reader"


def test_it_never_widens(node: OperationsNode) -> None:
    refused = "Operation 'list_users' is restricted to 'super_user' roles"
    for wish in (
        {"username": "zoe"},
        {"username": "admin"},
        {"role_name": "root"},
        {"role": {"permission": {"super_user": True}}},
        {"role": {"permission": {}}},
    ):
        status, body = problem(node, wish, operation="list_users")
        assert (status, body["unauthorized_access"]) == (403, [refused])
        assert who(node, wish)["role"]["permission"]["super_user"] is False


def test_rights_are_those_of_the_other(node: OperationsNode) -> None:
    bob = {"username": "bob"}
    assert node.run("insert", impersonate=bob, table="plant", records=[{"id": 1}])["inserted_hashes"] == [1]
    status, body = problem(node, bob, operation="delete", table="plant", ids=[1])
    assert (status, body["unauthorized_access"][0]["required_table_permissions"]) == (403, ["delete"])
    status, body = problem(node, {"role": {"permission": {}}}, operation="insert", table="plant", records=[{}])
    assert (status, body["invalid_schema_items"]) == (403, ["database 'data' does not exist"])
    log = node.store.databases["data"].log
    assert [entry.user for entry in log.read(node.store.databases["data"].snapshot())] == ["bob"]


def test_errors(node: OperationsNode) -> None:
    for wish, status, text in (
        ({"username": "nobody"}, 404, "User nobody does not exist"),
        ({"username": "old"}, 403, "Cannot complete request: User is inactive"),
        ({"role_name": "nothing"}, 404, "nothing role not found"),
        ({}, 400, "'impersonate' must have 'username', 'role_name' or 'role'"),
        ({"x": 1}, 400, "'impersonate' must have 'username', 'role_name' or 'role'"),
        ("bob", 400, "'impersonate' must be an object"),
        (None, 400, "'impersonate' must be an object"),
        ([{"username": "bob"}], 400, "'impersonate' must be an object"),
        (True, 400, "'impersonate' must be an object"),
        ({"username": 5}, 400, "'impersonate.username' must be a string"),
        ({"username": ""}, 400, "'impersonate.username' is not allowed to be empty"),
        ({"username": "a\nb"}, 400, "'impersonate.username' must not contain control characters"),
        ({"username": "\ud800"}, 400, "'impersonate.username' must not contain control characters"),
        ({"username": "x" * 251}, 400, "'impersonate.username' length must be less than or equal to 250 characters long"),
        ({"role_name": []}, 400, "'impersonate.role_name' must be a string"),
        ({"role_name": "reader", "username": []}, 400, "'impersonate.username' must be a string"),
        ({"role": "reader"}, 400, "'impersonate.role' must be an object"),
        ({"role": {}}, 400, "'impersonate.role.permission' is required"),
    ):
        assert problem(node, wish) == (status, text), wish
    assert problem(node, {"role": {"permission": {"nope": {}}}}) == (
        400,
        {
            "error": "Errors in the role permissions JSON provided",
            "main_permissions": ["database 'nope' does not exist"],
            "schema_permissions": {},
        },
    )


def test_super_users_only(node: OperationsNode) -> None:
    expected = (403, {"error": "Only super_user roles can impersonate"})
    for name in ("bob", "cara"):
        user = node.directory.get_user(name)
        for wish in ({"username": "bob"}, {"username": name}, {"role": {"permission": {}}}, {}):
            assert problem(node, wish, user) == expected
            assert problem(node, wish, user, "list_roles") == expected
        for wish in (None, "x", []):
            assert problem(node, wish, user) == (400, "'impersonate' must be an object")


def test_null_does_not_run_with_the_rights_of_the_caller(node: OperationsNode) -> None:
    node.run("insert", table="plant", records=[{"id": 1}])
    assert problem(node, None, operation="delete", table="plant", ids=[1]) == (400, "'impersonate' must be an object")
    assert problem(node, None, operation="drop_table", table="plant") == (400, "'impersonate' must be an object")
    assert len(node.run("search_by_id", table="plant", ids=[1])) == 1


def test_code_without_authorization_cannot_impersonate(node: OperationsNode) -> None:
    """It has every right, and would go on with them."""
    body = {"operation": "user_info", "impersonate": {"username": "bob"}}
    for user in (None, node.admin):
        with pytest.raises(Problem) as raised:
            node.wait(lambda user=user: node.operations.perform(body, user))  # type: ignore[misc]
        assert (raised.value.status_code, raised.value.message) == (400, "'impersonate' needs 'authorize' to be true")
    assert node.wait(lambda: node.operations.perform(body, node.admin, authorize=True))["username"] == "bob"


def test_without_login_nothing_is_impersonated(node: OperationsNode) -> None:
    for wish in (None, {"username": "bob"}):
        with pytest.raises(Problem) as raised:
            node.send({"operation": "create_authentication_tokens", "username": "bob", "password": "x", "impersonate": wish}, None)
        assert raised.value.status_code == 400


def test_nobody_logs_in_as_another(node: OperationsNode) -> None:
    for name in ("create_authentication_tokens", "login"):
        assert problem(node, {"username": "bob"}, operation=name) == (400, f"'impersonate' cannot be used with '{name}'")


def test_a_user_without_a_role(node: OperationsNode) -> None:
    """Acceptance example 13, and the same under impersonation."""
    transaction = node.store.begin()
    transaction.delete(node.store.databases["system"].tables["svc_role"], "reader")
    transaction.apply()
    node.store.commit_turn()
    text = "User bob has no role or permissions.  Please assign the user a valid role."
    for call in (lambda: node.run("user_info", node.directory.get_user("bob")), lambda: who(node, {"username": "bob"})):
        with pytest.raises(Refusal) as raised:
            call()
        assert (raised.value.status_code, raised.value.body["unauthorized_access"]) == (403, [text])


def test_each_use_is_told(node: OperationsNode, capfd: pytest.CaptureFixture[str]) -> None:
    who(node, {"username": "bob"})
    node.run("insert", impersonate={"role_name": "reader", "username": "x"}, table="plant", records=[{"id": "secret of a record"}])
    who(node, {"role": {"permission": READER}})
    problem(node, {"username": "nobody"})
    node.logs.flush()
    lines = [line.partition("[notify]: ")[2] for line in capfd.readouterr().out.splitlines() if "[notify]" in line]
    assert lines == [
        "user admin runs the operation user_info as user bob, with the rights of that user",
        "user admin runs the operation insert as user x, with the rights of the role reader",
        "user admin runs the operation user_info as user admin, with the rights of a role given in the call",
    ]
