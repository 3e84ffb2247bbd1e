"""A listening socket: accepts in batches and backs off at the descriptor limit."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable

from svc.connection import Connections

ACCEPT_BATCH = 64  # connections taken in one turn; more wait for the next, so that a flood does not stop the others' requests
BACKLOG = 1024
BACK_OFF = 0.25  # seconds without accepting after the process ran out of descriptors or memory
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def listen_on(port: int, host: str | None = None) -> socket.socket:
    """A non-blocking listening socket on `host`, default every address, IPv6 and IPv4 in one where the system can. Raises OSError."""
    if host is None:
        if socket.has_dualstack_ipv6():
            try:
                sock = socket.create_server(("", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise
                sock = socket.create_server(("", port), backlog=BACKLOG)  # IPv6 is compiled in but switched off
        else:
            sock = socket.create_server(("", port), backlog=BACKLOG)
    else:
        sock = socket.create_server((host, port), backlog=BACKLOG)
    sock.setblocking(False)
    return sock


def peer_address(address: object) -> str:
    """The host part of a peer's address; IPv4-mapped IPv6 as plain IPv4."""
    host = address[0] if isinstance(address, tuple) else str(address)
    return str(host).removeprefix("::ffff:")


class Listener:
    """Feeds accepted sockets of one port to `connections`.

    `routed(at_once)` is told of each: True if it was taken in the first turn it was seen in, False if an earlier batch left it waiting.
    """

    def __init__(
        self,
        sock: socket.socket,
        connections: Connections,
        loop: asyncio.AbstractEventLoop,
        routed: Callable[[bool], None],
        warn: Callable[[str], None],
        scheme: str = "http",
    ) -> None:
        self.sock = sock
        self.port: int = sock.getsockname()[1]
        self._connections = connections
        self._loop = loop
        self._routed = routed
        self._warn = warn
        self._scheme = scheme
        self._waited = False  # the last batch was full: what comes next has waited a turn
        self._listening = False

    def start(self) -> None:
        self._listening = True
        self._loop.add_reader(self.sock, self.on_acceptable)

    def on_acceptable(self) -> None:
        for _ in range(ACCEPT_BATCH):
            try:
                sock, address = self.sock.accept()
            except (BlockingIOError, InterruptedError):
                self._waited = False
                return
            except OSError as error:
                if error.errno in EXHAUSTED:
                    self._back_off(error)
                    return
                continue  # the peer gave up while it waited (ECONNABORTED)
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.accept(sock, peer_address(address), self._scheme)
            self._routed(not self._waited)
        self._waited = True

    def _back_off(self, error: OSError) -> None:
        self._warn(f"port {self.port}: {error.strerror}; no new connections for {BACK_OFF} s, {len(self._connections.open)} are open")
        self._waited = True
        self._loop.remove_reader(self.sock)
        self._loop.call_later(BACK_OFF, self._resume)

    def _resume(self) -> None:
        if self._listening:
            self._loop.add_reader(self.sock, self.on_acceptable)

    def stop(self) -> None:
        if self._listening:
            self._listening = False
            self._loop.remove_reader(self.sock)
            self.sock.close()
