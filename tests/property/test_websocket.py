"""WebSocket: bytes cut anywhere mean the same; the express lane says what wsproto says; what one side encodes the other decodes."""

from __future__ import annotations

import zlib
from itertools import pairwise

import wsproto.events
from hypothesis import given
from hypothesis import strategies as st
from wsproto.connection import Connection, ConnectionState, ConnectionType

from svc.protocol.websocket import (
    CloseReceived,
    DeflateOptions,
    Event,
    PingReceived,
    PongReceived,
    ProtocolFailed,
    WebSocketProtocol,
    encode_frame,
    negotiate,
)
from svc.protocol.websocket_express import recognise_message, recognise_ping
from tests.support.websocket_frames import close, frame, more, ping, pong

LIMIT = 400
AGREEMENT = negotiate("permessage-deflate; client_max_window_bits", DeflateOptions())

texts = st.text(max_size=200)
payloads = st.one_of(st.binary(max_size=200), texts.map(str.encode), st.integers(120, 260).map(lambda size: b"x" * size))
keys = st.one_of(st.binary(min_size=4, max_size=4), st.just(b"\0\0\0\0"))


@st.composite
def any_frame(draw: st.DrawFn) -> bytes:
    """Mostly right."""
    payload = draw(payloads)
    if draw(st.integers(0, 3)):
        opcode = draw(st.sampled_from((1, 1, 2, 2, 9, 10)))
        return frame(opcode, payload[: 125 if opcode > 8 else None], key=draw(keys), fin=opcode > 8 or draw(st.integers(0, 4)) > 0)
    form = draw(st.sampled_from([form for form, least in ((0, 0), (2, 0), (8, 0)) if form or (len(payload) < 126 and least == 0)]))
    return frame(
        draw(st.integers(0, 15)),
        payload,
        fin=draw(st.booleans()),
        rsv=draw(st.sampled_from((0, 0, 0, 4, 2, 1))),
        key=draw(st.one_of(keys, keys, keys, st.none())),
        form=form,
    )


@st.composite
def message(draw: st.DrawFn, compressed: bool = False) -> bytes:
    """A message in fragments, with control frames between."""
    payload = draw(payloads)
    opcode = 1 if draw(st.booleans()) else 2
    rsv = 0
    if compressed and draw(st.booleans()):
        compressor = zlib.compressobj(6, zlib.DEFLATED, -12)
        payload = (compressor.compress(payload) + compressor.flush(zlib.Z_SYNC_FLUSH))[:-4]
        rsv = 4
    places = sorted(draw(st.lists(st.integers(0, len(payload)), max_size=4)))
    pieces = [payload[start:end] for start, end in zip([0, *places], [*places, len(payload)], strict=True)]
    sent = b""
    for number, piece in enumerate(pieces):
        fin = number == len(pieces) - 1
        sent += frame(opcode, piece, fin=fin, rsv=rsv) if number == 0 else more(piece, fin=fin)
        if not fin and draw(st.booleans()):
            sent += draw(st.sampled_from((ping(b"p"), pong(b"q"))))
    return sent


streams = st.lists(st.one_of(message(), any_frame(), st.sampled_from((close(1000, "x"), close(None), close(1005)))), max_size=6).map(
    b"".join
)
compressed_streams = st.lists(st.one_of(message(compressed=True), message(compressed=True), any_frame()), max_size=5).map(b"".join)
cuts = st.lists(st.integers(0, 1000), max_size=8)


