"""What a database knows of the other nodes that take part in it: the store `$replication` (spec: replication).

It is made when replication is switched on for the database (`Database.enable_replication`), which the row `replication` of the definitions tells all
processes; a database without it has neither. Each row is written in the transaction of the records that it speaks of, so what was applied and how far it was
applied never differ:

    incarnation             8 random bytes, others when the database is restored: LSNs of its log count within one
    former                  if the database was restored: the incarnation before, and the LSN up to which its log is ours
    clock                   the highest version that the versions of this node have to exceed, and the highest of all that were applied: two doubles.
                            They differ once a node has sent versions far ahead of the time here
    published               LSN up to which the log was given to the engine
    o<incarnation><node>    LSN up to which the log of that node was applied, in that incarnation of its database
    h<incarnation><node>    LSN up to which messages of that node have come, if that is behind what of its log is applied: records were replaced by those of a
                            node that had applied less
    n<number>               a table that was dropped, and whose entries in the log are not for other nodes
    s<stream>               where reading of a stream goes on: what tells it from one of the same name that was made later, and the sequence
                            number. No more than a hint: the LSNs decide what is applied
    copying                 while records are replaced by those of another node (`writing.copy_apply`): how far that has come, as it says itself. Until it has
                            ended the database is a mixture, and positions do not hold for all of it
    copied                  LSN of our log up to which a node had it, of which a copy was taken. None that has less of it is copied later: what came back
                            with the first one would be missing

All numbers are of 64 bits, big-endian.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import urandom
from struct import Struct as Layout
from typing import TYPE_CHECKING

from svc.store.blobs.expected import ExpectedBlobs
from svc.store.writing.remote_transaction import INCARNATION_BYTES, Origin

if TYPE_CHECKING:
    from svc.store.env import Handle, Txn

_INCARNATION = b"incarnation"
_FORMER = b"former"
_CLOCK = b"clock"
_PUBLISHED = b"published"
_ORIGIN = b"o"
_HEARD = b"h"
_LEFT_OUT = b"n"
_STREAM = b"s"
_COPYING = b"copying"
_COPIED = b"copied"
_NUMBER = Layout(">Q")
_TIMES = Layout(">dd")
_NO_VERSION = _TIMES.pack(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class StreamHint:
    """The last message of a stream that was applied. `created`: text that tells streams of one name apart."""

    created: str
    sequence: int


class ReplicationState:
    """The rows of one database. What is read is as of the transaction that is given; what is written is part of it. `blobs`: rows of files that are
    yet to come."""

    __slots__ = ("_handle", "blobs")

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self.blobs = ExpectedBlobs(handle)

    def incarnation(self, txn: Txn) -> bytes:
        """Of this database."""
        return txn.get(_INCARNATION, b"", self._handle)

    def renew_incarnation(self, txn: Txn, newest: int = 0) -> bytes:
        """The log goes on from here as that of another database: it was restored, or is a copy. `newest`: LSN of the newest entry now."""
        made, before = urandom(INCARNATION_BYTES), self.incarnation(txn)
        if before:
            self._put(txn, _FORMER, before + _NUMBER.pack(newest))
        self._put(txn, _INCARNATION, made)
        return made

    def former(self, txn: Txn) -> tuple[bytes, int] | None:
        """(incarnation before this one, LSN up to which its log is ours); None: the database was not restored."""
        row = txn.get(_FORMER, None, self._handle)
        return None if row is None else (row[:INCARNATION_BYTES], _NUMBER.unpack_from(row, INCARNATION_BYTES)[0])

    def applied(self, txn: Txn, origin: Origin) -> int:
        """LSN up to which what the origin has committed was applied; 0: nothing was."""
        return self._number(txn, _origin_key(origin))

    def set_applied(self, txn: Txn, origin: Origin, lsn: int) -> None:
        self._put(txn, _origin_key(origin), _NUMBER.pack(lsn))

    def heard(self, txn: Txn, origin: Origin) -> int:
        """LSN up to which messages of the origin have come, however far its records are applied; 0: as far as these."""
        return self._number(txn, _HEARD + _origin_key(origin)[1:])

    def all_applied(self, txn: Txn) -> dict[Origin, int]:
        return {
            Origin(key[1 + INCARNATION_BYTES :].decode(), key[1 : 1 + INCARNATION_BYTES]): _NUMBER.unpack(value)[0]
            for key, value in self._rows(txn, _ORIGIN)
        }

    def published(self, txn: Txn) -> int:
        """LSN up to which our log was given to the engine."""
        return self._number(txn, _PUBLISHED)

    def set_published(self, txn: Txn, lsn: int) -> None:
        self._put(txn, _PUBLISHED, _NUMBER.pack(lsn))

    def hint(self, txn: Txn, stream: str) -> StreamHint | None:
        """None: nothing of the stream was applied, as far as is known."""
        row = txn.get(_STREAM + stream.encode(), None, self._handle)
        return None if row is None else StreamHint(row[_NUMBER.size :].decode(), _NUMBER.unpack_from(row)[0])

    def set_hint(self, txn: Txn, stream: str, hint: StreamHint) -> None:
        self._put(txn, _STREAM + stream.encode(), _NUMBER.pack(hint.sequence) + hint.created.encode())

    def leave_out(self, txn: Txn, table_number: int) -> None:
        """What the log has of this table, which is about to be dropped, is not for other nodes."""
        self._put(txn, _LEFT_OUT + _NUMBER.pack(table_number), b"")

    def left_out(self, txn: Txn) -> set[int]:
        """Numbers of tables."""
        return {_NUMBER.unpack_from(key, 1)[0] for key, _ in self._rows(txn, _LEFT_OUT)}

    def all_hints(self, txn: Txn) -> dict[str, StreamHint]:
        """By name of the stream."""
        return {
            key[1:].decode(): StreamHint(row[_NUMBER.size :].decode(), _NUMBER.unpack_from(row)[0]) for key, row in self._rows(txn, _STREAM)
        }

    def copying(self, txn: Txn) -> bytes:
        """b"": no copy is under way."""
        return txn.get(_COPYING, b"", self._handle)

    def set_copying(self, txn: Txn, progress: bytes) -> None:
        self._put(txn, _COPYING, progress)

    def copied(self, txn: Txn) -> int:
        return self._number(txn, _COPIED)

    def end_copying(self, txn: Txn, applied: Mapping[Origin, int], hints: Mapping[str, StreamHint], copied: int) -> None:
        """The database is what another node had: so its positions are those of that node, all of them. What has come as a message does not come again."""
        for origin, lsn in self.all_applied(txn).items():
            if lsn > max(applied.get(origin, 0), self.heard(txn, origin)):
                self._put(txn, _HEARD + _origin_key(origin)[1:], _NUMBER.pack(lsn))
        for prefix in (_ORIGIN, _STREAM):
            for key in [key for key, _ in self._rows(txn, prefix)]:
                txn.delete(key, b"", self._handle)
        for origin, lsn in applied.items():
            self.set_applied(txn, origin, lsn)
        for stream, hint in hints.items():
            self.set_hint(txn, stream, hint)
        self._put(txn, _COPIED, _NUMBER.pack(copied))
        txn.delete(_COPYING, b"", self._handle)

    def clock(self, txn: Txn) -> tuple[float, float]:
        """(version that those of this node have to exceed, highest version that was applied), 0.0: none was."""
        return _TIMES.unpack(txn.get(_CLOCK, _NO_VERSION, self._handle))

    def set_clock(self, txn: Txn, version: float, highest: float) -> None:
        self._put(txn, _CLOCK, _TIMES.pack(version, highest))

    def _number(self, txn: Txn, key: bytes) -> int:
        row = txn.get(key, None, self._handle)
        return 0 if row is None else _NUMBER.unpack(row)[0]

    def _put(self, txn: Txn, key: bytes, value: bytes) -> None:
        txn.put(key, value, True, True, False, self._handle)

    def _rows(self, txn: Txn, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        cursor = txn.cursor(self._handle)
        if cursor.set_range(prefix):
            for key, value in cursor.iternext():
                if not key.startswith(prefix):
                    return
                yield key, value


def _origin_key(origin: Origin) -> bytes:
    assert len(origin.incarnation) == INCARNATION_BYTES
    return _ORIGIN + origin.incarnation + origin.node.encode()
