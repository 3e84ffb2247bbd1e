"""The server's side of a connection: order of packets, aliases, what each version is told; and identifiers of exchanges."""

from __future__ import annotations

import pytest

from svc.protocol import mqtt_properties as p
from svc.protocol.mqtt import PacketReader, encode
from svc.protocol.mqtt_connection import ALIASES, MqttConnection
from svc.protocol.mqtt_exchanges import IDS, ReceivedExchanges, SentExchanges
from svc.protocol.mqtt_packets import V3, V5, Ack, Connack, Connect, Disconnect, Packet, Ping, Publish, Suback
from svc.protocol.mqtt_properties import Properties
from svc.protocol.mqtt_states import CONNECTION, RECEIVED, SENT, Action, ConnectionInput, ConnectionState, Input, Received, Sent
from svc.protocol.mqtt_values import (
    ALIAS_INVALID,
    BAD_CREDENTIALS,
    MALFORMED,
    NOT_AUTHORIZED,
    PROTOCOL_ERROR,
    TAKEN_OVER,
    UNSUPPORTED_VERSION,
    PacketError,
)


def opened(version: int = V5, properties: Properties | None = None) -> MqttConnection:
    connection = MqttConnection()
    connection.receive_data(encode(Connect(version, "c", True, 10, properties=properties or {}), version))
    assert isinstance(connection.next_packet(), Connect)
    connection.accept()
    connection.data_to_send()
    return connection


def received(connection: MqttConnection, *packets: Packet) -> list[Packet]:
    connection.receive_data(b"".join(encode(packet, connection.version) for packet in packets))
    found = []
    while (packet := connection.next_packet()) is not None:
        found.append(packet)
    return found


def said(connection: MqttConnection, version: int | None = None) -> list[Packet]:
    reader = PacketReader(version=version or connection.version)
    reader.feed(connection.data_to_send())
    found = []
    while (packet := reader.next_packet()) is not None:
        found.append(packet)
    assert reader.is_between
    return found


@pytest.mark.parametrize("version", [V3, V5])
def test_what_follows_connect_waits_for_the_answer(version: int) -> None:
    connection = MqttConnection()
    connection.receive_data(encode(Connect(version, "c", False, 20), version) + encode(Ping(), version))
    connect = connection.next_packet()
    assert isinstance(connect, Connect) and connection.state is ConnectionState.DECIDING
    assert (connection.version, connection.keep_alive) == (version, 20)
    connection.receive_data(encode(Ping(), version))
    assert connection.next_packet() is None
    connection.accept(session_present=True, properties={p.RECEIVE_MAXIMUM: 10})
    assert said(connection) == [Connack(True, 0, {p.RECEIVE_MAXIMUM: 10} if version == V5 else {})]
    assert [connection.next_packet(), connection.next_packet(), connection.next_packet()] == [Ping(), Ping(), None]
    connection.pong()
    assert said(connection) == [Ping(True)]


def test_more_before_connect_is_answered_is_kept_in_order() -> None:
    connection = MqttConnection()
    connection.receive_data(encode(Connect(V3, "c"), V3))
    connection.next_packet()
    data = b"".join(encode(Publish("a", str(number).encode()), V3) for number in range(3))
    for at in range(len(data)):
        connection.receive_data(data[at : at + 1])
    connection.accept()
    found = [connection.next_packet() for _ in range(4)]
    assert found == [*(Publish("a", str(number).encode()) for number in range(3)), None]


@pytest.mark.parametrize(
    ("version", "reason", "code"),
    [(V3, BAD_CREDENTIALS, 4), (V3, NOT_AUTHORIZED, 5), (V3, 0x88, 3), (V3, 0x85, 2), (V3, 0x8C, 3), (V5, BAD_CREDENTIALS, 0x86)],
)
def test_refusals(version: int, reason: int, code: int) -> None:
    connection = MqttConnection()
    connection.receive_data(encode(Connect(version, "c"), version))
    connection.next_packet()
    connection.refuse(reason, "no")
    assert said(connection) == [Connack(False, code, {p.REASON_STRING: "no"} if version == V5 else {})]
    assert connection.state is ConnectionState.CLOSED and connection.next_packet() is None


