"""Rights given and taken one at a time."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, ClassVar

from hypothesis import given, settings
from hypothesis import strategies as st

from svc.auth.granting import ATTRIBUTE_RIGHTS, TABLE_RIGHTS, granted, revoked
from svc.auth.permission_check import check_permission
from svc.auth.roles import evaluate
from svc.store.schema import Attribute, TableDefinition
from tests.support.profile import half_by_day

PLANT = TableDefinition(
    "plant", attributes=(Attribute("id", "ID", primary_key=True), Attribute("name"), Attribute("price"), Attribute("pin"))
)
OTHER = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}
NAMES = ("id", "name", "price", "pin")


class _Table:
    definition = PLANT


class _Database:
    tables: ClassVar = {"plant": _Table(), "other": _Table()}


def entry(read: bool = False, insert: bool = False, update: bool = False, delete: bool = False, *listed: Any) -> dict[str, Any]:
    return {"read": read, "insert": insert, "update": update, "delete": delete, "attribute_permissions": list(listed)}


def of(permission: dict[str, Any]) -> Any:
    return permission["data"]["tables"]["plant"]


def test_a_table() -> None:
    permission = granted({}, "data", PLANT, ["read", "delete"])
    assert of(permission) == entry(True, False, False, True)
    assert revoked(permission, "data", PLANT, ["delete"]) == {"data": {"tables": {"plant": entry(True)}}}
    assert revoked(permission, "data", PLANT, ["delete", "read", "insert"]) == {}


def test_an_attribute() -> None:
    permission = granted({}, "data", PLANT, ["read"], "name")
    listed = {"attribute_name": "name", "read": True, "insert": False, "update": False}
    assert of(permission) == entry(True, False, False, False, listed)
    assert revoked(permission, "data", PLANT, ["read"], "name") == {}  # and not: everything, without a list
    assert granted(permission, "data", PLANT, ["read"], "name") == permission
    whole = granted(permission, "data", PLANT, ["read"])
    assert of(whole) == entry(True)
    but_one = revoked(whole, "data", PLANT, ["read"], "pin")
    assert {each["attribute_name"] for each in of(but_one)["attribute_permissions"]} == {"id", "name", "price"}
    assert granted(but_one, "data", PLANT, ["read"], "pin") == whole


def entries() -> st.SearchStrategy[dict[str, Any]]:
    listed = st.fixed_dictionaries(
        {"attribute_name": st.sampled_from(NAMES), "read": st.booleans(), "insert": st.booleans(), "update": st.booleans()}
    )
    flags = {right: st.booleans() for right in TABLE_RIGHTS}
    return st.fixed_dictionaries(
        {**flags, "attribute_permissions": st.lists(listed, max_size=3, unique_by=lambda each: each["attribute_name"])}
    )


def allowed(permission: Any) -> set[tuple[str, str]]:
    """(attribute, right); the key's own are a matter of the others."""
    may = evaluate(permission, PLANT, "data")
    found = {(name, right) for name in NAMES[1:] for right in ATTRIBUTE_RIGHTS if getattr(may.attribute(name), right)}
    return found | ({("", "delete")} if may.delete else set())


def wanted(rights: list[str], attribute: str | None) -> set[tuple[str, str]]:
    if attribute is not None:
        return {(attribute, right) for right in rights}
    return {(name, right) for name in NAMES[1:] for right in rights if right != "delete"} | (
        {("", "delete")} if "delete" in rights else set()
    )


@settings(max_examples=half_by_day(300), deadline=None)
@given(entries(), st.data(), st.sampled_from([None, *NAMES[1:]]), st.booleans())
def test_it_changes_what_it_says_and_nothing_else(before: dict[str, Any], data: st.DataObject, attribute: str | None, gives: bool) -> None:
    rights = data.draw(st.lists(st.sampled_from(TABLE_RIGHTS if attribute is None else ATTRIBUTE_RIGHTS), min_size=1, unique=True))
    permission = {"operations": ["read_only"], "data": {"tables": {"other": OTHER, "plant": before}}}
    untouched = deepcopy(permission)
    after = (granted if gives else revoked)(permission, "data", PLANT, rights, attribute)
    assert permission == untouched
    assert (after["operations"], after["data"]["tables"]["other"]) == (["read_only"], OTHER)
    change = wanted(rights, attribute)
    assert allowed(after) == (allowed(permission) | change if gives else allowed(permission) - change)
    assert not check_permission(after, {"data": _Database()})  # type: ignore[dict-item]
