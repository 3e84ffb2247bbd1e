"""Writes of users and sessions that are awaited: who comes back from here may tell the caller that it is done."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from svc.auth.users import UserDirectory
from svc.errors import Problem
from svc.store import Precondition, Transaction, WriterBusy
from svc.store.system import SYSTEM, USER_TABLE

MUST_EXIST = Precondition(if_match="*")


async def write(transaction: Transaction) -> None:
    """Apply what was collected and wait until it is on the disk. Raises the Problem that prevents it, with nothing done."""
    try:
        transaction.apply(wait=False)
    except WriterBusy:
        await transaction.apply_in_turn()
    if transaction.outcome is not None:
        problem = transaction.outcome[0]
    else:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Problem | None] = loop.create_future()

        def committed(problem: Problem | None) -> None:
            if not done.done():
                done.set_result(problem)

        def wake(problem: Problem | None) -> None:
            # The commit is the last thing before the loop waits for its sockets: only this way it does not.
            loop.call_soon_threadsafe(committed, problem)

        transaction.on_done = wake
        problem = await done
    if problem is not None:
        raise problem


async def store_user_changes(directory: UserDirectory, username: str, changes: Mapping[str, Any]) -> None:
    """Set attributes of a user that exists. Raises PreconditionFailed if there is none (any more)."""
    store = directory.store
    transaction = store.begin(username)
    transaction.patch(store.databases[SYSTEM].tables[USER_TABLE], username, dict(changes), MUST_EXIST)
    await write(transaction)
