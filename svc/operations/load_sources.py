"""Where loads read from: a text, a file of this machine, a URL (spec: operations §4).

Whatever blocks is done on a thread that belongs to the load alone: a slow disk or peer must not keep the helper threads of everybody. The content is
read in pieces, so its size does not matter.
"""

from __future__ import annotations

import asyncio
import base64
import codecs
import http.client
import os
import re
import stat
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from svc.content.texts import maybe_charset
from svc.errors import ClientError, Overloaded, ValidationError
from svc.operations.fields import bad_request
from svc.operations.outbound import PORTS, HostRules, connect
from svc.operations.refusals import refused
from svc.store.values.conversion import printable

PIECE = 1 << 17  # bytes or characters: rows of a piece take about 1 ms to read
TIMEOUT = 30.0  # seconds to connect, and without a byte
MAX_REDIRECTS = 5
OPENING = 32  # sources at one time: each has a thread, and a peer that does not answer keeps it for TIMEOUT
CONTENT_TYPES = frozenset({"text/csv", "application/octet-stream", "text/plain", "application/vnd.ms-excel"})

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_OURS = frozenset({"host", "connection", "content-length", "transfer-encoding", "accept-encoding"})  # headers that no caller sets
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*").fullmatch
_charset = re.compile(r";[ \t]*charset=[ \t]*\"?([^\";]{1,40})", re.IGNORECASE).search
_URL = re.compile(r"[\x21-\x7e]+").fullmatch

T = TypeVar("T")


class ReadableContent(Protocol):
    """What is read in pieces, on a helper thread."""

    def read(self, amt: int, /) -> bytes: ...

    def close(self) -> None: ...


class StreamSource:
    """The text of `content` in pieces. `size`: bytes of all of it, None if that is not known; `done`: of them that have been read.

    `encoding`: its codec; None: what the content itself says (`charset`), or UTF-8.
    """

    def __init__(self, worker: Worker, content: ReadableContent, size: int | None, encoding: str | None = None) -> None:
        self._worker = worker
        self._content = content
        self._is_named = encoding is not None
        self._encoding = encoding or getattr(content, "charset", None) or "utf-8"
        self.size = size
        self.done = 0

    async def check_encoding(self) -> None:
        """Raises ValidationError if content that can be read twice is not in its encoding, so that nothing of it is loaded. Of other content `pieces`
        says so when it comes to the place."""
        seek = getattr(self._content, "seek", None)
        if seek is None:
            return
        async for _ in self.pieces():
            pass
        await self._worker.run(lambda: seek(0))
        self.done = 0

    async def pieces(self) -> AsyncGenerator[str]:
        """Raises ValidationError for what is not in the encoding."""
        decode = codecs.getincrementaldecoder(self._encoding)().decode
        while True:
            data = await self._worker.run(lambda: self._content.read(PIECE))
            try:
                text = decode(data, not data)
            except UnicodeError as error:
                place = self.done + (error.start if isinstance(error, UnicodeDecodeError) else 0)
                name = "UTF-8" if self._encoding == "utf-8" else self._encoding.replace("_", "-")
                hint = "" if self._is_named else ': name its encoding, as in "encoding": "windows-1252"'
                raise ValidationError(f"The content is not valid {name} near byte {place}{hint}") from None
            self.done += len(data)
            if text:
                yield text
            if not data:
                return

    def close(self) -> None:
        """Let go of the content; may be called at any time, also while it is being read."""
        self._worker.end(self._content.close)


class StringSource:
    """The same for a text that is there."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.size: int | None = len(text)
        self.done = 0

    async def pieces(self) -> AsyncGenerator[str]:
        for start in range(0, len(self._text), PIECE):
            piece = self._text[start : start + PIECE]
            self.done += len(piece)
            yield piece

    async def check_encoding(self) -> None:
        """It is text already."""

    def close(self) -> None:
        self._text = ""


class Worker:
    """A thread for what blocks."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="load")

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def end(self, last: Callable[[], object] | None = None) -> None:
        """End the thread when it has done what it is doing, and `last`."""
        if last is not None:
            self._thread.submit(last)
        self._thread.shutdown(wait=False)


_opening = 0  # sources that are being opened


async def opened(open_: Callable[[], tuple[ReadableContent, int | None]], encoding: str | None = None) -> StreamSource:
    """Open a source on a thread of its own. Raises 503 while too many peers keep their callers waiting. `encoding`: as it was named, None if it was
    not."""
    global _opening
    if _opening >= OPENING:
        raise Overloaded("Too many loads are being opened, try again later")
    _opening += 1
    worker = Worker()
    try:
        content, size = await worker.run(open_)
    except BaseException:
        worker.end()
        raise
    finally:
        _opening -= 1
    return StreamSource(worker, content, size, None if encoding is None else maybe_charset(encoding))


def encoding_fault(name: str) -> str | None:
    """The predicate of the message about an unknown encoding; None: it is known."""
    return None if maybe_charset(name) is not None else "must be the name of an encoding, such as utf-8 or windows-1252"


# --- files ------------------------------------------------------------------------------------------------------------------------------


