"""The process that has started this one, if it speaks the protocol of systemd: sd_notify(3), sd_listen_fds(3), sd_watchdog_enabled(3)."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, MutableMapping

FIRST_GIVEN = 3  # the number of the first socket that it has opened
_GIVING = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
_NOTIFYING = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class Supervisor:
    """`given`: listening sockets that it has opened for this process. `period`: seconds between two signs of life that it wants; None: it wants none.
    `variables`: for a program that takes the place of this one, without its sockets."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        """What is for this process is removed: children would take it for their own."""
        mine = str(os.getpid())
        giving = {name: environ.pop(name, "") for name in _GIVING}
        self.variables: Mapping[str, str] = {name: environ.pop(name) for name in _NOTIFYING if name in environ}
        self.given = _listening(giving["LISTEN_FDS"]) if giving["LISTEN_PID"] == mine else []
        self._path = self.variables.get("NOTIFY_SOCKET", "")
        limit = self.variables.get("WATCHDOG_USEC", "")
        is_watched = limit.isdecimal() and int(limit) > 0 and self.variables.get("WATCHDOG_PID", mine) == mine
        self.period = int(limit) / 2e6 if is_watched else None  # half of what it waits for

    def notify(self, state: str) -> None:
        """`state`: lines such as READY=1. Nothing if nobody has asked, or listens."""
        if not self._path.startswith(("/", "@")):
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            try:
                sock.sendto(state.encode(), "\0" + self._path[1:] if self._path.startswith("@") else self._path)
            except OSError:
                pass


def _listening(count: str) -> list[socket.socket]:
    """Those of the descriptors that are listening sockets; others are closed."""
    found = []
    for number in range(FIRST_GIVEN, FIRST_GIVEN + int(count) if count.isdecimal() else FIRST_GIVEN):
        try:
            sock = socket.socket(fileno=number)
        except OSError:
            continue
        os.set_inheritable(number, False)
        if sock.type == socket.SOCK_STREAM and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            sock.setblocking(False)
            found.append(sock)
        else:
            sock.close()
    return found
