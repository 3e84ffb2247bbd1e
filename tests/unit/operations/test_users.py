"""Users: every text and status of operations §5, and that one super user always remains."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.auth.passwords import verify_password
from svc.errors import Problem
from svc.root.administrator import PASSWORD_FILE
from svc.store.schema import Attribute, TableDefinition
from tests.support.operations import OperationsNode

LAST = (409, "Cannot remove the last active super_user")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path) as node:
        node.run("add_role", role="gardener", permission={"structure_user": True})
        yield node


@pytest.fixture(autouse=True)
def quick_passwords(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Hashes that cost nothing, but where they are what is tested."""
    if "real_passwords" not in request.fixturenames:
        for module in ("svc.auth.users", "svc.operations.users", "svc.auth.first_super_user"):
            monkeypatch.setattr(f"{module}.hash_password", lambda password, function="": f"hash:{password}", raising=False)


@pytest.fixture
def real_passwords() -> None:
    pass


def add(
    node: OperationsNode, username: str = "ann", password: str = "secret", role: str = "gardener", active: bool = True, **more: Any
) -> Any:
    return node.run("add_user", username=username, password=password, role=role, active=active, **more)


def problem(node: OperationsNode, name: str, user: Any = None, **body: Any) -> tuple[int, str]:
    with pytest.raises(Problem) as raised:
        node.run(name, user, **body)
    return raised.value.status_code, raised.value.message


def stored(node: OperationsNode, username: str) -> dict[str, Any]:
    return node.directory.user_record(username) or {}


# --- what is answered ------------------------------------------------------------------------------------------------------------------


def test_add_list_and_info(node: OperationsNode) -> None:
    assert add(node) == {"message": "ann successfully added"}
    times = {"__createdtime__", "__updatedtime__"}
    users = node.run("list_users")
    assert [user["username"] for user in users] == ["admin", "ann"]
    ann = users[1]
    assert {name: value for name, value in ann.items() if name not in times} == {
        "username": "ann",
        "active": True,
        "role": {"id": "gardener", "role": "gardener", "permission": {"structure_user": True}},
    }
    assert times < set(ann) and all(type(ann[name]) is int for name in times)
    assert node.send({"operation": "user_info"}, node.directory.get_user("ann")) == ann


def test_secrets_are_shown_nowhere(node: OperationsNode) -> None:
    add(node)
    shown = str(
        [
            node.run("list_users"),
            node.run("user_info"),
            node.run("search_by_value", database="system", table="svc_user", attribute="username", value="*"),
            node.run("search_by_value", database="system", table="svc_user", attribute="username", value="*", get_attributes=["*"]),
        ]
    )
    assert "ann" in shown
    for secret in ("hash:", "secret", "hash_function", "refresh_token", "argon2"):
        assert secret not in shown


def test_a_user_without_role(node: OperationsNode) -> None:
    add(node)
    node.run("alter_user", username="ann", active=False)
    node.run("drop_role", id="gardener")
    assert node.run("list_users")[1]["role"] is None


def test_long_lists_give_way(node: OperationsNode) -> None:
    transaction = node.store.begin()
    users = node.store.databases["system"].tables["svc_user"]
    for number in range(3000):
        name = f"user{number:04}"
        transaction.put(users, name, {"username": name, "role": "gardener", "active": number % 2 == 0})
    transaction.apply()
    node.store.commit_turn()
    ticks = iter(range(10**9))
    node.store.slices._now = lambda: next(ticks) / 1e6
    found = node.run("list_users")
    assert len(found) == 3001 and [user["username"] for user in found] == sorted(user["username"] for user in found)


def test_alter(node: OperationsNode) -> None:
    add(node)
    before = stored(node, "ann")
    answer = node.run("alter_user", username="ann", active=False)
    assert {**answer, "txn_time": 0} == {
        "message": "updated 1 of 1 records",
        "new_attributes": [],
        "txn_time": 0,
        "update_hashes": ["ann"],
        "skipped_hashes": [],
    }
    assert answer["txn_time"] > 1e12
    assert not node.directory.get_user("ann").active
    after = stored(node, "ann")
    for name in ("__updatedtime__", "login_epoch", "kept_token", "refresh_token"):  # the latter: its logins have ended
        before.pop(name, None), after.pop(name, None)
    assert {**before, "active": False} == after
    node.run("alter_user", username="ann", role="super_user", password=None, active=None)
    assert node.directory.get_user("ann").super_user


def test_drop(node: OperationsNode) -> None:
    add(node)
    assert node.run("drop_user", username="ann") == {"message": "ann successfully deleted"}
    assert node.directory.get_user("ann") is None