def test_a_wrong_first_packet() -> None:
    for data, answer in (
        (b"\x10\x0d\0\4MQTT\6\2\0\0\0\0\1a", [Connack(False, 1)]),  # of 3.1.1, which each version understands
        (encode(Ping(), V3), []),
        (b"GET / HTTP/1.1\r\n\r\n", []),
    ):
        connection = MqttConnection()
        connection.receive_data(data)
        with pytest.raises(PacketError) as caught:
            connection.next_packet()
        connection.fail(caught.value)
        assert said(connection, V3) == answer and connection.state is ConnectionState.CLOSED
        assert caught.value.reason in (UNSUPPORTED_VERSION, PROTOCOL_ERROR, MALFORMED)


@pytest.mark.parametrize("version", [V3, V5])
@pytest.mark.parametrize("packet", [Connect(V5, "c"), Connack(False, 0), Suback(1, [0]), Ping(True)], ids=lambda each: type(each).__name__)
def test_what_a_client_may_not_send(version: int, packet: Packet) -> None:
    connection = opened(version)
    with pytest.raises(PacketError) as caught:
        received(connection, packet)
    assert caught.value.reason == PROTOCOL_ERROR
    connection.fail(caught.value)
    answers = said(connection)
    assert [each.reason for each in answers if isinstance(each, Disconnect)] == ([PROTOCOL_ERROR] if version == V5 else [])
    assert connection.state is ConnectionState.CLOSED


def test_aliases_of_the_client() -> None:
    connection = opened()
    alias = {p.TOPIC_ALIAS: ALIASES}
    found = received(
        connection, Publish("a/b", b"1", properties=alias), Publish("", b"2", properties=alias), Publish("c", b"3", properties=alias)
    )
    assert [each.topic for each in found if isinstance(each, Publish)] == ["a/b", "a/b", "c"]
    assert [each.topic for each in received(connection, Publish("", b"4", properties=alias)) if isinstance(each, Publish)] == ["c"]
    for wrong, reason in (({p.TOPIC_ALIAS: 1}, PROTOCOL_ERROR), ({p.TOPIC_ALIAS: ALIASES + 1}, ALIAS_INVALID)):
        with pytest.raises(PacketError) as caught:
            received(opened(), Publish("", b"", properties=wrong))
        assert caught.value.reason == reason
    with pytest.raises(PacketError):
        received(opened(), Publish("a", b"", properties={p.SUBSCRIPTION_ID: [1]}))


def test_aliases_of_ours() -> None:
    assert opened().alias_of("a") == (0, True)  # the client takes none
    connection = opened(properties={p.TOPIC_ALIAS_MAXIMUM: 2})
    assert [connection.alias_of(topic) for topic in ("a", "b", "c", "a", "b")] == [(1, True), (2, True), (0, True), (1, False), (2, False)]
    assert opened(properties={p.TOPIC_ALIAS_MAXIMUM: 65535}).alias_maximum == ALIASES


def test_reason_strings() -> None:
    answer = Ack(p.PUBACK, 1, 0x87, {p.REASON_STRING: "you may not", p.USER_PROPERTY: [("a", "b")]})
    connection = opened()
    connection.send(Ack(p.PUBACK, 1, 0x87, answer.properties))
    assert said(connection) == [answer]
    for given in ({p.REQUEST_PROBLEM_INFORMATION: 0}, {p.MAXIMUM_PACKET_SIZE: 20}):
        connection = opened(properties=given)
        connection.send(Ack(p.PUBACK, 1, 0x87, answer.properties))
        assert said(connection) == [Ack(p.PUBACK, 1, 0x87, {p.USER_PROPERTY: [("a", "b")]})]


