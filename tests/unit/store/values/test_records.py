"""svc.store.values.records: the header byte by byte, every kind of value there and back, as Python values and for JSON."""

import base64
import random
import struct
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any

import msgspec
import pytest
import zstandard

from svc.errors import BadValue, StoreFailure
from svc.store.entity_tags import etag_of, etag_of_version
from svc.store.values import records
from svc.store.values.records import (
    COMPRESSED,
    DAMAGE,
    MISSING,
    NEVER,
    are_plain,
    decode,
    decode_joined,
    decode_joined_strictly,
    decode_json,
    decode_json_many,
    decode_payload,
    decode_payload_json,
    encode,
    encode_payload,
    expiry_of,
    frame,
    iso_text,
    join_plain,
    joined_decoder,
    lsn_of,
    projection,
    raw_payload,
    struct_decoder,
    version_of,
)

VERSION = 1767225600123.25
MOMENT = datetime(2024, 1, 5, 20, 7, 27, 955_000, tzinfo=UTC)


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


def test_a_raw_record_is_as_documented() -> None:
    raw = encode({"a": 1}, VERSION, 77, None)
    assert raw == b"\x10" + struct.pack(">d", VERSION) + struct.pack(">Q", 77) + b"\x81\xa1a\x01"
    assert (version_of(raw), lsn_of(raw), expiry_of(raw), raw_payload(raw)) == (VERSION, 77, None, b"\x81\xa1a\x01")


def test_a_raw_record_with_expiry() -> None:
    raw = encode({"a": 1}, VERSION, 2**64 - 1, 5.5)
    assert raw == b"\x11" + struct.pack(">d", VERSION) + b"\xff" * 8 + struct.pack(">d", 5.5) + b"\x81\xa1a\x01"
    assert (version_of(raw), lsn_of(raw), expiry_of(raw), raw_payload(raw)) == (VERSION, 2**64 - 1, 5.5, b"\x81\xa1a\x01")
    assert decode(raw) == decode_json(raw) == {"a": 1}
    assert projection(("a",))(raw) == (1,)


def test_frame_and_raw_payload_are_opposites() -> None:
    raw = encode({"a": MOMENT}, VERSION, 77, 9.0)
    assert frame(raw_payload(raw), VERSION, 77, 9.0) == raw


@pytest.mark.parametrize("version", [VERSION, 1.0, 1767225600000.0, 9e15])
def test_the_etag_is_the_version_in_base64url(version: float) -> None:
    tag = etag_of(encode({}, version, 5, None))
    assert tag == base64.urlsafe_b64encode(struct.pack(">d", version)).decode().rstrip("=") == etag_of_version(version)
    assert len(tag) == 11


