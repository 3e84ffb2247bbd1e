"""kill -9 of the real process while messages at QoS 2 come in and go out: each is written once and received once, in order, whichever client sends or receives
it."""

from __future__ import annotations

import contextlib
import json
import queue
import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.integration.conftest import PASSWORD, Process
from tests.support.crash import SEED, check, rounds
from tests.support.npm import NODE, needs_node, node_packages
from tests.support.ports import free_port

pytestmark = pytest.mark.programs

ROUNDS = rounds(3)
EACH = 60  # messages of each publisher in a round
SECONDS = 60.0

SCRIPT = """
import mqtt from "mqtt";
import readline from "node:readline";
const [port, protocolVersion, password, clientId, filter] = process.argv.slice(2);
const client = mqtt.connect(`mqtt://127.0.0.1:${port}`, {
  protocolVersion: Number(protocolVersion), username: "admin", password, clientId, clean: false, reconnectPeriod: 50, resubscribe: false,
  properties: {sessionExpiryInterval: 10000},
});
const say = (kind, value) => console.log(JSON.stringify([kind, value]));
client.on("error", () => {});
client.on("message", (topic, payload) => say("message", JSON.parse(payload)));
client.on("connect", () => say("connected", null));
const commands = {
  subscribe: () => client.subscribe(filter, {qos: 2}, (error) => say("subscribed", error ? String(error) : null)),
  publish: (topic, value) => client.publish(topic, JSON.stringify(value), {qos: 2}, (error) => { if (!error) say("published", value); }),
};
readline.createInterface({input: process.stdin}).on("line", (line) => { const [name, ...rest] = JSON.parse(line); commands[name](...rest); });
"""


class Wire:
    """A way to the server on which answers get lost: while `loses` is set, nothing that the server sends arrives, and nothing after that on the same
    connection.

    While the server is away connections wait for it: paho-mqtt, when it has to try twice, sends messages again that were answered with PUBREC.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._is_open = True
        self.loses = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        while self._is_open:
            with contextlib.suppress(OSError):
                server = socket.create_connection(("127.0.0.1", self._target))
                threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
                self._pump(server, client, True)
                return
            time.sleep(0.02)
        client.close()

    def _pump(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            is_cut = False
            while data := source.recv(65536):
                is_cut = is_cut or (is_answer and self.loses.is_set())
                if not is_cut:
                    target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        if is_answer:
            source.close()
            target.close()

    def close(self) -> None:
        self._is_open = False
        self._listener.close()


class Client:
    """Publishes and receives at QoS 2, in a session that lasts; connects again by itself. `received`: values, in order. `published`: those whose exchange is
    over."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.received: list[Any] = []
        self.published: list[Any] = []
        self.said: queue.Queue[str] = queue.Queue()

    def subscribe(self) -> None: ...
    def publish(self, topic: str, value: Any) -> None: ...
    def close(self) -> None: ...


class Paho(Client):
    def __init__(self, port: int, name: str, version: int) -> None:
        super().__init__(name)
        self._values: dict[int, Any] = {}
        self._lock = threading.Lock()
        kind: dict[str, Any] = {} if version == paho.MQTTv5 else {"clean_session": False}
        self.client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=version, **kind)
        self.client.username_pw_set("admin", PASSWORD)
        self.client.reconnect_delay_set(0.05, 0.2)  # type: ignore[arg-type]
        self.client.on_message = lambda c, u, message: self.received.append(json.loads(message.payload))
        self.client.on_subscribe = lambda c, u, mid, reasons, found: self.said.put("subscribed")
        self.client.on_connect = lambda c, u, flags, reason, found: self.said.put("connected")
        self.client.on_publish = self._on_publish
        given: dict[str, Any] = {}
        if version == paho.MQTTv5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = 10000
            given = {"clean_start": False, "properties": properties}
        self.client.connect("127.0.0.1", port, 60, **given)
        self.client.loop_start()
        assert self.said.get(timeout=SECONDS) == "connected"

    def _on_publish(self, client: Any, userdata: Any, mid: int, reason: Any, properties: Any) -> None:
        with self._lock:
            self.published.append(self._values.pop(mid))

    def subscribe(self) -> None:
        self.client.subscribe("Event/#", 2)
        assert self.said.get(timeout=SECONDS) == "subscribed"

    def publish(self, topic: str, value: Any) -> None:
        with self._lock:
            mid = self.client.publish(topic, json.dumps(value), 2).mid
            self._values[mid] = value

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


