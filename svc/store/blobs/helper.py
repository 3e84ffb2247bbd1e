"""Where work that blocks is done: writing and fsync of files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

T = TypeVar("T")
Done = Callable[[Any, BaseException | None], None]


class Helper:
    """Does it at once, where it is asked for: for programs without a loop."""

    def run(self, work: Callable[[], Any], done: Done) -> None:
        """Call `work`, then `done` with its result or with what it raised."""
        try:
            result = work()
        except Exception as error:
            done(None, error)
        else:
            done(result, None)

    async def wait(self, work: Callable[[], T]) -> T:
        """The same for a coroutine."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def done(result: T, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self.run(work, done)
        return await future


class ThreadHelper(Helper):
    """Does it on another thread; `done` is called by the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, executor: Executor) -> None:
        self._loop = loop
        self._executor = executor

    def run(self, work: Callable[[], Any], done: Done) -> None:
        def job() -> None:
            result, failure = None, None
            try:
                result = work()
            except BaseException as error:
                failure = error
            try:
                self._loop.call_soon_threadsafe(done, result, failure)
            except RuntimeError:
                pass  # the loop is closed: no task waits any more

        self._executor.submit(job)
