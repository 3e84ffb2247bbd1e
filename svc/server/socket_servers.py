"""`server.socket`: a TCP or TLS port whose connections are served by code of an application (spec: http §12.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from svc.connection.listener import Listener
from svc.connection.listening import ListeningSockets
from svc.connection.stream_servers import StreamConnections
from svc.tls.contexts import ServerContexts


class SocketServer:
    """A port that is open. `close` ends its connections too. `application`: whose it is, "" = no application's."""

    def __init__(
        self,
        listeners: Sequence[Listener],
        connections: StreamConnections,
        contexts: ServerContexts | None,
        forget: Callable[[SocketServer], None],
        *,
        application: str = "",
        start: Callable[[SocketServer], None],
    ) -> None:
        """`listeners`: one for each address. `start`: called when it takes effect."""
        self.application = application
        self.is_in_effect = False
        self._start = start
        self._listeners = listeners
        self._connections = connections
        self.contexts = contexts
        self._forget = forget
        self._is_started = False
        self.is_open = True

    @property
    def port(self) -> int:
        return self._listeners[0].port

    @property
    def secure(self) -> bool:
        return self.contexts is not None

    @property
    def address(self) -> str:
        """The first, if it is opened at several: `tcp://127.0.0.1:7000`."""
        return self._listeners[0].address

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._connections.open)

    @property
    def accepted(self) -> int:
        """How many there have been."""
        return self._connections.count

    def take_effect(self) -> None:
        """The version of the application that has opened it does."""
        self.is_in_effect = True
        self._start(self)

    def share(self) -> list[ListeningSockets]:
        """The sockets of the port once more, for the server of the next version."""
        return [listener.share() for listener in self._listeners]

    def sockets(self) -> list[Any]:
        """The listening ones."""
        return [sock for listener in self._listeners for sock in listener.sockets]

    def start(self) -> None:
        if self.is_open and not self._is_started:
            self._is_started = True
            for listener in self._listeners:
                listener.start()

    def stop(self) -> None:
        """Accept no more."""
        if self.is_open:
            self.is_open = False
            for listener in self._listeners:
                if self._is_started:
                    listener.stop()
                else:
                    listener.discard()

    def close(self) -> None:
        self.stop()
        self._connections.close_all()
        self._forget(self)

    def __repr__(self) -> str:
        return f"<SocketServer {self.address}>"
