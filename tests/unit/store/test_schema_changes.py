"""svc.store.schema_changes: what a definition changes, in words, and what it leaves behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from svc.store import schema_changes
from svc.store.schema import Allow, Attribute, Check, Enumeration, Relationship, Structure, TableDefinition
from svc.store.schema_changes import Leftover, LeftoverCount, TableChange, table_change
from svc.store.values.keys import encode_key
from svc.store.values.records import encode

KEY = Attribute("id", "ID", primary_key=True)
KINDS = {value for name, value in vars(schema_changes).items() if name.isupper() and isinstance(value, str)}


def table(*attributes: Attribute, **more: Any) -> TableDefinition:
    return TableDefinition("Product", attributes=(KEY, *attributes), **more)


def said(old: TableDefinition, new: TableDefinition, records: int = 12_000) -> list[tuple[str, str]]:
    change = table_change(old, new, records)
    assert not change.fault and {each.kind for each in change.changes} <= KINDS
    return [(each.kind, each.sentence) for each in change.changes]


def test_nothing_changes() -> None:
    same = table(Attribute("price", "Float", indexed=True))
    assert table_change(same, replace(same), 5) == TableChange("data", "Product", 5)
    assert table_change(None, same, 0).changes[0].sentence == "new table"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((), (Attribute("price", "Int"),), [("attribute_added", "price: Int is added")]),
        ((Attribute("note"),), (), [("attribute_removed", "note: Any is removed, its values stay, as undeclared properties")]),
        (
            (Attribute("name", "String"),),
            (Attribute("title", "String", renamed_from="name"),),
            [("attribute_renamed", "title: the values of name get this name")],
        ),
        (
            (Attribute("name", "String"),),
            (Attribute("title", "Int", required=True, renamed_from="name"),),
            [("attribute_renamed", "title: the values of name get this name"), ("type_changed", "title: String becomes Int!")],
        ),
        (
            (Attribute("tags", "String", elements=True, indexed=True),),
            (Attribute("tags", "Int", elements=True, element_required=True, indexed=True),),
            [("type_changed", "tags: [String] becomes [Int!]"), ("index_rebuilt", "the index of tags is built again from 12,000 records")],
        ),
        ((Attribute("a"),), (Attribute("a", indexed=True),), [("index_built", "an index of a is built from 12,000 records")]),
        ((Attribute("a", indexed=True),), (Attribute("a"),), [("index_dropped", "the index of a is dropped")]),
        (
            (Attribute("u"), Attribute("r", "U", relationship=Relationship("U", "u"))),
            (Attribute("u"), Attribute("r", "U", relationship=Relationship("U", "u", None, "cascade"))),
            [("attribute_changed", "r: another relationship")],
        ),
        (
            (Attribute("c", "String", enum=Enumeration("Color", ("RED", "BLUE"))),),
            (Attribute("c", "String", enum=Enumeration("Color", ("RED",))),),
            [("type_changed", "c: Color loses the value BLUE")],
        ),
        ((Attribute("a", description="x"),), (Attribute("a", description="y"),), []),
    ],
)
def test_attributes(before: Any, after: Any, expected: Any) -> None:
    assert said(table(*before), table(*after)) == expected


def test_options_and_structures() -> None:
    place = Structure("Place", (Attribute("hall"),))
    before = table(Attribute("place", "Place"), structures=(place,), expiration=60.0)
    after = table(Attribute("place", "Place"), structures=(replace(place, sealed=True),), sealed=True)
    assert [sentence for _, sentence in said(before, after)] == [
        "sealed: false becomes true",
        "expiration: 60 becomes none",
        "the type Place of nested objects changes",
    ]


def test_rules_about_rows_are_not_quoted_and_leave_no_doubts() -> None:
    before, after = table(), table(allow=(Allow(read="owner=='mallory'"),), account=True)
    assert [sentence for _, sentence in said(before, after)] == ["other rules about rows (@allow)", "account: false becomes true"]
    assert table_change(before, after, 5).doubts == ()


def test_what_is_refused() -> None:
    change = table_change(table(), TableDefinition("Product", attributes=(Attribute("id", "Int", primary_key=True),)), 3)
    assert change.fault == "the primary key of Product cannot be changed from type ID to Int" and not change.changes


def left(old: TableDefinition, new: TableDefinition, *records: dict[str, Any]) -> list[Leftover]:
    change = table_change(old, new, len(records))
    count = LeftoverCount(new, change.doubts)
    for number, record in enumerate(records):
        count.add(encode_key(f"k{number}"), encode({"id": f"k{number}", **record}, 1.0, 0, None))
    return count.leftovers()


def test_values_of_another_type() -> None:
    before, after = table(Attribute("price", "Float")), table(Attribute("price", "Int"))
    (found,) = left(before, after, {"price": 5}, {"price": 5.0}, {}, {"price": None}, {"price": 5.5}, {"price": "5"})
    assert found == Leftover("other_type", "price", "Int", 2, 6, ("'k4'", "'k5'"))
    assert found.sentence("Product") == (
        "Product.price: 2 of 6 records do not fit Int; they stay as they are until they are written (the keys are 'k4', 'k5')"
    )
    assert left(after, before, {"price": 5}) == []


def test_values_that_are_required_now() -> None:
    before, after = table(Attribute("a", "Int")), table(Attribute("a", "Int", required=True))
    assert [found.count for found in left(before, after, {}, {"a": None}, {"a": 1})] == [2]
    assert left(before, table(Attribute("a", "Int", required=True, default="7")), {}) == []
    assert [found.count for found in left(table(), after, {}, {"a": 1}, {"a": "undeclared"})] == [2]


def test_values_of_removed_attributes() -> None:
    (found,) = left(table(Attribute("note")), table(), {"note": None}, {}, {"note": "x"})
    assert (found.kind, found.count, found.keys) == ("removed", 2, ("'k0'", "'k2'"))
    assert found.sentence("Product") == (
        "Product.note: 2 of 3 records have values, which are kept as undeclared properties (the keys are 'k0', 'k2')"
        '; if it has another name now, declare that with @renamedFrom(name: "note")'
    )


def test_renamed_values_are_read_with_their_new_name() -> None:
    before, after = table(Attribute("name", "String")), table(Attribute("title", "Int", renamed_from="name"))
    (found,) = left(before, after, {"title": "x"}, {"title": 1})
    assert (found.attribute, found.count) == ("title", 1)


def test_renamed_values_meet_what_is_declared_of_their_new_name() -> None:
    check = Check("number > 0")
    before = table(Attribute("a", "Int"), Attribute("number", "Int", check=check))
    after = table(Attribute("number", "Int", check=check, renamed_from="a"))
    (found,) = left(before, after, {"number": 1}, {"number": 0})
    assert (found.kind, found.attribute, found.count) == ("fails_check", "number", 1)
    before = table(Attribute("a", "Int"), Attribute("b", "String"))
    (found,) = left(before, table(Attribute("b", "Int", renamed_from="a")), {"b": 1}, {"b": "x"})
    assert (found.kind, found.attribute, found.count) == ("other_type", "b", 1)


def test_unique_values_and_checks() -> None:
    before = table(Attribute("n", "Int", indexed=True))
    after = table(Attribute("n", "Int", indexed=True, unique=True, check=Check("n > 0")), check=Check("n != 5"))
    assert said(before, after) == [
        ("attribute_changed", "n: another check"),
        ("table_changed", "another check of the whole record"),
        ("unique", "the values of n have to be unique"),
    ]
    found = left(before, after, {"n": 5}, {"n": -1}, {"n": -2}, {})
    assert [(each.kind, each.attribute, each.count) for each in found] == [("fails_check", "n", 2), ("fails_check", "", 1)]
    assert found[0].sentence("Product").startswith("Product.n: 2 of 4 records fail the check n > 0; they stay")
    assert found[1].sentence("Product").startswith("Product: 1 of 4 records fail the check n != 5; they stay")
    assert left(after, replace(after, sealed=True), {"n": -1}) == []


def colors(*values: str) -> Attribute:
    return Attribute("color", "String", enum=Enumeration("Color", values))


def test_values_that_an_enum_has_lost() -> None:
    before, after = table(colors("RED", "BLUE")), table(colors("RED", "GREEN"))
    assert said(before, after) == [("type_changed", "color: Color loses the value BLUE and gets the value GREEN")]
    (found,) = left(before, after, {"color": "RED"}, {"color": "BLUE"}, {"color": None}, {"color": "BLUE"}, {})
    assert found == Leftover("other_type", "color", "Color", 2, 5, ("'k1'", "'k3'"))
    assert left(after, table(colors("RED", "GREEN", "BLUE")), {"color": "RED"}) == []
    lists = [table(replace(colors(*values), elements=True)) for values in (("RED", "BLUE"), ("RED",))]
    assert [each.type for each in left(*lists, {"color": ["RED"]}, {"color": ["RED", "BLUE"]})] == ["[Color]"]


def test_values_that_an_enum_has_lost_in_nested_objects_and_as_keys() -> None:
    def nested(*values: str) -> TableDefinition:
        box = Structure("Box", (Attribute("inner", "Inner", elements=True),))
        return table(Attribute("box", "Box"), structures=(box, Structure("Inner", (colors(*values),))))

    one, other = {"box": {"inner": [{"color": "RED"}]}}, {"box": {"inner": [{"color": "RED"}, {"color": "BLUE"}]}}
    assert left(nested("RED", "BLUE"), nested("RED"), one, other) == [Leftover("other_type", "box", "Box", 1, 2, ("'k1'",))]
    assert left(nested("RED", "BLUE"), nested("RED", "BLUE"), other) == []

    def keyed(*values: str) -> TableDefinition:
        return TableDefinition("Product", attributes=(Attribute("id", "String", enum=Enumeration("Id", values)),), primary_key="id")

    assert left(keyed("k0", "k1"), keyed("k1"), {}, {}) == [Leftover("other_type", "id", "Id", 1, 2, ("'k0'",))]


def test_enumerations_lists_and_objects() -> None:
    place = Structure("Place", (Attribute("hall", "String", required=True),))
    after = table(
        Attribute("color", "String", enum=Enumeration("Color", ("RED",))),
        Attribute("tags", "Int", elements=True),
        Attribute("place", "Place"),
        structures=(place,),
    )
    found = left(table(Attribute("color"), Attribute("tags"), Attribute("place")), after, {"color": "BLUE", "tags": ["x"], "place": {}})
    assert [each.attribute for each in found] == ["color", "tags", "place"]
    assert left(table(Attribute("color")), after, {"color": "RED", "tags": [1], "place": {"hall": "x"}}) == []
    assert left(table(sealed=True), after, {"color": "BLUE"}) == [], "nothing undeclared was stored"
