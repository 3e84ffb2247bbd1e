"""The figures that are made of the log, kept: of the entries of each table, and of its last write (`counts`, `last_writes`).

Each entry has to be read once for them. Background work does that as entries come, and stores every LAG entries what it has found; so no request reads a
long log, and neither does the first one after a restart. One row of the definitions:

    figures     MessagePack: generation of the definitions, `counts` (see `EntryCounts.state`), `last_writes` (see `LastWrites.state`)

Counts hold for one generation of the definitions, since entries that are removed on demand raise it; the last writes stay what they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from svc.store.definitions import FIGURES_KEY

if TYPE_CHECKING:
    from svc.store.env import Environment, Handle
    from svc.store.log.last_writes import LastWrites, Records
    from svc.store.log.transaction_log import TransactionLog

LAG = 10_000  # entries that came since the figures were stored


_Row = tuple[int, tuple[int, int, dict[int, dict[int, int]]], tuple[int, dict[int, float]]]


class LogFigures:
    """Those of one database."""

    def __init__(
        self, env: Environment, definitions: Handle, log: TransactionLog, last_writes: LastWrites, tables: Mapping[str, Records]
    ) -> None:
        """`tables`: those of the database, live."""
        self._env = env
        self._definitions = definitions
        self._counts = log.counts
        self._last_writes = last_writes
        self._tables = tables
        self._saved = 0  # LSN up to which they are stored

    def restore(self, generation: int) -> None:
        """Take over what is stored. `generation`: of the definitions."""
        raw = self._env.snapshot().get(FIGURES_KEY, None, self._definitions)
        if raw is None:
            return
        try:
            stored, counts, last_writes = msgspec.msgpack.decode(raw, type=_Row)
        except msgspec.MsgspecError:
            return  # of another version: they are made again
        if stored == generation:
            self._counts.restore(counts)
        self._last_writes.restore(last_writes)
        self._saved = last_writes[0]

    def steps(self) -> Iterator[None]:
        """Bring them up to date, in steps of less than a millisecond."""
        yield from self._counts.catch_up_all()
        yield from self._last_writes.complete(list(self._tables.values()))

    def to_save(self, generation: int) -> bytes | None:
        """What is to be stored; None: that is near enough, or not all is known. `generation`: of the definitions."""
        last_writes = self._last_writes.state(frozenset(table.number for table in self._tables.values()))
        if last_writes is None or last_writes[0] - self._saved < LAG:
            return None
        return msgspec.msgpack.encode((generation, self._counts.state(), last_writes))

    def saved(self) -> None:
        """It is on the disk."""
        self._saved = self._last_writes.end
