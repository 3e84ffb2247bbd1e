"""`svc.asgi(directory)`: an ASGI 3 application that serves an application directory (spec: asgi §2).

The lifespan of the host starts an instance on the host's event loop, and ends it. A root belongs to one process, so a host with several workers cannot
serve it: the second one says so and does not start.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svc.clock import SYSTEM_CLOCK
from svc.config.settings import override_names
from svc.errors import ConfigError, Problem
from svc.hosted.guest_loop import GuestLoop, GuestTurns
from svc.hosted.http_serving import HttpServing
from svc.hosted.requests import RequestReader
from svc.hosted.starting import locked_config
from svc.hosted.websocket_serving import WebSocketServing
from svc.root.administrator import keep_initial_password, take_administrator
from svc.root.installation import WrongUser, end_installation
from svc.root.lock import AlreadyRunning
from svc.server import Instance, InstanceOptions

if TYPE_CHECKING:
    from svc.connection.shared import SharedState
    from svc.mounted.messages import Receive, Scope, Send
    from svc.server.ports import ServerPorts

logger = logging.getLogger("svc.hosted")

NOT_STARTED = (
    "svc has not been started: the server has to run the lifespan of its applications (uvicorn: --lifespan on; an application that mounts this one"
    " has to pass its lifespan on)"
)
ONE_PROCESS = "A root belongs to one process at a time: run the server with one worker (--workers 1), or give each its own root"


class HostedPort:
    """A port of the instance as requests of the host see it."""

    def __init__(self, ports: ServerPorts, loop: GuestLoop, turns: GuestTurns, max_body: int, log_error: Any) -> None:
        self.loop = loop.as_loop
        self.shared: SharedState = ports.connections
        self.now: Callable[[], float] = self.shared.now
        self.max_body = max_body
        self.request_turn = turns.request
        self.enter = turns.enter
        self.log_error = log_error


class Guest:
    """An instance that runs on the loop of a host."""

    def __init__(self, application: HostedApplication) -> None:
        """Build it; `start` starts it. Raises what prevents that."""
        self._root = ExitStack()
        self.loop = GuestLoop(asyncio.get_running_loop(), self._stop_host, self._log_error)
        turns = GuestTurns(self.loop.as_loop, SYSTEM_CLOCK)
        options = dict(application.options)
        administrator = take_administrator(os.environ, options)
        with ExitStack() as undo:
            config = undo.enter_context(locked_config(os.environ, options))
            options_of_instance = InstanceOptions(
                administrator,
                lambda first: (
                    keep_initial_password(config.root, first.username, first.password, sys.stderr) if first.password is not None else None
                ),
                opens_ports=False,
            )
            self.server = Instance(config, (application.directory,), self.loop.as_loop, turns, options=options_of_instance)
            end_installation(config.root)
            self.server.store.report_work(turns.request)
            self._root = undo.pop_all()
        limit = config.http.max_request_body_size
        self.port = HostedPort(self.server.application_port, self.loop, turns, limit, self._log_error)
        self.operations_port = HostedPort(self.server.operations_port, self.loop, turns, limit, self._log_error)
        self.requests = RequestReader()

    async def start(self) -> None:
        await self.server.load()
        self.server.begin()

    async def end(self) -> None:
        try:
            await self.server.end(lambda: self.loop.tasks)
        finally:
            self.loop.close()
            self._root.close()

    def _log_error(self, where: str, error: BaseException | None) -> None:
        self.server.logger.error(where, error) if error is not None else self.server.logger.error(where)

    def _stop_host(self) -> None:
        """A restart, or a store that this process cannot use any more: the host ends as on a signal, and its supervisor starts it again."""
        os.kill(os.getpid(), signal.SIGTERM)


class HostedApplication:
    """The ASGI application. `operations`: another one, for the operations API of the same instance; it has no lifespan of its own."""

    def __init__(self, directory: str | os.PathLike[str], root: str | os.PathLike[str] | None, settings: dict[str, Any]) -> None:
        self.directory = Path(directory).absolute()
        if not self.directory.is_dir():
            raise ValueError(f"not a directory of an application: {self.directory}")
        self.options = options_of(settings)
        if root is not None:
            self.options["ROOTPATH"] = str(root)
        self._guest: Guest | None = None
        self._was_reported = False

    @property
    def instance(self) -> Instance | None:
        """The instance while it runs."""
        return None if self._guest is None else self._guest.server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await self._serve(scope, receive, send, is_operation=False)

    async def operations(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"the operations API is served by http alone, not by {scope['type']}")
        await self._serve(scope, receive, send, is_operation=True)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, *, is_operation: bool) -> None:
        kind = scope["type"]
        guest = self._guest
        if kind not in ("http", "websocket"):
            raise ValueError(f"svc serves http, websocket and lifespan, not {kind}")
        if guest is None or guest.loop.host is not asyncio.get_running_loop():
            await self._refuse(kind, send)
            return
        port = guest.operations_port if is_operation else guest.port
        port.enter()
        if kind == "http":
            await HttpServing(port, scope, guest.requests.http(scope), receive, send).serve()
        else:
            await WebSocketServing(port, scope, guest.requests.websocket(scope), receive, send).serve()

    async def _refuse(self, kind: str, send: Send) -> None:
        """There is no instance, or it is on another loop."""
        if not self._was_reported:
            self._was_reported = True
            logger.error(NOT_STARTED)
        if kind == "websocket":
            await send({"type": "websocket.close", "code": 1011, "reason": "svc has not been started"})
            return
        body = f"{NOT_STARTED}\n".encode()
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 500, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    # --- lifespan ------------------------------------------------------------------------------------------------------------------------

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            async with self.running():
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except NotStarted as error:
            logger.error("%s", error)
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The instance runs during the block: for the lifespan of an application that mounts this one. Raises NotStarted."""
        try:
            if self._guest is not None:
                raise ConfigError("it has been started already, by another lifespan")
            guest = Guest(self)
            await guest.start()
            self._guest = guest
        except AlreadyRunning as error:
            raise NotStarted(f"svc cannot be started: {error}. {ONE_PROCESS}") from error
        except (ConfigError, WrongUser, Problem, OSError) as error:
            raise NotStarted(f"svc cannot be started: {error}") from error
        try:
            yield
        finally:
            self._guest = None
            await guest.end()


class NotStarted(RuntimeError):
    """The instance cannot be started, and why."""


def options_of(settings: dict[str, Any]) -> dict[str, str]:
    """Settings as options of the command line. Raises TypeError for a name that is no setting.

    >>> options_of({"logging_level": "debug", "http.cors": False})
    {'LOGGING_LEVEL': 'debug', 'HTTP_CORS': 'false'}
    """
    known = override_names()
    options: dict[str, str] = {}
    for given, value in settings.items():
        name = given.replace(".", "_")
        if name.lower() not in known and name.lower() not in ("svc_admin_username", "svc_admin_password"):
            raise TypeError(f"svc.asgi: {given!r} is not a setting; settings are named as in docs/settings.md, with _ for the dot")
        options[name.upper()] = value if isinstance(value, str) else json.dumps(value)
    return options


def asgi(directory: str | os.PathLike[str], root: str | os.PathLike[str] | None = None, **settings: Any) -> HostedApplication:
    """An ASGI 3 application that serves the svc application in `directory`.

    `root`: the directory of the data, found as by `svc run` without it. `settings`: as options of the command line, `logging_level="debug"`.
    Raises ValueError if there is no such directory, TypeError for what is no setting.

        app = svc.asgi("shop", root="/var/lib/shop")      # uvicorn main:app
    """
    return HostedApplication(directory, root, settings)
