"""One write that is waiting to be applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from svc.store.keys import Key
from svc.store.log import PUT
from svc.store.writes import Precondition, WriteSet

if TYPE_CHECKING:
    from svc.store.table import Table
else:
    Table = Any


class Write(msgspec.Struct, gc=False):
    """`data`: the record, the changes, or None for a delete. It takes 72 bytes, and the garbage collector need not look at it."""

    kind: int
    table: Table
    key: bytes  # encoded, whole
    id: Key | None  # the same decoded; None where nobody asks for it
    data: dict[str, Any] | None
    precondition: Precondition | None
    expires_at: float | None = None


def carry_out(write: Write, write_set: WriteSet) -> bool:
    """Write it; True if that removed a record. Raises what prevents it."""
    if write.data is None:
        return write_set.delete(write.table, write.key, write.precondition)
    if write.kind == PUT:
        write_set.put(write.table, write.key, write.data, write.precondition, write.expires_at)
    else:
        write_set.patch(write.table, write.key, write.id, write.data, write.precondition)
    return False
