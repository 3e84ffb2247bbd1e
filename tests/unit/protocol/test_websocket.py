"""The driver of WebSocket: what it makes of frames, right and wrong, whole and in pieces, and every limit."""

from __future__ import annotations

import random
import struct
import tracemalloc
import zlib

import pytest

from svc.protocol.websocket import (
    EMPTY_FRAGMENTS,
    FRAMES_A_BATCH,
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
from svc.protocol.websocket_states import TRANSITIONS, WebSocketInput
from tests.support.websocket_frames import binary, close, frame, more, parse, ping, pong, text

INVALID = b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80\x65\x64\x69\x74\x65\x64"


def receive(driver: WebSocketProtocol, *pieces: bytes) -> list[Event]:
    events: list[Event] = []
    for piece in pieces:
        events += driver.receive_data(piece)
        driver.check()
        while driver.is_behind:
            events += driver.next_events()
            driver.check()
    return events


def byte_by_byte(data: bytes) -> list[bytes]:
    return [data[place : place + 1] for place in range(len(data))]


CASES: list[tuple[str, bytes, list[Event]]] = [
    ("text", text("Hällo"), ["Hällo"]),
    ("empty text", text(""), [""]),
    ("binary", binary(b"\0\xff"), [b"\0\xff"]),
    ("empty binary", binary(b""), [b""]),
    ("the longest with a short length", text("x" * 125), ["x" * 125]),
    ("the shortest with two bytes", text("x" * 126), ["x" * 126]),
    ("the longest with two bytes", binary(b"y" * 65535), [b"y" * 65535]),
    ("the shortest with eight bytes", binary(b"y" * 65536), [b"y" * 65536]),
    ("a key of zeros", text("abc", key=b"\0\0\0\0"), ["abc"]),
    ("several", text("a") + binary(b"b") + text("c"), ["a", b"b", "c"]),
    ("fragments", text("a", fin=False) + more("b", fin=False) + more("c"), ["abc"]),
    ("a character in two fragments", text(b"\xc3", fin=False) + more(b"\xa4"), ["ä"]),
    ("empty fragments", text("", fin=False) + more("", fin=False) + more(""), [""]),
    ("empty binary fragments", binary(b"", fin=False) + more(b"x", fin=False) + more(b""), [b"x"]),
    (
        "control frames between fragments",
        text("a", fin=False) + ping(b"1") + more("b", fin=False) + pong(b"2") + more("c"),
        [PingReceived(b"1"), PongReceived(b"2"), "abc"],
    ),
    ("ping", ping(b"x" * 125), [PingReceived(b"x" * 125)]),
    ("pong nobody asked for", pong(b""), [PongReceived(b"")]),
    ("close", close(1000, "bye"), [CloseReceived(1000, "bye")]),
    ("close without a code", close(None), [CloseReceived(1005, "")]),
    ("close of an application", close(4999), [CloseReceived(4999, "")]),
    ("nothing after close", close(1001) + text("x"), [CloseReceived(1001, "")]),
    ("close between fragments", text("a", fin=False) + close(1000) + more("b"), [CloseReceived(1000, "")]),
]


@pytest.mark.parametrize(("sent", "events"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_is_received_whole_and_in_pieces(sent: bytes, events: list[Event]) -> None:
    assert receive(WebSocketProtocol(), sent) == events
    if len(sent) < 1000:
        assert receive(WebSocketProtocol(), *byte_by_byte(sent)) == events
        assert receive(WebSocketProtocol(), text("before") + sent) == ["before", *events]


WRONG: list[tuple[str, bytes, int]] = [
    ("not masked", text("a", key=None), 1002),
    ("RSV1 without compression", text("a", rsv=4), 1002),
    ("RSV2", text("a", rsv=2), 1002),
    ("RSV3", binary(b"a", rsv=1), 1002),
    ("RSV1 on a ping", ping(b"", rsv=4), 1002),
    *[(f"opcode {opcode}", frame(opcode, b"a"), 1002) for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)],
    ("a ping in fragments", ping(b"a", fin=False), 1002),
    ("a long ping", ping(b"x" * 126), 1002),
    ("a long close", close(1000, "x" * 124), 1002),
    ("two bytes for a short length", text("a", form=2), 1002),
    ("eight bytes for a short length", text("a", form=8), 1002),
    ("eight bytes for a medium length", text("a" * 200, form=8), 1002),
    ("the highest bit of a length", bytes([0x82, 0xFF]) + b"\xff" * 8 + b"abcd", 1002),
    ("continuation of nothing", more("a"), 1002),
    ("a new message between fragments", text("a", fin=False) + text("b"), 1002),
    ("a close frame of one byte", frame(8, b"\x03"), 1002),
    *[(f"close {code}", close(code), 1002) for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535)],
    ("a reason that is no UTF-8", close(1000, INVALID), 1007),
    ("text that is no UTF-8", text(INVALID), 1007),
    ("a half character at the end", text(b"\xc3"), 1007),
    ("a half character at the end of fragments", text(b"a", fin=False) + more(b"\xc3"), 1007),
    ("no UTF-8 in a fragment", text(b"a", fin=False) + more(INVALID, fin=False), 1007),
]


@pytest.mark.parametrize(("sent", "code"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_what_is_wrong_fails_with_its_code_and_nothing_follows(sent: bytes, code: int) -> None:
    for pieces in ([text("before") + sent + text("after")], [text("before"), *byte_by_byte(sent), text("after")]):
        driver = WebSocketProtocol()
        before, failed = receive(driver, *pieces)
        assert before == "before"
        assert isinstance(failed, ProtocolFailed) and failed.code == code and failed.reason
        assert driver.can_send  # an answer to what came before
        driver.answer_close()
        [(first, payload)] = parse(driver.data_to_send())
        assert first == 0x88 and struct.unpack("!H", payload[:2])[0] == code
        assert driver.state is WebSocketState.CLOSED and not driver.can_send


def test_bad_utf8_is_found_before_the_message_is_complete() -> None:
    driver = WebSocketProtocol()
    [failed] = receive(driver, text(INVALID + b"x" * 200)[: 8 + len(INVALID)])
    assert failed == ProtocolFailed(1007, "Invalid data")


@pytest.mark.parametrize("code", [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 3000, 3999, 4000, 4999])
def test_a_close_frame_is_answered_with_its_code(code: int) -> None:
    driver = WebSocketProtocol()
    assert receive(driver, close(code, "x")) == [CloseReceived(code, "x")]
    assert driver.data_to_send() == b""
    driver.answer_close()
    assert parse(driver.data_to_send()) == [(0x88, struct.pack("!H", code))]


def test_a_close_frame_without_code_is_answered_without() -> None:
    driver = WebSocketProtocol()
    receive(driver, close(None))
    driver.answer_close()
    assert parse(driver.data_to_send()) == [(0x88, b"")]


def test_our_close_frame_is_the_last_thing_said() -> None:
    driver = WebSocketProtocol()
    driver.close(3003, "é" * 200)
    assert parse(driver.data_to_send()) == [(0x88, struct.pack("!H", 3003) + "é".encode() * 61)]
    assert not driver.can_send
    assert receive(driver, text("late") + ping(b"?") + text("a", fin=False)) == [PingReceived(b"?")]
    driver.pong(b"?")
    driver.ping()
    assert driver.data_to_send() == b""
    assert receive(driver, more("b") + close(3003)) == [CloseReceived(3003, "")]
    assert driver.state is WebSocketState.CLOSED
    assert driver.data_to_send() == b""


def test_what_is_wrong_while_closing_ends_it() -> None:
    driver = WebSocketProtocol()
    driver.close()
    driver.data_to_send()
    [failed] = receive(driver, frame(3))
    assert isinstance(failed, ProtocolFailed)
    assert driver.state is WebSocketState.CLOSED
    assert driver.data_to_send() == b""


@pytest.mark.parametrize("code", [0, 999, 1004, 1006, 1010, 1015, 1016, 2999, 5000])
def test_codes_that_may_not_be_sent(code: int) -> None:
    driver = WebSocketProtocol()
    with pytest.raises(ValueError, match="is not a code"):
        driver.close(code)
    assert driver.state is WebSocketState.OPEN
    assert driver.data_to_send() == b""


def test_end_of_input() -> None:
    for sent in (b"", text("abc")[:4], text("a", fin=False), close()):
        driver = WebSocketProtocol()
        receive(driver, sent)
        driver.receive_eof()
        assert driver.state is WebSocketState.CLOSED
        driver.check()
        driver.receive_eof()


def test_every_state_and_input() -> None:
    """What is not in the table is our own mistake and does not pass silently."""
    for state in WebSocketState:
        for input in WebSocketInput:
            driver = WebSocketProtocol()
            driver.state = state
            expected = TRANSITIONS[state].get(input)
            if expected is None:
                with pytest.raises(AssertionError):
                    driver._advance(input)
            else:
                driver._advance(input)
                assert driver.state is expected
    reached = {WebSocketState.OPEN} | {after for row in TRANSITIONS.values() for after in row.values()}
    assert reached == set(WebSocketState) - {WebSocketState.ERROR}


# --- limits ------------------------------------------------------------------------------------------------------------------------


def test_a_payload_is_as_large_as_allowed_and_no_larger() -> None:
    for make in (lambda size: binary(b"x" * size), lambda size: binary(b"x" * (size - 50), fin=False) + more(b"x" * 50)):
        assert receive(WebSocketProtocol(1000), make(1000)) == [b"x" * 1000]
        for pieces in ([make(1001)], byte_by_byte(make(1001))):
            driver = WebSocketProtocol(1000)
            assert receive(driver, *pieces) == [ProtocolFailed(1009, "A message may have 1000 bytes")]
            assert driver.collected == 0


def test_another_limit_holds_for_the_messages_that_come() -> None:
    for agreement in (None, negotiate("permessage-deflate", DeflateOptions())):
        driver = WebSocketProtocol(5000, agreement)
        assert receive(driver, binary(b"x" * 2000)) == [b"x" * 2000]
        driver.limit(1000)
        assert receive(driver, binary(b"x" * 1000)) == [b"x" * 1000]
        [failed] = receive(driver, bytes([0x82, 0xFE]) + struct.pack("!H", 1001) + b"abcd")
        assert isinstance(failed, ProtocolFailed) and failed.code == 1009
    agreement = negotiate("permessage-deflate", DeflateOptions())
    driver = WebSocketProtocol(5000, agreement)
    driver.limit(1000)
    packer = zlib.compressobj(wbits=-12)
    packed = packer.compress(b"x" * 1001) + packer.flush(zlib.Z_SYNC_FLUSH)
    [failed] = receive(driver, binary(packed[:-4], rsv=4))
    assert isinstance(failed, ProtocolFailed) and failed.code == 1009


@pytest.mark.parametrize("size", [100 * 1024 * 1024 + 1, 1 << 40, (1 << 63) - 1])
def test_a_header_alone_is_refused(size: int) -> None:
    head = bytes([0x82, 0xFF]) + struct.pack("!Q", size) + b"abcd"
    assert receive(WebSocketProtocol(), head) == [ProtocolFailed(1009, "A message may have 104857600 bytes")]


def test_a_header_is_judged_before_its_length() -> None:
    [failed] = receive(WebSocketProtocol(1000), binary(b"x" * 2000, rsv=2))
    assert isinstance(failed, ProtocolFailed) and failed.code == 1002


def test_a_promised_message_costs_nothing_until_it_comes() -> None:
    driver = WebSocketProtocol()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        receive(driver, bytes([0x82, 0xFF]) + struct.pack("!Q", 100 << 20) + b"abcd" + b"x" * 1000)
        assert driver.collected == 1000
        assert tracemalloc.get_traced_memory()[0] - before < 50_000
    finally:
        tracemalloc.stop()


def test_a_message_in_tiny_pieces_takes_no_more_memory_than_it_has_bytes() -> None:
    driver = WebSocketProtocol()
    message = ("é" * 5_000).encode()
    sent = text(message)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for place in range(len(sent) - 1):
            driver.receive_data(sent[place : place + 1])
        assert tracemalloc.get_traced_memory()[0] - before < 2 * len(message) + 20_000
    finally:
        tracemalloc.stop()
    assert receive(driver, sent[-1:]) == ["é" * 5_000]


def test_empty_fragments_are_counted() -> None:
    start = text("a", fin=False)
    assert receive(WebSocketProtocol(), start + more("", fin=False) * EMPTY_FRAGMENTS + more("b")) == ["ab"]
    flood = start + more("", fin=False) * (EMPTY_FRAGMENTS + 1)
    assert receive(WebSocketProtocol(), flood) == [ProtocolFailed(1008, "Too many empty fragments")]
    two = (start + more("", fin=False) * EMPTY_FRAGMENTS + more("b")) * 2
    assert receive(WebSocketProtocol(), two) == ["ab", "ab"]  # each message begins anew


@pytest.mark.parametrize("one", [text("x"), ping(), more("x", fin=False), text("x" * 200, fin=True)])
def test_one_call_does_a_bounded_amount_of_work(one: bytes) -> None:
    driver = WebSocketProtocol()
    sent = (text("", fin=False) if one[0] & 0x0F == 0 else b"") + one * (FRAMES_A_BATCH * 2 + FRAMES_A_BATCH // 3)
    events = driver.receive_data(sent)
    batches = 1
    assert driver.is_behind
    while driver.is_behind:
        assert len(events) <= FRAMES_A_BATCH
        driver.check()
        events = driver.next_events()
        batches += 1
    assert batches == 3
    assert driver.next_events() == []


def test_a_peer_that_does_not_listen_has_only_its_last_ping_answered() -> None:
    driver = WebSocketProtocol()
    driver.pong(b"0")
    driver.holds_pongs = True
    for number in range(1000):
        driver.pong(b"%d" % number)
    assert parse(driver.data_to_send()) == [(0x8A, b"0")]
    driver.release_pongs()
    assert parse(driver.data_to_send()) == [(0x8A, b"999")]
    driver.holds_pongs = True
    driver.release_pongs()
    assert driver.data_to_send() == b""


# --- memory between messages ---------------------------------------------------------------------------------------------------------


def test_wsproto_is_there_only_while_it_is_needed() -> None:
    driver = WebSocketProtocol()
    receive(driver, text("a"))
    assert driver._wsproto is None
    receive(driver, text("a", fin=False))
    assert driver._wsproto is not None
    receive(driver, ping() + more("b"))
    assert driver._wsproto is None
    receive(driver, text("abc")[:-1])
    assert driver._wsproto is not None
    receive(driver, text("abc")[-1:] + text("d")[:3])
    assert driver._wsproto is None


# --- compression -----------------------------------------------------------------------------------------------------------------


def deflated(payload: bytes, bits: int = 12) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -bits)
    return (compressor.compress(payload) + compressor.flush(zlib.Z_SYNC_FLUSH))[:-4]


def compressing(max_payload: int = 1 << 20, options: DeflateOptions | None = None) -> WebSocketProtocol:
    agreement = negotiate("permessage-deflate; client_max_window_bits", options or DeflateOptions())
    assert agreement is not None
    return WebSocketProtocol(max_payload, agreement)


@pytest.mark.parametrize(
    ("sent", "events"),
    [
        (text(deflated(b"Hello"), rsv=4), ["Hello"]),
        (text("plain"), ["plain"]),
        (binary(deflated(b"\0" * 5000), rsv=4), [b"\0" * 5000]),
        (text(deflated(b"a") , rsv=4) + text("b") + text(deflated(b"c"), rsv=4), ["a", "b", "c"]),
        (text(deflated(b"Hello")[:3], rsv=4, fin=False) + ping(b"p") + more(deflated(b"Hello")[3:]), [PingReceived(b"p"), "Hello"]),
        (text(deflated(b"Hello"), rsv=4, fin=False) + more(b""), ["Hello"]),
        (text(b"\x00", rsv=4), [""]),
        (text("a", fin=False) + more("b"), ["ab"]),
        # A block that says it is the last one (RFC 7692 §7.2.3.4), and what follows it.
        (text(b"\xf3\x48\xcd\xc9\xc9\x07\x00\x00", rsv=4) + text("next"), ["Hello", "next"]),
        # A block that is not compressed (§7.2.3.3), and two blocks (§7.2.3.5).
        (text(b"\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00", rsv=4), ["Hello"]),
        (text(b"\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00", rsv=4), ["Hello"]),
    ],
)  # fmt: skip
def test_compressed_messages(sent: bytes, events: list[Event]) -> None:
    assert receive(compressing(), sent) == events
    assert receive(compressing(), *byte_by_byte(sent)) == events


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (text(b"\xff\xff\xff", rsv=4), 1007),
        (text(deflated(INVALID), rsv=4), 1007),
        (text(deflated(b"a"), rsv=4, fin=False) + more(b"b", rsv=4), 1002),
        (ping(b"", rsv=4), 1002),
        (text(deflated(b"a"), rsv=6), 1002),
    ],
)
def test_compressed_messages_that_are_wrong(sent: bytes, code: int) -> None:
    for pieces in ([sent], byte_by_byte(sent)):
        [failed] = receive(compressing(), *pieces)
        assert isinstance(failed, ProtocolFailed) and failed.code == code


def test_a_bomb_is_not_inflated() -> None:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -12)
    bomb = (compressor.compress(b"\0" * (1 << 20)) + compressor.flush(zlib.Z_FULL_FLUSH)) * 100
    driver = compressing(100_000)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        assert receive(driver, binary(bomb[:90_000], rsv=4, fin=False)) == [
            ProtocolFailed(1009, "A message may have 100000 bytes, a compressed one 100 for each that is sent")
        ]
        assert tracemalloc.get_traced_memory()[1] - before < 1_500_000
    finally:
        tracemalloc.stop()


