"""What clients do that mean harm: no other client is harmed, what is kept of it is bounded, and nothing of it is left. The broker is in memory."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import pytest

import svc.mqtt.broker
import svc.testing
from svc.connection.tunnel import TunnelAcceptor
from svc.mqtt.rows import KINDS
from svc.protocol import mqtt_properties as p
from svc.protocol.mqtt import PacketReader, encode
from svc.protocol.mqtt_packets import V3, V5, Ack, Connect, Disconnect, Packet, Ping, Publish, Suback, Subscribe, Subscription, Unsubscribe
from svc.realtime.followed_database import FollowedDatabase
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


class Wire:
    """A client that sends bytes, and answers nothing. `packets`: what has come. `tunnel`: the server's end."""

    def __init__(self, app: Application, version: int = V5) -> None:
        self.version = version
        self.packets: list[Packet] = []
        self.is_open = True
        self._app = app
        self._reader = PacketReader(version=version)
        self.sock = MemorySocket(app._instance.loop)
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
        self._app._instance.loop.give_room(self.sock, inf)
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


def test_long_filters(app: Application) -> None:
    """A session keeps its filters, and stores them."""
    client = app.mqtt("s", **LASTS)
    for filter in ("Sensor/+/" + "a" * 65_000, "Sensor/" + "a" * 65_000, "$share/g/Sensor/+/" + "a" * 65_000, "Sensor/" + "/a" * 32_000):
        assert client.subscribe(filter[:65_535], 1) == 0x8F
    assert client.subscribe("Sensor/" + "/".join("+" * 8) + "/a" * 56, 1) == 1
    assert client.subscribe("Sensor/" + "/".join("+" * 8) + "/a" * 57, 1) == 0x8F
    assert client.publish("Sensor/" + "a" * 65_528, "{}", 1) == 0x99
    assert client.publish("Sensor" + "/a" * 32_764, "{}", 1) == 0x99


def test_subscriptions_that_are_replaced_again_and_again(app: Application) -> None:
    client = app.mqtt("s", acknowledges=False, **LASTS)
    names = [f"Sensor/{number}" for number in range(1000)]
    app.put("/Sensor/0", {"temperature": 0})
    for _ in range(5):
        client._send(filters(*names, packet_id=9))
        client._send(Unsubscribe(10, names[500:]))
        (session,) = broker_of(app).sessions.values()
        assert len(session.deliveries) == 500 and len(session.former) <= len(session.flying) <= 100
        (record,) = (each for each in broker_of(app).stored.each() if each is not None)
        assert len(record["subscriptions"]) == 500 + len(session.former)
    client.cancel()
    client = app.mqtt("s", **LASTS)
    (session,) = broker_of(app).sessions.values()
    client.unsubscribe(names[0])
    assert len(session.former) <= 1 and not session.flying, "what was under way is over"


# --- slow readers, slow writers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("packet", "times"), [(Ping(), 40), (Unsubscribe(1, ["Sensor/x"]), 10), (Publish("Nothing/x", b"", 1, packet_id=1), 5)]
)
def test_answers_that_are_not_read(app: Application, packet: Packet, times: int) -> None:
    """Nothing more is handled then; and all of it when the client reads again."""
    client = Wire(app)
    client.send(hello())
    client.sock.room = 0
    sent = 0
    for _ in range(times):
        client.send(*[packet] * 10_000)
        sent += 10_000
    assert client.tunnel.pending < 1 << 20
    assert sum(map(len, client.sock.incoming)) > 0, "which waits in front of the server"
    client.packets.clear()
    client.read()
    for _ in range(100):
        app.settle()
    assert len(client.packets) == sent


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_that_are_not_read(app: Application, qos: int) -> None:
    client = Wire(app)
    client.send(hello(**LASTS), filters("Raw/#", qos=qos))
    client.sock.room = 0
    writer, other = app.mqtt("writer"), app.mqtt("other")
    other.subscribe("Raw/#", 1)
    payload = bytes(100_000)
    for _ in range(200):
        assert writer.publish("Raw/1", payload, qos) == 0
    assert len(other.take()) == 200
    assert client.tunnel.pending < 4 << 20
    client.packets.clear()
    client.read()
    got = [each for each in client.packets if isinstance(each, Publish)]
    assert 0 < len(got) <= (100 if qos else 200)
    while qos and (waiting := [each for each in client.packets if isinstance(each, Publish)]):
        client.packets.clear()
        client.send(*(Ack(p.PUBACK if qos == 1 else p.PUBREC, each.packet_id) for each in waiting))
        client.send(*(Ack(p.PUBCOMP, each.packet_id) for each in waiting if qos == 2))
        got += [each for each in client.packets if isinstance(each, Publish)]
    assert not qos or len(got) == 200, "what had to wait came from the log"


