"""`svc start`, `stop`, `restart`, `status`: the server as a process (contract: configuration §6.1)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from svc.cli.arguments import Arguments, UsageError, existing_place, named_directory, place_of

if TYPE_CHECKING:
    from svc.install import Place


def start(arguments: Arguments) -> int:
    from svc.background import start_in_background

    apps = [named_directory(word) for word in arguments.words]
    return start_in_background(_checked_start(arguments), [str(app) for app in apps], arguments.options)


def _checked_start(arguments: Arguments) -> Place:
    from svc.errors import ConfigError
    from svc.install import WrongUser, check_user, install

    try:
        place = place_of(arguments)
        check_user(place)
        return install(place, os.environ, arguments.options)
    except (ConfigError, WrongUser) as error:
        raise UsageError(f"Error: {error}") from error


def stop(arguments: Arguments) -> int:
    from svc.background import stop
    from svc.install import running_pid

    arguments.no_words()
    place = existing_place(arguments)
    pid = running_pid(place.root) if place.installed else None
    if pid is None:
        print("svc is not running.")
        return 0
    print("Stopping svc.", flush=True)
    return stop(place.root, pid)


def status(arguments: Arguments) -> int:
    from svc.install import running_pid

    arguments.no_words()
    place = existing_place(arguments)
    pid = running_pid(place.root) if place.installed else None
    status = "not installed" if not place.installed else "stopped" if pid is None else "running"
    print(f"svc:\n  status: {status}" + (f"\n  pid: {pid}" if pid is not None else ""))
    return 0
