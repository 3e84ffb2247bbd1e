"""The text of a log entry (spec: configuration §5.2).

    2026-01-05T10:00:01.004Z [http/0] [info] [operation]: {"operation":"describe_all"}

An entry begins with a line that starts with such a prefix; further lines of its message follow without one. No message can forge an entry:
a line inside a message that looks like the start of one is moved right by a space.

With `logging.format: json` an entry is one line instead, an object with the same parts, for programs that collect logs:

    {"timestamp":"2026-01-05T10:00:01.004Z","level":"info","thread":"http/0","tags":["operation"],"message":"..."}
"""

import json
import re
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime

from svc.logs.redact import without_keys

START = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) \[([^\]/]*)/(\d+)\] \[(\w+)\]((?: \[[^\]\n]*\])*): ")
"""The prefix of an entry in a file: time, thread, instance, level, tags."""

JSON_START = b'{"timestamp":"'
"""The beginning of an entry in JSON."""

MAX_MESSAGE = 1 << 18
"""Characters of a message; longer ones are cut, so that one entry fills neither the disk nor the memory of a reader."""

MAX_TRACEBACK = 200
"""Lines of a traceback; of longer ones the middle is left out."""

_FORGED = re.compile(r'^(?=\d{4}-\d\d-\d\dT[\d:.]+Z \[|\[[^\]\n]*/\d+\] \[|\{"timestamp":")', re.MULTILINE)
_TAG_UNSAFE = re.compile(r"[\[\]\s]+")

_COLORS = {"trace": "90", "debug": "36", "info": "32", "warn": "33", "error": "31", "fatal": "1;31", "notify": "1;34"}


def timestamp(wall: float) -> str:
    """Seconds since the epoch as UTC with milliseconds.

    >>> timestamp(1767607200.123)
    '2026-01-05T10:00:00.123Z'
    """
    return datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def message_text(messages: tuple[object, ...]) -> str:
    """The arguments of one call joined by a space, safe against forged entries.

    >>> message_text(("rows", 3, {"a": 1}))
    'rows 3 {"a":1}'
    >>> print(message_text(("first\\n2026-01-05T10:00:00.123Z [main/0] [info]: forged",)))
    first
     2026-01-05T10:00:00.123Z [main/0] [info]: forged
    """
    text = plain_text(messages)
    if "\n" in text or "\r" in text:
        first, separator, rest = text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").partition("\n")
        text = first + separator + _FORGED.sub(" ", rest)
    return text


def plain_text(messages: tuple[object, ...]) -> str:
    """The messages as one string, unescaped, for a format in which entries cannot be forged. No API key is in it, whoever has logged it."""
    text = messages[0] if len(messages) == 1 and type(messages[0]) is str else " ".join([_as_text(message) for message in messages])
    text = text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}... ({len(text)} characters)"
    return without_keys(text)


def _as_text(message: object) -> str:
    if isinstance(message, str):
        return message
    if isinstance(message, BaseException):
        return _traceback_of(message)
    if isinstance(message, (Mapping, list, tuple)):
        try:
            return json.dumps(message, ensure_ascii=False, separators=(",", ":"), default=_as_text)
        except (TypeError, ValueError):
            return repr(message)
    return str(message)


def _traceback_of(error: BaseException) -> str:
    """Its traceback, without the middle of a very long one: of a function that calls itself without end."""
    lines = "".join(traceback.format_exception(error)).splitlines(keepends=True)
    left_out = len(lines) - MAX_TRACEBACK
    if left_out > 0:
        half = MAX_TRACEBACK // 2
        lines[half:-half] = [f"  ... {left_out} lines ...\n"]
    return "".join(lines)


def tag_text(tag: str) -> str:
    """A tag without the characters that delimit tags."""
    return _TAG_UNSAFE.sub("_", tag)


def prefix(thread: str, instance: int, level: str, tags: tuple[str, ...], *, color: bool = False) -> str:
    """The part between the time and the message.

    >>> prefix("main", 0, "notify", ())
    '[main/0] [notify]: '
    >>> prefix("http", 2, "error", ("shop", "orders"))
    '[http/2] [error] [shop] [orders]: '
    """
    shown = f"\x1b[{_COLORS[level]}m{level}\x1b[0m" if color else level
    return f"[{thread}/{instance}] [{shown}]{''.join([f' [{tag}]' for tag in tags])}: "


def json_entry(time: str, thread: str, instance: int, level: str, tags: tuple[str, ...], text: str) -> str:
    """A whole entry as one line of JSON.

    >>> json_entry("2026-01-05T10:00:01.004Z", "http", 0, "info", ("operation",), "a\\nb")
    '{"timestamp":"2026-01-05T10:00:01.004Z","level":"info","thread":"http/0","tags":["operation"],"message":"a\\\\nb"}'
    """
    entry = {"timestamp": time, "level": level, "thread": f"{thread}/{instance}", "tags": tags, "message": text}
    return _encode(entry)


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
