"""A large JSON array, decoded in pieces, so that other requests can be served in between.

The decoder takes whole documents only, and 40 MB take it half a second. So the body is cut at a comma between two elements, and each piece is
decoded as an array of its own. A comma inside a string or inside an element is the wrong offset to cut at, but need not be recognised
beforehand: the piece before it is then not an array of whole elements, so that the decoder refuses it, and another offset is tried. Conversely, if
`[` + piece + `]` is an array, then the piece is a sequence of whole elements: the one `]` closes the one array that is open. So the pieces together are
the elements of the body, and an error before the end of a piece is an error of the body.

The offset is guessed from the beginning of the first element: `{"id":` after `},` begins another one, unless nested objects begin like it.

Other bodies, objects with large members or elements of more than MAX_PIECE bytes, are left to `json_split`, which is slower.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from secrets import token_hex
from typing import Any

from svc.content.json_split import MAX_VALUES, decode_split, skip_space
from svc.errors import BadBody

PIECE = 1 << 16  # bytes, decoded in about a millisecond
MAX_PIECE = 1 << 17  # bytes searched for an offset to cut at; else `json_split` takes the rest
HEAD = 1 << 16  # bytes of an object within which its long array begins
SEARCHED = 1 << 20  # bytes searched at a time for another member of the same name
_TRIES = 4
_MAX_SIGNATURE = 200
_MAX_SPACE = 1000  # between two elements
_SPACE = b" \t\r\n"
_COMMA = ord(",")
_POSITION = re.compile(r"\(byte (\d+)\)")
_INDEX = re.compile(r"`\$\[(\d+)\]")
_TRUNCATED = "truncated"
_not_space = re.compile(rb"[^ \t\r\n]").search


def decode_in_pieces(body: bytes, decode: Callable[[bytes], Any]) -> Generator[None, None, Any]:
    """`decode(body)`, with a step for each piece; a generator that returns the value. Raises the same BadBody.

    `decode`: `json_type.decode_json`, whose messages contain the byte offset of an error.
    """
    begin = yield from skip_space(body)
    if body[begin : begin + 1] != b"[":
        return (yield from decode_split(body, decode))
    values: list[Any] = []
    position = yield from _take_pieces(body, begin + 1, values, decode)
    head = _head(values)
    try:
        rest = yield from _whole(head + body[position:], decode)
    except BadBody as error:
        raise _moved(error, position, values) from None
    values += rest[1:] if values else rest
    return values


def decode_member_in_pieces(body: bytes, member: str, decode: Callable[[bytes], Any]) -> Generator[None, None, Any]:
    """`decode(body)` of an object whose array `member` is long, with a step for each piece of that array. Raises the same BadBody.

    The bytes before the array must be the beginning of one object: then the array is a member of the body and not of a nested object. Of
    two members of that name the last one would count, so with a second one, or what looks like one, the body is split.
    """
    name = b'"' + member.encode() + b'"'
    found = re.compile(re.escape(name) + rb"[ \t\r\n]*:[ \t\r\n]*\[").search(body, 0, HEAD)
    if found is None or not _is_object(body[: found.end()] + b"]}", decode):
        return (yield from decode_split(body, decode))
    position = found.end()
    while position < len(body):
        if body.find(name, position, position + SEARCHED + len(name)) >= 0:
            return (yield from decode_split(body, decode))
        position += SEARCHED
        yield
    prefix = body[: found.end()]
    values: list[Any] = []
    try:
        position = yield from _take_pieces(body, found.end(), values, decode, is_last=True)
    except BadBody as error:
        raise error if len(body) > MAX_PIECE else _fault_of(body, decode) from None
    if not values:
        return (yield from decode_split(body, decode))
    mark = token_hex(8)  # identifies this array among others of the same name, however it is escaped
    before = position - len(prefix) - len(mark) - 3
    try:
        whole = yield from _whole(b"".join((prefix, b'"', mark.encode(), b'",', body[position:])), decode)
    except BadBody as error:
        raise _shifted(error, before, 0) if len(body) > MAX_PIECE else _fault_of(body, decode) from None
    rest = whole[member]
    if type(rest) is not list or rest[:1] != [mark]:
        return (yield from decode_split(body, decode))
    values += rest[1:]
    whole[member] = values
    return whole


def _take_pieces(
    body: bytes, position: int, values: list[Any], decode: Callable[[bytes], Any], *, is_last: bool = False
) -> Generator[None, None, int]:
    """Append the elements from `position` on to `values`; where those begin that are left for `_whole`. `is_last`: a fault may be the array's end."""
    size = PIECE
    counted = 0
    signature = _signature(body, position)
    while len(body) - position > size and size <= MAX_PIECE:
        try:
            cut = yield from _take_piece(body, position, size, signature, values, decode)
        except BadBody:
            if is_last:
                break
            raise
        if cut < 0:
            size *= 2
        else:
            counted += sum([body.count(mark, position, cut) for mark in (b",", b"[", b"{")])
            if counted > MAX_VALUES:
                raise BadBody(f"Invalid JSON: more than {MAX_VALUES} values (byte {position})")
            position, size = cut + 1, PIECE
        yield
    return position