@pytest.mark.parametrize("version", [V3, V5])
def test_the_end(version: int) -> None:
    connection = opened(version)
    connection.disconnect(TAKEN_OVER, "another connection has this client id")
    expected = [Disconnect(TAKEN_OVER, {p.REASON_STRING: "another connection has this client id"})]
    assert said(connection) == (expected if version == V5 else [])
    connection.receive_data(encode(Ping(), version))
    assert connection.next_packet() is None
    connection = opened(version)
    connection.pong()
    connection.closed()
    assert connection.data_to_send() == b"" and connection.state is ConnectionState.CLOSED


def test_what_a_client_takes() -> None:
    connection = opened(properties={p.RECEIVE_MAXIMUM: 5, p.MAXIMUM_PACKET_SIZE: 1000})
    assert (connection.receive_maximum, connection.largest_sent) == (5, 1000)
    assert (opened(V3).receive_maximum, opened(V3).largest_sent > 1 << 28) == (0xFFFF, True)


# --- exchanges ---------------------------------------------------------------------------------------------------------------------------


def test_identifiers_are_not_used_twice_at_once() -> None:
    sent = SentExchanges(window=IDS)
    assert [sent.begin(1) for _ in range(IDS)] == list(range(1, IDS + 1)) and not sent.has_room
    for packet_id in (7, 9):
        assert sent.on(packet_id, Input.PUBACK) is Action.FORGET
    assert [sent.begin(2), sent.begin(1)] == [7, 9]


def test_an_answer_that_does_not_fit_breaks_the_protocol() -> None:
    sent = SentExchanges()
    first, second = sent.begin(1), sent.begin(2)
    for packet_id, what in ((first, Input.PUBREC), (first, Input.PUBCOMP), (second, Input.PUBACK), (second, Input.PUBREC)):
        with pytest.raises(PacketError) as caught:
            sent.on(packet_id, what)
        assert caught.value.reason == PROTOCOL_ERROR
    assert sent.on(second, Input.COMMITTED) is Action.PUBLISH
    assert sent.on(second, Input.PUBREC_REFUSED) is Action.FORGET and len(sent) == 1
    # Of what is over, or never was: a client that repeats itself.
    assert [sent.on(50, what) for what in (Input.PUBACK, Input.PUBREC, Input.PUBCOMP)] == [Action.NOTHING, Action.NOT_FOUND, Action.NOTHING]
    received = ReceivedExchanges()
    assert received.on(5, Input.PUBREL) is Action.NOT_FOUND and len(received) == 0
    assert received.on(5, Input.PUBLISH) is Action.WRITE and 5 in received
    with pytest.raises(PacketError):
        received.on(5, Input.PUBREL)


def test_what_is_resumed_is_in_order() -> None:
    sent = SentExchanges()
    ids = [sent.begin(qos) for qos in (1, 2, 2, 1)]
    for packet_id in ids[1:3]:
        sent.on(packet_id, Input.COMMITTED)
    sent.on(ids[2], Input.PUBREC)
    sent.on(ids[2], Input.COMMITTED)
    again = [(1, Action.PUBLISH_AGAIN), (2, Action.PUBLISH_AGAIN), (3, Action.PUBREL), (4, Action.PUBLISH_AGAIN)]
    assert list(sent.resume()) == again
    later = SentExchanges()
    for packet_id, state in ((1, Sent.UNCONFIRMED), (2, Sent.SENT), (3, Sent.RELEASED), (4, Sent.UNCONFIRMED)):
        later.restore(packet_id, state)
    assert list(later.resume()) == again and later.begin(1) == 5


def test_the_tables_are_whole() -> None:
    """Each state can be reached and left; each action stands in the table of its direction."""
    reached = {after for _, after in RECEIVED.values()} | {after for _, after in SENT.values()} | {Sent.UNCONFIRMED, Sent.STORED}
    assert set(Received) | set(Sent) <= reached
    assert {state for state, _ in RECEIVED} == set(Received) and {state for state, _ in SENT} == set(Sent)
    assert set(CONNECTION) == set(ConnectionState)
    assert all(ConnectionInput.END in inputs for inputs in CONNECTION.values())
