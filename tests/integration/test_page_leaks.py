"""Clients of pages that leave in the middle, send slowly, or never come back: the server holds afterwards what it held before (spec: http §7.6, §7.8).

That it does is what `conftest.py` tests after each test.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest

from tests.integration.conftest import PASSWORD, Process, authorization
from tests.support.leaks import memory_of

pytestmark = pytest.mark.programs

SCHEMA = "type Wide @table @export { id: ID @primaryKey n: Int @indexed text: String }"
HTML = {"accept": "text/html"}
AUTH = ("admin", PASSWORD)
CLIENTS = 20
FORM = 16 << 20  # bytes that each client sends of a form of 60 MiB
TOKEN = re.compile(r'name="_token" value="([0-9a-f]+)"')


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    root = tmp_path_factory.mktemp("leaks")
    app = root / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    process = Process(root / "data", app).start()
    records = [{"id": f"{number:05}", "n": number, "text": "x" * 500} for number in range(5000)]
    body = {"operation": "insert", "table": "Wide", "records": records}
    assert httpx.post(process.operations_url, json=body, auth=AUTH, timeout=60).status_code == 200
    for address in (f"{process.url}/Wide/", f"{process.url}/Wide/00001?_view=edit", f"{process.operations_url}/console/"):
        assert httpx.get(address, auth=AUTH, headers=HTML, timeout=60).status_code == 200
    yield process
    process.stop()


def connected(port: int, request: str, body: bytes = b"") -> socket.socket:
    """A connection with a request on it, whose answer nobody has read."""
    connection = socket.create_connection(("127.0.0.1", port), 60)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    head = f"{request} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: {authorization()}\r\nAccept: text/html\r\n"
    connection.sendall(head.encode() + body)
    return connection


def test_who_leaves_in_the_middle_of_an_answer(server: Process) -> None:
    paths = ["/Wide/?limit(500)", "/Wide/.csv", "/Wide/.json", "/Wide/00001", "/Wide/00001?_view=history", "/Wide/?_view=pick"]
    places = ["/console/", "/console/databases", "/console/charts", "/console/logs", "/console/audit?table=Wide", "/console/users"]
    for _ in range(3):
        with ExitStack() as stack:
            for path in paths * 3:
                stack.enter_context(closing(connected(server.port, f"GET {path}", b"\r\n"))).recv(1)
            for path in places * 3:
                stack.enter_context(closing(connected(server.operations_port, f"GET {path}", b"\r\n")))


def test_events_of_live_pages_end_with_the_page(server: Process) -> None:
    for _ in range(3):
        with ExitStack() as stack:
            for number in range(50):
                address = f"GET /Wide/{number:05}" if number % 2 else "GET /Wide/"
                head = b"Accept: text/event-stream\r\nX-Number: 1\r\n\r\n"
                connection = connected(server.port, address, head.replace(b"Accept", b"X-Other") if number % 5 == 4 else head)
                stack.enter_context(closing(connection)).recv(1)


def test_forms_that_never_end_are_given_up_with_their_clients(server: Process) -> None:
    """All of one caller count together; when they have gone, nothing of them stays."""
    memory = memory_of(server.pid)
    head = f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {60 << 20}\r\n\r\na=".encode()
    with ExitStack() as stack:
        for number in range(CLIENTS):
            port, path = (server.port, "/Wide/00001?_view=edit") if number % 2 else (server.operations_port, "/console/users")
            stack.enter_context(closing(connected(port, f"POST {path}", head + b"x" * FORM)))
        assert memory_of(server.pid) - memory < CLIENTS * FORM * 2 + (64 << 20)
        assert httpx.get(f"{server.url}/Wide/00001", auth=AUTH, headers=HTML, timeout=60).status_code == 200


def test_files_of_imports_that_are_not_run_are_bounded(server: Process) -> None:
    with httpx.Client(base_url=server.url, auth=AUTH, headers=HTML, timeout=60) as client:
        [token] = set(TOKEN.findall(client.get("/Wide/?_view=import").text))
        for _ in range(100):
            file = {"file": ("a.csv", b"id,n\na,1\n")}
            answer = client.post("/Wide/?_view=import", files=file, data={"step": "file", "_token": token})
            assert answer.status_code == 303, answer.text
            shown = client.get(f"/Wide/{answer.headers['location']}")
            assert shown.status_code == 200
    kept = [path for path in Path(server.root / "tmp" / "uploads").iterdir() if path.is_file()]
    assert len(kept) <= 20, kept


def test_many_followers_of_the_console(server: Process) -> None:
    def follow(number: int) -> set[int]:
        with httpx.Client(base_url=server.operations_url, auth=AUTH, headers=HTML, timeout=120) as client:
            return {client.get(path).status_code for path in ("/console/", "/console/instances", "/console/logs", "/console/jobs")}

    with ThreadPoolExecutor(50) as executor:
        found = set().union(*executor.map(follow, range(50)))
    assert found == {200}
