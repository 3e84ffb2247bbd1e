"""svc.store.log.transaction_log: the entry byte by byte, reading, chains, retention."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from msgspec import structs

from svc.clock import FakeClock
from svc.errors import StoreFailure
from svc.store import Store, Table
from svc.store.integrity.check import check_database
from svc.store.log import transaction_log
from svc.store.log.entries import DELETE, KINDS, OPERATIONS, PATCH, PUT, LogEntry, decode_entry, encode_entry, entry_encoder
from svc.store.log.table_removal import remove_log_entries
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import encode_key
from svc.store.values.records import decode, lsn_of
from tests.unit.store.writing.test_long_write import Turns

DAY = 86400.0

FULL = LogEntry(
    lsn=7,
    transaction=6,
    wall_ms=1767225600000.5,
    version=1767225600000.25,
    table="Seat",
    table_number=3,
    key=encode_key("A1"),
    kind=PATCH,
    user="anna",
    node="node-1",
    previous=2,
    value=b"value",
    changed=("price", "ä"),
    image=b"image",
    operation=2,
)
FULL_BYTES = (
    b"\x01\x02\x07\x02"  # format, kind, flags, operation
    b"\x00\x00\x00\x03"  # table number
    b"\x00\x00\x00\x00\x00\x00\x00\x06"  # transaction
    b"\x00\x00\x00\x00\x00\x00\x00\x02"  # previous
    b"\x42\x79\xb7\x6d\xaa\x80\x08\x00"  # wall time
    b"\x42\x79\xb7\x6d\xaa\x80\x04\x00"  # version
    b"\x04\x06\x00\x04\x00\x04"  # lengths of table, node, user, key
    b"\x00\x00\x00\x0a\x00\x00\x00\x05"  # lengths of names, value
    b"Seatnode-1anna\x10A1\x00"
    b"\x92\xa5price\xa2\xc3\xa4"
    b"valueimage"
)
TRACE = bytes.fromhex("0af7651916cd43dd8448eb211c80319c")
TRACED = structs.replace(FULL, trace_id=TRACE)
TRACED_BYTES = b"\x02" + FULL_BYTES[1:] + TRACE
BARE = LogEntry(1, 1, 0.0, 0.0, "T", 1, encode_key(1), DELETE, None, "", 0, None, (), None)


@pytest.mark.parametrize(("entry", "data"), [(FULL, FULL_BYTES), (TRACED, TRACED_BYTES)])
def test_the_formats(entry: LogEntry, data: bytes) -> None:
    assert encode_entry(entry) == data
    assert decode_entry(entry.lsn, data) == entry


@pytest.mark.parametrize("user", [None, "", "anna"])
@pytest.mark.parametrize("previous", [0, 5])
@pytest.mark.parametrize("image", [None, b"", b"image"])
@pytest.mark.parametrize("trace_id", [None, TRACE])
def test_many_entries_are_encoded_as_one_is(user: str | None, previous: int, image: bytes | None, trace_id: bytes | None) -> None:
    encode = entry_encoder(
        kind=PUT,
        operation=1,
        table="Süß",
        table_number=3,
        transaction=6,
        wall_ms=1.5,
        version=2.5,
        node="node-1",
        user=user,
        trace_id=trace_id,
    )
    for names in (("a",), (), ("price", "ä"), ("a",)):
        entry = LogEntry(
            7, 6, 1.5, 2.5, "Süß", 3, encode_key("A1"), PUT, user, "node-1", previous, b"value", names, image, 1, trace_id
        )  # fmt: skip
        assert encode(entry.key, previous, b"value", names, image) == encode_entry(entry)


def test_what_is_absent_is_not_empty() -> None:
    assert decode_entry(1, encode_entry(BARE)) == BARE
    empty = LogEntry(1, 1, 0.0, 0.0, "T", 1, encode_key(1), PUT, "", "", 0, b"", (), b"")
    assert decode_entry(1, encode_entry(empty)) == empty
    for entry in (BARE, empty):
        traced = structs.replace(entry, trace_id=TRACE)
        assert decode_entry(1, encode_entry(traced)) == traced
        assert len(encode_entry(traced)) == len(encode_entry(entry)) + 16
        for message in (b"", b"\1" + bytes(9), b"x" * 70_000):
            for each in (entry, traced):
                noted = structs.replace(each, mqtt=message)
                assert decode_entry(1, encode_entry(noted)) == noted


def test_long_parts() -> None:
    entry = LogEntry(
        2**64 - 2, 2**63, 1.0, 2.0, "t" * 250, 2**32 - 1, encode_key("k" * 600), PUT, "u" * 60_000, "n" * 253, 5, b"v" * 100_000, (), None
    )
    assert decode_entry(entry.lsn, encode_entry(entry)) == entry


def test_another_format_is_refused() -> None:
    with pytest.raises(StoreFailure, match="format 4"):
        decode_entry(1, b"\x04" + FULL_BYTES[1:])


def test_names() -> None:
    assert KINDS[PUT] == "put" and KINDS[DELETE] == "delete" and OPERATIONS[FULL.operation] == "update"
    assert FULL.id == "A1"


@dataclass
class Writer:
    store: Store
    table: Table

    def put(self, key: str, stock: int) -> None:
        transaction = self.store.begin("anna")
        transaction.put(self.table, key, {"stock": stock})
        transaction.apply()
        self.store.commit_turn()

    def delete(self, key: str) -> None:
        transaction = self.store.begin()
        transaction.delete(self.table, key)
        transaction.apply()
        self.store.commit_turn()

    def history(self, key: str) -> list[tuple[int, str]]:
        database = self.table.database
        raw = self.table.get_raw(key)
        newest = None if raw is None else lsn_of(raw)
        entries = database.log.read_record_history(database.snapshot(), self.table.number, encode_key(key), newest)
        return [(entry.lsn, KINDS[entry.kind]) for entry in entries]


@pytest.fixture
def writer(store: Store, seats: Table) -> Writer:
    return Writer(store, seats)


def test_an_entry_says_all(writer: Writer, clock: FakeClock) -> None:
    writer.put("A1", 1)
    clock.advance(1)
    transaction = writer.store.begin("bert")
    transaction.patch(writer.table, "A1", {"stock": 2, "price": 5})
    transaction.put(writer.table, "B2", {"stock": 0})
    transaction.apply()
    writer.store.commit_turn()
    log = writer.table.database.log
    first, second, third = log.read(writer.table.database.snapshot())
    assert (first.lsn, first.transaction, first.kind, first.user, first.node) == (1, 1, PUT, "anna", "localhost")
    assert (first.previous, first.image, first.changed) == (0, None, ("stock", "code"))
    assert (second.lsn, second.transaction, second.kind, second.user, second.id) == (2, 2, PATCH, "bert", "A1")
    assert (second.previous, second.changed) == (1, ("stock", "price"))
    assert second.value is not None and decode(second.value) == {"stock": 2, "price": 5}
    assert second.image is not None and decode(second.image) == {"stock": 1, "code": "A1"}
    assert (third.lsn, third.transaction, third.version, third.table) == (3, 2, second.version, "Seat")
    assert second.wall_ms == clock.wall() * 1000 == second.version
    log.check(writer.table.database.snapshot())


def test_reading_a_part(writer: Writer) -> None:
    for number in range(5):
        writer.put(f"A{number}", number)
    log, snapshot = writer.table.database.log, writer.table.database.snapshot()
    assert [entry.lsn for entry in log.read(snapshot, 2, 4)] == [2, 3]
    assert [entry.lsn for entry in log.read(snapshot, 4)] == [4, 5]
    assert [entry.lsn for entry in log.read(snapshot, 6)] == []
    assert [entry.lsn for entry in log.read(snapshot, 2, reverse=True)] == [5, 4, 3, 2]
    assert [entry.lsn for entry in log.read(snapshot, 2, 4, reverse=True)] == [3, 2]
    assert log.count(snapshot) == 5 and log.size(snapshot) > 0
    third = log.get(snapshot, 3)
    assert third is not None and third.id == "A2" and log.get(snapshot, 9) is None


def test_history_is_a_chain_over_deletion(writer: Writer) -> None:
    writer.put("A1", 1)
    writer.put("B1", 1)
    writer.put("A1", 2)
    assert writer.history("A1") == [(3, "put"), (1, "put")]
    writer.delete("A1")
    assert writer.history("A1") == [(4, "delete"), (3, "put"), (1, "put")]
    writer.put("A1", 3)
    assert writer.history("A1") == [(5, "put"), (4, "delete"), (3, "put"), (1, "put")]
    assert writer.history("B1") == [(2, "put")] and writer.history("C1") == []
    writer.store.check()


def test_history_of_long_keys(writer: Writer) -> None:
    long, other = "a" + "k" * 550, "b" + "k" * 550
    writer.put(long, 1)
    writer.put(other, 2)
    writer.delete(long)
    writer.delete(other)
    assert writer.history(long) == [(3, "delete"), (1, "put")]
    assert writer.history(other) == [(4, "delete"), (2, "put")]
    writer.store.check()


def test_a_table_made_again_has_its_own_history(writer: Writer) -> None:
    writer.put("A1", 1)
    writer.delete("A1")
    database, definition = writer.table.database, writer.table.definition
    database.drop_table("Seat")
    writer.table = database.define_table(definition)
    writer.put("A1", 2)
    assert writer.history("A1") == [(3, "put")]


def test_audit_off_drops_images_only(seats: Table, open_store: Callable[..., Store]) -> None:
    store = open_store(audit=False)
    writer = Writer(store, store.open_database("data").define_table(seats.definition))
    writer.put("A1", 1)
    writer.put("A1", 2)
    writer.delete("A1")
    entries = list(writer.table.database.log.read(writer.table.database.snapshot()))
    assert [entry.kind for entry in entries] == [PUT, PUT, DELETE]
    assert [entry.image for entry in entries] == [None, None, None]
    assert entries[1].changed == ("stock",) and entries[1].value is not None


def test_retention(writer: Writer, clock: FakeClock, open_store: Callable[..., Store]) -> None:
    writer.put("A1", 1)
    writer.put("B1", 1)
    writer.delete("B1")
    clock.advance(2 * DAY)
    writer.put("A1", 2)
    writer.store.maintenance(1.0)
    database = writer.table.database
    assert [entry.lsn for entry in database.log.read(database.snapshot())] == [1, 2, 3, 4], "all are younger than 3 days"
    clock.advance(1.5 * DAY)
    writer.store.maintenance(1.0)
    assert [entry.lsn for entry in database.log.read(database.snapshot())] == [4]
    assert writer.history("A1") == [(4, "put")] and writer.history("B1") == []
    assert not database.log.has_deleted(database.snapshot()), "the tombstone goes with its entry"
    clock.advance(30 * DAY)
    writer.store.maintenance(1.0)
    assert [entry.lsn for entry in database.log.read(database.snapshot())] == [4], "the newest stays, so that no LSN comes twice"
    writer.store.check()
    again = open_store()
    assert again.databases["data"].log.last_lsn == 4


def lsns(writer: Writer) -> list[int]:
    database = writer.table.database
    return [entry.lsn for entry in database.log.read(database.snapshot())]


def test_entries_of_a_clock_that_was_ahead_go_with_those_behind_them(writer: Writer, clock: FakeClock) -> None:
    clock.step(400 * DAY)
    for number in range(250):
        writer.put("A1", number)
    clock.step(-400 * DAY)
    writer.put("A1", 1000)
    writer.put("A1", 1001)
    clock.advance(2 * DAY)
    writer.store.maintenance(1.0)
    assert len(lsns(writer)) == 252
    clock.advance(1.5 * DAY)
    writer.store.maintenance(1.0)
    assert lsns(writer) == [252]
    writer.store.check()


def test_entries_of_a_clock_that_was_ahead_go_where_nothing_is_written_any_more(writer: Writer, clock: FakeClock) -> None:
    clock.step(400 * DAY)
    for number in range(3):
        writer.put("A1", number)
    clock.step(-400 * DAY)
    for days, left in ((0.1, 3), (2.5, 3), (1, 1)):
        clock.advance(days * DAY)
        writer.store.maintenance(1.0)
        assert len(lsns(writer)) == left


def test_a_clock_that_is_behind_for_a_while_removes_nothing(writer: Writer, clock: FakeClock) -> None:
    """Neither while it is, nor when it has been set: what was written before is no older for it."""
    writer.put("A1", 1)
    writer.put("B1", 1)
    clock.step(-20_000 * DAY)
    writer.put("A1", 2)
    for _ in range(3):
        clock.advance(3600)
        writer.store.maintenance(1.0)
    clock.step(20_000 * DAY)
    writer.put("A1", 3)
    clock.advance(3600)
    writer.store.maintenance(1.0)
    assert lsns(writer) == [1, 2, 3, 4]


def test_prune_keeps_to_its_limit(writer: Writer) -> None:
    for number in range(10):
        writer.put("A1", number)
    database = writer.table.database
    child = database.env.child()
    assert database.log.prune(child, 1e15, 3) == 3
    assert database.log.prune(child, 1e15, 100) == 6
    assert database.log.prune(child, 1e15, 100) == 0
    child.abort()
    database.env.abort()


def test_a_record_deleted_twice_keeps_its_newest_tombstone(writer: Writer, clock: FakeClock) -> None:
    writer.put("A1", 1)
    writer.delete("A1")
    clock.advance(4 * DAY)
    writer.put("A1", 2)
    writer.delete("A1")
    writer.store.maintenance(1.0)
    assert writer.history("A1") == [(4, "delete"), (3, "put")]
    writer.store.check()


# --- the entries of one table -----------------------------------------------------------------------------------------------------------


def test_the_entries_of_one_table(writer: Writer) -> None:
    other = writer.store.databases["data"].define_table(TableDefinition("Other", attributes=(Attribute("id", primary_key=True),)))
    for number in range(200):
        transaction = writer.store.begin()
        transaction.put(other, str(number), {})
        transaction.apply()
        if number in (3, 150):
            writer.put("A1", number)
    writer.store.commit_turn()
    database = writer.table.database
    found = list(database.log.read_table(database.snapshot(), writer.table.number))
    assert [entry.lsn for entry in found if entry is not None] == [5, 153]
    assert found.count(None) == 2, "a moment to give way after 64 entries of others"
    later = database.log.read_table(database.snapshot(), writer.table.number, 6)
    assert [entry.lsn for entry in later if entry is not None] == [153]


def test_removing_shortens_chains_and_keeps_the_place_of_the_newest_entry(writer: Writer) -> None:
    for stock in range(3):
        writer.put("A1", stock)
    writer.delete("A2")
    writer.put("A2", 1)
    writer.delete("A2")
    database = writer.table.database
    log = database.log
    lsns = [entry.lsn for entry in log.read(database.snapshot())]
    child = database.writer()
    newest = log.get(child, lsns[-1])
    assert newest is not None
    assert log.remove(child, lsns) == len(lsns)
    database.env.touch()
    writer.store.commit_turn()
    (left,) = log.read(database.snapshot())
    assert (left.lsn, left.version, left.wall_ms) == (lsns[-1], newest.version, newest.wall_ms)
    assert (left.table_number, left.value, left.image, left.user, left.id) == (0, None, None, None, ""), "nothing is left of its content"
    assert log.get(database.snapshot(), left.lsn) is None and not log.has_deleted(database.snapshot())
    assert writer.history("A1") == writer.history("A2") == []
    writer.store.check()
    writer.put("A1", 5)
    writer.put("A2", 5)
    assert writer.history("A2") == [(lsns[-1] + 2, "put")], "its number does not come twice"
    writer.store.check()


def test_the_newest_entry_goes_with_the_others_of_its_table(writer: Writer, clock: FakeClock, open_store: Callable[..., Store]) -> None:
    writer.put("A1", 1)
    writer.put("A2", 1)
    clock.advance(1)
    table = writer.table
    database = table.database
    before = clock.wall() * 1000
    turns = Turns(writer.store)
    assert turns.finish(remove_log_entries(table, before)) == 2
    assert turns.finish(remove_log_entries(table, before)) == 0
    turns.close()
    assert [entry.table_number for entry in database.log.read(database.snapshot())] == [0]
    for _ in database.log.counts.catch_up():
        pass
    assert database.log.counts.of(table.number) == 0
    assert writer.history("A2") == []
    again = open_store()
    assert again.databases["data"].log.last_lsn == 2
    path = again.databases["data"].env.path
    again.close()
    assert check_database(path).findings == []


def test_where_a_version_begins(writer: Writer, clock: FakeClock) -> None:
    database = writer.table.database
    log = database.log
    assert log.first_since(database.snapshot(), 0.0, database.node) == 0
    times = []
    for number in range(50):
        clock.advance(1800)
        writer.put(f"A{number}", 1)
        times.append(clock.wall() * 1000)
    for position, time in enumerate(times):
        first = log.first_since(database.snapshot(), time, database.node)
        assert first == max(position - 2, 0) + 1, "an hour earlier"
    assert log.first_since(database.snapshot(), times[-1] + 86_400_000, database.node) == 51
    assert log.first_since(database.snapshot(), times[40], "somebody else") <= 41


def test_encoded_entries_are_read_some_at_a_time(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    log, database = writer.table.database.log, writer.table.database
    assert log.read_encoded(database.snapshot(), 1, 5) == ([], True)
    for number in range(7):
        writer.put("a", number)
    entries = list(log.read(database.snapshot()))
    rows, done = log.read_encoded(database.snapshot(), 1, 7)
    assert [decode_entry(*row) for row in rows] == entries and done
    assert log.read_encoded(database.snapshot(), 3, 4) == (rows[2:6], False)
    assert log.read_encoded(database.snapshot(), 3, 5) == (rows[2:], True)
    assert log.read_encoded(database.snapshot(), 8, 5) == ([], True)
    monkeypatch.setattr(transaction_log, "_READ_BYTES", len(rows[0][1]) + 1)
    assert log.read_encoded(database.snapshot(), 1, 5) == (rows[:2], False)
