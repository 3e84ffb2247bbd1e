"""Operations for tokens and sessions (spec: operations §6, security §2, §11)."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from svc.auth.identify import PendingVerification
from svc.auth.users import User
from svc.errors import Problem
from svc.messages import HeaderBlock, Request
from svc.store.system import ROLE_TABLE, SYSTEM, USER_TABLE
from svc.store.writing.commit import wait_committed
from tests.support.identifying import make_identifier
from tests.support.operations import OperationsNode
from tests.support.prepared import place_token_keys

CREATE = "create_authentication_tokens"


class Caller:
    """Sends bodies with a real request, as the operations port does, and keeps its cookies."""

    def __init__(self, node: OperationsNode) -> None:
        self.node = node
        parts = node.node
        self.identifier = make_identifier(
            node.directory,
            clock=node.clock,
            verifier=parts.verifier,
            tokens=parts.tokens,
            sessions=parts.sessions,
            refresh_tokens=True,
            unix_socket=True,
        )
        self.cookies: dict[str, str] = {}

    def send(
        self, operation: str, authorization: str | None = None, *, origin: str | None = None, peer: str = "10.0.0.1", **body: Any
    ) -> Any:
        pairs = [("host", "localhost:9925")]
        if authorization is not None:
            pairs.append(("authorization", authorization))
        if origin is not None:
            pairs.append(("origin", origin))
        if self.cookies:
            pairs.append(("cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items())))
        request = Request("POST", "/", HeaderBlock(pairs))
        request.peer = peer
        who = self.identifier.identify(request)
        request.user = who.finish(who.work()) if type(who) is PendingVerification else who
        self.user = None if request.user is None else request.user.username

        async def run() -> Any:
            call = self.node.operations.prepare({"operation": operation, **body}, request.user, request)
            result = self.node.operations.run(call)
            result = await result if inspect.isawaitable(result) else result
            if call.pending_commit is not None:
                await wait_committed(call.pending_commit)
            return result

        try:
            return self.node.wait(run)
        finally:
            for name, value in request.added_headers or ():
                if name == "Set-Cookie":
                    key, _, text = value.partition(";")[0].partition("=")
                    self.cookies[key] = text


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    place_token_keys(tmp_path)
    with OperationsNode(tmp_path) as found:
        found.node.tokens.keys.prepare()
        put(found, ROLE_TABLE, "reader", {"id": "reader", "role": "reader", "permission": {}})
        add_user(found, "ann", "s3cret")
        yield found


@pytest.fixture
def caller(node: OperationsNode) -> Caller:
    return Caller(node)


def put(node: OperationsNode, table: str, key: str, record: dict[str, Any]) -> None:
    transaction = node.store.begin()
    transaction.put(node.store.databases[SYSTEM].tables[table], key, record)
    transaction.apply()
    node.store.commit_turn()
    node.store.end_turn()


def add_user(node: OperationsNode, name: str, password: str, *, active: bool = True) -> None:
    from svc.auth.users import new_user_record

    put(node, USER_TABLE, name, new_user_record(name, password, "reader", active=active))


def refused(work: Any, status: int = 401) -> str:
    with pytest.raises(Problem) as caught:
        work()
    assert caught.value.status_code == status
    return caught.value.message


# --- tokens ----------------------------------------------------------------------------------------------------------------------------


def test_pair_for_a_password(caller: Caller) -> None:
    made = caller.send(CREATE, username="ann", password="s3cret", expires_in="2h")
    assert set(made) == {"operation_token", "refresh_token"}
    assert caller.send("refresh_operation_token", refresh_token=made["refresh_token"]).keys() == {"operation_token"}
    claims = jwt.decode(made["operation_token"], options={"verify_signature": False})
    assert (claims["username"], claims["exp"] - claims["iat"]) == ("ann", 7200)


@pytest.mark.parametrize(("username", "password"), [("ann", "wrong"), ("nobody", "s3cret"), ("x" * 3000, "s3cret")])
def test_wrong_credentials(caller: Caller, username: str, password: str) -> None:
    assert refused(lambda: caller.send(CREATE, username=username, password=password)) == "invalid credentials"


def test_inactive(node: OperationsNode, caller: Caller) -> None:
    add_user(node, "bob", "s3cret", active=False)
    assert refused(lambda: caller.send(CREATE, username="bob", password="s3cret")) == "Cannot complete request: User is inactive"
    assert refused(lambda: caller.send(CREATE, username="bob", password="wrong")) == "invalid credentials"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"username": "ann", "password": ""}, "'password' is not allowed to be empty"),
        ({"username": "", "password": "x"}, "'username' is not allowed to be empty"),
        ({"username": 5, "password": []}, "'username' must be a string. 'password' must be a string"),
        ({"username": "ann", "password": "s3cret", "expires_in": "soon"}, "'expires_in' is invalid"),
        ({"username": "ann", "password": "s3cret", "expires_in": {}}, "'expires_in' is invalid"),
        ({"username": "ann", "password": "s3cret", "role": 5}, "'role' must be a string"),
    ],
)
def test_bad_fields(caller: Caller, body: dict[str, Any], text: str) -> None:
    assert refused(lambda: caller.send(CREATE, **body), 400) == text


@pytest.mark.parametrize(
    "body", [{"username": "ann"}, {"password": "s3cret"}, {"username": "ann", "password": None}, {"username": "nobody"}]
)
def test_half_a_pair_is_no_credential(caller: Caller, body: dict[str, Any]) -> None:
    assert refused(lambda: caller.send(CREATE, **body)) == "invalid credentials"
    assert refused(lambda: caller.send(CREATE, bypass_auth=True, **body)) == "invalid credentials"


def test_pair_for_the_caller(caller: Caller) -> None:
    assert refused(lambda: caller.send(CREATE)) == "Must login"
    first = caller.send(CREATE, username="ann", password="s3cret")
    second = caller.send(CREATE, f"Bearer {first['operation_token']}")
    assert caller.node.node.tokens.verify(second["operation_token"]).user.username == "ann"
    by_socket = caller.send(CREATE, peer="unix")
    assert caller.node.node.tokens.verify(by_socket["operation_token"]).user.username == "admin"


def test_credentials_go_before_the_caller(caller: Caller) -> None:
    made = caller.send(CREATE, peer="unix", username="ann", password="s3cret")
    assert caller.node.node.tokens.verify(made["operation_token"]).user.username == "ann"
    assert refused(lambda: caller.send(CREATE, peer="unix", username="ann", password="no")) == "invalid credentials"


def test_bypass_is_for_code(node: OperationsNode) -> None:
    made = node.wait(lambda: node.operations.perform({"operation": CREATE, "username": "ann", "bypass_auth": True}))
    assert node.node.tokens.verify(made["operation_token"]).user.username == "ann"
    for value in (False, 1, "true", None):
        body = {"operation": CREATE, "username": "ann", "bypass_auth": value}
        assert refused(lambda body=body: node.wait(lambda: node.operations.perform(body))) == "invalid credentials"
    body = {"operation": CREATE, "username": "nobody", "bypass_auth": True}
    assert refused(lambda: node.wait(lambda: node.operations.perform(body))) == "invalid credentials"


def test_caller_who_is_not_stored(node: OperationsNode) -> None:
    assert refused(lambda: node.run(CREATE, User("ghost"))) == "invalid credentials"


def test_role(caller: Caller) -> None:
    made = caller.send(CREATE, username="ann", password="s3cret", role="reporter")
    assert refused(lambda: caller.send(CREATE, f"Bearer {made['operation_token']}")) == "invalid token"


def test_second_pair_ends_the_first_refresh_token(caller: Caller) -> None:
    """Acceptance example 8."""
    first = caller.send(CREATE, username="ann", password="s3cret")
    caller.node.clock.advance(1)
    second = caller.send(CREATE, username="ann", password="s3cret")
    assert refused(lambda: caller.send("refresh_operation_token", refresh_token=first["refresh_token"])) == "invalid token"
    assert caller.send("refresh_operation_token", refresh_token=second["refresh_token"])


def test_refresh_by_header(caller: Caller) -> None:
    made = caller.send(CREATE, username="ann", password="s3cret")
    renewed = caller.send("refresh_operation_token", f"Bearer {made['refresh_token']}")
    assert caller.user is None
    assert caller.node.node.tokens.verify(renewed["operation_token"]).user.username == "ann"


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({}, 400, "'refresh_token' is required"),
        ({"refresh_token": None}, 400, "'refresh_token' is required"),
        ({"refresh_token": 5}, 400, "'refresh_token' must be a string"),
        ({"refresh_token": ""}, 400, "'refresh_token' is not allowed to be empty"),
        ({"refresh_token": "nonsense"}, 401, "invalid token"),
        ({"refresh_token": "x" * 100_000}, 401, "invalid token"),
    ],
)
def test_bad_refreshes(caller: Caller, body: dict[str, Any], status: int, text: str) -> None:
    assert refused(lambda: caller.send("refresh_operation_token", **body), status) == text


def test_expired_refresh_token(caller: Caller) -> None:
    made = caller.send(CREATE, username="ann", password="s3cret")
    caller.node.clock.advance(30 * 86_400)
    assert refused(lambda: caller.send("refresh_operation_token", refresh_token=made["refresh_token"])) == "token expired"


# --- sessions --------------------------------------------------------------------------------------------------------------------------


def test_login_and_logout(caller: Caller) -> None:
    assert caller.send("login", username="ann", password="s3cret") == {"message": "Login successful"}
    assert list(caller.cookies) == ["svc-session"]
    assert caller.send("logout") == {"message": "Logout successful"}
    assert caller.user == "ann"
    with pytest.raises(Problem):
        caller.send(CREATE)
    assert caller.user is None
    assert caller.send("logout") == {"message": "Logout successful"}  # the session is still there


def test_cookie_with_another_origin(caller: Caller) -> None:
    """Acceptance example 10."""
    caller.send("login", username="ann", password="s3cret")
    with pytest.raises(Problem) as caught:
        caller.send(CREATE, origin="https://evil.example")
    assert caller.user is None and caught.value.message == "Must login"  # the dispatcher adds why


def test_logout_keeps_the_other_properties(caller: Caller) -> None:
    caller.send("login", username="ann", password="s3cret")
    session_id = next(iter(caller.cookies.values()))
    caller.send("logout")
    assert caller.node.node.sessions.record(session_id) | {"__since__": 0} == {
        "id": session_id,
        "user": None,
        "__login__": None,
        "__since__": 0,
    }


def test_wrong_login(caller: Caller) -> None:
    for name, password in (("ann", "no"), ("nobody", "no")):
        assert refused(lambda n=name, p=password: caller.send("login", username=n, password=p)) == "Login failed"
    assert caller.cookies == {}
    assert refused(lambda: caller.send("login"), 400) == "'username' is required. 'password' is required"


def test_no_session(caller: Caller) -> None:
    assert refused(lambda: caller.send("logout"), 400) == "No session for logout"
    caller.cookies["svc-session"] = "00000000-0000-4000-8000-000000000000"
    assert refused(lambda: caller.send("logout"), 400) == "No session for logout"


def test_calls_from_code_have_no_session(node: OperationsNode) -> None:
    assert refused(lambda: node.run("login", username="ann", password="s3cret"), 400) == "No session for login"
    assert refused(lambda: node.run("logout"), 400) == "No session for logout"


def test_sessions_switched_off(tmp_path: Path) -> None:
    with OperationsNode(tmp_path, settings={"authentication": {"enableSessions": False}}) as node:
        caller = Caller(node)
        assert refused(lambda: caller.send("login", username="admin", password="password"), 400) == "No session for login"
        assert refused(lambda: caller.send("logout"), 400) == "No session for logout"
