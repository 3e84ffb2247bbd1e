"""Reading the log files (spec: operations §10)."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from svc.content.content_type import Shape
from svc.errors import ClientError, ServerError
from svc.logs.core import NUMBERS
from svc.logs.reading import Entry, LogQuery, LogReader
from svc.messages import Response
from svc.operations.call import Call
from svc.operations.fields import REPLICATED, Field, bad_request
from svc.operations.node import Node
from svc.operations.operation import SUPER_USER, Operation
from svc.operations.value_stream import stream_pairs, streaming_type

LOG_NAMES = ("svc.log", "install.log")
LEVELS = tuple(sorted(NUMBERS, key=lambda name: -NUMBERS[name]))
COLUMNS = ("level", "message", "timestamp", "thread", "tags")

MOST_COUNTED = 10_000  # entries for a client whose type needs their number first
_SHOWN = 100  # characters of a bad value in a message
_FARTHEST_MS = 8.64e15  # what a date of JavaScript can be

_ZONE = re.compile(r"(?:[zZ]|[+-]\d\d(?::?\d\d)?)$")


def read_log(call: Call) -> Any:
    wanted = LogQuery(
        level=call["level"],
        since=_time(call["from"], "from"),
        until=_time(call["until"], "until"),
        text=call["filter"] or None,
        tag=call["tag"] or None,
        newest_first=call["order"] == "desc",
        tail=call["order"] is None and call["from"] is None and call["until"] is None,
        start=int(call["start"]),
        limit=int(call["limit"]),
    )
    path = _path(call.node, call["log_name"])
    call.node.logs.flush()  # so that what happened before this call is there
    return _answer(call, LogReader(path, wanted))


def _path(node: Node, name: str) -> Path:
    if name not in LOG_NAMES:
        raise bad_request(f"'log_name' '{name[:_SHOWN]}' is invalid.")
    if name == "install.log":
        return node.config.root / "log" / name
    file = node.logs.log("").file  # as it is now: its place may have been changed since the start
    return file.path if file is not None else node.config.logging.path


def _time(value: Any, name: str) -> float | None:
    """Seconds since the epoch. Texts without a zone are UTC, as the times in the log are; numbers are ms. Raises the specification's 400."""
    if value is None:
        return None
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value.strip())
            return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            pass
    elif isinstance(value, int | float) and not isinstance(value, bool) and -_FARTHEST_MS <= value <= _FARTHEST_MS:
        return value / 1000
    raise bad_request(f"'{name}' date '{str(value)[:_SHOWN]}' is invalid.")


async def _answer(call: Call, reader: LogReader) -> Any:
    """A list as long as it is short; what does not fit into one batch is streamed to clients, as it is read."""
    is_streamed = False
    try:
        found = await _batch(call, reader)
        writer = streaming_type(call)
        if reader.done or (writer is not None and not writer.needs_count):
            if reader.done:
                return found
            assert writer is not None
            is_streamed = True
            rows = writer.row_writer(Shape((*COLUMNS, "node") if call["replicated"] else COLUMNS))
            return Response(_stream(call, reader, found, rows), pairs=stream_pairs(writer))
        while not reader.done:
            found += await _batch(call, reader)
            if len(found) > MOST_COUNTED and call.request is not None:
                raise ClientError(f"The answer has more than {MOST_COUNTED} entries: ask for JSON, or set a smaller 'limit'")
        return found
    finally:
        if not is_streamed:
            reader.close()


async def _batch(call: Call, reader: LogReader) -> list[Entry]:
    try:
        found: list[Entry] = await call.on_helper(reader.batch)
    except OSError as error:
        raise ServerError(f"The log could not be read: {error.strerror}") from error
    if call["replicated"]:
        for entry in found:
            entry["node"] = call.node.name
    return found


async def _stream(call: Call, reader: LogReader, found: list[Entry], rows: Any) -> AsyncIterator[bytes]:
    try:
        yield rows.begin()
        while found:
            yield rows.values(found)
            found = [] if reader.done else await _batch(call, reader)
        yield rows.end()
    finally:
        reader.close()


def _finite(value: Any, field: Field) -> str | None:
    return None if math.isfinite(value) and value < 2**63 else "must be a safe number"


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="read_log",
        category="logs",
        summary="Read the log of this node.",
        permission=SUPER_USER,
        handler=read_log,
        fields=(
            Field(
                "start", "integer", "Matching entries to skip; without `order` and times the newest ones.", default=0, low=0, check=_finite
            ),
            Field("limit", "integer", "Most matching entries to return.", default=1000, low=1, check=_finite),
            Field("level", "choice", "Only entries of exactly this level.", choices=LEVELS),
            Field("from", "any", "Only entries of this time or later: ISO-8601 such as `2026-01-05` or `2026-01-05 10:00:00`, in UTC."),
            Field("until", "any", "Only entries of this time or earlier.", aliases=("to",)),
            Field(
                "order",
                "choice",
                "By time: `asc` begins with the oldest. By default the newest entries, oldest first; with `from` or `until` as `asc`.",
                choices=("asc", "desc"),
            ),
            Field("filter", "any string", "Only entries with this string in their message or a tag."),
            Field("tag", "any string", "Only entries with this tag: `application`, the name of an application, `operation` ..."),
            Field("log_name", "any string", "`svc.log`, or `install.log` of the installation.", default=LOG_NAMES[0]),
            REPLICATED,
        ),
        returns="A list of `level`, `message`, `timestamp`, `thread` and `tags`.",
        notes=(
            "Filters are combined; `start` and `limit` count what matches. A message may have several lines. Lines in the file that no svc wrote"
            " belong to the entry above them. Rotated files are not read. Long answers are streamed."
        ),
        example={"limit": 2, "order": "desc", "level": "notify"},
        example_answer=[
            {
                "level": "notify",
                "message": "svc 1.0.0 successfully started.",
                "timestamp": "2026-01-05T10:00:00.123Z",
                "thread": "main/0",
                "tags": [],
            }
        ],
        logged=False,
    ),
)
