"""Sessions that last: over connections, and over a server that ends in between. The broker is in memory, and `crash` leaves what is on the disk."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import svc.testing
from svc.mqtt.rows import KINDS
from svc.mqtt.session import Session
from svc.mqtt.taking_over import Claim
from svc.protocol import mqtt_properties as p
from svc.protocol.mqtt_packets import V3, V5, Ack, Publish
from svc.store.side_rows import scan_rows
from svc.testing.application import Application
from svc.testing.mqtt import MqttClient
from tests.support.mqtt import broker_of, crash
from tests.unit.testing.conftest import write_application

SCHEMA = """
type Sensor @table @export { id: ID @primaryKey temperature: Float unit: String }
type Other @table(database: "other") @export { id: ID @primaryKey temperature: Float }
"""
LASTS: dict[str, Any] = {"clean": False, "properties": {p.SESSION_EXPIRY: 1000}}


@pytest.fixture(scope="module")
def module_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    files = {"config.yaml": "rest: true\ngraphqlSchema: {files: '*.graphql'}\n", "schema.graphql": SCHEMA}
    with svc.testing.app(write_application(tmp_path_factory.mktemp("mqtt") / "things", files)) as app:
        yield app


@pytest.fixture
def app(module_app: Application) -> Iterator[Application]:
    for table in ("Sensor", "Other"):
        module_app.delete(f"/{table}/")
    yield module_app
    for each in list(module_app._instance.sockets):
        client = each.client
        if isinstance(client, MqttClient):
            client.cancel()
    for record in list(broker_of(module_app).stored.each()):
        if record is not None:
            module_app.mqtt(record["id"], user=record["user"]).disconnect()
    assert rows(module_app) == [], "no session is left, and so no row"


def rows(app: Application) -> list[bytes]:
    return [
        key
        for database in broker_of(app).stored.store.databases.values()
        for kind in KINDS
        for key, _ in scan_rows(database, database.snapshot(), kind)
    ]


@pytest.mark.parametrize("version", [V3, V5])
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("is_connected", [True, False])
def test_a_session_goes_on_after_a_crash(app: Application, version: int, qos: int, is_connected: bool) -> None:
    options = LASTS if version == V5 else {"clean": False}
    client = app.mqtt("s", version=version, **options)
    client.subscribe("Sensor/#", qos)
    writer = app.mqtt("w")
    writer.publish("Sensor/0", {"temperature": 0}, qos)
    assert len(client.take()) == 1
    if not is_connected:
        client.cancel()
        writer.publish("Sensor/1", {"temperature": 1}, qos)
    app.clock.advance(2)  # the position is written
    crash(app)
    app.put("/Sensor/2", {"temperature": 2})
    client = app.mqtt("s", version=version, **options)
    assert client.session_present
    assert [each.topic for each in client.take()] == (["Sensor/2"] if is_connected else ["Sensor/1", "Sensor/2"])
    app.put("/Sensor/3", {"temperature": 3})
    assert [each.topic for each in client.take()] == ["Sensor/3"]


def mute(client: MqttClient) -> MqttClient:
    """A client that answers nothing: the packets that come are in `packets`."""

    def receive(data: bytes) -> None:
        client._reader.feed(data)
        while (packet := client._reader.next_packet()) is not None:
            client.packets.append(packet)

    client.receive = receive  # type: ignore[method-assign]
    client.packets.clear()
    return client


def acks(client: MqttClient) -> list[tuple[int, int]]:
    found = [(each.kind, each.reason) for each in client.packets if type(each) is Ack]
    client.packets.clear()
    return found


@pytest.mark.parametrize("resource", ["Sensor", "Other"])
@pytest.mark.parametrize("crashes", [True, False])
def test_a_message_at_qos_2_is_written_once(app: Application, resource: str, crashes: bool) -> None:
    """The client is cut off before each answer in turn, and goes on as the standard says."""

    def interrupt() -> MqttClient:
        crash(app) if crashes else client.cancel()
        return mute(app.mqtt("w", **LASTS))

    reader = app.mqtt("reader", **LASTS)
    reader.subscribe(f"{resource}/#", 2)
    client = mute(app.mqtt("w", **LASTS))
    for number in (1, 2):
        packet = Publish(f"{resource}/a", b'{"temperature":%d}' % number, 2, packet_id=7)
        client._send(packet)
        assert acks(client) == [(p.PUBREC, 0)]
        client = interrupt()
        packet.dup = True
        for _ in range(3):
            client._send(packet)
            assert acks(client) == [(p.PUBREC, 0)], "as often as it comes"
        client = interrupt()
        client._send(Ack(p.PUBREL, 7))
        assert acks(client) == [(p.PUBCOMP, 0)]
        client = interrupt()
        client._send(Ack(p.PUBREL, 7))
        assert acks(client) == [(p.PUBCOMP, 0x92)], "it is over"
    seen = reader.take()
    reader = app.mqtt("reader", **LASTS)
    assert [each.json["temperature"] for each in [*seen, *reader]] == [1, 2]


def test_what_is_refused_leaves_nothing(app: Application) -> None:
    client = app.mqtt("w", **LASTS)
    assert client.publish("Nothing/a", {}, 2) == 0x90
    assert client.publish("Sensor/a", b"[1,2]", 2, retain=True) == 0x99
    assert rows(app) == []
    assert client.publish("Sensor/a", b"", 2, retain=True) == 0, "a deletion of what is not there"
    assert rows(app) == []


@pytest.mark.parametrize("crashes", [True, False])
def test_each_message_at_qos_2_is_received_once(app: Application, crashes: bool) -> None:
    """Cut before PUBREC, between PUBREC and PUBREL, and after PUBCOMP."""
    client = app.mqtt("s", acknowledges=False, **LASTS)
    client.subscribe("Sensor/#", 2)
    writer = app.mqtt("w")
    for number in range(5):
        writer.publish(f"Sensor/{number}", {"temperature": number}, 2)
    assert len(client) == 5
    client.acknowledge(client[0])
    client.acknowledge(client[2])
    seen = [each.topic for each in client]
    for _ in range(3):
        crash(app) if crashes else client.cancel()
        client = app.mqtt("s", acknowledges=False, **LASTS)
        seen += [each.topic for each in client]
    crash(app) if crashes else client.cancel()
    client = app.mqtt("s", **LASTS)
    writer = app.mqtt("w")
    writer.publish("Sensor/9", {"temperature": 9}, 2)
    assert seen + [each.topic for each in client] == [*(f"Sensor/{number}" for number in range(5)), "Sensor/9"]


def test_retained_messages_that_are_not_acknowledged(app: Application) -> None:
    for number in range(3):
        app.put(f"/Sensor/{number}", {"temperature": number})
    for qos in (1, 2):
        client = app.mqtt(f"s{qos}", acknowledges=False, **LASTS)
        client.subscribe("Sensor/#", qos)
        assert [(each.topic, each.retain) for each in client] == [(f"Sensor/{number}", True) for number in range(3)]
        client.acknowledge(client[0])
        client.cancel()
        client = app.mqtt(f"s{qos}", **LASTS)
        again = [(each.topic, each.retain, each.dup) for each in client.packets if type(each) is Publish]
        assert again == [(f"Sensor/{number}", True, True) for number in (1, 2)], "the current record, under the identifier of before"


def test_no_retained_messages_for_a_session_that_goes_on(app: Application) -> None:
    app.put("/Sensor/1", {"temperature": 1})
    client = app.mqtt("s", **LASTS)
    client.subscribe("Sensor/#", 1)
    client.subscribe("Sensor/+", 0)
    assert len(client.take()) == 2
    for _ in range(2):
        client.cancel()
        client = app.mqtt("s", **LASTS)
        assert client.session_present and client.take() == []
        crash(app)
        client = app.mqtt("s", **LASTS)
        assert len(client.take()) <= 1, "at QoS 1 what was acknowledged just before a crash may come again"
    app.put("/Sensor/2", {"temperature": 1})
    assert len(client.take()) == 2


def test_subscriptions_are_stored_as_they_are(app: Application) -> None:
    client = app.mqtt("s", **LASTS)
    client.subscribe("Sensor/a", 1, no_local=True, retain_as_published=True, properties={p.SUBSCRIPTION_ID: [7]})
    client.subscribe("Sensor/+", 2)
    client.subscribe("Other/#", 1)
    client.unsubscribe("Sensor/+")
    crash(app)
    (record,) = app.operation(
        "search_by_value", database="system", table="svc_durable_session", attribute="id", value="s", get_attributes=["*"]
    )
    assert [(each["topic"], each["qos"], each["identifier"]) for each in record["subscriptions"]] == [("Sensor/a", 1, 7), ("Other/#", 1, 0)]
    assert (record["user"], record["expiry"]) == ("admin", 1000)
    client = app.mqtt("s", **LASTS)
    client.publish("Sensor/a", {}, 1)
    assert client.take() == [], "no local"
    app.mqtt("w").publish("Sensor/a", {"temperature": 1}, 1, retain=True)
    (message,) = client.take()
    assert (message.retain, message.properties[p.SUBSCRIPTION_ID]) == (True, [7])
    app.put("/Other/a", {"temperature": 1})
    assert [each.topic for each in client.take()] == ["Other/a"]


def test_messages_of_a_subscription_that_has_ended(app: Application) -> None:
    """What was sent before UNSUBSCRIBE is delivered all the same (MQTT-3.10.4-3)."""
    for qos in (1, 2):
        app.delete("/Sensor/")
        client = app.mqtt(f"s{qos}", acknowledges=False, **LASTS)
        client.subscribe("Sensor/#", qos)
        app.put("/Sensor/1", {"temperature": 1})
        assert len(client) == 1 and client.unsubscribe("Sensor/#") == 0
        client.cancel()
        client = app.mqtt(f"s{qos}", **LASTS)
        assert [(each.topic, each.dup) for each in client.packets if type(each) is Publish] == [("Sensor/1", True)]
        app.put("/Sensor/2", {"temperature": 1})
        client.cancel()
        client = app.mqtt(f"s{qos}", **LASTS)
        assert [each for each in client.packets if type(each) is Publish] == []


def test_sessions_end(app: Application) -> None:
    client = app.mqtt("s", clean=False, properties={p.SESSION_EXPIRY: 60})
    client.subscribe("Sensor/#", 2)
    app.put("/Sensor/1", {"temperature": 1})
    crash(app)
    app.clock.advance(59)
    client = app.mqtt("s", clean=False, properties={p.SESSION_EXPIRY: 60})
    assert client.session_present, "the time begins with the start of the server"
    client.cancel()
    app.clock.advance(61)
    assert not app.mqtt("s", clean=False).session_present
    app.clock.advance(3700)
    assert rows(app) == []
    app.mqtt("s2", **LASTS).disconnect(properties={p.SESSION_EXPIRY: 0})
    assert not app.mqtt("s2", **LASTS).session_present
    app.mqtt("s2", clean=True, properties={p.SESSION_EXPIRY: 100}).cancel()
    assert app.mqtt("s2", **LASTS).session_present


def test_a_stored_session_is_its_users(app: Application) -> None:
    rights = {"read": True, "insert": True, "update": True, "delete": False, "attribute_permissions": []}
    app.operation("add_role", role="thing", permission={"data": {"tables": {"Sensor": rights}}})
    app.operation("add_user", username="thing", password="a-long-password", role="thing", active=True)
    app.mqtt("s", **LASTS).cancel()
    crash(app)
    for clean in (True, False):
        with pytest.raises(AssertionError, match="0x85"):
            app.mqtt("s", user="thing", clean=clean)
    assert app.mqtt("s", **LASTS).session_present


def test_a_client_comes_back_while_another_process_asks_for_it(app: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """That one is killed before it has the session. Here it is given up, and opened again as soon as it is on the disk."""
    broker, loop = broker_of(app), app._instance.loop
    first = app.mqtt("s", **LASTS)
    assert first.subscribe("Sensor/#", 1) == 1
    asked: list[asyncio.Task[bool]] = []

    async def enter(claim: Claim, username: str | None, *, ends: bool) -> bool:
        session, stored = broker.sessions["s"], asyncio.Event()
        value = {"client_id": "s", "user": username, "ends": False, "turn": 0, "owner": "another"}
        asked.append(loop.create_task(broker.give_up(value)))
        await asyncio.sleep(0)
        go_on = session.on_settled

        def on_settled(session: Session) -> None:
            stored.set()
            go_on(session)

        session.on_settled = on_settled
        await stored.wait()
        return True

    with monkeypatch.context() as patch:
        patch.setattr(Claim, "enter", enter)
        second = app.mqtt("s", **LASTS)
    app._instance.rest()
    assert [task.result() for task in asked] == [True]
    assert second.session_present
    app.put("/Sensor/a", {"temperature": 1})
    assert [message.topic for message in second.take()] == ["Sensor/a"]
    second.cancel()
    third = app.mqtt("s", **LASTS)
    app.put("/Sensor/b", {"temperature": 1})
    assert [message.topic for message in third.take()] == ["Sensor/b"], "what it has subscribed to is on the disk"


@pytest.mark.parametrize("qos", [1, 2])
def test_nothing_is_missing_of_a_subscription_whose_server_is_killed_at_its_beginning(app: Application, qos: int) -> None:
    """SUBACK was sent, and nothing is on the disk yet of how far its client has got: what was overwritten since then is sent too."""
    for name in "abc":
        app.put(f"/Sensor/{name}", {"temperature": 0})
    client = app.mqtt("s", acknowledges=False, clean=False, properties={p.SESSION_EXPIRY: 1000, p.RECEIVE_MAXIMUM: 1})
    assert client.subscribe("Sensor/#", qos) == qos
    for temperature in (1, 2):
        app.put("/Sensor/b", {"temperature": temperature})
    app.delete("/Sensor/c")
    app.put("/Sensor/d", {"temperature": 3})
    app.delete("/Sensor/d")
    crash(app)
    client = app.mqtt("s", **LASTS)
    assert [(each.topic[-1], each.json["temperature"] if each.payload else None, each.retain) for each in client.take()] == [
        ("a", 0, True),
        ("b", 1, False),
        ("b", 2, False),
        ("c", None, False),
        ("d", 3, False),
        ("d", None, False),
    ]


def test_wills_whose_removal_waits_for_its_turn(app: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process writes: the client is back before what was published, or is not needed any more, is removed from the table."""
    watcher = app.mqtt("watcher")
    watcher.subscribe("Sensor/#", 1)
    broker = broker_of(app)
    write = broker.write

    def write_later(transaction: Any, on_done: Any) -> None:
        async def later() -> None:
            for _ in range(50):  # turns
                await asyncio.sleep(0)
            write(transaction, on_done)

        broker.spawn(later())

    monkeypatch.setattr(broker.wills, "_write", write_later)
    will = ("Sensor/a", {"temperature": 1}, 1)
    app.mqtt("a", will=will).cancel()
    second = app.mqtt("a", will=will)
    assert watcher.take() == [("Sensor/a", {"temperature": 1})]
    second.cancel()
    assert watcher.take() == [("Sensor/a", {"temperature": 1})], "it was not removed with the first"
    app.mqtt("a", will=will).disconnect()
    app.mqtt("a")
    app.clock.advance(5)
    assert watcher.take() == []
    app.mqtt("b", will=will).cancel()
    value = {"client_id": "b", "user": "admin", "ends": True, "turn": 0, "owner": "another"}
    found: list[Any] = []

    async def asked() -> None:
        found.append((await broker.give_up(value), broker.stored.find_will("b")))

    broker.spawn(asked())
    app._instance.rest()
    assert found == [(True, None)], "the client goes on at another process, which looks for its will"
    assert watcher.take() == [("Sensor/a", {"temperature": 1})]


