"""The loop of an instance that is a guest on the event loop of another program, and its turns (architecture §2).

A loop of our own passes the end of a turn before each poll. On one that is not ours a turn ends in the next iteration after something has begun that
its end has to finish: a snapshot, a writer, a transaction (`store.Turn.report_work`). All requests of one iteration share a commit, as in ours.

When the instance ends the loop goes on. So callbacks and tasks of the instance are known as such: after `close` no callback runs any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from svc.clock import Clock
from svc.loop import contained

T = TypeVar("T")


class GuestLoop:
    """The part of a loop that an instance uses; everything else is the host's. `tasks`: those of the instance."""

    def __init__(
        self, host: asyncio.AbstractEventLoop, on_stop: Callable[[], None], log_error: Callable[[str, BaseException], None]
    ) -> None:
        """`on_stop`: the instance wants to end."""
        self.host = host
        self.tasks: set[asyncio.Task[Any]] = set()
        self._on_stop = on_stop
        self._log_error = log_error
        self._is_closed = False
        self.create_future = host.create_future
        self.time = host.time

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.Handle:
        return self.host.call_soon(self._call, callback, args, context=context)

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.Handle:
        return self.host.call_soon_threadsafe(self._call, callback, args, context=context)

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.TimerHandle:
        return self.host.call_later(delay, self._call, callback, args, context=context)

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.TimerHandle:
        return self.host.call_at(when, self._call, callback, args, context=context)

    def _call(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if self._is_closed:
            return
        try:
            callback(*args)
        except BaseException as error:
            self._log_error("a callback of the event loop", contained(error))

    def create_task(self, work: Coroutine[Any, Any, T], **options: Any) -> asyncio.Task[T]:
        task = self.host.create_task(work, **options)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def stop(self) -> None:
        self._on_stop()

    def close(self) -> None:
        self._is_closed = True

    def is_closed(self) -> bool:
        return self._is_closed

    def __getattr__(self, name: str) -> Any:
        return getattr(self.host, name)

    @property
    def as_loop(self) -> asyncio.AbstractEventLoop:
        return cast("asyncio.AbstractEventLoop", self)


class GuestTurns:
    """The turns of a guest. `request`: something has to be finished by the end of this one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._now = clock.monotonic
        self._is_requested = False
        self._began = self._now()
        self.end_turn: Callable[[], bool] = lambda: False
        self.begin_turn: Callable[[], None] | None = None
        self.turn_started = self._began
        self.active = 0.0

    @property
    def idle(self) -> float:
        """The rest of the time: what the host does with it is not known."""
        return max(0.0, self._now() - self._began - self.active)

    def enter(self) -> None:
        """A request has come."""
        if not self._is_requested:
            self.request()
            if self.begin_turn is not None:
                self.begin_turn()

    def request(self) -> None:
        if not self._is_requested:
            self._is_requested = True
            self.turn_started = self._now()
            self._loop.call_soon(self._end)

    def _end(self) -> None:
        self._is_requested = False
        more = self.end_turn()
        self.active += self._now() - self.turn_started
        if more:
            self.request()
