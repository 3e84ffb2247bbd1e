"""Compressed records in the store: from which size on, in the log too, and readable whatever the setting is."""

from collections.abc import Callable
from typing import Any

import pytest

from svc.store import Store, Table
from svc.store.integrity.check import check_database
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import COMPRESSED, decode
from svc.store.writing.bulk_write import load_records

TABLE = TableDefinition(
    "T", attributes=(Attribute("id", "ID", primary_key=True), Attribute("a", indexed=True), Attribute("text", "String"))
)
SHORT, LONG = {"a": 1, "text": "x" * 1000}, {"a": 2, "text": "the same again, " * 400}


def table_of(store: Store) -> Table:
    return store.open_database("data").define_table(TABLE)


def write(table: Table, key: str, record: dict[str, Any]) -> None:
    transaction = table.database.store.begin()
    transaction.put(table, key, dict(record))
    transaction.apply()
    table.database.store.commit_turn()


def is_compressed(table: Table, key: str) -> bool:
    raw = table.get_raw(key)
    assert raw is not None
    return bool(raw[0] & COMPRESSED)


@pytest.mark.parametrize(
    ("compression", "compressed"),
    [
        (True, ["long"]),
        (False, []),
        ({}, ["long"]),
        ({"threshold": 100}, ["short", "long"]),
        ({"threshold": 1_000_000}, []),
    ],
    ids=str,
)
def test_the_setting(open_store: Callable[..., Store], compression: Any, compressed: list[str]) -> None:
    table = table_of(open_store(compression=compression))
    write(table, "short", SHORT)
    write(table, "long", LONG)
    for _ in load_records(table, [{"id": "loaded", **LONG}]):
        pass
    assert [key for key in ("short", "long") if is_compressed(table, key)] == compressed
    assert is_compressed(table, "loaded") == ("long" in compressed)
    table.database.store.check()


def test_what_was_written_stays_readable(open_store: Callable[..., Store]) -> None:
    table = table_of(open_store())
    write(table, "long", LONG)
    table = table_of(open_store(compression=False))
    assert is_compressed(table, "long")
    raw = table.get_raw("long")
    assert raw is not None and decode(raw) == LONG | {"id": "long"}
    write(table, "other", LONG)
    assert not is_compressed(table, "other")
    table = table_of(open_store())
    assert decode(table.get_raw("other") or b"") == LONG | {"id": "other"}


def test_every_kind_of_write_and_read(store: Store) -> None:
    table = table_of(store)
    write(table, "a", LONG)
    transaction = store.begin()
    transaction.patch(table, "a", {"text": "another text, " * 500})
    transaction.put(table, "b", LONG | {"a": 3}, expires_at=store.clock.wall() * 1000 + 1000)
    transaction.apply()
    store.commit_turn()
    assert [(table.key_of(raw), raw[0]) for _, raw in table.scan(table.database.snapshot())] == [("a", 0x12), ("b", 0x13)]
    store.clock.advance(2)  # type: ignore[attr-defined]
    assert table.get_raw("b") is None and [table.key_of(raw) for _, raw in table.scan(table.database.snapshot())] == ["a"]
    entries = list(table.database.log.read(table.database.snapshot()))
    assert [decode(entry.value or b"").get("text", "")[:8] for entry in entries] == ["the same", "another ", "the same"]
    assert entries[0].value == entries[1].image, "the log keeps the bytes of the records"
    transaction = store.begin()
    transaction.delete(table, "a")
    transaction.apply()
    store.commit_turn()
    store.check()
    path = table.database.env.path
    store.close()
    assert check_database(path).findings == []
