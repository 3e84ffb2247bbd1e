"""Waiting until other nodes have committed what this node has written (spec: replication §8).

    the log has it ---- published ---> the stream has it ---- confirmed by enough nodes ---> the future is done

What the log had up to an LSN is confirmed by a node that has applied the last message which was published with it: entries that are not sent, and those of
other nodes, need no confirmation. So both steps are looked at by LSN, and the entry itself does not matter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from heapq import heapify, heappop, heappush
from itertools import count as counting
from typing import Protocol

from svc.cluster.positions import OwnLog

_FEW = 64  # waits, below which it is not worth while to drop those that were given up


class ConfirmedPositions(Protocol):
    """`positions.Positions`."""

    def confirmed(self, node: str, database: str) -> int: ...


class _Waits:
    """Futures by the LSN at which each is due."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, asyncio.Future[None]]] = []
        self._numbers = counting()
        self._looked_at = _FEW

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, lsn: int, count: int, future: asyncio.Future[None]) -> None:
        heappush(self._heap, (lsn, next(self._numbers), count, future))
        if len(self._heap) > self._looked_at:  # nothing may ever come to them
            self._heap = [each for each in self._heap if not each[3].done()]
            heapify(self._heap)
            self._looked_at = max(2 * len(self._heap), _FEW)

    def due(self, lsn: int) -> list[tuple[int, asyncio.Future[None]]]:
        """(count, future) of those up to this LSN, which are forgotten; not those that were given up."""
        found = []
        while self._heap and self._heap[0][0] <= lsn:
            _, _, count, future = heappop(self._heap)
            if not future.done():
                found.append((count, future))
        return found


class _DatabaseWaits:
    def __init__(self) -> None:
        self.unpublished = _Waits()
        self.published: dict[int, _Waits] = {}  # by the number of nodes that have to confirm


class Confirmations:
    """`look` has to be called whenever more of a database is published or confirmed. Used on the thread of the loop alone."""

    def __init__(self, logs: Mapping[str, OwnLog], nodes: Collection[str], positions: ConfirmedPositions) -> None:
        """`logs`: of the own node by name of the database, `nodes`: all others that are known; both live."""
        self._logs = logs
        self._nodes = nodes
        self._positions = positions
        self._waits: dict[str, _DatabaseWaits] = {}

    async def wait(self, places: Mapping[str, int], count: int) -> None:
        """Until `count` other nodes have applied what the logs of these databases have up to these LSNs. Whoever waits gives up by being cancelled."""
        if count <= 0:
            return
        for database, lsn in places.items():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waits.setdefault(database, _DatabaseWaits()).unpublished.add(lsn, count, future)
            self.look(database)
            try:
                await future
            finally:
                future.cancel()

    def look(self, database: str) -> None:
        """More of a database may be published, or confirmed."""
        waits = self._waits.get(database)
        log = self._logs.get(database)
        if waits is None or log is None:
            return
        if log.published >= 0:
            for count, future in waits.unpublished.due(log.published):
                waits.published.setdefault(count, _Waits()).add(log.sent, count, future)
        if waits.published:
            confirmed = sorted((self._positions.confirmed(node, database) for node in self._nodes), reverse=True)
            for count, published in list(waits.published.items()):
                if count <= len(confirmed):
                    for _, future in published.due(confirmed[count - 1]):
                        future.set_result(None)
                if not published:
                    del waits.published[count]
        if not waits.unpublished and not waits.published:
            del self._waits[database]
