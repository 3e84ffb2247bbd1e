"""One subscription: the list of a field, sent at the beginning and whenever it has changed (spec: graphql §7.3).

    EventSource --events--> LiveRows --whole list--> sink

Events are taken in turns, at most TURN_SECONDS for all subscriptions together; what is taken in one go is sent as one list. A client that is slow gets the
newest list when it has room again, so nothing queues for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from svc.content.json_type import encode_plain
from svc.errors import AccessViolation, ClientError, NotFound, Overloaded, Problem, ServerError
from svc.graphql.live_rows import LiveRows
from svc.loop import contained
from svc.realtime.event import EndReason
from svc.realtime.live import LiveSubscription

TURN_SECONDS = 0.004
BATCH = 64  # events taken at a time
HIGH_WATER = 64 * 1024  # bytes on their way to a client, above which nothing is sent to it
MAX_BYTES = 256 << 20  # of memory that the rows of all subscriptions take


class Sink(Protocol):
    """Where the results of a subscription go. Nothing is called inside `LiveField.start`."""

    @property
    def has_room(self) -> bool: ...

    def send(self, body: bytes) -> None:
        """A result: the JSON of `{"data": ...}`."""

    def end(self, problem: Problem | None) -> None:
        """The last call: it is complete, or this has ended it."""


class LiveFields:
    """What all subscriptions of a server share: whose turn it is, and the memory of their rows."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], float], report: Callable[[BaseException], None]) -> None:
        """`report` logs a defect."""
        self._loop = loop
        self._now = now
        self.report = report
        self._waiting: deque[LiveField] = deque()
        self._is_scheduled = False
        self._size = 0
        self.count = 0

    def add(self, field: LiveField) -> None:
        """Let a subscription work in its turn."""
        self._waiting.append(field)
        if not self._is_scheduled:
            self._is_scheduled = True
            # Commits are published at the end of a turn, when the length of the coming poll is settled already: it has to be cut short.
            self._loop.call_soon_threadsafe(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        deadline = self._now() + TURN_SECONDS
        for _ in range(len(self._waiting)):
            field = self._waiting.popleft()
            if field.work():
                self._waiting.append(field)
            if self._now() >= deadline:
                break
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon_threadsafe(self._run)

    def hold(self, change: int) -> None:
        """Raises Overloaded when the rows of all together take too much memory."""
        self._size += change
        if change > 0 and self._size > MAX_BYTES:
            raise Overloaded("The lists of all subscriptions take too much memory")


class LiveField:
    """`key`: the name of the field in the answer. `check(user)`: raises AccessViolation if the user may not read what is selected any more."""

    def __init__(
        self,
        source: LiveSubscription,
        key: str,
        shaped: Callable[[Any], Any] | None,
        shared: LiveFields,
        check: Callable[[Any], None],
    ) -> None:
        self._source = source
        self._before = b'{"data":{' + encode_plain(key) + b":"
        self._rows = LiveRows(shaped)
        self._shared = shared
        self._check = check
        self._sink: Sink | None = None
        self._held = 0  # bytes that `shared` knows of
        self._is_waiting = False  # for its turn
        self._has_changed = False
        self._is_closed = False
        shared.count += 1

    def start(self, sink: Sink) -> None:
        self._sink = sink
        self._source.on_ready = self.wake
        self.wake()

    def wake(self) -> None:
        """There are events, or the client has room again."""
        if not self._is_waiting and not self._is_closed and self._sink is not None:
            self._is_waiting = True
            self._shared.add(self)

    def work(self) -> bool:
        """Take some events; send the list after the last of them. True: there may be more."""
        if self._is_closed:
            return False
        try:
            events = self._source.take(BATCH)
            for event in events:
                self._rows.apply(event)
                if event.type == "reset":
                    self._check(self._source.user)
            size = self._rows.size
            change, self._held = size - self._held, size
            self._shared.hold(change)
            if events:
                self._has_changed = True
                return True
            self._is_waiting = False
            if self._source.ended is not None:
                self._end(problem_of(self._source, self._rows))
            elif self._has_changed and self._rows.is_ready:
                self._send()
        except Problem as problem:
            self._end(problem)
        except BaseException as error:
            self._shared.report(contained(error))
            self._end(ServerError("Internal Server Error"))
        return False

    def _send(self) -> None:
        sink = self._sink
        if sink is not None and sink.has_room:
            self._has_changed = False
            sink.send(self._before + self._rows.array() + b"}}")

    def _end(self, problem: Problem | None) -> None:
        sink, self._sink = self._sink, None
        self.close()
        if sink is not None:
            sink.end(problem)

    def close(self) -> None:
        """The client is gone, or wants no more. May be called more than once."""
        if self._is_closed:
            return
        self._is_closed = True
        self._sink = None
        self._source.close()
        self._rows.clear()
        self._shared.hold(-self._held)
        self._shared.count -= 1

    def __del__(self) -> None:
        self.close()


def problem_of(source: LiveSubscription, rows: LiveRows) -> Problem | None:
    """Why a subscription has ended; None: as it was asked to."""
    why = source.ended
    if why is EndReason.REVOKED:
        return AccessViolation(source.user)
    if why is EndReason.NO_LOGIN:
        return AccessViolation()
    if why is EndReason.TOO_SLOW:
        return Overloaded(why.value)
    if why is EndReason.DROPPED:
        return NotFound(why.value)
    if why is EndReason.FAILED:
        return ServerError(why.value)
    return ClientError(rows.reason) if rows.reason and not rows.is_ready else None
