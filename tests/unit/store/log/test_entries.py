"""svc.store.log.entries: entries whose records are packed, which are packed, and what damage does to them. Those that are not: test_transaction_log."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from struct import error as StructError
from typing import Any

import lmdb
import pytest
from msgspec import MsgspecError, structs
from zstandard import ZstdCompressor, ZstdDecompressor

from svc.errors import StoreFailure
from svc.store.log import entries
from svc.store.log.entries import (
    DELETE,
    HEADER_SIZE,
    IN_LEAF,
    MESSAGE,
    PACK_TO,
    PUT,
    LogEntry,
    decode_entry,
    decode_head,
    encode_entry,
    entry_encoder,
    is_entry_of_copy,
    table_number_of,
)
from svc.store.values.keys import encode_key
from svc.store.values.records import decode, encode

TRACE = bytes(range(16))
PAGE = 4096


def noise(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def letters(size: int, seed: int = 1) -> str:
    """Text that does not repeat itself."""
    return "".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=size))


def raw(text: str, refreshed: float | None = None, **options: Any) -> bytes:
    return encode({"id": 1, "text": text}, 1.5, 7, None, refreshed=refreshed, **options)


NEW, OLD = raw(letters(2000)), raw(letters(2000, 2))
COPY = raw(letters(2000), 1e12)


def entry(value: bytes | None, image: bytes | None, **changes: Any) -> LogEntry:
    made = LogEntry(9, 8, 1.5, 2.5, "Süß", 3, encode_key("A1"), PUT, "anna", "node-1", 7, value, ("a", "b"), image, 1)
    return structs.replace(made, **changes)


def framed(content: bytes, value_size: int = 0, **options: Any) -> bytes:
    """An entry with this frame, as it might be found in a file."""
    plain = encode_entry(entry(None, b""))
    return (
        bytes((5,))
        + plain[1 : HEADER_SIZE - 4]
        + value_size.to_bytes(4)
        + plain[HEADER_SIZE:]
        + ZstdCompressor(level=1, **options).compress(content)
    )


def test_the_frame_has_value_and_image() -> None:
    packed = encode_entry(entry(NEW, OLD))
    plain = encode_entry(entry(b"", b""))  # all but these
    at = len(plain)
    assert packed[0] == 5 and packed[1 : HEADER_SIZE - 4] == plain[1 : HEADER_SIZE - 4]
    assert packed[HEADER_SIZE - 4 : HEADER_SIZE] == len(NEW).to_bytes(4) and packed[HEADER_SIZE:at] == plain[HEADER_SIZE:]
    assert ZstdDecompressor().decompress(packed[at:]) == NEW + OLD


@pytest.mark.parametrize("trace_id", [None, TRACE])
@pytest.mark.parametrize("mqtt", [None, b"", b"\1" + bytes(9), noise(300)])
def test_every_format_is_packed(trace_id: bytes | None, mqtt: bytes | None) -> None:
    for value, image, user in product((None, NEW, COPY), (None, b"", OLD), (None, "", "anna")):
        given = entry(value, image, trace_id=trace_id, mqtt=mqtt, user=user, kind=PUT if mqtt is None else MESSAGE)
        data = encode_entry(given)
        is_large = bool(value or image)
        assert data[0] == (3 if mqtt is not None else 2 if trace_id else 1) + (4 if is_large else 0)
        assert decode_entry(given.lsn, data) == given
        head = decode_head(given.lsn, data)
        assert head == (structs.replace(given, value=None, image=None) if is_large else given)
        assert is_entry_of_copy(data) == (value is COPY) and table_number_of(data) == 3


@pytest.mark.parametrize("trace_id", [None, TRACE])
def test_many_entries_are_packed_as_one_is(trace_id: bytes | None) -> None:
    encode_one = entry_encoder(
        kind=PUT, operation=1, table="Süß", table_number=3, transaction=8, wall_ms=1.5, version=2.5, node="node-1", user="anna",
        trace_id=trace_id,
    )  # fmt: skip
    for value, image, previous in product((b"", NEW, COPY, NEW[:30]), (None, b"", OLD, OLD[:30]), (0, 7)):
        given = entry(value, image, previous=previous, trace_id=trace_id)
        assert encode_one(given.key, previous, value, given.changed, image) == encode_entry(given)


# --- which are packed -------------------------------------------------------------------------------------------------------------------


def test_what_lmdb_keeps_in_a_page_with_others(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path), max_dbs=1) as env:
        handle = env.open_db(b"log")
        for size, pages in ((IN_LEAF, 0), (IN_LEAF + 1, 1), (PAGE - 16, 1), (PAGE - 15, 2), (2 * PAGE - 16, 2), (2 * PAGE - 15, 3)):
            with env.begin(write=True, db=handle) as txn:
                if txn.stat(handle)["psize"] != PAGE:
                    pytest.skip("pages of another size")
                txn.put(bytes(8), bytes(size))
                assert txn.stat(handle)["overflow_pages"] == pages


def sized(size: int, value: bytes) -> LogEntry:
    """An entry of this size, if it is not packed, which begins with this value and ends with an image of zeros."""
    rest = size - len(encode_entry(entry(b"", b""))) - len(value)
    return entry(value, b"\x10" + bytes(rest - 1))


@pytest.mark.parametrize(
    ("size", "noise_size", "is_packed"),
    [
        (IN_LEAF, 100, False),  # there is room for it
        (IN_LEAF + 1, 100, True),
        (PAGE - 16, 1700, True),
        (PAGE - 16, 2000, False),  # whole pages: one before, one after
        (PAGE - 15, 2000, True),  # two, one
        (2 * PAGE - 16, 3800, True),
        (2 * PAGE - 16, 4000, False),
        (2 * PAGE - 15, 4000, True),
    ],
)
def test_packed_is_what_takes_fewer_pages_then(size: int, noise_size: int, is_packed: bool) -> None:
    given = sized(size, b"\x10" + noise(noise_size - 1))
    data = encode_entry(given)
    assert (data[0] == 5) == is_packed and (len(data) < size if is_packed else len(data) == size)
    assert decode_entry(given.lsn, data) == given


def test_text_that_does_not_repeat_itself_is_packed() -> None:
    """The first level leaves it as it is."""
    value, image = raw(letters(2100)), raw(letters(2100, 2))
    assert len(encode_entry(entry(value, image))) <= PAGE - 16 < len(value) + len(image)


def test_a_change_of_little_is_kept_once() -> None:
    data = encode_entry(entry(raw(letters(1700)), raw(letters(1699) + "!")))
    assert len(data) <= IN_LEAF


@pytest.mark.parametrize("size", [PACK_TO, PACK_TO + 1])
def test_there_is_a_largest(size: int) -> None:
    given = entry(b"\x10" * 40_000, b"\x10" * (size - 40_000))
    data = encode_entry(given)
    assert data[0] == (5 if size <= PACK_TO else 1) and decode_entry(given.lsn, data) == given


def test_compressed_records_stay_as_they_are() -> None:
    compressed = raw(letters(6000) * 2, compress_above=4096)
    for value, image in ((compressed, compressed), (compressed, NEW), (NEW, compressed), (None, compressed)):
        given = entry(value, image)
        data = encode_entry(given)
        assert data[0] == 1 and decode_entry(given.lsn, data) == given


def test_other_parts_may_be_the_large_ones() -> None:
    for given in (entry(b"", None, user="u" * 60_000), entry(NEW[:50], None, mqtt=noise(5000)), entry(None, None, changed=("x" * 9000,))):
        data = encode_entry(given)
        assert data[0] in (1, 3) and decode_entry(given.lsn, data) == given
    given = entry(NEW, b"\x10" * 5000, user="u" * 60_000, mqtt=noise(70_000), changed=("x" * 9000,))
    data = encode_entry(given)
    assert data[0] == 7 and decode_entry(given.lsn, data) == given


# --- damage -----------------------------------------------------------------------------------------------------------------------------

UNREADABLE = (StoreFailure, StructError, MsgspecError, ValueError, IndexError)  # as `log_check` has them


@pytest.mark.parametrize("trace_id", [None, TRACE])
@pytest.mark.parametrize("mqtt", [None, b"\1" + bytes(9)])
def test_a_frame_that_is_cut(trace_id: bytes | None, mqtt: bytes | None) -> None:
    given = entry(NEW, OLD, trace_id=trace_id, mqtt=mqtt)
    data = encode_entry(given)
    begin, end = len(encode_entry(entry(b"", b""))), entries._records_end(data)
    for cut in range(begin, end):
        with pytest.raises(StoreFailure, match="Entry 9 of the transaction log is damaged"):
            decode_entry(9, data[:cut] + data[end:])
        assert decode_head(9, data[:cut] + data[end:]) == structs.replace(given, value=None, image=None)
    with pytest.raises(StoreFailure, match="damaged"):
        decode_entry(9, data[:end] + b"\0" + data[end:])


def test_bytes_that_are_wrong() -> None:
    """In a header, a frame, or behind it: an entry, or an error that `svc check` knows."""
    data = encode_entry(entry(NEW, OLD, trace_id=TRACE))
    for at, bits in product(range(len(data)), (0x01, 0x80, 0xFF)):
        wrong = bytearray(data)
        wrong[at] ^= bits
        try:
            found = decode_entry(9, bytes(wrong))
        except UNREADABLE:
            continue
        assert len(found.value or b"") + len(found.image or b"") <= PACK_TO


def bombs() -> Iterator[tuple[str, bytes]]:
    yield "empty", framed(b"")[: len(encode_entry(entry(None, b"")))]
    yield "no content", framed(b"")
    yield "more than is packed", framed(bytes(PACK_TO + 1))
    yield "much more", framed(bytes(1 << 22))
    yield "an unknown size", framed(bytes(1 << 20), write_content_size=False)
    yield "less than the value", framed(bytes(999), 1000)
    # says that it has 2**60 bytes: magic number, one segment and 8 bytes of size, and a block
    yield (
        "a size that is not true",
        framed(b"")[: -len(ZstdCompressor().compress(b""))] + b"\x28\xb5\x2f\xfd\xe0" + (1 << 60).to_bytes(8, "little") + b"\x01\0\0",
    )
    yield "two frames", framed(b"abc") + ZstdCompressor().compress(b"abc")


@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in bombs()])
def test_frames_that_no_entry_has(data: bytes) -> None:
    with pytest.raises(StoreFailure, match="Entry 9 of the transaction log is damaged"):
        decode_entry(9, data)


def test_a_frame_with_a_checksum_is_read() -> None:
    data = framed(b"abcdef", write_checksum=True)
    assert decode_entry(9, data).image == b"abcdef"
    with pytest.raises(StoreFailure, match="damaged"):
        decode_entry(9, data[:-1])


@pytest.mark.parametrize("number", [0, 4, 8, 9, 12, 255])
def test_other_formats_are_refused(number: int) -> None:
    for read in (decode_entry, decode_head):
        with pytest.raises(StoreFailure, match=f"format {number}: it was written by a newer version"):
            read(9, bytes((number,)) + encode_entry(entry(NEW, OLD))[1:])


# --- threads ----------------------------------------------------------------------------------------------------------------------------


def test_threads_do_not_disturb_each_other() -> None:
    """A compressor, and a decompressor, give up the interpreter lock, and can do one thing at a time."""
    given = [entry(raw(letters(9000, seed)), raw(letters(9000, seed + 50)), kind=DELETE) for seed in range(20)]

    def work(number: int) -> bool:
        return all(decode_entry(9, encode_entry(each)) == each for each in given[number % 5 :] * 5)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(32)))


def test_records_come_back() -> None:
    found = decode_entry(9, encode_entry(entry(NEW, COPY)))
    assert found.value is not None and found.image is not None
    assert decode(found.value)["text"] == letters(2000) and decode(found.image)["text"] == letters(2000)