def pieces_of(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


def received(driver: WebSocketProtocol, pieces: list[bytes]) -> list[Event]:
    events: list[Event] = []
    for piece in pieces:
        events += driver.receive_data(piece)
        driver.check()
        while driver.is_behind:
            events += driver.next_events()
    return events


def wsproto_alone(data: bytes) -> list[Event]:
    """What wsproto says of the same bytes."""
    connection = Connection(ConnectionType.SERVER)
    connection.receive_data(data)
    events: list[Event] = []
    collected: list[str | bytes] = []
    for event in connection.events():
        if isinstance(event, wsproto.events.TextMessage | wsproto.events.BytesMessage):
            collected.append(event.data if isinstance(event.data, str) else bytes(event.data))
            if event.message_finished:
                events.append(collected[0][:0].join(collected))  # type: ignore[arg-type]
                collected = []
        elif isinstance(event, wsproto.events.Ping):
            events.append(PingReceived(bytes(event.payload)))
        elif isinstance(event, wsproto.events.Pong):
            events.append(PongReceived(bytes(event.payload)))
        elif isinstance(event, wsproto.events.CloseConnection):
            if connection.state is ConnectionState.OPEN:
                events.append(ProtocolFailed(int(event.code), ""))
                break
            events.append(CloseReceived(int(event.code), event.reason or ""))
    return events


def without_reasons(events: list[Event]) -> list[Event]:
    return [ProtocolFailed(event.code, "") if isinstance(event, ProtocolFailed) else event for event in events]


@given(streams)
def test_both_lanes_together_say_what_wsproto_alone_says(data: bytes) -> None:
    assert without_reasons(received(WebSocketProtocol(), [data])) == wsproto_alone(data)


@given(any_frame(), st.binary(max_size=5))
def test_the_express_lane_declines_or_agrees(data: bytes, after: bytes) -> None:
    found = recognise_message(data + after, 0, 1000)
    if found is not None:
        assert wsproto_alone(data + after)[0] == found[0]
        assert found[1] == len(data)
        assert wsproto_alone((data + after)[: found[1]]) == [found[0]]
    control = recognise_ping(data + after, 0)
    if control is not None:
        assert found is None
        opcode, payload, stop = control
        assert wsproto_alone((data + after)[:stop]) == [PingReceived(payload) if opcode == 9 else PongReceived(payload)]


@given(streams, cuts)
def test_however_the_bytes_are_cut(data: bytes, places: list[int]) -> None:
    assert received(WebSocketProtocol(LIMIT), pieces_of(data, places)) == received(WebSocketProtocol(LIMIT), [data])


@given(compressed_streams, cuts)
def test_however_compressed_bytes_are_cut(data: bytes, places: list[int]) -> None:
    assert received(WebSocketProtocol(LIMIT, AGREEMENT), pieces_of(data, places)) == received(WebSocketProtocol(LIMIT, AGREEMENT), [data])


@given(st.binary(max_size=300), cuts, st.booleans())
def test_any_bytes(data: bytes, places: list[int], compressed: bool) -> None:
    agreement = AGREEMENT if compressed else None
    events = received(WebSocketProtocol(LIMIT, agreement), pieces_of(data, places))
    assert events == received(WebSocketProtocol(LIMIT, agreement), [data])
    assert all(not isinstance(event, ProtocolFailed | CloseReceived) for event in events[:-1])


@given(st.lists(st.one_of(texts, st.binary(max_size=300), st.integers(65500, 65600).map(lambda size: "é" * size)), max_size=5))
def test_a_client_reads_what_we_encode(messages: list[str | bytes]) -> None:
    client = Connection(ConnectionType.CLIENT)
    client.receive_data(b"".join(encode_frame(message) for message in messages))
    assert [event.data for event in client.events()] == messages  # type: ignore[attr-defined]


@given(st.lists(st.one_of(texts, st.binary(max_size=300)), max_size=5), st.integers(0, 50))
def test_we_read_what_a_client_encodes(messages: list[str | bytes], size: int) -> None:
    client = Connection(ConnectionType.CLIENT)
    sent = b""
    for item in messages:
        for place in range(0, max(len(item), 1), size + 1):
            part = item[place : place + size + 1]
            is_last = place + size + 1 >= len(item)
            event = (
                wsproto.events.TextMessage(part, message_finished=is_last)
                if isinstance(part, str)
                else wsproto.events.BytesMessage(part, message_finished=is_last)
            )
            sent += client.send(event)
    assert received(WebSocketProtocol(), [sent]) == messages
