"""The global `server` of application code: listeners, users, operations, figures (spec: http §12).

There is one `ServerParts` for each server instance, and on top of it a `Server` for each application: what is registered through it carries the name and
the mount of the application, and goes when the application goes. A newer version of an application is staged: from `activate` on its listeners are
asked, in the places of those of the version before it.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from svc.analytics import Recorder
from svc.api.context import current_context
from svc.api.mqtt import MqttServer
from svc.api.server_replication import SendToNode, ServerReplication
from svc.api.thread_guard import REGISTERING, refuse_helper
from svc.api.transactions import Transaction, open_transaction
from svc.auth.users import User, UserDirectory
from svc.auth.verifier import Verifier
from svc.errors import AccessViolation, ClientError, NotFound, Problem
from svc.listeners.options import ListenerOptions, read_options
from svc.listeners.port_listeners import PortListeners
from svc.listeners.routes import Route, make_route
from svc.listeners.step import HTTP, REST, UPGRADE, WS, Step
from svc.messages import Request
from svc.store.values.conversion import is_encodable

MAX_LABEL = 250  # characters of a path, method or type in analytics: they may come from clients


class OpenPort(Protocol):
    """One port: `server.application_ports.OpenPort`."""

    @property
    def listeners(self) -> PortListeners: ...

    @property
    def secure(self) -> bool: ...

    @property
    def port(self) -> int: ...


class SocketServer(Protocol):
    """What `server.socket` returns: `server.socket_servers.SocketServer`."""

    @property
    def port(self) -> int: ...

    def take_effect(self) -> None: ...

    def close(self) -> None: ...


class Ports(Protocol):
    """Opens ports, and closes them when nobody listens any more: `server.application_ports.ApplicationPorts`."""

    def default(self) -> list[Any]:
        """The plain and the TLS port of the configuration, those that there are, as OpenPorts with the same listeners."""

    def open(self, port: int, secure: bool) -> Any:
        """Another port, as an OpenPort; None without a certificate. Raises ValueError for a port that is something else's, OSError."""

    def release(self, port: Any) -> None:
        """Nothing is registered on this port any more."""

    def open_socket(self, listener: Callable[..., Any], port: int, secure: bool, *, application: str, waits: bool) -> Any:
        """A SocketServer; None without a certificate. `waits`: it accepts connections from `take_effect` on, and may have the port of a server that the
        application has already. Raises as `open`."""

    def say_faults(self) -> None:
        """Log what could not be met of the listeners' wishes (`PortListeners.faults`), unless it changes soon."""


class Mounts(Protocol):
    """Serves ASGI applications: `mounted.Mounts`."""

    def add(self, app: Callable[..., Awaitable[None]], path: str) -> Any:
        """Its `http` and `websocket` are listeners. `path`: whole, as requests have it."""

    def add_routes(self, path: str, is_resource: Callable[[str], bool]) -> Any:
        """The same for a `mounted.MountedRoutes`."""

    def remove(self, mounted: Any) -> None:
        """End it; no new requests come."""


Operate = Callable[[Mapping[str, Any], User | None, bool, Transaction | None], Awaitable[Any]]
"""(body, user, whether rights are checked, the transaction of the code that calls) -> the answer: `operations.service.Operations.perform`."""


async def _no_other_nodes(name: str, body: Mapping[str, Any]) -> Any:
    raise NotFound(f"The node '{name}' is not known")


@dataclass
class ServerParts:
    """What the `Server`s of one instance share. `nodes`: records of the other nodes. `current_request`: that of the running code, for the address of its
    caller. `resources`, `content_types`: shown as they are. `make_mqtt`: `server.mqtt` of one application, which takes effect with it."""

    ports: Ports
    config: Mapping[str, Any]
    recorder: Recorder
    directory: UserDirectory
    verifier: Verifier
    operate: Operate
    nodes: Callable[[], list[dict[str, Any]]]
    hostname: str
    resources: Any = None
    content_types: Any = None
    shard: int | None = None
    instance: int = 0
    instances: int = 1
    executor: Any = None
    mounts: Mounts | None = None
    make_mqtt: Callable[[], MqttServer | None] = lambda: None
    current_request: Callable[[], Request | None] = lambda: None
    send_to_node: SendToNode = _no_other_nodes
    owner_ranks: dict[str, int] = field(default_factory=dict)
    registrations: int = 0

    def next_rank(self, owner: str) -> tuple[int, int]:
        """Applications in the order in which they first registered something; within one, by registration."""
        self.registrations += 1
        return self.owner_ranks.setdefault(owner, len(self.owner_ranks)), self.registrations