@pytest.mark.parametrize("function", ["argon2id", "sha256"])
def test_passwords_are_hashed(tmp_path: Path, function: str, real_passwords: None) -> None:
    with OperationsNode(tmp_path, settings={"authentication": {"hashFunction": function}}) as node:
        add(node, role="super_user", password="first")
        assert stored(node, "ann")["hash_function"] == function
        assert verify_password("first", stored(node, "ann")["password"]).matches
        transaction = node.store.begin()
        transaction.patch(node.store.databases["system"].tables["svc_user"], "ann", {"refresh_token": "some hash"})
        transaction.apply()
        node.run("alter_user", username="ann", active=True)
        assert stored(node, "ann")["refresh_token"] == "some hash"
        node.run("alter_user", username="ann", password="second")
        assert verify_password("second", stored(node, "ann")["password"]).matches
        assert stored(node, "ann").get("refresh_token") is None
        assert stored(node, "ann")["hash_function"] == function


# --- what is refused -------------------------------------------------------------------------------------------------------------------

FULL = {"username": "bob", "password": "p", "role": "gardener", "active": True}


@pytest.mark.parametrize(
    ("changes", "status", "text"),
    [
        ({"username": None}, 400, "'username' is required"),
        ({"password": None}, 400, "'password' is required"),
        ({"role": None}, 400, "'role' is required"),
        ({"active": None}, 400, "'active' is required"),
        (dict.fromkeys(FULL), 400, "'username' is required. 'password' is required. 'role' is required. 'active' is required"),
        ({"username": ""}, 400, "'username' is not allowed to be empty"),
        ({"username": 5}, 400, "'username' must be a string"),
        ({"username": "x" * 251}, 400, "'username' length must be less than or equal to 250 characters long"),
        ({"username": "a\nb"}, 400, "'username' must not contain control characters"),
        ({"password": ""}, 400, "'password' is not allowed to be empty"),
        ({"password": " \t"}, 400, "'password' is not allowed to be empty"),
        ({"password": 5}, 400, "'password' must be a string"),
        ({"role": "a b"}, 400, "Role is invalid"),
        ({"role": ["gardener"]}, 400, "Role is invalid"),
        ({"role": "a b", "active": "yes"}, 400, "Role is invalid. Active must be a boolean"),
        ({"active": 1}, 400, "Active must be a boolean"),
        ({"role": "nobody"}, 404, "nobody role not found"),
        ({"username": "admin"}, 409, "User admin already exists"),
    ],
)
def test_add_refuses(node: OperationsNode, changes: dict[str, Any], status: int, text: str) -> None:
    assert problem(node, "add_user", **{**FULL, **changes}) == (status, text)
    assert len(node.run("list_users")) == 1


@pytest.mark.parametrize("field", ["username", "password", "role"])
def test_half_a_character_is_no_text(node: OperationsNode, field: str) -> None:
    assert problem(node, "add_user", **{**FULL, field: "\ud800"})[0] == 400
    assert problem(node, "alter_user", **{"username": "admin", "active": True, field: "\ud800"})[0] in (400, 404)


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({}, 400, "username is required"),
        ({"username": "admin"}, 400, "nothing to update, must supply active, role or password to update"),
        ({"username": "admin", "password": ""}, 400, "password cannot be an empty string"),
        ({"username": "admin", "password": "  "}, 400, "password cannot be an empty string"),
        ({"username": "admin", "password": 5}, 400, "password must be a string"),
        ({"username": "admin", "role": ""}, 400, "If role is specified, it cannot be empty."),
        ({"username": "admin", "role": 5}, 400, "role must be a string"),
        ({"username": "admin", "active": "true"}, 400, "active must be true or false"),
        ({"username": "admin", "active": 0, "role": ""}, 400, "If role is specified, it cannot be empty.. active must be true or false"),
        ({"username": "admin", "role": "nobody"}, 404, "Update failed.  Requested 'nobody' role not found."),
        ({"username": "nobody", "active": True}, 404, "User nobody does not exist"),
        ({"username": "nobody", "password": "x"}, 404, "User nobody does not exist"),
    ],
)
def test_alter_refuses(node: OperationsNode, body: dict[str, Any], status: int, text: str) -> None:
    before = stored(node, "admin")
    assert problem(node, "alter_user", **body) == (status, text)
    assert stored(node, "admin") == before


def test_drop_refuses(node: OperationsNode) -> None:
    assert problem(node, "drop_user") == (400, "'username' is required")
    assert problem(node, "drop_user", username="nobody") == (404, "User nobody does not exist")
    assert problem(node, "drop_user", username="x" * 5000)[0] == 404


