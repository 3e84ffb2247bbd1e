"""A transaction that another node has committed, as it travels (spec: cluster)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

INCARNATION_BYTES = 8
MOST_MS = 253_402_300_800_000.0  # before which all times are: the year 10000, which dates of HTTP cannot say


class RemoteEntry(msgspec.Struct, array_like=True, gc=False):
    """One change of one record. `key`, `value`: as the log of the origin has them; the version and the LSN in the header of `value` are the origin's."""

    kind: int  # of `store.log.entries`
    table: str
    key: bytes
    value: bytes | None
    changed: tuple[str, ...] = ()
    mqtt: bytes | None = None


class RemoteTransaction(msgspec.Struct, array_like=True):
    """`lsn`, `last_lsn`: of its first and last entry in the origin's log. There may be more between them than in `entries`, which lack what is not
    replicated."""

    lsn: int
    last_lsn: int
    version: float
    wall_ms: float
    user: str | None
    operation: int
    trace_id: bytes | None
    entries: list[RemoteEntry]


def value_bytes(entries: Iterable[RemoteEntry]) -> int:
    """Of their values."""
    return sum([len(entry.value) for entry in entries if entry.value is not None])


class Origin(msgspec.Struct, frozen=True):
    """Where a transaction was committed. `incarnation`: 8 random bytes, others when a database is made or restored: LSNs count within one."""

    node: str
    incarnation: bytes
