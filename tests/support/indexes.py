"""An index that is built again."""

from __future__ import annotations

from svc.store import Table


def rebuild_index(table: Table, attribute: str) -> None:
    """Empty it and build it again from the records, in the background if there are many, as a change of the definition does. Commits."""
    database = table.database
    with database._changing() as writer:
        database._start_build(writer, table, table.indexes[attribute])
