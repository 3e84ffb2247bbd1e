"""Long bodies: `decode_slices` of every type gives what `decode` gives, with pauses."""

from typing import Any

import pytest

from svc.content.content_type import SLICE_BYTES, ContentType, run
from svc.content.registry import ContentTypes
from svc.errors import BadBody

TYPES = ContentTypes.built_in()
RECORDS = [{"id": str(number), "n": number, "text": "x" * (number % 50)} for number in range(3000)]
WITH_LARGE = [*RECORDS[:900], {"id": "large", "text": "y" * (3 * SLICE_BYTES)}, *RECORDS[900:]]


def pauses(kind: ContentType, body: bytes, parameters: dict[str, str]) -> tuple[int, Any]:
    reading = kind.decode_slices(body, parameters)
    count = 0
    while True:
        try:
            next(reading)
        except StopIteration as end:
            return count, end.value
        count += 1


@pytest.mark.parametrize(
    "name",
    [
        "application/json",
        "application/cbor",
        "application/x-msgpack",
        "application/x-msgpack;sequence=true",
        "application/x-ndjson",
        "text/csv",
    ],
)
@pytest.mark.parametrize("records", [RECORDS, WITH_LARGE], ids=["small", "large"])
def test_a_long_list(name: str, records: list[dict[str, Any]]) -> None:
    kind = TYPES.writer(name)
    parameters = {"sequence": "true"} if "sequence" in name else {}
    body = kind.encode(records)
    expected = kind.decode(body, parameters)
    assert len(expected) == len(records)
    count, value = pauses(kind, body, parameters)
    assert value == expected
    assert count >= len(body) // SLICE_BYTES // 4
    for faulty in (body[:-3], body + b'\xc1"', body[:-9] + b"\xff" + body[-8:]):
        try:
            expected = kind.decode(faulty, parameters)
        except BadBody as error:
            with pytest.raises(BadBody) as caught:
                run(kind.decode_slices(faulty, parameters))
            assert caught.value.message == error.message
        else:
            assert run(kind.decode_slices(faulty, parameters)) == expected


@pytest.mark.parametrize("name", ["application/json", "application/cbor", "application/x-msgpack"])
@pytest.mark.parametrize(
    "value", [[], {}, 1, {"a": RECORDS}, list(range(100_000)), [[], "x" * SLICE_BYTES], {"a": "x" * SLICE_BYTES}], ids=range(7)
)
def test_other_values(name: str, value: Any) -> None:
    kind = TYPES.writer(name)
    assert run(kind.decode_slices(kind.encode(value), {})) == value
    assert (
        run(kind.decode_slices(kind.row_writer().begin() + kind.row_writer(count=0).end(), {})) == []
        if name != "application/x-msgpack"
        else True
    )


@pytest.mark.parametrize("name", ["application/json", "application/cbor", "application/x-msgpack"])
def test_nothing_is_read_of_nothing(name: str) -> None:
    with pytest.raises(BadBody):
        run(TYPES.writer(name).decode_slices(b"", {}))


def test_cbor_arrays_of_indefinite_length() -> None:
    cbor = TYPES.writer("application/cbor")
    writer = cbor.row_writer()
    body = writer.begin() + writer.rows(WITH_LARGE) + writer.end()
    count, value = pauses(cbor, body, {})
    assert (value, count > 10) == (WITH_LARGE, True)
    for faulty in (body[:-1], body + b"\xff", body[:-1] + b"\x81\xff\xff"):
        with pytest.raises(BadBody):
            run(cbor.decode_slices(faulty, {}))