def open_file(path: str, base: Path, roots: Sequence[Path] | None) -> tuple[ReadableContent, int | None]:
    """A file and its size. `base`: of relative paths. `roots`: outside of which nothing may be read; None: everything may. Blocks.

    Raises 400, and 403 outside, whether there is such a file or not. Links are followed before that is decided, and the file that was opened is
    the one that was looked at.
    """
    shown = printable(path)
    try:
        real = os.path.realpath(base / path)
        if roots is not None and not any(is_below(real, os.path.realpath(root)) for root in roots):
            raise refused(f"File '{shown}' is outside the directories from which files may be loaded")
        # A link that came into being meanwhile fails; a pipe would block until a process writes to it.
        descriptor = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except PermissionError:
        raise bad_request(f"Permission denied {shown}") from None
    except (OSError, ValueError):
        raise bad_request(f"No such file or directory {shown}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise bad_request(f"Not a file {shown}")
        if roots is not None and os.path.realpath(real) != real:
            raise bad_request(f"No such file or directory {shown}")
        return os.fdopen(descriptor, "rb", buffering=0), found.st_size
    except BaseException:
        os.close(descriptor)
        raise


def is_below(path: str, root: str) -> bool:
    return path.startswith(root if root.endswith(os.sep) else root + os.sep)


# --- URLs -------------------------------------------------------------------------------------------------------------------------------


def url_fault(url: str) -> str | None:
    """The predicate of the message about a URL that cannot be loaded; None: it is valid."""
    return None if _maybe_parts(url) is not None else "must be a valid url"


def headers_fault(headers: Mapping[str, Any]) -> str | None:
    """The same for headers to pass on."""
    for name, value in headers.items():
        if _HEADER_NAME(name) is None or not isinstance(value, str) or _HEADER_VALUE(value) is None:
            return "must be an object of header names and texts"
    return None


def open_url(url: str, headers: Mapping[str, str], rules: HostRules) -> tuple[ReadableContent, int | None]:
    """The body that a GET is answered with, and its size if the server tells. Blocks. Raises 400, and 403 for hosts that `rules` do not permit.

    `headers` go to the server of the URL, and not on to others that it redirects to. Each of these is checked as the first one is.
    """
    place = url
    fields = {name: value for name, value in headers.items() if name.lower() not in _OURS}
    for _ in range(MAX_REDIRECTS + 1):
        parts = _maybe_parts(place)
        if parts is None:
            raise _failed(url, None, "redirected to a URL that is neither http nor https")
        assert parts.hostname is not None
        connection = connect(parts, rules.permitted(parts.hostname, parts.port or PORTS[parts.scheme]), TIMEOUT)
        try:
            connection.request("GET", _target(parts), headers=_fields(parts, fields))
            response = connection.getresponse()
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            raise _failed(url, None, _reason(error)) from None
        location = response.getheader("Location")
        if response.status not in _REDIRECTS or location is None:
            return _checked(url, connection, response)
        response.close()  # a connection that ends with its answer is the answer's by now
        connection.close()
        place = urljoin(place, location)
        if _origin(parts) != _origin(urlsplit(place)):
            fields = {}
    raise _failed(url, None, f"redirected more than {MAX_REDIRECTS} times")


class _Body:
    """The body of an answer, which must come to its end."""

    def __init__(
        self, url: str, connection: http.client.HTTPConnection, response: http.client.HTTPResponse, charset: str | None = None
    ) -> None:
        self._url = url
        self.charset = charset
        self._connection = connection
        self._response = response

    def read(self, amt: int, /) -> bytes:
        try:
            data = self._response.read(amt)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _failed(self._url, self._response.status, _reason(error)) from None
        if not data and self._response.length:
            raise _failed(self._url, self._response.status, "the connection was closed before the end")
        return data

    def close(self) -> None:
        self._response.close()
        self._connection.close()


def _checked(url: str, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> tuple[ReadableContent, int | None]:
    fault = None
    content_type = response.getheader("Content-Type") or "application/octet-stream"
    kind = content_type.partition(";")[0].strip().lower()
    charset = _charset(content_type)
    coding = (response.getheader("Content-Encoding") or "identity").strip().lower()
    if response.status != 200:
        fault = _failed(url, response.status, response.reason or "no reason")
    elif kind not in CONTENT_TYPES:
        fault = ClientError(f"CSV Load failed from URL: {_shown(url)}, unsupported content type: {printable(kind)}")
    elif coding != "identity":
        fault = ClientError(f"CSV Load failed from URL: {_shown(url)}, unsupported content encoding: {printable(coding)}")
    if fault is not None:
        response.close()
        connection.close()
        raise fault
    return _Body(url, connection, response, None if charset is None else maybe_charset(charset.group(1))), response.length


def _failed(url: str, status: int | None, text: str) -> ClientError:
    return ClientError(f"CSV Load failed from URL: {_shown(url)}, status code: {status or 'none'}, message: {printable(text)}")


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "the server does not answer in time"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return type(error).__name__


def _maybe_parts(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        good = _URL(url) is not None and parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # of the port, or of an address in brackets
        return None
    return parts if good else None


def _target(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _fields(parts: SplitResult, fields: Mapping[str, str]) -> dict[str, str]:
    sent = {"Accept": "text/csv, text/plain;q=0.9, */*;q=0.1", "Accept-Encoding": "identity", "User-Agent": "svc"}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        sent["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    for name, value in fields.items():
        for known in [known for known in sent if known.lower() == name.lower()]:
            del sent[known]
        sent[name] = value
    return sent


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or PORTS.get(parts.scheme)


def _shown(url: str) -> str:
    """Without the password that it may contain."""
    parts = urlsplit(url)
    return url if parts.username is None else url.replace(parts.netloc, parts.netloc.rpartition("@")[2], 1)
