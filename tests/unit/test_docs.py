"""What the pages in docs/ show is what the program understands. (`docs/rest.md` and the README: tests/integration/test_readme.py.)"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import svc
from svc.api import reference
from svc.apps.schema_files import load_schema_files
from svc.cli import COMMANDS
from svc.operations.operation import CATEGORIES
from svc.operations.reference import pages
from svc.operations.registry import all_operations
from svc.operations.row_file import FILE, text_of
from svc.store.schema import SCALAR_TYPES, Attribute, TableDefinition
from svc.store.values.computed import computed_attributes
from svc.store.values.expression_functions import FUNCTIONS

DOCS = Path(__file__).parents[2] / "docs"


def test_the_schema_example_loads_without_a_word() -> None:
    text = (DOCS / "schema.md").read_text("utf-8")
    schemas = re.findall(r"^```graphql\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert schemas
    for schema in schemas:
        result = load_schema_files([("schema.graphql", schema)])
        assert not result.errors
        assert not result.warnings
        assert result.definitions


def test_every_type_that_can_be_stored_is_described() -> None:
    text = (DOCS / "schema.md").read_text("utf-8")
    for name in SCALAR_TYPES:
        assert f"`{name}`" in text


def test_expressions_have_the_values_that_are_shown() -> None:
    text = (DOCS / "schema.md").read_text("utf-8")
    section = text[text.index("## Computed attributes") :]
    record = re.search(r"^```json\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|$", section, re.MULTILINE)
    assert record and len(rows) == 9
    for expression, value in rows:
        definition = TableDefinition("T", attributes=(Attribute("id", primary_key=True), Attribute("c", computed_from=expression)))
        assert computed_attributes(definition, {}, "T")["c"](json.loads(record[1])) == json.loads(value), expression


def test_functions_that_are_named_exist() -> None:
    text = (DOCS / "schema.md").read_text("utf-8")
    sentence = re.search(r"the functions (.*?), the methods", text, re.DOTALL)
    assert sentence and set(re.findall(r"`(\w+)`", sentence[1])) == FUNCTIONS.keys()


def test_commands_that_are_shown_exist() -> None:
    names = {command.name for command in COMMANDS}
    shown = re.findall(r"^svc ([a-z |]+?)(?: [A-Z\[]|  |$)", (DOCS / "operating.md").read_text("utf-8"), re.MULTILINE)
    assert shown
    for line in shown:
        for name in line.split(" | "):
            assert name in names


def test_the_pages_on_operations_are_those_of_the_rows() -> None:
    found = {path.name: path.read_text("utf-8") for path in (DOCS / "operations").iterdir()}
    assert found == pages(), "run: python -m svc.operations.reference docs/operations"
    assert FILE.read_text("utf-8") == text_of(list(all_operations()), CATEGORIES), "run: python -m svc.operations.reference docs/operations"


@pytest.mark.parametrize("page", sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")))
def test_links_lead_somewhere(page: str) -> None:
    text = (DOCS / page).read_text("utf-8")
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert ((DOCS / page).parent / target).exists(), target


def test_links_to_operations_name_one_of_their_page() -> None:
    for path in [DOCS.parent / "README.md", *DOCS.rglob("*.md")]:
        for target, name in re.findall(r"\]\(([^)#:]*)#([a-z0-9_]+)\)", path.read_text("utf-8")):
            page = (path.parent / target).resolve()
            if page.parent == DOCS / "operations":
                assert f"## {name}\n" in page.read_text("utf-8"), f"{path.name}: {target}#{name}"


def test_the_page_on_the_python_interface_is_that_of_the_docstrings() -> None:
    assert (DOCS / "python.md").read_text("utf-8") == reference.page(), "run: python -m svc.api.reference docs/python.md"


def test_the_page_on_the_python_interface_has_every_export() -> None:
    named = [name for names, _ in reference.SECTIONS.values() for name in names]
    assert sorted(named) == sorted(svc.__all__)
    assert all(reference.TITLES.keys() >= set(classes) for _, classes in reference.SECTIONS.values())
