"""An engine that runs elsewhere in the place of an own one (spec: replication-engine §5): nothing is started, and all nodes connect to it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

from svc.cluster.client import Address, ConnectFailed, Connection, Credentials
from svc.cluster.identity import Trust
from svc.cluster.link import Link
from svc.logs import Logger


@dataclass(frozen=True, slots=True)
class ExternalServers:
    """`addresses`: of the servers of one engine, at least one. `replicas`: of each stream."""

    addresses: tuple[Address, ...]
    credentials: Credentials | None = None
    replicas: int = 1

    async def connect(self, name: str, inbox: str) -> Connection:
        """To any of them. `name`: shown there. `inbox`: the start of the subjects of answers. Raises ConnectFailed."""
        faults = []
        for address in random.sample(self.addresses, len(self.addresses)):
            try:
                return await Connection.open(address, name, inbox, credentials=self.credentials)
            except ConnectFailed as error:
                faults.append(f"{address.url}: {error}")
        raise ConnectFailed("; ".join(faults))


class ExternalEngine:
    """What `replication.Replication` needs of an engine. `refused`: nobody is refused by this node. Used on the thread of the loop alone."""

    refused = 0

    def __init__(
        self,
        servers: ExternalServers,
        name: str,
        inbox: str,
        log: Logger,
        *,
        on_up: Callable[[Connection], None],
        on_down: Callable[[str], None],
    ) -> None:
        """`on_up`: called with each new connection, `on_down` when it is gone."""
        self._loop = asyncio.get_running_loop()
        self._on_up = on_up
        self._link = Link("the engine", lambda: servers.connect(name, inbox), log, on_up=self._connected, on_down=on_down)
        self._stopping: asyncio.Task[None] | None = None

    @property
    def connection(self) -> Connection | None:
        """None while there is none."""
        return self._link.connection

    @property
    def fault(self) -> str:
        """Why there is no connection; "" while there is one."""
        return self._link.fault

    def start(self) -> None:
        """Harmless when done."""
        self._link.start()

    def stop(self) -> None:
        """End the connection, see `wait_stopped`."""
        if self._stopping is None:
            self._stopping = self._loop.create_task(self._link.close())

    async def wait_stopped(self) -> None:
        if self._stopping is not None:
            await asyncio.wait((self._stopping,))

    def set_trust(self, trust: Trust) -> None:
        """Who may connect there is up to whoever runs it."""

    def restart(self, reason: str) -> bool:
        """Not by us."""
        return False

    async def _connected(self, connection: Connection) -> None:
        self._loop.call_soon(self._told)  # the link has it by then

    def _told(self) -> None:
        if self._link.connection is not None:
            self._on_up(self._link.connection)
