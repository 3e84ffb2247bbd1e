"""Cursors: the position at which a page ended, as an opaque string. The next page continues after it, whatever records were added or removed.

A cursor is unpadded base64url of a MessagePack array:

    format      1
    check       8 bytes that tell the table and the order, so that a cursor is not used with another query
    index       the attribute whose index gave the order, if the query has no sort and it was not that of the primary key
    values      the values to sort by of the last row, as `keys.encode_key` encodes them; of an index order the index key
    primary     its stored primary key
    before      the number of rows on this page and those before it; 0 if it is missing

It holds values, no pointers: rows after these values are the next page, whatever has happened to the row itself. `before` tells a page where it is, and
nothing depends on it. Nothing in it is secret or trusted: a forged cursor gives rows that the query may return, or a 400.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from hashlib import blake2b
from typing import Annotated

import msgspec
from msgspec.msgpack import Decoder, encode

from svc.errors import QueryError
from svc.query.nodes import SortKey
from svc.query.plan import Order, Position
from svc.store.values.keys import MAX_STORED, decode_key

MAX_CHARACTERS = 2048  # a cursor is part of a URL

_FORMAT = 1
_NO_PLACE = b"\xff"  # what values without a place in the order sort as
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")
_MOST_ROWS = 10**18  # of offset and limit, too


class _Document(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    format: int
    check: bytes
    index: str | None
    parts: list[bytes]
    primary: bytes
    before: Annotated[int, msgspec.Meta(ge=0, lt=_MOST_ROWS)] = 0


_decode = Decoder(_Document).decode


def encode_cursor(table: str, order: Order, position: Position) -> str | None:
    """The cursor behind the row at `position`; None if it would be too long."""
    document = encode((_FORMAT, _check(table, order), order.index, position.parts, position.primary, min(position.before, _MOST_ROWS - 1)))
    text = b2a_base64(document, newline=False).translate(_TO_URL, b"=").decode()
    return text if len(text) <= MAX_CHARACTERS else None


def decode_cursor(text: str, table: str, sort: tuple[SortKey, ...], primary_key: str) -> tuple[Order, Position]:
    """The order and the position in a cursor. `sort`: of the query it is used with.

    Raises QueryError QUERY_SYNTAX for an invalid cursor, or one of another query.
    """
    if len(text) > MAX_CHARACTERS:
        raise _no_cursor()
    try:
        data = text.encode("ascii").translate(_FROM_URL)
        document = _decode(a2b_base64(data + b"=" * (-len(data) % 4), strict_mode=True))
    except (UnicodeEncodeError, Base64Error, msgspec.MsgspecError):
        raise _no_cursor() from None
    if document.format != _FORMAT:
        raise _no_cursor()
    check, index, parts, primary = document.check, document.index, document.parts, document.primary
    order = Order(sort) if sort else Order(index=index)
    if check != _check(table, order) or (sort and index is not None):
        raise QueryError("the cursor belongs to another query", code="QUERY_SYNTAX")
    if len(parts) != (len(sort) or (index is not None)) or not 0 < len(primary) <= MAX_STORED:
        raise _no_cursor()
    if index is not None and not 0 < len(parts[0]) <= MAX_STORED:
        raise _no_cursor()
    for key, part in zip(sort, parts, strict=False):
        if not (part == primary if key.path == (primary_key,) else part == _NO_PLACE or _is_key(part)):
            raise _no_cursor()
    return order, Position(tuple(parts), primary, document.before)


def _check(table: str, order: Order) -> bytes:
    spoken = [table, order.index, [[key.descending, *key.path] for key in order.keys]]
    return blake2b(encode(spoken), digest_size=8).digest()


def _is_key(data: bytes) -> bool:
    try:
        decode_key(data)
    except ValueError:
        return False
    return True


def _no_cursor() -> QueryError:
    return QueryError("invalid cursor", code="QUERY_SYNTAX")
