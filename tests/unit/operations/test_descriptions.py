"""svc.operations.descriptions: every column of a description, and what callers see of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from svc.apps.schema_leftovers import DoubtfulTable, count_leftovers
from svc.auth.users import User
from svc.store import record_counts
from svc.store.log import last_writes
from svc.store.schema import Allow, Attribute, Check, Relationship, Structure, TableDefinition
from tests.support.fakes import TickingClock
from tests.support.operations import OperationsNode

ALL = {"read": True, "insert": True, "update": True, "delete": True, "attribute_permissions": []}
NONE = {"read": False, "insert": False, "update": False, "delete": False, "attribute_permissions": []}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path, clock=TickingClock(looks_a_slice=5)) as node:
        yield node


def attribute(name: str, **rights: bool) -> dict[str, Any]:
    return {"attribute_name": name, "read": False, "insert": False, "update": False, **rights}


def test_all_columns(node: OperationsNode) -> None:
    node.run("create_table", database="garden", table="plant")
    answer = node.run("insert", database="garden", table="plant", records=[{"id": 7, "species": "fern"}, {"species": "moss"}])
    found = node.run("describe_table", database="garden", table="plant")
    sizes = {name: found.pop(name) for name in ("db_size", "table_size", "db_audit_size")}
    assert all(type(size) is int and size > 0 and size % 4096 == 0 for size in sizes.values())
    assert sizes["db_size"] > sizes["table_size"] + sizes["db_audit_size"]
    assert found == {
        "schema": "garden",
        "name": "plant",
        "hash_attribute": "id",
        "audit": True,
        "schema_defined": False,
        "attributes": [
            {"attribute": "id", "is_primary_key": True},
            {"attribute": "__createdtime__", "indexed": True},
            {"attribute": "__updatedtime__", "indexed": True},
            {"attribute": "species", "indexed": True},
        ],
        "record_count": 2,
        "last_updated_record": answer["txn_time"],
    }


def test_what_only_declared_tables_have(node: OperationsNode) -> None:
    database = node.store.open_database("data")
    database.define_table(
        TableDefinition(
            "Seat",
            attributes=(
                Attribute("code", "ID", primary_key=True),
                Attribute("price", "Float", required=True, indexed=True),
                Attribute("tags", "String", elements=True),
                Attribute("place", "Place"),
                Attribute("label", "String", computed_from="code"),
                Attribute("made", "Date", created_time=True),
                Attribute("changed", "Long", updated_time=True),
                Attribute("next", "Seat", relationship=Relationship("Seat", from_="label")),
            ),
            structures=(Structure("Place", (Attribute("hall", "String", required=True), Attribute("rows", "Int", elements=True))),),
            primary_key="code",
            sealed=True,
            replicate=False,
            expiration=90.5,
        )
    )
    found = node.run("describe_table", table="Seat")
    assert {name: found[name] for name in ("sealed", "replicate", "expiration", "schema_defined")} == {
        "sealed": True,
        "replicate": False,
        "expiration": "90.5s",
        "schema_defined": True,
    }
    assert "last_updated_record" not in found and found["record_count"] == 0
    plain = [
        {"attribute": "code", "type": "ID", "is_primary_key": True},
        {"attribute": "price", "type": "Float", "indexed": True, "nullable": False},
        {"attribute": "tags", "type": "array", "elements": "String"},
        {"attribute": "place", "type": "Place", "properties": [{"type": "String", "name": "hall"}, {"type": "array", "name": "rows"}]},
        {"attribute": "made", "type": "Date", "assigned_created_time": True},
        {"attribute": "changed", "type": "Long", "assigned_updated_time": True},
        {"attribute": "next", "type": "Seat"},
    ]
    assert found["attributes"] == plain
    whole = node.run("describe_table", table="Seat", include_computed=True)["attributes"]
    assert whole == [*plain[:4], {"attribute": "label", "type": "String", "computed": True}, *plain[4:]]


def test_expired_records_do_not_count(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_counts, "FEW", 10)
    monkeypatch.setattr(record_counts, "STEP", 4)
    node.run("create_table", table="t")
    now = node.clock.wall() * 1000
    for number in range(30):
        node.run("insert", table="t", records=[{"id": number}], expiresAt=now + 1000 + number)
    node.run("insert", table="t", records=[{"id": "stays"}])
    node.clock.advance(60)
    found = node.run("describe_table", table="t")
    assert found["estimated_record_range"] == [0, found["record_count"]] and 1 <= found["record_count"] <= 21
    found = node.run("describe_table", table="t", exact_count=True)
    assert found["record_count"] == 1 and "estimated_record_range" not in found
    assert not len(node.store.snapshots)


def test_a_long_log_is_looked_through_in_steps(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_writes, "STEP", 4)
    node.run("create_table", table="old")
    node.run("create_table", table="new")
    first = node.run("insert", table="old", records=[{"id": 1}])["txn_time"]
    last = node.run("insert", table="new", records=[{"id": number} for number in range(200)])["txn_time"]
    found = node.run("describe_all")["data"]
    assert (found["old"]["last_updated_record"], found["new"]["last_updated_record"]) == (first, last)


def test_many_tables(node: OperationsNode) -> None:
    for number in range(40):
        node.run("create_table", database="a" if number % 2 else "b", table=f"t{number}")
    found = node.run("describe_all")
    assert list(found) == ["a", "b"] and len(found["a"]) == len(found["b"]) == 20
    assert node.run("describe_schema", schema="a").keys() == found["a"].keys()


# --- who sees what ----------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def garden(node: OperationsNode) -> OperationsNode:
    for table in ("plant", "keeper", "secret"):
        node.run("create_table", database="garden", table=table, attributes=[{"name": "id"}, {"name": "name"}, {"name": "phone"}])
    node.run("create_database", database="empty")
    return node


def names(node: OperationsNode, user: User) -> dict[str, dict[str, list[str]]]:
    found = node.run("describe_all", user)
    return {db: {name: [a["attribute"] for a in table["attributes"]] for name, table in tables.items()} for db, tables in found.items()}


def test_super_users_see_all_but_the_system(garden: OperationsNode) -> None:
    found = names(garden, garden.admin)
    assert {name: sorted(tables) for name, tables in found.items()} == {"empty": [], "garden": ["keeper", "plant", "secret"]}
    system = garden.run("describe_database", database="system")
    assert "svc_role" in system
    assert not {"password", "refresh_token"} & {a["attribute"] for a in system["svc_user"]["attributes"]}


def test_others_see_what_they_have_a_right_on(garden: OperationsNode) -> None:
    partly = {**NONE, "read": True, "update": True, "attribute_permissions": [attribute("name", read=True), attribute("phone")]}
    tables = {"plant": {**NONE, "insert": True}, "keeper": partly, "secret": NONE}
    ann = garden.user("ann", {"garden": {"tables": tables}})
    assert names(garden, ann) == {"garden": {"plant": ["id", "name", "phone"], "keeper": ["id", "name"]}}
    assert set(garden.run("describe_database", ann, database="garden")) == {"plant", "keeper"}
    assert [a["attribute"] for a in garden.run("describe_table", ann, database="garden", table="keeper")["attributes"]] == ["id", "name"]


@pytest.mark.parametrize("permission", [{}, {"garden": {"tables": {}}}, {"garden": {"tables": {"plant": NONE}}}, {"structure_user": []}])
def test_those_without_rights_see_nothing(garden: OperationsNode, permission: dict[str, Any]) -> None:
    assert garden.run("describe_all", garden.user("ann", permission)) == {}


def test_structure_users_see_their_databases(garden: OperationsNode) -> None:
    assert sorted(names(garden, garden.user("ann", {"structure_user": True}))) == ["empty", "garden"]
    assert names(garden, garden.user("ann", {"structure_user": ["empty"]})) == {"empty": {}}


def test_what_changes_of_the_definition_have_left(node: OperationsNode) -> None:
    table = node.store.open_database("garden").define_table(
        TableDefinition("bed", "garden", attributes=(Attribute("id"), Attribute("size")))
    )
    node.run("insert", database="garden", table="bed", records=[{"id": number, "size": number % 3} for number in range(9)])
    check = Attribute("size", check=Check("size > 0"))
    table.database.define_table(replace(table.definition, attributes=(Attribute("id"), check)))
    node.store.commit_turn()
    assert node.run("describe_table", database="garden", table="bed")["leftovers"] == {
        "counted": None,
        "complete": False,
        "records": 0,
        "found": [],
    }
    node.wait(lambda: count_leftovers(node.store, DoubtfulTable(table, table.definition)))
    node.store.commit_turn()
    found = {"kind": "fails_check", "attribute": "size", "type": "size > 0", "records": 3}
    rights = {"reader": ({"read": True}, {**found, "keys": ["0", "3", "6"]}), "writer": ({"update": True}, found)}
    rights["partly"] = ({"read": True, "update": True, "attribute_permissions": [attribute("size", update=True)]}, found)
    for name, (right, seen) in rights.items():
        user = node.user(name, {"garden": {"tables": {"bed": {**NONE, **right}}}})
        assert node.run("describe_table", user, database="garden", table="bed")["leftovers"]["found"] == [seen]
    hidden = {"read": True, "attribute_permissions": [attribute("id", read=True)]}
    user = node.user("other", {"garden": {"tables": {"bed": {**NONE, **hidden}}}})
    assert node.run("describe_table", user, database="garden", table="bed")["leftovers"]["found"] == []


def test_rules_about_rows_are_shown_to_those_who_may_make_tables(garden: OperationsNode) -> None:
    table = garden.store.databases["garden"].tables["plant"]
    rules = (Allow(read="owner==$user.username", delete="false"), Allow(("editor",), create="true"))
    table.database.define_table(replace(table.definition, allow=rules, account=True))
    garden.store.commit_turn()
    shown = [{"read": "owner==$user.username", "delete": "false"}, {"roles": ["editor"], "create": "true"}]

    def described(user: User) -> dict[str, Any]:
        found: dict[str, Any] = garden.run("describe_table", user, database="garden", table="plant")
        return found

    right = {"garden": {"tables": {"plant": {**NONE, "read": True}}}}
    assert (described(garden.admin)["allow"], described(garden.admin)["account"]) == (shown, True)
    maker, other = (
        garden.user("maker", {**right, "structure_user": ["garden"]}),
        garden.user("other", {**right, "structure_user": ["empty"]}),
    )
    assert described(maker)["allow"] == shown
    assert "allow" not in described(other) and described(other)["account"] is True


def test_what_tells_of_rows_is_left_out_where_rules_narrow_them(garden: OperationsNode) -> None:
    garden.run("insert", database="garden", table="plant", records=[{"id": "secret", "name": "x"}])
    table = garden.store.databases["garden"].tables["plant"]
    table.database.define_table(replace(table.definition, attributes=table.definition.attributes[:2], allow=(Allow(read="false"),)))
    garden.store.commit_turn()
    garden.wait(lambda: count_leftovers(garden.store, DoubtfulTable(table, table.definition)))
    ann = garden.user("ann", {"garden": {"tables": {"plant": {**NONE, "read": True}}}})
    found = garden.run("describe_table", ann, database="garden", table="plant")
    assert {"record_count", "last_updated_record", "estimated_record_range", "leftovers", "table_size"}.isdisjoint(found)
    assert "secret" not in str(found)
    assert garden.run("describe_table", ann, database="garden", table="plant", exact_count=True)["record_count"] == 0
    assert garden.run("describe_table", database="garden", table="plant")["record_count"] == 1


def test_indexes_that_are_being_built(node: OperationsNode) -> None:
    node.run("create_table", database="garden", table="plant")
    node.run("insert", database="garden", table="plant", records=[{"id": 7, "species": "fern"}])
    index = node.store.databases["garden"].tables["plant"].indexes["species"]
    index.progress = b""
    assert node.run("describe_table", database="garden", table="plant")["building"] == ["species"]
    hidden = node.user("ann", {"garden": {"tables": {"plant": {**ALL, "attribute_permissions": [attribute("id", read=True)]}}}})
    assert "building" not in node.run("describe_table", hidden, database="garden", table="plant")
    index.progress = None
    assert "building" not in node.run("describe_table", database="garden", table="plant")
