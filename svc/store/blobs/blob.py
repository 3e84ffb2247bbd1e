"""`Blob`: content with a type, in a record or in a file of its own (spec: schema-and-store §14).

A blob is in one of three states:

    held      its content is in memory: made from few bytes, or read with its record, which contains it
    unsaved   made from more, or from something that yields bytes; it is given a file before the record that has it is stored (`saving.py`)
    filed     its content is in a file, complete or still arriving; the record has a reference to it

A reference, as `records` keeps it: flags (01 in a file; 02 size not known when it was written), length of the type, type (ASCII), then
the content itself; or, in a file: identity of the database's files (8 bytes), number, size (8 bytes each, big-endian).

What reads without waiting (`read`, `chunks`, `inline`) is for the server's own use, what can wait is a coroutine.
"""

from __future__ import annotations

import asyncio
import codecs
import logging
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from struct import Struct as Layout
from typing import Any

from svc.errors import BadValue, Problem, ServerError
from svc.store.blobs.files import CHUNK, OPEN, BlobFile, BlobFiles
from svc.store.blobs.sources import Chunks, Part, UnsavedContent, cut, is_stream

logger = logging.getLogger("svc.store")

INLINE_BELOW = 8192  # bytes: smaller content is in the record (spec: schema-and-store §14.3)
DEFAULT_TYPE = "application/octet-stream"
MAX_SHOWN = 1 << 20  # bytes of content that is shown inside of something else; a table full of films must fit through memory
STALL_SECONDS = 60.0  # without progress, after which a reader of an arriving blob gives up
POLL_SECONDS = 0.1  # polling interval, seconds: a file that another process writes

IN_FILE, SIZE_UNKNOWN = 1, 2
_HEAD = Layout(">BB")
_FILED = Layout(">8sQQ")

DESCRIPTION = "Content of this type is not shown in JSON: read the property itself"
TOO_LONG = "Content of this length is not shown here: read the property itself"
NOT_TEXT = "Content that is not text in its charset is not shown in JSON: read the property itself"
_NO_CHARSETS = frozenset(("idna", "mbcs", "oem", "punycode", "raw-unicode-escape", "unicode-escape", "utf-7"))  # slow, or no charsets

Listener = Callable[[Any], None]
Content = bytes  # inside `Blob`, `bytes` is a method


