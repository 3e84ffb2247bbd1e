r"""`application/x-ndjson`, `application/ndjson`: one JSON document per line, each ended by \n (spec: http §7.1, §7.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec

from svc.content.content_type import ANY_SHAPE, SLICE_BYTES, ContentType, Shape, Slices, run, split_windows
from svc.content.heavy_rows import Weight, row_pieces
from svc.content.json_split import MAX_VALUES
from svc.content.json_type import JSON_STYLE, decode_json_slices, encode_json
from svc.errors import BadBody
from svc.store.schema import Attribute
from svc.store.values.records import decode_json_many as decode_stored_many

_LINE_BYTES = 20  # that take as long as the line itself

_encode_lines = msgspec.json.Encoder().encode_lines


def decode_lines(body: bytes) -> Slices:
    r"""The value of each line; lines without anything but white space are skipped. Raises BadBody, naming the line.

    >>> run(decode_lines(b'{"a":1}\n\n2\r\n'))
    [{'a': 1}, 2]
    """
    values = []
    size = number = counted = 0
    for lines in split_windows(body, b"\n"):
        for line in lines:
            number += 1
            size += len(line) + _LINE_BYTES
            if size > SLICE_BYTES:
                size = 0
                yield
            if line and not line.isspace():
                try:
                    values.append((yield from decode_json_slices(line)))
                except BadBody as error:
                    refused = BadBody(f"{error.message}, in line {number}")
                    refused.faults = ({"index": len(values), "line": number, "message": error.message},)
                    raise refused from None
        counted += sum([line.count(mark) for line in lines for mark in (b",", b"[")])
        if counted + len(values) > MAX_VALUES:
            raise BadBody(f"Invalid JSON: more than {MAX_VALUES} values, in line {number}")
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

    def pieces(self, row: Any, weight: Weight) -> Iterator[bytes]:
        return chain(row_pieces(row, weight, JSON_STYLE), (b"\n",))

    def failure(self, error: dict[str, Any]) -> bytes | None:
        return encode_json(error) + b"\n"

    def end(self) -> bytes:
        return b""
