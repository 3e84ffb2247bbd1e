"""Files of blobs whose content another node has: what records refer to, and is yet to come (spec: replication §10).

A record of another node is committed before the content of its blobs is here. Its references lead to files with numbers of our own, which need not exist yet;
where their content is stands in `$replication`, written with the record:

    b<number>              identity of the blob files there (8 bytes), number there, size (8 bytes each, big-endian; all bits set: not known), name of the node.
                           Until the file is complete, or will never be
    B<identity><number>    our number, by those that another node has: a record that comes again with the same blob gets the same file. For as long as the
                           ledger has that file, and somewhat longer
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct as Layout
from typing import NamedTuple

from svc.store.env import Handle, Txn

IDENTITY_BYTES = 8
_EXPECTED = b"b"
_LOCAL = b"B"
_NUMBER = Layout(">Q")
_REMOTE = Layout(">8sQQ")
_UNKNOWN = (1 << 64) - 1


class RemoteBlob(NamedTuple):
    """Where the content is. `size`: in bytes, None: not known."""

    node: str
    identity: bytes
    number: int
    size: int | None


class ExpectedBlobs:
    """`handle`: of the store `$replication`. `has_new`: some were added by this process since it was set to False; they may not be committed yet."""

    __slots__ = ("_handle", "has_new")

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self.has_new = False

    def expect(self, txn: Txn, number: int, remote: RemoteBlob) -> None:
        """The file of this number will have that content."""
        size = _UNKNOWN if remote.size is None else remote.size
        row = _REMOTE.pack(remote.identity, remote.number, size) + remote.node.encode()
        txn.put(_EXPECTED + _NUMBER.pack(number), row, True, True, False, self._handle)
        txn.put(_local_key(remote.identity, remote.number), _NUMBER.pack(number), True, True, False, self._handle)

    def arrived(self, txn: Txn, number: int) -> None:
        """Its file is complete, or will never be. Harmless when done."""
        txn.delete(_EXPECTED + _NUMBER.pack(number), b"", self._handle)

    def remote(self, txn: Txn, number: int) -> RemoteBlob | None:
        """None: nothing is expected for this file."""
        row = txn.get(_EXPECTED + _NUMBER.pack(number), None, self._handle)
        if row is None:
            return None
        identity, there, size = _REMOTE.unpack_from(row)
        return RemoteBlob(row[_REMOTE.size :].decode(), identity, there, None if size == _UNKNOWN else size)

    def local(self, txn: Txn, identity: bytes, number: int) -> int | None:
        """Our number of a file; None: we do not have it."""
        row = txn.get(_local_key(identity, number), None, self._handle)
        return None if row is None else _NUMBER.unpack(row)[0]

    def numbers(self, txn: Txn, after: int, limit: int) -> list[int]:
        """Files that are expected, by number, those behind `after`."""
        found: list[int] = []
        for key, _ in self._rows(txn, _EXPECTED, _EXPECTED + _NUMBER.pack(after + 1)):
            if len(found) == limit:
                break
            found.append(_NUMBER.unpack_from(key, 1)[0])
        return found

    def locals(self, txn: Txn, after: bytes, limit: int) -> list[tuple[bytes, int]]:
        """(place, our number), in the order of places, those behind `after`."""
        found: list[tuple[bytes, int]] = []
        for key, value in self._rows(txn, _LOCAL, _LOCAL + after + b"\0"):
            if len(found) == limit:
                break
            found.append((key[1:], _NUMBER.unpack(value)[0]))
        return found

    def forget(self, txn: Txn, place: bytes) -> None:
        """The ledger does not have the file any more. `place`: as `locals` gives it."""
        txn.delete(_LOCAL + place, b"", self._handle)

    def _rows(self, txn: Txn, prefix: bytes, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        cursor = txn.cursor(self._handle)
        if cursor.set_range(start):
            for key, value in cursor.iternext():
                if not key.startswith(prefix):
                    return
                yield key, value


def _local_key(identity: bytes, number: int) -> bytes:
    return _LOCAL + identity + _NUMBER.pack(number)
