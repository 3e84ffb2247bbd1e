"""Permissions against their rules, for arbitrary permission objects (spec: security §5.3): evaluation never raises and never grants too much."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from svc.auth.roles import AttributeRights, TableRights, evaluate
from svc.errors import Problem
from svc.store.schema import Attribute, TableDefinition

NAMES = ("id", "name", "price", "madeAt", "ghost")
DEFINITION = TableDefinition(
    "plant",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("name", "String"),
        Attribute("price", "Float"),
        Attribute("madeAt", "Date", created_time=True),
    ),
)
DECLARED = {attribute.name for attribute in DEFINITION.attributes}

flags = st.booleans()
junk = st.one_of(
    st.none(), st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=3), flags)
)
entries = st.fixed_dictionaries({"attribute_name": st.sampled_from(NAMES), "read": flags, "insert": flags, "update": flags})
tables = st.fixed_dictionaries(
    {"read": flags, "insert": flags, "update": flags, "delete": flags},
    optional={
        "attribute_permissions": st.one_of(st.none(), st.lists(entries, max_size=5, unique_by=lambda entry: entry["attribute_name"]))
    },
)
records = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3))


def permission(table: Any) -> dict[str, Any]:
    return {"data": {"tables": {"plant": table}}}


@given(
    st.dictionaries(
        st.sampled_from(["super_user", "structure_user", "data", "operations"]),
        st.one_of(junk, tables.map(lambda t: {"tables": {"plant": t}})),
    )
)
def test_any_object_is_evaluated(given_permission: dict[str, Any]) -> None:
    found = evaluate(given_permission, DEFINITION, "data")
    if (
        given_permission.get("super_user") is not True
        and given_permission.get("structure_user") is not True
        and "data" not in given_permission
    ):
        assert found == TableRights(managed=found.managed)


@given(tables)
def test_never_more_than_was_given(table: dict[str, Any]) -> None:
    found = evaluate(permission(table), DEFINITION, "data")
    for right in ("read", "insert", "update", "delete"):
        assert getattr(found, right) == table[right]
    listed = {entry["attribute_name"]: entry for entry in table.get("attribute_permissions") or []}
    if not listed:
        assert found.attributes is None
        return
    assert found.attributes is not None and not found.all
    assert set(found.attributes) <= DECLARED
    others = [AttributeRights()]
    for name, right in found.attributes.items():
        if name == "id":
            continue
        others.append(right)
        for action in ("read", "insert", "update"):
            assert not getattr(right, action) or (listed[name][action] and table[action])
    # The key has each right that any other attribute has.
    for action in ("read", "insert", "update"):
        if any(getattr(right, action) for right in others):
            assert getattr(found.attributes["id"], action)
    assert not found.attributes.get("madeAt", AttributeRights()).update
    assert found.readable == {name for name, right in found.attributes.items() if right.read}


@given(tables, records, st.one_of(st.none(), records))
def test_writes_never_touch_what_is_forbidden(table: dict[str, Any], record: dict[str, Any], stored: dict[str, Any] | None) -> None:
    found = evaluate(permission(table), DEFINITION, "data")
    insert = stored is None
    try:
        found.check_write(record, insert=insert)
    except Problem as problem:
        assert problem.status_code in (401, 403) and found.attributes is not None
    else:
        if found.attributes is not None:
            for name in record:
                right = found.attributes[name]
                assert right.insert if insert else right.update
    result = found.keep_forbidden(dict(record), stored)
    if found.attributes is None or stored is None:
        assert result == record
        return
    for name in {*result, *record, *stored}:
        right = found.attributes.get(name, AttributeRights())
        expected = record if right.update else stored
        assert result.get(name) == expected.get(name) and (name in result) == (name in expected)
