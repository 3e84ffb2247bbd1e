"""Connections that code of an application serves with asyncio's streams, beside those of HTTP (spec: http §12.4).

`listener(reader, writer)` runs for each connection, in a task if it is async; then the connection is closed when it returns.
"""

from __future__ import annotations

import asyncio
import inspect
import socket
import ssl
from collections.abc import Callable
from typing import Any

from svc.loop import contained

HANDSHAKE_SECONDS = 10.0  # of TLS


class StreamConnections:
    """The `Acceptor` of one server: its connections. `make_context`: the TLS context for a handshake that begins now; None: plain."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any],
        log_error: Callable[[str, BaseException | None], None],
        make_context: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._log_error = log_error
        self._make_context = make_context
        self._tasks: set[asyncio.Task[None]] = set()
        self.open: set[asyncio.StreamWriter] = set()
        self.count = 0  # of all that were accepted

    def accept(self, sock: socket.socket, peer: str, scheme: str, /) -> None:
        self.count += 1
        task = self._loop.create_task(self._serve(sock, peer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, sock: socket.socket, peer: str) -> None:
        context = None if self._make_context is None else self._make_context()
        reader = asyncio.StreamReader(loop=self._loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self._loop)
        try:
            transport, _ = await self._loop.connect_accepted_socket(
                lambda: protocol, sock, ssl=context, ssl_handshake_timeout=None if context is None else HANDSHAKE_SECONDS
            )
        except (OSError, asyncio.CancelledError):  # also of TLS: not a client of this protocol
            sock.close()
            return
        writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
        self.open.add(writer)
        try:
            await self._listen(reader, writer, peer)
            await writer.wait_closed()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            self.open.discard(writer)

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: str) -> None:
        """Run the listener. What it writes to is closed when it is done; a plain one goes on by itself."""
        try:
            result = self._listener(reader, writer)
            if not inspect.isawaitable(result):
                return
            await result
        except ConnectionError:
            pass  # the peer has gone
        except BaseException as error:
            self._log_error(f"a listener of connections, which served {peer}", contained(error))
        writer.close()

    def close_all(self) -> None:
        """End all connections and their listeners."""
        for task in list(self._tasks):
            task.cancel()
        for writer in list(self.open):
            writer.transport.abort()
