"""The event loop: asyncio over our own selector, and the order of a turn (architecture §2).

A *turn* is what happens between two polls. asyncio calls `TurnSelector.select()` once a turn, just before it waits, so it
runs the work that closes a turn: `end_turn()` commits, encodes and sends. After `select()` returns a new turn begins. Time inside the poll is
idle, all other time is active; the utilization metric is their ratio.

asyncio computes the timeout of a poll before it calls `select()`. Closing work that makes something ready (a future resolved, a stream with more to
say) therefore says so by returning True, and the poll does not wait.

What reads a socket (`loop.add_reader`) is called by the selector itself, right behind the poll and before anything else of the turn: the queue of asyncio,
with a handle for each event, would cost a request about 3,000 instructions, and the key that a selector of the standard library has for it 2,000 more.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import selectors
import signal
from collections.abc import Callable, Mapping
from functools import partial
from types import CodeType
from typing import Any, Protocol

from svc.clock import SYSTEM_CLOCK, Clock


class Turns(Protocol):
    """The turns of a loop, as the server uses them."""

    end_turn: Callable[[], bool]  # the closing work; True: something is ready at once
    begin_turn: Callable[[], None] | None

    @property
    def turn_started(self) -> float: ...

    @property
    def idle(self) -> float:
        """Seconds, cumulated."""

    @property
    def active(self) -> float:
        """Seconds, cumulated."""


class TurnWatch(Protocol):
    """Follows how long turns take."""

    def begin_turn(self, now: float) -> None:
        """A turn begins that is to be watched: `watch_from` has passed."""

    def end_turn(self, now: float) -> None:
        """A turn ends of which `is_sampled` was set."""


def _descriptor(fileobj: Any) -> int:
    found: int = fileobj if type(fileobj) is int else fileobj.fileno()
    return found


_IN, _OUT = 1, 4  # EPOLLIN, EPOLLOUT

Poll = Callable[[float | None], list[tuple[int, int]]]
"""Waits for so many seconds, None: for ever. (descriptor, event), as epoll has them."""


def _poll_epoll(selector: Any) -> Poll:
    """Without what `EpollSelector.select` makes of each."""
    poll, descriptors = selector._selector.poll, selector.get_map()

    def wait(timeout: float | None) -> list[tuple[int, int]]:
        seconds = (
            -1 if timeout is None else math.ceil(timeout * 1e3) * 1e-3 if timeout > 0 else 0
        )  # at least so long, in whole milliseconds
        try:
            found: list[tuple[int, int]] = poll(seconds, len(descriptors) or 1)
        except InterruptedError:
            return []
        return found

    return wait


def _poll_any(selector: selectors.BaseSelector) -> Poll:
    def wait(timeout: float | None) -> list[tuple[int, int]]:
        return [
            (key.fd, (events & selectors.EVENT_READ and _IN) | (events & selectors.EVENT_WRITE and _OUT))
            for key, events in selector.select(timeout)
        ]

    return wait


class TurnSelector(selectors.BaseSelector):
    """A selector that ends a turn before it polls. Everything else is the platform's best selector."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._inner = selectors.DefaultSelector()
        self._keys: dict[int, selectors.SelectorKey] = {}  # by descriptor
        self._now = clock.monotonic
        self._poll = (
            _poll_epoll(self._inner) if isinstance(self._inner, getattr(selectors, "EpollSelector", ())) else _poll_any(self._inner)
        )
        self.readers: dict[int, Callable[[], object]] = {}  # by descriptor: what is called if it is readable, and nothing else
        self.on_error: Callable[[Exception], object] = lambda error: None  # of one of them
        self.end_turn: Callable[[], bool] = lambda: False
        self.begin_turn: Callable[[], None] | None = None  # called after each poll
        self.watch: TurnWatch | None = None
        self.watch_from = math.inf  # a turn that begins later is told to `watch`
        self.is_sampled = False  # the end of this turn is told to `watch`
        self.turn_started = self._now()  # when the last poll returned: a time stamp that costs nothing
        self.idle = 0.0  # seconds, cumulated
        self.active = 0.0  # seconds, cumulated

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.end_turn():
            timeout = 0
        polling = self._now()
        if self.is_sampled and self.watch is not None:
            self.watch.end_turn(polling)
        ready = self._poll(timeout)
        woken = self._now()
        self.active += polling - self.turn_started
        self.idle += woken - polling
        self.turn_started = woken
        if woken >= self.watch_from and self.watch is not None:
            self.watch.begin_turn(woken)
        if self.begin_turn is not None:
            self.begin_turn()
        return self._call_readers(ready) if ready else []

    def _call_readers(self, ready: list[tuple[int, int]]) -> list[tuple[selectors.SelectorKey, int]]:
        """Returns what is left for asyncio."""
        others: list[tuple[selectors.SelectorKey, int]] = []
        readers = self.readers
        for descriptor, event in ready:
            reader = readers.get(descriptor)  # asked for now: one may remove another
            if event != _IN or reader is None:
                key = self._keys.get(descriptor)
                if key is None:
                    continue
                events = key.events & (
                    (event & ~_OUT and selectors.EVENT_READ) | (event & ~_IN and selectors.EVENT_WRITE)
                )  # both on errors
                if events != selectors.EVENT_READ or reader is None:
                    others.append((key, events))
                    continue
            try:
                reader()
            except Exception as error:
                self.on_error(error)
        return others

    @property
    def polling_code(self) -> frozenset[CodeType]:
        """The functions that run while the loop waits, and are at work in no turn."""
        return frozenset((self._poll.__code__, type(self._inner).select.__code__, TurnSelector.select.__code__))

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._keys[_descriptor(fileobj)] = self._inner.register(fileobj, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key = self._inner.unregister(fileobj)
        self._keys.pop(key.fd, None)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._keys[_descriptor(fileobj)] = self._inner.modify(fileobj, events, data)
        return key

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        fd = _descriptor(fileobj)
        if fd < 0:
            return self._inner.get_key(fileobj)
        return self._keys[
            fd
        ]  # asyncio asks for what is not there: the selector's own error would show the socket, which costs two system calls

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._inner.get_map()

    def close(self) -> None:
        self._inner.close()

    def fileno(self) -> int:
        """Its own descriptor, -1 if it has none."""
        fileno: Callable[[], int] | None = getattr(self._inner, "fileno", None)
        return -1 if fileno is None else fileno()

    def leave(self, end: Callable[[], bool]) -> None:
        """In a forked child, which has no loop: call `end` instead of the next poll."""
        self.end_turn = end
        self.watch, self.watch_from, self.is_sampled = None, math.inf, False


class TurnLoop(asyncio.SelectorEventLoop):
    """A loop over a TurnSelector. In asyncio's debug mode, which measures callbacks, readers are called by asyncio."""

    def __init__(self, selector: TurnSelector) -> None:
        super().__init__(selector)
        self._turns = selector
        selector.on_error = self._report

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        super().add_reader(fd, callback, *args)
        if not self.get_debug():
            self._turns.readers[_descriptor(fd)] = partial(contextvars.copy_context().run, callback, *args)

    def remove_reader(self, fd: Any) -> bool:
        self._turns.readers.pop(_descriptor(fd), None)
        return super().remove_reader(fd)

    def _report(self, error: Exception) -> None:
        self.call_exception_handler({"message": "Exception in a reader", "exception": error})


def new_loop(clock: Clock = SYSTEM_CLOCK) -> tuple[TurnLoop, TurnSelector]:
    """A loop and its selector; set `selector.end_turn` before running it."""
    selector = TurnSelector(clock)
    return TurnLoop(selector), selector


# --- what code of applications raises ----------------------------------------------------------------------------------------------------

_OWN_MODULES = __name__.partition(".")[0] + "."


def is_ours(error: BaseException) -> bool:
    """Whether an exception that has left code of an application was not raised by it: the cancellation of this task, the end of a coroutine that is closed
    from outside, Ctrl+C in a process that has no handler for it. Any other ends the call that raised it and no more, also if it is no Exception: the panic of
    a library in Rust, a BaseExceptionGroup, SystemExit.
    """
    if isinstance(error, Exception):
        return False
    if isinstance(error, asyncio.CancelledError):
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no loop runs
            return False
        return task is not None and task.cancelling() > 0
    if isinstance(error, GeneratorExit):
        # A coroutine that is closed has it thrown in where it waits, so no frame of the application is left in its traceback.
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        return traceback is not None and str(traceback.tb_frame.f_globals.get("__name__")).startswith(_OWN_MODULES)
    return isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def contained(error: BaseException, raiser: str = "it") -> Exception:
    """What code of an application has raised, as an Exception, to be reported or answered. Raises what `is_ours`."""
    if is_ours(error):
        raise error
    return as_exception(error, raiser)


def as_exception(error: BaseException, raiser: str = "it") -> Exception:
    """`error`, or what stands for one that is no Exception."""
    if isinstance(error, Exception):
        return error
    try:
        text = str(error)
    except Exception:  # of code of an application, too
        text = ""
    stand_in = RuntimeError(f"{raiser} has raised {type(error).__name__}{f': {text}' if text else ''}")
    stand_in.__cause__ = error
    return stand_in