def test_two_roles_of_one_name(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.store.databases["system"], "guard", None)  # which prevents this
    roles = node.store.databases["system"].tables["svc_role"]
    transaction = node.store.begin()
    transaction.put(roles, "other", {"id": "other", "role": "gardener", "permission": {}})
    transaction.apply()
    node.store.commit_turn()
    text = "Multiple gardener roles found.  Roles must have unique 'role' value. Please update and try again."
    assert problem(node, "add_user", **FULL) == (409, text)
    assert problem(node, "alter_user", username="admin", role="gardener") == (409, text)


# --- the last super user -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        {"operation": "drop_user", "username": "admin"},
        {"operation": "alter_user", "username": "admin", "active": False},
        {"operation": "alter_user", "username": "admin", "role": "gardener"},
        {"operation": "alter_role", "id": "super_user", "permission": {}},
        {"operation": "delete", "database": "system", "table": "svc_user", "ids": ["admin"]},
        {"operation": "delete", "database": "system", "table": "svc_role", "ids": ["super_user"]},
        {"operation": "update", "database": "system", "table": "svc_user", "records": [{"username": "admin", "active": False}]},
        {"operation": "upsert", "database": "system", "table": "svc_user", "records": [{"username": "admin", "role": "gardener"}]},
        {"operation": "update", "database": "system", "table": "svc_role", "records": [{"id": "super_user", "permission": {}}]},
    ],
)
def test_the_last_super_user_remains(node: OperationsNode, body: dict[str, Any]) -> None:
    with pytest.raises(Problem) as raised:
        node.send(body, node.admin)
    assert (raised.value.status_code, raised.value.message) == LAST
    node.run("add_role", role="root", permission={"super_user": True})
    add(node, "zoe", role="root")
    node.send(body, node.admin)
    zoe = node.directory.get_user("zoe")
    assert node.directory.first_super_user() == zoe
    assert problem(node, "drop_user", zoe, username="zoe") == LAST


def test_the_role_of_super_users_is_in_use(node: OperationsNode) -> None:
    assert problem(node, "drop_role", id="super_user") == (409, "Cannot drop role super_user as it has active user(s) tied to this role")


def outcomes(node: OperationsNode, *bodies: dict[str, Any]) -> list[Any]:
    """Of requests that arrive in one turn: True, or the text of the Problem."""

    async def one(body: dict[str, Any]) -> Any:
        try:
            await node._send(body, node.admin)
        except Problem as refused:
            return refused.message
        return True

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*map(one, bodies))

    return list(node.wait(all_of_them))


def test_requests_of_one_turn_see_each_other(node: OperationsNode) -> None:
    add(node, "zoe", role="super_user")
    found = outcomes(
        node,
        {"operation": "alter_user", "username": "zoe", "active": False},
        {"operation": "drop_user", "username": "admin"},
    )
    assert sorted(map(str, found)) == [LAST[1], "True"]
    assert node.directory.first_super_user() is not None


def test_a_name_is_taken_once(node: OperationsNode) -> None:
    body = {"operation": "add_user", **FULL}
    assert sorted(map(str, outcomes(node, body, body, body))) == ["True", "User bob already exists", "User bob already exists"]
    dropped = outcomes(node, {"operation": "drop_user", "username": "bob"}, {"operation": "drop_user", "username": "bob"})
    assert sorted(map(str, dropped)) == ["True", "User bob does not exist"]
    # A user dropped while its new password is being hashed does not come back.
    add(node)
    outcomes(node, {"operation": "alter_user", "username": "ann", "password": "x"}, {"operation": "drop_user", "username": "ann"})
    assert node.directory.get_user("ann") is None


def test_while_another_write_is_under_way(node: OperationsNode) -> None:
    async def run() -> Any:
        users = node.store.databases["system"].tables["svc_user"]
        transaction = node.store.begin()
        for number in range(500):
            transaction.patch(users, f"user{number}", {"active": True, "role": "gardener"})
        long_write = asyncio.ensure_future(transaction.apply_long())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        answer = await node._send({"operation": "add_user", **FULL, "username": "user7"}, node.admin)
        await long_write
        return answer

    with pytest.raises(Problem, match="User user7 already exists"):
        node.wait(run)


def test_changes_count_from_the_next_request_on(node: OperationsNode) -> None:
    add(node)
    ann = node.directory.get_user("ann")
    assert problem(node, "list_users", ann)[0] == 403
    node.run("alter_role", id="gardener", permission={"operations": ["list_users"]})
    assert node.run("list_users", node.directory.get_user("ann"))
    node.run("alter_role", id="gardener", permission={})
    assert problem(node, "list_users", node.directory.get_user("ann"))[0] == 403


# --- the initial password ----------------------------------------------------------------------------------------------------------------