# value, decoded, decoded for JSON
VALUES: list[tuple[Any, Any, Any]] = [
    (None, None, None),
    (True, True, True),
    (5, 5, 5),
    (-1.5, -1.5, -1.5),
    ("text\0", "text\0", "text\0"),
    (b"\0\xff", b"\0\xff", b"\0\xff"),
    (bytearray(b"a"), b"a", b"a"),
    ([1, [None]], [1, [None]], [1, [None]]),
    ((1, (2,)), [1, [2]], [1, [2]]),
    ({"b": {"a": 1}}, {"b": {"a": 1}}, {"b": {"a": 1}}),
    (2**63 - 1, 2**63 - 1, 2**63 - 1),
    (2**64 - 1, 2**64 - 1, 2**64 - 1),
    (2**64, 2**64, 2**64),
    (-(2**63) - 1, -(2**63) - 1, -(2**63) - 1),
    (2**1000 - 1, 2**1000 - 1, 2**1000 - 1),
    (-(2**1000), -(2**1000), -(2**1000)),
    ([{"deep": 2**70}], [{"deep": 2**70}], [{"deep": 2**70}]),
    (MOMENT, MOMENT, "2024-01-05T20:07:27.955Z"),
    (MOMENT + timedelta(microseconds=999), MOMENT, "2024-01-05T20:07:27.955Z"),
    (MOMENT.replace(tzinfo=None), MOMENT, "2024-01-05T20:07:27.955Z"),
    (MOMENT.astimezone(timezone(timedelta(hours=-5))), MOMENT, "2024-01-05T20:07:27.955Z"),
    (datetime(1, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000Z"),
    (datetime(9999, 12, 31, 23, 59, 59, 999_000), datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC), "9999-12-31T23:59:59.999Z"),
    ([{"deep": MOMENT}], [{"deep": MOMENT}], [{"deep": "2024-01-05T20:07:27.955Z"}]),
    (Colour.RED, "red", "red"),
    (Level.HIGH, 3, 3),
    (set(), set(), []),
    ({"a"}, {"a"}, ["a"]),
    (frozenset([(1, 2)]), {(1, 2)}, [[1, 2]]),
    ([{MOMENT}], [{MOMENT}], [["2024-01-05T20:07:27.955Z"]]),
    ({1: "a", None: 2**70}, {1: "a", None: 2**70}, {"1": "a", "null": 2**70}),
    ({(1, "a"): MOMENT}, {(1, "a"): MOMENT}, {'[1,"a"]': "2024-01-05T20:07:27.955Z"}),
    ({True: 1, 1.5: 2, MOMENT: 3}, {True: 1, 1.5: 2, MOMENT: 3}, {"true": 1, "1.5": 2, "2024-01-05T20:07:27.955Z": 3}),
    ({"a": {b"\xff": 1}}, {"a": {b"\xff": 1}}, {"a": {"/w==": 1}}),
]


@pytest.mark.parametrize(("value", "decoded", "for_json"), VALUES, ids=[repr(row[0])[:40] for row in VALUES])
def test_a_value_comes_back(value: Any, decoded: Any, for_json: Any) -> None:
    for record in ({"x": value}, {"z": 1, "x": value, "a": [value]}):
        raw = encode(record, VERSION, 1, None)
        assert decode(raw)["x"] == decoded
        assert type(decode(raw)["x"]) is type(decoded)
        assert list(decode(raw)) == list(record)
        assert decode_json(raw)["x"] == for_json
        assert list(decode_json(raw)) == list(record)
        assert projection(("x",))(raw) == (decoded,)
        assert projection(("x",), json=True)(raw) == (for_json,)
        msgspec.json.encode(decode_json(raw))
    payload = encode_payload([value])
    assert decode_payload(payload) == [decoded]
    assert decode_payload_json(payload) == [for_json]


def test_the_order_of_properties_is_kept() -> None:
    record = {"z": 1, "a": {"y": 1, "b": MOMENT}, "m": {3: 1, 1: 2}}
    back = decode(encode(record, VERSION, 1, None))
    assert (list(back), list(back["a"]), list(back["m"])) == (["z", "a", "m"], ["y", "b"], [3, 1])


def test_encoding_leaves_the_record_alone() -> None:
    record = {"when": MOMENT, "list": [(1,), {2**70}]}
    encode(record, VERSION, 1, None)
    assert record == {"when": MOMENT, "list": [(1,), {2**70}]}
    assert type(record["list"][0]) is tuple  # type: ignore[index]


def test_equal_sets_have_equal_bytes() -> None:
    assert encode_payload({"a", "b", "c", 1}) == encode_payload({1, "c", "b", "a"})


@pytest.mark.parametrize(
    "value", [object(), Decimal(1), 1j, "\ud800", ["\ud800"], {"\ud800": 1}, [object()], {1: object()}], ids=lambda value: str(type(value))
)
def test_what_cannot_be_stored_is_refused(value: object) -> None:
    with pytest.raises(BadValue):
        encode({"x": value}, VERSION, 1, None)


def test_a_value_nested_without_end_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(BadValue):
        encode({"x": endless}, VERSION, 1, None)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x10",
        bytes(17),
        b"\x12" + bytes(16) + b"\x80",
        b"\x12" + bytes(16) + zstandard.compress(b"\x80")[:-1],
        b"\x12" + bytes(16) + zstandard.compress(b"\x93\x01\x02\x03"),
        b"\x12" + bytes(16) + b"\x28\xb5\x2f\xfd\xe0" + b"\x7f" * 8 + b"\x01\x00\x00",  # claims to hold 9 * 10**18 bytes
        b"\x13" + bytes(16) + zstandard.compress(b"\x80"),
        b"\x20" + bytes(16) + b"\x80",
        b"\x10" + bytes(16),
        b"\x10" + bytes(16) + b"\x81",
        b"\x10" + bytes(16) + b"\x93\x01\x02\x03",
        b"\x10" + bytes(16) + b"\x81\xa1a\xc7\x01\x63\x00",
        b"\x10" + bytes(16) + b"\x81\xa1a\xc7\x01\x01\x00",
        b"\x10" + bytes(16) + b"\x81\xa1a\xd7\x01\x7f\xff\xff\xff\xff\xff\xff\xff",
        b"\x10" + bytes(16) + b"\x81\xa1a\xc7\x02\x6d\x91\x01",
        b"\x10" + bytes(16) + b"\x81\xa1a\xc7\x03\x73\x91\x81\x01",
    ],
)
def test_damage_is_named(raw: bytes) -> None:
    for read in (decode, decode_json, projection(("a",)), projection(("a",), json=True)):
        with pytest.raises(StoreFailure):
            read(raw)


