"""The ports of one server: HTTP, HTTPS and a Unix socket (spec: http §14, operations §1, configuration §2.2, §2.3).

An instance has two servers, the rows APPLICATION and OPERATIONS; they listen, sweep and stop in the same way.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svc.analytics import Recorder
from svc.clock import Clock
from svc.config import Config, TlsSection
from svc.config.sections import HttpSection, NetworkSection
from svc.connection import Connections, Timeouts
from svc.connection.input_share import InputShare
from svc.connection.listener import RESERVED_BY_APPLICATION, RESERVED_BY_OPERATIONS, Acceptor, Listener
from svc.connection.listening import OWN_SOCKETS, ListeningSockets, SocketSource
from svc.connection.load_shedding import Classify, LoadShedder, PortShedder
from svc.connection.tls_handshake import TlsAcceptor, TlsPort
from svc.connection.tunnel import TunnelAcceptor
from svc.http.behind_proxies import BehindProxies, TrustedProxies
from svc.http.dispatch import Dispatcher
from svc.logs import Logs
from svc.messages import Receiver
from svc.operations.request_class import class_of_operation
from svc.protocol.http1 import Limits
from svc.reactor import Reactor
from svc.rest.request_class import GRAPHQL, class_of_request
from svc.root.socket_path import make_private_directory, socket_path
from svc.tls.contexts import ServerContexts
from svc.tls.entries import StoredCertificates, authorities_of_section, of_section
from svc.tls.mtls import ClientCertificates, Mtls
from svc.tls.revocation import Revocations, read_authorities


@dataclass(frozen=True, slots=True)
class ServerRow:
    """The settings that distinguish the two servers of an instance.

    `section`: of its settings, as messages name it. `host`: the setting with the addresses. `purpose`: of the certificates that its TLS port
    shows (`tls.uses`). `reserved`: file descriptors that its connections leave free (`connection.listener`). `network`, `tls_entries`: its settings.
    `schemes`: of addresses, without and with TLS. `classify`: how soon a request is refused under overload.
    """

    section: str
    host: str
    purpose: str
    reserved: int
    network: Callable[[Config], HttpSection | NetworkSection]
    tls_entries: Callable[[Config], tuple[TlsSection, ...]]
    schemes: tuple[str, str] = ("http", "https")
    classify: Classify = class_of_request


APPLICATION = ServerRow(
    "http", "http.host", "https", RESERVED_BY_APPLICATION, lambda config: config.http, lambda config: config.tls_entries
)
OPERATIONS = ServerRow(
    "operationsApi.network",
    "operationsApi.network.host",
    "operations",
    RESERVED_BY_OPERATIONS,
    lambda config: config.operations_api.network,
    lambda config: config.operations_tls_entries,
    classify=class_of_operation,
)
MQTT = ServerRow(
    "mqtt.network",
    "mqtt.network.host",
    "mqtt",
    RESERVED_BY_APPLICATION,
    lambda config: mqtt_network(config),
    lambda config: config.tls_entries,
    ("mqtt", "mqtts"),
)


def mqtt_network(config: Config) -> HttpSection:
    """Its ports, with the times of those of HTTP."""
    network = config.mqtt.network
    own = {"port": network.port, "secure_port": network.secure_port, "host": network.host, "mtls": network.mtls, "http2": False}
    return HttpSection({**vars(config.http), **own})


def open_port(name: str, port: int, hosts: Sequence[str], setting: str, source: SocketSource = OWN_SOCKETS) -> list[ListeningSockets]:
    """Listening sockets of a port at each address. `name`, `setting`: the settings of the port and of the addresses.

    Raises OSError, whose text names the settings, the port and the address, with none open.
    """
    try:
        return source.at_port(name, port, hosts)
    except OSError as error:
        raise OSError(error.errno, f"{name} {port}, {setting} {error.filename}: {error.strerror}") from None


def port_hint(error: OSError) -> str | None:
    """What to do where a port of `open_port` cannot be opened; None if its text says it."""
    name = str(error.strerror).partition(" ")[0]
    if error.errno == errno.EADDRINUSE:
        option = name.replace(".", "_").upper()
        return f"Another program has this port, perhaps another svc: stop it, or choose another port, --{option} NUMBER; null opens none."
    if error.errno in (errno.EACCES, errno.EPERM):
        return (
            "Ports below 1024 are for root, unless svc gets the right (AmbientCapabilities=CAP_NET_BIND_SERVICE of systemd, --cap-add NET_BIND_SERVICE"
            f" of a container): give it that right, or choose another {name} and put a proxy in front of it."
        )
    return None


class PortCertificates:
    """Certificates of a TLS port and of its clients. `clients`: maps client certificates to users, None if clients are asked for none."""

    def __init__(
        self, row: ServerRow, config: Config, stored: StoredCertificates, logs: Logs, clock: Clock, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.logger = logs.get_logger("tls", section="tls")
        self._row = row
        self._stored = stored
        self._clock = clock
        self._entries = row.tls_entries(config)
        self._authorities = authorities_of_section(self._entries)
        self._mtls = Mtls.from_setting(row.network(config).mtls)
        self.clients = None if self._mtls is None else ClientCertificates(self._mtls, self._make_revocations(self._mtls, loop), clock.wall)

    def _make_revocations(self, mtls: Mtls, loop: asyncio.AbstractEventLoop) -> Revocations | None:
        if mtls.revocation is None:
            return None

        def authorities() -> list[bytes]:
            return [*read_authorities(self._authorities), *(text.encode() for text in self._stored.authorities())]

        return Revocations(mtls.revocation, authorities, loop=loop, clock=self._clock, log=self.logger)

    def make_contexts(self, what: str, *, http2: bool) -> ServerContexts:
        """`what`: the port as messages name it."""
        contexts = ServerContexts(
            what,
            of_section(self._entries, self._row.purpose),
            log=self.logger,
            clock=self._clock,
            purpose=self._row.purpose,
            stored=self._stored,
            authorities=self._authorities,
            mtls=self._mtls,
        )
        contexts.http2 = http2
        return contexts


@dataclass(frozen=True, slots=True)
class PortParts:
    """What all ports of an instance share. `date`: the field of answers, as it is now. `input`: the share that the input of all ports has of a turn.
    `shedder`: refuses requests under overload, None: none are. `sockets`: where their listening sockets come from."""

    config: Config
    reactor: Reactor
    logs: Logs
    recorder: Recorder
    date: Callable[[], str]
    input: InputShare
    shedder: LoadShedder | None = None
    sockets: SocketSource = OWN_SOCKETS


class ServerPorts:
    """The listeners of one server and their connections.

    `listeners`: as opened. `ports`: their numbers. `socket`: the path of the Unix socket, None without one.
    """

    def __init__(
        self,
        row: ServerRow,
        parts: PortParts,
        dispatcher: Dispatcher,
        certificates: PortCertificates,
        *,
        domain_socket: Path | None = None,
        make_receiver: Callable[[Any], Receiver] | None = None,
    ) -> None:
        """`domain_socket`: the configured path of the Unix socket. `make_receiver`: of connections that do not speak HTTP (`connection.tunnel`)."""
        config, reactor = parts.config, parts.reactor
        network = row.network(config)
        self._row = row
        self._network = network
        self._certificates = certificates
        self._domain_socket = domain_socket
        self._loop = reactor.loop
        self._sockets = parts.sockets
        self._record = parts.recorder.record
        self._warn = parts.logs.logger.warn
        self._contexts: ServerContexts | None = None
        proxies = config.http.trusted_proxies
        application = BehindProxies(dispatcher, TrustedProxies(proxies)) if proxies else dispatcher
        limits = Limits(config.http.max_header_size, config.http.max_request_body_size)
        self.connections = Connections(
            application,
            reactor,
            limits=limits,
            timeouts=Timeouts(network.headers_timeout, network.timeout, network.keep_alive_timeout),
            date=parts.date,
            http2=network.http2,
            input=parts.input,
        )
        if parts.shedder is not None:
            self.connections.shedder = PortShedder(parts.shedder, application, row.classify, parts.date, limits.max_header_size, GRAPHQL)
        self._make_receiver = make_receiver
        self.listeners: list[Listener] = []

    @property
    def section(self) -> str:
        """Of its settings."""
        return self._row.section

    def _routed(self, at_once: bool) -> None:
        """For each accepted connection (`connection.listener.Listener`)."""
        self._record(at_once, "socket-routed")

    @property
    def ports(self) -> list[int]:
        """Each once, however many addresses it is opened at."""
        return list(dict.fromkeys(listener.port for listener in self.listeners if listener.path is None))

    @property
    def addresses(self) -> list[str]:
        """Where it listens, apart from the Unix socket: `http://127.0.0.1:9926`, `https://*:9927` (`*`: all addresses of the machine)."""
        return [listener.address for listener in self.listeners if listener.path is None]

    @property
    def socket(self) -> Path | None:
        return next((listener.path for listener in self.listeners if listener.path is not None), None)

    @property
    def is_secure_open(self) -> bool:
        """Whether the TLS port is open: it is not without a usable certificate."""
        return self._contexts is not None

    # --- opening and closing ---------------------------------------------------------------------------------------------------------

    def listen(self) -> None:
        """Open all of them, or raise OSError, whose text names the setting, with none open."""
        row, network = self._row, self._network
        try:
            if network.port is not None:
                self._listen_plain(f"{row.section}.port", network.port)
            if network.secure_port is not None:
                self._listen_secure(f"{row.section}.securePort", network.secure_port)
            if self._domain_socket is not None:
                self._listen_at(f"{row.section}.domainSocket", self._domain_socket)
        except OSError:
            self.discard()
            raise

    def _listen_plain(self, name: str, port: int) -> None:
        acceptor: Acceptor = self.connections if self._make_receiver is None else TunnelAcceptor(self.connections, self._make_receiver)
        for found in open_port(name, port, self._network.host, self._row.host, self._sockets):
            self.listeners.append(
                Listener(found, acceptor, self._loop, self._routed, self._warn, self._row.schemes[0], reserved=self._row.reserved)
            )

    def _listen_secure(self, name: str, port: int) -> None:
        """Without a certificate to show nothing is opened, and the log says why."""
        contexts = self._certificates.make_contexts(f"{name} {port}", http2=self.connections.http2)
        if not contexts.open():
            return
        found = open_port(name, port, self._network.host, self._row.host, self._sockets)
        self._contexts = contexts
        logger, clients = self._certificates.logger, self._certificates.clients
        revocations = None if clients is None else clients.revocations
        acceptor = TlsAcceptor(self.connections, TlsPort(contexts, self._record, logger, revocations, self._make_receiver))
        scheme, reserved = self._row.schemes[1], self._row.reserved
        for sockets in found:
            self.listeners.append(Listener(sockets, acceptor, self._loop, self._routed, logger.warn, scheme, reserved=reserved))

    def _listen_at(self, name: str, configured: Path) -> None:
        try:
            path = socket_path(configured)
            if path != configured:
                make_private_directory(path.parent)
            sockets = self._sockets.at_path(path)
        except OSError as error:
            raise OSError(error.errno, f"{name} {configured}: {error.strerror}") from None
        self.listeners.append(Listener(sockets, self.connections, self._loop, self._routed, self._warn))

    def discard(self) -> None:
        """Close listeners that were opened and never started."""
        for listener in self.listeners:
            listener.discard()
        self.listeners.clear()

    def sockets(self) -> Iterator[Any]:
        """The listening ones and those of connections: each has a `fileno`."""
        yield from (sock for listener in self.listeners for sock in listener.sockets)
        yield from (connection.sock for connection in self.connections.open if not connection.closed)

    # --- while it serves -------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        for listener in self.listeners:
            listener.start()

    def sweep(self, now: float) -> None:
        """Act on deadlines and on changed certificates. Called about once a second."""
        self.connections.sweep(now)
        if self._contexts is not None:
            self._contexts.refresh()

    def stop(self) -> None:
        """Stop accepting; connections end after their current answer."""
        for listener in self.listeners:
            listener.stop()
        self.connections.drain()

    def retire(self) -> None:
        """Stop accepting: another process does, which takes over connections as well."""
        for listener in self.listeners:
            listener.stop()
        self.connections.retire()
