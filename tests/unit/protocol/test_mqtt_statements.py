"""What packets and a connection show of the statements of the two standards; docs/spec/mqtt-statements.md says which test shows which."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from svc.protocol import mqtt_properties as p
from svc.protocol.mqtt import PacketReader, encode
from svc.protocol.mqtt_connection import ALIASES, MqttConnection
from svc.protocol.mqtt_exchanges import ReceivedExchanges, SentExchanges
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
from svc.protocol.mqtt_states import Action, ConnectionState, Input
from svc.protocol.mqtt_topics import is_filter
from svc.protocol.mqtt_values import LARGEST, PacketError, read_variable, variable

MALFORMED, PROTOCOL_ERROR, TOPIC_INVALID, ALIAS_INVALID, TOO_LARGE = 0x81, 0x82, 0x90, 0x94, 0x95
BOTH = (V3, V5)


def text(raw: bytes | str) -> bytes:
    raw = raw.encode() if isinstance(raw, str) else raw
    return len(raw).to_bytes(2) + raw


def frame(first: int, body: bytes) -> bytes:
    return bytes((first,)) + variable(len(body)) + body


def no_properties(version: int) -> bytes:
    return b"\0" if version == V5 else b""


def connect(version: int, flags: int = 2, *, payload: bytes | None = None, properties: bytes | None = None, name: bytes = b"MQTT") -> bytes:
    """CONNECT as bytes; without `properties` it has none, if it is of version 5."""
    found = no_properties(version) if properties is None else variable(len(properties)) + properties
    return frame(0x10, text(name) + bytes((version, flags)) + b"\0\0" + found + (text("c") if payload is None else payload))


def read(data: bytes, version: int | None) -> list[Packet]:
    reader = PacketReader(version=version)
    reader.feed(data)
    found: list[Packet] = []
    while (packet := reader.next_packet()) is not None:
        found.append(packet)
    assert reader.is_between
    return found


def opened(version: int, properties: p.Properties | None = None) -> MqttConnection:
    connection = MqttConnection()
    connection.receive_data(encode(Connect(version, "c", properties=properties or {}), version))
    connection.next_packet()
    connection.accept()
    connection.data_to_send()
    return connection


def refusal(version: int, data: bytes) -> int:
    """The code for packets that a client may not send: of the error, and in version 5 of the DISCONNECT that is then the last packet."""
    connection = opened(version)
    connection.receive_data(data)
    with pytest.raises(PacketError) as caught:
        while connection.next_packet() is not None:
            pass
    connection.fail(caught.value)
    last = read(connection.data_to_send(), version)
    assert [type(each) for each in last] == ([Disconnect] if version == V5 else [])
    assert connection.state is ConnectionState.CLOSED
    if version == V5:
        assert isinstance(last[0], Disconnect)
        return last[0].reason
    return caught.value.reason


# --- fixed header ------------------------------------------------------------------------------------------------------------------------

BODIES: dict[int, Callable[[int], bytes]] = {
    p.PUBACK: lambda version: b"\0\1",
    p.PUBREC: lambda version: b"\0\1",
    p.PUBREL: lambda version: b"\0\1",
    p.PUBCOMP: lambda version: b"\0\1",
    p.SUBSCRIBE: lambda version: b"\0\1" + no_properties(version) + text("t") + b"\0",
    p.UNSUBSCRIBE: lambda version: b"\0\1" + no_properties(version) + text("t"),
    p.PINGREQ: lambda version: b"",
    p.DISCONNECT: lambda version: b"",
    p.AUTH: lambda version: b"",
}


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("kind", BODIES)
def test_reserved_flags_of_the_fixed_header(version: int, kind: int) -> None:
    right = 2 if kind in (p.PUBREL, p.SUBSCRIBE, p.UNSUBSCRIBE) else 0
    for flags in range(16):
        data = frame(kind << 4 | flags, BODIES[kind](version))
        if flags == right and not (kind == p.AUTH and version == V3):
            assert len(read(data, version)) == 1
        else:
            assert refusal(version, data) == MALFORMED


@pytest.mark.parametrize("version", BOTH)
def test_reserved_flags_of_connect(version: int) -> None:
    for flags in range(16):
        data = bytes((0x10 | flags,)) + connect(version)[1:]
        connection = MqttConnection()
        connection.receive_data(data)
        if not flags:
            assert isinstance(connection.next_packet(), Connect)
            continue
        with pytest.raises(PacketError) as caught:
            connection.next_packet()
        connection.fail(caught.value)
        assert connection.data_to_send() == b"" and connection.state is ConnectionState.CLOSED


def test_flags_of_what_the_server_sends() -> None:
    sent: list[Packet] = [
        Connack(True, 0),
        *(Ack(kind, 1) for kind in (p.PUBACK, p.PUBREC, p.PUBREL, p.PUBCOMP)),
        Suback(1, [0]),
        Unsuback(1, [0]),
        Ping(True),
    ]
    for version in BOTH:
        assert [encode(packet, version)[0] for packet in sent] == [0x20, 0x40, 0x50, 0x62, 0x70, 0x90, 0xB0, 0xD0]
        for present in (False, True):
            assert encode(Connack(present, 0), version)[2] == present
    assert encode(Disconnect(0x8E), V5)[0] == 0xE0


# --- values ------------------------------------------------------------------------------------------------------------------------------


def publish_with(prop: int, value: bytes) -> bytes:
    given = bytes((prop,)) + value
    return frame(0x30, text("t") + variable(len(given)) + given)


def with_reason(kind: int, value: bytes) -> bytes:
    given = b"\x1f" + value
    return frame(kind << 4 | (2 if kind == p.PUBREL else 0), b"\0\1\0" + variable(len(given)) + given)


# Each string of each packet of a client: (name, versions, whether it is in CONNECT, the packet with the bytes of the string)
STRINGS: list[tuple[str, tuple[int, ...], bool, Callable[[int, bytes], bytes]]] = [
    ("client id", BOTH, True, lambda version, raw: connect(version, payload=text(raw))),
    ("user name", BOTH, True, lambda version, raw: connect(version, 0x82, payload=text("c") + text(raw))),
    (
        "will topic",
        BOTH,
        True,
        lambda version, raw: connect(version, 0x06, payload=text("c") + no_properties(version) + text(raw) + text("")),
    ),
    ("authentication method", (V5,), True, lambda version, raw: connect(version, properties=b"\x15" + text(raw))),
    ("topic", BOTH, False, lambda version, raw: frame(0x30, text(raw) + no_properties(version))),
    ("filter", BOTH, False, lambda version, raw: frame(0x82, b"\0\1" + no_properties(version) + text(raw) + b"\0")),
    ("filter of UNSUBSCRIBE", BOTH, False, lambda version, raw: frame(0xA2, b"\0\1" + no_properties(version) + text(raw))),
    ("response topic", (V5,), False, lambda version, raw: publish_with(p.RESPONSE_TOPIC, text(raw))),
    ("content type", (V5,), False, lambda version, raw: publish_with(p.CONTENT_TYPE, text(raw))),
    ("name of a user property", (V5,), False, lambda version, raw: publish_with(p.USER_PROPERTY, text(raw) + text("v"))),
    ("value of a user property", (V5,), False, lambda version, raw: publish_with(p.USER_PROPERTY, text("n") + text(raw))),
    ("reason string", (V5,), False, lambda version, raw: with_reason(p.PUBACK, text(raw))),
]
ILL_FORMED = {
    "no UTF-8": b"a\xffb",
    "a surrogate": b"a\xed\xa0\x80b",
    "the last surrogate": b"\xed\xbf\xbf",
    "an overlong slash": b"a\xc0\xafb",
    "an overlong slash of three bytes": b"\xe0\x80\xaf",
    "an overlong U+0000": b"\xc0\x80",
    "beyond U+10FFFF": b"\xf4\x90\x80\x80",
    "cut short": b"a\xe2\x82",
}
_PLACES = [pytest.param(version, *each[2:], id=f"{each[0]}-{version}") for each in STRINGS for version in each[1]]


@pytest.mark.parametrize(("version", "is_connect", "make"), _PLACES)
@pytest.mark.parametrize("raw", [*ILL_FORMED.values(), b"a\0b"], ids=[*ILL_FORMED, "U+0000"])
def test_ill_formed_strings(version: int, is_connect: bool, make: Callable[[int, bytes], bytes], raw: bytes) -> None:
    with pytest.raises(PacketError) as caught:
        read(make(version, raw), None if is_connect else version)
    assert caught.value.reason == MALFORMED
    if not is_connect:
        assert refusal(version, make(version, raw)) == MALFORMED


@pytest.mark.parametrize(("version", "is_connect", "make"), _PLACES)
def test_the_byte_order_mark_is_a_character(version: int, is_connect: bool, make: Callable[[int, bytes], bytes]) -> None:
    for raw in (b"\xef\xbb\xbfa", b"a\xef\xbb\xbf", "ü€𪛔".encode()):
        data = make(version, raw)
        (found,) = read(data, None if is_connect else version)
        assert repr(raw.decode())[1:-1] in repr(found)
        assert encode(found, version) == data


def test_strings_have_at_most_65535_bytes() -> None:
    longest = "ä" * 32767 + "a"
    (found,) = read(encode(Publish(longest, b""), V5), V5)
    assert isinstance(found, Publish) and found.topic == longest
    for packet in (Publish(longest + "a", b""), Subscribe(1, [Subscription(longest + "a")]), Unsubscribe(1, [longest + "a"])):
        with pytest.raises(ValueError):
            encode(packet, V5)


def test_variable_byte_integers_have_the_fewest_bytes() -> None:
    ends = (0, 128, 16384, 2097152, LARGEST + 1)
    for size, (least, beyond) in enumerate(pairwise(ends), 1):
        for value in (least, beyond - 1):
            data = variable(value)
            assert len(data) == size and read_variable(data, 0, size) == (value, size)
            if size < 4:
                longer = data[:-1] + bytes((data[-1] | 0x80, 0))
                with pytest.raises(PacketError) as caught:
                    read_variable(longer, 0, size + 1)
                assert caught.value.reason == MALFORMED
    # Where they are: the length of a packet, the length of properties, a Subscription Identifier.
    for data in (b"\xc0\x80\0", frame(0x30, text("t") + b"\x80\0"), frame(0x82, b"\0\1\3\x0b\x81\0" + text("t") + b"\0")):
        assert refusal(V5, data) == MALFORMED
    assert refusal(V5, b"\x30\xff\xff\xff\xff\1") == MALFORMED, "five bytes"


# --- properties --------------------------------------------------------------------------------------------------------------------------

# The table of the standard (MQTT 5 §2.2.2.2): identifier -> (bytes of a value, packets of a client)
STANDARD: dict[int, tuple[bytes, set[int]]] = {
    1: (b"\1", {p.PUBLISH, p.WILL}),
    2: (b"\0\0\0\5", {p.PUBLISH, p.WILL}),
    3: (text("x"), {p.PUBLISH, p.WILL}),
    8: (text("x"), {p.PUBLISH, p.WILL}),
    9: (text(b"\xff"), {p.PUBLISH, p.WILL}),
    11: (b"\5", {p.SUBSCRIBE, p.PUBLISH}),
    17: (b"\0\0\0\5", {p.CONNECT, p.DISCONNECT}),
    18: (text("x"), set()),
    19: (b"\0\5", set()),
    21: (text("x"), {p.CONNECT, p.AUTH}),
    22: (text(b"\xff"), {p.CONNECT, p.AUTH}),
    23: (b"\1", {p.CONNECT}),
    24: (b"\0\0\0\5", {p.WILL}),
    25: (b"\1", {p.CONNECT}),
    26: (text("x"), set()),
    28: (text("x"), {p.DISCONNECT}),
    31: (text("x"), {p.PUBACK, p.PUBREC, p.PUBREL, p.PUBCOMP, p.DISCONNECT, p.AUTH}),
    33: (b"\0\5", {p.CONNECT}),
    34: (b"\0\5", {p.CONNECT}),
    35: (b"\0\5", {p.PUBLISH}),
    36: (b"\1", set()),
    37: (b"\1", set()),
    38: (text("n") + text("v"), set(range(1, 17)) - {p.PINGREQ}),
    39: (b"\0\0\0\5", {p.CONNECT}),
    40: (b"\1", set()),
    41: (b"\1", set()),
    42: (b"\1", set()),
}
CARRIERS: dict[int, Callable[[bytes], bytes]] = {
    p.CONNECT: lambda given: connect(V5, properties=given),
    p.WILL: lambda given: connect(V5, 0x06, payload=text("c") + variable(len(given)) + given + text("t") + text("")),
    p.PUBLISH: lambda given: frame(0x30, text("t") + variable(len(given)) + given),
    p.PUBACK: lambda given: frame(0x40, b"\0\1\0" + variable(len(given)) + given),
    p.PUBREC: lambda given: frame(0x50, b"\0\1\0" + variable(len(given)) + given),
    p.PUBREL: lambda given: frame(0x62, b"\0\1\0" + variable(len(given)) + given),
    p.PUBCOMP: lambda given: frame(0x70, b"\0\1\0" + variable(len(given)) + given),
    p.SUBSCRIBE: lambda given: frame(0x82, b"\0\1" + variable(len(given)) + given + text("t") + b"\0"),
    p.UNSUBSCRIBE: lambda given: frame(0xA2, b"\0\1" + variable(len(given)) + given + text("t")),
    p.DISCONNECT: lambda given: frame(0xE0, b"\0" + variable(len(given)) + given),
    p.AUTH: lambda given: frame(0xF0, b"\x18" + variable(len(given)) + given),
}


@pytest.mark.parametrize("kind", CARRIERS)
def test_which_property_may_be_in_which_packet(kind: int) -> None:
    version = None if kind in (p.CONNECT, p.WILL) else V5
    make = CARRIERS[kind]
    assert len(read(make(b""), version)) == 1
    for key in range(256):
        value, packets = STANDARD.get(key, (b"\1", set()))
        given = bytes((key,)) + value
        needs = b"\x15" + text("m") if key == p.AUTHENTICATION_DATA else b""  # a method
        if kind in packets:
            assert len(read(make(needs + given), version)) == 1, key
            twice = needs + given * 2
            if key == p.USER_PROPERTY or (key, kind) == (p.SUBSCRIPTION_ID, p.PUBLISH):
                assert len(read(make(twice), version)) == 1
                continue
            wrong, reason = twice, PROTOCOL_ERROR
        else:
            wrong, reason = given, MALFORMED
        with pytest.raises(PacketError) as caught:
            read(make(wrong), version)
        assert caught.value.reason == reason, key


def test_no_properties_are_a_length_of_zero() -> None:
    assert encode(Connack(False, 0), V5) == b"\x20\3\0\0\0"
    assert encode(Publish("t", b"x"), V5) == b"\x30\5\0\1t\0x"
    assert encode(Suback(1, [1]), V5) == b"\x90\4\0\1\0\1"
    assert encode(Unsuback(1, [0]), V5) == b"\xb0\4\0\1\0\0"
    assert encode(Ack(p.PUBACK, 1), V5) == b"\x40\2\0\1", "and may be left out where the code may"
    for data in (b"\x30\3\0\1t", b"\x82\2\0\1", b"\xa2\2\0\1"):
        assert refusal(V5, data) == MALFORMED
    with pytest.raises(PacketError):
        read(frame(0x10, text("MQTT") + b"\5\2\0\0"), None)
    with pytest.raises(PacketError):
        read(frame(0x10, text("MQTT") + b"\5\2\0\0" + text("c")), None)


# --- CONNECT -----------------------------------------------------------------------------------------------------------------------------


def parts_of(version: int, flags: int) -> list[bytes]:
    """The fields of the payload that these flags announce, in their order."""
    parts = [text("client")]
    if flags & 0x04:
        parts += [no_properties(version) + text("will"), text("payload")]
    if flags & 0x80:
        parts.append(text("user"))
    if flags & 0x40:
        parts.append(text(b"pass\xff"))
    return parts


def is_allowed(version: int, flags: int) -> bool:
    will, qos, retain = flags & 0x04, flags >> 3 & 3, flags & 0x20
    return not (flags & 1 or qos == 3 or (not will and (qos or retain)) or (version == V3 and flags & 0x40 and not flags & 0x80))


@pytest.mark.parametrize("version", BOTH)
def test_all_flags_of_connect(version: int) -> None:
    for flags in range(256):
        parts = parts_of(version, flags)
        data = connect(version, flags, payload=b"".join(parts))
        if not is_allowed(version, flags):
            with pytest.raises(PacketError) as caught:
                read(data, None)
            assert caught.value.reason == MALFORMED
            continue
        will = Will("will", b"payload", flags >> 3 & 3, flags & 0x20 != 0) if flags & 0x04 else None
        user = "user" if flags & 0x80 else None
        expected = Connect(version, "client", flags & 2 != 0, 0, user, b"pass\xff" if flags & 0x40 else None, will)
        assert read(data, None) == [expected]
        for wrong in (parts[:-1], [*parts, text("more")]):  # a field that is missing, and one that is not announced
            with pytest.raises(PacketError) as caught:
                read(connect(version, flags, payload=b"".join(wrong)), None)
            assert caught.value.reason == MALFORMED


@pytest.mark.parametrize("version", BOTH)
def test_a_connect_that_does_not_conform_is_not_answered(version: int) -> None:
    good = connect(version)
    wrongs = [
        connect(version, 3),
        connect(version, name=b"MQTX"),
        connect(version, name=b"mqtt"),
        connect(version, payload=b""),
        frame(0x10, good[2:] + b"x"),
        connect(version, 0x06, payload=text("c") + no_properties(version) + text("a/#") + text("")),
    ]
    for data in wrongs:
        connection = MqttConnection()
        connection.receive_data(data + encode(Ping(), version))
        with pytest.raises(PacketError) as caught:
            connection.next_packet()
        connection.fail(caught.value)
        assert connection.data_to_send() == b"" and connection.state is ConnectionState.CLOSED
        assert connection.next_packet() is None


@pytest.mark.parametrize("level", [0, 3, 6, 0x84, 255])
def test_other_protocol_levels(level: int) -> None:
    connection = MqttConnection()
    connection.receive_data(connect(level, payload=b""))
    with pytest.raises(PacketError) as caught:
        connection.next_packet()
    connection.fail(caught.value)
    assert connection.data_to_send() == b"\x20\2\0\1" and connection.state is ConnectionState.CLOSED


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("kind", [*BODIES, p.PUBLISH])
def test_the_first_packet_is_connect(version: int, kind: int) -> None:
    body = BODIES.get(kind, lambda version: text("t") + no_properties(version))(version)
    data = frame(kind << 4 | (2 if kind in (p.PUBREL, p.SUBSCRIBE, p.UNSUBSCRIBE) else 0), body)
    connection = MqttConnection()
    connection.receive_data(data)
    with pytest.raises(PacketError):
        connection.next_packet()
    connection.fail(PacketError(PROTOCOL_ERROR, "no"))
    assert connection.data_to_send() == b"" and connection.state is ConnectionState.CLOSED


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("second", [V3, V5, 6])
def test_a_second_connect(version: int, second: int) -> None:
    if version == V5:
        assert refusal(version, connect(second)) == PROTOCOL_ERROR
    connection = opened(version)
    connection.receive_data(connect(second) + encode(Ping(), version))
    with pytest.raises(PacketError):
        connection.next_packet()


# --- PUBLISH -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", BOTH)
def test_flags_of_publish(version: int) -> None:
    for flags in range(16):
        qos, dup = flags >> 1 & 3, flags >> 3
        data = frame(0x30 | flags, text("t") + (b"\0\7" if qos else b"") + no_properties(version) + b"x")
        if qos == 3 or (dup and not qos):
            assert refusal(version, data) == MALFORMED
        else:
            assert read(data, version) == [Publish("t", b"x", qos, flags & 1 != 0, dup != 0, 7 if qos else 0)]
            assert encode(read(data, version)[0], version) == data


@pytest.mark.parametrize("version", BOTH)
def test_packet_identifiers(version: int) -> None:
    """None at QoS 0, never 0 elsewhere; in the answer it is that of the packet."""
    assert encode(Publish("t", b"x", 0, packet_id=7), version) == frame(0x30, text("t") + no_properties(version) + b"x")
    tail = no_properties(version)
    for first, rest in ((0x32, tail), (0x34, tail), (0x82, tail + text("t") + b"\0"), (0xA2, tail + text("t"))):
        for packet_id in (0, 1, 65535):
            data = frame(first, (text("t") if first < 0x40 else b"") + packet_id.to_bytes(2) + rest)
            if packet_id:
                (found,) = read(data, version)
                assert isinstance(found, Publish | Subscribe | Unsubscribe) and found.packet_id == packet_id
            else:
                assert refusal(version, data) == PROTOCOL_ERROR
    for kind in (p.PUBACK, p.PUBREC, p.PUBREL, p.PUBCOMP):
        assert read(encode(Ack(kind, 300), version), version) == [Ack(kind, 300)]
    assert encode(Suback(300, [0]), version)[2:4] == encode(Unsuback(300, [0]), version)[2:4] == b"\1\x2c"


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("topic", ["+", "#", "a/+", "a/#", "a+", "#a", "a/+/b"])
def test_topics_have_no_wildcards(version: int, topic: str) -> None:
    assert refusal(version, frame(0x30, text(topic) + no_properties(version))) == TOPIC_INVALID
    with pytest.raises(PacketError):
        read(connect(version, 0x06, payload=text("c") + no_properties(version) + text(topic) + text("")), None)
    if version == V5:
        assert refusal(V5, publish_with(p.RESPONSE_TOPIC, text(topic))) == PROTOCOL_ERROR


@pytest.mark.parametrize("version", BOTH)
def test_topics_and_filters_have_a_character(version: int) -> None:
    none = no_properties(version)
    for data in (frame(0x30, text("") + none), frame(0x82, b"\0\1" + none + text("") + b"\0"), frame(0xA2, b"\0\1" + none + text(""))):
        assert refusal(version, data) in (MALFORMED, PROTOCOL_ERROR)
    for short in (frame(0x30, text("/") + none), frame(0x82, b"\0\1" + none + text("/") + b"\0")):
        assert len(read(short, version)) == 1


def test_topic_aliases_of_a_client() -> None:
    def publish(topic: str, alias: int) -> bytes:
        return encode(Publish(topic, b"", properties={p.TOPIC_ALIAS: alias}), V5)

    connection = opened(V5)
    for alias in range(1, ALIASES + 1):
        connection.receive_data(publish(f"t/{alias}", alias))
        connection.next_packet()
    for alias in range(1, ALIASES + 1):
        connection.receive_data(publish("", alias))
        found = connection.next_packet()
        assert isinstance(found, Publish) and found.topic == f"t/{alias}"
    assert refusal(V5, publish("t", 0)) == refusal(V5, publish("t", ALIASES + 1)) == ALIAS_INVALID
    assert refusal(V5, publish("", 1)) == PROTOCOL_ERROR, "of another connection, or of none"


def test_a_client_sends_no_subscription_identifier_with_a_message() -> None:
    assert refusal(V5, publish_with(p.SUBSCRIPTION_ID, b"\1")) == PROTOCOL_ERROR


def test_topic_aliases_of_ours() -> None:
    assert [opened(V5, given).alias_of("t")[0] for given in ({}, {p.TOPIC_ALIAS_MAXIMUM: 0})] == [0, 0]
    assert opened(V3).alias_of("t")[0] == 0
    connection = opened(V5, {p.TOPIC_ALIAS_MAXIMUM: 3})
    given = [connection.alias_of(f"t/{number}")[0] for number in range(10)]
    assert given == [1, 2, 3, 0, 0, 0, 0, 0, 0, 0], "none is 0 in a packet, none is greater"
    # A message that was not sent after all has told the client nothing.
    connection = opened(V5, {p.TOPIC_ALIAS_MAXIMUM: 1})
    assert connection.alias_of("a") == (1, True)
    connection.forget_alias("a")
    assert connection.alias_of("b") == (1, True) and connection.alias_of("a") == (0, True)


# --- SUBSCRIBE, UNSUBSCRIBE --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", BOTH)
def test_options_of_subscribe(version: int) -> None:
    for options in range(256):
        data = frame(0x82, b"\0\1" + no_properties(version) + text("t") + bytes((options,)))
        qos, handling = options & 3, options >> 4 & 3
        if options & (0xC0 if version == V5 else 0xFC):
            assert refusal(version, data) == MALFORMED
        elif qos == 3 or handling == 3:
            assert refusal(version, data) == PROTOCOL_ERROR
        else:
            expected = Subscription("t", qos, options & 4 != 0, options & 8 != 0, handling)
            assert read(data, version) == [Subscribe(1, [expected])]


@pytest.mark.parametrize("version", BOTH)
def test_at_least_one_filter(version: int) -> None:
    for first in (0x82, 0xA2):
        assert refusal(version, frame(first, b"\0\1" + no_properties(version))) == PROTOCOL_ERROR


def test_no_local_on_a_shared_subscription() -> None:
    for topic, options in (("$share/g/t", 4), ("$share/g/t", 5)):
        assert refusal(V5, frame(0x82, b"\0\1\0" + text(topic) + bytes((options,)))) == PROTOCOL_ERROR
    assert len(read(frame(0x82, b"\0\1\0" + text("$share/g/t") + b"\1"), V5)) == 1


@pytest.mark.parametrize(
    ("filter", "is_well_formed"),
    [
        ("#", True),
        ("a/#", True),
        ("/#", True),
        ("a#", False),
        ("a/#/b", False),
        ("#/a", False),
        ("a/b#", False),
        ("+", True),
        ("+/a", True),
        ("a/+", True),
        ("a/+/b", True),
        ("+/+/#", True),
        ("/+", True),
        ("a+", False),
        ("+a", False),
        ("a/+b/c", False),
        ("++", False),
        ("+#", False),
        ("", False),
    ],
)
def test_wildcards_are_whole_levels(filter: str, is_well_formed: bool) -> None:
    assert is_filter(filter) == is_well_formed


# --- answers, and the end ----------------------------------------------------------------------------------------------------------------

# The codes of version 5 (MQTT 5, tables of §3.2.2.2, §3.4.2.1, §3.5.2.1, §3.6.2.1, §3.7.2.1, §3.9.3, §3.11.3, §3.14.2.1, §3.15.2.1)
_PUBACK = {0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}
CODES: dict[int, set[int]] = {
    p.CONNACK: {0x00, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F},
    p.PUBACK: _PUBACK,
    p.PUBREC: _PUBACK,
    p.PUBREL: {0x00, 0x92},
    p.PUBCOMP: {0x00, 0x92},
    p.SUBACK: {0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2},
    p.UNSUBACK: {0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91},
    p.DISCONNECT: {0x00, 0x04, *range(0x80, 0x84), 0x87, 0x89, 0x8B, *range(0x8D, 0x91), *range(0x93, 0xA3)},
    p.AUTH: {0x00, 0x18, 0x19},
}


def with_code(kind: int, code: int) -> bytes:
    if kind == p.CONNACK:
        return bytes((0x20, 3, 0, code, 0))
    if kind in (p.SUBACK, p.UNSUBACK):
        return bytes((kind << 4, 4, 0, 1, 0, code))
    if kind in (p.DISCONNECT, p.AUTH):
        return bytes((kind << 4, 1, code))
    return bytes((kind << 4 | (2 if kind == p.PUBREL else 0), 3, 0, 1, code))


@pytest.mark.parametrize("kind", CODES)
def test_reason_codes(kind: int) -> None:
    """The reader, with which the tests of the whole broker read too, takes those of the standard, and no other."""
    for code in range(256):
        if code in CODES[kind]:
            assert len(read(with_code(kind, code), V5)) == 1
        else:
            with pytest.raises(PacketError):
                read(with_code(kind, code), V5)
    if kind == p.SUBACK:
        for code in range(256):
            if code in (0, 1, 2, 0x80):
                assert len(read(bytes((0x90, 3, 0, 1, code)), V3)) == 1
            else:
                with pytest.raises(PacketError):
                    read(bytes((0x90, 3, 0, 1, code)), V3)


def answers(properties: p.Properties) -> Iterator[Packet]:
    for kind in (p.PUBACK, p.PUBREC, p.PUBREL, p.PUBCOMP):
        yield Ack(kind, 1, 0x92 if kind in (p.PUBREL, p.PUBCOMP) else 0x87, properties)
    yield Suback(1, [0x87], properties)
    yield Unsuback(1, [0x11], properties)


def test_reason_strings_are_for_clients_that_want_them() -> None:
    said = {p.REASON_STRING: "because"}
    for asked, expected in ({}, said), ({p.REQUEST_PROBLEM_INFORMATION: 1}, said), ({p.REQUEST_PROBLEM_INFORMATION: 0}, {}):
        for packet in answers(said):
            connection = opened(V5, asked)
            connection.send(packet)
            (found,) = read(connection.data_to_send(), V5)
            assert found.properties == expected  # type: ignore[union-attr]
    # In CONNACK and DISCONNECT they may be all the same.
    connection = opened(V5, {p.REQUEST_PROBLEM_INFORMATION: 0})
    connection.disconnect(0x8E, "because")
    assert read(connection.data_to_send(), V5) == [Disconnect(0x8E, said)]


def test_reason_strings_are_left_out_where_they_make_a_packet_too_large() -> None:
    said = {p.REASON_STRING: "because"}
    for packet in answers(said):
        data = encode(packet, V5)
        for largest in (len(data) - 1, len(data)):
            connection = opened(V5, {p.MAXIMUM_PACKET_SIZE: largest})
            connection.send(type(packet)(**{name: getattr(packet, name) for name in packet.__struct_fields__}))
            (found,) = read(connection.data_to_send(), V5)
            assert found.properties == (said if largest == len(data) else {})  # type: ignore[union-attr]
    data = encode(Disconnect(0x8E, said), V5)
    for largest in (len(data) - 1, len(data)):
        connection = opened(V5, {p.MAXIMUM_PACKET_SIZE: largest})
        connection.disconnect(0x8E, "because")
        assert read(connection.data_to_send(), V5) == [Disconnect(0x8E, said if largest == len(data) else {})]
    data = encode(Connack(False, 0x87, said), V5)
    for largest in (len(data) - 1, len(data)):
        connection = MqttConnection()
        connection.receive_data(encode(Connect(V5, "c", properties={p.MAXIMUM_PACKET_SIZE: largest}), V5))
        connection.next_packet()
        connection.refuse(0x87, "because")
        assert read(connection.data_to_send(), V5) == [Connack(False, 0x87, said if largest == len(data) else {})]


def test_no_packet_is_larger_than_the_client_takes() -> None:
    answer = Suback(1, [0] * 100)
    size = len(encode(answer, V5))
    connection = opened(V5, {p.MAXIMUM_PACKET_SIZE: size})
    connection.send(answer)
    assert read(connection.data_to_send(), V5) == [answer]
    connection = opened(V5, {p.MAXIMUM_PACKET_SIZE: size - 1})
    with pytest.raises(PacketError) as caught:
        connection.send(answer)
    connection.fail(caught.value)
    (last,) = read(connection.data_to_send(), V5)
    assert isinstance(last, Disconnect) and last.reason == TOO_LARGE
    # What does not fit at all is not said.
    connection = opened(V5, {p.MAXIMUM_PACKET_SIZE: 2})
    connection.disconnect(0x8E, "no")
    assert connection.data_to_send() == b"" and connection.state is ConnectionState.CLOSED
    connection = MqttConnection()
    connection.receive_data(encode(Connect(V5, "c", properties={p.MAXIMUM_PACKET_SIZE: 4}), V5))
    connection.next_packet()
    connection.refuse(0x87, "no")
    assert connection.data_to_send() == b"" and connection.state is ConnectionState.CLOSED


@pytest.mark.parametrize("version", BOTH)
def test_nothing_is_sent_behind_the_end(version: int) -> None:
    """After DISCONNECT, and after a CONNACK that refuses: whatever a commit that ends later has to say."""
    for end in ("disconnect", "fail", "closed"):
        connection = opened(version)
        if end == "disconnect":
            connection.disconnect(0x8E, "taken over")
        elif end == "fail":
            connection.fail(PacketError(PROTOCOL_ERROR, "no"))
        else:
            connection.closed()
        before = connection.data_to_send()
        connection.write(encode(Ack(p.PUBACK, 1), version))
        connection.send(Suback(1, [0]))
        connection.pong()
        connection.disconnect(0x82, "again")
        assert connection.data_to_send() == b"", before


def test_no_disconnect_before_connack() -> None:
    connection = MqttConnection()
    connection.disconnect(0x8B, "the server is stopping")
    assert connection.data_to_send() == b"" and connection.state is ConnectionState.CLOSED
    connection = MqttConnection()
    connection.receive_data(encode(Connect(V5, "c"), V5))
    connection.next_packet()
    connection.disconnect(0x8B, "the server is stopping")
    assert connection.data_to_send() == b"" and connection.state is ConnectionState.CLOSED


@pytest.mark.parametrize("version", BOTH)
def test_what_follows_a_refused_connect_is_not_read(version: int) -> None:
    connection = MqttConnection()
    connection.receive_data(encode(Connect(version, "c"), version) + encode(Publish("t", b""), version))
    assert isinstance(connection.next_packet(), Connect)
    connection.refuse(0x86)
    (answer,) = read(connection.data_to_send(), version)
    assert isinstance(answer, Connack) and answer.reason and not answer.session_present
    assert connection.next_packet() is None


def test_auth_has_its_codes_and_flags() -> None:
    for code in (0, 0x18, 0x19):
        assert read(bytes((0xF0, 1, code)), V5) == [Auth(code)]
    assert refusal(V5, b"\xf0\1\1") == PROTOCOL_ERROR
    assert refusal(V5, b"\xf1\0") == MALFORMED
    assert refusal(V3, b"\xf0\0") == MALFORMED


# --- exchanges ---------------------------------------------------------------------------------------------------------------------------


def test_a_message_at_qos_2_that_comes_again() -> None:
    """It is acknowledged and not written again, up to PUBREL; then the identifier is a new message's."""
    received = ReceivedExchanges()
    for _ in range(2):
        assert received.on(5, Input.PUBLISH) is Action.WRITE
        assert received.on(5, Input.PUBLISH) is Action.NOTHING, "the answer to the first one is still to come, and is both's"
        assert received.on(5, Input.COMMITTED) is Action.PUBREC
        assert [received.on(5, Input.PUBLISH) for _ in range(3)] == [Action.PUBREC] * 3
        assert received.on(5, Input.PUBREL) is Action.REMOVE
        assert received.on(5, Input.COMMITTED) is Action.PUBCOMP
    assert received.on(5, Input.PUBLISH) is Action.WRITE
    assert received.on(5, Input.FAILED) is Action.REFUSE
    assert received.on(5, Input.PUBLISH) is Action.WRITE, "after a PUBREC that refuses"


