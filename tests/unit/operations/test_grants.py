"""`grant` and `revoke` (spec: operations §5, security §5.9)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from svc.auth.roles import rights
from svc.errors import Problem
from svc.store.schema import Attribute, TableDefinition
from tests.support.operations import OperationsNode

READ = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path) as node:
        attributes = (
            Attribute("id", primary_key=True),
            Attribute("name"),
            Attribute("pin"),
            Attribute("madeAt", "Date", created_time=True),
        )
        for database, table in (("data", "plant"), ("data", "garden"), ("garden", "plant"), ("garden", "name")):
            node.store.open_database(database).define_table(TableDefinition(table, attributes=attributes))
        yield node


def problem(node: OperationsNode, operation: str, role: Any, given: Any, on: Any, user: Any = None, **more: Any) -> tuple[int, str]:
    with pytest.raises(Problem) as raised:
        node.run(operation, user, role=role, rights=given, on=on, **more)
    return raised.value.status_code, raised.value.message


def stored(node: OperationsNode, role: str) -> Any:
    return (node.directory.role_named(role) or {}).get("permission")


def test_a_role_is_made_when_it_is_missing(node: OperationsNode) -> None:
    answer = node.run("grant", role="clerk", rights=["read", "read"], on="plant")
    permission = {"data": {"tables": {"plant": READ}}}
    assert answer == {"message": "The role clerk may read data.plant", "id": "clerk", "role": "clerk", "permission": permission}
    node.run("grant", role="clerk", rights=["insert"], on="garden.plant")
    assert stored(node, "clerk")["garden"]["tables"]["plant"]["insert"] is True
    node.run("grant", role="clerk", rights=["update"], on="data.plant.name")
    assert "The role clerk may no longer read data.plant" in node.run("revoke", role="clerk", rights=["read"], on="plant")["message"]
    assert problem(node, "revoke", "nobody", ["read"], "plant") == (404, "nobody role not found")


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        ("nothing", (404, "There is no table 'nothing', and no attribute of one")),
        ("system.svc_user", (404, "There is no table 'system.svc_user', and no attribute of one")),
        ("plant.colour", (404, "Attribute 'colour' does not exist on 'data.plant'")),
        ("garden.name", (400, "'garden.name' may be data.garden.name or garden.name: write it so")),
        ("..", (404, "There is no table '..', and no attribute of one")),
        ("", (400, "'on' is not allowed to be empty")),
    ],
)
def test_what_is_meant(node: OperationsNode, on: str, expected: tuple[int, str]) -> None:
    assert problem(node, "grant", "clerk", ["read"], on) == expected
    assert stored(node, "clerk") is None


def test_rights_that_there_are(node: OperationsNode) -> None:
    assert problem(node, "grant", "clerk", ["reed"], "plant") == (400, "'rights' on a table are read, insert, update, delete, not reed")
    assert problem(node, "grant", "clerk", ["delete"], "plant.name") == (
        400,
        "'rights' on an attribute are read, insert, update, not delete",
    )
    assert problem(node, "grant", "clerk", ["insert"], "plant.madeAt") == (400, "'madeAt' can only be read: the store sets it")
    assert problem(node, "revoke", "clerk", ["read"], "plant.id")[0] == 400
    assert problem(node, "grant", "clerk", [], "plant") == (400, "'rights' must name at least one right")
    assert problem(node, "grant", "no role!", ["read"], "plant") == (400, "Role is invalid")
    assert problem(node, "grant", "super_user", ["read"], "plant")[0] == 400


def test_what_an_application_brings_along_is_told(node: OperationsNode) -> None:
    node.node.apps = (SimpleNamespace(name="shop", role_files={"clerk": "roles.yaml"}),)  # type: ignore[assignment]
    answer = node.run("grant", role="clerk", rights=["read"], on="plant")
    assert answer["warning"] == "shop/roles.yaml brings the role clerk along: the next start sets it to what the file says"
    assert "warning" not in node.run("grant", role="other", rights=["read"], on="plant")


def test_no_rights_beyond_the_own_ones(node: OperationsNode) -> None:
    node.run("add_role", role="lender", permission={"operations": ["grant", "revoke"], "data": {"tables": {"plant": READ}}})
    node.run("add_user", username="ann", password="secret", role="lender", active=True)
    ann = node.directory.get_user("ann")
    beyond = (403, "Your role cannot give rights that it does not have")
    assert problem(node, "grant", "lender", ["insert"], "plant", ann) == beyond
    assert problem(node, "grant", "clerk", ["read"], "garden.plant", ann) == beyond
    assert problem(node, "grant", "super_user", ["read"], "plant", ann) == (403, "Only super_user roles can create or change a super_user")
    node.run("add_user", username="bob", password="secret", role="anyone", active=True) if stored(node, "anyone") else None
    assert problem(node, "grant", "clerk", ["read"], "plant", node.directory.get_user("bob") or ann)[0] == 403  # it would have no list


def test_requests_of_one_turn_add_up(node: OperationsNode) -> None:
    import asyncio

    async def both() -> Any:
        one = {"operation": "grant", "role": "clerk", "rights": ["read"], "on": "plant"}
        other = {"operation": "grant", "role": "clerk", "rights": ["delete"], "on": "plant"}
        return await asyncio.gather(*(node._send(body, node.admin) for body in (one, other)))

    node.wait(both)
    assert stored(node, "clerk") == {"data": {"tables": {"plant": {**READ, "delete": True}}}}


# --- the role of everyone --------------------------------------------------------------------------------------------------------------------


def test_anonymous(node: OperationsNode) -> None:
    table = node.store.databases["data"].tables["plant"]
    assert not rights(None, table).any
    answer = node.run("grant", role="anonymous", rights=["read"], on="plant.name")
    assert answer["message"] == "Everyone, without a login too, may read data.plant.name"
    assert rights(None, table).readable == {"id", "name"}
    node.run("revoke", role="anonymous", rights=["read"], on="plant.name")
    assert not rights(None, table).any


@pytest.mark.parametrize(
    "more", [{"super_user": True}, {"structure_user": True}, {"structure_user": ["data"]}, {"operations": ["read_only"]}]
)
def test_everyone_has_rights_on_records_only(node: OperationsNode, more: dict[str, Any]) -> None:
    text = f"The role anonymous cannot have {next(iter(more))}: everyone has its rights"

    def refusal(**body: Any) -> tuple[int, str]:
        with pytest.raises(Problem) as raised:
            node.send(body, node.admin)
        return raised.value.status_code, raised.value.message

    assert refusal(operation="add_role", role="anonymous", permission=more) == (400, text)
    node.run("add_role", role="some", permission=more)
    assert refusal(operation="alter_role", id="some", role="anonymous", permission=more) == (400, text)
    records = [{"id": "x", "role": "anonymous", "permission": more}]
    assert refusal(operation="insert", database="system", table="svc_role", records=records) == (400, text)
    assert refusal(operation="update", database="system", table="svc_role", records=[{"id": "some", "role": "anonymous"}]) == (400, text)
    node.run("add_role", role="anonymous", permission={})
    assert refusal(operation="alter_role", id="anonymous", permission=more) == (400, text)
