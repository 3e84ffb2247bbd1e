"""Who may run what, and the exact refusals (spec: security §5.4, §5.5, §6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from svc.auth.users import User
from svc.errors import Problem, Refusal
from svc.operations.fields import DATABASE, GET_ATTRIBUTES, TABLE, Field
from svc.operations.operation import (
    ANYONE,
    DELETE,
    INSERT,
    READ,
    STRUCTURE,
    SUPER_USER,
    UPDATE,
    UPSERT,
    Operation,
    Permission,
)
from svc.operations.operation_lists import expanded, known_entries
from svc.operations.permissions import authorize, offered_operations
from svc.store.schema import Attribute, Relationship, TableDefinition
from tests.support.operations import OperationsNode

REFUSED = "This operation is not authorized due to role restrictions and/or invalid database items"
SYSTEM_TEXT = "The 'system' database, tables and records are used internally by svc and cannot be updated or removed."
CRUD = ("read", "insert", "update", "delete")

RECORDS = Field("records", "objects", "", required=True)
ACTION = Field("action", "choice", "", choices=("insert", "update", "upsert"))


def row(name: str, permission: Permission, *fields: Field, aliases: tuple[str, ...] = ()) -> Operation:
    return Operation(name, "records", "", permission, lambda call: None, fields, aliases)


# As their modules have them, as far as permissions are concerned.
ROWS = {
    found.name: found
    for found in (
        row("search_by_id", READ, TABLE, DATABASE, GET_ATTRIBUTES, aliases=("search_by_hash",)),
        row("search_by_value", READ, TABLE, DATABASE, GET_ATTRIBUTES),
        row("search_by_conditions", READ, TABLE, DATABASE, GET_ATTRIBUTES),
        row("insert", INSERT, TABLE, RECORDS, DATABASE),
        row("update", UPDATE, TABLE, RECORDS, DATABASE),
        row("upsert", UPSERT, TABLE, RECORDS, DATABASE),
        row("delete", DELETE, TABLE, DATABASE),
        row("csv_data_load", UPSERT, TABLE, DATABASE, ACTION),
        row("describe_all", ANYONE),
        row("describe_database", ANYONE, DATABASE, aliases=("describe_schema",)),
        row("describe_table", ANYONE, TABLE, DATABASE),
        row("create_database", STRUCTURE, DATABASE),
        row("drop_database", STRUCTURE, DATABASE.but(required=True, default=None), aliases=("drop_schema",)),
        row("create_table", STRUCTURE, TABLE, DATABASE),
        row("drop_table", STRUCTURE, TABLE, DATABASE),
        row("create_attribute", STRUCTURE, TABLE, DATABASE),
        row("drop_attribute", STRUCTURE, TABLE, DATABASE),
        row("get_configuration", SUPER_USER),
        row("read_audit_log", SUPER_USER, TABLE, DATABASE),
        row("delete_records_before", SUPER_USER, TABLE, DATABASE),
        row("export_local", SUPER_USER),
        row("get_deployment_payload", Permission("super_user", grantable=False)),
    )
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path_factory.mktemp("node")) as node:
        garden = node.store.open_database("garden")
        data = node.store.open_database("data")
        data.define_table(
            TableDefinition(
                "plant",
                type_name="Plant",
                attributes=(
                    Attribute("id", primary_key=True),
                    Attribute("name", "String"),
                    Attribute("price", "Float"),
                    Attribute("pin", "String"),
                    Attribute("ownerId", "String"),
                    Attribute("owner", "keeper", relationship=Relationship("keeper", from_="ownerId")),
                    Attribute("madeAt", "Date", created_time=True),
                ),
            )
        )
        data.define_table(
            TableDefinition(
                "keeper", attributes=(Attribute("id", primary_key=True), Attribute("name"), Attribute("phone"), Attribute("pin"))
            )
        )
        garden.define_table(TableDefinition("bed", "garden", attributes=(Attribute("id", primary_key=True), Attribute("sunny"))))
        yield node


def table(rights: str = "", **attributes: str) -> dict[str, Any]:
    """`table("riud", name="r")`: the first letters of the rights."""
    return {
        **{right: right[0] in rights for right in CRUD},
        "attribute_permissions": [
            {"attribute_name": name, "read": "r" in given, "insert": "i" in given, "update": "u" in given}
            for name, given in attributes.items()
        ],
    }


def data(**tables: dict[str, Any]) -> dict[str, Any]:
    return {"super_user": False, "data": {"tables": tables}}


def ask(node: OperationsNode, permission: dict[str, Any] | User, name: str, **body: Any) -> None:
    user = permission if isinstance(permission, User) else node.user("ann", permission)
    found = next(found for found in ROWS.values() if name in found.names)
    authorize(found, name, {"operation": name, **body}, user, node.node)


def system_refusal(node: OperationsNode, permission: dict[str, Any], name: str, **body: Any) -> str:
    with pytest.raises(Problem) as refused:
        ask(node, permission, name, **body)
    assert refused.value.status_code == 403 and not isinstance(refused.value, Refusal)
    return refused.value.message


def refusal(node: OperationsNode, permission: dict[str, Any] | User, name: str, **body: Any) -> dict[str, Any]:
    with pytest.raises(Problem) as refused:
        ask(node, permission, name, **body)
    assert isinstance(refused.value, Refusal), refused.value
    assert refused.value.status_code == 403
    assert refused.value.body["error"] == REFUSED
    return {name: value for name, value in refused.value.body.items() if name != "error" and value}


def text(sentence: str) -> dict[str, Any]:
    return {"unauthorized_access": [sentence]}


def invalid(*sentences: str) -> dict[str, Any]:
    return {"invalid_schema_items": list(sentences)}


def entry(table: str, *rights: str, database: str = "data", **attributes: list[str]) -> dict[str, Any]:
    return {
        "schema": database,
        "table": table,
        "required_table_permissions": list(rights),
        "required_attribute_permissions": [
            {"attribute_name": name, "required_permissions": missing} for name, missing in attributes.items()
        ],
    }


def entries(*given: dict[str, Any]) -> dict[str, Any]:
    return {"unauthorized_access": list(given)}


# --- roles and super users -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ROWS)
def test_without_a_role(node: OperationsNode, name: str) -> None:
    assert refusal(node, User("ann"), name, table="plant") == text(
        "User ann has no role or permissions.  Please assign the user a valid role."
    )


@pytest.mark.parametrize("name", ROWS)
def test_a_super_user_may_everything(node: OperationsNode, name: str) -> None:
    for body in ({}, {"table": "plant"}, {"table": "nothing", "database": "nowhere"}, {"table": 5, "database": []}):
        ask(node, node.admin, name, **body)


def test_writes_of_super_users_to_system(node: OperationsNode) -> None:
    for name in ("insert", "update", "upsert", "delete"):
        for allowed in ("svc_user", "svc_role", "svc_info_that_does_not_exist"):
            ask(node, node.admin, name, table=allowed, schema="system", records=[{"username": "x"}])
        ask(node, node.admin, name, table="svc_info", database="data", schema="system")  # `database` wins
    ask(node, node.admin, "search_by_id", table="svc_info", database="system")
    assert refusal(node, node.admin, "insert", table="svc_info", database="system") == entries(
        entry("svc_info", "insert", database="system")
    )
    assert refusal(node, node.admin, "csv_data_load", table="svc_info", database="system", action="insert") == entries(
        entry("svc_info", "insert", database="system")
    )
    for name in ("update", "upsert", "delete", "csv_data_load", "delete_records_before"):
        with pytest.raises(Problem) as refused:
            ask(node, node.admin, name, table="svc_info", database="system")
        assert (refused.value.status_code, refused.value.message) == (403, SYSTEM_TEXT)
    for name in ("drop_database", "create_table", "drop_table", "create_attribute", "drop_attribute"):
        with pytest.raises(Problem, match="used internally by svc"):
            ask(node, node.admin, name, table="svc_user", schema="system")


def test_writes_of_others_to_system(node: OperationsNode) -> None:
    """Changes and removals are refused with the one sentence, whether there is such a table or not; inserts as on any table that is not theirs."""
    for permission in (
        {},
        data(plant=table("riud")),
        {"structure_user": True},
        {"operations": ["standard_user", "drop_table", "drop_attribute"]},
    ):
        for name in ("update", "upsert", "delete", "drop_table", "drop_attribute"):
            for target in ("svc_user", "svc_info", "nothing"):
                body = {"table": target, "database": "system", "records": [{"id": 1}], "attribute": "role"}
                assert system_refusal(node, permission, name, **body) == SYSTEM_TEXT
        assert refusal(node, permission, "insert", table="svc_user", database="system") == invalid("database 'system' does not exist")
        assert refusal(node, permission, "delete_records_before", table="svc_user", database="system")


# --- the list of operations ------------------------------------------------------------------------------------------------------------


def test_groups_and_aliases() -> None:
    assert expanded({}) is None
    assert expanded({"operations": []}) == frozenset()
    assert expanded({"operations": "insert"}) == frozenset()
    assert expanded({"operations": [{}, 5, "insert"]}) == {"insert"}
    read_only = expanded({"operations": ["read_only"]})
    assert read_only is not None and {"search_by_id", "search_by_hash", "describe_database", "get_analytics", "sql"} <= read_only
    assert not read_only & {"insert", "get_configuration", "read_only"}
    standard = expanded({"operations": ["standard_user"]})
    assert standard is not None and standard > read_only and {"insert", "delete", "csv_url_load", "import_from_s3"} <= standard
    assert {"read_only", "standard_user", "search_by_hash", "sql"} <= known_entries().keys()


def test_a_list_restricts(node: OperationsNode) -> None:
    """Acceptance example 11."""
    permission = {**data(plant=table("riud")), "operations": ["read_only"]}
    ask(node, permission, "search_by_id", table="plant")
    assert refusal(node, permission, "insert", table="plant", records=[{}]) == text(
        "Operation 'insert' is restricted to 'super_user' roles"
    )
    permission["operations"] = ["insert"]
    ask(node, permission, "insert", table="plant", records=[{}])
    for name in ("search_by_id", "describe_all", "get_configuration", "drop_table"):
        assert refusal(node, permission, name, table="plant") == text(f"Operation '{name}' is restricted to 'super_user' roles")


def test_a_list_needs_rights_on_tables_too(node: OperationsNode) -> None:
    permission = {**data(plant=table("r")), "operations": ["standard_user"]}
    assert refusal(node, permission, "insert", table="plant") == entries(entry("plant", "insert"))


def test_a_list_grants_operations_of_super_users(node: OperationsNode) -> None:
    permission = {"operations": ["get_configuration", "read_audit_log", "get_deployment_payload", "delete_records_before"]}
    ask(node, permission, "get_configuration")
    ask(node, permission, "read_audit_log", table="plant")
    assert refusal(node, permission, "get_deployment_payload") == text(
        "Operation 'get_deployment_payload' is restricted to 'super_user' roles"
    )
    for name in ("read_audit_log", "delete_records_before"):
        assert refusal(node, permission, name, table="svc_user", database="system") == invalid("database 'system' does not exist")


def test_a_granted_export_needs_rights_on_what_it_exports(node: OperationsNode) -> None:
    permission = {**data(plant=table("r", name="r")), "operations": ["export_local"]}
    search = {"operation": "search_by_id", "table": "plant", "get_attributes": ["name"]}
    if "search_by_id" in known_rows():
        ask(node, permission, "export_local", search_operation=search)
        assert refusal(node, permission, "export_local", search_operation={**search, "table": "keeper"}) == invalid(
            "Table 'data.keeper' does not exist"
        )
        assert refusal(node, permission, "export_local", search_operation={**search, "select": ["pin"]}) == invalid(
            "Attribute 'pin' does not exist on 'data.plant'"
        )
    for inner in ("sql", "export_local", "drop_table", "insert", 5, None, []):
        assert refusal(node, permission, "export_local", search_operation={"operation": inner, "table": "plant"}) == text(
            "Operation 'export_local' is restricted to 'super_user' roles"
        )


def known_rows() -> Any:
    from svc.operations.registry import by_name

    return by_name()


def test_a_list_grants_structure(node: OperationsNode) -> None:
    ask(node, {"operations": ["drop_table"]}, "drop_table", table="plant")
    limited = {"operations": ["drop_table", "drop_database"], "structure_user": ["garden"]}
    ask(node, limited, "drop_table", table="bed", database="garden")
    assert refusal(node, limited, "drop_table", table="plant") == text(
        "User does not have access to perform 'drop_table' against schema 'data'"
    )
    assert system_refusal(node, {"operations": ["drop_table"]}, "drop_table", table="svc_user", database="system") == SYSTEM_TEXT


# --- structure ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["create_database", "drop_database", "create_table", "drop_table", "create_attribute", "drop_attribute"])
def test_structure_users(node: OperationsNode, name: str) -> None:
    body = {"table": "bed", "attribute": "color"}
    ask(node, {"structure_user": True}, name, database="garden", **body)
    ask(node, {"structure_user": True}, name, database="new one", **body)
    whole = name.endswith("database")
    for database, structure in (("garden", ["data"]), ("garden", False), ("garden", None), ("system", True), ("system", ["system"])):
        if database == "system" and name != "create_database":
            assert system_refusal(node, {"structure_user": structure}, name, schema=database, **body) == SYSTEM_TEXT
            continue
        expected = text(f"User does not have access to perform '{name}' against schema '{database}'")
        if name == "create_attribute":
            expected = invalid(f"database '{database}' does not exist")
        assert refusal(node, {"structure_user": structure}, name, schema=database, **body) == expected
    if whole:
        assert refusal(node, {"structure_user": ["garden"]}, name, database="garden") == text(
            f"User does not have access to perform '{name}' against schema 'garden'"
        )
    else:
        ask(node, {"structure_user": ["garden"]}, name, database="garden", **body)


def test_the_name_as_sent_is_quoted(node: OperationsNode) -> None:
    assert refusal(node, {}, "drop_schema", schema="garden") == text(
        "User does not have access to perform 'drop_schema' against schema 'garden'"
    )


def test_attributes_are_made_with_the_right_to_insert(node: OperationsNode) -> None:
    ask(node, data(plant=table("i")), "create_attribute", table="plant", attribute="color")
    assert refusal(node, data(plant=table("r")), "create_attribute", table="plant", attribute="color") == entries(entry("plant", "insert"))
    listed = data(plant=table("ri", name="ri"))
    assert refusal(node, listed, "create_attribute", table="plant", attribute="color") == invalid(
        "Attribute 'color' does not exist on 'data.plant'"
    )


def test_structure_users_have_all_rights_on_records(node: OperationsNode) -> None:
    for name in ("search_by_id", "insert", "update", "upsert", "delete", "describe_table"):
        ask(node, {"structure_user": ["garden"]}, name, table="bed", database="garden", records=[{"anything": 1}])
        assert refusal(node, {"structure_user": ["garden"]}, name, table="plant") == invalid("database 'data' does not exist")


# --- descriptions ------------------------------------------------------------------------------------------------------------------------


def test_descriptions(node: OperationsNode) -> None:
    permission = data(plant=table("d"))
    ask(node, permission, "describe_all")
    ask(node, permission, "describe_database")
    ask(node, permission, "describe_schema", schema="data")
    ask(node, permission, "describe_table", table="plant")
    assert refusal(node, permission, "describe_table", table="keeper") == invalid("Table 'data.keeper' does not exist")
    for database in ("garden", "nowhere"):
        expected = invalid(f"database '{database}' does not exist")
        assert refusal(node, permission, "describe_database", database=database) == expected
        assert refusal(node, permission, "describe_table", database=database, table="bed") == expected
    for name in ("describe_database", "describe_table"):
        assert refusal(node, {"structure_user": True}, name, database="system", table="svc_user") == text(
            "Your role does not have permission to view database metadata for 'system'"
        )
    ask(node, {"structure_user": ["garden"]}, "describe_database", database="garden")
    ask(node, {}, "describe_all")


# --- tables ------------------------------------------------------------------------------------------------------------------------------

NEEDED = {
    "search_by_id": "r",
    "search_by_value": "r",
    "search_by_conditions": "r",
    "insert": "i",
    "update": "u",
    "upsert": "iu",
    "delete": "d",
    "csv_data_load": "iu",
}


@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize("held", ["", "r", "i", "u", "d", "ri", "ru", "iu", "riu", "riud"])
def test_rights_on_tables(node: OperationsNode, name: str, held: str) -> None:
    """Acceptance examples 3 and 4."""
    permission = data(plant=table(held), keeper=table("r"))
    missing = [right for right in CRUD if right[0] in NEEDED[name] and right[0] not in held]
    if not held:
        assert refusal(node, permission, name, table="plant") == invalid("Table 'data.plant' does not exist")
    elif missing:
        assert refusal(node, permission, name, table="plant") == entries(entry("plant", *missing))
    else:
        ask(node, permission, name, table="plant")
    assert refusal(node, permission, name, table="nothing") == invalid("Table 'data.nothing' does not exist")
    if {"u", "d"}.isdisjoint(NEEDED[name]):
        assert refusal(node, permission, name, table="svc_user", schema="system") == invalid("database 'system' does not exist")
    else:
        assert system_refusal(node, permission, name, table="svc_user", schema="system") == SYSTEM_TEXT
    assert refusal(node, permission, name, table="bed", schema="garden") == invalid("database 'garden' does not exist")


@pytest.mark.parametrize(
    ("action", "needed"), [("insert", "i"), ("update", "u"), ("upsert", "iu"), (None, "iu"), ("odd", "iu"), ([], "iu")]
)
def test_loads_need_the_rights_of_their_action(node: OperationsNode, action: Any, needed: str) -> None:
    ask(node, data(plant=table(needed)), "csv_data_load", table="plant", action=action)
    for letter in needed:
        held = "riud".replace(letter, "")
        right = next(right for right in CRUD if right[0] == letter)
        assert refusal(node, data(plant=table(held)), "csv_data_load", table="plant", action=action) == entries(entry("plant", right))


# --- attributes --------------------------------------------------------------------------------------------------------------------------

LISTED = data(plant=table("riu", name="riu", price="iu", ownerId="r", owner="r"), keeper=table("ru", name="r", phone="u"))


def test_what_a_search_names(node: OperationsNode) -> None:
    unknown, known = invalid("Attribute 'pin' does not exist on 'data.plant'"), entries(entry("plant", price=["read"]))
    for attribute, expected in (("pin", unknown), ("nothing", None), ("price", known), ("name", {}), ("id", {}), ("$id", {})):
        if expected is None:
            expected = invalid("Attribute 'nothing' does not exist on 'data.plant'")
        for body in (
            {"attribute": attribute, "value": 1},
            {"search_attribute": attribute},
            {"attribute": "name", "search_attribute": attribute},
            {"attribute": [attribute]},
            {"get_attributes": ["*", attribute]},
            {"get_attributes": [{"name": attribute}]},
            {"select": [attribute], "get_attributes": ["name"]},
            {"conditions": [{"attribute": attribute, "value": 1}]},
            {"conditions": {"attribute": attribute}},
            {"conditions": [{"operator": "or", "conditions": [{"search_attribute": attribute}, {"attribute": "name"}]}]},
            {"sort": {"attribute": attribute}},
            {"sort": {"attribute": "name", "next": {"attribute": attribute}}},
            {"query": f"name=1&sort({attribute})"},
            {"query": f"{attribute}=1"},
            {"query": f"(name=1|{attribute}=1)"},
            {"query": f"select({attribute})"},
            {"query": f"group({attribute})"},
            {"query": f"group(name;count,max({attribute}))"},
        ):
            if attribute == "$id" and "query" in body:
                continue
            if expected:
                assert refusal(node, LISTED, "search_by_conditions", table="plant", **body) == expected, body
            else:
                ask(node, LISTED, "search_by_conditions", table="plant", **body)


def test_the_whole_record(node: OperationsNode) -> None:
    ask(node, LISTED, "search_by_id", table="plant", get_attributes=["*"])
    ask(node, LISTED, "search_by_id", table="plant")
    assert refusal(node, LISTED, "search_by_id", table="plant", get_attributes=["$record"]) == invalid(
        "Attribute '$record' does not exist on 'data.plant'"
    )


def test_paths_through_relationships(node: OperationsNode) -> None:
    for free in (["owner", "name"], "owner.name", ["owner", "id"], "owner"):
        ask(node, LISTED, "search_by_conditions", table="plant", conditions=[{"attribute": free}], get_attributes=[{"name": "owner"}])
    phone, pin = entries(entry("keeper", phone=["read"])), invalid("Attribute 'pin' does not exist on 'data.keeper'")
    for name, expected in (("phone", phone), ("pin", pin)):
        for body in (
            {"conditions": [{"attribute": ["owner", name]}]},
            {"conditions": [{"attribute": f"owner.{name}"}]},
            {"conditions": [{"attribute": "owner", "conditions": [{"attribute": name}]}]},
            {"get_attributes": [{"name": "owner", "select": [name]}]},
            {"get_attributes": [{"name": "owner", "select": name}]},
            {"get_attributes": [f"owner.{name}"]},
            {"sort": {"attribute": ["owner", name]}},
            {"query": f"owner.{name}=1"},
            {"query": f"owner[{name}=1]"},
            {"query": f"select(owner{{{name}}})"},
            {"query": f"sort(owner.{name})"},
        ):
            found = refusal(node, LISTED, "search_by_conditions", table="plant", **body)
            if "conditions" in body and "conditions" in str(body["conditions"]):
                continue  # malformed: refused either way
            assert found == expected, body


def test_related_tables_need_read_even_without_attribute_lists(node: OperationsNode) -> None:
    body: dict[str, Any] = {"table": "plant", "get_attributes": ["name", {"name": "owner", "select": ["name"]}]}
    ask(node, data(plant=table("r"), keeper=table("r")), "search_by_id", **body)
    assert refusal(node, data(plant=table("r")), "search_by_id", **body) == invalid("Table 'data.keeper' does not exist")
    assert refusal(node, data(plant=table("r"), keeper=table("i")), "search_by_id", **body) == entries(entry("keeper", "read"))
    ask(node, data(plant=table("r")), "search_by_id", table="plant", get_attributes=["name", "pin", "undeclared"])


def test_what_is_written(node: OperationsNode) -> None:
    ask(node, LISTED, "upsert", table="plant", records=[{"id": 1, "name": "a"}, {"price": 2}, {"name": "b"}])
    for name in ("insert", "update", "upsert"):
        rights = ["insert", "update"] if name == "upsert" else [name]
        assert refusal(node, LISTED, name, table="plant", records=[{"id": 1}, {"ownerId": 1, "pin": 2}, {"ownerId": 3}, 5, {7: 1}]) == {
            **entries(entry("plant", ownerId=rights)),
            **invalid("Attribute 'pin' does not exist on 'data.plant'"),
        }
        for managed in ("__createdtime__", "__updatedtime__", "madeAt"):
            with pytest.raises(Problem) as refused:
                ask(node, LISTED, name, table="plant", records=[{"name": "a", managed: 1}])
            assert (refused.value.status_code, refused.value.message) == (
                403,
                "Internal timestamp attributes - '__createdtime__' and '__updatedtime__' - cannot be inserted to or updated by svc users.",
            )
            ask(node, data(plant=table("iu")), name, table="plant", records=[{"anything": "a", managed: 1}])
    assert refusal(node, data(keeper=table("riu", name="r", phone="u")), "upsert", table="keeper", records=[{"phone": 1}]) == entries(
        entry("keeper", phone=["insert"])
    )


def test_many_records_are_looked_at_to_the_last(node: OperationsNode) -> None:
    """Those beyond the first are refused where they are written, and then nothing is."""
    user = node.user("ann", LISTED)
    records: list[dict[str, Any]] = [{"id": number, "name": "a"} for number in range(2000)]
    for name, last in (("insert", {"id": 7000, "pin": 1}), ("upsert", {"id": 7000, "ownerId": 1}), ("insert", {"id": 7000, "madeAt": 1})):
        with pytest.raises(Problem) as refused:
            node.run(name, user, table="plant", records=[*records, last])
        assert refused.value.status_code == 403
        assert node.store.databases["data"].tables["plant"].record_count() == 0
        if "pin" in last:
            assert isinstance(refused.value, Refusal)
            assert refused.value.body["invalid_schema_items"] == ["Attribute 'pin' does not exist on 'data.plant'"]
    node.run("insert", user, table="plant", records=records)
    node.run("delete", table="plant", ids=list(range(2000)))


def test_everything_of_a_level_together(node: OperationsNode) -> None:
    found = refusal(
        node,
        data(plant=table("ri", name="r", price="i", owner="r"), keeper=table("u")),
        "search_by_conditions",
        table="plant",
        conditions=[{"attribute": "price"}, {"attribute": "pin"}, {"attribute": "price"}],
        sort={"attribute": "nothing"},
        get_attributes=[{"name": "owner", "select": ["name"]}],
    )
    assert found == {
        **entries(entry("keeper", "read"), entry("plant", price=["read"])),
        **invalid("Attribute 'pin' does not exist on 'data.plant'", "Attribute 'nothing' does not exist on 'data.plant'"),
    }


# --- hostile bodies ------------------------------------------------------------------------------------------------------------------------

JUNK: list[Any] = [None, True, 0, 1.5, "", "\ud800", "a/b", "x" * 5000, [], [[]], [None], {}, {"a": {}}, [{"name": []}], b"\xff"]


@pytest.mark.parametrize("name", ROWS)
def test_junk_is_a_problem_or_nothing(node: OperationsNode, name: str) -> None:
    users = [node.admin, node.user("a", LISTED), node.user("b", {"structure_user": True}), node.user("c", {"operations": [name]})]
    fields = ("table", "database", "schema", "records", "conditions", "get_attributes", "select", "sort", "attribute", "query", "action")
    for user in users:
        for field in (*fields, "search_operation"):
            for junk in JUNK:
                for body in ({field: junk}, {"table": "plant", field: junk}, {"table": "plant", field: [junk]}):
                    try:
                        ask(node, user, name, **body)
                    except Problem as problem:
                        assert problem.status_code in (400, 403)
                        assert str(getattr(problem, "body", problem.message)).encode()


def test_depth_is_no_matter(node: OperationsNode) -> None:
    conditions: Any = {"attribute": "pin"}
    selection: Any = ["pin"]
    sort: Any = {"attribute": "pin"}
    for _ in range(5000):
        conditions = {"conditions": [conditions]}
        selection = [selection]
        sort = {"next": sort}
    for body in ({"conditions": conditions}, {"get_attributes": selection}, {"sort": sort}):
        assert refusal(node, LISTED, "search_by_conditions", table="plant", **body)


def test_what_is_malformed_is_left_to_validation(node: OperationsNode) -> None:
    for permission in (LISTED, {"structure_user": ["garden"]}, {}):
        with pytest.raises(Problem) as refused:
            ask(node, permission, "insert", records=[])
        assert (refused.value.status_code, refused.value.message) == (400, "'table' is required")
        with pytest.raises(Problem) as refused:
            ask(node, permission, "drop_table", table="plant", database=5)
        assert (refused.value.status_code, refused.value.message) == (400, "'database' must be a string")


# --- what is offered --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("permission", "offered", "hidden"),
    [
        ({"super_user": True}, ["restart", "add_role", "sql"], []),
        ({}, ["describe_all", "sql", "user_info"], ["insert", "search_by_id", "create_table", "restart"]),
        ({"structure_user": True}, ["create_table", "drop_attribute", "insert"], ["restart"]),
        ({"structure_user": ["garden"]}, ["create_table"], ["restart"]),
        ({"data": {"tables": {"plant": {"read": True}}}}, ["search_by_id"], ["insert", "upsert", "create_attribute", "csv_data_load"]),
        (
            {"data": {"tables": {"plant": {"insert": True}}}},
            ["insert", "create_attribute", "csv_data_load"],
            ["upsert", "update", "delete"],
        ),
        ({"operations": ["restart", "get_configuration"]}, ["restart", "get_configuration"], ["describe_all", "sql", "insert"]),
        ({"operations": ["read_only"], "data": {"tables": {"plant": {"read": True}}}}, ["search_by_id", "sql"], ["restart", "list_users"]),
    ],
)
def test_what_is_offered_is_what_some_body_may_do(
    node: OperationsNode, permission: dict[str, Any], offered: list[str], hidden: list[str]
) -> None:
    full = {"super_user": False} | permission
    for database in full.values():
        if isinstance(database, dict):
            for rights in database["tables"].values():
                rights |= {name: rights.get(name, False) for name in CRUD} | {"attribute_permissions": []}
    names = {found.name for found in offered_operations(node.user("ann", full), node.node)}
    assert names >= set(offered) and not names & set(hidden)


def test_a_user_without_a_role_is_offered_nothing(node: OperationsNode) -> None:
    assert offered_operations(User("ann"), node.node) == []