def test_the_initial_password_is_forgotten_when_it_is_changed(node: OperationsNode, real_passwords: None) -> None:
    path = node.root / PASSWORD_FILE
    path.write_text("password\n")  # that of `admin`
    add(node, role="super_user", password="other")
    node.run("alter_user", username="ann", password="new")
    node.run("alter_user", username="admin", active=True)
    node.run("alter_user", username="admin", password="password")  # the same once more
    assert path.exists()
    node.run("alter_user", username="admin", password="new")
    assert not path.exists()


def test_the_initial_password_is_forgotten_with_its_user(node: OperationsNode, real_passwords: None) -> None:
    path = node.root / PASSWORD_FILE
    path.write_text("password\n")
    assert problem(node, "drop_user", username="admin") == LAST
    assert path.exists()
    add(node, role="super_user", password="other")
    node.run("drop_user", username="admin")
    assert not path.exists()


def test_records_written_directly_do_the_same(node: OperationsNode, real_passwords: None) -> None:
    path = node.root / PASSWORD_FILE
    table = {"database": "system", "table": "svc_user"}
    path.write_text("password\n")
    node.run("add_role", role="root", permission={"super_user": True})
    for verb in ("update", "upsert", "delete"):
        node.run("insert", **table, records=[{"username": verb, "password": "password", "role": "root", "active": True}])
        transaction = node.store.begin()
        transaction.patch(node.store.databases["system"].tables["svc_user"], verb, {"refresh_token": "some hash"})
        transaction.apply()
        node.store.commit_turn()
        path.write_text("password\n")
        if verb == "delete":
            node.run("delete", **table, ids=[verb])
        else:
            node.run(verb, **table, records=[{"username": verb, "active": True}])
            assert path.exists() and stored(node, verb)["refresh_token"] == "some hash"
            node.run(verb, **table, records=[{"username": verb, "password": "new"}])
            assert verify_password("new", stored(node, verb)["password"]).matches
            assert stored(node, verb).get("refresh_token") is None
        assert not path.exists()


# --- callers that are not super users ------------------------------------------------------------------------------------------------------

BEYOND = (403, "Only super_user roles can create or change a super_user")
TOO_MUCH = (403, "Your role cannot give rights that it does not have")
ABOVE = (403, "Your role cannot change or remove a role or a user with rights that it does not have itself")


def test_no_rights_are_made_up(node: OperationsNode) -> None:
    """security §5.5: listed operations do not add up to those of a super user."""
    node.store.open_database("data").define_table(TableDefinition("plant", attributes=(Attribute("id", primary_key=True),)))
    rights = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}
    operations = ["read_only", "add_user", "alter_user", "drop_user"]
    mine = {"operations": operations, "data": {"tables": {"plant": rights}}}
    node.run("add_role", role="clerk", permission=mine)
    node.run("add_role", role="reader", permission={"operations": ["read_only"], "data": {"tables": {"plant": rights}}})
    node.run("add_role", role="writer", permission={"operations": ["read_only"], "data": {"tables": {"plant": {**rights, "insert": True}}}})
    node.run("add_role", role="free", permission={"data": {"tables": {"plant": rights}}})
    add(node, "clara", role="clerk")
    add(node, "gary", role="gardener")
    clara = node.directory.get_user("clara")

    def run(name: str, **body: Any) -> Any:
        return node.run(name, clara, **body)

    assert run("add_user", **{**FULL, "role": "reader"}) == {"message": "bob successfully added"}
    for role, expected in (("super_user", BEYOND), ("writer", TOO_MUCH), ("gardener", TOO_MUCH), ("free", TOO_MUCH)):
        assert problem(node, "add_user", clara, **{**FULL, "username": "carl", "role": role}) == expected
        assert problem(node, "alter_user", clara, username="bob", role=role) == expected
    assert run("alter_user", username="bob", password="new")["update_hashes"] == ["bob"]
    for body in ({"password": "x"}, {"active": False}, {"role": "reader"}):
        assert problem(node, "alter_user", clara, username="admin", **body) == BEYOND
    for body in ({"password": "x"}, {"active": False}, {"role": "reader"}):
        assert problem(node, "alter_user", clara, username="gary", **body) == ABOVE
    assert problem(node, "drop_user", clara, username="gary") == ABOVE
    add(node, "peer", role="clerk")
    assert run("alter_user", username="peer", active=False)["update_hashes"] == ["peer"]
    assert problem(node, "drop_user", clara, username="admin") == BEYOND
    assert run("drop_user", username="bob") == {"message": "bob successfully deleted"}
    assert problem(node, "alter_user", clara, username="clara", role="super_user") == BEYOND
