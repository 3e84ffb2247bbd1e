"""svc.operations.databases: structure operations, one after the other and with input nobody should send."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.errors import Problem, Refusal
from svc.operations.table_fields import RESIDENCE_TEXT
from svc.query import QueryCache
from svc.resources.table_resource import table_resource
from svc.store.blobs import create_blob
from svc.store.schema import Allow, Attribute, Relationship, TableDefinition
from svc.store.values.records import decode
from tests.support.operations import OperationsNode

SYSTEM_TEXT = "The 'system' database, tables and records are used internally by svc and cannot be updated or removed."


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path) as node:
        yield node
        node.store.check()


def fault(node: OperationsNode, operation: str, **fields: Any) -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        node.run(operation, **fields)
    return caught.value.status_code, caught.value.message


# --- databases --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("operation", "field"), [("create_database", "database"), ("create_schema", "schema")])
def test_a_database_is_made_once(node: OperationsNode, operation: str, field: str) -> None:
    assert node.run(operation, **{field: "dev"}) == {"message": "database 'dev' successfully created"}
    assert fault(node, operation, **{field: "dev"}) == (400, "database 'dev' already exists")
    assert node.run("describe_all") == {"dev": {}}


def test_a_number_is_the_name_of_a_table(node: OperationsNode) -> None:
    """As programs send it that take a table called 1 for a number: one and the same table."""
    assert node.run("create_table", database=1123, table=4) == {"message": "table '1123.4' successfully created."}
    assert node.run("insert", schema=1123, table=4, records=[{"id": 1}])["inserted_hashes"] == [1]
    assert node.run("search_by_id", schema="1123", table="4", ids=[1]) == node.run("search_by_id", database=1123, table=4, ids=[1])
    assert node.run("describe_table", database=1123, table=4)["name"] == "4"
    reader = node.user("ann", {"1123": {"tables": {"4": {"read": True, "insert": False, "update": False, "delete": False}}}})
    assert len(node.run("search_by_id", reader, database=1123, table=4, ids=[1])) == 1
    with pytest.raises(Refusal):
        node.run("delete", reader, database=1123, table=4, ids=[1])
    assert node.run("drop_table", database=1123, table=4) == {"message": "successfully deleted table '1123.4'"}
    assert fault(node, "describe_table", database=1123, table=4) == (404, "Table '1123.4' does not exist")


def test_the_default_database(node: OperationsNode) -> None:
    assert node.run("create_database") == {"message": "database 'data' successfully created"}
    assert fault(node, "create_database") == (400, "database 'data' already exists")
    assert fault(node, "create_database", database="system") == (400, "database 'system' already exists")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (5, "must be a string"),
        (True, "must be a string"),
        (["dev"], "must be a string"),
        ({"a": 1}, "must be a string"),
        ("", "is not allowed to be empty"),
        ("a/b", "names cannot include backticks or forward slashes"),
        ("a`b", "names cannot include backticks or forward slashes"),
        ("../up", "names cannot include backticks or forward slashes"),
        ("x" * 251, "length must be less than or equal to 250 characters long"),
        ("\U0001f600", "names can only include printable ASCII characters"),
        ("a\0b", "names can only include printable ASCII characters"),
        (".hidden", "names cannot begin with a dot"),
        ("..", "names cannot begin with a dot"),
    ],
)
def test_names_that_no_database_has(node: OperationsNode, name: Any, text: str) -> None:
    for operation in (
        ("create_database", "create_table") if name != 5 else ("create_database",)
    ):  # a number is a table's, and its database's
        status, message = fault(node, operation, database=name, table="t")
        assert (status, message) == (400, f"'database' {text}")
    assert node.run("describe_all") == {}


def test_a_database_is_dropped_with_everything(node: OperationsNode) -> None:
    node.run("create_table", database="dev", table="dog")
    node.run("insert", database="dev", table="dog", records=[{"id": 1, "picture": "x"}])
    database = node.store.databases["dev"]
    transaction = node.store.begin()
    transaction.put(database.tables["dog"], 2, {"picture": create_blob(b"x" * 20_000)})
    transaction.apply()
    node.store.commit_turn()
    assert node.run("drop_database", database="dev") == {"message": "successfully deleted 'dev'"}
    assert node.run("describe_all") == {}
    assert fault(node, "drop_database", database="dev") == (404, "database 'dev' does not exist")
    assert fault(node, "describe_table", database="dev", table="dog") == (404, "database 'dev' does not exist")
    node.store._remover.wait(10)
    found = {path.name for path in (node.root / "database").iterdir()}
    assert found == {"system", ".blobs"} and not [path for path in (node.root / "database" / ".blobs").iterdir() if path.name != "system"]
    assert node.run("create_schema", schema="dev") == {"message": "database 'dev' successfully created"}
    assert node.run("describe_database", database="dev") == {}


def test_what_cannot_be_dropped(node: OperationsNode) -> None:
    assert fault(node, "drop_database") == (400, "'database' is required")
    assert fault(node, "drop_schema", schema="nope") == (404, "database 'nope' does not exist")
    assert fault(node, "drop_database", database="system") == (403, SYSTEM_TEXT)
    assert fault(node, "drop_database", database=7) == (400, "'database' must be a string")


# --- tables -----------------------------------------------------------------------------------------------------------------------------


def test_a_table_with_only_a_name(node: OperationsNode) -> None:
    assert node.run("create_table", table="dog") == {"message": "table 'data.dog' successfully created."}
    described = node.run("describe_table", table="dog")
    assert described["hash_attribute"] == "id" and described["schema_defined"] is False
    assert described["attributes"] == [
        {"attribute": "id", "is_primary_key": True},
        {"attribute": "__createdtime__", "indexed": True},
        {"attribute": "__updatedtime__", "indexed": True},
    ]
    assert fault(node, "create_table", table="dog") == (400, "Table 'dog' already exists in 'data'")


def test_a_table_makes_its_database(node: OperationsNode) -> None:
    node.run("create_table", schema="dev", table="dog", hash_attribute="tag")
    assert node.run("describe_table", schema="dev", table="dog")["hash_attribute"] == "tag"


def test_a_declared_table(node: OperationsNode) -> None:
    node.run(
        "create_table",
        table="dog",
        attributes=[
            {"name": "name", "type": "String", "indexed": True, "nullable": False},
            {"name": "tag", "type": "ID", "is_primary_key": True},
            {"name": "friends", "elements": "ID"},
            {"name": "toys", "type": "array", "elements": "String"},
        ],
        expiration=3600,
        audit=False,
    )
    described = node.run("describe_table", table="dog")
    assert described["attributes"] == [
        {"attribute": "name", "type": "String", "indexed": True, "nullable": False},
        {"attribute": "tag", "type": "ID", "is_primary_key": True},
        {"attribute": "friends", "type": "array", "elements": "ID"},
        {"attribute": "toys", "type": "array", "elements": "String"},
    ]
    assert (described["schema_defined"], described["audit"], described["expiration"]) == (True, False, "3600s")
    assert described["hash_attribute"] == "tag"


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"attributes": []}, "id"),
        ({"attributes": [{"name": "a"}]}, "id"),
        ({"attributes": [{"name": "a"}], "primary_key": "tag"}, "tag"),
        ({"attributes": [{"name": "a"}], "primary_key": "a"}, "a"),
        ({"attributes": [{"name": "a"}, {"name": "b", "isPrimaryKey": True}]}, "b"),
        ({"attributes": [{"name": "a", "is_primary_key": True}], "primary_key": "a"}, "a"),
        ({"primary_key": "tag", "hash_attribute": "other"}, "tag"),
    ],
)
def test_the_key_of_a_table(node: OperationsNode, fields: dict[str, Any], key: str) -> None:
    node.run("create_table", table="dog", **fields)
    described = node.run("describe_table", table="dog")
    assert described["hash_attribute"] == key
    assert [entry["attribute"] for entry in described["attributes"] if entry.get("is_primary_key")] == [key]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "'table' is required"),
        ({"table": None}, "'table' is required"),
        ({"table": 1.5}, "'table' must be a string"),
        ({"table": True}, "'table' must be a string"),
        ({"table": ["dog"]}, "'table' must be a string"),
        ({"table": ""}, "'table' is not allowed to be empty"),
        ({"table": "a/b"}, "'table' names cannot include backticks or forward slashes"),
        ({"table": "x" * 251}, "'table' length must be less than or equal to 250 characters long"),
        ({"table": "$x"}, 'The name "$x" of a table begins with $'),
        ({"table": "dog", "primary_key": "a`b"}, "'primary_key' names cannot include backticks or forward slashes"),
        ({"table": "dog", "primary_key": 5}, "'primary_key' must be a string"),
        ({"table": "dog", "primary_key": "__createdtime__"}, "'primary_key' cannot be __createdtime__"),
        ({"table": "dog", "attributes": "name"}, "'attributes' must be an array"),
        ({"table": "dog", "attributes": ["name"]}, "'attributes' must be an array of objects"),
        ({"table": "dog", "attributes": [{}]}, "'attributes[0].name' is required"),
        ({"table": "dog", "attributes": [{"name": 1}]}, "'attributes[0].name' must be a string"),
        ({"table": "dog", "attributes": [{"name": ""}]}, "'attributes[0].name' is not allowed to be empty"),
        ({"table": "dog", "attributes": [{"name": "a/b"}]}, "Attribute names cannot include backticks or forward slashes"),
        ({"table": "dog", "attributes": [{"name": "a\0b"}]}, "Attribute names cannot include null characters"),
        ({"table": "dog", "attributes": [{"name": "a"}, {"name": "a"}]}, "Attribute 'a' is listed twice"),
        ({"table": "dog", "attributes": [{"name": "a", "indexed": 1}]}, "'attributes[0].indexed' must be a boolean"),
        ({"table": "dog", "attributes": [{"name": "a", "nullable": "no"}]}, "'attributes[0].nullable' must be a boolean"),
        (
            {"table": "dog", "attributes": [{"name": "a", "type": "Boolean", "is_primary_key": True}]},
            "Attribute 'a' of type Boolean cannot be the primary key",
        ),
        (
            {"table": "dog", "attributes": [{"name": "a", "elements": "ID", "is_primary_key": True}]},
            "Attribute 'a' of type array cannot be the primary key",
        ),
        (
            {"table": "dog", "attributes": [{"name": "a", "is_primary_key": True}, {"name": "b", "is_primary_key": True}]},
            "Only one attribute can be the primary key, not a, b",
        ),
        (
            {"table": "dog", "attributes": [{"name": "a", "is_primary_key": True}], "primary_key": "b"},
            "Only one attribute can be the primary key, not a, b",
        ),
        ({"table": "dog", "expiration": "1h"}, "'expiration' must be a number"),
        ({"table": "dog", "expiration": 0}, "'expiration' must be greater than 0"),
        ({"table": "dog", "expiration": -5}, "'expiration' must be greater than 0"),
        ({"table": "dog", "audit": "yes"}, "'audit' must be a boolean"),
        ({"table": "dog", "residence": ["*"]}, RESIDENCE_TEXT),
        ({"table": [], "primary_key": 6}, "'table' must be a string. 'primary_key' must be a string"),
    ],
)
def test_tables_that_cannot_be(node: OperationsNode, fields: dict[str, Any], text: str) -> None:
    assert fault(node, "create_table", **fields) == (400, text)
    assert node.run("describe_all") in ({}, {"data": {}})


OWNED = {
    "table": "dog",
    "attributes": [{"name": "id", "type": "ID", "is_primary_key": True}, {"name": "owner", "type": "ID", "indexed": True}],
}


def test_a_table_with_rules_about_rows(node: OperationsNode) -> None:
    rules = [{"read": "owner==$user.username", "delete": False}, {"roles": ["editor"], "read": "true"}]
    node.run("create_table", **OWNED, allow=rules)
    assert node.run("describe_table", table="dog")["allow"] == [{"read": "owner==$user.username", "delete": "false"}, rules[1]]
    node.run("create_table", table="cat", allow=[])
    assert "allow" not in node.run("describe_table", table="cat")


@pytest.mark.parametrize(
    ("allow", "text"),
    [
        ("owner==1", "'allow' must be an array"),
        ([{}], "'allow[0]' says nothing: it needs read:, create:, update: or delete:, each a condition, \"true\" or \"false\""),
        ([{"read": "true"}, {"reed": "true"}], "'allow[1]' has no argument reed, did you mean 'read'?"),
        ([{"read": "true", "roles": ["\ud800"]}], "'allow[0]': roles must be text without unpaired surrogates"),
        ([{"read": "owner==\ud800"}], "'allow[0]': read must be text without unpaired surrogates"),
        ([{"update": "ownr==1"}], "'allow[0].update': ownr is not a defined attribute (did you mean \"owner\"?)"),
        ([{"read": "owner==$user.team"}], "'allow[0].read': $user.team is an attribute of the account's record, and no type is marked @account: "
         "there are $user.username, $user.role, $user.claims.<name>"),
        ([{"read": "owner==" + "x" * 4096}], "'allow' has at most 4096 characters; what is longer belongs into a schema file"),
        ([{}] * 5000, "'allow' has at most 4096 characters; what is longer belongs into a schema file"),
    ],
)  # fmt: skip
def test_rules_that_cannot_be(node: OperationsNode, allow: Any, text: str) -> None:
    assert fault(node, "create_table", **OWNED, allow=allow) == (400, text)
    assert node.run("describe_all") in ({}, {"data": {}})


@pytest.mark.parametrize("wrong", ["Strings", 5, ["ID"], {"a": 1}])
def test_types_that_are_none(node: OperationsNode, wrong: Any) -> None:
    for name in ("type", "elements"):
        status, message = fault(node, "create_table", table="dog", attributes=[{"name": "a", name: wrong}])
        assert status == 400 and message.startswith(f"'attributes[0].{name}' must be one of [ID, String")


def test_a_table_is_dropped(node: OperationsNode) -> None:
    node.run("create_table", table="dog")
    node.run("insert", table="dog", records=[{"id": number, "color": "black"} for number in range(60)])
    assert node.run("drop_table", table="dog") == {"message": "successfully deleted table 'data.dog'"}
    assert fault(node, "drop_table", table="dog") == (404, "Table 'data.dog' does not exist")
    assert fault(node, "drop_table", table="dog", schema="nope") == (404, "database 'nope' does not exist")
    assert fault(node, "drop_table", table="svc_user", database="system") == (403, SYSTEM_TEXT)
    assert fault(node, "drop_table") == (400, "'table' is required")
    assert fault(node, "insert", table="dog", records=[{}]) == (400, "Table 'data.dog' does not exist")
    node.run("create_table", table="dog")
    assert node.run("describe_table", table="dog")["record_count"] == 0


def test_an_exported_table_has_paths_until_it_is_dropped(node: OperationsNode) -> None:
    for database, drop in (("one", {"operation": "drop_table", "table": "dog"}), ("two", {"operation": "drop_database"})):
        node.run("create_table", database=database, table="dog")
        table = node.store.databases[database].tables["dog"]
        assert "paths" not in node.run("describe_table", database=database, table="dog"), "it has no address by itself"
        node.node.resources.set("shop/dog", table_resource(table, node.store, QueryCache(), path="shop/dog"))
        node.node.resources.set("quiet", table_resource(table, node.store, QueryCache(), path="quiet"), {"rest": False})
        assert node.run("describe_table", database=database, table="dog")["paths"] == ["/shop/dog"]
        node.send({"database": database, **drop}, node.admin)
        assert node.node.resources.find("/shop/dog/1", "rest") is None and not node.node.resources


# --- attributes -------------------------------------------------------------------------------------------------------------------------


def test_an_attribute_comes_and_goes(node: OperationsNode) -> None:
    node.run("create_table", table="dog", attributes=[{"name": "id"}])
    assert node.run("create_attribute", table="dog", attribute="color") == {"message": "attribute 'data.dog.color' successfully created."}
    assert fault(node, "create_attribute", table="dog", attribute="color") == (400, "attribute 'color' already exists in data.dog")
    node.run("create_attribute", table="dog", attribute="age", type="Int", indexed=False)
    assert node.run("describe_table", table="dog")["attributes"][1:] == [
        {"attribute": "color", "indexed": True},
        {"attribute": "age", "type": "Int"},
    ]
    node.run("insert", table="dog", records=[{"id": 1, "color": "black"}])
    assert node.run("drop_attribute", table="dog", attribute="color") == {"message": "successfully deleted attribute 'color'"}
    raw = node.store.databases["data"].tables["dog"].get_raw(1)
    assert raw is not None and decode(raw)["color"] == "black", "a declared table keeps the value"
    assert fault(node, "drop_attribute", table="dog", attribute="color") == (404, "Attribute 'color' does not exist on 'data.dog'")


def test_an_attribute_that_a_rule_names_stays(node: OperationsNode) -> None:
    def attributes(*names: str) -> list[dict[str, Any]]:
        return [{"name": name} for name in ("id", *names)]

    rules = [{"read": "owner==$user.username|state==open"}, {"roles": ["editor"], "delete": "$old.state==draft"}]
    node.run("create_table", table="dog", attributes=attributes("owner", "state", "color"), allow=rules)
    node.run("create_table", table="cat", attributes=attributes("owner"))
    for name, action in (("owner", "read"), ("state", "read")):
        assert fault(node, "drop_attribute", table="dog", attribute=name) == (
            409,
            f"Attribute '{name}' is named by the rule of data.dog for {action}: change the rule (allow) first",
        )
    node.run("drop_attribute", table="dog", attribute="color")
    node.run("drop_attribute", table="cat", attribute="owner")
    assert "owner" in node.store.databases["data"].tables["dog"].attributes


def test_an_attribute_that_a_rule_of_another_table_names_stays(node: OperationsNode) -> None:
    """By a relationship, and as a value of the account's record, in whichever database."""
    node.run("create_database", database="people")
    database, people = node.store.databases.setdefault("data", node.store.open_database("data")), node.store.databases["people"]
    person = (Attribute("username", "ID", primary_key=True), Attribute("team", "ID"), Attribute("city", "String"))
    people.define_table(TableDefinition("Person", "people", attributes=person, primary_key="username", account=True))
    project = (Attribute("id", "ID", primary_key=True), Attribute("team", "ID"), Attribute("name", "String"))
    database.define_table(TableDefinition("Project", "data", attributes=project, primary_key="id"))
    leads = Attribute("project", "Project", relationship=Relationship("Project", from_="projectId"))
    issue = (Attribute("id", "ID", primary_key=True), Attribute("projectId", "ID", indexed=True), leads)
    allow = (Allow(read="project.team==$user.team"),)
    database.define_table(TableDefinition("Issue", "data", attributes=issue, primary_key="id", allow=allow))
    expected = (409, "Attribute 'team' is named by the rule of data.Issue for read: change the rule (allow) first")
    assert fault(node, "drop_attribute", table="Project", attribute="team") == expected
    assert fault(node, "drop_attribute", database="people", table="Person", attribute="team") == expected
    assert fault(node, "drop_attribute", table="Issue", attribute="project")[0] == 409
    node.run("drop_attribute", table="Project", attribute="name")
    node.run("drop_attribute", database="people", table="Person", attribute="city")