def test_a_compressed_message_is_as_large_as_allowed() -> None:
    for size, expected in (
        (1000, [b"\0" * 1000]),
        (1001, [ProtocolFailed(1009, "A message may have 1000 bytes, a compressed one 100 for each that is sent")]),
    ):
        compressed = deflated(b"\0" * size)
        assert receive(compressing(1000), binary(compressed, rsv=4)) == expected
        halves = binary(compressed[:5], rsv=4, fin=False) + more(compressed[5:])
        assert receive(compressing(1000), halves) == expected


def test_a_compressed_message_is_no_more_than_a_hundred_times_what_was_sent() -> None:
    bomb = deflated(b"\0" * (8 << 20))
    too_big = [ProtocolFailed(1009, f"A message may have {64 << 20} bytes, a compressed one 100 for each that is sent")]
    assert receive(compressing(64 << 20), binary(bomb, rsv=4)) == too_big
    assert receive(compressing(64 << 20), binary(bomb[:3000], rsv=4, fin=False) + more(bomb[3000:])) == too_big
    assert receive(compressing(64 << 20), binary(deflated(b"\0" * (1 << 20)), rsv=4)) == [b"\0" * (1 << 20)]


def test_inflating_much_is_spread_over_batches() -> None:
    driver = compressing(64 << 20)
    noise = random.Random(1)
    sent = binary(deflated(b"".join([noise.randbytes(32) + bytes(992) for _ in range(16 << 10)])), rsv=4)
    events = driver.receive_data(sent)
    batches = 1
    while driver.is_behind:
        events += driver.next_events()
        batches += 1
    assert batches >= 4
    assert [len(event) for event in events] == [16 << 20]  # type: ignore[arg-type]


def test_what_we_compress_is_smaller_and_the_rest_goes_as_it_is() -> None:
    driver = compressing()
    for message in ("x" * 1000, b"y" * 1000):
        [(first, payload)] = parse(driver.encode(message))
        assert first == (0xC1 if isinstance(message, str) else 0xC2)
        inflated = zlib.decompress(payload + b"\0\0\xff\xff\x03\0", -12)
        assert inflated == (message.encode() if isinstance(message, str) else message)
    assert parse(driver.encode("short")) == [(0x81, b"short")]
    noise = random.Random(1).randbytes(1000)
    [(first, payload)] = parse(driver.encode(noise))
    assert first == 0x82 and payload == noise


def test_with_context_takeover_later_messages_refer_to_earlier_ones() -> None:
    driver = compressing(options=DeflateOptions(context_takeover=True))
    message = "".join(chr(33 + n * 31 % 90) for n in range(500))
    sizes, inflater = [], zlib.decompressobj(-12)
    for _ in range(3):
        [(first, payload)] = parse(driver.encode(message))
        assert first == 0xC1
        assert inflater.decompress(payload + b"\0\0\xff\xff").decode() == message
        sizes.append(len(payload))
    assert sizes[1] < sizes[0] / 3
