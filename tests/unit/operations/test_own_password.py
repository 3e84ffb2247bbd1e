"""Lengths of new passwords, and users that change their own (spec: security §1.3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.auth.passwords import hash_password, verify_password
from svc.auth.throttle import FREE_FAILURES, FailureDelays
from svc.errors import Problem
from svc.operations import users
from svc.operations.registry import by_name
from tests.support.operations import OperationsNode

SHORT = (400, "password must have at least 8 characters")
OLD, NEW = "short", "blue-heron-17"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    """Its user ann has a password that was long enough when it was set."""
    with OperationsNode(tmp_path, settings={"authentication": {"passwordMinLength": 8, "hashFunction": "sha256"}}) as node:
        node.run("add_role", role="gardener", permission={"operations": ["read_only"]})
        node.run("add_user", username="ann", password="to be replaced", role="gardener", active=True)
        transaction = node.store.begin()
        transaction.patch(node.store.databases["system"].tables["svc_user"], "ann", {"password": hash_password(OLD)})
        transaction.apply()
        node.store.commit_turn()
        yield node


def problem(node: OperationsNode, user: str = "admin", **body: Any) -> tuple[int, str]:
    with pytest.raises(Problem) as raised:
        node.send(body, node.directory.get_user(user))
    return raised.value.status_code, raised.value.message


def change(node: OperationsNode, user: str = "ann", **body: Any) -> Any:
    return node.send({"operation": "alter_user", "username": "ann", **body}, node.directory.get_user(user))


def holds(node: OperationsNode, password: str) -> bool:
    record = node.directory.user_record("ann") or {}
    return verify_password(password, record["password"]).matches


# --- length --------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("password", ["1234567", "ümläüté"])
def test_new_passwords_have_a_least_length(node: OperationsNode, password: str) -> None:
    user = {"username": "bob", "password": password, "role": "gardener", "active": True}
    table = {"database": "system", "table": "svc_user"}
    assert problem(node, operation="add_user", **user) == SHORT
    assert problem(node, operation="alter_user", username="ann", password=password) == SHORT
    for operation in ("insert", "upsert", "update"):
        records = [{**user, "username": "ann" if operation == "update" else "bob"}]
        assert problem(node, operation=operation, **table, records=records) == SHORT
    assert node.directory.get_user("bob") is None and holds(node, OLD)


def test_characters_are_counted(node: OperationsNode) -> None:
    node.run("alter_user", username="ann", password="ümläütés")
    assert holds(node, "ümläütés")


def test_all_faults_are_told_at_once(node: OperationsNode) -> None:
    body = {"operation": "add_user", "username": "bob", "password": "x", "role": "?", "active": 1}
    assert problem(node, **body) == (400, f"{SHORT[1]}. Role is invalid. Active must be a boolean")


def test_a_shorter_password_that_is_stored_still_counts(node: OperationsNode) -> None:
    tokens = node.send({"operation": "create_authentication_tokens", "username": "ann", "password": OLD}, None)
    assert set(tokens) == {"operation_token", "refresh_token"}
    node.run("alter_user", username="ann", active=True)


# --- the own password ----------------------------------------------------------------------------------------------------------------------


def test_every_user_changes_the_own_password(node: OperationsNode) -> None:
    assert change(node, password=NEW, current_password=OLD)["update_hashes"] == ["ann"]
    assert holds(node, NEW)
    node.run("delete", database="system", table="svc_role", ids=["gardener"])
    change(node, password="another one", current_password=NEW)  # without a role too
    assert holds(node, "another one")


@pytest.mark.parametrize(
    ("current", "expected"),
    [
        ("wrong", (403, "current_password is wrong")),
        (OLD + " ", (403, "current_password is wrong")),
        ("", (400, "'current_password' is not allowed to be empty")),
        ("\ud800", (400, "'current_password' must be a well-formed Unicode string")),
        (1, (400, "'current_password' must be a string")),
    ],
)
def test_with_the_current_one_only(node: OperationsNode, current: Any, expected: tuple[int, str]) -> None:
    assert problem(node, "ann", operation="alter_user", username="ann", password=NEW, current_password=current) == expected
    assert holds(node, OLD)


def test_nothing_else_and_no_other_users(node: OperationsNode) -> None:
    node.run("add_user", username="bob", password=OLD + "er password", role="gardener", active=True)
    own = {"operation": "alter_user", "username": "ann", "password": NEW, "current_password": OLD}
    refused = "This operation is not authorized due to role restrictions and/or invalid database items"
    for wish in ({"role": "super_user"}, {"active": True}, {"username": "bob"}, {"username": "admin"}, {"current_password": None}):
        assert problem(node, "ann", **{**own, **wish}) == (403, refused), wish
    for username in ("bob", "admin"):
        assert problem(node, "ann", operation="alter_user", username=username, password=NEW) == (403, refused)
    assert holds(node, OLD)
    other = (400, "'current_password' is only for changing your own password")
    assert problem(node, **own) == other  # of a super user
    assert problem(node, **own, impersonate={"username": "ann"})[0] == 403  # as ann, who may do so only herself
    assert problem(node, "ann", operation="alter_user", username="ann", active=True, current_password=OLD) == (403, refused)
    assert problem(node, operation="alter_user", username="admin", active=True, current_password="password") == (
        400,
        "'current_password' needs the new 'password'",
    )
    assert problem(node, "ann", **{**own, "password": "1234567"}) == SHORT
    assert problem(node, "ann", **{**own, "password": None})[0] == 400


def test_code_without_a_user_has_no_own_password(node: OperationsNode) -> None:
    body = {"operation": "alter_user", "username": "ann", "password": NEW, "current_password": OLD}

    async def perform() -> Any:
        return await node.operations.perform(body)

    with pytest.raises(Problem, match="only for changing your own password"):
        node.wait(perform)


def test_a_password_set_meanwhile_is_not_replaced(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """An administrator gives ann another password while that of ann is being hashed."""

    def hash_slowly(password: str, function: str) -> str:
        node.loop.call_soon_threadsafe(replace)
        return hash_password(password, function)

    def replace() -> None:
        transaction = node.store.begin()
        transaction.patch(node.store.databases["system"].tables["svc_user"], "ann", {"password": "another hash"})
        transaction.apply()

    monkeypatch.setattr(users, "hash_password", hash_slowly)
    assert problem(node, "ann", operation="alter_user", username="ann", password=NEW, current_password=OLD) == (
        409,
        "The password was changed at the same time",
    )
    assert (node.directory.user_record("ann") or {})["password"] == "another hash"


def test_failures_count_as_failed_logins(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    delays = node.node.verifier._delays = FailureDelays(node.clock)
    for number in range(FREE_FAILURES):
        problem(node, "ann", operation="alter_user", username="ann", password=NEW, current_password=f"guess {number}")
    assert delays.delay(delays.key("ann", "")) > 0


def test_the_current_password_is_a_secret() -> None:
    assert {"password", "current_password"} <= by_name()["alter_user"].secrets
