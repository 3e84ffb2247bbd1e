"""The listening sockets of all instances, which the parent keeps, so that one that ends or is replaced loses no client that waits.

Each port has a socket for each instance (SO_REUSEPORT): the kernel spreads new connections over them. An instance accepts from its own, and now and
then from those of the others, whose owner may be busy or gone. A Unix socket is one for all.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from svc.connection.listening import listen_at, listen_further, listen_on
from svc.parent.state import PortState


@dataclass(slots=True)
class KeptPort:
    """`sockets`: for each address as many as there are instances; of a path, one. `users`: the instances that listen on it."""

    name: str
    port: int
    hosts: tuple[str, ...]
    path: str
    occurrence: int
    sockets: list[list[socket.socket]]
    users: set[Hashable] = field(default_factory=set)

    def close(self) -> None:
        for group in self.sockets:
            for sock in group:
                sock.close()
        if self.path:
            Path(self.path).unlink(missing_ok=True)


class KeptSockets:
    """`count`: of the instances."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._kept: list[KeptPort] = []

    def open_port(self, user: Hashable, name: str, port: int, hosts: Sequence[str], occurrence: int) -> KeptPort:
        """As `listen_on`. `occurrence`: with port 0, how many this instance has opened under this name before."""
        for kept in self._kept:
            if (kept.hosts, kept.path) == (tuple(hosts), "") and (
                kept.port == port if port else (kept.name, kept.occurrence) == (name, occurrence)
            ):
                break
        else:
            first = listen_on(port, hosts, is_shared=True)
            kept = KeptPort(
                name, first[0].getsockname()[1] if first else port, tuple(hosts), "", -1 if port else occurrence, [[sock] for sock in first]
            )
            self._kept.append(kept)
        kept.users.add(user)
        for group in kept.sockets:
            while len(group) < self.count:
                group.append(listen_further(group[0]))
        return kept

    def open_path(self, user: Hashable, path: str) -> KeptPort:
        """As `listen_at`."""
        for kept in self._kept:
            if kept.path == path:
                break
        else:
            kept = KeptPort("", 0, (), path, -1, [[listen_at(Path(path))]])
            self._kept.append(kept)
        kept.users.add(user)
        return kept

    def release(self, user: Hashable, port: int, path: str) -> None:
        """One of its users does not listen any more."""
        for kept in self._kept:
            if (kept.path == path) if path else (kept.port == port and not kept.path):
                kept.users.discard(user)
        self.close_unused()

    def leave(self, user: Hashable) -> None:
        """A user has ended. What it had stays: another takes its place."""
        for kept in self._kept:
            kept.users.discard(user)

    def close_unused(self) -> None:
        for kept in [kept for kept in self._kept if not kept.users]:
            kept.close()
            self._kept.remove(kept)

    def close(self) -> None:
        for kept in self._kept:
            kept.close()
        self._kept.clear()

    def give_up(self) -> None:
        """In a forked child: close them, and leave the paths."""
        for kept in self._kept:
            for group in kept.sockets:
                for sock in group:
                    sock.close()
        self._kept.clear()

    # --- across an exec of the parent ---------------------------------------------------------------------------------------------------

    def state(self) -> list[PortState]:
        return [
            PortState(
                kept.name, kept.port, kept.hosts, kept.path, kept.occurrence, [[sock.fileno() for sock in group] for group in kept.sockets]
            )
            for kept in self._kept
        ]

    def adopt(self, ports: Sequence[PortState], users: Sequence[Hashable]) -> None:
        """`users`: instances that go on meanwhile. They may listen on any of them."""
        for port in ports:
            groups = [[socket.socket(fileno=number) for number in group] for group in port.sockets]
            for group in groups:
                for sock in group:
                    os.set_inheritable(sock.fileno(), False)
                    sock.setblocking(False)
            self._kept.append(KeptPort(port.name, port.port, port.hosts, port.path, port.occurrence, groups, set(users)))
