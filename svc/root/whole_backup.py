"""A backup of a whole installation: one directory, from which it can be made again at another place.

    backup.json              what it is: version, time, root, databases, size and SHA-256 of files.tar. Written last
    files.tar                the root without databases, blobs, backups, logs and what belongs to a process: configuration, keys, certificates,
                             applications with their deployments and packages
    components.tar           the applications, if `componentsRoot` is outside the root
    keys.tar                 the keys of tokens, if they lie beside the databases and these are outside the root
    databases/<name>/1/      a managed backup of each database, with log and blobs (`store.backup`)

The files come first, then `system`, then the other databases: a record never refers to a role or an application that is younger than the backup has
it, and each database is as of one commit. All of it is read from files, beside a server that runs or not.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from errno import EIO
from hashlib import sha256
from pathlib import Path

import msgspec

from svc import __version__
from svc.auth.token_keys import keys_directory
from svc.clock import SYSTEM_CLOCK, Clock
from svc.config import Config
from svc.config.build import CONFIG_FILE
from svc.config.document import changed, read_document, write_document, write_private
from svc.config.relocation import relocated
from svc.errors import ConfigError
from svc.root.lock import LOCK_FILE, PID_FILE
from svc.store.backup import Backups, BackupSource, BadBackup, Watch, restore_offline
from svc.store.backup.files import sync_directory
from svc.store.system import SYSTEM

MANIFEST, FILES, COMPONENTS, KEYS, DATABASES = "backup.json", "files.tar", "components.tar", "keys.tar", "databases"
_FORMAT = 1
_OF_A_PROCESS = frozenset((LOCK_FILE, PID_FILE, "tmp", "lost+found"))
_PIECE = 1 << 20  # bytes
_RESTORING = ".svc-config.restoring"
_OUTSIDE = (
    "tls.certificate",
    "tls.privateKey",
    "tls.certificateAuthority",
    "operationsApi.tls.certificate",
    "operationsApi.tls.privateKey",
)
"""Settings with paths of files that a server needs."""

Step = Callable[[str], AbstractContextManager[Watch]]
"""Given a title, what shows how far a step of the work is."""


class WholeBackup(msgspec.Struct, frozen=True):
    """`backup.json`. `archives`: name -> SHA-256. `outside`: files that the configuration names and that are not in it."""

    format: int
    version: str
    time: str
    root: str
    databases: list[str]
    archives: dict[str, str]
    outside: list[str] = []


def database_paths(config: Config) -> list[Path]:
    """The directories of all databases of an installation, `system` first."""
    storages = {config.storage.path, *(value for name, value in config.values.items() if name.startswith("databases."))}
    found = [entry for storage in storages if storage.is_dir() for entry in storage.iterdir() if (entry / "data.mdb").is_file()]
    return sorted(found, key=lambda path: (path.name != SYSTEM, path.name))


def make_backup(config: Config, directory: Path, step: Step, clock: Clock = SYSTEM_CLOCK) -> WholeBackup:
    """Back up the installation into a new or empty directory.

    Raises ConfigError for a directory that is in use, Problem and OSError; then there is no `backup.json`, without which it is no backup.
    """
    _require_empty(directory)
    root, components = config.root, config.components_root
    left_out = {config.storage.path, config.storage.backup_path, config.values["logging.root"], *config.storage.blob_paths, directory}
    left_out |= {path.parent for path in database_paths(config)}
    archives = {}
    with step("files"):
        archives[FILES] = _archive(root, directory / FILES, left_out)
        if components.is_dir() and not components.resolve().is_relative_to(root.resolve()):
            archives[COMPONENTS] = _archive(components, directory / COMPONENTS, left_out)
        keys = keys_directory(config)
        if keys.is_dir() and not keys.resolve().is_relative_to(root.resolve()):
            archives[KEYS] = _archive(keys, directory / KEYS, set())
    names = []
    for path in database_paths(config):
        with step(path.name) as watch, BackupSource.at(path, config.storage.blob_paths, clock) as source:
            Backups(directory / DATABASES, path.name).create(source, watch=watch)
        names.append(path.name)
    time = datetime.fromtimestamp(clock.wall(), UTC).isoformat(timespec="seconds")
    backup = WholeBackup(_FORMAT, __version__, time, str(root), names, archives, _outside(config))
    write_private(directory / MANIFEST, msgspec.json.format(msgspec.json.encode(backup), indent=2))
    return backup


def read_backup(directory: Path) -> WholeBackup:
    """Raises BadBackup."""
    try:
        backup = msgspec.json.decode((directory / MANIFEST).read_bytes(), type=WholeBackup)
    except FileNotFoundError:
        raise BadBackup(f"{directory} is no backup of an installation, or it is not complete: {MANIFEST} is missing") from None
    except (OSError, msgspec.MsgspecError) as error:
        raise BadBackup(f"{directory / MANIFEST} cannot be read: {error}") from None
    if backup.format != _FORMAT:
        raise BadBackup(f"{directory} was made by svc {backup.version}, in a format that svc {__version__} does not know")
    return backup


def restore_backup(directory: Path, root: Path, examine: Callable[[Path], Config], step: Step) -> WholeBackup:
    """Make the installation again in `root`, which must be new or empty. `examine(file)`: the configuration that this file gives `root`.

    The configuration file is put in its place last: what is interrupted is no installation, and is not started. Raises BadBackup, ConfigError, Problem,
    OSError.
    """
    backup = read_backup(directory)
    _require_empty(root)
    for name, digest in backup.archives.items():
        if _digest(directory / name) != digest:
            raise BadBackup(f"{directory / name} has other content than when it was made")
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with step("files"):
        _unpack(directory / FILES, root)
    file, waiting = root / CONFIG_FILE, root / _RESTORING
    if not file.is_file():
        raise BadBackup(f"There is no {CONFIG_FILE} in {directory / FILES}")
    document = read_document(file)
    file.unlink()
    write_document(waiting, changed(relocated(document, root), {"rootPath": str(root)}))
    config = examine(waiting)
    there = [str(path) for path in database_paths(config)]
    if there:
        raise ConfigError(f"There is a database in {there[0]} already, where the configuration of the backup has its databases")
    for name in backup.databases:  # two installations that share them would give out the same numbers
        blobs = next((path / name for path in config.storage.blob_paths if _holds_any(path / name)), None)
        if blobs is not None:
            raise ConfigError(
                f"There are files in {blobs} already, where the configuration of the backup has the blobs of '{name}': move them away"
            )
    if COMPONENTS in backup.archives:
        with step("components"):
            _require_empty(config.components_root)
            _unpack(directory / COMPONENTS, config.components_root)
    keys = keys_directory(config)
    if KEYS in backup.archives and not _holds_any(keys):
        keys.mkdir(mode=0o700, parents=True, exist_ok=True)
        _unpack(directory / KEYS, keys)
    for name in backup.databases:
        with step(name) as watch:
            storage = config.database_path(name)
            storage.mkdir(mode=0o700, parents=True, exist_ok=True)
            restore_offline(Backups(directory / DATABASES, name), storage, list(config.storage.blob_paths), watch=watch)
    os.sync()  # the files of the archives
    waiting.replace(file)
    sync_directory(root)
    return backup


def _holds_any(directory: Path) -> bool:
    return directory.is_dir() and next(directory.iterdir(), None) is not None


def _require_empty(directory: Path) -> None:
    """Make a directory, if it is not there. Raises ConfigError."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = sorted(entry.name for entry in directory.iterdir() if entry.name not in _OF_A_PROCESS)
    except OSError as error:
        raise ConfigError(f"{directory} cannot be used: {error.strerror}") from None
    if found:
        raise ConfigError(f"{directory} is not empty ('{found[0]}'): name a new directory")


