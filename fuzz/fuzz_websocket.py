"""WebSocket: any bytes, cut anywhere, mean the same to both lanes, and what wsproto alone makes of them.

The first byte of an input chooses compression and the order of calls, what follows is what a client sends. Invariant, for any bytes:

1. The driver raises nothing. It reports messages and control frames, then perhaps one failure or one close frame; `check()` holds after each call.
2. How the bytes were cut makes no difference, nor whether they go through the express lane.
3. Without compression the events are those of wsproto alone, but for messages that are too large, floods of empty fragments, and a wrong frame whose
   header is not complete yet.
4. No message is larger than allowed, and no more than that is ever collected.
5. What is answered is read by a wsproto client as what it is: pongs, echoed messages, one close frame at the end.
6. The handshake's offers of extensions, any text, are met or not, and nothing else.

Inputs are mutated from `fuzz/corpus/websocket/`, or made of frames, right and wrong.
"""

from __future__ import annotations

import random
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

import wsproto.events
from wsproto.connection import Connection, ConnectionState, ConnectionType

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.runner import mutate, run
from svc.protocol import websocket
from svc.protocol.websocket import (
    CloseReceived,
    DeflateOptions,
    Event,
    PingReceived,
    PongReceived,
    ProtocolFailed,
    WebSocketProtocol,
    WebSocketState,
    negotiate,
)

CORPUS = Path(__file__).parent / "corpus" / "websocket"
LIMIT = 2000
KEY = b"\x37\xfa\x21\x3d"
OFFERS = (
    "permessage-deflate",
    "; ",
    "client_max_window_bits",
    "server_max_window_bits",
    "=",
    "10",
    '"',
    ", ",
    "server_no_context_takeover",
    "\\",
)
TOKENS = (
    *(b"\x81\x80", b"\x01\x80", b"\x80\x80", b"\x88\x82", b"\x89\x80", b"\xc1\x80", b"\xfe\x00\x7e", b"\xff" + b"\0" * 7),
    *(KEY, b"\xed\xa0\x80", b"\x03\xe8"),
)


def agreement(first: int) -> websocket.Agreement | None:
    return negotiate("permessage-deflate; client_max_window_bits", DeflateOptions(context_takeover=bool(first & 2))) if first & 1 else None


class Echo:
    """A peer's bytes through the driver; every message is echoed, every ping and close frame is answered."""

    def __init__(self, first: int, *, slow: bool = False) -> None:
        self.driver = WebSocketProtocol(LIMIT, agreement(first))
        self.events: list[Event] = []
        self.sent = b""
        self.slow = slow  # the express lane is switched off

    def feed(self, data: bytes) -> None:
        driver = self.driver
        lanes = websocket.recognise_message, websocket.recognise_ping
        if self.slow:
            websocket.recognise_message = websocket.recognise_ping = lambda *ignored: None  # type: ignore[assignment]
        try:
            self._take(driver.receive_data(data))
            while driver.is_behind:
                self._take(driver.next_events())
        finally:
            websocket.recognise_message, websocket.recognise_ping = lanes

    def _take(self, events: list[Event]) -> None:
        driver = self.driver
        driver.check()
        assert driver.collected <= LIMIT
        self.events += events
        for event in events:
            kind = type(event)
            if kind is str or kind is bytes:
                if driver.can_send:
                    self.sent += driver.encode(event)  # type: ignore[arg-type]
            elif kind is PingReceived:
                driver.pong(event.payload)  # type: ignore[union-attr]
            elif driver.state is WebSocketState.ENDING and kind is not PongReceived:
                driver.answer_close()
            self.sent += driver.data_to_send()
            driver.check()


def alone(data: bytes) -> tuple[list[Event], bool]:
    """What wsproto makes of it, and whether a limit of ours may have come first."""
    connection = Connection(ConnectionType.SERVER)
    connection.receive_data(data)
    events: list[Event] = []
    collected: list[str | bytes] = []
    empty = 0
    over = False
    for event in connection.events():
        kind = type(event)
        if kind is wsproto.events.TextMessage or kind is wsproto.events.BytesMessage:
            piece = event.data if type(event.data) is str else bytes(event.data)
            collected.append(piece)
            size = sum(len(part.encode() if isinstance(part, str) else part) for part in collected)
            empty += not piece and not event.message_finished
            over = over or size > LIMIT or empty > websocket.EMPTY_FRAGMENTS
            if event.message_finished:
                events.append(piece[:0].join(collected))
                collected, empty = [], 0
        elif kind is wsproto.events.Ping:
            events.append(PingReceived(bytes(event.payload)))
        elif kind is wsproto.events.Pong:
            events.append(PongReceived(bytes(event.payload)))
        elif connection.state is ConnectionState.OPEN:
            events.append(ProtocolFailed(int(event.code), ""))
            break
        else:
            events.append(CloseReceived(int(event.code), event.reason or ""))
    return events, over


