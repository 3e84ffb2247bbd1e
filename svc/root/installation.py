"""The root directory of a server: how it is found, its first run, its lock and process id, the initial password (contract: configuration §1, §4).

Files below the root, besides the directories: `svc-config.yaml`, `svc.lock` (locked while a server runs), `svc.pid`, and until it is changed
`initial-admin-password`. `~/.svc/svc_boot_properties.file` remembers the root of an OS user. Every step can be repeated: an
interrupted installation is completed by the next one, existing files are never overwritten.
"""

import fcntl
import getpass
import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from svc import __version__
from svc.clock import SYSTEM_CLOCK, Clock
from svc.config import Config
from svc.config.build import CONFIG_FILE
from svc.config.document import Document, changed, merged, read_document, write_document, write_private
from svc.config.settings import BY_NAME, DEVELOPMENT
from svc.config.values import lookup
from svc.errors import ConfigError, Problem
from svc.logs.lines import prefix, timestamp
from svc.store.system import SYSTEM

DIRECTORIES = ("database", "blobs", "components", "log", "keys", "backup", "import", "ssh", "tmp")
LOCK_FILE = "svc.lock"
PID_FILE = "svc.pid"
PASSWORD_FILE = "initial-admin-password"
INSTALLING = "svc.installing"
"""Exists from the beginning of an installation until the system database exists: then a missing database is not a loss of data."""
_SOCKET_LINE = "operations_socket"
_OURS = frozenset({*DIRECTORIES, LOCK_FILE, PID_FILE, PASSWORD_FILE, INSTALLING, "operations-server", "lost+found"})
"""Names that an installation may find in its root: files of an interrupted one, and what a file system creates."""

