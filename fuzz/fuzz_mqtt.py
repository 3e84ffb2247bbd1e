"""MQTT: any bytes, cut anywhere, are the same packets or the same fault, and paho-mqtt agrees about what is in them.

The first byte of an input chooses the version, the rest is what a peer sends behind CONNECT. Invariant, for any bytes:

1. The reader raises nothing but `PacketError`, with a code that DISCONNECT may have. How the bytes were cut makes no difference.
2. What is read can be written, and is read as the same again. No packet is larger than allowed, and no more than that is ever collected.
3. A PUBLISH that we read is one to paho too, with the same topic, payload, QoS and flags; its acknowledgements are read by us.

Inputs are mutated from `fuzz/corpus/mqtt/`, or made of packets, right and wrong.
"""

from __future__ import annotations

import random
import select
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.runner import mutate, run
from svc.protocol import mqtt_properties as p
from svc.protocol.mqtt import PacketReader, encode
from svc.protocol.mqtt_packets import (
    V3,
    V5,
    Ack,
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
)
from svc.protocol.mqtt_values import PacketError

CORPUS = Path(__file__).parent / "corpus" / "mqtt"
LIMIT = 5000
TOKENS = (
    b"\0\1a",
    b"\0\0",
    b"\x80\1",
    b"\xff\xff\xff\x7f",
    b"\xed\xa0\x80",
    b"\x26\0\1a\0\1b",
    b"\x23\0\1",
    b"\x0b\1",
    b"\x30",
    b"\x32\7",
    b"#",
    b"+",
)


class Peer:
    """A paho client that is connected to us: what it makes of a PUBLISH."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.seen: list[Publish] = []
        self.client = paho.Client(CallbackAPIVersion.VERSION2, client_id="c", protocol=paho.MQTTv5 if version == V5 else paho.MQTTv311)
        self.client.on_message = self._note
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.client.connect("127.0.0.1", listening.getsockname()[1], 60)
            self.sock = listening.accept()[0]
        self.reader = PacketReader()
        assert isinstance(self.receive(), Connect)
        self.deliver(encode(Connack(False, 0), version))

    def _note(self, client: paho.Client, data: object, message: paho.MQTTMessage) -> None:
        self.seen.append(Publish(message.topic, message.payload, message.qos, message.retain, message.dup, message.mid))

    def deliver(self, data: bytes) -> None:
        self.sock.sendall(data)
        mine = self.client.socket()
        assert mine is not None
        wait = 20
        while select.select([mine], [], [], wait)[0]:
            wait = 0
            assert self.client.loop_read() == paho.MQTT_ERR_SUCCESS

    def receive(self) -> Packet:
        while (packet := self.reader.next_packet()) is None:
            while self.client.want_write():
                self.client.loop_write()
            self.reader.feed(self.sock.recv(65536))
        return packet


_peers: dict[int, Peer] = {}


def read(pieces: Sequence[bytes], version: int) -> tuple[list[Packet], int | None]:
    """The packets, and the code of the fault that ends them."""
    reader = PacketReader(LIMIT, version)
    found: list[Packet] = []
    for piece in pieces:
        reader.feed(piece)
        assert reader._have <= reader._need <= LIMIT
        try:
            while (packet := reader.next_packet()) is not None:
                found.append(packet)
        except PacketError as error:
            assert error.reason >= 0x80 and str(error)
            return found, error.reason
    return found, None


def check(data: bytes) -> None:
    if not data:
        return
    version, raw = (V5 if data[0] & 1 else V3), data[1:]
    source = random.Random(data)
    whole = read([raw], version)
    pieces = []
    at = 0
    while at < len(raw):
        size = source.choice((1, 2, 7, 100, LIMIT))
        pieces.append(raw[at : at + size])
        at += size
    assert read(pieces, version) == whole
    for packet in whole[0]:
        if isinstance(packet, Connect):
            continue
        again = encode(packet, version)
        assert read([again], version) == ([packet], None), packet
        if type(packet) is Publish and packet.topic:
            compare(packet, again, version)


def compare(packet: Publish, raw: bytes, version: int) -> None:
    """With paho. It takes a topic alias for a property like any other."""
    peer = _peers.get(version)
    if peer is None:
        peer = _peers[version] = Peer(version)
    peer.deliver(raw)
    if packet.qos == 2:
        assert peer.receive() == Ack(p.PUBREC, packet.packet_id)
        peer.deliver(encode(Ack(p.PUBREL, packet.packet_id), version))
        assert peer.receive() == Ack(p.PUBCOMP, packet.packet_id)
    elif packet.qos:
        assert peer.receive() == Ack(p.PUBACK, packet.packet_id)
    (seen,) = peer.seen
    peer.seen.clear()
    assert (seen.topic, seen.payload, seen.qos, seen.retain, seen.dup, seen.packet_id) == (
        packet.topic,
        packet.payload,
        packet.qos,
        packet.retain,
        packet.dup,
        packet.packet_id,
    )


def draw(source: random.Random, version: int) -> bytes:
    number, text = source.randint(1, 0xFFFF), source.choice(("a", "a/b/ö", "$share/g/a", "x" * 200))
    properties = {
        p.USER_PROPERTY: [("a", text)] * source.randint(1, 3),
        p.CONTENT_TYPE: "text/plain",
        p.MESSAGE_EXPIRY: 7,
        p.SUBSCRIPTION_ID: [source.choice((1, 300))],
        p.CORRELATION_DATA: source.randbytes(5),
    }
    chosen = {key: properties[key] for key in source.sample(sorted(properties), source.randint(0, 4))}
    qos = source.randrange(3)
    packet: Packet = source.choice(
        (
            Publish(text, source.randbytes(source.choice((0, 5, 300))), qos, source.random() < 0.5, False, number if qos else 0, chosen),
            Ack(source.choice((p.PUBACK, p.PUBREC)), number, source.choice((0, 0x10, 0x99))),
            Ack(source.choice((p.PUBREL, p.PUBCOMP)), number),
            Subscribe(number, [Subscription(text, qos, False, version == V5, 0 if version == V3 else 1)] * source.randint(1, 3)),
            Suback(number, [qos, 0x80]),
            Unsubscribe(number, [text, "#"]),
            Unsuback(number, [0, 0x11]),
            Ping(source.random() < 0.5),
            Disconnect(4 if source.random() < 0.5 else 0),
        )
    )
    return encode(packet, version)


def generate(source: random.Random, corpus: Sequence[bytes]) -> bytes:
    if corpus and source.random() < 0.3:
        return mutate(source, source.choice(corpus), TOKENS)
    first = source.randrange(2)
    raw = b"".join(draw(source, V5 if first else V3) for _ in range(source.randint(1, 4)))
    return bytes((first,)) + (raw if source.random() < 0.3 else mutate(source, raw, TOKENS))


if __name__ == "__main__":
    raise SystemExit(run("mqtt", generate, check, CORPUS))
