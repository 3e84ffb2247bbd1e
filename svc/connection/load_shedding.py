"""Load shedding: requests that have waited for too long are refused before they are parsed, so that the others are answered in time (spec: http §14.2).

What is not refused has waited in line (`input_share`). A server that is asked for three times what it can do would otherwise answer everything late, and
nothing within the time that its clients wait. A refusal costs a quarter of the cheapest answer.

    health      /health, /ready, /metrics; all of the operations socket    never refused
    operation   administration                                             OPERATION_AGE
    read                                                                   the limit
    write                                                                  2/3 of it
    bulk        SQL, loads, exports, writes with long bodies               1/3 of it

1. Nothing is refused before the line has been standing (`InputShare.is_standing`), and nobody who has not been left in it by a turn: a single long turn,
   a slow disk, or some clients that send as fast as they are answered, are no overload.
2. The age of a request is the time for which its newest bytes have lain in the socket, as the kernel knows it (TCP_INFO): that in the queue of connections
   not accepted is part of it, the time that a slow client takes to send is not. Elsewhere it is the wait in line, as estimated.
3. Who would join the line and wait in it for nearly as long as the limit is refused at once: that costs half of refusing it later.
4. A caller who takes more than half of the time has half the limits: it is refused first. A caller is who shows the same credentials; without any, an address.
5. What is older than LEFT_AGE is dropped if its client has gone.

The prepared answer is for plain requests that are here as a whole. Others are refused by the application when they have been parsed.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from enum import IntEnum
from struct import unpack_from
from typing import Any

from svc.connection.exchange import Application
from svc.connection.input_share import InputShare
from svc.errors import Overloaded
from svc.messages import UNIX_PEER, Request, Response
from svc.protocol.express import recognise
from svc.protocol.request_head import ParsedBlock
from svc.protocol.response_head import encode_fields, status_line

ADMITTED = 0.8  # of the limit: a wait in line, as it is estimated, that is not refused at once
OPERATION_AGE = 1.0  # seconds
LEFT_AGE = 1.0  # seconds from which on it is asked whether the client is still there
TOLD_SECONDS = 10.0  # between two lines in the log
_MEMO = "shed"  # of header blocks: bytes of the body, -1: not for the prepared answer
MOST_CALLERS = 1000  # in the two halves of the window, each: others are not counted

_TCP_INFO: int | None = getattr(socket, "TCP_INFO", None)
_STATE, _LAST_RECEIVED, _SIZE = 0, 52, 56  # offsets in struct tcp_info of Linux
_LEFT = frozenset({7, 8, 9})  # TCP_CLOSE, TCP_CLOSE_WAIT, TCP_LAST_ACK: the peer has sent its FIN, or has reset the connection


class RequestClass(IntEnum):
    HEALTH = 0
    OPERATION = 1
    READ = 2
    WRITE = 3
    BULK = 4


Classify = Callable[[str, str, bytes], RequestClass]
"""Of method, target, and the beginning of the body."""

Look = Callable[[Any], tuple[float, bool] | None]
"""Of a socket: seconds since bytes were received last, and whether the peer has ended its half. None: that cannot be told."""


def class_limits(limit: float) -> Sequence[float]:
    """The ages from which on requests of each class are refused, in seconds. `limit`: that of reads."""
    return (float("inf"), max(OPERATION_AGE, limit), limit, limit * 2 / 3, limit / 3)


def look_at(sock: Any) -> tuple[float, bool] | None:
    if _TCP_INFO is None:
        return None
    try:
        info = getattr(sock, "raw", sock).getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _SIZE)
    except (OSError, AttributeError):
        return None  # no socket of TCP
    if len(info) < _SIZE:
        return None
    milliseconds: int = unpack_from("=I", info, _LAST_RECEIVED)[0]
    return milliseconds / 1000, info[_STATE] in _LEFT


class CallerTimes:
    """How the time of the last second is shared among callers, in two halves of a window."""

    __slots__ = ("_before", "_began", "_current", "_now", "_times", "_turned", "total")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._times: dict[str, float] = {}
        self._before: dict[str, float] = {}
        self.total = 0.0
        self._current: str | None = None  # whose request is being answered
        self._began = 0.0
        self._turned = 0.0

    def begin(self, caller: str) -> None:
        """A request of theirs is going to be answered, until the next one is, or `end`."""
        self.end()
        self._current = caller

    def end(self) -> None:
        now, caller = self._now(), self._current
        if caller is not None:
            times = self._times
            if now - self._turned > 0.5:
                if now - self._turned > 1.0:
                    times.clear()
                self._before, self._times, self._turned = times, {}, now
                times = self._times
                self.total = sum(self._before.values())
            if caller in times or len(times) < MOST_CALLERS:
                times[caller] = times.get(caller, 0.0) + now - self._began
                self.total += now - self._began
            self._current = None
        self._began = now

    def takes_most(self, caller: str) -> bool:
        """More than half, and there are others. Who is asked about is one of them from now on, whether a request of theirs is ever answered or not."""
        times, before = self._times, self._before
        if caller not in times and len(times) < MOST_CALLERS:
            times[caller] = 0.0
        if times.get(caller, 0.0) + before.get(caller, 0.0) <= self.total / 2:
            return False
        return len(times) > 1 or len(before) > 1 or bool(times and before and times.keys() != before.keys())


class LoadShedder:
    """Of an instance."""

    def __init__(self, share: InputShare, now: Callable[[], float], limit: float, look: Look = look_at) -> None:
        """`limit`: the age of reads, in seconds; see the table."""
        self.share = share
        self.limits = class_limits(limit)
        self.callers = CallerTimes(now)
        self.look = look
        self.count: Callable[[int, RequestClass], None] = lambda number, kind: None
        """Called about once a second for each class of which so many were refused."""
        self.warn: Callable[[str], None] = lambda text: None
        self._now = now
        self._counts = [0] * len(RequestClass)  # not given to `count` yet
        self._untold = [0] * len(RequestClass)  # not logged yet
        self._told_at = float("-inf")
        self._is_told = False
        share.on_served = self.callers.end

    def refuses(self, kind: RequestClass, caller: str, age: float) -> bool:
        """Whether a request that has waited for so many seconds is refused. Counts it; if not, it is going to be answered."""
        if self.share.is_standing:
            limit = self.limits[kind]
            if age > limit / 2 and (self.callers.takes_most(caller) or age > limit):
                self._counts[kind] += 1
                if not self._is_told:
                    self.sweep(self._now())
                return True
        self.callers.begin(caller)
        return False

    def sweep(self, now: float) -> None:
        """Pass on what was counted. Called about once a second."""
        if any(self._counts):
            for kind in RequestClass:
                number, self._counts[kind] = self._counts[kind], 0
                if number:
                    self.count(number, kind)
                    self._untold[kind] += number
        if now - self._told_at >= TOLD_SECONDS and any(self._untold):
            self._told_at, self._is_told = now, True
            parts = ", ".join(f"{number} of {kind.name.lower()}" for kind, number in zip(RequestClass, self._untold, strict=True) if number)
            self.warn(f"overloaded: requests are refused with 503, which have waited for too long: {parts}")
            self._untold = [0] * len(RequestClass)


class PortShedder:
    """Of the ports of one kind. `is_admitted`: the request that is handled now has been asked about."""

    __slots__ = (
        "_application",
        "_classify",
        "_max_head",
        "_now",
        "_own_forms",
        "_ready",
        "_ready_date",
        "_ready_head",
        "_shedder",
        "date",
        "is_admitted",
    )

    def __init__(
        self,
        shedder: LoadShedder,
        application: Application,
        classify: Classify,
        date: Callable[[], str],
        max_head: int,
        own_forms: str = "*",
    ) -> None:
        """`date`: the field of answers. `max_head`: bytes; longer heads are not looked at. `own_forms`: what paths begin with whose errors have a form of their
        own; `*`: none do."""
        self._shedder = shedder
        self._application = application
        self._classify = classify
        self._max_head = max_head
        self._own_forms = own_forms
        self.date = date
        self._ready = self._ready_head = b""
        self._ready_date = ""
        self.is_admitted = False

    def look(self, sock: Any) -> tuple[float, bool]:
        """The age of what a connection has sent last that has waited in line, in seconds, and whether the peer has gone."""
        self.is_admitted = False
        return self._shedder.look(sock) or (self._shedder.share.wait, False)

    def has_left(self, sock: Any) -> bool:
        """Whether nobody waits any more for the answers to what a connection has sent."""
        age, has_left = self.look(sock)
        return has_left and age > LEFT_AGE

    def is_overdue(self, peer: str, sock: Any) -> bool:
        """Whether what has come on a connection that has waited in line is refused, as a read."""
        return self._shedder.refuses(RequestClass.READ, peer, self.look(sock)[0])

    def ready_refusal(self, data: bytes, peer: str, age: float) -> bytes | None:
        """The answer to the request that `data` is, if that is refused, and if it is a plain one, and whole. None: nothing has happened."""
        end = data.find(b"\r\n\r\n") + 4
        if not 4 <= end <= self._max_head or (plain := recognise(data, end)) is None:
            return None
        method, target, parsed = plain
        length = parsed.block.memo.get(_MEMO)  # blocks repeat
        if length is None:
            length = parsed.block.memo[_MEMO] = parsed.content_length if _takes_ready_answer(parsed) else -1
        if len(data) - end != length or target.startswith(self._own_forms):
            return None
        if not self._refuses(method, target, data[end:] if length else b"", parsed.block.fields, peer, age):
            self.is_admitted = True
            return None
        if self._ready_date != self.date():
            self._make_ready()
        return self._ready if method != "HEAD" else self._ready_head

    def refusal(self, request: Request, sock: Any) -> Response | None:
        """The same of a request that has been parsed, on a connection that has waited in line."""
        if self.is_admitted:
            self.is_admitted = False
            return None
        return self.refusal_of(request, self.look(sock)[0])

    def refusal_of(self, request: Request, age: float) -> Response | None:
        """The same of one that has waited for so many seconds."""
        if not self._refuses(request.method, request.target, request.content, request.block.fields, request.peer, age):
            return None
        return self._application.error_response(Overloaded(), request)

    def is_old(self, age: float) -> bool:
        """Whether any may be refused that has waited for so many seconds."""
        return self._shedder.share.is_standing and age > self._shedder.limits[RequestClass.READ] / 2

    def _refuses(self, method: str, target: str, content: bytes, fields: Any, peer: str, age: float) -> bool:
        if peer == UNIX_PEER:
            return False
        caller = fields.get("authorization") or fields.get("cookie") or peer
        return self._shedder.refuses(self._classify(method, target, content), caller, age)

    def _make_ready(self) -> None:
        response = self._application.error_response(Overloaded(), None)
        body = response.body
        assert isinstance(body, bytes)
        self._ready_date = self.date()
        lines, _ = encode_fields(response.pairs)
        head = f"{status_line(response.status)}{lines}Date: {self._ready_date}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._ready_head = head.encode("latin-1")
        self._ready = self._ready_head + body


def _takes_ready_answer(parsed: ParsedBlock) -> bool:
    """Whether the fields of a request ask for nothing that the prepared answer has not."""
    fields = parsed.block.fields
    accept = fields.get("accept")
    return parsed.keep_alive and "origin" not in fields and (accept is None or accept == "*/*" or "json" in accept[:16])
