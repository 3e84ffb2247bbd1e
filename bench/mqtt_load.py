"""Cheap clients for `bench.mqtt`: plain sockets, packets that were encoded beforehand, svc's codec for what comes. All of MQTT 3.1.1.

`drive` is the load of many connections with one message on its way each; `Follower` is a receiver for `bench.fan_out.Audience`.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Protocol

from svc.protocol.mqtt import PacketReader, ack, encode
from svc.protocol.mqtt_packets import V3, Connack, Connect, Packet, Ping, Publish, Suback, Subscribe, Subscription
from svc.protocol.mqtt_properties import PUBACK, PUBCOMP, PUBREC, PUBREL

PATIENCE = 60.0  # seconds for an answer
PACKET_ID = 1  # of all messages that are published: a connection has one on its way at a time
PINGREQ, PINGRESP = encode(Ping(), V3), encode(Ping(True), V3)
DISCONNECT = b"\xe0\0"
RECV = 1 << 16


class Broker(Protocol):
    @property
    def mqtt_port(self) -> int: ...
    @property
    def login(self) -> tuple[str, str] | None: ...


class Client:
    """A connection that is open. Blocks, but for what `drive` and `Audience` do with its socket."""

    def __init__(self, broker: Broker, client_id: str, *, clean: bool = True, keep_alive: int = 0) -> None:
        self.sock = socket.create_connection(("127.0.0.1", broker.mqtt_port), timeout=PATIENCE)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = PacketReader(version=V3)
        username, password = broker.login or (None, None)
        connect = Connect(V3, client_id, clean, keep_alive, username, None if password is None else password.encode())
        self.send(encode(connect, V3))
        answer = self.next_packet()
        if not isinstance(answer, Connack) or answer.reason:
            raise RuntimeError(f"CONNECT was answered with {answer}")
        self.session_present = answer.session_present

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def next_packet(self) -> Packet:
        while (packet := self._reader.next_packet()) is None:
            self._reader.feed(self._recv())
        return packet

    def _recv(self) -> bytes:
        data = self.sock.recv(RECV)
        if not data:
            raise RuntimeError("the server closed a connection")
        return data

    def publish(self, topic: str, payload: bytes, qos: int, retain: bool = False) -> None:
        """Returns when it is acknowledged, at QoS 0 when it is sent."""
        self.send(encode(Publish(topic, payload, qos, retain, packet_id=PACKET_ID if qos else 0), V3))
        if qos:
            answer = self._recv()
            if answer != ack(PUBACK, PACKET_ID):
                raise RuntimeError(f"PUBLISH was answered with {answer!r}")

    def ping(self) -> None:
        self.send(PINGREQ)
        answer = self._recv()
        if answer != PINGRESP:
            raise RuntimeError(f"PINGREQ was answered with {answer!r}")

    def close(self) -> None:
        """In order: no will, no error in a log."""
        self.sock.setblocking(True)
        self.send(DISCONNECT)
        self.sock.close()


class Follower(Client):
    """Counts the messages that come, and acknowledges those at QoS 1."""

    def __init__(self, broker: Broker, client_id: str, filters: Sequence[str] = (), qos: int = 0, *, clean: bool = True) -> None:
        super().__init__(broker, client_id, clean=clean)
        self.received = 0
        if filters:
            self.send(encode(Subscribe(PACKET_ID, [Subscription(text, qos) for text in filters]), V3))
            while not isinstance(packet := self.next_packet(), Suback):
                self._take(packet)  # it may come before the answer
            if packet.reasons != [qos] * len(filters):
                raise RuntimeError(f"SUBSCRIBE was answered with {packet}")
        self.read_rest()
        self.sock.setblocking(False)

    def read(self) -> None:
        self._reader.feed(self._recv())
        self.read_rest()

    def read_rest(self) -> None:
        """Take the packets that have been read."""
        acknowledgements = b""
        while (packet := self._reader.next_packet()) is not None:
            acknowledgements += self._take(packet)
        if acknowledgements:
            self.send(acknowledgements)

    def _take(self, packet: Packet) -> bytes:
        if not isinstance(packet, Publish):
            raise RuntimeError(f"{packet} came unasked")
        self.received += 1
        return ack(PUBACK, packet.packet_id) if packet.qos else b""


@dataclass(frozen=True)
class Step:
    """Bytes to send, and how a whole answer to them begins and ends."""

    data: bytes
    begin: bytes
    end: bytes = b""


Steps = Sequence[Step]
"""Of one message. The next is sent when the last answer has come."""


def publish_steps(topic: str, payload: bytes, qos: int, retain: bool, packet_id: int = PACKET_ID) -> Steps:
    """At QoS 1 or 2."""
    publish = encode(Publish(topic, payload, qos, retain, packet_id=packet_id), V3)
    if qos == 1:
        return (Step(publish, ack(PUBACK, packet_id)),)
    return Step(publish, ack(PUBREC, packet_id)), Step(ack(PUBREL, packet_id), ack(PUBCOMP, packet_id))


class Load:
    """Connections with one message on its way each."""

    def __init__(self, sockets: Sequence[socket.socket], messages: Sequence[Steps]) -> None:
        self._selector = selectors.DefaultSelector()
        self._sockets = sockets
        self._messages: Iterator[Steps] = cycle(messages)
        for sock in sockets:
            sock.setblocking(False)

    def drive(self, seconds: float) -> int:
        """The number of messages that were answered. None is on its way when it returns."""
        messages, recv = self._messages, RECV
        for sock in self._sockets:
            steps = next(messages)
            sock.send(steps[0].data)
            self._selector.register(sock, selectors.EVENT_READ, [sock, steps, 0])
        count, under_way = 0, len(self._sockets)
        end = time.monotonic() + seconds
        while under_way:
            ready = self._selector.select(PATIENCE)
            if not ready:
                raise RuntimeError(f"{under_way} messages were not answered")
            is_over = time.monotonic() >= end
            for key, _ in ready:
                state = key.data
                sock, steps, at = state
                answer = sock.recv(recv)
                step = steps[at]
                if not answer.startswith(step.begin) or not answer.endswith(step.end):
                    raise RuntimeError(f"{step.data[:60]!r} was answered with {answer[:300]!r}")
                at += 1
                if at == len(steps):
                    count += 1
                    if is_over:
                        under_way -= 1
                        self._selector.unregister(sock)
                        continue
                    state[1] = steps = next(messages)
                    at = 0
                state[2] = at
                sock.send(steps[at].data)
        return count

    def close(self) -> None:
        self._selector.close()
        for sock in self._sockets:
            sock.close()
