"""Roles: every text and status of operations §5."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from svc.errors import Problem, Refusal
from svc.operations.operation_lists import refused_grants
from svc.store.schema import Attribute, TableDefinition
from tests.support.operations import OperationsNode

RIGHTS = {"read": True, "insert": False, "update": False, "delete": False}
READER = {"data": {"tables": {"plant": {**RIGHTS, "attribute_permissions": []}}}}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path) as node:
        attributes = (Attribute("id", primary_key=True), Attribute("name"), Attribute("pin"))
        for name in ("plant", "keeper"):
            node.store.open_database("data").define_table(TableDefinition(name, attributes=attributes))
        yield node


def problem(node: OperationsNode, name: str, user: Any = None, **body: Any) -> tuple[int, str]:
    with pytest.raises(Problem) as raised:
        node.run(name, user, **body)
    return raised.value.status_code, raised.value.message


def roles(node: OperationsNode) -> dict[str, Any]:
    return {role["id"]: role for role in node.run("list_roles")}


def test_large_roles_give_way(node: OperationsNode) -> None:
    for number in range(20):
        node.run("add_role", role=f"role{number:02}", permission=READER)
    before = node.run("list_roles")
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def list_roles() -> Any:
        counting = asyncio.ensure_future(count())
        try:
            return await node.operations.perform({"operation": "list_roles"}, node.admin, authorize=True)
        finally:
            counting.cancel()

    ticks = iter(range(10**9))
    node.store.slices._now = lambda: next(ticks) / 1e3
    assert node.wait(list_roles) == before
    assert turns > 5


def test_add_and_list(node: OperationsNode) -> None:
    added = node.run("add_role", role="reader", permission=READER, access={"screens": ["beds"]})
    assert list(added) == ["id", "role", "permission", "access", "__createdtime__", "__updatedtime__"]
    assert (added["id"], added["role"], added["permission"], added["access"]) == ("reader", "reader", READER, {"screens": ["beds"]})
    assert type(added["__createdtime__"]) is int and added["__createdtime__"] == added["__updatedtime__"]
    plain = node.run("add_role", role="Plain_1-x", permission={}, id="another id")
    assert plain["id"] == "another id" and "access" not in plain
    found = roles(node)
    assert found["reader"] == added and found["another id"] == plain
    assert found["super_user"]["permission"] == {"super_user": True}


def test_alter(node: OperationsNode) -> None:
    added = node.run("add_role", role="reader", permission={}, access={"a": 1})
    node.clock.advance(5)
    changed = node.run("alter_role", id="reader", permission=READER)
    assert changed == {"id": "reader", "role": "reader", "permission": READER, "__updatedtime__": changed["__updatedtime__"]}
    assert roles(node)["reader"] == {**added, "permission": READER, "__updatedtime__": changed["__updatedtime__"]}
    assert changed["__updatedtime__"] > added["__updatedtime__"]
    renamed = node.run("alter_role", id="reader", permission={"structure_user": True}, role="writer", access={"b": 2})
    assert renamed["role"] == "writer"
    stored = roles(node)["reader"]
    assert (stored["role"], stored["permission"], stored["access"]) == ("writer", {"structure_user": True}, {"b": 2})


def test_drop(node: OperationsNode) -> None:
    node.run("add_role", role="reader", permission={}, id="r1")
    node.run("add_user", username="ann", password="x", role="reader", active=True)
    assert problem(node, "drop_role", id="r1") == (409, "Cannot drop role reader as it has active user(s) tied to this role")
    node.run("alter_user", username="ann", active=False)
    assert node.run("drop_role", id="r1") == {"message": "reader successfully deleted"}
    assert problem(node, "drop_role", id="r1") == (404, "Role not found")
    assert list(roles(node)) == ["super_user"]


@pytest.mark.parametrize(
    ("name", "body", "status", "text"),
    [
        ("add_role", {}, 400, "'role' is required. 'permission' is required"),
        ("add_role", {"role": "x"}, 400, "'permission' is required"),
        ("add_role", {"role": 5, "permission": []}, 400, "'role' must be a string. 'permission' must be an object"),
        ("add_role", {"role": "", "permission": {}}, 400, "'role' is not allowed to be empty"),
        ("add_role", {"role": "a b", "permission": {}}, 400, "Role is invalid"),
        ("add_role", {"role": "a\n", "permission": {}}, 400, "Role is invalid"),
        ("add_role", {"role": "x" * 251, "permission": {}}, 400, "Role is invalid"),
        ("add_role", {"role": "x", "permission": {}, "access": "y"}, 400, "'access' must be an object"),
        ("add_role", {"role": "x", "permission": {}, "id": "a/b"}, 400, "'id' names cannot include backticks or forward slashes"),
        ("add_role", {"role": "super_user", "permission": {}}, 409, "A role with name 'super_user' already exists"),
        ("add_role", {"role": "x", "id": "super_user", "permission": {}}, 409, "A role with id 'super_user' already exists"),
        ("alter_role", {}, 400, "'id' is required. 'permission' is required"),
        ("alter_role", {"id": "nothing", "permission": {}}, 400, "Invalid role id"),
        ("alter_role", {"id": "x" * 5000, "permission": {}}, 400, "Invalid role id"),
        ("alter_role", {"id": "\u2603", "permission": {}}, 400, "Invalid role id"),
        ("alter_role", {"id": "reader", "permission": {}, "role": "super_user"}, 409, "A role with name 'super_user' already exists"),
        ("alter_role", {"id": "reader", "permission": {}, "role": "a b"}, 400, "Role is invalid"),
        ("drop_role", {}, 400, "'id' is required"),
        ("drop_role", {"id": "nothing"}, 404, "Role not found"),
    ],
)
def test_refusals(node: OperationsNode, name: str, body: dict[str, Any], status: int, text: str) -> None:
    node.run("add_role", role="reader", permission={})
    before = roles(node)
    assert problem(node, name, **body) == (status, text)
    assert roles(node) == before


def test_the_validation_object(node: OperationsNode) -> None:
    """The body of operations §5, for add_role and alter_role, and nothing else."""
    node.run("add_role", role="reader", permission={})
    permission = {
        "nope": {},
        "operations": ["no such operation", "read_only"],
        "data": {"tables": {"plant": {"read": True, "insert": "yes", "update": False, "delete": False}}},
    }
    for body in ({"operation": "add_role", "role": "x"}, {"operation": "alter_role", "id": "reader"}):
        with pytest.raises(Refusal) as raised:
            node.send({**body, "permission": permission}, node.admin)
        assert raised.value.status_code == 400
        assert raised.value.body == {
            "error": "Errors in the role permissions JSON provided",
            "main_permissions": ["database 'nope' does not exist", "Invalid operation 'no such operation' in 'operations'"],
            "schema_permissions": {"data_plant": ["Table INSERT permission must be a boolean", "Missing 'attribute_permissions' array"]},
        }


SUPER_USER_IN_EFFECT = ("set_configuration", "sign_certificate", "add_certificate")


@pytest.mark.parametrize("operation", SUPER_USER_IN_EFFECT)
def test_what_makes_a_super_user_cannot_be_granted(node: OperationsNode, operation: str) -> None:
    node.run("add_role", role="reader", permission=READER)
    before = roles(node)
    permission = {"operations": ["read_only", operation]}
    text = f"Operation '{operation}' in 'operations' cannot be granted: it needs a super user, and its callers could become one"
    for body in (
        {"operation": "add_role", "role": "x", "permission": permission},
        {"operation": "alter_role", "id": "reader", "permission": permission},
        {"operation": "insert", "database": "system", "table": "svc_role", "records": [{"role": "x", "permission": permission}]},
        {"operation": "user_info", "impersonate": {"role": {"permission": permission}}},
    ):
        with pytest.raises(Refusal) as raised:
            node.send(body, node.admin)
        assert (raised.value.status_code, raised.value.body["main_permissions"]) == (400, [text])
    assert roles(node) == before


@pytest.mark.parametrize("operation", SUPER_USER_IN_EFFECT)
def test_an_earlier_grant_of_it_is_without_effect(node: OperationsNode, operation: str) -> None:
    user = node.user("x", {"operations": [operation]})
    with pytest.raises(Refusal) as raised:
        node.run(operation, user, name="x", certificate="x", is_authority=True, csv="x", logging_level="info")
    assert raised.value.body["unauthorized_access"] == [f"Operation '{operation}' is restricted to 'super_user' roles"]


def test_unknown_members_of_the_body(node: OperationsNode) -> None:
    request: Any = SimpleNamespace(content=b"")  # a client's body; code may pass what it likes
    for extra, text in (
        ({"x": 1}, "Invalid key in JSON body - 'x'"),
        ({"x": 1, "y": None}, "Invalid keys in JSON body - 'x', 'y'"),
        ({5: 1}, "Invalid key in JSON body - '5'"),
    ):
        body: dict[Any, Any] = {"operation": "add_role", "role": "x", "permission": {}, "replicated": False, **extra}
        with pytest.raises(Refusal) as raised:
            node.operations.run(node.operations.prepare(body, node.admin, request))
        assert raised.value.body["main_permissions"] == [text]
    node.run("add_role", role="y", permission={}, access={}, replicated=False, bypass_auth=True)


def test_a_name_is_taken_once(node: OperationsNode) -> None:
    """Requests of one turn see each other, also when their keys differ."""

    async def one(role_id: str) -> str:
        try:
            await node._send({"operation": "add_role", "role": "reader", "id": role_id, "permission": {}}, node.admin)
        except Problem as refused:
            return refused.message
        return ""

    async def all_of_them() -> Any:
        return await asyncio.gather(*map(one, ("a", "b", "a")))

    assert sorted(node.wait(all_of_them)) == ["", "A role with name 'reader' already exists", "A role with name 'reader' already exists"]


def test_no_rights_are_made_up(node: OperationsNode) -> None:
    """security §5.5: who may make roles makes none with more than its own."""
    own = {
        "operations": ["read_only", "add_role", "alter_role", "drop_role", "list_roles"],
        "data": {"tables": {"plant": {**RIGHTS, "update": True, "attribute_permissions": [
            {"attribute_name": "name", "read": True, "insert": False, "update": False},
        ]}}},
    }  # fmt: skip
    node.run("add_role", role="clerk", permission=own, access={"level": 1})
    node.run("add_user", username="clara", password="x", role="clerk", active=True)
    clara = node.directory.get_user("clara")

    def listed(*attributes: dict[str, Any], **rights: bool) -> dict[str, Any]:
        return {"data": {"tables": {"plant": {**RIGHTS, **rights, "attribute_permissions": list(attributes)}}}}

    name = {"attribute_name": "name", "read": True, "insert": False, "update": False}
    read_only = {"operations": ["read_only"]}
    too_much = (403, "Your role cannot give rights that it does not have")
    beyond = (403, "Only super_user roles can create or change a super_user")
    allowed = (
        read_only,
        {"operations": []},
        {"operations": ["search_by_hash", "add_role"]},
        {**read_only, **listed(name)},
        own,
    )
    for number, permission in enumerate(allowed):
        assert node.run("add_role", clara, role=f"ok{number}", permission=permission)["permission"] == permission
        assert node.run("alter_role", clara, id=f"ok{number}", permission=permission)["permission"] == permission
    for permission, expected in (
        ({}, too_much),  # without a list: all operations on records
        ({"operations": ["standard_user"]}, too_much),
        ({"operations": ["insert"]}, too_much),
        ({**read_only, "structure_user": True}, too_much),
        ({**read_only, "structure_user": ["data"]}, too_much),
        ({**read_only, **listed()}, too_much),
        ({**read_only, **listed({**name, "update": True}, update=True)}, too_much),
        ({**read_only, **listed({**name, "attribute_name": "pin"})}, too_much),
        ({**read_only, "data": {"tables": {"keeper": {**RIGHTS, "attribute_permissions": []}}}}, too_much),
        ({"super_user": True}, beyond),
    ):
        assert problem(node, "add_role", clara, role="x", permission=permission) == expected, permission
        assert problem(node, "alter_role", clara, id="clerk", permission=permission) == expected, permission
    assert problem(node, "add_role", clara, role="x", permission=read_only, access={"level": 2}) == too_much
    assert node.run("add_role", clara, role="x", permission=read_only, access={"level": 1})["access"] == {"level": 1}
    assert problem(node, "alter_role", clara, id="super_user", permission=read_only) == beyond
    assert problem(node, "drop_role", clara, id="super_user") == beyond
    assert node.run("drop_role", clara, id="ok0") == {"message": "ok0 successfully deleted"}


@pytest.mark.parametrize(
    "name",
    [
        "set_component_file",
        "deploy_component",
        "add_component",
        "drop_component",
        "set_custom_function",
        "deploy_custom_function_project",
        "add_custom_function_project",
        "drop_custom_function",
        "drop_custom_function_project",
        "add_ssh_key",
        "update_ssh_key",
        "set_ssh_known_hosts",
        "cluster_set_routes",
        "add_node",
        "update_node",
        "set_node_replication",
        "configure_cluster",
        "set_configuration",
        "add_certificate",
        "sign_certificate",
    ],
)
def test_what_makes_super_users_cannot_be_granted(node: OperationsNode, name: str) -> None:
    node.run("add_role", role="clerk", permission={})
    for operation, body in (("add_role", {"role": "x"}), ("alter_role", {"id": "clerk"})):
        with pytest.raises(Refusal) as raised:
            node.run(operation, permission={"operations": ["read_only", name]}, **body)
        assert raised.value.status_code == 400
        text = f"Operation '{name}' in 'operations' cannot be granted: it needs a super user, and its callers could become one"
        assert raised.value.body["main_permissions"] == [text]
    assert "x" not in roles(node) and roles(node)["clerk"]["permission"] == {}


def test_what_was_granted_before_grants_nothing(node: OperationsNode) -> None:
    system = node.store.databases["system"]
    transaction = node.store.begin("admin")
    permission = {"operations": ["set_component_file", "list_roles"]}
    transaction.put(system.tables["svc_role"], "old", {"id": "old", "role": "old", "permission": permission})
    transaction.apply()
    node.store.commit_turn()
    node.run("add_user", username="olga", password="x", role="old", active=True)
    olga = node.directory.get_user("olga")
    with pytest.raises(Refusal) as raised:
        node.run("set_component_file", olga, project="shop", file="resources.py", payload="x")
    assert raised.value.status_code == 403
    assert "old" in {role["id"] for role in node.run("list_roles", olga)}
    (warning,) = refused_grants(node.directory.iter_role_records())
    assert warning.startswith("the role old lists set_component_file, which only super users may call")


def test_roles_above_the_own_one_are_not_changed_or_removed(node: OperationsNode) -> None:
    clerk = {
        "operations": ["drop_role", "alter_role", "revoke", "read_only"],
        "data": {"tables": {"plant": {**RIGHTS, "attribute_permissions": []}}},
    }
    node.run("add_role", role="clerk", permission=clerk)
    node.run("add_user", username="clara", password="x", role="clerk", active=True)
    clara = node.directory.get_user("clara")
    writer = {"operations": ["read_only"], "data": {"tables": {"plant": {**RIGHTS, "insert": True, "attribute_permissions": []}}}}
    node.run("add_role", role="writer", permission=writer)
    node.run("add_role", role="reader", permission={**READER, "operations": ["read_only"]})
    node.run("add_role", role="known", permission={"operations": []}, access={"level": 9})
    above = (403, "Your role cannot change or remove a role or a user with rights that it does not have itself")
    assert problem(node, "drop_role", clara, id="writer") == above
    assert problem(node, "drop_role", clara, id="known") == above
    assert problem(node, "alter_role", clara, id="writer", permission={"operations": ["read_only"]}) == above
    assert problem(node, "revoke", clara, role="writer", rights=["insert"], on="plant") == above
    assert roles(node)["writer"]["permission"] == writer
    assert node.run("revoke", clara, role="reader", rights=["read"], on="plant")["permission"] == {"operations": ["read_only"]}
    assert node.run("drop_role", clara, id="reader") == {"message": "reader successfully deleted"}


def test_audit_names_who_did_it(node: OperationsNode) -> None:
    node.run("add_role", role="reader", permission={})
    node.run("alter_role", id="reader", permission={})
    log = node.store.databases["system"].log
    entries = [entry for entry in log.read(node.store.databases["system"].snapshot()) if entry.table == "svc_role"][-2:]
    assert [entry.user for entry in entries] == ["admin", "admin"]
