"""The body of an answer with data: written field by field, and sent when all of it is there (spec: graphql §2.1).

There are no partial results: what fails anywhere is an answer with errors instead, so nothing is sent before the last field is read. Rows are encoded as
they are found, and only their JSON is held.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from svc.content.json_type import encode_json, encode_plain
from svc.query.budget import query_limits, too_large

AT_ONCE = 1 << 16  # bytes of a body that is sent as one piece


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

    def add(self, chunk: bytes) -> None:
        """Raises QueryTooLarge."""
        self._chunks.append(chunk)
        self.size += len(chunk)
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

    def body(self) -> bytes | Iterator[bytes]:
        """The whole document; a long one in the pieces that it was made of."""
        end = b'{"data":{}' if self._is_first else b"}"
        self._chunks.append(end + b',"extensions":' + encode_plain({"next": self.pages}) + b"}" if self.pages else end + b"}")
        return b"".join(self._chunks) if self.size <= AT_ONCE else iter(self._chunks)
