"""Tickets over the network: pages of another site with WebSockets and event streams (spec: security §3, http §11.4)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.integration.conftest import PASSWORD, Process
from tests.support.waiting import LIMIT

pytestmark = pytest.mark.programs

PAGE = {"Origin": "https://elsewhere.example"}
MADE: list[str] = []  # none of them may be in a log
LOGGED: list[str] = []  # what must be
SCHEMA = "type Plant @table @export { id: ID @primaryKey, name: String @indexed }\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    MADE.clear()
    LOGGED.clear()  # a worker may come back to this module
    root: Path = tmp_path_factory.mktemp("tickets")
    app = root / "app"
    app.mkdir()
    (app / "config.yaml").write_text("rest: true\nlogin: true\ngraphql: {extended: true}\ngraphqlSchema: {files: '*.graphql'}\n")
    (app / "schema.graphql").write_text(SCHEMA)
    env = {"HTTP_LOGGING": '{"level": "info"}', "LOGGING_LEVEL": "info"}
    process = Process(root / "svc", app, env=env).start()
    with process.client() as client:
        client.put("/Plant/1", json={"name": "fern"}).raise_for_status()
    yield process
    assert process.stop() == 0, process.output()
    log = process.logged()
    assert "Traceback" not in log and all(line in log for line in LOGGED), log
    assert not [made for made in MADE if made in log]


@pytest.fixture
def token(server: Process) -> str:
    answer = server.operate("create_authentication_tokens", auth=None, username="admin", password=PASSWORD)
    return str(answer.json()["operation_token"])


def ticket(server: Process, token: str) -> str:
    """As a page of another site gets it."""
    answer = httpx.post(f"{server.url}/ticket", headers={**PAGE, "Authorization": f"Bearer {token}"})
    assert (answer.status_code, answer.headers["cache-control"], answer.headers["access-control-allow-origin"]) == (201, "no-store", "*")
    assert set(answer.json()) == {"ticket", "expires"}
    MADE.append(answer.json()["ticket"])
    return MADE[-1]


def closed_with(address: str) -> int | None:
    with connect(address, additional_headers=PAGE) as ws, pytest.raises(ConnectionClosed) as closed:
        ws.recv(LIMIT)
    return None if closed.value.rcvd is None else closed.value.rcvd.code


def test_websocket_and_event_stream(server: Process, token: str) -> None:
    made = ticket(server, token)
    address = server.url.replace("http", "ws") + f"/Plant/1?ticket={made}"
    with connect(address, additional_headers=PAGE) as ws:
        assert json.loads(ws.recv(LIMIT))["value"] == {"id": "1", "name": "fern"}
        assert closed_with(address) == 3000  # it is good once
    LOGGED.append("GET /Plant/1 HTTP")
    other = ticket(server, token)
    fields = {**PAGE, "Accept": "text/event-stream"}
    with httpx.stream("GET", f"{server.url}/Plant/?name=fern&ticket={other}&live()", headers=fields, timeout=LIMIT) as stream:
        assert stream.status_code == 200
        assert "fern" in next(line for line in stream.iter_lines() if line.startswith("data:"))
    assert httpx.get(f"{server.url}/Plant/?ticket={other}", headers=fields).status_code == 401
    assert closed_with(server.url.replace("http", "ws") + "/Plant/1") == 3000


def test_graphql_socket(server: Process, token: str) -> None:
    address = server.url.replace("http", "ws") + f"/graphql?ticket={ticket(server, token)}"
    with connect(address, additional_headers=PAGE, subprotocols=["graphql-transport-ws"]) as ws:  # type: ignore[list-item]
        ws.send(json.dumps({"type": "connection_init"}))
        assert json.loads(ws.recv(LIMIT))["type"] == "connection_ack"
        for number in ("1", "2"):  # each operation is a request of its own
            ws.send(json.dumps({"id": number, "type": "subscribe", "payload": {"query": '{ Plant(id: "1") { name } }'}}))
            assert json.loads(ws.recv(LIMIT))["payload"]["data"] == {"Plant": [{"name": "fern"}]}
            assert json.loads(ws.recv(LIMIT))["type"] == "complete"


def test_who_gets_one(server: Process, token: str) -> None:
    address = f"{server.url}/ticket"
    assert httpx.post(address).status_code == 401
    assert httpx.post(address, auth=("admin", PASSWORD)).status_code == 201
    assert httpx.post(address, auth=("admin", PASSWORD), headers=PAGE).status_code == 401
    assert httpx.get(address, auth=("admin", PASSWORD)).status_code == 405
    with httpx.Client(base_url=server.url) as browser:
        assert browser.post("/login", json={"username": "admin", "password": PASSWORD}).status_code == 200
        assert browser.post("/ticket", headers={"Origin": server.url}).status_code == 201
        assert browser.post("/ticket", headers=PAGE).status_code == 401


def test_a_ticket_elsewhere_opens_nothing(server: Process, token: str) -> None:
    made = ticket(server, token)
    assert httpx.get(f"{server.url}/Plant/1?ticket={made}").status_code == 401
    assert httpx.get(f"{server.url}/Plant/?ticket={made}").status_code == 401
    LOGGED.append("GET /Plant/?ticket=*** HTTP")
    assert httpx.post(f"{server.operations_url}/?ticket={made}", json={"operation": "describe_all"}).status_code == 401


def test_what_a_preflight_admits(server: Process) -> None:
    asked = {**PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    answer = httpx.options(f"{server.url}/ticket", headers=asked)
    admitted = {name.strip().lower() for name in answer.headers["access-control-allow-headers"].split(",")}
    assert admitted == {
        "accept", "authorization", "content-type", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "prefer", "range",
        "idempotency-key", "last-event-id", "x-requested-with",
    }  # fmt: skip
