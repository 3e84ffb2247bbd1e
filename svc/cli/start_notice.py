"""What a start says: what is wrong with the applications, then where it answers and what it serves (spec: configuration §6.1).

    /home/ann/shop/schema.graphql:3:12: warning: the directive @indexd is not known and was ignored, did you mean '@indexed'?
    svc 0.1.0  http://localhost:9926/  https://localhost:9927/  (all addresses of this machine)
      operations   http://localhost:9925/  (this machine only)
      application  shop (/home/ann/shop), 3 tables
      root         /home/ann/svc
      log          /home/ann/svc/log/svc.log

`svc dev` adds where a browser finds the tables and the console.

On standard error, also where that is no terminal: a program that reads the output of `svc run` reads the log there, which goes to standard output. A log
of JSON on the standard streams stays JSON: the same is said by one entry of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from svc import __version__
from svc.cli.output import printable

if TYPE_CHECKING:
    from svc.apps import App
    from svc.config import Config
    from svc.root.administrator import Terminal
    from svc.server import Instance

_HERE = ("://*:", "://127.0.0.1:", "://[::1]:", "://[::]:")
"""Addresses that this machine calls localhost."""


def shown_addresses(addresses: Iterable[str]) -> list[str]:
    """URLs to open, each once, of addresses that are listened at.

    >>> shown_addresses(["http://*:9926", "http://127.0.0.1:9926", "https://10.0.0.5:9927"])
    ['http://localhost:9926/', 'https://10.0.0.5:9927/']
    """
    found: dict[str, None] = {}
    for address in addresses:
        for here in _HERE:
            address = address.replace(here, "://localhost:")
        found[f"{address}/"] = None
    return list(found)


def reach(addresses: Sequence[str]) -> str:
    """Who can get to them.

    >>> reach(["http://*:9926"]), reach(["http://127.0.0.1:9926"]), reach(["http://10.0.0.5:9926"]), reach([])
    ('all addresses of this machine', 'this machine only', '', '')
    """
    if any("://*:" in address for address in addresses):
        return "all addresses of this machine"
    return "this machine only" if addresses and all("://127.0.0.1:" in address or "://[::1]:" in address for address in addresses) else ""


def application_addresses(instance: Instance) -> list[str]:
    """Those of the ports of the configuration, then those that applications have opened."""
    others = [ports for ports in instance.application_ports.others if ports is not instance.mqtt_port]
    return [*instance.application_port.addresses, *(address for ports in others for address in ports.addresses)]


def notice(instance: Instance, *, near: bool = False) -> list[str]:
    """The lines about addresses, applications, root and log. `near`: paths as they are shortest from the working directory."""
    config = instance.config
    path = shortest if near else str
    addresses = application_addresses(instance)
    who = reach(addresses)
    lines = [
        "  ".join([f"svc {__version__}", *(shown_addresses(addresses) or ["no port for applications"]), *([f"({who})"] if who else [])])
    ]
    for name, ports in (("operations", instance.operations_port), ("mqtt", instance.mqtt_port)):
        shown = [] if ports is None else shown_addresses(ports.addresses)
        if ports is not None and shown:
            others = reach(ports.addresses)
            lines.append(f"  {name:<12} {'  '.join([*shown, *([f'({others})'] if others and others != who else [])])}")
    lines += [f"  application  {app.name} ({path(app.directory)}), {_tables(len(app.definitions))}" for app in instance.applications]
    if not len(instance.applications):
        safe = "SVC_SAFE_MODE is set" if os.environ.get("SVC_SAFE_MODE") else f"none in {path(config.components_root)}"
        lines.append(f"  application  {safe}")
    lines.append(f"  root         {path(config.root)}")
    lines.append(f"  log          {path(config.logging.path) if config.logging.file else 'here'}")
    return [printable(line) for line in lines]


def browser_line(instance: Instance) -> str:
    """Where the tables are, and the console, for a browser; "" without a port for applications."""
    found = shown_addresses(application_addresses(instance))
    if not found:
        return ""
    own = any(app.has_root_page for app in instance.applications)
    line = f"Open {found[0]}{'_pages/' if own else ''} in a browser for the tables"
    consoles = shown_addresses(instance.operations_port.addresses) if instance.config.local_studio.enabled else []
    return printable(f"{line}, {consoles[0]} for the console" if consoles else line)


def findings(apps: Iterable[App]) -> tuple[int, list[str]]:
    """(number of errors, a line for each error and each warning) of the applications as they are."""
    from svc.apps.findings import findings_of, left_out

    count = 0
    lines = []
    for app in apps:
        for found in (*findings_of(app.entries, app.directory), *left_out(app.directory)):
            count += found.is_fault
            lines.append(printable(found.shown(app.name, shortest(app.directory)), lines=True))
    return count, lines


def remarks(apps: Iterable[App]) -> list[str]:
    """A line for each thing that an application has and does not load."""
    from svc.apps.findings import left_out

    return [printable(found.shown(app.name, shortest(app.directory))) for app in apps for found in left_out(app.directory)]


def is_json_shown(config: Config) -> bool:
    """Whether the log goes to the standard streams as JSON, so that nothing else may."""
    return config.logging.format == "json" and (config.logging.std_streams or not config.logging.file)


def print_lines(lines: Iterable[str], stream: Terminal) -> None:
    """Print them; what cannot be printed, because nothing reads it, is in the log."""
    with suppress(OSError, ValueError):
        for line in lines:
            print(line, file=stream)
        stream.flush()


def counted(number: int) -> str:
    """
    >>> counted(1), counted(2)
    ('1 error', '2 errors')
    """
    return f"{number} error{'' if number == 1 else 's'}"


def _tables(number: int) -> str:
    return f"{number:,} table{'' if number == 1 else 's'}"


def shortest(path: Path) -> str:
    """A path as it is shortest, seen from the working directory or from that of the user."""
    absolute = Path(os.path.abspath(path))
    for base, prefix in ((Path.cwd(), ""), (Path.home(), "~/")):
        if absolute.is_relative_to(base) and absolute != base:
            return prefix + str(absolute.relative_to(base))
    return str(absolute)
