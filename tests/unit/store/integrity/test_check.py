"""svc.store.integrity.check: a sound database has no findings; each kind of damage has its sentence."""

import asyncio
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import pytest

from svc.clock import FakeClock
from svc.store import Store
from svc.store.integrity import check as check_module
from svc.store.integrity.check import CheckReport, check_database
from svc.store.log.entries import decode_entry, encode_entry, note_key, record_key
from svc.store.log.table_removal import remove_log_entries
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import encode_key, storage_key
from svc.store.values.records import decode, encode, lsn_of, version_of
from svc.testing.loop import Pool

DEFINITION = TableDefinition(
    "Dog",
    attributes=(Attribute("id", primary_key=True), Attribute("name", indexed=True), Attribute("tags", elements=True, indexed=True)),
)
LONG = "z" * 600


def write(store: Store, *steps: Callable[[Any, Any], None]) -> None:
    table = store.databases["data"].tables["Dog"]
    for step in steps:
        transaction = store.begin("me")
        step(transaction, table)
        transaction.apply()
        store.commit_turn()
        store.clock.advance(1)  # type: ignore[attr-defined]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A small database with something of everything. LSNs: a 1, 3; 7 2; the long key 4; c 5, 6 (removed); d 7."""
    clock = FakeClock()
    store = Store(tmp_path, clock=clock)
    store.open_database("data").define_table(DEFINITION)
    write(
        store,
        lambda transaction, table: transaction.put(table, "a", {"name": "Rex", "tags": ["x", "y", None]}),
        lambda transaction, table: transaction.put(table, 7, {"name": "Bo"}, expires_at=clock.wall() * 1000 + 1e6),
        lambda transaction, table: transaction.patch(table, "a", {"name": "Max"}),
        lambda transaction, table: transaction.put(table, LONG, {"name": 5}),
        lambda transaction, table: transaction.put(table, "c", {"name": "C"}),
        lambda transaction, table: transaction.delete(table, "c"),
        lambda transaction, table: transaction.put(table, "d", {"name": "n" * 300}),
    )
    store.close()
    return tmp_path / "data"


def change(path: Path, store: str, edit: Callable[[Any], None], duplicates: bool = False) -> CheckReport:
    """Edit a store behind the program's back: `edit` gets a cursor. Then check."""
    with lmdb.open(str(path), max_dbs=64) as env:
        handle = env.open_db(store.encode(), dupsort=duplicates)
        with env.begin(write=True, db=handle) as txn:
            edit(txn)
    return check_database(path)


def only(report: CheckReport, *fragments: str) -> None:
    """Each finding contains its fragment, in this order, and there are no others."""
    assert len(report.findings) == report.total == len(fragments), report.findings
    for sentence, fragment in zip(report.findings, fragments, strict=True):
        assert fragment in sentence
        assert sentence.endswith(".")
    assert not report.ok


def test_a_sound_database(path: Path) -> None:
    report = check_database(path)
    assert report.ok
    assert (report.records, report.index_entries, report.log_entries, report.notes) == ({"Dog": 4}, 10, 7, [])


def test_progress_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_module, "PROGRESS_STEP", 2)
    told: list[tuple[str, int, int]] = []
    assert check_database(path, lambda *step: told.append(step)).ok
    assert told == [
        *[("records of Dog", done, 4) for done in (0, 2, 4)],
        ("removed records", 0, 1),
        *[("log entries", done, 7) for done in (0, 2, 4, 6, 7)],
    ]


def test_no_database(tmp_path: Path) -> None:
    only(check_database(tmp_path / "nothing"), "There is no database")


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"SQLite format 3\0" * 1000)
    only(check_database(tmp_path), "cannot be opened")


def test_a_file_that_was_cut_off(path: Path) -> None:
    with lmdb.open(str(path), readonly=True) as env:
        used = (env.info()["last_pgno"] + 1) * env.stat()["psize"]  # the file is longer: room is allocated ahead
    data = (path / "data.mdb").read_bytes()
    (path / "data.mdb").write_bytes(data[: used - 4096])
    only(check_database(path), "is truncated")


