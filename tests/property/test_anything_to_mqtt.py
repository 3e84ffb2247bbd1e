"""Whatever a client of MQTT sends, in whatever pieces: no defect is logged, no other client is harmed, and nothing of it is left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import svc.testing
from svc.connection.tunnel import TunnelAcceptor
from svc.protocol import mqtt_properties as p
from svc.protocol.mqtt import encode
from svc.protocol.mqtt_packets import (
    V3,
    V5,
    Ack,
    Auth,
    Connect,
    Disconnect,
    Packet,
    Ping,
    Publish,
    Subscribe,
    Subscription,
    Unsubscribe,
    Will,
)
from svc.testing.application import Application
from svc.testing.wire import MemorySocket
from tests.unit.testing.conftest import write_application

SCHEMA = "type Sensor @table @export { id: ID @primaryKey temperature: Float }\ntype Number @table @export { id: Int @primaryKey }\n"

topics = st.sampled_from(("Sensor/1", "Sensor/a/b", "Sensor", "Number/1", "Number/x", "Nothing", "/", "Sensor//", "a" * 300))
filters = st.sampled_from(
    ("Sensor/#", "Sensor/+", "Sensor/+/b", "#", "Number/#", "Number/+/a", "Sensor/1", "$share/g/Sensor/#", "Nothing/#")
)
payloads = st.sampled_from((b"", b"{}", b'{"temperature":1}', b'{"temperature":"x"}', b"[1]", b"\xff", b"{" * 500, b"[" * 5000))
ids = st.integers(1, 4)
no_or = st.fixed_dictionaries(
    {},
    optional={
        p.CONTENT_TYPE: st.sampled_from(("application/json", "application/cbor", "text/csv", "x", "")),
        p.TOPIC_ALIAS: st.integers(1, 66),
        p.USER_PROPERTY: st.just([("a", "b")]),
    },
)


@st.composite
def messages(draw: st.DrawFn) -> Publish:
    qos = draw(st.integers(0, 2))
    topic = draw(topics | st.just(""))
    properties = draw(no_or)
    if not topic:
        properties = {**properties, p.TOPIC_ALIAS: draw(st.integers(1, 66))}
    return Publish(topic, draw(payloads), qos, draw(st.booleans()), False, draw(ids) if qos else 0, properties)


subscriptions = st.builds(Subscription, filters, st.integers(0, 2), st.just(False), st.booleans(), st.integers(0, 2))
packets = st.one_of(
    messages(),
    messages(),
    st.builds(Ack, st.sampled_from((p.PUBACK, p.PUBREC)), ids, st.sampled_from((0, 0x80))),
    st.builds(Ack, st.sampled_from((p.PUBREL, p.PUBCOMP)), ids),
    st.builds(Subscribe, ids, st.lists(subscriptions, min_size=1, max_size=3), st.just({}) | st.just({p.SUBSCRIPTION_ID: [3]})),
    st.builds(Unsubscribe, ids, st.lists(filters, min_size=1, max_size=2)),
    st.just(Ping()),
    st.builds(Disconnect, st.sampled_from((0, 4)), st.just({}) | st.just({p.SESSION_EXPIRY: 5})),
    st.just(Auth()),
)
wills = st.none() | st.builds(Will, topics, payloads, st.integers(0, 2), st.booleans(), st.just({}) | st.just({p.WILL_DELAY: 1}))
connects = st.builds(
    Connect,
    st.sampled_from((V3, V5)),
    st.sampled_from(("", "same", "other")),
    st.booleans(),
    st.sampled_from((0, 1, 60)),
    st.just("admin"),
    st.just(b""),
    wills,
    st.fixed_dictionaries(
        {},
        optional={
            p.SESSION_EXPIRY: st.sampled_from((0, 3, p.NEVER)),
            p.RECEIVE_MAXIMUM: st.integers(1, 3),
            p.MAXIMUM_PACKET_SIZE: st.sampled_from((20, 200)),
            p.TOPIC_ALIAS_MAXIMUM: st.integers(0, 3),
            p.USER_PROPERTY: st.sampled_from(([("accept", "application/cbor")], [("accept", "x")], [("accept", "text/csv")])),
        },
    ),
)


@pytest.fixture(scope="module", params=[{}, {"mqtt_freeTopics": "data.Topic"}], ids=["resources", "free topics"])
def app(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Application]:
    files = {"config.yaml": "rest: true\ngraphqlSchema: {files: '*.graphql'}\n", "schema.graphql": SCHEMA}
    with svc.testing.app(write_application(tmp_path_factory.mktemp("anything") / "things", files), **request.param) as app:
        app.mqtt("witness").subscribe("Sensor/#", 1)  # and the user of the tests is verified
        yield app


class _Client:
    def receive(self, data: bytes) -> None: ...

    def closed(self) -> None: ...


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(connects, st.lists(packets, max_size=8), st.binary(max_size=3)), min_size=1, max_size=3),
    st.integers(1, 50),
    st.data(),
)
def test_nothing_is_harmed(app: Application, clients: list[tuple[Connect, list[Packet], bytes]], size: int, data: st.DataObject) -> None:
    instance = app.instance
    broker = instance.server.interfaces.mqtt
    acceptor = TunnelAcceptor(instance.server.application_port.connections, instance.server.interfaces.mqtt_link)
    app.logs.clear()
    socks = []
    for connect, sent, rest in clients:
        raw = b"".join(encode(each, connect.version) for each in (connect, *sent)) + rest
        sock = MemorySocket(instance.loop)
        sock.client = _Client()
        instance.sockets.add(sock)
        socks.append(sock)
        acceptor.accept(sock, "192.0.2.7", "mqtt")  # type: ignore[arg-type]
        for at in range(0, len(raw), size * 10):
            instance.loop.deliver(sock, raw[at : at + size * 10])
        app.settle()
    witness = app.mqtt("asking")
    witness.ping()
    witness.disconnect()
    for sock in socks:
        instance.sockets.discard(sock)
        instance.loop.hang_up(sock)
    app.clock.advance(10)
    assert [entry.text for entry in app.logs if entry.level in ("error", "fatal")] == []
    for session in list(broker.sessions.values()):
        if session.client_id in ("same", "other") or session.client_id.startswith("auto-"):
            assert session.link is None
            app.mqtt(session.client_id).disconnect()
    assert set(broker.sessions) <= {"witness"}