class Server:
    """`server`, as the code of one application sees it."""

    def __init__(
        self,
        parts: ServerParts,
        application: str = "",
        *,
        url_path: str | None = None,
        host: str | None = None,
        replaces: Server | None = None,
        staged: bool = False,
    ) -> None:
        """`application`: its name, the default name of its listeners. `url_path`, `host`: where it is mounted. `staged`: nothing is in effect before
        `activate`, which also withdraws `replaces`."""
        self._parts = parts
        self._application = application
        self._mount = make_route(host, url_path, app=application)
        self._replaces = replaces
        self._is_staged = staged or replaces is not None
        self._is_withdrawn = False
        self._registered: list[tuple[Any, Step]] = []  # with its port
        self._waiting: list[tuple[Any, Step]] = []  # until `activate`
        self._sockets: list[SocketServer] = []
        self._mounted: list[Any] = []
        self._mqtt = parts.make_mqtt()
        if self._mqtt is not None and not self._is_staged:
            self._mqtt.activate()
        self.config = parts.config
        self.resources = parts.resources
        self.content_types = self.contentTypes = parts.content_types
        self.hostname = parts.hostname
        self.instance = self.worker_index = parts.instance
        self.instances = parts.instances
        self.is_main_thread = parts.instance == 0

    def of_application(
        self, name: str, *, url_path: str | None = None, host: str | None = None, replaces: Server | None = None, staged: bool = False
    ) -> Server:
        """The `server` of an application; arguments as of the class."""
        return Server(self._parts, name, url_path=url_path, host=host, replaces=replaces, staged=staged)

    # --- the application -------------------------------------------------------------------------------------------------------------

    def activate(self) -> None:
        """Put into effect what was registered so far, in place of what `replaces` has registered."""
        waiting, self._waiting = self._waiting, []
        _unstage(waiting)
        self._is_staged = False
        replaced, self._replaces = self._replaces, None
        former = replaced._take_all() if replaced is not None else []
        self._change(waiting, former)
        self._registered += waiting
        for socket in self._sockets:
            socket.take_effect()
        if self._mqtt is not None:
            self._mqtt.activate(None if replaced is None else replaced._mqtt)
        if replaced is not None:
            replaced._close_sockets()
            replaced._end_mounted()

    def withdraw(self) -> None:
        """Remove all that was registered here. Nothing can be registered any more."""
        self._change([], self._take_all())
        self._close_sockets()
        self._end_mounted()
        if self._mqtt is not None:
            self._mqtt.withdraw()

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is registered in the block takes effect at its end, and not at all if it raises: a module that is half loaded listens to nothing."""
        was_staged, self._is_staged = self._is_staged, True
        waiting, sockets, mounted = len(self._waiting), len(self._sockets), len(self._mounted)
        try:
            with nullcontext() if self._mqtt is None else self._mqtt.together():
                yield
        except BaseException:
            added, self._waiting = self._waiting[waiting:], self._waiting[:waiting]
            opened, self._sockets = self._sockets[sockets:], self._sockets[:sockets]
            _unstage(added)
            self._release_unused(port for port, _ in added)
            for socket in opened:
                socket.close()
            self._end_mounted(mounted)
            raise
        finally:
            self._is_staged = was_staged
        if not was_staged:
            self.activate()

    def _take_all(self) -> list[tuple[Any, Step]]:
        self._is_withdrawn = True
        waiting, self._waiting = self._waiting, []
        registered, self._registered = self._registered, []
        _unstage(waiting)
        self._release_unused(port for port, _ in waiting)
        return registered

    def _release_unused(self, ports: Iterable[Any]) -> None:
        for port in ports:
            if not port.listeners.are_used:
                self._parts.ports.release(port)

    def _close_sockets(self) -> None:
        sockets, self._sockets = self._sockets, []
        for socket in sockets:
            socket.close()

    def _end_mounted(self, kept: int = 0) -> None:
        """All but the first `kept`."""
        mounted, self._mounted = self._mounted[kept:], self._mounted[:kept]
        for each in mounted:
            assert self._parts.mounts is not None
            self._parts.mounts.remove(each)

    def _change(self, added: list[tuple[Any, Step]], removed: list[tuple[Any, Step]]) -> None:
        """Take effect, one arrangement for each port."""
        ports: dict[int, Any] = {id(port.listeners): port for port, _ in (*added, *removed)}
        for port in ports.values():
            listeners: PortListeners = port.listeners
            listeners.change(
                [each for owner, each in added if owner.listeners is listeners],
                [each for owner, each in removed if owner.listeners is listeners],
            )
        self._release_unused(ports.values())
        self._parts.ports.say_faults()

    # --- listeners -------------------------------------------------------------------------------------------------------------------

    def http(self, listener: Callable[..., Any], options: Mapping[str, Any] | None = None, /, **named: Any) -> list[Any]:
        """Add `listener(request, next)` to the chain of requests. Returns the servers that ask it, one for each port.

        `options`, `named`: a mapping or keyword arguments. `run_first`, `before`, `after`: its place, at or beside the listener of this name; `name`: its
        own name. `host`, `url_path`: only requests for these. `port`, `secure_port`: only requests of these ports, which are opened. Raises TypeError,
        ValueError.
        """
        return self._register(HTTP, listener, read_options(HTTP, options, named))

    request = http

    def ws(self, listener: Callable[..., Any], options: Mapping[str, Any] | None = None, /, **named: Any) -> list[Any]:
        """Add `listener(ws, request, chain_completion, next)` to the chain of WebSockets. `options`, `named`: as of `http`, and `max_payload`, bytes of a
        message. Returns as `http`."""
        return self._register(WS, listener, read_options(WS, options, named))

    def upgrade(self, listener: Callable[..., Any], options: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Add `listener(request, socket, head, next)` to the chain of requests that ask for another protocol. `options`, `named`: as of `http`."""
        self._register(UPGRADE, listener, read_options(UPGRADE, options, named))

    def mount(self, path: str, app: Callable[..., Awaitable[None]], options: Mapping[str, Any] | None = None, /, **named: Any) -> list[Any]:
        """Serve the ASGI 3 application `app` at `path` and below, HTTP and WebSockets (spec: asgi §1). `options`, `named`: as of `http`, without `url_path`.
        Returns as `http`."""
        found = read_options("mount", options, named)
        self._check(app, "mount")
        mounts = self._mounts()
        mounted = mounts.add(app, self._whole_path(path, found.host))
        there = replace(found, url_path=path)
        return self._register_mounted(mounted, there, there)

    def mount_routes(self, path: str, is_resource: Callable[[str], bool]) -> Any:
        """A `mounted.MountedRoutes` at `path`, which is asked when no resource has the address. `is_resource`: whether one serves WebSockets at a
        path.

        Raises RuntimeError, ValueError.
        """
        mounted = self._mounts().add_routes(self._whole_path(path, None), is_resource)
        self._register_mounted(mounted, ListenerOptions(after=REST, url_path=path), ListenerOptions(url_path=path))
        return mounted

    def _mounts(self) -> Mounts:
        if self._parts.mounts is None:
            raise RuntimeError("applications cannot be mounted here")
        return self._parts.mounts

    def _whole_path(self, path: str, host: str | None) -> str:
        return "/".join(("", *make_route(host, path, base=self._mount, app=self._application).segments))

    def _register_mounted(self, mounted: Any, http: ListenerOptions, ws: ListenerOptions) -> list[Any]:
        try:
            self._register(WS, mounted.websocket, ws)
            ports = self._register(HTTP, mounted.http, http)
        except BaseException:
            self._mounts().remove(mounted)
            raise
        self._mounted.append(mounted)
        return ports

    def socket(self, listener: Callable[..., Any], options: Mapping[str, Any] | None = None, /, **named: Any) -> Any:
        """Open a TCP or TLS server whose connections `listener(reader, writer)` serves, with asyncio streams. `options`, `named`: `port` or `secure_port`.
        Returns it; None without a certificate."""
        found = read_options("socket", options, named)
        self._check(listener, "socket")
        secure = found.secure_port is not None
        port = found.secure_port if secure else found.port
        if port is None:
            raise TypeError("server.socket needs port or secure_port")
        server = self._parts.ports.open_socket(listener, port, secure, application=self._application, waits=self._is_staged)
        if server is not None:
            self._sockets.append(server)
        return server

    def _check(self, listener: object, kind: str) -> None:
        if not callable(listener):
            raise TypeError(f"server.{kind} needs a listener that can be called, not {type(listener).__name__}")
        refuse_helper(REGISTERING)
        if self._is_withdrawn:
            raise RuntimeError("this version of the application has been replaced: it cannot register anything any more")

    def _register(self, kind: str, listener: Callable[..., Any], options: ListenerOptions) -> list[Any]:
        self._check(listener, kind)
        base = make_route(options.host, options.url_path, base=self._mount, app=self._application)
        rank = self._parts.next_rank(self._application)
        ports = self._ports_of(options)
        added = []
        for listeners, names in _by_listeners(ports):
            route = base if len(names) == len(_schemes_of(listeners, self._parts.ports)) else Route(base.host, base.segments, names[0])
            step = Step(options.name or self._application, listener, route, kind, rank, options, self)
            added.append((next(port for port in ports if port.listeners is listeners), step))
        if self._is_staged:
            self._waiting += added
            for port, _ in added:
                port.listeners.staged += 1
        else:
            self._registered += added
            self._change(added, [])
        return ports

    def _ports_of(self, options: ListenerOptions) -> list[Any]:
        source = self._parts.ports
        if options.port is None and options.secure_port is None:
            return source.default()
        wanted = [(number, secure) for number, secure in ((options.port, False), (options.secure_port, True)) if number is not None]
        opened = []
        try:
            for number, secure in wanted:
                port = source.open(number, secure)
                if port is not None:
                    opened.append(port)
        except (OSError, ValueError):
            self._release_unused(opened)
            raise
        return opened

    @property
    def mqtt(self) -> MqttServer:
        """The broker of MQTT: who is connected, what happens to clients, who may connect. Raises RuntimeError where there is none."""
        if self._mqtt is None:
            raise RuntimeError("there is no broker of MQTT here")
        return self._mqtt

    # --- users -----------------------------------------------------------------------------------------------------------------------

    async def get_user(self, username: str) -> User | None:
        """The user `username`, whose password is not asked for; None if there is none."""
        return self._parts.directory.get_user(username) if isinstance(username, str) else None

    async def authenticate_user(self, username: str, password: str) -> User:
        """The user `username`, if `password` is theirs. Raises ClientError 401; 503 when too many passwords are being checked."""
        if not isinstance(username, str) or not isinstance(password, str):
            raise ClientError("Login failed", 401)
        parts = self._parts
        try:
            return await parts.verifier.verify(username, password, parts.current_request(), parts.executor)
        except Problem as problem:
            if problem.status_code != 401:
                raise
            raise ClientError(problem.message, 401) from None

    async def auth(self, username: str, password: str | None = None) -> User | None:
        """The global `auth`: `get_user(username)` without a `password`, `authenticate_user` with one."""
        return await (self.get_user(username) if password is None else self.authenticate_user(username, password))

    getUser = get_user
    authenticateUser = authenticate_user

    # --- operations and figures ------------------------------------------------------------------------------------------------------

    async def operation(self, operation: Mapping[str, Any], context: Any = None, authorize: bool = False) -> Any:
        """The answer of `operation`, a mapping as the operations API takes it. `context`: `{"username": ...}`, or something with a `user`: in whose name.
        Rights are checked only with `authorize`. Within a transaction, records, users and roles that it writes are part of that, and committed with it;
        other operations take effect at once. Raises Problem."""
        if not isinstance(operation, Mapping):
            raise TypeError(f"server.operation takes a mapping with 'operation', not {type(operation).__name__}")
        transaction = open_transaction(current_context())
        return await self._parts.operate(operation, self._user_of(context, authorize is True), authorize is True, transaction)

    def _user_of(self, context: Any, authorize: bool) -> User | None:
        if isinstance(context, Mapping):
            username = context.get("username")
            user = (
                context.get("user") if username is None else self._parts.directory.get_user(username) if isinstance(username, str) else None
            )
            if username is not None and user is None and authorize:
                raise AccessViolation(None)
        else:
            user = getattr(context, "user", None)
        if user is not None and not isinstance(user, User):
            raise TypeError(f"server.operation: the user of the context must be a user of this server, not {type(user).__name__}")
        if authorize and user is not None and not user.active:
            raise ClientError("Cannot complete request: User is inactive", 401)
        return user

    def record_analytics(
        self, value: Any, metric: str, path: str | None = None, method: str | None = None, type: str | None = None
    ) -> None:
        """Record `value`, a number, a yes or no, or a function that gives the fields of an entry, as an entry of `metric` (spec: analytics §5). `path`,
        `method`, `type`: what it is about; `path` should hold no ids of records."""
        if not isinstance(metric, str) or not metric or not is_encodable(metric):
            raise TypeError(f"a metric has a name, not {metric!r}")
        if isinstance(value, (int, float)) and not _is_number(value):
            raise ValueError(f"{value!r:.50} cannot be recorded: give a finite number")
        self._parts.recorder.record(value, metric[:MAX_LABEL], _label(path), _label(method), _label(type))

    recordAnalytics = record_analytics

    # --- the cluster -----------------------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> list[ClusterNode]:
        """The other nodes that are registered."""
        return [ClusterNode(record) for record in self._parts.nodes()]

    @property
    def replication(self) -> ServerReplication:
        """Operations on other nodes."""
        return ServerReplication(self.operation, self._parts.send_to_node)

    @property
    def shards(self) -> dict[int, list[ClusterNode]]:
        """The registered nodes by the number of their shard, and this one if it has a shard."""
        found: dict[int, list[ClusterNode]] = {}
        own = self._parts.shard
        if own is not None:
            found[own] = [ClusterNode({"name": self.hostname, "shard": own})]
        for node in self.nodes:
            if node.get("shard") is not None:
                found.setdefault(node["shard"], []).append(node)
        return found

    def __repr__(self) -> str:
        return f"<server of {self._application or self.hostname}>"


