"""Writes that wait to be applied, one by one as they were asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from svc.store.keys import Key
from svc.store.log import DELETE, PUT
from svc.store.writes import Precondition, WriteSet

if TYPE_CHECKING:
    from svc.store.slices import Slices
    from svc.store.table import Table
else:
    Table = Any


INSERT, UPDATE = 101, 102  # a put of what is not there, a patch of what is; else nothing happens. The log knows them as PUT and PATCH
_CONDITIONAL = frozenset((INSERT, UPDATE))
_WHOLE = frozenset((PUT, INSERT))


class Write(msgspec.Struct, gc=False):
    """`data`: the record, the changes, or None for what has neither. It takes 80 bytes, and the garbage collector need not look at it."""

    kind: int  # PUT, PATCH, DELETE, MESSAGE, INVALIDATE, INSERT, UPDATE
    table: Table
    key: bytes  # encoded, whole
    id: Key | None  # the same decoded; None where nobody asks for it
    data: dict[str, Any] | None
    precondition: Precondition | None
    expires_at: float | None = None
    payload: bytes | None = None  # of a message

    @property
    def adds(self) -> bool:
        """Whether it may store something new."""
        return self.data is not None or self.payload is not None


def carry_out(write: Write, write_set: WriteSet) -> bool:
    """Write it; True if that removed a record. What finds nothing to do is noted in `write_set.skipped`. Raises what prevents it."""
    kind, table, key, data = write.kind, write.table, write.key, write.data
    if data is None:
        if kind != DELETE:
            write_set.note(table, kind, key, write.payload)
        elif write_set.delete(table, key, write.precondition):
            return True
        elif write.id is not None:
            write_set.skipped.append(write.id)
    elif kind in _CONDITIONAL and write_set.has(table, key) is (kind == INSERT):
        assert write.id is not None
        write_set.skipped.append(write.id)
    elif kind in _WHOLE:
        write_set.put(table, key, data, write.precondition, write.expires_at)
    else:
        write_set.patch(table, key, write.id, data, write.precondition, write.expires_at)
    return False


class WriteList:
    """The work of a long write (`long_write.Work`): these writes, all of one database. `deleted`: records that were removed."""

    def __init__(self, writes: list[Write]) -> None:
        self._writes = writes
        self.database = writes[0].table.database
        self.size = len(writes)
        self.adds = any(write.adds for write in writes)
        self.deleted = 0

    def steps(self, write_set: WriteSet) -> Iterator[None]:
        self.deleted = 0
        for write in self._writes:
            self.deleted += carry_out(write, write_set)
            yield

    def forget(self, slices: Slices) -> None:
        slices.discard(self._writes)
