"""Contexts and transactions of listeners: what a listener writes is committed when it returns, and undone when it raises (spec: http §12.1).

A listener runs in the context of its request. The steps after it have transactions of their own, which end before it goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Protocol

from svc.messages import Request
from svc.messages.call_state import OpenTransaction


class Transaction(OpenTransaction, Protocol):
    """`api.transactions.Transaction`."""

    is_lasting: bool

    @property
    def has_work(self) -> bool: ...

    def apply(self) -> Awaitable[None] | None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...

    def forget_snapshots(self) -> None: ...


class ListenerScope:
    """The transaction of one call of one listener, in the place of that of its request."""

    __slots__ = ("_outer", "_request", "_transaction")

    def __init__(self, request: Request, transaction: Transaction) -> None:
        self._request = request
        state = request.state
        self._outer = state.transaction
        self._transaction = state.transaction = transaction
        transaction.is_lasting = True

    def resume(self) -> None:
        """The steps after the listener are done: it goes on."""
        self._request.state.transaction = self._transaction
        self._transaction.forget_snapshots()

    def commit(self) -> Awaitable[None] | None:
        """The listener has returned: apply what it has written. An awaitable if that takes longer. Raises Problem."""
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
        """The listener has failed."""
        self._transaction.abort()
        self._end()

    def _end(self) -> None:
        self._transaction.close()
        self._request.state.transaction = self._outer


class ListenerScopes:
    """`enter(request)`: the context that the listeners of a request are called in. `begin_transaction(request)`: what one of them writes."""

    __slots__ = ("_begin_transaction", "enter")

    def __init__(
        self, enter: Callable[[Request], AbstractContextManager[None]], begin_transaction: Callable[[Request], Transaction]
    ) -> None:
        self.enter = enter
        self._begin_transaction = begin_transaction

    def begin(self, request: Request) -> ListenerScope:
        return ListenerScope(request, self._begin_transaction(request))
