"""Calls of Python and C functions per request, from the bytes that arrive to the bytes that leave, with the work at the end of the turn.

A whole node in this process, on fake sockets: no kernel, no noise, the same numbers at every run of one version. The parts of asyncio are not
included. Instructions are a fairer measure of time; calls show where a path has grown.

    python -m bench.calls [--list GET]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from tests.support.fakes import FakeSocket
from tests.support.http2 import Client
from tests.support.node import Node, Wire

RECORDS = 200
WARM_UP = 50  # requests before the one that is counted
HTTP2_GET = "HTTP/2 GET"
REFUSAL = "401"  # of a GET without a login
REQUESTS: dict[str, tuple[str, str, bytes]] = {
    "GET": ("GET", "/Product/p7", b""),
    "PUT": ("PUT", "/Product/p7", b'{"name":"seven","price":7.5,"inStock":true}'),
    "equality": ("GET", "/Product/?name==n8", b""),
    "range": ("GET", "/Product/?price=ge=20&price=lt=40", b""),
}


def calls_of(node: Node, wire: Wire, method: str, target: str, body: bytes, host: str = "localhost", status: str = "20") -> Counter[str]:
    """The calls of one request like others before it. A request for another host than localhost is anonymous."""

    def send() -> None:
        wire.sock.sent = b""
        fields = f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        receive(node, wire.sock, fields.encode() + body)

    counted = count_calls(send)
    assert wire.sock.sent.startswith(f"HTTP/1.1 {status}".encode()), wire.sock.sent[:200]
    return counted


def http2_calls_of(node: Node, client: Client, method: str, target: str) -> Counter[str]:
    """... over HTTP/2; the client's own work is not counted."""
    frames: list[bytes] = []
    for _ in range(WARM_UP + 1):
        client.request(method, target)
        frames.append(client.data_to_send())
    queue = iter(frames)

    def send() -> None:
        client.sock.sent = b""
        receive(node, client.sock, next(queue))

    counted = count_calls(send)
    assert client.sock.sent, "no answer"
    return counted


def receive(node: Node, sock: FakeSocket, data: bytes) -> None:
    """Deliver bytes to the node, and end the turn."""
    sock.incoming.append(data)
    node.connections.loop.readers[sock]()  # type: ignore[attr-defined]
    while node.store.has_pending:
        node.store.commit_turn()
    node.connections.end_turn()
    node.store.end_turn()


def count_calls(send: Callable[[], None]) -> Counter[str]:
    """The calls of one `send` after WARM_UP others."""
    found: Counter[str] = Counter()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            found[f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}"] += 1  # type: ignore[attr-defined]  # 3.11
        elif event == "c_call":
            found[f"{getattr(argument, '__module__', None) or 'builtins'}.{argument.__qualname__}"] += 1

    for _ in range(WARM_UP):
        send()
    sys.setprofile(note)
    send()
    sys.setprofile(None)
    return Counter({name: count for name, count in found.items() if not name.startswith(("bench.", "tests.", "__main__"))})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", choices=[*REQUESTS, REFUSAL, HTTP2_GET], help="print the functions that this request calls")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        node = Node(Path(folder))
        wire = node.connect()
        rows = [{"id": f"p{n}", "name": f"n{n}", "price": n, "inStock": n % 2 == 0} for n in range(RECORDS)]
        assert wire.ask("POST", "/Product/", json.dumps(rows).encode())[0] == 201
        measured = {name: calls_of(node, wire, *request) for name, request in REQUESTS.items()}
        measured[REFUSAL] = calls_of(node, wire, "GET", "/Product/p7", b"", "example.com", REFUSAL)
        measured[HTTP2_GET] = http2_calls_of(node, Client(node), "GET", "/Product/p7")
        for name, calls in measured.items():
            if arguments.list is None:
                of_svc = sum(count for function, count in calls.items() if function.startswith("svc."))
                print(f"{name:10} {of_svc:5} of svc {calls.total():5} in all")
            elif arguments.list == name:
                for function, count in calls.most_common():
                    print(f"{count:5}  {function}")
        node.close()


if __name__ == "__main__":
    main()