def test_values_of_a_dynamic_table_go_with_the_attribute(node: OperationsNode) -> None:
    node.run("create_table", table="dog")
    node.run("insert", table="dog", records=[{"id": number, "\u00e9t\u00e9": number} for number in range(100)])
    node.run("drop_attribute", table="dog", attribute="\u00e9t\u00e9")
    table = node.store.databases["data"].tables["dog"]
    assert all("\u00e9t\u00e9" not in decode(raw) for _, raw in table.scan(table.database.snapshot()))


@pytest.mark.parametrize(
    ("operation", "fields", "expected"),
    [
        ("create_attribute", {"attribute": "a"}, (400, "'table' is required")),
        ("create_attribute", {"table": "dog"}, (400, "'attribute' is required")),
        ("create_attribute", {"table": "dog", "attribute": 5}, (400, "'attribute' must be a string")),
        ("create_attribute", {"table": "dog", "attribute": ["a"]}, (400, "'attribute' must be a string")),
        ("create_attribute", {"table": "dog", "attribute": ""}, (400, "'attribute' is not allowed to be empty")),
        ("create_attribute", {"table": "dog", "attribute": "a/b"}, (400, "'attribute' names cannot include backticks or forward slashes")),
        (
            "create_attribute",
            {"table": "dog", "attribute": "x" * 251},
            (400, "'attribute' length must be less than or equal to 250 characters long"),
        ),
        (
            "create_attribute",
            {"table": "dog", "attribute": "a\0"},
            (400, 'The name "a\0" of an attribute of "dog" contains a slash, a backtick or a null character'),
        ),
        ("create_attribute", {"table": "dog", "attribute": "a", "indexed": "yes"}, (400, "'indexed' must be a boolean")),
        ("create_attribute", {"table": "cat", "attribute": "a"}, (404, "Table 'data.cat' does not exist")),
        ("create_attribute", {"table": "dog", "attribute": "a", "database": "nope"}, (404, "database 'nope' does not exist")),
        ("create_attribute", {"table": "svc_user", "attribute": "a", "database": "system"}, (403, SYSTEM_TEXT)),
        ("drop_attribute", {"table": "dog", "attribute": "id"}, (400, "You cannot drop a hash attribute")),
        (
            "drop_attribute",
            {"table": "dog", "attribute": "__createdtime__"},
            (400, "cannot drop internal timestamp attribute: __createdtime__"),
        ),
        (
            "drop_attribute",
            {"table": "dog", "attribute": "__updatedtime__"},
            (400, "cannot drop internal timestamp attribute: __updatedtime__"),
        ),
        ("drop_attribute", {"table": "dog", "attribute": "nope"}, (404, "Attribute 'nope' does not exist on 'data.dog'")),
        ("drop_attribute", {"table": "cat", "attribute": "a"}, (404, "Table 'data.cat' does not exist")),
        ("drop_attribute", {"table": "svc_user", "attribute": "active", "database": "system"}, (403, SYSTEM_TEXT)),
        ("drop_attribute", {"table": "dog"}, (400, "'attribute' is required")),
    ],
)
def test_attributes_that_cannot_be(node: OperationsNode, operation: str, fields: dict[str, Any], expected: tuple[int, str]) -> None:
    node.run("create_table", table="dog")
    assert fault(node, operation, **fields) == expected


