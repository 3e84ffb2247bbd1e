"""The log of clients of MQTT: what is written to it, and how much."""

from __future__ import annotations

from typing import Any

import pytest

import svc.testing
from svc.protocol.mqtt_packets import V3, Auth
from svc.testing.application import Application
from tests.unit.testing.conftest import write_application


def lines(app: Application) -> list[tuple[str, str]]:
    found = [(each.level, each.text) for each in app.logs if "mqtt" in each.tags]
    app.logs.clear()
    return found


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Any:
    files = {"config.yaml": "graphqlSchema: {files: '*.graphql'}\n", "schema.graphql": "type Sensor @table @export { id: ID @primaryKey }"}
    return write_application(tmp_path_factory.mktemp("mqtt") / "logged", files)


def test_the_log_of_clients(directory: Any) -> None:
    with svc.testing.app(directory, mqtt_logging={"level": "info"}) as app:
        lines(app)
        client = app.mqtt("a", keep_alive=10)
        assert lines(app) == [("info", "a has connected: user admin, MQTT 5 over TCP, client: 192.0.2.1")]
        client.disconnect()
        assert lines(app) == [("info", "the connection of a has ended: DISCONNECT, client: 192.0.2.1")]
        client = app.mqtt("a", version=V3)
        client.cancel()
        assert lines(app)[1][0] == "info"
        client = app.mqtt("a", keep_alive=10)
        app.clock.advance(20)
        level, text = lines(app)[1]
        assert level == "info" and text.startswith("the connection of a has ended: 0x8d no packet within")
        client = app.mqtt("b\nforged")
        client._send(Auth())
        found = lines(app)
        assert found[0][1].startswith("b\\nforged has connected") and found[1][0] == "warn" and "0x82 AUTH without a method" in found[1][1]
        with pytest.raises(AssertionError):
            app.mqtt("a", user=None)
        assert lines(app) == [("warn", "a connection of a was refused with 0x87: a user name and a password are needed, client: 192.0.2.1")]
        app.mqtt("a")
        app.mqtt("a")
        assert "0x8e another connection has come" in lines(app)[1][1]


def test_refused_messages_are_logged_in_bounds(directory: Any) -> None:
    with svc.testing.app(directory, mqtt_logging={"level": "info"}) as app:
        client = app.mqtt("a")
        lines(app)
        for _ in range(50):
            client.publish("Nothing/x", {}, 1)
        client.publish("Nothing/y", {})
        client.ping()
        first = "a message of a to Nothing/x was refused with 0x90: There is no such topic"
        assert lines(app) == [("warn", first), ("warn", first.replace("/x", "/y"))]
        app.clock.advance(65)
        assert lines(app) == [("warn", "49 more messages of a to Nothing/x were refused")]
        client.publish("Nothing/x", {}, 1)
        assert lines(app) == [("warn", first)]
        for number in range(1500):
            client.publish(f"Nothing/{number}", {})
        client.ping()
        assert len(lines(app)) == 999
        app.clock.advance(130)
        assert lines(app) == [("warn", "501 messages to other topics were refused")]


def test_without_a_log_of_its_own(directory: Any) -> None:
    with svc.testing.app(directory, logging_level="info") as app:
        lines(app)
        client = app.mqtt("a")
        client.publish("Nothing/x", {})
        client.publish("Nothing/x", {})
        client.disconnect()
        with pytest.raises(AssertionError):
            app.mqtt("a", user=None)
        assert lines(app) == [("info", "a message of a to Nothing/x was refused with 0x90: There is no such topic")]
