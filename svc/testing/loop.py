"""The event loop of a test: it runs only while the test waits for something, and its time passes by itself when nothing else can happen.

Before a poll, when nothing is ready:

    a function runs on a thread            wait for it, up to PROMPT; the time stands still
    one runs for longer, a connection or   wait for it while a request or an awaitable is waited for; the time passes as outside
      a thread of the application's own
      is there
    a timer is due before the horizon      the time passes until then, at once
    else                                   the loop stops: nothing more happens by itself

The *horizon* is how far the time may pass: not at all for `settle`, by so many seconds for `advance`, and far while an answer is waited for.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any, TypeVar

from svc.api.threads import HelperThreads
from svc.clock import SYSTEM_CLOCK, FakeClock
from svc.loop import TurnSelector

T = TypeVar("T")

OUTSIDE_SLICE = 0.02  # seconds of a real wait for what is outside
PROMPT = 1.0  # real seconds, after which a function on a thread counts as outside: it may wait for something
RESTLESS = 20_000  # polls without a passing of time, after which the end of a request does not wait for rest any more
OWN_THREADS = ("application", "asyncio_", "helper_", "blob_", "files_", "load_", "body_")
"""What the names of the threads begin with whose work is counted."""


class Pool(Executor):
    """Does at once, in the thread of the test, what a server does on its helper threads."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(*arguments, **options))
        except BaseException as error:
            future.set_exception(error)
        return future


class ManualSelector(TurnSelector):
    """`horizon`: monotonic time up to which time passes by itself. `waits_for_calls`, `waits_outside`: whether functions on threads, and connections and
    threads of the application, are waited for. `polls`: how many there were.

    `is_idle`: nothing more happens up to the horizon. `is_late`: that, or what is waited for, has not come in time.
    """

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self._clock = clock
        self._sockets_of_loop = 0
        self._threads_before = set(threading.enumerate())
        self.horizon = -math.inf
        self.waits_for_calls = False
        self.waits_outside = False
        self.patience = math.inf  # real seconds
        self.is_patient = False  # they count from the last time that time has passed
        self.deadline = math.inf  # real time at which waiting ends
        self.polls = 0
        self.max_polls = math.inf
        self._calls: dict[object, float] = {}  # functions that run on threads, the latest last -> real time of their beginning
        self.is_idle = False
        self.is_late = False
        self.is_woken = False  # the end of a turn has given the client something
        self.on_stop: Callable[[], None] = lambda: None

    def select(self, timeout: float | None = None) -> list[Any]:
        self.polls += 1
        self.is_woken = False
        if self.end_turn() or self.is_woken:
            timeout = 0
        ready = self._inner.select(0)
        if SYSTEM_CLOCK.monotonic() >= self.deadline or self.polls >= self.max_polls:
            self.is_late = True
            self.on_stop()
        elif not ready and timeout != 0:
            ready = self._wait(math.inf if timeout is None else timeout)
        self.turn_started = self._clock.monotonic()
        if self.begin_turn is not None:
            self.begin_turn()
        return ready

    def _wait(self, timeout: float) -> list[Any]:
        real = SYSTEM_CLOCK.monotonic
        if self.waits_for_calls and self._is_working(real()):
            return self._inner.select(OUTSIDE_SLICE)
        if self.waits_outside and self.is_used_outside():
            began = real()
            ready = self._inner.select(min(timeout, OUTSIDE_SLICE))
            self._clock.advance(min(real() - began, timeout))
            return ready
        now = self._clock.monotonic()
        if now + timeout <= self.horizon:
            self._clock.advance(timeout)
            if self.is_patient:
                self.deadline = real() + self.patience
        else:
            if now < self.horizon < math.inf:
                self._clock.advance(self.horizon - now)
            self.is_idle = True
            self.on_stop()
        return []

    @property
    def calls(self) -> int:
        """Functions that run on threads."""
        return len(self._calls)

    def begin_call(self) -> object:
        """A function begins to run on a thread."""
        token = object()
        self._calls[token] = SYSTEM_CLOCK.monotonic()
        return token

    def end_call(self, token: object) -> None:
        self._calls.pop(token, None)

    def _is_working(self, now: float) -> bool:
        """Whether one of them has not been running for long."""
        return bool(self._calls) and now - self._calls[next(reversed(self._calls))] < PROMPT

    def note_own(self) -> None:
        """What is registered now is the loop's own."""
        self._sockets_of_loop = len(self._inner.get_map())

    def has_connections(self) -> bool:
        return len(self._inner.get_map()) > self._sockets_of_loop

    def is_used_outside(self) -> bool:
        """Whether the application has connections, or there are threads that may be its own."""
        return bool(self._calls) or self.has_connections() or bool(self.foreign_threads())

    def foreign_threads(self) -> list[str]:
        """The names of the threads that have begun since, and whose work is not counted."""
        if threading.active_count() <= 1:
            return []
        begun = [thread for thread in threading.enumerate() if thread not in self._threads_before]
        return [thread.name for thread in begun if not thread.name.startswith(OWN_THREADS)]


