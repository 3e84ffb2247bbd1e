"""Sessions, wills, shared subscriptions and the ways to the broker, with clients that are not ours, also over restarts of the server."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiomqtt
import h2.config
import h2.connection
import h2.events
import h2.settings
import paho.mqtt.client as paho
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection

from svc.protocol.mqtt import PacketReader, encode
from svc.protocol.mqtt_packets import V5, Connack, Connect, Disconnect, Packet, Publish, Suback, Subscribe, Subscription
from tests.integration.conftest import PASSWORD
from tests.support.certificates import authority
from tests.support.mqtt_clients import SECONDS, VERSIONS, Client, MqttServer, mosquitto, needs_mosquitto
from tests.support.npm import NODE, needs_node, node_packages
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

SCHEMA = "type Sensor @table @export { id: ID @primaryKey temperature: Float }\ntype Raw @table @export { id: ID @primaryKey }\n"
LARGE = bytes(range(256)) * 4096  # 1 MiB


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqttServer]:
    """Certificates are users on its TLS port; who shows none gives name and password."""
    process = MqttServer(tmp_path_factory.mktemp("mqtt"), SCHEMA, MQTT_NETWORK_MTLS="true")
    process.start()
    yield process
    assert process.stop() == 0, process.output()


@pytest.fixture(autouse=True)
def no_records(server: MqttServer) -> None:
    with server.client() as rest:
        for table in ("Sensor", "Raw"):
            rest.delete(f"/{table}/")


def temperatures(client: Client) -> list[float]:
    return [json.loads(message.payload)["temperature"] for message in client.messages]


class Lines:
    """What a program prints, as it comes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.lines: list[bytes] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.rstrip(b"\n"))
                self._changed.notify_all()

    def expect(self, count: int) -> list[bytes]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.lines) >= count, SECONDS), self.lines
            return list(self.lines)

    def tell(self, *words: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words).encode() + b"\n")
        self.process.stdin.flush()

    def close(self) -> None:
        self.process.kill()
        self._reader.join()
        with self.process:  # closes its pipes
            pass


# --- requests, retained messages ---------------------------------------------------------------------------------------------------------


@needs_mosquitto
def test_request_and_response(server: MqttServer) -> None:
    def answer(client: paho.Client, message: paho.MQTTMessage) -> None:
        assert message.properties is not None
        properties = Properties(PacketTypes.PUBLISH)
        properties.CorrelationData = message.properties.CorrelationData
        properties.UserProperty = ("answers", message.topic)
        value = json.loads(message.payload)["temperature"]
        client.publish(message.properties.ResponseTopic, json.dumps({"temperature": value + 1}), 1, properties=properties)

    responder = Client(server, "responder", on_request=answer)
    responder.subscribe("Sensor/question", 1)
    asked = ["-t", "Sensor/question", "-e", "Sensor/answer", "-q", "1", "-W", "30", "-D", "publish", "correlation-data", "its number"]
    asker = mosquitto(server, "rr", "-V", "mqttv5", *asked, "-m", '{"temperature":1}', "-F", "%t %p %D %P")
    output, _ = asker.communicate(timeout=SECONDS)
    assert (asker.returncode, output.strip()) == (0, b'Sensor/answer {"temperature":2} its number answers:Sensor/question')
    responder.close()


@needs_mosquitto
@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
def test_retained_messages_only(server: MqttServer, version: str) -> None:
    """The program ends with the first message that is not retained."""
    with server.client() as rest:
        for number in range(3):
            rest.put(f"/Sensor/{number}", json={"temperature": number})
        reader = Lines(mosquitto(server, "sub", "-V", version, "-t", "Sensor/+", "-q", "1", "--retained-only", "-F", "%t %r"))
        reader.expect(3)
        rest.put("/Sensor/3", json={"temperature": 3})
        assert reader.process.wait(SECONDS) == 0
    assert reader.lines == [b"Sensor/%d 1" % number for number in range(3)]
    reader.close()


# --- shared subscriptions ----------------------------------------------------------------------------------------------------------------


