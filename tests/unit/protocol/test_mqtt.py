"""Packets of MQTT: bytes of the standards, what is refused, and any packets cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.protocol import mqtt_properties as p
from svc.protocol.mqtt import PacketReader, ack, encode, publish_parts
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
from svc.protocol.mqtt_values import (
    ALIAS_INVALID,
    MALFORMED,
    PROTOCOL_ERROR,
    QUOTA_EXCEEDED,
    TOO_LARGE,
    TOPIC_INVALID,
    UNSUPPORTED_VERSION,
    PacketError,
    binary,
    string,
    variable,
)

BOTH = (V3, V5)


def read_all(data: bytes, version: int | None, largest: int = 1 << 28) -> list[Packet]:
    reader = PacketReader(largest, version)
    reader.feed(data)
    return taken(reader)


def taken(reader: PacketReader) -> list[Packet]:
    found = []
    while (packet := reader.next_packet()) is not None:
        found.append(packet)
    return found


PACKETS: list[Packet] = [
    Connect(V5, "a", True, 10, "user", b"\xff\0", Will("t/w", b"gone", 1, True, {p.WILL_DELAY: 5}), {p.SESSION_EXPIRY: 10}),
    Connect(V3, "", True),
    Connack(True, 0, {p.ASSIGNED_CLIENT_ID: "x", p.RECEIVE_MAXIMUM: 10}),
    Connack(False, 0x86),
    Publish("a/b", b"", 0, True),
    Publish("a/b", b"x" * 200, 2, False, True, 0xFFFF, {p.USER_PROPERTY: [("a", "1"), ("a", "2")], p.SUBSCRIPTION_ID: [1, 268435455]}),
    Publish("", b"x", properties={p.TOPIC_ALIAS: 1}),
    Ack(p.PUBACK, 1),
    Ack(p.PUBREC, 2, 0x10),
    Ack(p.PUBREL, 3, 0x92, {p.REASON_STRING: "gone"}),
    Ack(p.PUBCOMP, 4, 0, {p.USER_PROPERTY: [("a", "b")]}),
    Subscribe(7, [Subscription("a/#", 1, True, True, 2), Subscription("b")], {p.SUBSCRIPTION_ID: [300]}),
    Suback(7, [0, 1, 2, 0x80, 0x8F]),
    Unsubscribe(8, ["a/#", "b"]),
    Unsuback(8, [0, 0x11]),
    Ping(),
    Ping(True),
    Disconnect(),
    Disconnect(4, {p.SESSION_EXPIRY: 0}),
    Auth(0x18, {p.AUTHENTICATION_METHOD: "m", p.AUTHENTICATION_DATA: b"d"}),
]


@pytest.mark.parametrize("packet", PACKETS, ids=lambda packet: type(packet).__name__)
def test_what_is_written_is_read(packet: Packet) -> None:
    version = packet.version if isinstance(packet, Connect) else V5
    data = encode(packet, version)
    assert read_all(data, version) == [packet]


def test_cut_at_every_byte() -> None:
    data = b"".join(encode(packet, V5) for packet in PACKETS[1:] if not isinstance(packet, Connect))
    whole = read_all(data, V5)
    for cut in range(len(data)):
        reader = PacketReader(version=V5)
        reader.feed(data[:cut])
        found = taken(reader)
        assert reader.is_between == (found == whole[: len(found)] and cut == sum(len(encode(packet, V5)) for packet in found))
        reader.feed(data[cut:])
        assert found + taken(reader) == whole
    reader = PacketReader(version=V5)
    found = []
    for at in range(len(data)):
        reader.feed(data[at : at + 1])
        found += taken(reader)
    assert found == whole


def test_a_large_packet_is_collected_once() -> None:
    data = encode(Publish("a", b"x" * 1_000_000, 1, packet_id=1), V3)
    reader = PacketReader(version=V3)
    for at in range(0, len(data), 65536):
        assert reader.next_packet() is None
        reader.feed(data[at : at + 65536])
    found = reader.next_packet()
    assert isinstance(found, Publish) and len(found.payload) == 1_000_000
    assert reader.next_packet() is None and reader.is_between
    assert reader._data == b"", "it is not held"


def test_the_version_is_that_of_connect() -> None:
    data = encode(Connect(V5, "a"), V5) + encode(Publish("t", b"x", properties={p.CONTENT_TYPE: "text/plain"}), V5)
    assert [type(packet) for packet in read_all(data, None)] == [Connect, Publish]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        # MQTT 3.1.1 §3.1.2.3, figure 3.6, and a payload for its flags
        (
            b"\x10\x25\0\4MQTT\4\xce\0\x0a\0\3cid\0\4will\0\3msg\0\4user\0\3pwd",
            Connect(V3, "cid", True, 10, "user", b"pwd", Will("will", b"msg", 1, False)),
        ),
        (b"\x20\2\1\0", Connack(True, 0)),
        (b"\x32\7\0\3a/b\0\x0a", Publish("a/b", b"", 1, packet_id=10)),  # figure 3.11
        (b"\x82\x0e\0\x0a\0\3a/b\1\0\3c/d\2", Subscribe(10, [Subscription("a/b", 1), Subscription("c/d", 2)])),  # figure 3.23
        (b"\x90\5\0\x0a\0\2\x80", Suback(10, [0, 2, 0x80])),  # figure 3.26
        (b"\xa2\x0c\0\x0a\0\3a/b\0\3c/d", Unsubscribe(10, ["a/b", "c/d"])),  # figure 3.30
        (b"\xb0\2\0\x0a", Unsuback(10, [])),
        (b"\xc0\0", Ping()),
        (b"\xd0\0", Ping(True)),
        (b"\xe0\0", Disconnect()),
    ],
)
def test_bytes_of_version_3(data: bytes, expected: Packet) -> None:
    version = None if isinstance(expected, Connect) else V3
    assert read_all(data, version) == [expected] and encode(expected, V3) == data


def connect(flags: int = 2, *, level: int = 5, rest: bytes = b"\0\0\1a", name: bytes = b"\0\4MQTT") -> bytes:
    body = name + bytes((level, flags)) + b"\0\0" + rest
    return b"\x10" + variable(len(body)) + body


def packet(first: int, body: bytes) -> bytes:
    return bytes((first,)) + variable(len(body)) + body


def publish(first: int, properties: bytes = b"\0", topic: bytes = b"\0\1t", payload: bytes = b"") -> bytes:
    return packet(first, topic + (b"\0\1" if first & 6 else b"") + properties + payload)


WRONG_CONNECT: list[tuple[str, bytes, int]] = [
    ("no CONNECT at first", b"\xc0\0", PROTOCOL_ERROR),
    ("PUBLISH at first", publish(0x30), PROTOCOL_ERROR),
    ("level 3", connect(level=3, name=b"\0\6MQIsdp"), UNSUPPORTED_VERSION),
    ("level 6", connect(level=6), UNSUPPORTED_VERSION),
    ("another protocol", connect(name=b"\0\4AMQP"), MALFORMED),
    ("flags of the fixed header", b"\x11" + connect()[1:], MALFORMED),
    ("reserved flag", connect(3), MALFORMED),
    ("QoS 3 of the will", connect(0x1E), MALFORMED),
    ("QoS of a will that is not there", connect(0x0A), MALFORMED),
    ("RETAIN of a will that is not there", connect(0x22), MALFORMED),
    ("a password without a user, 3.1.1", connect(0x42, level=4, rest=b"\0\1a\0\1p"), MALFORMED),
    ("a will that is missing", connect(0x06), MALFORMED),
    ("a user that is missing", connect(0x82), MALFORMED),
    ("bytes too many", connect(rest=b"\0\0\1ax"), MALFORMED),
    ("no client id", connect(rest=b"\0"), MALFORMED),
    ("a client id that is not UTF-8", connect(rest=b"\0\0\1\xff"), MALFORMED),
    ("a surrogate", connect(rest=b"\0\0\3\xed\xa0\x80"), MALFORMED),
    ("U+0000", connect(rest=b"\0\0\1\0"), MALFORMED),
    ("a will to a filter", connect(0x06, rest=b"\0\0\1a\0\0\3a/#\0\0"), TOPIC_INVALID),
    ("a will without a topic", connect(0x06, rest=b"\0\0\1a\0\0\0\0\0"), TOPIC_INVALID),
    ("Receive Maximum 0", connect(rest=b"\3\x21\0\0\0\1a"), PROTOCOL_ERROR),
    ("Maximum Packet Size 0", connect(rest=b"\5\x27\0\0\0\0\0\1a"), PROTOCOL_ERROR),
    ("Request Problem Information 2", connect(rest=b"\2\x17\2\0\1a"), PROTOCOL_ERROR),
    ("a property twice", connect(rest=b"\x0a\x11\0\0\0\1\x11\0\0\0\1\0\1a"), PROTOCOL_ERROR),
    ("a property of another packet", connect(rest=b"\3\x13\0\1\0\1a"), MALFORMED),
    ("an unknown property", connect(rest=b"\2\x7f\0\0\1a"), MALFORMED),
    ("data without a method", connect(rest=b"\4\x16\0\1x\0\1a"), PROTOCOL_ERROR),
    ("properties longer than the packet", connect(rest=b"\x20\0\1a"), MALFORMED),
    ("a property cut short", connect(rest=b"\2\x11\0\0\1a"), MALFORMED),
]

WRONG: list[tuple[str, int, bytes, int]] = [
    ("type 0", V5, b"\0\0", MALFORMED),
    ("AUTH in 3.1.1", V3, b"\xf0\0", MALFORMED),
    ("length of five bytes", V5, b"\x30\x80\x80\x80\x80\1", MALFORMED),
    ("length of more bytes than needed", V5, b"\xc0\x80\0", MALFORMED),
    ("PINGREQ with a body", V5, b"\xc0\1x", MALFORMED),
    ("PINGREQ with flags", V5, b"\xc1\0", MALFORMED),
    ("PUBLISH QoS 3", V5, publish(0x36), MALFORMED),
    ("DUP at QoS 0", V5, publish(0x38), MALFORMED),
    ("packet id 0", V3, b"\x32\5\0\1t\0\0", PROTOCOL_ERROR),
    ("no packet id", V3, b"\x32\3\0\1t", MALFORMED),
    ("a topic cut short", V3, b"\x30\3\0\4t", MALFORMED),
    ("a topic with +", V5, publish(0x30, topic=b"\0\3a/+"), TOPIC_INVALID),
    ("a topic with #", V3, b"\x30\3\0\1#", TOPIC_INVALID),
    ("a topic with U+0000", V3, b"\x30\3\0\1\0", MALFORMED),
    ("a topic that is not UTF-8", V3, b"\x30\3\0\1\xff", MALFORMED),
    ("no topic", V3, b"\x30\2\0\0", MALFORMED),
    ("no topic and no alias", V5, b"\x30\3\0\0\0", PROTOCOL_ERROR),
    ("alias 0", V5, publish(0x30, b"\3\x23\0\0"), ALIAS_INVALID),
    ("payload format 2", V5, publish(0x30, b"\2\1\2"), PROTOCOL_ERROR),
    ("subscription id 0", V5, publish(0x30, b"\2\x0b\0"), PROTOCOL_ERROR),
    ("a response topic with a wildcard", V5, publish(0x30, b"\4\x08\0\1#"), PROTOCOL_ERROR),
    ("PUBREL without its flag", V5, b"\x60\2\0\1", MALFORMED),
    ("PUBACK with flags", V5, b"\x42\2\0\1", MALFORMED),
    ("PUBACK of three bytes in 3.1.1", V3, b"\x40\3\0\1\0", MALFORMED),
    ("an unknown code in PUBACK", V5, b"\x40\3\0\1\1", PROTOCOL_ERROR),
    ("a code of PUBACK in PUBREL", V5, b"\x62\3\0\1\x10", PROTOCOL_ERROR),
    ("SUBSCRIBE without its flag", V5, b"\x80\7\0\1\0\0\1t\0", MALFORMED),
    ("SUBSCRIBE without a filter", V5, b"\x82\3\0\1\0", PROTOCOL_ERROR),
    ("SUBSCRIBE without options", V3, b"\x82\5\0\1\0\1t", MALFORMED),
    ("an empty filter", V3, b"\x82\5\0\1\0\0\0", MALFORMED),
    ("QoS 3 of a filter", V5, b"\x82\7\0\1\0\0\1t\3", PROTOCOL_ERROR),
    ("reserved options", V5, b"\x82\7\0\1\0\0\1t\x40", MALFORMED),
    ("options of version 5 in 3.1.1", V3, b"\x82\6\0\1\0\1t\4", MALFORMED),
    ("Retain Handling 3", V5, b"\x82\7\0\1\0\0\1t\x30", PROTOCOL_ERROR),
    ("No Local on a share", V5, packet(0x82, b"\0\1\0" + string("$share/g/t") + b"\4"), PROTOCOL_ERROR),
    ("two subscription ids", V5, packet(0x82, b"\0\1\4\x0b\1\x0b\2\0\1t\0"), PROTOCOL_ERROR),
    ("UNSUBSCRIBE without a filter", V3, b"\xa2\2\0\1", PROTOCOL_ERROR),
    ("UNSUBSCRIBE with an empty filter", V3, b"\xa2\4\0\1\0\0", MALFORMED),
    ("DISCONNECT with a body in 3.1.1", V3, b"\xe0\1\0", MALFORMED),
    ("an unknown code in DISCONNECT", V5, b"\xe0\1\1", PROTOCOL_ERROR),
]


@pytest.mark.parametrize(("data", "reason"), [pytest.param(*each[1:], id=each[0]) for each in WRONG_CONNECT])
def test_wrong_connects(data: bytes, reason: int) -> None:
    with pytest.raises(PacketError) as caught:
        read_all(data, None)
    assert caught.value.reason == reason


@pytest.mark.parametrize(("version", "data", "reason"), [pytest.param(*each[1:], id=each[0]) for each in WRONG])
def test_wrong_packets(version: int, data: bytes, reason: int) -> None:
    with pytest.raises(PacketError) as caught:
        read_all(data, version)
    assert caught.value.reason == reason
    reader = PacketReader(version=version)
    with pytest.raises(PacketError) as again:  # a byte at a time
        for at in range(len(data)):
            reader.feed(data[at : at + 1])
            taken(reader)
    assert again.value.reason == reason


def test_a_packet_cut_short_anywhere_is_an_error_of_the_peer() -> None:
    for each in PACKETS:
        version = each.version if isinstance(each, Connect) else V5
        data = encode(each, version)
        body = data[-(len(data) - (2 if data[1] < 0x80 else 3)) :] if len(data) > 2 else b""
        for cut in range(len(body)):
            try:
                read_all(packet(data[0], body[:cut]), version)
            except PacketError as error:
                assert error.reason in (MALFORMED, PROTOCOL_ERROR)


def test_packets_before_a_wrong_one_are_read() -> None:
    reader = PacketReader(version=V3)
    reader.feed(b"\xc0\0\xc0\1x")
    assert reader.next_packet() == Ping()
    with pytest.raises(PacketError):
        reader.next_packet()


def test_a_packet_that_says_it_is_too_large_is_refused_at_once() -> None:
    reader = PacketReader(1000, V5)
    reader.feed(b"\x30\xe9\x07")  # 1,001 bytes, none of which has come
    with pytest.raises(PacketError) as caught:
        reader.next_packet()
    assert caught.value.reason == TOO_LARGE


def test_limits_of_other_packets() -> None:
    for version in (None, V3, V5):
        reader = PacketReader(1 << 28, version)
        reader.feed(b"\x10\xff\xff\xff\x7f" if version is None else b"\x82\xff\xff\xff\x7f")
        with pytest.raises(PacketError) as caught:
            reader.next_packet()
        assert caught.value.reason == TOO_LARGE
    reader = PacketReader()
    reader.feed(b"GET / HTTP/1.1\r\n")
    with pytest.raises(PacketError):
        reader.next_packet()
    many = ["a"] * 1001
    for each in (Subscribe(1, [Subscription("a")] * 1001), Unsubscribe(1, many)):
        with pytest.raises(PacketError) as caught:
            read_all(encode(each, V5), V5)
        assert caught.value.reason == QUOTA_EXCEEDED


def test_what_does_not_fit_is_refused_before_it_is_sent() -> None:
    for value in ("a" * 65536, "a\0b", "\ud800"):
        with pytest.raises(ValueError):
            string(value)
    with pytest.raises(ValueError):
        binary(b"x" * 65536)
    with pytest.raises(ValueError):
        variable(1 << 28)


def test_one_message_for_many() -> None:
    for version in BOTH:
        message = Publish("a/b", b"hello", 1, properties={p.CONTENT_TYPE: "text/plain"} if version == V5 else {})
        head, tail = publish_parts(message, version)
        for number in (1, 65535):
            assert read_all(head + number.to_bytes(2) + tail, version) == [
                Publish("a/b", b"hello", 1, packet_id=number, properties=message.properties)
            ]


@pytest.mark.parametrize("kind", [p.PUBACK, p.PUBREC, p.PUBREL, p.PUBCOMP])
def test_acknowledgements_of_success(kind: int) -> None:
    assert ack(kind, 258) == encode(Ack(kind, 258), V3) == encode(Ack(kind, 258), V5)


# --- any packet --------------------------------------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=20)
topics = st.text(st.characters(exclude_characters="\0+#", exclude_categories=("Cs",)), min_size=1, max_size=20)
VALUES = {
    p.BYTE: st.integers(0, 1),
    p.TWO: st.integers(1, 0xFFFF),
    p.FOUR: st.integers(1, 0xFFFFFFFF),
    p.VARIABLE: st.lists(st.integers(1, 268435455), min_size=1, max_size=1),
    p.STRING: topics,
    p.BINARY: st.binary(max_size=20),
    p.PAIR: st.lists(st.tuples(texts, texts), min_size=1, max_size=3),
}


def properties(kind: int) -> st.SearchStrategy[p.Properties]:
    allowed = {key: VALUES[form] for key, (form, _, packets) in p.TABLE.items() if kind in packets and key != p.AUTHENTICATION_DATA}
    return st.fixed_dictionaries({}, optional=allowed)


ids = st.integers(1, 0xFFFF)


@st.composite
def messages(draw: st.DrawFn) -> Publish:
    qos = draw(st.integers(0, 2))
    packet_id = draw(ids) if qos else 0
    return Publish(
        draw(topics), draw(st.binary()), qos, draw(st.booleans()), bool(qos) and draw(st.booleans()), packet_id, draw(properties(p.PUBLISH))
    )


wills = st.builds(Will, topics, st.binary(), st.integers(0, 2), st.booleans(), properties(p.WILL))
filters = st.builds(Subscription, topics, st.integers(0, 2), st.just(False), st.booleans(), st.integers(0, 2))
packets = st.one_of(
    messages(),
    st.builds(
        Connect,
        st.just(V5),
        texts,
        st.booleans(),
        st.integers(0, 0xFFFF),
        st.none() | texts,
        st.none() | st.binary(),
        st.none() | wills,
        properties(p.CONNECT),
    ),
    st.builds(Connack, st.booleans(), st.sampled_from((0, 0x80, 0x97)), properties(p.CONNACK)),
    st.sampled_from((p.PUBACK, p.PUBREC)).flatmap(
        lambda kind: st.builds(Ack, st.just(kind), ids, st.sampled_from((0, 0x10, 0x99)), properties(kind))
    ),
    st.builds(Subscribe, ids, st.lists(filters, min_size=1, max_size=3), properties(p.SUBSCRIBE)),
    st.builds(Suback, ids, st.lists(st.sampled_from((0, 1, 2, 0x80)), min_size=1, max_size=3), properties(p.SUBACK)),
    st.builds(Unsubscribe, ids, st.lists(topics, min_size=1, max_size=3), properties(p.UNSUBSCRIBE)),
    st.builds(Disconnect, st.sampled_from((0, 4, 0x8E)), properties(p.DISCONNECT)),
)


@given(st.lists(packets, min_size=1, max_size=4), st.data())
def test_any_packets_cut_anywhere(sent: list[Packet], data: st.DataObject) -> None:
    raw = b"".join(encode(each, V5) for each in sent)
    reader = PacketReader(version=V5)
    found, at = [], 0
    while at < len(raw):
        size = data.draw(st.integers(1, len(raw) - at))
        reader.feed(raw[at : at + size])
        found += taken(reader)
        at += size
    assert found == sent and reader.is_between


@given(st.binary(max_size=60), st.sampled_from((None, V3, V5)))
def test_any_bytes(data: bytes, version: int | None) -> None:
    """Nothing but PacketError; what is read can be written, and is the same then."""
    reader = PacketReader(1000, version)
    reader.feed(data)
    try:
        while (found := reader.next_packet()) is not None:
            of = found.version if isinstance(found, Connect) else reader.version or V5
            assert read_all(encode(found, of), of) == [found]
    except PacketError:
        pass
