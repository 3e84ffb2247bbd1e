"""Messages with descriptors over a socket pair: a length, a count of descriptors, and the message as MessagePack."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence

import msgspec

from svc.parent.messages import Message

_HEAD = struct.Struct("!IB")  # bytes of the message, descriptors that come with it
READ_SIZE = 1 << 16
DESCRIPTORS_MAX = 250  # of one message: Linux lets 253 through

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Message).decode


class Channel:
    """One end. `receive` waits or not as the socket does. A message that this version does not know is left out."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._data = b""
        self._descriptors: list[int] = []

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Raises OSError if the other end is gone or takes nothing more."""
        body = _encode(message)
        data = _HEAD.pack(len(body), len(descriptors)) + body
        sent = socket.send_fds(self.sock, [data], list(descriptors))
        if sent < len(data):
            self.sock.sendall(data[sent:])

    def receive(self) -> list[tuple[Message, list[int]]]:
        """The messages that have arrived, with their descriptors. Raises EOFError when the other end is closed, BlockingIOError if there is nothing."""
        data, descriptors, _, _ = socket.recv_fds(self.sock, READ_SIZE, DESCRIPTORS_MAX)
        for each in descriptors:
            os.set_inheritable(each, False)
        self._descriptors += descriptors
        if not data:
            raise EOFError
        self._data += data
        found: list[tuple[Message, list[int]]] = []
        while len(self._data) >= _HEAD.size:
            size, count = _HEAD.unpack_from(self._data)
            end = _HEAD.size + size
            if len(self._data) < end:
                break
            own, self._descriptors = self._descriptors[:count], self._descriptors[count:]
            body, self._data = self._data[_HEAD.size : end], self._data[end:]
            try:
                found.append((_decode(body), own))
            except msgspec.DecodeError:  # of another version of svc, while one takes the place of the other
                for each in own:
                    os.close(each)
        return found

    def close(self) -> None:
        for each in self._descriptors:
            os.close(each)
        self._descriptors.clear()
        self.sock.close()


def pair() -> tuple[socket.socket, socket.socket]:
    """Both ends of a new channel."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
