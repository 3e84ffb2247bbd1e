"""SIGTERM: what is under way is finished, then the process ends with status 0; a second signal ends it at once (spec: configuration §6.4)."""

from __future__ import annotations

import signal
import socket
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import PASSWORD, Process
from tests.support.server_hooks import LONG_DRAIN
from tests.support.waiting import LIMIT, wait_until

pytestmark = pytest.mark.programs

AUTHORIZATION = "Basic " + b64encode(f"admin:{PASSWORD}".encode()).decode()
HEAD = f"PUT /Doc/last HTTP/1.1\r\nHost: x\r\nAuthorization: {AUTHORIZATION}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n"
HEAD += "Expect: 100-continue\r\n\r\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Process]:
    server = Process(tmp_path / "root", env={"SVC_TEST_HOOK": LONG_DRAIN}).start()
    yield server
    server.kill()


def begin_upload(server: Process) -> socket.socket:
    """A request that the server waits for the body of, which has begun and is not complete."""
    sock = socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT)
    sock.sendall(HEAD.encode())
    assert sock.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
    sock.sendall(b'{"a"')
    return sock


def wait_until_refused(server: Process) -> None:
    """New connections are refused as soon as the stop has begun."""

    def is_refused() -> bool:
        try:
            socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT).close()
        except ConnectionError:
            return True
        return False

    wait_until(is_refused, "still accepting")


def test_what_is_under_way_is_finished(server: Process) -> None:
    assert server.process is not None
    with begin_upload(server) as sock:
        server.process.send_signal(signal.SIGTERM)
        wait_until_refused(server)
        assert server.process.poll() is None
        sock.sendall(b":1  }")
        answer = sock.recv(65536)
        assert answer.startswith(b"HTTP/1.1 204 ")
        assert b"connection: close" in answer.lower()
        assert sock.recv(1) == b""
    assert server.process.wait(LIMIT) == 0
    server.start()
    with server.client() as client:
        assert client.get("/Doc/last").json() == {"a": 1, "id": "last"}


def test_a_second_signal_does_not_wait(server: Process) -> None:
    assert server.process is not None
    with begin_upload(server):
        server.process.send_signal(signal.SIGINT)
        wait_until_refused(server)
        assert server.process.poll() is None
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(LIMIT) == 0
