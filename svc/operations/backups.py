"""Backups of databases (spec: operations §2.1). What they are and how they are made: `svc.store.backup`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from email.utils import formatdate
from typing import Any

from svc.errors import ClientError, NotFound, Problem
from svc.messages import Response
from svc.operations.call import Call, find_table
from svc.operations.database_use import HOLDER, maybe_holder
from svc.operations.fields import DATABASE, REPLICATED, TABLE, Field, bad_request
from svc.operations.job import Job, JobFailed
from svc.operations.node import Node
from svc.operations.operation import SUPER_USER, Operation
from svc.operations.row_rules import refuse_narrowed
from svc.operations.threads import in_thread, watch_for
from svc.store.backup import (
    BackupInfo,
    Backups,
    BackupSource,
    BadBackup,
    CopyStopped,
    InUse,
    UnknownBackup,
    Watch,
    archive_pieces,
    stage_backup,
)
from svc.store.backup.archive import StagedBackup
from svc.store.backup.restore import Restore, swap_online
from svc.store.system import SYSTEM

CONTENT_TYPE = "application/octet-stream"


def backups_of(call: Call) -> Backups:
    return Backups(call.node.config.storage.backup_path, call["database"])


def _number(call: Call) -> int | None:
    return None if call["backup_id"] is None else int(call["backup_id"])


def _shown(info: BackupInfo) -> dict[str, int]:
    return {"backup_id": info.backup_id, "timestamp": info.timestamp, "size": info.size, "file_count": info.file_count}


# --- get_backup --------------------------------------------------------------------------------------------------------------------------


def get_backup(call: Call) -> Any:
    database = call.database
    wanted = set(call["tables"] or ())
    if call["table"] is not None:
        wanted.add(call["table"])
    for name in wanted:
        find_table(call.node, database.name, name)
    backups = backups_of(call)
    without = frozenset(database.tables.keys() - wanted) if wanted else frozenset()
    refuse_narrowed(call, database, "there is no copy of it for this role")
    source = BackupSource.of(database)  # now: whatever is written from here on is not in it
    return _send(call, backups, source, without)


async def _send(call: Call, backups: Backups, source: BackupSource, without: frozenset[str]) -> Response:
    watch = Watch()

    def work() -> StagedBackup:
        return stage_backup(source, backups.path, without=without, log=call["include_audit"], blobs=not call["exclude_blobs"], watch=watch)

    try:
        spooled = await in_thread(work, watch, undo=StagedBackup.close)
    except CopyStopped:
        raise Problem("The database was closed while it was copied", 503) from None
    name = f"{call['database']}.{'tar.gz' if call['gzip'] else 'tar'}".replace("\\", "\\\\").replace('"', '\\"')
    return Response(
        _ArchiveBody(spooled, gzip=call["gzip"]),
        pairs=[
            ("Content-Type", CONTENT_TYPE),
            ("Content-Disposition", f'attachment; filename="{name}"'),
            ("Date", formatdate(spooled.time_ms / 1000, usegmt=True)),
            ("Cache-Control", "no-store, no-transform"),
        ],
    )


class _ArchiveBody:
    """The archive, each piece read and compressed on another thread when the connection has room for it."""

    def __init__(self, spooled: StagedBackup, *, gzip: bool) -> None:
        self._spooled: StagedBackup | None = spooled
        self._pieces: Iterator[bytes] = archive_pieces(spooled, gzip=gzip)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece = await in_thread(lambda: next(self._pieces, b""))
        if not piece:
            await self.aclose()
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        spooled, self._spooled = self._spooled, None
        self._pieces = iter(())
        if spooled is not None:
            await in_thread(spooled.close)

    def __del__(self) -> None:
        if self._spooled is not None:
            self._spooled.close()  # it was never read


# --- managed backups ----------------------------------------------------------------------------------------------------------------------


def create_backup(call: Call) -> Any:
    database, backups = call.database, backups_of(call)

    async def work(job: Job) -> tuple[None, dict[str, int]]:
        if database.store.databases.get(database.name) is not database:
            raise JobFailed(f"database '{database.name}' does not exist")
        watch = watch_for(job)
        source = BackupSource.of(database)
        try:
            info = await in_thread(
                lambda: backups.create(source, exclude_blobs=call["exclude_blobs"], watch=watch),
                watch,
                undo=lambda info: backups.delete(info.backup_id),
            )
        except CopyStopped:
            raise JobFailed("The database was closed while it was copied") from None
        return None, {"backup_id": info.backup_id, "size": info.size, "timestamp": info.timestamp}

    return call.node.jobs.start(call, work)


def list_backups(call: Call) -> Any:
    backups = backups_of(call)
    return in_thread(lambda: [_shown(info) for info in backups.infos()])


def verify_backup(call: Call) -> Any:
    backups, number = backups_of(call), _existing(call)

    async def work(job: Job) -> None:
        watch = watch_for(job)
        try:
            await in_thread(lambda: backups.verify(number, checksum=call["verify_checksum"], watch=watch), watch)
        except (BadBackup, UnknownBackup, InUse) as error:
            raise JobFailed(f"Backup {number} is bad: {error}" if isinstance(error, BadBackup) else str(error)) from None

    return call.node.jobs.start(call, work)


async def delete_backup(call: Call) -> str:
    backups, number = backups_of(call), int(call["backup_id"])
    try:
        await in_thread(lambda: backups.delete(number))
    except UnknownBackup as error:
        raise NotFound(str(error)) from None
    except InUse as error:
        raise ClientError(str(error), 409, "CONFLICT") from None
    return f"successfully deleted backup {number} of '{call['database']}'"


async def purge_backups(call: Call) -> dict[str, int]:
    backups, keep = backups_of(call), int(call["keep_count"])
    deleted, remaining = await in_thread(lambda: backups.purge(keep))
    return {"deleted": deleted, "remaining": remaining}


ANSWER_SECONDS = 5.0  # that other processes have to say whether they work with a database


def restore_backup(call: Call) -> Any:
    node, name = call.node, call["database"]
    if name == SYSTEM:
        raise bad_request("The 'system' database can be restored only while svc is stopped: svc restore_backup database=system")
    if call["target_database"] is not None:
        raise bad_request("'target_database' is allowed only while svc is stopped")
    backups, number = backups_of(call), _existing(call)

    async def work(job: Job) -> None:
        await _require_free(node, name, number)
        watch = watch_for(job)
        try:
            with backups.reading(number) as directory:
                restore = Restore(directory, backups.manifest(number), node.store.path, name, node.store.blob_paths, watch)
                try:
                    await in_thread(restore.prepare, watch)
                    await _require_free(node, name, number)
                    await swap_online(node.store, restore, name)
                finally:
                    await in_thread(restore.close)
        except BadBackup as error:
            raise JobFailed(f"Backup {number} cannot be restored: {error}") from None
        except (UnknownBackup, InUse) as error:
            raise JobFailed(str(error)) from None

    return node.jobs.start(call, work)


def _existing(call: Call) -> int:
    """The number of the backup that is meant. Raises 404."""
    backups, number = backups_of(call), _number(call)
    try:
        number = backups.newest() if number is None else number
        backups.directory(number)
    except UnknownBackup as error:
        raise NotFound(str(error)) from None
    return number


async def _require_free(node: Node, name: str, number: int) -> None:
    """Raise JobFailed if a component of any process works with tables of the database: it would go on with those that were there before."""
    holder = maybe_holder(node.apps, node.resources, name)
    if holder is None:
        for answer in await node.siblings.ask(HOLDER, name, ANSWER_SECONDS):
            if answer.error is not None:
                raise JobFailed(
                    f"Whether process {answer.number} works with the database '{name}' is not known: {answer.error}. Try again."
                )
            holder = holder or answer.value
    if holder is not None:
        raise JobFailed(
            f"The database '{name}' is held open by {holder}: stop the service and restore offline, with"
            f" svc restore_backup database={name} backup_id={number}"
        )


# --- rows ----------------------------------------------------------------------------------------------------------------------------------

_BACKUP_ID = Field("backup_id", "integer", "Number of the backup.", required=True, low=1)
_EXCLUDE_BLOBS = Field("exclude_blobs", "bool", "Without the files of large blobs.", default=False)
_JOB_ID = "2fe2a2c0-46e3-4a4e-93a0-9d6c2c9d9a57"
_STARTED = {"message": f"Starting job with id {_JOB_ID}", "job_id": _JOB_ID}
_JOB = "A message and the id of the job."

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="get_backup",
        category="backups",
        summary="Download a database, or some of its tables, as of now.",
        permission=SUPER_USER,
        handler=get_backup,
        fields=(
            DATABASE,
            TABLE.but(required=False, sentence="Only this table."),
            Field("tables", "strings", "Only these tables."),
            Field("include_audit", "bool", "With the log of changes.", default=False),
            _EXCLUDE_BLOBS,
            Field("gzip", "bool", "Compressed.", default=True),
        ),
        returns="A tar archive, `<database>.tar.gz` or `<database>.tar`; `Date` is the time of its state.",
        notes="Writes continue meanwhile. The archive has `manifest.json`, `database/data.mdb` and the files of `blobs/`. Unpacked as a new directory "
        "`<storage.backupPath>/<database>/<number>` it is a backup that `restore_backup` takes. The copy of the database needs room below "
        "`storage.backupPath` until it has been sent.",
        example={"database": "data"},
        example_answer=None,
    ),
    Operation(
        name="create_backup",
        category="backups",
        summary="Back up a database below `storage.backupPath`.",
        permission=SUPER_USER,
        handler=create_backup,
        fields=(DATABASE, _EXCLUDE_BLOBS, REPLICATED),
        returns=_JOB + " Its `result` has `backup_id`, `size` in bytes and `timestamp` in seconds.",
        notes="A consistent image of the whole database, with its log and its blobs, taken while writes continue. Files of blobs that an earlier "
        "backup has too are shared with it.",
        example={"database": "data"},
        example_answer=_STARTED,
        starts_job=True,
    ),
    Operation(
        name="list_backups",
        category="backups",
        summary="List the backups of a database.",
        permission=SUPER_USER,
        handler=list_backups,
        fields=(DATABASE,),
        returns="A list, oldest first: `backup_id`, `timestamp` in seconds, `size` in bytes, `file_count`.",
        notes="Also of a database that no longer exists.",
        example={"database": "data"},
        example_answer=[{"backup_id": 1, "timestamp": 1767225600, "size": 61440, "file_count": 1}],
    ),
    Operation(
        name="verify_backup",
        category="backups",
        summary="Check that a backup can be restored.",
        permission=SUPER_USER,
        handler=verify_backup,
        fields=(DATABASE, _BACKUP_ID, Field("verify_checksum", "bool", "Read and compare every byte.", default=False)),
        returns=_JOB + " A bad backup ends it as `ERROR`.",
        notes="Without `verify_checksum` only names, sizes and the beginning of the database are looked at.",
        example={"database": "data", "backup_id": 1, "verify_checksum": True},
        example_answer=_STARTED,
        starts_job=True,
    ),
    Operation(
        name="delete_backup",
        category="backups",
        summary="Remove a backup.",
        permission=SUPER_USER,
        handler=delete_backup,
        fields=(DATABASE, _BACKUP_ID),
        returns="A message; 404 for a number that is not there, 409 while it is verified or restored.",
        example={"database": "data", "backup_id": 1},
        example_answer={"message": "successfully deleted backup 1 of 'data'"},
    ),
    Operation(
        name="purge_backups",
        category="backups",
        summary="Remove all but the newest backups.",
        permission=SUPER_USER,
        handler=purge_backups,
        fields=(DATABASE, Field("keep_count", "integer", "Number of backups to keep.", required=True, low=0)),
        returns="How many are `deleted` and how many are `remaining`.",
        notes="Backups that are being verified or restored are kept.",
        example={"database": "data", "keep_count": 3},
        example_answer={"deleted": 2, "remaining": 3},
    ),
    Operation(
        name="restore_backup",
        category="backups",
        summary="Replace a database by a backup.",
        permission=SUPER_USER,
        handler=restore_backup,
        fields=(
            DATABASE,
            _BACKUP_ID.but(required=False, sentence="Number of the backup; default the newest."),
            Field("target_database", "name", "Another database; only while svc is stopped."),
        ),
        returns=_JOB,
        notes="Later writes are lost. The database is served until everything is ready, then it is unavailable for a short time. While a component works "
        "with its tables the job ends as `ERROR`: stop the service, and give the same command again. If a restore is interrupted in the moment of the "
        "exchange, the database is not loaded until a restore has gone through. `system` can be restored only while the service is stopped.",
        example={"database": "data", "backup_id": 1},
        example_answer=_STARTED,
        starts_job=True,
    ),
)
