"""svc.store.database: definitions, and what their changes do to tables with records (spec: schema-and-store §7)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.errors import IndexRebuilding, SchemaError, StoreFailure
from svc.store import Database, Store, Table
from svc.store.database import BUILD_AT_ONCE
from svc.store.definitions import FORMAT_KEY, table_key
from svc.store.maintenance import Maintenance
from svc.store.schema import Attribute, Relationship, TableDefinition
from svc.store.schema_difference import stored_definitions
from svc.store.values.keys import after, decode_key, index_key
from svc.store.values.records import decode
from svc.store.writing.bulk_write import load_records
from tests.support.indexes import rebuild_index


def fill(table: Table, count: int) -> None:
    for _ in load_records(table, ({"code": f"{n:05}", "price": n, "stock": n % 7, "place": f"p{n % 3}"} for n in range(count))):
        pass


def keys(table: Table, attribute: str, value: object) -> list[object]:
    found = table.indexes[attribute].scan(table.database.snapshot(), index_key(value), after(index_key(value)))
    return [decode_key(stored) for _, stored in found]


def with_attribute(table: Table, name: str, **changes: Any) -> TableDefinition:
    attributes = tuple(replace(a, **changes) if a.name == name else a for a in table.definition.attributes)
    return replace(table.definition, attributes=attributes)


def test_defining_twice_changes_nothing(seats: Table) -> None:
    before = seats.database.env.current
    assert seats.database.define_table(seats.definition) is seats
    assert seats.database.env.current == before


def test_definitions_survive(seats: Table, open_store: Callable[..., Store]) -> None:
    seats.database.define_table(replace(seats.definition, expiration=5.0, sealed=True))
    again = open_store().databases["data"].tables["Seat"]
    assert again.definition == seats.definition and again.definition.sealed and set(again.indexes) == {"price", "tags", "place"}
    assert again.number == seats.number


def test_an_index_of_a_small_table_is_built_at_once(seats: Table, store: Store) -> None:
    fill(seats, 20)
    assert seats.database.define_table(with_attribute(seats, "stock", indexed=True)) is seats
    assert seats.indexes["stock"].ready and keys(seats, "stock", 3) == ["00003", "00010", "00017"]
    store.check()


def test_an_index_of_a_large_table_is_built_in_the_background(seats: Table, store: Store, open_store: Callable[..., Store]) -> None:
    size = BUILD_AT_ONCE + 500
    fill(seats, size)
    seats.database.define_table(with_attribute(seats, "stock", indexed=True))
    assert not seats.indexes["stock"].ready and seats.indexes["price"].ready
    with pytest.raises(IndexRebuilding):
        keys(seats, "stock", 3)
    again = open_store()
    seats = again.databases["data"].tables["Seat"]
    assert not seats.indexes["stock"].ready
    while again.maintenance(1.0):
        pass
    assert seats.indexes["stock"].ready and len(keys(seats, "stock", 3)) == len([n for n in range(size) if n % 7 == 3])
    again.check()
    once_more = open_store()
    assert once_more.databases["data"].tables["Seat"].indexes["stock"].ready


def test_a_build_goes_on_where_it_was_and_writes_maintain_it(
    seats: Table, store: Store, open_store: Callable[..., Store], clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(seats, BUILD_AT_ONCE + 500)
    seats.database.define_table(with_attribute(seats, "stock", indexed=True))
    slow, build = clock.monotonic, Maintenance._build

    def tick() -> float:
        clock.advance(0.001)
        return slow()

    def build_slowly(maintenance: Maintenance, database: Database, table: Table, attribute: str) -> None:
        clock.monotonic = tick
        try:
            build(maintenance, database, table, attribute)
        finally:
            clock.monotonic = slow

    monkeypatch.setattr(Maintenance, "_build", build_slowly)
    progress = []
    slices = 0
    while True:
        seats = store.databases["data"].tables["Seat"]
        transaction = store.begin()
        transaction.patch(seats, f"{slices * 97 % 1500:05}", {"stock": 100 + slices})
        transaction.delete(seats, f"{slices * 89 % 1500:05}")
        transaction.put(seats, f"new{slices}", {"stock": 3})
        transaction.put(seats, f"0{slices:04}x", {"stock": 3})
        transaction.apply()
        store.commit_turn()
        if not store.maintenance(0.0025):
            break
        slices += 1
        progress.append(seats.indexes["stock"].progress)
        if slices % 4 == 0:
            store = open_store()
    assert slices > 4 and len(set(progress)) == slices and progress == sorted(progress, key=lambda done: done or b"")
    seats = store.databases["data"].tables["Seat"]
    assert seats.indexes["stock"].ready
    store.check()


def test_an_index_removed_and_added_again_is_built_anew(seats: Table, store: Store) -> None:
    fill(seats, 10)
    without = with_attribute(seats, "price", indexed=False)
    with_it = seats.definition
    seats.database.define_table(without)
    assert "price" not in seats.indexes
    transaction = store.begin()
    transaction.put(seats, "00003", {"price": 99})
    transaction.apply()
    store.commit_turn()
    seats.database.define_table(with_it)
    assert keys(seats, "price", 99) == ["00003"] and keys(seats, "price", 3) == []
    store.check()


def test_a_changed_type_builds_the_index_again(seats: Table, store: Store) -> None:
    fill(seats, 10)
    before = seats.indexes["place"]
    seats.database.define_table(with_attribute(seats, "place", type="ID"))
    assert seats.indexes["place"] is not before and keys(seats, "place", "p1") == ["00001", "00004", "00007"]
    store.check()


def test_an_attribute_that_goes_leaves_its_values(seats: Table, store: Store) -> None:
    fill(seats, 3)
    attributes = tuple(a for a in seats.definition.attributes if a.name != "price")
    seats.database.define_table(replace(seats.definition, attributes=attributes))
    raw = seats.get_raw("00001")
    assert raw is not None and decode(raw)["price"] == 1 and "price" not in seats.indexes and "price" not in seats.attributes
    store.check()


def test_other_arguments_apply_at_once(seats: Table) -> None:
    seats.database.define_table(replace(seats.definition, expiration=9.0, eviction=1.0, audit=False))
    assert seats.expiry.duration_ms == 9000 and seats.expiry.eviction_ms == 1000 and not seats.audit
    seats.database.define_table(replace(seats.definition, expiration=None, eviction=0.0, audit=None))
    assert seats.expiry.duration_ms is None and seats.audit


def test_keys_cannot_be_converted(seats: Table) -> None:
    fill(seats, 3)
    refused = [
        replace(seats.definition, primary_key="price"),
        with_attribute(seats, "code", type="Int"),
        replace(seats.definition, split_segments=True),
    ]
    definition = seats.definition
    for wrong in refused:
        with pytest.raises(SchemaError):
            seats.database.define_table(wrong)
        assert seats.definition == definition and not seats.database.env.has_writer
    assert seats.record_count() == 3


@pytest.mark.parametrize(
    "definition",
    [
        TableDefinition(""),
        TableDefinition("a/b"),
        TableDefinition("a`b"),
        TableDefinition("$log"),
        TableDefinition("x" * 251),
        TableDefinition("T", attributes=(Attribute("a/b"),)),
        TableDefinition("T", attributes=(Attribute("a"), Attribute("a"))),
    ],
)
def test_names_that_cannot_be_stored(store: Store, definition: TableDefinition) -> None:
    database = store.open_database("data")
    with pytest.raises(SchemaError):
        database.define_table(definition)
    assert database.tables == {}


def test_drop(seats: Table, store: Store, open_store: Callable[..., Store], clock: FakeClock) -> None:
    definition = seats.definition
    transaction = store.begin()
    transaction.put(seats, "old", {"price": 1}, expires_at=clock.wall() * 1000 + 1)
    transaction.apply()
    store.commit_turn()
    fill(seats, 10)
    private = seats.database.open_snapshot()
    database = seats.database
    database.drop_table("Seat")
    database.drop_table("never was")
    assert database.tables == {} and len(list(seats.scan(private))) == 11, "a snapshot that is being read stays whole"
    private.abort()
    store.check()
    made_again = database.define_table(definition)
    assert made_again.record_count() == 0 and made_again.number != seats.number and keys(made_again, "price", 1) == []
    again = open_store()
    assert list(again.databases["data"].tables) == ["Seat"]
    again.check()


def test_a_schema_change_commits_the_turn_before_it(seats: Table, store: Store) -> None:
    outcome: list[object] = []
    transaction = store.begin()
    transaction.put(seats, "A1", {})
    transaction.on_done = outcome.append
    transaction.apply()
    seats.database.define_table(TableDefinition("Other"))
    assert outcome == [], "who waits is told at the end of the turn"
    store.commit_turn()
    assert outcome == [None] and seats.get_raw("A1") is not None


def test_the_version_of_the_tables_grows_with_each_change(seats: Table, store: Store) -> None:
    database = seats.database
    versions = [database.tables_version]

    def has_grown() -> bool:
        versions.append(database.tables_version)
        return versions[-1] > versions[-2]

    computed = Attribute("total", "Float", computed_from="")
    database.define_table(replace(seats.definition, attributes=(*seats.definition.attributes, computed)))
    assert has_grown()
    take_back = seats.set_computed_attribute("total", lambda record: 1.0)
    assert has_grown()
    take_back()
    assert has_grown()
    database.define_table(replace(seats.definition, name="Place", renamed_from="Seat"))
    assert has_grown()
    fill(database.tables["Place"], 1)
    store.commit_turn()
    assert not has_grown(), "records are no definitions"
    database.drop_table("Place")
    assert has_grown()


def test_dynamic_tables_learn(store: Store, open_store: Callable[..., Store]) -> None:
    definition = TableDefinition("Log", attributes=(Attribute("id", primary_key=True),), dynamic=True)
    table = store.open_database("data").define_table(definition)
    for number in range(3):
        transaction = store.begin()
        transaction.put(table, number, {"level": "info", f"x{number}": number})
        transaction.apply()
        store.commit_turn()
    assert list(table.attributes) == ["id", "level", "x0", "x1", "x2"] and all(index.ready for index in table.indexes.values())
    assert keys(table, "x1", 1) == [1] and keys(table, "x1", None) == [0, 2]
    store.check()
    again = open_store().databases["data"].tables["Log"]
    assert list(again.indexes) == ["level", "x0", "x1", "x2"]


def test_rebuild(seats: Table, store: Store) -> None:
    fill(seats, 10)
    seats.database.env.writer().drop(seats.indexes["price"].handle, False)
    seats.database.env.touch()
    seats.database.env.commit()
    with pytest.raises(AssertionError):
        store.check()
    store.end_turn()
    rebuild_index(seats, "price")
    store.check()


def test_a_later_format_is_refused(seats: Table, open_store: Callable[..., Store]) -> None:
    database = seats.database
    database.env.writer().put(FORMAT_KEY, b"99", db=database.definitions)
    database.env.touch()
    database.env.commit()
    with pytest.raises(StoreFailure, match="its format is 99"):
        open_store()


def test_a_later_format_of_a_definition_is_refused(seats: Table, open_store: Callable[..., Store]) -> None:
    database = seats.database
    data = seats.stored.to_bytes()
    database.env.writer().put(table_key(seats.name), data[:4] + b"\x99" + data[5:], db=database.definitions)
    database.env.touch()
    database.env.commit()
    with pytest.raises(StoreFailure, match="The database data cannot be read: the stored table definition has an unknown format"):
        open_store()
    with pytest.raises(StoreFailure, match="unknown format"):
        stored_definitions(database.env.path)


def test_the_key_and_relationships_have_no_sorted_index(store: Store) -> None:
    related = Attribute("t", "T", relationship=Relationship("T", "a"), indexed=True)
    definition = TableDefinition("T", attributes=(Attribute("id", primary_key=True, indexed=True), related, Attribute("a")))
    assert store.open_database("data").define_table(definition).indexes == {}