TEMPLATE = (
    "rootPath", "componentsRoot", "node.hostname", "instances",
    "http.port", "http.securePort", "http.http2", "http.cors", "http.corsAccessList", "http.mtls",
    "operationsApi.network.port", "operationsApi.network.securePort", "operationsApi.network.cors", "operationsApi.network.corsAccessList",
    "operationsApi.network.domainSocket",
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
"""The settings an installation writes, with their defaults (contract: configuration §2.13)."""


class WrongUser(Exception):
    """The root belongs to another OS user."""


class AlreadyRunning(Exception):
    """Another server holds the lock of this root. `pid` is None if it has not written it yet."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(f"svc is already running (pid: {pid})" if pid else "svc is already running")
        self.pid = pid


@dataclass(frozen=True)
class Installation:
    """A root directory. `file`: the configuration it runs with; `template`: one that an installation starts from; `installed`: the file exists."""

    root: Path
    file: Path
    installed: bool
    template: Path | None = None


def find_installation(environ: Mapping[str, str], options: Mapping[str, str]) -> Installation:
    """The root of this call: `--ROOTPATH`, the environment, `SVC_CONFIG`, the boot file, else `~/svc` (contract: configuration §1).

    Names may be in any case. A root that holds a configuration file counts as installed.
    """
    given = (
        _named(options, "rootpath")
        or _named(environ, "rootpath")
        or _named(options, "operationsapi_root")
        or _named(environ, "operationsapi_root")
    )
    own_file = _named(options, "svc_config") or _named(environ, "svc_config")
    template = absolute(own_file) if own_file else None
    if template is not None and not template.is_file():
        raise ConfigError(f"SVC_CONFIG: the file {template} does not exist")
    if given:
        root = absolute(given)
    elif template is not None:
        root = root_of(template) if template.name == CONFIG_FILE or stated_root(template) else absolute("~/svc")
    else:
        booted = _booted_file(environ)
        if booted is not None:
            return Installation(root_of(booted), booted, True)
        root = absolute("~/svc")
    file = root / CONFIG_FILE
    installed = file.is_file()
    return Installation(root, template if template is not None and installed else file, installed, None if installed else template)


def stated_root(file: Path) -> Path | None:
    """The `rootPath` of a configuration file."""
    stated = lookup(read_document(file), ("rootPath",))
    return absolute(str(stated)) if stated else None


def root_of(file: Path) -> Path:
    """The root of a configuration file: its `rootPath`, else its directory. A file inside a root belongs to that root, whatever it states: then
    the root was copied or moved."""
    directory = absolute(str(file.parent))
    if file.name == CONFIG_FILE and (directory / "database").is_dir():
        return directory
    return stated_root(file) or directory


def absolute(path: str) -> Path:
    return Path(os.path.abspath(Path(path).expanduser()))


def _named(source: Mapping[str, str], name: str) -> str:
    return next((value for key, value in source.items() if key.lower() == name and value), "")


# the boot file


def boot_file(environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME")
    return (Path(home) if home else Path.home()) / ".svc" / "svc_boot_properties.file"


def read_boot_file(environ: Mapping[str, str]) -> dict[str, str]:
    """Its `name=value` lines; empty if there is none."""
    try:
        lines = boot_file(environ).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    return {name.strip(): value.strip() for name, separator, value in (line.partition("=") for line in lines) if separator}


def _booted_file(environ: Mapping[str, str]) -> Path | None:
    stated = read_boot_file(environ).get("settings_path")
    file = Path(stated) if stated else None
    return file if file is not None and file.is_file() else None


def write_boot_file(environ: Mapping[str, str], file: Path) -> None:
    """Remember the configuration file of this OS user. A home that cannot be written is not an error: the root can be given each time."""
    _write_boot_lines(environ, {"settings_path": str(file), "install_user": getpass.getuser()})


def record_socket(environ: Mapping[str, str], configured: Path | None, used: Path | None) -> None:
    """Note in the boot file where the operations socket is, if its path was too long: the temporary area of another shell may be another one."""
    lines = read_boot_file(environ)
    if used is not None and used != configured and lines.get(_SOCKET_LINE) != str(used):
        _write_boot_lines(environ, {**lines, _SOCKET_LINE: str(used)})


def recorded_socket(environ: Mapping[str, str], usual: Path) -> Path:
    """Where to find the socket that is usually at `usual`: the boot file knows if the server chose another directory for the same name."""
    stated = read_boot_file(environ).get(_SOCKET_LINE)
    return Path(stated) if stated and Path(stated).name == usual.name and usual.suffix == ".sock" else usual


def _write_boot_lines(environ: Mapping[str, str], lines: Mapping[str, str]) -> None:
    target = boot_file(environ)
    text = "".join(f"{name}={value}\n" for name, value in lines.items())
    try:
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(target, text.encode())
    except OSError:
        pass


# first run


def install(
    installation: Installation, environ: Mapping[str, str], options: Mapping[str, str], *, clock: Clock = SYSTEM_CLOCK
) -> Installation:
    """The part of the first run that concerns files: directories, configuration, boot file. Returns the installation.

    Users, keys and the system database are made by the server's start. Raises ConfigError for a root that is something else's.
    """
    root = installation.root
    if installation.installed:
        return installation
    foreign = [entry.name for entry in _entries(root) if entry.name not in _OURS and not entry.name.startswith(f".{CONFIG_FILE}.")]
    if foreign:
        raise ConfigError(
            f"The directory {root} is not empty ('{sorted(foreign)[0]}') and holds no {CONFIG_FILE}; name another one with --ROOTPATH"
        )
    document = first_document(root, environ, options, installation.template)
    make_directories(root)
    begin_database(root)
    write_document(root / CONFIG_FILE, document)
    write_boot_file(environ, root / CONFIG_FILE)
    _record(root, f"svc {__version__} installed in {root}", clock)
    return Installation(root, root / CONFIG_FILE, True)


def begin_database(root: Path) -> None:
    """The next start may make a new system database."""
    write_private(root / INSTALLING, b"")


def has_database(config: Config) -> bool:
    return (config.storage.path / SYSTEM / "data.mdb").is_file()


def require_database(config: Config) -> None:
    """Raise ConfigError if an installed root has no system database: its volume may not be mounted, and a start would create an empty one."""
    if not has_database(config) and not (config.root / INSTALLING).exists():
        raise ConfigError(
            f"There is no system database in {config.storage.path}: is its volume mounted? If there is no data that could come back,"
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
    mode = (_first(options, environ, "defaults_mode", "default_mode") or "prod").lower()
    if mode not in ("dev", "prod"):
        raise ConfigError("DEFAULTS_MODE must be one of [dev, prod]")
    values: dict[str, object] = {name: BY_NAME[name].default for name in TEMPLATE}  # paths stay relative: a copy serves itself
    values["rootPath"] = str(root)
    values["http.corsAccessList"] = [None]
    if mode == "dev":
        values |= DEVELOPMENT
    values["node.hostname"] = _first(options, environ, "node_hostname", "replication_hostname") or values["node.hostname"]
    document = changed({}, values)
    return merged(document, {**read_document(template), "rootPath": str(root)}) if template is not None else document


def _first(options: Mapping[str, str], environ: Mapping[str, str], *names: str) -> str:
    return next((value for name in names for source in (options, environ) if (value := _named(source, name))), "")


def make_directories(root: Path, config: Config | None = None) -> None:
    """Make what is missing of the directories, for their owner only."""
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
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError:
            raise ConfigError(f"The path {directory} is not a folder") from None
        except OSError as error:
            raise ConfigError(f"The directory {directory} cannot be made: {error.strerror}") from error


def make_keys(config: Config, *, tokens: bool = False, clock: Clock = SYSTEM_CLOCK) -> str | None:
    """Make what is missing of the certificates and, with `tokens`, of the keys that tokens are signed with, which may take seconds.

    Returns None, or why they cannot be made, as a sentence: a server without them works, except TLS and tokens. Blocks.
    """
    directory = config.root / "keys"
    try:
        if not (directory / "certificate.pem").exists():
            from svc.tls.certificates import ensure_certificates  # only then: 60 ms

            ensure_certificates(directory, config.node.hostname, clock=clock)
        if tokens:
            from svc.auth.token_keys import TokenKeys

            TokenKeys(directory).prepare()
    except (OSError, Problem) as error:
        reason = error.message if isinstance(error, Problem) else f"{error.filename}: {error.strerror}"
        return f"The keys and certificates in {directory} cannot be made: {reason}"
    return None


def _record(root: Path, message: str, clock: Clock) -> None:
    descriptor = os.open(root / "log" / "install.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
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


# lock and process id


class RootLock:
    """Held while a server runs: no second one on the same root, however the first one ends. `release()` also removes the pid file."""

    def __init__(self, root: Path, *, is_server: bool = True) -> None:
        """Take the lock; a server writes its pid. Raises AlreadyRunning, or ConfigError if the root is not ours to write."""
        self._pid_file = root / PID_FILE if is_server else None
        try:
            self._descriptor = os.open(root / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(f"The file {root / LOCK_FILE} cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise AlreadyRunning(read_pid(root)) from None
        if self._pid_file is not None:
            write_private(self._pid_file, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        if self._descriptor >= 0:
            if self._pid_file is not None:
                self._pid_file.unlink(missing_ok=True)
            os.close(self._descriptor)  # the lock goes with it
            self._descriptor = -1

    def __enter__(self) -> "RootLock":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def read_pid(root: Path) -> int | None:
    try:
        return int((root / PID_FILE).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def running_pid(root: Path) -> int | None:
    """The pid of the server of this root, None if there is none: a file left by a killed one does not count.

    The process is known by its command, for the operating system may have given the number to another one.
    """
    import psutil  # 20 ms, and only three commands ask

    pid = read_pid(root)
    if pid is None or pid == os.getpid():
        return None
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        command = process.cmdline()
    except psutil.AccessDenied:
        return pid
    except psutil.Error:
        return None
    if not any(Path(part).name == "svc" or part.endswith("svc/__main__.py") for part in command[:6]) or _serves_another(pid, root):
        return None
    return pid


def _serves_another(pid: int, root: Path) -> bool:
    """Whether this server has locked another root: a copy of a directory has the pid file of the original too (Linux; False elsewhere).

    One that has locked none is being renewed.
    """
    locked = []
    try:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            if os.readlink(entry.path).endswith(f"/{LOCK_FILE}"):
                found = entry.stat()
                locked.append((found.st_dev, found.st_ino))
        own = (root / LOCK_FILE).stat()
    except OSError:
        return False
    return bool(locked) and (own.st_dev, own.st_ino) not in locked


# the first super user


class Terminal(Protocol):
    """Where the user sees what must not be in a log: standard error, or the pipe to the command that started us."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


@dataclass(frozen=True)
class Administrator:
    """What the user configured for the first super user; None: not given. Never printed, logged or written to the configuration."""

    username: str | None
    password: str | None

    def __repr__(self) -> str:
        return f"Administrator({self.username!r})"


def take_administrator(environ: Any, options: dict[str, str]) -> Administrator:
    """Read name and password, and remove the password from both, so that no application can read it."""
    username = _first(options, environ, "svc_admin_username") or None
    password = _first(options, environ, "svc_admin_password") or None
    for source in (environ, options):
        for key in [key for key in source if key.lower() == "svc_admin_password"]:
            del source[key]
    if password is not None and not password.strip():
        password = None
    return Administrator(username, password)


def keep_initial_password(root: Path, username: str, password: str, terminal: Terminal) -> None:
    """Tell the generated password once, on the terminal, and keep it in a file for the owner only (contract: configuration §4.1)."""
    path = root / PASSWORD_FILE
    if not path.exists() or path.read_text(encoding="utf-8") != f"{password}\n":
        write_private(path, f"{password}\n".encode())
    print(
        f"\n  A first super user was created.\n\n    user      {username}\n    password  {password}\n\n"
        f"  The password is also in {path}\n  and is not shown again. Change it, then the file is removed.\n",
        file=terminal,
        flush=True,
    )


def remove_initial_password(root: Path) -> None:
    """To be called when the password of the first super user was changed, or that user dropped."""
    (root / PASSWORD_FILE).unlink(missing_ok=True)


def initial_password_notice(root: Path) -> str | None:
    """The line each start logs as long as the initial password has not been changed."""
    path = root / PASSWORD_FILE
    return f"The initial password of the first super user has not been changed yet; it is in {path}" if path.exists() else None
