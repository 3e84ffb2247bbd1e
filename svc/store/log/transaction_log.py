"""The transaction log: every change of a record, in commit order (architecture §4; spec: schema-and-store §13).

It is written in the transaction that makes the change, and it is the outbox for subscriptions, for the caches of sibling instances, for
replication and for history. Two stores per database:

`$log`: LSN (8 bytes, big-endian) -> entry. LSNs are given out one after the other, and none twice, because the place of the newest entry is always
held: retention leaves it, and where it is removed on demand, or left out of a backup, a placeholder keeps its LSN, version and time. That is a
message about no table, number 0. The log begins where retention has come to; behind that, LSNs are missing only where the entries of one table
were removed on demand.

One record's history is a chain: the record's header has the LSN of the entry that wrote it, and each entry the LSN of the entry before it.
What is removed of a table are its oldest entries, so a chain only ever ends earlier.
`$deleted` has the end of the chain of records that are not there (the last one wrote them, if they are copies of a table with a source: to remove
these is no entry of the log): number of the table (4 bytes), record key -> LSN (8 bytes). The key is
the encoded primary key if that has at most 495 bytes, else its first 483 bytes and a 16-byte hash.

Notes about a record that do not change it (message, invalidate) are in a chain of their own, whether the record exists or not.
`$deleted` has its end too, under the number of the table plus 2**31. The key may be empty: the whole table is spoken of.

A second store (table, key, LSN) would give the same entries for the same number of look-ups, but costs every write one more random page:
measured, 15 % of a PUT with its share of the commit and a quarter of a bulk load.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator
from itertools import islice
from struct import Struct as Layout

from svc.errors import StoreFailure
from svc.store.env import Cursor, Environment, Handle, Txn, store_bytes
from svc.store.log.counts import EntryCounts
from svc.store.log.entries import (
    HEADER_SIZE,
    LENGTHS,
    LENGTHS_OFFSET,
    NOTES,
    PATCH,
    REMOVALS,
    TABLE,
    TABLE_OFFSET,
    LogEntry,
    decode_entry,
    decode_head,
    encode_entry,
    is_entry_of_copy,
    is_merged,
    key_of,
    note_key,
    placeholder,
    record_key,
)
from svc.store.values.records import is_copy

logger = logging.getLogger("svc.store")

LOG_STORE = "$log"
DELETED_STORE = "$deleted"


_LSN = Layout(">Q")
_pack_lsn = _LSN.pack
_DOUBLE = Layout(">d")
_PREVIOUS_OFFSET = 16
_WALL_OFFSET = 24
_VERSION_OFFSET = 32
_READ_BYTES = 1 << 20  # of entries that are read in one go
_LOOK = 64  # entries of other tables that are passed at once: about 0.1 ms
SKEW_MS = 3_600_000.0  # by which clocks of nodes may differ

_NO_TABLE = bytes(4)  # number of the table of a placeholder


class TransactionLog:
    """The log of one database.

    `last_lsn`, `last_version`: of the newest entry, as far as this process knows. The writer of the turn must be open before they are
    relied upon: then no other process can append. The code that rolls back a transaction restores the `last_lsn` it found.
    """

    __slots__ = ("_deleted", "_entries", "_env", "counts", "last_lsn", "last_version")

    def __init__(self, env: Environment, entries: Handle, deleted: Handle) -> None:
        self._env = env
        self._entries = entries
        self._deleted = deleted
        self.counts = EntryCounts(env, entries)
        self.last_lsn = 0
        self.last_version = 0.0

    @property
    def env(self) -> Environment:
        return self._env

    def catch_up(self, txn: Txn) -> None:
        """Read the newest entry again, because another process or a failed commit may have changed which it is."""
        newest = self.newest(txn)
        self.last_lsn, self.last_version = (newest.lsn, newest.version) if newest is not None else (0, 0.0)

    def append(self, txn: Txn, entry: LogEntry) -> None:
        """Write an entry whose LSN is the next one, and count it. Raises StoreFailure if it is not."""
        lsn = entry.lsn
        assert lsn == self.last_lsn + 1, "log sequence numbers must be dense"
        if not txn.put(_pack_lsn(lsn), encode_entry(entry), True, True, True, self._entries):
            raise self._not_the_end(lsn)
        self.last_lsn = lsn

    def append_encoded(self, txn: Txn, entries: list[bytes]) -> None:
        """Write entries that `entry_encoder` has made: their LSNs are the next ones, in this order. Raises as `append`."""
        if entries:
            first = self.last_lsn + 1
            rows = [(_pack_lsn(lsn), entry) for lsn, entry in enumerate(entries, first)]
            if txn.cursor(self._entries).putmulti(rows, append=True)[1] != len(rows):
                raise self._not_the_end(first)
            self.last_lsn += len(entries)

    def _not_the_end(self, lsn: int) -> StoreFailure:
        """LMDB refuses to append an entry because there are newer ones. Nothing of a write may stay that is not in the log."""
        logger.critical("database %s: log entry %d cannot be appended, the log goes further; the write is undone", self._env.path, lsn)
        self._env.forget_position()
        return StoreFailure("The end of the transaction log was not known, nothing was written: try again")

    def end_chain(self, txn: Txn, table_number: int, key: bytes, lsn: int) -> None:
        """A record is no longer there to know its newest entry: keep its LSN here."""
        txn.put(record_key(table_number, key), _pack_lsn(lsn), True, True, False, self._deleted)

    def resume_chain(self, txn: Txn, table_number: int, key: bytes) -> int:
        """LSN of the newest entry of a record that was not there and is about to be; 0 if the log has none."""
        lsn = txn.pop(record_key(table_number, key), self._deleted)
        return 0 if lsn is None else int.from_bytes(lsn, "big")

    def extend_notes(self, txn: Txn, table_number: int, key: bytes, lsn: int) -> int:
        """The next entry is a message, or the like, about this record; returns the LSN of the one before it, 0 if the log has none."""
        place = note_key(table_number, key)
        before = txn.get(place, None, self._deleted)
        txn.put(place, _pack_lsn(lsn), True, True, False, self._deleted)
        return 0 if before is None else int.from_bytes(before, "big")

    def ends(self, txn: Txn, places: list[bytes]) -> dict[bytes, bytes]:
        """Of these keys of `$deleted` those that there are."""
        return dict(txn.cursor(self._deleted).getmulti(sorted(places))) if self.has_deleted(txn) else {}

    def has_deleted(self, txn: Txn) -> bool:
        """Whether the log has the history of any record that is not there."""
        return txn.stat(self._deleted)["entries"] > 0

    # -- reading

    def newest(self, txn: Txn) -> LogEntry | None:
        """As `decode_head` has it."""
        cursor = txn.cursor(self._entries)
        return decode_head(_LSN.unpack(cursor.key())[0], cursor.value()) if cursor.last() else None

    def oldest(self, txn: Txn) -> LogEntry | None:
        """As `decode_head` has it."""
        cursor = txn.cursor(self._entries)
        return decode_head(_LSN.unpack(cursor.key())[0], cursor.value()) if cursor.first() else None

    def get(self, txn: Txn, lsn: int) -> LogEntry | None:
        """The entry with this LSN, None if it is not there (any more)."""
        data = txn.get(_pack_lsn(lsn), None, self._entries)
        return None if data is None or data[TABLE_OFFSET : TABLE_OFFSET + 4] == _NO_TABLE else decode_entry(lsn, data)

    def read(self, txn: Txn, first: int = 0, end: int | None = None, *, reverse: bool = False) -> Iterator[LogEntry]:
        """The entries with first <= LSN < end, oldest first, or newest first with `reverse`."""
        cursor = txn.cursor(self._entries)
        low, high = _pack_lsn(first), _pack_lsn((1 << 64) - 1 if end is None else end)
        if reverse:
            found = cursor.prev() if cursor.set_range(high) else cursor.last()
            while found and cursor.key() >= low:
                yield _entry_at(cursor)
                found = cursor.prev()
        else:
            found = cursor.set_range(low)
            while found and cursor.key() < high:
                yield _entry_at(cursor)
                found = cursor.next()

    def read_after(self, txn: Txn, lsn: int, most: int) -> list[tuple[int, bytes]] | None:
        """(LSN, encoded entry) of all entries after this LSN up to `last_lsn`. None: there are more than `most`, or one is not there any more."""
        count = self.last_lsn - lsn
        if not 0 <= count <= most:
            return None
        cursor = txn.cursor(self._entries)
        if not count or not cursor.set_range(_pack_lsn(lsn + 1)):
            return None if count else []
        rows = [(int.from_bytes(packed), data) for packed, data in islice(cursor.iternext(), count)]
        return rows if len(rows) == count and rows[-1][0] == self.last_lsn else None

    def read_encoded(self, txn: Txn, lsn: int, look: int) -> tuple[list[tuple[int, bytes]], bool]:
        """(LSN, encoded entry) of the next `look` entries from this LSN on, of fewer if they are large; and whether those were all."""
        rows: list[tuple[int, bytes]] = []
        cursor = txn.cursor(self._entries)
        if not cursor.set_range(_pack_lsn(lsn)):
            return rows, True
        room = _READ_BYTES
        for packed, data in islice(cursor.iternext(), look):
            rows.append((int.from_bytes(packed), data))
            room -= len(data)
            if room < 0:
                break
        return rows, rows[-1][0] >= self.newest_lsn(txn)

    def kind_of(self, txn: Txn, lsn: int) -> int:
        """The kind of the entry with this LSN, 0 if it is not there any more. PATCH of any that was merged: it has left a record."""
        data = txn.get(_pack_lsn(lsn), None, self._entries)
        return 0 if data is None else PATCH if is_merged(data) else data[1]

    def read_table(self, txn: Txn, table_number: int, first: int = 0) -> Iterator[LogEntry | None]:
        """The entries of one table with this LSN or a later one, oldest first. None: some entries of other tables were passed, the caller may yield."""
        cursor = txn.cursor(self._entries)
        table = TABLE.pack(table_number)
        passed = 0
        found = cursor.set_range(_pack_lsn(first))
        while found:
            key, data = cursor.item()
            if data[TABLE_OFFSET : TABLE_OFFSET + 4] == table:
                yield decode_entry(_LSN.unpack(key)[0], data)
                passed = 0
            else:
                passed += 1
                if passed == _LOOK:
                    passed = 0
                    yield None
            found = cursor.next()

    def read_some(
        self, txn: Txn, table_number: int, lsn: int, look: int, *, key: bytes | None = None, reverse: bool = False
    ) -> tuple[list[LogEntry], int, bool]:
        """Among the next `look` entries from this LSN on, or with `reverse` before it, those of the table, or of one record in it.

        And the LSN to go on with, and whether that were all. Ends earlier when what was found is large. 0.3 us for each that is passed.
        """
        found: list[LogEntry] = []
        room = _READ_BYTES
        cursor = txn.cursor(self._entries)
        table = TABLE.pack(table_number)
        step = cursor.prev if reverse else cursor.next
        here = cursor.set_range(_pack_lsn(lsn))
        if reverse:
            here = cursor.prev() if here else cursor.last()
        for _ in range(look):
            if not here:
                return found, lsn, True
            packed, data = cursor.item()
            at: int = _LSN.unpack(packed)[0]
            lsn = at if reverse else at + 1
            if data[TABLE_OFFSET : TABLE_OFFSET + 4] == table and (key is None or _has_key(data, key)):
                entry = decode_entry(at, data)
                found.append(entry)
                room -= HEADER_SIZE + len(entry.value or b"") + len(entry.image or b"")  # not what they are packed to
            here = step()
            if room < 0:
                break
        return found, lsn, not here

    def scan(self, txn: Txn, tables: Container[int], lsn: int, look: int) -> tuple[list[tuple[int, int, bytes, bytes]], int, bool]:
        """Of the next `look` entries from this LSN on those of these tables: (LSN, number of the table, key, encoded entry). And the LSN of the last that was
        looked at, and whether those were all. Less than 1 us for each.
        """
        found: list[tuple[int, int, bytes, bytes]] = []
        room = _READ_BYTES
        last = lsn - 1
        cursor = txn.cursor(self._entries)
        if not cursor.set_range(_pack_lsn(lsn)):
            return found, last, True
        unpack_table, unpack_lengths = TABLE.unpack_from, LENGTHS.unpack_from
        rows = list(islice(cursor.iternext(), look))
        for packed, data in rows:
            last = int.from_bytes(packed)
            (number,) = unpack_table(data, TABLE_OFFSET)
            if number in tables:
                names, nodes, users, size = unpack_lengths(data, LENGTHS_OFFSET)
                at = HEADER_SIZE + names + nodes + users
                found.append((last, number, data[at : at + size], data))
                room -= len(data)
                if room < 0:
                    return found, last, False
        return found, last, len(rows) < look or not cursor.next()

    def first_lsn(self, txn: Txn) -> int:
        """The LSN with which the log begins, 0 if it is empty."""
        cursor = txn.cursor(self._entries)
        return _LSN.unpack(cursor.key())[0] if cursor.first() else 0

    def newest_lsn(self, txn: Txn) -> int:
        """The LSN of the newest entry as this transaction sees it, 0 if there is none."""
        cursor = txn.cursor(self._entries)
        return _LSN.unpack(cursor.key())[0] if cursor.last() else 0

    def first_since(self, txn: Txn, version: float, node: str) -> int:
        """An LSN before which there is no entry of this version or a later one. O(log n). `node`: our name in the log.

        Versions of this node grow with their LSN. Those of others come when they come, so their entries are passed over in the search, and
        it ends an hour early: no clock is that wrong.
        """
        cursor = txn.cursor(self._entries)
        if not cursor.first():
            return 0
        low: int = _LSN.unpack(cursor.key())[0]
        high = self.last_lsn + 1
        version -= SKEW_MS
        while low < high:
            middle = (low + high) // 2
            found = cursor.set_range(_pack_lsn(middle))
            for _ in range(_LOOK):
                if not found or decode_head(0, cursor.value()).node == node:
                    break
                found = cursor.next()
            else:
                found = False
            if not found:
                high = middle  # too many of others, or the end: look before it
            elif _DOUBLE.unpack_from(cursor.value(), _VERSION_OFFSET)[0] >= version:
                high = middle
            else:
                low = _LSN.unpack(cursor.key())[0] + 1
        return low

    def read_versions(self, txn: Txn, lsn: int, limit: int, *, reverse: bool = False) -> Iterator[tuple[int, int, float]]:
        """(LSN, number of the table, version) of up to `limit` entries from `lsn` on, or before it with `reverse`: newest first.

        The number is 0 if no record was changed.
        """
        cursor = txn.cursor(self._entries)
        found = cursor.set_range(_pack_lsn(lsn))
        if reverse:
            found = cursor.prev() if found else cursor.last()
        while found and limit:
            data = cursor.value()
            number = 0 if data[1] in NOTES else TABLE.unpack_from(data, TABLE_OFFSET)[0]
            yield _LSN.unpack(cursor.key())[0], number, _DOUBLE.unpack_from(data, _VERSION_OFFSET)[0]
            limit -= 1
            found = cursor.prev() if reverse else cursor.next()

    def read_record_history(self, txn: Txn, table_number: int, key: bytes, newest: int | None) -> Iterator[LogEntry]:
        """The entries of one record that are still in the log, newest first; one look-up each.

        `newest`: LSN in the header of the record (`records.lsn_of`), None if there is no record.
        """
        lsn = self._end(txn, record_key(table_number, key)) if newest is None else newest
        return self._back(txn, lsn)

    def encoded_history(self, txn: Txn, lsn: int, most: int, most_bytes: int) -> list[bytes]:
        """The entries of one record as they are encoded, of which this is the newest: oldest first. No more than so many, the newest ones."""
        found: list[bytes] = []
        while lsn and most > 0 and most_bytes > 0:
            data = txn.get(_pack_lsn(lsn), None, self._entries)
            if data is None or data[TABLE_OFFSET : TABLE_OFFSET + 4] == _NO_TABLE:
                break
            found.append(data)
            (lsn,) = _LSN.unpack_from(data, _PREVIOUS_OFFSET)
            most -= 1
            most_bytes -= len(data)
        found.reverse()
        return found

    def removed_of(self, txn: Txn, table_number: int) -> Iterator[int]:
        """LSNs of the newest entries of the records of a table that are not there."""
        prefix = TABLE.pack(table_number)
        cursor = txn.cursor(self._deleted)
        found = cursor.set_range(prefix)
        while found and cursor.key().startswith(prefix):
            yield int.from_bytes(cursor.value())
            found = cursor.next()

    def read_notes(self, txn: Txn, table_number: int, key: bytes) -> Iterator[LogEntry]:
        """The messages and the like about one record that are still in the log, newest first. `key` b"": about the whole table."""
        return self._back(txn, self._end(txn, note_key(table_number, key)))

    def chain_ends(self, txn: Txn, table_number: int, key: bytes, newest: int | None) -> tuple[int, int]:
        """The LSNs of the newest entry that changed a record, and of the newest that is about it otherwise; 0 if there is none. `newest`: as above."""
        changed = self._end(txn, record_key(table_number, key)) if newest is None else newest
        return changed, self._end(txn, note_key(table_number, key))

    def _end(self, txn: Txn, place: bytes) -> int:
        """LSN of the end of a chain, 0 if there is none."""
        ended = txn.get(place, None, self._deleted)
        return 0 if ended is None else int.from_bytes(ended, "big")

    def _back(self, txn: Txn, lsn: int) -> Iterator[LogEntry]:
        while lsn:
            entry = self.get(txn, lsn)
            if entry is None:
                return
            yield entry
            lsn = entry.previous

    def count(self, txn: Txn) -> int:
        return txn.stat(self._entries)["entries"]

    def size(self, txn: Txn) -> int:
        """Bytes of the pages that hold entries and history."""
        return store_bytes(txn, self._entries) + store_bytes(txn, self._deleted)

    # -- retention

    def find_old(self, txn: Txn, first: int, before_ms: float, ahead_ms: float, look: int) -> tuple[int, int]:
        """(LSN before which all entries are old, LSN up to which it was looked): among the next `look` entries from `first` on.

        Old is an entry whose wall time is before `before_ms`. One whose wall time is after `ahead_ms` was written while the clock was ahead: it is as
        old as the next one whose time can be. Ends before the first entry that is young, and before the newest one.
        """
        end = 0
        cursor = txn.cursor(self._entries)
        here = cursor.set_range(_pack_lsn(first))
        while here and look:
            lsn, wall_ms = _LSN.unpack(cursor.key())[0], _DOUBLE.unpack_from(cursor.value(), _WALL_OFFSET)[0]
            if lsn >= self.last_lsn or before_ms <= wall_ms <= ahead_ms:
                break
            first = lsn + 1
            if wall_ms < before_ms:
                end = first
            look -= 1
            here = cursor.next()
        return end, first

    def prune(self, txn: Txn, end: float, limit: int) -> int:
        """Remove up to `limit` of the oldest entries whose LSN is before `end`; returns how many. Always leaves the newest one."""
        removed = 0
        cursor = txn.cursor(self._entries)
        while removed < limit and cursor.first():
            lsn, data = _LSN.unpack(cursor.key())[0], cursor.value()
            if lsn >= self.last_lsn or lsn >= end:
                break
            cursor.delete()
            self._removed(txn, lsn, data)
            removed += 1
        return removed

    def old_entries(self, txn: Txn, table_number: int, before: float, first: int, look: int) -> tuple[list[int], int | None]:
        """Among the next `look` entries with this LSN or a later one: the LSNs of the table's whose version is before `before`.

        And the LSN to go on with, None when there are no more: at the first that is young enough.
        """
        found: list[int] = []
        cursor = txn.cursor(self._entries)
        table = TABLE.pack(table_number)
        here = cursor.set_range(_pack_lsn(first))
        for _ in range(look):
            if not here:
                return found, None
            key, data = cursor.item()
            lsn = _LSN.unpack(key)[0]
            if data[TABLE_OFFSET : TABLE_OFFSET + 4] == table:
                if _DOUBLE.unpack_from(data, _VERSION_OFFSET)[0] >= before:
                    return found, None
                found.append(lsn)
            first = lsn + 1
            here = cursor.next()
        return found, first

    def remove(self, txn: Txn, lsns: Iterable[int]) -> int:
        """Remove these entries, the oldest ones of a table, where they still are; returns how many. A placeholder follows the newest of the log."""
        removed = 0
        for lsn in lsns:
            data = txn.pop(_pack_lsn(lsn), self._entries)
            if data is not None:
                if lsn >= self.last_lsn:
                    txn.put(_pack_lsn(lsn), encode_entry(placeholder(decode_head(lsn, data))), True, True, False, self._entries)
                self._removed(txn, lsn, data)
                removed += 1
        return removed

    def _removed(self, txn: Txn, lsn: int, data: bytes) -> None:
        """An entry is gone: if it was the end of a chain that no record leads to, nothing is left of that."""
        if data[1] in REMOVALS or data[1] in NOTES or is_entry_of_copy(data):
            entry = decode_head(lsn, data)
            ended = (note_key if data[1] in NOTES else record_key)(entry.table_number, entry.key)
            if txn.get(ended, None, self._deleted) == _pack_lsn(lsn):
                txn.delete(ended, b"", self._deleted)

    def check(self, txn: Txn) -> None:
        """Assert that the newest entry is the one known as such, and that each entry's chain leads to older entries of its record. Reads it all."""
        newest: int | None = None
        last: dict[bytes, LogEntry] = {}
        for entry in self.read(txn):
            newest = entry.lsn
            assert entry.transaction <= entry.lsn, f"entry {entry.lsn} is older than its transaction"
            if not entry.table_number:
                continue  # a placeholder
            key = (note_key if entry.kind in NOTES else record_key)(entry.table_number, entry.key)
            before = last.get(key)
            if before is not None:
                assert entry.previous == before.lsn, f"entry {entry.lsn} follows {entry.previous} instead of {before.lsn}"
            last[key] = entry
        assert newest is None or newest == self.last_lsn, "the newest entry is not the one that is known as such"
        ended = {key: int.from_bytes(lsn, "big") for key, lsn in txn.cursor(self._deleted).iternext()}
        expected = {
            key: entry.lsn for key, entry in last.items() if (entry.kind in REMOVALS and not entry.is_merged) or entry.kind in NOTES
        }
        for key, lsn in ended.items() - expected.items():
            written = last.get(key)  # a copy of what a source has, which was evicted
            if written is not None and written.lsn == lsn and written.value is not None and is_copy(written.value):
                expected[key] = lsn
        assert ended == expected, "ends of chains are missing or wrong"


def _has_key(data: bytes, key: bytes) -> bool:
    """Whether an encoded entry is of the record with this key."""
    return key_of(data) == key


def _entry_at(cursor: Cursor) -> LogEntry:
    return decode_entry(_LSN.unpack(cursor.key())[0], cursor.value())
