from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from svc.errors import SchemaError
from svc.store.schema import (
    Allow,
    Attribute,
    DefinitionChange,
    Embed,
    Export,
    Relationship,
    Structure,
    TableDefinition,
    VectorIndex,
    compare,
    definition_from_bytes,
    definition_to_bytes,
    key_kind,
    key_type,
    may_be_key,
    unite,
)

KEY = Attribute("id", "ID", primary_key=True)
PRICE = Attribute("price", "Float", indexed=True)


def table(*attributes: Attribute, **arguments: object) -> TableDefinition:
    return replace(TableDefinition("Seat", attributes=(KEY, *attributes)), **arguments)  # type: ignore[arg-type]


FULL = table(
    Attribute("show", "Show", relationship=Relationship("Show", "showId", "id"), enumerable=True),
    Attribute("label", "String", computed_from="a + b", computed_version="2"),
    Attribute("vector", "Float", elements=True, vector=VectorIndex(distance="euclidean", m=32), embed=Embed("text", "small")),
    Attribute("secret", "Place", required=True, allow=("admin", "auditor"), description="Ünïcode", hidden=True),
    structures=(
        Structure("Place", (Attribute("hall", "String", elements=True, element_required=True),), sealed=True, description="where"),
    ),
    export=Export("seat", (("rest", True), ("mqtt", False))),
    expiration=2.5,
    audit=False,
    scan_interval=9,
    split_segments=True,
    allow=(Allow(read="public==true"), Allow(roles=("editor", "admin"), create="true", update="owner==$user.username", delete="false")),
    account=True,
)


class TestStoredForm:
    @pytest.mark.parametrize("definition", [TableDefinition(""), table(), FULL])
    def test_round_trip(self, definition: TableDefinition) -> None:
        assert definition_from_bytes(definition_to_bytes(definition)) == definition

    def test_a_field_that_a_later_version_added_is_left_out(self) -> None:
        import msgspec

        data = b"\x01" + msgspec.msgpack.encode({"name": "Seat", "colour": "red", "attributes": [{"name": "id", "weight": 3}]})
        assert definition_from_bytes(data) == TableDefinition("Seat", attributes=(Attribute("id"),))

    @pytest.mark.parametrize(("rules", "form"), [({}, 1), ({"allow": (Allow(read="false"),)}, 2), ({"account": True}, 2)])
    def test_rules_about_rows_have_a_format_that_programs_without_them_refuse(self, rules: dict[str, Any], form: int) -> None:
        assert definition_to_bytes(table(**rules))[0] == form

    @pytest.mark.parametrize(
        "data", [b"", b"\x03\x80", b"\x02\x80", b"\x01", b"\x01\x80", b"\x01\x81", b"\x01\xa1x", b"\x01" + b"\x91" * 5000]
    )
    def test_anything_else_is_a_schema_error(self, data: bytes) -> None:
        with pytest.raises(SchemaError, match="stored table definition"):
            definition_from_bytes(data)


