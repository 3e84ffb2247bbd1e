"""What roles may do (spec: security §5.2, §5.3, §5.6)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svc.auth.roles import ALL_RIGHTS, NO_RIGHTS, AttributeRights, TableRights, evaluate, rights, role_rights, union
from svc.auth.users import User
from svc.errors import AccessViolation, Problem, ValidationError
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import encode
from tests.support.profile import examples

World = Any  # tests/unit/auth/conftest.py

PLANT = TableDefinition(
    "plant",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("name", "String"),
        Attribute("price", "Float"),
        Attribute("pin", "String"),
        Attribute("madeAt", "Date", created_time=True),
    ),
)


def table(read: bool = True, insert: bool = True, update: bool = True, delete: bool = True, attributes: Any = ()) -> dict[str, Any]:
    given = {"read": read, "insert": insert, "update": update, "delete": delete, "attribute_permissions": list(attributes)}
    return {"data": {"tables": {"plant": given}}}


def attribute(name: str, read: bool = False, insert: bool = False, update: bool = False) -> dict[str, Any]:
    return {"attribute_name": name, "read": read, "insert": insert, "update": update}


# --- whose rights --------------------------------------------------------------------------------------------------------------------


def may(world: World, user: User | None, database: str = "data", table: str = "plant") -> TableRights:
    return rights(user, world.store.databases[database].tables[table])


def test_without_a_role_there_are_no_rights(world: World) -> None:
    assert may(world, None) is NO_RIGHTS
    assert may(world, User("ann")) is NO_RIGHTS


def test_super_user(world: World) -> None:
    admin = world.directory.get_user("admin")
    assert may(world, admin) is ALL_RIGHTS and ALL_RIGHTS.all


def test_kept_until_role_or_definition_change(world: World) -> None:
    ann = world.directory.get_user("ann")
    first = may(world, ann)
    assert (first.read, first.delete) == (True, False)
    assert may(world, ann) is first
    world.store.databases["data"].define_table(
        TableDefinition("plant", attributes=(Attribute("id", "ID", primary_key=True), Attribute("seenAt", "Date", updated_time=True)))
    )
    second = may(world, ann)
    assert second is not first and "seenAt" in second.managed
    world.role("gardener", {})
    assert not may(world, world.directory.get_user("ann")).read


def test_missing_table_is_as_a_forbidden_one(world: World) -> None:
    ann = world.directory.get_user("ann")
    assert role_rights(ann, "data", "nothing") is NO_RIGHTS
    assert role_rights(ann, "nowhere", "plant") is NO_RIGHTS


def test_system_database(world: World) -> None:
    admin, ann = world.directory.get_user("admin"), world.directory.get_user("ann")
    raw = may(world, admin, "system", "svc_raw_analytics")
    assert (raw.read, raw.insert, raw.update, raw.delete, raw.all) == (True, False, False, False, False)
    assert may(world, admin, "system", "svc_role").all
    users = may(world, admin, "system", "svc_user")
    assert users.delete and not users.all
    assert users.readable == {"username", "role", "active", "__createdtime__", "__updatedtime__"}
    users.check_write({"username": "x", "active": False}, insert=False, user=admin)
    for secret in ("password", "hash_function", "refresh_token"):
        with pytest.raises(AccessViolation):
            users.check_write({secret: "x"}, insert=True, user=admin)
    world.role("gardener", {"structure_user": True, "system": {"tables": {"svc_role": table()["data"]["tables"]["plant"]}}})
    ann = world.directory.get_user("ann")
    assert may(world, ann) == ALL_RIGHTS
    assert may(world, ann, "system", "svc_role") == NO_RIGHTS


# --- the rights of everyone ------------------------------------------------------------------------------------------------------------


def test_everyone_has_the_rights_of_anonymous(world: World) -> None:
    world.role("anonymous", table(True, False, False, False))
    public = may(world, None)
    assert (public.read, public.insert, public.update, public.delete) == (True, False, False, False)
    assert may(world, User("zoe")) is public
    assert may(world, None) is public  # it is evaluated once
    world.role("gardener", table(False, True, False, False))
    ann = may(world, world.directory.get_user("ann"))
    assert (ann.read, ann.insert, ann.update, ann.delete, ann.readable, ann.attributes) == (True, True, False, False, None, None)
    world.role("anonymous", {})
    ann = may(world, world.directory.get_user("ann"))
    assert (ann.read, ann.insert) == (False, True) and not may(world, None).any
    with pytest.raises(ValidationError, match="The role anonymous cannot have structure_user: everyone has its rights"):
        world.role("anonymous", {"structure_user": True})
    world.store.databases["system"].guard = None
    world.role("anonymous", {"structure_user": True})
    assert may(world, None) is NO_RIGHTS  # as a former version may have stored it
    assert may(world, None, "system", "svc_user") is NO_RIGHTS


def permissions() -> st.SearchStrategy[dict[str, Any]]:
    """Of the table `plant`: flags, and perhaps a list of attributes."""
    entry = st.builds(attribute, st.sampled_from(["id", "name", "price", "pin", "madeAt"]), st.booleans(), st.booleans(), st.booleans())
    return st.builds(table, st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.lists(entry, max_size=3))


def reads(may: TableRights, name: str) -> bool:
    return may.read and (may.readable is None or name in may.readable)


def writes(may: TableRights, name: str, *, insert: bool) -> bool:
    try:
        may.check_over([name], None if insert else {}, "ann")
    except Problem:
        return False
    return True


@settings(max_examples=examples(300), deadline=None)
@given(permissions(), permissions())
def test_a_union_allows_what_either_does(one: dict[str, Any], other: dict[str, Any]) -> None:
    own, public = evaluate(one, PLANT, "data"), evaluate(other, PLANT, "data")
    both = union(own, public, PLANT)
    assert (both.read, both.insert, both.update, both.delete) == tuple(
        getattr(own, right) or getattr(public, right) for right in ("read", "insert", "update", "delete")
    )
    for name in ("id", "name", "price", "pin", "undeclared"):
        assert reads(both, name) == (reads(own, name) or reads(public, name)), name
        assert both.attribute(name).read == reads(both, name)
        for insert in (True, False):
            expected = writes(own, name, insert=insert) or writes(public, name, insert=insert)
            assert writes(both, name, insert=insert) == expected, (name, insert)
    assert both.all == (both.read and both.insert and both.update and both.delete and both.readable is None and both.attributes is None)
    if both.writes_all:
        assert all(writes(both, name, insert=insert) for name in ("id", "name", "undeclared") for insert in (True, False))
    stored = {"id": "1", "name": "fern", "pin": "1", "more": 1}
    kept = both.keep_forbidden({"id": "1", "name": "moss"}, dict(stored))
    for name, value in stored.items():
        if not writes(both, name, insert=False) and both.attributes is not None:
            assert kept[name] == value


# --- tables --------------------------------------------------------------------------------------------------------------------------


def test_table_rights() -> None:
    found = evaluate(table(update=False), PLANT, "data")
    assert (found.read, found.insert, found.update, found.delete) == (True, True, False, True)
    assert found.attributes is None and not found.all
    assert evaluate(table(), PLANT, "data").all
    assert evaluate(table(), PLANT, "other") == evaluate({}, PLANT, "data")


def test_structure_user_covers_its_databases() -> None:
    nothing = table(False, False, False, False)
    assert evaluate({**nothing, "structure_user": ["data"]}, PLANT, "data").all
    assert not evaluate({**nothing, "structure_user": ["other"]}, PLANT, "data").read
    assert not evaluate({**nothing, "structure_user": "data"}, PLANT, "data").read


@pytest.mark.parametrize(
    "permission",
    [
        {"data": None},
        {"data": []},
        {"data": {"tables": []}},
        {"data": {"tables": {"plant": True}}},
        {"data": {"tables": {"plant": {"read": 1, "insert": "true", "update": None, "attribute_permissions": [1, None]}}}},
        {"super_user": 1},
        {"super_user": "true"},
        {"structure_user": 1},
    ],
)
def test_what_is_malformed_gives_nothing(permission: dict[str, Any]) -> None:
    found = evaluate(permission, PLANT, "data")
    assert not (found.read or found.insert or found.update or found.delete or found.readable)


# --- attributes ----------------------------------------------------------------------------------------------------------------------


def test_unlisted_attributes_have_no_rights_and_the_key_follows() -> None:
    found = evaluate(table(attributes=[attribute("name", read=True), attribute("price", update=True)]), PLANT, "data")
    assert found.attributes == {
        "id": AttributeRights(True, False, True),
        "name": AttributeRights(read=True),
        "price": AttributeRights(update=True),
    }
    assert found.readable == {"id", "name"} and not found.all


def test_attribute_rights_do_not_exceed_the_table() -> None:
    found = evaluate(table(read=False, insert=False, attributes=[attribute("name", True, True, True)]), PLANT, "data")
    assert found.attributes is not None and found.attributes["name"] == AttributeRights(update=True)


def test_undeclared_and_managed_attributes() -> None:
    found = evaluate(table(attributes=[attribute("colour", True, True, True), attribute("madeAt", True, True, True)]), PLANT, "data")
    assert found.attributes == {"id": AttributeRights(read=True), "madeAt": AttributeRights(read=True)}


def test_list_that_grants_nothing_is_still_a_list() -> None:
    found = evaluate(table(attributes=[attribute("colour", True, True, True)]), PLANT, "data")
    assert found.attributes == {"id": AttributeRights()} and found.readable == frozenset()


def writer() -> TableRights:
    return evaluate(table(attributes=[attribute("name", True, True, True), attribute("price", True, True, False)]), PLANT, "data")


def test_check_write() -> None:
    may, ann = writer(), User("ann")
    may.check_write({"id": "1", "name": "x", "price": 1}, insert=True, user=ann)
    may.check_write({"name": "x"}, insert=False, user=ann)
    for record, insert in (({"price": 1}, False), ({"pin": "1"}, True), ({"colour": 1}, True)):
        with pytest.raises(AccessViolation) as caught:
            may.check_write(record, insert=insert, user=ann)
        assert caught.value.status_code == 403
    with pytest.raises(AccessViolation) as caught:
        may.check_write({"pin": 1}, insert=True, user=None)
    assert caught.value.status_code == 401


@pytest.mark.parametrize("name", ["madeAt", "__createdtime__", "__updatedtime__"])
def test_managed_times_cannot_be_written_with_an_attribute_list(name: str) -> None:
    with pytest.raises(Problem, match="Internal timestamp attributes") as caught:
        writer().check_write({name: 1}, insert=True, user=User("ann"))
    assert caught.value.status_code == 403
    evaluate(table(), PLANT, "data").check_write({name: 1}, insert=True, user=User("ann"))


def test_put_keeps_what_may_not_be_updated() -> None:
    stored = {"id": "1", "name": "old", "price": 1, "pin": "0000", "colour": "red"}
    for form in (stored, encode(stored, 1.0, 1, None)):
        kept = writer().keep_forbidden({"id": "1", "name": "new"}, form)
        assert kept == {"id": "1", "name": "new", "price": 1, "pin": "0000", "colour": "red"}
    # Even if a caller let forbidden values through, they do not get in.
    assert writer().keep_forbidden({"id": "1", "price": 9, "extra": 1}, stored) == {"id": "1", "price": 1, "pin": "0000", "colour": "red"}


def test_put_of_a_new_record_and_without_list_changes_nothing() -> None:
    record = {"id": "1", "price": 1}
    assert writer().keep_forbidden(record, None) is record
    assert ALL_RIGHTS.keep_forbidden(record, {"id": "1", "name": "x"}) == {"id": "1", "price": 1}


def test_malformed_names_of_attributes_give_nothing() -> None:
    for junk in ({}, [], None, 5):
        found = evaluate(table(attributes=[{"attribute_name": junk, "read": True}, attribute("name", read=True)]), PLANT, "data")
        assert found.readable == {"id", "name"}
