"""The part of `svc check` that is about blobs: records, log entries, ledger and files say one and the same thing.

1. Each file that a record refers to is the ledger's, as that record's; the ledger has none of a record that does not refer to it.
2. Each file that a log entry refers to is in the ledger, and not released before that entry.
3. Each file of the ledger is there, with the size that its references say. One whose content was still arriving when its record was
   written may have broken off; that is worth a note.

Orphaned files are not damage: a killed process leaves them, and the service removes them. They are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from svc.errors import Problem
from svc.store.blobs.blob import Blob
from svc.store.blobs.descriptions import blobs_in
from svc.store.blobs.files import PART, BlobFiles, is_locked, relative_name
from svc.store.blobs.ledger import Ledger
from svc.store.env import Txn

Owner = tuple[int, bytes]  # number of the table, stored key


class BlobCheck:
    """`begin`: a transaction on what is stored now, for files that go away while we look. `find` and `note` take a sentence each."""

    def __init__(
        self, begin: Callable[[], Txn], txn: Txn, ledger: Ledger, files: BlobFiles, find: Callable[[str], None], note: Callable[[str], None]
    ) -> None:
        self._begin = begin
        self._txn = txn
        self._ledger = ledger
        self._files = files
        self._find = find
        self._note = note
        self._held = 0  # files that were found as their record's
        self._broken = 0
        self._expected = 0  # references to files whose content another node has

    def record(self, shown: str, owner: Owner, record: dict[str, Any]) -> None:
        """A record that refers to files."""
        for number, blob in self._references(shown, record):
            row = self._ledger.owner(self._txn, number)
            if row is None:
                self._find(f"The record {shown} refers to the blob file {relative_name(number)}, which the ledger does not have.")
            elif (row[0], row[2]) != owner:
                self._find(f"The record {shown} refers to the blob file {relative_name(number)}, which is another record's.")
            elif row[1]:
                self._find(f"The record {shown} refers to the blob file {relative_name(number)}, which the ledger has as released.")
            else:
                self._held += 1
            self._check_size(shown, number, blob)

    def entry(self, lsn: int, value: object) -> None:
        """What a log entry has that refers to files."""
        shown = f"entry {lsn} of the log"
        for number, blob in self._references(shown, value):
            row = self._ledger.owner(self._txn, number)
            if row is None:
                self._find(f"The blob file {relative_name(number)}, to which {shown} refers, is not in the ledger.")
            elif row[1] and row[1] < lsn:
                self._find(f"The blob file {relative_name(number)}, to which {shown} refers, is released before it.")
            self._check_size(shown, number, blob)

    def finish(self, read: Callable[[Owner], dict[str, Any] | None]) -> None:
        """`read` gives the record of an owner. To be called last."""
        held = 0
        released = set(self._ledger.released(self._txn))
        dropped = self._ledger.dropped_tables(self._txn)
        listed = 0
        for number, (table, lsn, _) in self._ledger.files(self._txn):
            if lsn:
                listed += 1
                if (lsn, number) not in released:
                    self._find(f"The ledger has the blob file {relative_name(number)} as released, but does not list it.")
            elif table not in dropped:
                held += 1
            if not self._files.exists(number) and not self._files.is_expected(number) and self._is_still_known(number):
                self._find(f"The blob file {relative_name(number)} is missing.")
        if listed != len(released):
            self._find(f"The ledger lists {len(released)} released blob files, but has {listed}.")
        if held != self._held:
            self._find_surplus(read, dropped)
        self._count_orphans()
        if self._expected:
            self._note(f"The content of {self._expected} blobs is yet to come from other nodes.")
        if self._broken:
            self._note(f"The content of {self._broken} blobs are incomplete: their upload was interrupted.")

    def _references(self, shown: str, value: object) -> Iterator[tuple[int, Blob]]:
        seen = set()
        for blob in blobs_in(value):
            if blob.number is None or blob.number in seen:
                continue
            seen.add(blob.number)
            if blob.files is None or blob.files.identity != self._files.identity:
                self._find(f"A blob of {shown} refers to the files of another database.")
            else:
                yield blob.number, blob

    def _check_size(self, shown: str, number: int, blob: Blob) -> None:
        path = self._files.find(number)
        if path is None:
            if not blob.is_sized and not self._files.is_arriving(number):
                self._broken += 1
            elif self._files.is_expected(number):
                self._expected += 1
            elif blob.is_sized and self._files.find(number, PART) is not None and self._is_still_known(number):
                self._find(f"The blob file {relative_name(number)} of {shown} is not complete.")
            return
        size = path.stat().st_size
        if blob.is_sized and size != blob.size:
            self._find(f"The blob file {relative_name(number)} of {shown} has {size} bytes instead of {blob.size}.")

    def _find_surplus(self, read: Callable[[Owner], dict[str, Any] | None], dropped: set[int]) -> None:
        for number, (table, lsn, stored) in self._ledger.files(self._txn):
            if lsn or table in dropped:
                continue
            try:
                record = read((table, stored))
            except Problem:
                continue  # already found
            if record is None or number not in {blob.number for blob in blobs_in(record)}:
                self._find(f"The ledger has the blob file {relative_name(number)} for a record that does not refer to it.")

    def _is_still_known(self, number: int) -> bool:
        """Whether the ledger has it also now: the service may have removed it since the check began."""
        txn = self._begin()
        try:
            return self._ledger.knows(txn, number)
        finally:
            txn.abort()

    def _count_orphans(self) -> None:
        count = 0
        for directory, names in self._files.walk():
            for name in names:
                number = self._files.number_of(directory, name)
                if number is None or self._ledger.knows(self._txn, number) or is_locked(directory / name):
                    continue
                count += not self._is_still_known(number)
        if count:
            self._note(f"{count} blob files are orphaned; the service removes them.")
