"""A node that is asked everything twice over HTTP/2: with what is prepared, and without."""

from __future__ import annotations

from typing import Any

import hpack

from svc.prepared.streams import StreamRead
from tests.support.http2 import Client
from tests.support.http2_cases import CONTINUATION, GOAWAY, HEADERS, frame, iter_frames
from tests.support.node import Wire
from tests.support.prepared_reads import Beside

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = frame(4, 0, 0)


class BesideStreams(Beside):
    """Two connections of HTTP/2 instead, the second without what is prepared. `hits`: answers of what is prepared."""

    clients: list[Client]
    unprepared = 1  # the answers to the second connection count as well

    def _count_hits(self) -> None:
        answer = self.node.prepared.answer_stream

        def counted(*args: Any) -> bool:
            found = answer(*args)
            self.hits += found
            return found

        self.node.prepared.answer_stream = counted  # type: ignore[method-assign]

    @property
    def prepared_count(self) -> int:
        return sum([isinstance(each, StreamRead) for each in self.node.prepared.streams.reads.values()])

    def connect(self) -> None:
        self.clients = [Client(self.node), Client(self.node)]

    def prepare(self, is_prepared: bool) -> None:
        """Whether what is prepared answers from here on."""
        self.node.connections.prepared = self.node.prepared if is_prepared else None

    def get(self, path: str, fields: dict[str, str]) -> bytes:
        """The answer, as HTTP/1.1 would write it; the same from both paths."""
        tag = self._tag(path)
        fields = {name: value.replace('"THE TAG"', tag) for name, value in fields.items()}
        for client in self.clients:
            client.settle()
        if any(client.goodbyes for client in self.clients):
            assert all(client.sock.closed for client in self.clients)
            self.connect()
        fast, slow = self.clients
        answers = []
        for client, is_prepared in ((slow, False), (fast, True), (slow, False)):  # the first time, pages of errors are made
            self.prepare(is_prepared)
            stream_id = client.request("GET", path, fields)
            client.exchange_bytes()
            answers.append(client.answers.pop(stream_id))
        if any(answer.status == 0 for answer in answers):  # wrong logins have to wait
            assert not any(answer.status == 200 for answer in answers), path
            self.node.pass_time(60)
            self.connect()
            return b""
        assert answers[1] == answers[2], path
        assert not fast.goodbyes and not slow.goodbyes
        head = "".join(f"{name}: {value}\r\n" for name, value in answers[1].pairs)
        return f"HTTP/1.1 {answers[1].status} \r\n{head}\r\n".encode() + answers[1].body


Output = dict[int, list[Any]]


class RawClient:
    """A client that sends any bytes behind its preface. `output`: what has come, by stream: fields, pieces of data and other frames."""

    def __init__(self, beside: BesideStreams, is_prepared: bool, first: bytes = SETTINGS) -> None:
        self._beside = beside
        self._is_prepared = is_prepared
        self.wire = Wire(beside.node)
        self._decoder = hpack.Decoder()
        self.send(PREFACE + first)

    def send(self, *pieces: bytes) -> None:
        """Each piece is one readable event."""
        self._beside.prepare(self._is_prepared)
        self.wire.send(*pieces)

    @property
    def is_closed(self) -> bool:
        return self.wire.sock.closed

    @property
    def connection(self) -> Any:
        """The server's end."""
        (found,) = [each for each in self._beside.node.connections.open if each.sock is self.wire.sock]
        return found

    def output(self) -> Output:
        """Since the last call. Streams beside each other may come in any order; PING and the like have 0."""
        found: Output = {}
        block = b""
        for kind, flags, stream_id, content in iter_frames(self.wire.sock.sent):
            frames = found.setdefault(stream_id, [])
            if kind in (HEADERS, CONTINUATION):
                block += content
                if flags & 4:
                    frames.append((flags & 1, self._decoder.decode(block)))
                    block = b""
            else:
                frames.append((kind, flags, content[4:8] if kind == GOAWAY else content))
        self.wire.sock.sent = b""
        return found


def same_output(beside: BesideStreams, *pieces: bytes, first: bytes = SETTINGS) -> Output:
    """What comes of these bytes, on a connection each, with what is prepared and without: it is the same."""
    told = []
    for is_prepared in (False, True):
        client = RawClient(beside, is_prepared, first)
        client.send(*pieces)
        told.append((client.output(), client.is_closed))
        client.wire.sock.incoming.append(b"")
        if not client.is_closed and client.wire.sock in client.wire._loop.readers:
            client.wire._loop.readers[client.wire.sock]()
        beside.node.settle()
    assert told[0] == told[1]
    return told[0][0]
