"""Subscriptions and mutations of the real program, with a client that is not ours; each test ends with what the server held before it."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from socket import SHUT_RDWR
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from svc.store.integrity.check import check_database
from tests.integration.conftest import PASSWORD, Process
from tests.support.ports import free_port

pytestmark = pytest.mark.programs

LIMIT = 120.0  # seconds for anything to arrive
SCHEMA = """
type Item @table @export { id: ID @primaryKey  name: String }
type Twin @table @export { id: ID @primaryKey  name: String }
"""
LOGIN = {"Authorization": "Basic " + b64encode(f"admin:{PASSWORD}".encode()).decode()}
GRAPHQL_PORT = free_port()
URL = f"http://127.0.0.1:{GRAPHQL_PORT}/graphql"
LIST = "subscription { Item { id name } }"


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    app = tmp_path_factory.mktemp("app") / "items"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    options = f"{{extended: true, port: {GRAPHQL_PORT}}}"  # the ports of applications are those of the unit tests
    (app / "config.yaml").write_text(f"rest: true\ngraphqlSchema: {{files: schema.graphql}}\ngraphql: {options}\n")
    running = Process(tmp_path_factory.mktemp("live") / "root", app).start()
    yield running
    assert running.stop() == 0, running.output()
    assert not [line for line in running.logged().splitlines() if "[error]" in line or "Traceback" in line]


@pytest.fixture(autouse=True)
def empty(process: Process) -> None:
    """Lists have what the test puts into them."""
    with process.client() as client:
        for table in ("Item", "Twin"):
            assert client.delete(f"/{table}/").status_code == 204


@contextmanager
def opened(process: Process, **options: Any) -> Iterator[ClientConnection]:
    url = f"ws://127.0.0.1:{GRAPHQL_PORT}/graphql"
    protocol = Subprotocol("graphql-transport-ws")
    with connect(url, subprotocols=[protocol], open_timeout=LIMIT, ping_interval=None, max_size=None, compression=None, **options) as ws:
        ws.send(json.dumps({"type": "connection_init", "payload": LOGIN}))
        assert hear(ws) == {"type": "connection_ack"}
        yield ws


def hear(ws: ClientConnection) -> Any:
    return json.loads(ws.recv(timeout=LIMIT))


def subscribe(ws: ClientConnection, id_: str, query: str) -> None:
    ws.send(json.dumps({"id": id_, "type": "subscribe", "payload": {"query": query}}))


def test_a_client_that_does_not_read_gets_the_newest_list(process: Process) -> None:
    with process.client() as client, opened(process, max_queue=1) as ws:
        for key in range(40):
            assert client.put(f"/Item/{key:02}", json={"name": "x" * 10_000}).status_code == 204
        subscribe(ws, "1", LIST)
        assert len(hear(ws)["payload"]["data"]["Item"]) == 40
        changes = 150
        for number in range(changes):
            assert client.put("/Item/00", json={"name": str(number)}).status_code == 204
        got = 0
        while hear(ws)["payload"]["data"]["Item"][0]["name"] != str(changes - 1):
            got += 1
        assert got < changes - 1
        ws.send(json.dumps({"id": "1", "type": "complete"}))
        subscribe(ws, "2", "mutation { " + " ".join(f'd{key}: delete_Item(id: "{key:02}")' for key in range(40)) + " }")
        assert set(hear(ws)["payload"]["data"].values()) == {True}
        assert hear(ws) == {"id": "2", "type": "complete"}  # what is not read holds up the end of the connection


def test_many_large_answers_at_once(process: Process) -> None:
    """A client with too much on its way to it is cut off, so the answers wait."""
    with process.client() as client, opened(process, max_queue=1) as ws:
        for key in range(10):
            assert client.put(f"/Item/{key}", json={"name": "x" * 100_000}).status_code == 204
        for number in range(40):
            subscribe(ws, str(number), "{ Item { id name } }")
        kinds = [hear(ws)["type"] for _ in range(80)]
        assert kinds == ["next", "complete"] * 40
        for key in range(10):
            assert client.delete(f"/Item/{key}").status_code == 204


def test_handshakes_of_a_port_of_its_own(process: Process) -> None:
    url = f"ws://127.0.0.1:{GRAPHQL_PORT}"
    for path, protocols, status in (("/graphql", None, 400), ("/graphql", [Subprotocol("graphql-ws")], 400), ("/Item/", None, 404)):
        with pytest.raises(InvalidStatus) as refused, connect(url + path, subprotocols=protocols, open_timeout=LIMIT):
            pass
        assert refused.value.response.status_code == status, refused.value.response


def test_clients_come_and_go(process: Process) -> None:
    """Some say goodbye, some do not, and some leave before they have their first list."""

    def visit(number: int) -> None:
        with opened(process) as ws:
            for id_ in range(5):
                subscribe(ws, str(id_), LIST)
            if number % 3:
                assert hear(ws)["type"] == "next"
            if number % 2:
                ws.socket.shutdown(SHUT_RDWR)

    def follow(number: int) -> None:
        headers = {**LOGIN, "Accept": "text/event-stream"}
        with (
            httpx.Client(timeout=LIMIT) as client,
            client.stream("POST", URL, json={"query": LIST}, headers=headers) as answer,
        ):
            assert answer.status_code == 200
            lines = answer.iter_lines()
            while number % 2 and next(lines) != "event: next":
                pass

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(visit if number < 24 else follow, number) for number in range(40)]:
            done.result()


def test_what_was_answered_survives_a_kill_and_nothing_is_half(process: Process) -> None:
    answered: list[str] = []
    query = "mutation ($id: ID!, $i: Any) { put_Item(id: $id, input: $i) { id } put_Twin(id: $id, input: $i) { id } }"
    enough = threading.Event()

    def write(name: str) -> None:
        with process.client() as client:
            for number in range(10_000):
                key = f"{name}-{number}"
                try:
                    answer = client.post(URL, json={"query": query, "variables": {"id": key, "i": {"name": key}}})
                except httpx.TransportError:
                    return
                assert answer.status_code == 200, answer.text
                answered.append(key)
                if len(answered) >= 100:
                    enough.set()

    writers = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for writer in writers:
        writer.start()
    assert enough.wait(LIMIT)
    process.kill()
    for writer in writers:
        writer.join()
    report = check_database(process.root / "database" / "data")
    assert report.ok, report.findings
    process.start()
    with process.client() as client:
        items, twins = ({each["id"] for each in client.get(f"/{name}/").json()} for name in ("Item", "Twin"))
    assert items == twins and set(answered) <= items


def test_subscriptions_end_with_the_server(process: Process, tmp_path: Path) -> None:
    with opened(process) as ws:
        subscribe(ws, "1", LIST)
        hear(ws)
        assert process.stop() == 0
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                hear(ws)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1001
    process.start()
