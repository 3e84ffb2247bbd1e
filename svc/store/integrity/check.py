"""`svc check`: whether the files of a database say one and the same thing (spec: schema-and-store §15).

Works on the files, beside the code that writes them, on one snapshot, read-only; the service may be running. Verified is:

1. Each record decodes, and is stored under the key that its key attribute says.
2. Each index has exactly the entries that the records demand: each of these is there, and there are no more than these. The same for
   the store of expiry times. (An index that is being built needs its entries only up to the point it has reached. Of an index of values
   that the application's code computes, it is only known that its entries need records.)
3. The LSNs of the log are dense, its entries decode, versions do not go back.
4. Each record names the entry that wrote it, whose version and value are the record's; `$deleted` names the entry that removed a record;
   from there a chain of earlier entries of the same record leads back, as far as the log reaches. Each entry is in one such chain.
5. No store is missing, and none has content that belongs to no table.
6. What is said of blobs agrees with their files (`blob_check`).
7. Records keep to `@unique`; what does not is a note (`unique_check`).

Memory is bounded: whatever is compared is looked up, nothing is collected but findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lmdb

from svc.clock import SYSTEM_CLOCK
from svc.errors import Problem, SchemaError
from svc.store.blobs import BLOBS_STORE, BlobFiles, Ledger
from svc.store.blobs.expected import ExpectedBlobs
from svc.store.definitions import (
    BLOBS_KEY,
    DEFINITIONS_STORE,
    EXPIRY_STORE,
    FORMAT_KEY,
    GENERATION_KEY,
    MQTT_STORE,
    REPLICATION_KEY,
    REPLICATION_STORE,
    TABLE_PREFIX,
    StoredTable,
    build_key,
    indexed_attributes,
    moves_key,
)
from svc.store.disk.faults import MAX_STORES
from svc.store.env import Cursor, Handle, Txn
from svc.store.expiry_index import EXPIRY_KEY_SIZE, expiry_key
from svc.store.integrity.blob_check import BlobCheck, Owner
from svc.store.integrity.checked_table import CheckedTable, show_key, show_record
from svc.store.integrity.log_check import NEVER, LogCheck, Progress
from svc.store.integrity.unique_check import unique_notes
from svc.store.log.transaction_log import DELETED_STORE, LOG_STORE
from svc.store.moves import MoveNote, Moves
from svc.store.side_rows import MQTT_ROWS
from svc.store.store_format import format_problem
from svc.store.store_names import StoreNames
from svc.store.values.keys import encode_key, storage_key
from svc.store.values.records import decode, expiry_of, has_files, lsn_of

CORE_STORES = (DEFINITIONS_STORE, LOG_STORE, DELETED_STORE, EXPIRY_STORE)
MAX_FINDINGS = 1000  # the rest is counted only
PROGRESS_STEP = 20_000  # records or entries between two reports

_DATA_FILE = "data.mdb"


def _no_progress(what: str, done: int, total: int) -> None:
    pass


@dataclass(slots=True)
class CheckReport:
    """`findings`: one sentence each, at most MAX_FINDINGS; `total` counts all. `notes`: worth knowing, but nothing is wrong."""

    path: Path
    records: dict[str, int] = field(default_factory=dict)  # by table
    index_entries: int = 0
    log_entries: int = 0
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    total: int = 0

    @property
    def ok(self) -> bool:
        return not self.total

    def add(self, sentence: str) -> None:
        self.total += 1
        if self.total <= MAX_FINDINGS:
            self.findings.append(sentence)


def check_database(path: Path, progress: Progress = _no_progress, blob_paths: Sequence[Path] = ()) -> CheckReport:
    """Verify the database in the directory `path`. `progress` is called now and then with (what is read, done, of how many).

    `blob_paths`: the directories of all databases' blobs; without them the usual places near `path`. Whatever is wrong is in the report,
    also that there is no database; nothing is raised but by `progress`. Must not be called for a database that this process has open.
    """
    report = CheckReport(path)
    data_file = path / _DATA_FILE
    if not data_file.is_file():
        report.add(f"There is no database in {path}.")
        return report
    try:
        with lmdb.open(str(path), readonly=True, create=False) as env:
            stores = env.stat()["entries"]  # the names of stores are the keys of LMDB's unnamed one
        env = lmdb.open(str(path), readonly=True, create=False, max_dbs=max(MAX_STORES, stores))
    except (lmdb.Error, OSError) as error:
        report.add(f"{data_file} cannot be opened: {error}.")
        return report
    try:
        used = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
        size = data_file.stat().st_size
        if size < used:
            # LMDB would look for its pages behind the end of the file, which ends the process.
            report.add(f"{data_file} is truncated: it has {size} bytes, and pages up to {used} are in use.")
        else:
            _Check(env, report, progress, blob_paths or (path.parent / ".blobs", path.parent.parent / "blobs")).run()
    except lmdb.Error as error:
        report.add(f"{data_file} is damaged: {error}.")
    finally:
        env.close()
    return report


class _Check:
    """One run over one snapshot."""

    def __init__(self, env: lmdb.Environment, report: CheckReport, progress: Progress, blob_paths: Sequence[Path]) -> None:
        self.env = env
        self.blob_paths = blob_paths
        self.report = report
        self.find = report.add
        self.progress = progress
        self.tables: dict[int, CheckedTable] = {}

    def run(self) -> None:
        if not self.open_core():
            return
        # A store must be opened before the snapshot begins; if the definitions change between the two, once more.
        while True:
            self.open_tables()
            self.txn: Txn = self.env.begin()
            if self.txn.get(GENERATION_KEY, None, self.definitions) == self.generation:
                break
            self.txn.abort()
        try:
            self.begin_blobs()
            self.chains = LogCheck(self.txn, self.log, self.deleted, self.tables, self.find, self.progress, PROGRESS_STEP, self.blobs)
            self.chains.is_replicated = self.txn.get(REPLICATION_KEY, None, self.definitions) is not None
            for table in self.tables.values():
                self.check_table(table)
            self.check_expiry()
            self.chains.check_deleted()
            self.chains.check_log()
            self.report.log_entries = self.chains.total
            if self.blobs is not None:
                self.blobs.finish(self.record_of)
            self.check_stores()
        finally:
            self.txn.abort()

    # -- opening

    def open_store(self, name: str, duplicates: bool = False) -> Handle | None:
        try:
            return self.env.open_db(name.encode(), create=False, dupsort=duplicates)
        except lmdb.NotFoundError:
            self.find(f'The store "{name}" is missing.')
            return None

    def open_core(self) -> bool:
        handles = [self.open_store(name, name == EXPIRY_STORE) for name in CORE_STORES]
        definitions, log, deleted, expiry = handles
        if definitions is None or log is None or deleted is None or expiry is None:
            return False
        self.definitions, self.log, self.deleted, self.expiry = definitions, log, deleted, expiry
        with self.env.begin() as txn:
            found = txn.get(FORMAT_KEY, None, definitions)
            self.has_blobs = txn.get(BLOBS_KEY, None, definitions) is not None
        if (problem := format_problem(found)) is not None:
            self.find(f"The database cannot be read: {problem}.")
            return False
        # A database that was last opened by a version without blobs has none.
        self.ledger = self.open_store(BLOBS_STORE) if self.has_blobs else None
        return True

    def open_tables(self) -> None:
        with self.env.begin() as txn:
            stored = dict(txn.cursor(self.definitions).iternext())
            self.names = StoreNames(txn, self.definitions)
        self.generation = stored.get(GENERATION_KEY)
        users: dict[str, str] = {}
        self.tables.clear()
        for key, data in stored.items():
            if not key.startswith(TABLE_PREFIX):
                continue
            try:
                table = StoredTable.from_bytes(data)
            except (SchemaError, Problem, ValueError) as error:
                self.find(f"The definition {show_key(key)} cannot be read: {error}.")
                continue
            name, number = table.definition.name, table.number
            primary = self.open_store(self.names.of(table))
            if primary is None:
                continue
            if number in self.tables:
                self.find(f"The tables {self.tables[number].name} and {name} have the same number.")
                continue
            opened = self.tables[number] = CheckedTable(table, primary)
            note = stored.get(moves_key(number))
            if note is not None:
                opened.moves = Moves(MoveNote.from_bytes(note), 0)
            for store in self.names.all_of(table):
                if store in users:
                    self.find(f'The store "{store}" belongs to the tables {users[store]} and {name}.')
                users[store] = name
            for attribute in indexed_attributes(table.definition):
                handle = self.open_store(self.names.of(table, attribute), True)
                if handle is None:
                    continue
                opened.indexes[attribute] = handle
                done = stored.get(build_key(number, attribute))
                if done is not None:
                    opened.done[attribute] = done

    # -- blobs

    def begin_blobs(self) -> None:
        self.blobs: BlobCheck | None = None
        if self.ledger is not None:
            identity = self.txn.get(BLOBS_KEY, b"", self.definitions)
            files = BlobFiles(identity, self.report.path.name, self.blob_paths)
            if self.txn.get(REPLICATION_KEY, None, self.definitions) is not None:
                expected = ExpectedBlobs(self.env.open_db(REPLICATION_STORE.encode(), self.txn, create=False))
                files.is_expected = lambda number: expected.remote(self.txn, number) is not None
            self.blobs = BlobCheck(self.env.begin, self.txn, Ledger(self.ledger), files, self.find, self.report.notes.append)

    def record_of(self, owner: Owner) -> dict[str, Any] | None:
        table = self.tables.get(owner[0])
        raw = None if table is None else self.txn.get(owner[1], None, table.primary)
        return None if raw is None else decode(raw)

    # -- records and indexes

    def check_table(self, table: CheckedTable) -> None:
        txn, what = self.txn, f"records of {table.name}"
        total = txn.stat(table.primary)["entries"]
        cursors = {name: txn.cursor(handle) for name, handle in table.indexes.items() if table.is_known(name)}
        demanded = dict.fromkeys(table.indexes, 0)
        expiries = 0
        expiry_cursor = txn.cursor(self.expiry)
        done = 0
        for stored, raw in txn.cursor(table.primary).iternext():
            if done % PROGRESS_STEP == 0:
                self.progress(what, done, total)
            done += 1
            record = self.check_record(table, stored, raw)
            if record is None:
                continue
            expiry = expiry_of(raw)
            if expiry is not None:
                expiries += 1
                if not expiry_cursor.set_key_dup(expiry_key(table.number, expiry), stored):
                    self.find(f"The record {show_record(table, stored)} has an expiry, but is missing from the store of expiry times.")
            record = table.as_read(raw, record, txn)
            for name, cursor in cursors.items():
                for key in table.demanded(name, record):
                    if cursor.set_key_dup(key, stored):
                        demanded[name] += 1
                    elif stored <= table.done.get(name, stored):
                        self.find(f"The index {table.name}.{name} lacks {show_key(key)} of the record {show_record(table, stored)}.")
        self.progress(what, done, total)
        self.report.records[table.name] = done
        self.report.notes += [f"The index {table.name}.{name} is being built." for name in table.done]
        self.report.notes += unique_notes(txn, table, SYSTEM_CLOCK.wall() * 1000)
        if table.moves is not None:
            self.report.notes.append(f"Values of {table.name} are being moved to their new names.")
        self.report.notes += [
            f"The values of the index {table.name}.{name}, which the application computes, are not compared with the records."
            for name in table.indexes
            if not table.is_known(name)
        ]
        for name, handle in table.indexes.items():
            entries = txn.stat(handle)["entries"]
            self.report.index_entries += entries
            # What is demanded was found, each in its place: if there is more, it is too much. Before the first record, a build of computed
            # values removes what is there.
            if not (name in table.computed and table.done.get(name) == b"") and (not table.is_known(name) or entries != demanded[name]):
                self.find_surplus(table, name)
        low, high = expiry_key(table.number, 0.0), expiry_key(table.number + 1, 0.0)
        if sum(1 for key, _ in _items(txn.cursor(self.expiry), low[:4]) if key < high) != expiries:
            self.find_surplus_expiry(table)

    def check_record(self, table: CheckedTable, stored: bytes, raw: bytes) -> dict[str, Any] | None:
        """The record, or None if it cannot be read."""
        try:
            record = decode(raw)
        except Problem:
            self.find(f"The record {show_record(table, stored)} cannot be decoded.")
            return None
        try:
            key = encode_key(record.get(table.primary_key))
        except Problem:
            key = b""
        if storage_key(key) != stored:
            self.find(f"The record {show_record(table, stored)} contains another key: {record.get(table.primary_key)!r}.")
            return record
        if self.blobs is not None and has_files(raw):
            self.blobs.record(show_record(table, stored), (table.number, stored), record)
        lsn = lsn_of(raw)
        if lsn >= self.chains.begins.get(table.number, NEVER):
            newest = self.chains.check_chain(table, key, lsn)
            if newest is not None:
                self.chains.compare(table, newest, raw, record)
        return record

    def find_surplus(self, table: CheckedTable, name: str) -> None:
        for key, stored in self.txn.cursor(table.indexes[name]).iternext():
            raw = self.txn.get(stored, None, table.primary)
            if raw is None:
                self.find(
                    f"The index {table.name}.{name} has {show_key(key)} for {show_record(table, stored)}, but there is no such record."
                )
                continue
            if not table.is_known(name):
                continue
            try:
                demanded = table.demanded(name, table.as_read(raw, decode(raw), self.txn))
            except Problem:
                continue  # already found
            if key not in demanded:
                self.find(
                    f"The index {table.name}.{name} has {show_key(key)} for {show_record(table, stored)}, but the record has another value."
                )

    # -- expiry times

    def find_surplus_expiry(self, table: CheckedTable) -> None:
        for key, stored in _items(self.txn.cursor(self.expiry), expiry_key(table.number, 0.0)[:4]):
            raw = self.txn.get(stored, None, table.primary)
            expiry = None if raw is None else expiry_of(raw)
            if expiry is None or expiry_key(table.number, expiry) != key:
                self.find(f"The store of expiry times has {show_record(table, stored)}, but no such record expires at that time.")

    def check_expiry(self) -> None:
        for key, _ in self.txn.cursor(self.expiry).iternext():
            if len(key) != EXPIRY_KEY_SIZE or int.from_bytes(key[:4], "big") not in self.tables:
                self.find(f"The store of expiry times has {key.hex()}, which belongs to no table.")

    def check_sessions(self, handle: Handle) -> None:
        """The rows of sessions of MQTT."""
        for key, _ in self.txn.cursor(handle).iternext():
            if MQTT_ROWS.get(key[:1]) != len(key):
                self.find(f"The store of MQTT's sessions has {key.hex()}, which is no row of a session.")

    # -- what is left over

    def check_stores(self) -> None:
        known = {*CORE_STORES, BLOBS_STORE, MQTT_STORE, REPLICATION_STORE}
        for table in self.tables.values():
            known.update(self.names.all_of(table.stored))
        for name in [key.decode(errors="replace") for key, _ in self.txn.cursor().iternext()]:
            if name == MQTT_STORE:
                self.check_sessions(self.env.open_db(name.encode(), self.txn, create=False))
            if name in known:
                continue
            # The stores of dropped tables and indexes stay, but empty.
            handle = self.env.open_db(name.encode(), self.txn, create=False)
            entries = self.txn.stat(handle)["entries"]
            if entries:
                self.find(f'The store "{name}" belongs to no table, but has {entries} entries.')


def _items(cursor: Cursor, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    """What a cursor finds under keys that begin with `prefix`."""
    if cursor.set_range(prefix):
        for key, value in cursor.iternext():
            if not key.startswith(prefix):
                return
            yield key, value
