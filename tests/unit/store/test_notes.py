"""Messages and invalidations: entries of the log that change no record."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.errors import BadValue, ClientError, ValidationError
from svc.store import Blob, Store, Table, Transaction, create_blob
from svc.store.integrity.check import check_database
from svc.store.log.entries import DELETE, INVALIDATE, MESSAGE, NOTES, PUT, LogEntry
from svc.store.log.table_removal import remove_log_entries
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import encode_key
from svc.store.values.records import decode_payload, lsn_of, raw_payload, version_of
from svc.store.writing.mqtt_message import MqttMessage

TOPIC = TableDefinition(
    "Topic",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("n", "Int"),
        Attribute("at", "Date"),
        Attribute("name", "String", required=True),
    ),
    sealed=True,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path, clock=FakeClock())
    store.open_database("data").define_table(TOPIC)
    yield store
    store.close()


@pytest.fixture
def table(store: Store) -> Table:
    return store.databases["data"].tables["Topic"]


def write(store: Store, work: Callable[[Transaction], object], user: str | None = None) -> None:
    transaction = store.begin(user)
    work(transaction)
    transaction.apply()
    store.commit_turn()
    store.clock.advance(1)  # type: ignore[attr-defined]


def notes(table: Table, key: str | None) -> list[int]:
    encoded = b"" if key is None else encode_key(key)
    return [entry.lsn for entry in table.database.log.read_notes(table.database.snapshot(), table.number, encoded)]


def message(table: Table, lsn: int) -> Any:
    entry = table.database.log.get(table.database.snapshot(), lsn)
    assert entry is not None and entry.kind == MESSAGE and entry.value is not None
    assert lsn_of(entry.value) == lsn and version_of(entry.value) == entry.version
    return decode_payload(raw_payload(entry.value))


@pytest.mark.parametrize("value", [{"n": 1}, {"other": [1]}, {}, "text", 5, 2.5, None, True, b"\0\xff", [1, {"a": None}], 10**40])
def test_any_value_can_be_published(store: Store, table: Table, value: Any) -> None:
    write(store, lambda transaction: transaction.publish(table, "a", value), "ann")
    assert message(table, 1) == value
    entry = table.database.log.get(table.database.snapshot(), 1)
    assert entry is not None and (entry.id, entry.user, entry.changed, entry.image, entry.previous) == ("a", "ann", (), None, 0)


def test_a_message_changes_no_record(store: Store, table: Table) -> None:
    write(store, lambda transaction: transaction.put(table, "a", {"name": "x"}))
    before = table.get_raw("a")
    write(store, lambda transaction: (transaction.publish(table, "a", {"n": 1}), transaction.invalidate(table, "a")))
    assert table.get_raw("a") == before
    write(store, lambda transaction: transaction.patch(table, "a", {"n": 2}))
    log, snapshot = table.database.log, table.database.snapshot()
    assert [entry.lsn for entry in log.read_record_history(snapshot, table.number, encode_key("a"), 4)] == [4, 1]


def test_what_is_said_of_a_record_has_a_chain_of_its_own(store: Store, table: Table) -> None:
    write(store, lambda transaction: (transaction.publish(table, "a", 1), transaction.publish(table, None, 2)))
    write(store, lambda transaction: (transaction.put(table, "a", {"name": "x"}), transaction.publish(table, "a", 3)))
    write(
        store, lambda transaction: (transaction.delete(table, "a"), transaction.invalidate(table, "a"), transaction.publish(table, "b", 4))
    )
    assert (notes(table, "a"), notes(table, "b"), notes(table, None), notes(table, "c")) == ([6, 4, 1], [7], [2], [])
    log, snapshot = table.database.log, table.database.snapshot()
    assert [entry.kind for entry in log.read_record_history(snapshot, table.number, encode_key("a"), None)] == [DELETE, PUT]
    assert [entry.kind for entry in log.read(snapshot) if entry.kind in NOTES] == [MESSAGE, MESSAGE, MESSAGE, INVALIDATE, MESSAGE]
    store.check()


def test_declared_attributes_that_are_there_are_checked(store: Store, table: Table) -> None:
    write(store, lambda transaction: transaction.publish(table, "a", {"at": "2024-01-01T00:00:00Z", "undeclared": 1}))
    assert message(table, 1) == {"at": datetime(2024, 1, 1, tzinfo=UTC), "undeclared": 1}
    write(store, lambda transaction: transaction.publish(table, "a", {"at": datetime(2024, 1, 1, tzinfo=UTC)}, source="native"))
    assert message(table, 2) == {"at": datetime(2024, 1, 1, tzinfo=UTC)}
    transaction = store.begin()
    with pytest.raises(ValidationError, match="property n must be an integer"):
        transaction.publish(table, "a", {"n": "one"})
    assert not transaction.has_writes


@pytest.mark.parametrize(("value", "error"), [({"x": {1, object()}}, BadValue), ("\ud800", BadValue), (object(), BadValue)])
def test_what_cannot_be_stored_is_refused_at_once(store: Store, table: Table, value: Any, error: type[Exception]) -> None:
    transaction = store.begin()
    with pytest.raises(error):
        transaction.publish(table, "a", value)
    assert not transaction.has_writes


@pytest.mark.parametrize("wrap", [lambda blob: blob, lambda blob: {"x": [blob]}])
def test_a_blob_is_refused(store: Store, table: Table, wrap: Callable[[Blob], Any]) -> None:
    with pytest.raises(ClientError, match="cannot hold a blob"):
        store.begin().publish(table, "a", wrap(create_blob(b"content")))


def test_after_an_abort_nothing_is_published(store: Store, table: Table) -> None:
    transaction = store.begin()
    transaction.publish(table, "a", 1)
    transaction.abort()
    with pytest.raises(ClientError):
        transaction.publish(table, "a", 2)
    with pytest.raises(ClientError):
        transaction.invalidate(table, "a")
    transaction = store.begin()
    transaction.publish(table, "a", 3)
    write(store, lambda other: other.publish(table, "a", 4))
    assert notes(table, "a") == [1]


def test_own_reads_are_of_records(store: Store, table: Table) -> None:
    write(store, lambda transaction: transaction.put(table, "a", {"name": "x"}))
    transaction = store.begin()
    transaction.publish(table, "a", 1)
    assert transaction.get_raw(table, "a") == table.get_raw("a")
    transaction.invalidate(table, "a")
    transaction.publish(table, "b", {"n": 1})
    assert transaction.get_raw(table, "a") == table.get_raw("a") and transaction.get_raw(table, "b") is None
    transaction.apply()
    store.commit_turn()
    assert transaction.deleted == 0 and transaction.skipped == []


def test_many_messages_are_a_long_write(store: Store, table: Table) -> None:
    transaction = store.begin()
    for number in range(60):
        transaction.publish(table, None, number)
    assert transaction.is_long

    async def apply() -> None:
        await transaction.apply_long()

    asyncio.run(apply())
    store.end_turn()
    assert notes(table, None) == list(range(60, 0, -1))


def test_with_the_entries_goes_the_chain(store: Store, table: Table) -> None:
    for number in range(4):
        write(store, lambda transaction, number=number: (transaction.publish(table, "a", number), transaction.publish(table, "b", 1)))  # type: ignore[misc]
    write(store, lambda transaction: transaction.publish(table, "a", 9))
    database = table.database
    writer = database.writer()
    assert database.log.prune(writer, 7, 100) == 6
    database.env.touch()
    store.commit_turn()
    assert (notes(table, "a"), notes(table, "b")) == ([9, 7], [8])
    store.check()
    asyncio.run(remove_log_entries(table, store.clock.wall() * 1000 + 1e6))
    store.end_turn()
    assert (notes(table, "a"), notes(table, "b")) == ([], [])
    store.check()


def test_a_sound_database_with_messages_has_no_findings(store: Store, table: Table, tmp_path: Path) -> None:
    long_key = "k" * 600
    for key in ("a", long_key, None, "a", long_key):
        write(store, lambda transaction, key=key: transaction.publish(table, key, "x"))  # type: ignore[misc]
    write(store, lambda transaction: (transaction.put(table, "a", {"name": "x"}), transaction.invalidate(table, "a")))
    assert notes(table, long_key) == [5, 2]
    store.check()
    store.close()
    assert check_database(tmp_path / "data").findings == []


def test_images_are_kept_from_when_somebody_follows(store: Store) -> None:
    quiet = store.databases["data"].define_table(TableDefinition("Quiet", attributes=(Attribute("id", primary_key=True),), audit=False))
    write(store, lambda transaction: transaction.put(quiet, "a", {"n": 1}))
    write(store, lambda transaction: transaction.put(quiet, "a", {"n": 2}))
    quiet.keep_images()
    assert quiet.audit
    write(store, lambda transaction: transaction.put(quiet, "a", {"n": 3}))
    quiet.database.define_table(TableDefinition("Quiet", attributes=(Attribute("id", primary_key=True), Attribute("n")), audit=False))
    write(store, lambda transaction: transaction.put(quiet, "a", {"n": 4}))
    assert [entry.image is not None for entry in quiet.database.log.read(quiet.database.snapshot())] == [False, False, True, True]
    assert quiet.definition.audit is False, "the definition says what it said"


def test_a_deletion_over_mqtt_of_what_is_not_there_is_a_message(store: Store, table: Table) -> None:
    def delete(note: bytes | None) -> list[LogEntry]:
        def work(transaction: Transaction) -> None:
            transaction.mqtt = None if note is None else MqttMessage(note)
            transaction.delete(table, "a")

        before = table.database.log.last_lsn
        write(store, work)
        return list(table.database.log.read(table.database.snapshot(), before + 1))

    assert delete(None) == []
    (entry,) = delete(b"note")
    assert (entry.kind, entry.key, entry.mqtt) == (MESSAGE, encode_key("a"), b"note") and entry.value is not None
    assert decode_payload(raw_payload(entry.value)) is None
    write(store, lambda transaction: transaction.put(table, "a", {"name": "x"}))
    assert [entry.kind for entry in delete(b"note")] == [DELETE]
    table.database.env.reserve.is_low = True
    assert delete(b"note") == [], "space is kept for what frees some"
