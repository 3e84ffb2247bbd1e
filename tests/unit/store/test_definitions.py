"""svc.store.definitions: names in the store, and definitions as bytes."""

import pytest

from svc.errors import SchemaError
from svc.store.definitions import (
    StoredTable,
    build_key,
    check_name,
    indexed_attributes,
    sequence_key,
    store_key,
    table_key,
)
from svc.store.schema import Attribute, TableDefinition

DEFINITION = TableDefinition(
    "Seat", attributes=(Attribute("id", "ID", primary_key=True, indexed=True), Attribute("a", indexed=True), Attribute("b")), expiration=5.0
)


def test_stored_table() -> None:
    stored = StoredTable(7, DEFINITION)
    data = stored.to_bytes()
    assert data[:4] == b"\0\0\0\7" and StoredTable.from_bytes(data) == stored
    with pytest.raises(SchemaError):
        StoredTable.from_bytes(data[:-1])


def test_names() -> None:
    assert table_key("Seat") == b"table:Seat" and build_key(7, "a") == b"build:7:a" and sequence_key(7) == b"keys:7"
    assert store_key(7, "a") == b"store:7:a" and store_key(7, "") == b"store:7:"


def test_the_key_needs_no_index_of_its_own() -> None:
    assert list(indexed_attributes(DEFINITION)) == ["a"]


@pytest.mark.parametrize("name", ["a", "ä b", "x" * 250, "a.b", "$x", "__createdtime__"])
def test_good_names(name: str) -> None:
    check_name(name, "a table")


@pytest.mark.parametrize("name", ["", "a/b", "`", "\0", "x" * 251, "ä" * 126])
def test_bad_names(name: str) -> None:
    with pytest.raises(SchemaError):
        check_name(name, "a table")
