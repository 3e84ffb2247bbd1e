"""A real server that is asked for more than it can do refuses what has waited for too long, and goes on (spec: http §14)."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.integration.conftest import LIMIT, PASSWORD, Process, authorization
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

SOURCE = """\
import os
import time
from pathlib import Path

from svc import Resource

GATE = Path(os.environ["GATE"])


class Gate(Resource):
    def get(self, target):
        (GATE / "closed").touch()
        while not (GATE / "open").exists():
            time.sleep(0.01)
        return {}


class Slow(Resource):
    def get(self, target):
        time.sleep(0.02)
        return {}

    def put(self, data, target):
        time.sleep(0.02)
"""
CLIENTS = 100
GET = f"GET /Slow/1 HTTP/1.1\r\nHost: a\r\nAuthorization: {authorization()}\r\n\r\n".encode()
PUT = f"PUT /Slow/1 HTTP/1.1\r\nHost: a\r\nAuthorization: {authorization()}\r\nContent-Length: 2\r\n\r\n{{}}".encode()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Process]:
    app = tmp_path / "app"
    app.mkdir()
    (app / "config.yaml").write_text("rest: true\nresources: {files: resources.py}\n")
    (app / "resources.py").write_text(SOURCE)
    process = Process(tmp_path / "root", app, env={"GATE": str(tmp_path), "HTTP_REQUESTAGELIMIT": "150"}).start()
    yield process
    process.stop()


def answer(client: socket.socket, buffer: bytearray) -> tuple[int, dict[str, str], bytes]:
    """The next answer on a connection. `buffer`: what has come behind the one before."""
    while (end := buffer.find(b"\r\n\r\n")) < 0:
        data = client.recv(65536)
        assert data, "closed without an answer"
        buffer += data
    line, *lines = buffer[:end].decode().split("\r\n")
    fields = dict(each.lower().split(": ", 1) for each in lines)
    whole = end + 4 + int(fields.get("content-length", "0"))
    while len(buffer) < whole:
        buffer += client.recv(65536)
    body = bytes(buffer[end + 4 : whole])
    del buffer[:whole]
    return int(line.split()[1]), fields, body


def test_a_queue_is_shed_and_the_server_goes_on(server: Process, tmp_path: Path) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port), LIMIT)) for _ in range(CLIENTS)]
        buffers = [bytearray() for _ in clients]
        clients[0].sendall(GET)  # the password is verified once
        assert answer(clients[0], buffers[0])[0] == 200
        gate = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), LIMIT))
        gate.sendall(GET.replace(b"Slow", b"Gate"))
        wait_until((tmp_path / "closed").exists)
        health = stack.enter_context(socket.create_connection(("127.0.0.1", server.operations_port), LIMIT))
        health.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
        for number, client in enumerate(clients):
            client.sendall(PUT if number % 10 == 0 else GET + GET if number % 10 == 1 else GET)
        (tmp_path / "open").touch()
        assert answer(gate, bytearray())[0] == 200
        assert answer(health, bytearray())[0] == 200
        statuses = []
        for number, (client, buffer) in enumerate(zip(clients, buffers, strict=True)):
            for _ in range(2 if number % 10 == 1 else 1):
                status, fields, body = answer(client, buffer)
                statuses.append(status)
                assert status in (200, 204) or (status == 503 and fields["retry-after"] == "1" and b'"OVERLOADED"' in body)
                assert fields.get("connection") != "close"
        refused = statuses.count(503)
        assert len(statuses) > refused > CLIENTS // 4
        for client, buffer in zip(clients[:20], buffers, strict=False):
            client.sendall(GET)
            assert answer(client, buffer)[0] == 200

        def count() -> int:
            text = httpx.get(f"{server.operations_url}/metrics", auth=("admin", PASSWORD), timeout=LIMIT).text
            return sum(int(float(value)) for value in re.findall(r"^svc_requests_shed_total\{.*\} (\S+)$", text, re.MULTILINE))

        wait_until(lambda: count() == refused)
        wait_until(lambda: "overloaded: requests are refused with 503" in server.logged(), server.logged)
