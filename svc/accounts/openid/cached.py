"""A document of a provider that is kept for a while: its description, its keys.

    nothing   --get--> fetching --> kept    until it is old: then fetched again; if that fails it may be used for another day
                           |
                           +-----> failed   for FAILURE_PAUSE: the next caller is told the same at once

However many wait for it, it is fetched once. `get(after)` asks for one that is newer than that moment, which is fetched no more than every RENEWAL_PAUSE:
a flood of tokens with made-up keys is no flood of requests to the provider.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from svc.errors import Problem
from svc.reactor import Reactor

SHORTEST_LIFE, LIFE, LONGEST_LIFE = 300.0, 3600.0, 86_400.0  # seconds, whatever its `max-age` says
MOST_STALE = 86_400.0  # seconds after its life, while it cannot be fetched
FAILURE_PAUSE = 5.0
RENEWAL_PAUSE = 30.0

_Document = TypeVar("_Document")


class CachedDocument(Generic[_Document]):
    """Used on the loop's thread."""

    def __init__(self, fetch: Callable[[], Awaitable[tuple[_Document, float | None]]], reactor: Reactor) -> None:
        """`fetch`: the document, and its `max-age` in seconds. Raises Problem."""
        self._fetch = fetch
        self._reactor = reactor
        self._now = reactor.clock.monotonic
        self._document: _Document | None = None
        self._old_at = 0.0
        self._asked_at = 0.0  # when the last fetch began
        self._failure: Problem | None = None
        self._fetching: asyncio.Task[None] | None = None

    async def get(self, *, newer: bool = False) -> _Document:
        """The document. `newer`: what is kept has not been enough. Raises Problem."""
        now = self._now()
        if self._document is not None and now < self._old_at and not (newer and now >= self._asked_at + RENEWAL_PAUSE):
            return self._document
        if self._fetching is None:
            if self._asked_at and now < self._asked_at + FAILURE_PAUSE and self._failure is not None:
                return self._stale(self._failure)
            self._asked_at = now
            self._fetching = self._reactor.loop.create_task(self._renew())
        await asyncio.shield(self._fetching)
        if self._failure is not None:
            return self._stale(self._failure)
        assert self._document is not None
        return self._document

    async def _renew(self) -> None:
        try:
            self._document, max_age = await self._fetch()
            life = LIFE if max_age is None else min(max(max_age, SHORTEST_LIFE), LONGEST_LIFE)
            self._old_at = self._now() + life
            self._failure = None
        except Problem as problem:
            self._failure = problem
        finally:
            self._fetching = None

    def _stale(self, failure: Problem) -> _Document:
        """The former document, if it is not too old. Raises the failure."""
        if self._document is not None and self._now() < self._old_at + MOST_STALE:
            return self._document
        raise Problem(failure.message, failure.status_code, failure.code, headers=failure.headers, retryable=failure.retryable)

    def close(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