def test_wills_are_published_after_a_crash(app: Application) -> None:
    watcher = app.mqtt("watcher", clean=False, properties={p.SESSION_EXPIRY: 1000})
    watcher.subscribe("Sensor/#", 1)
    app.mqtt("a", will=("Sensor/a", {"temperature": 1}, 1, True))
    app.mqtt("b", will=("Sensor/b", {"temperature": 2}, 1, False, {p.WILL_DELAY: 30, p.USER_PROPERTY: [("x", "y")]}))
    app.mqtt("c", will=("Sensor/c", {"temperature": 3}))
    app.mqtt("d", will=("Sensor/d", {"temperature": 4})).disconnect()
    crash(app)
    watcher = app.mqtt("watcher", clean=False, properties={p.SESSION_EXPIRY: 1000})
    assert watcher.take() == []
    app.mqtt("c", will=("Sensor/c", {"temperature": 5}))
    assert watcher.take() == [("Sensor/c", {"temperature": 3})], "its client is back: it has lost a connection"
    app.clock.advance(2.5)
    assert watcher.take() == [("Sensor/a", {"id": "a", "temperature": 1})]
    app.clock.advance(30)
    (message,) = watcher.take()
    assert message == ("Sensor/b", {"temperature": 2}) and message.user_properties == [("x", "y")]
    crash(app)
    watcher = app.mqtt("watcher", clean=False, properties={p.SESSION_EXPIRY: 1000})
    app.clock.advance(40)
    assert watcher.take() == [("Sensor/c", {"temperature": 5})], "those before were removed"
    crash(app)
    app.clock.advance(40)
    assert app.mqtt("watcher", clean=False, properties={p.SESSION_EXPIRY: 1000}).take() == []