def test_a_message_at_qos_2_that_is_sent() -> None:
    sent = SentExchanges()
    packet_id = sent.begin(2)
    assert list(sent.resume()) == [], "not before it is stored"
    assert sent.on(packet_id, Input.COMMITTED) is Action.PUBLISH
    assert list(sent.resume()) == [(packet_id, Action.PUBLISH_AGAIN)], "unacknowledged until PUBREC"
    assert sent.on(packet_id, Input.PUBREC) is Action.NOTE
    assert sent.on(packet_id, Input.COMMITTED) is Action.PUBREL
    for _ in range(2):
        assert list(sent.resume()) == [(packet_id, Action.PUBREL)], "unacknowledged until PUBCOMP, and PUBLISH never again"
    assert sent.on(packet_id, Input.PUBCOMP) is Action.FORGET and list(sent.resume()) == []
    refused = sent.begin(2)
    sent.on(refused, Input.COMMITTED)
    assert sent.on(refused, Input.PUBREC_REFUSED) is Action.FORGET and list(sent.resume()) == [], "it counts as acknowledged"


def test_a_message_at_qos_1_that_is_sent() -> None:
    sent = SentExchanges()
    first, second = sent.begin(1), sent.begin(1)
    assert first != second
    assert list(sent.resume()) == [(first, Action.PUBLISH_AGAIN), (second, Action.PUBLISH_AGAIN)]
    assert sent.on(first, Input.PUBACK) is Action.FORGET
    assert list(sent.resume()) == [(second, Action.PUBLISH_AGAIN)]
