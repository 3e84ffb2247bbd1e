"""The demo's data is what its schema declares and its relationships promise."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from svc.apps.schema_files import load_schema_files
from svc.demo.data import APP, TABLES, data_file, iter_records
from svc.store.schema import TableDefinition

# Airports in the Caribbean, which the source does not list.
UNLISTED = {"SJU", "BQN", "STT", "PSE"}


@cache
def definitions() -> dict[str, TableDefinition]:
    path = APP / "schema.graphql"
    result = load_schema_files([(path.name, path.read_text("utf-8"))], {})
    assert not result.errors and not result.warnings
    return {definition.name: definition for definition in result.definitions}


@cache
def rows(table: str) -> list[dict[str, Any]]:
    return list(iter_records(table))


@cache
def records(table: str) -> dict[Any, dict[str, Any]]:
    """By primary key."""
    key = definitions()[table].primary_key
    return {record[key]: record for record in rows(table)}


def test_every_declared_table_has_data() -> None:
    assert set(TABLES) == set(definitions())


@pytest.mark.parametrize("table", TABLES)
def test_keys_are_unique_and_counted(table: str) -> None:
    assert len(records(table)) == len(rows(table)) == TABLES[table]


@pytest.mark.parametrize("table", TABLES)
def test_records_hold_declared_attributes_only_and_all_required_ones(table: str) -> None:
    stored = {a.name for a in definitions()[table].attributes if a.stored}
    required = {a.name for a in definitions()[table].attributes if a.required} | {definitions()[table].primary_key}
    for record in records(table).values():
        assert required <= record.keys() <= stored


@pytest.mark.parametrize("table", TABLES)
def test_every_attribute_occurs(table: str) -> None:
    stored = {a.name for a in definitions()[table].attributes if a.stored and a.type != "Blob"}  # files are for the user to add
    assert set().union(*records(table).values()) == stored


def test_foreign_keys_lead_somewhere_but_for_the_known_gaps() -> None:
    airlines, airports = records("Airline"), records("Airport")
    destinations = airports.keys() | UNLISTED
    for flight in records("Flight").values():
        assert flight["airlineCode"] in airlines
        assert flight["originCode"] in airports
        assert flight["destinationCode"] in destinations
    for weather in records("Weather").values():
        assert weather["airportCode"] in airports


def test_only_cancelled_flights_did_not_depart() -> None:
    for flight in records("Flight").values():
        assert flight["cancelled"] is ("departed" not in flight)
        assert ("departed" in flight) is ("departureDelay" in flight)


def test_data_is_small() -> None:
    assert sum(data_file(table).stat().st_size for table in TABLES) < 2_000_000
