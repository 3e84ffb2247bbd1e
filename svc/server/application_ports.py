"""The ports that application code listens on: those of the configuration, and others that it asks for (spec: http §12.4).

Another port is opened when the first listener names it, shared by all that do, and closed with the last of them. It accepts connections as long as the
instance serves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from svc.config.sections import HttpSection
from svc.connection.listener import RESERVED_BY_APPLICATION, Listener, url_of
from svc.connection.stream_servers import StreamConnections
from svc.http.dispatch import Dispatcher
from svc.listeners.port_listeners import PortListeners
from svc.listeners.scopes import ListenerScopes
from svc.listeners.upgrade_chain import UpgradeChain
from svc.server.ports import APPLICATION, PortCertificates, PortParts, ServerPorts, ServerRow, open_port
from svc.server.socket_servers import SocketServer

MakePorts = Callable[[ServerRow, PortParts, Dispatcher, PortCertificates], ServerPorts]


class OpenPort:
    """A port of HTTP, as application code sees it."""

    def __init__(self, ports: ServerPorts, listeners: PortListeners, *, secure: bool, wanted: int, host: str) -> None:
        """`wanted`: its number in the configuration. `host`: the first address that it is opened at."""
        self.ports = ports
        self.listeners = listeners
        self.secure = secure
        self._wanted = wanted
        self._host = host

    @property
    def _opened(self) -> list[Listener]:
        return [each for each in self.ports.listeners if each.path is None and each.is_secure is self.secure]

    @property
    def port(self) -> int:
        """Its number; as long as it is not open, the one that is configured."""
        return next((each.port for each in self._opened), self._wanted)

    @property
    def address(self) -> str:
        """The first, if it is opened at several."""
        wanted = url_of("https" if self.secure else "http", self._host, self._wanted)
        return next((each.address for each in self._opened), wanted)

    @property
    def is_open(self) -> bool:
        return bool(self._opened)

    @property
    def connections(self) -> int:
        """How many are open, those of the other scheme included."""
        return len(self.ports.connections.open)

    def __repr__(self) -> str:
        return f"<OpenPort {self.address}>"


class ApplicationPorts:
    """`others`: the further ports of HTTP, live."""

    def __init__(
        self,
        parts: PortParts,
        certificates: PortCertificates,
        *,
        make_dispatcher: Callable[[], tuple[Dispatcher, UpgradeChain]],
        make_ports: MakePorts = ServerPorts,
        scopes: ListenerScopes | None = None,
        opens_ports: bool = True,
    ) -> None:
        """`make_dispatcher`: for a further port. `scopes`: what listeners are called in. `opens_ports`: False for an instance without
        sockets: a trial, or one of `svc.testing`."""
        self._config = parts.config
        self._parts = parts
        self._certificates = certificates
        self._loop = parts.reactor.loop
        self._make_ports = make_ports
        self._make_dispatcher = make_dispatcher
        self._scopes = scopes
        self._opens_ports = opens_ports
        self._warn = parts.logs.logger.warn
        self._log_error = parts.reactor.log_error
        self._default: list[OpenPort] = []
        self._opened: dict[tuple[int, bool], OpenPort] = {}
        self._sockets: list[SocketServer] = []
        self.others: list[ServerPorts] = []
        self._started: set[ServerPorts] = set()
        self._is_serving = False
        self._is_saying = False
        self._said: set[str] = set()

    def set_default(self, ports: ServerPorts, dispatcher: Dispatcher, upgrades: UpgradeChain) -> None:
        """The ports of the configuration."""
        http = self._config.http
        listeners = PortListeners(dispatcher, upgrades, serves_resources=True, scopes=self._scopes)
        for number, secure in ((http.port, False), (http.secure_port, True)) if self._opens_ports else ((0, False),):
            if number is not None:
                self._default.append(OpenPort(ports, listeners, secure=secure, wanted=number, host=http.host[0]))

    # --- for `api.server` ------------------------------------------------------------------------------------------------------------

    def default(self) -> list[OpenPort]:
        return list(self._default)

    def open(self, port: int, secure: bool) -> OpenPort | None:
        for each in self._default:
            if port and each.port == port:
                if each.secure is not secure:
                    raise ValueError(f"port {port} is the {'TLS' if each.secure else 'plain'} port of the configuration")
                return each
        known = self._opened.get((port, secure)) if port else None
        if known is not None:
            return known
        self._check(port)
        dispatcher, upgrades = self._make_dispatcher()
        network = HttpSection({**vars(self._config.http), "port": None if secure else port, "secure_port": port if secure else None})
        row = replace(APPLICATION, section="server.http", network=lambda config: network)
        ports = self._make_ports(row, self._parts, dispatcher, self._certificates)
        ports.listen()
        if not ports.listeners:
            return None  # no certificate: the log says so
        listeners = PortListeners(dispatcher, upgrades, serves_resources=False, scopes=self._scopes)
        opened = OpenPort(ports, listeners, secure=secure, wanted=port, host=network.host[0])
        self._opened[opened.port, secure] = opened
        self.others.append(ports)
        if self._is_serving:
            self._start(ports)
        return opened

    def _check(self, port: int, shared: SocketServer | None = None) -> None:
        """Raise ValueError for a port that is something else's than of `shared`, or if no ports can be opened."""
        if not self._opens_ports:
            raise ValueError(f"port {port} cannot be opened: this instance has no ports, it is a trial or runs in a test")
        config = self._config
        taken = {
            "operationsApi.network": (config.operations_api.network.port, config.operations_api.network.secure_port),
            "mqtt.network": (config.mqtt.network.port, config.mqtt.network.secure_port),
            "server.socket": tuple(server.port for server in self._sockets if server is not shared),
            "server.http": tuple(number for number, _ in self._opened),
            "http": tuple(each.port for each in self._default),
        }
        for name, numbers in taken.items():
            if port and port in numbers:
                raise ValueError(f"port {port} is taken by {name}")

    def release(self, port: OpenPort) -> None:
        if self._opened.get((port.port, port.secure)) is not port:
            return
        del self._opened[port.port, port.secure]
        if port.ports in self._started:
            self._started.discard(port.ports)
            port.ports.stop()
            self._loop.call_later(self._config.http.timeout, self._forget, port.ports)
        else:
            port.ports.discard()
            self.others.remove(port.ports)

    def _forget(self, ports: ServerPorts) -> None:
        """A port was closed some time ago: what is left of its connections goes too."""
        if ports in self.others:
            ports.connections.close_all()
            ports.connections.end_turn()
            self.others.remove(ports)

    def open_socket(
        self, listener: Callable[..., Any], port: int, secure: bool, *, application: str = "", waits: bool = False
    ) -> SocketServer | None:
        former = self._former(application, port, secure) if waits else None
        self._check(port, former)
        name = "server.socket port"
        contexts = None
        if secure:
            contexts = self._certificates.make_contexts(f"{name} {port}", http2=False)
            if not contexts.open():
                return None
        opened = open_port(name, port, self._config.http.host, APPLICATION.host, self._parts.sockets) if former is None else former.share()
        connections = StreamConnections(self._loop, listener, self._log_error, None if contexts is None else lambda: contexts.context)
        scheme = "tls" if secure else "tcp"
        found = [
            Listener(sockets, connections, self._loop, self._record_routed, self._warn, scheme, reserved=RESERVED_BY_APPLICATION)
            for sockets in opened
        ]
        server = SocketServer(found, connections, contexts, self._forget_socket, application=application, start=self._start_socket)
        self._sockets.append(server)
        if not waits:
            server.take_effect()
        return server

    def _former(self, application: str, port: int, secure: bool) -> SocketServer | None:
        """The server of the version of the application that is in effect, at this port."""
        for each in self._sockets:
            if port and (each.application, each.port, each.secure, each.is_in_effect) == (application, port, secure, True):
                return each
        return None

    def _record_routed(self, at_once: bool) -> None:
        self._parts.recorder.record(at_once, "socket-routed")

    def _start_socket(self, server: SocketServer) -> None:
        if self._is_serving:
            server.start()

    def _forget_socket(self, server: SocketServer) -> None:
        if server in self._sockets:
            self._sockets.remove(server)

    def say_faults(self) -> None:
        """Applications are loaded one after the other: what is still wrong when the loop gets to it is said, once."""
        if not self._is_saying:
            self._is_saying = True
            self._loop.call_soon(self._say)

    def _say(self) -> None:
        self._is_saying = False
        faults: list[str] = []
        for listeners in {id(each.listeners): each.listeners for each in (*self._default, *self._opened.values())}.values():
            faults += listeners.faults
        for fault in faults:
            if fault not in self._said:
                self._said.add(fault)
                self._warn(fault)

    @property
    def sockets_in_use(self) -> int:
        """Connections of `server.socket`."""
        return sum(server.connections for server in self._sockets)

    def sockets(self) -> Iterator[Any]:
        """Those of `server.http` and `server.socket`, and of connections."""
        for ports in self.others:
            yield from ports.sockets()
        for server in self._sockets:
            yield from server.sockets()

    # --- while the instance runs -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """The instance serves: accept connections."""
        self._is_serving = True
        for ports in self.others:
            self._start(ports)
        for server in self._sockets:
            if server.is_in_effect:
                server.start()

    def _start(self, ports: ServerPorts) -> None:
        self._started.add(ports)
        ports.start()

    def sweep(self, now: float) -> None:
        """Act on changed certificates of sockets. Called about once a second."""
        for server in self._sockets:
            if server.contexts is not None:
                server.contexts.refresh()

    def stop(self) -> None:
        """Accept no more connections of sockets; the ports of HTTP are the instance's to stop."""
        self._is_serving = False
        for server in self._sockets:
            server.stop()

    def discard(self) -> None:
        """Close what was opened, when the instance cannot be started."""
        for each in self.others:
            each.discard()
        for server in self._sockets:
            server.stop()

    def close(self) -> None:
        """The instance ends."""
        for server in list(self._sockets):
            server.close()
