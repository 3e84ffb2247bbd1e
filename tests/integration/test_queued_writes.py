"""Queued writes of a started server: subscribers of every protocol hear of them as of others, and what is told of the requests is the same."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect

from tests.integration.conftest import authorization
from tests.support.mqtt_clients import Client, MqttServer
from tests.support.server_hooks import SEEN_QUEUE

pytestmark = pytest.mark.programs

SCHEMA = "type Sensor @table @export { id: ID @primaryKey  temperature: Float @indexed }\n"
CLIENTS = 4
ROUNDS = 6


class PlainClient:
    """Each of its requests is one piece, and like those before it."""

    def __init__(self, port: int) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port), timeout=30)

    def send(self, method: str, path: str, body: object = None) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        fields = "" if body is None else f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        self._sock.sendall(
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {authorization()}\r\n{fields}\r\n".encode() + content
        )

    def receive(self) -> int:
        answer = b""
        while b"\r\n\r\n" not in answer or (b"Content-Length" in answer and not answer.endswith(b'"')):
            piece = self._sock.recv(65536)
            assert piece
            answer += piece
        return int(answer[9:12])

    def close(self) -> None:
        self._sock.close()


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    return tmp_path / "queued"


@pytest.fixture
def server(tmp_path: Path, seen: Path) -> Iterator[MqttServer]:
    process = MqttServer(tmp_path, SCHEMA, SVC_TEST_HOOK=SEEN_QUEUE, SVC_TEST_QUEUED=str(seen))
    process.start()
    yield process
    assert process.stop() == 0, process.output()


def test_subscribers_of_every_protocol(server: MqttServer, seen: Path) -> None:
    mqtt = Client(server, "reader")
    assert mqtt.subscribe("Sensor/#", 1) == [1]
    headers = {"Authorization": authorization()}
    with (
        connect(f"ws://127.0.0.1:{server.port}/Sensor/", additional_headers=headers) as web,
        server.client() as http,
        http.stream("GET", "/Sensor/", headers={"Accept": "text/event-stream"}) as stream,
    ):
        lines = stream.iter_lines()
        next(line for line in lines if line.startswith("retry:"))
        clients = [PlainClient(server.port) for _ in range(CLIENTS)]
        expected: list[tuple[str, float | None]] = []
        for number in range(ROUNDS):
            for method in ("PUT", "POST", "DELETE"):
                for which, client in enumerate(clients):
                    key = f"c{which}-{number}{'-posted' if method == 'POST' else ''}"
                    body = {"id": key, "temperature": number} if method == "POST" else {"temperature": number} if method == "PUT" else None
                    client.send(method, "/Sensor/" if method == "POST" else f"/Sensor/{key}", body)
                    expected.append((key, None if method == "DELETE" else float(number)))
                assert {client.receive() for client in clients} <= {201, 204}
        assert seen.stat().st_size > 0
        by_web = [json.loads(web.recv(30)) for _ in expected]
        data = (line.removeprefix("data:") for line in lines if line.startswith("data:"))
        by_stream = [json.loads(next(data)) for _ in expected]
        by_mqtt = mqtt.expect(len(expected))
        for client in clients:
            client.close()
    found_by_web = [(event["id"], (event.get("value") or {}).get("temperature")) for event in by_web]
    found_by_stream = [(event["id"], (event.get("value") or {}).get("temperature")) for event in by_stream]
    found_by_mqtt = [(topic.removeprefix("Sensor/"), json.loads(payload)["temperature"] if payload else None) for topic, payload in by_mqtt]
    assert sorted(found_by_web, key=str) == sorted(expected, key=str)
    assert found_by_web == found_by_stream == found_by_mqtt
    for key in {key for key, _ in expected}:
        assert [each for each in found_by_web if each[0] == key] == [each for each in expected if each[0] == key]
    mqtt.close()


def test_a_write_in_two_pieces(server: MqttServer) -> None:
    """The general path takes it; most clients of Python send like this."""
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", headers={"Authorization": authorization()}) as client:
        for number in range(5):
            assert client.put("/Sensor/a", json={"temperature": number}).status_code == 204
        assert client.get("/Sensor/a").json() == {"temperature": 4, "id": "a"}
