"""Who may do what on both ports of the real process, with the bodies as clients get them (spec: security §5, §6, §7, §11)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml

from svc.operations.registry import by_name
from tests.integration.conftest import PASSWORD, Process
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

ERROR = "This operation is not authorized due to role restrictions and/or invalid database items"
CRUD = ("read", "insert", "update", "delete")
DATABASE = "matrix"


def table(*rights: str, **attributes: str) -> dict[str, Any]:
    """`table("read", name="r")`."""
    return {
        **{right: right in rights for right in CRUD},
        "attribute_permissions": [
            {"attribute_name": name, "read": "r" in given, "insert": "i" in given, "update": "u" in given}
            for name, given in attributes.items()
        ],
    }


def plant(*rights: str, **attributes: str) -> dict[str, Any]:
    return {DATABASE: {"tables": {"plant": table(*rights, **attributes)}}}


ROLES: dict[str, dict[str, Any]] = {
    "none": {},
    "reader": plant("read"),
    "inserter": plant("insert"),
    "updater": plant("update"),
    "deleter": plant("delete"),
    "writer": plant(*CRUD),
    "names": plant("read", "insert", "update", name="riu"),
    "builder": {"structure_user": [DATABASE]},
    "lister": {**plant(*CRUD), "operations": ["read_only"]},
    "caretaker": {"operations": ["list_roles", "read_only"]},
    "doc": {"operations": ["read_only"], "data": {"tables": {"Doc": table(*CRUD)}}},
}


SCHEMA = """
type plant @table(database: "matrix") { id: Int @primaryKey name: String pin: String }
type keeper @table(database: "matrix") { id: Int @primaryKey name: String pin: String }
type Doc @table @export { id: ID @primaryKey }
type Other @table @export { id: ID @primaryKey }
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """An application with tables and with the roles above in its `roles.yaml`; a user for each."""
    root = tmp_path_factory.mktemp("matrix")
    app = root / "app"
    app.mkdir()
    (app / "config.yaml").write_text("rest: true\ngraphqlSchema: {files: '*.graphql'}\nroles: {files: roles.yaml}\n")
    (app / "schema.graphql").write_text(SCHEMA)
    (app / "roles.yaml").write_text(yaml.safe_dump({f"m-{name}": {"permission": permission} for name, permission in ROLES.items()}))
    process = Process(root / "root", app).start()

    def must(operation: str, **fields: Any) -> None:
        response = process.operate(operation, **fields)
        assert response.status_code == 200, response.text

    for name in ("plant", "keeper"):
        must("insert", database=DATABASE, table=name, records=[{"id": 1, "name": "a", "pin": "x"}])
    for name in ROLES:
        must("add_user", username=f"m-{name}", password=PASSWORD, role=f"m-{name}", active=True)
    must("add_user", username="m-idle", password=PASSWORD, role="m-writer", active=False)
    yield process
    assert process.stop() == 0, process.output()
    assert "Traceback" not in process.logged() + process.output()


def ask(world: Process, who: str | None, operation: str, **fields: Any) -> tuple[int, Any]:
    auth = None if who is None else (f"m-{who}", PASSWORD)
    response = world.operate(operation, auth, **{"database": DATABASE, **fields})
    return response.status_code, response.json()


def refusal(unauthorized: Any = None, *invalid: str) -> tuple[int, Any]:
    return 403, {
        "error": ERROR,
        "unauthorized_access": [] if unauthorized is None else [unauthorized],
        "invalid_schema_items": list(invalid),
    }


def entry(*rights: str) -> dict[str, Any]:
    return {"schema": DATABASE, "table": "plant", "required_table_permissions": list(rights), "required_attribute_permissions": []}


CALLS: dict[str, dict[str, Any]] = {
    "search_by_id": {"ids": [1], "get_attributes": ["*"]},
    "search_by_value": {"attribute": "name", "value": "a"},
    "search_by_conditions": {"conditions": [{"attribute": "name", "value": "a"}]},
    "insert": {"records": [{"id": 1, "name": "a"}]},
    "update": {"records": [{"id": 1, "name": "a"}]},
    "upsert": {"records": [{"id": 1, "name": "a"}]},
    "delete": {"ids": ["no such key"]},
}
NEEDED = {"insert": ("insert",), "update": ("update",), "upsert": ("insert", "update"), "delete": ("delete",)}
HELD = {
    "reader": {"read"},
    "inserter": {"insert"},
    "updater": {"update"},
    "deleter": {"delete"},
    "writer": set(CRUD),
    "names": {"read", "insert", "update"},
    "builder": set(CRUD),
}


@pytest.mark.parametrize("operation", CALLS)
def test_rights_on_a_table(world: Process, operation: str) -> None:
    call = {"table": "plant", **CALLS[operation]}
    needed = NEEDED.get(operation, ("read",))
    assert ask(world, None, operation, **call)[0] == 401
    status, body = ask(world, "idle", operation, **call)
    assert (status, body["error"]) == (401, "Cannot complete request: User is inactive")
    assert ask(world, "none", operation, **call) == refusal(None, f"database '{DATABASE}' does not exist")
    for who, held in HELD.items():
        missing = [right for right in needed if right not in held]
        if missing:
            assert ask(world, who, operation, **call) == refusal(entry(*missing)), who
        else:
            assert ask(world, who, operation, **call)[0] == 200, who
        if who != "builder":
            assert ask(world, who, operation, **{**call, "table": "keeper"}) == refusal(None, f"Table '{DATABASE}.keeper' does not exist")
    # Acceptance example 11: a list restricts operations.
    if operation.startswith("search"):
        assert ask(world, "lister", operation, **call)[0] == 200
    else:
        assert ask(world, "lister", operation, **call) == refusal(f"Operation '{operation}' is restricted to 'super_user' roles")