def test_a_format_of_the_future(path: Path) -> None:
    only(change(path, "$definitions", lambda txn: txn.put(b"format", b"99")), "its format is 99")


def test_a_definition_that_cannot_be_read(path: Path) -> None:
    report = change(path, "$definitions", lambda txn: txn.put(b"table:Cat", b"\0\0\0\x09{"))
    only(report, "cannot be read")


def test_missing_stores(path: Path) -> None:
    for name, fragments in (("Dog/name", ['"Dog/name" is missing']), ("$expiry", ['"$expiry" is missing'])):
        with lmdb.open(str(path), max_dbs=64) as env:
            handle = env.open_db(name.encode(), create=False)
            with env.begin(write=True) as txn:
                txn.drop(handle)
        assert any(fragment in finding for fragment in fragments for finding in check_database(path).findings)


def test_content_of_no_table(path: Path) -> None:
    only(change(path, "Cat/", lambda txn: txn.put(b"a", b"b")), '"Cat/" belongs to no table')
    report = change(path, "Cat/", lambda txn: txn.delete(b"a"))
    assert report.ok  # an emptied store is what a dropped table leaves


# -- records


def test_a_record_that_cannot_be_decoded(path: Path) -> None:
    report = change(path, "Dog/", lambda txn: txn.put(encode_key("d"), b"\x10" + bytes(17)))
    assert report.findings[0] == "The record Dog 'd' cannot be decoded."


def test_a_record_under_another_key(path: Path) -> None:
    def move(txn: Any) -> None:
        txn.put(encode_key("e"), txn.pop(encode_key("d")))

    report = change(path, "Dog/", move)
    assert report.findings[0] == "The record Dog 'e' contains another key: 'd'."


def test_a_record_that_differs_from_its_log_entry(path: Path) -> None:
    def edit(txn: Any) -> None:
        raw = txn.get(encode_key("d"))
        txn.put(encode_key("d"), encode({**decode(raw), "age": 1}, version_of(raw), lsn_of(raw), None))

    only(change(path, "Dog/", edit), "Dog 'd' differs from its newest log entry 7")


def test_a_record_that_differs_from_the_patch_that_wrote_it(path: Path) -> None:
    def edit(txn: Any) -> None:
        raw = txn.get(encode_key("a"))
        txn.put(encode_key("a"), encode({**decode(raw), "name": "Rex"}, version_of(raw), lsn_of(raw), None))

    only(
        change(path, "Dog/", edit),
        "The record Dog 'a' differs in 'name' from its newest log entry 3",
        "The index Dog.name lacks 'Rex' of the record Dog 'a'",
        "The index Dog.name has 'Max' for Dog 'a', but the record has another value",
    )


def test_a_record_of_another_version(path: Path) -> None:
    def edit(txn: Any) -> None:
        raw = txn.get(encode_key("a"))
        txn.put(encode_key("a"), encode(decode(raw), 5.0, lsn_of(raw), None))

    only(change(path, "Dog/", edit), "has version 5.0, its newest log entry 3 has")


def test_a_lost_record(path: Path) -> None:
    report = change(path, "Dog/", lambda txn: txn.delete(encode_key("d")))
    only(
        report,
        "Dog.name has 106e6e6e",
        "Dog.tags has None for Dog 'd', but there is no such record",
        "7 entries of the log belong to records of the tables, 6 are in",
    )


def test_a_lost_long_record(path: Path) -> None:
    report = change(path, "Dog/", lambda txn: txn.delete(storage_key(encode_key(LONG))))
    assert report.findings[0].startswith("The index Dog.name has 5 for Dog 107a7a")


# -- indexes and expiry times


def test_a_missing_index_entry(path: Path) -> None:
    report = change(path, "Dog/tags", lambda txn: txn.delete(encode_key("y"), encode_key("a")), True)
    only(report, "The index Dog.tags lacks 'y' of the record Dog 'a'")


def test_surplus_index_entries(path: Path) -> None:
    def edit(txn: Any) -> None:
        txn.put(encode_key("Rex"), encode_key("a"))
        txn.put(encode_key("Max"), encode_key("gone"))

    only(
        change(path, "Dog/name", edit, True),
        "has 'Max' for Dog 'gone', but there is no such record",
        "has 'Rex' for Dog 'a', but the record has another value",
    )


