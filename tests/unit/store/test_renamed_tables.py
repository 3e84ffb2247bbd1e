"""A table gets another name, with its records, indexes and history, and nobody sees anything in between (spec: schema-and-store §7.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from svc.errors import NotFound, SchemaError
from svc.store import Store, Table
from svc.store.integrity.check import check_database
from svc.store.schema import Attribute, TableDefinition
from svc.store.schema_changes import table_change
from svc.store.values.keys import encode_primary
from svc.store.values.records import decode, lsn_of
from tests.unit.store.conftest import SEAT
from tests.unit.store.test_moves import finish, read

PLACE = replace(SEAT, name="Place", renamed_from="Seat")


def put(store: Store, table: Table, *keys: str, **more: Any) -> None:
    made = store.begin("anna")
    for key in keys:
        made.put(table, key, {"price": 5.0, "tags": ["a", "b"], **more})
    made.apply()
    store.commit_turn()


def check(store: Store, path: Path) -> None:
    store.check()
    copytree(path / "database" / "data", path / "copy", dirs_exist_ok=True)
    assert check_database(path / "copy").findings == []


def test_everything_goes_along(store: Store, seats: Table, tmp_path: Path) -> None:
    put(store, seats, "A1", "B1")
    dropped: list[str] = []
    store.on_drop.append(lambda table: dropped.append(table.name))
    database = seats.database
    places = database.define_table(PLACE)
    assert places.name == "Place" and places.number == seats.number and "Seat" not in database.tables and dropped == ["Seat"]
    assert read(places, "A1")["price"] == 5 and places.indexes["price"].count(database.snapshot()) == 2
    newest = lsn_of(places.get_raw("A1") or b"")
    history = list(database.log.read_record_history(database.snapshot(), places.number, encode_primary("A1"), newest))
    assert [entry.user for entry in history] == ["anna"]
    put(store, places, "C1")
    check(store, tmp_path)
    again = database.define_table(SEAT)
    put(store, again, "A1", "Z9", price=7.0)
    assert read(places, "A1")["price"] == 5 and read(again, "A1")["price"] == 7, "the former name is free"
    check(store, tmp_path)


def test_with_other_changes_at_once(store: Store, seats: Table, tmp_path: Path) -> None:
    put(store, seats, "A1")
    attributes = (
        *SEAT.attributes[:1],
        Attribute("cost", "Float", indexed=True, renamed_from="price"),
        Attribute("stock", "Int", indexed=True),
    )
    places = seats.database.define_table(replace(PLACE, attributes=attributes))
    assert read(places, "A1") == {"cost": 5.0, "tags": ["a", "b"], "code": "A1"} and set(places.indexes) == {"cost", "stock"}
    check(store, tmp_path)
    last = seats.database.define_table(replace(PLACE, name="Spot", renamed_from="Place", attributes=attributes))
    assert last.moves is not None and read(last, "A1")["cost"] == 5.0, "while values are being moved"
    finish(store, last)
    check(store, tmp_path)


def test_a_restart_and_the_same_declaration(open_store: Callable[..., Store], tmp_path: Path) -> None:
    store = open_store()
    seats = store.open_database("data").define_table(SEAT)
    put(store, seats, "A1")
    store.databases["data"].define_table(PLACE)
    store = open_store()
    places = store.databases["data"].tables["Place"]
    assert list(store.databases["data"].tables) == ["Place"] and read(places, "A1")["price"] == 5
    assert store.databases["data"].define_table(PLACE) is places
    check(store, tmp_path)
    store.databases["data"].drop_table("Place")
    spare = store.databases["data"].define_table(replace(SEAT, name="Other"))
    assert spare.record_count() == 0
    check(store, tmp_path)


def test_without_the_former_table_it_is_a_new_one(store: Store) -> None:
    assert store.open_database("data").define_table(PLACE).record_count() == 0


def test_both_tables_stay_if_there_are_both(store: Store, seats: Table) -> None:
    put(store, seats, "A1")
    places = seats.database.define_table(replace(PLACE, renamed_from=None))
    assert seats.database.define_table(PLACE) is places and places.record_count() == 0 and seats.record_count() == 1


def test_those_who_refer_to_it_see_it_as_dropped(store: Store, seats: Table) -> None:
    put(store, seats, "A1")
    late = store.begin()
    late.put(seats, "B1", {})
    seats.database.define_table(PLACE)
    with pytest.raises(NotFound):
        late.apply()


@pytest.mark.parametrize("refused", [True, False])
def test_what_fails_changes_nothing(store: Store, seats: Table, monkeypatch: pytest.MonkeyPatch, refused: bool) -> None:
    put(store, seats, "A1")
    if refused:
        with pytest.raises(SchemaError):
            seats.database.define_table(replace(PLACE, attributes=(Attribute("code", "Int", primary_key=True),)))
    else:
        with pytest.raises(MemoryError), monkeypatch.context() as patch:
            patch.setattr("svc.store.env.Environment.commit", lambda _: (_ for _ in ()).throw(MemoryError))
            seats.database.define_table(PLACE)
    assert seats.database.tables == {"Seat": seats}
    put(store, seats, "B1")
    assert decode(seats.get_raw("B1") or b"")["price"] == 5
    store.check()
    assert seats.database.define_table(PLACE).record_count() == 2


def test_in_words() -> None:
    change = table_change(SEAT, PLACE, 3)
    assert [each.sentence for each in change.changes] == ["the table Seat gets this name, with all it has"]
    assert TableDefinition("A").renamed_from is None
