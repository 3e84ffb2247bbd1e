"""What of a log has to stay, however old it is: other nodes may not have got it yet (spec: replication §5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from svc.store.database import Database


def unpublished_from(database: Database) -> int | None:
    """The LSN from which on the log has what may not be published yet; None: nothing of it has to be."""
    state = database.replication
    if state is None or not database.store.is_replicated(database.name):
        return None
    return state.published(database.snapshot()) + 1
