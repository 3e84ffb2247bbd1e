"""The packets that paho-mqtt writes are read as what they are, and it reads those that we write."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

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
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)


class Server:
    """The other end of paho's connection."""

    def __init__(self, client: paho.Client, sock: socket.socket, version: int) -> None:
        self.client = client
        self.sock = sock
        self.version = version
        self.reader = PacketReader()
        sock.settimeout(20)

    def next(self) -> Packet:
        """The next packet that paho sends."""
        while (packet := self.reader.next_packet()) is None:
            while self.client.want_write():
                self.client.loop_write()
            data = self.sock.recv(65536)
            assert data, "paho has closed the connection"
            self.reader.feed(data)
        return packet

    def send(self, packet: Packet) -> None:
        self.sock.sendall(encode(packet, self.version))
        self.read()

    def read(self) -> None:
        """Let paho read what has come; waits for it."""
        found = self.client.socket()
        assert found is not None and select.select([found], [], [], 20)[0]
        self.client.loop_read()


@contextmanager
def connection(client: paho.Client, version: int, properties: Properties | None = None) -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        if version == V5:
            client.connect("127.0.0.1", listening.getsockname()[1], 30, clean_start=True, properties=properties)
        else:
            client.connect("127.0.0.1", listening.getsockname()[1], 30)
        sock = listening.accept()[0]
        with sock:
            yield Server(client, sock, version)


def make_client(version: int) -> paho.Client:
    return paho.Client(CallbackAPIVersion.VERSION2, client_id="c", protocol=paho.MQTTv5 if version == V5 else paho.MQTTv311)


@pytest.mark.parametrize("version", [V3, V5])
def test_what_paho_writes(version: int) -> None:
    is_new = version == V5
    client = make_client(version)
    given: Properties | None = None
    will: Properties | None = None
    if is_new:
        given, will = Properties(PacketTypes.CONNECT), Properties(PacketTypes.WILLMESSAGE)
        given.SessionExpiryInterval, given.UserProperty, will.WillDelayInterval = 5, ("a", "b"), 7
    client.username_pw_set("ü", "pass")
    client.will_set("will", b"bye", 2, True, will)
    with connection(client, version, given) as server:
        assert server.next() == Connect(
            version,
            "c",
            True,
            30,
            "ü",
            b"pass",
            Will("will", b"bye", 2, True, {p.WILL_DELAY: 7} if is_new else {}),
            {p.SESSION_EXPIRY: 5, p.USER_PROPERTY: [("a", "b")]} if is_new else {},
        )
        server.send(Connack(False, 0))
        client.publish("t/ö", b"x" * 300, 2, True)
        assert server.next() == Publish("t/ö", b"x" * 300, 2, True, False, 1)
        server.send(Ack(p.PUBREC, 1))
        assert server.next() == Ack(p.PUBREL, 1)
        server.send(Ack(p.PUBCOMP, 1))
        options = SubscribeOptions(1, noLocal=True, retainAsPublished=True, retainHandling=1)
        client.subscribe([("a/#", options)] if is_new else [("a/#", 1)])
        assert server.next() == Subscribe(2, [Subscription("a/#", 1, is_new, is_new, 1 if is_new else 0)])
        client.unsubscribe(["a/#", "b"])
        assert server.next() == Unsubscribe(3, ["a/#", "b"])
        client.disconnect()
        assert server.next() == Disconnect()


@pytest.mark.parametrize("version", [V3, V5])
def test_what_paho_reads(version: int) -> None:
    client = make_client(version)
    seen: list[object] = []
    client.on_connect = lambda c, u, flags, reason, found: seen.append((flags.session_present, reason.value))
    client.on_message = lambda c, u, message: seen.append((message.topic, message.payload, message.qos, message.retain, message.dup))
    client.on_subscribe = lambda c, u, mid, reasons, found: seen.append((mid, [each.value for each in reasons]))
    client.on_unsubscribe = lambda c, u, mid, reasons, found: seen.append(mid)
    content = {p.CONTENT_TYPE: "text/plain", p.USER_PROPERTY: [("a", "b")], p.SUBSCRIPTION_ID: [1, 200]}
    with connection(client, version) as server:
        assert isinstance(server.next(), Connect)
        server.send(Connack(True, 0, {p.RECEIVE_MAXIMUM: 10, p.ASSIGNED_CLIENT_ID: "x"}))
        server.send(Publish("t/ö", b"x" * 300, 1, True, True, 9, content))
        assert server.next() == Ack(p.PUBACK, 9)
        server.send(Suback(4, [1, 0x80]))
        server.send(Unsuback(5, [0]))
        while len(seen) < 4:
            server.read()
    assert seen == [(True, 0), ("t/ö", b"x" * 300, 1, True, True), (4, [1, 0x80]), 5]