@pytest.mark.parametrize("expiry", [None, 5.5])
def test_a_large_payload_is_compressed(expiry: float | None) -> None:
    record = {"text": "so it goes, " * 500, "when": MOMENT}
    plain = encode(record, VERSION, 77, expiry)
    raw = encode(record, VERSION, 77, expiry, len(raw_payload(plain)) - 1)
    assert raw[0] == plain[0] | COMPRESSED and raw[1:17] == plain[1:17]
    assert raw[25 if expiry else 17 :][:4] == b"\x28\xb5\x2f\xfd"  # RFC 8878, section 3.1.1
    assert len(raw) < len(plain) / 10
    assert (version_of(raw), lsn_of(raw), expiry_of(raw), raw_payload(raw)) == (VERSION, 77, expiry, raw_payload(plain))
    assert decode(raw) == record
    assert decode_json(raw) == decode_json(plain)
    assert decode_json_many([raw, plain, raw]) == [decode_json(plain)] * 3
    assert projection(("when",))(raw) == (MOMENT,)


def test_a_payload_stays_as_it_is_up_to_the_threshold_or_if_nothing_is_saved() -> None:
    record = {"text": "x" * 5000}
    plain = encode(record, VERSION, 77, None)
    assert encode(record, VERSION, 77, None, len(raw_payload(plain))) == plain
    assert encode(record, VERSION, 77, None, NEVER) == plain
    record = {"noise": random.Random(7).randbytes(5000)}
    assert encode(record, VERSION, 77, None, 0) == encode(record, VERSION, 77, None)


def test_many_records_at_once() -> None:
    plain = [encode({"n": n, "when": MOMENT}, VERSION, n, None) for n in range(3)]
    for raws in ([], plain, [*plain, encode({"n": 4}, VERSION, 4, 9.0)]):
        assert decode_json_many(raws) == [decode_json(raw) for raw in raws]
    for damaged in (b"", b"\x10", b"\x10" + bytes(16) + b"\x81\xa1a\xc7\x01\x01\x00", b"\x10" + bytes(16) + b"\x80\x80"):
        with pytest.raises(StoreFailure):
            decode_json_many([*plain, damaged])


def test_a_projection_gives_missing_for_missing_and_none_for_null() -> None:
    raw = encode({"a": None, "b": {"c": 1}, "not-a-name": 2, "class": 3}, VERSION, 1, None)
    assert projection(("b", "x", "a", "class", "not-a-name", "a"))(raw) == ({"c": 1}, MISSING, None, 3, 2, None)
    assert projection(())(raw) == ()
    assert not MISSING


def test_a_projection_is_made_once() -> None:
    assert projection(("a", "b")) is projection(("a", "b"))
    assert projection(("a", "b")) is not projection(("b", "a"))
    assert projection(("a", "b")) is not projection(("a", "b"), json=True)


def test_records_can_be_read_by_several_threads() -> None:
    raws = [encode({"n": number, "text": f"{number:05}" * 20_000}, VERSION, 1, None, 100) for number in range(20)]
    assert all(raw[0] & COMPRESSED for raw in raws)

    def read(start: int) -> bool:
        return all(decode(raws[number % 20])["text"][:5] == f"{number % 20:05}" for number in range(start, start + 40))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(read, range(12)))