class ManualLoop(asyncio.SelectorEventLoop):
    """A loop with the time of a `FakeClock`. What `periodic` asks for comes `pace` times later."""

    def __init__(self, clock: FakeClock) -> None:
        self.turns = ManualSelector(clock)
        self.periodic: object = None
        self.pace = 1.0
        self._fake_time = clock.monotonic
        super().__init__(self.turns)
        self.turns.note_own()
        self.turns.on_stop = self.stop

    def time(self) -> float:
        return self._fake_time()

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:  # type: ignore[override]
        if self.pace > 1.0 and getattr(callback, "__self__", None) is self.periodic:
            delay = min(delay * self.pace, max(delay, self.turns.horizon - self._fake_time()))
        return super().call_later(delay, callback, *args, context=context)

    def run_in_executor(self, executor: Any, function: Any, *arguments: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future: asyncio.Future[Any] = super().run_in_executor(executor, function, *arguments)
        if not future.done():
            token = self.turns.begin_call()
            future.add_done_callback(lambda done: self.turns.end_call(token))
        return future

    def expect(
        self, seconds: float, *, patience: float, waits_for_calls: bool = True, waits_outside: bool = False, max_polls: float = math.inf
    ) -> None:
        """Begin to wait, for so many seconds of the clock and at most `patience` real ones. See `ManualSelector`."""
        turns = self.turns
        turns.horizon = self._fake_time() + seconds
        turns.waits_for_calls = waits_for_calls
        turns.waits_outside = waits_outside
        turns.patience = patience
        turns.deadline = SYSTEM_CLOCK.monotonic() + patience
        turns.max_polls = turns.polls + max_polls
        turns.is_idle = turns.is_late = False

    def turn_until(self, future: asyncio.Future[Any] | None) -> bool:
        """Run until `future` is done, or nothing more happens, or not in time. False: the application has stopped the loop."""
        turns = self.turns
        turns.is_patient = future is None
        if future is not None:
            if future.done():
                return True
            future.add_done_callback(self._stop_at)
        try:
            with outside_of_loops():
                self.run_forever()
        finally:
            if future is not None:
                future.remove_done_callback(self._stop_at)
        return turns.is_idle or turns.is_late or (future is not None and future.done())

    def _stop_at(self, future: Any) -> None:
        self.stop()


class CountedThreads(HelperThreads):
    """The threads of `run_in_thread`: the loop knows what is under way."""

    def __init__(self, loop: ManualLoop) -> None:
        super().__init__()
        self._loop = loop

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        inner = super().submit(function)
        outer: Future[Any] = Future()
        token = self._loop.turns.begin_call()

        def on_done(done: Future[Any]) -> None:
            """The caller hears of it before the count goes down: else the time could pass in between."""
            if outer.set_running_or_notify_cancel():
                if done.cancelled():
                    outer.set_exception(RuntimeError("the application ends"))
                elif (error := done.exception()) is not None:
                    outer.set_exception(error)
                else:
                    outer.set_result(done.result())
            try:
                self._loop.call_soon_threadsafe(self._loop.turns.end_call, token)
            except RuntimeError:
                pass  # the loop is closed

        inner.add_done_callback(on_done)
        outer.add_done_callback(lambda future: inner.cancel() if future.cancelled() else None)
        return outer


@contextmanager
def outside_of_loops() -> Iterator[None]:
    """Code of the block may run a loop, also inside an `async` test, whose own loop stands still meanwhile."""
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        yield
        return
    task = asyncio.current_task(running)
    if task is not None:
        asyncio.tasks._leave_task(running, task)
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(running)
        if task is not None:
            asyncio.tasks._enter_task(running, task)
