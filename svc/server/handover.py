"""Idle connections go from an instance to the one that takes its place, over a socket between the two (spec: configuration §6.5)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence

from svc.parent.channel import Channel
from svc.parent.messages import Connection, Message
from svc.server.ports import ServerPorts


class Heir:
    """The end of the instance that is replaced."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._channel: Channel | None = Channel(sock)

    def take(self, ports: Sequence[ServerPorts]) -> None:
        """Give it all connections whose clients wait for nothing. What the socket does not take now comes with the next call."""
        for each in ports:
            connections = each.connections.give()
            key = tuple(each.ports)
            while self._channel is not None and (found := next(connections, None)) is not None:
                sock, peer, scheme = found
                try:
                    self._channel.send(Connection(each.section, key, scheme, peer), [sock.fileno()])
                except BlockingIOError:
                    each.connections.accept(sock, peer, scheme)
                    return
                except OSError:  # it is gone
                    each.connections.accept(sock, peer, scheme)
                    self.close()
                    return
                sock.close()

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None


class Heritages:
    """What an instance takes over from those in whose place it serves: one for each of them."""

    def __init__(self, ports: Callable[[], Sequence[ServerPorts]], loop: asyncio.AbstractEventLoop) -> None:
        """`ports`: those of this instance, as they are."""
        self._ports = ports
        self._loop = loop
        self._channels: dict[socket.socket, Channel] = {}

    def take(self, sock: socket.socket) -> None:
        """Accept the connections that come over this socket, until its other end is closed."""
        sock.setblocking(False)
        self._channels[sock] = Channel(sock)
        self._loop.add_reader(sock, self._on_readable, sock)

    def _on_readable(self, sock: socket.socket) -> None:
        try:
            arrived = self._channels[sock].receive()
        except BlockingIOError:
            return
        except (EOFError, OSError):
            self._end(sock)
            return
        for message, descriptors in arrived:
            for each in descriptors:
                self._accept(message, socket.socket(fileno=each))

    def _accept(self, connection: Message, sock: socket.socket) -> None:
        """One of a server that this instance does not have is closed: its port is not open any more."""
        sock.setblocking(False)
        for each in self._ports():
            if isinstance(connection, Connection) and (each.section, tuple(each.ports)) == (connection.section, connection.ports):
                each.connections.accept(sock, connection.peer, connection.scheme)
                return
        sock.close()

    def _end(self, sock: socket.socket) -> None:
        self._loop.remove_reader(sock)
        self._channels.pop(sock).close()

    def close(self) -> None:
        for sock in list(self._channels):
            self._end(sock)
