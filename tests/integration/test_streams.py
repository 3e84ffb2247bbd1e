"""Collections that are streamed by the real program: what they cost the server, and what a client that goes away leaves (spec: http §8)."""

from __future__ import annotations

import socket
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from tests.integration.conftest import PASSWORD, Process
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

COUNT = 40_000
TEXT = "x" * 400
SPARE = 24 << 20  # bytes of memory that come and go with anything


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    process = Process(tmp_path_factory.mktemp("streams") / "root").start()
    with process.client() as client:
        for start in range(0, COUNT, 10_000):
            client.put("/Doc/", json=[{"id": f"{n:06}", "text": TEXT} for n in range(start, start + 10_000)]).raise_for_status()
    yield process
    assert process.stop() == 0


def snapshots(process: Process) -> int:
    """The read transactions that the server has open, as LMDB's lock table tells."""
    environment = lmdb.open(str(process.root / "database" / "data"), readonly=True, create=False)
    rows = [line.split() for line in environment.readers().splitlines()]
    environment.close()
    return sum(row[0] == str(process.pid) and row[2] != "-" for row in rows if len(row) == 3)


def anonymous(process: Process) -> int:
    """Bytes of memory that are not a mapped file."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def ask(process: Process) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 10)
    sock.settimeout(60)
    sock.connect(("127.0.0.1", process.port))
    login = b64encode(f"admin:{PASSWORD}".encode()).decode()
    sock.sendall(f"GET /Doc/ HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {login}\r\nConnection: close\r\n\r\n".encode())
    assert sock.recv(1024).startswith(b"HTTP/1.1 200 OK")
    return sock


def test_everything_arrives(filled: Process) -> None:
    with filled.client() as client:
        found = client.get("/Doc/").json()
    assert [record["id"] for record in found] == [f"{n:06}" for n in range(COUNT)]


def test_clients_that_do_not_read_cost_a_buffer_each(filled: Process) -> None:
    with filled.client() as client:
        client.get("/Doc/?limit(3000)").raise_for_status()
        before = anonymous(filled)
        waiting = [ask(filled) for _ in range(8)]
        for _ in range(50):
            assert client.get("/Doc/000007").status_code == 200, "others are served"
        # The turn that has answered last ends its own a moment after the answer.
        wait_until(lambda: snapshots(filled) == 1, lambda: snapshots(filled))  # all began at the same state
        grown = anonymous(filled) - before
        for sock in waiting:
            sock.close()
    assert COUNT * len(TEXT) * len(waiting) > 4 * SPARE
    assert grown < SPARE, f"{grown >> 20} MiB for {len(waiting)} answers that nobody reads"


def test_a_client_that_goes_away_takes_its_snapshot_with_it(filled: Process) -> None:
    waiting = []
    with filled.client() as client:
        for number in range(3):  # each of another state of the database: they do not share one
            client.put("/Doc/000007", json={"text": f"{number:0400}"}).raise_for_status()
            waiting.append(ask(filled))
        wait_until(lambda: snapshots(filled) == len(waiting), lambda: snapshots(filled))
        for sock in waiting:
            sock.close()
        assert client.get("/Doc/000007").status_code == 200
    wait_until(lambda: not snapshots(filled), "the snapshots of clients that are gone are still open")


def test_a_slow_client_gets_what_was_there_when_it_asked(filled: Process) -> None:
    with ask(filled) as sock, filled.client() as client:
        client.put("/Doc/", json=[{"id": f"{n:06}", "text": "changed"} for n in range(0, COUNT, 100)]).raise_for_status()
        answer = b""
        while data := sock.recv(1 << 20):
            answer += data
        client.put("/Doc/", json=[{"id": f"{n:06}", "text": TEXT} for n in range(0, COUNT, 100)]).raise_for_status()
    assert b"changed" not in answer and f'"id":"{COUNT - 1:06}"'.encode() in answer