def test_a_byte_at_a_time(app: Application) -> None:
    client = Wire(app)
    for at in b"".join(encode(each, V5) for each in (hello(), filters("Raw/#"), Publish("Raw/1", b"x", 2, packet_id=7), Disconnect())):
        client.send(bytes((at,)))
    kinds = [type(each).__name__ for each in client.packets]
    assert sorted(kinds) == ["Ack", "Connack", "Publish", "Suback"] and kinds[:2] == ["Connack", "Suback"] and not client.is_open


def test_connections_that_stay_half_open(app: Application) -> None:
    silent = [Wire(app) for _ in range(100)]
    begun = [Wire(app) for _ in range(100)]
    for each in begun:
        each.send(encode(hello(), V5)[:-1])
    idle = Wire(app)
    idle.send(hello(keep_alive=20))
    app.clock.advance(12)
    assert not any(each.is_open for each in silent + begun) and idle.is_open
    app.clock.advance(20)
    assert not idle.is_open


# --- CONNECT -----------------------------------------------------------------------------------------------------------------------------


def test_packets_before_connack(app: Application) -> None:
    """They wait in front of the server, and are answered in order."""
    client = Wire(app)
    packets = [Publish("Raw/1", bytes(1000), 1, packet_id=number) for number in range(1, 5001)]
    client.send(hello(), filters("Raw/2", packet_id=6000), *packets, settles=False)
    app.settle()
    answers = [each.packet_id for each in client.packets if isinstance(each, Ack | Suback)]
    assert answers == [6000, *range(1, 5001)]


def test_one_client_id_that_connects_again_and_again(app: Application) -> None:
    for options in ({}, LASTS):
        ends = [Wire(app) for _ in range(200)]
        for each in ends:
            each.send(hello("same", **options), filters("Raw/#"), settles=False)
        app.settle()
        assert len(broker_of(app).sessions) == 1
        assert sum(each.is_open for each in ends) == 1 and all(each.packets for each in ends if each.is_open)
        for each in ends:
            each.cancel()
        assert not broker_of(app).sessions


def test_very_many_short_connections(app: Application) -> None:
    for number in range(10_000):
        client = Wire(app)
        client.send(hello(f"c{number}"), settles=False)
        if number % 3 == 0:
            app._instance.rest()
        app._instance.sockets.discard(client.sock)
        app._instance.loop.hang_up(client.sock)
        if number % 50 == 0:
            app.settle()
    app.settle()
    assert not broker_of(app).sessions


@pytest.mark.parametrize("client_id", ["x" * 1024, "é" * 1024, "\U0001f600" * 500, "a/b", "..", " ", "$", "a\x01b"])
def test_odd_client_ids(app: Application, client_id: str) -> None:
    """Those that no key can be are refused where the session is to last, and in both versions with the code for that."""
    for version in (V3, V5):
        for options in ({"clean": True}, LASTS if version == V5 else {"clean": False}):
            client = Wire(app, version)
            answers = client.send(hello(client_id, version, **options))
            assert not client.is_open or not answers[0].reason  # type: ignore[union-attr]
            if client.is_open:
                client.send(filters("Raw/#"), Disconnect())
            else:
                assert answers[0].reason == (0x85 if version == V5 else 2)  # type: ignore[union-attr]
            client.cancel()


@pytest.mark.parametrize("packet", [b"\x32\x0a\x00\x05Raw/1\x00\x00x", b"\x82\x09\x00\x00\x00\x00\x05Raw/1\x00"[:11], b"\x40\x02\x00\x00"])
def test_packet_identifier_0(app: Application, packet: bytes) -> None:
    client = Wire(app, V3)
    client.send(hello(version=V3))
    client.send(packet)
    assert not client.is_open


def test_a_session_is_resumed_while_a_message_is_under_way(app: Application) -> None:
    client = app.mqtt("s", acknowledges=False, **LASTS)
    client.subscribe("Raw/#", 1)
    app.mqtt("writer").publish("Raw/1", b"x", 1)
    for _ in range(100):
        client.cancel()
        client = app.mqtt("s", acknowledges=False, **LASTS)
        assert [each.dup for each in client] == [True]
    client.acknowledge(client[0])
    client.cancel()
    assert len(app.mqtt("s", **LASTS)) == 0


