"""svc.cluster.definitions: what definitions of another node add."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from svc.cluster.definitions import adopt, with_additions
from svc.cluster.wire import WireError
from svc.errors import SchemaError
from svc.store import Store
from svc.store.schema import Allow, Attribute, Structure, TableDefinition, definition_to_bytes

KEY = Attribute("id", "ID", primary_key=True)
NAME = Attribute("name", "String")
ITEM = TableDefinition("Item", attributes=(KEY, NAME))


def test_nothing_new_is_the_same_object() -> None:
    assert with_additions(ITEM, ITEM) is ITEM
    assert with_additions(ITEM, replace(ITEM, attributes=(KEY,))) is ITEM


def test_attributes_structures_and_indexes_are_added() -> None:
    size = Structure("Size", (Attribute("width", "Int"),))
    theirs = replace(ITEM, attributes=(KEY, replace(NAME, indexed=True), Attribute("size", "Size", renamed_from="old")), structures=(size,))
    found = with_additions(ITEM, theirs)
    assert found.attributes == (KEY, replace(NAME, indexed=True), Attribute("size", "Size"))
    assert found.structures == (size,)


def test_what_both_define_differently_stays() -> None:
    theirs = replace(ITEM, attributes=(KEY, Attribute("name", "Int", indexed=True)), expiration=5.0)
    assert with_additions(ITEM, theirs) is ITEM


def test_rules_about_rows_come_with_a_table_and_stay_as_each_has_them(tmp_path: Path) -> None:
    ruled = replace(ITEM, allow=(Allow(read="false"),), account=True)
    store = Store(tmp_path)
    database = store.open_database("data")
    for theirs in (ruled, ITEM, replace(ruled, allow=(Allow(read="true"),))):
        asyncio.run(adopt(database, "b", {"Item": definition_to_bytes(theirs)}))
        assert database.tables["Item"].definition == ruled
    store.close()
    assert with_additions(ITEM, ruled) is ITEM


@pytest.mark.parametrize(
    "theirs",
    [
        replace(ITEM, primary_key="name"),
        replace(ITEM, attributes=(replace(KEY, type="Int"), NAME)),
    ],
)
def test_other_keys_are_refused(theirs: TableDefinition) -> None:
    with pytest.raises(SchemaError):
        with_additions(ITEM, theirs)


def test_tables_are_made_and_changed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(tmp_path)
    database = store.open_database("data")

    def come(*definitions: TableDefinition) -> None:
        asyncio.run(adopt(database, "b", {each.name: definition_to_bytes(each) for each in definitions}))

    come(ITEM)
    assert database.tables["Item"].definition == ITEM
    come(replace(ITEM, attributes=(KEY, Attribute("n", "Int", indexed=True, unique=True))), TableDefinition("Other", attributes=(KEY,)))
    assert set(database.tables["Item"].attributes) == {"id", "name", "n"}
    assert "Other" in database.tables
    generation = database.generation
    come(ITEM)
    assert database.generation == generation
    with caplog.at_level(logging.ERROR):
        come(replace(ITEM, primary_key="name"))
    assert "the definition of table Item at b does not fit" in caplog.text
    store.close()


@pytest.mark.parametrize(
    "definitions",
    [{"Item": b""}, {"Item": b"\x01\xff"}, {"Item": definition_to_bytes(TableDefinition("Other", attributes=(KEY,)))}],
)
def test_what_is_no_definition(tmp_path: Path, definitions: dict[str, bytes]) -> None:
    store = Store(tmp_path)
    database = store.open_database("data")
    with pytest.raises(WireError):
        asyncio.run(adopt(database, "b", definitions))
    assert "Other" not in database.tables and "Item" not in database.tables
    store.close()
