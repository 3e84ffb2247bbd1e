"""Waiting for the commits of other nodes, in whichever process of this node (spec: replication §8): the one that replicates is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from svc.clock import Clock
from svc.errors import ServerError
from svc.siblings import Siblings
from svc.store import Store
from svc.store.system import NODE_TABLE, SYSTEM
from svc.store.values.records import decode

if TYPE_CHECKING:
    from svc.cluster.confirmation import Confirmations

_TOPIC = "replication.confirm"
_PAUSE = 0.2  # seconds until the others are asked again, while none of them replicates
_MARGIN = 1.0  # seconds that the answer of a sibling may take


class NotConfirmed(ServerError):
    """Written and on disk here, and not confirmed by as many other nodes as was asked for."""

    status_code = 504
    code = "NOT_CONFIRMED"


class RemoteCommits:
    """A `turn.RemoteCommits`. `seconds`: for how long it waits."""

    def __init__(
        self,
        store: Store,
        siblings: Siblings,
        clock: Clock,
        node: str,
        seconds: float,
        is_replicated: Callable[[str], bool],
        own: Callable[[], Confirmations | None],
    ) -> None:
        """`node`: the own name. `own`: of this process, None: it does not replicate."""
        self._store = store
        self._siblings = siblings
        self._now = clock.monotonic
        self._node = node
        self._seconds = seconds
        self._is_replicated = is_replicated
        self._own = own
        siblings.answer(_TOPIC, self._answer)

    def count_nodes(self) -> int:
        database = self._store.databases[SYSTEM]
        return sum(decode(raw)["name"] != self._node for _, raw in database.tables[NODE_TABLE].scan(database.snapshot()))

    async def wait(self, databases: Iterable[str] | None, count: int) -> None:
        found = self._store.databases
        names = [name for name in (found if databases is None else databases) if name in found and self._is_replicated(name)]
        places = {name: found[name].log.newest_lsn(found[name].snapshot()) for name in names}
        end = self._now() + self._seconds
        while not await self._are_reached(places, count, end - self._now()):
            if self._now() >= end:
                raise NotConfirmed(
                    f"Written here, and not confirmed by {count} other node{'s' if count > 1 else ''} within {self._seconds:g} s"
                )
            await asyncio.sleep(min(_PAUSE, max(end - self._now(), 0.0)))

    async def _are_reached(self, places: Mapping[str, int], count: int, seconds: float) -> bool:
        if not places:
            return True
        own = self._own()
        if own is not None:
            return await _wait(own, places, count, seconds)
        answers = await self._siblings.ask(_TOPIC, [dict(places), count, seconds], max(seconds, 0.0) + _MARGIN)
        return any(answer.error is None and answer.value is True for answer in answers)

    async def _answer(self, value: Any) -> bool:
        """What a sibling asks."""
        places, count, seconds = value
        own = self._own()
        return own is not None and await _wait(own, places, count, seconds)


async def _wait(own: Confirmations, places: Mapping[str, int], count: int, seconds: float) -> bool:
    try:
        async with asyncio.timeout(max(seconds, 0.0)):
            await own.wait(places, count)
    except TimeoutError:
        return False
    return True
