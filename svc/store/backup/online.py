"""The exchange of a database for its restored form while the service goes on.

The old one ends as if it had been dropped (`drops`): whoever still reads a snapshot of it goes on, and its directory, which has moved away, is
removed when nobody does. The new one is opened like one that has just been made. Other processes notice both at their next look. In between the
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

_PAUSE = 0.002  # seconds between two looks at whether another process still writes


async def swap_online(store: Store, restore: Restore, name: str) -> Database:
    """Put what `restore` has prepared in place of the database, if there is one; returns what is there now.

    Waits for the long write that is under way in it. Raises what prevents it. Not cancelled in the middle: it takes milliseconds.
    """
    database = store.find_database(name)
    if database is None:
        restore.mark()
        return _exchange(store, restore, name)
    queue = store.queue_of(database)
    await queue.enter(1)
    try:
        while not database.env.is_open_to_writers():  # noqa: ASYNC110 - another process tells nobody
            await asyncio.sleep(_PAUSE)
        restore.mark()
        try:
            database.mark_dropped()
        except BaseException:
            restore.unmark()
            raise
    finally:
        queue.leave()
    return _exchange(store, restore, name)


def _exchange(store: Store, restore: Restore, name: str) -> Database:
    restore.swap()
    if restore.old is not None:
        store.remove_files([restore.old])
    database = store.open_database(name)
    logger.warning("database %s: restored", name)
    return database
