"""Functions that block, on threads beside the event loop (spec: configuration §9.4).

    total = await run_in_thread(add_up, rows)

The threads are for applications alone, so what blocks there delays no login and no file. They are daemons: a function that never returns does not keep
the process from ending.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from svc.api.current import current
from svc.errors import Overloaded
from svc.loop import as_exception

_P = ParamSpec("_P")
_T = TypeVar("_T")

MAX_THREADS = 16  # of one instance: most of them wait for something, so there may be more than there are processors
MAX_WAITING = 1000  # calls that wait for a thread; beyond: 503

_Task = tuple["Future[Any]", Callable[[], Any]]


class HelperThreads:
    """The threads of one instance: started when they are needed, and kept."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._open = 0  # calls that wait or run, also those whose caller is gone
        self._is_closed = False

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        """Raises Overloaded if too many wait."""
        with self._lock:
            if self._is_closed:
                raise RuntimeError("svc stops: no function is run on a thread any more")
            if self._open >= MAX_THREADS + MAX_WAITING:
                raise Overloaded("Too many functions wait for a thread")
            self._open += 1
            is_short = self._open > self._threads and self._threads < MAX_THREADS
            if is_short:
                self._threads += 1
        future: Future[Any] = Future()
        self._tasks.put((future, function))
        if is_short:
            threading.Thread(target=self._run, name="application", daemon=True).start()
        return future

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            self._perform(*task)
            del task  # it keeps what the function has returned

    def _perform(self, future: Future[Any], function: Callable[[], Any]) -> None:
        is_wanted = future.set_running_or_notify_cancel()
        result = error = None
        try:
            if is_wanted:
                result = function()
        except BaseException as raised:
            error = _as_error(raised)
        with self._lock:
            self._open -= 1
        if error is not None:
            future.set_exception(error)
        elif is_wanted:
            future.set_result(result)
        del future, function, error  # else the traceback of an exception, which has this frame, would keep them, and they the exception

    def close(self) -> None:
        """Cancel what waits. What runs goes on beside the end of the process, and its result is dropped."""
        with self._lock:
            self._is_closed = True
            threads = self._threads
        waiting: list[Future[Any]] = []
        while not self._tasks.empty():
            task = self._tasks.get()
            if task is not None:
                waiting.append(task[0])
        for _ in range(threads):
            self._tasks.put(None)
        for future in waiting:
            future.cancel()


def _as_error(error: BaseException) -> BaseException:
    """An exception that a task can be ended with: StopIteration cannot be set at all."""
    if not isinstance(error, StopIteration):
        return as_exception(error, "the function of run_in_thread")
    wrapped = RuntimeError("the function of run_in_thread has raised StopIteration")
    wrapped.__cause__ = error
    return wrapped


async def run_in_thread(function: Callable[_P, _T], /, *arguments: _P.args, **options: _P.kwargs) -> _T:
    """What `function(*arguments, **options)` returns or raises. It runs on another thread, in the context of the caller: `get_user()` and the like work, tables
    do not.

    If the caller is cancelled, a function that has not begun does not run; one that runs goes on, and its result is dropped. Raises Overloaded if
    too many wait.
    """
    if not callable(function):
        raise TypeError(
            f"run_in_thread takes a function and its arguments, not {type(function).__name__}: write run_in_thread(f, x), not run_in_thread(f(x))"
        )
    if inspect.iscoroutinefunction(function):
        raise TypeError(
            f"{getattr(function, '__qualname__', 'it')} is a coroutine function: await it, run_in_thread is for functions that block"
        )
    work = partial(copy_context().run, partial(function, *arguments, **options))
    result: _T = await asyncio.wrap_future(current().threads.submit(work))
    return result
