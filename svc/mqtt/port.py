"""Takes the connections of clients of MQTT: those of a port, once they are accepted."""

from __future__ import annotations

import socket
from collections.abc import Collection

from svc.connection.shared import SharedState
from svc.connection.tunnel import TunnelConnection
from svc.mqtt.broker import Broker
from svc.mqtt.link import Link


class MqttAcceptor:
    """The `Acceptor` of a listener. `shared`: what the connections of the port share."""

    def __init__(self, shared: SharedState, broker: Broker) -> None:
        self._shared = shared
        self._broker = broker

    @property
    def open(self) -> Collection[object]:
        return self._shared.open

    def accept(self, sock: socket.socket, peer: str, scheme: str = "mqtt") -> TunnelConnection:
        """Take over a connected non-blocking socket."""
        connection = TunnelConnection(self._shared, sock, peer, scheme, Link(self._broker))
        connection.open()
        connection.touch()  # the link starts at the end of the turn, and counts the seconds until CONNECT
        return connection
