"""Code of applications beside the broker: `server.mqtt`, resources that serve subscriptions themselves, the log of clients. In memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import svc.testing
from svc.protocol import mqtt_properties as p
from svc.protocol.mqtt_packets import V3, V5, Auth, Connect, Publish, Suback, Subscribe, Subscription
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
    with svc.testing.app(write_application(tmp_path_factory.mktemp("mqtt") / "things", files)) as app:
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
    module_app.server.mqtt.authorize_client = None
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


# --- server.mqtt -------------------------------------------------------------------------------------------------------------------------


class Told:
    """Listeners that note what they are called with."""

    def __init__(self, app: Application) -> None:
        self.events: list[tuple[Any, ...]] = []
        self._mqtt = app.server.mqtt
        self._added: list[tuple[str, Any]] = []
        for name in ("connection", "connected", "auth-failed", "disconnected", "error"):
            self.on(name, lambda *arguments, name=name: self.events.append((name, *arguments)))

    def on(self, name: str, callback: Any) -> Any:
        self._mqtt.events.on(name, callback)
        self._added.append((name, callback))
        return callback

    def take(self) -> list[tuple[Any, ...]]:
        found, self.events = self.events, []
        return found

    def names(self) -> list[str]:
        return [each[0] for each in self.take()]

    def end(self) -> None:
        for name, callback in self._added:
            self._mqtt.events.off(name, callback)


@pytest.fixture
def told(app: Application) -> Iterator[Told]:
    found = Told(app)
    yield found
    found.end()


def test_what_happens_to_a_client(app: Application, told: Told) -> None:
    client = app.mqtt("a", **LASTS)
    client.subscribe("Sensor/#", 1)
    (connection, socket), (connected, session, same) = told.take()
    assert (connection, connected) == ("connection", "connected") and same is socket
    assert (socket.ip, socket.secure, socket.subject) == ("192.0.2.1", False, None)
    assert (session.client_id, session.session_id, session.user.username, session.request) == ("a", "a", "admin", None)
    assert session.subscriptions == (("Sensor/#", 1),) and session.subscriptions[0].topic == "Sensor/#"
    sessions = app.server.mqtt.sessions
    assert session in sessions and list(sessions) == [session] and len(sessions) == 1 and sessions & {session} == {session}
    client.disconnect()
    assert told.take() == [("disconnected", session, socket)] and not sessions
    assert session.subscriptions == (("Sensor/#", 1),) and session.user.username == "admin", "as it was last"
    client = app.mqtt("a", **LASTS)
    (found,) = sessions
    assert found is not session and found.subscriptions == (("Sensor/#", 1),)
    app.mqtt("a", **LASTS)
    assert told.names() == ["connection", "connected", "connection", "disconnected", "connected"], "a takeover"
    assert len(sessions) == 1


def test_clients_over_websocket(app: Application, told: Told) -> None:
    from svc.protocol.mqtt import encode

    socket = app.connect("/any", headers={"Sec-WebSocket-Protocol": "mqtt"})
    socket.send(encode(Connect(V5, "ws"), V5))
    app.settle()
    (session,) = app.server.mqtt.sessions
    assert session.request.pathname == "/any" and session.client_id == "ws"
    session.socket.close()
    app.settle()
    assert told.names() == ["connection", "connected", "disconnected"]


def test_logins_that_fail(app: Application, told: Told) -> None:
    with pytest.raises(AssertionError, match="0x87"):
        app.mqtt("a", user=None)
    name, packet, socket, error = told.take()[1]
    assert (name, packet.client_id, error, socket.ip) == ("auth-failed", "a", None, "192.0.2.1")
    with pytest.raises(AssertionError, match="0x86"):
        MqttClient(app.instance, Connect(V5, "x", True, 0, "nobody", b"a secret"))
    name, packet, socket, error = told.take()[1]
    assert (name, packet.username, error.status_code) == ("auth-failed", "nobody", 401)
    assert packet.password == b"a secret" and "secret" not in repr(packet) and "nobody" in repr(packet)
    assert not app.server.mqtt.sessions


def test_errors_of_clients(app: Application, told: Told) -> None:
    client = app.mqtt("a")
    client.publish("Sensor/+", {})
    _, _, (name, error, _, packet, session), (ended, *_) = told.take()
    assert (name, error.reason, packet, session.client_id, ended) == ("error", 0x90, None, "a", "disconnected")
    client = app.mqtt("a")
    client._send(Publish("Sensor/a", b"{}", properties={p.SUBSCRIPTION_ID: [1]}))
    _, _, (name, error, _, packet, session), _ = told.take()
    assert (name, error.reason, session.client_id) == ("error", 0x82, "a")
    client = app.mqtt("a")
    client._send(Auth())
    _, _, (name, error, socket, packet, session), (_, _, again) = told.take()
    assert (name, error.reason, type(packet)) == ("error", 0x82, Auth) and socket is again


def test_listeners_that_misbehave(app: Application, told: Told) -> None:
    """They raise, never return, remove themselves, close the connection, or end the process: the client, and other listeners, do not notice."""
    events = app.server.mqtt.events
    calls: list[str] = []

    def removes_itself(session: Any) -> None:
        calls.append("removed")
        events.off("connected", removes_itself)

    async def fails_later() -> None:
        import asyncio

        await asyncio.sleep(1)
        raise ValueError("later")

    async def never() -> None:
        import asyncio

        try:
            await asyncio.Event().wait()
        finally:
            calls.append("ended")

    def exits(*arguments: Any) -> None:
        raise SystemExit(1)

    told.on("connected", lambda session, socket: 1 / 0)
    told.on("connected", exits)
    told.on("connected", fails_later)
    told.on("connected", never)
    told.on("connected", removes_itself)
    last = told.on("connected", lambda session: calls.append(session.client_id))
    app.mqtt("a").ping()
    app.mqtt("b").ping()
    assert calls == ["removed", "a", "b"]
    app.clock.advance(2)
    assert sum("division by zero" in each.text for each in app.logs) == 2 == sum("ValueError: later" in each.text for each in app.logs)
    app.clock.advance(125)
    assert calls[3:] == ["ended", "ended"] and any("has not ended within 120 s" in each.text for each in app.logs)
    events.off("connected", last).off("connected", last)
    told.on("connected", lambda session, socket: socket.close())
    client = app.mqtt("c")
    app.settle()
    assert (client.is_open, client.reason) == (False, 0x98)
    told.on("connection", lambda socket: socket.close())
    with pytest.raises(AssertionError):
        app.mqtt("d")


def test_unknown_events(app: Application) -> None:
    events = app.server.mqtt.events
    with pytest.raises(ValueError, match=r"no event 'connect'; it has connection, connected, auth-failed, disconnected, error"):
        events.on("connect", print)
    with pytest.raises(ValueError, match="no event"):
        events.off("auth_failed", print)
    with pytest.raises(TypeError, match="a function to call, not str"):
        events.on("connected", "x")
    with pytest.raises(TypeError, match="called with 2 arguments, and wants others"):
        events.on("connected", lambda a, b, c: None)
    with pytest.raises(TypeError, match="a function or None, not int"):
        app.server.mqtt.authorize_client = 5


class Banned(Exception):
    code = 0x8A


class OddCode(Exception):
    code = 0x01


@pytest.mark.parametrize(
    ("error", "v5", "v3", "is_logged"),
    [
        (Banned("not you"), "0x8a not you", "0x05", False),
        (OddCode("x"), "0x87", "0x05", True),
        (ValueError("x"), "0x87", "0x05", True),
        (svc.AccessViolation(None, "no entry"), "0x87 no entry", "0x05", False),
        (svc.ClientError("later", 429), "0x87 later", "0x05", False),
        (SystemExit(1), "0x87", "0x05", True),
    ],
)
@pytest.mark.parametrize("is_async", [True, False])
def test_who_may_connect(app: Application, told: Told, error: BaseException, v5: str, v3: str, is_logged: bool, is_async: bool) -> None:
    asked: list[tuple[Any, Any]] = []

    def decide(packet: Any, user: Any) -> None:
        asked.append((packet.client_id, user.username))
        if packet.client_id.startswith("bad"):
            raise error
        packet.client_id = "changed"

    async def decide_later(packet: Any, user: Any) -> None:
        decide(packet, user)

    app.server.mqtt.authorize_client = decide_later if is_async else decide
    app.mqtt("good").ping()
    assert [each.client_id for each in app.server.mqtt.sessions] == ["good"]
    told.take()
    with pytest.raises(AssertionError, match=f"{v5}$"):
        app.mqtt("bad")
    assert [each[0] for each in told.events] == ["connection", "auth-failed"] and isinstance(told.events[1][3], Exception)
    with pytest.raises(AssertionError, match=v3):
        app.mqtt("bad3", version=V3)
    assert asked == [("good", "admin"), ("bad", "admin"), ("bad3", "admin")]
    assert any("authorize_client failed" in each.text for each in app.logs) == is_logged
    with pytest.raises(AssertionError, match="0x86"):
        MqttClient(app.instance, Connect(V5, "bad", True, 0, "nobody", b"wrong"))
    assert len(asked) == 3, "who cannot log in is not asked about"


def test_a_decision_that_takes_long(app: Application) -> None:
    """Others go on; one that never comes refuses."""
    import asyncio

    gate = asyncio.Event()

    async def decide(packet: Any, user: Any) -> None:
        if packet.client_id == "waits":
            await gate.wait()
        if packet.client_id == "never":
            await asyncio.Event().wait()

    durable = app.mqtt("waits", **LASTS)
    app.server.mqtt.authorize_client = decide
    with pytest.raises(AssertionError, match="refused"):
        app.mqtt("never")
    durable.ping()
    found: list[Any] = []

    async def open_later() -> None:
        await asyncio.sleep(3)
        found.append(app.server.mqtt.sessions)
        gate.set()

    task = app.instance.loop.create_task(open_later())
    app.mqtt("waits", **LASTS).ping()
    assert task.done() and not durable.is_open and durable.reason == 0x8E
    app.mqtt("other").ping()


# --- versions of an application ----------------------------------------------------------------------------------------------------------

LISTENING = """
from svc import server

