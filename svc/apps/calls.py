"""Calls of functions of an application while it is loaded: plain and async ones, with a limit for each (spec: plugins §2.3).

A step of a coroutine, from one wait to the next, is run like a module that is loaded: what it sets on tables waits for the version, tasks that it starts
belong to it, and one that never ends is ended.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractContextManager
from typing import Any

from svc.apps.load_limit import LOAD_SECONDS, LoadTimeout, load_limit
from svc.loop import contained

Guard = Callable[[], AbstractContextManager[None]]


async def call(
    guard: Guard,
    function: Callable[..., Any],
    *arguments: Any,
    seconds: float = LOAD_SECONDS,
    tasks: set[asyncio.Task[Any]] | None = None,
) -> Any:
    """What a function of an application returns, awaited if it is to be. `guard`: entered around each step. `tasks`: gets what is left alone.

    Raises what it raises, as an Exception, or LoadTimeout after `seconds`: then it is cancelled, and left alone if it goes on nevertheless.
    """
    try:
        with load_limit(seconds), guard():
            result = function(*arguments)
    except LoadTimeout:
        raise
    except BaseException as error:
        raise contained(error)
    if not inspect.isawaitable(result):
        return result
    task = asyncio.get_running_loop().create_task(_run(result, guard, seconds))
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not done:
        task.add_done_callback(_look_at)
        task.cancel()
        if tasks is not None:
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.sleep(0)
        raise LoadTimeout(f"it has not ended within {seconds:g} s")
    if task.cancelled():
        raise RuntimeError("it was cancelled")
    return task.result()


async def _run(awaitable: Awaitable[Any], guard: Guard, seconds: float) -> Any:
    try:
        return await SteppedAwaitable(awaitable, guard, seconds)
    except (LoadTimeout, asyncio.CancelledError):
        raise
    except BaseException as error:
        raise contained(error)


def _look_at(task: asyncio.Task[Any]) -> None:
    """What was left alone is over: its exception is of no interest any more."""
    if not task.cancelled():
        task.exception()


class SteppedAwaitable:
    """An awaitable, run step by step."""

    def __init__(self, awaitable: Any, guard: Guard, seconds: float) -> None:
        self._steps: Any = awaitable if isinstance(awaitable, Coroutine) else awaitable.__await__()
        self._guard = guard
        self._seconds = seconds

    def __await__(self) -> Generator[Any, Any, Any]:
        steps, error = self._steps, None
        while True:
            try:
                with load_limit(self._seconds), self._guard():
                    waiting = steps.send(None) if error is None else steps.throw(error)
            except StopIteration as end:
                return end.value
            error = None
            try:
                yield waiting
            except BaseException as raised:  # thrown into the task: a cancellation
                error = raised
