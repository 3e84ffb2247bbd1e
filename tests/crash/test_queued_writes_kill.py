"""kill -9 with queued writes: what was acknowledged is there, what was not is whole or absent, `svc check` agrees."""

from __future__ import annotations

import json
import random
import socket
from pathlib import Path

import pytest

from tests.integration.conftest import Process
from tests.support.crash import AUTHORIZATION, Client, Expected, check, rounds
from tests.support.server_hooks import SEEN_QUEUE

pytestmark = pytest.mark.programs

ROUNDS = rounds(2)
WRITERS = 6
ENOUGH = 600  # acknowledged writes before the kill


class QueuingWriter(Client):
    """Puts, creates and deletes records. Each request goes out in one piece, and the same way as those before it: so it is queued."""

    def run(self) -> None:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=30) as sock:
                self._write(sock)
        except OSError:
            pass  # the server has been killed

    def _write(self, sock: socket.socket) -> None:
        for number in range(1_000_000):
            key = f"{self.name}-{number if number % 3 == 0 else self.random.randrange(20)}"
            state = None if number % 5 == 4 else {"name": f"s{number}", "price": number, "tags": [f"t{number % 5}"], "id": key}
            method, path = (
                ("DELETE", f"/Product/{key}") if state is None else ("POST", "/Product/") if number % 3 == 0 else ("PUT", f"/Product/{key}")
            )
            body = b"" if state is None else json.dumps(state).encode()
            fields = "" if state is None else f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            self.attempted.setdefault(key, []).append(state)
            sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {AUTHORIZATION}\r\n{fields}\r\n".encode() + body)
            answer = b""
            while b"\r\n\r\n" not in answer or (b"Content-Length" in answer and not answer.endswith(b'"')):
                piece = sock.recv(65536)
                if not piece:
                    return
                answer += piece
            assert answer.startswith(b"HTTP/1.1 20"), answer
            self.acknowledged[key] = state
            self.attempted[key] = []
            self.answers += 1


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    seen = tmp_path / "queued"
    server = Process(tmp_path / "root", env={"SVC_TEST_HOOK": SEEN_QUEUE, "SVC_TEST_QUEUED": str(seen)}).start()
    expected = Expected()
    for round_number in range(ROUNDS):
        before = seen.stat().st_size if seen.exists() else 0
        writers = [QueuingWriter(server.port, f"r{round_number}w{number}", number) for number in range(WRITERS)]
        expected.kill(server.kill, writers, answers=ENOUGH, delay=random.Random(round_number).random() * 0.2)
        assert seen.stat().st_size > before
        check(server.root)
        server.start()
        with server.client() as client:
            for key in expected.all_keys():
                response = client.get(f"/Product/{key}")
                expected.found(key, response.json() if response.status_code == 200 else None)
            indexed = {r["id"] for n in range(5) for r in client.get(f"/Product/?tags=t{n}").json()}
            assert indexed == {key for key, state in expected.acknowledged.items() if state is not None}
    assert server.stop() == 0
