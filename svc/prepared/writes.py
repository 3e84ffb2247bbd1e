"""Finds what is prepared for writes, by the bytes of a request, before anything is parsed.

Such a request differs from one that has been answered in its key, its body, and the length of that:

    PUT /Product/42 HTTP/1.1\\r\\nHost: ...\\r\\nContent-Length: 17\\r\\nAccept: ...\\r\\n\\r\\n{"name":"A thing"}
    |--before---|  |----------------middle------------------|  |-------behind--------|

Without a key, as of POST, all in front of the length is `before`; without a body, as of DELETE, all behind the key is `behind`.
"""

from __future__ import annotations

from typing import NamedTuple

from svc.connection.shared import SharedState
from svc.messages import Request
from svc.prepared.answers import Carrier, is_plain_key
from svc.prepared.kept import Candidate, Kept
from svc.prepared.premises import is_complete, parsed_block
from svc.prepared.record_writes import Queue, RecordWrites
from svc.protocol.request_head import ParsedBlock

PLACE_MAX = 1200  # bytes of a request without its key, body and length: longer ones are not kept
_VERSION = b" HTTP/1.1\r\n"
_END = b"\r\n\r\n"
_LENGTH, _LENGTH_IN_LOWER_CASE = b"\r\nContent-Length: ", b"\r\ncontent-length: "

Place = tuple[bytes, bytes, bytes]
"""What comes before the key, between it and the length of the body, and behind, up to the body."""


class DeclinedWrite(NamedTuple):
    """What a connection keeps of a write that was declined: the next one like it is, without being cut, until it is time."""

    before: bytes
    middle: bytes
    behind: bytes
    candidate: Candidate


class PreparedWrites:
    """Of one port."""

    def __init__(self, record_writes: RecordWrites) -> None:
        self._record_writes = record_writes
        self.kept: Kept[Place, Queue] = Kept()
        self._declined: tuple[Place, bytes, Candidate] | None = None  # of the request under way; the second: the length of its body

    def answer(self, carrier: Carrier, shared: SharedState, data: bytes) -> bool:
        """Answer a request later, if all that has arrived is one that is prepared. False: nothing has happened."""
        self._declined = asked = None
        known = carrier.prepared
        if type(known) is DeclinedWrite:
            before, middle, behind, candidate = known
            if data.startswith(before) and data.find(middle) >= 0 and data.find(behind) >= 0:
                if candidate() is False:
                    return False
                asked = candidate
        found = cut_write(data)
        if found is None:
            return False
        place, key, length, body = found
        queue = self.kept.find(place)
        limits = shared.limits
        if queue is None:
            if sum(map(len, place)) <= PLACE_MAX:
                self._decline(carrier, place, length, asked or Candidate())
        elif len(data) - len(body) <= limits.max_header_size and len(body) <= limits.max_body_size:
            queued = None if queue is asked else queue(carrier, shared, key, body, data)
            if queued:
                return True
            if isinstance(queue, Candidate):
                self._decline(carrier, place, length, queue)
            elif queued is None:
                candidate = Candidate(2)
                self.kept.keep(place, candidate)
                self._decline(carrier, place, length, candidate)
        return False

    def _decline(self, carrier: Carrier, place: Place, length: bytes, candidate: Candidate) -> None:
        self._declined = place, length, candidate
        carrier.prepared = DeclinedWrite(*place, candidate)

    def consider(self, request: Request) -> None:
        """The general path carries out a write without a query, within the call of `answer` that has declined it: prepare the next one, if it can be."""
        declined, self._declined = self._declined, None
        if declined is None:
            return
        place, length, candidate = declined
        found = self.kept.find(place)
        if found is None:
            self.kept.keep(place, candidate)
        elif found is not candidate:
            candidate.is_over = True
        if not candidate.is_due():
            return
        before, middle, behind = place
        line, _, fields = (before + middle + length + behind).partition(_VERSION)
        parsed = parsed_block(fields[:-2], request)
        if parsed is None or not _is_prepared(parsed, length):
            return
        method, _, target = line.decode("latin-1").partition(" ")
        if method == request.method:
            queue = self._record_writes.prepare(request, target.rstrip("/"))
            if queue is not None:
                self.kept.keep(place, queue)
                candidate.is_over = True


def cut_write(data: bytes) -> tuple[Place, bytes, bytes, bytes] | None:
    r"""(place, key, length of the body, body) of a request that is all of `data`, None if it is none that could be prepared. Key, length, body: b"" without.

    >>> cut_write(b"PUT /A/k HTTP/1.1\r\nContent-Length: 2\r\nHost: a\r\n\r\n{}")
    ((b'PUT /A/', b' HTTP/1.1\r\nContent-Length: ', b'\r\nHost: a\r\n\r\n'), b'k', b'2', b'{}')
    """
    method = data[:4]
    line_end = data.find(_VERSION, 5)
    if line_end < 0:
        return None
    end = data.find(_END, line_end) + 4
    if method == b"DELE":
        key_at = data.rfind(b"/", 0, line_end) + 1
        key = data[key_at:line_end]
        return ((data[:key_at], b"", data[line_end:]), key, b"", b"") if end == len(data) and is_plain_key(key) else None
    at = data.find(_LENGTH, line_end, end)
    if at < 0:
        at = data.find(_LENGTH_IN_LOWER_CASE, line_end, end)
        if at < 0:
            return None
    at += len(_LENGTH)
    length_end = data.find(b"\r\n", at)
    length, body = data[at:length_end], data[end:]
    if length != b"%d" % len(body):
        return None
    behind = data[length_end:end]
    if method == b"POST":
        return (data[:at], b"", behind), b"", length, body
    key_at = data.rfind(b"/", 0, line_end) + 1
    key = data[key_at:line_end]
    return ((data[:key_at], data[line_end:at], behind), key, length, body) if method == b"PUT " and is_plain_key(key) else None


def _is_prepared(parsed: ParsedBlock, length: bytes) -> bool:
    """Whether a request with this header block is complete with so much of a body, and leaves the connection open."""
    if not length:
        return is_complete(parsed)
    return parsed.content_length == int(length) and not (parsed.chunked or parsed.expects_continue or parsed.upgrades) and parsed.keep_alive
