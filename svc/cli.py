"""The command line: COMMANDS, one row per command, from which dispatch and help follow (contract: configuration §6).

    svc [command] [argument ...] [--OPTION value ...]

Exit status: 0 fine, 1 failure, 4 already running. Nothing of the server is imported until a command needs it, so help is quick.
"""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from svc import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from svc.config import Config
    from svc.install import Administrator, Place, Terminal
    from svc.store.check import CheckReport

FAILED, RUNNING = 1, 4
"""Exit status for a failure, and for a root on which a server is running already."""

FIRST_RUN_OPTIONS = frozenset({"svc_admin_username", "svc_admin_password", "defaults_mode", "default_mode", "tc_agreement", "svc_config"})
"""Options that are no settings; in lower case."""


class UsageError(Exception):
    """The command cannot be carried out as it was given; the message is for the user."""


@dataclass
class Arguments:
    """A parsed command line: the first word, the others, the options by their names as given, without the dashes."""

    command: str = ""
    words: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    wants_help: bool = False
    wants_version: bool = False


@dataclass(frozen=True)
class Command:
    name: str
    usage: str
    sentence: str
    run: Callable[["Arguments"], int]
    details: str = ""
    raw: bool = False
    """The command reads its own options."""


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command. Returns the exit status."""
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        if given and given[0] in BY_NAME and BY_NAME[given[0]].raw:
            return BY_NAME[given[0]].run(Arguments(given[0], given[1:]))
        arguments = parse_arguments(given)
        if arguments.command and arguments.command not in BY_NAME:
            return _not_understood(arguments.command)
        if arguments.wants_help:
            print(help_text(arguments.command))
            return 0
        if arguments.wants_version:
            return _version(arguments)
        return BY_NAME[arguments.command or "run"].run(arguments)
    except UsageError as error:
        print(error, file=sys.stderr)
        return FAILED
    except (KeyboardInterrupt, EOFError):  # Ctrl+C, or Ctrl+D at a question
        return FAILED


def _not_understood(word: str) -> int:
    print(f'The "{word}" command is not understood.\n\n{help_text()}', file=sys.stderr)
    return FAILED


def parse_arguments(given: Sequence[str]) -> Arguments:
    """Split a command line: `--NAME value` and `--NAME=value` are options, the first word that is none is the command. Raises UsageError."""
    result = Arguments()
    waiting = list(reversed(given))
    while waiting:
        word = waiting.pop()
        if word in ("-h", "--help"):
            result.wants_help = True
        elif word in ("-v", "--version"):
            result.wants_version = True
        elif word.startswith("--") and word != "--":
            _take_option(result, word, waiting)
        elif word.startswith("-"):
            raise UsageError(f'The option "{word}" is not understood. Options are written --NAME value; see svc help.')
        elif not result.command:
            result.command = word
        else:
            result.words.append(word)
    return result


def _take_option(result: Arguments, word: str, waiting: list[str]) -> None:
    name, separator, value = word[2:].partition("=")
    _check_option(name)
    if not separator:
        if not waiting or waiting[-1].startswith("--"):
            raise UsageError(f"The option --{name} needs a value: --{name} VALUE or --{name}=VALUE")
        value = waiting.pop()
    result.options[name] = value


def _check_option(name: str) -> None:
    from svc.config.settings import override_names

    known = override_names()
    if name.lower() in known or name.lower() in FIRST_RUN_OPTIONS:
        return
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), [*known, *FIRST_RUN_OPTIONS], 1)
    hint = f" Did you mean --{near[0].upper()}?" if near else " svc help settings lists all settings."
    raise UsageError(f'The option "--{name}" is not understood.{hint}')


def _directory(word: str) -> "Path":
    from svc.install import absolute

    path = absolute(word)
    if not path.exists():
        raise UsageError(f"The folder {word} does not exist")
    if not path.is_dir():
        raise UsageError(f"The path {word} is not a folder")
    return path


def _no_words(arguments: Arguments) -> None:
    if arguments.words:
        raise UsageError(f'The command "{arguments.command}" takes no argument "{arguments.words[0]}".')


# starting


def _run(arguments: Arguments) -> int:
    apps = [_directory(word) for word in arguments.words]
    return _serve(arguments, apps, dev=False, terminal=sys.stderr)


def _dev(arguments: Arguments) -> int:
    if not arguments.words:
        raise UsageError("svc dev needs the directory of the application, for example: svc dev .")
    apps = [_directory(word) for word in arguments.words]
    os.environ["DEV_MODE"] = "true"
    return _serve(arguments, apps, dev=True, terminal=sys.stderr)


def _serve(arguments: Arguments, apps: list["Path"], *, dev: bool, terminal: "Terminal", on_ready: Callable[[], None] | None = None) -> int:
    """Install if needed, lock the root, run the server until it ends. What must reach the user is printed on `terminal`."""
    from svc.errors import ConfigError, Problem
    from svc.install import (
        AlreadyRunning,
        RootLock,
        WrongUser,
        check_user,
        install,
        keep_initial_password,
        make_directories,
        take_administrator,
    )

    try:
        administrator = take_administrator(os.environ, arguments.options)
        place = _place(arguments)
        check_user(place)
        place = install(place, os.environ, arguments.options)
        with RootLock(place.root):
            config = load_config(place, arguments, dev=dev)
            make_directories(place.root, config)
            _log_notes(config)
            from svc.server import Server

            server = Server(
                config,
                apps,
                dev,
                on_ready=lambda _: on_ready() if on_ready is not None else _tell_ready(config),
                on_first_super_user=lambda first: (
                    keep_initial_password(config.root, first.username, first.password, terminal) if first.password is not None else None
                ),
                username=administrator.username,
                password=administrator.password,
            )
            return server.run()
    except AlreadyRunning as error:
        print(f"Error: {error}", file=terminal)
        return RUNNING
    except (ConfigError, WrongUser, Problem) as error:  # a Problem comes from a store that cannot be opened
        print(f"Error: {error}", file=terminal)
        return FAILED


def _tell_ready(config: "Config") -> None:
    """Who started the server by hand sees that it runs; everything else is in the log."""
    if sys.stderr.isatty() and not config["logging.stdStreams"]:
        print(
            f"svc {__version__} answers on port {config['http.port']}, its log is {config['logging.path']}. Ctrl+C stops it.",
            file=sys.stderr,
        )


def _place(arguments: Arguments) -> "Place":
    from svc.install import find_place

    return find_place(os.environ, arguments.options)


def load_config(place: "Place", arguments: Arguments, *, dev: bool = False) -> "Config":
    """The configuration of this place with all overrides. Raises UsageError with the contract's text if it is not valid."""
    from svc.config import Config
    from svc.errors import ConfigError

    try:
        return Config.load(place.root, environ=os.environ, options=arguments.options, dev=dev, file=place.file)
    except ConfigError as error:
        raise UsageError(f"svc config file validation error: {error}") from error


