"""What a request was answered."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from email.message import Message
from typing import Any

from svc.testing.tracebacks import is_hidden

__tracebackhide__ = is_hidden

SHOWN = 300  # characters of a content in a representation


class Headers(Mapping[str, str]):
    """The fields of an answer; names in any case. Of a field that comes several times: the values with `, ` in between; `get_all` has each."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = tuple(pairs)
        """As they came."""

    def get_all(self, name: str) -> list[str]:
        """The values of the fields `name`, in their order."""
        lower = name.lower()
        return [value for known, value in self.pairs if known.lower() == lower]

    def __getitem__(self, name: str) -> str:
        found = self.get_all(name)
        if not found:
            raise KeyError(name)
        return ", ".join(found)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self.get_all(name))

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name.lower() for name, _ in self.pairs))

    def __len__(self) -> int:
        return len({name.lower() for name, _ in self.pairs})

    def __repr__(self) -> str:
        return f"Headers({dict(self)!r})"


class Answer:
    """`status`; `headers`; `content`: the bytes of the body as they were sent; `text`, `json`: decoded. `early_hints`: headers of the 103 before it."""

    def __init__(
        self,
        request: str,
        status: int,
        pairs: Sequence[tuple[str, str]],
        content: bytes,
        early: Sequence[tuple[int, list[tuple[str, str]]]] = (),
    ) -> None:
        """`request`: method and path, for messages."""
        self.request = request
        self.status = status
        self.headers = Headers(pairs)
        self.content = content
        self.early_hints = [Headers(fields) for number, fields in early if number == 103]

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def content_type(self) -> str:
        """Without its parameters; "" if there is none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def decoded_content(self) -> bytes:
        """The content without its `Content-Encoding`. Raises AssertionError if it cannot be undone."""
        data = self.content
        if not data:  # the answer to HEAD has the header of the content
            return data
        for coding in reversed(self.headers.get("content-encoding", "").split(",")):
            data = self._undo(coding.strip().lower(), data)
        return data

    def _undo(self, coding: str, data: bytes) -> bytes:
        try:
            if coding in ("", "identity"):
                return data
            if coding in ("gzip", "deflate"):
                return zlib.decompress(data, zlib.MAX_WBITS | 32)
            if coding == "br":
                import brotli

                return bytes(brotli.decompress(data))
            if coding == "zstd":
                import zstandard

                return zstandard.ZstdDecompressor().decompressobj().decompress(data)
        except Exception as error:
            raise AssertionError(f"the content is not {coding}: {error}. {self!r}") from None
        raise AssertionError(f"the content is in the coding {coding!r}, which is not known here. {self!r}")

    @property
    def text(self) -> str:
        """Raises AssertionError if it is none."""
        message = Message()
        message["content-type"] = self.headers.get("content-type", "")
        charset = message.get_param("charset", "utf-8")
        try:
            return self.decoded_content.decode(charset if isinstance(charset, str) else "utf-8")
        except (UnicodeDecodeError, LookupError) as error:
            raise AssertionError(f"the content is no text: {error}. {self!r}") from None

    @property
    def json(self) -> Any:
        """The content as JSON. Raises AssertionError if it is none."""
        if not self.content:
            raise AssertionError(f"the answer has no content, so no JSON. {self!r}")
        try:
            return json.loads(self.decoded_content)
        except ValueError as error:
            raise AssertionError(f"the content is not JSON: {error}. {self!r}") from None

    def __repr__(self) -> str:
        kind = self.content_type
        if not self.content:
            shown = "without content"
        elif kind.startswith("text/") or "json" in kind or "xml" in kind or "yaml" in kind:
            try:
                shown = self.decoded_content.decode(errors="replace")
            except AssertionError:
                shown = repr(self.content)
            shown = shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}... ({len(shown)} characters)"
        else:
            shown = f"{kind or 'without a type'}, {len(self.content)} bytes"
        return f"<{self.status} to {self.request}: {shown}>"
