"""One other node: the connection to its engine, and what is read over it (spec: replication §6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from svc.cluster.client import Connection, Unavailable
from svc.cluster.definitions import DEFINITIONS, read_definitions, request_definitions
from svc.cluster.exchange import Tables
from svc.cluster.inbox import Inbox, Reader
from svc.cluster.link import Link, cancelled
from svc.cluster.names import stream_name
from svc.cluster.pieces import RequestRefused
from svc.cluster.reader import End, Lost, StreamReader
from svc.cluster.requests import ask_node, ask_node_series, tell_node
from svc.errors import StoreFailure
from svc.logs import Logger
from svc.store.database import Database

_DEFINITION_SECONDS = 30.0


class Peer:
    """`name`: of the node. `inboxes`: by name of the database. `on_connected`: called whenever there is a connection; `on_applied`: with the name of a database
    when more of what the node has written to it is applied; `on_received`: with that and the bytes of each message. Used on the thread of the loop alone."""

    def __init__(
        self,
        name: str,
        own_name: str,
        connect: Callable[[], Awaitable[Connection]],
        log: Logger,
        on_needs_copy: Callable[[str, str], object] = lambda database, node: None,
    ) -> None:
        """`connect`: to the node's engine. Raises ConnectFailed. `on_needs_copy`: called with the names of a database of which something is missing, and of the
        node."""
        self.name = name
        self._own_name = own_name
        self._on_needs_copy = on_needs_copy
        self.inboxes: dict[str, Inbox] = {}
        self.on_connected: Callable[[], None] = lambda: None
        self.on_applied: Callable[[str], None] = lambda database: None
        self.on_received: Callable[[str, int], None] = lambda database, size: None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._up = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.link = Link(f"the engine of {name}", connect, log, on_up=self._connected, on_down=self._lost)

    def start(self) -> None:
        self.link.start()

    async def close(self) -> None:
        for name in list(self.inboxes):
            await self.remove(name)
        await self.link.close()

    def add(self, database: Database, tables: Tables = None, since_ms: float = 0.0) -> None:
        """Read what it writes to this database, or to these of its tables, from this time on. Raises ValueError for names that no stream can have."""
        name = stream_name(database.name, self.name)
        inbox = Inbox(
            database,
            self.name,
            name,
            self._reader_of(name),
            partial(self._fetch_definitions, database.name),
            partial(self._on_needs_copy, database.name, self.name),
        )
        inbox.tables, inbox.since_ms = tables, since_ms
        inbox.on_applied = lambda: self.on_applied(database.name)
        inbox.on_received = lambda size: self.on_received(database.name, size)
        self.inboxes[database.name] = inbox
        self._tasks[database.name] = _spawn(inbox.run())

    async def remove(self, database: str) -> None:
        """Harmless when done."""
        self.inboxes.pop(database, None)
        task = self._tasks.pop(database, None)
        if task is not None:
            await cancelled(task)

    # --- requests ----------------------------------------------------------------------------------------------------------------------

    async def ask(self, kind: str, data: bytes, *, seconds: float) -> bytes:
        """Its answer. `seconds`: for each message. Raises RequestRefused, Unavailable."""
        return await ask_node(self._connection(), self._own_name, self.name, kind, data, seconds=seconds)

    def ask_series(self, kind: str, requests: Callable[[int], bytes], *, seconds: float) -> AsyncIterator[bytes]:
        """As `pieces.ask_series`. Raises Unavailable at once too."""
        return ask_node_series(self._connection(), self._own_name, self.name, kind, requests, seconds=seconds)

    async def tell(self, kind: str, data: bytes) -> None:
        """Raises Unavailable."""
        await tell_node(self._connection(), self._own_name, self.name, kind, data)

    async def ping(self) -> float:
        """Seconds to its engine and back. Raises Unavailable."""
        return await self._connection().latency()

    @property
    def is_connected(self) -> bool:
        return self.link.connection is not None

    @property
    def logs(self) -> Mapping[str, Inbox]:
        return self.inboxes

    def _connection(self) -> Connection:
        connection = self.link.connection
        if connection is None:
            raise Unavailable(self.link.fault or "it is not connected")
        return connection

    # --- the connection ----------------------------------------------------------------------------------------------------------------

    async def _connected(self, connection: Connection) -> None:
        self._loop.call_soon(self._set_up)  # the link has it by then

    def _set_up(self) -> None:
        if self.link.connection is not None:
            self._up.set()
            self.on_connected()

    def _lost(self, reason: str) -> None:
        self._up.clear()

    def _reader_of(self, stream: str) -> Callable[[int, str | None], Coroutine[Any, Any, Reader | End]]:
        async def open_reader(start: int, created: str | None) -> Reader | End:
            await self._up.wait()
            connection = self.link.connection
            if connection is None:
                return Lost(self.link.fault)
            return await StreamReader.open(connection, stream, start, created=created)

        return open_reader

    async def _fetch_definitions(self, database: str, names: tuple[str, ...]) -> Mapping[str, bytes]:
        try:
            return read_definitions(await self.ask(DEFINITIONS, request_definitions(database, names), seconds=_DEFINITION_SECONDS))
        except (RequestRefused, Unavailable) as error:
            raise StoreFailure(f"There is no table {', '.join(names)}, and its definition cannot be had: {error}") from None


def _spawn(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(work)
