r"""Events as the blocks of an event stream (spec: realtime §3; WHATWG HTML §9.2).

    id: 4711                                          position in the log, where there is one
    data: {"type":"put","id":"42","value":{...},...}  one line: JSON has no line breaks
    <empty line>

A block is the same for all subscribers with the same view of an event, so it is made once and kept in the event's `memo`.
"""

from __future__ import annotations

import re
from typing import Any

from svc.content.json_type import encode_json
from svc.content.values import replace_lone_surrogates
from svc.realtime.event import Event
from svc.realtime.resume import LIVE_QUERY_ID

RETRY = b"retry: 3000\n\n"  # ms until a browser connects again; once, at the start
RETRY_LIVE = b"id: %d\nretry: 3000\n\n" % LIVE_QUERY_ID  # see `realtime.resume`
KEEP_ALIVE = b": keep-alive\n\n"
BLOCK = "block"  # keys in the memo of an event
JSON = "json"

_FIELDS = frozenset(("data", "event", "id", "retry"))
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_NOT_IN_FIELD = re.compile(r"[\r\n\0]")  # a browser ignores an `id` with a NUL in it


def event_json(event: Event) -> bytes:
    memo = event.memo
    found: bytes | None = memo.get(JSON)
    if found is None:
        found = memo[JSON] = encode_json(event.members(False))
    return found


def event_block(event: Event) -> bytes:
    memo = event.memo
    found: bytes | None = memo.get(BLOCK)
    if found is None:
        position = event.position
        data = event_json(event)
        found = memo[BLOCK] = b"data: %b\n\n" % data if position is None else b"id: %d\ndata: %b\n\n" % (position, data)
    return found


def block_of(item: Any) -> bytes:
    """The block of an event, or of any other item of a source."""
    return event_block(item) if is_event(item) else item_block(item)


def is_event(item: Any) -> bool:
    return hasattr(item, "memo") and hasattr(item, "position")


def item_block(item: Any) -> bytes:
    r"""The block of an item that a resource's own `connect` yields.

    A mapping with `data` or `event`, or with names of fields only, sets these fields. Anything else, also a record with an `id`, is data.

    >>> item_block({"event": "tick", "data": {"n": 1}, "id": 7})
    b'event: tick\nid: 7\ndata: {"n":1}\n\n'
    >>> item_block("two\nlines"), item_block(0)
    (b'data: two\ndata: lines\n\n', b'data: 0\n\n')
    """
    if not isinstance(item, dict) or not ("data" in item or "event" in item or (item and _FIELDS.issuperset(item))):
        return _lines("data", item) + b"\n"
    block = b""
    for name in ("event", "id"):
        value = item.get(name)
        if value is not None:
            block += f"{name}: {_NOT_IN_FIELD.sub('', _text(value))}\n".encode()
    retry = item.get("retry")
    if isinstance(retry, int) and not isinstance(retry, bool) and retry >= 0:
        block += b"retry: %d\n" % retry
    if "data" in item:
        block += _lines("data", item["data"])
    return block + b"\n" if block else b""


def _lines(name: str, value: Any) -> bytes:
    return "".join([f"{name}: {line}\n" for line in _LINE_BREAK.split(_text(value))]).encode()


def _text(value: Any) -> str:
    """A string as it is, anything else as JSON."""
    return replace_lone_surrogates(value) if isinstance(value, str) else encode_json(value).decode()
