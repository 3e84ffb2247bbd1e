"""API keys of the real program: on every port and protocol, and what becomes of open streams when one is revoked (spec: rows §2.7)."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.integration.conftest import LIMIT, Process
from tests.support.forked import run_command
from tests.support.instances import started
from tests.support.mqtt_clients import Client, MqttServer
from tests.support.ports import free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

SCHEMA = "type Sensor @table @export { id: ID @primaryKey temperature: Float }"
READER = {"data": {"tables": {"Sensor": {"read": True, "insert": True, "update": True, "delete": False, "attribute_permissions": []}}}}
REFUSED = 0x86  # bad user name or password


class Servers:
    """Two, over the same databases."""

    def __init__(self, path: Path) -> None:
        self.graphql_port = free_port()
        self.both = []
        for name in ("first", "second"):
            (path / name).mkdir()
            server = MqttServer(path / name, SCHEMA, STORAGE_PATH=str(path / "databases"), LOGGING_LEVEL="trace", MQTT_LOGGING_LEVEL="info")
            config = path / name / "app" / "config.yaml"
            config.write_text(
                config.read_text() + f"graphql: {{extended: true, port: {self.graphql_port if name == 'first' else free_port()}}}\n"
            )
            self.both.append(server.start())
        self.first, self.second = self.both
        self.keys: list[str] = []
        assert self.first.operate("add_role", role="reader", permission=READER).status_code == 200
        assert self.first.operate("add_user", username="ann", password="p" * 12, role="reader", active=True).status_code == 200

    def key(self, name: str, **fields: Any) -> str:
        found: str = self.second.operate(
            "create_key", name=name, **{"role": "reader", **fields} if "user" not in fields else fields
        ).json()["key"]
        self.keys.append(found)
        return found

    def close(self) -> None:
        for server in self.both:
            assert server.stop() == 0
            text = server.logged() + server.output()
            assert self.keys and not [key for key in self.keys if key in text or key[15:-6] in text]
            assert "Traceback" not in text


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    found = Servers(tmp_path_factory.mktemp("keys"))
    yield found
    found.close()


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def get(server: Process, key: str, path: str = "/Sensor/") -> httpx.Response:
    return httpx.get(server.url + path, headers=bearer(key), timeout=LIMIT)


class Streams:
    """One of each kind with a key."""

    def __init__(self, servers: Servers, key: str, username: str) -> None:
        first = servers.first
        self.events: list[str] = []
        self.events_ended = threading.Event()
        self._stack = ExitStack()
        self.socket = self._connect(f"ws://127.0.0.1:{first.port}/Sensor/", additional_headers=bearer(key))
        self.graphql = self._connect(f"ws://127.0.0.1:{servers.graphql_port}/graphql", subprotocols=[Subprotocol("graphql-transport-ws")])
        self.graphql.send(json.dumps({"type": "connection_init", "payload": bearer(key)}))
        assert json.loads(self.graphql.recv(timeout=LIMIT)) == {"type": "connection_ack"}
        self.graphql.send(json.dumps({"type": "subscribe", "id": "1", "payload": {"query": "subscription { Sensor { id } }"}}))
        self.graphql.recv(timeout=LIMIT)
        self.mqtt = Client(first, f"of {username}", login=(username, key), reconnects=False)
        assert self.mqtt.connected == [(False, 0)]
        assert self.mqtt.subscribe("Sensor/#", 1) == [1]
        self.mqtt_socket = Client(first, f"over WebSocket of {username}", transport="websockets", login=("", key), reconnects=False)
        assert self.mqtt_socket.connected == [(False, 0)]
        self._is_open = threading.Event()
        self._reader = threading.Thread(target=self._read_events, args=(first.url, key), daemon=True)
        self._reader.start()
        assert self._is_open.wait(LIMIT)

    def _connect(self, url: str, **options: Any) -> ClientConnection:
        found: ClientConnection = self._stack.enter_context(connect(url, open_timeout=LIMIT, ping_interval=None, **options))
        return found

    def _read_events(self, url: str, key: str) -> None:
        headers = {**bearer(key), "Accept": "text/event-stream"}
        with httpx.stream("GET", f"{url}/Sensor/", headers=headers, timeout=LIMIT) as answer:
            assert answer.status_code == 200
            self._is_open.set()
            self.events += answer.iter_lines()
        self.events_ended.set()

    def hear_of(self, servers: Servers, name: str) -> None:
        """Each hears of a change."""
        with servers.second.client() as client:
            assert client.put(f"/Sensor/{name}", json={"temperature": 1.0}).status_code == 204
        for each in (self.socket, self.graphql):
            while name not in str(each.recv(timeout=LIMIT)):
                pass
        self.mqtt.until(lambda: any(message.topic == f"Sensor/{name}" for message in self.mqtt.messages))
        wait_until(lambda: any(name in line for line in self.events) or not self._reader.is_alive())

    def have_ended(self) -> None:
        assert self.events_ended.wait(LIMIT)
        assert closing(self.socket) == 3000
        closing(self.graphql)
        self.mqtt.until(lambda: self.mqtt.ended)
        self.mqtt_socket.until(lambda: self.mqtt_socket.ended)
        self._reader.join()
        self._stack.close()
        for each in (self.mqtt, self.mqtt_socket):
            each.close()


def closing(socket: ClientConnection) -> int | None:
    with pytest.raises(ConnectionClosed) as caught:
        while True:
            socket.recv(timeout=LIMIT)
    return None if caught.value.rcvd is None else caught.value.rcvd.code


@pytest.mark.parametrize("of_user", [False, True], ids=["role", "user"])
def test_streams_end_when_the_other_server_revokes_it(servers: Servers, of_user: bool) -> None:
    name = "user" if of_user else "role"
    key = servers.key(name, **({"user": "ann"} if of_user else {}))
    assert get(servers.first, key).status_code == get(servers.second, key).status_code == 200
    streams = Streams(servers, key, "ann" if of_user else name)
    streams.hear_of(servers, f"of-{name}")
    assert servers.second.operate("revoke_key", name=name).json() == {"message": f"API key {name} revoked"}
    for server in servers.both:
        answer = get(server, key)
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid API key")
    streams.have_ended()
    again = Client(servers.first, "again", login=("ann" if of_user else name, key), reconnects=False)
    assert again.connected[0][1] == REFUSED
    again.close()


def test_streams_end_with_the_user_and_the_role(servers: Servers) -> None:
    assert servers.first.operate("add_user", username="eve", password="p" * 12, role="reader", active=True).status_code == 200
    key = servers.key("eve's", user="eve")
    streams = Streams(servers, key, "eve")
    assert servers.second.operate("alter_user", username="eve", active=False).status_code == 200
    streams.have_ended()
    assert get(servers.first, key).status_code == 401
    assert servers.first.operate("add_role", role="other", permission=READER).status_code == 200
    key = servers.key("other's", role="other")
    assert get(servers.first, key).status_code == 200
    assert servers.second.operate("alter_role", id="other", permission={}).status_code == 200
    assert get(servers.first, key).status_code == 403


def test_every_port(servers: Servers) -> None:
    key = servers.key("every port")
    with httpx.Client(headers=bearer(key), timeout=LIMIT) as client:
        assert client.put(f"{servers.first.url}/Sensor/1", json={"temperature": 2.0}).status_code == 204
        for _ in range(5):  # by the general path, and prepared
            assert client.get(f"{servers.first.url}/Sensor/1").json()["temperature"] == 2.0
        assert client.delete(f"{servers.first.url}/Sensor/1").status_code == 403
        found = client.post(f"http://127.0.0.1:{servers.graphql_port}/graphql", json={"query": '{ Sensor(id: "1") { temperature } }'})
        assert "2" in found.text, found.text
        asked = client.post(servers.first.operations_url, json={"operation": "user_info"}).json()
        assert (asked["username"], asked["role"]["role"]) == ("key:every port", "reader")
        assert client.post(servers.first.operations_url, json={"operation": "list_users"}).status_code == 403
        log = servers.first.operate("read_audit_log", table="Sensor", search_type="hash_value", search_values=["1"]).json()["1"]
        assert {entry["user_name"] for entry in log} == {"key:every port"}
    used = {shown["name"]: shown["last_used"] for shown in servers.second.operate("list_keys").json()}
    assert used["every port"] is not None


def test_a_key_makes_nothing_that_outlives_it(servers: Servers) -> None:
    key = servers.key("admin's", user="admin")
    with httpx.Client(headers=bearer(key), timeout=LIMIT) as client:
        answer = client.post(servers.first.operations_url, json={"operation": "create_authentication_tokens"})
        assert answer.status_code == 403 and "An API key cannot make tokens" in answer.text
        answer = client.post(f"{servers.first.url}/ticket")
        assert answer.status_code == 403 and "An API key cannot make tickets" in answer.text
        assert client.post(servers.first.operations_url, json={"operation": "list_keys"}).status_code == 200


def test_one_that_expires(servers: Servers) -> None:
    key = servers.key("short", expires=1)
    wait_until(lambda: get(servers.first, key).status_code == 401)
    assert get(servers.second, key).json()["error"] == "The API key has expired"


def test_guesses(servers: Servers) -> None:
    key = servers.key("guessed")
    other = servers.key("other")
    wrong = [
        "svc_", "svc_x", key[:-1], f"{key}x", key[:14], f"{key[:15]}{other[15:]}", other[:15] + key[15:], key[:4] + key[4:].swapcase(), "svc_" + "a" * 5000,
        "svc_%00", "svc_\xe9" * 9, f"{key}\t{key}", f"{key},{other}", "svc_'; DROP TABLE svc_key",
    ]  # fmt: skip
    for text in wrong:
        for address in (f"{servers.first.url}/Sensor/", servers.first.operations_url):
            answer = httpx.request(
                "GET" if address.endswith("/") else "POST",
                address,
                headers=[(b"Authorization", b"Bearer " + text.encode("latin-1"))],
                timeout=LIMIT,
            )
            assert answer.status_code == 401 and text not in answer.text, (text, answer.text)
    for login in (("guessed", key[:-1]), ("ann", key), ("guessed", f"{key[:15]}{other[15:]}"), ("guessed", "svc_")):
        client = Client(servers.first, "guesser", login=login, reconnects=False)
        assert client.connected[0][1] == REFUSED, login
        client.close()
    basic = {"Authorization": "Basic " + b64encode(f"{key}:".encode()).decode()}
    assert httpx.get(f"{servers.first.url}/Sensor/", headers=basic, timeout=LIMIT).status_code == 401
    client = Client(servers.first, "named by the key", login=(key, "x"), reconnects=False)
    assert client.connected[0][1] == REFUSED
    client.close()
    assert get(servers.first, key).status_code == 200


def test_commands(servers: Servers, tmp_path: Path) -> None:
    def run(*words: str) -> tuple[int, str]:
        done = run_command(["key", *words], cwd=tmp_path, env=servers.first.env, timeout=LIMIT)
        return done.returncode, done.stdout + done.stderr

    status, shown = run("create", "from the command line", "role=reader", "expires=90d", "--json")
    made = json.loads(shown)
    servers.keys.append(made["key"])
    assert status == 0 and get(servers.first, made["key"]).status_code == 200
    env = {**servers.second.env, "SVC_CLI_KEY": made["key"]}
    done = run_command(["user_info", f"target={servers.first.operations_url}", "--json"], cwd=tmp_path, env=env, timeout=LIMIT)
    assert json.loads(done.stdout)["username"] == "key:from the command line"
    status, shown = run("list")
    assert status == 0 and "from the command line" in shown and made["prefix"] in shown and made["key"] not in shown
    assert run("revoke", made["prefix"])[0] == 0 and get(servers.first, made["key"]).status_code == 401
    status, shown = run("revoke", "from the command line")
    assert status == 1 and "API key from the command line does not exist" in shown
    for words in ((), ("create",), ("list", "x"), ("revoke",), ("x",)):
        status, shown = run(*words)
        assert status != 0 and "svc key create NAME" in shown


def test_every_instance(tmp_path: Path) -> None:
    with started(tmp_path, 2) as process:
        for number in range(3):
            key = process.operate("create_key", name=f"key {number}", user="admin").json()["key"]

            def answers(key: str = key) -> set[tuple[int, Any]]:
                found = [get(process, key, "/Who/") for _ in range(48)]
                return {(answer.status_code, answer.json().get("pid")) for answer in found}

            assert {status for status, _ in answers()} == {200} and len(answers()) == 2
            assert process.operate("revoke_key", name=f"key {number}").status_code == 200
            assert answers() == {(401, None)}
        assert process.stop() == 0
