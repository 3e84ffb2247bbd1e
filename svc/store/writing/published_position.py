"""How far the log of a database was given to the engine, noted beside it (spec: replication §5).

It is behind what was published by some seconds, and tells what of the log others may not have yet: that is kept, however old it is (`maintenance`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svc.store.writing.remote_apply import in_place

if TYPE_CHECKING:
    from svc.store.database import Database


async def note_published(database: Database, lsn: int) -> None:
    """Note it with the commit of a turn. Raises Overloaded, NoSpace, StoreFailure: nothing may be noted then."""
    state = database.replication
    assert state is not None

    def attempt() -> None:
        database.store.open_writers((database,), wait=False)
        state.set_published(database.env.writer(), lsn)
        database.env.touch()

    await in_place(database, attempt)
