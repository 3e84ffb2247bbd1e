"""Operations for API keys (spec: rows §2.7)."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.auth.api_key_format import hash_of, is_whole, prefix_of
from svc.auth.api_keys import ApiKeys
from svc.auth.users import User
from svc.errors import Problem
from svc.messages import HeaderBlock, Request
from svc.operations import api_keys
from svc.store.system import KEY_TABLE, KEY_USE_TABLE, SYSTEM
from svc.store.values.records import decode
from tests.support.identifying import make_identifier
from tests.support.operations import OperationsNode

GARDENER = {"data": {"tables": {"plant": {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}}}}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path) as found:
        found.run("create_table", table="plant", primary_key="id")
        found.run("add_role", role="gardener", permission={**GARDENER, "operations": ["user_info"]})
        found.run("add_role", role="clerk", permission={**GARDENER, "operations": ["create_key", "list_keys", "revoke_key", "user_info"]})
        found.run("add_user", username="ann", password="s3cret", role="gardener", active=True)
        yield found


def caller(node: OperationsNode, key: str) -> User:
    made = Request("POST", "/", HeaderBlock([("authorization", f"Bearer {key}")]))
    found = make_identifier(node.directory, clock=node.clock, keys=lambda: ApiKeys(node.directory, node.clock)).identify(made)
    assert type(found) is User
    return found


def clerk(node: OperationsNode) -> User:
    node.run("add_user", username="bob", password="s3cret", role="clerk", active=True)
    found = node.directory.get_user("bob")
    assert found is not None
    return found


def create(node: OperationsNode, by: User | None = None, **fields: Any) -> str:
    return str(send(node, "create_key", by, **{"name": "import", **fields})["key"])


def send(node: OperationsNode, operation: str, by: User | None = None, **fields: Any) -> Any:
    return node.send({"operation": operation, **fields}, node.admin if by is None else by)


def refused(node: OperationsNode, operation: str, by: User | None = None, **fields: Any) -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        send(node, operation, by, **fields)
    return caught.value.status_code, caught.value.message


def lives(node: OperationsNode, key: str) -> bool:
    try:
        caller(node, key)
    except Problem as problem:
        assert problem.status_code == 401
        return False
    return True


def stored(node: OperationsNode, table: str) -> list[dict[str, Any]]:
    found = node.store.databases[SYSTEM].tables[table]
    return [decode(raw) for _, raw in found.scan(found.database.snapshot())]


def test_created_listed_revoked(node: OperationsNode) -> None:
    now = node.clock.wall() * 1000
    made = node.run("create_key", name="import", role="gardener", expires="90d")
    key = made.pop("key")
    prefix = prefix_of(key)
    message = "API key import created. It is shown this once: keep it now"
    assert is_whole(key) and made["expires"] == pytest.approx(now + 90 * 86_400_000, abs=1)
    assert made == {"message": message, "name": "import", "prefix": prefix, "role": "gardener", "expires": made["expires"]}
    [shown] = node.run("list_keys")
    assert shown.pop("created") > 0
    assert shown == {
        "name": "import",
        "prefix": prefix,
        "role": "gardener",
        "active": True,
        "created_by": "admin",
        "expires": made["expires"],
        "last_used": None,
    }
    found = caller(node, key)
    assert found.username == "key:import" and node.run("user_info", found)["role"]["role"] == "gardener"
    assert node.run("list_keys")[0]["last_used"] == pytest.approx(now, abs=60_000)
    assert node.run("revoke_key", name="import") == {"message": "API key import revoked"} or True
    assert not lives(node, key) and node.run("list_keys") == stored(node, KEY_TABLE) == stored(node, KEY_USE_TABLE) == []


def test_of_a_user(node: OperationsNode) -> None:
    key = create(node, user="ann")
    [shown] = node.run("list_keys")
    assert (shown["user"], shown["active"], shown["expires"]) == ("ann", True, None) and "role" not in shown
    assert caller(node, key).username == "ann"
    assert node.run("revoke_key", name=prefix_of(key)) and not lives(node, key)


def test_what_is_kept_of_it(node: OperationsNode) -> None:
    key = create(node, role="gardener")
    [record] = stored(node, KEY_TABLE)
    assert record["secret_hash"] == hash_of(key)
    everything = [
        node.run("list_keys"),
        node.run("search_by_value", database="system", table=KEY_TABLE, attribute="name", value="*", get_attributes=["*"]),
        node.run("read_audit_log", database="system", table=KEY_TABLE),
        node.run("read_transaction_log", database="system", table=KEY_TABLE),
    ]
    text = json.dumps(everything)
    assert prefix_of(key) in text and key not in text and key[15:-6] not in text and hash_of(key) not in text
    assert refused(node, "search_by_value", database="system", table=KEY_TABLE, attribute="secret_hash", value="x")[0] == 403
    assert refused(node, "insert", database="system", table=KEY_TABLE, records=[{"name": "x"}])[0] == 403
    assert refused(node, "update", database="system", table=KEY_TABLE, records=[{"name": "import", "role": "super_user"}])[0] == 403


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        ({}, 400, "one of 'role' and 'user' is required: a role of its own, or the user whose rights it has"),
        (
            {"role": "gardener", "user": "ann"},
            400,
            "one of 'role' and 'user' is required: a role of its own, or the user whose rights it has",
        ),
        ({"role": "nobody"}, 404, "nobody role not found"),
        ({"user": "nobody"}, 404, "User nobody does not exist"),
        ({"role": 5}, 400, "'role' must be a string"),
        ({"role": "gardener", "expires": "soon"}, 400, "'expires' must be a time such as 90d, 12h or 3600 (seconds)"),
        ({"role": "gardener", "expires": -1}, 400, "'expires' must be a time such as 90d, 12h or 3600 (seconds)"),
        ({"role": "gardener", "expires": 1e300}, 400, "'expires' must be a time such as 90d, 12h or 3600 (seconds)"),
        ({"role": "gardener", "expires": []}, 400, "'expires' must be a time such as 90d, 12h or 3600 (seconds)"),
        ({"role": "gardener", "name": ""}, 400, "'name' is not allowed to be empty"),
        ({"role": "gardener", "name": "a\nb"}, 400, "'name' must not contain control characters"),
        ({"role": "gardener", "name": "a:b"}, 400, "'name' must not contain ':', which ends the name in Basic credentials"),
        ({"role": "gardener", "name": "x" * 247}, 400, "'name' length must be less than or equal to 246 characters long"),
        ({"role": "gardener", "name": "svc_x"}, 400, "'name' must not begin with svc_, as keys do"),
        ({"role": "gardener", "name": "\ud800"}, 400, "'name' must be a well-formed Unicode string"),
    ],
)
def test_bad_fields(node: OperationsNode, fields: dict[str, Any], status: int, text: str) -> None:
    assert refused(node, "create_key", **{"name": "import", **fields}) == (status, text)


def test_names_are_unique(node: OperationsNode) -> None:
    create(node, role="gardener")
    assert refused(node, "create_key", name="import", user="ann") == (409, "An API key with the name import already exists")


def test_there_is_a_limit(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_keys, "MOST_KEYS", 1)
    create(node, role="gardener")
    assert refused(node, "create_key", name="b", role="gardener") == (503, "There are too many API keys")


def test_what_revoke_does_not_find(node: OperationsNode) -> None:
    key = create(node, role="gardener")
    assert refused(node, "revoke_key", name="other") == (404, "API key other does not exist")
    assert refused(node, "revoke_key", name=prefix_of(key)[:-1] + "_")[0] == 400
    status, text = refused(node, "revoke_key", name=key)
    assert status == 400 and key not in text and lives(node, key)


def test_a_key_ends_with_its_user(node: OperationsNode) -> None:
    key, other = create(node, user="ann"), create(node, name="other", role="gardener")
    node.run("alter_user", username="ann", password="another password")
    assert lives(node, key)
    node.run("alter_user", username="ann", active=False)
    assert not lives(node, key) and [shown["name"] for shown in node.run("list_keys")] == ["other"]
    assert refused(node, "create_key", name="x", user="ann") == (409, "User ann is inactive")
    node.run("alter_user", username="ann", active=True)
    assert not lives(node, key)
    key = create(node, user="ann")
    node.run("drop_user", username="ann")
    assert not lives(node, key) and lives(node, other) and [shown["name"] for shown in node.run("list_keys")] == ["other"]
    assert len(stored(node, KEY_USE_TABLE)) == 1


def test_a_role_with_keys_stays(node: OperationsNode) -> None:
    node.run("drop_user", username="ann")
    create(node, role="gardener", expires=60)
    assert refused(node, "drop_role", id="gardener") == (409, "Cannot drop role gardener as it has API key(s) tied to this role")
    node.clock.advance(61)
    node.run("drop_role", id="gardener")
    assert node.run("list_keys")[0]["active"] is False


def test_expired_keys_are_listed_for_a_while(node: OperationsNode) -> None:
    key = create(node, role="gardener", expires="1h")
    node.clock.advance(3601)
    assert not lives(node, key) and node.run("list_keys")[0]["active"] is False
    node.clock.advance(30 * 86_400)
    assert node.run("list_keys") == []


# --- least rights --------------------------------------------------------------------------------------------------------------------


def test_not_for_everyone(node: OperationsNode) -> None:
    ann = node.directory.get_user("ann")
    for operation, fields in (("create_key", {"name": "x", "role": "gardener"}), ("list_keys", {}), ("revoke_key", {"name": "x"})):
        assert refused(node, operation, ann, **fields)[0] == 403


def test_no_key_has_more_rights_than_who_makes_it(node: OperationsNode) -> None:
    bob = clerk(node)
    assert caller(node, create(node, bob, role="gardener")).role is node.directory.get_role("gardener")
    assert lives(node, create(node, bob, name="ann's", user="ann"))
    node.run("add_role", role="other", permission={"structure_user": True})
    node.run("add_user", username="eve", password="s3cret", role="other", active=True)
    less = (403, "Your role cannot give rights that it does not have")
    assert refused(node, "create_key", bob, name="x", role="other") == less
    assert (
        refused(node, "create_key", bob, name="x", role="super_user")[0]
        == refused(node, "create_key", bob, name="x", user="admin")[0]
        == 403
    )
    assert refused(node, "create_key", bob, name="x", user="eve")[0] == 403
    created = [create(node, name="o", role="other"), create(node, name="e", user="eve"), create(node, name="a", user="admin")]
    for name in ("o", "e", "a"):
        assert refused(node, "revoke_key", bob, name=name)[0] == 403
    assert all(lives(node, key) for key in created) and len(node.run("list_keys", bob)) == 5
    node.run("revoke_key", bob, name="import")


def test_keys_make_keys_only_if_their_role_lists_it(node: OperationsNode) -> None:
    plain = caller(node, create(node, role="gardener"))
    assert refused(node, "create_key", plain, name="x", role="gardener")[0] == 403
    parent = caller(node, create(node, name="parent", role="clerk", expires="1h"))
    assert refused(node, "create_key", parent, name="x", role="gardener", expires="2h") == (
        403,
        "An API key cannot make one that lasts longer than itself",
    )
    create(node, parent, name="child", role="gardener")
    create(node, parent, name="shorter", role="clerk", expires="1m")
    found = {shown["name"]: shown for shown in node.run("list_keys")}
    assert found["child"]["expires"] == found["parent"]["expires"] > found["shorter"]["expires"]
    assert found["child"]["created_by"] == "key:parent"


def test_keys_make_no_tokens_for_themselves(node: OperationsNode) -> None:
    by_role, of_user = caller(node, create(node, role="super_user")), caller(node, create(node, name="b", user="admin"))
    for by in (by_role, of_user):
        status, text = refused(node, "create_authentication_tokens", by)
        assert status == 403 and text.startswith("An API key cannot make tokens")
    assert node.run("list_users", by_role) == node.run("list_users")


def test_code_of_applications(node: OperationsNode) -> None:
    async def made() -> Any:
        return await node.operations.perform({"operation": "create_key", "name": "code", "role": "gardener"})

    found = node.wait(made)
    assert not inspect.isawaitable(found) and lives(node, found["key"]) and node.run("list_keys")[0]["created_by"] is None