def test_a_log_that_was_cut(app: Application) -> None:
    client = app.mqtt("s", **LASTS)
    client.subscribe("Sensor/#", 1)
    client.cancel()
    app.put("/Sensor/1", {"temperature": 1})
    app.mqtt("w").publish("Sensor/2", {"temperature": 2}, 1)
    app.operation("delete_audit_logs_before", database="data", table="Sensor", timestamp=4e12)
    app.put("/Sensor/3", {"temperature": 3})
    client = app.mqtt("s", **LASTS)
    assert {each.topic for each in client} == {"Sensor/1", "Sensor/3"} and not any(each.retain for each in client)


def test_a_session_that_was_away_for_too_long(tmp_path: Path) -> None:
    files = {"config.yaml": "rest: true\ngraphqlSchema: {files: '*.graphql'}\n", "schema.graphql": SCHEMA}
    with svc.testing.app(write_application(tmp_path / "things", files), mqtt_maxCatchUp=3) as app:
        client = app.mqtt("s", **LASTS)
        client.subscribe("Sensor/#", 1)
        client.cancel()
        for number in range(10):
            app.put(f"/Sensor/{number % 5}", {"temperature": number})
        client = app.mqtt("s", **LASTS)
        assert [each.json["temperature"] for each in client] == [5, 6, 7, 8, 9] and not any(each.retain for each in client)


