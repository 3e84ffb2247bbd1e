"""WebSockets on resources of the real program, with a client that is not ours (spec: realtime §1, §2)."""

from __future__ import annotations

import json
import socket
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import cbor2
import httpx
import msgspec
import pytest
import yaml
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.integration.conftest import PASSWORD, Process
from tests.support.streams import EventClient
from tests.support.waiting import LIMIT

pytestmark = pytest.mark.programs

SCHEMA = """
type Thing @table @export { id: ID @primaryKey  n: Int  text: String }
type Silent @table @export(ws: false) { id: ID @primaryKey }
type Only @table @export(rest: false, sse: false) { id: ID @primaryKey }
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server of our own, for what fills it, and for its export flags."""
    app = tmp_path_factory.mktemp("app") / "things"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    running = Process(tmp_path_factory.mktemp("sockets") / "root", app).start()
    yield running
    assert running.stop() == 0, running.output()
    assert not [line for line in running.logged().splitlines() if "[error]" in line or "Traceback" in line]


@pytest.fixture
def prefix() -> str:
    """Keys of this test alone begin so."""
    return uuid4().hex[:8]


def login(name: str = "admin", password: str = PASSWORD) -> str:
    return "Basic " + b64encode(f"{name}:{password}".encode()).decode()


def listen(
    process: Process, target: str, authorization: str | None = "", protocols: list[str] | None = None, **fields: str
) -> ClientConnection:
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    if authorization is not None:
        headers["Authorization"] = authorization or login()
    return connect(
        f"ws://127.0.0.1:{process.port}{target}",
        additional_headers=headers,
        subprotocols=protocols,  # type: ignore[arg-type]
        open_timeout=LIMIT,
        max_size=None,
        compression=None,
    )


def hear(ws: ClientConnection) -> Any:
    return json.loads(ws.recv(timeout=LIMIT))


def ending(ws: ClientConnection) -> tuple[int, str]:
    """The code and the reason with which the server closes, whatever it says before."""
    try:
        while True:
            ws.recv(timeout=LIMIT)
    except ConnectionClosed as closed:
        assert closed.rcvd is not None
        return closed.rcvd.code, closed.rcvd.reason


def refusal(process: Process, target: str, **options: Any) -> int:
    with pytest.raises(InvalidStatus) as refused:
        listen(process, target, **options)
    assert refused.value.response.headers["Content-Type"] == "application/problem+json"
    return refused.value.response.status_code


def test_the_life_of_a_record(server: Process, client: httpx.Client, prefix: str) -> None:
    target = f"/Product/{prefix}"
    client.put(target, json={"name": "Keyboard"})
    with listen(server, target) as ws:
        first = hear(ws)
        assert list(first) == ["type", "id", "value", "version", "timestamp", "localTime"]
        assert (first["type"], first["value"]) == ("put", {"name": "Keyboard", "id": prefix})
        client.patch(target, json={"price": 45})
        assert hear(ws)["value"] == {"name": "Keyboard", "price": 45, "id": prefix}
        client.delete(target)
        gone = hear(ws)
        assert (gone["type"], gone["id"], gone["value"]) == ("delete", prefix, None)


def test_a_collection_with_conditions(server: Process, client: httpx.Client, prefix: str) -> None:
    for name, price in (("b", 200), ("a", 300), ("c", 1)):
        client.put(f"/Product/{prefix}/{name}", json={"price": price})
    with listen(server, f"/Product/{prefix}/?price=gt=100&select(price)") as ws:
        assert [hear(ws)["value"] for _ in range(2)] == [300, 200]
        client.put(f"/Product/{prefix}/d", json={"price": 5})
        client.put(f"/Product/{prefix}/e", json={"price": 500})
        assert hear(ws)["value"] == 500


@pytest.mark.parametrize(
    ("address", "accept", "is_text"),
    [
        ("", "application/json", True),
        ("", "application/cbor", False),
        ("", "application/x-msgpack", False),
        ("", "text/csv", True),
        ("", "application/x-ndjson", True),
        ("", "text/yaml", True),
        ("", "text/plain", True),
        (".json", "application/cbor", True),
        (".cbor", "application/json", False),
        (".msgpack", "application/json", False),
        (".csv", "application/json", True),
    ],
)
def test_types(server: Process, client: httpx.Client, prefix: str, address: str, accept: str, is_text: bool) -> None:
    client.put(f"/Product/{prefix}", json={"image": "YWI=", "listDate": "2024-01-05T00:00:00.000Z"})
    with listen(server, f"/Product/{prefix}{address}", Accept=accept) as ws:
        message = ws.recv(timeout=LIMIT)
    assert isinstance(message, str) == is_text
    kind = address[1:] or accept.rpartition("/")[2]
    if kind == "csv":
        assert str(message).startswith('"type","id","value","version","timestamp","localTime"\r\n"put",')
        return
    decode = {"cbor": cbor2.loads, "msgpack": msgspec.msgpack.decode, "x-msgpack": msgspec.msgpack.decode, "yaml": yaml.safe_load}
    found: Any = decode.get(kind, json.loads)(message)
    assert (found["type"], found["id"]) == ("put", prefix)
    assert found["value"]["image"] == ("YWI=" if is_text and kind != "yaml" else b"ab")


