"""Contexts and transactions of listeners: what a listener writes is committed when it returns, and undone when it raises (spec: http §12.1).

A listener runs in the context of its request. The steps after it have transactions of their own, which end before it goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import AbstractContextManager

from svc.api.context import current_context, entered
from svc.api.transactions import Transaction
from svc.messages import Request
from svc.store import Store


def current_request() -> Request | None:
    """The request that the running code answers; None outside of one."""
    context = current_context()
    return context if isinstance(context, Request) else None


class ListenerScope:
    """The transaction of one call of one listener."""

    __slots__ = ("_outer", "_request", "_transaction")

    def __init__(self, store: Store, request: Request) -> None:
        self._request = request
        state = request.state
        self._outer = state.transaction
        self._transaction = state.transaction = Transaction(store, request)
        self._transaction.is_lasting = True

    def resume(self) -> None:
        self._request.state.transaction = self._transaction
        self._transaction.forget_snapshots()

    def commit(self) -> Awaitable[None] | None:
        try:
            waiting = self._transaction.apply() if self._transaction.has_work else None
        except BaseException:
            self.abort()
            raise
        if waiting is not None:
            return self._wait(waiting)
        self._end()
        return None

    async def _wait(self, waiting: Awaitable[None]) -> None:
        try:
            await waiting
        except BaseException:
            self._transaction.abort()
            raise
        finally:
            self._end()

    def abort(self) -> None:
        self._transaction.abort()
        self._end()

    def _end(self) -> None:
        self._transaction.close()
        self._request.state.transaction = self._outer


class ListenerScopes:
    """`http.listeners.Scopes` over a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def enter(self, request: Request) -> AbstractContextManager[None]:
        return entered(request)

    def begin(self, request: Request) -> ListenerScope:
        return ListenerScope(self._store, request)