def test_an_index_that_is_being_built(path: Path) -> None:
    change(path, "$definitions", lambda txn: txn.put(b"build:1:name", encode_key(7)))
    report = change(path, "Dog/name", lambda txn: txn.delete(encode_key("Max"), encode_key("a")), True)
    assert report.ok
    assert report.notes == ["The index Dog.name is being built."]
    only(change(path, "Dog/name", lambda txn: txn.delete(encode_key("Bo"), encode_key(7)), True), "Dog.name lacks 'Bo'")


def test_expiry_times(path: Path) -> None:
    expiry = struct.pack(">Id", 1, (FakeClock().wall() + 1) * 1000 + 1e6)
    report = change(path, "$expiry", lambda txn: txn.delete(expiry), True)
    only(report, "The record Dog 7 has an expiry, but is missing from the store of expiry times")

    def edit(txn: Any) -> None:
        txn.put(expiry, encode_key(7))
        txn.put(expiry, encode_key("a"))
        txn.put(struct.pack(">Id", 9, 1.0), encode_key("a"))

    only(change(path, "$expiry", edit, True), "has Dog 'a', but no such record expires", "which belongs to no table")


# -- the log


def edit_entry(lsn: int, **changes: Any) -> Callable[[Any], None]:
    def edit(txn: Any) -> None:
        key = struct.pack(">Q", lsn)
        entry = decode_entry(lsn, txn.get(key))
        for name, value in changes.items():
            setattr(entry, name, value)
        txn.put(key, encode_entry(entry))

    return edit


def test_a_gap_in_the_log(path: Path) -> None:
    report = change(path, "$log", lambda txn: txn.delete(struct.pack(">Q", 2)))
    only(report, "The log lacks entry 2 of the record Dog 7", "The log jumps from entry 1 to 3")


def test_a_log_that_does_not_reach_back(path: Path) -> None:
    report = change(path, "$log", lambda txn: [txn.delete(struct.pack(">Q", lsn)) for lsn in (1, 2)])
    assert report.ok


def test_a_log_without_the_oldest_entries_of_one_table(tmp_path: Path) -> None:
    clock = FakeClock()
    store = Store(tmp_path, clock=clock, make_helper=Pool)
    database = store.open_database("data")
    tables = [database.define_table(TableDefinition(name, attributes=(Attribute("id", primary_key=True),))) for name in ("Cat", "Dog")]
    for number in range(4):
        for table in tables:
            for key in ("often", str(number)):
                transaction = store.begin("ann")
                transaction.put(table, key, {"n": number})
                transaction.publish(table, key, {"n": number})
                transaction.apply()
                store.commit_turn()
                clock.advance(1)
    removed = asyncio.run(remove_log_entries(tables[0], (clock.wall() - 6) * 1000))
    store.close()
    assert 0 < removed < 16
    report = check_database(tmp_path / "data")
    assert report.ok, report.findings
    report = change(tmp_path / "data", "$log", lambda txn: txn.delete(struct.pack(">Q", report.log_entries + removed - 9)))
    assert not report.ok


def test_entries_that_cannot_be_read(path: Path) -> None:
    for damaged in (b"\x09", b"\x01\x01", b""):
        report = change(path, "$log", lambda txn, damaged=damaged: txn.put(struct.pack(">Q", 7), damaged))
        assert "Entry 7 of the log cannot be read." in report.findings
    report = change(path, "$log", lambda txn: txn.put(b"odd", b""))
    assert "The log has an entry under 6f6464, which is not an LSN." in report.findings


