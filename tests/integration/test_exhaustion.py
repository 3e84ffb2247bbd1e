"""What one caller can use up: descriptors, and memory for answers that are not read."""

from __future__ import annotations

import resource
import socket
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import psutil
import pytest

from tests.integration.conftest import PASSWORD, Process
from tests.support.http2 import ClientEnd

pytestmark = pytest.mark.programs

BASIC = "Basic " + b64encode(f"admin:{PASSWORD}".encode()).decode()
LIMIT = 120.0  # seconds until a test gives up
DESCRIPTORS = 128


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    process = Process(tmp_path_factory.mktemp("exhausted") / "root").start()
    yield process
    assert process.stop() == 0, process.output()
    assert "Traceback" not in process.logged()


def connect(port: int, stack: ExitStack) -> socket.socket:
    return stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=LIMIT))


def wait_for_descriptors(process: Process, least: int) -> None:
    deadline = time.monotonic() + LIMIT
    while psutil.Process(process.pid).num_fds() < least:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_connections_of_the_application_leave_descriptors_to_operations(own: Process) -> None:
    with own.client() as client, ExitStack() as stack:
        assert client.put("/Product/kept", json={"name": "x"}).status_code == 204
        resource.prlimit(own.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
        for _ in range(DESCRIPTORS + 50):
            connect(own.port, stack)
        wait_for_descriptors(own, DESCRIPTORS * 3 // 4)
        for _ in range(5):
            assert own.operate("system_information", attributes=["system"]).status_code == 200
            assert client.get("/Product/kept").status_code == 200
        socket_path = own.root / "operations-server"
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket_path)), base_url="http://localhost", timeout=LIMIT) as local:
            assert local.get("/health").status_code == 200
        operators = [connect(own.operations_port, stack) for _ in range(DESCRIPTORS)]
        assert len(operators) == DESCRIPTORS
        wait_for_descriptors(own, DESCRIPTORS * 3 // 4 + DESCRIPTORS // 8)
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket_path)), base_url="http://localhost", timeout=LIMIT) as local:
            assert local.get("/health").status_code == 200
        deadline = time.monotonic() + LIMIT
        while "The last descriptors are reserved" not in own.logged():  # lines of the log are written in batches, see LOG_SECONDS
            assert time.monotonic() < deadline, own.logged()
            time.sleep(0.05)
    with httpx.Client(base_url=own.url, auth=("admin", PASSWORD), timeout=LIMIT) as client:
        assert client.get("/Product/kept").status_code == 200
    assert own.operate("system_information", attributes=["system"]).status_code == 200


def wait_for_growth_to_end(process: psutil.Process) -> int:
    """Its memory in bytes, once it has not grown for some looks."""
    deadline = time.monotonic() + LIMIT
    seen = [0]
    while max(seen[-5:]) > seen[-1] or len(seen) < 10 or seen[-1] > seen[-5]:
        assert time.monotonic() < deadline, seen
        time.sleep(0.05)
        seen.append(process.memory_info().rss)
    return seen[-1]


def test_answers_that_nobody_reads_take_little_memory(own: Process) -> None:
    """100 requests of 1 MB each on a connection of HTTP/2 whose windows are closed, and as many pipelined over HTTP/1.1."""
    process = psutil.Process(own.pid)
    with own.client() as client, ExitStack() as stack:
        assert client.put("/Doc/large", json={"text": "x" * 1_000_000}).status_code == 204
        for _ in range(20):
            assert len(client.get("/Doc/large").content) > 1_000_000
        before = wait_for_growth_to_end(process)
        for _ in range(4):
            greedy = ClientEnd(window=0, reads=False)
            sock = connect(own.port, stack)
            for _ in range(100):
                greedy.request("GET", "/Doc/large", {"authorization": BASIC})
            sock.sendall(greedy.data_to_send())
        pipelined = connect(own.port, stack)
        pipelined.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        pipelined.sendall(b"GET /Doc/large HTTP/1.1\r\nHost: a\r\nAuthorization: %b\r\n\r\n" % BASIC.encode() * 100)
        assert wait_for_growth_to_end(process) - before < 80_000_000
        assert client.get("/Doc/large").status_code == 200