@needs_mosquitto
def test_a_member_of_a_group_is_killed(server: MqttServer) -> None:
    """What it had taken and not acknowledged goes to the others."""
    with server.client() as rest:
        rest.put("/Raw/ready", content=b"ready", headers={"Content-Type": "text/plain"})
    filters = ["-t", "Raw/ready", "-t", "$share/g/Sensor/#"]
    members = [Lines(mosquitto(server, "sub", "-V", "mqttv5", *filters, "-q", "1", "-F", "%p")) for _ in range(3)]
    for member in members:
        member.expect(1)  # the retained message: it is subscribed
        member.lines.clear()
    writer = Client(server, "writer")

    def numbers(members: list[Lines], least: int) -> list[int]:
        found = [json.loads(line)["temperature"] for member in members for line in list(member.lines)]
        return [number for number in found if number >= least]

    def publish(sent: range) -> None:
        for number in sent:
            assert writer.publish("Sensor/x", f'{{"temperature":{number}}}', 1) == 0

    publish(range(60))
    wait_until(lambda: len(numbers(members, 0)) >= 60)
    assert Counter(numbers(members, 0)) == Counter(range(60)), "each once"
    first, *others = members
    first.process.send_signal(signal.SIGSTOP)
    publish(range(60, 260))
    assert len(numbers(others, 60)) < 200, "some are under way to the one that does not answer"
    first.process.kill()
    wait_until(lambda: len(numbers(others, 60)) >= 200)
    for member in members:
        member.close()
    assert Counter(numbers(others, 60)) == Counter(range(60, 260)), "nothing is lost, and each came once"
    writer.close()


# --- restarts ----------------------------------------------------------------------------------------------------------------------------

SCRIPT = """
import mqtt from "mqtt";
import readline from "node:readline";
const [port, password] = process.argv.slice(2);
const say = (...words) => console.log(JSON.stringify(words));
const clients = [4, 5].map((protocolVersion) => {
  const client = mqtt.connect(`mqtt://127.0.0.1:${port}`, {
    protocolVersion, username: "admin", password, clientId: `js-${protocolVersion}`, clean: false, reconnectPeriod: 50, resubscribe: false,
    properties: {sessionExpiryInterval: 1000},
  });
  client.on("error", () => {});
  client.on("message", (topic, payload) => say(protocolVersion, JSON.parse(payload).temperature));
  client.subscribe("Sensor/#", {qos: 2}, (error) => say("subscribed", String(error)));
  return client;
});
readline.createInterface({input: process.stdin}).on("line", async () => {
  await Promise.all(clients.map((client) => client.endAsync()));
  process.exit();
}).on("close", () => process.exit());
"""


