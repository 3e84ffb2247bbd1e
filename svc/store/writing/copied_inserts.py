"""Records of another node that are new here: no record, and no history of one, is under their keys (spec: replication §11).

So nothing is read for them and nothing merged, and they come in the order of their keys: they are put next to each other, at the end of the table if nothing
is behind them. The entries of indexes come last, sorted.

    inserts.add(row)    each of them, as `CopyWriteSet.replace` would take it
    inserts.write()     records are in the store from here on: before anything else is done in the table
    inserts.end()       so are their index entries

The history of most records is one entry, the put that has made it, or none, where the log has forgotten that. Such an entry is made again from its parts, and
the record encoded again from its values: what comes into the store is what this node would have written. The others are read by `CopiedRecord`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec

from svc.errors import Problem
from svc.store.log.entries import (
    FORMAT,
    FORMAT_WITH_TRACE,
    HAS_USER,
    HAS_VALUE,
    HEADER,
    HEADER_SIZE,
    IN_LEAF,
    PACKED,
    PUT,
    REPEATED,
    TYPE_FLAGS,
    CopiedEntry,
    open_entry,
    pack,
)
from svc.store.values.keys import KEPT_BYTES, encode_primary
from svc.store.values.records import COMPRESSED, DAMAGE, HAS_EXPIRY, HAS_FILES, decode, encode, expiry_of, payload_size, version_of
from svc.store.values.records import FORMAT as RECORD_FORMAT
from svc.store.writing.copied_write import CopiedRecord, CopyWriteSet, check_names, same_payload
from svc.store.writing.index_runs import IndexRuns, write_run
from svc.store.writing.remote_transaction import MOST_MS
from svc.store.writing.remote_write import MOST_BYTES

if TYPE_CHECKING:
    from svc.store.copy_reader import RecordRow
    from svc.store.table import Table

_REMEMBERED = 1000  # names of attributes, and of nodes and users
_RECORD_FLAGS = RECORD_FORMAT | HAS_EXPIRY | COMPRESSED
_FORMATS = frozenset((FORMAT, FORMAT_WITH_TRACE, PACKED | FORMAT, PACKED | FORMAT_WITH_TRACE))
_pack_header, _unpack_header = HEADER.pack, HEADER.unpack_from
_VERSION = slice(32, 40)  # of an entry; of a record it is slice(1, 9)
_encode_names = msgspec.msgpack.Encoder().encode


_Names = tuple[bytes, int, int]  # those of table, node and user, and how many bytes the last two have


class _Put(msgspec.Struct, gc=False):
    """An entry that has made a record, as far as it is kept. `may_pack`: if it is large; if not, that was tried where it comes from."""

    value: bytes
    version: float
    wall_ms: float
    flags: int
    operation: int
    names: _Names
    trace: bytes | None
    may_pack: bool


class CopiedInserts:
    """Of one table, in one write set, which may do other things in between: after `end`."""

    def __init__(self, writes: CopyWriteSet, table: Table) -> None:
        self.table = table
        self._writes = writes
        self._runs = [IndexRuns(index) for index in table.index_list if index.computed is None or writes.can_maintain(table, index)]
        self._rows: list[tuple[bytes, bytes]] = []
        self._fresh: list[tuple[bytes, dict[str, Any]]] = []
        self._names: dict[tuple[str, ...], bytes] = {}
        self._origins: dict[tuple[bytes, int, int, int], tuple[_Names, int]] = {}
        self._table_name = table.name.encode()
        source = writes.source.encode()
        self._source: _Names = self._table_name + source, len(source), 0
        self._has_history = next(writes.log.removed_of(writes.txn, table.number), None) is not None

    def add(self, row: RecordRow) -> bool:
        """Take a record. There is none here with this key, nor between it and the last one that was taken. False: it needs more than is done here.

        Raises BadCopy.
        """
        stored, table, writes = row.stored, self.table, self._writes
        if len(stored) >= KEPT_BYTES or table.is_caching:
            return False
        if self._has_history and writes.log.chain_ends(writes.txn, table.number, stored, None)[0]:
            return False
        if self._add_plain(row):
            return True
        copied = CopiedRecord(table, stored, row.raw, row.history)
        if copied.raw is None or copied.record is None or copied.raw[0] & HAS_FILES:
            return False
        self._take(stored, copied.record, writes.log_new(table, copied))
        return True

    def _take(self, stored: bytes, record: dict[str, Any], raw: bytes) -> None:
        self._rows.append((stored, raw))
        self._fresh.append((stored, record))
        expiry = expiry_of(raw)
        if expiry is not None:
            self.table.expiry.add(self._writes.txn, stored, expiry)

    def _add_plain(self, row: RecordRow) -> bool:
        """Take a record with one put as its history, or none. False: it is not one of those, or not right: `CopiedRecord` knows."""
        stored, history, writes = row.stored, row.history, self._writes
        try:
            if not history:
                put = _Put(row.raw, version_of(row.raw), writes.copied_ms, TYPE_FLAGS[CopiedEntry] | HAS_VALUE, 0, self._source, None, True)
            elif row.raw or len(history) > 1:
                return False
            else:
                found = self._put(stored, history[0])
                if found is None:
                    return False
                put = found
            value, version = put.value, put.version
            if (
                not 0 < version < MOST_MS
                or not -MOST_MS < put.wall_ms < MOST_MS
                or value[0] & ~_RECORD_FLAGS
                or (value[0] & COMPRESSED and payload_size(value) > MOST_BYTES)
            ):
                return False
            expiry = expiry_of(value)
            if expiry is not None and not -inf < expiry < inf:
                return False
            record = decode(value)
            if encode_primary(record[self.table.primary_key]) != stored:
                return False
            shape = tuple(record)
            changed = self._names.get(shape)
            if changed is None:
                changed = self._shape(shape)
            lsn = writes.log.last_lsn + 1
            raw = encode(record, version, lsn, expiry, writes.compress_above)
        except (*DAMAGE, Problem, KeyError):
            return False
        if raw[0] & HAS_FILES or not same_payload(raw, value):
            return False
        names, nodes, users = put.names
        trace = put.trace
        head = _pack_header(
            FORMAT if trace is None else FORMAT_WITH_TRACE,
            PUT,
            put.flags,
            put.operation,
            self.table.number,
            lsn,
            0,
            put.wall_ms,
            version,
            len(self._table_name),
            nodes,
            users,
            len(stored),
            len(changed),
            len(raw),
        )
        entry = b"".join((head, names, stored, changed, raw, trace or b""))
        writes.log_copied(pack(entry) if put.may_pack and len(entry) > IN_LEAF else entry, version)
        self._take(stored, record, raw)
        return True

    def _put(self, stored: bytes, data: bytes) -> _Put | None:
        """What an entry says that has made a record with this key. None: it is another. Raises DAMAGE, StoreFailure."""
        if data[0] not in _FORMATS:
            return None
        is_packed = bool(data[0] & PACKED)
        data, end, trace, _ = open_entry(0, data)
        (_, kind, flags, operation, _, _, previous, wall_ms, version, tables, nodes, users, size, names, value_size) = _unpack_header(data)
        key_at = HEADER_SIZE + tables + nodes + users
        value = data[key_at + size + names : end]
        if (
            kind != PUT
            or flags & ~HAS_USER != HAS_VALUE
            or previous
            or len(value) != value_size
            or value[1:9] != data[_VERSION]
            or data[key_at : key_at + size] != stored
        ):
            return None
        origin, flags = self._origin(data[HEADER_SIZE:key_at], tables, nodes, flags)
        return _Put(value, version, wall_ms, flags, operation, origin, trace, is_packed)

    def _origin(self, names: bytes, tables: int, nodes: int, flags: int) -> tuple[_Names, int]:
        """Names and flags of an entry here. `names`, `flags`: as they came. `tables`, `nodes`: bytes of these. Raises ValueError."""
        made = self._origins.get((names, tables, nodes, flags))
        if made is None:
            node, user = names[tables : tables + nodes], names[tables + nodes :]
            if not node or (user and not flags & HAS_USER):
                raise ValueError("not the names of an entry")
            user.decode()
            is_own = node.decode() == self._writes.database.node
            if len(self._origins) >= _REMEMBERED:
                self._origins.clear()
            made = (self._table_name + node + user, nodes, len(user)), flags | REPEATED if is_own else flags
            self._origins[names, tables, nodes, flags] = made
        return made

    def _shape(self, names: tuple[str, ...]) -> bytes:
        """The names of the attributes of a record, in the log. Raises ValueError."""
        check_names(names)
        if len(self._names) >= _REMEMBERED:
            self._names.clear()
        encoded = self._names[names] = _encode_names(names)
        return encoded

    def write(self, *, is_end: bool) -> None:
        """Store the records. `is_end`: of the table."""
        if self._rows:
            _, added = self._writes.txn.cursor(self.table.primary).putmulti(self._rows, append=is_end)
            assert added == len(self._rows), "a record was not new"
            for run in self._runs:
                run.add(self._fresh)
            self._rows, self._fresh = [], []
        self._writes.write_log()

    def end(self) -> Iterator[None]:
        """Store the index entries of all that is stored. In short steps."""
        for run in self._runs:
            yield from write_run(self._writes, run)
