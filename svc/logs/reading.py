"""Reading a log file: entries that match, oldest or newest first (spec: operations §10).

Both formats of entries are understood, also mixed in one file, for the format can be changed while the server runs. Lines that begin no entry
belong to the one above them; those before the first one, and files that are no log at all, are entries without a level and a time.

Files may be large: they are read in blocks from the requested end, and from about the requested time. Entries are nearly in
the order of their times; where several instances write, or the clock is set, some are out of order by less than SLACK_SECONDS, mostly. Nothing is
kept but the entries of one batch, whatever `limit` is: for the newest entries in the order of the file it is first read backwards, to find where they
begin.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil, floor
from pathlib import Path
from typing import Any, BinaryIO

from svc.logs.lines import JSON_START, START, timestamp

BLOCK = 1 << 18  # bytes
MAX_LINE = 2 << 20  # bytes of a line; the rest of it is left out
MAX_MESSAGE = 1 << 20  # bytes of the further lines of a message
SLACK_SECONDS = 60.0
BATCH_ENTRIES = 500
BATCH_BYTES = 1 << 18  # of messages

_TAG = re.compile(r"\[([^\]]*)\]")
_CUT = "\n... (cut)"

Entry = dict[str, Any]
"""`level`, `message`, `timestamp` (ISO), `thread` (`http/0`), `tags`; level, timestamp and thread are None for lines that are no entry of ours."""


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which entries to return. Times in seconds since the epoch, both included. `text` is contained in the message or a tag; `tag` is one of the
    tags. `newest_first`: also the order; `tail`: the newest ones, oldest first, of which `start` are left out at the end."""

    level: str | None = None
    since: float | None = None
    until: float | None = None
    text: str | None = None
    tag: str | None = None
    newest_first: bool = False
    tail: bool = False
    start: int = 0
    limit: int = 1000

    @property
    def window(self) -> tuple[int, int]:
        """The first one that matches, counted from 0, and the one behind the last."""
        return min(self.start, sys.maxsize), min(self.start + self.limit, sys.maxsize)


class LogReader:
    """The entries of one file, a batch at a time: for helper threads, one after the other. A missing file has none."""

    def __init__(self, path: Path, wanted: LogQuery) -> None:
        self.done = False
        self._path = path
        self._wanted = wanted
        self._entries = self._iter_entries()

    def batch(self) -> list[Entry]:
        """The next ones; `done` if there are no more. Raises OSError if the file cannot be read."""
        found: list[Entry] = []
        size = 0
        for entry in self._entries:
            found.append(entry)
            size += len(entry["message"])
            if len(found) >= BATCH_ENTRIES or size >= BATCH_BYTES:
                return found
        self.done = True
        return found

    def close(self) -> None:
        """Close the file; may be repeated."""
        self.done = True
        self._entries.close()

    def _iter_entries(self) -> Any:
        wanted = self._wanted
        try:
            stream = self._path.open("rb", buffering=0)
        except FileNotFoundError:
            return
        with stream:
            size = os.fstat(stream.fileno()).st_size
            if wanted.tail:
                yield from _iter_tail(stream, size, wanted)
                return
            yield from islice((entry for entry, _ in _iter_matching(stream, size, wanted)), *wanted.window)


def _iter_tail(stream: BinaryIO, size: int, wanted: LogQuery) -> Iterator[Entry]:
    """The newest entries that match, oldest first: without `start` of them, `limit` at most."""
    start, end = wanted.window
    begin = found = 0
    for found, (_, begin) in enumerate(islice(_iter_matching(stream, size, replace(wanted, newest_first=True)), end), 1):  # noqa: B007
        pass
    if found > start:
        yield from islice((entry for entry, _ in _iter_matching(stream, size, wanted, begin)), found - start)