def test_sessions_leave_nothing_to_the_collector(app: Application) -> None:
    """They last, and are frozen (`svc.server.garbage`): what is in a circle would stay until a collection of all objects."""

    def held() -> int:
        names = ("Delivery", "Subscription", "Session", "Link", "SubscriberGroup", "TunnelConnection", "Sender", "Flight", "MqttConnection")
        return sum(type(each).__name__ in names for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = held()
        for options in ({}, LASTS):
            client = app.mqtt("s", acknowledges=False, **options)
            for qos in (0, 1, 2):
                client.subscribe(f"Sensor/+/{qos}", qos)
                client.subscribe(f"$share/g/Sensor/{qos}/#", qos)
                app.put(f"/Sensor/{qos}/{qos}", {"temperature": 1})
            assert len(client) >= 6
            client.cancel()
            del client
        app._instance.rest()
        assert held() == before
    finally:
        gc.enable()


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("crashes", [True, False])
def test_a_deletion_of_nothing_does_not_come_behind_the_record_that_came_after_it(app: Application, qos: int, crashes: bool) -> None:
    """The current records are sent again, and then what has happened since it subscribed: which is older than they are."""
    app.put("/Sensor/a", {"temperature": 1})
    app.put("/Sensor/b", {"temperature": 1})
    options = {"clean": False, "properties": {p.SESSION_EXPIRY: 1000, p.RECEIVE_MAXIMUM: 1}}
    client = app.mqtt("s", acknowledges=False, **options)
    client.subscribe("Sensor/#", qos)
    writer = app.mqtt("w")
    for name in ("made", "never"):
        assert writer.publish(f"Sensor/{name}", b"", 1, retain=True) == 0
    app.put("/Sensor/made", {"temperature": 2})
    assert [each.topic for each in client.take()] == ["Sensor/a"]
    client.cancel()
    if crashes:
        crash(app)
    client = app.mqtt("s", **LASTS)
    told = {each.topic: each.payload for each in client.take()}
    assert told.keys() == {"Sensor/a", "Sensor/b", "Sensor/made", "Sensor/never"}
    assert told["Sensor/never"] == b"" and b"2" in told["Sensor/made"]
