"""Backups while the server is stopped: the operations of the same names on the files themselves (spec: configuration §6.2)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svc.cli.arguments import RUNNING, Arguments, UsageError, complete_installation, fail
from svc.cli.operation_arguments import OperationArguments
from svc.cli.output import chosen_style, refuse, show
from svc.cli.preparing import read_config

if TYPE_CHECKING:
    from svc.config import Config
    from svc.operations.row_file import OperationRow
    from svc.store.backup import Watch

Work = Callable[["Config", Mapping[str, Any]], Any]


def run_offline(arguments: Arguments, row: OperationRow, words: OperationArguments) -> int:
    """Carry out one of OFFLINE. Returns the exit status."""
    from svc.errors import Problem
    from svc.operations.fields import read_fields
    from svc.operations.registry import by_name
    from svc.root.installation import WrongUser, check_user
    from svc.root.lock import AlreadyRunning, RootLock
    from svc.store.backup import BadBackup, InUse, UnknownBackup

    if words.parameters.get("out") is not None:
        raise UsageError(f"{row.name} has no answer for a file while the server is stopped")
    style = chosen_style(True if "json" in arguments.flags else words.switch("json"))
    installation = complete_installation(arguments)
    config = read_config(installation, arguments)
    work, changes = OFFLINE[row.name]
    try:
        check_user(installation)
        with RootLock(installation.root, is_server=False) if changes else nullcontext():
            result = work(config, read_fields(words.body, by_name()[row.name].fields))
    except AlreadyRunning as error:  # it was started meanwhile
        fail(error)
        return RUNNING
    except WrongUser as error:
        return fail(error)
    except Problem as error:
        return refuse(error.message)
    except (UnknownBackup, BadBackup, InUse) as error:
        return refuse(str(error))
    except OSError as error:
        return refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    show(result, style)
    return 0


def _create(config: Config, call: Mapping[str, Any]) -> Any:
    from svc.errors import NotFound
    from svc.store.backup import BackupSource

    name = call["database"]
    path = config.database_path(name) / name
    if not (path / "data.mdb").is_file():
        raise NotFound(f"database '{name}' does not exist")
    with watched("create_backup") as watch, BackupSource.at(path, _blob_paths(config)) as source:
        info = _backups(config, call).create(source, exclude_blobs=call["exclude_blobs"], watch=watch)
    return {"backup_id": info.backup_id, "size": info.size, "timestamp": info.timestamp}


def _list(config: Config, call: Mapping[str, Any]) -> Any:
    return [
        {"backup_id": info.backup_id, "timestamp": info.timestamp, "size": info.size, "file_count": info.file_count}
        for info in _backups(config, call).infos()
    ]


def _verify(config: Config, call: Mapping[str, Any]) -> Any:
    from svc.store.backup import BadBackup

    number = int(call["backup_id"])
    try:
        with watched("verify_backup") as watch:
            _backups(config, call).verify(number, checksum=call["verify_checksum"], watch=watch)
    except BadBackup as error:
        raise BadBackup(f"Backup {number} is bad: {error}") from None
    return {"message": f"backup {number} of '{call['database']}' is fine"}


def _delete(config: Config, call: Mapping[str, Any]) -> Any:
    number = int(call["backup_id"])
    _backups(config, call).delete(number)
    return {"message": f"successfully deleted backup {number} of '{call['database']}'"}


def _purge(config: Config, call: Mapping[str, Any]) -> Any:
    deleted, remaining = _backups(config, call).purge(int(call["keep_count"]))
    return {"deleted": deleted, "remaining": remaining}


def _restore(config: Config, call: Mapping[str, Any]) -> Any:
    from svc.store.backup import restore_offline

    number = call["backup_id"]
    name = call["target_database"] or call["database"]
    with watched("restore_backup") as watch:
        info = restore_offline(
            _backups(config, call),
            config.database_path(name),
            _blob_paths(config),
            number=None if number is None else int(number),
            target=call["target_database"],
            watch=watch,
        )
    return {"message": f"database '{name}' successfully restored from backup {info.backup_id}"}


OFFLINE: Mapping[str, tuple[Work, bool]] = {
    "create_backup": (_create, True),
    "list_backups": (_list, False),
    "verify_backup": (_verify, False),
    "delete_backup": (_delete, True),
    "purge_backups": (_purge, True),
    "restore_backup": (_restore, True),
}
"""Operation -> what does it, and whether a server must not be started meanwhile."""


def _backups(config: Config, call: Mapping[str, Any]) -> Any:
    from svc.store.backup import Backups

    return Backups(config.storage.backup_path, call["database"])


def _blob_paths(config: Config) -> list[Path]:
    return [Path(path) for path in config.storage.blob_paths]


@contextmanager
def watched(title: str) -> Iterator[Watch]:
    """A bar on standard error if that is a terminal."""
    from svc.store.backup import Watch

    if not sys.stderr.isatty():
        yield Watch()
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=None)
        yield Watch(lambda done, total: progress.update(task, completed=done, total=total))
