from __future__ import annotations

import ast
from pathlib import Path

import pytest

from svc.apps.schema_files import load_schema_files
from svc.store.schema import Attribute, Structure, TableDefinition
from svc.stubs import ApplicationSchema
from svc.stubs.python_stubs import python_stubs

SCHEMA = Path(__file__).parents[2] / "integration" / "typed" / "schema.graphql"


def schema_of_text(text: str) -> ApplicationSchema:
    result = load_schema_files([("schema.graphql", text)])
    assert not result.errors
    return ApplicationSchema(tuple(sorted(result.definitions, key=lambda each: (each.database, each.name))))


def stubs(text: str) -> str:
    return python_stubs(schema_of_text(text))


def classes(text: str) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)}


def test_the_same_schema_gives_the_same_text() -> None:
    text = SCHEMA.read_text("utf-8")
    assert stubs(text) == stubs(text)
    ast.parse(stubs(text))


def test_the_order_of_the_files_does_not_matter() -> None:
    one, other = ("a.graphql", "type A @table { id: ID @primaryKey }"), ("b.graphql", "type B @table { id: ID @primaryKey }")
    both = [load_schema_files(files).definitions for files in ([one, other], [other, one])]
    assert both[0] == both[1]


def test_descriptions_are_docstrings_whatever_is_in_them() -> None:
    descriptions = [
        'He said "no"',
        "ends with a \\",
        'three """ quotes',
        'ends with "',
        "two\n   lines",
        "null \x00 and \r return",
        "größe €",
        "{x} %s",
    ]
    for description in descriptions:
        definition = TableDefinition(
            "T",
            attributes=(Attribute("id", "ID", primary_key=True), Attribute("a", "Int", description=description)),
            description=description,
        )
        found = classes(python_stubs(ApplicationSchema((definition,))))
        shown = ast.get_docstring(found["T"], clean=False)
        assert shown is not None
        assert description.replace("\r", " ").split()[0] in shown
        if "\n" not in description and "\r" not in description:
            assert shown.strip() == description.strip()


def test_names_that_python_could_not_say_are_reached_by_their_text() -> None:
    odd = ("class", "my attribute", "a'b", 'a"b', "a\\b", "_private", "__x", "2nd", "None", "get", "größe", "a\nb", "")
    attributes = (Attribute("id", "ID", primary_key=True), *(Attribute(name, "Int") for name in odd))
    text = python_stubs(ApplicationSchema((TableDefinition("T", attributes=attributes), TableDefinition("no name", attributes=attributes))))
    found = classes(text)
    named = {node.target.id for node in found["T"].body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    assert {"id", "größe"} < named
    assert not named & {"class", "_private", "None"}
    literals = {node.value for node in ast.walk(found["TRecord"]) if isinstance(node, ast.Constant)}
    assert {*odd, "id"} <= literals


@pytest.mark.parametrize(
    "name", ["class", "None", "keys", "_hidden", "a b", "tables", "databases", "ProductRecord", "str", "overload", "__dunder__", ""]
)
def test_tables_may_have_any_name(name: str) -> None:
    key = (Attribute("id", "ID", primary_key=True), Attribute(name or "x", "Int"))
    definitions = (
        TableDefinition(name, attributes=key),
        TableDefinition("Product", attributes=key),
        TableDefinition(name, database="d b", attributes=key),
    )
    text = python_stubs(ApplicationSchema(definitions))
    ast.parse(text)
    names = [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    assert len(names) == len(set(names))


def test_structures_that_contain_each_other_are_fine() -> None:
    inner = Structure("Part", (Attribute("part", "Part"), Attribute("parts", "Part", elements=True)))
    definition = TableDefinition("T", attributes=(Attribute("id", "ID", primary_key=True), Attribute("part", "Part")), structures=(inner,))
    assert "part: Part" in python_stubs(ApplicationSchema((definition,)))


def test_a_relationship_to_a_table_of_another_application_leads_to_any_record() -> None:
    from svc.store.schema import Relationship

    attributes = (Attribute("id", "ID", primary_key=True), Attribute("other", "Other", relationship=Relationship("Other", from_="id")))
    text = python_stubs(ApplicationSchema((TableDefinition("T", attributes=attributes),)))
    assert "def other(self) -> _t.RelatedRecord[_t.Record[_y.Any]]" in text
    ast.parse(text)


def test_an_application_without_tables_has_stubs_as_well() -> None:
    text = python_stubs(ApplicationSchema(()))
    assert {"tables", "databases", "data"} <= classes(text).keys()
