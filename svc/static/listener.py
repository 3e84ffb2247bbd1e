"""StaticFiles, the listener that answers with the files of one entry (spec: http §13).

    address -> file (`lookup`) -> its content, in memory or open (`_load`) -> representation (`_represent`) -> conditions -> ranges -> answer

A representation is a compressed neighbour, the file compressed here, or the file as it is.

Every request looks at the disk: what is in memory counts for the version of the file that is there. Small files are answered from memory; of others the
answer is a part of the open file, which the connection sends as the client takes it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from urllib.parse import quote

from svc.connection.file_range import FileRange
from svc.errors import ApplicationFault, ClientError, NotAcceptable, NotFound
from svc.http.compression import MAX_AT_ONCE, choice_of
from svc.http.conditional import coded_tag, http_date
from svc.http.encoders import BR, GZIP, ZSTD, Coding, CompressedBody
from svc.http.raw_content import ACCEPT_RANGES, NOSNIFF, VARY
from svc.listeners.step import PlainListener
from svc.messages import HeaderPairs, Request, Response
from svc.static.conditions import is_unchanged, range_applies
from svc.static.content_types import content_type_of, is_compressible
from svc.static.file_cache import SETTLED_SECONDS, FileCache
from svc.static.lookup import FileSet, Lookup, ResolvedFile
from svc.static.opening import OpenFile, Version, look, read_all, version_of
from svc.static.options import StaticOptions
from svc.static.ranges import MultipartRanges, Ranges, parse_ranges

SMALL = 64 * 1024  # bytes up to which a file is read at once, and kept in memory
CACHE_CONTROL = ("Cache-Control", "no-cache")  # to be kept, and asked about before each use: a changed file counts at once
OF_NAVIGATION = "Accept, Sec-Fetch-Dest"  # what tells a page from a part of one
FIELDS_OF_304 = frozenset(("ETag", "Last-Modified", "Cache-Control", "Vary"))
NEIGHBOURS = {BR: ".br", ZSTD: ".zst", GZIP: ".gz"}
NEIGHBOUR_LAG_NS = 2 * 10**9  # how much older than the file a compressed neighbour may be: copying and unpacking do not keep an order
ADDRESSES = 2048  # that are remembered with their files ...
ADDRESS_LENGTH = 200  # ... if they are no longer than this


@dataclass(frozen=True, slots=True)
class Hot:
    """What an address means as long as the file is there."""

    found: ResolvedFile
    content_type: str


@dataclass(slots=True)
class Content:
    """What a file contains: `small`, or it is read from `open`, which belongs to who asked for it. `tag`: without quotes and coding. `is_stable`: nothing was
    written while it was read. `fields`: of the whole, by coding, once they were needed."""

    version: Version
    tag: str
    small: bytes | None = None
    open: OpenFile | None = None
    is_stable: bool = True
    fields: dict[str, HeaderPairs] = field(default_factory=dict)

    def close(self) -> None:
        file, self.open = self.open, None
        if file is not None:
            file.release()


@dataclass(slots=True)
class Representation:
    """What is sent of a file. `tag`: without quotes. `modified`: seconds. `coding`: its content coding. `is_made`: compressed here, so its bytes depend on the
    compressor, and no part of them is sent alone. `streams`: compressed while it is sent, so its length is not known."""

    content: Content
    tag: str
    modified: int
    coding: Coding | None = None
    is_made: bool = False
    streams: bool = False


class FaultyFiles(PlainListener):
    """The files of an entry whose options are wrong: the address of each answers 503, with the reason for a super user."""

    def __init__(self, files: FileSet, reason: str) -> None:
        self._lookup = Lookup(files, StaticOptions())
        self._reason = reason

    def answer(self, request: Request) -> Response | None:
        if self._lookup.may_find(request.pathname) and self._lookup.find(request.pathname) is not None:
            raise ApplicationFault(self._reason, request.user)
        return None


class StaticFiles(PlainListener):
    """The files of one entry. Thread: the loop's."""

    def __init__(self, files: FileSet, options: StaticOptions, cache: FileCache, *, compression_threshold: int = 1200) -> None:
        """`compression_threshold`: bytes above which a file is compressed if no neighbour is; 0: only neighbours are sent."""
        self._lookup = Lookup(files, options)
        self._directory = str(files.directory)
        self._options = options
        self._cache = cache
        self._now = cache.clock.wall
        self._set = cache.new_set()
        self._threshold = compression_threshold
        self._hot: dict[str, Hot] = {}

    def close(self) -> None:
        """Nothing more is asked."""
        self._hot.clear()
        self._cache.forget(self._set)

    def answer(self, request: Request) -> Response | None:
        address = request.pathname
        hot = self._hot.get(address)
        if hot is not None:
            try:
                version = version_of(os.stat(hot.found.path))
            except OSError:
                del self._hot[address]
            else:
                content = self._cache.get((self._set, hot.found.name, ""), version)
                if content is not None:
                    return self._respond(request, hot.found, hot.content_type, content)
        elif not self._lookup.may_find(address):
            return self._nothing(request)
        found = self._lookup.find(address)
        if found is None:
            return self._nothing(request)
        if found.moves:
            return _moved(request)
        content = self._load(found.name, found.version)
        if content is None:  # removed, or not to be served
            return self._nothing(request)
        content_type = content_type_of(found.name)
        if found.is_first and content.small is not None and len(address) <= ADDRESS_LENGTH and "%" not in address:
            if len(self._hot) >= ADDRESSES:
                self._hot.clear()
            self._hot[address] = Hot(found, content_type)
        return self._respond(request, found, content_type, content)

    def _nothing(self, request: Request) -> Response | None:
        """The answer where there is no file, None: it passes on. Raises NotFound."""
        options = self._options
        if options.fallthrough or not self._lookup.is_below(request.pathname):
            return None
        if options.not_found and (options.not_found_status >= 400 or _is_navigation(request)):
            for found in self._lookup.named(options.not_found):
                content = self._load(found.name, found.version)
                if content is not None:
                    response = self._respond(request, found, content_type_of(found.name), content, options.not_found_status)
                    if options.not_found_status < 400:
                        varies = [value for name, value in response.pairs if name == "Vary"]
                        response.pairs = [pair for pair in response.pairs if pair[0] != "Vary"]
                        response.pairs.append(("Vary", ", ".join((*varies, OF_NAVIGATION))))
                    return response
        raise NotFound("File not found", headers=(("Vary", OF_NAVIGATION),) if options.not_found and options.not_found_status < 400 else ())

    # --- contents ----------------------------------------------------------------------------------------------------------------------

    def _load(self, name: str, version: Version) -> Content | None:
        """The content of a file as it is now; None: it may not be served. `version`: of what has just been there. Raises Overloaded, OSError."""
        key = (self._set, name, "")
        kept: Content | None = self._cache.get(key, version)
        if kept is not None:
            return kept
        file = self._cache.open_files.open(self._directory, name, self._lookup.allows, SMALL)
        if file is None:
            return None
        if file.version.size > SMALL:
            return Content(file.version, self._tag_of(file.version), open=file)
        try:
            data = read_all(file.descriptor, SMALL + 1)
            after = version_of(os.fstat(file.descriptor))
        finally:
            file.release()
        if after != file.version or len(data) != after.size:  # it is being written: this much is there, and nothing of it is kept
            return Content(after._replace(size=len(data)), _digest(data), data, is_stable=False)
        content = Content(after, _digest(data), data)
        self._cache.put(key, after, content, len(data))
        return content

    def _tag_of(self, version: Version) -> str:
        """Of a large file. One that has just been changed may be changed once more in the same tick of the clock: its tag is for this answer alone."""
        now = self._now()
        return version.tag if now - version.changed_ns / 1e9 >= SETTLED_SECONDS else f"{version.tag}-{int(now * 1e9):x}"

    def _represent(self, request: Request, found: ResolvedFile, content_type: str, content: Content) -> Representation:
        """Raises NotAcceptable, Overloaded, OSError."""
        version = content.version
        choice = choice_of(request.block)
        if choice.accepted and version.size and is_compressible(content_type):
            for coding in choice.accepted:
                neighbour = self._neighbour(found, coding, version)
                if neighbour is not None:
                    newest = max(neighbour.version.seconds, version.seconds)
                    return Representation(neighbour, coded_tag(neighbour.tag, coding.name), newest, coding)
            coding = choice.accepted[0]
            wants_part = choice.identity and request.method == "GET" and "range" in request.block.fields
            if self._threshold and not wants_part and (version.size > self._threshold or not choice.identity):
                tag, modified = coded_tag(content.tag, coding.name), version.seconds
                if version.size > MAX_AT_ONCE:
                    return Representation(content, tag, modified, coding, is_made=True, streams=True)
                coded = self._compressed(found.name, coding, content)
                if coded.version.size < version.size or not choice.identity:
                    return Representation(coded, tag, modified, coding, is_made=True)
        if not choice.identity:
            raise NotAcceptable("This file is sent without a content coding only")
        return Representation(content, content.tag, version.seconds)

    def _neighbour(self, found: ResolvedFile, coding: Coding, version: Version) -> Content | None:
        """The file beside it that holds the same, compressed; None: there is none, or it is older."""
        name = found.name + NEIGHBOURS[coding]
        status = look(f"{self._directory}/{name}")
        if status is None or not stat.S_ISREG(status.st_mode) or status.st_mtime_ns < version.modified_ns - NEIGHBOUR_LAG_NS:
            return None
        return self._load(name, version_of(status)) if self._lookup.allows(name) else None

    def _compressed(self, name: str, coding: Coding, content: Content) -> Content:
        """At most MAX_AT_ONCE bytes. `version.size`: of what they became."""
        version = content.version
        key = (self._set, name, coding.name)
        coded: Content | None = self._cache.get(key, version)
        if coded is None:
            data, is_stable = content.small, content.is_stable
            if data is None:
                assert content.open is not None
                data = read_all(content.open.descriptor, version.size)
                is_stable = version_of(os.fstat(content.open.descriptor)) == version
            small = coding.compress(data)
            coded = Content(version._replace(size=len(small)), content.tag, small)
            if is_stable:
                self._cache.put(key, version, coded, len(small))
        return coded

    # --- answers -----------------------------------------------------------------------------------------------------------------------

    def _respond(self, request: Request, found: ResolvedFile, content_type: str, content: Content, status: int = 200) -> Response:
        """The answer with a file. Raises Problem, OSError. `content` is closed."""
        chosen = None
        try:
            chosen = self._represent(request, found, content_type, content)
            if status != 200:
                return self._whole(request, chosen, status, _fields_of_error(content_type, chosen))
            fields = request.block.fields
            if is_unchanged(fields, chosen.tag, content.tag, chosen.modified):
                return Response(None, 304, pairs=[pair for pair in self._fields(content_type, chosen) if pair[0] in FIELDS_OF_304])
            pairs = self._fields(content_type, chosen)
            if "range" in fields and request.method == "GET" and not chosen.is_made:
                size = chosen.content.version.size
                if range_applies(fields, chosen.tag, chosen.modified, self._now()):
                    ranges = parse_ranges(fields["range"], size)
                    if ranges is not None:
                        return self._part(content_type, chosen.content, ranges, size, pairs)
            return self._whole(request, chosen, 200, pairs)
        finally:
            content.close()
            if chosen is not None:
                chosen.content.close()

    def _whole(self, request: Request, chosen: Representation, status: int, pairs: HeaderPairs) -> Response:
        content = chosen.content
        size = content.version.size
        if request.method == "HEAD":
            if not chosen.streams:
                pairs.append(("Content-Length", str(size)))
            return Response(None, status, pairs=pairs)
        if content.small is not None:
            return Response(content.small, status, pairs=pairs)
        body = self._range(content, 0, size)
        if chosen.streams:
            assert chosen.coding is not None
            return Response(CompressedBody(body, chosen.coding), status, pairs=pairs)
        pairs.append(("Content-Length", str(size)))
        return Response(body, status, pairs=pairs)

    def _fields(self, content_type: str, chosen: Representation) -> HeaderPairs:
        """The fields of the whole, `Content-Type` first; a new list."""
        coding = "" if chosen.coding is None else chosen.coding.name
        made = chosen.content.fields.get(coding)
        if made is None:
            made = [("Content-Type", content_type), ("ETag", f'"{chosen.tag}"'), CACHE_CONTROL, NOSNIFF]
            if 0 <= chosen.modified <= self._now():  # a date that is still to come must not be sent (RFC 9110 §8.8.2.1)
                made.append(("Last-Modified", http_date(chosen.modified)))
            if coding:
                made.append(("Content-Encoding", coding))
            if is_compressible(content_type):
                made.append(VARY)
            if not chosen.is_made:
                made.append(ACCEPT_RANGES)
            if chosen.content.small is not None:
                chosen.content.fields[coding] = made
        return made.copy()

    @staticmethod
    def _range(content: Content, start: int, end: int) -> FileRange:
        """A part of the open file, which the answer closes."""
        assert content.open is not None
        return FileRange(content.open.share(), start, end)

    def _part(self, content_type: str, content: Content, ranges: Ranges, size: int, pairs: HeaderPairs) -> Response:
        """Raises ClientError 416."""
        if not ranges:
            raise ClientError(
                f"The range begins after the end of the file, at {size}", 416, headers=(("Content-Range", f"bytes */{size}"),)
            )
        small = content.small
        if len(ranges) == 1:
            ((start, end),) = ranges
            pairs.append(("Content-Range", f"bytes {start}-{end - 1}/{size}"))
            if small is not None:
                return Response(small[start:end], 206, pairs=pairs)
            return Response(self._range(content, start, end), 206, pairs=[*pairs, ("Content-Length", str(end - start))])
        if small is not None:
            parts = MultipartRanges(ranges, size, content_type, partial(_pieces_of, small))
            return Response(b"".join(parts), 206, pairs=[("Content-Type", parts.content_type), *pairs[1:]])
        assert content.open is not None
        file = content.open.share()
        parts = MultipartRanges(ranges, size, content_type, partial(_pieces_of_file, file), FileRange(file, 0, 0).close)
        return Response(parts, 206, pairs=[("Content-Type", parts.content_type), *pairs[1:], ("Content-Length", str(parts.length))])


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def _pieces_of(small: bytes, start: int, end: int) -> Iterator[bytes]:
    yield small[start:end]


