"""Which tables can hold free topics, and the one that is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.errors import ConfigError
from svc.mqtt.free_topics import ADDRESS, content_of, fault_of, open_free_topics
from svc.query import QueryCache
from svc.store import Store
from svc.store.schema import Attribute, Enumeration, TableDefinition
from tests.support.prepared import open_with

WHOLE = TableDefinition(
    "Topic",
    "data",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("contentType", "String"),
        Attribute("data", "Bytes"),
        Attribute("updatedTime", "Date", updated_time=True),
    ),
)
COLOURS = Enumeration("Colour", ("RED",))


def with_attribute(attribute: Attribute) -> TableDefinition:
    others = [each for each in WHOLE.attributes if each.name != attribute.name]
    return replace(WHOLE, attributes=(*others, attribute))


@pytest.mark.parametrize(
    "definition",
    [
        WHOLE,
        with_attribute(Attribute("id", "String", primary_key=True)),
        with_attribute(Attribute("updatedTime", "Long", updated_time=True)),
        with_attribute(Attribute("data", "Bytes", required=True)),
        with_attribute(Attribute("place", "String")),
        with_attribute(Attribute("place", "String", required=True, default='"here"')),
        with_attribute(Attribute("made", "Date", required=True, created_time=True)),
        replace(WHOLE, sealed=True),
    ],
)
def test_tables_that_can_hold_topics(definition: TableDefinition) -> None:
    assert fault_of(definition) is None


@pytest.mark.parametrize(
    ("definition", "fault"),
    [
        (with_attribute(Attribute("id", "Int", primary_key=True)), "its primary key must be 'id', of type ID or String"),
        (with_attribute(Attribute("id", "String", primary_key=True, enum=COLOURS)), "its primary key must be"),
        (replace(WHOLE, primary_key="name"), "its primary key must be"),
        (replace(WHOLE, split_segments=True), "it has @splitSegments"),
        (replace(WHOLE, attributes=WHOLE.attributes[:2]), "it must have the attribute 'data', of type Bytes"),
        (with_attribute(Attribute("data", "String")), "it must have the attribute 'data', of type Bytes"),
        (with_attribute(Attribute("data", "Blob")), "it must have the attribute 'data', of type Bytes"),
        (with_attribute(Attribute("data", "Bytes", elements=True)), "it must have the attribute 'data'"),
        (with_attribute(Attribute("contentType", "String", enum=COLOURS)), "it must have the attribute 'contentType', of type String"),
        (with_attribute(Attribute("contentType", "String", computed_from="id")), "it must have the attribute 'contentType'"),
        (with_attribute(Attribute("updatedTime", "Date")), "it must have the attribute 'updatedTime' with @updatedTime"),
        (replace(WHOLE, attributes=WHOLE.attributes[:3]), "it must have the attribute 'updatedTime' with @updatedTime"),
        (with_attribute(Attribute("place", "String", required=True)), "its attribute 'place' is required, and no message has it"),
    ],
)
def test_tables_that_cannot(definition: TableDefinition, fault: str) -> None:
    found = fault_of(definition)
    assert found is not None and found.startswith(fault)


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ({"data": b"x", "contentType": "text/plain"}, (b"x", "text/plain")),
        ({"data": b"", "contentType": None}, (b"", "")),
        ({"data": b"x"}, (b"x", "")),
        ({"data": b"x", "contentType": "a\0"}, (b"x", "")),
        ({"data": b"x", "contentType": "a" * 70_000}, (b"x", "")),
        ({"data": b"x", "contentType": "text/ü"}, (b"x", "text/ü")),
        ({"data": None}, None),
        ({}, None),
        ("ON", None),
        (None, None),
    ],
)
def test_what_is_sent(value: Any, content: tuple[bytes, str] | None) -> None:
    assert content_of(value) == content


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_with(tmp_path / "database", clock=FakeClock(), write_async=True)
    yield store
    store.close()


def opened(store: Store, name: str = "data.Topic") -> Any:
    return open_free_topics(name, store, QueryCache(), None)  # type: ignore[arg-type]  # nobody subscribes


def test_the_table_is_made(store: Store) -> None:
    topics = opened(store, "home.Topic")
    table = store.databases["home"].tables["Topic"]
    assert fault_of(table.definition) is None
    registration = topics.registration
    assert registration is topics.registration and registration.path == ADDRESS and registration.resource.table is table
    assert opened(store, "home.Topic").registration is not None and store.databases["home"].tables["Topic"] is table, "it is there already"


def test_a_table_that_is_there(store: Store) -> None:
    store.open_database("data").define_table(with_attribute(Attribute("place", "String")))
    assert opened(store).registration is not None
    store.open_database("data").define_table(replace(WHOLE, name="Other", attributes=WHOLE.attributes[:1]))
    with pytest.raises(
        ConfigError, match=r"The table data.Other cannot be that of 'mqtt.freeTopics': it must have the attribute 'contentType'"
    ):
        opened(store, "data.Other")
    with pytest.raises(ConfigError, match="cannot be made: The name"):
        opened(store, f"data.{'x' * 300}")


def test_a_table_that_changes(store: Store) -> None:
    topics = opened(store)
    database = store.databases["data"]
    first = topics.registration
    database.define_table(with_attribute(Attribute("place", "String")))
    second = topics.registration
    assert second is not None and second is not first
    database.define_table(with_attribute(Attribute("place", "String", required=True)))
    assert topics.registration is None, "it cannot hold topics now"
    database.define_table(WHOLE)
    assert topics.registration is not None
    del database.tables["Topic"]
    assert topics.registration is None