class ClusterNode(Mapping[str, Any]):
    """A node of the registry: `name`, `url`, `shard` and what else is known of it, as attributes and as items; never credentials."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self._record = {"url": None, "shard": None, **{name: value for name, value in record.items() if name != "authorization"}}

    def __getitem__(self, name: str) -> Any:
        return self._record[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_record"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._record)

    def __len__(self) -> int:
        return len(self._record)

    def __repr__(self) -> str:
        return f"<node {self._record.get('name')}>"


def _is_number(value: float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _label(value: str | None) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"path, method and type are strings, not {value!r:.50}")
    return value[:MAX_LABEL].encode(errors="replace").decode()


def _unstage(waiting: list[tuple[Any, Step]]) -> None:
    for port, _ in waiting:
        port.listeners.staged -= 1


def _by_listeners(ports: list[Any]) -> list[tuple[PortListeners, list[str]]]:
    """The different listeners of some ports, each with the schemes of its ports."""
    found: dict[int, tuple[PortListeners, list[str]]] = {}
    for port in ports:
        found.setdefault(id(port.listeners), (port.listeners, []))[1].append("https" if port.secure else "http")
    return list(found.values())


def _schemes_of(listeners: PortListeners, ports: Ports) -> list[str]:
    """The schemes of all ports with these listeners."""
    default = [port for port in ports.default() if port.listeners is listeners]
    return ["https" if port.secure else "http" for port in default] or [""]