def _pieces_of_file(file: OpenFile, start: int, end: int) -> Iterator[bytes]:
    part = FileRange(file.share(), start, end)
    try:
        yield from part
    finally:
        part.close()


def _is_navigation(request: Request) -> bool:
    """Whether a browser goes to the address, and does not load a part of a page from it."""
    fields = request.block.fields
    return fields.get("sec-fetch-dest") == "document" or "text/html" in fields.get("accept", "").lower()


def _fields_of_error(content_type: str, chosen: Representation) -> HeaderPairs:
    """The fields of a file that stands for another that is not there: it has no version of its own."""
    pairs = [("Content-Type", content_type), CACHE_CONTROL, NOSNIFF]
    if chosen.coding is not None:
        pairs.append(("Content-Encoding", chosen.coding.name))
    if is_compressible(content_type):
        pairs.append(VARY)
    return pairs


def _moved(request: Request) -> Response:
    """To the same address with a slash. It stays on this server: `request.target` has one slash in front."""
    path, mark, query = request.target.partition("?")
    if not path.endswith(request.pathname):  # a listener has changed it
        path, query, mark = request.pathname, request.query or "", "" if request.query is None else "?"
    location = quote(f"/{path.lstrip('/')}/{mark}{query}", safe="/?%:@!$&'()*+,;=-._~[]{}|^`\"<>#")
    return Response(None, 301, pairs=[("Location", request.prefix + location), CACHE_CONTROL])