def test_a_type_that_is_not_there_refuses_the_handshake(server: Process, prefix: str) -> None:
    assert refusal(server, f"/Product/{prefix}", Accept="image/png") == 406


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/Nothing", 404),
        ("/Product//x", 400),
        ("/counters/x", 400),
        ("/Product/?sort(name)", 400),
        ("/Product/?limit(1)", 400),
        ("/Product/?[name=x", 400),
        ("/Product/?brand.name=Acme", 400),
        ("/Product/?nothing=1", 400),
        ("/Product/?inStock==true", 400),
        ("/Product/?nothing=1&live()", 400),
    ],
)
def test_faults_refuse_the_handshake(server: Process, target: str, status: int) -> None:
    assert refusal(server, target) == status


def test_who_is_not_let_in_is_told_by_a_code(server: Process) -> None:
    with listen(server, "/Product/", None) as ws:
        assert ending(ws) == (3000, "Must login")
    with listen(server, "/Product/", login(password="wrong")) as ws:
        assert ending(ws) == (3000, "Login failed")


def test_export_flags(process: Process) -> None:
    assert refusal(process, "/Silent/") == 404
    with listen(process, "/Only/", Accept="application/json") as ws:
        assert ws.protocol.state.name == "OPEN"


def test_an_application_may_have_no_sockets(tmp_path: Path) -> None:
    app = tmp_path / "things"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    (app / "config.yaml").write_text("rest:\n  webSocket: false\ngraphqlSchema:\n  files: '*.graphql'\n")
    running = Process(tmp_path / "root", app).start()
    try:
        assert refusal(running, "/Thing/") == 404
        with running.client() as client:
            assert client.get("/Thing/").status_code == 200
        assert running.stop() == 0
    finally:
        running.kill()


def test_the_first_protocol_is_echoed(server: Process, prefix: str) -> None:
    with listen(server, f"/Product/{prefix}", protocols=["chat", "superchat"]) as ws:
        assert ws.subprotocol == "chat"
    with listen(server, "/anywhere", protocols=["mqtt"]) as ws:  # test_mqtt_clients has more of it
        assert ws.subprotocol == "mqtt"


def test_what_the_client_says_is_ignored(server: Process, client: httpx.Client, prefix: str) -> None:
    with listen(server, f"/Product/{prefix}") as ws:
        for message in ('{"type":"put"}', "text", b"\x00\x01", "x" * 100_000):
            ws.send(message)
        client.put(f"/Product/{prefix}", json={"stock": 1})
        assert hear(ws)["value"]["stock"] == 1


def test_what_is_not_of_the_type_it_said_ends_it(server: Process, prefix: str) -> None:
    with listen(server, f"/Product/{prefix}", Content_Type="application/json") as ws:
        ws.send('{"a":1}')
        ws.send("{half")
        code, reason = ending(ws)
        assert code == 1007 and "JSON" in reason


class Reader:
    """A user of his own, with a role of his own."""

    def __init__(self, process: Process, name: str) -> None:
        self.process = process
        self.name = name
        process.operate("add_role", role=name, permission=self.permission(True)).raise_for_status()
        process.operate("add_user", role=name, username=name, password=PASSWORD, active=True).raise_for_status()

    @staticmethod
    def permission(read: bool) -> dict[str, Any]:
        table = {"read": read, "insert": False, "update": False, "delete": False, "attribute_permissions": []}
        return {"super_user": False, "data": {"tables": {"Thing": table}}}

    def may(self, read: bool) -> None:
        roles = self.process.operate("list_roles").json()
        [found] = [role for role in roles if role["role"] == self.name]
        self.process.operate("alter_role", id=found["id"], permission=self.permission(read)).raise_for_status()

    def listen(self, target: str) -> ClientConnection:
        return listen(self.process, target, login(self.name))


def test_rights_that_go_close_it(process: Process, prefix: str) -> None:
    reader = Reader(process, f"reader{prefix}")
    with process.client() as admin, reader.listen(f"/Thing/{prefix}") as ws, reader.listen("/Thing/?live()") as live:
        admin.put(f"/Thing/{prefix}", json={"n": 1})
        assert hear(ws)["value"]["n"] == 1
        reader.may(False)
        assert ending(ws) == (3003, "Access denied")
        assert ending(live)[0] == 3003
    with reader.listen("/Thing/") as ws:
        assert ending(ws) == (3003, "Unauthorized access to resource")
    reader.may(True)
    with reader.listen(f"/Thing/{prefix}") as ws:
        process.operate("drop_user", username=reader.name).raise_for_status()
        assert ending(ws) == (3000, "Login required")