def _iter_matching(stream: BinaryIO, size: int, wanted: LogQuery, begin: int = 0) -> Iterator[tuple[Entry, int]]:
    """With the offset of each, if they are read backwards. `begin`: where to read from, forwards."""
    since, until = _text(wanted.since, ceil), _text(wanted.until, floor)
    first = _text(None if wanted.since is None else wanted.since - SLACK_SECONDS, ceil)
    last = _text(None if wanted.until is None else wanted.until + SLACK_SECONDS, floor)
    if wanted.newest_first:
        found = _raw_backward(stream, size if last is None else _find_offset(stream, size, last, before=False))
    else:
        found = _raw_forward(stream, begin if first is None else _find_offset(stream, size, first, before=True), size)
    for raw in found:
        # Most entries of a long file are not wanted: only of the others more than time and level is looked at.
        time, level, _, _, _, offset = raw
        if time is not None:
            if wanted.newest_first and first is not None and time < first:
                return
            if not wanted.newest_first and last is not None and time > last:
                return
        if (since is not None and (time is None or time < since)) or (until is not None and (time is None or time > until)):
            continue
        if wanted.level is not None and level != wanted.level:
            continue
        entry = _entry(raw)
        if wanted.text is not None and wanted.text not in entry["message"] and not any(wanted.text in tag for tag in entry["tags"]):
            continue
        if wanted.tag is not None and wanted.tag not in entry["tags"]:
            continue
        yield entry, offset


def _text(seconds: float | None, rounded: Any) -> str | None:
    """A time as entries have it; the order of the strings is that of the times. Times that cannot be written become the nearest one."""
    if seconds is None:
        return None
    return timestamp(min(max(rounded(seconds * 1000), _FIRST_MS), _LAST_MS) / 1000)


_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_000  # years 1 and 9999


def _find_offset(stream: BinaryIO, size: int, time: str, *, before: bool) -> int:
    """Offset of the start of an entry before which all are older than `time`, or (`before=False`) behind which all are younger."""
    low, high = 0, size
    while high - low > 2 * BLOCK:
        middle = (low + high) // 2
        found = _first_entry(stream, middle, min(middle + BLOCK, high))
        if found is None:
            break
        at, found_time = found
        if found_time < time if before else found_time <= time:
            low = at
        else:
            high = middle if before else at
    return low if before else high


def _first_entry(stream: BinaryIO, begin: int, end: int) -> tuple[int, str] | None:
    """(position, time) of the first entry that starts behind `begin`."""
    stream.seek(begin)
    data = stream.read(end - begin)
    at = data.find(b"\n") + 1
    while at:
        stop = data.find(b"\n", at)
        head = _head(data[at : stop if stop >= 0 else len(data)])
        if head is not None:
            return begin + at, head[0]
        at = stop + 1
    return None


# --- lines ------------------------------------------------------------------------------------------------------------------------------------


def _lines_forward(stream: BinaryIO, begin: int, end: int) -> Iterator[bytes]:
    stream.seek(begin)
    rest = b""
    while begin < end:
        block = stream.read(min(BLOCK, end - begin))
        if not block:
            break  # it was cut off meanwhile
        begin += len(block)
        first, newline, block = block.partition(b"\n")
        rest += first[: MAX_LINE - len(rest)]
        if not newline:
            continue
        yield rest
        *lines, rest = block.split(b"\n")
        yield from lines
    if rest:
        yield rest


def _lines_backward(stream: BinaryIO, end: int) -> Iterator[tuple[bytes, int]]:
    """Each line and its offset."""
    rest = b""
    is_last = True
    while end > 0:
        begin = max(0, end - BLOCK)
        stream.seek(begin)
        block = stream.read(end - begin)
        end = begin
        if is_last:
            block = block.removesuffix(b"\n")
            is_last = False
        before, newline, last = block.rpartition(b"\n")
        rest = last + rest[: max(0, MAX_LINE - len(last))]
        if not newline:
            continue
        offset = begin + len(before) + 1
        yield rest, offset
        rest, *lines = before.split(b"\n")
        for line in reversed(lines):
            offset -= len(line) + 1
            yield line, offset
    if not is_last:  # of an empty file there is nothing, but a first line may be empty
        yield rest, 0


# --- entries ----------------------------------------------------------------------------------------------------------------------------------


