"""What a whole broker shows of the statements of the two standards; docs/spec/mqtt-statements.md says which test shows which."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

import svc.testing
from svc.connection.tunnel import TunnelAcceptor
from svc.errors import Problem
from svc.protocol import mqtt_properties as p
from svc.protocol.mqtt import PacketReader, encode
from svc.protocol.mqtt_packets import (
    V3,
    V5,
    Ack,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Ping,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)
from svc.testing.application import Application
from svc.testing.mqtt import Message, MqttClient
from svc.testing.wire import MemorySocket
from tests.support.mqtt import broker_of
from tests.unit.testing.conftest import write_application

SCHEMA = """
type Sensor @table @export { id: ID @primaryKey temperature: Float unit: String }
type Other @table @export { id: ID @primaryKey temperature: Float }
"""
CODE = """
from svc import Resource


class Broken(Resource):
    def allow_create(self, user, data=None, target=None):
        return True

    def publish(self, data, target=None):
        raise OSError("the disk is gone")
"""
BOTH = (V3, V5)
LASTS: dict[int, dict[str, Any]] = {
    V3: {"version": V3, "clean": False},
    V5: {"version": V5, "clean": False, "properties": {p.SESSION_EXPIRY: 1000}},
}


@pytest.fixture(scope="module")
def module_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    files = {"schema.graphql": SCHEMA, "resources.py": CODE}
    directory = write_application(tmp_path_factory.mktemp("mqtt") / "things", files)
    with svc.testing.app(directory, mqtt_freeTopics="data.Topic") as app:
        yield app


@pytest.fixture
def app(module_app: Application) -> Iterator[Application]:
    for table in ("Sensor", "Other"):
        module_app.delete(f"/{table}/")
    for record in module_app.operation("search_by_value", table="Topic", attribute="id", value="*", get_attributes=["id"]):
        module_app.operation("delete", table="Topic", ids=[record["id"]])
    yield module_app
    for each in list(module_app._instance.sockets):
        if isinstance(each.client, MqttClient | Wire):
            each.client.cancel()
    for record in list(broker_of(module_app).stored.each()):
        if record is not None:
            module_app.mqtt(record["id"], user=record["user"]).disconnect()
    module_app.clock.advance(1)


class Wire:
    """A client that sends bytes, and answers nothing. `packets`: what has come."""

    def __init__(self, app: Application, version: int, *sent: Packet | bytes) -> None:
        app._callers.authorization(app._user)  # is verified from now on
        self.version = version
        self.packets: list[Packet] = []
        self.is_open = True
        self._app = app
        self._reader = PacketReader(version=version)
        self._sock = sock = MemorySocket(app._instance.loop)
        sock.client = self
        app._instance.sockets.add(sock)
        server = app._instance.server
        acceptor = TunnelAcceptor(server.application_port.connections, server.interfaces.mqtt_link)
        acceptor.accept(sock, "192.0.2.5", "mqtt")  # type: ignore[arg-type]
        self.send(*sent)

    def send(self, *sent: Packet | bytes) -> list[Packet]:
        """Send all in one piece. Returns what comes then."""
        before = len(self.packets)
        data = b"".join(each if isinstance(each, bytes) else encode(each, self.version) for each in sent)
        self._app._instance.loop.deliver(self._sock, data)
        self._app.settle()
        return self.packets[before:]

    def take(self) -> list[Packet]:
        taken, self.packets = self.packets, []
        return taken

    def receive(self, data: bytes) -> None:
        self._reader.feed(data)
        while (packet := self._reader.next_packet()) is not None:
            self.packets.append(packet)

    def closed(self) -> None:
        self.is_open = False

    def cancel(self) -> None:
        self.is_open = False
        self._app._instance.sockets.discard(self._sock)
        self._app._instance.loop.hang_up(self._sock)
        self._app._instance.rest()


def hello(version: int, client_id: str = "wire", **options: Any) -> Connect:
    """CONNECT of the user of the tests. Options: fields of the packet."""
    return Connect(version, client_id, username="admin", password=b"", **{"clean": True, **options})


def wire(app: Application, version: int, client_id: str = "wire", **options: Any) -> Wire:
    """Options: fields of CONNECT. Only CONNACK has come."""
    client = Wire(app, version, hello(version, client_id, **options))
    assert isinstance(client.packets[0], Connack) and not client.packets[0].reason, client.packets
    return client


def publishes(packets: list[Packet]) -> list[Publish]:
    return [each for each in packets if isinstance(each, Publish)]


def acks(packets: list[Packet]) -> list[tuple[int, int, int]]:
    """(kind, packet identifier, code)"""
    return [(each.kind, each.packet_id, each.reason) for each in packets if isinstance(each, Ack)]


def topics(messages: list[Message]) -> list[str]:
    return [each.topic for each in messages]


# --- CONNECT, CONNACK --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize(("clean", "is_stored"), list(product((True, False), (True, False))))
def test_session_present(app: Application, version: int, clean: bool, is_stored: bool) -> None:
    if is_stored:
        before = app.mqtt("s", **LASTS[version])
        before.subscribe("Sensor/#", 1)
        before.cancel()
    client = app.mqtt("s", **{**LASTS[version], "clean": clean})
    assert client.connack == Connack(is_stored and not clean, 0, client.connack.properties if client.connack else {})
    app.put("/Sensor/1", {"temperature": 1})
    assert topics(client.take()) == (["Sensor/1"] if is_stored and not clean else [])


@pytest.mark.parametrize("version", BOTH)
def test_a_session_that_ends_with_its_connection_is_used_by_no_other(app: Application, version: int) -> None:
    """Also not if that connection ends because another one takes its place."""
    for is_connected in (False, True):
        first = app.mqtt("s", version=version)
        first.subscribe("Sensor/#", 1)
        if not is_connected:
            first.cancel()
        second = app.mqtt("s", **LASTS[version])
        assert not second.session_present and not first.is_open
        app.put("/Sensor/1", {"temperature": 1})
        assert second.take() == []
        second.disconnect()
        app.mqtt("s", version=version).disconnect()


@pytest.mark.parametrize("version", BOTH)
def test_a_session_is_stored_and_goes_on(app: Application, version: int) -> None:
    for qos in (1, 2):
        client = app.mqtt(f"s{qos}", **LASTS[version])
        client.subscribe("Sensor/#", qos)
        client.cancel()
    for number in range(3):
        app.mqtt("w").publish(f"Sensor/{number}", {}, 2)
    for qos in (1, 2):
        client = app.mqtt(f"s{qos}", **LASTS[version])
        assert client.session_present
        assert [(each.topic, each.qos) for each in client.take()] == [(f"Sensor/{number}", qos) for number in range(3)]


def test_a_session_lasts_as_long_as_its_connection(app: Application) -> None:
    client = app.mqtt("s", clean=False, properties={p.SESSION_EXPIRY: 1})
    client.subscribe("Sensor/#", 1)
    app.clock.advance(100)
    app.put("/Sensor/1", {})
    assert topics(client.take()) == ["Sensor/1"]
    client.cancel()
    app.clock.advance(2)
    assert not app.mqtt("s", clean=False).session_present


def test_retained_messages_are_no_part_of_a_session(app: Application) -> None:
    client = app.mqtt("s", version=V3)
    client.publish("Sensor/1", {"temperature": 1}, 1, retain=True)
    client.publish("free/1", b"x", 1, retain=True)
    client.cancel()
    app.mqtt("s", version=V3).disconnect()
    late = app.mqtt("late", version=V3)
    late.subscribe("Sensor/1")
    late.subscribe("free/1")
    assert topics(late.take()) == ["Sensor/1", "free/1"]


CHARACTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@pytest.mark.parametrize("version", BOTH)
def test_client_ids(app: Application, version: int) -> None:
    for client_id in ("a", CHARACTERS[:23], CHARACTERS[23:46], CHARACTERS[46:], "ü€"):
        client = app.mqtt(client_id, version=version)
        assert client.is_open and client.connack is not None and p.ASSIGNED_CLIENT_ID not in client.connack.properties
        again = app.mqtt(client_id, version=version)
        assert not client.is_open and again.is_open, "it is what a client is known by"
    assert app.mqtt("A").is_open and app.mqtt("a").is_open and app.mqtt("A").is_open
    nameless = [app.mqtt("", version=version) for _ in range(3)]
    assert all(each.is_open for each in nameless), "each has an id of its own"


def test_an_assigned_client_id(app: Application) -> None:
    made = [app.mqtt("", clean=clean, properties={p.SESSION_EXPIRY: 100}) for clean in (True, False)]
    ids = [each.connack.properties[p.ASSIGNED_CLIENT_ID] for each in made if each.connack is not None]
    assert len(set(ids)) == 2 and all(ids)
    made[0].subscribe("Sensor/#", 1)
    made[0].cancel()
    assert app.mqtt(ids[0], clean=False, properties={p.SESSION_EXPIRY: 100}).session_present, "as if the client had given it"


@pytest.mark.parametrize("version", BOTH)
def test_refused_connects(app: Application, version: int) -> None:
    """The code, without Session Present; closed; and nothing that follows is done."""
    app.mqtt("mine", **LASTS[version]).cancel()
    lasts: dict[str, Any] = {"clean": False, "properties": {p.SESSION_EXPIRY: 100} if version == V5 else {}}
    cases: list[tuple[Connect, int, int]] = [
        (Connect(version, "mine", username="nobody", password=b"wrong", **lasts), 4, 0x86),
        (Connect(version, "mine", **lasts), 5, 0x87),
        (hello(version, "x" * 1025), 2, 0x85),
    ]
    if version == V3:
        cases.append((hello(V3, "", clean=False), 2, 0))
    else:
        cases.append((hello(V5, "c", properties={p.AUTHENTICATION_METHOD: "SCRAM-SHA-1", p.AUTHENTICATION_DATA: b"x"}), 0, 0x8C))
    for connect, old, new in cases:
        connect.will = Will("Sensor/will", b"{}", 1, True)
        client = Wire(app, version, connect, Publish("Sensor/1", b"{}", 1, True, packet_id=1), Disconnect(4) if version == V5 else Ping())
        assert [(type(each), each.session_present, each.reason) for each in client.packets if isinstance(each, Connack)] == [
            (Connack, False, old if version == V3 else new)
        ]
        assert len(client.packets) == 1 and not client.is_open
    app.clock.advance(5)
    assert app.get("/Sensor/").json == [], "no message, and no will"


@pytest.mark.parametrize("version", BOTH)
def test_connack_comes_first_and_once(app: Application, version: int) -> None:
    client = app.mqtt("s", **LASTS[version], acknowledges=False)
    client.subscribe("Sensor/#", 1)
    for number in range(3):
        app.put(f"/Sensor/{number}", {})
    client.cancel()
    app.put("/Sensor/9", {})
    options = {"clean": False, "properties": LASTS[version].get("properties", {})}
    again = Wire(app, version, hello(version, "s", **options), Subscribe(1, [Subscription("Sensor/#", 1)]), Ping())
    assert isinstance(again.packets[0], Connack) and again.packets[0].reason == 0
    assert sum(isinstance(each, Connack) for each in again.packets) == 1
    assert {type(each) for each in again.packets} == {Connack, Publish, Suback, Ping}


def test_what_connack_announces(app: Application) -> None:
    """All QoS, retained messages, wildcards and Subscription Identifiers are there; no property says otherwise, nor anything that was not asked for."""
    for given in ({}, {p.REQUEST_RESPONSE_INFORMATION: 0}, {p.REQUEST_RESPONSE_INFORMATION: 1}):
        client = app.mqtt("c", properties=given, keep_alive=30)
        assert client.connack is not None
        assert set(client.connack.properties) == {p.MAXIMUM_PACKET_SIZE, p.TOPIC_ALIAS_MAXIMUM}
    for qos in (0, 1, 2):
        assert client.subscribe("Sensor/+/#", qos, properties={p.SUBSCRIPTION_ID: [1]}) == qos
        assert client.publish("Sensor/1", {}, qos, retain=True) == 0
        assert app.mqtt("w", will=("Sensor/will", {}, qos, True)).is_open


@pytest.mark.parametrize("version", BOTH)
def test_keep_alive(app: Application, version: int) -> None:
    watcher = app.mqtt("watcher")
    watcher.subscribe("Sensor/#", 1)
    silent = wire(app, version, "silent", keep_alive=10, will=Will("Sensor/silent", b"{}"))
    busy = wire(app, version, "busy", keep_alive=10)
    free = wire(app, version, "free", keep_alive=0)
    for _ in range(2):
        app.clock.advance(7)
        busy.send(Publish("Sensor/busy", b"{}"))
    assert silent.is_open
    assert topics(watcher.take()) == ["Sensor/busy"] * 2
    app.clock.advance(3)
    assert (silent.is_open, busy.is_open, free.is_open) == (False, True, True)
    assert [each.reason for each in silent.packets if isinstance(each, Disconnect)] == ([0x8D] if version == V5 else [])
    app.clock.advance(3)
    assert topics(watcher.take()) == ["Sensor/silent"], "as if the network had failed"
    app.clock.advance(3600)
    assert not busy.is_open and free.is_open


@pytest.mark.parametrize("version", BOTH)
def test_the_older_connection_of_a_client_ends(app: Application, version: int) -> None:
    first = wire(app, version, "same")
    second = wire(app, version, "same")
    assert not first.is_open and second.send(Ping()) == [Ping(True)]
    assert [each.reason for each in first.packets[1:] if isinstance(each, Disconnect)] == ([0x8E] if version == V5 else [])


# --- wills -------------------------------------------------------------------------------------------------------------------------------

ENDS: dict[str, tuple[Callable[[Application, Wire], object], bool]] = {
    "lost": (lambda app, client: client.cancel(), True),
    "a protocol error": (lambda app, client: client.send(Connack(False, 0)), True),
    "a malformed packet": (lambda app, client: client.send(b"\xc1\0"), True),
    "taken over": (lambda app, client: wire(app, client.version, "mortal"), True),
    "keep-alive": (lambda app, client: app.clock.advance(20), True),
    "DISCONNECT": (lambda app, client: client.send(Disconnect()), False),
}
CODES_OF_CLIENTS = (0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x99)


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("retain", [False, True])
def test_wills(app: Application, version: int, end: str, retain: bool) -> None:
    do, is_published = ENDS[end]
    watcher = app.mqtt("watcher", version=version)
    watcher.subscribe("Sensor/#", 2)
    for qos in (0, 1, 2):
        client = wire(app, version, "mortal", keep_alive=10, will=Will("Sensor/will", b'{"temperature":1}', qos, retain))
        stored = app.operation("search_by_value", database="system", table="svc_session_will", attribute="id", value="mortal")
        assert [each["topic"] for each in stored] == ["Sensor/will"]
        assert watcher.take() == []
        do(app, client)
        app.clock.advance(3)  # a client that does not end its half of the connection is waited for
        found = watcher.take()
        assert [(each.topic, each.qos, each.retain) for each in found] == ([("Sensor/will", qos, False)] if is_published else [])
        assert app.get("/Sensor/will").status == (200 if is_published and retain else 404)
        stored = app.operation("search_by_value", database="system", table="svc_session_will", attribute="id", value="mortal")
        assert stored == [], "it is removed, published or not"
        app.delete("/Sensor/")
        watcher.take()


def test_only_disconnect_with_success_deletes_a_will(app: Application) -> None:
    watcher = app.mqtt("watcher")
    watcher.subscribe("Sensor/#", 1)
    for code in CODES_OF_CLIENTS:
        client = wire(app, V5, "mortal", will=Will("Sensor/will", b"{}", 1))
        client.send(Disconnect(code))
        app.clock.advance(3)
        assert not client.is_open and topics(watcher.take()) == ["Sensor/will"], hex(code)


@pytest.mark.parametrize("version", BOTH)
def test_no_will(app: Application, version: int) -> None:
    watcher = app.mqtt("watcher")
    watcher.subscribe("#", 1)
    watcher.subscribe("Sensor/#", 1)
    wire(app, version, "mortal").cancel()
    app.clock.advance(5)
    assert watcher.take() == []


def test_will_delay(app: Application) -> None:
    watcher = app.mqtt("watcher")
    watcher.subscribe("Sensor/#", 1)

    def mortal(delay: int, expiry: int, *, clean: bool = True) -> Wire:
        will = Will("Sensor/will", b"{}", 1, False, {p.WILL_DELAY: delay})
        return wire(app, V5, "mortal", clean=clean, will=will, properties={p.SESSION_EXPIRY: expiry})

    mortal(10, 60).cancel()
    app.clock.advance(9)
    assert watcher.take() == []
    app.clock.advance(2)
    assert len(watcher.take()) == 1, "the delay is over"
    mortal(60, 10).cancel()
    app.clock.advance(11)
    assert len(watcher.take()) == 1, "the session ends earlier"
    mortal(60, 0).cancel()
    assert len(watcher.take()) == 1, "the session ends with its connection"
    mortal(10, 60).cancel()
    mortal(10, 60, clean=False)
    app.clock.advance(30)
    assert watcher.take() == [], "the session goes on in time"
    mortal(10, 60)
    assert len(watcher.take()) == 1, "a new connection ends the session"


def test_what_a_will_says_beside_its_payload(app: Application) -> None:
    said = {
        p.PAYLOAD_FORMAT: 1,
        p.RESPONSE_TOPIC: "Sensor/answers",
        p.CORRELATION_DATA: b"\0\xff",
        p.USER_PROPERTY: [("b", "1"), ("a", "2"), ("b", "3"), ("b", "1")],
    }
    watcher = app.mqtt("watcher")
    watcher.subscribe("Sensor/#", 1)
    wire(app, V5, "mortal", will=Will("Sensor/will", b"{}", 1, False, {**said, p.WILL_DELAY: 5, p.MESSAGE_EXPIRY: 60})).cancel()
    (message,) = watcher.take()
    assert {key: message.properties[key] for key in said} == said
    assert p.WILL_DELAY not in message.properties and message.properties[p.MESSAGE_EXPIRY] == 60


# --- PUBLISH of a client -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", BOTH)
def test_the_answer_to_each_qos(app: Application, version: int) -> None:
    reader = app.mqtt("reader")
    reader.subscribe("Sensor/#", 2)
    client = wire(app, version)
    assert client.send(Publish("Sensor/0", b"{}")) == []
    assert acks(client.send(Publish("Sensor/1", b"{}", 1, packet_id=77))) == [(p.PUBACK, 77, 0)]
    assert acks(client.send(Publish("Sensor/2", b"{}", 2, packet_id=78))) == [(p.PUBREC, 78, 0)]
    assert acks(client.send(Ack(p.PUBREL, 78))) == [(p.PUBCOMP, 78, 0)]
    assert [(each.topic, each.qos) for each in reader.take()] == [("Sensor/0", 0), ("Sensor/1", 1), ("Sensor/2", 2)]


@pytest.mark.parametrize("version", BOTH)
def test_after_puback_the_identifier_is_a_new_message(app: Application, version: int) -> None:
    reader = app.mqtt("reader")
    reader.subscribe("Sensor/#", 1)
    client = wire(app, version)
    for dup in (False, True, True):
        assert acks(client.send(Publish("Sensor/1", b"{}", 1, False, dup, 5))) == [(p.PUBACK, 5, 0)]
    assert len(reader.take()) == 3
    pipelined = [Publish("Sensor/1", b"{}", 1, False, False, 5), Publish("Sensor/2", b"{}", 1, False, False, 5)]
    assert acks(client.send(*pipelined)) == [(p.PUBACK, 5, 0)] * 2 and len(reader.take()) == 2


@pytest.mark.parametrize("version", BOTH)
def test_a_message_at_qos_2_that_comes_again(app: Application, version: int) -> None:
    reader = app.mqtt("reader")
    reader.subscribe("Sensor/#", 2)
    client = wire(app, version, "w", **{key: value for key, value in LASTS[version].items() if key != "version"})
    message = Publish("Sensor/1", b"{}", 2, packet_id=9)
    again = Publish("Sensor/1", b"{}", 2, False, True, 9)
    for _ in range(2):
        assert acks(client.send(message, again)) == [(p.PUBREC, 9, 0)], "both before the answer"
        for _ in range(3):
            assert acks(client.send(again)) == [(p.PUBREC, 9, 0)]
        client.cancel()
        client = wire(app, version, "w", **{key: value for key, value in LASTS[version].items() if key != "version"})
        assert acks(client.send(again)) == [(p.PUBREC, 9, 0)]
        assert len(reader.take()) == 1, "one message"
        assert acks(client.send(Ack(p.PUBREL, 9))) == [(p.PUBCOMP, 9, 0)]
        assert acks(client.send(Ack(p.PUBREL, 9))) == [(p.PUBCOMP, 9, 0x92 if version == V5 else 0)]
    assert client.is_open


def test_after_a_pubrec_that_refuses_the_identifier_is_a_new_message(app: Application) -> None:
    reader = app.mqtt("reader")
    reader.subscribe("Sensor/#", 2)
    client = wire(app, V5)
    assert acks(client.send(Publish("Sensor//1", b"{}", 2, packet_id=10))) == [(p.PUBREC, 10, 0x90)]
    assert acks(client.send(Publish("Sensor/1", b"{}", 2, packet_id=10))) == [(p.PUBREC, 10, 0)]
    assert topics(reader.take()) == ["Sensor/1"]


def test_the_exchange_goes_on_when_the_message_has_expired(app: Application) -> None:
    reader = app.mqtt("reader")
    reader.subscribe("Sensor/#", 2)
    client = wire(app, V5)
    assert acks(client.send(Publish("Sensor/1", b"{}", 2, packet_id=9, properties={p.MESSAGE_EXPIRY: 0}))) == [(p.PUBREC, 9, 0)]
    assert reader.take() == []
    assert acks(client.send(Ack(p.PUBREL, 9))) == [(p.PUBCOMP, 9, 0)]


def test_an_unauthorised_message_in_version_3(app: Application) -> None:
    """It is acknowledged, and not sent on: there is no other way to tell."""
    rights = {"data": {"tables": {"Sensor": {"read": True, "insert": False, "update": False, "delete": False}}}}
    client = app.mqtt("reader", version=V3, user=rights)
    client.subscribe("Sensor/#", 1)
    for qos in (1, 2):
        assert client.publish("Sensor/1", {}, qos) == 0 and client.publish("Sensor/1", {}, qos, retain=True) == 0
    assert client.is_open and client.take() == [] and app.get("/Sensor/").json == []


@pytest.mark.parametrize("version", BOTH)
def test_a_transient_error(app: Application, version: int) -> None:
    """Version 5 is told; a connection of 3.1.1 ends."""
    client = wire(app, version)
    found = client.send(Publish("Broken/1", b"{}", 1, packet_id=3))
    app.logs.clear()
    assert acks(found) == ([(p.PUBACK, 3, 0x80)] if version == V5 else [])
    assert client.is_open == (version == V5)


def test_other_codes_of_the_end_are_those_of_disconnect(app: Application) -> None:
    for status in (400, 500, 503):
        client = wire(app, V5)
        link: Any = broker_of(app).sessions["wire"].link
        app._instance.loop.call_soon(link.broken, Problem("it could not be stored", status))
        app.settle()
        assert not client.is_open
        assert [each.reason for each in client.packets if isinstance(each, Disconnect)] == [0x80 if status == 400 else 0x89]


# --- RETAIN ------------------------------------------------------------------------------------------------------------------------------


def retained(app: Application, filter: str, version: int = V5) -> list[tuple[str, bytes, bool]]:
    """What a new subscription gets."""
    late = app.mqtt("late", version=version)
    late.subscribe(filter, 1)
    return [(each.topic, each.payload, each.retain) for each in late.take()]


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_retained_message_takes_the_place_of_one_before(app: Application, version: int, qos: int) -> None:
    writer = app.mqtt("writer", version=version)
    assert retained(app, "free/#", version) == []
    for payload in (b"first", b"second"):
        writer.publish("free/a", payload, qos, retain=True)
        writer.ping()
        assert retained(app, "free/#", version) == [("free/a", payload, True)]
        writer.publish("free/a", b"not kept", qos)
        writer.ping()
        assert retained(app, "free/#", version) == [("free/a", payload, True)], "a message without RETAIN changes nothing"
    reader = app.mqtt("reader", version=version)
    reader.subscribe("free/a", 2)
    reader.take()
    writer.publish("free/a", b"", qos, retain=True)
    writer.ping()
    assert [(each.payload, each.retain) for each in reader.take()] == [(b"", False)], "it is sent on as any other"
    assert retained(app, "free/#", version) == [], "and removes the retained one, and is not kept itself"
    writer.publish("free/a", b"", qos)
    writer.ping()
    assert [each.payload for each in reader.take()] == [b""] and retained(app, "free/#", version) == []


@pytest.mark.parametrize("version", BOTH)
def test_the_flag_of_what_is_sent(app: Application, version: int) -> None:
    reader, writer = app.mqtt("reader", version=version), app.mqtt("writer", version=version)
    writer.publish("free/a", b"1", 1, retain=True)
    reader.subscribe("free/#", 1)
    assert [each.retain for each in reader.take()] == [True]
    for retain in (True, False):
        writer.publish("free/a", b"2", 1, retain=retain)
        assert [each.retain for each in reader.take()] == [False], "for a subscription that was there"
    reader.subscribe("free/a", 1)
    assert [each.retain for each in reader.take()] == [True]


def test_retain_as_published(app: Application) -> None:
    reader, writer = app.mqtt("reader"), app.mqtt("writer")
    for as_published, retain in product((False, True), (False, True)):
        reader.subscribe("free/a", 1, retain_as_published=as_published, retain_handling=2)
        for payload in (b"x", b""):
            writer.publish("free/a", payload, 1, retain=retain)
            assert [(each.payload, each.retain) for each in reader.take()] == [(payload, retain and as_published)]


def test_retain_handling(app: Application) -> None:
    writer, reader = app.mqtt("writer"), app.mqtt("reader", **LASTS[V5])
    for number in range(2):
        writer.publish(f"free/{number}", b"x", 1, retain=True)
    for handling, expected in ((1, 2), (1, 0), (0, 2), (0, 2), (2, 0), (1, 0)):
        reader.subscribe("free/#", 1, retain_handling=handling)
        assert len(reader.take()) == expected
    reader.cancel()
    reader = app.mqtt("reader", **LASTS[V5])
    reader.subscribe("free/#", 1, retain_handling=1)
    assert reader.take() == [], "it was there"
    reader.unsubscribe("free/#")
    reader.subscribe("free/#", 1, retain_handling=2)
    assert reader.take() == []


# --- PUBLISH of the server ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize(("published", "granted"), list(product((0, 1, 2), (0, 1, 2))))
def test_the_lower_qos_of_both(app: Application, version: int, published: int, granted: int) -> None:
    reader, writer = app.mqtt("reader", version=version), app.mqtt("writer", version=version)
    assert reader.subscribe("Sensor/#", granted) == granted
    writer.publish("Sensor/1", {}, published)
    (message,) = reader.take()
    assert message.qos == min(published, granted)
    assert (message.packet_id != 0) == (message.qos > 0) and not message.dup


@pytest.mark.parametrize("version", BOTH)
def test_dup_is_of_each_way_by_itself(app: Application, version: int) -> None:
    options = {"clean": False, "properties": LASTS[version].get("properties", {})}
    reader = wire(app, version, "reader", **options)
    reader.send(Subscribe(1, [Subscription("Sensor/#", 2)]))
    wire(app, version).send(
        Publish("Sensor/0", b"{}"), Publish("Sensor/1", b"{}", 1, False, True, 1), Publish("Sensor/2", b"{}", 2, False, True, packet_id=2)
    )
    first = [(each.qos, each.dup, each.packet_id) for each in publishes(reader.take())]
    assert [each[:2] for each in first] == [(0, False), (1, False), (2, False)]
    reader.cancel()
    again = publishes(wire(app, version, "reader", **options).packets)
    assert [(each.qos, each.dup, each.packet_id) for each in again] == [(1, True, first[1][2]), (2, True, first[2][2])]


@pytest.mark.parametrize("version", BOTH)
def test_a_message_at_qos_2_to_a_client(app: Application, version: int) -> None:
    options = {"clean": False, "properties": LASTS[version].get("properties", {})}
    reader = wire(app, version, "reader", **options)
    reader.send(Subscribe(1, [Subscription("Sensor/#", 2)]))
    app.put("/Sensor/1", {})
    (message,) = publishes(reader.take())
    packet_id = message.packet_id
    app.clock.advance(100)
    assert reader.take() == [], "over one connection nothing comes again"
    reader.cancel()
    reader = wire(app, version, "reader", **options)
    assert [(each.packet_id, each.dup) for each in publishes(reader.take())] == [(packet_id, True)]
    assert acks(reader.send(Ack(p.PUBREC, packet_id))) == [(p.PUBREL, packet_id, 0)]
    for _ in range(2):
        reader.cancel()
        reader = wire(app, version, "reader", **options)
        assert [type(each) for each in reader.packets[1:]] == [Ack] and acks(reader.packets) == [(p.PUBREL, packet_id, 0)]
    reader.send(Ack(p.PUBCOMP, packet_id))
    reader.cancel()
    reader = wire(app, version, "reader", **options)
    assert reader.packets[1:] == []


def test_a_message_that_the_client_refuses_counts_as_acknowledged(app: Application) -> None:
    options: dict[str, Any] = {"clean": False, "properties": {p.SESSION_EXPIRY: 1000}}
    for qos, kind in ((1, p.PUBACK), (2, p.PUBREC)):
        reader = wire(app, V5, f"reader{qos}", **options)
        reader.send(Subscribe(1, [Subscription(f"Sensor/{qos}", qos)]))
        app.put(f"/Sensor/{qos}", {})
        (message,) = publishes(reader.take())
        assert reader.send(Ack(kind, message.packet_id, 0x83)) == []
        reader.cancel()
        reader = wire(app, V5, f"reader{qos}", **options)
        assert reader.packets[1:] == []


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("qos", [1, 2])
def test_identifiers_that_are_in_use_are_not_used_again(app: Application, version: int, qos: int) -> None:
    reader = wire(app, version, "reader")
    reader.send(Subscribe(1, [Subscription("Sensor/#", qos)]))
    writer = app.mqtt("w")
    for _ in range(3):
        writer.publish("Sensor/1", {}, 2)
    assert [each.packet_id for each in publishes(reader.take())] == [1, 2, 3]
    reader.send(*([Ack(p.PUBACK, 2)] if qos == 1 else [Ack(p.PUBREC, 2), Ack(p.PUBCOMP, 2)]))
    reader.take()
    broker_of(app).sessions["reader"].sent._last = 65534  # as after so many messages
    for _ in range(4):
        writer.publish("Sensor/1", {}, 2)
    assert [each.packet_id for each in publishes(reader.take())] == [65535, 2, 4, 5], "never 0, and not 1 and 3"


def test_messages_say_what_was_said(app: Application) -> None:
    """Unaltered, and in order; to receivers of the same and of other types."""
    readers = [
        app.mqtt("reader"),
        app.mqtt("cbor", properties={p.USER_PROPERTY: [("accept", "application/cbor")]}),
        app.mqtt("away", **LASTS[V5]),
        app.mqtt("small", properties={p.TOPIC_ALIAS_MAXIMUM: 5}),
    ]
    for each in readers:
        each.subscribe("Sensor/#", 1)
        each.subscribe("free/#", 1)
    readers[2].cancel()
    writer = app.mqtt("writer")
    said = {
        p.PAYLOAD_FORMAT: 1,
        p.CONTENT_TYPE: "application/json; charset=utf-8",
        p.RESPONSE_TOPIC: "any/topic/ü",
        p.CORRELATION_DATA: bytes(range(256)),
        p.USER_PROPERTY: [("b", "1"), ("a", "2"), ("b", "3"), ("", ""), ("b", "1"), ("ü", "€")],
    }
    for topic in ("Sensor/1", "free/1"):
        for value in (0, 1):
            writer.publish(topic, b'{ "temperature": 1.50 }', 1, properties={**said, p.PAYLOAD_FORMAT: value})
    readers[2] = app.mqtt("away", **LASTS[V5])
    for each in readers:
        found = each.take()
        assert topics(found) == ["Sensor/1"] * 2 + ["free/1"] * 2
        assert [message.properties[p.PAYLOAD_FORMAT] for message in found] == [0, 1, 0, 1]
        for message in found:
            for key in (p.RESPONSE_TOPIC, p.CORRELATION_DATA, p.USER_PROPERTY):
                assert message.properties[key] == said[key]
        assert [message.content_type for message in found[2:]] == [said[p.CONTENT_TYPE]] * 2
        assert [message.payload for message in found[2:]] == [b'{ "temperature": 1.50 }'] * 2
        assert {message.content_type for message in found[:2]} == {"application/cbor" if each is readers[1] else "application/json"}


def test_what_is_left_of_the_expiry_is_passed_on(app: Application) -> None:
    reader = app.mqtt("away", **LASTS[V5])
    reader.subscribe("Sensor/#", 1)
    writer = app.mqtt("writer")
    writer.publish("Sensor/now", {}, 1, properties={p.MESSAGE_EXPIRY: 100})
    assert [each.properties[p.MESSAGE_EXPIRY] for each in reader.take()] == [100]
    reader.cancel()
    for seconds in (10, 29, 31, 60):
        writer.publish(f"Sensor/{seconds}", {}, 1, properties={p.MESSAGE_EXPIRY: seconds})
    writer.publish("Sensor/ever", {}, 1)
    app.clock.advance(30)
    found = app.mqtt("away", **LASTS[V5]).take()
    assert [(each.topic, each.properties.get(p.MESSAGE_EXPIRY)) for each in found] == [
        ("Sensor/31", 1),
        ("Sensor/60", 30),
        ("Sensor/ever", None),
    ]


def test_a_message_is_there_until_its_expiry_has_passed(app: Application) -> None:
    reader = app.mqtt("away", **LASTS[V5])
    reader.subscribe("Sensor/#", 1)
    reader.cancel()
    app.mqtt("writer").publish("Sensor/1", {}, 1, properties={p.MESSAGE_EXPIRY: 2})
    app.clock.advance(1.7)
    assert len(app.mqtt("away", **LASTS[V5]).take()) == 1


def test_what_was_sent_at_qos_2_does_not_expire(app: Application) -> None:
    options: dict[str, Any] = {"clean": False, "properties": {p.SESSION_EXPIRY: 1000}}
    reader = wire(app, V5, "reader", **options)
    reader.send(Subscribe(1, [Subscription("Sensor/#", 2)]))
    app.mqtt("writer").publish("Sensor/1", {}, 2, properties={p.MESSAGE_EXPIRY: 5})
    assert len(publishes(reader.take())) == 1
    reader.cancel()
    app.clock.advance(60)
    assert [(each.topic, each.dup) for each in publishes(wire(app, V5, "reader", **options).packets)] == [("Sensor/1", True)]


def test_topic_aliases_end_with_their_connection(app: Application) -> None:
    alias = {p.TOPIC_ALIAS: 1}
    client = wire(app, V5, "w", clean=False, properties={p.SESSION_EXPIRY: 100})
    assert acks(client.send(Publish("Sensor/1", b"{}", 1, packet_id=1, properties=alias))) == [(p.PUBACK, 1, 0)]
    assert acks(client.send(Publish("", b"{}", 1, packet_id=2, properties=alias))) == [(p.PUBACK, 2, 0)]
    client.cancel()
    client = wire(app, V5, "w", clean=False, properties={p.SESSION_EXPIRY: 100})
    client.send(Publish("", b"{}", 1, packet_id=3, properties=alias))
    assert not client.is_open and isinstance(client.packets[-1], Disconnect) and client.packets[-1].reason == 0x82
    for _ in range(2):  # and those of ours
        reader = wire(app, V5, "r", clean=False, properties={p.SESSION_EXPIRY: 100, p.TOPIC_ALIAS_MAXIMUM: 2})
        reader.send(Subscribe(1, [Subscription("Sensor/#", 1, retain_handling=2)]))
        reader.take()
        for number in (1, 1, 2, 3, 2):
            app.put(f"/Sensor/{number}", {})
        found = [(each.topic, each.properties.get(p.TOPIC_ALIAS)) for each in publishes(reader.take())]
        assert found == [("Sensor/1", 1), ("", 1), ("Sensor/2", 2), ("Sensor/3", None), ("", 2)]
        for each in range(1, 11):
            reader.send(Ack(p.PUBACK, each))
        reader.cancel()


def test_an_alias_that_was_not_sent_is_not_used(app: Application) -> None:
    reader = app.mqtt("reader", properties={p.TOPIC_ALIAS_MAXIMUM: 2, p.MAXIMUM_PACKET_SIZE: 200})
    reader.subscribe("Sensor/#", 1)
    for unit in ("x" * 500, "C", "F"):
        app.put("/Sensor/1", {"unit": unit})
    assert [each.json["unit"] for each in reader.take()] == ["C", "F"]


# --- flow control, sizes -----------------------------------------------------------------------------------------------------------------


def test_receive_maximum(app: Application) -> None:
    reader = wire(app, V5, "reader", properties={p.RECEIVE_MAXIMUM: 2})
    reader.send(Subscribe(1, [Subscription("Sensor/#", 2)]))
    reader.take()
    for number in range(6):
        app.mqtt("w").publish(f"Sensor/{number}", {}, 1 + number % 2)
    app.mqtt("w").publish("Sensor/zero", {}, 0)
    found = publishes(reader.take())
    assert [each.topic for each in found if each.qos] == ["Sensor/0", "Sensor/1"]
    # Everything else goes on.
    assert reader.send(Ping()) == [Ping(True)]
    assert acks(reader.send(Publish("Sensor/x", b"{}", 1, packet_id=1))) == [(p.PUBACK, 1, 0)]
    assert [type(each) for each in reader.send(Subscribe(2, [Subscription("Other/1")]), Unsubscribe(3, ["Other/1"]))] == [Suback, Unsuback]
    assert acks(reader.send(Ack(p.PUBREC, found[1].packet_id))) == [(p.PUBREL, found[1].packet_id, 0)]
    assert publishes(reader.take()) == [], "PUBREC that says success gives no room"
    after = [
        reader.send(Ack(p.PUBCOMP, found[1].packet_id)),
        reader.send(Ack(p.PUBACK, found[0].packet_id)),
    ]
    assert [[each.topic for each in publishes(packets)] for packets in after] == [["Sensor/2"], ["Sensor/3"]]
    (third,) = publishes(after[1])
    assert third.qos == 2
    assert [each.topic for each in publishes(reader.send(Ack(p.PUBREC, third.packet_id, 0x80)))] == ["Sensor/4"], "one that refuses does"


def test_receive_maximum_of_another_connection(app: Application) -> None:
    options: dict[str, Any] = {"clean": False}
    reader = wire(app, V5, "reader", **options, properties={p.SESSION_EXPIRY: 1000})
    reader.send(Subscribe(1, [Subscription("Sensor/#", 2)]))
    reader.take()
    for number in range(8):
        app.mqtt("w").publish(f"Sensor/{number}", {}, 1 + number % 2)
    before = publishes(reader.take())
    assert len(before) == 8
    reader.send(Ack(p.PUBREC, before[3].packet_id))
    reader.cancel()
    app.mqtt("w").publish("Sensor/new", {}, 1)
    reader = wire(app, V5, "reader", **options, properties={p.SESSION_EXPIRY: 1000, p.RECEIVE_MAXIMUM: 2})
    seen: list[tuple[str, bool, int]] = []
    flying: list[Publish] = []
    for _ in range(30):
        packets = reader.take()
        for each in packets:
            if isinstance(each, Publish):
                flying.append(each)
                seen.append((each.topic, each.dup, each.packet_id))
            elif isinstance(each, Ack) and each.kind == p.PUBREL:
                flying = [one for one in flying if one.packet_id != each.packet_id]
                reader.send(Ack(p.PUBCOMP, each.packet_id))
        assert len(flying) <= 2, "no more than the client takes now"
        if flying and flying[0].qos == 1:
            reader.send(Ack(p.PUBACK, flying.pop(0).packet_id))
        elif flying:
            reader.send(Ack(p.PUBREC, flying[0].packet_id))
    expected = [(each.topic, True, each.packet_id) for number, each in enumerate(before) if number != 3]
    assert seen[:7] == expected and [each[:2] for each in seen[7:]] == [("Sensor/new", False)]


def test_maximum_packet_size_of_the_client(app: Application) -> None:
    """A packet of just that size is sent, a larger one is not, and counts as sent."""
    sizes: dict[int, int] = {}
    plain = wire(app, V5, "plain")
    plain.send(Subscribe(1, [Subscription("free/#", 2)]))
    writer = app.mqtt("writer")
    for qos in (0, 1, 2):
        writer.publish("free/a", b"x" * 100, qos)
    for each in publishes(plain.take()):
        sizes[each.qos] = len(encode(each, V5))
    for qos, size in sizes.items():
        for largest in (size, size - 1):
            reader = app.mqtt("reader", properties={p.MAXIMUM_PACKET_SIZE: largest, p.RECEIVE_MAXIMUM: 1})
            reader.subscribe("free/#", 2)
            writer.publish("free/a", b"x" * 100, qos)
            writer.publish("free/b", b"x", qos)
            assert topics(reader.take()) == (["free/a", "free/b"] if largest == size else ["free/b"]), (qos, largest)


def test_answers_that_are_too_large_for_the_client(app: Application) -> None:
    client = wire(app, V5, properties={p.MAXIMUM_PACKET_SIZE: 30})
    (answer,) = client.send(Publish("Sensor//1", b"{}", 1, packet_id=1))
    assert answer == Ack(p.PUBACK, 1, 0x90), "without a reason string"
    client.send(Subscribe(2, [Subscription(f"Sensor/{number}", 1) for number in range(30)]))
    assert not client.is_open and isinstance(client.packets[-1], Disconnect) and client.packets[-1].reason == 0x95
    client = wire(app, V5, properties={p.MAXIMUM_PACKET_SIZE: 30})
    client.send(Unsubscribe(2, [f"Sensor/{number}" for number in range(30)]))
    assert not client.is_open and isinstance(client.packets[-1], Disconnect) and client.packets[-1].reason == 0x95
    for largest, answers in ((10, [Connack(False, 0x95)]), (4, [])):
        client = Wire(app, V5, hello(V5, properties={p.MAXIMUM_PACKET_SIZE: largest}))
        assert client.packets == answers and not client.is_open


@pytest.mark.parametrize("version", BOTH)
def test_a_packet_that_is_too_large_for_the_server(app: Application, version: int) -> None:
    largest = app.mqtt("c").connack.properties[p.MAXIMUM_PACKET_SIZE]  # type: ignore[union-attr]
    client = wire(app, version)
    client.send(b"\x30\xff\xff\xff\x7f")  # 268,435,455 bytes, of which none has come
    assert largest < 268435455 and not client.is_open
    assert [each.reason for each in client.packets[1:] if isinstance(each, Disconnect)] == ([0x95] if version == V5 else [])


def test_request_problem_information(app: Application) -> None:
    for given, is_told in ({}, True), ({p.REQUEST_PROBLEM_INFORMATION: 1}, True), ({p.REQUEST_PROBLEM_INFORMATION: 0}, False):
        client = wire(app, V5, properties=given)
        found = client.send(
            Publish("Sensor//1", b"{}", 1, packet_id=1),
            Publish("Sensor//1", b"{}", 2, packet_id=2),
            Ack(p.PUBREL, 9),
            Ack(p.PUBREC, 9),
            Subscribe(3, [Subscription("$nothing")]),
            Unsubscribe(4, ["nothing"]),
        )
        assert [type(each) for each in found if not isinstance(each, Ack)] == [Suback, Unsuback]
        said = [set(each.properties) for each in found]  # type: ignore[union-attr]
        assert said[:2] == ([{p.REASON_STRING}] * 2 if is_told else [set()] * 2)
        assert all(not each for each in said[2:]), "no User Property, ever"
        client.send(b"\xc1\0")
        assert isinstance(client.packets[-1], Disconnect) and set(client.packets[-1].properties) == {p.REASON_STRING}


# --- SUBSCRIBE, UNSUBSCRIBE --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", BOTH)
def test_the_answers_to_several_filters(app: Application, version: int) -> None:
    client = wire(app, version)
    filters = [
        Subscription("Sensor/1", 1),
        Subscription("$nothing", 2),
        Subscription("Sensor/2"),
        Subscription("Sensor/#/x"),
        Subscription("Sensor/+", 2),
    ]
    (answer,) = client.send(Subscribe(513, filters))
    assert answer == Suback(513, [1, 0x8F, 0, 0x8F, 2] if version == V5 else [1, 0x80, 0, 0x80, 2])
    (answer,) = client.send(Unsubscribe(514, ["Sensor/1", "Sensor/3", "Sensor/+"]))
    assert answer == Unsuback(514, [0, 0x11, 0] if version == V5 else [])
    (answer,) = client.send(Unsubscribe(515, ["Sensor/3"]))
    assert answer == Unsuback(515, [0x11] if version == V5 else []), "also where nothing is deleted"
    app.put("/Sensor/1", {})
    app.put("/Sensor/2", {})
    assert [each.topic for each in publishes(client.packets)] == ["Sensor/2"]


@pytest.mark.parametrize("version", BOTH)
def test_the_same_filter_twice_in_a_packet(app: Application, version: int) -> None:
    """As in two packets: the second one counts."""
    client = wire(app, version)
    found = client.send(Subscribe(1, [Subscription("Sensor/+", 2), Subscription("Sensor/+", 0)]))
    assert [each for each in found if isinstance(each, Suback)] == [Suback(1, [2, 0])]
    app.put("/Sensor/1", {})
    assert [each.qos for each in publishes(client.packets)] == [0]


@pytest.mark.parametrize("version", BOTH)
def test_a_subscription_takes_the_place_of_one_before(app: Application, version: int) -> None:
    client = app.mqtt("reader", version=version)
    app.put("/Sensor/1", {})
    for qos in (0, 2, 1):
        assert client.subscribe("Sensor/#", qos) == qos
        assert [(each.topic, each.retain) for each in client.take()] == [("Sensor/1", True)], "retained messages come again"
        app.put("/Sensor/1", {})
        assert [(each.topic, each.qos) for each in client.take()] == [("Sensor/1", qos)], "one copy"


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("lasts", [False, True])
@pytest.mark.parametrize("qos", [1, 2])
def test_no_message_is_lost_when_a_subscription_is_replaced(app: Application, version: int, lasts: bool, qos: int) -> None:
    """Messages that wait for room when the same filter comes again."""
    options = LASTS[version] if lasts else {"version": version}
    client = app.mqtt("reader", **options, acknowledges=False)
    client.subscribe("Sensor/#", qos)
    writer = app.mqtt("writer")
    for number in range(150):  # 100 are under way at most
        writer.publish("Sensor/a", {"temperature": number}, 2)
    assert len(client) == 100
    client.subscribe("Sensor/#", qos)
    for number in range(150, 160):
        writer.publish("Sensor/a", {"temperature": number}, 2)
    seen = client.take()
    if lasts:
        client.cancel()
        seen += [each for each in app.mqtt("reader", **options).take() if not each.dup]
    else:
        answered = 0
        while answered < len(seen):
            for message in seen[answered:]:
                answered += 1
                client.acknowledge(message)
            seen += client.take()
    assert [each.json["temperature"] for each in seen if not each.retain] == list(range(160))


def test_no_local(app: Application) -> None:
    client, other = app.mqtt("client"), app.mqtt("other")
    for each in (client, other):
        each.subscribe("Sensor/#", 1, no_local=True)
    for qos in (0, 1, 2):
        client.publish("Sensor/1", {"temperature": qos}, qos)
        client.publish("Sensor/1", {"temperature": qos}, qos, retain=True)
    app.put("/Sensor/2", {})
    assert topics(client.take()) == ["Sensor/2"]
    assert topics(other.take()) == ["Sensor/1"] * 6 + ["Sensor/2"]


def test_no_local_is_about_the_client_id(app: Application) -> None:
    """Over several connections, and for a will of the client."""
    client = app.mqtt("client", **LASTS[V5], will=("Sensor/will", {}, 1))
    client.subscribe("Sensor/#", 1, no_local=True)
    client.publish("Sensor/1", {}, 1)
    client.cancel()
    client = app.mqtt("client", **LASTS[V5])
    client.publish("Sensor/2", {}, 1)
    assert client.take() == []


@pytest.mark.parametrize("version", BOTH)
def test_overlapping_subscriptions(app: Application, version: int) -> None:
    client = app.mqtt("reader", version=version)
    filters = [("Sensor/#", 0, 7), ("Sensor/+", 2, 8), ("Sensor/1", 1, 0)]
    for filter, qos, identifier in filters:
        client.subscribe(filter, qos, properties={p.SUBSCRIPTION_ID: [identifier]} if identifier and version == V5 else {})
    app.mqtt("writer").publish("Sensor/1", {}, 2)
    found = client.take()
    assert sorted(each.qos for each in found) == [0, 1, 2], "one copy each, and one at the highest QoS"
    if version == V5:
        assert {each.qos: each.properties.get(p.SUBSCRIPTION_ID) for each in found} == {0: [7], 2: [8], 1: None}


@pytest.mark.parametrize("version", BOTH)
def test_unsubscribe_compares_character_by_character(app: Application, version: int) -> None:
    client = wire(app, version)
    client.send(Subscribe(1, [Subscription("Sensor/+", 1), Subscription("Sensor/a", 1)]))
    for number, other in enumerate(("Sensor/#", "Sensor/b", "sensor/a", "Sensor/a/", "Sensor/"), 2):
        client.send(Unsubscribe(number, [other]))
    client.take()
    app.put("/Sensor/a", {})
    assert len(publishes(client.take())) == 2, "both are there"
    client.send(Unsubscribe(9, ["Sensor/a"]))
    app.put("/Sensor/a", {})
    assert len(publishes(client.take())) == 1, "one was deleted"


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("qos", [1, 2])
def test_what_was_begun_is_delivered_after_unsubscribe(app: Application, version: int, qos: int) -> None:
    options = {"clean": False, "properties": LASTS[version].get("properties", {})}
    client = wire(app, version, "reader", **options)
    client.send(Subscribe(1, [Subscription("Sensor/+", qos)]))
    app.put("/Sensor/1", {})
    (message,) = publishes(client.take())
    client.send(Unsubscribe(2, ["Sensor/+"]))
    app.put("/Sensor/2", {})
    assert publishes(client.take()) == [], "nothing new"
    client.cancel()
    client = wire(app, version, "reader", **options)
    assert [(each.topic, each.packet_id) for each in publishes(client.take())] == [("Sensor/1", message.packet_id)]
    if qos == 2:
        assert acks(client.send(Ack(p.PUBREC, message.packet_id))) == [(p.PUBREL, message.packet_id, 0)]
        client.send(Ack(p.PUBCOMP, message.packet_id))
    else:
        client.send(Ack(p.PUBACK, message.packet_id))
    client.cancel()
    assert publishes(wire(app, version, "reader", **options).packets) == []


@pytest.mark.parametrize(("published", "granted"), list(product((0, 1, 2), (0, 1, 2))))
def test_the_lower_qos_of_both_in_a_shared_subscription(app: Application, published: int, granted: int) -> None:
    members = [app.mqtt("m0"), app.mqtt("m1")]
    members[0].subscribe("$share/g/Sensor/#", granted)
    members[1].subscribe("$share/g/Sensor/#", 2)
    for _ in range(2):
        app.mqtt("w").publish("Sensor/1", {}, published)
    assert [[each.qos for each in member.take()] for member in members] == [[min(published, granted)], [published]]


# --- topics ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize(
    ("filter", "topic", "is_covered"),
    [
        ("sport/#", "sport", True),
        ("sport/#", "sport/", True),
        ("sport/#", "sport/a/b", True),
        ("sport/#", "sports", False),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("sport/+", "sport/a", True),
        ("sport/+", "sport/a/b", False),
        ("+/a", "sport/a", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("#", "/finance", True),
        ("#", "a", True),
        ("a/+/c", "a/b/c", True),
        ("a/+/c", "a//c", True),
        ("a/+/#", "a/b/c/d", True),
        ("a/b", "a/B", False),
        ("a/b", "a/b ", False),
        ("a/b", "a/b/", False),
        ("a/b", "/a/b", False),
    ],
)
def test_which_topics_a_filter_covers(app: Application, version: int, filter: str, topic: str, is_covered: bool) -> None:
    reader = app.mqtt("reader", version=version)
    assert reader.subscribe(filter, 1) == 1
    assert app.mqtt("writer", version=version).publish(topic, b"x", 1) == 0
    assert topics(reader.take()) == [topic] * is_covered


@pytest.mark.parametrize("version", BOTH)
def test_wildcards_at_the_beginning_do_not_cover_dollar(app: Application, version: int) -> None:
    reader, writer = app.mqtt("reader", version=version), app.mqtt("writer", version=version)
    for filter in ("#", "+/monitor", "+/#"):
        assert reader.subscribe(filter, 1) == 1
    for retain in (False, True):
        for topic in ("$SYS/monitor", "$x", "$share/g/x"):
            writer.publish(topic, b"x", 1, retain=retain)
        assert reader.take() == []
    writer.publish("x/monitor", b"x", 1)
    assert topics(reader.take()) == ["x/monitor"] * 3


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("prefix", ["free", "Sensor"])
def test_topics_are_not_normalised(app: Application, version: int, prefix: str) -> None:
    names = [
        unicodedata.normalize("NFC", "é"),
        unicodedata.normalize("NFD", "é"),
        "\ufeffx",
        "x",
        "A",
        "%41",
        "a b",
        "a+b".replace("+", "%2B"),
        ".",
        "..",
        "a&b=c;d",
        "\ufffd",
        "ﬁ",
        "fi",
    ]
    readers = {}
    for name in names:
        readers[name] = app.mqtt(f"reader {names.index(name)}", version=version)
        assert readers[name].subscribe(f"{prefix}/{name}", 1) == 1
    writer = app.mqtt("writer", version=version)
    for name in names:
        assert writer.publish(f"{prefix}/{name}", {}, 1) == 0
        assert {key for key, reader in readers.items() if reader.take()} == {name}


# --- order -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", BOTH)
def test_messages_of_a_client_keep_their_order(app: Application, version: int) -> None:
    readers = {qos: app.mqtt(f"reader{qos}", version=version) for qos in (0, 1, 2)}
    for qos, reader in readers.items():
        reader.subscribe("Sensor/#", qos)
    client = wire(app, version)
    sent = [Publish("Sensor/a", b'{"temperature":%d}' % n, n % 3, packet_id=n + 1 if n % 3 else 0) for n in range(90)]
    client.send(*sent)
    for qos, reader in readers.items():
        found = reader.take()
        for at in range(qos + 1):
            of = [each.json["temperature"] for each in found if each.qos == at]
            assert of == [n for n in range(90) if min(n % 3, qos) == at]
    assert [each[1] for each in acks(client.packets) if each[0] in (p.PUBACK, p.PUBREC)] == [n + 1 for n in range(90) if n % 3]
    done = client.send(*(Ack(p.PUBREL, n + 1) for n in range(90) if n % 3 == 2))
    assert acks(done) == [(p.PUBCOMP, n + 1, 0) for n in range(90) if n % 3 == 2]


@pytest.mark.parametrize("version", BOTH)
def test_the_server_keeps_the_order_of_a_client_too(app: Application, version: int) -> None:
    """What it sends again is in the order of the first time; PUBRELs in that of the PUBRECs."""
    options = {"clean": False, "properties": LASTS[version].get("properties", {})}
    reader = wire(app, version, "reader", **options)
    reader.send(Subscribe(1, [Subscription("Sensor/#", 2)]))
    for number in range(10):
        app.mqtt("w").publish(f"Sensor/{number}", {}, 1 + number % 2)
    first = [each.packet_id for each in publishes(reader.take())]
    reader.cancel()
    reader = wire(app, version, "reader", **options)
    assert [each.packet_id for each in publishes(reader.take())] == first
    of_qos_2 = [first[number] for number in (5, 1, 9)]
    assert acks(reader.send(*(Ack(p.PUBREC, each) for each in of_qos_2))) == [(p.PUBREL, each, 0) for each in of_qos_2]


# --- AUTH, PING, DISCONNECT, errors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", BOTH)
def test_ping(app: Application, version: int) -> None:
    client = wire(app, version)
    assert client.send(Ping(), Ping(), Ping()) == [Ping(True)] * 3


def test_authentication_methods(app: Application) -> None:
    """None is supported, AUTH is never sent, and no client may send it."""
    for given in ({p.AUTHENTICATION_METHOD: "x"}, {p.AUTHENTICATION_METHOD: "x", p.AUTHENTICATION_DATA: b"y"}):
        client = Wire(app, V5, hello(V5, properties=given), Auth(0x18, given))
        assert [(type(each), each.reason) for each in client.packets if isinstance(each, Connack | Auth)] == [(Connack, 0x8C)]
        assert len(client.packets) == 1 and not client.is_open
    for packet in (Auth(), Auth(0x18, {p.AUTHENTICATION_METHOD: "x"}), Auth(0x19, {p.AUTHENTICATION_METHOD: "x"})):
        client = wire(app, V5)
        assert isinstance(client.packets[0], Connack) and p.AUTHENTICATION_METHOD not in client.packets[0].properties
        (answer,) = client.send(packet)
        assert isinstance(answer, Disconnect) and answer.reason == 0x82 and not client.is_open


@pytest.mark.parametrize("version", BOTH)
def test_disconnect_of_a_client(app: Application, version: int) -> None:
    """The connection ends at once, and nothing behind it is read."""
    client = wire(app, version)
    assert client.send(Disconnect(), Publish("Sensor/1", b"{}", 1, True, packet_id=1)) == []
    assert not client.is_open and app.get("/Sensor/1").status == 404
    client = wire(app, version)
    client.send(b"\xe1\0")
    assert not client.is_open
    assert [each.reason for each in client.packets if isinstance(each, Disconnect)] == ([0x81] if version == V5 else [])


def test_disconnect_may_not_prolong_a_session_that_was_to_end(app: Application) -> None:
    watcher = app.mqtt("watcher")
    watcher.subscribe("Sensor/#", 1)
    client = wire(app, V5, "s", will=Will("Sensor/will", b"{}", 1))
    (answer,) = client.send(Disconnect(0, {p.SESSION_EXPIRY: 10}))
    assert isinstance(answer, Disconnect) and answer.reason == 0x82 and p.SESSION_EXPIRY not in answer.properties
    app.clock.advance(3)
    assert not client.is_open and topics(watcher.take()) == ["Sensor/will"], "it was no DISCONNECT"
    client = wire(app, V5, "s", properties={p.SESSION_EXPIRY: 10})
    assert client.send(Disconnect(0, {p.SESSION_EXPIRY: 100})) == []
    app.clock.advance(60)
    assert app.mqtt("s", **LASTS[V5]).session_present
    client = wire(app, V5, "s", clean=False, properties={p.SESSION_EXPIRY: 10})
    assert client.send(Disconnect(0, {p.SESSION_EXPIRY: 0})) == []
    assert not app.mqtt("s", **LASTS[V5]).session_present


ERRORS: dict[str, tuple[Packet | bytes, int]] = {
    "reserved flags": (b"\xc1\0", 0x81),
    "type 0": (b"\0\0", 0x81),
    "a length of five bytes": (b"\xc0\x80\x80\x80\x80\1", 0x81),
    "ill-formed UTF-8": (b"\x30\4\0\1\xff\0", 0x81),
    "U+0000": (b"\x30\4\0\1\0\0", 0x81),
    "QoS 3": (b"\x36\6\0\1t\0\1\0", 0x81),
    "packet identifier 0": (b"\x32\6\0\1t\0\0\0", 0x82),
    "CONNECT": (Connect(V5, "c"), 0x82),
    "CONNACK": (Connack(False, 0), 0x82),
    "PINGRESP": (Ping(True), 0x82),
    "PUBREL of a message that is not there yet": (
        encode(Publish("Sensor/1", b"", 2, packet_id=1), V5) + encode(Ack(p.PUBREL, 1), V5),
        0x82,
    ),
    "a topic with a wildcard": (Publish("Sensor/#", b""), 0x90),
    "Topic Alias 0": (b"\x30\7\0\1t\3\x23\0\0", 0x94),
    "Topic Alias 65": (Publish("t", b"", properties={p.TOPIC_ALIAS: 65}), 0x94),
    "no filter": (b"\x82\3\0\1\0", 0x82),
    "reserved options": (b"\x82\7\0\1\0\0\1t\x80", 0x81),
    "Retain Handling 3": (b"\x82\7\0\1\0\0\1t\x30", 0x82),
    "QoS 3 of a filter": (b"\x82\7\0\1\0\0\1t\3", 0x82),
    "a Subscription Identifier from a client": (Publish("t", b"", properties={p.SUBSCRIPTION_ID: [1]}), 0x82),
    "a property twice": (b"\x30\x0e\0\1t\x0a\2\0\0\0\1\2\0\0\0\1", 0x82),
}


@pytest.mark.parametrize("error", ERRORS)
def test_after_an_error_the_connection_ends(app: Application, error: str) -> None:
    """With DISCONNECT and its code as the last packet, while what came before is answered; others go on."""
    sent, code = ERRORS[error]
    other = app.mqtt("other")
    client = wire(app, V5)
    pending = [Ping(), Publish("Sensor/x", b"{}", 1, packet_id=7)]
    client.send(*pending, sent, Ping(), Publish("Sensor/y", b"{}", 0, True))
    last = client.packets[-1]
    assert isinstance(last, Disconnect) and last.reason == code and not client.is_open
    assert sum(type(each) is Ping for each in client.packets) == 1
    assert app.get("/Sensor/y").status == 404, "nothing behind it is read"
    other.ping()


@pytest.mark.parametrize(
    "sent",
    [b"\xc1\0", b"\0\0", b"\xf0\0", b"\x30\3\0\1\xff", b"\x32\5\0\1t\0\0", b"\x36\5\0\1t\0\1", b"\x82\2\0\1", b"\x60\2\0\1", b"\xe1\0"],
)
def test_after_an_error_the_connection_ends_in_version_3(app: Application, sent: bytes) -> None:
    other = app.mqtt("other", version=V3)
    client = wire(app, V3)
    client.send(Ping(), sent, Ping())
    assert client.packets[1:] == [Ping(True)] and not client.is_open
    other.ping()


# --- WebSocket ---------------------------------------------------------------------------------------------------------------------------


class Frames:
    """A WebSocket of MQTT."""

    def __init__(self, app: Application, offered: str = "mqtt") -> None:
        self.socket = app.connect("/any/where", headers={"Sec-WebSocket-Protocol": offered})

    def packets(self, version: int) -> list[Packet]:
        reader = PacketReader(version=version)
        found: list[Packet] = []
        for message in self.socket:
            assert isinstance(message, bytes), "all are binary"
            reader.feed(message)
            while (packet := reader.next_packet()) is not None:
                found.append(packet)
        return found


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
def test_packets_in_frames_of_any_size(app: Application, version: int, size: int) -> None:
    frames = Frames(app)
    sent = [
        hello(version),
        Subscribe(1, [Subscription("Sensor/#", 1)]),
        Ping(),
        Publish("Sensor/1", b'{"temperature":1}', 1, packet_id=2),
        Publish("Sensor/2", b"{}", 2, packet_id=3),
    ]
    data = b"".join(encode(each, version) for each in sent)
    for at in range(0, len(data), size):
        frames.socket.send(data[at : at + size])
    app.settle()
    found = frames.packets(version)
    assert [type(each) for each in found if not isinstance(each, Publish)] == [Connack, Suback, Ping, Ack, Ack]
    assert [each.topic for each in publishes(found)] == ["Sensor/1", "Sensor/2"]


def test_the_sub_protocol_of_a_websocket(app: Application) -> None:
    for offered in ("mqtt", "chat, mqtt", "mqtt, chat"):
        assert Frames(app, offered).socket.subprotocol == "mqtt"


def test_a_text_frame_ends_the_connection(app: Application) -> None:
    for before in (b"", encode(hello(V5), V5)):
        frames = Frames(app)
        if before:
            frames.socket.send(before)
        frames.socket.send("text")
        app.settle()
        assert frames.socket.close_code == 1003


def test_nothing_follows_disconnect_in_a_websocket(app: Application) -> None:
    frames = Frames(app)
    frames.socket.send(encode(hello(V5), V5))
    frames.socket.send(encode(Publish("Sensor/1", b"{}", 1, packet_id=1), V5) + b"\xc1\0")
    app.settle()
    found = frames.packets(V5)
    assert isinstance(found[-1], Disconnect) and not frames.socket.is_open