@needs_node
def test_sessions_go_on_over_restarts(server: MqttServer, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The server is stopped, and then killed: messages from before, from the time without a server, and from after it come once each."""
    script = node_packages(tmp_path_factory) / "mqtt-restarts.mjs"
    script.write_text(SCRIPT)
    assert NODE is not None
    command = [NODE, str(script), str(server.mqtt_port), PASSWORD]
    js = Lines(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    readers = [Client(server, f"reader-{version}", version, clean=False) for version in VERSIONS]
    away = [Client(server, f"away-{version}", version, clean=False) for version in VERSIONS]
    watcher = Client(server, "watcher", clean=False)
    for reader in (*readers, *away):
        assert reader.subscribe("Sensor/#", 2) == [2]
    watcher.subscribe("Raw/#", 2)
    for reader in away:
        reader.close()
    js.expect(2)
    writers = [Client(server, f"writer-{version}", version, clean=False) for version in VERSIONS]
    sent = 0
    wills: list[tuple[str, bytes]] = []
    for ending in (signal.SIGTERM, signal.SIGKILL):
        lost = Client(server, f"lost-{ending}", will=(f"Raw/{ending}", b"lost", 2), reconnects=False)
        wills.append((f"Raw/{ending}", b"lost"))
        for writer in writers:
            assert writer.publish(f"Sensor/{sent}", f'{{"temperature":{sent}}}', 2) == 0
            sent += 1
        for reader in readers:
            reader.expect(sent)
        server.stop(ending)
        for writer in writers:  # which keep them until there is a server again
            writer.client.publish(f"Sensor/{sent}", f'{{"temperature":{sent}}}', 2)
            sent += 1
        server.start()
        for writer in writers:
            assert writer.publish(f"Sensor/{sent}", f'{{"temperature":{sent}}}', 2) == 0
            sent += 1
        for reader in readers:
            reader.expect(sent)
        found = watcher.expect(len(wills))
        assert found == wills, "a will, also of a connection that has ended with the server"
        lost.close()
    away = [Client(server, f"away-{version}", version, clean=False) for version in VERSIONS]
    for reader in (*readers, *away):
        reader.expect(sent)
        assert sorted(temperatures(reader)) == list(range(sent))
    for reader in readers:
        assert reader.connected == [(False, 0), (True, 0), (True, 0)]
    assert all(reader.connected == [(True, 0)] for reader in away)
    lines = [json.loads(line) for line in js.expect(2 + 2 * sent)]
    assert lines[:2] == [["subscribed", "null"]] * 2
    for version in (4, 5):
        assert sorted(number for by, number in lines[2:] if by == version) == list(range(sent))
    js.tell("end")
    assert js.process.wait(SECONDS) == 0
    js.close()
    for client in (*readers, *away, *writers, watcher):
        client.close()


@pytest.mark.parametrize(("before", "after"), [(one, other) for one in VERSIONS for other in VERSIONS])
def test_takeover(server: MqttServer, before: int, after: int) -> None:
    watcher, writer = Client(server, "watcher"), Client(server, "writer")
    watcher.subscribe("Raw/#", 1)
    name = f"{before}-{after}"
    first = Client(server, name, before, clean=False, reconnects=False, will=("Raw/will", name.encode(), 1))
    first.subscribe("Sensor/#", 1)
    writer.publish("Sensor/1", '{"temperature":1}', 1)
    first.expect(1)
    second = Client(server, name, after, clean=False)
    assert second.connected == [(True, 0)]
    first.until(lambda: first.ended)
    assert (first.ended == [0x8E]) == (before == paho.MQTTv5), first.ended
    assert watcher.expect(1) == [("Raw/will", name.encode())]
    writer.publish("Sensor/2", '{"temperature":2}', 1)
    second.until(lambda: 2 in temperatures(second))
    assert temperatures(first) == [1]
    for client in (first, second, watcher, writer):
        client.close()


def test_aiomqtt_connects_again(server: MqttServer) -> None:
    """The loop of its documentation, which a takeover interrupts: what has come meanwhile is there."""

    async def run() -> list[int]:
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 1000
        client = aiomqtt.Client(
            "127.0.0.1",
            port=server.mqtt_port,
            username="admin",
            password=PASSWORD,
            identifier="aio",
            protocol=aiomqtt.ProtocolVersion.V5,
            clean_start=False,
            properties=properties,
        )
        found: list[int] = []
        while True:
            try:
                async with client:
                    await client.subscribe("Sensor/#", qos=1)
                    if not found:
                        await asyncio.to_thread(writer.publish, "Sensor/1", '{"temperature":1}', 1)
                    async for message in client.messages:
                        found.append(json.loads(message.payload)["temperature"])
                        if found[-1] == 2:
                            return found
                        other = await asyncio.to_thread(Client, server, "aio", clean=False, reconnects=False)
                        await asyncio.to_thread(other.close)
                        await asyncio.to_thread(writer.publish, "Sensor/2", '{"temperature":2}', 1)
            except aiomqtt.MqttError:
                await asyncio.sleep(0.05)

    writer = Client(server, "writer")
    assert asyncio.run(asyncio.wait_for(run(), SECONDS)) in ([1, 2], [1, 1, 2])
    writer.close()


# --- TLS ---------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_large_payloads_over_tls(server: MqttServer, version: int) -> None:
    reader, writer = Client(server, "reader", version, tls=True), Client(server, "writer", version, tls=True)
    reader.subscribe("Raw/#", 2)
    assert writer.publish("Raw/1", LARGE, 2) == 0
    assert writer.publish("Raw/1", LARGE, 2, retain=True) == 0
    assert reader.expect(2) == [("Raw/1", LARGE)] * 2
    assert [message.qos for message in reader.messages] == [2, 2]
    reader.close()
    writer.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_certificates_of_clients(server: MqttServer, version: int) -> None:
    rights = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}
    if version == VERSIONS[0]:
        server.operate("add_role", role="reader", permission={"data": {"tables": {"Raw": rights}}})
        assert server.operate("add_user", username="ann", password="secret-word", role="reader", active=True).status_code == 200
    new = version == paho.MQTTv5
    admin = Client(server, "admin", version, tls=True, certificate=authority().make("admin"), login=None)
    ann = Client(server, "ann", version, tls=True, certificate=authority().make("ann"), login=("admin", "wrong"))
    assert admin.connected == ann.connected == [(False, 0)], "the certificate comes first"
    assert ann.subscribe("Raw/#", 1) == [1] and ann.subscribe("Sensor/#", 1) == [0x87 if new else 0x80]
    assert ann.publish("Raw/1", b"x", 1) == (0x87 if new else 0)
    assert admin.publish("Raw/2", b"x", 1) == 0
    assert ann.expect(1) == [("Raw/2", b"x")]
    nobody = Client(server, "nobody", version, tls=True, certificate=authority().make("nobody"), reconnects=False)
    without = Client(server, "without", version, tls=True, login=None, reconnects=False)
    assert (nobody.connected, without.connected) == ([(False, 0x86)], [(False, 0x87)]), "paho has the codes of version 5 for both"
    for client in (admin, ann, nobody, without):
        client.close()


def test_a_certificate_that_is_required(tmp_path: Path) -> None:
    process = MqttServer(tmp_path, SCHEMA, MQTT_NETWORK_MTLS='{"required": true, "user": null}')
    process.start()
    for version in VERSIONS:
        certificate = authority().make("a device")
        client = Client(process, "a", version, tls=True, certificate=certificate)
        assert client.publish("Raw/1", b"x", 1) == 0, "it admits, and the user is that of the password"
        client.close()
        anonymous = Client(process, "b", version, tls=True, certificate=certificate, login=None, reconnects=False)
        assert anonymous.connected == [(False, 0x87)]
        anonymous.close()
        stranger = Client(process, "c", version, tls=True, reconnects=False)
        assert (stranger.connected, len(stranger.ended)) == ([], 1)
        stranger.client.loop_stop()
    assert process.stop() == 0, process.output()


# --- WebSocket on a stream of HTTP/2 -----------------------------------------------------------------------------------------------------


class Http2Socket:
    """A WebSocket with the sub-protocol `mqtt` on stream 1 of a connection."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), SECONDS)
        self.http2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.ws = Connection(ConnectionType.CLIENT)
        self.reader = PacketReader(version=V5)
        self.head: dict[str, str] = {}
        self.is_ended = False
        self.http2.initiate_connection()
        self.flush()
        while not self.http2.remote_settings.get(h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL):
            self.receive()
        head = [
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            (":scheme", "http"),
            (":authority", "localhost"),
            (":path", "/any/path"),
        ]
        self.http2.send_headers(1, [*head, ("sec-websocket-version", "13"), ("sec-websocket-protocol", "mqtt")])
        self.flush()
        while not self.head:
            self.receive()

    def flush(self) -> None:
        self.sock.sendall(self.http2.data_to_send())

    def receive(self) -> None:
        data = self.sock.recv(65536)
        assert data
        for event in self.http2.receive_data(data):
            if isinstance(event, h2.events.ResponseReceived):
                self.head = dict(event.headers)  # type: ignore[arg-type]
            elif isinstance(event, h2.events.DataReceived):
                assert event.data is not None and event.flow_controlled_length is not None
                self.http2.acknowledge_received_data(event.flow_controlled_length, 1)
                if event.data:
                    self.ws.receive_data(event.data)
                for message in self.ws.events():
                    if isinstance(message, BytesMessage):
                        self.reader.feed(bytes(message.data))
                    elif isinstance(message, CloseConnection):
                        self.http2.send_data(1, self.ws.send(message.response()), end_stream=True)
            elif isinstance(event, h2.events.StreamEnded | h2.events.StreamReset):
                self.is_ended = True
        self.flush()

    def send(self, *packets: Packet) -> None:
        data = self.ws.send(BytesMessage(b"".join(encode(packet, V5) for packet in packets)))
        while data:
            room = min(self.http2.local_flow_control_window(1), self.http2.max_outbound_frame_size)
            if room:
                self.http2.send_data(1, data[:room])
                data = data[room:]
                self.flush()
            else:
                self.receive()

    def next(self) -> Packet:
        while (packet := self.reader.next_packet()) is None:
            self.receive()
        return packet


def test_over_websocket_and_http2(server: MqttServer) -> None:
    end = Http2Socket(server.port)
    assert (end.head[":status"], end.head["sec-websocket-protocol"]) == ("200", "mqtt")
    end.send(Connect(V5, "h2", True, 30, "admin", PASSWORD.encode()))
    connack = end.next()
    assert isinstance(connack, Connack) and connack.reason == 0
    end.send(Subscribe(1, [Subscription("Raw/#", 0)]), Publish("Raw/1", LARGE, 1, packet_id=2))
    assert isinstance(suback := end.next(), Suback) and suback.reasons == [0]
    answers = [end.next(), end.next()]
    (message,) = [each for each in answers if isinstance(each, Publish)]
    assert (message.topic, message.payload) == ("Raw/1", LARGE)
    writer = Client(server, "writer")
    assert writer.publish("Raw/2", b"x", 1) == 0
    other = end.next()
    assert isinstance(other, Publish) and (other.topic, other.payload) == ("Raw/2", b"x")
    end.send(Disconnect())
    while not end.is_ended:
        end.receive()
    end.sock.close()
    writer.close()
