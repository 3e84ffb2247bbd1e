"""Committing the transaction of one request: applied at once, committed with the turn, answered after that (spec: schema-and-store §8).

A request's handler calls `commit`. Usually the writes are then applied, and `holder.pending_commit` is set: the response is held back until the commit at
the end of the turn. What takes too long for a turn is awaited: new blobs are saved to files first, a long write runs in slices with a commit of its own,
and behind a long write the transaction waits in the queue of its database. Writes to a table with a source are first carried out there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextvars import copy_context
from typing import TYPE_CHECKING, Protocol

from svc.errors import Problem
from svc.messages.call_state import AppliedWrites, Spans
from svc.store.env import WriterBusy
from svc.store.writing.references import NeedsLongWrite
from svc.store.writing.transaction import Transaction

if TYPE_CHECKING:
    from svc.store.database import Database

COMMIT = "commit"
"""The name of the span of a wait for the commit (spec: tracing §4)."""

LONG_CONTENT = 1 << 18  # bytes of a body, after which its commit takes too long for a turn however few records it holds


class TransactionHolder(Protocol):
    """A request, or a call of an operation. `pending_commit`: applied and not committed yet; the response waits for its commit."""

    pending_commit: AppliedWrites | None


def commit(transaction: Transaction, holder: TransactionHolder, content_length: int = 0) -> Awaitable[None] | None:
    """Apply the writes. Returns None if they are applied, else an awaitable that applies them. Raises the Problem that prevents it.

    Sets `holder.pending_commit` when they are applied; not after a long write, which is on disk already. `content_length`: bytes of the request's body.
    """
    if transaction.writes_copies:
        writing = transaction.write_through(holder)
        if writing is not None:
            return _commit_after(writing, transaction, holder, content_length)
    if transaction.unsaved:
        return _save_and_commit(transaction, holder, content_length)
    database = transaction.database
    if transaction.is_long or (content_length > LONG_CONTENT and database is not None):
        return transaction.apply_long()
    if database is not None and not database.queued_writes.has_place():
        return _apply_at_end(transaction, holder, database)
    try:
        transaction.apply(wait=False)
    except WriterBusy:
        return _apply_in_turn(transaction, holder)
    except NeedsLongWrite:
        return transaction.apply_long()
    finally:
        if database is not None:
            database.env.leave_place()  # if nothing was written
    holder.pending_commit = transaction
    return None


async def _commit_after(writing: Awaitable[None], transaction: Transaction, holder: TransactionHolder, content_length: int) -> None:
    await writing
    waiting = commit(transaction, holder, content_length)
    if waiting is not None:
        await waiting


async def _save_and_commit(transaction: Transaction, holder: TransactionHolder, content_length: int) -> None:
    await transaction.save_blobs()
    waiting = commit(transaction, holder, content_length)
    if waiting is not None:
        await waiting


async def _apply_at_end(transaction: Transaction, holder: TransactionHolder, database: Database) -> None:
    """Another process writes in its turn: this one goes on with other work."""
    loop = asyncio.get_running_loop()
    applied: asyncio.Future[BaseException | None] = loop.create_future()

    def end(error: BaseException | None) -> None:
        if not applied.done():
            applied.set_result(error)

    def apply() -> None:
        error = None
        if not applied.done():  # else the caller has been cancelled
            try:
                context.run(transaction.apply, wait=False)
            except BaseException as raised:
                error = raised
            loop.call_soon_threadsafe(end, error)  # as in `_outcome`

    context = copy_context()
    database.queued_writes.add_transaction(apply)
    error = await applied
    if isinstance(error, WriterBusy):
        await _apply_in_turn(transaction, holder)
    elif isinstance(error, NeedsLongWrite):
        await transaction.apply_long()
    elif error is not None:
        raise error
    else:
        holder.pending_commit = transaction


async def _apply_in_turn(transaction: Transaction, holder: TransactionHolder) -> None:
    try:
        await transaction.apply_in_turn()
    except NeedsLongWrite:
        await transaction.apply_long()
        return
    holder.pending_commit = transaction


async def wait_committed(transaction: AppliedWrites, spans: Spans | None = None) -> None:
    """Wait until the writes of an applied transaction are on disk. `spans`: of the request, if it is traced. Raises the Problem that undid them."""
    if spans is not None:
        await spans.call(COMMIT, lambda: wait_committed(transaction))
    elif transaction.outcome is not None:
        _check(transaction.outcome[0])
    else:
        _check(await _outcome(transaction))


def _check(problem: Problem | None) -> None:
    if problem is not None:
        raise problem


async def _outcome(transaction: AppliedWrites) -> Problem | None:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Problem | None] = loop.create_future()

    def set_result(problem: Problem | None) -> None:
        if not done.done():
            done.set_result(problem)

    def on_done(problem: Problem | None) -> None:
        # The turn's commit is the last thing before the loop polls: `call_soon_threadsafe` wakes that poll, `call_soon` would not.
        loop.call_soon_threadsafe(set_result, problem)

    transaction.on_done = on_done
    return await done
