"""`svc start`, `stop`, `restart`, `status`: the server as a process (spec: configuration §6.1)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from svc.cli.arguments import FAILED, Arguments, UsageError, existing_installation, installation_of, named_directory

if TYPE_CHECKING:
    from svc.cli.client import Client
    from svc.root.location import Installation

RESTART_SECONDS = 60.0  # until the new server must answer
GONE_SECONDS = 15.0  # without a process: a supervisor would have started it again
STATUS_SECONDS = 5.0  # a server that does not answer runs all the same
POLL_SECONDS = 0.05


def start(arguments: Arguments) -> int:
    from svc.root.background import start_in_background

    apps = [named_directory(word) for word in arguments.words]
    return start_in_background(_checked_start(arguments), [str(app) for app in apps], arguments.options, arguments.flags)


def _checked_start(arguments: Arguments) -> Installation:
    from svc.cli.preparing import installed_root, read_config
    from svc.errors import ConfigError
    from svc.root.installation import WrongUser, make_log_directory

    try:
        installation = installed_root(installation_of(arguments), arguments)
        read_config(installation, arguments)
        make_log_directory(installation.root)
        return installation
    except (ConfigError, WrongUser) as error:
        raise UsageError(f"Error: {error}") from error


def stop(arguments: Arguments) -> int:
    from svc.root.background import stop
    from svc.root.lock import running_pid

    arguments.no_words()
    installation = existing_installation(arguments)
    pid = running_pid(installation.root) if installation.installed else None
    if pid is None:
        from svc.cli.roots import without_server

        print("svc is not running.", flush=True)
        print(without_server(installation), file=sys.stderr)
        return 0
    print("Stopping svc.", flush=True)
    return stop(installation.root, pid)


def restart(arguments: Arguments) -> int:
    """Restart a running server through its socket and wait until the new one answers; start one that is not running."""
    from svc.root.lock import running_pid

    installation = existing_installation(arguments)
    if not installation.installed or running_pid(installation.root) is None:
        what = f"{', '.join(arguments.words)} and the applications" if arguments.words else "the applications"
        print(f"svc is not running: it is started, with {what} of {installation.root}.", flush=True)
        return start(arguments)
    arguments.no_words()
    arguments.no_options_but("rootpath")
    from svc.cli.client import Unreachable
    from svc.cli.operations import local_client
    from svc.cli.output import refuse

    client = local_client(arguments)
    client.answer_seconds = STATUS_SECONDS
    print("Restarting svc.", flush=True)
    try:
        before = _status(client).get("restarts", 0)
        answer = client.send({"operation": "restart"})
        if answer.status != 200:
            return refuse(answer.error_text())
        answer.close()
    except Unreachable as error:
        return refuse(str(error))
    return _await_renewal(installation.root, client, before)


def _status(client: Client) -> dict[str, Any]:
    """What the server says of itself; empty if it does not. Raises Unreachable."""
    answer = client.send({"operation": "get_status"})
    return answer.value() if answer.status == 200 else {}


def _await_renewal(root: Path, client: Client, before: int) -> int:
    """Wait for the server that follows. `before`: how often it had been restarted."""
    from svc.cli.client import Unreachable
    from svc.clock import SYSTEM_CLOCK
    from svc.root.lock import running_pid

    started = gone = SYSTEM_CLOCK.monotonic()
    while (now := SYSTEM_CLOCK.monotonic()) - started < RESTART_SECONDS:
        Event().wait(POLL_SECONDS)
        try:
            found = _status(client)
        except Unreachable:
            found = {}
        if "restartFailed" in found:
            print(f"svc is not restarted, and goes on as it is: {found['restartFailed']}", file=sys.stderr)
            return FAILED
        is_new = found.get("restarts", 0) > before or found.get("uptime", RESTART_SECONDS) < now - started
        if is_new and not found.get("restarting"):
            print(f"svc is running (pid: {running_pid(root)}).")
            return 0
        if running_pid(root) is not None:
            gone = now
        elif now - gone > GONE_SECONDS:
            print(f"svc has ended and was not started again, see {root / 'log'}", file=sys.stderr)
            return FAILED
    print(f"svc does not answer within {RESTART_SECONDS:.0f} seconds, see {root / 'log'}", file=sys.stderr)
    return FAILED


def _served(arguments: Arguments) -> dict[str, Any]:
    """What a running server says of itself: version, uptime, addresses, applications with what is wrong with them; or that it does not answer.
    Empty if it cannot be asked."""
    from svc.cli.arguments import UsageError
    from svc.cli.client import Unreachable
    from svc.cli.operations import local_client
    from svc.cli.start_notice import shown_addresses

    try:
        client = local_client(arguments)
        client.answer_seconds = STATUS_SECONDS
        found = _status(client)
    except Unreachable:
        return {"fault": "it does not answer; svc log shows what it has said last"}
    except UsageError:
        return {}
    if "version" not in found:  # of an older version
        return {}
    shown: dict[str, Any] = {"version": found["version"], "uptime": lasting(found["uptime"])}
    shown |= {
        name: shown_addresses(addresses)
        for name, addresses in (("addresses", found["addresses"]["applications"]), ("operations", found["addresses"]["operations"]))
    }
    shown["instances"] = [
        {**each, **({"uptime": lasting(each["uptime"])} if "uptime" in each else {})} for each in found.get("instances", ())
    ]
    shown["applications"] = [{name: value for name, value in app.items() if value != []} for app in found["applications"]]
    if found["restartRequired"]:
        shown["restart required"] = found.get("restartReasons", [])
    if "slowStart" in found:
        shown["slow start"] = found["slowStart"]
    return shown


def lasting(seconds: float) -> str:
    """
    >>> lasting(42.7), lasting(600), lasting(7500), lasting(200000)
    ('42 s', '10 min', '2 h 5 min', '2 d 7 h')
    """
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{int(seconds)} s"


def status(arguments: Arguments) -> int:
    from svc.cli.output import yaml_text
    from svc.cli.roots import roots_of_user, state_of
    from svc.interpreter import running_interpreter

    arguments.no_words()
    if "all" in arguments.flags:
        known: dict[str, Any] = {"roots": roots_of_user()}
    else:
        root = existing_installation(arguments).root
        known = {"svc": {**state_of(root), **_served(arguments), "root": str(root), "interpreter": str(running_interpreter())}}
    print(json.dumps(known) if "json" in arguments.flags else yaml_text(known).rstrip("\n"))
    return 0
