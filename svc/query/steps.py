"""Functions of many records that take short steps, because one value may lead to very many related records."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from svc.freeing import free_later

STEP = 512  # related records that are read in one step

T = TypeVar("T")
R = TypeVar("R")
Steps = Generator[None, None, T]


class SteppedFunction:
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
    if type(function) is SteppedFunction:
        return (yield from function.steps(items, lookups))  # type: ignore[no-any-return]
    return function(items, lookups)


def chunks(items: Sequence[T], size: int = STEP) -> Iterator[Sequence[T]]:
    """Consecutive parts of a sequence, each made when it is asked for; of a short one, itself."""
    if len(items) <= size:
        return iter((items,) if items else ())
    return (items[at : at + size] for at in range(0, len(items), size))


def batches(items: Iterable[T], size: int = STEP) -> Iterator[list[T]]:
    """The same of what is found one by one."""
    found = iter(items)
    while batch := list(islice(found, size)):
        yield batch


def of_parts(lists: list[list[T]], function: Callable[[Sequence[T]], list[R]]) -> Steps[list[list[R]]]:
    """For each list what `function` makes of its parts. The lists are freed, little by little if they are long."""
    results: list[list[R]] = []
    since_pause = 0
    for items in lists:
        result: list[R] = []
        for part in chunks(items):
            result += function(part)
            since_pause += len(part)
            if since_pause > 2 * STEP:
                since_pause = 0
                yield
        results.append(result)
        free_later(items)
    return results


def distinct(lists: Sequence[Sequence[tuple[bytes, T]]], size: int = STEP) -> Iterator[list[tuple[bytes, T]]]:
    """The pairs of some lists, each key once, about `size` at a time: perhaps none, where many are known."""
    if sum(map(len, lists)) <= size:
        found = list({pair[0]: pair for pairs in lists for pair in pairs}.values())
        if found:
            yield found
        return
    seen: set[bytes] = set()
    new: dict[bytes, tuple[bytes, T]] = {}
    for pairs in lists:
        for part in chunks(pairs, size):
            new.update([(pair[0], pair) for pair in part if pair[0] not in seen])
            if len(new) < size and len(part) < size:
                continue
            yield list(new.values())
            seen.update(new)
            new.clear()
    yield list(new.values())
    free_later(seen)
