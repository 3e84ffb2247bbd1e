"""Backups of databases: consistent copies, their directory, archives, restoring (spec: operations §2.1).

    source.py          what is backed up: one database as of one commit, of a running store or of files
    subset.py          a copy reduced to some tables, without the log
    manifest.py        the manifest of a backup: its files with sizes and hashes
    verification.py    whether the files of a backup are what its manifest says
    managed.py         the backups of a database under `storage.backupPath`: make, list, verify, remove
    archive.py         the same files as a tar archive, written and unpacked
    restore.py         restoring a backup: while the database is closed, under another name, while the service runs

Everything here blocks and runs without a server; where a function takes a `Watch`, it reports there and can be ended from another thread.
"""

from svc.store.backup.archive import archive_pieces, stage_backup, unpack
from svc.store.backup.managed import BackupInfo, Backups, InUse, UnknownBackup
from svc.store.backup.manifest import BadBackup
from svc.store.backup.restore import restore_offline
from svc.store.backup.source import BackupSource, copy_database
from svc.store.backup.watch import CopyStopped, Watch

__all__ = [
    "BackupInfo",
    "BackupSource",
    "Backups",
    "BadBackup",
    "CopyStopped",
    "InUse",
    "UnknownBackup",
    "Watch",
    "archive_pieces",
    "copy_database",
    "restore_offline",
    "stage_backup",
    "unpack",
]
