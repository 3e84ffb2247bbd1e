"""A listening socket, of a port or of a path: accepts in batches, and reserves the last descriptors of the process.

A new descriptor is always the lowest that is free, so the number of an accepted socket says how many the process has open at least. When that comes
to what is reserved, the listener accepts nothing more until there is room again; new clients wait in the backlog. Connections of the
application's ports leave more than those of the operations port, and these more than the Unix socket's: even when the application is overloaded, it can
still be administered, and there are descriptors for files.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
from collections.abc import Callable, Collection
from typing import Protocol

from svc.connection.listening import ListeningSockets, bound_address
from svc.messages import UNIX_PEER

SECURE = ("https", "mqtts")  # schemes of ports with TLS

ACCEPT_BATCH = 128  # connections taken in one turn; more wait for the next, so that a flood does not stop the others' requests
LOOK_SECONDS = 0.02  # that a client of a sibling waits before it is taken here: the sibling may be busy, or gone
BACK_OFF = 0.25  # seconds until a listener tries again whether the process has descriptors and memory
WARNING_PAUSE = 1.0  # seconds between two warnings of that, of all listeners together

RESERVED_BY_APPLICATION = 96  # descriptors that connections of a kind leave to others
RESERVED_BY_OPERATIONS = 48
RESERVED_BY_SOCKET = 24
RESERVED_SHARE_MAX = 4  # with a low limit: RESERVED_BY_APPLICATION is at most a quarter of it, the others in proportion
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def peer_address(address: object) -> str:
    """The host part of a peer's address; IPv4-mapped IPv6 as plain IPv4. Peers on a Unix socket have none."""
    if not isinstance(address, tuple):
        return UNIX_PEER
    return str(address[0]).removeprefix("::ffff:")


def url_of(scheme: str, host: str, port: int) -> str:
    """
    >>> url_of("http", "::1", 9926)
    'http://[::1]:9926'
    """
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


class Acceptor(Protocol):
    """Takes accepted sockets: `Connections`, or `TlsAcceptor` on a TLS port."""

    @property
    def open(self) -> Collection[object]: ...

    def accept(self, sock: socket.socket, peer: str, scheme: str, /) -> object: ...


def last_descriptor(reserved: int) -> int:
    """The highest descriptor that a connection may have which leaves `reserved` to others, under the limit of the process as it is now."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        limit = 1 << 31
    return limit - 1 - min(reserved, limit * reserved // (RESERVED_SHARE_MAX * RESERVED_BY_APPLICATION))


def free_descriptor(sock: socket.socket) -> int:
    """The lowest that is free. `sock`: any that is open. Raises OSError."""
    probe = os.dup(sock.fileno())
    os.close(probe)
    return probe


class Listener:
    """Feeds accepted sockets of one port or path to `connections`.

    `routed(at_once)` is called for each: True if it was taken in the first turn it was seen in, False if an earlier batch left it waiting.
    """

    _warned_at = float("-inf")  # of all listeners

    def __init__(
        self,
        sockets: ListeningSockets,
        connections: Acceptor,
        loop: asyncio.AbstractEventLoop,
        routed: Callable[[bool], None],
        warn: Callable[[str], None],
        scheme: str = "http",
        *,
        reserved: int = RESERVED_BY_SOCKET,
    ) -> None:
        """`reserved`: descriptors that its connections leave to others."""
        self._sockets = sockets
        self.sock = sock = sockets.own[0]
        self._reserved = reserved
        self.path = sockets.path
        self.host = bound_address(sock) if self.path is None else ""
        self.port: int = sock.getsockname()[1] if self.path is None else 0
        self.connections = connections
        self._loop = loop
        self._routed = routed
        self._warn = warn
        self._scheme = scheme
        self._waited = False  # the last batch was full: the next connections have waited a turn
        self._listening = False
        self._pauses = False  # until there are descriptors again

    @property
    def is_secure(self) -> bool:
        return self._scheme in SECURE

    @property
    def address(self) -> str:
        """`http://127.0.0.1:9926`; the path of a Unix socket."""
        return url_of(self._scheme, self.host, self.port) if self.path is None else str(self.path)

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        return (*self._sockets.own, *self._sockets.others)

    def share(self) -> ListeningSockets:
        return self._sockets.share()

    def start(self) -> None:
        self._listening = True
        self._read()
        for sock in self._sockets.others:
            self._watch(sock)

    def _watch(self, sock: socket.socket) -> None:
        """When a client has come to a sibling's socket, look a little later whether it is still there."""
        self._loop.add_reader(sock, self._look_soon, sock)

    def _look_soon(self, sock: socket.socket) -> None:
        self._loop.remove_reader(sock)
        self._loop.call_later(LOOK_SECONDS, self._look, sock)

    def _read(self) -> None:
        self._pauses = False
        for sock in self._sockets.own:
            self._loop.add_reader(sock, self.on_acceptable, sock)

    def _look(self, sock: socket.socket) -> None:
        """Take the clients that wait for a sibling."""
        if not self._listening:
            return
        if not self._pauses:
            self.on_acceptable(sock)
        self._watch(sock)

    def on_acceptable(self, listening: socket.socket) -> None:
        last = last_descriptor(self._reserved)
        for _ in range(ACCEPT_BATCH):
            try:
                sock, address = listening.accept()
            except (BlockingIOError, InterruptedError):
                self._waited = False
                return
            except OSError as error:
                if error.errno in EXHAUSTED:
                    self._back_off(error.strerror or "out of resources")
                    return
                continue  # the peer gave up while it waited (ECONNABORTED)
            sock.setblocking(False)
            if self.path is None:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            is_last = sock.fileno() >= last
            self.connections.accept(sock, peer_address(address), self._scheme)
            self._routed(not self._waited)
            if is_last:
                self._back_off("The last descriptors are reserved")
                return
        self._waited = True

    def _back_off(self, reason: str) -> None:
        self._say(reason)
        self._waited = self._pauses = True
        for sock in self._sockets.own:
            self._loop.remove_reader(sock)
        self._loop.call_later(BACK_OFF, self._resume)

    def _say(self, reason: str) -> None:
        now = self._loop.time()
        if now - Listener._warned_at >= WARNING_PAUSE:
            Listener._warned_at = now
            where = self.path or f"port {self.port}"
            self._warn(f"{where}: {reason}; no new connections until there is room, {len(self.connections.open)} are open")

    def _resume(self) -> None:
        if not self._listening:
            return
        try:
            free = free_descriptor(self.sock)
        except OSError as error:
            reason = error.strerror or "out of resources"
        else:
            if free <= last_descriptor(self._reserved):
                self._read()
                return
            reason = "The last descriptors are reserved"
        self._say(reason)
        self._loop.call_later(BACK_OFF, self._resume)

    def stop(self) -> None:
        if self._listening:
            self._listening = False
            for sock in self.sockets:
                self._loop.remove_reader(sock)
            self.discard()

    def discard(self) -> None:
        """Close a listener that was never started."""
        self._sockets.close()
