"""Values of records <-> values of SQLite (spec: sql §3).

    sql_value     what statements compute with: null, integer of 64 bits, double, text, bytes
    column_value  the same in a column of some type
    exact_value   the same value without a loss, see `catalogue`: bytes are the MessagePack of a value, others are themselves
    from_exact    the way back

Booleans are 1 and 0, dates ISO text, integers beyond 64 bits their digits, lists, objects, sets and blobs JSON text.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import msgspec

from svc.sql.catalogue import ColumnType
from svc.store.values.records import EXT_BLOB, decode_payload, decode_payload_json, encode_payload, iso_text, to_ms

SqlValue = None | int | float | str | bytes

NUMERIC = frozenset((ColumnType.INTEGER, ColumnType.REAL, ColumnType.BOOLEAN))
"""Types of columns that have the affinity of numbers."""

_ITSELF = frozenset((str, float, bytes, type(None)))
_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1
_MOST_DIGITS = 100  # of a text that may be an integer of 64 bits, with zeros before it
_TOO_LARGE = 1 << 1023
_DATE = b"\xd7\x01"  # MessagePack: 8 bytes of the extension for dates
_REMEMBERED = 1024
TRUE, FALSE = encode_payload(True), encode_payload(False)

_encode_json = msgspec.json.encode
_date_texts: dict[bytes, str] = {}


def sql_value(value: Any) -> SqlValue:
    """
    >>> sql_value(True), sql_value(2**64), sql_value(["a", 2**64])
    (1, '18446744073709551616', '["a",18446744073709551616]')
    """
    kind = type(value)
    if kind in _ITSELF:
        return value  # type: ignore[no-any-return]
    if kind is int:
        return value if _SMALLEST <= value <= _LARGEST else str(value)
    if kind is bool:
        return int(value)
    if kind is datetime:
        return iso_text(to_ms(value))
    return _stored_sql_value(encode_payload(value))


def exact_value(value: Any) -> SqlValue:
    """
    >>> exact_value(5), exact_value("a"), exact_value(True), exact_value(b"a")
    (5, 'a', b'\\xc3', b'\\xc4\\x01a')
    """
    kind = type(value)
    if kind is str or kind is float or value is None or (kind is int and _SMALLEST <= value <= _LARGEST):
        return value  # type: ignore[no-any-return]
    return encode_payload(value)


def from_exact(value: SqlValue, native: bool) -> Any:
    """The value that `exact_value` took; not `native`: as it is in JSON (`records.decode_json`)."""
    if type(value) is bytes:
        return decode_payload(value) if native else decode_payload_json(value)
    return value


def stored_sql_value(stored: Any) -> SqlValue:
    """`sql_value` of what a record has: None, or a `msgspec.Raw`."""
    return None if stored is None else _stored_sql_value(bytes(stored))


def stored_exact_value(stored: Any) -> SqlValue:
    """`exact_value` of what a record has: None, or a `msgspec.Raw`."""
    if stored is None:
        return None
    data = bytes(stored)
    kind = data[0]
    # Fixed integers and texts, null, doubles, integers, texts.
    if kind < 0x80 or kind >= 0xE0 or 0xA0 <= kind <= 0xC0 or 0xCA <= kind <= 0xD3 or 0xD9 <= kind <= 0xDB:
        value = decode_payload(data)
        if type(value) is not int or value <= _LARGEST:
            return value  # type: ignore[no-any-return]
    return data


def column_value(kind: ColumnType, value: Any) -> SqlValue:
    """`sql_value` in a column of this type: where numbers are declared, texts that SQLite takes for numbers are some, and integers beyond 64 bits
    are doubles, as in its own tables.

    >>> column_value(ColumnType.REAL, 5), column_value(ColumnType.INTEGER, " 5 "), column_value(ColumnType.ANY, "5")
    (5.0, 5, '5')
    """
    if kind not in NUMERIC:
        return sql_value(value)
    if type(value) is str:
        number = numeric_value(value)[0]
        value = value if number is None else number
    if type(value) is bool:
        value = int(value)
    if type(value) is int and (kind is ColumnType.REAL or not _SMALLEST <= value <= _LARGEST):
        return float(value) if abs(value) < _TOO_LARGE else str(value)
    return sql_value(value)


def stored_column_value(kind: ColumnType, stored: Any) -> SqlValue:
    """`column_value` of what a record has: None, or a `msgspec.Raw`."""
    if kind not in NUMERIC:
        return stored_sql_value(stored)
    if stored is None:
        return None
    data = bytes(stored)
    value = decode_payload_json(data)
    return column_value(kind, value) if type(value) in (str, int, float, bool) and data[:2] != _DATE else _stored_sql_value(data)


# Possessive: a text of very many digits that is no number costs no more than its length.
_number = re.compile(r"[ \t-\r]*+([+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)[ \t-\r]*+").fullmatch


def numeric_value(text: str) -> tuple[int | float | None, bool]:
    """(the number that SQLite takes a text for, or None, whether it is that exactly).

    >>> numeric_value(" 12 "), numeric_value("0x10"), numeric_value("1e3")
    ((12, True), (None, True), (1000.0, False))
    """
    match = _number(text)
    if match is None:
        return None, True
    digits = match[1]
    if len(digits) < _MOST_DIGITS and digits.lstrip("+-").isdigit():
        number = int(digits)
        if _SMALLEST <= number <= _LARGEST:
            return number, True
    return float(digits), False


def json_text(value: Any) -> str:
    """Of what `records.decode_json` gives."""
    return _encode_json(value).decode()


def _stored_sql_value(data: bytes) -> SqlValue:
    if data[:2] == _DATE:
        text = _date_texts.get(data)
        if text is None:
            if len(_date_texts) >= _REMEMBERED:
                _date_texts.clear()
            text = _date_texts[data] = decode_payload_json(data)
        return text
    value = decode_payload_json(data)
    kind = type(value)
    if kind in _ITSELF and not _is_blob(data):
        return value  # type: ignore[no-any-return]
    if kind is int:
        return value if _SMALLEST <= value <= _LARGEST else str(value)
    if kind is bool:
        return int(value)
    return json_text(value)


def _is_blob(data: bytes) -> bool:
    """Whether it is the extension for blobs: of a text, its JSON form is a text too."""
    kind = data[0]
    if 0xD4 <= kind <= 0xD8:
        return data[1] == EXT_BLOB
    return 0xC7 <= kind <= 0xC9 and data[{0xC7: 2, 0xC8: 3, 0xC9: 5}[kind]] == EXT_BLOB
