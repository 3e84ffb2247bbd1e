"""Clients of MQTT that are not ours, against a started server: paho-mqtt and aiomqtt, for both versions and each QoS, beside REST."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import aiomqtt
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from websockets import ConnectionClosed, Subprotocol
from websockets.sync.client import connect

from tests.integration.conftest import PASSWORD
from tests.support.mqtt_clients import SECONDS, VERSIONS, Client, MqttServer, mosquitto, needs_mosquitto
from tests.support.npm import NODE, needs_node, node_packages

pytestmark = pytest.mark.programs

SCHEMA = "type Sensor @table @export { id: ID @primaryKey temperature: Float }\ntype Raw @table @export { id: ID @primaryKey }\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqttServer]:
    process = MqttServer(tmp_path_factory.mktemp("mqtt"), SCHEMA)
    process.start()
    yield process
    assert process.stop() == 0, process.output()


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_each_qos(server: MqttServer, version: int, tls: bool) -> None:
    with server.client() as rest:
        rest.delete("/Sensor/")
        reader, writer = Client(server, "reader", version, tls=tls), Client(server, "writer", version, tls=tls)
        assert reader.subscribe("Sensor/#", 2) == [2]
        for qos in (0, 1, 2):
            assert writer.publish(f"Sensor/{qos}", f'{{"temperature":{qos}}}', qos) == 0
            assert writer.publish(f"Sensor/{qos}", f'{{"temperature":{qos}}}', qos, retain=True) == 0
        found = reader.expect(6)
        assert found[0] == ("Sensor/0", b'{"temperature":0}') and [topic for topic, _ in found] == [
            f"Sensor/{each // 2}" for each in range(6)
        ]
        assert sorted(record["id"] for record in rest.get("/Sensor/").json()) == ["0", "1", "2"]
        assert rest.put("/Sensor/x", json={"temperature": 5}).status_code == 204
        assert rest.delete("/Sensor/x").status_code in (200, 204)
        assert reader.expect(8)[7] == ("Sensor/x", b"")
        late = Client(server, "late", version, tls=tls)
        late.subscribe("Sensor/+", 1)
        late.expect(3)
        assert all(message.retain for message in late.messages)
        for client in (reader, writer, late):
            client.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_large_payloads(server: MqttServer, version: int) -> None:
    payload = bytes(range(256)) * 4096  # 1 MiB
    with server.client() as rest:
        rest.delete("/Raw/")
    reader, writer = Client(server, "reader", version), Client(server, "writer", version)
    reader.subscribe("Raw/#", 1)
    assert writer.publish("Raw/1", payload, 2) == 0
    assert writer.publish("Raw/1", payload, 1, retain=True) == 0
    assert reader.expect(2) == [("Raw/1", payload)] * 2
    with server.client() as rest:
        assert rest.get("/Raw/1").content == payload
    reader.close()
    writer.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_sessions_and_wills(server: MqttServer, version: int) -> None:
    with server.client() as rest:
        rest.delete("/Sensor/")
    watcher = Client(server, "watcher", version)
    watcher.subscribe("Sensor/will", 1)
    client = Client(server, "lasting", version, clean=False, will=("Sensor/will", b"{}", 1))
    client.subscribe("Sensor/+", 2)
    client.lose()
    assert watcher.expect(1) == [("Sensor/will", b"{}")]
    writer = Client(server, "writer", version)
    for number in range(200):
        writer.publish(f"Sensor/{number}", "{}", number % 3)
    client = Client(server, "lasting", version, clean=False)
    assert client.connected == [(True, 0)]
    found = [topic for topic, _ in client.expect(134)]  # those at QoS 0 are not kept for a client that is away
    # paho tells of a message at QoS 2 when it is released: those of one QoS are in order.
    assert [topic for topic in found if topic == "Sensor/will" or int(topic[7:]) % 3 == 1] == [
        "Sensor/will",
        *(f"Sensor/{n}" for n in range(1, 200, 3)),
    ]
    assert [topic for topic in found if topic[7:].isdecimal() and int(topic[7:]) % 3 == 2] == [f"Sensor/{n}" for n in range(2, 200, 3)]
    for each in (client, writer, watcher):
        each.close()
    last = Client(server, "lasting", version)
    assert last.connected == [(False, 0)]
    last.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_over_websocket(server: MqttServer, version: int) -> None:
    with server.client() as rest:
        rest.delete("/Raw/")
    payload = bytes(range(256)) * 4096  # 1 MiB
    reader, writer = Client(server, "reader", version, transport="websockets"), Client(server, "writer", version)
    reader.subscribe("Raw/#", 1)
    for qos in (0, 1, 2):
        assert writer.publish("Raw/1", payload, qos) == 0
    assert reader.expect(3) == [("Raw/1", payload)] * 3
    assert reader.publish("Raw/2", payload, 2, retain=True) == 0
    reader.close()
    writer.close()
    with connect(f"ws://127.0.0.1:{server.port}/x", subprotocols=[Subprotocol("mqtt")]) as socket:
        assert socket.subprotocol == "mqtt"
        socket.send("text")
        with pytest.raises(ConnectionClosed):
            socket.recv(SECONDS)
        assert socket.close_code == 1003


def test_refusals(server: MqttServer) -> None:
    client = Client(server, "a")
    assert client.publish("Nothing/1", "{}", 1) == 0x90
    assert client.publish("Sensor/1", '{"temperature":"warm"}', 1, retain=True) == 0x99
    # paho sends PUBREL after a PUBREC that says no, and reports the answer to that.
    assert client.publish("Sensor/1", '{"temperature":"warm"}', 2, retain=True) == 0x92
    assert client.subscribe("Nothing/#", 1) == [0x8F]
    client.close()
    wrong = paho.Client(CallbackAPIVersion.VERSION2, "b", protocol=paho.MQTTv5)
    wrong.username_pw_set("admin", "wrong")
    seen: list[int] = []
    wrong.on_connect = lambda c, u, flags, reason, found: seen.append(reason.value)
    wrong.connect("127.0.0.1", server.mqtt_port)
    end = time.monotonic() + SECONDS
    while not seen and time.monotonic() < end:
        wrong.loop(0.1)
    assert seen == [0x86]


@pytest.mark.parametrize("version", [aiomqtt.ProtocolVersion.V311, aiomqtt.ProtocolVersion.V5])
def test_aiomqtt(server: MqttServer, version: aiomqtt.ProtocolVersion) -> None:
    async def run() -> list[tuple[str, bytes]]:
        options: dict[str, Any] = {"port": server.mqtt_port, "username": "admin", "password": PASSWORD, "protocol": version}
        async with aiomqtt.Client("127.0.0.1", **options) as reader, aiomqtt.Client("127.0.0.1", **options) as writer:
            await reader.subscribe("Sensor/#", qos=1)
            await writer.publish("Sensor/aio", b'{"temperature":1}', qos=2)
            found = []
            async for message in reader.messages:
                if not message.retain:
                    found.append((str(message.topic), bytes(message.payload)))  # type: ignore[arg-type]
                    break
            return found

    assert asyncio.run(asyncio.wait_for(run(), SECONDS)) == [("Sensor/aio", b'{"temperature":1}')]


# --- mosquitto ---------------------------------------------------------------------------------------------------------------------------


@needs_mosquitto
@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
def test_mosquitto(server: MqttServer, version: str) -> None:
    with server.client() as rest:
        rest.delete("/Sensor/")
        rest.put("/Sensor/there", json={"temperature": 1})
        reader = mosquitto(server, "sub", "-V", version, "-t", "Sensor/#", "-q", "2", "-C", "4", "-v", "-W", "30")
        assert reader.stdout is not None
        first = reader.stdout.readline()  # the retained message: it is subscribed
        topic, _, payload = first.partition(b" ")
        assert (topic, json.loads(payload)) == (b"Sensor/there", {"id": "there", "temperature": 1})
        for qos in ("0", "1", "2"):
            writer = mosquitto(server, "pub", "-V", version, "-t", f"Sensor/{qos}", "-q", qos, "-m", '{"temperature":2}', "-r")
            output, _ = writer.communicate(timeout=SECONDS)
            assert writer.returncode == 0, output
        rest_of, _ = reader.communicate(timeout=SECONDS)
        assert reader.returncode == 0
        found = [line.partition(b" ") for line in rest_of.splitlines()]
        assert [(topic, json.loads(payload)["temperature"]) for topic, _, payload in found] == [(b"Sensor/%d" % qos, 2) for qos in range(3)]
        refused = mosquitto(server, "pub", "-V", version, "-t", "Nothing/1", "-q", "1", "-m", "x")
        output, _ = refused.communicate(timeout=SECONDS)
        assert (b"There is no such topic" in output) == (version == "mqttv5"), output


# --- MQTT.js -----------------------------------------------------------------------------------------------------------------------------

SCRIPT = """
import mqtt from "mqtt";
const [url, protocolVersion, password] = [process.argv[2], Number(process.argv[3]), process.argv[4]];
const client = await mqtt.connectAsync(url, {protocolVersion, username: "admin", password, clientId: "js"});
const seen = [];
client.on("message", (topic, payload, packet) => { if (!packet.retain) seen.push([topic, payload.toString(), packet.qos]); });
await client.subscribeAsync("Sensor/+/b", {qos: 2});
for (const qos of [0, 1, 2]) await client.publishAsync(`Sensor/${qos}/b`, JSON.stringify({temperature: qos}), {qos});
const end = Date.now() + 20000;
while (seen.length < 3 && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 10));
await client.endAsync();
console.log(JSON.stringify(seen));
"""


@needs_node
@pytest.mark.parametrize("scheme", ["mqtt", "ws"])
@pytest.mark.parametrize("version", [4, 5])
def test_mqtt_js(server: MqttServer, version: int, scheme: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert NODE is not None
    url = f"ws://127.0.0.1:{server.port}/anywhere" if scheme == "ws" else f"mqtt://127.0.0.1:{server.mqtt_port}"
    script = node_packages(tmp_path_factory) / f"mqtt-{version}-{scheme}.mjs"
    script.write_text(SCRIPT)
    command = [NODE, str(script), url, str(version), PASSWORD]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[f"Sensor/{qos}/b", f'{{"temperature":{qos}}}', qos] for qos in range(3)]
