"""Enum types of schema files: strings with these values, and what can be wrong with them."""

from __future__ import annotations

import pytest

from svc.apps.schema_files import load_schema_files
from svc.store.schema import Attribute, Enumeration, definition_from_bytes, definition_to_bytes

STATUS = Enumeration("Status", ("OPEN", "CLOSED"), "Of an order.")
DECLARED = '"Of an order." enum Status { OPEN CLOSED }'


def test_an_attribute_has_a_string_type_with_these_values() -> None:
    result = load_schema_files(
        [
            ("1.graphql", "type T @table { id: Status @primaryKey a: Status! @indexed b: [Status!] c: Part } type Part { d: Status }"),
            ("2.graphql", DECLARED),
        ]
    )
    assert not result.faults
    (definition,) = result.definitions
    assert definition.attributes == (
        Attribute("id", "String", primary_key=True, enum=STATUS),
        Attribute("a", "String", required=True, indexed=True, enum=STATUS),
        Attribute("b", "String", elements=True, element_required=True, enum=STATUS),
        Attribute("c", "Part"),
    )
    assert definition.structures[0].attributes == (Attribute("d", "String", enum=STATUS),)
    assert definition_from_bytes(definition_to_bytes(definition)) == definition


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("enum Status { A B A }", ["1:19: Status.A is declared twice", "1:39: the type Status, which T.a needs, has errors"]),
        ("enum Status", ["1:6: the enum Status has no values", "1:29: the type Status, which T.a needs, has errors"]),
        (
            "enum Status { A } enum Status { B }",
            ["1:24: the enum Status is declared differently elsewhere", "1:53: the type Status, which T.a needs, has errors"],
        ),
        ("enum Int { A } enum Status { A }", ["1:6: Int is a built-in type and cannot be declared"]),
        ("enum T { A } enum Status { A }", ["1:6: T is declared as a type and as an enum"]),
        (
            f"enum Status {{ {'A' * 251} }}",
            [f"1:15: Status.{'A' * 200}... is longer than 250 characters", "1:285: the type Status, which T.a needs, has errors"],
        ),
        (
            "enum Status { A } type U @table { id: ID a: Status @relationship(from: id) }",
            ["1:42: the relationship U.a needs a table as its type, Status is an enum"],
        ),
        (
            "enum Status { A } type U @table @splitSegments { id: Status @primaryKey }",
            ["1:50: @splitSegments of U: the segments of a key cannot be the values of an enum"],
        ),
    ],
)
def test_errors(text: str, expected: list[str]) -> None:
    result = load_schema_files([("a.graphql", f"{text} type T @table {{ a: Status }}")])
    assert result.errors == [f"a.graphql:{each}" for each in expected]
    assert not result.warnings


def test_an_enum_can_be_repeated_and_its_directives_mean_nothing() -> None:
    result = load_schema_files([("a.graphql", "enum E { A B @deprecated } enum E @x { A B } type T @table { a: E }")])
    assert result.warnings == [
        "a.graphql:1:14: the directive @deprecated has no effect on an enum",
        "a.graphql:1:35: the directive @x has no effect on an enum",
    ]
    assert result.definitions[0].attribute("a") == Attribute("a", "String", enum=Enumeration("E", ("A", "B")))


def test_the_enum_of_a_table_of_another_application() -> None:
    known = {found.name: found for found in load_schema_files([("a", f"{DECLARED} type T @table {{ id: ID a: Status }}")]).definitions}
    result = load_schema_files([("b", "type U @table { id: ID b: Status }")], {"data": known})
    assert not result.faults
    assert result.definitions[0].attribute("b") == Attribute("b", "String", enum=STATUS)
