from __future__ import annotations

import json
from pathlib import Path

from svc.cluster.engine_config import EngineFiles, EngineKeys, EnginePort, engine_configuration, environment

FILES, KEYS = EngineFiles(Path('/srv/a "b" $HOME/replication')), EngineKeys("AISSUER", "UOWNER")
SECURE = EnginePort(9933, "0.0.0.0", Path("/keys/certificate.pem"), Path("/keys/privateKey.pem"))


def read(text: str) -> dict[str, object]:
    """Each line is a name and JSON."""
    return {name: json.loads(value) for name, _, value in (line.partition(": ") for line in text.splitlines())}


def test_of_a_secure_port() -> None:
    values = read(engine_configuration("node b", SECURE, FILES, KEYS, disk=5))
    assert values["tls"] == {
        "cert_file": "/keys/certificate.pem",
        "key_file": "/keys/privateKey.pem",
        "ca_file": '/srv/a "b" $HOME/replication/trusted.pem',
        "verify": True,
        "handshake_first": True,
        "timeout": 5,
    }
    assert values["accounts"] == {"NODES": {"jetstream": "enabled", "users": [{"nkey": "UOWNER"}]}}
    assert values["authorization"] == {"timeout": 5, "auth_callout": {"issuer": "AISSUER", "account": "NODES", "auth_users": ["UOWNER"]}}
    assert (values["server_name"], values["port"], values["max_payload"]) == ("node_20b", 9933, 1 << 20)
    assert values["jetstream"] == {"store_dir": '/srv/a "b" $HOME/replication/streams', "max_memory_store": 64 << 20, "max_file_store": 5}
    assert not {"cluster", "gateway", "leafnodes", "websocket", "mqtt", "http", "monitor_port", "no_auth_user", "resolver"} & set(values)


def test_of_a_plain_port() -> None:
    values = read(engine_configuration("b", EnginePort(0, "::1"), FILES, KEYS))
    assert "tls" not in values
    assert (values["host"], values["port"]) == ("::1", -1)
    assert "authorization" in values


def test_the_variables_of_the_server_are_not_passed_on() -> None:
    found = environment({"PATH": "/bin", "SVC_PASSWORD": "secret", "NATS_X": "y"})
    assert found == {"PATH": "/bin", "GOMEMLIMIT": "256MiB", "GOMAXPROCS": "2"}


def test_streams_have_room_on_any_volume() -> None:
    """The engine counts the largest size of each stream, not what it has."""
    values = read(engine_configuration("a", SECURE, FILES, KEYS))
    assert values["jetstream"]["max_file_store"] == 1 << 50