def _log_notes(config: "Config") -> None:
    """Log what was odd about the configuration, and where the initial password lies as long as it has not been changed."""
    from svc.install import initial_password_notice

    notice = initial_password_notice(config.root)
    if not config.notes and notice is None:
        return
    from svc.logs import Logs

    logs = Logs.from_config(config)
    for level, sentence in config.notes:
        logs.logger.log(level, sentence)
    if notice is not None:
        logs.logger.notify(notice)
    logs.close()


# installing


def _install(arguments: Arguments) -> int:
    from svc.errors import ConfigError, Problem
    from svc.install import AlreadyRunning, RootLock, WrongUser, check_user, install, make_directories, take_administrator

    _no_words(arguments)
    try:
        place = _place(arguments)
        if place.installed:
            print("svc is already installed.")
            return 0
        if sys.stdin.isatty() and sys.stdout.isatty():
            _ask_missing(place, arguments)
            place = _place(arguments)
        administrator = take_administrator(os.environ, arguments.options)
        check_user(place)
        place = install(place, os.environ, arguments.options)
        with RootLock(place.root):
            config = load_config(place, arguments)
            make_directories(place.root, config)
            _create_system(config, administrator)
    except AlreadyRunning as error:
        print(f"Error: {error}", file=sys.stderr)
        return RUNNING
    except (ConfigError, WrongUser, Problem) as error:
        print(f"Error: {error}", file=sys.stderr)
        return FAILED
    print(f"svc {__version__} is installed in {place.root}. Start it with: svc")
    return 0


def _ask_missing(place: "Place", arguments: Arguments) -> None:
    """Ask for what neither the environment nor the command line gives; Enter takes the default."""
    import getpass

    given = {name.lower() for name in (*os.environ, *arguments.options)}
    if "rootpath" not in given:
        arguments.options["ROOTPATH"] = input(f"Root directory [{place.root}]: ").strip() or str(place.root)
    if "svc_admin_username" not in given:
        arguments.options["SVC_ADMIN_USERNAME"] = input("Name of the first super user [admin]: ").strip() or "admin"
    if "svc_admin_password" not in given:
        password = getpass.getpass("Password (empty: one is made up and shown once): ")
        if password:
            arguments.options["SVC_ADMIN_PASSWORD"] = password
    if "node_hostname" not in given:
        arguments.options["NODE_HOSTNAME"] = input("Name of this node [localhost]: ").strip() or "localhost"


