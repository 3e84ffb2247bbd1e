"""The part of `svc check` that is about the transaction log: its order, and the chains of entries of each record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from struct import Struct
from struct import error as StructError
from typing import Any

from msgspec import MsgspecError

from svc.errors import Problem
from svc.store.env import Handle, Txn
from svc.store.integrity.blob_check import BlobCheck
from svc.store.integrity.checked_table import CheckedTable, show_record
from svc.store.log.entries import DELETE, EXPIRE, NOTES, PATCH, PUT, REMOVALS, LogEntry, decode_entry, note_key, record_key, table_number_of
from svc.store.values.comparison import same
from svc.store.values.keys import storage_key
from svc.store.values.records import decode, has_files, is_copy, is_partial, lsn_of, raw_payload, version_of

_LSN = Struct(">Q")
NEVER = 1 << 64  # an LSN after all others

Progress = Callable[[str, int, int], None]


class LogCheck:
    """The log of one snapshot. `find` takes each finding, one sentence; `progress` is called every `step` entries. `total`: the number of entries."""

    def __init__(
        self,
        txn: Txn,
        log: Handle,
        deleted: Handle,
        tables: Mapping[int, CheckedTable],
        find: Callable[[str], None],
        progress: Progress,
        step: int,
        blobs: BlobCheck | None,
    ) -> None:
        self.is_replicated = False  # what meets a version that is ahead has one that is ahead too, and what comes next has not
        self.txn = txn
        self.log = log
        self.deleted = deleted
        self.tables = tables
        self.find = find
        self.progress = progress
        self.step = step
        self.blobs = blobs
        self.total = 0
        self.chained = 0  # entries that were met in the chains of records
        self.begins = self._first_entries()

    def _first_entries(self) -> dict[int, int]:
        """Number of a table -> LSN of its oldest entry. Before that there may have been others, which were removed on demand."""
        found: dict[int, int] = {}
        for key, data in self.txn.cursor(self.log).iternext():
            number = table_number_of(data)
            if number is not None:
                found.setdefault(number, int.from_bytes(key, "big"))
        return found

    def _may_be_removed(self, lsn: int) -> bool:
        """Whether an entry that is not there can be one of those."""
        return any(lsn < self.begins.get(number, NEVER) for number in (*self.begins, *self.tables))

    def _entry(self, lsn: int) -> LogEntry | None:
        """An entry, or None if it is missing or unreadable, which `check_log` finds."""
        data = self.txn.get(_LSN.pack(lsn), None, self.log)
        if data is None:
            return None
        try:
            return decode_entry(lsn, data)
        except (Problem, StructError, MsgspecError, ValueError, IndexError):
            return None

    def check_chain(self, table: CheckedTable, key: bytes, newest: int) -> LogEntry | None:
        """Follow the entries of one record back, and return the newest."""
        first = self._entry(newest)
        entry, lsn = first, newest
        later: LogEntry | None = None
        while True:
            if entry is None:
                self.find(f"The log lacks entry {lsn} of the record {show_record(table, key)}, or it cannot be read.")
                return first
            if entry.table_number != table.number or entry.key != key:
                self.find(f"Entry {lsn} of the log is not of the record {show_record(table, key)}, whose history refers to it.")
                return None if entry is first else first
            self.chained += 1
            # A copy of what a source has may have been confirmed or evicted between the two, which is not logged.
            if (
                later is not None
                and later.image is not None
                and entry.kind == PUT
                and not entry.is_merged
                and later.image != entry.value
                and not is_copy(later.image)
                and not _is_renamed(later.image, entry)
            ):
                self.find(
                    f"Entry {later.lsn} of the log has another image than what entry {lsn} left of the record {show_record(table, key)}."
                )
            if entry.previous < self.begins.get(table.number, NEVER):
                return first
            if entry.previous >= lsn:
                self.find(f"Entry {lsn} of the log names entry {entry.previous} as an earlier one.")
                return first
            later, lsn = entry, entry.previous
            entry = self._entry(lsn)

    def compare(self, table: CheckedTable, entry: LogEntry, raw: bytes, record: dict[str, Any]) -> None:
        """The record and the entry that wrote it."""
        shown = show_record(table, entry.key)
        if is_copy(raw):
            self._compare_copy(table, entry, raw, record)
            return
        if entry.is_merged:  # the record is more than this says
            if entry.version > version_of(raw):
                self.find(f"The record {shown} has version {version_of(raw)!r}, the newest log entry merged into it {entry.version!r}.")
            return
        if entry.version != version_of(raw):
            self.find(f"The record {shown} has version {version_of(raw)!r}, its newest log entry {entry.lsn} has {entry.version!r}.")
        if entry.kind == PUT:
            if entry.value != raw:
                self.find(f"The record {shown} differs from its newest log entry {entry.lsn}.")
        else:
            self._compare_changes(shown, entry, record)

    def _compare_changes(self, shown: str, entry: LogEntry, record: dict[str, Any]) -> None:
        if entry.kind == PATCH and entry.value is not None:
            changes = decode(entry.value)
            for name, value in changes.items():
                increment = isinstance(value, dict) and "__op__" in value
                if not increment and not (name in record and same(record[name], value)):
                    self.find(f"The record {shown} differs in {name!r} from its newest log entry {entry.lsn}.")
        elif entry.kind in (DELETE, EXPIRE):
            self.find(f"The record {shown} exists, but its newest log entry {entry.lsn} removed it.")

    def _compare_copy(self, table: CheckedTable, entry: LogEntry, raw: bytes, record: dict[str, Any]) -> None:
        """A copy has the version of its source, and is confirmed, evicted and invalidated without an entry."""
        shown = show_record(table, entry.key)
        if entry.value is not None and version_of(entry.value) != version_of(raw):
            self.find(
                f"The record {shown} has version {version_of(raw)!r}, in its newest log entry {entry.lsn} it has {version_of(entry.value)!r}."
            )
        if is_partial(raw):
            return
        if entry.kind == PUT and entry.value is not None:
            if raw_payload(entry.value) != raw_payload(raw):
                self.find(f"The record {shown} differs from its newest log entry {entry.lsn}.")
        else:
            self._compare_changes(shown, entry, record)

    def check_deleted(self) -> None:
        total = self.txn.stat(self.deleted)["entries"]
        for done, (key, packed) in enumerate(self.txn.cursor(self.deleted).iternext()):
            if done % self.step == 0:
                self.progress("removed records", done, total)
            lsn = _LSN.unpack(packed)[0] if len(packed) == _LSN.size else 0
            entry = self._entry(lsn)
            if key[:1] >= b"\x80":
                self._check_notes(key, lsn, entry)
                continue
            is_end = entry is not None and (
                entry.kind in REMOVALS or (entry.value is not None and is_copy(entry.value))
            )  # which was evicted
            if entry is None or not is_end or record_key(entry.table_number, entry.key) != key:
                self.find(
                    f"The store of removed records names entry {lsn} of the log for {key.hex()}, which is not the removal of such a record."
                )
                continue
            table = self.tables.get(entry.table_number)
            if table is None:
                continue
            raw = self.txn.get(storage_key(entry.key), None, table.primary)
            if raw is not None:
                self.find(f"The record {show_record(table, entry.key)} exists, but is also listed as removed.")
            else:
                self.check_chain(table, entry.key, lsn)

    def _check_notes(self, key: bytes, lsn: int, entry: LogEntry | None) -> None:
        """Follow what was said about a record back. `entry`: the newest, which is at `lsn`."""
        while True:
            if entry is None or entry.kind not in NOTES or note_key(entry.table_number, entry.key) != key:
                self.find(f"The chain of messages {key.hex()} names entry {lsn} of the log, which is not a message of it.")
                return
            if entry.previous < self.begins.get(entry.table_number, NEVER):
                return
            if entry.previous >= lsn:
                self.find(f"Entry {lsn} of the log names entry {entry.previous} as an earlier one.")
                return
            lsn = entry.previous
            entry = self._entry(lsn)

    def check_log(self) -> None:
        total = self.txn.stat(self.log)["entries"]
        self.total = total
        in_chains = 0
        for done, (before, entry) in enumerate(pairwise(self._entries())):
            if done % self.step == 0:
                self.progress("log entries", done, total)
            if entry is None:
                continue
            self._check_blobs(entry)
            if entry.table_number in self.tables and entry.kind not in NOTES:
                in_chains += 1
            if before is None:
                continue
            if entry.lsn != before.lsn + 1 and not self._may_be_removed(before.lsn + 1):
                self.find(f"The log jumps from entry {before.lsn} to {entry.lsn}.")
            if entry.node == before.node and entry.version < before.version and not self.is_replicated:
                self.find(f"Entry {entry.lsn} of the log has an earlier version than the entry before.")
            if entry.transaction == before.transaction:
                if entry.version != before.version:
                    self.find(f"Entries {before.lsn} and {entry.lsn} of the log are of one transaction, but have two versions.")
            elif entry.transaction != entry.lsn:
                self.find(f"Entry {entry.lsn} of the log begins a transaction, but has the number of another.")
        self.progress("log entries", total, total)
        if in_chains != self.chained:
            self.find(f"{in_chains} entries of the log belong to records of the tables, {self.chained} are in the histories of records.")

    def _check_blobs(self, entry: LogEntry) -> None:
        for raw in (entry.value, entry.image):
            if self.blobs is not None and raw and has_files(raw):
                try:
                    self.blobs.entry(entry.lsn, decode(raw))
                except Problem:
                    self.find(f"Entry {entry.lsn} of the log has a record that cannot be decoded.")

    def _entries(self) -> Iterator[LogEntry | None]:
        """None, and then all entries; None again for those that cannot be read."""
        yield None
        for key, _ in self.txn.cursor(self.log).iternext():
            if len(key) != _LSN.size:
                self.find(f"The log has an entry under {key.hex()}, which is not an LSN.")
                continue
            lsn = _LSN.unpack(key)[0]
            entry = self._entry(lsn)
            if entry is None:
                self.find(f"Entry {lsn} of the log cannot be read.")
            yield entry


def _is_renamed(image: bytes, entry: LogEntry) -> bool:
    """Whether an image is what the entry left, read with new names of its attributes (`moves`): a version of its own, and the same values."""
    try:
        if entry.value is None or version_of(image) <= entry.version or lsn_of(image) != entry.lsn:
            return False
        return same(list(decode(image).values()), list(decode(entry.value).values()))
    except (Problem, StructError):
        return False
