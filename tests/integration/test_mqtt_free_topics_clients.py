"""mosquitto_pub and mosquitto_sub on topics that are no resources, against a started server, beside REST."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from tests.integration.conftest import PASSWORD
from tests.support.mqtt_clients import SECONDS, MqttServer, mosquitto, needs_mosquitto

pytestmark = [pytest.mark.programs, needs_mosquitto]

SCHEMA = "type Topic @table @export { id: ID @primaryKey contentType: String data: Bytes updatedTime: Date @updatedTime }\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqttServer]:
    process = MqttServer(tmp_path_factory.mktemp("mqtt"), SCHEMA, MQTT_FREETOPICS="data.Topic")
    process.start()
    yield process
    assert process.stop() == 0, process.output()


def publish(server: MqttServer, version: str, topic: str, *arguments: str) -> bytes:
    done = mosquitto(server, "pub", "-V", version, "-t", topic, *arguments)
    output, _ = done.communicate(timeout=SECONDS)
    assert done.returncode == 0, output
    return output


@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
def test_mosquitto(server: MqttServer, version: str) -> None:
    with server.client() as rest:
        rest.delete("/Topic/")
        publish(server, version, "homeassistant/sensor/x/config", "-r", "-q", "1", "-m", '{"name": "x"}')
        # At QoS 2 it would print a message when it is released, perhaps after the next one.
        reader = mosquitto(server, "sub", "-V", version, "-t", "#", "-q", "1", "-C", "7", "-v", "-W", "30")
        assert reader.stdout is not None
        assert reader.stdout.readline() == b'homeassistant/sensor/x/config {"name": "x"}\n'  # it is subscribed
        for qos, (topic, payload) in enumerate(
            (("tele/plug/STATE", "21.50"), ("/stat//POWER", "ON"), ("zigbee2mqtt/bridge/state", '{"a": 1.0}'))
        ):
            publish(server, version, topic, "-r", "-q", str(qos), "-m", payload)
        publish(server, version, "stat/plug/POWER", "-q", "1", "-m", "OFF")
        publish(server, version, "tele/plug/STATE", "-r", "-q", "1", "-n")
        publish(server, version, "tele/none", "-r", "-q", "1", "-n")
        output, _ = reader.communicate(timeout=SECONDS)
        assert reader.returncode == 0
        assert output.splitlines() == [
            b"tele/plug/STATE 21.50",
            b"/stat//POWER ON",
            b'zigbee2mqtt/bridge/state {"a": 1.0}',
            b"stat/plug/POWER OFF",
            b"tele/plug/STATE (null)",
            b"tele/none (null)",
        ]
        assert [each["id"] for each in rest.get("/Topic/").json()] == [
            "/stat//POWER",
            "homeassistant/sensor/x/config",
            "zigbee2mqtt/bridge/state",
        ]
        assert rest.get("/Topic/%2Fstat%2F%2FPOWER").content == b"ON"
        output = publish(server, version, "$SYS/x", "-q", "1", "-m", "x")
        assert (b"There is no such topic" in output) == (version == "mqttv5"), output


def connected(server: MqttServer, *arguments: str) -> subprocess.Popen[bytes]:
    """A reader that is subscribed, after a retained message that it has read."""
    with server.client() as rest:
        rest.delete("/Topic/")
    publish(server, "mqttv5", "ready", "-r", "-q", "1", "-m", "x")
    reader = mosquitto(server, "sub", "-V", "mqttv5", "-q", "1", "-v", "-W", "30", *arguments)
    assert reader.stdout is not None and reader.stdout.readline() == b"ready x\n"
    return reader


def test_a_device_that_is_lost(server: MqttServer) -> None:
    device = connected(server, "-t", "ready", "--will-topic", "tele/LWT", "--will-payload", "Offline", "--will-retain")
    device.kill()
    device.communicate(timeout=SECONDS)
    reader = mosquitto(server, "sub", "-V", "mqttv5", "-t", "+/LWT", "-C", "1", "-v", "-W", "30")
    output, _ = reader.communicate(timeout=SECONDS)
    assert output == b"tele/LWT Offline\n"


def test_topics_that_other_clients_could_not_read(server: MqttServer) -> None:
    """They are refused: libmosquitto closes its connection where it meets such a topic."""
    reader = connected(server, "-t", "#", "-C", "2")
    writer = paho.Client(CallbackAPIVersion.VERSION2, "writer", protocol=paho.MQTTv5)
    writer.username_pw_set("admin", PASSWORD)
    reasons: list[int] = []
    writer.on_publish = lambda client, data, mid, reason, properties: reasons.append(reason.value)
    writer.connect("127.0.0.1", server.mqtt_port)
    writer.loop_start()
    for topic in ("a\x01b", "a\x7f", "a\ufffe", "a\n", "last"):
        writer.publish(topic, "x", 1).wait_for_publish(SECONDS)
    writer.disconnect()
    writer.loop_stop()
    output, _ = reader.communicate(timeout=SECONDS)
    assert output == b"last x\n"
    assert reasons == [0x90] * 4 + [0]