def test_structs_of_some_properties() -> None:
    read = struct_decoder((("a", "x y", int | None), ("b", "list", msgspec.Raw)))
    assert read is not None and read is struct_decoder((("a", "x y", int | None), ("b", "list", msgspec.Raw)))
    raws = [
        encode({"x y": 5, "list": [MOMENT], "other": "x"}, 1.0, 2, None),
        encode({"x y": None}, 1.0, 2, 3.0),
        encode({"x y": -7, "list": "long" * 2000}, 1.0, 2, None, 100),
    ]
    found = read(raws)
    assert found is not None
    assert [each.a for each in found] == [5, None, -7]
    assert [None if each.b is None else decode_payload(bytes(each.b)) for each in found] == [[MOMENT], None, "long" * 2000]
    assert read([]) == []
    assert read([encode({"x y": "a text"}, 1.0, 2, None)]) is None
    assert struct_decoder((("a", 'a "quoted" name', int),)) is None
    with pytest.raises(StoreFailure):
        read([raws[0][:-1]])


def test_the_memos_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_REMEMBERED", 10)
    for number in range(100):
        projection((f"bounded{number}",))
        struct_decoder((("a", f"bounded{number}", int),))
        joined_decoder((("a", f"bounded{number}", int),))
        moment = MOMENT + timedelta(days=number)
        assert decode_json(encode({"x": moment}, VERSION, 1, None))["x"] == moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert (
        max(
            len(records._projections),
            len(records._struct_decoders),
            len(records._joined_decoders),
            len(records._minutes),
            len(records._iso_texts),
        )
        <= 10
    )


@pytest.mark.parametrize("ms", [0, 1, -1, 999, 59_999, 60_000, -60_001, 1704485247955, -62135596800000, 253402300799999])
def test_iso_text(ms: int) -> None:
    assert iso_text(ms) == records.from_ms(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def test_plain_records_joined() -> None:
    values: list[dict[str, Any]] = [{"a": 1, "b": "x"}, {"b": None, "c": [1.5]}, {}]
    raws = [encode(value, VERSION, 2, None) for value in values]
    assert are_plain(raws) and are_plain([]) and are_plain(raws[:1])
    for other in (encode(values[0], VERSION, 2, 5.0), encode({"a": "x" * 9000}, VERSION, 2, None, 10), b"", b"\x0f" + raws[0][1:]):
        assert not are_plain([other]) and not are_plain([*raws, other]) and not are_plain([other, *raws])
    for some in ([None], [raws[0], None], [None, None]):
        with pytest.raises(TypeError):
            are_plain(some)  # type: ignore[arg-type]
    joined = join_plain(raws)
    assert decode_joined(joined) == decode_joined_strictly(joined) == decode_json_many(raws) == values
    assert decode_joined(join_plain([])) == []
    dated = [*raws, encode({"at": MOMENT}, VERSION, 2, None)]
    assert decode_joined(join_plain(dated)) == decode_json_many(dated)
    with pytest.raises(ValueError, match="an extension"):
        decode_joined_strictly(join_plain(dated))


def test_structs_of_joined_records() -> None:
    raws = [encode(value, VERSION, 2, None) for value in ({"b": "x", "a": 1}, {"b": None}, {"a": {"c": [1]}, "other": 5})]
    fields = (("one", "a", Any), ("two", "b", str | None | msgspec.UnsetType))
    decode_structs = joined_decoder(fields)
    assert decode_structs is not None and joined_decoder(fields) is decode_structs
    found = decode_structs(join_plain(raws))
    assert msgspec.json.encode(found) == b'[{"a":1,"b":"x"},{"b":null},{"a":{"c":[1]}}]'
    assert found[1].one is MISSING and found[2].two is MISSING
    for value in (5, MOMENT, ["a"]):
        with pytest.raises(DAMAGE):
            decode_structs(join_plain([encode({"b": value}, VERSION, 2, None)]))
    assert joined_decoder((("one", 'a"b', Any),)) is None