@pytest.mark.parametrize(
    ("lsn", "changes", "fragments"),
    [
        (7, {"version": 1.0}, ["The record Dog 'd' has version", "Entry 7 of the log has an earlier version"]),
        (7, {"transaction": 6}, ["Entries 6 and 7 of the log are of one transaction, but have two versions"]),
        (7, {"transaction": 5}, ["Entry 7 of the log begins a transaction, but has the number of another"]),
        (7, {"previous": 9}, ["Entry 7 of the log names entry 9 as an earlier one"]),
        (7, {"previous": 2}, ["Entry 2 of the log is not of the record Dog 'd'"]),
        (3, {"previous": 0}, ["7 entries of the log belong to records of the tables, 6 are in the histories of records"]),
        (3, {"image": b"\x10"}, ["Entry 3 of the log has another image than what entry 1 left of the record Dog 'a'"]),
        (7, {"kind": 3}, ["The record Dog 'd' exists, but its newest log entry 7 removed it"]),
    ],
)
def test_entries_that_contradict(path: Path, lsn: int, changes: dict[str, Any], fragments: list[str]) -> None:
    only(change(path, "$log", edit_entry(lsn, **changes)), *fragments)


def test_removed_records(path: Path) -> None:
    key, lsn = record_key(1, encode_key("c")), struct.pack(">Q", 6)
    only(change(path, "$deleted", lambda txn: txn.delete(key)), "7 entries of the log belong to records of the tables, 5 are in")
    only(change(path, "$deleted", lambda txn: txn.put(key, lsn[:-1] + b"\x05")), "names entry 5 of the log", "7 entries of the log belong")
    change(path, "$deleted", lambda txn: txn.put(key, lsn))
    raw = encode({"id": "c"}, 1.0, 0, None)
    report = change(path, "Dog/", lambda txn: txn.put(encode_key("c"), raw))
    assert "The record Dog 'c' exists, but is also listed as removed." in report.findings


def test_findings_are_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_module, "MAX_FINDINGS", 2)
    report = change(path, "Dog/name", lambda txn: [txn.put(encode_key(n), encode_key("gone")) for n in range(10)], True)
    assert (len(report.findings), report.total) == (2, 10)


@pytest.mark.parametrize(
    ("edit", "finding"),
    [
        (lambda txn, end: txn.put(end, (7).to_bytes(8, "big")), "names entry 7 of the log, which is not a message of it"),
        (lambda txn, end: txn.put(end, (99).to_bytes(8, "big")), "names entry 99 of the log, which is not a message of it"),
        (lambda txn, end: txn.put(b"\x80\0\0\1\x10zz\0", (8).to_bytes(8, "big")), "names entry 8 of the log, which is not a message of it"),
    ],
)
def test_a_chain_of_messages_that_leads_elsewhere(path: Path, edit: Any, finding: str) -> None:
    store = Store(path.parent, clock=FakeClock(wall=1_767_300_000.0))
    write(
        store, lambda transaction, table: transaction.publish(table, "a", 1), lambda transaction, table: transaction.publish(table, "a", 2)
    )
    number = store.databases["data"].tables["Dog"].number
    store.close()
    assert check_database(path).findings == []
    found = change(path, "$deleted", lambda txn: edit(txn, note_key(number, encode_key("a"))))
    assert len(found.findings) == 1 and finding in found.findings[0]


def test_a_message_that_follows_itself(path: Path) -> None:
    store = Store(path.parent, clock=FakeClock(wall=1_767_300_000.0))
    write(
        store, lambda transaction, table: transaction.publish(table, "a", 1), lambda transaction, table: transaction.publish(table, "a", 2)
    )
    store.close()

    def turn_round(txn: Any) -> None:
        key = (9).to_bytes(8, "big")
        entry = decode_entry(9, txn.get(key))
        entry.previous = 9
        txn.put(key, encode_entry(entry))

    only(change(path, "$log", turn_round), "Entry 9 of the log names entry 9 as an earlier one")


def test_rows_of_sessions(path: Path) -> None:
    """Of MQTT: whose they are is not asked."""

    def edit(txn: lmdb.Transaction) -> None:
        for key in (b"r" + bytes(10), b"o" + bytes(10), b"p" + bytes(8), b"g" + bytes(16)):
            txn.put(key, b"")

    assert change(path, "$mqtt", edit).ok
    only(change(path, "$mqtt", lambda txn: txn.put(b"x" + bytes(10), b"")), "which is no row of a session")
