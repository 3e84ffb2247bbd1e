"""The broker in one process: clients of MQTT beside REST on the same records, over connections in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import svc.testing
from svc.protocol import mqtt_properties as p
from svc.protocol.mqtt_packets import V3, V5, Connect, Publish
from svc.testing.application import Application
from tests.unit.testing.conftest import write_application

SCHEMA = """
type Sensor @table @export { id: ID @primaryKey temperature: Float unit: String }
type Log @table @export { id: ID @primaryKey }
type Hidden @table @export(mqtt: false) { id: ID @primaryKey }
type Number @table @export { id: Int @primaryKey name: String }
type Place @table @export @splitSegments { id: ID @primaryKey name: String }
"""


@pytest.fixture(scope="module")
def module_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    files = {"config.yaml": "rest: true\ngraphqlSchema: {files: '*.graphql'}\n", "schema.graphql": SCHEMA}
    with svc.testing.app(write_application(tmp_path_factory.mktemp("mqtt") / "things", files)) as app:
        yield app


@pytest.fixture
def app(module_app: Application) -> Application:
    for table in ("Sensor", "Log", "Number"):
        module_app.delete(f"/{table}/")
    return module_app


@pytest.mark.parametrize("version", [V3, V5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_reaches_its_subscribers(app: Application, version: int, qos: int) -> None:
    reader = app.mqtt("reader", version=version)
    assert reader.subscribe("Sensor/#", qos) == qos
    writer = app.mqtt("writer", version=version)
    assert writer.publish("Sensor/1", {"temperature": 21.5}, qos) == 0
    assert reader.take() == [("Sensor/1", {"temperature": 21.5})]
    assert app.get("/Sensor/1").status == 404, "a message is no record"
    assert writer.publish("Sensor/1", {"temperature": 22}, qos, retain=True) == 0
    assert app.get("/Sensor/1").json["temperature"] == 22
    (message,) = reader.take()
    assert (message.topic, message.json, message.qos, message.retain) == ("Sensor/1", {"id": "1", "temperature": 22}, qos, False)
    assert writer.publish("Sensor/1", b"", qos, retain=True) == 0
    assert app.get("/Sensor/1").status == 404
    assert reader.take() == [("Sensor/1", b"")]
    for client in (reader, writer):
        client.disconnect()


def test_what_is_written_over_rest_is_told(app: Application) -> None:
    reader = app.mqtt("reader")
    reader.subscribe("Sensor/+", 1)
    app.put("/Sensor/a", {"temperature": 1})
    app.patch("/Sensor/a", {"unit": "C"})
    app.put("/Sensor/a/b", {"temperature": 2})  # two levels
    app.delete("/Sensor/a")
    assert reader.take() == [
        ("Sensor/a", {"id": "a", "temperature": 1}),
        ("Sensor/a", {"id": "a", "temperature": 1, "unit": "C"}),
        ("Sensor/a", b""),
    ]
    reader.disconnect()


def test_retained_messages_are_the_records(app: Application) -> None:
    for number in range(3):
        app.put(f"/Sensor/{number}", {"temperature": number})
    reader = app.mqtt("reader")
    reader.subscribe("Sensor/#", 1)
    found = reader.take()
    assert [(each.topic, each.json["temperature"], each.retain) for each in found] == [(f"Sensor/{n}", n, True) for n in range(3)]
    assert reader.subscribe("Sensor/1") == 0
    assert [(each.topic, each.retain) for each in reader.take()] == [("Sensor/1", True)]
    assert reader.subscribe("Sensor/1", retain_handling=1) == 0 and reader.take() == []
    assert reader.subscribe("Sensor/2", retain_handling=1) == 0 and len(reader.take()) == 1
    assert reader.subscribe("Sensor/0", retain_handling=2) == 0 and reader.take() == []
    reader.disconnect()


@pytest.mark.parametrize(
    ("filter", "covered"),
    [
        ("Sensor/a", ["Sensor/a"]),
        ("Sensor/a/#", ["Sensor/a", "Sensor/a/b", "Sensor/a/b/c"]),
        ("Sensor/a/+", ["Sensor/a/b"]),
        ("Sensor/+", ["Sensor/a", "Sensor/d"]),
        ("Sensor/#", ["Sensor", "Sensor/a", "Sensor/a/b", "Sensor/a/b/c", "Sensor/d"]),
        ("Sensor", ["Sensor"]),
        ("Sensor/+/b", ["Sensor/a/b"]),
        ("Sensor/+/#", ["Sensor/a", "Sensor/a/b", "Sensor/a/b/c", "Sensor/d"]),
        ("Sensor/a/+/#", ["Sensor/a/b", "Sensor/a/b/c"]),
        ("Sensor/+/+/c", ["Sensor/a/b/c"]),
        ("Sensor/d/+/x", []),
    ],
)
def test_filters(app: Application, filter: str, covered: list[str]) -> None:
    reader, writer = app.mqtt("reader"), app.mqtt("writer")
    assert reader.subscribe(filter, 1) == 1
    for topic in ("Sensor", "Sensor/a", "Sensor/a/b", "Sensor/a/b/c", "Sensor/d", "Log/a"):
        assert writer.publish(topic, {"temperature": 1}, 1) == 0
    assert [each.topic for each in reader.take()] == covered
    assert reader.unsubscribe(filter) == 0 and reader.unsubscribe(filter) == 0x11
    writer.publish("Sensor/a", {}, 1)
    assert reader.take() == []


@pytest.mark.parametrize(
    "filter",
    [
        "Sensor" + "/+" * 9 + "/a",
        "Sensor" + "/a" * 70 + "/+/#",
        "#",
        "+/a",
        "Nothing/#",
        "Hidden/#",
        "Sensor/#/a",
        "Sensor/a#",
        "Sensor+/a",
        "/Sensor/a",
        "Sensor//a",
        "$SYS/#",
        "Sensor/",
    ],
)
def test_filters_that_cover_nothing(app: Application, filter: str) -> None:
    assert app.mqtt("a").subscribe(filter) == 0x8F
    assert app.mqtt("a", version=V3).subscribe(filter) == 0x80


@pytest.mark.parametrize(
    ("topic", "payload", "retain", "reason"),
    [
        ("Nothing/1", {}, False, 0x90),
        ("Hidden/1", {}, False, 0x90),
        ("/Sensor/1", {}, False, 0x90),
        ("Sensor//1", {}, True, 0x90),
        ("Sensor/1/", {}, True, 0x90),
        ("Sensor/1?x=1", {}, True, 0x90),
        ("Sensor", {}, True, 0x90),
        ("Number/x", {}, True, 0x90),
        ("Sensor/1", {"temperature": "warm"}, True, 0x99),
        ("Sensor/1", {"temperature": "warm"}, False, 0x99),
        ("Sensor/1", [1], True, 0x99),
    ],
)
def test_messages_that_are_refused(app: Application, topic: str, payload: object, retain: bool, reason: int) -> None:
    for qos in (1, 2):
        assert app.mqtt("a").publish(topic, payload, qos, retain=retain) == reason
        old = app.mqtt("b", version=V3)
        assert old.publish(topic, payload, qos, retain=retain) == 0 and old.is_open, "3.1.1 has no words for it"
        client = app.mqtt("c")
        client.publish(topic, payload, retain=retain)
        client.ping()
    assert app.get("/Sensor/").json == []


@pytest.mark.parametrize("payload", [b"ON", b"21.50", b"{not json", b"\xff\0\x80", b'"text"', b"null"])
def test_payloads_come_back_byte_for_byte(app: Application, payload: bytes) -> None:
    reader, writer = app.mqtt("reader"), app.mqtt("writer")
    reader.subscribe("Log/#", 1)
    assert writer.publish("Log/1", payload, 1) == 0
    assert writer.publish("Log/1", payload, 1, retain=True) == 0
    assert [each.payload for each in reader.take()] == [payload, payload]
    late = app.mqtt("late")
    late.subscribe("Log/1")
    assert [(each.payload, each.retain) for each in late.take()] == [(payload, True)]
    answer = app.get("/Log/1")
    assert (answer.content, answer.content_type) == (payload, "application/octet-stream")


def test_content_types(app: Application) -> None:
    writer = app.mqtt("writer")
    cbor = b"\xa1\x6btemperature\xf9\x4d\x60"  # {"temperature": 21.5}
    reader = app.mqtt("reader", properties={p.USER_PROPERTY: [("accept", "application/cbor")]})
    other = app.mqtt("other")
    for each in (reader, other):
        each.subscribe("Sensor/1")
    assert writer.publish("Sensor/1", cbor, 1, properties={p.CONTENT_TYPE: "application/cbor"}) == 0
    assert [(each.payload[:13], each.content_type) for each in reader.take()] == [(cbor[:13], "application/cbor")]
    assert [(each.json, each.content_type) for each in other.take()] == [({"temperature": 21.5}, "application/json")]
    assert writer.publish("Sensor/1", b"{", 1, properties={p.CONTENT_TYPE: "application/json"}) == 0x99
    assert writer.publish("Log/1", b"<a/>", 1, retain=True, properties={p.CONTENT_TYPE: "text/xml"}) == 0
    assert app.get("/Log/1").content_type == "text/xml"


# --- rights ------------------------------------------------------------------------------------------------------------------------------

READER = {"data": {"tables": {"Sensor": {"read": True, "insert": False, "update": False, "delete": False}}}}


def test_rights(app: Application) -> None:
    app.put("/Sensor/1", {"temperature": 1})
    client = app.mqtt("reader", user=READER)
    assert client.subscribe("Sensor/#", 1) == 1 and client.subscribe("Log/#") == 0x87
    assert [each.topic for each in client.take()] == ["Sensor/1"]
    for qos in (1, 2):
        assert client.publish("Sensor/1", {}, qos) == client.publish("Sensor/1", {}, qos, retain=True) == 0x87
        assert client.publish("Sensor/1", b"", qos, retain=True) == client.publish("Log/1", {}, qos) == 0x87
    assert app.get("/Sensor/1").json["temperature"] == 1
    with pytest.raises(AssertionError, match="0x87"):
        app.mqtt("anonymous", user=None)
    with pytest.raises(AssertionError, match="0x05"):
        app.mqtt("anonymous", user=None, version=V3)


def test_a_long_message_keeps_its_place(app: Application) -> None:
    """What is decoded in slices is written, and answered, before what was sent after it."""
    from svc.protocol.mqtt import encode
    from svc.protocol.mqtt_packets import Ack

    reader, writer = app.mqtt("reader"), app.mqtt("writer")
    reader.subscribe("Log/#", 1)
    reader.clear()
    long = b'{"list":[' + b"[1,2,3]," * 80_000 + b"0]}"
    sent = [
        Publish("Log/a", b"{}"),
        Publish("Log/b", long, 1, packet_id=1),
        Publish("Log/c", b"{}", 1, packet_id=2),
        Publish("Log/d", b"{}", 2, packet_id=3),
    ]
    before = len(writer.packets)
    link: Any = app.instance.server.interfaces.mqtt.sessions["writer"].link
    app.instance.loop.call_soon(link.on_data, b"".join(encode(each, V5) for each in sent))  # in one piece, as in a message of a WebSocket
    app.settle()
    assert [each.topic for each in reader.take()] == ["Log/a", "Log/b", "Log/c", "Log/d"]
    answers = [each.packet_id for each in writer.packets[before:] if isinstance(each, Ack) and each.kind in (p.PUBACK, p.PUBREC)]
    assert answers == [1, 2, 3]


def test_rights_that_end(app: Application) -> None:
    """A subscription rests without the right to read, and the session goes on."""
    rights = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}
    role: dict[str, Any] = {"data": {"tables": {"Sensor": rights}}}
    app.operation("add_role", role="watcher", permission=role)
    app.operation("add_user", username="watcher", password="a-long-password", role="watcher", active=True)
    options: dict[str, Any] = {"user": "watcher", "clean": False, "properties": {p.SESSION_EXPIRY: 100}}
    client = app.mqtt("watcher", **options)
    client.subscribe("Sensor/#", 1)
    rights["read"] = False
    app.operation("alter_role", id="watcher", role="watcher", permission=role)
    app.put("/Sensor/1", {"temperature": 1})
    assert client.take() == [] and client.subscribe("Sensor/#") == 0x87
    client.cancel()
    client = app.mqtt("watcher", **options)
    assert client.session_present
    client.ping()
    assert client.take() == []
    client.disconnect()
    rights["read"] = True
    app.operation("alter_role", id="watcher", role="watcher", permission=role)
    app.put("/Sensor/2", {"temperature": 2})
    client = app.mqtt("watcher", **options)
    assert client.session_present and [each.topic for each in client.take()] == ["Sensor/1", "Sensor/2"]
    assert client.unsubscribe("Sensor/#") == 0
    client.disconnect(properties={p.SESSION_EXPIRY: 0})


def test_many_filters_in_one_packet(app: Application) -> None:
    from svc.protocol.mqtt_packets import Suback, Subscribe, Subscription

    client = app.mqtt("many")
    filters = [Subscription(f"Sensor/{number}", 1) for number in range(990)]
    answer = client._ask(Subscribe(5, filters), 5)
    assert isinstance(answer, Suback) and answer.reasons == [1] * 990
    reasons = [client.subscribe(f"Sensor/x{number}") for number in range(15)]
    assert reasons == [0] * 10 + [0x97] * 5
    assert app.mqtt("writer").publish("Sensor/7", {"temperature": 7}, 1) == 0
    assert client.take() == [("Sensor/7", {"temperature": 7})]
    client.disconnect()


def test_long_payloads(app: Application) -> None:
    reader, writer = app.mqtt("reader"), app.mqtt("writer")
    reader.subscribe("Log/#", 1)
    value = {"text": "x" * 300_000, "list": list(range(1000))}
    assert writer.publish("Log/1", value, 1, retain=True) == 0
    assert app.get("/Log/1").json == {"id": "1", **value}
    raw = b"{" + b"x" * 300_000
    assert writer.publish("Log/1", raw, 1) == 0
    assert writer.publish("Log/1", raw, 1, properties={p.CONTENT_TYPE: "application/json"}) == 0x99
    assert [len(each.payload) for each in reader.take()][1:] == [len(raw)]


def test_wrong_passwords(app: Application) -> None:
    from svc.testing.mqtt import MqttClient

    for version, code in ((V5, "0x86"), (V3, "0x04")):
        with pytest.raises(AssertionError, match=code):
            MqttClient(app.instance, Connect(version, "x", True, 0, "nobody", b"wrong"))


# --- connections and sessions ------------------------------------------------------------------------------------------------------------


def test_client_ids(app: Application) -> None:
    made = app.mqtt("")
    assert made.connack is not None and made.connack.properties[p.ASSIGNED_CLIENT_ID].startswith("auto-")
    assert app.mqtt("", version=V3).is_open
    with pytest.raises(AssertionError, match="0x02"):
        app.mqtt("", version=V3, clean=False)


def test_takeover(app: Application) -> None:
    first = app.mqtt("same", will=("Sensor/will", {"temperature": 0}))
    watcher = app.mqtt("watcher")
    watcher.subscribe("Sensor/will")
    second = app.mqtt("same")
    assert (first.is_open, first.reason, second.is_open) == (False, 0x8E, True)
    assert watcher.take() == [("Sensor/will", {"temperature": 0})]
    second.ping()
    durable = app.mqtt("mine", properties={p.SESSION_EXPIRY: 100})
    with pytest.raises(AssertionError, match="0x85"):
        app.mqtt("mine", user=READER)
    durable.ping()


@pytest.mark.parametrize("version", [V3, V5])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_session_goes_on(app: Application, version: int, qos: int) -> None:
    properties = {p.SESSION_EXPIRY: 1000} if version == V5 else None
    client = app.mqtt("s", version=version, clean=False, properties=properties)
    assert not client.session_present
    client.subscribe("Sensor/#", qos)
    client.cancel()
    writer = app.mqtt("writer")
    for number in range(3):
        writer.publish(f"Sensor/{number}", {"temperature": number}, 1)
    client = app.mqtt("s", version=version, clean=False, properties=properties)
    assert client.session_present
    assert client.take() == [(f"Sensor/{number}", {"temperature": number}) for number in range(3)]
    writer.publish("Sensor/9", {}, 1)
    assert client.take() == [("Sensor/9", {})]
    client = app.mqtt("s", version=version)
    assert not client.session_present
    writer.publish("Sensor/9", {}, 1)
    assert client.take() == []
    client.disconnect()


@pytest.mark.parametrize("qos", [1, 2])
def test_what_is_not_acknowledged_comes_again(app: Application, qos: int) -> None:
    client = app.mqtt("s", clean=False, properties={p.SESSION_EXPIRY: 1000, p.RECEIVE_MAXIMUM: 3}, acknowledges=False)
    client.subscribe("Sensor/#", qos)
    writer = app.mqtt("writer")
    for number in range(6):
        writer.publish(f"Sensor/{number}", {"temperature": number}, 1)
    assert [each.topic for each in client] == ["Sensor/0", "Sensor/1", "Sensor/2"], "no more than the client takes"
    client.acknowledge(client[0])
    assert [each.topic for each in client] == ["Sensor/0", "Sensor/1", "Sensor/2", "Sensor/3"]
    client.cancel()
    client = app.mqtt("s", clean=False, properties={p.SESSION_EXPIRY: 1000})
    assert [(each.topic, each.dup) for each in client.take()] == [
        *((f"Sensor/{number}", True) for number in (1, 2, 3)),
        *((f"Sensor/{number}", False) for number in (4, 5)),
    ]
    client.disconnect()


def test_a_session_ends_in_time(app: Application) -> None:
    client = app.mqtt("s", properties={p.SESSION_EXPIRY: 60})
    client.subscribe("Sensor/#", 1)
    client.cancel()
    app.clock.advance(30)
    client = app.mqtt("s", clean=False, properties={p.SESSION_EXPIRY: 60})
    assert client.session_present
    client.disconnect()
    app.clock.advance(61)
    assert not app.mqtt("s", clean=False).session_present


def test_wills(app: Application) -> None:
    watcher = app.mqtt("watcher")
    watcher.subscribe("Sensor/#", 1)
    app.mqtt("a", will=("Sensor/a", {"temperature": 1}, 1, True)).cancel()
    assert watcher.take() == [("Sensor/a", {"id": "a", "temperature": 1})] and app.get("/Sensor/a").status == 200
    app.mqtt("a", will=("Sensor/a", {})).disconnect()
    assert watcher.take() == []
    app.mqtt("a", will=("Sensor/a", {})).disconnect(4)
    assert watcher.take() == [("Sensor/a", {})]
    app.mqtt("a", will=("Sensor/a", {}, 0, False, {p.WILL_DELAY: 10}), properties={p.SESSION_EXPIRY: 60}).cancel()
    assert watcher.take() == []
    app.clock.advance(11)
    assert watcher.take() == [("Sensor/a", {})]
    app.mqtt("a", will=("Sensor/a", {}, 0, False, {p.WILL_DELAY: 10}), properties={p.SESSION_EXPIRY: 60}).cancel()
    app.mqtt("a", clean=False, properties={p.SESSION_EXPIRY: 60})
    app.clock.advance(11)
    assert watcher.take() == [], "the session goes on"


def test_keep_alive(app: Application) -> None:
    client = app.mqtt("a", keep_alive=10, will=("Sensor/a", {}))
    app.clock.advance(14)
    client.ping()
    app.clock.advance(14)
    assert client.is_open
    app.clock.advance(3)
    assert (client.is_open, client.reason) == (False, 0x8D)


def test_connect_must_come(app: Application) -> None:
    from svc.connection.tunnel import TunnelAcceptor
    from svc.testing.wire import MemorySocket

    instance = app.instance
    sock = MemorySocket(instance.loop)
    acceptor = TunnelAcceptor(instance.server.application_port.connections, instance.server.interfaces.mqtt_link)
    acceptor.accept(sock, "192.0.2.9", "mqtt")  # type: ignore[arg-type]
    app.clock.advance(9)
    assert not sock.is_closed
    app.clock.advance(5)
    assert sock.is_closed


def test_many_messages_in_one_piece_are_answered_in_order(app: Application) -> None:
    from svc.protocol.mqtt import encode
    from svc.protocol.mqtt_packets import Ack

    client = app.mqtt("a")
    before = len(client.packets)
    data = b"".join(
        encode(Publish("Sensor/x" if number % 7 else "Nothing", b"{}", 1 + number % 2, packet_id=number), V5) for number in range(1, 400)
    )
    client._deliver(data)
    app.settle()
    answers = [each for each in client.packets[before:] if isinstance(each, Ack) and each.kind in (p.PUBACK, p.PUBREC)]
    assert [each.packet_id for each in answers] == list(range(1, 400))
    assert all((each.reason == 0x90) == (each.packet_id % 7 == 0) for each in answers)


def test_metrics(app: Application) -> None:
    reader, writer = app.mqtt("reader"), app.mqtt("writer")
    reader.subscribe("Sensor/#", 1)
    writer.publish("Sensor/1", {"temperature": 1}, 1)
    assert app.instance.server.interfaces.mqtt.metrics.open >= 2
    with pytest.raises(AssertionError):
        app.mqtt("nobody", user=None)
    reader.disconnect()
    writer.cancel()
    period = app.instance.server.analytics.recorder.close()
    assert period is not None
    seen = {(row["metric"], row.get("method"), row.get("type")) for row in period.iter_entries() if row is not None}
    assert {("connection", "connect", "mqtt"), ("connection", "disconnect", "mqtt"), ("bytes-sent", "publish,qos=1", "mqtt")} <= seen
    assert {("bytes-sent", command, "mqtt") for command in ("connack", "suback", "puback")} <= seen


def test_subscription_identifiers_and_aliases(app: Application) -> None:
    client = app.mqtt("a", properties={p.TOPIC_ALIAS_MAXIMUM: 1})
    client.subscribe("Sensor/#", properties={p.SUBSCRIPTION_ID: [7]})
    writer = app.mqtt("writer")
    alias = {p.TOPIC_ALIAS: 3}
    writer.publish("Sensor/1", {}, 1, properties=alias)
    assert writer.publish("", {}, 1, properties=alias) == 0
    writer.publish("Sensor/2", {}, 1)
    found = client.take()
    assert [each.topic for each in found] == ["Sensor/1", "Sensor/1", "Sensor/2"]
    assert all(each.properties[p.SUBSCRIPTION_ID] == [7] for each in found)
    assert [each.properties.get(p.TOPIC_ALIAS) for each in found] == [1, 1, None]


def test_what_a_message_says_beside_its_payload(app: Application) -> None:
    writer = app.mqtt("writer")
    reader, old = app.mqtt("reader"), app.mqtt("old", version=V3)
    for each in (reader, old):
        each.subscribe("Sensor/#", 2)
    said = {
        p.PAYLOAD_FORMAT: 1,
        p.RESPONSE_TOPIC: "Sensor/answers",
        p.CORRELATION_DATA: b"\0\xff",
        p.USER_PROPERTY: [("b", "1"), ("a", "2"), ("b", "3")],
    }
    for qos in (0, 1, 2):
        assert writer.publish("Sensor/1", {"temperature": qos}, qos, properties=said) == 0
    app.put("/Sensor/2", {"temperature": 3})
    found = reader.take()
    assert [each.qos for each in found] == [0, 1, 2, 2], "the lower one of both"
    assert [each.qos for each in old.take()] == [0, 1, 2, 2]
    assert all({key: each.properties[key] for key in said} == said for each in found[:3])
    assert set(found[3].properties) == {p.CONTENT_TYPE}


def test_no_local_and_retain_as_published(app: Application) -> None:
    client, other = app.mqtt("client"), app.mqtt("other")
    client.subscribe("Sensor/#", 1, no_local=True)
    other.subscribe("Sensor/#", 1, retain_as_published=True)
    for retain in (False, True):
        client.publish("Sensor/1", {"temperature": 1}, 1, retain=retain)
    app.put("/Sensor/2", {})
    assert [each.topic for each in client.take()] == ["Sensor/2"]
    assert [each.retain for each in other.take()] == [False, True, False]
    other.publish("Sensor/3", {}, 1)
    assert [each.topic for each in client.take()] == ["Sensor/3"]


def test_messages_expire(app: Application) -> None:
    options: dict[str, Any] = {"clean": False, "properties": {p.SESSION_EXPIRY: 1000}}
    reader = app.mqtt("away", **options)
    reader.subscribe("Sensor/#", 1)
    writer = app.mqtt("writer")
    writer.publish("Sensor/1", {}, 1, properties={p.MESSAGE_EXPIRY: 100})
    assert [each.properties[p.MESSAGE_EXPIRY] for each in reader.take()] == [100]
    reader.cancel()
    writer.publish("Sensor/short", {}, 1, properties={p.MESSAGE_EXPIRY: 5})
    writer.publish("Sensor/long", {}, 1, properties={p.MESSAGE_EXPIRY: 60})
    app.clock.advance(20)
    reader = app.mqtt("away", **options)
    assert [(each.topic, each.properties[p.MESSAGE_EXPIRY]) for each in reader.take()] == [("Sensor/long", 40)]
    reader.disconnect(properties={p.SESSION_EXPIRY: 0})


def test_a_message_too_large_for_a_client_is_left_out(app: Application) -> None:
    client = app.mqtt("a", properties={p.MAXIMUM_PACKET_SIZE: 200})
    client.subscribe("Sensor/#", 1)
    writer = app.mqtt("writer")
    writer.publish("Sensor/1", {"unit": "x" * 500}, 1)
    writer.publish("Sensor/2", {"unit": "x"}, 1)
    assert [each.topic for each in client.take()] == ["Sensor/2"]


def test_nothing_is_left(app: Application) -> None:
    broker = app.instance.server.interfaces.mqtt
    app.settle()
    for session in list(broker.sessions.values()):
        if session.link is not None:
            session.link.end(0x98, "the test ends")
    app.clock.advance(2000)
    hub = app.instance.server.realtime.hub
    assert not [each for each in broker.sessions.values() if each.expiry < 1e9] and len(hub) == 0
