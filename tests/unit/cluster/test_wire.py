"""svc.cluster.wire: headers and bodies byte by byte, whole, cut, and with something behind them."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest
from zstandard import ZstdCompressor

from svc.cluster.wire import (
    CHUNK,
    COMPRESS_ABOVE,
    MAX_BODY,
    MAX_LSN,
    MAX_NAMES,
    Body,
    Head,
    Message,
    UnknownFormat,
    WireError,
    decode_body,
    decode_entry,
    encode_body,
    encode_entry,
    read_head,
)
from svc.errors import PeerError
from svc.store.log.entries import DELETE, MESSAGE, PUT
from svc.store.values.keys import encode_key
from svc.store.values.records import encode
from svc.store.writing.remote_transaction import RemoteEntry, RemoteTransaction
from tests.support.wire import INCARNATION

ENTRY = RemoteEntry(PUT, "Item", encode_key("A"), encode({"id": "A"}, 3.5, 7, None), ("id",))
TRANSACTION = RemoteTransaction(7, 7, 3.5, 2.5, "anna", 1, None, [ENTRY])
HEADERS = {"F": "1", "L": "7", "P": "5", "I": "0001020304050607"}
BODY = bytes.fromhex(
    "92"  # a body without a piece
    "80"  # no definitions
    "91 98"  # one transaction
    "07 07"  # LSNs
    "cb 400c000000000000 cb 4004000000000000"  # version, wall time
    "a4 616e6e61 01 c0"  # anna, insert, no trace
    "91 95"  # one entry
    "01 a4 4974656d"  # put, Item
    "c4 03 104100"  # key "A"
    "c4 17 10 400c000000000000 0000000000000007 81 a2 6964 a1 41"  # {"id": "A"}
    "91 a2 6964"  # changed: id
)
FULL = RemoteTransaction(7, 9, 3.5, 2.5, None, 3, bytes(range(16)), [ENTRY, RemoteEntry(MESSAGE, "T", b"", None, (), b"mqtt"), ENTRY])
FULL_ENTRY = bytes.fromhex("96 04 a1 54 c4 00 c0 90 c4 04 6d717474")


def tuples(transaction: RemoteTransaction) -> tuple[Any, ...]:
    """As a packer has it: an entry without a message of MQTT has five places."""
    *head, entries = msgspec.structs.astuple(transaction)
    return *head, [msgspec.structs.astuple(entry)[: 5 if entry.mqtt is None else 6] for entry in entries]


def test_the_format() -> None:
    assert Message(7, 5, INCARNATION, body=BODY).headers() == HEADERS
    assert read_head(HEADERS) == Head(7, 5, INCARNATION)
    assert encode_body({}, [tuples(TRANSACTION)]) == BODY
    assert decode_body(BODY) == (Body({}, [TRANSACTION]), len(BODY))
    assert encode_entry(FULL.entries[1]) == FULL_ENTRY
    assert decode_entry(FULL_ENTRY) == FULL.entries[1]


def test_the_format_with_everything() -> None:
    data = encode_body({"Item": b"a definition"}, [tuples(FULL)], b"piece", 300)
    assert data.startswith(bytes.fromhex("94 81 a4 4974656d c4 0c") + b"a definition" + bytes.fromhex("91 98 07 09"))
    assert data.endswith(bytes.fromhex("c4 05") + b"piece" + bytes.fromhex("cd 012c"))
    assert FULL_ENTRY in data
    assert decode_body(data)[0] == Body({"Item": b"a definition"}, [FULL], b"piece", 300)


@pytest.mark.parametrize(
    ("head", "chunk"),
    [((5, 5, INCARNATION, 1), "1"), ((5, 5, INCARNATION, 12), "12"), ((9, 5, INCARNATION, 13, 13), "13/13"), ((5, 5, INCARNATION), None)],
)
def test_headers_of_chunks(head: tuple[Any, ...], chunk: str | None) -> None:
    headers = Message(*head).headers()
    assert headers.get("C") == chunk
    assert read_head(headers | {"Nats-Msg-Id": "x"}) == Head(*head)


@pytest.mark.parametrize(
    "changes",
    [
        *({name: None} for name in "FLPI"),
        *(
            {name: value}
            for name in "LP"
            for value in ("", "-1", "+1", "01", "1.0", " 7", "7\n", "٣", "0x7", str(MAX_LSN + 1), "9" * 5000, 7)
        ),
        *({"I": value} for value in ("", "00", "0001020304050607 ", "000102030405060G", "0001020304050607" * 2, "000102030405060A", 1)),
        *(
            {"C": value} for value in ("", "0", "-1", "1/", "1/2", "2/1", "1/1/1", "01", "1" * 10, "٣", "1 ", "1", 1)
        ),  # "1" with another L than P
        {"L": "4"},
        {"F": ""},
        {"F": "x"},
        {"F": 1},
        {"F": "01"},
    ],
)
def test_headers_that_are_none(changes: dict[str, Any]) -> None:
    headers: dict[str, Any] = {name: value for name, value in (HEADERS | changes).items() if value is not None}
    with pytest.raises(WireError) as caught:
        read_head(headers)
    assert type(caught.value) is WireError
    assert isinstance(caught.value, PeerError)


@pytest.mark.parametrize("said", ["0", "2", "10", "9" * 19])
def test_other_formats_have_an_error_of_their_own(said: str) -> None:
    with pytest.raises(UnknownFormat, match=f"format {said}"):
        read_head({"F": said})  # nothing else of it is looked at


def test_no_headers() -> None:
    for headers in (None, {}):
        with pytest.raises(WireError):
            read_head(headers)


@pytest.mark.parametrize(
    "data", [BODY, encode_body({"T": b"d"}, [tuples(FULL)] * 20, b"piece", 5), FULL_ENTRY], ids=["small", "packed", "entry"]
)
def test_cut_at_every_byte_and_with_more_behind(data: bytes) -> None:
    decode: Any = decode_entry if data is FULL_ENTRY else decode_body
    decode(data)
    for wrong in (*(data[:end] for end in range(len(data))), data + b"\0", data + data, b"\0" + data):
        with pytest.raises(WireError):
            decode(wrong)


def test_small_bodies_are_not_packed_and_large_ones_are_if_it_helps() -> None:
    small, large = encode_body({"a": bytes(COMPRESS_ABOVE - 10)}, ()), encode_body({"a": bytes(COMPRESS_ABOVE)}, ())
    assert small[0] == 0x92 and large[:4] == b"\x28\xb5\x2f\xfd" and len(large) < 50
    noise = b"".join(struct.pack(">Q", n * 0x9E3779B97F4A7C15 % 2**64) for n in range(200))
    assert encode_body({"a": noise}, ())[0] == 0x92
    for data in (small, large):
        assert encode_body(decode_body(data)[0].definitions, ()) == data


def body_of(size: int) -> bytes:
    return msgspec.msgpack.encode(({"a": bytes(size)}, []))


def test_what_unpacks_to_too_much_is_refused() -> None:
    most = body_of(MAX_BODY - len(body_of(MAX_BODY)) + MAX_BODY)
    more = body_of(MAX_BODY)
    assert len(most) == MAX_BODY
    pack = ZstdCompressor().compress
    assert decode_body(most)[1] == decode_body(pack(most))[1] == MAX_BODY
    bomb = pack(bytes(1 << 28))
    assert len(bomb) < CHUNK
    unsized = ZstdCompressor(write_content_size=False).compress(BODY)
    lying = bytearray(pack(bytes(70_000)))
    lying[6] = 0  # of the size of the content
    for wrong in (more, pack(more), bomb, unsized, bytes(lying), b"\x28\xb5\x2f\xfd", pack(b""), pack(BODY) + pack(BODY), pack(pack(BODY))):
        with pytest.raises(WireError):
            decode_body(wrong)


@pytest.mark.parametrize(
    "data",
    [
        b"\xdd\xff\xff\xff\xff",
        b"\x92\x80\xdd\xff\xff\xff\xff",
        b"\x92\xdf\xff\xff\xff\xff",
        b"\x92\x81\xa1\xff\xc4\0\x90",  # a name that is not UTF-8
        b"\x95\x80\x90\xc4\0\0" + b"\x91" * 100_000,  # lists in lists
        b"\x92\x80" + b"\x91" * 100_000,
        b"\x94\x80\x90\xa1a\0",  # a string as a piece
        b"\x92\x80\x91\x98\xa17" + BODY[6:],
        b"\xc0",
        b"",
    ],
)
def test_bodies_that_are_none(data: bytes) -> None:
    with pytest.raises(WireError):
        decode_body(data)


def test_what_is_behind_the_known_places_is_ignored() -> None:
    entry = (DELETE, "T", b"\x10A\0", None, (), None, "new")
    assert decode_body(msgspec.msgpack.encode(({}, [(1, 2, 3.0, 4.0, None, 0, None, [entry], {"new": 1})], b"", 0, [1, 2])))[
        0
    ].transactions[0].entries == [RemoteEntry(DELETE, "T", b"\x10A\0", None)]


def test_an_entry_in_pieces_has_a_limit_of_names() -> None:
    names = ["a" * 1000] * (MAX_NAMES // 1003)
    assert decode_entry(msgspec.msgpack.encode((PUT, "T", b"k", b"v", names, None))).changed == tuple(names)
    with pytest.raises(WireError):
        decode_entry(msgspec.msgpack.encode((PUT, "T", b"k", b"v", [*names, *names[:10]], None)))
