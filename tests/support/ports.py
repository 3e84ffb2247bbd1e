"""Ports for servers that tests start."""

from __future__ import annotations

import os
import socket
from collections import deque

HELD_MAX = 400  # descriptors; the oldest port is released by then, and long listened at

_held: deque[int] = deque()


def free_port() -> int:
    """A port that no other program gets before the server it is meant for listens there, nor while that starts again.

    A socket stays bound to it, and does not listen: until the server does, connections are refused. The system gives such a port to nobody who asks
    for any free one, and not to a connection either; but a server that asks for this one and sets SO_REUSEADDR, as all do, gets it.
    It is free at all addresses. At 127.0.0.1 alone the system also gives one from which a connection of another address, such as ::1, goes out; a server
    that listens at all addresses does not get that.
    """
    dual = socket.has_dualstack_ipv6()
    with socket.socket(socket.AF_INET6 if dual else socket.AF_INET) as sock:
        if dual:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("", 0))
        port = int(sock.getsockname()[1])
        _held.append(sock.detach())
    if len(_held) > HELD_MAX:
        os.close(_held.popleft())
    return port
