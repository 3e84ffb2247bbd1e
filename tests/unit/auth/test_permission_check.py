"""Texts of invalid permissions (spec: operations §5)."""

from typing import Any

import pytest

from svc.auth.permission_check import check_permission

World = Any  # tests/unit/auth/conftest.py

ALL = {"read": True, "insert": True, "update": True, "delete": True}


def plant(world: World, **given: Any) -> list[str]:
    faults = check_permission({"data": {"tables": {"plant": given}}}, world.store.databases)
    assert not faults.main
    return faults.by_table.get("data_plant", [])


@pytest.mark.parametrize(
    "permission",
    [
        {},
        {"super_user": True},
        {"super_user": False, "cluster_user": True, "structure_user": ["data"], "operations": ["read_only"]},
        {"structure_user": True},
        {"data": {"describe": True, "tables": {"plant": {**ALL, "attribute_permissions": None}}}},
        {"data": {"tables": {"plant": {**ALL, "attribute_permissions": [
            {"attribute_name": "name", "read": True, "insert": False, "update": False, "delete": True},
            {"attribute_name": "__createdtime__", "read": True, "insert": False, "update": False}]}}}},
    ],
)  # fmt: skip
def test_valid(world: World, permission: dict[str, Any]) -> None:
    assert not check_permission(permission, world.store.databases, {"read_only": True})


@pytest.mark.parametrize(
    ("permission", "text"),
    [
        ([], "'permission' must be an object"),
        ({"super_user": "yes"}, "Value for 'super_user' permission must be a boolean"),
        ({"super_user": True, "operations": []}, "Roles with 'super_user' set to true cannot have other permissions set."),
        ({"structure_user": "data"}, "Value for 'structure_user' permission must be a boolean or Array"),
        ({"structure_user": ["nope"]}, "database 'nope' does not exist"),
        ({"structure_user": ["system"]}, "database 'system' does not exist"),
        ({"operations": "insert"}, "Value for 'operations' permission must be an array"),
        ({"operations": ["insert", "x"]}, "Invalid operation 'x' in 'operations'"),
        (
            {"operations": ["set_configuration", "insert"]},
            "Operation 'set_configuration' in 'operations' cannot be granted: it needs a super user, and its callers could become one",
        ),
        ({"nope": {"tables": {}}}, "database 'nope' does not exist"),
        ({"system": {"tables": {}}}, "database 'system' does not exist"),
        ({"data": {"tables": {"nope": {}}}}, "Table 'data.nope' does not exist"),
        ({"data": []}, "Value for 'data' permission must be an object"),
        ({"data": {"tables": []}}, "Value for 'data' permission must be an object"),
    ],
)
def test_main_faults(world: World, permission: Any, text: str) -> None:
    faults = check_permission(permission, world.store.databases, {"insert": True, "set_configuration": False})
    assert faults.main == [text] and not faults.by_table


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({**ALL}, "Missing 'attribute_permissions' array"),
        ({**ALL, "attribute_permissions": {}}, "Value for 'attribute_permissions' must be an array"),
        ({**ALL, "insert": 1, "attribute_permissions": []}, "Table INSERT permission must be a boolean"),
        ({"insert": True, "update": True, "delete": True, "attribute_permissions": []}, "Missing table READ permission"),
        ({**ALL, "attribute_permissions": [], "grant": 1}, "Invalid table permission key value 'grant'"),
        ({**ALL, "attribute_permissions": [{}]}, "Permission object in 'attribute_permission' missing an 'attribute_name'"),
        ({**ALL, "attribute_permissions": [7]}, "Permission object in 'attribute_permission' missing an 'attribute_name'"),
        ({**ALL, "attribute_permissions": [{"attribute_name": "x"}]}, "Invalid attribute 'x' in 'attribute_permissions'"),
        (
            {**ALL, "attribute_permissions": [{"attribute_name": "name", "read": True, "insert": True, "update": True, "x": 1}]},
            "Invalid attribute permission key value 'x'",
        ),
        (
            {**ALL, "attribute_permissions": [{"attribute_name": "name", "insert": True, "update": True}]},
            "READ attribute permission missing for 'name'",
        ),
        (
            {**ALL, "attribute_permissions": [{"attribute_name": "name", "read": 1, "insert": True, "update": True}]},
            "READ attribute permission for 'name' must be a boolean",
        ),
        (
            {**ALL, "read": False, "attribute_permissions": [{"attribute_name": "name", "read": True, "insert": True, "update": True}]},
            "You have a conflict with TABLE permissions for 'data.plant' being false and ATTRIBUTE permissions being true",
        ),
    ],
)  # fmt: skip
def test_table_faults(world: World, given: dict[str, Any], text: str) -> None:
    assert plant(world, **given) == [text]


def test_rights_of_attributes_conflict_with_a_table_right_that_is_false(world: World) -> None:
    """A right of the table that is missing, or no boolean, is one fault and not two."""
    entry = {"attribute_name": "name", "read": True, "insert": True, "update": True}
    without = dict.fromkeys(("insert", "update", "delete"), True)
    assert plant(world, **without, attribute_permissions=[entry]) == ["Missing table READ permission"]
    assert plant(world, **without, read="yes", attribute_permissions=[entry]) == ["Table READ permission must be a boolean"]


def test_table_that_is_no_object(world: World) -> None:
    faults = check_permission({"data": {"tables": {"plant": []}}}, world.store.databases)
    assert faults.by_table == {"data_plant": ["Value for 'data.plant' permission must be an object"]}


def test_all_faults_are_told_at_once(world: World) -> None:
    faults = check_permission({"nope": {}, "data": {"tables": {"plant": {}}}}, world.store.databases)
    assert faults.as_body() == {
        "error": "Errors in the role permissions JSON provided",
        "main_permissions": ["database 'nope' does not exist"],
        "schema_permissions": {
            "data_plant": [
                "Missing table READ permission",
                "Missing table INSERT permission",
                "Missing table UPDATE permission",
                "Missing table DELETE permission",
                "Missing 'attribute_permissions' array",
            ]
        },
    }


def test_hostile_values_are_faults(world: World) -> None:
    """What JSON, CBOR or a YAML file may hold in place of a name: nothing but faults comes of it."""
    for junk in ({}, [], [[]], 1, None, "\ud800", True, 1.5):
        for permission in (
            {"structure_user": [junk]},
            {"operations": [junk]},
            {"data": {"tables": {"plant": {**ALL, "attribute_permissions": [{"attribute_name": junk, "read": True}]}}}},
        ):
            faults = check_permission(permission, world.store.databases)
            assert faults or permission == {"operations": ["\ud800"]}
            assert str(faults.as_body()).encode()
    for key in (1, None, True, "\ud800"):
        for permission in ({key: {}}, {"data": {"tables": {key: {}}}}, {"data": {"tables": {"plant": {**ALL, key: 1}}}}):
            faults = check_permission(permission, world.store.databases)
            assert faults
            assert str(faults.as_body()).encode()
