"""Operations for sessions (spec: operations §6)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.auth.sessions import Session
from svc.errors import Problem
from svc.messages import HeaderBlock, Request
from svc.operations.sessions import handle_of
from svc.store.system import SESSION_LOGIN, SESSION_SINCE
from tests.support.operations import OperationsNode


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path) as found:
        found.run("alter_user", username="admin", password="s3cret")
        found.run("add_role", role="gardener", permission={"operations": ["user_info"]})
        clerk = ["list_sessions", "end_session", "end_sessions", "user_info"]
        found.run("add_role", role="clerk", permission={"operations": clerk})
        for name, role in (("ann", "gardener"), ("bob", "clerk"), ("ben", "gardener")):
            found.run("add_user", username=name, password="s3cret", role=role, active=True)
        yield found


def log_in(node: OperationsNode, username: str) -> Session:
    request = Request("POST", "/", HeaderBlock([("host", "localhost")]))
    request.sessions = node.node.sessions
    node.wait(lambda: request.login(username, "s3cret"))
    assert isinstance(request.session, Session)
    return request.session


def cookie_request(session_id: str | None) -> Request:
    return Request("GET", "/", HeaderBlock([("host", "localhost"), ("cookie", f"svc-session={session_id}")]))


def lives(node: OperationsNode, session: Session) -> bool:
    return node.node.sessions.user(cookie_request(session.id)) is not None


def refused(node: OperationsNode, operation: str, by: str = "admin", **fields: Any) -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        node.run(operation, node.directory.get_user(by), **fields)
    return caught.value.status_code, caught.value.message


def test_sessions_are_listed_without_what_lets_in(node: OperationsNode) -> None:
    started = node.clock.wall() * 1000
    session = log_in(node, "ann")
    node.clock.advance(60)
    log_in(node, "admin")
    first, second = node.run("list_sessions")
    assert (first["username"], second["username"]) == ("admin", "ann")
    assert second["session"] == handle_of(str(session.id)) and re.fullmatch("[0-9a-f]{8}-[0-9a-f]{16}", second["session"])
    assert str(session.id) not in str((first, second)) and second["session"].startswith(str(session.id)[:8])
    assert second["since"] == pytest.approx(started) and second["renewed"] == pytest.approx(started)
    assert second["expires"] == pytest.approx(started + 30 * 86_400_000) and second["is_own"] is False
    assert node.node.sessions.user(cookie_request(second["session"])) is None
    assert [each["username"] for each in node.run("list_sessions", username="ann")] == ["ann"]
    assert node.run("list_sessions", username="nobody") == [] and len(node.run("list_sessions", limit=1)) == 1


def test_the_own_session_is_told(node: OperationsNode) -> None:
    log_in(node, "admin")
    session = log_in(node, "admin")
    request = cookie_request(session.id)
    request.sessions = node.node.sessions
    found = node.send({"operation": "list_sessions"}, node.admin, request)
    assert [each["is_own"] for each in found if each["session"] == handle_of(str(session.id))] == [True]
    assert sum(each["is_own"] for each in found) == 1


def test_only_those_that_let_somebody_in(node: OperationsNode) -> None:
    session = log_in(node, "ann")
    anonymous = cookie_request(None)
    anonymous.sessions = node.node.sessions
    node.wait(lambda: anonymous.session.update({"basket": 1}))  # type: ignore[union-attr]
    assert [each["username"] for each in node.run("list_sessions")] == ["ann"]
    node.run("alter_user", username="ann", password="another")
    assert node.run("list_sessions") == []
    assert refused(node, "end_session", session=handle_of(str(session.id)))[0] == 404


def test_one_session_is_ended(node: OperationsNode) -> None:
    one, other = log_in(node, "ann"), log_in(node, "ann")
    assert node.run("end_session", session=handle_of(str(one.id))) == {"message": "A session of ann has ended"}
    assert not lives(node, one) and lives(node, other)
    assert refused(node, "end_session", session=handle_of(str(one.id))) == (
        404,
        f"Session {handle_of(str(one.id))} does not exist, or has ended",
    )


@pytest.mark.parametrize("wrong", ["", "x", "0" * 36, None, 7, "é" * 25, "\x00" * 25])
def test_what_is_no_session(node: OperationsNode, wrong: Any) -> None:
    session = log_in(node, "ann")
    assert refused(node, "end_session", session=wrong)[0] in (400, 404)
    assert refused(node, "end_session", session=session.id)[0] == 400
    assert refused(node, "end_session", session=str(session.id)[:8] + "-" + "0" * 16)[0] == 404
    assert lives(node, session)


def test_all_of_a_user_are_ended(node: OperationsNode) -> None:
    one, other, third = log_in(node, "ann"), log_in(node, "ann"), log_in(node, "ben")
    key = node.send({"operation": "create_key", "name": "import", "user": "ann"}, node.admin)
    assert node.run("end_sessions", username="ann") == {"message": "All sessions and tokens of ann have ended"}
    assert (lives(node, one), lives(node, other), lives(node, third)) == (False, False, True)
    assert [each["active"] for each in node.run("list_keys") if each["prefix"] == key["prefix"]] == [True]
    assert lives(node, log_in(node, "ann"))
    assert refused(node, "end_sessions", username="nobody") == (404, "User nobody does not exist")


def test_whoever_the_list_of_a_role_lets_ends_no_session_of_more_rights(node: OperationsNode) -> None:
    assert refused(node, "list_sessions", "ann")[0] == 403
    admin, ann = log_in(node, "admin"), log_in(node, "bob")
    bob = node.directory.get_user("bob")
    assert len(node.run("list_sessions", bob)) == 2
    assert refused(node, "end_session", "bob", session=handle_of(str(admin.id)))[0] == 403
    assert refused(node, "end_sessions", "bob", username="admin")[0] == 403
    assert lives(node, admin)
    node.run("end_session", bob, session=handle_of(str(ann.id)))
    assert not lives(node, ann)


def test_what_is_kept_of_a_session_is_none_of_its_properties(node: OperationsNode) -> None:
    session = log_in(node, "ann")
    assert node.wait(session.get).keys() == {"id", "user"}
    for name in (SESSION_SINCE, SESSION_LOGIN):
        with pytest.raises(Problem):
            node.wait(lambda name=name: session.update({name: 0}))
