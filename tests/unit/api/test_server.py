"""The object `server`: options, ports, versions of an application, users, operations, figures (spec: http §12)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from svc.api.server import Server, ServerParts
from svc.auth.roles import Role
from svc.auth.users import User
from svc.auth.verifier import Verifier
from svc.errors import AccessViolation, ClientError, Overloaded, Problem
from svc.listeners.port_listeners import PortListeners
from svc.listeners.request_chain import RequestChain
from svc.listeners.step import Step
from svc.messages import HeaderBlock, Request
from svc.websocket import MAX_PAYLOAD
from tests.support.node import Node


class Port:
    """One port, and the chains that its listeners were arranged into."""

    def __init__(self, port: int, secure: bool, listeners: PortListeners | None = None) -> None:
        self.port = port
        self.secure = secure
        self.chain: RequestChain | None = None
        self.ws: list[Any] = []
        self.upgrades: list[Any] = []
        self.arrangements = 0
        upgrades = SimpleNamespace(use=self.use_upgrades)
        self.listeners = PortListeners(self, upgrades, serves_resources=port < 10, scopes=None) if listeners is None else listeners

    def use(self, chain: RequestChain | None) -> None:
        self.chain = chain
        self.arrangements += 1

    def use_upgrades(self, steps: list[Step], websockets: list[Step]) -> None:
        self.upgrades = [step.listener for step in steps]
        self.ws = [(step.listener, step.options.max_payload) for step in websockets]

    def asked(self, target: str = "/", scheme: str = "http") -> list[Any]:
        """The listeners of a request, with the names of the other steps between them."""
        assert self.chain is not None
        request = Request("GET", target, HeaderBlock([("host", "a")]))
        request.scheme = scheme
        return [step.listener or step.name for step in self.chain.steps if step.route.rest_of(request) is not None]


class SocketServer:
    port = 7000

    def __init__(self) -> None:
        self.closed = False

    def take_effect(self) -> None:
        self.is_in_effect = True

    def close(self) -> None:
        self.closed = True


class Ports:
    def __init__(self) -> None:
        self.plain = Port(1, False)
        self.tls = Port(2, True, self.plain.listeners)
        self.opened: dict[tuple[int, bool], Port] = {}
        self.released: list[int] = []
        self.sockets: list[tuple[int, bool]] = []
        self.told = 0

    def default(self) -> list[Any]:
        return [self.plain, self.tls]

    def open(self, port: int, secure: bool) -> Any:
        if port == 666:
            raise OSError("in use")
        if port == 999:
            return None
        for each in self.default():
            if (each.port, each.secure) == (port, secure):
                return each
        return self.opened.setdefault((port, secure), Port(port, secure))

    def release(self, port: Any) -> None:
        if self.opened.pop((port.port, port.secure), None) is not None:
            self.released.append(port.port)

    def open_socket(self, listener: Any, port: int, secure: bool, *, application: str, waits: bool) -> Any:
        self.sockets.append((port, secure))
        if port == 999:
            return None
        server = SocketServer()
        server.is_in_effect = not waits
        return server

    def say_faults(self) -> None:
        self.told += 1


class World:
    def __init__(self, node: Node) -> None:
        self.node = node
        self.ports = Ports()
        self.operated: list[Any] = []
        self.known: list[dict[str, Any]] = []
        self.parts = ServerParts(
            ports=self.ports,
            config={"http": {"port": 1}},
            recorder=node.recorder,
            directory=node.dispatcher._identifier._directory,
            verifier=Verifier(node.dispatcher._identifier._directory, clock=node.clock),
            operate=self.operate,
            nodes=lambda: self.known,
            hostname="here",
            resources=node.resources,
            content_types=node.types,
        )
        self.server = Server(self.parts)

    async def operate(self, body: Any, user: User | None, authorize: bool, joined: Any) -> Any:
        self.operated.append((body, None if user is None else user.username, authorize))
        return {"done": True}

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.node._loop.run_until_complete(work)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    made = Node(tmp_path_factory.mktemp("store"))
    yield made
    made.close()


@pytest.fixture
def world(node: Node) -> World:
    return World(node)


def first(request: Any, next: Any) -> None:
    return None


def second(request: Any, next: Any) -> None:
    return None


async def on_socket(ws: Any, request: Any, completion: Any, next: Any) -> None:
    return None


# --- options -----------------------------------------------------------------------------------------------------------------------


def test_options_in_every_form(world: World) -> None:
    server = world.server
    server.http(first)
    server.http(second, {"runFirst": True, "before": None})
    server.request(second, {"after": "authentication"}, name="x")
    assert world.ports.plain.asked() == [second, "authentication", second, "graphql", "rest", first]
    server.ws(on_socket, maxPayload=10, urlPath="/")
    server.ws(on_socket, {"max_payload": 20}, runFirst=True)
    assert world.ports.plain.ws == [(on_socket, 20), (on_socket, 10)]
    assert server.upgrade(first, run_first=True) is None  # type: ignore[func-returns-value]
    server.upgrade(second)
    assert world.ports.plain.upgrades == [first, None, second]


@pytest.mark.parametrize(
    ("options", "named", "error"),
    [
        ({"first": True}, {}, "server.http has no option 'first'; it has port, secure_port, run_first"),
        ({}, {"maxPayload": 1}, "no option 'maxPayload'"),
        ({"run_first": True}, {"runFirst": True}, "run_first is given twice"),
        ({"run_first": 1}, {}, "True or False"),
        ({"port": "80"}, {}, "port number"),
        ({"port": True}, {}, "port number"),
        ({"port": 70000}, {}, "port number"),
        ({"secure_port": -1}, {}, "port number"),
        ({"name": ""}, {}, "name must be a string"),
        ({"before": ["a"]}, {}, "before must be a string"),
        ({"host": 1}, {}, "host must be a string"),
        ({"url_path": "/a/../b"}, {}, "url_path"),
        ("first", {}, "options are a mapping"),
        ([("port", 1)], {}, "options are a mapping"),
    ],
)
def test_wrong_options_are_refused_with_a_reason(world: World, options: Any, named: dict[str, Any], error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        world.server.http(first, options, **named)
    assert len(world.ports.plain.listeners) == 0


def test_a_listener_can_be_called(world: World) -> None:
    for call in (world.server.http, world.server.ws, world.server.upgrade, world.server.socket):
        with pytest.raises(TypeError, match="can be called, not str"):
            call("x", port=10)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "1"])
def test_the_size_of_a_message_is_a_number_of_bytes(world: World, size: Any) -> None:
    with pytest.raises(ValueError, match="max_payload"):
        world.server.ws(on_socket, max_payload=size)


# --- ports -------------------------------------------------------------------------------------------------------------------------


def test_without_a_port_it_is_for_both_of_the_configuration(world: World) -> None:
    assert world.server.http(first) == [world.ports.plain, world.ports.tls]
    assert world.ports.plain.asked() == world.ports.plain.asked(scheme="https") == ["authentication", "graphql", "rest", first]
    assert world.server.ws(on_socket) == [world.ports.plain, world.ports.tls]
    assert world.ports.plain.ws == [(on_socket, MAX_PAYLOAD)]


def test_a_port_of_the_configuration_that_is_named_is_for_itself_alone(world: World) -> None:
    assert world.server.http(first, port=1) == [world.ports.plain]
    assert world.server.http(second, secure_port=2) == [world.ports.tls]
    assert world.ports.plain.asked() == ["authentication", "graphql", "rest", first]
    assert world.ports.plain.asked(scheme="https") == ["authentication", "graphql", "rest", second]
    assert world.server.http(second, port=1, secure_port=2) == [world.ports.plain, world.ports.tls]
    assert world.ports.plain.asked(scheme="https") == ["authentication", "graphql", "rest", second, second]


def test_other_ports_are_shared_and_closed_with_the_last_listener(world: World) -> None:
    one, two = world.server.of_application("one"), world.server.of_application("two")
    (port,) = one.http(first, port=80)
    assert two.http(second, port=80, run_first=True) == [port]
    assert port.asked() == [second, "authentication", first]
    secure = one.http(first, secure_port=80)
    assert secure[0] is not port
    one.withdraw()
    assert world.ports.released == [80]
    assert port.asked() == [second, "authentication"]
    two.withdraw()
    assert world.ports.released == [80, 80]
    assert world.ports.opened == {}


def test_without_a_certificate_there_is_no_server(world: World) -> None:
    assert world.server.http(first, port=80, secure_port=999) == [world.ports.opened[80, False]]
    assert world.server.socket(first, secure_port=999) is None


def test_a_port_that_cannot_be_opened_leaves_nothing_behind(world: World) -> None:
    with pytest.raises(OSError, match="in use"):
        world.server.http(first, port=80, secure_port=666)
    assert (world.ports.opened, world.ports.released) == ({}, [80])


def test_sockets(world: World) -> None:
    with pytest.raises(TypeError, match="needs port or secure_port"):
        world.server.socket(first)
    with pytest.raises(TypeError, match="no option 'name'"):
        world.server.socket(first, port=1, name="x")
    app = world.server.of_application("app")
    server = app.socket(first, {"port": 70, "securePort": 71})
    assert world.ports.sockets == [(71, True)]
    app.withdraw()
    assert server.closed


# --- applications ------------------------------------------------------------------------------------------------------------------


def test_names_and_mounts_are_those_of_the_application(world: World) -> None:
    shop = world.server.of_application("shop", url_path="/mount", host="Shop.example")
    shop.http(first, url_path="own", host="other")
    shop.http(first)
    world.server.http(second, before="shop")
    assert world.ports.plain.chain is not None
    found = [(step.name, step.route.host, step.route.segments) for step in world.ports.plain.chain.steps]
    assert found == [
        ("authentication", "", ()),
        ("", "", ()),
        ("shop", "shop.example", ("mount", "own")),
        ("shop", "shop.example", ("mount",)),
        ("graphql", "", ()),
        ("rest", "", ()),
    ]


def test_a_newer_version_takes_the_places_of_the_one_before_it_at_once(world: World) -> None:
    old = world.server.of_application("shop")
    old.http(first)
    old.http(first, port=80)
    socket = old.socket(first, port=70)
    world.server.of_application("other").http(on_socket)
    new = world.server.of_application("shop", replaces=old)
    new.http(second)
    new.http(second, port=80)
    new.http(second, port=81)
    assert world.ports.plain.asked() == ["authentication", "graphql", "rest", first, on_socket]
    assert world.ports.opened[81, False].chain is None
    before = world.ports.plain.arrangements
    new.activate()
    assert world.ports.plain.arrangements == before + 1
    assert world.ports.plain.asked() == ["authentication", "graphql", "rest", second, on_socket]
    assert world.ports.opened[80, False].asked() == ["authentication", second]
    assert world.ports.released == []
    assert socket.closed
    with pytest.raises(RuntimeError, match="replaced"):
        old.http(first)
    new.http(first)  # from now on at once
    assert world.ports.plain.asked() == ["authentication", "graphql", "rest", second, first, on_socket]


def test_a_newer_version_that_fails_leaves_the_old_one(world: World) -> None:
    old = world.server.of_application("shop")
    old.http(first)
    new = world.server.of_application("shop", replaces=old)
    new.http(second)
    new.http(second, port=81)
    new.withdraw()
    assert world.ports.plain.asked() == ["authentication", "graphql", "rest", first]
    assert world.ports.released == [81]
    old.http(second)


def test_what_is_registered_together_takes_effect_together_or_not_at_all(world: World) -> None:
    app = world.server.of_application("shop")
    with app.together():
        app.http(first)
        app.http(first, port=80)
        assert world.ports.plain.chain is None
    assert world.ports.plain.asked() == ["authentication", "graphql", "rest", first]
    with pytest.raises(KeyError), app.together():
        app.http(second)
        app.http(second, port=80)
        app.http(second, port=81)
        socket = app.socket(first, port=70)
        raise KeyError
    assert world.ports.plain.asked() == ["authentication", "graphql", "rest", first]
    assert world.ports.released == [81]
    assert socket.closed
    app.http(second)
    assert world.ports.plain.asked() == ["authentication", "graphql", "rest", first, second]


def test_a_port_for_which_a_listener_waits_is_not_released(world: World) -> None:
    new = world.server.of_application("shop", staged=True)
    other = world.server.of_application("shop", staged=True)
    with new.together():
        new.http(first, port=81)
    with pytest.raises(KeyError), other.together():
        other.http(second, port=81)
        raise KeyError
    with pytest.raises(OSError, match="in use"):
        new.http(second, port=81, secure_port=666)
    assert world.ports.released == []
    new.activate()
    assert first in world.ports.opened[81, False].asked()
    new.withdraw()
    assert world.ports.released == [81]


def test_a_socket_accepts_connections_when_its_version_takes_effect(world: World) -> None:
    new = world.server.of_application("shop", staged=True)
    with new.together():
        waiting = new.socket(first, port=70)
    assert not waiting.is_in_effect
    new.activate()
    assert waiting.is_in_effect and new.socket(first, port=71).is_in_effect


def test_a_version_that_is_staged_stays_so(world: World) -> None:
    new = world.server.of_application("shop", staged=True)
    with new.together():
        new.http(first)
    assert world.ports.plain.chain is None
    new.activate()
    assert world.ports.plain.asked() == ["authentication", "graphql", "rest", first]


def test_unmet_wishes_are_told(world: World) -> None:
    world.server.http(first, name="a", before="nobody")
    assert world.ports.plain.listeners.faults == ["there is no listener 'nobody', before which 'a' wants to be"]
    assert world.ports.told == 1
    world.server.http(second, name="nobody")
    assert world.ports.plain.listeners.faults == []


# --- users -------------------------------------------------------------------------------------------------------------------------


def test_users(world: World) -> None:
    name = world.parts.directory.first_super_user().username  # type: ignore[union-attr]
    user = world.run(world.server.get_user(name))
    assert (user.username, user.active, user.role.permission["super_user"]) == (name, True, True)
    assert isinstance(user.role, Role)
    assert not hasattr(user, "password")
    for unknown in ("nobody", "", None, 7, "\udc80", "a" * 5000):
        assert world.run(world.server.getUser(unknown)) is None  # type: ignore[arg-type]
    assert world.run(world.server.auth(name)) is user


@pytest.mark.parametrize("password", ["wrong", "", "\udc80", 7, b"x"])
def test_a_wrong_password_is_a_client_error(world: World, password: Any) -> None:
    name = world.parts.directory.first_super_user().username  # type: ignore[union-attr]
    for call in (world.server.auth, world.server.authenticate_user, world.server.authenticateUser):
        with pytest.raises(ClientError) as refused:
            world.run(call(name, password))
        assert (refused.value.status_code, refused.value.message) == (401, "Login failed")


def test_no_password_is_not_an_empty_one(world: World) -> None:
    with pytest.raises(ClientError):
        world.run(world.server.authenticate_user("admin", None))  # type: ignore[arg-type]


def test_a_server_that_is_too_busy_says_so(world: World) -> None:
    class Busy:
        async def verify(self, *arguments: Any) -> User:
            raise Overloaded

    world.parts.verifier = Busy()  # type: ignore[assignment]
    with pytest.raises(Problem) as refused:
        world.run(world.server.authenticate_user("a", "b"))
    assert refused.value.status_code == 503


# --- operations and figures ----------------------------------------------------------------------------------------------------------


def test_operations_are_run_in_the_name_of_the_context(world: World) -> None:
    name = world.parts.directory.first_super_user().username  # type: ignore[union-attr]
    body = {"operation": "describe_all"}
    user = world.run(world.server.get_user(name))

    class Context:
        pass

    context = Context()
    context.user = user  # type: ignore[attr-defined]
    for given in (None, {}, {"username": name}, {"user": user}, context):
        assert world.run(world.server.operation(body, given)) == {"done": True}
    world.run(world.server.operation(body, {"username": name}, True))
    world.run(world.server.operation(body, {"username": "nobody"}))
    assert world.operated == [
        (body, None, False), (body, None, False), (body, name, False), (body, name, False), (body, name, False),
        (body, name, True), (body, None, False),
    ]  # fmt: skip


def test_whose_rights_are_checked_has_to_be_somebody(world: World) -> None:
    with pytest.raises(AccessViolation):
        world.run(world.server.operation({}, {"username": "nobody"}, authorize=True))
    with pytest.raises(ClientError) as refused:
        world.run(world.server.operation({}, {"user": User("a", active=False)}, authorize=True))
    assert refused.value.status_code == 401
    with pytest.raises(TypeError, match="user of this server"):
        world.run(world.server.operation({}, {"user": "admin"}))
    with pytest.raises(TypeError, match="takes a mapping"):
        world.run(world.server.operation("describe_all"))  # type: ignore[arg-type]
    assert world.operated == []


def test_figures(world: World) -> None:
    recorder = world.node.recorder
    recorder.close()
    server = world.server
    server.record_analytics(5, "price", "Quote", "POST", "x")
    server.recordAnalytics(7.0, "price", "Quote", "POST", "x")
    server.record_analytics(True, "priced")
    server.record_analytics(lambda: {"depth": 3}, "queue")
    server.record_analytics(1, "long", "p" * 1000, type="\udc80")
    period = recorder.close()
    assert period is not None
    entries = {entry["metric"]: entry for entry in period.iter_entries() if entry is not None}
    assert (entries["price"]["count"], entries["price"]["mean"]) == (2, 6)
    assert (entries["priced"]["count"], entries["queue"]["depth"]) == (1, 3)
    assert (entries["long"]["path"], entries["long"]["type"]) == ("p" * 250, "?")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, "5", None, [1]])
def test_what_is_no_figure_is_refused(world: World, value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        world.server.record_analytics(value, "price")


@pytest.mark.parametrize("metric", ["", None, 7, "\udc80"])
def test_a_metric_has_a_name(world: World, metric: Any) -> None:
    with pytest.raises(TypeError, match="name"):
        world.server.record_analytics(1, metric)
    with pytest.raises(TypeError, match="strings"):
        world.server.record_analytics(1, "a", path=7)  # type: ignore[arg-type]


# --- the rest ------------------------------------------------------------------------------------------------------------------------


def test_other_members(world: World) -> None:
    server = world.server
    assert (server.config["http"]["port"], server.hostname, server.resources) == (1, "here", world.node.resources)
    assert server.content_types is server.contentTypes is world.node.types
    assert (server.instance, server.instances, server.worker_index, server.is_main_thread) == (0, 1, 0, True)


def test_nodes_and_shards(world: World) -> None:
    assert (world.server.nodes, world.server.shards) == ([], {})
    world.known = [
        {"name": "two", "url": "wss://two:9933", "shard": 3, "authorization": {"password": "secret"}},
        {"name": "three", "url": "wss://three:9933"},
    ]
    world.parts.shard = 3
    two, three = world.server.nodes
    assert (two.name, two["url"], two.shard, dict(two)) == (
        "two",
        "wss://two:9933",
        3,
        {"name": "two", "url": "wss://two:9933", "shard": 3},
    )
    assert (three.shard, hasattr(three, "authorization"), "secret" in repr(two)) == (None, False, False)
    assert {number: [each.name for each in nodes] for number, nodes in world.server.shards.items()} == {3: ["here", "two"]}


def test_operations_on_other_nodes(world: World) -> None:
    asked: list[Any] = []

    async def operate(body: Any, user: Any, authorize: bool, transaction: Any) -> Any:
        asked.append(body)
        return {"replicated": []}

    async def send(name: str, body: Any) -> Any:
        asked.append((name, body))
        return 5

    replication = world.server.replication
    with pytest.raises(Problem) as caught:
        asyncio.run(replication.send_operation_to_node("b", {"operation": "x"}))
    assert caught.value.status_code == 404
    world.parts.operate, world.parts.send_to_node = operate, send
    replication = world.server.replication
    assert asyncio.run(replication.replicate_operation({"operation": "x"})) == {"replicated": []}
    assert asyncio.run(replication.sendOperationToNode("b", {"operation": "x"}, {})) == 5
    assert asked == [{"operation": "x", "replicated": True}, ("b", {"operation": "x"})]
    with pytest.raises(TypeError):
        asyncio.run(replication.send_operation_to_node("b", 5))  # type: ignore[arg-type]


def test_the_caller_of_a_login_is_the_running_request(node: Node, tmp_path: Path) -> None:
    seen: list[Any] = []

    class Watching(Verifier):
        async def verify(self, username: str, password: str, request: Request | None, executor: Any = None) -> User:
            seen.append(request)
            raise Problem("Login failed", 401)

    async def login(request: Request, next: Any) -> Any:
        await asyncio.sleep(0)
        return await node.server.auth("a", "b")

    parts = node.server._parts
    verifier, parts.verifier = parts.verifier, Watching(parts.directory, clock=node.clock)
    app = node.server.of_application("login")
    app.http(login, url_path="/own-login")
    try:
        assert node.connect().ask("GET", "/own-login")[0] == 401
        assert [request.peer for request in seen] == ["127.0.0.1"]
    finally:
        parts.verifier = verifier
        app.withdraw()
