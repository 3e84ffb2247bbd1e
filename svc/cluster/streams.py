"""Streams of an engine: made, written to one message at a time, and read (spec: replication-engine §3).

A stream has one subject, limits of age and size, and drops its oldest messages. Only the owner of an engine writes to its streams, and each message names the
sequence of the one before it, so that none is doubled, and none overtakes another, whatever becomes of an answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from svc.cluster.client import Connection, Message, Unavailable

API = "$JS.API"
API_SECONDS = 10.0
PUBLISH_SECONDS = 10.0
READERS_MAX = 512  # of a stream
EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_NOT_FOUND = (10059, 10037)  # no such stream, no such message
_WRONG_SEQUENCE = (10071, 10164)
_NO_SPACE = (10023, 10028, 10047, 10077)  # of memory, of the store, of the account; a stream that takes no more
_EXISTS = 10058
_SHORTEST_WINDOW = 100_000_000  # nanoseconds
_LAST = re.compile(r"wrong last sequence: (\d+)")


class StreamFailed(Exception):
    """The engine refuses: a sentence for the log."""


class StreamInfo(msgspec.Struct, frozen=True):
    """`created`: as the engine writes it: another one, another stream. `first`, `last`: sequences; an empty stream has first = last + 1."""

    created: str
    first: int
    last: int
    messages: int
    bytes: int


class Accepted(msgspec.Struct, frozen=True):
    sequence: int


class Conflict(msgspec.Struct, frozen=True):
    """Another message is the last. `last`: its sequence; None: not said."""

    last: int | None


class TooLarge(msgspec.Struct, frozen=True):
    """The message is larger than the engine takes. `limit`: bytes, with its headers."""

    limit: int


class NotStored(msgspec.Struct, frozen=True):
    """The engine refuses, or it is not known whether the message was stored: find out by `last_message` and the expected sequence."""

    reason: str


Publication = Accepted | Conflict | TooLarge | NotStored


async def ensure_stream(
    connection: Connection, name: str, subject: str, *, max_age: float, max_bytes: int, replicas: int = 1
) -> StreamInfo:
    """Make a stream, or give one that exists these limits. `max_age`: seconds. Raises StreamFailed, Unavailable."""
    config = {
        "name": name,
        "subjects": [subject],
        "retention": "limits",
        "storage": "file",
        "discard": "old",
        "max_age": int(max_age * 1e9),
        "max_bytes": max_bytes,
        "max_consumers": READERS_MAX,
        "num_replicas": replicas,
        "duplicate_window": _SHORTEST_WINDOW,  # of what is not used: messages have no identifiers
        "deny_delete": True,
    }
    answer = await call_api(connection, f"STREAM.CREATE.{name}", config)
    if error_code(answer) == _EXISTS:
        answer = await call_api(connection, f"STREAM.UPDATE.{name}", config)
    return _stream_info(checked(answer))


async def maybe_stream(connection: Connection, name: str) -> StreamInfo | None:
    """None: there is no such stream. Raises StreamFailed, Unavailable."""
    answer = await call_api(connection, f"STREAM.INFO.{name}", None)
    return None if error_code(answer) in _NOT_FOUND else _stream_info(checked(answer))


async def purge_stream(connection: Connection, name: str, *, below: int | None = None, keep: int | None = None) -> int:
    """Drop messages: those below a sequence, or all but the last `keep`, or all. Returns how many. Raises StreamFailed, Unavailable."""
    values = {key: value for key, value in (("seq", below), ("keep", keep)) if value is not None}
    return int(checked(await call_api(connection, f"STREAM.PURGE.{name}", values)).get("purged", 0))


async def delete_stream(connection: Connection, name: str) -> None:
    """Harmless when done. Raises StreamFailed, Unavailable."""
    answer = await call_api(connection, f"STREAM.DELETE.{name}", None)
    if error_code(answer) not in _NOT_FOUND:
        checked(answer)


async def last_message(connection: Connection, name: str, subject: str) -> tuple[int, Message] | None:
    """(sequence, message); None: the stream has none. Raises StreamFailed, Unavailable."""
    answer = await call_api(connection, f"STREAM.MSG.GET.{name}", {"last_by_subj": subject})
    if error_code(answer) in _NOT_FOUND:
        return None
    try:
        found = msgspec.convert(checked(answer).get("message"), _StoredMessage)
    except msgspec.ValidationError as error:
        raise StreamFailed(f"it answers something else: {error}") from None
    return found.seq, Message(found.subject, "", _headers(found.hdrs), found.data)


async def publish(
    connection: Connection,
    subject: str,
    data: bytes,
    headers: Mapping[str, str],
    *,
    expected: int,
    seconds: float = PUBLISH_SECONDS,
) -> Publication:
    """Store one message behind that with sequence `expected`, 0: none. Never raises."""
    size = len(data) + sum(len(name) + len(value.encode()) + 4 for name, value in headers.items()) + 100
    if size > connection.max_payload:
        return TooLarge(connection.max_payload)
    try:
        answer = await connection.request(subject, data, {**headers, EXPECTED: str(expected)}, seconds=seconds)
    except Unavailable as error:
        return NotStored(str(error))
    try:
        found = _decode(answer)
        fault = found.get("error")
        if fault is None:
            return Accepted(int(found["seq"]))
        code, text = int(fault.get("err_code", 0)), str(fault.get("description", ""))
    except (StreamFailed, KeyError, ValueError, TypeError, AttributeError):
        return NotStored("it answers something else")
    if code in _WRONG_SEQUENCE:
        last = _LAST.match(text)
        return Conflict(int(last[1]) if last else None)
    return NotStored(f"the engine's store is full: {text}" if code in _NO_SPACE else text)


# --- the engine's interface ---------------------------------------------------------------------------------------------------------------


class _StoredMessage(msgspec.Struct):
    subject: str
    seq: int
    hdrs: bytes = b""
    data: bytes = b""


async def call_api(connection: Connection, name: str, value: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The answer of the engine, perhaps with an error. Raises StreamFailed for none of its own, Unavailable."""
    body = b"" if value is None else msgspec.json.encode(value)
    return _decode(await connection.request(f"{API}.{name}", body, seconds=API_SECONDS))


def _decode(answer: Message) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = msgspec.json.decode(answer.data, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        raise StreamFailed("it answers something else") from None
    return found


def error_code(answer: Mapping[str, Any]) -> int:
    """Of the error in an answer; 0: none."""
    error = answer.get("error")
    code = error.get("err_code", -1) if isinstance(error, dict) else 0 if error is None else -1
    return code if isinstance(code, int) else -1


def checked(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """An answer without error. Raises StreamFailed."""
    if error_code(answer):
        error = answer["error"]
        raise StreamFailed(str(error.get("description", error) if isinstance(error, dict) else error)[:500])
    return answer


def _stream_info(answer: Mapping[str, Any]) -> StreamInfo:
    try:
        state = answer["state"]
        return msgspec.convert(
            {
                "created": answer["created"],
                "first": state["first_seq"] or state["last_seq"] + 1,
                "last": state["last_seq"],
                "messages": state["messages"],
                "bytes": state["bytes"],
            },
            StreamInfo,
        )
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        raise StreamFailed(f"it answers something else: {error}") from None


def _headers(raw: bytes) -> dict[str, str]:
    r"""
    >>> _headers(b"NATS/1.0\r\nL: 5\r\nI: ab\r\n\r\n")
    {'L': '5', 'I': 'ab'}
    """
    found = {}
    for line in raw.decode(errors="replace").split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            found[name.strip()] = value.strip()
    return found