def test_a_live_query(process: Process, prefix: str) -> None:
    with process.client() as client:
        client.put(f"/Thing/{prefix}/1", json={"n": 1})
        with listen(process, f"/Thing/{prefix}/?sort(n)&limit(2)&live()") as ws:
            assert [hear(ws)["type"] for _ in range(2)] == ["snapshot", "ready"]
            client.put(f"/Thing/{prefix}/2", json={"n": 0})
            entered = hear(ws)
            assert (entered["type"], entered["id"], entered["index"]) == ("enter", f"{prefix}/2", 0)


def test_a_snapshot_of_ten_thousand_records(process: Process, prefix: str) -> None:
    with process.client() as client:
        for first in range(0, 10_000, 2000):
            rows = [{"id": f"{prefix}/{number:05}", "n": number} for number in range(first, first + 2000)]
            client.put("/Thing/", json=rows).raise_for_status()
        with listen(process, f"/Thing/{prefix}/") as ws:
            assert [hear(ws)["value"]["n"] for _ in range(10_000)] == list(range(10_000))


def test_many_writes_reach_many_listeners_in_order(process: Process, prefix: str) -> None:
    count = 300
    with process.client() as client, ExitStack() as stack:
        sockets = [stack.enter_context(listen(process, f"/Thing/{prefix}/")) for _ in range(20)]

        def write() -> None:
            for number in range(count):
                client.put(f"/Thing/{prefix}/{number % 7}", json={"n": number}).raise_for_status()

        writing = threading.Thread(target=write)
        writing.start()
        try:
            for ws in sockets:
                assert [hear(ws)["value"]["n"] for _ in range(count)] == list(range(count))
        finally:
            writing.join()


def test_who_does_not_read_is_closed_as_too_slow(process: Process, prefix: str) -> None:
    with process.client() as client:
        client.put(f"/Thing/{prefix}/first", json={})
        with socket.create_connection(("127.0.0.1", process.port)) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 17)
            key = b64encode(b"0123456789abcdef").decode()
            head = f"GET /Thing/{prefix}/ HTTP/1.1\r\nHost: localhost\r\nAuthorization: {login()}\r\nUpgrade: websocket\r\n"
            head += f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
            sock.sendall(head.encode())
            assert sock.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 101"
            sock.settimeout(LIMIT)
            for number in range(20):
                rows = [{"id": f"{prefix}/{each:04}", "n": number, "text": "x" * 1000} for each in range(1000)]
                client.put("/Thing/", json=rows).raise_for_status()
            received = b""
            while b"The events were not taken fast enough" not in received[-100:]:
                piece = sock.recv(1 << 20)
                assert piece, "the close frame is missing"
                received += piece
            assert received[-39:-37] == (1013).to_bytes(2, "big")
            assert received.count(b'"type":"put"') < 15_000


def test_a_stop_says_goodbye(tmp_path: Path) -> None:
    app = tmp_path / "things"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    running = Process(tmp_path / "root", app).start()
    try:
        with listen(running, "/Thing/") as ws:
            stopping = threading.Thread(target=running.stop)
            stopping.start()
            assert ending(ws)[0] == 1001
            stopping.join()
        assert running.process is not None and running.process.returncode == 0
    finally:
        running.kill()


def test_figures(process: Process, prefix: str) -> None:
    """What the server counts of them (spec: analytics §3, §4)."""
    wanted = {("ws-connections", None), ("bytes-sent", "ws"), ("connection", "ws"), ("bytes-sent", None)}
    with process.client() as client, listen(process, f"/Thing/{prefix}") as ws:
        began = time.time() * 1000
        with listen(process, f"/Thing/{prefix}"), EventClient(client, f"/Thing/{prefix}") as stream:
            client.put(f"/Thing/{prefix}", json={"n": 1})
            stream.next()
        hear(ws)
        found: dict[tuple[str, str | None], dict[str, Any]] = {}
        deadline = time.monotonic() + LIMIT
        while not wanted <= found.keys():
            assert time.monotonic() < deadline, found.keys()
            time.sleep(0.1)  # rows are written once a second
            condition = {"attribute": "id", "comparator": "greater_than_equal", "value": began}
            rows = process.operate("search_by_conditions", database="system", table="svc_raw_analytics", conditions=[condition]).json()
            for row in rows:
                for entry in row["metrics"]:
                    if entry["metric"] in ("ws-connections", "connection") or entry.get("path") == "Thing":
                        found[entry["metric"], entry.get("type")] = entry
        message, stream_bytes = found["bytes-sent", "ws"], found["bytes-sent", None]
        assert (message["path"], message["method"]) == ("Thing", "message")
        assert stream_bytes["method"] in ("GET", "PUT")
        assert found["connection", "ws"]["method"] in ("connect", "disconnect")
        assert found["ws-connections", None]["connections"] >= 1
