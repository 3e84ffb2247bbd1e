"""The network between the nodes: a proxy in front of each engine, which can be cut off from the others."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.ports import free_port

CHUNK = 1 << 16
REFUSES, IS_SILENT = "refuses", "is silent"


@dataclass
class _Way:
    """To one node. `cut`: how it is cut off, with all who come from it too."""

    port: int
    target: int
    cut: str = ""
    open: dict[asyncio.Task[None], str] = field(default_factory=dict)  # connections, with the name of the node that they come from


class Network:
    """`sender_of(port)`: the name of the node that has connected from this port; None: it has gone."""

    def __init__(self, sender_of: Callable[[int], str | None]) -> None:
        self._sender_of = sender_of
        self._ways: dict[str, _Way] = {}
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._changed = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def add(self, node: str, target: int) -> int:
        """The port under which others reach the engine that listens on port `target`."""
        way = self._ways[node] = _Way(free_port(), target)
        asyncio.run_coroutine_threadsafe(self._listen(node, way), self._loop).result()
        return way.port

    def cut(self, node: str, how: str) -> None:
        """Cut a node off in both directions, until `heal`. REFUSES: connections end, and there are no new ones. IS_SILENT: nothing comes through."""
        self._loop.call_soon_threadsafe(self._set, node, how)

    def heal(self) -> None:
        for node in self._ways:
            self._loop.call_soon_threadsafe(self._set, node, "")

    def close(self) -> None:
        """Harmless when done."""
        if not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    # --- on the thread of the network --------------------------------------------------------------------------------------------------

    def _set(self, node: str, how: str) -> None:
        self._ways[node].cut = how
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        if how == REFUSES:
            for name, way in self._ways.items():
                for task, sender in way.open.items():
                    if node in (name, sender):
                        task.cancel()

    async def _listen(self, node: str, way: _Way) -> None:
        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                with contextlib.suppress(OSError, asyncio.CancelledError):
                    await self._connect(node, way, reader, writer)
            finally:
                writer.transport.abort()

        self._servers.append(await asyncio.start_server(take, "127.0.0.1", way.port))

    async def _connect(self, node: str, way: _Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry what the two ends say, until one of them ends."""
        sender = await asyncio.to_thread(self._sender_of, writer.get_extra_info("peername")[1])
        if sender is None or REFUSES in (self._cut(node), self._cut(sender)):
            return
        task = asyncio.current_task()
        assert task is not None
        way.open[task] = sender
        try:
            there, to_there = await asyncio.open_connection("127.0.0.1", way.target)
            pumps = [self._loop.create_task(self._pump(*ends, node, sender)) for ends in ((reader, to_there), (there, writer))]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                to_there.transport.abort()
                for pump in pumps:
                    pump.cancel()
        finally:
            del way.open[task]

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(3):
            await asyncio.sleep(0)  # until the sockets are closed
        await self._loop.shutdown_default_executor()

    def _cut(self, node: str) -> str:
        return self._ways[node].cut

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node: str, sender: str) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                while IS_SILENT in (self._cut(node), self._cut(sender)):
                    await self._changed.wait()
                writer.write(data)
                await writer.drain()
