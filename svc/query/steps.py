"""Functions of many records that take short steps, because one value may lead to very many related records."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, TypeVar

STEP = 512  # related records that are read in one step

T = TypeVar("T")
Steps = Generator[None, None, T]


class Stepped:
    """A function of many records that takes steps: `steps` is a generator that yields between them and returns the result. A call takes all at once,
    for callers that cannot pause."""

    __slots__ = ("steps",)

    def __init__(self, steps: Callable[[Any, Any], Steps[Any]]) -> None:
        self.steps = steps

    def __call__(self, items: Any, lookups: Any) -> Any:
        return exhaust(self.steps(items, lookups))


def exhaust(steps: Steps[T]) -> T:
    """What a generator returns, without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


def in_steps(function: Callable[[Any, Any], T], items: Any, lookups: Any) -> Steps[T]:
    """`function(items, lookups)`, in its steps if it has any."""
    if type(function) is Stepped:
        return (yield from function.steps(items, lookups))  # type: ignore[no-any-return]
    return function(items, lookups)


def chunks(items: Sequence[T], size: int = STEP) -> Iterator[Sequence[T]]:
    """Consecutive parts of a sequence; of a short one, itself."""
    if len(items) <= size:
        return iter((items,) if items else ())
    return iter([items[at : at + size] for at in range(0, len(items), size)])
