"""Messages of one origin, in the order of its stream -> its transactions (spec: replication §4).

    assembler = Assembler(incarnation, applied)
    found = assembler.take(message.headers, message.data)
    # Taken.KNOWN, Taken.PART: the next message; else definitions and transactions to be applied, and then: applied = found.last_lsn
    # WireError: it is another message that has to follow, see the subclasses; go on with a new assembler

Exactly once: what has been applied is known by its LSN, however often and in whatever packing it comes again. In order and without a gap: each message names
the one before it. It knows nothing of streams and their positions but `applied`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

from svc.cluster.wire import Body, Head, WireError, decode_body, decode_entry, read_head
from svc.store.log.entries import DELETE, INVALIDATE, MESSAGE, NOTES, OPERATIONS, PATCH, PUT
from svc.store.values.records import COMPRESSED, FORMAT, HAS_EXPIRY, HAS_FILES, PAYLOAD_AT, payload_at
from svc.store.writing.remote_transaction import MOST_MS, RemoteEntry, RemoteTransaction
from svc.trace_context import TRACE_ID_BYTES

MAX_TRANSACTION = 1 << 28  # bytes in memory, about
ENTRY_BYTES = 256  # of an entry in memory besides its parts, about
NAME_BYTES = 64  # of the name of an attribute
_WRITES = frozenset((PUT, PATCH))
_FLAGS = HAS_EXPIRY | COMPRESSED | HAS_FILES
_KINDS = frozenset((PUT, PATCH, DELETE, MESSAGE, INVALIDATE))


class Gap(WireError):
    """Something between what has been applied and this message is missing before it. If it is not further back in the stream, it is nowhere: copy."""


class OtherIncarnation(WireError):
    """The origin's database is another one since, or was restored: LSNs start again. `incarnation`: that of the message."""

    def __init__(self, incarnation: bytes) -> None:
        super().__init__("The message is of another incarnation of its origin")
        self.incarnation = incarnation


class TransactionTooLarge(WireError):
    """A transaction that is larger than this node takes in this way: copy."""


class Taken(Enum):
    """What there is to do for a message that brings nothing to apply: nothing."""

    KNOWN = "it was applied before"
    PART = "a chunk: more of them follow"


class Delivery(msgspec.Struct, gc=False):
    """What a message, or the last chunk of several, brings: definitions, or transactions. Neither: of what it covers, only the end was not known.

    `last_lsn`: up to which everything has been applied then.
    """

    definitions: dict[str, bytes]  # see `wire.Body`. They may come again after a restart
    transactions: list[RemoteTransaction]  # whose LSNs are behind what had been applied; may be none
    last_lsn: int


class _Parts:
    """Of a transaction in chunks, what has come."""

    def __init__(self, head: Head, transaction: RemoteTransaction | None) -> None:
        self.previous = head.previous
        self.transaction = transaction  # None: of definitions alone
        self.definitions: dict[str, list[bytes]] = {}
        self.names: dict[tuple[str, ...], tuple[str, ...]] = {}  # lists of changed attributes: entries share them
        self.chunks = 0
        self.size = 0
        self.pieces: list[bytes] = []  # of an entry
        self.left = 0  # bytes of it that are missing


