"""What only the loop may run, functions of applications, for statements whose rows a thread finds (spec: sql §8)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import TypeVar

from svc.sql.work import Work

_AT_ONCE = 0.001  # seconds of the loop
_LOOKS = 0.02  # seconds between two looks of a waiting thread at whether it should end

T = TypeVar("T")


class _ThreadState(threading.local):
    loop: asyncio.AbstractEventLoop | None = None
    work: Work | None = None


_state = _ThreadState()


def work_for(loop: asyncio.AbstractEventLoop | None, work: Work | None) -> None:
    """This thread, which is not that of `loop`, works for a statement from now on; None: for none."""
    _state.loop, _state.work = loop, work


def each_on_loop(function: Callable[[T], object], items: Sequence[T]) -> None:
    """Call a short function with each item. On a thread, the loop calls it, with some of the items at a time. Raises what it raises, and what ends the
    statement."""
    loop, work = _state.loop, _state.work
    if loop is None or work is None:
        for item in items:
            function(item)
        return

    def call_some() -> int:
        end = work.now() + _AT_ONCE
        for number in range(done, len(items)):
            function(items[number])
            if work.now() >= end:
                return number + 1
        return len(items)

    done = 0
    while done < len(items):
        work.check()
        done = _wait(loop, work, call_some)


def _wait(loop: asyncio.AbstractEventLoop, work: Work, function: Callable[[], int]) -> int:
    called: Future[int] = Future()

    def call() -> None:
        if called.set_running_or_notify_cancel():
            try:
                called.set_result(function())
            except BaseException as error:
                called.set_exception(error)

    loop.call_soon_threadsafe(call)
    while not wait((called,), _LOOKS).done:
        if work.is_over():
            called.cancel()
            work.check()
    return called.result()
