"""The roots of this user, for `svc status --all` and for messages of commands that find no server (spec: configuration §1, §6.1)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from svc.root.location import Installation

MAX_NAMED = 5  # roots in a message


def state_of(root: Path) -> dict[str, Any]:
    """`status`, and `pid` of a running server."""
    from svc.config.build import CONFIG_FILE
    from svc.root.lock import running_pid

    pid = running_pid(root)
    if pid is not None:
        return {"status": "running", "pid": pid}
    return {"status": "stopped" if (root / CONFIG_FILE).is_file() else "not installed"}


def roots_of_user() -> list[dict[str, Any]]:
    """The known roots with their states, each once."""
    from svc.root.known_roots import known_roots

    roots = dict.fromkeys(each.root for each in known_roots(os.environ))
    return [{"root": str(root), **state_of(root)} for root in roots]


def without_server(installation: Installation) -> str:
    """Where a command has looked, why there, and where else it might have: for a command that finds no server, or no installation.

    `No server runs in /home/ann/svc (the default root). Roots of this user: /srv/shop (running); name one with --ROOTPATH.`
    """
    what = "No server runs" if installation.installed else "svc is not installed"
    others = [each for each in roots_of_user() if each["root"] != str(installation.root) and each["status"] != "not installed"]
    others.sort(key=lambda each: each["status"] != "running")
    text = f"{what} in {installation.root} ({installation.chosen})."
    if not others:
        return f"{text} --ROOTPATH names another root."
    named = ", ".join(f"{each['root']} ({each['status']})" for each in others[:MAX_NAMED])
    more = ", ..." if len(others) > MAX_NAMED else ""
    return f"{text} Roots of this user: {named}{more}; name one with --ROOTPATH."
