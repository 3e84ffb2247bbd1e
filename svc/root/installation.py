"""The first run of a root directory: directories, configuration file, keys (spec: configuration §1, §4).

Every step can be repeated: an interrupted installation is completed by the next one, existing files are never overwritten.
"""

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from svc import __version__
from svc.clock import SYSTEM_CLOCK, Clock
from svc.config import Config
from svc.config.build import CONFIG_FILE
from svc.config.document import Document, changed, merged, read_document, write_document, write_private
from svc.config.settings import BY_NAME, DEVELOPMENT
from svc.errors import ConfigError, Problem
from svc.logs.lines import prefix, timestamp
from svc.root.administrator import PASSWORD_FILE
from svc.root.known_roots import remember_root
from svc.root.location import Installation, first_value
from svc.root.lock import LOCK_FILE, PID_FILE
from svc.store.system import SYSTEM

LOG = "log"
DIRECTORIES = ("database", "blobs", "components", LOG, "keys", "backup", "import", "ssh", "tmp")
INSTALLING = "svc.installing"
"""Exists from the beginning of an installation until the system database exists: then a missing database is not a loss of data."""
_OURS = frozenset({*DIRECTORIES, LOCK_FILE, PID_FILE, PASSWORD_FILE, INSTALLING, "operations-server", "lost+found"})
"""Names that an installation may find in its root: files of an interrupted one, and what a file system creates."""

TEMPLATE = (
    "rootPath", "componentsRoot", "node.hostname", "instances",
    "http.port", "http.securePort", "http.host", "http.http2", "http.cors", "http.corsAccessList", "http.mtls",
    "operationsApi.network.port", "operationsApi.network.securePort", "operationsApi.network.host", "operationsApi.network.cors",
    "operationsApi.network.corsAccessList", "operationsApi.network.domainSocket",
    "authentication.authorizeLocal", "authentication.cacheTTL", "authentication.enableSessions", "authentication.operationTokenTimeout",
    "authentication.refreshTokenTimeout",
    "mqtt.network.port", "mqtt.network.securePort", "mqtt.network.mtls", "mqtt.webSocket", "mqtt.requireAuthentication",
    "logging.level", "logging.root", "logging.file", "logging.stdStreams", "logging.auditLog", "logging.auditRetention",
    "logging.rotation.enabled", "logging.rotation.compress", "logging.rotation.interval", "logging.rotation.maxSize", "logging.rotation.path",
    "logging.auditAuthEvents.logFailed", "logging.auditAuthEvents.logSuccessful",
    "storage.path", "storage.writeAsync", "storage.caching", "storage.compression",
    "analytics.aggregatePeriod", "analytics.replicate",
    "tls.certificate", "tls.certificateAuthority", "tls.privateKey",
    "localStudio.enabled",
)  # fmt: skip
"""The settings an installation writes, with their defaults (spec: configuration §2.13)."""


class WrongUser(Exception):
    """The root belongs to another OS user."""


