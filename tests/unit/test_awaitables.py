"""Values and awaitables of values are gone on with alike."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable
from itertools import product
from typing import Any

import pytest

from svc.awaitables import AlreadyThere, Deferred, Ready, is_waiting, ready, settled, then


class Made(Deferred):
    """Stands for what `make` gives."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def run(self) -> Any:
        return self._make()


class There(AlreadyThere):
    def __await__(self) -> Any:
        return self
        yield


async def later(value: Any) -> Any:
    return value


async def result_of(value: Awaitable[Any]) -> Any:
    return await value


PLAIN = [lambda value: value, Ready, lambda value: Made(lambda: Ready(value))]
WAITING = [later, lambda value: later(Ready(value)), lambda value: Made(lambda: later(value))]


@pytest.mark.parametrize("given", PLAIN)
@pytest.mark.parametrize("made", PLAIN)
def test_what_need_not_wait_goes_on_at_once(given: Callable[[int], Any], made: Callable[[int], Any]) -> None:
    result = settled(then(given(2), lambda number: made(number + 1)))
    assert result == 3


@pytest.mark.parametrize(("given", "made"), [*product(PLAIN, WAITING), *product(WAITING, [*PLAIN, *WAITING])])
def test_what_waits_is_awaited(given: Callable[[int], Any], made: Callable[[int], Any]) -> None:
    result = settled(then(given(2), lambda number: made(number + 1)))
    assert is_waiting(result)
    assert settled(asyncio.run(result_of(result))) == 3


def test_what_need_not_be_awaited_may_be() -> None:
    there = There()
    assert not is_waiting(there)
    assert then(there, lambda value: value) is there
    assert asyncio.run(result_of(there)) is there
    assert asyncio.run(result_of(Ready(7))) == 7


def test_ready() -> None:
    there = There()
    assert ready(there) is there
    assert settled(ready(7)) == 7
    waiting = later(7)
    assert ready(waiting) is waiting
    assert asyncio.run(result_of(waiting)) == 7


def test_a_generator_waits_only_if_it_is_a_coroutine() -> None:
    """They are of one type, so what is known of one says nothing of the next."""

    def plain() -> Any:
        yield 1

    @types.coroutine
    def awaitable() -> Any:
        yield 1

    assert not is_waiting(plain())
    assert is_waiting(awaitable())
    assert not is_waiting(plain())