def test_an_attribute_of_no_type(node: OperationsNode) -> None:
    node.run("create_table", table="dog")
    status, message = fault(node, "create_attribute", table="dog", attribute="a", type="Strings")
    assert status == 400 and message.startswith("'type' must be one of [ID, String, Int, Long")


# --- blobs ------------------------------------------------------------------------------------------------------------------------------


def test_orphaned_blobs_are_searched_for(node: OperationsNode) -> None:
    node.run("create_table", table="dog")
    orphan = node.root / "database" / ".blobs" / "data" / "123" / "456" / "789"
    orphan.parent.mkdir(parents=True)
    node.store.maintenance(1.0)
    orphan.parent.mkdir(parents=True, exist_ok=True)
    orphan.write_bytes(b"x")
    node.store.maintenance(1.0)
    assert orphan.exists(), "it is not yet time for that"
    answer = node.run("cleanup_orphan_blobs", database="data")
    assert answer == {"message": "Orphaned blobs cleanup started, check logs for progress"}
    node.store.maintenance(1.0)
    assert not orphan.exists()


def test_where_no_blobs_can_be_searched_for(node: OperationsNode) -> None:
    assert fault(node, "cleanup_orphan_blobs") == (400, 'Must provide "database" name for search for orphaned blobs')
    assert fault(node, "cleanup_orphan_blobs", database="nope") == (400, "Unknown database 'nope'")
