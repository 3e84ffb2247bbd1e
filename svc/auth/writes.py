"""Writes of users and sessions that are awaited: when these functions return, the writes are on disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svc.auth.users import UserDirectory
from svc.store import Precondition, Transaction, WriterBusy
from svc.store.system import SYSTEM, USER_TABLE
from svc.store.writing.commit import wait_committed

MUST_EXIST = Precondition(if_match="*")


async def write(transaction: Transaction) -> None:
    """Apply a transaction and wait until it is on the disk. Raises the Problem that prevents it, with nothing written."""
    try:
        transaction.apply(wait=False)
    except WriterBusy:
        await transaction.apply_in_turn()
    await wait_committed(transaction)


async def store_user_changes(directory: UserDirectory, username: str, changes: Mapping[str, Any]) -> None:
    """Set attributes of an existing user. Raises PreconditionFailed if it does not exist (any more)."""
    store = directory.store
    transaction = store.begin(username)
    transaction.patch(store.databases[SYSTEM].tables[USER_TABLE], username, dict(changes), MUST_EXIST)
    await write(transaction)
