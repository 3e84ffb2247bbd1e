"""Code of applications beside the broker: `server.mqtt`, resources that serve subscriptions themselves, the log of clients. In memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import svc.testing
from svc.protocol import mqtt_properties as p
from svc.protocol.mqtt_packets import V3, V5, Publish, Suback, Subscribe, Subscription
from svc.testing.application import Application
from svc.testing.mqtt import MqttClient
from tests.support.mqtt import broker_of, crash
from tests.unit.testing.conftest import write_application

SCHEMA = """
type Sensor @table @export { id: ID @primaryKey temperature: Float unit: String }
type Open @table { id: ID @primaryKey value: Int }
type Slow @table { id: ID @primaryKey value: Int }
type Seen @table { id: ID @primaryKey value: Int }
"""
CODE = '''
import asyncio
from svc import AccessViolation, ClientError, Resource, ServerError, server, tables

CALLS = []
ENDED = []
GATE = asyncio.Event()
RULES = {"read": True}


class Open(tables.Open):
    """Its own rule of reading, asked at once."""

    def allow_read(self, user, target):
        return user is not None and RULES["read"]


class Slow(tables.Slow):
    """Its own rule of reading, which has to be awaited."""

    async def allow_read(self, user, target):
        await asyncio.sleep(0.5)
        return user is not None and RULES["read"]


class Seen(tables.Seen):
    """A table whose subscriptions, messages and records go through code."""

    def subscribe(self, target):
        CALLS.append(("subscribe", target.id, target.is_collection, target.include_descendants, target.only_children, target.omit_current))
        return super().subscribe(target)

    def publish(self, data, target):
        CALLS.append(("publish", target.id, data))
        return super().publish({**data, "published": True}, target)

    def put(self, data, target):
        CALLS.append(("put", target.id, data))
        return super().put({**data, "value": 7}, target)

    def delete(self, target):
        CALLS.append(("delete", target.id))
        return super().delete(target)


class Feed(Resource):
    """Without a table: events of its own, by the key."""

    def allow_read(self, user, target):
        return user is not None and RULES["read"]

    def allow_create(self, user, data, target):
        return True

    async def subscribe(self, target):
        key = target.id
        CALLS.append((key, target.is_collection, target.is_root, target.prefix, target.include_descendants, target.only_children))
        if key == "slow":
            await asyncio.sleep(2)
        if key == "never":
            await asyncio.Event().wait()
        if key == "missing":
            raise ClientError("there is none", 404)
        if key == "mine":
            raise AccessViolation(None)
        if key == "bad":
            raise ClientError("no")
        if key == "broken":
            raise ServerError("no")
        if key == "defect":
            return 1 / 0
        if key == "answer":
            return {"no": "subscription"}
        subscription = super().subscribe(target)
        if key == "much":
            for number in range(100_000):
                subscription.send(number)
        ENDED.append(subscription)
        return subscription


class Ticks(Resource):
    """Async generators."""

    def allow_read(self, user, target):
        return user is not None and RULES["read"]

    async def subscribe(self, target):
        key = target.id
        if key == "refused":
            raise AccessViolation(None)
        if key == "much":
            try:
                for number in range(100_000):
                    CALLS.append(number)
                    yield number
            finally:
                ENDED.append("much")
        elif key == "end":
            yield 1
            yield 2
        elif key == "fail":
            yield 1
            await asyncio.sleep(1)
            raise KeyError("in the middle")
        elif key == "idle":
            try:
                await asyncio.Event().wait()
            finally:
                ENDED.append("idle")
        else:
            yield {"type": "put", "id": "a", "value": {"n": 1}}
            yield {"type": "message", "id": "b/c", "value": "text"}
            yield {"type": "delete", "id": "a"}
            yield {"type": "invalidate", "id": "a"}
            yield {"type": "put", "id": ["b", 5], "value": 5}
            yield {"type": "note", "id": "a", "value": 1}
            yield b"\\x00\\xff"
            yield {"contentType": "text/plain", "data": "plain"}
            yield object()
            yield "last"


class Talk(Resource):
    def allow_read(self, user, target):
        return True

    async def connect(self, incoming=None, target=None):
        yield {"type": "message", "id": target.id, "value": incoming is None}


class Rooms(Resource):
    def allow_read(self, user, target):
        return True

    async def subscribe(self, target):
        yield {"type": "message", "id": target.id or "all", "value": target.city}


class Mute(Resource):
    def allow_read(self, user, target):
        return True

    def get(self, target):
        return {}


server.resources.set("Feed", Feed)
server.resources.set("Ticks", Ticks)
server.resources.set("Talk", Talk)
server.resources.set("rooms/:city/Items", Rooms)
server.resources.set("Mute", Mute)
'''
LASTS: dict[str, Any] = {"clean": False, "properties": {p.SESSION_EXPIRY: 1000}}
READER = "reader"


@pytest.fixture(scope="module")
def module_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    files = {
        "config.yaml": "rest: true\ngraphqlSchema: {files: '*.graphql'}\nresources: {files: resources.py}\n",
        "schema.graphql": SCHEMA,
        "resources.py": CODE,
    }
    with svc.testing.app(write_application(tmp_path_factory.mktemp("mqtt") / "things", files), mqtt_enabled=True) as app:
        app.operation("add_role", role=READER, permission={"data": {"tables": {}}})
        app.operation("add_user", username=READER, password="a-long-password", role=READER, active=True)
        yield app


@pytest.fixture
def app(module_app: Application) -> Iterator[Application]:
    code = module_app.module("resources")
    code.CALLS.clear()
    code.ENDED.clear()
    code.RULES["read"] = True
    for table in ("Sensor", "Open", "Slow", "Seen"):
        module_app.delete(f"/{table}/")
    code.CALLS.clear()
    yield module_app
    for each in list(module_app._instance.sockets):
        if isinstance(each.client, MqttClient):
            each.client.cancel()
    for record in list(broker_of(module_app).stored.each()):
        if record is not None:
            module_app.mqtt(record["id"], user=record["user"]).disconnect()
    module_app.clock.advance(3)
    module_app.logs.clear()


def said(messages: list[Any]) -> list[tuple[str, bytes]]:
    return [(each.topic, each.payload) for each in messages]


# --- subscriptions to resources of code ---------------------------------------------------------------------------------------------------


def test_events_of_code(app: Application) -> None:
    client = app.mqtt("a", user=READER)
    assert client.subscribe("Ticks/#", 1) == 1
    assert said(client.take()) == [
        ("Ticks/a", b'{"n":1}'),
        ("Ticks/b/c", b'"text"'),
        ("Ticks/a", b""),
        ("Ticks/b/5", b"5"),
        ("Ticks", b'{"type":"note","id":"a","value":1}'),
        ("Ticks", b"\x00\xff"),
        ("Ticks", b"plain"),
        ("Ticks", b""),
        ("Ticks", b'"last"'),
    ]
    client.ping()
    assert client.is_open and [each.qos for each in client] == []
    assert client.subscribe("Ticks/+", 0) == 0
    assert [each.topic for each in client.take()] == ["Ticks/a", "Ticks/a", *["Ticks"] * 5], "what the filter does not cover is left out"
    assert client.subscribe("Ticks/b/#", 2) == 2
    assert [(each.topic, each.qos) for each in client.take()] == [("Ticks/b/c", 2), ("Ticks/b/5", 2), *[("Ticks/b", 2)] * 5]
    assert client.subscribe("Ticks/+/c") == 0
    assert [each.topic for each in client.take()] == ["Ticks/b/c", *["Ticks"] * 5]


def test_what_code_is_called_with(app: Application) -> None:
    client = app.mqtt("a")
    for filter in ("Feed", "Feed/a", "Feed/a/b", "Feed/#", "Feed/+", "Feed/a/#", "Feed/a/+", "Feed/a/+/b", "Feed/+/b"):
        assert client.subscribe(filter) == 0
    assert app.module("resources").CALLS == [
        (None, False, True, None, None, None),
        ("a", False, False, None, None, None),
        ("a/b", False, False, None, None, None),
        (None, True, False, None, None, None),
        (None, True, False, None, None, True),
        ("a", False, False, None, True, None),
        ("a", False, False, None, None, True),
        (None, True, False, "a/", None, None),
        (None, True, False, None, None, None),
    ]


def test_addresses_with_parameters(app: Application) -> None:
    client = app.mqtt("a")
    assert client.subscribe("rooms/Oslo West/Items/5") == 0 and client.subscribe("rooms/Rome/Items/#") == 0
    assert client.take() == [("rooms/Oslo West/Items/5", "Oslo West"), ("rooms/Rome/Items/all", "Rome")]
    assert client.subscribe("rooms/#") == 0x8F


@pytest.mark.parametrize("version", [V3, V5])
@pytest.mark.parametrize(
    ("filter", "code"),
    [
        ("Feed/missing", 0x8F),
        ("Feed/bad", 0x8F),
        ("Feed/answer", 0x8F),
        ("Feed/mine", 0x87),
        ("Ticks/refused", 0x87),
        ("Feed/broken", 0x80),
        ("Feed/defect", 0x80),
        ("Mute", 0x8F),
        ("Mute/#", 0x8F),
        ("$share/g/Feed/a", 0x8F),
        ("$share/g/Open/#", 0x8F),
        ("$share/g/Seen/#", 0x8F),
    ],
)
def test_what_code_refuses(app: Application, filter: str, code: int, version: int) -> None:
    client = app.mqtt("a", version=version)
    assert client.subscribe(filter, 1) == (code if version == V5 else 0x80)
    assert client.unsubscribe(filter) == (0x11 if version == V5 else 0)
    client.ping()
    assert any("ZeroDivisionError" in each.text for each in app.logs) == (filter == "Feed/defect")


def test_rights_are_those_of_the_code(app: Application) -> None:
    app.put("/Open/1", {"value": 1})
    app.put("/Slow/1", {"value": 1})
    code = app.module("resources")
    options: dict[str, Any] = {"user": READER, **LASTS}
    client = app.mqtt("a", **options)
    filters = ("Open/#", "Slow/#", "Ticks/idle", "Feed/a")
    for each in filters:
        assert client.subscribe(each, 1) == 1
    assert client.subscribe("Sensor/#", 1) == 0x87 == client.subscribe("Seen/#")
    assert [each.topic for each in client.take()] == ["Open/1", "Slow/1"], "the role does not let it read"
    app.put("/Open/0", {"value": 1})
    app.put("/Slow/0", {"value": 1})
    assert len(client.take()) == 2
    code.RULES["read"] = False
    app.operation("alter_role", id=READER, role=READER, permission={"data": {"tables": {"Seen": RIGHTS}}})
    app.clock.advance(2)
    assert code.ENDED[-1] == "idle" and code.ENDED[0].ended
    app.put("/Open/2", {"value": 2})
    app.put("/Slow/2", {"value": 2})
    for each in filters:
        assert client.subscribe(each, 1) == 0x87
    assert client.take() == []
    client.cancel()
    code.RULES["read"] = True
    app.put("/Open/3", {"value": 3})
    client = app.mqtt("a", **options)
    app.clock.advance(1)
    found = [each.topic for each in client.take()]
    assert {*found} == {"Open/2", "Open/3", "Slow/2"} and len(found) == 3, "they go on in the log where they were"
    app.operation("alter_role", id=READER, role=READER, permission={"data": {"tables": {}}})


RIGHTS = {"read": True, "insert": True, "update": True, "delete": True, "attribute_permissions": []}


@pytest.mark.parametrize("crashes", [True, False])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_table_with_an_awaited_rule_is_exact(app: Application, qos: int, crashes: bool) -> None:
    """What was under way is sent again, once the code has let the client go on."""
    client = app.mqtt("a", acknowledges=False, **LASTS)
    assert client.subscribe("Slow/#", qos) == qos
    client.clear()
    app.put("/Slow/x", {"value": 1})
    app.put("/Slow/y", {"value": 2})
    assert [each.topic for each in client] == ["Slow/x", "Slow/y"]
    client.acknowledge(client[0])
    app.clock.advance(2)
    crash(app) if crashes else client.cancel()
    client = app.mqtt("a", acknowledges=False, **LASTS)
    again = [each for each in client.packets if type(each) is Publish]
    assert [(each.topic, each.dup) for each in again] == [("Slow/y", True)]


def test_a_table_with_its_own_subscribe(app: Application) -> None:
    code = app.module("resources")
    app.put("/Seen/a", {"value": 1})
    client, writer = app.mqtt("a", **LASTS), app.mqtt("w")
    code.CALLS.clear()
    assert client.subscribe("Seen/+", 1) == 1 and client.subscribe("Seen/a/#", 0, retain_handling=2) == 0
    assert code.CALLS == [("subscribe", None, True, None, True, None), ("subscribe", "a", False, True, None, True)]
    assert [(each.topic, each.json["value"], each.retain) for each in client.take()] == [("Seen/a", 7, True)]
    code.CALLS.clear()
    assert writer.publish("Seen/b", {"value": 2}, 1, retain=True) == 0
    assert writer.publish("Seen/b", {"value": 3}, 2) == 0
    assert writer.publish("Seen/b", b"", 1, retain=True) == 0
    assert [each[:2] for each in code.CALLS] == [("put", "b"), ("publish", "b"), ("delete", "b")]
    found = client.take()
    assert [each.qos for each in found] == [1, 1, 1] and found.pop().payload == b""
    assert found == [("Seen/b", {"id": "b", "value": 7}), ("Seen/b", {"value": 3, "published": True})]
    client.cancel()
    app.put("/Seen/c", {"value": 1})
    code.CALLS.clear()
    client = app.mqtt("a", **LASTS)
    assert client.session_present and [each[0] for each in code.CALLS] == ["subscribe"] * 2
    assert [(each.topic, each.retain) for each in client.take()] == [("Seen/a", False), ("Seen/c", False)], "it is called anew"
    app.delete("/Seen/")


def test_connect_of_code(app: Application) -> None:
    client = app.mqtt("a")
    assert client.subscribe("Talk/x", 2) == 2
    assert client.take() == [("Talk/x", True)]


def test_code_that_takes_long(app: Application) -> None:
    """The connection goes on; what concerns subscriptions keeps its order."""
    client, other = app.mqtt("a"), app.mqtt("b")
    client._send(Subscribe(1, [Subscription("Feed/slow", 1), Subscription("Sensor/x", 1), Subscription("Feed/missing")]))
    client._send(Subscribe(2, [Subscription("Sensor/y", 1)]))
    client.ping()
    assert client.publish("Sensor/z", {"temperature": 1}, 1) == 0 == client.publish("Sensor/z", {"temperature": 1}, 2)
    assert other.subscribe("Sensor/z") == 0
    assert not [each for each in client.packets if type(each) is Suback]
    app.clock.advance(3)
    assert [each.reasons for each in client.packets if type(each) is Suback] == [[1, 1, 0x8F], [1]]
    app.module("resources").ENDED[-1].send({"type": "message", "id": "slow", "value": 1})
    app.put("/Sensor/y", {"temperature": 2})
    assert sorted(each.topic for each in client.take()) == ["Feed/slow", "Sensor/y"]


def test_many_packets_behind_code_that_takes_long(app: Application) -> None:
    client = app.mqtt("a")
    client._send(Subscribe(1, [Subscription("Feed/slow")]))
    for number in range(2, 300):
        client._send(Subscribe(number, [Subscription(f"Sensor/{number % 5}", number % 2)]))
    app.clock.advance(3)
    found = [(each.packet_id, each.reasons) for each in client.packets if type(each) is Suback]
    assert found == [(1, [0]), *((number, [number % 2]) for number in range(2, 300))]
    client.ping()


def test_clients_that_go_while_code_is_asked(app: Application) -> None:
    for way in ("cancel", "disconnect", "again"):
        client = app.mqtt("a", **LASTS)
        client._send(Subscribe(1, [Subscription("Feed/never", 1), Subscription("Ticks/idle", 1)]))
        app.clock.advance(1)
        if way == "again":
            app.mqtt("a", **LASTS)
        else:
            getattr(client, way)()
        app.clock.advance(3)
        assert app.module("resources").ENDED == ["idle"], way
        app.module("resources").ENDED.clear()


def test_code_that_never_answers(app: Application) -> None:
    client = app.mqtt("a")
    client._send(Subscribe(1, [Subscription("Feed/never")]))
    app.clock.advance(125)
    assert [each.reasons for each in client.packets if type(each) is Suback] == [[0x80]]
    client.ping()


@pytest.mark.parametrize("qos", [0, 1])
def test_very_many_events_at_once(app: Application, qos: int) -> None:
    """An iterator waits for its client; a subscription that is sent more than can wait ends, and is begun anew."""
    code = app.module("resources")
    client = app.mqtt("a", acknowledges=False, properties={p.RECEIVE_MAXIMUM: 10})
    link: Any = broker_of(app).sessions["a"].link
    if not qos:
        type(link._tunnel).pending = property(lambda tunnel: 10**6 if tunnel is link._tunnel else tunnel._pending)
    try:
        assert client.subscribe("Ticks/much", qos) == qos
        assert len(client) == (10 if qos else 0) and len(code.CALLS) <= 200
        other = app.mqtt("b")
        other.subscribe("Sensor/#")
        app.put("/Sensor/1", {"temperature": 1})
        assert len(other) == 1
    finally:
        type(link._tunnel).pending = property(lambda tunnel: tunnel._pending)
    link.on_sent()
    app.settle()
    if qos:
        for number in range(100):
            client.acknowledge(client[number])
        assert [each.json for each in client[:100]] == list(range(100))
        client.disconnect()
        app.clock.advance(1)
        assert code.ENDED == ["much"] and len(code.CALLS) < 400
    else:
        for _ in range(200):
            app.settle()
        assert [each.json for each in client] == list(range(100_000))


def test_a_queue_that_is_too_long_is_begun_anew(app: Application) -> None:
    code = app.module("resources")
    client = app.mqtt("a")
    assert client.subscribe("Feed/much", 1) == 1
    assert client.take() == [] and len(code.ENDED) == 1
    app.clock.advance(25)
    assert len(code.ENDED) == 3, "every ten seconds"
    assert client.subscribe("Feed/a", 1) == 1
    code.ENDED[-1].send("x")
    app.settle()
    assert client.take() == [("Feed/a", "x")]


def test_code_that_ends_or_fails(app: Application) -> None:
    client = app.mqtt("a", **LASTS)
    assert client.subscribe("Ticks/end", 1) == 1 == client.subscribe("Ticks/fail", 1)
    assert client.take() == [("Ticks/end", 1), ("Ticks/end", 2), ("Ticks/fail", 1)]
    app.clock.advance(5)
    client.ping()
    assert client.take() == [] and any("in the middle" in each.text for each in app.logs)
    client.cancel()
    client = app.mqtt("a", **LASTS)
    app.clock.advance(0.5)
    assert sorted(said(client.take())) == [("Ticks/end", b"1"), ("Ticks/end", b"2"), ("Ticks/fail", b"1")]


@pytest.mark.parametrize("qos", [1, 2])
def test_items_are_under_way_with_the_connection(app: Application, qos: int) -> None:
    client = app.mqtt("a", acknowledges=False, **LASTS)
    assert client.subscribe("Ticks/end", qos) == qos
    assert [each.json for each in client] == [1, 2]
    client.acknowledge(client[0])
    crash(app)
    client = app.mqtt("a", **LASTS)
    app.clock.advance(0.5)
    assert [each.json for each in client if not each.dup] == [1, 2]
    client.ping()
    calls = len(app.module("resources").CALLS)
    assert client.subscribe("Feed/a", qos) == qos and client.unsubscribe("Feed/a") == 0 == client.unsubscribe("Ticks/end")
    client.cancel()
    app.mqtt("a", **LASTS).disconnect(properties={p.SESSION_EXPIRY: 0})
    assert len(app.module("resources").CALLS) == calls + 1, "what has ended is not begun anew"