def test_attributes(world: Process) -> None:
    """Acceptance example 6, and what is refused."""
    assert ask(world, "names", "search_by_id", table="plant", ids=[1], get_attributes=["*"]) == (200, [{"id": 1, "name": "a"}])
    assert ask(world, "names", "search_by_id", table="plant", ids=[1]) == (200, [{"id": 1, "name": "a"}])
    pin = refusal(None, f"Attribute 'pin' does not exist on '{DATABASE}.plant'")
    assert ask(world, "names", "search_by_id", table="plant", ids=[1], get_attributes=["id", "pin"]) == pin
    assert ask(world, "names", "search_by_conditions", table="plant", conditions=[{"attribute": "pin", "value": "x"}]) == pin
    assert ask(world, "names", "search_by_value", table="plant", attribute="pin", value="x") == pin
    assert ask(world, "names", "upsert", table="plant", records=[{"id": 2, "pin": "y"}]) == pin
    status, body = ask(world, "names", "upsert", table="plant", records=[{"id": 2, "__createdtime__": 1}])
    assert status == 403 and body["error"].startswith("Internal timestamp attributes")
    assert ask(world, "names", "search_by_id", table="plant", ids=[2]) == (200, [])


def test_structure(world: Process) -> None:
    assert ask(world, "builder", "create_table", table="bed")[0] == 200
    assert ask(world, "builder", "drop_table", table="bed")[0] == 200
    denied = "User does not have access to perform '{}' against schema '{}'"
    assert ask(world, "builder", "drop_database") == refusal(denied.format("drop_database", DATABASE))
    assert ask(world, "builder", "create_table", table="bed", database="data") == refusal(denied.format("create_table", "data"))
    assert ask(world, "writer", "drop_table", table="plant") == refusal(denied.format("drop_table", DATABASE))


def test_operations_of_super_users(world: Process) -> None:
    for operation in ("list_users", "get_configuration", "add_role", "read_log", "list_roles"):
        expected = refusal(f"Operation '{operation}' is restricted to 'super_user' roles")
        assert ask(world, "writer", operation) == expected
        if operation != "list_roles":
            assert ask(world, "caretaker", operation) == expected
    assert ask(world, "caretaker", "list_roles")[0] == 200


def test_system_tables(world: Process) -> None:
    """Acceptance example 14, and who may see them at all."""
    for who in ("writer", "builder"):
        assert ask(world, who, "search_by_value", table="svc_user", attribute="username", value="*", database="system") == refusal(
            None, "database 'system' does not exist"
        )
    everything = world.operate("search_by_value", database="system", table="svc_user", attribute="username", value="*").json()
    assert {user["username"] for user in everything} >= {"admin", "m-reader"}
    assert not {"password", "hash_function", "refresh_token"} & {name for user in everything for name in user}


def test_impersonation(world: Process) -> None:
    """Acceptance example 12, and that it is for super users."""
    wish: dict[str, Any] = {"role": {"permission": {}}}
    if "describe_all" in by_name():
        assert world.operate("describe_all", impersonate=wish).json() == {}
    assert ask(world, "caretaker", "list_roles", impersonate=wish) == (403, {"error": "Only super_user roles can impersonate"})
    answer = world.operate("insert", database=DATABASE, table="plant", records=[{}], impersonate={"username": "m-reader"})
    assert (answer.status_code, answer.json()) == refusal(entry("insert"))
    assert world.operate("user_info", impersonate={"username": "m-reader"}).json()["username"] == "m-reader"
    world_log = "user admin runs the operation insert as user m-reader"
    wait_until(lambda: world_log in world.logged() + world.output(), world.logged)


def test_a_change_counts_at_once(world: Process) -> None:
    """Acceptance examples 7 and 13."""
    token = world.operate("create_authentication_tokens", None, username="m-deleter", password=PASSWORD).json()["operation_token"]

    def statuses() -> list[Any]:
        basic = world.operate("user_info", ("m-deleter", PASSWORD))
        bearer = httpx.post(world.operations_url, headers={"Authorization": f"Bearer {token}"}, json={"operation": "user_info"}, timeout=60)
        return [basic.status_code, bearer.status_code]

    assert statuses() == [200, 200]
    world.operate("alter_user", username="m-deleter", active=False)
    assert statuses() == [401, 401]
    world.operate("alter_user", username="m-deleter", active=True)
    assert statuses() == [200, 401]  # the token has ended with the deactivation (spec: security §3)
    token = world.operate("create_authentication_tokens", None, username="m-deleter", password=PASSWORD).json()["operation_token"]
    assert statuses() == [200, 200]
    world.operate("delete", database="system", table="svc_role", ids=["m-deleter"])
    text = "User m-deleter has no role or permissions.  Please assign the user a valid role."
    assert ask(world, "deleter", "user_info") == refusal(text)
    world.operate("add_role", role="m-deleter", permission=ROLES["deleter"])
    assert statuses() == [200, 200]


def test_the_same_on_the_application_port(world: Process) -> None:
    """Acceptance examples 5 and 11: what the list of operations forbids, REST allows; names are no secret there."""
    with httpx.Client(base_url=world.url, auth=("m-doc", PASSWORD), timeout=60) as client:
        assert client.post("/Doc/", json={"id": "matrix"}).status_code == 201
        assert client.delete("/Doc/matrix").status_code == 204
        refused = client.get("/Other/")
        assert (refused.status_code, "Unauthorized access to resource" in refused.text) == (403, True)
    assert httpx.get(f"{world.url}/Other/").status_code == 401
    assert ask(world, "doc", "insert", database="data", table="Doc", records=[{}]) == refusal(
        "Operation 'insert' is restricted to 'super_user' roles"
    )
