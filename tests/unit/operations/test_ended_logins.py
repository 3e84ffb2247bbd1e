"""What ends the sessions and tokens of an account, and which one stays (spec: security §2, §3)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.errors import Problem
from tests.support.operations import OperationsNode
from tests.support.prepared import place_token_keys
from tests.unit.operations.test_tokens import Caller

CREATE = "create_authentication_tokens"
REFRESH = "refresh_operation_token"


def basic(username: str, password: str) -> str:
    return "Basic " + b64encode(f"{username}:{password}".encode()).decode()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    """`ann` is a super user, `bob` is not."""
    place_token_keys(tmp_path)
    with OperationsNode(tmp_path) as found:
        found.node.tokens.keys.prepare()
        found.run("add_role", role="reader", permission={})
        found.run("add_user", username="ann", password="s3cret", role="super_user", active=True)
        found.run("add_user", username="bob", password="s3cret", role="reader", active=True)
        yield found


class Logins:
    """Two sessions and two pairs of tokens of one user."""

    def __init__(self, node: OperationsNode, username: str, password: str = "s3cret") -> None:
        self.node = node
        self.username = username
        self.sessions = [Caller(node), Caller(node)]
        for session in self.sessions:
            session.send("login", username=username, password=password)
        self.pairs = [Caller(node).send(CREATE, username=username, password=password) for _ in range(2)]
        assert len({token for pair in self.pairs for token in pair.values()}) == 4

    def send(self, token: str, operation: str = "user_info", **body: Any) -> Any:
        return Caller(self.node).send(operation, f"Bearer {token}", **body)

    def alive(self) -> tuple[list[bool], list[bool], list[bool]]:
        """Which sessions, operation tokens and refresh tokens identify the user."""
        return (
            [self._is_user(lambda caller=session: caller.send("user_info")) for session in self.sessions],
            [self._is_user(lambda token=pair["operation_token"]: self.send(token)) for pair in self.pairs],
            [self._refreshes(pair["refresh_token"]) for pair in self.pairs],
        )

    def _is_user(self, ask: Callable[[], Any]) -> bool:
        try:
            return bool(ask()["username"] == self.username)
        except Problem as problem:
            assert problem.status_code == 401, problem
            return False

    def _refreshes(self, token: str) -> bool:
        try:
            return "operation_token" in Caller(self.node).send(REFRESH, refresh_token=token)
        except Problem as problem:
            assert (problem.status_code, problem.message) == (401, "invalid token")
            return False


ALL = ([True, True], [True, True], [False, True])  # of refresh tokens the newest is good
NONE = ([False, False], [False, False], [False, False])


def test_a_token_of_the_same_second_is_another(node: OperationsNode) -> None:
    assert Logins(node, "bob").alive() == ALL


@pytest.mark.parametrize(
    "ways",
    [
        [("alter_user", {"username": "bob", "password": "new"})],
        [("alter_user", {"username": "bob", "password": "s3cret"})],
        [("alter_user", {"username": "bob", "active": False}), ("alter_user", {"username": "bob", "active": True})],
        [("drop_user", {"username": "bob"}), ("add_user", {"username": "bob", "password": "s3cret", "role": "reader", "active": True})],
        [("update", {"database": "system", "table": "svc_user", "records": [{"username": "bob", "password": "new"}]})],
        [("upsert", {"database": "system", "table": "svc_user", "records": [{"username": "bob", "active": False}]}),
         ("upsert", {"database": "system", "table": "svc_user", "records": [{"username": "bob", "active": True}]})],
        [("delete", {"database": "system", "table": "svc_user", "ids": ["bob"]}),
         ("insert", {"database": "system", "table": "svc_user", "records": [
             {"username": "bob", "password": "s3cret", "role": "reader", "active": True}]})],
    ],
    ids=lambda ways: "-".join(name for name, _ in ways),
)  # fmt: skip
def test_what_ends_them(node: OperationsNode, ways: list[tuple[str, dict[str, Any]]]) -> None:
    logins, other = Logins(node, "bob"), Logins(node, "ann")
    assert logins.alive() == ALL
    for operation, body in ways:
        node.run(operation, **body)
    assert logins.alive() == NONE
    assert other.alive() == ALL


@pytest.mark.parametrize(
    "body", [{"role": "super_user"}, {"active": True}, {"active": True, "role": "super_user"}], ids=lambda body: "-".join(body)
)
def test_what_does_not(node: OperationsNode, body: dict[str, Any]) -> None:
    logins = Logins(node, "bob")
    node.run("alter_user", username="bob", **body)
    assert logins.alive() == ALL


def test_the_session_that_changed_the_password_stays(node: OperationsNode) -> None:
    logins = Logins(node, "ann")
    for password in ("first", "second"):
        logins.sessions[1].send("alter_user", username="ann", password=password)
        assert logins.alive() == ([False, True], [False, False], [False, False])


def test_the_token_that_changed_the_password_stays(node: OperationsNode) -> None:
    logins = Logins(node, "ann")
    token = logins.pairs[0]["operation_token"]
    for password in ("first", "second"):
        logins.send(token, "alter_user", username="ann", password=password)
        assert logins.alive() == ([False, False], [True, False], [False, False])
    logins.send(token, "alter_user", username="ann", role="super_user")
    assert logins.alive()[1] == [True, False]
    Caller(node).send("alter_user", basic("ann", "second"), username="ann", password="third")
    assert logins.alive() == NONE


def test_the_password_itself_saves_none(node: OperationsNode) -> None:
    logins = Logins(node, "ann")
    caller = logins.sessions[0]
    caller.send("alter_user", basic("ann", "s3cret"), username="ann", password="new")  # the cookie is there and does not count
    assert logins.alive() == NONE


def test_another_super_user_saves_none(node: OperationsNode) -> None:
    logins, others = Logins(node, "ann"), Logins(node, "admin", "password")
    others.sessions[0].send("alter_user", username="ann", password="new")
    assert logins.alive() == NONE and others.alive() == ALL
    others.send(others.pairs[0]["operation_token"], "alter_user", username="ann", password="newer")
    assert logins.alive() == NONE and others.alive() == ALL


def test_deactivation_saves_none(node: OperationsNode) -> None:
    logins = Logins(node, "ann")
    logins.sessions[0].send("alter_user", username="ann", password="new", active=False)
    node.run("alter_user", username="ann", active=True)
    assert logins.alive() == NONE


def test_one_that_was_kept_ends_with_the_account(node: OperationsNode) -> None:
    logins = Logins(node, "ann")
    token = logins.pairs[0]["operation_token"]
    logins.send(token, "alter_user", username="ann", password="new")
    node.run("drop_user", username="ann")
    node.run("add_user", username="ann", password="new", role="super_user", active=True)
    assert logins.alive() == NONE


@pytest.mark.parametrize("name", ["login_epoch", "kept_token"])
def test_what_binds_them_is_neither_sent_nor_shown(node: OperationsNode, name: str) -> None:
    with pytest.raises(Problem) as caught:
        node.run("update", database="system", table="svc_user", records=[{"username": "bob", name: "x"}])
    assert (caught.value.status_code, caught.value.message) == (400, f"Property {name} is not allowed")
    Logins(node, "ann").sessions[0].send("alter_user", username="ann", password="new")
    shown = [
        node.run("list_users"),
        list(node.run("search_by_id", database="system", table="svc_user", ids=["ann", "bob"], get_attributes=["*"])),
    ]
    assert name not in repr(shown)