def _whole(body: bytes, decode: Callable[[bytes], Any]) -> Generator[None, None, Any]:
    """`decode(body)`, split if it is long."""
    if len(body) <= MAX_PIECE:
        return decode(body)
    return (yield from decode_split(body, decode))


def _fault_of(body: bytes, decode: Callable[[bytes], Any]) -> BadBody:
    """The error of a short body, as the decoder reports it."""
    try:
        decode(body)
    except BadBody as error:
        return error
    raise AssertionError("it has no fault as a whole")


def _take_piece(
    body: bytes, begin: int, size: int, signature: bytes, values: list[Any], decode: Callable[[bytes], Any]
) -> Generator[None, None, int]:
    """Append the elements of one piece to `values`; the offset of the comma after it, -1 if no offset to cut at was found."""
    for cut in _cuts(body, begin, begin + size, signature):
        found = _decode_piece(body, begin, cut, values, decode)
        if found:
            values += found
            return cut
        yield
    return -1


def _is_object(body: bytes, decode: Callable[[bytes], Any]) -> bool:
    try:
        return isinstance(decode(body), dict)
    except BadBody:
        return False


def _decode_piece(body: bytes, begin: int, end: int, before: list[Any], decode: Callable[[bytes], Any]) -> list[Any]:
    """The elements between; an empty list if `end` is the wrong offset to cut at. `before`: the elements before them."""
    piece = b"".join((_head(before), body[begin:end], b"]"))
    try:
        found: list[Any] = decode(piece)
    except BadBody as error:
        at = _POSITION.search(error.message)
        if _TRUNCATED in error.message or (at is not None and int(at[1]) >= len(piece) - 1):
            return []
        raise _moved(error, begin, before) from None
    if before:
        del found[0]
    return found


def _head(before: list[Any]) -> bytes:
    """The prefix with which a piece is decoded. One element replaces those before it, so that a trailing comma is an error."""
    return b"[0," if before else b"["


def _moved(error: BadBody, begin: int, before: list[Any]) -> BadBody:
    """The error of a piece, decoded after its `_head`, with the offset in the whole body."""
    return _shifted(error, begin - len(_head(before)), max(len(before) - 1, 0))


def _shifted(error: BadBody, offset: int, elements: int) -> BadBody:
    """The error with `offset` bytes and `elements` elements added to its position."""
    message = _POSITION.sub(lambda match: f"(byte {int(match[1]) + offset})", error.message)
    message = re.sub(r"at byte (\d+)$", lambda match: f"at byte {int(match[1]) + offset}", message)
    return BadBody(_INDEX.sub(lambda match: f"`$[{int(match[1]) + elements}]", message))


def _signature(body: bytes, position: int) -> bytes:
    """How elements begin that look like the first: up to the colon behind their first name; b"" if that is not an object."""
    found = _not_space(body, position, position + _MAX_SIGNATURE)
    if found is None or found[0] != b"{":
        return b""
    begin = found.start()
    return body[begin : body.find(b":", begin, begin + _MAX_SIGNATURE) + 1]


def _cuts(body: bytes, begin: int, end: int, signature: bytes) -> Iterator[int]:
    """Commas that may separate two elements, the last ones first."""
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


def _skip_space_back(body: bytes, position: int) -> int:
    """The position of the last byte up to `position` that is not white space; of much white space, one within it."""
    least = max(position - _MAX_SPACE, 0)
    while position > least and body[position] in _SPACE:
        position -= 1
    return position
