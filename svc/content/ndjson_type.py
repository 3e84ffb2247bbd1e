r"""`application/x-ndjson`, `application/ndjson`: one JSON document per line, each ended by \n (contract: http §7.1, §7.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from svc.content.content_type import ANY_SHAPE, SLICE_BYTES, ContentType, Shape, Slices, run
from svc.content.json_type import decode_json, encode_json
from svc.errors import BadBody
from svc.store.records import decode_json_many as decode_stored_many
from svc.store.schema import Attribute

_LINE_BYTES = 20  # that take as long as the line itself

_encode_lines = msgspec.json.Encoder().encode_lines


def decode_lines(body: bytes) -> Slices:
    r"""The value of each line; lines without anything but white space are skipped. Raises BadBody, naming the line.

    >>> run(decode_lines(b'{"a":1}\n\n2\r\n'))
    [{'a': 1}, 2]
    """
    values = []
    size = 0
    for number, line in enumerate(body.split(b"\n"), 1):
        size += len(line) + _LINE_BYTES
        if size > SLICE_BYTES:
            size = 0
            yield
        if line and not line.isspace():
            try:
                values.append(decode_json(line))
            except BadBody as error:
                raise BadBody(f"{error.message}, in line {number}") from None
    return values


class NdjsonType(ContentType):
    name = content_type = "application/x-ndjson"
    q = 0.6

    def encode(self, value: Any) -> bytes:
        """One line; a list is a line for each element."""
        return (
            b"".join([encode_json(element) + b"\n" for element in value]) if isinstance(value, list | tuple) else encode_json(value) + b"\n"
        )

    def row_writer(self, shape: Shape = ANY_SHAPE, count: int | None = None) -> NdjsonRows:
        return NdjsonRows()

    def decode(self, body: bytes, parameters: Mapping[str, str], attributes: Mapping[str, Attribute] | None = None) -> Any:
        return run(decode_lines(body))

    def decode_slices(self, body: bytes, parameters: Mapping[str, str], attributes: Mapping[str, Attribute] | None = None) -> Slices:
        return decode_lines(body)


class NdjsonRows:
    __slots__ = ()

    def begin(self) -> bytes:
        return b""

    def rows(self, batch: list[Any]) -> bytes:
        return _encode_lines(batch)

    def values(self, batch: list[Any]) -> bytes:
        return b"".join([encode_json(value) + b"\n" for value in batch])

    def raw(self, batch: list[bytes]) -> bytes:
        return _encode_lines(decode_stored_many(batch))

    def failure(self, error: dict[str, Any]) -> bytes | None:
        return encode_json(error) + b"\n"

    def end(self) -> bytes:
        return b""
