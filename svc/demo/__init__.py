"""`svc demo`: fills a fresh data directory with real tables and serves them.

    svc demo [--dir DIRECTORY] [--port PORT]

The directory is made complete or not at all: the records are loaded into a directory beside it, which takes its name when it is done. A directory that
exists is served as it is, with whatever was changed in it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from svc.auth.install import DEFAULT_ADMIN, INITIAL_PASSWORD_FILE
from svc.config import Config
from svc.demo.data import APP
from svc.demo.loading import NotOurs, is_filled, make_directory
from svc.errors import ConfigError
from svc.server import Server

EXAMPLES = (
    ("one record", "/Airline/UA"),
    (
        "the longest delays, with a value of the related record",
        "/Flight/?departureDelay=gt=800&sort(-departureDelay)&select(id,departureDelay,airline{name})",
    ),
    (
        "flights cancelled in a storm: a condition on the weather when they were to leave",
        "/Flight/?cancelled==true&weather.windGust=gt=50&select(id,destination{name},weather{windGust})",
    ),
    ("one morning's weather: keys have several segments", "/Weather/JFK/?time=ge=date:2013-02-09T06%3A00&lt=date:2013-02-09T09%3A00"),
    ("a relationship from its other side", "/Plane/?seats=ge=450&select(tailNumber,manufacturer,flights{id,destinationCode})"),
    ("the same data for a spreadsheet", "/Airport/.csv?timeZone==Pacific%2FHonolulu&select(code,name,altitude)"),
)


def main(args: Sequence[str]) -> int:
    """Returns the exit status: 1 if the directory, the configuration or the port cannot be used."""
    options = _parse(args)
    root: Path = options.dir.expanduser().absolute()
    try:
        if not is_filled(root):
            make_directory(root)
        config = Config.load(root, environ=os.environ, options={} if options.port is None else {"HTTP_PORT": str(options.port)})
    except (NotOurs, ConfigError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # while loading: nothing is left behind
        return 1
    server = Server(
        config,
        apps=[APP],
        password=os.environ.pop("SVC_ADMIN_PASSWORD", None),
        on_ready=lambda ready: print(introduction(root, ready.listeners[0].port), flush=True),
    )
    return server.run()


def introduction(root: Path, port: int) -> str:
    """Who may log in, and what to try: lines to copy into another terminal."""
    try:
        password = (root / INITIAL_PASSWORD_FILE).read_text("utf-8").rstrip("\n")
    except FileNotFoundError:
        password = ""  # it was given, or has been changed: nothing here knows it
    lines = [
        f"svc demo: http://localhost:{port}/, data in {root}",
        f"User {DEFAULT_ADMIN}, password {password}" if password else f"User {DEFAULT_ADMIN}, with the password that was chosen for it",
        "Try in another terminal:",
    ]
    login = f"{DEFAULT_ADMIN}:{password or 'PASSWORD'}"
    for title, target in EXAMPLES:
        lines += [f"\n# {title}", f"curl -gu '{login}' 'http://localhost:{port}{target}'"]
    lines.append("\nCtrl-C stops it. The next start goes on with the same data.")
    return "\n".join(lines)


def default_directory() -> Path:
    """Where a program may keep what it can make again (XDG base directories)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "svc" / "demo"


def _parse(args: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="svc demo", description="Serve real tables to try things on: flights from New York, early 2013.")
    parser.add_argument("--dir", type=Path, default=default_directory(), help="the data directory; default: %(default)s")
    parser.add_argument("--port", type=int, help="of the HTTP server; default: 9926, or as configured")
    return parser.parse_args(args)
