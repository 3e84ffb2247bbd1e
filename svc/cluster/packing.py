"""The transaction log of a database -> messages with the transactions that this node has committed (spec: replication §3).

    packer = LogPacker("node-a", incarnation, left_out=numbers_of_tables)
    for message in packer.messages(rows, previous=lsn_of_last_message):
        ...  # None: the caller's turn; else publish it, and ask for the next one when the engine has it

Entries are read as the log has them: their parts are cut out, and nothing is decoded but the names of table and user; images stay behind. So an entry costs
1 us, and its share of the compression.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Raw

from svc.cluster.wire import BATCH, CHUNK, Message, encode_body, encode_entry
from svc.store.log.entries import FORMAT, FORMATS, HAS_USER, HAS_VALUE, HEADER, HEADER_SIZE, INVALIDATE, REPEATED, open_entry
from svc.store.values.records import IS_COPY, version_of, without_refresh

Row = tuple[int, bytes]
"""(LSN, encoded entry), as the log has it."""
_ENTRY_MARGIN = 32  # bytes of MessagePack around the parts of an entry, at most
_TRANSACTION_MARGIN = 80
_NAMES = 1000  # of tables, remembered
_unpack_header = HEADER.unpack_from


class LogPacker:
    """`node`: the name by which the log has this node. `left_out`: numbers of the tables whose entries are not sent; it may change, and is asked of each entry.
    `batch`: bytes of transactions from which on a message is full; `chunk`: of entries that a message has at most.

    If a message could not be published, go on with a new one: what had to be defined is no longer known here.

    Not sent either: what other nodes have written, own writes that are in the log again, what was fetched from a source, expiry (each node's clock does
    that), moves (`relocate`).
    """

    def __init__(self, node: str, incarnation: bytes, *, left_out: Container[int] = (), batch: int = BATCH, chunk: int = CHUNK) -> None:
        self._node = node.encode()
        self._incarnation = incarnation
        self._left_out = left_out
        self._batch_bytes = batch
        self._chunk_bytes = chunk
        self._tables: dict[bytes, str] = {}
        self._definitions: deque[tuple[int, dict[str, bytes]]] = deque()  # that have to be sent
        self._begin(0)

    def define(self, lsn: int, definitions: Mapping[str, bytes]) -> None:
        """These tables have become what is said here when this was the newest LSN: send that before what is behind it. LSNs do not fall from call to call.

        A receiver that has applied more than this LSN is taken to know it. So one that begins, and does not know what was sent, says all its definitions twice:
        as of 0, for what has not been published, and as of the newest LSN, for receivers that have more than the engine.
        """
        self._definitions.append((lsn, dict(definitions)))

    def _begin(self, previous: int) -> None:
        self._previous = previous  # L of the message before
        self._batch: list[Any] = []  # whole transactions of the next message
        self._batch_size = 0  # bytes of them, about
        self._head: tuple[Any, ...] | None = None  # of the transaction that is being read: (LSN, version ... trace id)
        self._before = 0  # LSN of the row before it
        self._entries: list[Any] = []  # of it, without those in earlier chunks
        self._size = 0  # bytes of these
        self._chunk = 0  # chunks of it that have been made

    def messages(self, rows: Iterable[Row | None], previous: int, after: int = 0) -> Iterator[Message | None]:
        """Messages with the transactions in `rows`, in order: each as soon as it is full, and the rest at the end. So the last row ends a transaction.

        `rows`: the log behind the message whose L is `previous`, or behind `after`, a later LSN up to which nothing is left to be sent. A None among them is
        handed on: the caller wants its turn. They may come from several snapshots: what is committed stays. At most a chunk and an entry are held, whatever a
        transaction has. Raises StoreFailure if the log is damaged.
        """
        self._begin(previous)
        node, left_out, tables, limit = self._node, self._left_out, self._tables, self._chunk_bytes
        reading = 0  # the transaction of the row before
        lsn = before = max(previous, after)
        for row in rows:
            if row is None:
                yield None
                continue
            last = lsn
            lsn, data = row
            (
                entry_format,
                kind,
                flags,
                operation,
                number,
                transaction,
                _,
                wall_ms,
                version,
                at,
                node_size,
                user_size,
                key_size,
                names_size,
                value_size,
            ) = _unpack_header(data)
            if transaction != reading:
                reading = transaction
                if self._head is not None:
                    yield from self._end_transaction(last)
                before = max(last, transaction - 1)  # that what is between was removed is no reason to say less
            node_at = HEADER_SIZE + at
            user_at = node_at + node_size
            if kind > INVALIDATE or flags & REPEATED or not number or number in left_out or data[node_at:user_at] != node:
                if entry_format not in FORMATS:
                    open_entry(lsn, data)  # raises
                continue
            if entry_format == FORMAT:
                trace = mqtt = None
            else:  # the lengths in the header are those of the opened one
                data, _, trace, mqtt = open_entry(lsn, data)
            key_at = user_at + user_size
            names_at = key_at + key_size
            value_at = names_at + names_size
            value = None
            if flags & HAS_VALUE:
                value = data[value_at : value_at + value_size]
                if value and value[0] & IS_COPY:
                    if version_of(value) != version:  # that of the source: it was fetched
                        continue
                    value = without_refresh(value)
            name = data[HEADER_SIZE:node_at]
            table = tables.get(name) or self._remember(name)
            entry: tuple[Any, ...] = (kind, table, data[key_at:names_at], value, Raw(data[names_at:value_at]))
            size = value_at + value_size - key_at + at + _ENTRY_MARGIN
            if mqtt is not None:
                entry = (*entry, mqtt)
                size += len(mqtt)
            if self._head is None:
                if self._definitions:
                    yield from self._define(before)
                user = data[user_at:key_at].decode() if flags & HAS_USER else None
                self._head = (transaction, version, wall_ms, user, operation, trace)
                self._before = before
                self._size = _TRANSACTION_MARGIN + user_size
            if self._size + size > limit:
                yield from self._make_room(entry, size)
            else:
                self._entries.append(entry)
                self._size += size
        if self._head is not None:
            yield from self._end_transaction(lsn)
        if self._batch:
            yield self._end_batch(lsn)
        yield from self._define(lsn)

    def _remember(self, name: bytes) -> str:
        if len(self._tables) >= _NAMES:
            self._tables.clear()
        table = self._tables[name] = name.decode()
        return table

    def _end_transaction(self, lsn: int) -> Iterable[Message]:
        """The transaction that is being read ends with this LSN."""
        assert self._head is not None
        made: list[Message] = []
        if self._chunk:
            made.append(self._make_chunk(lsn))
            self._chunk = 0
        else:
            if self._batch and self._batch_size + self._size > self._batch_bytes:
                made.append(self._end_batch(self._before))
            first, *others = self._head
            self._batch.append((first, lsn, *others, self._entries))
            self._batch_size += self._size
            if self._batch_size >= self._batch_bytes:
                made.append(self._end_batch(lsn))
        self._head, self._entries, self._size = None, [], 0
        return made

    def _end_batch(self, lsn: int) -> Message:
        """The transactions that have come together; they are all up to this LSN."""
        made = Message(lsn, self._previous, self._incarnation, body=encode_body({}, self._batch))
        self._previous = lsn
        self._batch, self._batch_size = [], 0
        return made

    def _make_room(self, entry: tuple[Any, ...], size: int) -> Iterator[Message]:
        """The transaction becomes several chunks, or has one more of them, before this entry; and more for the entry if it is larger than one itself."""
        if self._batch:
            yield self._end_batch(self._before)
        if self._entries:
            yield self._make_chunk()
        if self._size + size <= self._chunk_bytes:
            self._entries.append(entry)
            self._size += size
            return
        data = encode_entry(entry if len(entry) > 5 else (*entry, None))
        for end in range(self._chunk_bytes, len(data) + self._chunk_bytes, self._chunk_bytes):
            yield self._make_chunk(piece=data[end - self._chunk_bytes : end], left=max(len(data) - end, 0))

    def _make_chunk(self, last_lsn: int = 0, piece: bytes = b"", left: int = 0) -> Message:
        """The entries that have come together, or the piece of one. `last_lsn`: of the transaction, if this is the last chunk of it."""
        assert self._head is not None
        first, *others = self._head
        self._chunk += 1
        body = encode_body({}, [(first, last_lsn, *others, self._entries)], piece, left)
        made = Message(last_lsn or self._previous, self._previous, self._incarnation, self._chunk, self._chunk if last_lsn else 0, body)
        self._previous = made.last_lsn
        self._entries, self._size = [], _TRANSACTION_MARGIN
        return made

    def _define(self, lsn: int) -> Iterator[Message]:
        """The definitions that have come up to this LSN, in messages of their own, behind the transactions up to it. Parts of one are joined."""
        due: dict[str, bytes] = {}
        while self._definitions and self._definitions[0][0] <= lsn:
            due |= self._definitions.popleft()[1]
        if not due:
            return
        if self._batch:
            yield self._end_batch(lsn)
        size = self._chunk_bytes
        parts = [due]
        if sum(map(len, due.values())) > size:
            parts = [{name: data[at : at + size]} for name, data in due.items() for at in range(0, len(data) or 1, size)]
        for number, part in enumerate(parts, 1):
            last = number == len(parts)
            chunk, chunks = (number, number if last else 0) if len(parts) > 1 else (0, 0)
            yield Message(lsn if last else self._previous, self._previous, self._incarnation, chunk, chunks, encode_body(part, ()))
        self._previous = lsn