class TestCompare:
    def test_rules_about_rows_leave_the_indexes(self) -> None:
        rules = (Allow(read="price<5"),)
        assert compare(table(PRICE), table(PRICE, allow=rules, account=True)) == DefinitionChange(definition=True)
        assert compare(table(PRICE, allow=rules), table(PRICE)) == DefinitionChange(definition=True)

    def test_nothing_changed(self) -> None:
        assert compare(FULL, FULL) == DefinitionChange()

    def test_an_attribute_added_changes_the_definition_only(self) -> None:
        assert compare(table(), table(Attribute("note"))) == DefinitionChange(definition=True)

    def test_indexes(self) -> None:
        old = table(PRICE, Attribute("stock", "Int", indexed=True), Attribute("tag", "String", indexed=True))
        new = table(Attribute("price", "Float"), Attribute("stock", "Long", indexed=True), Attribute("note", indexed=True))
        assert compare(old, new) == DefinitionChange(build=("note",), rebuild=("stock",), drop=("price", "tag"), definition=True)

    def test_a_list_is_another_index(self) -> None:
        assert compare(table(PRICE), table(replace(PRICE, elements=True))).rebuild == ("price",)

    def test_required_and_description_leave_the_index(self) -> None:
        assert compare(table(PRICE), table(replace(PRICE, required=True, description="x"))) == DefinitionChange(definition=True)

    @pytest.mark.parametrize(
        ("old", "new", "rebuilt"),
        [
            ({"computed_from": "a"}, {"computed_from": "b"}, True),
            ({"computed_from": "a", "computed_version": "1"}, {"computed_from": "b", "computed_version": "1"}, False),
            ({"computed_from": "a", "computed_version": "1"}, {"computed_from": "a", "computed_version": "2"}, True),
        ],
    )
    def test_computed_attributes_by_version_or_expression(self, old: dict[str, str], new: dict[str, str], rebuilt: bool) -> None:
        indexed = Attribute("label", "String", indexed=True)
        change = compare(table(replace(indexed, **old)), table(replace(indexed, **new)))  # type: ignore[arg-type]
        assert change.rebuild == (("label",) if rebuilt else ())

    def test_the_key_cannot_be_renamed(self) -> None:
        other = TableDefinition("Seat", primary_key="code", attributes=(Attribute("code", "ID", primary_key=True),))
        with pytest.raises(SchemaError, match="cannot be changed from id to code"):
            compare(table(), other, empty=True)

    @pytest.mark.parametrize(
        ("old", "new", "empty", "refused"),
        [
            ("ID", "Long", True, True),
            ("Float", "String", True, True),
            ("ID", "String", False, False),
            ("Int", "Long", False, False),
            ("Long", "Any", False, False),
            ("Any", "Long", False, True),
            ("Any", "Long", True, False),
            ("ID", "Any", False, True),
            ("ID", "Any", True, False),
        ],
    )
    def test_the_type_of_the_key(self, old: str, new: str, empty: bool, refused: bool) -> None:
        before, after = (replace(table(), attributes=(replace(KEY, type=kind),)) for kind in (old, new))
        if refused:
            with pytest.raises(SchemaError, match=f"from type {old} to {new}"):
                compare(before, after, empty=empty)
        else:
            assert compare(before, after, empty=empty).definition

    def test_split_segments_only_while_there_are_no_keys(self) -> None:
        split = table(split_segments=True)
        assert compare(table(), split, empty=True).definition
        with pytest.raises(SchemaError, match="splitSegments"):
            compare(table(), split)


class TestUnite:
    def test_attributes_of_both(self) -> None:
        united = unite(table(PRICE), table(Attribute("note"), replace(PRICE, description="in euro")))
        assert [attribute.name for attribute in united.attributes] == ["id", "price", "note"]
        assert united.attribute("price") == PRICE

    def test_arguments_of_either(self) -> None:
        united = unite(table(expiration=5), table(sealed=True, audit=False, export=Export("x")))
        assert (united.expiration, united.sealed, united.audit, united.export) == (5, True, False, Export("x"))

    def test_rules_about_rows_of_either_hold(self) -> None:
        rules = (Allow(read="owner==$user.username"),)
        for first, second in ((table(allow=rules), table()), (table(account=True), table(allow=rules))):
            united = unite(first, second)
            assert united.allow == rules and united.account == first.account
            assert unite(second, first) == united

    @pytest.mark.parametrize(
        ("first", "second", "message"),
        [
            (table(PRICE), table(replace(PRICE, type="Int")), "Seat.price is declared differently"),
            (table(PRICE), table(replace(PRICE, indexed=False)), "Seat.price is declared differently"),
            (table(expiration=5), table(expiration=6), "expiration"),
            (table(allow=(Allow(read="true"),)), table(allow=(Allow(read="false"),)), "allow"),
            (table(structures=(Structure("P", ()),)), table(structures=(Structure("P", (PRICE,)),)), "type P"),
            (table(), TableDefinition("Seat", primary_key="code"), "primary key code"),
        ],
    )
    def test_disagreement(self, first: TableDefinition, second: TableDefinition, message: str) -> None:
        with pytest.raises(SchemaError, match=message):
            unite(first, second)


def test_keys() -> None:
    assert (key_type(TableDefinition("T")), key_kind(TableDefinition("T"))) == ("Any", "any")
    assert (key_type(table()), key_kind(table())) == ("ID", "text")
    assert may_be_key(KEY)
    assert not may_be_key(replace(KEY, elements=True))
    assert not may_be_key(replace(KEY, type="Boolean"))
    assert not may_be_key(replace(KEY, computed_from="a"))
