"""A connection that an upgrade listener of an application has taken: bytes in both directions, like asyncio streams (architecture §11)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from svc.messages import Tunnel
    from svc.websocket.registry import WebSocketRegistry

READ_AHEAD = 256 * 1024  # bytes waiting to be read above which the peer is not read
HIGH_WATER = 256 * 1024  # bytes unsent at which `drain` waits


class RawSocket:
    """The first read, write or close takes the connection. svc has written nothing to it: the listener sends the answer to the request too."""

    def __init__(self, shared: WebSocketRegistry, peer: str) -> None:
        self.peer = peer
        self.on_use: Callable[[], None] | None = None
        self._shared = shared
        # Used by the receiver:
        self.tunnel: Tunnel | None = None
        self.early: list[bytes] = []  # written before the tunnel was there
        self.incoming = bytearray()
        self.is_at_end = False  # the peer's half
        self.is_paused = False
        self.closing = False
        self.is_gone = False
        self._waiters: list[asyncio.Future[None]] = []

    # --- for the listener --------------------------------------------------------------------------------------------------------------

    async def read(self, most: int = -1) -> bytes:
        """At least one byte and at most `most` bytes; b"" at the end."""
        self._use()
        if most == 0:
            return b""
        while not self.incoming:
            if self.is_at_end or self.is_gone:
                return b""
            await self._changed()
        size = len(self.incoming) if most < 0 else most
        data = bytes(self.incoming[:size])
        del self.incoming[:size]
        if self.is_paused and len(self.incoming) < READ_AHEAD and self.tunnel is not None:
            self.is_paused = False
            self.tunnel.resume_reading()
        return data

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send; `drain` waits for it. After the end: does nothing."""
        self._use()
        if self.closing or self.is_gone:
            return
        if self.tunnel is None:
            self.early.append(bytes(data))
        else:
            self.tunnel.write(bytes(data))

    async def drain(self) -> None:
        """Wait until there is room for more. Raises ConnectionResetError if the connection is gone."""
        self._use()
        while not self.is_gone and (self.tunnel is None or self.tunnel.pending > HIGH_WATER):
            await self._changed()
        if self.is_gone:
            raise ConnectionResetError("the connection is gone")

    def close(self) -> None:
        """Send what was written, and end the connection."""
        self._use()
        if not self.closing:
            self.closing = True
            if self.tunnel is not None:
                self.tunnel.close()

    def is_closing(self) -> bool:
        return self.closing or self.is_gone

    async def wait_closed(self) -> None:
        while not self.is_gone:
            await self._changed()

    def _use(self) -> None:
        if self.on_use is not None:
            on_use, self.on_use = self.on_use, None
            on_use()

    async def _changed(self) -> None:
        waiter = self._shared.loop.create_future()
        self._waiters.append(waiter)
        await waiter

    def wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        if waiters:
            self._shared.wake()


class RawReceiver:
    """The `tunnel.Receiver` of a raw socket. It has no timeout: that is up to the listener."""

    def __init__(self, socket: RawSocket) -> None:
        self._socket = socket

    def start(self, tunnel: Tunnel) -> None:
        socket = self._socket
        socket.tunnel = tunnel
        early, socket.early = socket.early, []
        for data in early:
            tunnel.write(data)
        if socket.closing:
            tunnel.close()
        socket.wake()

    def on_data(self, data: bytes) -> None:
        socket = self._socket
        socket.incoming += data
        if len(socket.incoming) >= READ_AHEAD and not socket.is_paused and socket.tunnel is not None:
            socket.is_paused = True
            socket.tunnel.pause_reading()
        socket.wake()

    def on_eof(self) -> None:
        self._socket.is_at_end = True
        self._socket.wake()

    def on_sent(self) -> None:
        self._socket.wake()

    def on_closed(self) -> None:
        self._socket.is_gone = True
        self._socket.wake()

    def sweep(self, now: float) -> None:
        pass

    def drain(self, is_replaced: bool = False) -> None:
        self._socket.close()

    def login_ended(self) -> None:
        self._socket.close()
