"""What the modules around h2 remember is bounded, whatever a peer or an application makes up."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import hpack
import pytest
from h2.settings import SettingCodes, Settings

from svc.errors import PeerError
from svc.protocol import http2_fields, http2_head
from svc.protocol.events import RequestReceived
from svc.protocol.http1 import Limits
from svc.protocol.http2 import Http2
from svc.protocol.http2_fields import (
    KNOWN_BLOCK_SIZE_MAX,
    KNOWN_BLOCKS_MAX,
    KNOWN_TEXTS_MAX,
    TABLE_SIZE,
    CompressionFailed,
    FieldDecoder,
    FieldEncoder,
)
from svc.protocol.http2_frames import PREFACE, encode_settings
from svc.protocol.http2_head import HeadCache, interpret_head
from svc.protocol.http2_setup import PeerSettings
from svc.protocol.http2_stream import Stream
from tests.support.http2 import ClientEnd

HEAD = [(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/")]


def test_heads() -> None:
    cache = HeadCache(max_entries=10, max_weight=20_000)
    first = interpret_head(HEAD, cache)[1]
    for number in range(100):
        interpret_head([*HEAD, (b"x", b"%d" % number)], cache)
        assert interpret_head([*HEAD[:3], (b":path", b"/%d" % number)], cache)[1] is first, "one in use was forgotten"
        assert len(cache) <= 20
    for number in range(100):
        interpret_head([*HEAD, (b"x", b"y" * 2000), (b"z", b"%d" % number)], cache)
        assert len(cache) <= 8
    size = len(cache)
    interpret_head([*HEAD, (b"x", b"y" * (http2_head.HEAD_SIZE_MAX + 1))], cache)
    assert len(cache) == size


def test_a_head_that_is_wrong_is_not_remembered() -> None:
    cache = HeadCache()
    for _ in range(2):
        with pytest.raises(PeerError):
            interpret_head([*HEAD, (b"connection", b"x")], cache)
    assert len(cache) == 0


def test_blocks() -> None:
    decoder = FieldDecoder(1 << 16)
    for number in range(KNOWN_BLOCKS_MAX * 2):
        block = b"\x00\x01x\x03%03d" % number
        fields = decoder.decode(block)[0][1]
        assert fields.pairs == [(b"x", b"%03d" % number)]
        assert len(decoder._known) <= KNOWN_BLOCKS_MAX
    known = b"\x00\x01x\x03000"
    assert decoder.decode(known)[0][1] is decoder.decode(known)[0][1]
    decoder.decode(b"\x40\x01y\x01z")
    assert not decoder._known, "a block may mean something else now"
    long = b"\x00\x01x\x7f\xb4\x01" + b"v" * 307
    assert len(long) > KNOWN_BLOCK_SIZE_MAX
    decoder.decode(long)
    assert not decoder._known


def test_texts() -> None:
    encoder, decoder = hpack.Encoder(), FieldDecoder(1 << 16)
    for number in range(KNOWN_TEXTS_MAX + 10):
        text = f"{number}-aeiou"
        assert decoder.decode(encoder.encode([("x", text, True)]))[0][1].pairs[-1] == (b"x", text.encode())
    assert len(http2_fields._TEXTS) <= KNOWN_TEXTS_MAX


def test_the_table_of_the_encoder() -> None:
    encoder = FieldEncoder()
    for number in range(1000):
        pairs, _ = encoder.check([("X-Number", str(number)), ("X-Long", "y" * 5000), ("ETag", str(number))])
        encoder.load(200, pairs)
        encoder.encode(())
        assert encoder._size <= TABLE_SIZE
        assert len(encoder._entries) == len(encoder._numbers) <= TABLE_SIZE // 32
        assert len(encoder._names) <= len(encoder._entries)
    encoder.header_table_size = 1 << 30
    assert encoder.header_table_size == TABLE_SIZE
    encoder.header_table_size = 0
    assert not encoder._entries and not encoder._numbers and not encoder._names


def test_names_of_fields() -> None:
    encoder = FieldEncoder()
    for number in range(2000):
        encoder.check([(f"x-made-up-{number}", "1")])
    assert len(http2_fields._NAMES) <= http2_fields._NAMES_MAX + 2


@pytest.mark.parametrize(
    "block",
    [
        b"\x80",
        b"\xbe",
        b"\xff\xff\xff\xff\xff\xff\xff",
        b"\x40",
        b"\x40\x05ab",
        b"\x00\x01x\x81\xff",
        b"\x3f\xe2\x1f",
        b"\x82\x20",
        b"\x7f",
    ],
)
def test_what_cannot_be_decoded(block: bytes) -> None:
    with pytest.raises(CompressionFailed):
        FieldDecoder(1 << 16).decode(block)


def hold(count: int, make: Callable[[], object]) -> float:
    """Bytes that each of so many objects takes."""
    make()
    gc.collect()
    tracemalloc.start(1)
    try:
        made = [make() for _ in range(count)]
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / len(made)
    finally:
        tracemalloc.stop()


def test_a_connection_between_two_requests() -> None:
    request = ClientEnd()
    request.request("GET", "/")
    data = request.data_to_send()

    def ask() -> Http2:
        driver = Http2(Limits())
        (event,) = driver.receive_data(data)
        assert type(event) is RequestReceived
        driver.respond(event.stream_id, 200, [("Content-Type", "text/plain")], b"x" * 1000, "Sun, 06 Nov 1994 08:49:37 GMT")
        driver.data_to_send()
        driver.finished.clear()
        return driver

    assert hold(50, ask) < 8000


def test_settings_that_a_peer_makes_up() -> None:
    driver = Http2(Limits())
    driver.receive_data(PREFACE + encode_settings({}))
    driver.data_to_send()

    def flood() -> None:
        for first in range(0x100, 0x1100, 512):
            driver.receive_data(encode_settings(dict.fromkeys(range(first, first + 512), 1)))
            driver.data_to_send()

    assert hold(1, flood) < 50_000
    assert not driver.should_close


def test_settings_of_the_peer() -> None:
    settings = PeerSettings()
    assert dict(settings) == dict(Settings(client=True))
    assert len(settings) == len(Settings(client=True))
    settings[SettingCodes.INITIAL_WINDOW_SIZE] = 5
    settings[SettingCodes.MAX_CONCURRENT_STREAMS] = 7
    settings[0x1234] = 9
    assert settings.initial_window_size == 65535, "not in force yet"
    changed = settings.acknowledge()
    assert [(change.setting, change.original_value, change.new_value) for change in changed.values()] == [(4, 65535, 5), (3, None, 7)]
    assert (settings.initial_window_size, settings.max_concurrent_streams, settings.get(0x1234)) == (5, 7, None)
    assert settings.acknowledge() == {}
    assert PeerSettings().initial_window_size == 65535, "the defaults are shared, and did not change"
    with pytest.raises(NotImplementedError):
        del settings[SettingCodes.INITIAL_WINDOW_SIZE]


def test_an_answer_is_taken_in_pieces_of_any_size() -> None:
    stream = Stream(1, False, True, None)
    for piece in (b"abc", b"", b"defgh", b"i"):
        stream.put(piece)
    assert [stream.take(size) for size in (2, 1, 4, 5)] == [b"ab", b"c", b"defg", b"hi"]
    assert (stream.buffered, stream.sent, stream.take(3)) == (0, 9, b"")
