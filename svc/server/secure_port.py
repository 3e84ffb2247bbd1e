"""The TLS port of a server: certificates, listener and what is asked of clients, from the configuration (contract: configuration §2.2, §2.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from svc.clock import Clock
from svc.config import Config
from svc.connection import Connections
from svc.connection.listener import Listener, listen_on
from svc.connection.tls_handshake import TlsAcceptor, TlsPort
from svc.logs import Logs
from svc.tls.contexts import ServerContexts
from svc.tls.entries import StoredCertificates, authorities_of_section, of_section
from svc.tls.mtls import ClientCertificates, Mtls
from svc.tls.revocation import Revocations, read_authorities

HTTP, OPERATIONS = "http", "operationsApi.network"
"""Sections that have a `securePort`."""


class SecurePort:
    """Of one section. `clients`: who the bearers of certificates are, None if nobody is asked for one."""

    def __init__(
        self, section: str, config: Config, stored: StoredCertificates, logs: Logs, clock: Clock, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.setting = f"{section}.securePort"
        network = config.http if section == HTTP else config.operations_api.network
        self.port = network.secure_port
        self._stored = stored
        self._clock = clock
        self._logger = logs.get_logger("tls", section="tls")
        self._entries = config.tls_entries if section == HTTP else config.operations_tls_entries
        self._purpose = "https" if section == HTTP else "operations"
        self._mtls = Mtls.from_setting(network.mtls)
        self._authorities = authorities_of_section(self._entries)
        self.clients = None if self._mtls is None else ClientCertificates(self._mtls, self._make_revocations(self._mtls, clock, loop))
        self._contexts: ServerContexts | None = None

    def _make_revocations(self, mtls: Mtls, clock: Clock, loop: asyncio.AbstractEventLoop) -> Revocations | None:
        if mtls.revocation is None:
            return None

        def authorities() -> list[bytes]:
            return [*read_authorities(self._authorities), *(text.encode() for text in self._stored.authorities())]

        return Revocations(mtls.revocation, authorities, loop=loop, clock=clock, log=self._logger)

    def listen(
        self,
        connections: Connections,
        loop: asyncio.AbstractEventLoop,
        routed: Callable[[bool], None],
        record: Callable[[Any, str], None],
        reserved: int,
    ) -> Listener | None:
        """The listener, not started; None if the port is not configured, or nothing can be shown there: then the log says why. Raises OSError."""
        if self.port is None:
            return None
        contexts = ServerContexts(
            f"{self.setting} {self.port}",
            of_section(self._entries, self._purpose),
            log=self._logger,
            clock=self._clock,
            purpose=self._purpose,
            stored=self._stored,
            authorities=self._authorities,
            mtls=self._mtls,
            http2=connections.http2,
        )
        if not contexts.open():
            return None
        try:
            sock = listen_on(self.port)
        except OSError as error:
            raise OSError(error.errno, f"{self.setting} {self.port}: {error.strerror}") from None
        self._contexts = contexts
        revocations = None if self.clients is None else self.clients.revocations
        acceptor = TlsAcceptor(connections, TlsPort(contexts, record, self._logger, revocations))
        return Listener(sock, acceptor, loop, routed, self._logger.warn, "https", reserved=reserved)

    @property
    def is_open(self) -> bool:
        return self._contexts is not None

    def look(self) -> None:
        """Take up certificates that have changed. Called about once a second."""
        if self._contexts is not None:
            self._contexts.look()
