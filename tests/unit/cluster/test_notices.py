"""svc.cluster.notices: what nodes tell each other of where they are."""

from __future__ import annotations

import msgspec
import pytest

from svc.cluster.notices import DATABASES_MAX, NOTICE_MAX, Place, decode_notice, encode_notices
from svc.cluster.wire import UnknownFormat, WireError

PLACE = Place(b"12345678", 5)


def test_short_and_long_ones_are_read_as_they_were_written() -> None:
    (data,) = encode_notices({"data": PLACE})
    short = decode_notice(data)
    assert short.applied == {"data": PLACE} and short.log is None
    (data,) = encode_notices({}, {"data": PLACE}, "1.2", 1e9)
    long = decode_notice(data)
    assert (long.applied, long.log, long.version, long.started) == ({}, {"data": PLACE}, "1.2", 1e9)


def test_many_databases_are_several_notices() -> None:
    places = {f"database-{number}": PLACE for number in range(DATABASES_MAX * 2 + 1)}
    notices = [decode_notice(data) for data in encode_notices(places, dict.fromkeys(places, PLACE), "1", 1.0)]
    assert len(notices) == 3
    assert {name for notice in notices for name in notice.applied} == set(places)
    assert all(len(data) < NOTICE_MAX for data in encode_notices(places, places))


def test_a_hello_of_a_node_that_has_nothing_is_one() -> None:
    (data,) = encode_notices({}, {}, "1", 1.0)
    assert decode_notice(data).log == {}


def test_whatever_bytes_come_are_read_or_are_an_error() -> None:
    (data,) = encode_notices({"data": PLACE}, {"data": PLACE}, "1", 1.0)
    for end in range(len(data)):
        with pytest.raises(WireError):
            decode_notice(data[:end])
        for byte in (0, 0x80, 0xC1, 0xDD, 0xFF):
            try:
                decode_notice(data[:end] + bytes((byte,)) + data[end + 1 :])
            except WireError:
                pass
    for other in (b"", b"\x90", b"\xc0", b"\x91" * 5000, b"\x80" * (NOTICE_MAX + 1)):
        try:
            decode_notice(other)
        except WireError:
            pass


@pytest.mark.parametrize(
    "place",
    [Place(b"1234567", 1), Place(b"", 1), Place(b"12345678", -1), Place(b"12345678", 1 << 63)],
)
def test_places_that_are_none_are_an_error(place: Place) -> None:
    with pytest.raises(WireError):
        decode_notice(msgspec.msgpack.encode({"applied": {"data": place}}))


def test_of_a_newer_format_only_that_is_read() -> None:
    for value in ({"format": 2}, {"format": 2, "applied": 5}):
        with pytest.raises(UnknownFormat):
            decode_notice(msgspec.msgpack.encode(value))
    for value in ({"started": float("nan")}, {"started": -1.0}, {"version": "x" * 300}):
        with pytest.raises(WireError):
            decode_notice(msgspec.msgpack.encode(value))
