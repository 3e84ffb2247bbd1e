"""Frees what has very many elements a piece at a time, in later turns: to free 100,000 records at once takes 25 ms.

A container that is given here belongs to this module: nothing else may look into it any more. Of one that others may still have, give a copy, which costs
little: the elements then live until their turn comes, also when nobody else has the container any more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

AT_ONCE = 2000  # elements freed in one turn, in less than a millisecond

Container = list[Any] | dict[Any, Any] | set[Any]

_waiting: deque[Container] = deque()
_loop: asyncio.AbstractEventLoop | None = None  # that will call


def free_later(container: Container) -> None:
    """Empty a container in later turns of the running loop. One with few elements is left to the interpreter."""
    if len(container) <= AT_ONCE:
        return
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # no task waits for a turn of a loop that does not run
        return
    _waiting.append(container)
    if _loop is not loop:
        _call(loop)


def _call(loop: asyncio.AbstractEventLoop | None) -> None:
    global _loop
    _loop = loop
    if loop is not None:
        loop.call_soon_threadsafe(_free, loop)  # not `call_soon`: at the end of a turn the loop has decided already how long it waits


def _free(loop: asyncio.AbstractEventLoop) -> None:
    if _loop is loop:
        free_some()
        _call(loop if _waiting else None)


def free_some(count: int = AT_ONCE) -> None:
    """Free so many elements."""
    while _waiting and count > 0:
        container = _waiting[0]
        if type(container) is list:
            freed = min(len(container), count)
            del container[len(container) - freed :]
        else:
            freed = min(len(container), count)
            for _ in range(freed):
                container.pop() if type(container) is set else container.popitem()  # type: ignore[union-attr]
        count -= freed
        if not container:
            _waiting.popleft()


def waiting() -> int:
    """The number of elements that are to be freed."""
    return sum(map(len, _waiting))
