"""svc.store.moves: values get the new name of their attribute, and nobody sees half of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.errors import NotUnique, PreconditionFailed, SchemaError
from svc.store import Precondition, Store, Table, moves
from svc.store.entity_tags import etag_of
from svc.store.integrity.check import check_database
from svc.store.log.entries import PUT
from svc.store.schema import Attribute, TableDefinition, unite
from svc.store.values.keys import after, index_key
from svc.store.values.records import decode, version_of
from svc.store.writing.bulk_write import load_records

COUNT = 120


def definition(*names: str, **former: str) -> TableDefinition:
    """A table with these indexed attributes. `former`: the names that they had."""
    attributes = [Attribute(name, "Any", indexed=True, renamed_from=former.get(name)) for name in names]
    return TableDefinition("Item", attributes=(Attribute("id", primary_key=True), *attributes))


@pytest.fixture
def items(store: Store, monkeypatch: pytest.MonkeyPatch) -> Table:
    monkeypatch.setattr(moves, "SLICE", 10)
    table = store.open_database("data").define_table(definition("a"))
    for _ in load_records(table, ({"id": n, "a": n, "other": "x" * n} for n in range(COUNT))):
        pass
    return table


def redefine(store: Store, to: TableDefinition) -> Table:
    table = store.open_database("data").define_table(to)
    store.commit_turn()
    return table


def finish(store: Store, table: Table) -> None:
    """The rest of the background work."""
    for _ in range(10_000):
        if not store.maintenance(0.001) and table.moves is None:
            return
    raise AssertionError("this never ends")


def some(store: Store, table: Table) -> None:
    """One slice of the move."""
    store._maintenance._deadline = 0.0
    store._maintenance._move_some(table.database, table)
    store.commit_turn()


def check(store: Store, path: Path) -> None:
    store.check()
    copytree(path / "database" / "data", path / "copy", dirs_exist_ok=True)
    assert check_database(path / "copy").findings == []


def physical(table: Table) -> list[dict[str, Any]]:
    return [decode(raw) for _, raw in table.database.snapshot().cursor(table.primary).iternext()]


def read(table: Table, key: Any) -> dict[str, Any]:
    raw = table.get_raw(key)
    assert raw is not None
    return decode(raw)


def test_records_have_the_new_name_before_during_and_after(store: Store, items: Table, tmp_path: Path) -> None:
    table = redefine(store, definition("b", b="a"))
    assert table is items
    for stage in ("noted", "begun", "done"):
        snapshot = table.database.snapshot()
        assert list(read(table, 7).items()) == [("id", 7), ("b", 7), ("other", "x" * 7)], "in its place"
        assert [decode(raw)["b"] for _, raw in table.scan(snapshot)] == list(range(COUNT))
        assert next(decode(raw)["b"] for _, raw in table.scan(snapshot, reverse=True)) == COUNT - 1
        assert [decode(raw)["b"] for _, raw in table.get_many([key for key, _ in table.scan(snapshot)], snapshot)] == list(range(COUNT))
        key = next(stored for stored, _ in table.scan(snapshot))
        assert decode(table.get_by(key, snapshot) or b"")["b"] == decode(table.get_entry(key) or b"")["b"] == 0
        tags = {etag_of(raw) for _, raw in table.scan(snapshot)}
        assert (len(tags) == 1) == (stage == "noted"), "the version of the change of the definition, then those of the slices"
        check(store, tmp_path)
        if stage == "noted":
            assert sum("a" in record for record in physical(table)) == COUNT
            some(store, table)
            assert 0 < sum("a" in record for record in physical(table)) < COUNT
            assert table.moves is not None and table.moves.note.moved == 10
        elif stage == "begun":
            finish(store, table)
            assert not any("a" in record for record in physical(table)) and table.moves is None
    index = table.indexes["b"]
    assert index.ready and index.count(table.database.snapshot(), index_key(7), after(index_key(7))) == 1


def test_versions_show_that_a_record_has_changed(store: Store, items: Table) -> None:
    before = items.get_raw(7)
    assert before is not None
    table = redefine(store, definition("b", b="a"))
    now = table.get_raw(7)
    assert now is not None and version_of(now) > version_of(before)
    late = store.begin()
    late.put(table, 7, {"a": 8}, Precondition(if_match=(etag_of(before),)))
    with pytest.raises(PreconditionFailed):
        late.apply()
    write = store.begin()
    write.patch(table, 7, {"n": 1}, Precondition(if_match=(etag_of(now),)))
    write.apply()
    store.commit_turn()
    assert version_of(table.get_raw(7) or b"") > version_of(now)


def test_writes_of_records_that_are_not_rewritten_yet(store: Store, items: Table, tmp_path: Path) -> None:
    table = redefine(store, definition("b", b="a"))
    some(store, table)
    write = store.begin()
    write.patch(table, 90, {"n": 1})
    write.put(table, 91, {"b": "new"})
    write.patch(table, 92, {"b": "patched"})
    write.delete(table, 93)
    write.put(table, 94, {"a": "meant so"})
    write.put(table, "fresh", {"a": 1, "b": 2})
    write.apply()
    store.commit_turn()
    for _ in load_records(table, [{"id": 95, "b": "loaded"}]):
        pass
    check(store, tmp_path)
    finish(store, table)
    assert read(table, 90) == {"id": 90, "b": 90, "other": "x" * 90, "n": 1}
    assert [read(table, n).get("b") for n in (91, 92, 94, 95)] == ["new", "patched", None, "loaded"]
    assert table.get_raw(93) is None and read(table, 94)["a"] == "meant so" and read(table, "fresh")["a"] == 1
    check(store, tmp_path)


def test_the_image_of_a_change_has_the_new_name(store: Store, items: Table) -> None:
    table = redefine(store, definition("b", b="a"))
    write = store.begin()
    write.patch(table, 90, {"n": 1})
    write.apply()
    store.commit_turn()
    entry = list(table.database.log.read(table.database.snapshot()))[-1]
    assert entry.image is not None and decode(entry.image)["b"] == 90 and entry.changed == ("n",)
    for _ in load_records(table, [{"id": 91, "b": 5}]):
        pass
    entry = list(table.database.log.read(table.database.snapshot()))[-1]
    assert entry.image is not None and decode(entry.image)["b"] == 91 and entry.changed == ("b", "other")


def test_the_log_tells_of_each_rewritten_record(store: Store, items: Table) -> None:
    before = items.database.log.last_lsn
    table = redefine(store, definition("b", b="a"))
    finish(store, table)
    entries = list(table.database.log.read(table.database.snapshot(), before + 1))
    assert len(entries) == COUNT and {(entry.kind, entry.user, entry.changed) for entry in entries} == {(PUT, None, ())}
    assert decode(entries[5].value or b"")["b"] == 5


def test_both_names_in_a_record_the_new_one_wins(store: Store, items: Table) -> None:
    write = store.begin()
    write.put(items, 5, {"a": "old", "b": "undeclared"})
    write.put(items, 6, {"a": "old", "b": None})
    write.put(items, 7, {"other": 1})
    write.apply()
    store.commit_turn()
    table = redefine(store, definition("b", b="a"))
    versions = [version_of(table.get_raw(key) or b"") for key in (5, 6, 7)]
    finish(store, table)
    assert (
        read(table, 5) == {"id": 5, "a": "old", "b": "undeclared"}
        and read(table, 6)["b"] is None
        and read(table, 7) == {"id": 7, "other": 1}
    )
    assert versions == [version_of(table.get_raw(key) or b"") for key in (5, 6, 7)], "they have not changed"
    store.check()


def test_a_snapshot_from_before_reads_as_it_was(store: Store, items: Table) -> None:
    old = items.database.open_snapshot()
    table = redefine(store, definition("b", b="a"))
    newer = table.database.open_snapshot()
    for _ in range(500):
        store.maintenance(0.001)
    assert table.moves is not None and table.moves.is_done, "there are snapshots that may have old names"
    assert decode(table.get_raw(7, old) or b"")["a"] == 7 and decode(table.get_raw(7, newer) or b"")["b"] == 7
    assert {tuple(decode(raw)) for _, raw in table.scan(old)} == {("id", "a", "other")}
    assert {tuple(decode(raw)) for _, raw in table.scan(newer)} == {("id", "b", "other")}
    old.abort()
    newer.abort()
    finish(store, table)
    assert table.moves is None


def test_a_restart_goes_on(open_store: Callable[..., Store], clock: FakeClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(moves, "SLICE", 10)
    store = open_store()
    table = store.open_database("data").define_table(definition("a"))
    for _ in load_records(table, ({"id": n, "a": n} for n in range(COUNT))):
        pass
    redefine(store, definition("b", b="a"))
    some(store, table)
    done = table.moves and table.moves.note.done
    clock.advance(-500)
    store = open_store()
    table = store.databases["data"].tables["Item"]
    assert table.moves is not None and table.moves.note.done == done and read(table, 99) == {"id": 99, "b": 99}
    assert store.next_version() > table.moves.note.moves[0].version, "even if the clock was set back"
    redefine(store, definition("b", b="a"))
    assert table.moves.note.done == done, "the same declaration changes nothing"
    finish(store, table)
    assert [record["b"] for record in physical(table)] == list(range(COUNT))
    redefine(store, definition("b", b="a"))
    assert table.moves is None
    check(store, tmp_path)


def test_a_chain_of_names(store: Store, items: Table, tmp_path: Path) -> None:
    table = redefine(store, definition("b", b="a"))
    some(store, table)
    write = store.begin()
    write.put(table, 100, {"b": "between"})
    write.put(table, 101, {"a": "left alone"})
    write.apply()
    store.commit_turn()
    middle = table.database.open_snapshot()
    redefine(store, definition("c", c="b"))
    for at_end in (False, True):
        assert [read(table, key)["c"] for key in (2, 50, 100)] == [2, 50, "between"] and read(table, 101) == {"id": 101, "a": "left alone"}
        assert decode(table.get_raw(50, middle) or b"")["b"] == 50 and decode(table.get_raw(2, middle) or b"")["b"] == 2
        check(store, tmp_path)
        if not at_end:
            for _ in range(500):
                store.maintenance(0.001)
    middle.abort()
    finish(store, table)


def onto_b(source: str | None, former: str | None, *, unique: bool = False) -> TableDefinition:
    """An index of `b`, or with `source`, an expression, of `c` that is computed. `former`: the name that `b` had; None: there is `a`, too."""
    indexed: dict[str, Any] = {"indexed": True, "unique": unique}
    first = Attribute("b", renamed_from=former, **({} if source else indexed))
    more = [Attribute("c", computed_from=source, **indexed)] if source else []
    old = [Attribute("a")] if former is None else []
    return TableDefinition("Item", attributes=(Attribute("id", primary_key=True), *old, first, *more))


@pytest.mark.parametrize("source", [None, "b", "a"])
def test_indexes_that_are_there_follow_the_values_that_move(store: Store, items: Table, source: str | None, tmp_path: Path) -> None:
    redefine(store, onto_b(source, None))
    table = redefine(store, onto_b(source, "a"))
    finish(store, table)
    check(store, tmp_path)


@pytest.mark.parametrize("source", [None, "b"])
def test_values_that_move_to_a_unique_attribute(store: Store, items: Table, source: str | None, tmp_path: Path) -> None:
    name = "c" if source else "b"
    finish(store, redefine(store, onto_b(source, None, unique=True)))
    write = store.begin()
    write.put(items, "twin", {"id": "twin", "b": 7})
    write.apply()
    store.commit_turn()
    with pytest.raises(SchemaError, match=rf"Item.{name} cannot be @unique: 1 value is that of several records: 7 \(7, \"twin\"\)"):
        redefine(store, onto_b(source, "a", unique=True))
    assert items.moves is None and read(items, 7)["a"] == 7, "everything is as it was"
    write = store.begin()
    write.delete(items, "twin")
    write.apply()
    finish(store, redefine(store, onto_b(source, "a", unique=True)))
    check(store, tmp_path)
    write = store.begin()
    write.put(items, "twin", {"id": "twin", "b": 7})
    with pytest.raises(NotUnique):
        write.apply()


def test_names_are_exchanged_in_two_steps(store: Store, items: Table) -> None:
    table = redefine(store, definition("b", "d", b="a", d="other"))
    assert read(table, 3) == {"id": 3, "b": 3, "d": "xxx"}
    finish(store, table)
    assert read(table, 3) == {"id": 3, "b": 3, "d": "xxx"}


def test_a_name_that_nothing_has(store: Store, items: Table) -> None:
    table = redefine(store, definition("a", "b", b="nothing"))
    before = table.database.log.last_lsn
    finish(store, table)
    assert table.database.log.last_lsn == before and read(table, 3)["a"] == 3


def test_an_empty_table_has_nothing_to_move(store: Store) -> None:
    store.open_database("data").define_table(definition("a"))
    assert redefine(store, definition("b", b="a")).moves is None


def test_expired_and_compressed_records(store: Store, clock: FakeClock, tmp_path: Path) -> None:
    table = store.open_database("data").define_table(definition("a"))
    write = store.begin()
    write.put(table, 1, {"a": "x" * 10_000}, expires_at=clock.wall() * 1000 + 5000)
    write.put(table, 2, {"a": "y" * 10_000})
    write.apply()
    store.commit_turn()
    clock.advance(6)
    redefine(store, definition("b", b="a"))
    assert table.get_raw(1) is None and read(table, 2)["b"] == "y" * 10_000
    finish(store, table)
    assert read(table, 2)["b"] == "y" * 10_000
    check(store, tmp_path)


def test_a_dropped_table_takes_its_note_with_it(store: Store, items: Table) -> None:
    redefine(store, definition("b", b="a"))
    store.databases["data"].drop_table("Item")
    again = store.databases["data"].define_table(definition("b", b="a"))
    assert again.moves is None and store.maintenance(1.0) is False


def test_a_failed_commit_leaves_the_old_name(store: Store, items: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MemoryError), monkeypatch.context() as patch:
        patch.setattr("svc.store.env.Environment.commit", lambda _: (_ for _ in ()).throw(MemoryError))
        items.database.define_table(definition("b", b="a"))
    assert read(items, 3)["a"] == 3 and items.definition == definition("a") and items.moves is None


def test_declarations_of_two_applications() -> None:
    mine, theirs = definition("b", b="a"), definition("b")
    assert unite(mine, theirs) == mine and unite(theirs, mine) == mine
    with pytest.raises(SchemaError, match=r"Item\.b is renamed from a, which another declaration of the table still has"):
        unite(mine, definition("a"))