def install(
    installation: Installation,
    environ: Mapping[str, str],
    options: Mapping[str, str],
    document: Document | None = None,
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> Installation:
    """The part of the first run that concerns files: directories, configuration, boot file. Returns the installation.

    `document`: of the configuration, by default `first_document`. Users, keys and the system database are made by the server's start. Raises
    ConfigError for a root that is something else's.
    """
    root = installation.root
    if installation.installed:
        return installation
    if os.path.lexists(root / CONFIG_FILE):
        raise ConfigError(f"{root / CONFIG_FILE} is not a file")
    foreign = [entry.name for entry in _entries(root) if entry.name not in _OURS and not entry.name.startswith(f".{CONFIG_FILE}.")]
    if foreign:
        raise ConfigError(
            f"The directory {root} is not empty ('{sorted(foreign)[0]}') and holds no {CONFIG_FILE}; name another one with --ROOTPATH"
        )
    if document is None:
        document = first_document(root, environ, options, installation.template)
    make_directories(root)
    begin_database(root)
    write_document(root / CONFIG_FILE, document)
    remember_root(environ, root / CONFIG_FILE)
    _record(root, f"svc {__version__} installed in {root}", clock)
    return Installation(root, root / CONFIG_FILE, True, None, installation.chosen)


def begin_database(root: Path) -> None:
    """The next start may make a new system database."""
    write_private(root / INSTALLING, b"")


def has_database(config: Config) -> bool:
    return (config.storage.path / SYSTEM / "data.mdb").is_file()


def require_database(config: Config) -> None:
    """Raise ConfigError if an installed root has no system database: its volume may not be mounted, and a start would create an empty one."""
    if not has_database(config) and not (config.root / INSTALLING).exists():
        raise ConfigError(
            f"There is no system database in {config.storage.path}: is its volume mounted? If the data is lost,"
            f" svc install --new-database begins with an empty database and a new first super user"
        )


def end_installation(root: Path) -> None:
    """The system database is there."""
    (root / INSTALLING).unlink(missing_ok=True)


def _entries(root: Path) -> list[Path]:
    try:
        return list(root.iterdir())
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        raise ConfigError(f"The path {root} is not a folder") from None
    except PermissionError:
        raise ConfigError(f"The directory {root} cannot be read") from None


def first_document(root: Path, environ: Mapping[str, str], options: Mapping[str, str], template: Path | None = None) -> Document:
    """The configuration an installation writes: defaults, those of development if asked for, the user's template over them."""
    mode = (first_value(options, environ, "defaults_mode", "default_mode") or "prod").lower()
    if mode not in ("dev", "prod"):
        raise ConfigError("DEFAULTS_MODE must be one of [dev, prod]")
    values: dict[str, object] = {name: BY_NAME[name].default for name in TEMPLATE}  # paths stay relative: a copy serves itself
    values["rootPath"] = str(root)
    values["http.corsAccessList"] = [None]
    if mode == "dev":
        values |= DEVELOPMENT
    values["node.hostname"] = first_value(options, environ, "node_hostname", "replication_hostname") or values["node.hostname"]
    document = changed({}, values)
    return merged(document, {**read_document(template), "rootPath": str(root)}) if template is not None else document


def make_directories(root: Path, config: Config | None = None) -> None:
    """Make the missing directories, mode 0700."""
    wanted = [root, *(root / name for name in DIRECTORIES)]
    if config is not None:
        wanted += [
            config.storage.path,
            config.storage.backup_path,
            config.components_root,
            config.logging.root,
            *config.storage.blob_paths,
        ]
    for directory in wanted:
        _make_directory(directory)


def make_log_directory(root: Path) -> None:
    """Make only that of the logs: of a root that may have lost more than it, which a start must notice."""
    _make_directory(root / LOG)


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise ConfigError(f"The path {directory} is not a folder") from None
    except OSError as error:
        raise ConfigError(f"The directory {directory} cannot be made: {error.strerror}") from error


def make_keys(config: Config, *, tokens: bool = False, clock: Clock = SYSTEM_CLOCK) -> str | None:
    """Make the missing certificates and, with `tokens`, the missing keys that sign tokens, which may take seconds.

    Returns None, or why they cannot be made, as a sentence: a server without them works, except TLS and tokens. Blocks.
    """
    directory = config.root / "keys"
    try:
        if not (directory / "certificate.pem").exists():
            from svc.tls.certificates import ensure_certificates  # only then: 60 ms

            ensure_certificates(directory, config.node.hostname, clock=clock)
        if tokens:
            from svc.auth.token_keys import TokenKeys, keys_directory

            TokenKeys(keys_directory(config)).prepare()
    except (OSError, Problem) as error:
        reason = error.message if isinstance(error, Problem) else f"{error.filename}: {error.strerror}"
        return f"The keys and certificates in {directory} cannot be made: {reason}"
    return None


def _record(root: Path, message: str, clock: Clock) -> None:
    descriptor = os.open(root / LOG / "install.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with open(descriptor, "a", encoding="utf-8") as stream:
        stream.write(f"{timestamp(clock.wall())} {prefix('main', 0, 'notify', ())}{message}\n")


def check_user(installation: Installation) -> None:
    """Raise WrongUser unless this process runs as the OS user that owns the data, which could not use files of another user."""
    try:
        owner = (installation.root / "database").stat().st_uid
    except OSError:
        return
    if owner != os.geteuid():
        try:
            name = pwd.getpwuid(owner).pw_name
        except KeyError:
            name = f"user {owner}"
        raise WrongUser(f"Must execute as {name}")
