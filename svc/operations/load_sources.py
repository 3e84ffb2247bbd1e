"""Where loads read from: a text, a file of this machine, a URL (contract: operations §4).

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
import ssl
import stat
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from svc.errors import ClientError, ValidationError
from svc.operations.fields import bad_request
from svc.operations.refusals import refused
from svc.store.conversion import printable

PIECE = 1 << 17  # bytes or characters: rows of a piece take about 1 ms to read
TIMEOUT = 30.0  # seconds to connect, and without a byte
MAX_REDIRECTS = 5
CONTENT_TYPES = frozenset({"text/csv", "application/octet-stream", "text/plain", "application/vnd.ms-excel"})

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_OURS = frozenset({"host", "connection", "content-length", "transfer-encoding", "accept-encoding"})  # headers that no caller sets
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*").fullmatch
_URL = re.compile(r"[\x21-\x7e]+").fullmatch

T = TypeVar("T")


class Content(Protocol):
    """What is read in pieces, on a helper thread."""

    def read(self, amt: int, /) -> bytes: ...

    def close(self) -> None: ...


class Source:
    """The text of `content` in pieces. `size`: bytes of all of it, None if that is not known; `done`: of them that have been read."""

    def __init__(self, worker: Worker, content: Content, size: int | None) -> None:
        self._worker = worker
        self._content = content
        self.size = size
        self.done = 0

    async def pieces(self) -> AsyncGenerator[str]:
        """Raises ValidationError for what is not UTF-8."""
        decode = codecs.getincrementaldecoder("utf-8")().decode
        while True:
            data = await self._worker.run(lambda: self._content.read(PIECE))
            try:
                text = decode(data, not data)
            except UnicodeDecodeError as error:
                place = self.done + error.start
                raise ValidationError(f"The content is not valid UTF-8 near byte {place}") from None
            self.done += len(data)
            if text:
                yield text
            if not data:
                return

    def close(self) -> None:
        """Let go of the content; may be called at any time, also while it is being read."""
        self._worker.end(self._content.close)


class TextSource:
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


async def opened(open_: Callable[[], tuple[Content, int | None]]) -> Source:
    """Open a source on a thread of its own."""
    worker = Worker()
    try:
        content, size = await worker.run(open_)
    except BaseException:
        worker.end()
        raise
    return Source(worker, content, size)


# --- files ------------------------------------------------------------------------------------------------------------------------------


def open_file(path: str, base: Path, roots: Sequence[Path] | None) -> tuple[Content, int | None]:
    """A file and its size. `base`: of relative paths. `roots`: outside of which nothing may be read; None: everything may. Blocks.

    Raises 400, and 403 outside, whether there is such a file or not. Links are followed before that is decided, and the file that was opened is
    the one that was looked at.
    """
    shown = printable(path)
    try:
        real = os.path.realpath(base / path)
        if roots is not None and not any(_is_below(real, os.path.realpath(root)) for root in roots):
            raise refused(f"File '{shown}' is outside the directories from which files may be loaded")
        # A link that came into being meanwhile fails; a pipe would make us wait for whoever writes to it.
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


def _is_below(path: str, root: str) -> bool:
    return path.startswith(root if root.endswith(os.sep) else root + os.sep)


# --- URLs -------------------------------------------------------------------------------------------------------------------------------


def url_fault(url: str) -> str | None:
    """The predicate of the sentence about what is no URL that can be loaded; None: nothing is wrong."""
    return None if _maybe_parts(url) is not None else "must be a valid url"


def headers_fault(headers: Mapping[str, Any]) -> str | None:
    """The same for headers to pass on."""
    for name, value in headers.items():
        if _HEADER_NAME(name) is None or not isinstance(value, str) or _HEADER_VALUE(value) is None:
            return "must be an object of header names and texts"
    return None


def open_url(url: str, headers: Mapping[str, str]) -> tuple[Content, int | None]:
    """The body that a GET is answered with, and its size if the server tells. Blocks. Raises 400.

    `headers` go to the server of the URL, and not on to others that it redirects to.
    """
    place = url
    fields = {name: value for name, value in headers.items() if name.lower() not in _OURS}
    for _ in range(MAX_REDIRECTS + 1):
        parts = _maybe_parts(place)
        if parts is None:
            raise _failed(url, None, "redirected to what is no http or https URL")
        connection = connect(parts)
        try:
            connection.request("GET", _target(parts), headers=_fields(parts, fields))
            response = connection.getresponse()
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            raise _failed(url, None, _reason(error)) from None
        location = response.getheader("Location")
        if response.status not in _REDIRECTS or location is None:
            return _checked(url, connection, response)
        connection.close()
        place = urljoin(place, location)
        if _origin(parts) != _origin(urlsplit(place)):
            fields = {}
    raise _failed(url, None, f"redirected more than {MAX_REDIRECTS} times")


def connect(parts: SplitResult) -> http.client.HTTPConnection:
    """Not yet connected. Certificates are verified."""
    assert parts.hostname is not None
    if parts.scheme == "https":
        return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=TIMEOUT, context=ssl.create_default_context())
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT)


class _Body:
    """The body of an answer, which must come to its end."""

    def __init__(self, url: str, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._url = url
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


def _checked(url: str, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> tuple[Content, int | None]:
    fault = None
    kind = (response.getheader("Content-Type") or "application/octet-stream").partition(";")[0].strip().lower()
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
    return _Body(url, connection, response), response.length


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
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _shown(url: str) -> str:
    """Without the password that it may contain."""
    parts = urlsplit(url)
    return url if parts.username is None else url.replace(parts.netloc, parts.netloc.rpartition("@")[2], 1)
