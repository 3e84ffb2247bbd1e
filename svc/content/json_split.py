"""Any large JSON document, decoded a few kilobytes at a time, whatever its shape.

A scanner finds the structure of a document: brackets, commas and strings. It keeps a stack of the containers that are open. Of each it knows
where its members begin that are not decoded yet (`start`) and the last comma between two of them (`cut`). After every WINDOW bytes the members that
are complete are decoded, those of one container in one call, as an array or an object of their own; a container that is open then becomes a list or
dict that is filled as its members come, and is handed to the one around it when it closes. What the scanner takes for structure is checked by
the decoder, which gets every byte except the commas and brackets that the scanner has accounted for.

It reads 5 MB/s and more, a twentieth of what the decoder does alone: for documents that cannot be cut more simply (`json_pieces`). A string is one piece,
however long.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import Any

from svc.errors import BadBody

WINDOW = 1 << 13  # bytes scanned between two steps: 1 ms, 6 ms if all are brackets
MAX_DEPTH = 500  # containers within containers
MAX_SPACE = 1 << 20  # bytes in a row without any structure, outside of strings: white space
MAX_VALUES = 20_000_000  # of a document: 80 bytes of memory each, if they are empty lists
EXACT = 1 << 17  # bytes: a faulty document up to this length is decoded as a whole to name the fault as the decoder does

_structure = re.compile(rb'[\[\]{}",]').search
_string_part = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL).match
_not_space = re.compile(rb"[^ \t\r\n]").search
_POSITION = re.compile(r"\(byte (\d+)\)")
_STRAY = re.compile(r"at byte (\d+)$")

_QUOTE, _COMMA = ord('"'), ord(",")
_OPEN_LIST, _CLOSE_LIST, _OPEN_DICT, _CLOSE_DICT = b"[]{}"


class _Container:
    """An open array or object. `value`: None while it is decoded together with its parent."""

    __slots__ = ("cut", "is_list", "key", "opened", "start", "took_child", "value")

    def __init__(self, is_list: bool, opened: int) -> None:
        self.is_list = is_list
        self.opened = opened  # position of its bracket
        self.start = opened + 1
        self.cut = -1
        self.key: Any = None  # name in the parent object
        self.value: Any = None
        self.took_child = False  # the value before `start` was handed in, so that a comma or the end follows


class _Split:
    def __init__(self, body: bytes, decode: Callable[[bytes], Any]) -> None:
        self._body = body
        self._decode = decode
        self._stack: list[_Container] = []
        self.values = 0

    def run(self, begin: int) -> Generator[None, None, tuple[Any, int]]:
        """The container that begins at `begin`, and the position behind it."""
        body, stack = self._body, self._stack
        size = len(body)
        position = flushed = begin
        spent = 0  # positions without structure
        while True:
            limit = min(position + WINDOW, size)
            found = _structure(body, position, limit)
            if found is None:
                spent += limit - position
                if limit == size:
                    raise BadBody(f"Invalid JSON: Input data was truncated, {'an array' if stack[-1].is_list else 'an object'} has no end")
                if spent > MAX_SPACE:
                    raise BadBody(f"Invalid JSON: more than {MAX_SPACE} bytes of white space (byte {position})")
                position = limit
                yield
                continue
            spent = 0
            at = found.start()
            position = at + 1
            kind = body[at]
            if kind == _QUOTE:
                position = yield from self._end_of_string(position)
            elif kind == _COMMA:
                self.values += 1
                self._comma(stack[-1], at)
            elif kind in (_OPEN_LIST, _OPEN_DICT):
                self.values += 1
                if len(stack) == MAX_DEPTH:
                    raise BadBody(f"Invalid JSON: nested too deeply (byte {at})")
                stack.append(_Container(kind == _OPEN_LIST, at))
            else:
                closed = stack.pop()
                if closed.is_list != (kind == _CLOSE_LIST):
                    raise BadBody(f"Invalid JSON: the wrong bracket ends {'an array' if closed.is_list else 'an object'} (byte {at})")
                if not stack and closed.value is None:
                    closed.value = [] if closed.is_list else {}
                if closed.value is not None:
                    self._finish(closed, at)
                    if not stack:
                        return closed.value, position
                    self._hand_over(closed, position)
            if position - flushed > WINDOW:
                flushed = position
                if self.values > MAX_VALUES:
                    raise BadBody(f"Invalid JSON: more than {MAX_VALUES} values (byte {position})")
                self._flush()
                yield

    def _end_of_string(self, position: int) -> Generator[None, None, int]:
        """The position behind the string whose content begins at `position`."""
        body, size = self._body, len(self._body)
        while True:
            limit = min(position + 32 * WINDOW, size)
            found = _string_part(body, position, limit)
            assert found is not None  # it matches anywhere
            position = found.end()
            if position < size and body[position] == _QUOTE:
                return position + 1
            if limit == size:
                raise BadBody("Invalid JSON: Input data was truncated, a string has no end")
            yield

    def _comma(self, container: _Container, at: int) -> None:
        if container.took_child:
            self._check_space(container.start, at)
            container.took_child = False
            container.start = at + 1
        container.cut = at

    def _flush(self) -> None:
        """Decode the complete part. Containers that are open become values of their own, the last one too."""
        body, stack = self._body, self._stack
        for container, inner in zip(stack, (*stack[1:], None), strict=True):
            if container.value is None:
                container.value = [] if container.is_list else {}
            if container.cut >= container.start:
                self._take(container, container.start, container.cut)
                container.start = container.cut + 1
            if inner is not None and inner.value is None:
                before = body[container.start : inner.opened]
                if container.took_child:
                    raise BadBody(f"Invalid JSON: a comma is missing (byte {inner.opened})")
                if container.is_list:
                    self._check_space(container.start, inner.opened)
                else:
                    try:
                        (inner.key,) = self._decode(b"{" + before + b"0}")
                    except BadBody as error:
                        raise _moved(error, container.start - 1) from None
                    except ValueError:
                        raise BadBody(f"Invalid JSON: a name is missing (byte {container.start})") from None
                container.start = inner.opened

    def _finish(self, closed: _Container, at: int) -> None:
        """Decode the last members of a container that ends at `at`."""
        if closed.took_child:
            self._check_space(closed.start, at)
        elif _not_space(self._body, closed.start, at) is not None:
            self._take(closed, closed.start, at)
        elif closed.cut >= 0:
            raise BadBody(f"Invalid JSON: trailing comma (byte {at})")

    def _hand_over(self, closed: _Container, position: int) -> None:
        outer = self._stack[-1]
        if outer.is_list:
            outer.value.append(closed.value)
        else:
            outer.value[closed.key] = closed.value
        outer.start = position
        outer.took_child = True

    def _take(self, container: _Container, begin: int, end: int) -> None:
        run = self._body[begin:end]
        try:
            found = self._decode(b"".join((b"[", run, b"]") if container.is_list else (b"{", run, b"}")))
        except BadBody as error:
            raise _moved(error, begin - 1) from None
        if not found:
            raise BadBody(f"Invalid JSON: a value is missing (byte {end})")
        if container.is_list:
            container.value += found
        else:
            container.value.update(found)

    def _check_space(self, begin: int, end: int) -> None:
        found = _not_space(self._body, begin, end)
        if found is not None:
            raise BadBody(f"Invalid JSON: a comma is missing (byte {found.start()})")


def decode_split(body: bytes, decode: Callable[[bytes], Any]) -> Generator[None, None, Any]:
    """`decode(body)`, a step for each few kilobytes; a generator that returns the value. Raises BadBody.

    White space before and after the document is skipped, however long it is.
    """
    begin = yield from skip_space(body)
    if begin == len(body) or body[begin] not in b"[{":
        end = yield from skip_space_back(body, begin)
        return _decode_at(body, begin, end, decode)
    split = _Split(body, decode)
    try:
        value, end = yield from split.run(begin)
        rest = yield from skip_space(body, end)
        if rest < len(body):
            raise BadBody(f"Invalid JSON: trailing characters (byte {rest})")
    except BadBody:
        if len(body) > EXACT:
            raise
        value = decode(body)
    return value


def skip_space(body: bytes, position: int = 0) -> Generator[None, None, int]:
    """The position of the first byte at or behind `position` that is not white space, a step for each MAX_SPACE bytes."""
    size = len(body)
    while position < size:
        found = _not_space(body, position, position + MAX_SPACE)
        if found is not None:
            return found.start()
        position += MAX_SPACE
        yield
    return size


def skip_space_back(body: bytes, begin: int) -> Generator[None, None, int]:
    """The end of the characters from `begin` on that are not white space."""
    end = len(body)
    while end > begin:
        low = max(begin, end - MAX_SPACE)
        kept = len(body[low:end].rstrip(b" \t\r\n"))
        if kept:
            return low + kept
        end = low
        yield
    return begin


def _decode_at(body: bytes, begin: int, end: int, decode: Callable[[bytes], Any]) -> Any:
    try:
        return decode(body[begin:end])
    except BadBody as error:
        raise _moved(error, begin) from None


def _moved(error: BadBody, offset: int) -> BadBody:
    """The error with its offset in the whole body; without the path, which is relative to the piece."""
    message = _POSITION.sub(lambda match: f"(byte {int(match[1]) + offset})", error.message)
    return BadBody(_STRAY.sub(lambda match: f"at byte {int(match[1]) + offset}", message))
