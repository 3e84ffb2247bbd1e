"""Blobs in what another node has written, while it is applied (spec: replication §10): references to its files become references to ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from svc.store.blobs import blobs_in
from svc.store.blobs.expected import RemoteBlob

if TYPE_CHECKING:
    from svc.store.database import Database
    from svc.store.env import Txn

MAX_SIZE = 1 << 62  # bytes that a reference may claim
MOST_FILES = 10_000  # in one record


class RemoteBlobs:
    """Of one write set. `new`: numbers of files that are expected from now on, if a record refers to them at its end."""

    __slots__ = ("_database", "_known", "new")

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[tuple[bytes, int], int] = {}
        self.new: dict[int, RemoteBlob] = {}

    def take(self, txn: Txn, node: str, table: int, stored: bytes, value: Any) -> None:
        """Have the blobs in the value of an entry refer to files here. `stored`: key of the record. Raises StoreFailure if there is no directory for them."""
        files, state, ledger = self._database.blobs, self._database.replication, self._database.ledger
        assert state is not None
        for blob in blobs_in(value):
            if blob.files is None:
                continue
            assert blob.number is not None
            remote = RemoteBlob(node, blob.files.identity, blob.number, blob.size if blob.is_sized else None)
            place = remote.identity, remote.number
            number = self._known.get(place)
            if number is None:
                number = state.blobs.local(txn, *place)
                owner = None if number is None else ledger.owner(txn, number)
                if owner is None or (owner[0], owner[2]) != (table, stored):  # it is gone, or that of another record
                    number = files.reserve()
                    self.new[number] = remote
                assert number is not None
                self._known[place] = number
            blob.refer_to(files, number, remote.size)

    def write(self, txn: Txn) -> None:
        """Note what is expected."""
        state = self._database.replication
        assert state is not None
        for number, remote in self.new.items():
            if self._database.ledger.knows(txn, number):
                state.blobs.expect(txn, number, remote)
                state.blobs.has_new = True


def has_files(value: Any) -> bool:
    """Whether there are blobs in files in the value of an entry. Raises ValueError for one that claims what none can have."""
    found = [blob for blob in blobs_in(value) if blob.files is not None]
    if len(found) > MOST_FILES:
        raise ValueError("too many blobs")
    if any(blob.is_sized and not 0 <= (blob.size or 0) < MAX_SIZE for blob in found):
        raise ValueError("a blob of a size that none can have")
    return bool(found)
