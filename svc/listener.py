"""A listening socket, of a port or of a path: accepts in batches and backs off at the descriptor limit."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

from svc.messages import UNIX_PEER

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


def listen_at(path: Path) -> socket.socket:
    """A non-blocking listening socket at a path that only its owner may use; what a killed server left there is replaced. Raises OSError.

    It is bound under another name and then renamed, so that it never exists with wider permissions.
    """
    bound = path.with_name(f".{path.name[:20]}.{os.getpid()}")
    bound.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(bound))
        bound.chmod(0o600)
        sock.listen(BACKLOG)
        bound.rename(path)
    except OSError:
        sock.close()
        bound.unlink(missing_ok=True)
        raise
    sock.setblocking(False)
    return sock


def peer_address(address: object) -> str:
    """The host part of a peer's address; IPv4-mapped IPv6 as plain IPv4. Peers on a Unix socket have none."""
    if not isinstance(address, tuple):
        return UNIX_PEER
    return str(address[0]).removeprefix("::ffff:")


class Acceptor(Protocol):
    """Where accepted sockets go: `Connections`, or what stands before them on a TLS port."""

    @property
    def open(self) -> Collection[object]: ...

    def accept(self, sock: socket.socket, peer: str, scheme: str, /) -> object: ...


class Listener:
    """Feeds accepted sockets of one port or path to `connections`.

    `routed(at_once)` is told of each: True if it was taken in the first turn it was seen in, False if an earlier batch left it waiting.
    """

    def __init__(
        self,
        sock: socket.socket,
        connections: Acceptor,
        loop: asyncio.AbstractEventLoop,
        routed: Callable[[bool], None],
        warn: Callable[[str], None],
        scheme: str = "http",
        *,
        path: Path | None = None,
    ) -> None:
        """`path`: of a Unix socket, which is removed with the listener."""
        self.sock = sock
        self.path = path
        self.port: int = sock.getsockname()[1] if path is None else 0
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
            if self.path is None:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.accept(sock, peer_address(address), self._scheme)
            self._routed(not self._waited)
        self._waited = True

    def _back_off(self, error: OSError) -> None:
        self._warn(
            f"{self.path or f'port {self.port}'}: {error.strerror}; no new connections for {BACK_OFF} s, {len(self._connections.open)} are open"
        )
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
            self.discard()

    def discard(self) -> None:
        """Close what was never started."""
        self.sock.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)
