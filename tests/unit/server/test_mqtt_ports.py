"""The ports of MQTT, which are open by default: many machines have a broker."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

import pytest

from svc.server.serving import Server


def server_with(port: int | None, secure_port: int | None, warnings: list[str]) -> Any:
    server = Server.__new__(Server)
    network = SimpleNamespace(port=port, secure_port=secure_port)
    server.instance = SimpleNamespace(  # type: ignore[assignment]
        config=SimpleNamespace(mqtt=SimpleNamespace(network=network)), logs=SimpleNamespace(logger=SimpleNamespace(warn=warnings.append))
    )
    return server


def taken(number: int) -> Any:
    def listen() -> None:
        raise OSError(number, "mqtt.network.port 1883, http.host 0.0.0.0: it is in use")

    return SimpleNamespace(listen=listen)


def test_a_default_port_that_another_program_has_is_left_out() -> None:
    warnings: list[str] = []
    server_with(1883, 8883, warnings)._listen_to_mqtt(taken(errno.EADDRINUSE))
    assert len(warnings) == 1 and "mqtt.network.port 1883" in warnings[0] and "WebSocket" in warnings[0]


def test_another_one_is_not() -> None:
    with pytest.raises(OSError):
        server_with(1884, None, [])._listen_to_mqtt(taken(errno.EADDRINUSE))
    with pytest.raises(OSError):
        server_with(1883, 8883, [])._listen_to_mqtt(taken(errno.EACCES))
