"""Ports that application code opens, without sockets (spec: http §12.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from svc.analytics import Recorder
from svc.config import Config
from svc.connection import listening
from svc.connection.input_share import InputShare
from svc.server import application_ports, ports
from svc.server.application_ports import ApplicationPorts
from svc.server.ports import PortParts
from svc.server.socket_servers import SocketServer
from tests.support.fakes import make_reactor
from tests.unit.server.test_shutdown import FakeLoop


class FakeListener:
    path = None

    def __init__(self, sock: int, connections: Any = None, *rest: Any, **options: Any) -> None:
        self.port = sock or 50_000
        self.scheme = next((each for each in ("https", "tls", "tcp") if each in rest), "http")
        self.is_secure = self.scheme == "https"
        self.address = f"{self.scheme}://127.0.0.1:{self.port}"
        self.connections = connections
        self.state = "bound"

    def start(self) -> None:
        self.state = "started"

    def stop(self) -> None:
        self.state = "stopped"

    def discard(self) -> None:
        self.state = "discarded"


class FakePorts:
    """`ServerPorts`."""

    def __init__(self, row: Any, dispatcher: Any) -> None:
        network = row.network(None)
        self.wanted = (network.port, network.secure_port)
        self.dispatcher = dispatcher
        self.listeners: list[FakeListener] = []
        self.connections = SimpleNamespace(open=set(), close_all=lambda: self.calls.append("close_all"), end_turn=lambda: False)
        self.calls: list[str] = []

    def listen(self) -> None:
        port, secure_port = self.wanted
        if port is not None:
            self.listeners.append(FakeListener(port))
        elif secure_port != 999:
            self.listeners.append(FakeListener(secure_port, None, "https"))
        self.calls.append("listen")

    def __getattr__(self, name: str) -> Callable[[], None]:
        return lambda: self.calls.append(name)


class FakeContexts:
    context = "a context"

    def __init__(self, is_usable: bool) -> None:
        self.refreshed = 0
        self._is_usable = is_usable

    def open(self) -> bool:
        return self._is_usable

    def refresh(self) -> None:
        self.refreshed += 1


class Chains:
    def use(self, *chains: Any) -> None:
        pass


class World:
    def __init__(self, root: Path) -> None:
        self.config = Config.from_document({"http": {"port": 8000, "securePort": 8443, "host": "::1"}}, root)
        self.loop = FakeLoop()
        self.said: list[str] = []
        self.made: list[FakePorts] = []
        self.has_certificate = True
        self.ports = ApplicationPorts(
            PortParts(self.config, make_reactor(self.loop), self, Recorder(), lambda: "", InputShare(lambda: 0.0)),  # type: ignore[arg-type]
            SimpleNamespace(make_contexts=lambda what, http2: FakeContexts(self.has_certificate)),  # type: ignore[arg-type]
            make_dispatcher=lambda: (Chains(), Chains()),  # type: ignore[arg-type, return-value]
            make_ports=self.make_ports,
        )
        self.default = FakePorts(SimpleNamespace(network=lambda config: SimpleNamespace(port=8000, secure_port=8443)), None)
        self.default.listeners = [FakeListener(8000), FakeListener(8443, None, "https")]
        self.ports.set_default(self.default, Chains(), Chains())  # type: ignore[arg-type]

    @property
    def logger(self) -> Any:
        return SimpleNamespace(warn=self.said.append)

    def make_ports(self, row: Any, parts: Any, dispatcher: Any, certificates: Any) -> Any:
        self.made.append(FakePorts(row, dispatcher))
        return self.made[-1]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(application_ports, "Listener", FakeListener)
    monkeypatch.setattr(application_ports, "open_port", lambda name, port, hosts, setting, source: [port] * len(hosts))
    yield World(tmp_path)


def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    pass


def test_the_ports_of_the_configuration(world: World) -> None:
    plain, secure = world.ports.default()
    assert (plain.port, plain.secure, plain.address, plain.is_open) == (8000, False, "http://127.0.0.1:8000", True)
    assert (secure.port, secure.secure, secure.address, secure.connections) == (8443, True, "https://127.0.0.1:8443", 0)
    assert plain.listeners is secure.listeners
    world.default.listeners.clear()
    assert (plain.port, plain.address, plain.is_open) == (8000, "http://[::1]:8000", False)
    assert world.ports.open(8000, False) is plain
    assert world.ports.open(8443, True) is secure


@pytest.mark.parametrize(
    ("port", "secure", "fault"),
    [
        (8000, True, "plain port of the configuration"),
        (8443, False, "TLS port of the configuration"),
        (9925, False, "taken by operationsApi.network"),
        (1883, False, "taken by mqtt.network"),
        (8883, True, "taken by mqtt.network"),
    ],
)
def test_ports_of_others_are_refused(world: World, port: int, secure: bool, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        world.ports.open(port, secure)
    assert world.made == []


def test_another_port_is_opened_once_and_serves_from_the_start_of_the_instance_on(world: World) -> None:
    opened = world.ports.open(80, False)
    assert opened is not None
    assert world.ports.open(80, False) is opened
    assert (opened.port, world.made[0].wanted, world.made[0].calls) == (80, (80, None), ["listen"])
    with pytest.raises(ValueError, match=r"taken by server\.http"):
        world.ports.open(80, True)
    assert world.ports.others == world.made
    world.ports.start()
    assert world.made[0].calls == ["listen", "start"]
    later = world.ports.open(443, True)
    assert later is not None
    assert (later.secure, world.made[1].wanted, world.made[1].calls) == (True, (None, 443), ["listen", "start"])
    assert world.ports.open(0, False) is not world.ports.open(0, False)


def test_without_a_certificate_a_tls_port_is_not_opened(world: World) -> None:
    assert world.ports.open(999, True) is None
    assert world.ports.others == []


def test_a_released_port_ends_after_its_answers(world: World) -> None:
    early = world.ports.open(80, False)
    assert early is not None
    world.ports.release(early)
    assert (world.made[0].calls, world.ports.others) == (["listen", "discard"], [])
    world.ports.start()
    opened = world.ports.open(80, False)
    assert opened is not None
    world.ports.release(opened)
    world.ports.release(opened)
    assert (world.made[1].calls, world.ports.others) == (["listen", "start", "stop"], [world.made[1]])
    assert world.ports.open(80, False) is not opened
    world.loop.run()
    assert (world.made[1].calls[3:], world.ports.others) == (["close_all"], [world.made[2]])
    world.ports.release(world.ports.default()[0])
    assert world.default.calls == []


def test_sockets(world: World) -> None:
    plain = world.ports.open_socket(listen, 70, False)
    secure = world.ports.open_socket(listen, 71, True)
    assert plain is not None
    assert secure is not None
    assert (plain.address, plain.secure, plain.connections, plain.accepted) == ("tcp://127.0.0.1:70", False, 0, 0)
    assert (secure.address, secure.secure) == ("tls://127.0.0.1:71", True)
    with pytest.raises(ValueError, match=r"taken by server\.socket"):
        world.ports.open(70, False)
    world.ports.start()
    later = world.ports.open_socket(listen, 72, False)
    assert later is not None
    assert [server._listeners[0].state for server in (plain, secure, later)] == ["started"] * 3  # type: ignore[attr-defined]
    world.ports.sweep(0.0)
    assert secure.contexts.refreshed == 1  # type: ignore[union-attr]
    plain.close()
    plain.close()
    assert world.ports.open(70, False) is not None
    world.ports.stop()
    world.ports.close()
    assert not (secure.is_open or later.is_open)
    world.has_certificate = False
    assert world.ports.open_socket(listen, 73, True) is None


def test_the_next_version_of_an_application_shares_the_port_of_a_socket(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SocketServer, "share", lambda server: [server.port])

    def state(server: SocketServer | None) -> str:
        assert server is not None
        return str(server._listeners[0].state)  # type: ignore[attr-defined]

    world.ports.start()
    first = world.ports.open_socket(listen, 70, False, application="shop", waits=True)
    assert first is not None and state(first) != "started"
    with pytest.raises(ValueError, match=r"taken by server\.socket"):
        world.ports.open_socket(listen, 70, False, application="shop", waits=True)
    first.take_effect()
    assert state(first) == "started"
    for application, waits, secure in (("other", True, False), ("shop", False, False), ("shop", True, True)):
        with pytest.raises(ValueError, match=r"taken by server\.socket"):
            world.ports.open_socket(listen, 70, secure, application=application, waits=waits)
    dropped = world.ports.open_socket(listen, 70, False, application="shop", waits=True)
    assert dropped is not None
    dropped.close()
    assert (state(first), state(dropped)) == ("started", "discarded")
    second = world.ports.open_socket(listen, 70, False, application="shop", waits=True)
    assert second is not None
    second.take_effect()
    first.close()
    assert (state(second), first.is_open) == ("started", False)


def test_a_port_that_cannot_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(port: int, hosts: tuple[str, ...]) -> None:
        raise OSError(98, "Address already in use", hosts[0])

    monkeypatch.setattr(listening, "listen_on", fail)
    with pytest.raises(OSError, match=r"server\.socket port 70, http\.host 10\.0\.0\.7: Address already in use"):
        ports.open_port("server.socket port", 70, ("10.0.0.7",), "http.host")


def test_a_socket_is_opened_at_all_addresses(world: World) -> None:
    world.ports._config = Config.from_document({"http": {"host": ["127.0.0.1", "::1"]}}, world.config.root)
    server = world.ports.open_socket(listen, 70, False)
    assert server is not None
    world.ports.start()
    assert [each.state for each in server._listeners] == ["started", "started"]  # type: ignore[attr-defined]
    server.close()
    assert [each.state for each in server._listeners] == ["stopped", "stopped"]  # type: ignore[attr-defined]


def test_what_was_opened_is_closed_when_the_start_fails(world: World) -> None:
    world.ports.open(80, False)
    server = world.ports.open_socket(listen, 70, False)
    world.ports.discard()
    assert world.made[0].calls == ["listen", "discard"]
    assert server is not None
    assert server._listeners[0].state == "discarded"  # type: ignore[attr-defined]


def test_faults_are_said_once_and_when_they_last(world: World) -> None:
    listeners = world.ports.default()[0].listeners
    listeners.faults = ["first"]
    world.ports.say_faults()
    listeners.faults = ["second"]
    world.ports.say_faults()
    world.loop.run()
    assert world.said == ["second"]
    world.ports.say_faults()
    world.loop.run()
    assert world.said == ["second"]
