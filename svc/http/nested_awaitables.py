"""Data of a handler with awaitables in it, `{"seat": tables.Seat.get(1)}`: their results take their places (spec: applications §8.1)."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from svc.http.item_stream import gather_items

SLICE = 1000  # values that are looked at in one turn
_LEAVES = frozenset((str, int, float, bool, type(None), bytes))


async def resolved(value: Any) -> Any:
    """`value` with the results of all awaitables in its mappings and lists, at any depth, one after the other; of what is iterated, a list. Raises what they
    raise, NotAcceptable for one of too many items."""
    return await _Walk().resolve(value)


class _Walk:
    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen = 0

    async def resolve(self, value: Any) -> Any:
        self._seen += 1
        if self._seen % SLICE == 0:
            await asyncio.sleep(0)
        while inspect.isawaitable(value):
            made = await value
            if made is value:  # it need not be awaited: the results of a search
                break
            value = made
        if hasattr(type(value), "__aiter__"):
            value = await gather_items(aiter(value))
        if isinstance(value, dict):
            return {name: each if type(each) in _LEAVES else await self.resolve(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [each if type(each) in _LEAVES else await self.resolve(each) for each in value]
        return value
