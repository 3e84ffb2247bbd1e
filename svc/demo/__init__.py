"""`svc demo`: fills a fresh data directory with real tables and serves them.

    svc demo [--dir DIRECTORY] [--host ADDRESS] [--port PORT] [--operations-port PORT] [--SETTING VALUE ...]

The directory is made complete or not at all: the records are loaded into a directory beside it, which takes its name when it is done. A directory that
exists is served as it is, with whatever was changed in it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from svc.apps.schema_files import load_schema_files
from svc.auth.first_super_user import DEFAULT_ADMIN
from svc.cli.arguments import FAILED, RUNNING, Arguments, UsageError, fail, parse_arguments
from svc.cli.serving import remember, run_server
from svc.cli.start_notice import print_lines
from svc.config import load_config
from svc.config.build import CONFIG_FILE
from svc.config.document import write_document
from svc.config.setting import LOOPBACK
from svc.demo.data import APP, TABLES, iter_records
from svc.errors import ConfigError
from svc.root.administrator import PASSWORD_FILE, take_administrator
from svc.root.installation import first_document, make_directories
from svc.root.location import find_value
from svc.root.lock import AlreadyRunning, RootLock
from svc.server import InstanceOptions, Server
from svc.store import Store, Table
from svc.store.writing.bulk_write import load_records

DATABASE = Path("database")  # below the root directory: the default of `storage.path`


class NotOurs(Exception):
    """The directory holds something else."""


def is_filled(root: Path) -> bool:
    """Whether `root` is a data directory. Raises NotOurs if it holds other files, so that none of them is ever touched."""
    if (root / DATABASE).is_dir():
        return True
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise NotOurs(f"{root} is not a data directory of svc; name an empty or a new one")
    return False


def make_directory(root: Path, console: Console | None = None) -> None:
    """Load all records into a new directory and give it the name `root`, which must not exist or be empty."""
    root.parent.mkdir(parents=True, exist_ok=True)
    # Beside it, because only a rename on one file system is all or nothing.
    unfinished = Path(tempfile.mkdtemp(prefix=f"{root.name}-", dir=root.parent))
    try:
        store = Store(unfinished / DATABASE)
        try:
            fill(store, console or Console(stderr=True))
        finally:
            store.close()
        unfinished.rename(root)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def fill(store: Store, console: Console) -> None:
    """Define the tables of the application and load their records, with a bar on `console`."""
    tables = define_tables(store)
    columns = TextColumn("{task.description:<14}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=sum(TABLES.values()))
        done = 0
        for name, count in TABLES.items():
            progress.update(task, description=name)
            for loaded in load_records(tables[name], iter_records(name)):
                progress.update(task, completed=done + loaded)
            done += count


def define_tables(store: Store) -> dict[str, Table]:
    """The tables that the application's schema declares, by name."""
    files = [(path.name, path.read_text("utf-8")) for path in sorted(APP.glob("*.graphql"))]
    schema = load_schema_files(files, {})
    assert not schema.errors, schema.errors
    return {definition.name: store.open_database(definition.database).define_table(definition) for definition in schema.definitions}


EXAMPLES = (
    ("one record", "/Airline/UA"),
    ("what happened on one day: keys have several segments", "/Flight/2013-02-09/UA/?cancelled==false&sort(-departureDelay)&limit(3)"),
    (
        "the longest delays, with values of related records",
        "/Flight/?departureDelay=gt=800&select(id,departureDelay,airline{name},plane{year})",
    ),
    (
        "a condition on a related record: cancelled in a storm",
        "/Flight/?cancelled==true&weather.windGust=gt=46&select(id,weather{windGust})",
    ),
    ("a range of dates", "/Weather/JFK/?time=ge=2013-02-09T06%3A00&lt=2013-02-09T09%3A00&select(time,temperature,windSpeed)"),
    ("a relationship from its other side", "/Airport/EYW?select(name,arrivals{id,plane{manufacturer,model}})"),
    ("what the application's own code adds: resources.py", "/Journey/2013-01-09/HA/51/JFK?select(id,milesPerHour,airline{name})"),
    ("... and computes", "/Punctuality/JFK"),
    ("what can be asked", "/Flight"),
)
FOLLOWED = "/Plane/N102UW"


def run(arguments: Arguments) -> int:
    """`svc demo`."""
    return main(arguments.words)