class Blob:
    """Content with a media type, however long: a value of a record. Made by `create_blob`; a record that is read has it again."""

    __slots__ = ("__weakref__", "_content", "_files", "_listeners", "_number", "_size", "_type", "_waiting", "file", "is_bare", "unsaved")

    def __init__(self, content: Content | None = None, type: str | None = None) -> None:
        """A blob that holds its content, however long; most callers want `create_blob`. Raises BadValue if `type` is not a media type."""
        if type is not None and not (type.isascii() and type.isprintable() and 0 < len(type) < 256):
            raise BadValue("The type of a blob must be a media type of at most 255 characters")
        self._type = type
        self._content = content
        self._size = None if content is None else len(content)
        self._files: BlobFiles | None = None
        self._number = 0
        self.is_bare = False  # made of bytes or a string that came without a type: in place of the same content it changes nothing
        self.unsaved: UnsavedContent | None = None
        self.file: BlobFile | None = None  # while the commit that makes it a record's is yet to come, or its content
        self._listeners: dict[str, list[Listener]] | None = None
        self._waiting: list[asyncio.Future[None]] = []

    # -- what it is

    @property
    def type(self) -> str:
        """The media type."""
        return self._type or DEFAULT_TYPE

    @property
    def size(self) -> int | None:
        """Bytes; None while unknown, because the content is still arriving."""
        if self._size is None and self._files is not None and (self.file is None or self.file.is_done):
            path = self._files.find(self._number)
            if path is not None:
                self._size = path.stat().st_size
        return self._size

    @property
    def inline(self) -> Content | None:
        """The content, if it is in memory."""
        if self._content is None and self.unsaved is not None and type(self.unsaved.data) is bytes:
            return self.unsaved.data
        return self._content

    @property
    def number(self) -> int | None:
        """Of its file; None if it has none."""
        return None if self._files is None else self._number

    @property
    def files(self) -> BlobFiles | None:
        """The files among which its own is."""
        return self._files

    @property
    def is_sized(self) -> bool:
        """Whether its reference says how long it is."""
        return self._size is not None

    @property
    def is_arriving(self) -> bool:
        """Whether the rest of its content is yet to come: `stream` waits for it, `chunks` cannot."""
        files = self._files
        return files is not None and not files.is_complete(self._number) and files.is_arriving(self._number)

    def __eq__(self, other: object) -> bool:
        """The same file, or the same content in memory and the same type."""
        if self is other:
            return True
        if not isinstance(other, Blob):
            return NotImplemented
        if self._files is not None or other._files is not None:
            same_files = self._files is not None and other._files is not None and self._files.identity == other._files.identity
            return same_files and self._number == other._number
        return self.type == other.type and self.inline is not None and self.inline == other.inline

    def __hash__(self) -> int:
        return hash((Blob, self.type))  # size and file may become known later

    def __repr__(self) -> str:
        return f"<Blob {self.type}, {'unknown size' if self._size is None else f'{self._size} bytes'}>"

    # -- reading, for coroutines

    async def bytes(self) -> Content:
        """The whole content."""
        unsaved = self.unsaved
        content = b"".join([piece async for piece in self.stream()])
        if unsaved is not None and self.unsaved is unsaved:
            unsaved.data, self._size = content, len(content)  # what could be read only once
        return content

    async def text(self) -> str:
        """The whole content as text, in the charset of its type or UTF-8; what is not valid is replaced."""
        return (await self.bytes()).decode(self._charset(), "replace")

    def stream(self, start: int = 0, end: int | None = None) -> AsyncIterator[Content]:
        """The content from `start` to before `end`, in pieces. Waits for what is still arriving."""
        if self._files is not None and not self._files.is_complete(self._number):
            return self._arriving(self._files, start, end)
        if self.unsaved is not None and self.inline is None:
            return cut(self.unsaved.pieces(), start, end)
        return self._stream_chunks(start, end)

    async def _stream_chunks(self, start: int, end: int | None) -> AsyncIterator[Content]:
        chunks = self.chunks(start, end)
        try:
            for piece in chunks:
                yield piece
                await asyncio.sleep(0)  # others are served in between
        finally:
            chunks.close()

    async def _arriving(self, files: BlobFiles, position: int, end: int | None) -> AsyncIterator[Content]:
        waited = 0.0
        while not files.exists(self._number) and files.is_arriving(self._number):
            waited = await self._wait_for_more(files, waited)
        descriptor = files.open_arriving(self._number)
        waited = 0.0
        try:
            while end is None or position < end:
                is_complete = files.is_complete(self._number)  # asked first: then what is read next is all there is
                piece = os.pread(descriptor, CHUNK if end is None else min(CHUNK, end - position), position)
                if piece:
                    position += len(piece)
                    waited = 0.0
                    yield piece
                elif is_complete:
                    return
                elif not files.is_arriving(self._number):
                    if not files.is_complete(self._number):
                        raise files.incomplete(self._number)
                else:
                    waited = await self._wait_for_more(files, waited)
        finally:
            os.close(descriptor)

    async def _wait_for_more(self, files: BlobFiles, waited: float) -> float:
        """Returns the seconds waited so far without progress. Raises ServerError when these are too many."""
        file = files.arriving.get(self._number)
        seconds = files.expected_seconds if files.is_expected(self._number) else STALL_SECONDS
        try:
            if file is not None and not file.is_done:
                await file.progress(seconds)
            elif waited >= seconds:
                raise TimeoutError
            else:
                await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise ServerError(f"The blob is still arriving, but no content has arrived for {seconds:g} s", 504, "BLOB_STALLED") from None
        return waited + POLL_SECONDS

    def slice(self, start: int, end: int | None = None, type: str | None = None) -> Blob:
        """The part from `start` to before `end`, as a blob with the media type `type`; negative positions count from the end. Stored in a record, it is a
        copy."""
        size = self.size
        if size is None:
            if start < 0 or (end is not None and end < 0):
                raise BadValue("The size of the blob is not known yet: positions cannot count from its end")
            stop = end
        else:
            start, stop, _ = slice(start, end).indices(size)
            stop = max(start, stop)
        content = self.inline
        if content is not None:
            return create_blob(content[start:stop], type=type)
        part = Blob(None, type)
        part._size = None if stop is None or size is None else stop - start
        part.unsaved = UnsavedContent(Part(self, start, stop), save_before_commit=True)
        return part

    # -- reading, without waiting

    def read(self) -> Content:
        """The whole content. Raises ServerError if it is not all there."""
        content = self.inline
        return b"".join(self.chunks()) if content is None else content

    def chunks(self, start: int = 0, end: int | None = None) -> Chunks:
        """The content from `start` to before `end`, in pieces of at most 64 KiB.

        Raises ServerError, now or while it is read, if the file is missing, not complete or shorter than it was.
        """
        content = self.inline
        if content is not None:
            return Chunks(content, start, len(content) if end is None else min(end, len(content)))
        if self._files is None:
            if self.unsaved is not None and isinstance(self.unsaved.data, Part):
                return self.unsaved.data.chunks(start, end)
            raise ServerError("The content of this blob is not there yet", 500, "BLOB_ARRIVING")
        descriptor, size = self._files.open(self._number, self._size)
        return Chunks((self._files, self._number, descriptor), start, size if end is None else min(end, size))

    def json_form(self) -> object:
        """What stands for it inside JSON (spec: schema-and-store §14.6): its text, or a description. Raises nothing."""
        if not self.type.startswith("text/"):
            return self._described(DESCRIPTION)
        content = self.binary_form()
        if not isinstance(content, bytes):
            return content
        try:
            return content.decode(self._charset())
        except UnicodeError:
            return self._described(NOT_TEXT)

    def binary_form(self) -> Content | dict[str, object]:
        """What stands for it inside CBOR and MessagePack: its content, or a description of what is too long. Raises nothing."""
        size = self.size
        if size is None or size > MAX_SHOWN:
            return self._described(TOO_LONG)
        try:
            return self.read()
        except Problem as error:
            return self._described(error.message)

    def _described(self, description: str) -> dict[str, object]:
        return {"description": description, "contentType": self.type, "size": self.size}

    def has_text(self, text: str) -> bool:
        """Whether `json_form` is this text. Of another length in UTF-8 it is not read. Raises nothing."""
        if not self.type.startswith("text/"):
            return False
        if self._charset() == "utf-8" and self.size != len(text.encode("utf-8", "surrogatepass")):
            return False
        return self.json_form() == text

    def has_content(self, content: Content) -> bool:
        """Whether `binary_form` is this content. Of another length it is not read. Raises nothing."""
        return self.size == len(content) and self.binary_form() == content

    def replaces_itself_in(self, other: Blob) -> bool:
        """Whether it came without a type and has the content that `other` is shown with, so that it is no other content."""
        if not self.is_bare or (self.size or 0) > MAX_SHOWN:
            return False
        if self._type is None:
            return self.size == other.size and other.has_content(self.read())
        if not other.type.startswith("text/") or (other._charset() == "utf-8" and self.size != other.size):
            return False
        return other.has_text(self.read().decode())

    def _charset(self) -> str:
        for parameter in self.type.split(";")[1:]:
            name, _, value = parameter.strip().partition("=")
            if name.lower() == "charset":
                try:
                    charset = codecs.lookup(value.strip('"')).name
                    b" ".decode(charset, "ignore")  # raises for codecs that do not make text of bytes
                except (LookupError, ValueError):
                    break
                return "utf-8" if charset in _NO_CHARSETS else charset
        return "utf-8"

    # -- saving

    def on(self, name: str, callback: Listener) -> None:
        """Call `callback` with the size (`name`: "size") or with the exception ("error") when it is known; at once if it is."""
        if name not in ("size", "error"):
            raise BadValue(f'A blob has the events "size" and "error", not {name!r}')
        error = None if self.file is None else self.file.error
        if name == "size" and self.size is not None:
            callback(self.size)
        elif name == "error" and error is not None:
            callback(error)
        else:
            if self._listeners is None:
                self._listeners = {}
            self._listeners.setdefault(name, []).append(callback)

    @property
    def written(self) -> Awaitable[None]:
        """Done when the whole content is on disk, or in the record; raises what prevented that."""
        return self._written()

    async def _written(self) -> None:
        if self.file is not None and self.file.error is not None:
            raise self.file.error
        if self.unsaved is None and (self.file is None or self.file.is_done) and not self.is_arriving:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    def settle(self, error: BaseException | None = None) -> None:
        """The whole content is saved, or will never be: wake the waiting tasks. On the loop's thread."""
        listeners = (self._listeners or {}).get("size" if error is None else "error", [])
        self._listeners = None
        for listener in listeners:
            try:
                listener(self.size if error is None else error)
            except Exception:
                logger.exception("a listener of a blob failed")
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)

    def hold(self, content: Content) -> None:
        """The content turned out to be small: it goes into the record."""
        self._content, self._size, self.unsaved = content, len(content), None

    def move_into(self, files: BlobFiles, file: BlobFile, size: int | None) -> None:
        """The content is in `file`, or (`size` None) will be."""
        self._files, self._number, self.file, self._size, self.unsaved = files, file.number, file, size, None

    def refer_to(self, files: BlobFiles, number: int, size: int | None) -> None:
        """It came from another node, and its content is, or will be, in this file."""
        self._files, self._number, self._size, self.file = files, number, size, None

    # -- references

    def reference(self) -> Content:
        """What a record keeps. A blob that is unsaved must have been saved before."""
        type_ = b"" if self._type is None else self._type.encode("ascii")
        if self._files is not None:
            size = self._size
            flags = IN_FILE if size is not None else IN_FILE | SIZE_UNKNOWN
            return _HEAD.pack(flags, len(type_)) + type_ + _FILED.pack(self._files.identity, self._number, size or 0)
        content = self._content
        assert content is not None, "a blob must be saved before its record is stored"
        return _HEAD.pack(0, len(type_)) + type_ + content

    @classmethod
    def from_reference(cls, data: memoryview) -> Blob:
        """Raises ValueError for what is no reference."""
        flags, length = _HEAD.unpack_from(data)
        start = _HEAD.size + length
        blob = cls.__new__(cls)
        blob._type = str(data[_HEAD.size : start], "ascii") or None
        blob._content = None
        blob._files = blob.unsaved = blob.file = blob._listeners = None
        blob.is_bare = False
        blob._waiting = []
        blob._number = 0
        if flags & IN_FILE:
            identity, number, size = _FILED.unpack(data[start:])
            files = OPEN.get(identity)
            blob._files = files if files is not None else BlobFiles(identity, "", ())  # of a database that is not open
            blob._number = number
            blob._size = None if flags & SIZE_UNKNOWN else size
        else:
            blob._content = bytes(data[start:])
            blob._size = len(blob._content)
        return blob


