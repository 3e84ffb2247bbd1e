"""What class-level methods return: a call that is made when it is awaited (spec: applications §1)."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable
from types import CodeType
from typing import Any

from svc.api.current import report_dropped
from svc.api.thread_guard import here, refuse_helper
from svc.awaitables import Deferred, is_waiting, settled


class Call(Deferred, Coroutine[Any, Any, Any]):
    """A call that has not been made yet. It is made once: when it is awaited, or when a handler returns it.

    It is a coroutine, so it may also be handed to `asyncio.create_task` and `asyncio.gather`. One that is never made is reported in the log, with the place in
    the application that asked for it.
    """

    __slots__ = ("__weakref__", "_arguments", "_code", "_function", "_instruction", "_running")

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...], depth: int = 2) -> None:
        """`depth`: frames between here and the code of the application."""
        self._function: Callable[..., Any] | None = function
        self._arguments = arguments
        self._running: Generator[Any, Any, Any] | None = None
        frame = sys._getframe(depth)
        self._code: CodeType = frame.f_code
        self._instruction = frame.f_lasti

    def run(self) -> Any:
        """Make the call: its result, or an awaitable of it."""
        function = self._function
        if here.is_helper:
            self._function = None
            refuse_helper()
        if function is None:
            raise RuntimeError("this call has been made already: a call is awaited once")
        self._function = None
        return function(*self._arguments)

    def __await__(self) -> Generator[Any, Any, Any]:
        value = settled(self.run())
        if is_waiting(value):
            value = settled((yield from _awaited(value).__await__()))
        return value

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for item in each(await self):
            yield item

    def send(self, value: Any) -> Any:
        if self._running is None:
            self._running = self.__await__()
        return self._running.send(value)

    def throw(self, *error: Any) -> Any:
        if self._running is None:
            self._running = self.__await__()
        return self._running.throw(*error)

    def close(self) -> None:
        self._function = None
        if self._running is not None:
            self._running.close()

    def __del__(self) -> None:
        if self._function is not None and not sys.is_finalizing():
            report_dropped(self._code, self._instruction)


async def _awaited(value: Any) -> Any:
    return await value


async def each(source: Any) -> AsyncIterator[Any]:
    """The items of an iterable of either kind. What is left early is closed."""
    if hasattr(source, "__aiter__"):
        iterator = aiter(source)
        try:
            async for item in iterator:
                yield item
        finally:
            close = getattr(iterator, "aclose", None)
            if close is not None:
                await close()
    elif isinstance(source, Iterable) and not isinstance(source, str | bytes):
        for item in source:
            yield item
    else:
        raise TypeError(f"{type(source).__name__} is not iterable")
