"""What the section `replication` may say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from svc.config import Config
from svc.config.replication import replication_faults
from svc.errors import ConfigError

RIGHT: tuple[dict[str, Any], ...] = (
    {},
    {"hostname": "node-a.example", "url": "wss://10.0.0.1:9933", "shard": 5},
    {"databases": ["data", {"name": "shop", "sharded": False}], "routes": ["b", "c:9944", {"hostname": "d", "port": 1}]},
    {"servers": ["tls://engine:4222", "other"], "credentials": {"token": "x"}, "streamReplicas": 3},
    {"routes": ["::1", "[::1]:9933", "wss://b:9933", {"host": "b", "revokedCertificates": ["1A"], "replicates": {"sends": False}}]},
)


@pytest.mark.parametrize("section", RIGHT, ids=str)
def test_what_is_right(tmp_path: Path, section: dict[str, Any]) -> None:
    assert Config.from_document({"replication": {"securePort": 9944, **section}}, tmp_path).replication is not None


@pytest.mark.parametrize(
    ("section", "fault"),
    [
        ({"hostname": "a b"}, "'replication.hostname' must be a name such as that of a host: letters, digits, '.', '_' and '-'"),
        ({"hostname": "a" * 201}, "'replication.hostname' must be a name"),
        ({"url": "server-two"}, "'replication.url' must be an address such as wss://server-two:9933"),
        ({"shard": -1}, "'replication.shard' must be an integer from 0 to 65535"),
        ({"shard": "1"}, "'replication.shard' must be an integer from 0 to 65535"),
        (
            {"replicateTo": 2},
            "'replication.replicateTo' asks for records that only some nodes have: this version keeps every record on every node",
        ),
        ({"databases": "data"}, "'replication.databases' must be '*', or a list of names or of mappings with 'name'"),
        ({"databases": ["data", 5]}, "'replication.databases[1]' must be the name of a database, or a mapping with 'name'"),
        ({"databases": [{"name": "data", "sharded": True}]}, "'replication.databases[0]' asks for records that only some nodes have"),
        ({"databases": [{"name": "data", "replicateTo": 2}]}, "'replication.databases[0]' asks for records"),
        (
            {"databases": [{"name": "data", "table": "x"}]},
            "'replication.databases[0]' has the unknown key 'table'; there are name, replicateTo, sharded",
        ),
        ({"routes": ["a b"]}, "'replication.routes[0]' must be the name of a host, with its port if that is not 9933"),
        ({"routes": [{"port": 5}]}, "'replication.routes[0]' must have a 'hostname' that is the name of a host"),
        ({"routes": [{"hostname": "b", "port": 70000}]}, "'replication.routes[0]' must have a 'port' from 1 to 65535"),
        ({"routes": [{"hostname": "b", "revokedCertificates": "1A"}]}, "'replication.routes[0]' must have 'revokedCertificates'"),
        ({"routes": [{"hostname": "b", "prot": 1}]}, "'replication.routes[0]' has the unknown key 'prot'"),
        ({"routes": [7]}, "'replication.routes[0]' must be the name of a host, or a mapping with 'hostname'"),
        ({"servers": ["http://x"]}, "'replication.servers[0]' must be an address of an engine, such as tls://engine.example:4222"),
        ({"servers": []}, "'replication.servers' must have an address; leave it out to let each node run its own engine"),
        ({"credentials": {"token": "x"}}, "'replication.credentials' is for engines that run elsewhere: 'replication.servers' is missing"),
        ({"streamReplicas": 3}, "'replication.streamReplicas' is for engines that run elsewhere"),
    ],
)
def test_what_is_wrong(tmp_path: Path, section: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.from_document({"replication": {"securePort": 9944, **section}}, tmp_path)
    assert fault in str(caught.value) and "\n" not in str(caught.value)


def test_routes_alone_are_only_kept(tmp_path: Path) -> None:
    assert Config.from_document({"replication": {"routes": [7]}}, tmp_path).replication is None
    assert list(replication_faults({"replication.hostname": "a", "replication.routes": (7,)})) != []
