"""Listening sockets: of a port at one address or several, of a path (spec: configuration §2.2)."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from pathlib import Path

from svc.config.addresses import EVERY_ADDRESS, LOCALHOST

BACKLOG = 4096  # as many as the system lets wait: who finds no room tries again after a second, and then after more
FREE_PORT_TRIES = 16  # to find a port that is free at all addresses, if any port will do
_NO_IPV6 = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


def listen_on(port: int, hosts: Sequence[str] = (EVERY_ADDRESS,)) -> list[socket.socket]:
    """Non-blocking listening sockets at the addresses (`config.addresses`), all with the same port; 0: any that is free at all of them.

    Raises OSError, whose `filename` is the address, with none open.
    """
    for attempt in range(FREE_PORT_TRIES):
        try:
            return _listen_on_all(port, hosts)
        except OSError as error:
            if port or error.errno != errno.EADDRINUSE or attempt == FREE_PORT_TRIES - 1:
                raise
    raise AssertionError("unreachable")


def _listen_on_all(port: int, hosts: Sequence[str]) -> list[socket.socket]:
    found: list[socket.socket] = []
    try:
        for host in hosts:
            _add(found, port, host)
    except OSError as error:
        for sock in found:
            sock.close()
        raise OSError(error.errno, _reason(error), host) from None
    return found


def _reason(error: OSError) -> str:
    """Without the address, which `socket` adds."""
    return os.strerror(error.errno) if error.errno is not None and error.errno > 0 else str(error.strerror)


def _add(found: list[socket.socket], port: int, host: str) -> None:
    port = port or (found[0].getsockname()[1] if found else 0)
    if host == EVERY_ADDRESS:
        found.append(_listen_everywhere(port))
    elif host == LOCALHOST:
        _add(found, port, "127.0.0.1")
        try:
            _add(found, port, "::1")
        except OSError as error:
            if error.errno not in _NO_IPV6:
                raise
    elif not any(sock.getsockname()[0] == host for sock in found):
        found.append(_listen(port, host))


def _listen_everywhere(port: int) -> socket.socket:
    """IPv6 and IPv4 in one socket where the system can."""
    if socket.has_dualstack_ipv6():
        try:
            return _prepared(socket.create_server(("", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                raise
    return _prepared(socket.create_server(("", port), backlog=BACKLOG))  # IPv6 is missing or switched off


def _listen(port: int, host: str) -> socket.socket:
    """`host`: an address, perhaps with a zone (fe80::1%eth0)."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)[0]
    return _prepared(socket.create_server(address, family=family, backlog=BACKLOG))  # of four parts with IPv6


def _prepared(sock: socket.socket) -> socket.socket:
    sock.setblocking(False)
    return sock


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
    return _prepared(sock)


def bound_address(sock: socket.socket) -> str:
    """The address that a socket of `listen_on` has; `*` for all of IPv4 and IPv6."""
    host = str(sock.getsockname()[0])
    is_dual = host == "::" and not sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
    return EVERY_ADDRESS if is_dual else host
