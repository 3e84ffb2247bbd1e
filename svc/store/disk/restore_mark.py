"""The mark of a database whose files are being replaced by a restore (`backup.restore`).

A mark that is found at the start says that a restore was interrupted after it began to replace files: the database is not opened until a restore
of it has completed.
"""

from __future__ import annotations

from pathlib import Path

from svc.errors import StoreFailure

MARK = ".restoring-"  # and the name of the database: a file beside its directory


class InterruptedRestore(StoreFailure):
    """The database is not opened, because a restore of it was interrupted."""

    def __init__(self, database: str) -> None:
        super().__init__(f"A restore of the database '{database}' was interrupted: repeat it with restore_backup")


def interrupted_restore(storage: Path, database: str) -> bool:
    """Whether the database is marked."""
    return (storage / f"{MARK}{database}").exists()


def marked_databases(storage: Path) -> list[str]:
    return sorted(entry.name.removeprefix(MARK) for entry in storage.iterdir() if entry.name.startswith(MARK))