class Js(Client):
    def __init__(self, port: int, name: str, version: int, script: Path) -> None:
        super().__init__(name)
        assert NODE is not None
        command = [NODE, str(script), str(port), str(version), PASSWORD, name, "Event/#"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self.said.get(timeout=SECONDS) == "connected"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            kind, value = json.loads(line)
            if kind == "message":
                self.received.append(value)
            elif kind == "published":
                self.published.append(value)
            elif kind == "subscribed" or self.said.empty():
                assert value is None, value
                self.said.put(kind)

    def _tell(self, *words: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()

    def subscribe(self) -> None:
        self._tell("subscribe")
        assert self.said.get(timeout=SECONDS) == "subscribed"

    def publish(self, topic: str, value: Any) -> None:
        self._tell("publish", topic, value)

    def close(self) -> None:
        self._process.kill()
        self._reader.join()
        with self._process:  # closes its pipes
            pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Process]:
    app = tmp_path / "app"
    app.mkdir()
    (app / "config.yaml").write_text("rest: true\ngraphqlSchema: {files: '*.graphql'}\n")
    (app / "schema.graphql").write_text("type Event @table @export { id: ID @primaryKey n: Int by: String }\n")
    port = free_port()
    process = Process(tmp_path / "root", app, env={"MQTT_NETWORK_PORT": str(port)}).start()
    process.mqtt_port = port  # type: ignore[attr-defined]
    yield process
    process.kill()


def until(count: Callable[[], int], least: int, what: str) -> None:
    end = time.monotonic() + SECONDS
    while count() < least:
        assert time.monotonic() < end, (what, count(), least)
        time.sleep(0.02)


@needs_node
def test_each_message_is_received_once(server: Process, tmp_path_factory: pytest.TempPathFactory) -> None:
    wire = Wire(server.mqtt_port)  # type: ignore[attr-defined]
    port = wire.port
    script = node_packages(tmp_path_factory) / "mqtt-kill.mjs"
    script.write_text(SCRIPT)
    readers = [Paho(port, "paho-reader", paho.MQTTv311), Js(port, "js-reader", 5, script)]
    writers = [Paho(port, "paho-writer", paho.MQTTv5), Js(port, "js-writer", 4, script)]
    chance = random.Random(SEED)
    try:
        for reader in readers:
            reader.subscribe()
        expected: dict[str, list[int]] = {writer.name: [] for writer in writers}
        for round_number in range(ROUNDS):
            for number in range(EACH):
                for writer in writers:
                    n = round_number * EACH + number
                    writer.publish(f"Event/{writer.name}", {"by": writer.name, "n": n})
                    expected[writer.name].append(n)
            enough = sum(len(writer.published) for writer in writers) + 2 + chance.randrange(EACH)
            until(lambda: sum(len(writer.published) for writer in writers), enough, "published")
            wire.loses.set()
            time.sleep(chance.random() * 0.05)
            server.kill()
            wire.loses.clear()
            check(server.root)
            server.start()
            until(lambda: min(len(writer.published) for writer in writers), (round_number + 1) * EACH, "published in all")
        until(lambda: min(len(reader.received) for reader in readers), ROUNDS * EACH * len(writers), "received")
        time.sleep(0.5)  # for what should not come
        for reader in readers:
            for writer in writers:
                assert [each["n"] for each in reader.received if each["by"] == writer.name] == expected[writer.name], (
                    reader.name,
                    writer.name,
                )
    finally:
        for client in (*readers, *writers):
            client.close()
        wire.close()
    assert server.stop() == 0, server.output()
