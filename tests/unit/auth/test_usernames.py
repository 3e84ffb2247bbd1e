"""Names of users: one form, nothing that ends them early, look-alikes (spec: security §5.1)."""

from __future__ import annotations

import unicodedata
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.auth.first_super_user import ensure_first_super_user
from svc.auth.identify import PendingVerification
from svc.auth.sessions import Sessions
from svc.auth.usernames import canonical_username, skeleton, username_fault
from svc.errors import ConfigError, Problem
from svc.messages import HeaderBlock, Request
from svc.tls.mtls import ClientCertificates, Mtls
from svc.tls.peer import PeerCertificate
from tests.support.identifying import make_identifier
from tests.support.operations import OperationsNode

COMPOSED = "ren\u00e9"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path) as node:
        node.run("add_role", role="clerk", permission={})
        yield node


def add(node: OperationsNode, username: str, user: Any = None) -> Any:
    return node.run("add_user", user, username=username, password="secret12", role="clerk", active=True)


def names(node: OperationsNode) -> list[str]:
    return [user["username"] for user in node.run("list_users")]


def test_a_name_has_no_colon(node: OperationsNode) -> None:
    for name in ("ann:b", ":", "ann:"):
        with pytest.raises(Problem) as raised:
            add(node, name)
        assert raised.value.status_code == 400 and "must not contain ':'" in raised.value.message
        with pytest.raises(Problem) as raised:
            node.run("insert", database="system", table="svc_user", records=[{"username": name, "role": "clerk", "active": True}])
        assert raised.value.status_code == 400 and "must not contain ':'" in raised.value.message
    assert names(node) == ["admin"]
    assert username_fault("ann") is None and username_fault("a\u200bb") == "must not contain control characters"


def test_every_form_of_a_name_is_the_same_user(node: OperationsNode) -> None:
    assert add(node, DECOMPOSED) == {"message": f"{COMPOSED} successfully added"}
    assert names(node) == ["admin", COMPOSED]
    with pytest.raises(Problem) as raised:
        add(node, DECOMPOSED)
    assert raised.value.status_code == 409
    directory = node.directory
    user = directory.get_user(COMPOSED)
    assert user is not None and directory.get_user(DECOMPOSED) == user and list(directory._users) == [COMPOSED]
    assert directory.stored_name(DECOMPOSED) == COMPOSED
    assert node.run("alter_user", username=DECOMPOSED, active=True)["update_hashes"] == [COMPOSED]
    assert node.run("user_info", impersonate={"username": DECOMPOSED})["username"] == COMPOSED
    verified = node.wait(lambda: node.node.verifier.verify(DECOMPOSED, "secret12", None))
    assert verified.username == COMPOSED
    who = make_identifier(directory, node.clock, verifier=node.node.verifier, certificates=ClientCertificates(Mtls()))
    basic = b64encode(f"{DECOMPOSED}:secret12".encode()).decode()
    request = Request("GET", "/", HeaderBlock([("authorization", f"Basic {basic}")]))
    found = who.identify(request)
    assert (found.finish(found.work()) if type(found) is PendingVerification else found).username == COMPOSED
    request = Request("GET", "/", HeaderBlock([]))
    request.peer_certificate = PeerCertificate({"subject": ((("commonName", DECOMPOSED),),)}, b"der")
    assert who.identify(request).username == COMPOSED
    assert node.run("alter_user", user, username=DECOMPOSED, password="another12", current_password="secret12")["update_hashes"] == [
        COMPOSED
    ]
    assert node.run("drop_user", username=DECOMPOSED) == {"message": f"{COMPOSED} successfully deleted"}


def test_wrong_passwords_for_all_forms_count_together(node: OperationsNode) -> None:
    add(node, "\u00e9\u00e9\u00e9")
    verifier = node.node.verifier
    keys = set()
    for form in ("\u00e9\u00e9\u00e9", "e\u0301\u00e9\u00e9", "e\u0301e\u0301e\u0301"):
        pending = verifier.begin(form.encode(), form, "wrong", "10.0.0.1")
        keys.add(pending.attempt)
        pending.abandon()
    assert len(keys) == 1


def test_a_name_that_a_former_version_has_stored_goes_on(node: OperationsNode) -> None:
    users = node.store.databases["system"].tables["svc_user"]
    transaction = node.store.begin()
    transaction.put(users, DECOMPOSED, {"username": DECOMPOSED, "role": "clerk", "active": True})
    transaction.apply()
    node.store.commit_turn()
    assert node.directory.stored_name(DECOMPOSED) == DECOMPOSED
    assert node.run("alter_user", username=DECOMPOSED, active=False)["update_hashes"] == [DECOMPOSED]
    answer = add(node, COMPOSED)
    assert answer["warning"] == f"The name looks like that of '{DECOMPOSED}': people may take one for the other"
    assert {user["username"] for user in node.run("list_users")} == {"admin", COMPOSED, DECOMPOSED}
    with pytest.raises(Problem) as raised:
        node.run("insert", database="system", table="svc_user", records=[{"username": "e\u0301", "role": "clerk", "active": True}])
    assert "form NFC" in raised.value.message


def test_look_alikes_are_warned_of(node: OperationsNode) -> None:
    assert add(node, "\u0430dmin")["warning"].startswith("The name looks like that of 'admin'")
    assert "warning" not in add(node, "adminx")
    node.run("add_role", role="adder", permission={"operations": ["add_user"]})
    node.run("add_role", role="less", permission={"operations": []})
    node.run("add_user", username="clara", password="secret12", role="adder", active=True)
    body = {"username": "\u0430dm\u00edn", "password": "secret12", "role": "less", "active": True}
    answer = node.run("add_user", node.directory.get_user("clara"), **body)
    assert answer["warning"] == "The name looks like that of another user: people may take one for the other"


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("admin", "\u0430dmin", True),
        ("admin", "Admin", True),
        ("admin", "admin ", True),
        ("paul", "pau1", True),
        ("paul", "PauI", True),
        ("ann", "\uff41nn", True),
        ("ren\u00e9", "rene", True),
        ("ann", "anna", False),
        ("mail", "mall", False),
    ],
)
def test_skeletons(one: str, other: str, alike: bool) -> None:
    assert (skeleton(one) == skeleton(other)) is alike


def test_the_first_super_user_has_such_a_name_too(node: OperationsNode) -> None:
    users = node.store.databases["system"].tables["svc_user"]
    node.store.databases["system"].guard = None
    transaction = node.store.begin()
    transaction.delete(users, "admin")
    transaction.apply()
    node.store.commit_turn()
    with pytest.raises(ConfigError, match="must not contain ':'"):
        ensure_first_super_user(node.store, "a:b", "secret12")
    created = ensure_first_super_user(node.store, DECOMPOSED, "secret12")
    assert created is not None and created.username == COMPOSED


def test_a_session_holds_the_name_as_it_is_stored(node: OperationsNode) -> None:
    add(node, COMPOSED)
    sessions = Sessions(node.store, node.directory, node.clock)
    request = Request("GET", "/", HeaderBlock([]))
    request.sessions = sessions
    session = request.session
    assert session is not None
    node.wait(lambda: session.update({"user": DECOMPOSED}))
    assert session.user == COMPOSED


def test_long_texts_are_left_alone() -> None:
    assert canonical_username("e\u0301" * 10_000) == "e\u0301" * 10_000
