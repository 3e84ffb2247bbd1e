"""COMMANDS, one row per command: dispatch, help and completion follow from it. Importing it costs nothing of what the commands need."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from svc import __version__
from svc.cli.arguments import Arguments

Run = Callable[[Arguments], int]


@dataclass(frozen=True)
class Command:
    """`usage`, `sentence`, `details`: for help. `flags`: the options without value that it takes. `choices`: what its argument may be."""

    name: str
    usage: str
    sentence: str
    run: Run
    details: str = ""
    flags: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    raw: bool = False
    """The command reads its own options."""


def _of(module: str, function: str) -> Run:
    """A function that is imported when it is called."""

    def run(arguments: Arguments) -> int:
        return cast(Run, getattr(import_module(module), function))(arguments)

    return run


COMMANDS = (
    Command(
        "run",
        "svc [run] [APP]",
        "Run the server in the foreground; installs it first if needed. APP: one more application directory.",
        _of("svc.cli.serving", "run"),
        "Without an installation one is made first, in ~/svc or what ROOTPATH says. Nothing needs to be given: a first super user\n"
        "`admin` gets a random password, shown once. The applications in <root>/components are loaded, and APP beside them.\n"
        "Ctrl+C or SIGTERM stops: requests that are running are finished, a second signal stops at once. SIGHUP opens log files again.",
    ),
    Command(
        "dev",
        "svc dev APP",
        "Run the server for development: log on the terminal, requests of this machine need no login.",
        _of("svc.cli.serving", "dev"),
        "For this run only: authentication.authorizeLocal is on, logging.level is info, any web origin is allowed, DEV_MODE=true is set.\n"
        "Nothing of that is written into the configuration file.",
    ),
    Command(
        "demo",
        "svc demo [OPTIONS]",
        "Fill a fresh directory with example tables and serve them; svc demo --help tells more.",
        _of("svc.cli.serving", "demo"),
        raw=True,
    ),
    Command(
        "install",
        "svc install",
        "Only install: directories, configuration file, first super user. Asks for what is missing on a terminal.",
        _of("svc.cli.installing", "install"),
        "Values, as environment variable or option: ROOTPATH (~/svc), SVC_ADMIN_USERNAME (admin), SVC_ADMIN_PASSWORD (random, shown\n"
        "once), NODE_HOSTNAME (localhost), DEFAULTS_MODE (prod or dev), and every setting. An existing installation is not changed.",
    ),
    Command(
        "start",
        "svc start [APP]",
        "Run the server in the background; returns when it answers, or with the reason why it does not.",
        _of("svc.cli.processes", "start"),
    ),
    Command("stop", "svc stop", "Stop the server and wait until it has ended.", _of("svc.cli.processes", "stop")),
    Command("status", "svc status", "Tell whether the server is running, and its process id.", _of("svc.cli.processes", "status")),
    Command(
        "check",
        "svc check [DIR]",
        "Check that tables, indexes and logs of the databases below DIR agree; exit status 1 if they do not.",
        _of("svc.cli.checking", "check"),
        "DIR is a root directory, a directory of databases or one database; without it the root of this installation. Reads only.",
    ),
    Command("version", "svc version", "Print the version; also svc --version.", _of("svc.cli", "version")),
    Command(
        "help",
        "svc help [COMMAND]",
        "Print this; svc help settings [SECTION] lists the settings.",
        _of("svc.cli", "show_help"),
        "svc help run tells about one command, svc help settings lists all settings, svc help settings http those of one section.",
    ),
)
BY_NAME = {command.name: command for command in (*COMMANDS, Command("start-in-session", "", "", _of("svc.cli.serving", "in_session")))}


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
