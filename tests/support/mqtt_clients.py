"""Clients of MQTT that are not ours, for a started server: paho-mqtt, and the programs of mosquitto."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.integration.conftest import PASSWORD, Process
from tests.support.certificates import Pair, authority, localhost
from tests.support.ports import free_port

SECONDS = 30.0
VERSIONS = [paho.MQTTv311, paho.MQTTv5]

needs_mosquitto = pytest.mark.skipif(shutil.which("mosquitto_pub") is None, reason="mosquitto-clients is not installed")


class MqttServer(Process):
    """A server with tables, on ports for MQTT with and without TLS."""

    def __init__(self, folder: Path, schema: str, **env: str) -> None:
        app = folder / "app"
        app.mkdir()
        (app / "config.yaml").write_text("rest: true\ngraphqlSchema: {files: '*.graphql'}\n")
        (app / "schema.graphql").write_text(schema)
        self.mqtt_port, self.mqtts_port = free_port(), free_port()
        ports = {"MQTT_NETWORK_PORT": str(self.mqtt_port), "MQTT_NETWORK_SECUREPORT": str(self.mqtts_port)}
        tls = {"TLS_CERTIFICATE": str(localhost().file), "TLS_PRIVATEKEY": str(localhost().key_file)}
        tls["TLS_CERTIFICATEAUTHORITY"] = str(authority().file)
        super().__init__(folder / "root", app, env={**ports, **tls, **env})


class MqttPorts(Protocol):
    """Where clients connect: over WebSocket, TCP and TLS."""

    port: int
    mqtt_port: int
    mqtts_port: int


class Client:
    """A paho client whose callbacks note what they are called with."""

    def __init__(
        self,
        server: MqttPorts | Process,
        client_id: str = "",
        version: int = paho.MQTTv5,
        *,
        port: int | None = None,
        clean: bool = True,
        tls: bool = False,
        transport: Literal["tcp", "websockets"] = "tcp",
        will: tuple[Any, ...] | None = None,
        login: tuple[str, str] | None = ("admin", PASSWORD),
        certificate: Pair | None = None,
        reconnects: bool = True,
        on_request: Callable[[paho.Client, paho.MQTTMessage], object] | None = None,
    ) -> None:
        """`port`: of a server that is no MqttServer. `certificate`: that it shows. `reconnects`: when the connection is lost. `on_request`: called with each
        message."""
        self.messages: list[paho.MQTTMessage] = []
        self.connected: list[tuple[bool, int]] = []
        self.ended: list[int] = []
        self.subscribed: dict[int, list[int]] = {}
        self.published: dict[int, int] = {}
        self.unsubscribed: set[int] = set()
        self.changed = threading.Condition()
        kind: dict[str, Any] = {} if version == paho.MQTTv5 else {"clean_session": clean}
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id, protocol=version, transport=transport, reconnect_on_failure=reconnects, **kind
        )
        self.client.reconnect_delay_set(0.05, 0.2)  # type: ignore[arg-type]
        if login is not None:
            self.client.username_pw_set(*login)
        self.client.on_connect = lambda c, u, flags, reason, found: self.note(self.connected.append, (flags.session_present, reason.value))
        self.client.on_disconnect = lambda c, u, flags, reason, found: self.note(self.ended.append, reason.value)
        self.client.on_subscribe = lambda c, u, mid, reasons, found: self.note(
            self.subscribed.update, {mid: [each.value for each in reasons]}
        )
        self.client.on_unsubscribe = lambda c, u, mid, reasons, found: self.note(self.unsubscribed.add, mid)
        self.client.on_publish = lambda c, u, mid, reason, found: self.note(self.published.update, {mid: reason.value})

        def on_message(client: paho.Client, userdata: object, message: paho.MQTTMessage) -> None:
            if on_request is not None:
                on_request(client, message)
            self.note(self.messages.append, message)

        self.client.on_message = on_message
        if will is not None:
            self.client.will_set(*will)
        if tls:
            shown = {} if certificate is None else {"certfile": str(certificate.file), "keyfile": str(certificate.key_file)}
            self.client.tls_set(ca_certs=str(authority().file), cert_reqs=ssl.CERT_REQUIRED, **shown)  # type: ignore[arg-type]
        given: dict[str, Any] = {}
        if version == paho.MQTTv5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = 0 if clean else 1000
            given = {"clean_start": clean, "properties": properties}
        if port is None:
            port = server.port if transport == "websockets" else server.mqtts_port if tls else server.mqtt_port
        self.client.connect("localhost" if tls else "127.0.0.1", port, 30, **given)
        self.client.loop_start()
        self.until(lambda: self.connected or self.ended)

    def note(self, store: Callable[[Any], object], value: Any) -> None:
        with self.changed:
            store(value)
            self.changed.notify_all()

    def until(self, is_so: Callable[[], object]) -> None:
        with self.changed:
            assert self.changed.wait_for(is_so, SECONDS), (self.connected, self.ended, self.messages)

    def subscribe(self, filter: str, qos: int) -> list[int]:
        _, mid = self.client.subscribe(filter, qos)
        assert mid is not None
        self.until(lambda: mid in self.subscribed)
        return self.subscribed[mid]

    def unsubscribe(self, filter: str) -> None:
        _, mid = self.client.unsubscribe(filter)
        assert mid is not None
        self.until(lambda: mid in self.unsubscribed)

    def publish(self, topic: str, payload: Any, qos: int, retain: bool = False) -> int:
        info = self.client.publish(topic, payload, qos, retain)
        self.until(lambda: info.mid in self.published)
        return self.published[info.mid]

    def expect(self, count: int) -> list[tuple[str, bytes]]:
        self.until(lambda: len(self.messages) >= count)
        return [(message.topic, bytes(message.payload)) for message in self.messages]

    def close(self) -> None:
        self.client.disconnect()
        self._stop()

    def _stop(self) -> None:
        self.client.loop_stop()
        self.client._reset_sockets(sockpair_only=True)  # else it depends on the collector whether they are closed

    def lose(self) -> None:
        """The connection ends without DISCONNECT."""
        sock = self.client.socket()
        self._stop()
        assert sock is not None
        sock.close()


def mosquitto(server: MqttServer, program: str, *arguments: str) -> subprocess.Popen[bytes]:
    """`mosquitto_<program>`, with the login of the administrator."""
    login = ["-h", "127.0.0.1", "-p", str(server.mqtt_port), "-u", "admin", "-P", PASSWORD]
    return subprocess.Popen(
        [f"mosquitto_{program}", *login, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.PIPE
    )
