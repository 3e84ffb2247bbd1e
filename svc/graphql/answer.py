"""The body of an answer with data: written field by field, and sent when all of it is there (spec: graphql §2.1).

There are no partial results: what fails anywhere is an answer with errors instead, so nothing is sent before the last field is read. Rows are encoded as
they are found, and only their JSON is held.
"""

from __future__ import annotations

from typing import Any

from svc.content.json_type import encode_json, encode_plain
from svc.errors import Overloaded
from svc.query.budget import query_limits, too_large

AT_ONCE = 1 << 16  # bytes of a body that is sent as one piece
MOST_ANSWERS = 4  # of the largest size that wait at one time


class HeldBytes:
    """What all answers of a process hold that are not sent yet. Each may be as large as a query may be; all together `MOST_ANSWERS` times that."""

    __slots__ = ("size",)

    def __init__(self) -> None:
        self.size = 0

    def hold(self, size: int) -> None:
        """Raises Overloaded."""
        self.size += size
        if self.size > query_limits().bytes * MOST_ANSWERS:
            raise Overloaded("Large answers to GraphQL queries are waiting to be sent, and there is no room for another one")

    def release(self, size: int) -> None:
        self.size -= size


_held = HeldBytes()


class Answer:
    """`begin` a field, write rows, `end` it; or `value` for a field as a whole. The limit of memory is that of queries (`query.maxBytes`)."""

    __slots__ = ("_chunks", "_is_first", "_limit", "pages", "size")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._is_first = True
        self._limit = query_limits().bytes
        self.size = 0
        self.pages: dict[str, str] = {}
        """Names of fields with a limit behind which there is more -> the cursor of the next page (spec: graphql §7.1)."""

    def __del__(self) -> None:
        self.discard()

    def discard(self) -> None:
        """It will not be sent."""
        _held.release(sum(map(len, self._chunks)))
        self._chunks = []

    def add(self, chunk: bytes) -> None:
        """Raises QueryTooLarge, Overloaded."""
        self._chunks.append(chunk)
        self.size += len(chunk)
        _held.hold(len(chunk))
        if self.size > self._limit:
            raise too_large(f"has an answer of more than {self._limit} bytes", "query.maxBytes", "bytes")

    def begin(self, key: str) -> None:
        """The name of the next field."""
        self.add((b'{"data":{' if self._is_first else b",") + encode_plain(key) + b":")
        self._is_first = False

    def value(self, key: str, value: Any) -> None:
        """A field with a value of any kind."""
        self.begin(key)
        self.add(encode_json(value))

    def body(self) -> bytes | Pieces:
        """The whole document; a long one in the pieces that it was made of. To be called once."""
        end = b'{"data":{}' if self._is_first else b"}"
        self.add(end + b',"extensions":' + encode_plain({"next": self.pages}) + b"}" if self.pages else end + b"}")
        if self.size <= AT_ONCE:
            return b"".join(self._chunks)
        chunks, self._chunks = self._chunks, []
        return Pieces(chunks)


class Pieces:
    """The pieces of a long body. The memory of each is released when it is taken."""

    __slots__ = ("_left",)

    def __init__(self, chunks: list[bytes]) -> None:
        chunks.reverse()
        self._left = chunks

    def __iter__(self) -> Pieces:
        return self

    def __next__(self) -> bytes:
        if not self._left:
            raise StopIteration
        piece = self._left.pop()
        _held.release(len(piece))
        return piece

    def close(self) -> None:
        """The client has left."""
        _held.release(sum(map(len, self._left)))
        self._left = []

    def __del__(self) -> None:
        self.close()