def _archive(top: Path, target: Path, left_out: set[Path]) -> str:
    """Write what is below `top`, but for these directories, into a new tar file, and to the disk; returns its SHA-256."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream, tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in _files(top, set(map(os.path.realpath, left_out))):
            try:
                archive.add(path, os.path.relpath(path, top), recursive=False, filter=_kept)
            except FileNotFoundError:
                continue  # removed meanwhile
            except OSError as error:
                if error.errno is not None:
                    raise
                raise OSError(EIO, "it became shorter while it was read; back up again", path) from None
        archive.close()
        stream.flush()
        os.fsync(stream.fileno())
    return _digest(target)


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if member.isfifo() or member.isdev() else member


def _files(top: Path, left_out: set[str]) -> Iterator[str]:
    """What is below `top`. Raises OSError for a directory that cannot be read: a backup without it would look complete."""
    for base, names, files in os.walk(top, onerror=_unless_removed):
        of_a_process = _OF_A_PROCESS if base == str(top) else ()
        names[:] = sorted(name for name in names if name not in of_a_process and os.path.realpath(os.path.join(base, name)) not in left_out)
        yield from (os.path.join(base, name) for name in sorted((*names, *files)) if name not in of_a_process)


def _unless_removed(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _unpack(archive: Path, directory: Path) -> None:
    try:
        with tarfile.open(archive) as opened:
            opened.extraction_filter = getattr(tarfile, "tar_filter", None)  # Python 3.11.4
            opened.extractall(directory)
    except tarfile.TarError as error:
        raise BadBackup(f"{archive}: {error}") from None


def _digest(file: Path) -> str:
    digest = sha256()
    try:
        with file.open("rb") as stream:
            while piece := stream.read(_PIECE):
                digest.update(piece)
    except FileNotFoundError:
        raise BadBackup(f"{file} is missing") from None
    return digest.hexdigest()


def _outside(config: Config) -> list[str]:
    """Files that the configuration names and that are not below the root."""
    values = [config.values.get(name) for name in _OUTSIDE]
    found = {str(value) for value in values if isinstance(value, (str, Path)) and Path(value).is_absolute()}
    return sorted(path for path in found if not Path(path).is_relative_to(config.root) and Path(path).exists())
