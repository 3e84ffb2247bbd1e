"""A whole node without descriptors: real store, application, REST, dispatcher and connections on fake sockets."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from svc.analytics import Recorder
from svc.api.context import current_request, entered
from svc.api.interface import Interface
from svc.api.mqtt import MqttServer
from svc.api.server import Server, ServerParts
from svc.api.transactions import Transaction
from svc.apps import Applications, Runtime, schema_files
from svc.auth.origin_policy import OriginPolicy
from svc.auth.users import User, UserDirectory
from svc.auth.verifier import Verifier
from svc.clock import FakeClock
from svc.connection import Connections, Timeouts
from svc.connection.input_share import InputShare
from svc.content.registry import ContentTypes
from svc.http.confirmed_writes import ConfirmedWrites
from svc.http.cors import Cors
from svc.http.dispatch import Dispatcher
from svc.listeners.port_listeners import PortListeners
from svc.listeners.scopes import ListenerScopes
from svc.listeners.upgrade_chain import UpgradeChain
from svc.mounted import Mounts
from svc.mqtt.listeners import ClientListeners
from svc.prepared import PreparedRequests
from svc.protocol.http1 import Limits
from svc.query import QueryCache
from svc.reactor import Reactor
from svc.realtime.realtime import Realtime
from svc.resources import Resources
from svc.rest import Rest
from svc.scheduler import Scheduler
from svc.testing.loop import Pool
from svc.websocket import WebSocketRegistry
from svc.websocket.resource_sockets import ResourceSockets
from tests.support.fakes import FakeLoop, FakeSocket, make_reactor
from tests.support.identifying import make_identifier
from tests.support.leaks import open_files
from tests.support.prepared import open_prepared
from tests.support.stepped_loop import SteppedLoop

# The text of an application's schema is read once, and not for each node.
schema_files.parse_schema = functools.cache(schema_files.parse_schema)

APP = Path(__file__).parent.parent / "integration" / "app"


class NodePort:
    """The one port of a node, which has no number, as `server.http` returns it."""

    port = 0
    secure = False

    def __init__(self, listeners: PortListeners) -> None:
        self.listeners = listeners


class NodePorts:
    """`api.server.Ports` of a node: no other port can be opened."""

    def __init__(self, listeners: PortListeners) -> None:
        self._port = NodePort(listeners)

    def default(self) -> list[Any]:
        return [self._port]

    def open(self, port: int, secure: bool) -> Any:
        raise OSError("a node of the tests has no sockets")

    def release(self, port: Any) -> None:
        pass

    def open_socket(self, listener: Any, port: int, secure: bool, *, application: str, waits: bool) -> Any:
        raise OSError("a node of the tests has no sockets")

    def say_faults(self) -> None:
        pass


async def _no_operations(body: Any, user: User | None, authorize: bool, joined: Any) -> Any:
    raise AssertionError("a node of the tests has no operations")


class MountLog:
    """The log of mounted applications: what they do wrong is an error of the node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def error(self, *messages: object) -> None:
        error = messages[-1] if isinstance(messages[-1], BaseException) else None
        self._node.errors.append((str(messages[0]), error))

    def info(self, *messages: object) -> None:
        pass


def whole(body: bytes) -> bytes:
    """The content of a chunked body."""
    found = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        found, body = found + body[: int(size, 16)], body[int(size, 16) + 2 :]
    return found


