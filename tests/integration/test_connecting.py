"""Code of an application that is connected to clients of the real program: WebSockets on HTTP/1.1 and HTTP/2, event streams (spec: realtime §4)."""

from __future__ import annotations

import json
import socket
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.settings
import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, TextMessage

from tests.integration.conftest import PASSWORD, Process
from tests.support.streams import EventClient
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

LIMIT = 120.0  # seconds for anything to arrive

SCHEMA = """
type Room @table { id: ID @primaryKey text: String by: String }
type Ended @table @export { id: ID @primaryKey by: String }
"""

SOURCE = """
import asyncio
from svc import Resource, get_user, tables

class Chat(Resource):
    load_as_instance = False
    def allow_read(self, user, target):
        return user is not None and user.role.role != "outsider"
    async def connect(self, target, incoming=None):
        yield {"hello": target.id, "as": get_user().username}
        async for message in incoming:
            await tables.Room.put(target.id, {"text": message, "by": get_user().username})
            yield {"echo": message}
        await tables.Ended.put(target.id, {"by": "loop"})

class Ticks(Resource):
    load_as_instance = False
    def allow_read(self, user, target):
        return user is not None and user.role.role != "outsider"
    async def connect(self, target, incoming=None):
        try:
            for number in range(1_000_000):
                yield {"n": number}
                await asyncio.sleep(0.01)
        finally:
            await tables.Ended.put(target.id, {"by": "finally"})

class Room(tables.Room):
    async def connect(self, incoming=None):
        subscription = await super().connect(incoming)
        if incoming is not None:
            incoming.on("data", lambda message: tables.Room.publish(self.get_id(), {"text": message, "by": get_user().username}))
        return subscription

class Broken(Resource):
    async def connect(self, incoming=None):
        yield 1
        raise KeyError("secret")
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    app = tmp_path_factory.mktemp("app") / "rooms"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    (app / "resources.py").write_text(SOURCE)
    running = Process(tmp_path_factory.mktemp("connecting") / "root", app).start()
    yield running
    assert running.stop() == 0, running.output()
    assert running.logged().count("[error]") == running.logged().count("for GET /Broken/1")
    assert "was destroyed but it is pending" not in running.logged() and "never awaited" not in running.logged()


def login(name: str = "admin", password: str = PASSWORD) -> str:
    return "Basic " + b64encode(f"{name}:{password}".encode()).decode()


def listen(process: Process, target: str, name: str = "admin") -> ClientConnection:
    url = f"ws://127.0.0.1:{process.port}{target}"
    return connect(url, additional_headers={"Authorization": login(name)}, open_timeout=LIMIT, compression=None, ping_interval=None)


def hear(ws: ClientConnection) -> Any:
    return json.loads(ws.recv(timeout=LIMIT))


def ending(ws: ClientConnection) -> tuple[int, str]:
    try:
        while True:
            ws.recv(timeout=LIMIT)
    except ConnectionClosed as closed:
        assert closed.rcvd is not None
        return closed.rcvd.code, closed.rcvd.reason


def wait_for(process: Process, target: str) -> Any:
    """The record, as soon as it is there."""
    deadline = time.monotonic() + LIMIT
    with process.client() as client:
        while (answer := client.get(target)).status_code == 404 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert answer.status_code == 200, answer.text
        return answer.json()


def add_user(process: Process, name: str, role: str) -> None:
    assert process.operate("add_role", role=role, permission={}).status_code == 200
    assert process.operate("add_user", username=name, password=PASSWORD, role=role, active=True).status_code == 200


def test_a_conversation(process: Process) -> None:
    with listen(process, "/Chat/a") as ws:
        assert hear(ws) == {"hello": "a", "as": "admin"}
        for text in ("one", "two"):
            ws.send(text)
            assert hear(ws) == {"echo": text}
    assert wait_for(process, "/Ended/a")["by"] == "loop", "what follows the loop over the messages is done"
    with process.client() as client:
        assert client.get("/Room/a").json() == {"id": "a", "text": "two", "by": "admin"}


def test_a_conversation_on_a_stream_of_http2(process: Process) -> None:
    with socket.create_connection(("127.0.0.1", process.port), LIMIT) as sock:
        http2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        http2.initiate_connection()
        sock.sendall(http2.data_to_send())
        while not http2.remote_settings.get(h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL):
            http2.receive_data(sock.recv(65536))
        head = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":authority", "localhost"), (":path", "/Chat/h2")]
        http2.send_headers(1, [*head, ("sec-websocket-version", "13"), ("authorization", login())])
        sock.sendall(http2.data_to_send())
        ws = Connection(ConnectionType.CLIENT)
        messages: list[Any] = []

        def hear_one() -> Any:
            while not messages:
                for event in http2.receive_data(sock.recv(65536)):
                    if isinstance(event, h2.events.DataReceived):
                        assert event.data is not None and event.flow_controlled_length is not None
                        http2.acknowledge_received_data(event.flow_controlled_length, 1)
                        ws.receive_data(event.data)
                        messages.extend(json.loads(each.data) for each in ws.events() if isinstance(each, TextMessage))
                sock.sendall(http2.data_to_send())
            return messages.pop(0)

        assert hear_one() == {"hello": "h2", "as": "admin"}
        http2.send_data(1, ws.send(TextMessage("over two")))
        sock.sendall(http2.data_to_send())
        assert hear_one() == {"echo": "over two"}
        http2.send_data(1, ws.send(CloseConnection(1000)))
        sock.sendall(http2.data_to_send())
        assert wait_for(process, "/Ended/h2")["by"] == "loop"


def test_an_event_stream_whose_client_leaves(process: Process) -> None:
    with process.client() as client, EventClient(client, "/Ticks/sse") as stream:
        assert stream.take(3) == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert wait_for(process, "/Ended/sse")["by"] == "finally"


def test_a_websocket_whose_client_vanishes(process: Process) -> None:
    with listen(process, "/Ticks/gone") as ws:
        assert hear(ws) == {"n": 0}
        ws.socket.shutdown(socket.SHUT_RDWR)
        assert wait_for(process, "/Ended/gone")["by"] == "finally"


def test_messages_that_are_published_to_all(process: Process) -> None:
    with (
        listen(process, "/Room/1") as one,
        listen(process, "/Room/1") as two,
        process.client() as client,
        EventClient(client, "/Room/1") as three,
    ):
        one.send("hello")
        for event in (hear(one), hear(two), three.next()):
            assert (event["type"], event["id"], event["value"]) == ("message", "1", {"text": "hello", "by": "admin"})


@pytest.mark.parametrize("target", ["/Chat/r", "/Ticks/r"])
def test_rights_that_are_taken_away(process: Process, target: str) -> None:
    name = target[1:-2].lower()
    add_user(process, name, f"{name}-insider")
    assert process.operate("add_role", role="outsider", permission={}).status_code in (200, 409)
    with listen(process, target, name) as ws, listen(process, target) as other:
        assert hear(ws) is not None and hear(other) is not None
        assert process.operate("alter_user", username=name, role="outsider").status_code == 200
        assert ending(ws) == (3003, "Access denied")
        with listen(process, target, name) as again:
            assert ending(again)[0] == 3003
        assert process.operate("alter_user", username=name, role=f"{name}-insider").status_code == 200
        with listen(process, target, name) as again:
            assert hear(again) is not None
            assert process.operate("drop_user", username=name).status_code == 200
            assert ending(again) == (3000, "Login required")
        other.ping().wait(LIMIT)


def test_an_event_stream_ends_with_the_right(process: Process) -> None:
    add_user(process, "streamer", "streamer")
    with (
        httpx.Client(base_url=process.url, auth=("streamer", PASSWORD), timeout=LIMIT) as client,
        EventClient(client, "/Ticks/streamer") as stream,
    ):
        stream.next()
        assert process.operate("drop_user", username="streamer").status_code == 200
        stream.rest()
    assert wait_for(process, "/Ended/streamer")["by"] == "finally"


def test_a_defect_ends_it_and_says_nothing(process: Process) -> None:
    with listen(process, "/Broken/1") as ws:
        assert hear(ws) == 1 and ending(ws) == (1011, "Internal Server Error")
    with process.client() as client, EventClient(client, "/Broken/1") as stream:
        assert stream.rest() == [1]
    wait_until(lambda: process.logged().count("for GET /Broken/1") >= 2, process.logged)  # lines are written within a second
    wait_until(lambda: "KeyError: 'secret'" in process.logged() and "in Broken.connect (" in process.logged(), process.logged)


def test_the_server_stops_while_handlers_run(tmp_path: Path) -> None:
    app = tmp_path / "rooms"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    (app / "resources.py").write_text(SOURCE)
    process = Process(tmp_path / "root", app).start()
    with listen(process, "/Ticks/stop") as ws, listen(process, "/Chat/stop") as chat:
        assert hear(ws) == {"n": 0} and hear(chat) is not None
        with process.client() as client, EventClient(client, "/Ticks/stopped") as stream:
            stream.next()
            assert process.stop() == 0, process.output()
        assert ending(ws)[0] == 1001 and ending(chat)[0] == 1001
    log = process.logged()
    assert "[error]" not in log and "Traceback" not in log and "Task was destroyed" not in process.output()
    process.start()
    assert wait_for(process, "/Ended/stop")
    assert process.stop() == 0
