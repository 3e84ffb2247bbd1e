"""Listening sockets: of a port at one address or several, of a path (spec: configuration §2.2)."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from svc.config.addresses import EVERY_ADDRESS, LOCALHOST

BACKLOG = 4096  # as many as the system lets wait: who finds no room tries again after a second, and then after more
FREE_PORT_TRIES = 16  # to find a port that is free at all addresses, if any port will do
_NO_IPV6 = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


class SharedPort:
    """A port or a path that others keep open. `release` is called once nothing of this process listens on it any more."""

    def __init__(self, release: Callable[[], None]) -> None:
        self.listeners = 1
        self._release = release

    def leave(self) -> None:
        self.listeners -= 1
        if not self.listeners:
            self._release()


@dataclass(frozen=True, slots=True)
class ListeningSockets:
    """What an instance accepts from at one address or path.

    `own`: it is told when a client comes. `others`: of its siblings, which may be busy or gone: it takes a client that has waited there. `port`: if others
    keep them open; else a path is removed with its socket.
    """

    own: tuple[socket.socket, ...]
    others: tuple[socket.socket, ...] = ()
    path: Path | None = None
    port: SharedPort | None = None

    def close(self) -> None:
        for sock in (*self.own, *self.others):
            sock.close()
        if self.port is not None:
            self.port.leave()
        elif self.path is not None:
            self.path.unlink(missing_ok=True)

    def share(self) -> ListeningSockets:
        """The same sockets under other descriptors: for a listener that follows this one, so that no client finds the port closed in between."""
        if self.port is not None:
            self.port.listeners += 1
        return replace(self, own=tuple(sock.dup() for sock in self.own), others=tuple(sock.dup() for sock in self.others))


class SocketSource(Protocol):
    """Where an instance has its listening sockets from."""

    def at_port(self, name: str, port: int, hosts: Sequence[str], /) -> list[ListeningSockets]:
        """For each address; port 0: any that is free. `name`: what it is for. Raises OSError, whose `filename` is the address, with none open."""

    def at_path(self, path: Path, /) -> ListeningSockets:
        """Raises OSError."""


class OwnSockets:
    """An instance opens them itself."""

    def at_port(self, name: str, port: int, hosts: Sequence[str]) -> list[ListeningSockets]:
        return [ListeningSockets((sock,)) for sock in listen_on(port, hosts)]

    def at_path(self, path: Path) -> ListeningSockets:
        return ListeningSockets((listen_at(path),), path=path)


OWN_SOCKETS = OwnSockets()


def listen_on(port: int, hosts: Sequence[str] = (EVERY_ADDRESS,), *, is_shared: bool = False) -> list[socket.socket]:
    """Non-blocking listening sockets at the addresses (`config.addresses`), all with the same port; 0: any that is free at all of them.

    `is_shared`: this user may open further ones with SO_REUSEPORT at the same addresses. Raises OSError, whose `filename` is the address, with none open.
    """
    for attempt in range(FREE_PORT_TRIES):
        try:
            return _listen_on_all(port, hosts, is_shared)
        except OSError as error:
            if port or error.errno != errno.EADDRINUSE or attempt == FREE_PORT_TRIES - 1:
                raise
    raise AssertionError("unreachable")


def _listen_on_all(port: int, hosts: Sequence[str], is_shared: bool) -> list[socket.socket]:
    found: list[socket.socket] = []
    try:
        for host in hosts:
            _add(found, port, host, is_shared)
    except OSError as error:
        for sock in found:
            sock.close()
        raise OSError(error.errno, error.strerror, host) from None
    return found


def _add(found: list[socket.socket], port: int, host: str, is_shared: bool) -> None:
    port = port or (found[0].getsockname()[1] if found else 0)
    if host == EVERY_ADDRESS:
        found.append(_listen_everywhere(port, is_shared))
    elif host == LOCALHOST:
        _add(found, port, "127.0.0.1", is_shared)
        try:
            _add(found, port, "::1", is_shared)
        except OSError as error:
            if error.errno not in _NO_IPV6:
                raise
    elif not any(sock.getsockname()[0] == host for sock in found):
        found.append(_listen(port, host, is_shared))


def _listen_everywhere(port: int, is_shared: bool) -> socket.socket:
    """IPv6 and IPv4 in one socket where the system can."""
    if socket.has_dualstack_ipv6():
        try:
            return _create(socket.AF_INET6, ("", port), is_shared, everywhere=True)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                raise
    return _create(socket.AF_INET, ("", port), is_shared)  # IPv6 is missing or switched off


def _listen(port: int, host: str, is_shared: bool) -> socket.socket:
    """`host`: an address, perhaps with a zone (fe80::1%eth0)."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)[0]
    return _create(family, address, is_shared)  # of four parts with IPv6


def _create(family: int, address: tuple[Any, ...], is_shared: bool, *, everywhere: bool = False, is_further: bool = False) -> socket.socket:
    """A non-blocking listening socket. `everywhere`: for IPv4 as well. `is_further`: another one is open that is shared."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_further:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not everywhere)
        sock.bind(address)
        if is_shared:  # behind `bind`, which so fails if another program shares this port with itself
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def listen_further(first: socket.socket) -> socket.socket:
    """Another socket at the address of one that is shared: the kernel spreads new connections over them. Raises OSError."""
    everywhere = first.family == socket.AF_INET6 and not first.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
    return _create(first.family, first.getsockname(), True, everywhere=everywhere, is_further=True)


def listen_at(path: Path) -> socket.socket:
    """A non-blocking listening socket at a path that only its owner may use; a socket file left by a killed server is replaced. Raises OSError.

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


def bound_address(sock: socket.socket) -> str:
    """The address that a socket of `listen_on` has; `*` for all of IPv4 and IPv6."""
    host = str(sock.getsockname()[0])
    is_dual = host == "::" and not sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
    return EVERY_ADDRESS if is_dual else host
