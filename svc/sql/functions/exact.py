"""Exact faces of values (`svc.sql.catalogue`): what they are made of and what they stand for.

Bytes are what `encode_payload` makes of a value; text, numbers of 64 bits and null are themselves. So a BLOB that is no exact face has to be made one.
"""

from __future__ import annotations

from typing import Any

from svc.store.values.records import decode_payload, encode_payload

_INT64 = 1 << 63
_SAME = frozenset((str, float, type(None)))


def exact_face(value: Any) -> Any:
    """Of a value, which must be storable."""
    kind = type(value)
    if kind in _SAME or (kind is int and -_INT64 <= value < _INT64):
        return value
    return encode_payload(value)


def plain_value(face: Any) -> Any:
    """The value that an exact face stands for. Raises StoreFailure for bytes that are none."""
    return decode_payload(face) if type(face) is bytes else face


def exact_of_plain(value: Any) -> Any:
    """The exact face of a value as SQLite has it."""
    return encode_payload(value) if type(value) is bytes else value
