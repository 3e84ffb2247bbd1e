"""Ports for servers that tests start."""

from __future__ import annotations

import os
import socket
from collections import deque

HELD_MAX = 400  # descriptors; the oldest port is released by then, and long listened at

_held: deque[int] = deque()


def free_port() -> int:
    """A port of 127.0.0.1 that no other program gets before the server it is meant for listens there, nor while that starts again.

    A socket stays bound to it, and does not listen: until the server does, connections are refused. The system gives such a port to nobody who asks
    for any free one, and not to a connection either; but a server that asks for this one and sets SO_REUSEADDR, as all do, gets it.
    """
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        port = int(sock.getsockname()[1])
        _held.append(sock.detach())
    if len(_held) > HELD_MAX:
        os.close(_held.popleft())
    return port