class Assembler:
    """`applied`: LSN up to which everything of this origin has been applied. `limit`: bytes that a transaction may take in memory, about."""

    def __init__(self, incarnation: bytes, applied: int, *, limit: int = MAX_TRANSACTION) -> None:
        self.applied = applied
        """As far as what was given out has been applied: an assembler whose caller could not do that is thrown away."""
        self._incarnation = incarnation
        self._limit = limit
        self._parts: _Parts | None = None

    @property
    def has_part(self) -> bool:
        """Whether chunks have come of a transaction that is not whole."""
        return self._parts is not None

    def take(self, headers: Mapping[str, str] | None, data: bytes) -> Delivery | Taken:
        """The next message. Raises Gap, OtherIncarnation, TransactionTooLarge, UnknownFormat; WireError if it is damaged."""
        head = read_head(headers)
        if head.incarnation != self._incarnation:
            raise OtherIncarnation(head.incarnation)
        if head.chunk:
            return self._take_chunk(head, data)
        self._parts = None  # of one whose sender did not come to its end
        if head.last_lsn < self.applied:
            return Taken.KNOWN
        if head.previous > self.applied:
            raise Gap(f"The message follows LSN {head.previous}, and {self.applied} was applied last")
        body, _ = decode_body(data)
        if body.piece or body.left:
            raise WireError("A piece of an entry came outside of a chunk")
        if bool(body.definitions) == bool(body.transactions):
            raise WireError("The message has neither transactions nor definitions, or both")
        if head.last_lsn == self.applied and not body.definitions:
            return Taken.KNOWN
        last = head.previous
        for transaction in body.transactions:
            _check_head(transaction)
            _check_entries(transaction.entries)
            if not last < transaction.lsn <= transaction.last_lsn <= head.last_lsn or not transaction.entries:
                raise WireError("The transactions of the message do not follow each other")
            last = transaction.last_lsn
        return self._deliver(body.definitions, body.transactions, head.last_lsn)

    def _deliver(self, definitions: dict[str, bytes], transactions: list[RemoteTransaction], last_lsn: int) -> Delivery:
        applied = self.applied
        if transactions and transactions[0].lsn <= applied:
            transactions = [transaction for transaction in transactions if transaction.last_lsn > applied]
            if transactions and transactions[0].lsn <= applied:
                raise WireError(f"LSN {applied}, which was applied last, is within a transaction")
        self.applied = last_lsn
        return Delivery(definitions, transactions, last_lsn)

    def _take_chunk(self, head: Head, data: bytes) -> Delivery | Taken:
        parts = self._parts
        self._parts = None  # whatever is raised here
        if head.previous > self.applied:
            raise Gap(f"The chunk follows LSN {head.previous}, and {self.applied} was applied last")
        body, size = decode_body(data)
        transaction = _of_chunk(head, body)
        if transaction is not None and transaction.lsn <= self.applied:
            return Taken.KNOWN
        if head.chunk == 1:
            parts = _Parts(head, transaction)
        elif parts is None or head.chunk > parts.chunks + 1:
            raise Gap(f"Chunk {head.chunk} came without those before it")
        else:
            _check_same(parts, head, transaction)
            if head.chunk <= parts.chunks:
                self._parts = parts
                return Taken.KNOWN
        self._add(parts, body, transaction, size)
        if not head.chunks:
            self._parts = parts
            return Taken.PART
        if parts.left:
            raise WireError("The last chunk has come, and an entry is not whole")
        definitions = {name: b"".join(found) for name, found in parts.definitions.items()}
        whole = parts.transaction
        if whole is None:
            return Taken.KNOWN if head.last_lsn < self.applied else self._deliver(definitions, [], head.last_lsn)
        assert transaction is not None
        whole.last_lsn = transaction.last_lsn
        if not whole.entries:
            raise WireError("The transaction has no entries")
        return self._deliver(definitions, [whole], head.last_lsn)

    def _add(self, parts: _Parts, body: Body, transaction: RemoteTransaction | None, size: int) -> None:
        """What a chunk brings, whose number is the next one."""
        parts.chunks += 1
        entries = [] if transaction is None else transaction.entries
        parts.size += size + ENTRY_BYTES * len(entries)
        if parts.size + body.left > self._limit:
            raise self._too_large()
        for name, part in body.definitions.items():
            parts.definitions.setdefault(name, []).append(part)
        if parts.left and (entries or not body.piece or len(body.piece) + body.left != parts.left):
            raise WireError("The next piece of an entry has to follow")
        if body.left < 0 or (body.left and not body.piece):
            raise WireError("The chunk has no piece of an entry, and says that there are more")
        if body.piece:
            parts.pieces.append(body.piece)
            parts.left = body.left
            if not body.left:
                entries = [*entries, decode_entry(b"".join(parts.pieces))]
                parts.pieces = []
        if parts.transaction is not None:
            self._share_names(parts, entries)
            if parts.chunks == 1:
                parts.transaction.entries = entries
            else:
                parts.transaction.entries += entries

    def _share_names(self, parts: _Parts, entries: list[RemoteEntry]) -> None:
        """Entries with equal lists of changed attributes have one of them: for 8 names it is larger than a record."""
        _check_entries(entries)
        for entry in entries:
            changed = entry.changed
            shared = parts.names.get(changed)
            if shared is None:
                shared = parts.names[changed] = changed
                parts.size += NAME_BYTES * len(changed)
                if parts.size > self._limit:
                    raise self._too_large()
            entry.changed = shared

    def _too_large(self) -> TransactionTooLarge:
        return TransactionTooLarge(f"A transaction is larger than {self._limit:,} bytes: the database has to be copied")


def _of_chunk(head: Head, body: Body) -> RemoteTransaction | None:
    """The transaction of which it is a part; None: definitions alone."""
    if bool(body.definitions) == bool(body.transactions) or (body.definitions and (body.piece or body.left)):
        raise WireError("The chunk has neither a transaction nor definitions, or both")
    if not body.transactions:
        return None
    transaction, *others = body.transactions
    _check_head(transaction)
    ends = transaction.last_lsn == head.last_lsn >= transaction.lsn if head.chunks else not transaction.last_lsn
    if others or not ends or transaction.lsn <= head.previous:
        raise WireError("The chunk does not have one transaction, behind the message before it")
    return transaction


def _check_same(parts: _Parts, head: Head, transaction: RemoteTransaction | None) -> None:
    """Whether a chunk belongs to those before it. Raises WireError."""
    first = parts.transaction
    if parts.previous != head.previous or _identity(first) != _identity(transaction):
        raise WireError("The chunk is of another transaction than the one before it")


def _identity(found: RemoteTransaction | None) -> tuple[object, ...] | None:
    return None if found is None else (found.lsn, found.version, found.wall_ms, found.user, found.operation, found.trace_id)


def _check_head(transaction: RemoteTransaction) -> None:
    if not (
        0 <= transaction.version < MOST_MS
        and 0 <= transaction.wall_ms < MOST_MS
        and 0 <= transaction.operation < len(OPERATIONS)
        and (transaction.trace_id is None or len(transaction.trace_id) == TRACE_ID_BYTES)
    ):
        raise WireError("The transaction is none that a node commits")


def _check_entries(entries: list[RemoteEntry]) -> None:
    for entry in entries:
        kind, value = entry.kind, entry.value
        if (
            kind not in _KINDS
            or not entry.table
            or not (entry.key or kind in NOTES)
            or (value is None if kind in _WRITES else kind == DELETE and value is not None)
            or (value is not None and not _is_framed(value))
        ):
            raise WireError("The entry is none that a node writes")


def _is_framed(value: bytes) -> bool:
    """Whether it begins as a record that is no copy of what a source has. The payload is read by those who apply it."""
    size = len(value)
    return size >= PAYLOAD_AT and (value[0] == FORMAT or (value[0] & ~_FLAGS == FORMAT and size >= payload_at(value)))
