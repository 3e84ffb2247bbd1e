"""The application server of an instance: its plain and its TLS port, and what answers there (contract: http §14)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

from svc.analytics import Recorder
from svc.apps import App
from svc.auth.identify import Identifier
from svc.auth.origin_policy import OriginPolicy
from svc.clock import Clock
from svc.config import Config
from svc.connection import Connections, Timeouts
from svc.connection.listener import RESERVED_BY_APPLICATION, Listener, listen_on
from svc.http.compression import Compression
from svc.http.cors import Cors
from svc.http.decoding import RequestDecoder
from svc.http.dispatch import Dispatcher
from svc.logs import AccessLog, Logs
from svc.protocol.http1 import Limits
from svc.resources import Resources
from svc.rest import Rest, RestOptions
from svc.server.secure_port import SecurePort
from svc.websocket import UpgradeListeners, WebSocketRegistry, WsListeners
from svc.websocket.resource_sockets import ResourceSockets


class ApplicationPort:
    """`listeners`: the listening ports, as opened."""

    def __init__(
        self,
        config: Config,
        resources: Resources,
        apps: Sequence[App],
        identifier: Identifier,
        origins: OriginPolicy,
        recorder: Recorder,
        *,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        logs: Logs,
        secure_port: SecurePort,
        date: Callable[[], str],
        log_error: Callable[[str, BaseException | None], None],
        routed: Callable[[bool], None],
    ) -> None:
        self._port: int | None = config.http.port
        self._loop = loop
        self._record = recorder.record
        self._routed = routed
        self._warn = logs.logger.warn
        self.secure_port = secure_port
        max_body = config.http.max_request_body_size

        def report(error: BaseException) -> None:
            log_error("while streaming an answer", error)

        self.rest = Rest(
            resources,
            clock,
            report,
            RestOptions(last_modified=any(_rest_option(app, "lastModified") for app in apps)),
            compression=Compression(config.http.compression_threshold),
            decoder=RequestDecoder(max_body, max_body),
            login=identifier.login_path is not None,
            loop=loop,
        )
        self.sockets = WebSocketRegistry(loop, clock, recorder, log_error)
        self.upgrades = UpgradeListeners(WsListeners(self.sockets))
        self.upgrades.serve_with(ResourceSockets(resources, self.rest.types, loop, report))
        cors = Cors(origins, config.http.cors_access_control_allow_headers, credentials=config.authentication.enable_sessions)
        dispatcher = Dispatcher(
            self.rest,
            identifier,
            cors,
            recorder,
            clock,
            loop,
            executor,
            log_error,
            AccessLog.from_config(config, logs),
            upgrades=self.upgrades,
        )
        self.connections = Connections(
            loop,
            dispatcher,
            clock,
            limits=Limits(config.http.max_header_size, max_body),
            timeouts=Timeouts(config.http.headers_timeout, config.http.timeout, config.http.keep_alive_timeout),
            date=date,
            log_error=log_error,
            http2=config.http.http2,
        )
        self.listeners: list[Listener] = []

    @property
    def ports(self) -> list[int]:
        return [listener.port for listener in self.listeners]

    def listen(self) -> None:
        """Open both ports, or raise OSError, which says which, with none open."""
        try:
            if self._port is not None:
                try:
                    sock = listen_on(self._port)
                except OSError as error:
                    raise OSError(error.errno, f"http.port {self._port}: {error.strerror}") from None
                self.listeners.append(
                    Listener(sock, self.connections, self._loop, self._routed, self._warn, reserved=RESERVED_BY_APPLICATION)
                )
            secure = self.secure_port.listen(self.connections, self._loop, self._routed, self._record, RESERVED_BY_APPLICATION)
            if secure is not None:
                self.listeners.append(secure)
        except OSError:
            self.discard()
            raise

    def discard(self) -> None:
        """Close what was opened and never started."""
        for listener in self.listeners:
            listener.discard()
        self.listeners.clear()

    def start(self) -> None:
        for listener in self.listeners:
            listener.start()

    def sweep(self, now: float) -> None:
        """Act on deadlines and on changed certificates. Called about once a second."""
        self.connections.sweep(now)
        self.secure_port.look()

    def stop(self) -> None:
        """Stop accepting; connections end after their current answer."""
        for listener in self.listeners:
            listener.stop()
        self.connections.drain()


def _rest_option(app: App, name: str) -> Any:
    options = app.config.get("rest")
    return options.get(name) if isinstance(options, dict) else None