class Node:
    """Requests from 127.0.0.1 with a local Host are the super user's, as under `svc dev`."""

    def __init__(
        self,
        path: Path,
        app: Path = APP,
        clock: FakeClock | None = None,
        make_dispatcher: Callable[..., Dispatcher] = Dispatcher,
        *,
        local: bool = True,
    ) -> None:
        """`local`: programs on this machine need no credentials."""
        self._path = path
        self.clock = FakeClock() if clock is None else clock
        self.store = open_prepared(path, clock=self.clock, make_helper=Pool)
        self.resources = Resources()
        self._loop = SteppedLoop()
        users = UserDirectory(self.store)
        self.realtime = Realtime(self.store, self._loop, self.clock, users)
        queries = QueryCache()
        self.types = ContentTypes.built_in()
        self.interface = Interface(self.store, self.resources, queries, self.realtime, self._loop, content_types=self.types)
        self.errors: list[tuple[str, BaseException | None]] = []
        self._executor = Pool()

        def log_error(where: str, error: BaseException | None) -> None:
            self.errors.append((where, error))

        identifier = make_identifier(users, clock=self.clock, local=local)

        self.recorder = Recorder()
        reactor = Reactor(self._loop, self.clock, self._executor, log_error)
        rest = Rest(self.resources, reactor, types=self.types)
        self.rest = rest
        share = InputShare(self.clock.monotonic)
        self.sockets = WebSocketRegistry(self._loop, self.clock, self.recorder, log_error, input=share)
        upgrades = UpgradeChain(self.sockets)
        upgrades.serve_with(ResourceSockets(self.resources, self.types, self._loop, reactor.report_stream))
        self.dispatcher = make_dispatcher(rest, identifier, Cors(OriginPolicy()), self.recorder, reactor, upgrades=upgrades)
        self.dispatcher.confirmed_writes = ConfirmedWrites(self.store)
        self.prepared = PreparedRequests(self.dispatcher, rest, self.resources, identifier, self.recorder)
        if type(self.dispatcher) is Dispatcher:
            self.dispatcher.prepared = self.prepared
        self.users = users
        listeners = PortListeners(
            self.dispatcher, upgrades, serves_resources=True, scopes=ListenerScopes(entered, partial(Transaction, self.store))
        )
        self.mounts = Mounts(self._loop, MountLog(self))
        clients = ClientListeners(self._loop)
        self.server = Server(
            ServerParts(
                ports=NodePorts(listeners),
                config={},
                recorder=self.recorder,
                directory=users,
                verifier=Verifier(users, clock=self.clock),
                operate=_no_operations,
                nodes=list,
                hostname="localhost",
                resources=self.interface.resources,
                content_types=self.types,
                executor=self._executor,
                current_request=current_request,
                mounts=self.mounts,
                make_mqtt=lambda: MqttServer(clients, list),
            )
        )
        self.interface.server, self.interface.auth = self.server, self.server.auth
        self.scheduler = Scheduler(
            self.store,
            self.clock,
            self._loop,
            "this",
            {"this"}.__contains__,
            report=lambda application, level, text: self.reports.append((level, text)),
        )
        runtime = Runtime(
            self.store,
            self.resources,
            queries,
            self._loop,
            self.clock,
            self._executor,
            realtime=self.realtime,
            interface=self.interface,
            report=lambda application, level, text: self.reports.append((level, text)),
            scheduler=self.scheduler,
        )
        self.reports: list[tuple[str, str]] = []
        self.applications = Applications(runtime)
        self.app = self.run(self.applications.add(app))
        self.mounts.begin()
        self.connections = Connections(
            self.dispatcher,
            make_reactor(FakeLoop(self._loop), self.clock, self._executor, log_error),
            limits=Limits(max_body_size=1 << 20),
            timeouts=Timeouts(),
            date=lambda: "Thu, 01 Jan 2026 00:00:00 GMT",
            http2=True,
            input=share,
        )

    def run(self, awaitable: Any) -> Any:
        """Run something of this node to its end; time does not pass."""
        return self._loop.run_until_complete(awaitable)

    def as_user(self, user: User | None) -> None:
        """From now on every request is this user's."""
        self.dispatcher._identify = lambda request: user  # type: ignore[method-assign]
        self.connections.prepared = None  # what is prepared knows of credentials only

    @property
    def listeners(self) -> list[str]:
        """The names of the listeners of requests that code has added; those of static files are there without."""
        chain = self.dispatcher.chain
        return [] if chain is None else [step.name for step in chain.steps if step.listener is not None and step.plain is None]

    def connect(self) -> Wire:
        return Wire(self)

    def turn(self) -> bool:
        """One turn, and one step of whatever is awaited. True: there is more to do."""
        self._loop.step()
        self.connections.input.end_turn()
        if self.store.has_pending:
            self.store.commit_turn()
        more = self.connections.end_turn()
        self.store.end_turn()
        return more or self._loop.is_busy or self.store.has_pending

    def settle(self) -> None:
        """Turns, until nothing more happens by itself."""
        turns = 0
        while self.turn():
            turns += 1
            assert turns < 100_000, "the turn does not end"

    def pass_time(self, seconds: int) -> None:
        """Second by second, as the server looks at its clock."""
        for _ in range(seconds):
            self.clock.advance(1.0)
            self.connections.sweep(self.clock.monotonic())
            self.settle()

    def pass_loop_time(self, seconds: float) -> None:
        """Timers of the loop, whose time is not the clock's."""
        self._loop.pass_time(seconds)
        self.settle()

    def close(self) -> None:
        self.connections.close_all()
        self.run(self.mounts.close())
        self.settle()
        self.check_that_nothing_is_left()
        self.realtime.close()
        self.applications.close()
        self.run(self.applications.ended())
        self.interface.close()
        self.interface.end()
        self.store.close()
        self._executor.shutdown()
        self._loop.close()
        left = [target for target in open_files(os.getpid()) if target.startswith(f"{self._path}/")]
        assert not left, f"open after the store was closed: {left}"

    def check_that_nothing_is_left(self) -> None:
        """Assert that connections which are gone hold nothing more."""
        connections, loop = self.connections, self.connections.loop
        assert not connections.open and not connections.to_flush and not connections.streams and not connections.handshakes
        assert not connections.lasting, connections.lasting
        assert connections.bodies == 0 and connections.held == 0, (connections.bodies, connections.held)
        assert isinstance(loop, FakeLoop) and not loop.readers and not loop.writers
        for database in self.store.databases.values():
            assert database.env.open_snapshots() == 0, database.name
        tasks = [task for task in asyncio.all_tasks(self._loop) if not task.done()]
        assert not tasks, tasks


class Wire:
    """A client's end of one connection."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.sock = FakeSocket()
        self.connection = node.connections.accept(self.sock, "127.0.0.1")  # type: ignore[arg-type]
        self._loop: Any = node.connections.loop

    def send(self, *pieces: bytes) -> bytes:
        """Each piece is one readable event; returns everything answered so far."""
        for piece in pieces:
            self.arrive(piece)
            self._node.settle()
        return self.sock.sent

    def arrive(self, piece: bytes) -> None:
        """One readable event; the turn goes on."""
        if self.sock in self._loop.readers:
            self.sock.incoming.append(piece)
            self._loop.readers[self.sock]()

    def ask(self, method: str, target: str, body: bytes = b"", fields: dict[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
        """One request on a fresh answer buffer: (status, fields in lower case, body)."""
        self.sock.sent = b""
        lines = [f"{method} {target} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in (fields or {"Content-Type": "application/json"}).items()]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        head, _, rest = self.sock.sent.partition(b"\r\n\r\n")
        status_line, *field_lines = head.decode("latin-1").split("\r\n")
        answered = {name.lower(): value for name, _, value in (line.partition(": ") for line in field_lines)}
        return int(status_line.split(" ")[1]), answered, rest