SEEN = []
server.mqtt.events.on("connected", lambda session: SEEN.append(session.client_id))


def decide(packet, user):
    SEEN.append(f"{packet.client_id}?")


server.mqtt.authorize_client = decide
"""


def test_listeners_go_with_their_application(tmp_path: Any) -> None:
    files = {"config.yaml": "resources: {files: resources.py}\n", "resources.py": LISTENING}
    directory = write_application(tmp_path / "things", files)
    with svc.testing.app(directory) as app:
        first, former = app.module("resources"), app.server
        app.mqtt("a")
        assert first.SEEN == ["a?", "a"]
        app.run(app.instance.server.reload())
        second = app.module("resources")
        assert second is not first and app.server is not former
        app.mqtt("b")
        assert (first.SEEN, second.SEEN) == (["a?", "a"], ["b?", "b"])
        with pytest.raises(RuntimeError, match="has been replaced"):
            former.mqtt.events.on("connected", print)
        with pytest.raises(RuntimeError, match="has been replaced"):
            former.mqtt.authorize_client = print
        (directory / "resources.py").write_text(f"{LISTENING}\n1 / 0\n")
        app.run(app.instance.server.reload())
        second.SEEN.clear()
        app.mqtt("c")
        assert second.SEEN in ([], ["c?", "c"]), "a version that fails is not told of anything"
        app.server.withdraw()
        second.SEEN.clear()
        app.mqtt("d")
        assert second.SEEN == []
