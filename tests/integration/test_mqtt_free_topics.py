"""Topics that are no resources, as records of a table: what devices send and subscribe to, beside REST, SSE and GraphQL on the same records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import svc.testing
from svc.errors import ConfigError
from svc.protocol import mqtt_properties as p
from svc.protocol.mqtt_packets import V3, V5
from svc.testing.application import Application
from tests.unit.testing.conftest import write_application

TOPIC = "type Topic @table @export(mqtt: false) { id: ID @primaryKey contentType: String @indexed data: Bytes updatedTime: Date @updatedTime }\n"
SCHEMA = "type Sensor @table @export { id: ID @primaryKey temperature: Float }\n"
FREE = {"mqtt_freeTopics": "data.Topic"}
BYTES = "application/octet-stream"


def application(folder: Path, schema: str) -> Path:
    return write_application(
        folder / "things", {"config.yaml": "rest: true\ngraphql: true\ngraphqlSchema: {files: '*.graphql'}\n", "schema.graphql": schema}
    )


@pytest.fixture(scope="module")
def module_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    with svc.testing.app(application(tmp_path_factory.mktemp("mqtt"), SCHEMA + TOPIC), **FREE) as app:
        yield app


@pytest.fixture
def app(module_app: Application) -> Application:
    for table in ("Sensor", "Topic"):
        module_app.delete(f"/{table}/")
    return module_app


def address(topic: str) -> str:
    return f"/Topic/{quote(topic, safe='')}"


# --- devices -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [V3, V5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_home_assistant_discovery(app: Application, version: int, qos: int) -> None:
    config = b'{"name": "Kitchen", "unit_of_measurement": "\xc2\xb0C", "state_topic": "zigbee2mqtt/kitchen"}'
    device = app.mqtt("device", version=version)
    early = app.mqtt("early", version=version)
    early.subscribe("homeassistant/+/+/config", qos)
    for kind in ("sensor", "switch"):
        assert device.publish(f"homeassistant/{kind}/kitchen/config", config, qos, retain=True) == 0
    device.publish("homeassistant/sensor/node/kitchen/config", config, qos, retain=True)
    device.publish("homeassistant/status", b"online", qos)
    told = ["homeassistant/sensor/kitchen/config", "homeassistant/switch/kitchen/config"]
    assert [(each.topic, each.payload, each.qos, each.retain) for each in early.take()] == [(topic, config, qos, False) for topic in told]
    late = app.mqtt("late", version=version)
    late.subscribe("homeassistant/#", qos)
    found = late.take()
    assert [(each.topic, each.retain) for each in found] == [
        ("homeassistant/sensor/kitchen/config", True),
        ("homeassistant/sensor/node/kitchen/config", True),
        ("homeassistant/switch/kitchen/config", True),
    ]
    assert {each.payload for each in found} == {config} and found[0].content_type == ("application/json" if version == V5 else None)
    device.publish("homeassistant/switch/kitchen/config", b"", qos, retain=True)
    assert late.take() == [("homeassistant/switch/kitchen/config", b"")] == early.take()
    assert app.get(address("homeassistant/switch/kitchen/config")).status == 404
    for client in (device, early, late):
        client.disconnect()


def test_tasmota(app: Application) -> None:
    hub = app.mqtt("hub", version=V3)
    for filter in ("tele/+/STATE", "stat/+/POWER", "tele/+/LWT"):
        hub.subscribe(filter)
    device = app.mqtt("plug", version=V3, will=("tele/tasmota_1/LWT", b"Offline", 1, True))
    device.subscribe("cmnd/tasmota_1/#")
    state = b'{"Time":"2026-01-05T20:07:27","Uptime":"0T00:00:11","POWER":"ON","Wifi":{"RSSI":100}}'
    device.publish("tele/tasmota_1/LWT", b"Online", retain=True)
    device.publish("tele/tasmota_1/STATE", state)
    device.publish("stat/tasmota_1/POWER", "ON")
    assert hub.take() == [("tele/tasmota_1/LWT", b"Online"), ("tele/tasmota_1/STATE", state), ("stat/tasmota_1/POWER", b"ON")]
    hub.publish("cmnd/tasmota_1/POWER", b"")  # asks for the state
    hub.publish("cmnd/tasmota_1/POWER", "TOGGLE")
    assert device.take() == [("cmnd/tasmota_1/POWER", b""), ("cmnd/tasmota_1/POWER", b"TOGGLE")]
    assert [each["id"] for each in app.get("/Topic/").json] == ["tele/tasmota_1/LWT"], "what is not retained is no record"
    device.cancel()
    assert hub.take() == [("tele/tasmota_1/LWT", b"Offline")]
    assert app.get(address("tele/tasmota_1/LWT")).content == b"Offline"


def test_zigbee2mqtt(app: Application) -> None:
    bridge = app.mqtt("z2m", will=("zigbee2mqtt/bridge/state", {"state": "offline"}, 1, True))
    bridge.publish("zigbee2mqtt/bridge/state", {"state": "online"}, 1, retain=True)
    bridge.publish("zigbee2mqtt/0x00158d0001a2b3c4", b'{"temperature":21.50}', 0, retain=True)
    bridge.subscribe("zigbee2mqtt/#", 1, no_local=True)
    bridge.clear()
    panel = app.mqtt("panel")
    panel.subscribe("zigbee2mqtt/bridge/state", 1)
    assert panel.take() == [("zigbee2mqtt/bridge/state", {"state": "online"})]
    panel.publish("zigbee2mqtt/lamp/set", {"state": "ON"}, 1)
    bridge.publish("zigbee2mqtt/lamp", {"state": "ON"}, 1)
    assert bridge.take() == [("zigbee2mqtt/lamp/set", {"state": "ON"})]
    bridge.cancel()
    assert panel.take() == [("zigbee2mqtt/bridge/state", {"state": "offline"})]


# --- payloads ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (b"21.50", BYTES),
        (b"ON", BYTES),
        (b'"text"', BYTES),
        (b"null", BYTES),
        (b"\xff\0\x80", BYTES),
        (b"{not json", BYTES),
        (b'{"b": 1.50, "a":\n 1e3, "a": 2}', "application/json"),
        (b"[1,  2]", "application/json"),
        (b'{"contentType": "a/b", "data": "x"}', "application/json"),
        (b'{"a": "' + b"x" * 300_000 + b'"}', "application/json"),
        (b"{" + b"x" * 300_000, BYTES),
    ],
)
def test_payloads_are_kept_byte_for_byte(app: Application, payload: bytes, kind: str) -> None:
    reader, writer = app.mqtt("reader"), app.mqtt("writer")
    reader.subscribe("#", 1)
    assert writer.publish("x/y", payload, 1) == writer.publish("x/y", payload, 1, retain=True) == 0
    assert [(each.payload, each.content_type) for each in reader.take()] == [(payload, kind)] * 2
    late = app.mqtt("late")
    late.subscribe("+/y")
    assert [(each.payload, each.content_type, each.retain) for each in late.take()] == [(payload, kind, True)]
    answer = app.get(address("x/y"))
    assert (answer.content, answer.content_type) == (payload, kind)


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "application/cbor", "text/ü; x=1", "x" * 600])
def test_the_content_type_of_the_client(app: Application, kind: str) -> None:
    """A payload need not be what its type says: nothing reads it."""
    reader, writer = app.mqtt("reader"), app.mqtt("writer")
    reader.subscribe("x")
    properties = {p.CONTENT_TYPE: kind, p.RESPONSE_TOPIC: "answers/1", p.USER_PROPERTY: [("a", "b")]}
    assert writer.publish("x", b"{", 1, retain=True, properties=properties) == 0
    (message,) = reader.take()
    assert (message.payload, message.content_type, message.user_properties) == (b"{", kind, [("a", "b")])
    assert message.properties[p.RESPONSE_TOPIC] == "answers/1"


# --- topics and filters ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "topic", ["/", "//", "/x", "x/", "x//y", "/Sensor/1", "x?y=1&z", "a%2Fb", "é ü", "Sensors/1", "/".join("a" * 300), "/" * 650]
)
def test_topics_of_any_form(app: Application, topic: str) -> None:
    reader, writer = app.mqtt("reader"), app.mqtt("writer")
    assert reader.subscribe(topic, 1) == reader.subscribe("#", 1) == 1
    assert writer.publish(topic, b"1", 1, retain=True) == 0
    assert [(each.topic, each.payload) for each in reader.take()] == [(topic, b"1")] * 2
    assert [each["id"] for each in app.get("/Topic/").json] == [topic]
    assert writer.publish(topic, b"", 1, retain=True) == 0
    assert reader.take() == [(topic, b"")] * 2 and app.get("/Topic/").json == []


@pytest.mark.parametrize(
    "topic",
    [
        "$SYS/broker/uptime",
        "$",
        "Sensor//1",
        "Sensor/1/",
        "Topic/x",
        "a" * 660,
        "/" * 660,
        "a" * 65_535,
        "a/" * 1000,
        "é" * 1000,
        "a\1",
        "a\x9f",
    ],
)
@pytest.mark.parametrize("retain", [False, True])
def test_topics_that_do_not_exist(app: Application, topic: str, retain: bool) -> None:
    writer, reader = app.mqtt("writer"), app.mqtt("reader")
    assert reader.subscribe(topic) == 0x8F
    reader.subscribe("#")
    for qos in (1, 2):
        assert writer.publish(topic, b"1", qos, retain=retain) == 0x90
        assert writer.publish(topic, b"", qos, retain=retain) == 0x90
        old = app.mqtt("old", version=V3)
        assert old.publish(topic, b"1", qos, retain=retain) == 0 and old.is_open
    assert reader.take() == [] and app.get("/Topic/").json == []


def test_long_topics_that_the_store_could_not_keep_apart(app: Application) -> None:
    writer = app.mqtt("writer")
    assert writer.publish("a" * 600 + "1", b"1", 1, retain=True) == 0
    assert writer.publish("a" * 600 + "2", b"1", 1, retain=True) == 0x90
    reader = app.mqtt("reader")
    reader.subscribe("+")
    assert [each.topic for each in reader.take()] == ["a" * 600 + "1"]


@pytest.mark.parametrize(
    ("filter", "covered"),
    [
        ("#", ["/", "/a", "a", "a/", "a//b", "a/b", "a/b/c", "b"]),
        ("+", ["a", "b"]),
        ("+/+", ["/", "/a", "a/", "a/b"]),
        ("+/#", ["/", "/a", "a", "a/", "a//b", "a/b", "a/b/c", "b"]),
        ("/#", ["/", "/a"]),
        ("/+", ["/", "/a"]),
        ("a/#", ["a", "a/", "a//b", "a/b", "a/b/c"]),
        ("a/+", ["a/", "a/b"]),
        ("a//#", ["a/", "a//b"]),
        ("a//+", ["a//b"]),
        ("+/+/c", ["a/b/c"]),
        ("a/", ["a/"]),
        ("/", ["/"]),
        ("Sensor/#", ["Sensor/1"]),
    ],
)
def test_filters(app: Application, filter: str, covered: list[str]) -> None:
    topics = ["/", "/a", "Sensor/1", "a", "a/", "a//b", "a/b", "a/b/c", "b"]
    reader, writer = app.mqtt("reader"), app.mqtt("writer")
    assert reader.subscribe(filter, 1) == 1
    for topic in topics:
        assert writer.publish(topic, b"{}", 1, retain=True) == 0
    assert [each.topic for each in reader.take()] == covered
    late = app.mqtt("late")
    late.subscribe(filter, 1)
    assert sorted(each.topic for each in late.take() if each.retain) == covered
    assert reader.unsubscribe(filter) == 0 and writer.publish("a/b", b"{}", 1) == 0 and reader.take() == []


@pytest.mark.parametrize(
    "filter", ["$SYS/#", "$SYS/broker", "Sensor//#", "Topic/#", "a#", "#/a", "+/+/+/+/+/+/+/+/+", "/".join("+" * 64), "x" * 65_535]
)
def test_filters_that_cover_nothing(app: Application, filter: str) -> None:
    assert app.mqtt("a").subscribe(filter) == 0x8F
    assert app.mqtt("b", version=V3).subscribe(filter) == 0x80


def test_resources_are_not_among_free_topics(app: Application) -> None:
    app.put("/Sensor/1", {"temperature": 1})
    reader, writer = app.mqtt("reader"), app.mqtt("writer")
    for filter in ("#", "+/1", "+/#"):
        reader.subscribe(filter, 1)
    writer.publish("Sensor/1", {"temperature": 2}, 1, retain=True)
    writer.publish("Sensor/1", {"temperature": 3}, 1)
    writer.publish("Sensor", {}, 1)
    assert reader.take() == []
    assert app.get("/Sensor/1").json["temperature"] == 2 and app.get("/Topic/").json == []


# --- beside other protocols --------------------------------------------------------------------------------------------------------------


def test_a_record_is_seen_everywhere(app: Application) -> None:
    stream, all_of_it, rows = app.events(address("tele/a")), app.events("/Topic/"), app.live("/Topic/?contentType=text/plain")
    socket = app.connect("/Topic/")
    writer = app.mqtt("writer")
    plain = {p.CONTENT_TYPE: "text/plain"}
    writer.publish("tele/a", b"21.50", 1, retain=True, properties=plain)
    writer.publish("tele/a", b"ON", 1, properties=plain)
    record: dict[str, Any] = {"id": "tele/a", "contentType": "text/plain", "data": "MjEuNTA="}
    (stored,) = app.get("/Topic/").json
    assert {name: stored[name] for name in record} == record and stored["updatedTime"].startswith("20")
    for events in (stream, all_of_it, socket):
        put, message = events
        assert (put["type"], put["id"], put["value"]) == ("put", "tele/a", stored)
        assert (message["type"], message["id"], message["value"]) == ("message", "tele/a", {**record, "data": "T04="})
    assert [row["id"] for row in rows] == ["tele/a"]
    asked = app.post("/graphql", {"query": '{ Topic(id: "tele/a") { contentType data } }'})
    assert asked.json == {"data": {"Topic": [{"contentType": "text/plain", "data": "MjEuNTA="}]}}
    assert app.get("/Topic/?contentType=text/plain&select(id)").json == ["tele/a"]
    writer.publish("tele/a", b"", 1, retain=True)
    assert [event["type"] for event in stream] == ["put", "message", "delete"] and rows == []


def test_what_is_written_over_rest_is_told(app: Application) -> None:
    reader = app.mqtt("reader")
    reader.subscribe("#", 1)
    app.put(address("a/b"), {"contentType": "text/plain", "data": "T04="})
    app.put(address("a/c"), data=b"\x01\x02", headers={"Content-Type": "image/png"})
    app.patch(address("a/b"), {"data": "T0ZG"})
    app.delete(address("a/b"))
    assert [(each.topic, each.payload, each.content_type) for each in reader.take()] == [
        ("a/b", b"ON", "text/plain"),
        ("a/c", b"\x01\x02", "image/png"),
        ("a/b", b"OFF", "text/plain"),
        ("a/b", b"", None),
    ]


def test_records_that_are_no_topics(app: Application) -> None:
    """They are records like any other, and no client of MQTT hears of them."""
    reader = app.mqtt("reader")
    reader.subscribe("#", 1)
    for key in ("a+", "a/#", "+", "$SYS/x", "a\n", "\0", "Sensor/1", "Topic/1", "a\ufffe"):
        assert app.put(address(key), {"contentType": "text/plain", "data": "T04="}).status == 204, key
    assert app.put(address("no-data"), {"contentType": "text/plain"}).status == 204
    assert app.put(address("odd-type"), {"contentType": "a\0\n" + "x" * 70_000, "data": "T04="}).status == 204
    assert [(each.topic, each.payload, each.content_type) for each in reader.take()] == [("odd-type", b"ON", None)]
    late = app.mqtt("late")
    for filter in ("#", "+/#", "a/+"):
        late.subscribe(filter, 1)
    assert [each.topic for each in late.take()] == ["odd-type"] * 2
    assert len(app.get("/Topic/").json) == 11
    app.delete("/Topic/")
    assert {each.topic for each in late.take()} == {"odd-type", "no-data"}


def test_messages_of_other_protocols(app: Application) -> None:
    """One that has no data is sent as what it is."""
    reader = app.mqtt("reader")
    reader.subscribe("#", 1)
    table = app.tables.Topic
    app.run(table.publish("x", {"contentType": "text/plain", "data": b"ON"}))
    app.run(table.publish("x", {"temperature": 5}))
    app.run(table.publish("x", "ON"))
    app.run(table.publish(None, {"to": "the table"}))
    assert [(each.topic, each.payload) for each in reader.take()] == [("x", b"ON"), ("x", b'{"temperature":5}'), ("x", b'"ON"')]


# --- rights ------------------------------------------------------------------------------------------------------------------------------


def role(**rights: Any) -> dict[str, Any]:
    return {
        "data": {
            "tables": {"Topic": {"read": False, "insert": False, "update": False, "delete": False, "attribute_permissions": [], **rights}}
        }
    }


@pytest.mark.parametrize("right", ["read", "insert", "update", "delete", None])
def test_rights_are_those_of_the_table(app: Application, right: str | None) -> None:
    writer = app.mqtt("writer")
    writer.publish("there", b"1", 1, retain=True)
    client = app.mqtt("client", user=role() if right is None else role(**{right: True}))
    for filter in ("#", "there", "+/x"):
        assert client.subscribe(filter) == (0 if right == "read" else 0x87)
    for qos in (1, 2):
        assert client.publish("x", b"1", qos) == (0 if right == "insert" else 0x87)
        assert client.publish("new", b"1", qos, retain=True) == (0 if right == "insert" and qos == 1 else 0x87), (
            "it is there, the second time"
        )
        assert client.publish("there", b"2", qos, retain=True) == (0 if right == "update" else 0x87)
        assert client.publish("none", b"", qos, retain=True) == (0 if right == "delete" else 0x87)
    assert client.publish("there", b"", 1, retain=True) == (0 if right == "delete" else 0x87)


def test_rights_on_attributes(app: Application) -> None:
    def named(**given: bool) -> list[dict[str, Any]]:
        return [{"attribute_name": name, "read": may, "insert": may, "update": may} for name, may in given.items()]

    writer = app.mqtt("writer")
    half = app.mqtt("half", user=role(read=True, insert=True, update=True, attribute_permissions=named(contentType=True, data=False)))
    whole = app.mqtt("whole", user=role(read=True, insert=True, update=True, attribute_permissions=named(contentType=True, data=True)))
    for client in (half, whole):
        assert client.subscribe("#", 1) == 1
    assert half.publish("x", b"1", 1) == half.publish("x", b"1", 1, retain=True) == 0x87
    assert whole.publish("x", b"1", 1) == whole.publish("x", b"1", 1, retain=True) == writer.publish("x", b"2", 1, retain=True) == 0
    assert [each.payload for each in whole.take()] == [b"1", b"1", b"2"]
    assert all(b'"data"' not in each.payload for each in half.take())


def test_anonymous_clients(tmp_path: Path) -> None:
    with svc.testing.app(application(tmp_path, SCHEMA + TOPIC), mqtt_requireAuthentication=False, **FREE) as app:
        nobody = app.mqtt("nobody", user=None)
        for filter in ("#", "a", "+/b"):
            assert nobody.subscribe(filter) == 0x87
        for payload in (b"1", b""):
            assert nobody.publish("a", payload, 1) == nobody.publish("a", payload, 1, retain=True) == 0x87
        app.operation("add_role", role="anonymous", permission=role(read=True, insert=True))
        assert nobody.subscribe("#", 1) == 1
        assert nobody.publish("a", b"1", 1, retain=True) == 0 and nobody.take() == [("a", b"1")]
        assert nobody.publish("a", b"2", 1, retain=True) == nobody.publish("a", b"", 1, retain=True) == 0x87


# --- deletion ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["tele/none", "Sensor/none"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_deletion_of_nothing_is_a_message(app: Application, topic: str, qos: int) -> None:
    reader, writer = app.mqtt("reader"), app.mqtt("writer")
    reader.subscribe(topic, 2)
    stream = app.events(address(topic) if topic.startswith("tele") else f"/{topic}")
    assert writer.publish(topic, b"", qos, retain=True) == 0
    assert [(each.topic, each.payload, each.qos, each.retain) for each in reader.take()] == [(topic, b"", qos, False)]
    assert [(event["type"], event["value"]) for event in stream] == [("message", None)]
    writer.publish(topic, b"{}", qos, retain=True)
    writer.publish(topic, b"", qos, retain=True)
    assert [event["type"] for event in stream] == ["message", "put", "delete"] and len(reader.take()) == 2
    app.delete(f"/{topic}" if topic.startswith("Sensor") else address(topic))
    assert reader.take() == [], "over REST it is nothing"


def test_a_deletion_in_the_turn_of_the_write(app: Application) -> None:
    """What counts is whether the record is there when it is its turn."""
    from svc.protocol.mqtt import encode
    from svc.protocol.mqtt_packets import Publish

    stream = app.events(address("x"))
    writer = app.mqtt("writer")
    sent = [Publish("x", payload, 1, True, packet_id=number) for number, payload in enumerate((b"", b"1", b"", b""), 1)]
    writer._deliver(b"".join(encode(each, V5) for each in sent))
    app.settle()
    assert [event["type"] for event in stream] == ["message", "put", "delete", "message"]


# --- the table ---------------------------------------------------------------------------------------------------------------------------


def test_the_table_is_made(tmp_path: Path) -> None:
    with svc.testing.app(application(tmp_path, SCHEMA), mqtt_freeTopics="home.Topic") as app:
        client = app.mqtt("a")
        assert client.subscribe("#", 1) == 1
        assert client.publish("a/b", b"21.50", 1, retain=True) == 0 and client.take() == [("a/b", b"21.50")]
        described = app.operation("describe_table", database="home", table="Topic")
        assert described["hash_attribute"] == "id"
        assert app.get("/Topic/").status == 404, "nobody has exported it"
        app.operation("drop_table", database="home", table="Topic")
        assert client.publish("a/b", b"1", 1) == 0x90 and client.subscribe("a") == 0x8F


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (
            "id: Int @primaryKey contentType: String data: Bytes updatedTime: Date @updatedTime",
            "its primary key must be 'id', of type ID or String",
        ),
        ("id: ID @primaryKey contentType: String updatedTime: Date @updatedTime", "it must have the attribute 'data', of type Bytes"),
    ],
)
def test_a_table_that_cannot_hold_topics(tmp_path: Path, declared: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"The table data.Topic cannot be that of 'mqtt.freeTopics': {message}"):
        svc.testing.app(application(tmp_path, f"type Topic @table {{ {declared} }}\n"), **FREE)


def test_without_the_setting(tmp_path: Path) -> None:
    with svc.testing.app(application(tmp_path, SCHEMA + TOPIC)) as app:
        client = app.mqtt("a")
        assert client.publish("a/b", b"1", 1) == 0x90 and client.subscribe("#") == client.subscribe("a/b") == 0x8F


def test_many_records(app: Application) -> None:
    """A filter that begins with a text reads no more than the records that begin with it; any other reads all."""
    app.put(
        "/Topic/",
        [{"id": f"{place}/{number}/state", "contentType": "text/plain", "data": "T04="} for place in "abc" for number in range(2000)],
    )
    reads: list[bytes] = []
    table = app.instance.server.store.databases["data"].tables["Topic"]
    scan = type(table).scan

    def counted(self: Any, *arguments: Any, **options: Any) -> Iterator[tuple[bytes, bytes]]:
        for stored, raw in scan(self, *arguments, **options):
            reads.append(stored)
            yield stored, raw

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(table), "scan", counted)
        for filter, found, most in (
            ("b/+/state", 2000, 2010),
            ("b/7/#", 1, 5),
            ("b/1999/+", 1, 5),
            ("+/7/state", 3, 6010),
            ("#", 6000, 6010),
        ):
            client = app.mqtt("a")
            client.subscribe(filter, 1)
            app.settle()
            assert len(client) == found, filter
            assert len(reads) <= most, filter
            reads.clear()
            client.disconnect()