def _create_system(config: "Config", administrator: "Administrator") -> None:
    """The system database, the role `super_user` and the first super user, as the server's start makes them."""
    from svc.auth.install import ensure_first_super_user
    from svc.auth.system import ensure_system
    from svc.install import PASSWORD_FILE, keep_initial_password
    from svc.store import Store

    store = Store(config["storage.path"], node=config["node.hostname"])
    try:
        ensure_system(store)
        first = ensure_first_super_user(
            store,
            administrator.username,
            administrator.password,
            password_file=config.root / PASSWORD_FILE,
            hash_function=config["authentication.hashFunction"],
        )
    finally:
        store.close()
    if first is not None and first.password is not None:
        keep_initial_password(config.root, first.username, first.password, sys.stderr)


# processes


def _start(arguments: Arguments) -> int:
    from svc.background import start_in_background

    apps = [_directory(word) for word in arguments.words]
    return start_in_background(_checked_start(arguments), [str(app) for app in apps], arguments.options)


def _checked_start(arguments: Arguments) -> "Place":
    from svc.errors import ConfigError
    from svc.install import WrongUser, check_user, install

    try:
        place = _place(arguments)
        check_user(place)
        return install(place, os.environ, arguments.options)
    except (ConfigError, WrongUser) as error:
        raise UsageError(f"Error: {error}") from error


def _background(arguments: Arguments) -> int:
    """What `svc start` runs in its own session: as `run`, with its user behind a pipe."""
    from svc.background import ready_pipe

    apps = [_directory(word) for word in arguments.words]
    with ready_pipe() as (terminal, on_ready):
        try:
            return _serve(arguments, apps, dev=False, terminal=terminal, on_ready=on_ready)
        except UsageError as error:
            print(error, file=terminal)
            return FAILED


def _stop(arguments: Arguments) -> int:
    from svc.background import stop
    from svc.install import running_pid

    _no_words(arguments)
    place = _existing_place(arguments)
    pid = running_pid(place.root) if place.installed else None
    if pid is None:
        print("svc is not running.")
        return 0
    print("Stopping svc.", flush=True)
    return stop(place.root, pid)


def _status(arguments: Arguments) -> int:
    from svc.install import running_pid

    _no_words(arguments)
    place = _existing_place(arguments)
    pid = running_pid(place.root) if place.installed else None
    status = "not installed" if not place.installed else "stopped" if pid is None else "running"
    print(f"svc:\n  status: {status}" + (f"\n  pid: {pid}" if pid is not None else ""))
    return 0


def _existing_place(arguments: Arguments) -> "Place":
    from svc.errors import ConfigError

    try:
        return _place(arguments)
    except ConfigError as error:
        raise UsageError(f"Error: {error}") from error


# other commands


def _demo(arguments: Arguments) -> int:
    from svc.demo import main as demo

    return demo(arguments.words)


def _check(arguments: Arguments) -> int:
    from svc.errors import ConfigError
    from svc.store.check import check_database

    if len(arguments.words) > 1:
        raise UsageError("svc check takes one directory.")
    try:
        databases, blob_paths = _databases(arguments)
    except ConfigError as error:
        raise UsageError(f"Error: {error}") from error
    faults = 0
    for path in databases:
        report = check_database(path, _show_progress if sys.stderr.isatty() else lambda what, done, total: None, blob_paths)
        print(f"{path.name}: {'fine' if report.ok else _number(report.total, 'fault')}; {_counts(report)}")
        for sentence in report.findings:
            print(f"  {sentence}")
        if report.total > len(report.findings):
            print(f"  ... and {report.total - len(report.findings)} more")
        for sentence in report.notes:
            print(f"  Note: {sentence}")
        faults += report.total
    return FAILED if faults else 0


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _show_progress(what: str, done: int, total: int) -> None:
    print(f"\r\x1b[K{what} {done} of {total}\r", end="", file=sys.stderr, flush=True)


def _counts(report: "CheckReport") -> str:
    records = sum(report.records.values())
    return f"{len(report.records)} tables, {records} records, {report.index_entries} index entries, {report.log_entries} log entries"


