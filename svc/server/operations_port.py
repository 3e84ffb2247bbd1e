"""The operations server of an instance: its port, its Unix socket, and what answers there (contract: operations §1, configuration §2.3).

It outlives the application's ports while the server stops, so that a load balancer can ask and is told to go elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

from svc.analytics import Recorder
from svc.analytics.recorder import OPERATION_METHOD
from svc.auth.identify import Identifier
from svc.auth.origin_policy import OriginPolicy
from svc.clock import Clock
from svc.config import Config
from svc.connection import Connections, Timeouts
from svc.connection.listener import RESERVED_BY_OPERATIONS, Listener, listen_at, listen_on
from svc.http.compression import Compression
from svc.http.cors import OPERATIONS_METHODS, Cors
from svc.http.decoding import RequestDecoder
from svc.http.dispatch import Dispatcher, RequestLog
from svc.operations.endpoint import OperationsEndpoint
from svc.operations.node import Node
from svc.operations.service import Operations
from svc.protocol.http1 import Limits
from svc.root.socket_path import make_private_directory, socket_path
from svc.server.secure_port import SecurePort


class OperationsPort:
    """`operations`: for calls from code. `ports`: the listening ones, as opened."""

    def __init__(
        self,
        node: Node,
        identifier: Identifier,
        origins: OriginPolicy,
        recorder: Recorder,
        *,
        date: Callable[[], str],
        log_error: Callable[[str, BaseException | None], None],
        access: RequestLog | None,
        routed: Callable[[bool], None],
        secure_port: SecurePort,
    ) -> None:
        config: Config = node.config
        loop: asyncio.AbstractEventLoop = node.loop
        executor: Executor = node.executor
        clock: Clock = node.clock
        max_body = config.http.max_request_body_size
        self._config = config
        self._loop = loop
        self._routed = routed
        self._record = recorder.record
        self._secure_port = secure_port
        self._warn = node.logs.logger.warn
        self._is_ready = False
        self.operations = Operations(node)
        endpoint = OperationsEndpoint(
            self.operations,
            compression=Compression(config.http.compression_threshold),
            decoder=RequestDecoder(max_body, max_body),
            report=lambda error: log_error("while streaming an answer", error),
            is_ready=lambda: self._is_ready,
        )
        cors = Cors(
            origins,
            config.http.cors_access_control_allow_headers,
            credentials=config.authentication.enable_sessions,
            methods=OPERATIONS_METHODS,
        )
        dispatcher = Dispatcher(endpoint, identifier, cors, recorder, clock, loop, executor, log_error, access, OPERATION_METHOD)
        network = config.operations_api.network
        self.connections = Connections(
            loop,
            dispatcher,
            clock,
            limits=Limits(config.http.max_header_size, max_body),
            timeouts=Timeouts(network.headers_timeout, network.timeout, network.keep_alive_timeout),
            date=date,
            log_error=log_error,
            http2=network.http2,
        )
        self.listeners: list[Listener] = []

    @property
    def ports(self) -> list[int]:
        return [listener.port for listener in self.listeners if listener.path is None]

    @property
    def socket(self) -> Path | None:
        """The path of the Unix socket, None if there is none."""
        return next((listener.path for listener in self.listeners if listener.path is not None), None)

    def listen(self) -> None:
        """Open port and socket, or raise OSError, which says which, with none open."""
        port = self._config.operations_api.network.port
        path = self._config.operations_api.network.domain_socket
        what = f"operationsApi.network.port {port}: "
        try:
            if port is not None:
                self._add(
                    Listener(listen_on(port), self.connections, self._loop, self._routed, self._warn, reserved=RESERVED_BY_OPERATIONS)
                )
            what = ""
            secure = self._secure_port.listen(self.connections, self._loop, self._routed, self._record, RESERVED_BY_OPERATIONS)
            if secure is not None:
                self._add(secure)
            what = f"operationsApi.network.domainSocket {path}: "
            place = socket_path(path)
            if place is not None:
                if place != path:
                    make_private_directory(place.parent)
                self._add(Listener(listen_at(place), self.connections, self._loop, self._routed, self._warn, path=place))
        except OSError as error:
            for listener in self.listeners:
                listener.discard()
            self.listeners.clear()
            raise OSError(error.errno, f"{what}{error.strerror}") from None

    def _add(self, listener: Listener) -> None:
        self.listeners.append(listener)

    def start(self) -> None:
        self._is_ready = True
        for listener in self.listeners:
            listener.start()

    def sweep(self, now: float) -> None:
        """Act on deadlines and on changed certificates. Called about once a second."""
        self.connections.sweep(now)
        self._secure_port.look()

    def announce_stop(self) -> None:
        """From now on `/ready` says no, and no operation begins; the connections stay."""
        self._is_ready = False

    def stop(self) -> None:
        """Stop accepting; connections end after their current answer."""
        self._is_ready = False
        for listener in self.listeners:
            listener.stop()
        self.connections.drain()
