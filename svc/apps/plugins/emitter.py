"""Callbacks by the name of an event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Callbacks:
    """Those of one object of a plugin, `owner` in messages."""

    def __init__(self, owner: str, events: tuple[str, ...]) -> None:
        self._owner = owner
        self._events = events
        self._by_event: dict[str, list[Callable[..., Any]]] = {}

    def add(self, event: str, callback: Callable[..., Any]) -> None:
        """Raises TypeError or ValueError."""
        if event not in self._events:
            raise ValueError(f"{self._owner} has no event {event!r}; it has {', '.join(self._events)}")
        if not callable(callback):
            raise TypeError(f"{self._owner}.on: the callback of {event!r} cannot be called: {callback!r}")
        self._by_event.setdefault(event, []).append(callback)

    def of(self, *events: str) -> list[Callable[..., Any]]:
        return [callback for event in events for callback in self._by_event.get(event, ())]

    def clear(self) -> None:
        self._by_event.clear()
