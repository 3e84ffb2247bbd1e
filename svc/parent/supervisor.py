"""Messages to a supervisor that asks for them, such as systemd with `Type=notify` (sd_notify(3))."""

from __future__ import annotations

import os
import socket


def notify_supervisor(state: str) -> None:
    """`state`: lines such as READY=1. Nothing if nobody has asked, or listens."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        try:
            sock.sendto(state.encode(), "\0" + path[1:] if path.startswith("@") else path)
        except OSError:
            pass
