"""What clients do that mean harm: no other client is harmed, what is kept of it is bounded, and nothing of it is left. The broker is in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import svc.mqtt.broker
import svc.testing
from svc.connection.tunnel import TunnelAcceptor
from svc.mqtt.rows import KINDS
from svc.protocol import mqtt_properties as p
from svc.protocol.mqtt import PacketReader, encode
from svc.protocol.mqtt_packets import V3, V5, Connect, Packet, Subscribe, Subscription
from svc.store.side_rows import scan_rows
from svc.testing.application import Application
from svc.testing.wire import MemorySocket
from tests.support.mqtt import broker_of, crash
from tests.unit.testing.conftest import write_application

SCHEMA = "type Sensor @table @export { id: ID @primaryKey temperature: Float }\ntype Raw @table @export { id: ID @primaryKey }\n"
LASTS: dict[str, Any] = {"clean": False, "properties": {p.SESSION_EXPIRY: 1000}}


@pytest.fixture(scope="module")
def module_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    files = {"config.yaml": "rest: true\ngraphqlSchema: {files: '*.graphql'}\n", "schema.graphql": SCHEMA}
    with svc.testing.app(write_application(tmp_path_factory.mktemp("mqtt") / "things", files)) as app:
        yield app


@pytest.fixture
def app(module_app: Application) -> Iterator[Application]:
    for table in ("Sensor", "Raw"):
        module_app.delete(f"/{table}/")
    module_app.logs.clear()
    module_app._callers.authorization(module_app._user)  # is verified from now on
    yield module_app
    for sock in list(module_app._instance.sockets):
        module_app._instance.sockets.discard(sock)
        module_app._instance.loop.hang_up(sock)
    module_app.settle()
    broker = broker_of(module_app)
    for record in list(broker.stored.each()):
        if record is not None:
            module_app.mqtt(record["id"], user=record["user"]).disconnect()
    module_app.settle()
    assert not broker.sessions and not broker._filters and not broker._tasks and not broker._opening and not broker.groups
    assert rows(module_app) == 0
    assert [entry.text for entry in module_app.logs if entry.level in ("error", "fatal")] == []


def rows(app: Application) -> int:
    databases = broker_of(app).stored.store.databases.values()
    return sum(1 for database in databases for kind in KINDS for _ in scan_rows(database, database.snapshot(), kind))


class SlowSocket(MemorySocket):
    """Its client reads nothing while `is_stuck`."""

    is_stuck = False

    def send(self, data: bytes | memoryview) -> int:
        if self.is_stuck:
            raise BlockingIOError
        return super().send(data)


class Wire:
    """A client that sends bytes, and answers nothing. `packets`: what has come. `tunnel`: the server's end."""

    def __init__(self, app: Application, version: int = V5) -> None:
        self.version = version
        self.packets: list[Packet] = []
        self.is_open = True
        self._app = app
        self._reader = PacketReader(version=version)
        self.sock = SlowSocket(app._instance.loop)
        self.sock.client = self
        app._instance.sockets.add(self.sock)
        server = app._instance.server
        acceptor = TunnelAcceptor(server.application_port.connections, server.interfaces.mqtt_link)
        self.tunnel = acceptor.accept(self.sock, "192.0.2.5", "mqtt")  # type: ignore[arg-type]

    def send(self, *sent: Packet | bytes, settles: bool = True) -> list[Packet]:
        """Send all in one piece. Returns what comes then."""
        before = len(self.packets)
        data = b"".join(each if isinstance(each, bytes) else encode(each, self.version) for each in sent)
        self._app._instance.loop.deliver(self.sock, data)
        if settles:
            self._app.settle()
        return self.packets[before:]

    def read(self) -> None:
        """It reads again."""
        self.sock.is_stuck = False
        self.tunnel.on_writable()
        self._app.settle()

    def receive(self, data: bytes) -> None:
        self._reader.feed(data)
        while (packet := self._reader.next_packet()) is not None:
            self.packets.append(packet)

    def closed(self) -> None:
        self.is_open = False

    def cancel(self) -> None:
        self.is_open = False
        self._app._instance.sockets.discard(self.sock)
        self._app._instance.loop.hang_up(self.sock)
        self._app._instance.rest()


def hello(client_id: str = "wire", version: int = V5, **options: Any) -> Connect:
    return Connect(version, client_id, username="admin", password=b"", **{"clean": True, **options})


def filters(*names: str, qos: int = 1, packet_id: int = 1) -> Subscribe:
    return Subscribe(packet_id, [Subscription(name, qos) for name in names])


# --- filters -----------------------------------------------------------------------------------------------------------------------------


def test_filters_of_a_user(app: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted over all sessions that are in memory, whatever ends these."""
    monkeypatch.setattr(svc.mqtt.broker, "USER_FILTERS", 10)
    counted = broker_of(app)._filters
    first, second, lasting = app.mqtt("first"), app.mqtt("second", version=V3), app.mqtt("lasting", **LASTS)
    for number in range(4):
        assert (first.subscribe(f"Sensor/{number}"), second.subscribe(f"Sensor/{number}", 1)) == (0, 1)
    assert counted == {"admin": 8}
    assert [lasting.subscribe(f"Sensor/{number}", 1) for number in range(3)] == [1, 1, 0x97]
    assert second.subscribe("Sensor/x") == 0x80
    assert first.subscribe("Sensor/0", 1) == 1, "one that takes the place of another"
    assert first.unsubscribe("Sensor/0") == 0 and first.unsubscribe("Sensor/0") == 0x11
    assert counted == {"admin": 9} and lasting.subscribe("Sensor/x", 1) == 1
    lasting.cancel()
    assert counted == {"admin": 7}, "it is on the disk alone"
    second.cancel()
    lasting = app.mqtt("lasting", **LASTS)
    again = app.mqtt("lasting", **LASTS)
    assert counted == {"admin": 6}
    crash(app)
    again = app.mqtt("lasting", **LASTS)
    assert counted == {"admin": 3}
    app.mqtt("lasting")
    assert not counted and not again.is_open
