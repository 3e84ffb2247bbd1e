"""The permission of a role as a matrix, and back (spec: console §11)."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from svc.console.role_matrix import applied, differences, field_name, fingerprint, shown_field, table_rows
from svc.errors import ClientError
from svc.store.schema import Attribute, TableDefinition

PLANT, LEAF = ("data", "plant"), ("data", "a:b/%c")


def definition(place: tuple[str, str], *names: str) -> TableDefinition:
    attributes = (
        Attribute("id", "ID", primary_key=True),
        *(Attribute(name, "String") for name in names),
        Attribute("made", "Float", created_time=True),
    )
    return TableDefinition(place[1], place[0], type_name="T", attributes=attributes, primary_key="id")


DEFINITIONS = {PLANT: definition(PLANT, "kind", "price"), LEAF: definition(LEAF, "x:y", "é")}


def entry(rights: str = "", *attributes: Any, **more: Any) -> dict[str, Any]:
    return {
        **{right: right[0] in rights for right in ("read", "insert", "update", "delete")},
        "attribute_permissions": list(attributes),
        **more,
    }


def of(name: str, rights: str = "", **more: Any) -> dict[str, Any]:
    return {"attribute_name": name, **{right: right[0] in rights for right in ("read", "insert", "update")}, **more}


def form_of(permission: dict[str, Any], **options: Any) -> dict[str, str]:
    """The fields that a browser sends of the form as it is shown."""
    places = sorted({*DEFINITIONS, *((d, t) for d, v in permission.items() if isinstance(v, dict) for t in v.get("tables", {}))})
    rows = table_rows(permission, "reader", places, DEFINITIONS, **options)
    fields = {"shown": shown_field(rows, ["data", "garden"], ["insert", "read_only"])}
    for row in rows:
        if not row.exists:
            continue
        fields |= {f"t:{row.cell}:{right}": "yes" for right, given in row.flags.items() if given}
        if row.only and row.attributes is not None:
            fields[f"o:{row.cell}"] = "yes"
        for each in row.attributes or ():
            fields |= {f"a:{each.cell}:{right}": "yes" for right, given in each.flags.items() if given}
    if permission.get("super_user") is True:
        fields["super_user"] = "yes"
    structure = permission.get("structure_user")
    fields["structure"] = "all" if structure is True else "some" if isinstance(structure, list) else "none"
    fields |= {f"s:{name}": "yes" for name in (structure if isinstance(structure, list) else ()) if name in ("data", "garden")}
    listed = permission.get("operations")
    if isinstance(listed, list):
        fields["has_operations"] = "yes"
        fields |= {f"p:{name}": "yes" for name in listed if name in ("insert", "read_only")}
    return fields


def saved(permission: dict[str, Any], fields: dict[str, str]) -> dict[str, Any]:
    before = copy.deepcopy(permission)
    result, faults = applied(permission, fields)
    assert permission == before and not faults.by_place
    return result


AS_THEY_ARE: list[dict[str, Any]] = [
    {},
    {"super_user": True},
    {"super_user": False, "structure_user": [], "operations": []},
    {"structure_user": ["data", "gone"], "operations": ["insert", "nosuch", "read_only"], "cluster_user": False, "later": {"x": 1}},
    {"structure_user": True, "data": {"tables": {"plant": entry("ri")}, "note": "kept"}},
    {"data": {"tables": {"plant": entry("ru", of("kind", "ru"), of("dropped", "r"), of("price"), note=7)}}},
    {"data": {"tables": {"plant": {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": None}}}},
    {
        "data": {"tables": {"gone": entry("r", of("x", "r")), "plant": entry()}},
        "lost": {"tables": {"t": entry("riud")}},
        "empty": {"tables": {}},
    },
    {"data": {"tables": {"plant": {"read": "yes", "odd": True}, "a:b/%c": ["no", "object"]}}},
    {"data": {"tables": {"plant": entry("r", "no object", {"attribute_name": 7}, of("made", "riu"))}}, "odd": "no object"},
]


@pytest.mark.parametrize("permission", AS_THEY_ARE, ids=range(len(AS_THEY_ARE)))
@pytest.mark.parametrize("most", [0, 4, 150])
def test_a_form_that_nobody_has_changed_changes_nothing(permission: dict[str, Any], most: int) -> None:
    assert saved(permission, form_of(permission, most=most)) == permission
    assert list(saved(permission, form_of(permission, most=most))) == list(permission)


def test_a_right_on_a_table() -> None:
    permission = {"data": {"tables": {"plant": entry("r", note=7)}, "note": 1}, "later": 1}
    fields = form_of(permission) | {"t:data:plant:delete": "yes"}
    assert saved(permission, fields) == {"data": {"tables": {"plant": entry("rd", note=7)}, "note": 1}, "later": 1}
    del fields["t:data:plant:read"]
    assert saved(permission, fields)["data"]["tables"]["plant"] == entry("d", note=7)


def test_a_table_that_had_no_rights_and_one_that_has_none_any_more() -> None:
    fields = form_of({}) | {f"t:{field_name(*LEAF)}:read": "yes"}
    given = saved({}, fields)
    assert given == {"data": {"tables": {"a:b/%c": entry("r")}}}
    assert saved(given, {name: value for name, value in form_of(given).items() if not name.startswith("t:")}) == {}


def test_rights_on_attributes() -> None:
    permission = {"data": {"tables": {"plant": entry("ru")}}}
    fields = form_of(permission)
    assert {"a:data:plant:kind:read", "a:data:plant:kind:update"} <= fields.keys() and "o:data:plant" not in fields
    only = {name: value for name, value in fields.items() if not name.startswith("a:data:plant:price")} | {"o:data:plant": "yes"}
    listed = saved(permission, only)["data"]["tables"]["plant"]
    assert listed == entry("ru", of("id", "ru"), of("kind", "ru"), of("made", "r"))
    # Without the mark the cells of attributes say nothing.
    del only["o:data:plant"]
    assert saved(permission, only) == permission


def test_an_attribute_in_a_list_and_one_more() -> None:
    permission = {"data": {"tables": {"plant": entry("ru", of("kind", "r", note=1), of("dropped", "r"), "odd")}}}
    fields = form_of(permission) | {"a:data:plant:kind:update": "yes", "a:data:plant:price:read": "yes"}
    assert saved(permission, fields)["data"]["tables"]["plant"]["attribute_permissions"] == [
        of("kind", "ru", note=1),
        of("dropped", "r"),
        "odd",
        of("price", "r"),
    ]
    removed = saved(permission, fields | {"x:data:plant:dropped": "yes"})["data"]["tables"]["plant"]["attribute_permissions"]
    assert [each if isinstance(each, str) else each["attribute_name"] for each in removed] == ["kind", "odd", "price"]
    del fields["o:data:plant"]
    assert saved(permission, fields)["data"]["tables"]["plant"] == entry("ru")


def test_a_choice_of_no_attribute_would_be_one_of_all() -> None:
    fields = {"shown": '{"tables": [["data", "plant", ["id", "kind"]]]}', "t:data:plant:read": "yes", "o:data:plant": "yes"}
    _, faults = applied({}, fields)
    assert faults.by_place == {PLANT: "No attribute is chosen: an empty list would mean all of them"}


def test_what_is_not_there_any_more_goes_if_it_is_said_to() -> None:
    permission = AS_THEY_ARE[7]
    fields = form_of(permission)
    assert saved(permission, fields | {"x:data:gone": "yes"}) == {**permission, "data": {"tables": {"plant": entry()}}}
    assert "lost" not in saved(permission, fields | {"x:lost": "yes"}) and "empty" not in saved(permission, fields | {"x:empty": "yes"})


def test_flags_and_lists() -> None:
    permission = {"structure_user": ["gone", "data"], "operations": ["nosuch", "insert"]}
    fields = form_of(permission)
    assert saved(permission, fields | {"s:garden": "yes", "p:read_only": "yes"}) == {
        "structure_user": ["gone", "data", "garden"],
        "operations": ["nosuch", "insert", "read_only"],
    }
    without = {name: value for name, value in fields.items() if name not in ("s:data", "p:insert")}
    assert saved(permission, without) == {"structure_user": ["gone"], "operations": ["nosuch"]}
    assert saved(permission, without | {"structure": "all"})["structure_user"] is True
    assert saved(permission, without | {"structure": "none"})["structure_user"] is False
    del without["has_operations"]
    assert "operations" not in saved(permission, without)
    assert saved({}, form_of({}) | {"super_user": "yes"}) == {"super_user": True}


def test_a_page_without_a_fieldset_leaves_it_alone() -> None:
    permission = AS_THEY_ARE[3]
    assert saved(permission, {"shown": '{"tables": []}', "super_user": "yes", "structure": "none"}) == permission


@pytest.mark.parametrize(
    "shown", ["", "[", "7", '{"tables": [[1, 2, 3]]}', '{"tables": ' + "[" * 10_000, f'{{"tables": {[["d", "t", None]] * 101}}}']
)
def test_forms_that_no_page_of_ours_sends(shown: str) -> None:
    with pytest.raises(ClientError):
        applied({}, {"shown": shown.replace("None", "null").replace("'", '"')})


def test_no_form_changes_what_it_has_no_cell_for() -> None:
    """Any cells, set at random: what has none is as it was."""
    chance = random.Random(5)
    for _ in range(300):
        permission = copy.deepcopy(chance.choice(AS_THEY_ARE))
        fields = form_of(permission, most=chance.choice([0, 4, 150]))
        for name in list(fields):
            if name[:2] in ("t:", "a:", "o:") and chance.random() < 0.3:
                del fields[name]
        for name in (
            "t:data:plant:insert",
            f"t:{field_name(*LEAF)}:read",
            "a:data:plant:price:read",
            "o:data:plant",
            "s:garden",
            "p:insert",
        ):
            if chance.random() < 0.3:
                fields[name] = "yes"
        result, _ = applied(permission, fields)
        for name, value in permission.items():
            if name not in ("data", "structure_user", "operations", "super_user"):
                assert result[name] == value
        kept = permission.get("data", {}).get("tables", {}).get("gone")
        assert kept is None or result["data"]["tables"]["gone"] == kept


def test_differences() -> None:
    before = {"data": {"tables": {"plant": entry("r", of("kind", "r")), "gone": entry("r")}}, "operations": ["insert"]}
    after = {"data": {"tables": {"plant": entry("ru", of("kind", "ru"), of("price", "r"))}}, "structure_user": True}
    assert differences(before, before) == []
    assert differences(before, after) == [
        "data.plant: update false becomes true",
        "data.plant.kind: read becomes read, update",
        "data.plant.price: not listed becomes read",
        "data.gone: not named any more",
        'operations: ["insert"] becomes nothing',
        "structure_user: nothing becomes true",
    ]
    assert differences({}, {"data": 7}) == ["data: nothing becomes 7"]
    many = {"data": {"tables": {f"t{number}": entry("r") for number in range(500)}}}
    assert len(differences({}, many)) == 201 and differences({}, many)[-1] == "and more"
    for one in AS_THEY_ARE:
        for other in AS_THEY_ARE:
            assert bool(differences(one, other)) == (one != other), (one, other)


def test_a_fingerprint_is_that_of_the_content() -> None:
    role = {"id": "r", "role": "r", "permission": {"a": 1, "b": 2}, "__updatedtime__": 1}
    assert fingerprint(role) == fingerprint({**role, "permission": {"b": 2, "a": 1}, "__updatedtime__": 2})
    changes: tuple[dict[str, Any], ...] = ({"role": "s"}, {"permission": {"a": 1}}, {"access": {}})
    for change in changes:
        assert fingerprint(role) != fingerprint({**role, **change})
