"""Values that are there, and values that are still to come, handled alike.

A handler may return a value or an awaitable of it. What needs its result goes on with `then`: a value is answered in the same turn, without a task; only
what really waits becomes a coroutine.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from types import GeneratorType
from typing import Any


class Deferred:
    """Base of what stands for a value that can be had at once: a call that has not been made yet (`api.calls.Call`), a result that callers may await."""

    __slots__ = ()

    def run(self) -> Any:
        """The value, or an awaitable of it. Called once."""
        raise NotImplementedError


class AlreadyThere:
    """Base of what may be awaited and need not be: awaiting it does not wait, and gives itself."""

    __slots__ = ()


class Ready(Deferred, AlreadyThere):
    """A result that is there already, for callers that may await it."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def run(self) -> Any:
        return self.value

    def __await__(self) -> Generator[Any, Any, Any]:
        return self.value
        yield


def ready(value: Any) -> Any:
    """`value` as something that may be awaited, whether that waits or not."""
    return value if isinstance(value, AlreadyThere) or is_waiting(value) else Ready(value)


def settled(value: Any) -> Any:
    """`value` with a call made that has not been made yet, and without the wrapper of one that is there already."""
    while isinstance(value, Deferred):
        value = value.value if type(value) is Ready else value.run()
    return value


def is_waiting(value: Any) -> bool:
    """Whether a settled value has to be awaited."""
    kind = type(value)
    known = _waits.get(kind)
    if known is None:
        known = inspect.isawaitable(value) and not isinstance(value, AlreadyThere)
        if kind is not GeneratorType:  # of these, some are and some are not
            if len(_waits) >= _MOST_TYPES:
                _waits.clear()
            _waits[kind] = known
    return known


_MOST_TYPES = 1000
_waits: dict[type, bool] = {}  # whether values of a type have to be awaited


def then(value: Any, go_on: Callable[[Any], Any]) -> Any:
    """`go_on` applied to the settled value, or to what an awaitable results in when that is there. Returns what `go_on` returns, or an awaitable of it.

    >>> then(2, lambda number: number + 1)
    3
    """
    value = settled(value)
    return _then(value, go_on) if is_waiting(value) else go_on(value)


async def _then(value: Any, go_on: Callable[[Any], Any]) -> Any:
    result = settled(go_on(settled(await value)))
    return await result if is_waiting(result) else result
