"""A large JSON array, decoded in pieces, so that others can be served in between.

The decoder takes whole documents only, and 40 MB take it half a second. So the body is cut at a comma between two elements, and each piece is
decoded as an array of its own. A comma that stands in a text or inside an element is no place to cut, but need not be told apart beforehand:
what stands before it then is no array of whole elements, so that the decoder refuses it, and another place is tried. Conversely, if
`[` + piece + `]` is an array, then the piece is a sequence of whole elements: the one `]` closes the one array that is open. So the pieces
together are what the body is, and a fault before the end of a piece is a fault of the body.

Where to cut is guessed by how the first element begins: `{"id":` behind `},` begins another one, unless objects inside look like those outside.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from secrets import token_hex
from typing import Any

from svc.errors import BadBody

PIECE = 1 << 16  # bytes, decoded in about a millisecond
MAX_PIECE = 1 << 20  # without a place to cut within this many, the rest is decoded as a whole
_TRIES = 4
_MAX_SIGNATURE = 200
_SPACE = b" \t\r\n"
_COMMA = ord(",")
_POSITION = re.compile(r"\(byte (\d+)\)")
_INDEX = re.compile(r"`\$\[(\d+)\]")
_TRUNCATED = "truncated"


def decode_in_pieces(body: bytes, decode: Callable[[bytes], Any]) -> Generator[None, None, Any]:
    """`decode(body)`, with a step for each piece; a generator that returns the value. Raises the same BadBody.

    `decode`: `json_type.decode_json`, whose messages tell the place of a fault.
    """
    begin = _skip_space(body, 0)
    if body[begin : begin + 1] != b"[":
        return decode(body)
    values: list[Any] = []
    position, size = begin + 1, PIECE
    signature = _signature(body, position)
    while len(body) - position > size and size <= MAX_PIECE:
        cut = _take_piece(body, position, size, signature, values, decode)
        if cut < 0:
            size *= 2
        else:
            position, size = cut + 1, PIECE
        yield
    try:
        rest = decode(b"[" + body[position:])
    except BadBody as error:
        raise _moved(error, position - 1, len(values)) from None
    if not rest and values:  # the comma at which we cut last had nothing behind it
        return decode(body)
    return values + rest


def decode_member_in_pieces(body: bytes, member: str, decode: Callable[[bytes], Any]) -> Generator[None, None, Any]:
    """`decode(body)` of an object whose array `member` is long, with a step for each piece of that array. Raises the same BadBody.

    What stands before the array must itself be an object up to there: then the array is a member of the body and not of something inside it. Of
    two members of that name the last one would count, so with a second one, or what looks like one, the body is decoded as a whole.
    """
    name = b'"' + member.encode() + b'"'
    found = re.compile(re.escape(name) + rb"[ \t\r\n]*:[ \t\r\n]*\[").search(body)
    if found is None or body.find(name, found.end()) >= 0 or not _is_object(body[: found.end()] + b"]}", decode):
        return decode(body)
    prefix, position, size = body[: found.end()], found.end(), PIECE
    values: list[Any] = []
    signature = _signature(body, position)
    while len(body) - position > size and size <= MAX_PIECE:
        try:
            cut = _take_piece(body, position, size, signature, values, decode)
        except BadBody:  # the array ends in this piece, or something is wrong: the rest tells
            break
        if cut < 0:
            size *= 2
        else:
            position, size = cut + 1, PIECE
        yield
    if not values:
        return decode(body)
    mark = token_hex(8)  # tells this array from another one of the same name, however that is spelt
    try:
        whole = decode(b"".join((prefix, b'"', mark.encode(), b'",', body[position:])))
    except BadBody:
        return decode(body)  # for the place of the fault
    rest = whole[member]
    if type(rest) is not list or rest[:1] != [mark]:
        return decode(body)
    rest[:1] = values
    return whole


def _take_piece(body: bytes, begin: int, size: int, signature: bytes, values: list[Any], decode: Callable[[bytes], Any]) -> int:
    """Append the elements of one piece to `values`; the place of the comma behind it, -1 if no place to cut was found."""
    for cut in _cuts(body, begin, begin + size, signature):
        found = _decode_piece(body, begin, cut, len(values), decode)
        if found:
            values += found
            return cut
    return -1


def _is_object(body: bytes, decode: Callable[[bytes], Any]) -> bool:
    try:
        return isinstance(decode(body), dict)
    except BadBody:
        return False


def _decode_piece(body: bytes, begin: int, end: int, before: int, decode: Callable[[bytes], Any]) -> list[Any]:
    """The elements between, none if the end is no place to cut. `before`: the number of elements before them."""
    piece = b"".join((b"[", body[begin:end], b"]"))
    try:
        found: list[Any] = decode(piece)
    except BadBody as error:
        at = _POSITION.search(error.message)
        if _TRUNCATED in error.message or (at is not None and int(at[1]) >= len(piece) - 1):
            return []
        raise _moved(error, begin - 1, before) from None
    return found


def _moved(error: BadBody, offset: int, before: int) -> BadBody:
    """The same fault, told by its place in the whole body."""
    message = _POSITION.sub(lambda match: f"(byte {int(match[1]) + offset})", error.message)
    message = re.sub(r"at byte (\d+)$", lambda match: f"at byte {int(match[1]) + offset}", message)
    return BadBody(_INDEX.sub(lambda match: f"`$[{int(match[1]) + before}]", message))


def _signature(body: bytes, position: int) -> bytes:
    """How elements begin that look like the first: up to the colon behind their first name; b"" if that is no object."""
    begin = _skip_space(body, position)
    if body[begin : begin + 1] != b"{":
        return b""
    return body[begin : body.find(b":", begin, begin + _MAX_SIGNATURE) + 1]


def _cuts(body: bytes, begin: int, end: int, signature: bytes) -> Iterator[int]:
    """Commas that may stand between two elements, the last ones first."""
    if signature:
        at = end
        for _ in range(_TRIES):
            at = body.rfind(signature, begin + 1, at)
            if at < 0:
                break
            comma = _skip_space_back(body, at - 1)
            if comma > begin and body[comma] == _COMMA:
                yield comma
    mark = b"}," if signature else b","
    at = end
    for _ in range(_TRIES):
        at = body.rfind(mark, begin, at)
        if at < 0:
            return
        yield at + len(mark) - 1


def _skip_space(body: bytes, position: int) -> int:
    while body[position : position + 1] and body[position] in _SPACE:
        position += 1
    return position


def _skip_space_back(body: bytes, position: int) -> int:
    while position > 0 and body[position] in _SPACE:
        position -= 1
    return position