_UTF8_TEXT = re.compile(r'text/plain; *charset="?utf-8"?', re.IGNORECASE)


def create_blob(
    data: Any,
    *,
    type: str | None = None,
    size: int | None = None,
    save_before_commit: bool = False,
    compress: bool = False,
    flush: bool = False,
) -> Blob:
    """A blob of `data`: bytes, a text (as UTF-8, by default `text/plain`), a file object, an iterable or an async iterable of bytes.

    `type`: the media type. `size`: of the content, if the caller knows it. `save_before_commit`: the record that has it is not committed before all
    content is on disk; always so, but for an async iterable, which without it may still be arriving long after. `compress` and `flush` are accepted and
    change nothing: files are kept as they are, and are on disk when `written` is done. Raises BadValue for anything else.

    `text/plain` in UTF-8 is `text/plain`: HTTP shows it with its charset, so that the two could not be distinguished when they come back.
    """
    if type is not None and _UTF8_TEXT.fullmatch(type):
        type = "text/plain"
    if isinstance(data, str):
        try:
            data = data.encode()
        except UnicodeEncodeError:
            raise BadValue("A string with an unpaired surrogate cannot be stored") from None
        type = type or "text/plain"
    elif isinstance(data, (bytearray, memoryview)):
        data = bytes(data)
    if isinstance(data, Blob):
        return data.slice(0, None, type or data.type)
    if isinstance(data, bytes):
        if len(data) < INLINE_BELOW:
            return Blob(bytes(data), type)
        blob = Blob(None, type)
        blob._size = len(data)
        blob.unsaved = UnsavedContent(bytes(data), True)
        return blob
    if not is_stream(data) and not hasattr(data, "__iter__"):
        raise BadValue("A blob is made of bytes, a string, a file or an iterable of bytes")
    blob = Blob(None, type)
    blob._size = size
    blob.unsaved = UnsavedContent(data, save_before_commit or not hasattr(data, "__aiter__"))
    return blob
