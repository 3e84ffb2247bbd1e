"""Restoring a database while the service runs: the database is replaced by its restored form.

The old one ends as if it had been dropped (`database_drops`): readers of its snapshots go on, and its directory, which has been renamed, is
removed when there are none. The new one is opened like one that has just been made. Other processes notice both when they next poll. In between the
database is away: for a commit, two renames and an fsync.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from svc.store.backup.restore import Restore

if TYPE_CHECKING:
    from svc.store.database import Database
    from svc.store.store import Store

logger = logging.getLogger("svc.store")

_PAUSE = 0.002  # polling interval, seconds: whether another process still writes


async def swap_online(store: Store, restore: Restore, name: str) -> None:
    """Put what `restore` has prepared in place of the database, if there is one.

    Waits for the long write that is under way in it; cancelled then, it does nothing. What comes after that is carried through, for it takes
    milliseconds. Raises what prevents it.
    """
    database = store.find_database(name)
    queue = None if database is None else store.queue_of(database)
    if queue is not None:
        await queue.acquire(1)
    try:
        exchange = asyncio.get_running_loop().create_task(_exchange(store, restore, name, database))
        cancelled = False
        while not exchange.done():
            try:
                await asyncio.shield(exchange)
            except asyncio.CancelledError:
                cancelled = True
            except Exception:
                break  # raised below
        exchange.result()
        if cancelled:
            raise asyncio.CancelledError
    finally:
        if queue is not None:
            queue.release()


async def _exchange(store: Store, restore: Restore, name: str, database: Database | None) -> None:
    await store.helper.wait(restore.mark)
    if database is not None:
        try:
            while not database.env.is_open_to_writers():  # noqa: ASYNC110 - another process sends no notification
                await asyncio.sleep(_PAUSE)
            database.mark_dropped()
        except BaseException:
            restore.unmark()
            raise
    await store.helper.wait(restore.swap)
    if restore.old is not None:
        store.remove_files([restore.old])
    store.open_database(name)
    logger.warning("database %s: restored", name)