# --- QoS 2 -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lasts", [False, True])
def test_all_identifiers_are_open(app: Application, lasts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    options = LASTS if lasts else {}
    client = Wire(app)
    client.send(hello(**options))
    every = range(1, 65_536)
    for at in range(0, len(every), 5000):
        client.send(*(Publish("Raw/1", b"x", 2, packet_id=number) for number in every[at : at + 5000]))
    assert sum(isinstance(each, Ack) for each in client.packets) == len(every)
    (session,) = broker_of(app).sessions.values()
    assert len(session.received) == len(every) and rows(app) == (len(every) if lasts else 0)
    client.send(Publish("Raw/1", b"x", 2, packet_id=5, dup=True))
    assert isinstance(client.packets[-1], Ack)
    client.cancel()
    assert session.received.is_settled
    if not lasts:
        return
    assert not broker_of(app).sessions
    stored = broker_of(app).stored
    restore, steps = stored.restore, []

    def counted(*given: Any) -> Iterator[Any]:
        for each in restore(*given):
            steps.append(1)
            yield each

    monkeypatch.setattr(stored, "restore", counted)
    client = Wire(app)
    client.send(hello(**options))
    assert len(steps) > len(every) // 100, "it is taken up in short steps"
    for at in range(0, len(every), 5000):
        client.send(*(Ack(p.PUBREL, number) for number in every[at : at + 5000]))
    assert sum(isinstance(each, Ack) and each.reason == 0 for each in client.packets) == len(every)
    assert rows(app) <= 1


# --- others ------------------------------------------------------------------------------------------------------------------------------


def test_a_group_whose_members_all_stall(app: Application) -> None:
    members = [Wire(app) for _ in range(3)]
    for number, member in enumerate(members):
        member.send(hello(f"m{number}", **LASTS), filters("$share/g/Raw/#"))
        member.sock.room = 0
    other = app.mqtt("other")
    other.subscribe("Raw/#", 1)
    writer = app.mqtt("writer")
    for number in range(500):
        assert writer.publish("Raw/1", str(number), 1) == 0
    assert len(other) == 500
    (group,) = broker_of(app).groups.values()
    assert len(group._queue) <= 64 and len(group._open) <= 300
    for member in members:
        member.cancel()
    app.clock.advance(200)  # what they do not take ends their connections
    late = app.mqtt("late", **LASTS)
    late.subscribe("$share/g/Raw/#", 1)
    assert sorted(int(each.payload) for each in late) == list(range(500))


def test_a_deep_topic_that_very_many_filters_cover(app: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are told, a few groups between two looks at the clock: here each look is the end of a slice."""
    levels = "abcdefghij"
    names = ["/".join("+" if bits >> at & 1 else level for at, level in enumerate(levels)) for bits in range(1024)]
    names = [name for name in names if 0 < name.count("+") <= 8][:1000]
    client = Wire(app)
    client.send(hello(properties={p.RECEIVE_MAXIMUM: 65_535}), filters(*(f"Sensor/{name}" for name in names), qos=0))
    hub = app.instance.server.realtime.hub
    (followed,) = (each for each in hub._followed.values() if len(each.groups) >= len(names))
    told: list[int] = []
    deliver, now = FollowedDatabase._deliver_to, iter(range(1 << 30))

    def counted(self: Any, change: Any, groups: Any, *rest: Any) -> bool:
        told.append(0)

        def each() -> Iterator[Any]:
            for group in groups:
                told[-1] += 1
                yield group

        return deliver(self, change, each(), *rest)

    monkeypatch.setattr(FollowedDatabase, "_deliver_to", counted)
    monkeypatch.setattr(followed, "_now", lambda: next(now))
    client.packets.clear()
    app.put("/Sensor/" + "/".join(levels), {"temperature": 1})
    app.settle()
    assert sum(isinstance(each, Publish) for each in client.packets) == len(names)
    assert sum(told) >= len(names) and max(told) <= 33, "the rest in the next turn"


CODE = """
from svc import tables

calls = []

class Alarm(tables.Raw):
    async def publish(self, data, target):
        calls.append(target.id)
        await tables.Raw.publish(target.id, data)
        return await super().publish(data, target)
"""


def test_a_will_whose_code_publishes_to_its_topic(tmp_path: Path) -> None:
    """The code is called once: what it publishes is told, and does not come back to it."""
    files = {
        "config.yaml": "rest: true\ngraphqlSchema: {files: '*.graphql'}\nresources: {files: resources.py}\n",
        "schema.graphql": SCHEMA.replace("type Raw @table @export", "type Raw @table"),
        "resources.py": CODE,
    }
    with svc.testing.app(write_application(tmp_path / "things", files)) as app:
        watcher = app.mqtt("watcher")
        watcher.subscribe("Alarm/#", 1)
        app.mqtt("lost", will=("Alarm/1", b"lost", 1)).cancel()
        app.settle()
        app.clock.advance(5)
        (module,) = app.modules
        assert module.calls == ["1"]
        assert [each.payload for each in watcher] == [b"lost"] * 2
