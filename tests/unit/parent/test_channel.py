"""Messages with descriptors over a socket pair."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import msgspec
import pytest

from svc.parent.channel import Channel, pair
from svc.parent.messages import Connection, Message, NotRestarted, Opened, OpenPort, Ready


@pytest.fixture
def channels() -> Iterator[tuple[Channel, Channel]]:
    here, there = map(Channel, pair())
    there.sock.setblocking(False)
    yield here, there
    here.close()
    there.close()


def test_what_is_sent_arrives(channels: tuple[Channel, Channel]) -> None:
    here, there = channels
    sent: list[Message] = [
        OpenPort("http.port", 80, ("::", "10.0.0.1")),
        Ready(3, 0),
        NotRestarted(None),
        Connection("http", (80, 443), "http", "::1"),
    ]
    for message in sent:
        here.send(message)
    assert [message for message, _ in there.receive()] == sent
    with pytest.raises(BlockingIOError):
        there.receive()


def test_descriptors_come_with_their_message(channels: tuple[Channel, Channel]) -> None:
    here, there = channels
    ends = [os.pipe() for _ in range(3)]
    here.send(Ready(0, 0))
    here.send(Opened(1, False), [ends[0][1], ends[1][1]])
    here.send(Opened(1, True), [ends[2][1]])
    found = []
    while len(found) < 3:
        found += there.receive()
    assert [len(descriptors) for _, descriptors in found] == [0, 2, 1]
    for (reader, writer), given in zip(ends, [each for _, descriptors in found for each in descriptors], strict=True):
        os.close(writer)
        assert not os.get_inheritable(given)
        os.write(given, b"x")
        assert os.read(reader, 2) == b"x"
        os.close(given)
        os.close(reader)


def test_a_message_in_pieces(channels: tuple[Channel, Channel]) -> None:
    here, there = channels
    reader, writer = os.pipe()
    here.send(Connection("http", (80,), "http", "peer" * 100), [reader])
    whole, descriptors, _, _ = socket.recv_fds(there.sock, 65536, 10)
    for each in descriptors:
        os.close(each)
    found = []
    for position in range(len(whole)):
        here.sock.send(whole[position : position + 1])
        found += there.receive()
    assert [message for message, _ in found] == [Connection("http", (80,), "http", "peer" * 100)]
    os.close(reader)
    os.close(writer)


def test_the_end(channels: tuple[Channel, Channel]) -> None:
    here, there = channels
    here.send(Ready(1, 1))
    here.close()
    assert there.receive() == [(Ready(1, 1), [])]
    with pytest.raises(EOFError):
        there.receive()


class Tomorrow(msgspec.Struct, tag=True):
    """A message of a later version."""

    value: int


def test_what_another_version_says_is_left_out(channels: tuple[Channel, Channel]) -> None:
    here, there = channels
    reader, writer = os.pipe()
    here.send(Tomorrow(1), [writer])  # type: ignore[arg-type]
    os.close(writer)
    here.send(Ready(1, 1))
    assert there.receive() == [], "what comes with a descriptor is read alone"
    assert there.receive() == [(Ready(1, 1), [])]
    assert os.read(reader, 1) == b"", "its descriptor is closed"
    os.close(reader)