def _databases(arguments: Arguments) -> tuple[list["Path"], tuple["Path", ...]]:
    """The directories of the databases: of the root directory that is named, of the usual one, or of a storage directory. And those of blobs."""
    from svc.config import Config
    from svc.config.build import CONFIG_FILE
    from svc.config.document import read_document

    directory = _directory(arguments.words[0]) if arguments.words else _place(arguments).root
    file = directory / CONFIG_FILE
    if file.is_file():
        config = Config.from_document(read_document(file), directory)
        places = {config["storage.path"], *(value for name, value in config.values.items() if name.startswith("databases."))}
        blob_paths = tuple(config["storage.blobPaths"])
    else:
        places = {directory / "database" if (directory / "database").is_dir() else directory}
        blob_paths = ()
    found = [
        entry for storage in sorted(places) if storage.is_dir() for entry in sorted(storage.iterdir()) if (entry / "data.mdb").is_file()
    ]
    if not found and (directory / "data.mdb").is_file():
        found = [directory]
    if not found:
        raise UsageError(f"There are no databases in {directory}")
    return found, blob_paths


def _version(arguments: Arguments) -> int:
    print(__version__)
    return 0


def _help(arguments: Arguments) -> int:
    topic = arguments.words[0] if arguments.words else ""
    if topic == "settings":
        from svc.config.reference import settings_text

        print(settings_text(arguments.words[1] if len(arguments.words) > 1 else ""))
        return 0
    if topic and topic not in BY_NAME:
        return _not_understood(topic)
    print(help_text(topic))
    return 0


COMMANDS = (
    Command(
        "run",
        "svc [run] [APP]",
        "Run the server in the foreground; installs it first if needed. APP: one more application directory.",
        _run,
        "Without an installation one is made first, in ~/svc or what ROOTPATH says. Nothing needs to be given: a first super user\n"
        "`admin` gets a random password, shown once. The applications in <root>/components are loaded, and APP beside them.\n"
        "Ctrl+C or SIGTERM stops: requests that are running are finished, a second signal stops at once. SIGHUP opens log files again.",
    ),
    Command(
        "dev",
        "svc dev APP",
        "Run the server for development: log on the terminal, requests of this machine need no login.",
        _dev,
        "For this run only: authentication.authorizeLocal is on, logging.level is info, any web origin is allowed, DEV_MODE=true is set.\n"
        "Nothing of that is written into the configuration file.",
    ),
    Command(
        "demo",
        "svc demo [OPTIONS]",
        "Fill a fresh directory with example tables and serve them; svc demo --help tells more.",
        _demo,
        raw=True,
    ),
    Command(
        "install",
        "svc install",
        "Only install: directories, configuration file, first super user. Asks for what is missing on a terminal.",
        _install,
        "Values, as environment variable or option: ROOTPATH (~/svc), SVC_ADMIN_USERNAME (admin), SVC_ADMIN_PASSWORD (random, shown\n"
        "once), NODE_HOSTNAME (localhost), DEFAULTS_MODE (prod or dev), and every setting. An existing installation is not changed.",
    ),
    Command(
        "start",
        "svc start [APP]",
        "Run the server in the background; returns when it answers, or with the reason why it does not.",
        _start,
    ),
    Command("stop", "svc stop", "Stop the server and wait until it has ended.", _stop),
    Command("status", "svc status", "Tell whether the server is running, and its process id.", _status),
    Command(
        "check",
        "svc check [DIR]",
        "Check that tables, indexes and logs of the databases below DIR agree; exit status 1 if they do not.",
        _check,
        "DIR is a root directory, a directory of databases or one database; without it the root of this installation. Reads only.",
    ),
    Command("version", "svc version", "Print the version; also svc --version.", _version),
    Command(
        "help",
        "svc help [COMMAND]",
        "Print this; svc help settings [SECTION] lists the settings.",
        _help,
        "svc help run tells about one command, svc help settings lists all settings, svc help settings http those of one section.",
    ),
)
BY_NAME = {command.name: command for command in (*COMMANDS, Command("start-in-session", "", "", _background))}


def help_text(topic: str = "") -> str:
    """The list of commands, or what there is to know about one."""
    if topic:
        command = BY_NAME[topic]
        return f"{command.usage}\n\n{command.sentence}" + (f"\n\n{command.details}" if command.details else "")
    width = max(len(command.usage) for command in COMMANDS)
    commands = "\n".join(f"  {command.usage:{width}}  {command.sentence}" for command in COMMANDS)
    return f"""svc {__version__}: a database and application platform in one process.

{commands}

Settings stand in <root>/svc-config.yaml. Each can be given as an option or an environment variable, path joined by _ in any case:
  svc --HTTP_PORT 8080 --LOGGING_LEVEL=info        HTTP_PORT=8080 svc
An option beats the environment, both beat the file, and are written into it (the file before goes to <root>/backup).

The root is --ROOTPATH, else ROOTPATH, else that of the last installation, else ~/svc.

Examples:
  svc dev .                      develop the application in this directory
  svc run ~/apps/shop            serve it
  svc status --ROOTPATH /srv/svc
  svc help run                   more about one command
  svc help settings logging      the settings of one section"""