Head = tuple[str, str, bytes | Entry]
"""Time and level of an entry, and the line that begins it, or what it was as JSON."""
Raw = tuple[str | None, str | None, bytes | Entry | None, Collection[bytes], bool, int]
"""The same of an entry with the further lines of its message, whether some were left out, and its offset if the file is read backwards; None for foreign
lines."""

_HEAD = re.compile(START.pattern.encode(), re.ASCII)


def _head(line: bytes) -> Head | None:
    """The head of the entry that a line begins, None for another line."""
    if line[:1] == b"{":
        found = _parse_json(line) if line.startswith(JSON_START) else None
        return None if found is None else (found["timestamp"], found["level"], found)
    if line[10:11] != b"T":
        return None
    match = _HEAD.match(line)
    return None if match is None else (match[1].decode(), match[4].decode(), line)


def parse_head(line: bytes) -> Entry | None:
    """The entry that a line begins, or None.

    >>> parse_head(b"2026-01-05T10:00:01.004Z [http/0] [info] [operation]: text")["tags"]
    ['operation']
    """
    head = _head(line)
    return None if head is None else _parsed(head[2])


def _parsed(head: bytes | Entry) -> Entry:
    if isinstance(head, dict):
        return head
    match = _HEAD.match(head)
    assert match is not None
    return {
        "level": match[4].decode(),
        "message": head[match.end() :].decode("utf-8", "replace").removesuffix("\r"),
        "timestamp": match[1].decode(),
        "thread": f"{match[2].decode('utf-8', 'replace')}/{match[3].decode()}",
        "tags": _TAG.findall(match[5].decode("utf-8", "replace")),
    }


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def _parse_json(line: bytes) -> Entry | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("timestamp"), str) or not _TIME.fullmatch(found["timestamp"]):
        return None
    tags = found.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(item, str) for item in (found.get("level"), found.get("message"), *tags)):
        return None
    return {
        "level": found["level"],
        "message": found["message"],
        "timestamp": found["timestamp"],
        "thread": found["thread"] if isinstance(found.get("thread"), str) else None,
        "tags": tags,
    }


def _entry(raw: Raw) -> Entry:
    """The entry; without a head, one of foreign lines."""
    _, _, head, lines, cut, _ = raw
    texts = [line.decode("utf-8", "replace").removesuffix("\r") for line in lines]
    if head is None:
        entry: Entry = {"level": None, "message": "", "timestamp": None, "thread": None, "tags": []}
    else:
        entry = _parsed(head)
        texts.insert(0, entry["message"])
    entry["message"] = "\n".join(texts).rstrip("\n") + (_CUT if cut else "")
    return entry


def _raw_forward(stream: BinaryIO, begin: int, end: int) -> Iterator[Raw]:
    head: Head | None = None
    lines: list[bytes] = []
    size, cut = 0, False
    for line in _lines_forward(stream, begin, end):
        found = _head(line)
        if found is None:
            size += len(line) + 1
            if size <= MAX_MESSAGE:
                lines.append(line)
            else:
                cut = True
            continue
        if head is not None:
            yield (*head, lines, cut, 0)
        elif any(lines):
            yield (None, None, None, lines, cut, 0)
        head, lines, size, cut = found, [], 0, False
    if head is not None:
        yield (*head, lines, cut, 0)
    elif any(lines):
        yield (None, None, None, lines, cut, 0)


def _raw_backward(stream: BinaryIO, end: int) -> Iterator[Raw]:
    """Yielded values are valid until the next step."""
    lines: deque[bytes] = deque()
    size, cut = 0, False
    for line, offset in _lines_backward(stream, end):
        head = _head(line)
        if head is None:
            lines.appendleft(line)
            size += len(line) + 1
            while size > MAX_MESSAGE:
                size -= len(lines.pop()) + 1
                cut = True
            continue
        yield (*head, lines, cut, offset)
        lines.clear()
        size, cut = 0, False
    if any(lines):
        yield (None, None, None, lines, cut, 0)