def main(args: Sequence[str]) -> int:
    """Returns the exit status: 1 if the directory, the configuration or the port cannot be used, 4 if the demo runs already."""
    try:
        options, given = _parse(args)
    except UsageError as error:
        print(error, file=sys.stderr)
        return FAILED
    root: Path = options.dir.expanduser().absolute()
    ports = {"HTTP_PORT": options.port, "OPERATIONSAPI_NETWORK_PORT": options.operations_port}
    settings = {name: str(port) for name, port in ports.items() if port is not None}
    for name in ("HTTP_HOST", "OPERATIONSAPI_NETWORK_HOST"):
        settings[name] = options.host or find_value(os.environ, name.lower()) or LOOPBACK
    settings["HTTP_SECUREPORT"] = "null"  # what it shows is plain HTTP, beside whatever else runs on this machine
    settings = {name: value for name, value in settings.items() if not find_value(given, name.lower())} | given
    try:
        if not is_filled(root):
            make_directory(root)
        with RootLock(root):
            return _serve(root, settings)
    except AlreadyRunning as error:
        print(f"Error: {error}", file=sys.stderr)
        print("Ctrl-C in its terminal ends it; --dir DIRECTORY --port 8080 --operations-port 8081 starts another one.", file=sys.stderr)
        return RUNNING
    except (NotOurs, ConfigError) as error:
        return fail(error)
    except OSError as error:
        return fail(f"{error.filename}: {error.strerror}" if error.filename else error)
    except KeyboardInterrupt:  # while loading: nothing is left behind
        return FAILED


def _serve(root: Path, settings: dict[str, str]) -> int:
    administrator = take_administrator(os.environ, settings)
    file = root / CONFIG_FILE
    if not file.exists():
        write_document(file, first_document(root, os.environ, settings))
    config = load_config(root, environ=os.environ, options=settings)
    make_directories(root, config)
    remember(config)
    server = Server(
        config,
        [APP],
        options=InstanceOptions(administrator),
        on_ready=lambda ready: print_lines(
            [
                introduction(
                    root,
                    ready.application_port.ports[0],
                    ready.operations_port.ports,
                    log=config.logging.path,
                    has_console=config.local_studio.enabled,
                )
            ],
            sys.stdout,
        ),
    )
    return run_server(server)


def introduction(root: Path, port: int, operations_ports: Sequence[int] = (), *, log: Path | None = None, has_console: bool = True) -> str:
    """Where a browser finds the tables, user and password, and examples: lines to copy into another terminal."""
    try:
        password = (root / PASSWORD_FILE).read_text("utf-8").rstrip("\n")
    except FileNotFoundError:
        password = ""  # it was given, or has been changed
    lines = [
        f"svc demo: http://localhost:{port}/, data in {root}" + (f", log {log}" if log is not None else ""),
        f"User {DEFAULT_ADMIN}, password {password}" if password else f"User {DEFAULT_ADMIN}, with the password that was chosen for it",
        f"Open http://localhost:{port}/ in a browser for the tables"
        + "".join(f", http://localhost:{each}/ for the console" for each in operations_ports[:1] if has_console),
        "Or try in another terminal:",
    ]
    login = f"{DEFAULT_ADMIN}:{password or 'PASSWORD'}"
    for title, target in EXAMPLES:
        lines += [f"\n# {title}", f"curl -gu '{login}' 'http://localhost:{port}{target}'"]
    lines += ["\n# one record and its changes: write to it from a third terminal"]
    lines += [f"curl -gNu '{login}' -H 'Accept: text/event-stream' 'http://localhost:{port}{FOLLOWED}'"]
    for operations_port in operations_ports:
        body = '{"operation":"describe_table","table":"Flight"}'
        lines += ["\n# operations, on their own port"]
        lines += [f"curl -su '{login}' http://localhost:{operations_port}/ -H 'Content-Type: application/json' -d '{body}'"]
    lines.append("\nCtrl-C stops it. The next start uses the same data.")
    return "\n".join(lines)


def default_directory() -> Path:
    """The directory for data that can be made again (XDG base directories)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "svc" / "demo"


def _parse(args: Sequence[str]) -> tuple[argparse.Namespace, dict[str, str]]:
    """(options of the demo, settings as for a start). Raises UsageError."""
    parser = argparse.ArgumentParser(
        prog="svc demo",
        description="Serve real tables to try things on: flights from New York, early 2013.",
        epilog="And settings, as for a start: --http.port 8080, --LOGGING_LEVEL debug; svc help settings lists them.",
        allow_abbrev=False,
    )
    parser.add_argument("--dir", type=Path, default=default_directory(), help="the data directory; default: %(default)s")
    parser.add_argument("--host", help="the addresses to listen on; default: 127.0.0.1, for this machine only; '*': all")
    parser.add_argument("--port", type=int, help="of the HTTP server; default: 9926, or as configured")
    parser.add_argument("--operations-port", type=int, help="of the operations API; default: 9925, or as configured")
    options, others = parser.parse_known_args(args)
    given = parse_arguments(others)
    given.no_flags()
    if given.command:
        raise UsageError(f'The command "demo" takes no argument "{given.command}".')
    return options, given.options
