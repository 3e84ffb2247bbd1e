"""Calls of functions of an application while it is loaded: plain and async ones, with a limit for each (spec: plugins §2.3).

A step of a coroutine, from one wait to the next, is run like a module that is loaded: what it sets on tables waits for the version, tasks that it starts
belong to it, and one that never ends is ended.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager
from typing import Any

from svc.apps.load_limit import LOAD_SECONDS, LoadTimeout, load_limit
from svc.apps.modules import ModuleFault

Guard = Callable[[], AbstractContextManager[None]]


async def call(guard: Guard, function: Callable[..., Any], *arguments: Any, seconds: float = LOAD_SECONDS) -> Any:
    """What a function of an application returns, awaited if it is to be. `guard`: entered around each step.

    Raises what it raises; LoadTimeout after `seconds`. Nothing but the cancellation of the running task is a BaseException then: SystemExit and the
    like become a RuntimeError.
    """
    try:
        with load_limit(seconds), guard():
            result = function(*arguments)
        if not inspect.isawaitable(result):
            return result
        running = _Stepped(result, guard, seconds)
        timeout = asyncio.timeout(seconds)
        try:
            async with timeout:
                return await running
        except TimeoutError:
            if timeout.expired():
                raise LoadTimeout(f"it has not ended within {seconds:g} s") from None
            raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("it was cancelled") from error
    except (SystemExit, GeneratorExit) as error:
        raise RuntimeError(f"it has raised {type(error).__name__}") from error


class _Stepped:
    """An awaitable, run step by step."""

    def __init__(self, awaitable: Any, guard: Guard, seconds: float) -> None:
        self._awaitable = awaitable
        self._guard = guard
        self._seconds = seconds

    def __await__(self) -> Generator[Any, Any, Any]:
        steps: Any = self._awaitable if isinstance(self._awaitable, Coroutine) else self._awaitable.__await__()
        send, value = steps.send if hasattr(steps, "send") else (lambda _: next(steps)), None
        error: BaseException | None = None
        while True:
            try:
                with load_limit(self._seconds), self._guard():
                    waiting = send(value) if error is None else steps.throw(error)
            except StopIteration as end:
                return end.value
            error = None
            try:
                value = yield waiting
            except BaseException as raised:  # thrown into the task: a cancellation
                error = raised


def described(fault: BaseException, modules: Any) -> ModuleFault:
    """`fault` with its place in the application. `modules`: an ApplicationModules."""
    if isinstance(fault, ModuleFault):
        return fault
    found: ModuleFault = modules.fault_of(fault)
    return found