def verify_answers(echo: Echo, first: int) -> None:
    """A client that knows no compression reads everything that is not compressed."""
    if first & 1:
        return
    client = Connection(ConnectionType.CLIENT)
    client.receive_data(echo.sent)
    expected: list[object] = []
    for event in echo.events:
        if isinstance(event, str | bytes):
            expected.append(event)
        elif isinstance(event, PingReceived):
            expected.append(event.payload)
        elif isinstance(event, CloseReceived | ProtocolFailed):
            expected.append(event.code)
    found: list[object] = []
    message: str | bytes | None = None
    for answer in client.events():
        kind = type(answer)
        if kind is wsproto.events.TextMessage or kind is wsproto.events.BytesMessage:
            piece = answer.data if type(answer.data) is str else bytes(answer.data)
            message = piece if message is None else message + piece
            if answer.message_finished:
                found.append(message)
                message = None
        elif kind is wsproto.events.Pong:
            found.append(bytes(answer.payload))
        else:
            assert kind is wsproto.events.CloseConnection, answer
            found.append(int(answer.code))
    assert found == expected, (found, expected)


def check(data: bytes) -> None:
    """The whole invariant."""
    if not data:
        return
    first, sent = data[0], data[1:]
    whole = Echo(first)
    whole.feed(sent)
    source = random.Random(data)
    for slow in (False, True):
        other = Echo(first, slow=slow)
        place = 0
        while place < len(sent):
            step = source.choice((1, 1, 2, 5, 20, 200))
            other.feed(sent[place : place + step])
            place += step
        assert other.events == whole.events, (slow, other.events, whole.events)
        assert other.sent == whole.sent
    for event in whole.events:
        if isinstance(event, str | bytes):
            assert len(event.encode() if isinstance(event, str) else event) <= LIMIT
    for event in whole.events[:-1]:
        assert not isinstance(event, ProtocolFailed | CloseReceived), "something follows the end"
    if not first & 1:
        events, over = alone(sent)
        ours = [ProtocolFailed(event.code, "") if isinstance(event, ProtocolFailed) else event for event in whole.events]
        if ours and isinstance(ours[-1], ProtocolFailed) and ours[-1].code in (1008, 1009):
            assert ours[:-1] == events[: len(ours) - 1]
        elif whole.driver._held and events and isinstance(events[-1], ProtocolFailed):
            assert ours == events[:-1]
        else:
            assert ours == events and not over, (ours, events)
    verify_answers(whole, first)
    verify_offers(sent)


def verify_offers(data: bytes) -> None:
    text = "".join(OFFERS[byte % len(OFFERS)] if byte < 200 else chr(byte) for byte in data[:40])
    for offers in (text, data[:200].decode("latin-1")):
        found = negotiate(offers, DeflateOptions())
        assert found is None or (9 <= found.server_bits <= 12 and 8 <= found.client_bits <= 15), offers


def frame(source: random.Random, compressed: bool) -> bytes:
    """One frame, mostly right."""
    opcode = source.choice((0, 0, 1, 1, 1, 2, 2, 9, 10, 8, source.randrange(16)))
    payload = source.choice(
        (b"", b"x", "äö€😀".encode(), source.randbytes(source.randrange(30)), b"y" * source.choice((125, 126, 300, 1990)))
    )
    if opcode == 8:
        payload = source.choice((b"", b"\x03\xe8bye", source.randbytes(2), b"\x0f\xa0"))
    rsv = 0
    if compressed and opcode in (1, 2) and source.random() < 0.7:
        if source.random() < 0.1:
            payload = b"\0" * source.choice((3000, 500_000))
        compressor = zlib.compressobj(6, zlib.DEFLATED, -12)
        payload = (compressor.compress(payload) + compressor.flush(zlib.Z_SYNC_FLUSH))[:-4]
        rsv = 4
    if opcode >= 8:
        payload = payload[:125]
    if source.random() < 0.03:
        rsv = source.randrange(8)
    fin = opcode >= 8 or source.random() < 0.6
    masked = source.random() < 0.98
    length = len(payload)
    head = bytes([fin << 7 | rsv << 4 | opcode])
    mask = masked << 7
    if length < 126 and source.random() < 0.98:
        head += bytes([mask | length])
    elif length < 1 << 16 and source.random() < 0.98:
        head += bytes([mask | 126]) + length.to_bytes(2)
    else:
        head += bytes([mask | 127]) + length.to_bytes(8)
    if not masked:
        return head + payload
    key = source.choice((KEY, b"\0\0\0\0"))
    return head + key + bytes(byte ^ key[place % 4] for place, byte in enumerate(payload))


def generate(source: random.Random, corpus: Sequence[bytes]) -> bytes:
    if corpus and source.random() < 0.4:
        return mutate(source, source.choice(corpus), TOKENS)
    first = source.randrange(4)
    sent = b"".join(frame(source, bool(first & 1)) * source.choice((1, 1, 1, 1, 3, 130)) for _ in range(source.randrange(1, 7)))
    if source.random() < 0.3:
        sent = mutate(source, sent, TOKENS)
    return bytes([first]) + sent[:20_000]


if __name__ == "__main__":
    raise SystemExit(run("websocket", generate, check, CORPUS))
