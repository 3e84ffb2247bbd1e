"""The configuration of a node's engine, as text (spec: replication-engine §1).

<root>/replication/engine.conf   what this makes
<root>/replication/trusted.pem   the certificates it accepts: `Trust.bundle`
<root>/replication/streams/      its streams
<root>/replication/engine.lock   locked while an engine runs on them
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from svc.cluster.admission import NODES_ACCOUNT
from svc.cluster.names import token

MESSAGE_MAX = 1 << 20  # bytes of a message
FILE_STREAMS = 1 << 50  # bytes of all streams in files: each has a limit of its own, and the volume has one
MEMORY_STREAMS = 64 << 20  # bytes: no stream of ours is in memory, positions of readers are
MEMORY = "256MiB"  # from which on the engine collects garbage at any price
THREADS = "2"  # of it that run at a time
CONNECTIONS_MAX = 1024
PENDING_MAX = 32 << 20  # bytes for a client that does not read; then it is cut
ADMISSION_SECONDS = 5  # for TLS, and again for this process to decide
_PASSED_ON = ("PATH", "HOME", "TMPDIR", "LANG", "LD_LIBRARY_PATH")
OLDEST_VERSION = (2, 11, 0)


@dataclass(frozen=True, slots=True)
class EnginePort:
    """`port`: 0: any that is free. `certificate`, `key`: PEM files of this node; None: a plain port, for development."""

    port: int
    host: str = "0.0.0.0"
    certificate: Path | None = None
    key: Path | None = None

    @property
    def is_plain(self) -> bool:
        return self.certificate is None


@dataclass(frozen=True, slots=True)
class EngineKeys:
    """Public keys, in the engine's text form, of key pairs that only this process has and that are new with each start. `issuer`: of the account that says
    who may connect. `owner`: of this process as a client."""

    issuer: str
    owner: str


@dataclass(frozen=True, slots=True)
class EngineFiles:
    """Paths, all in the directory of replication."""

    directory: Path

    @property
    def configuration(self) -> Path:
        return self.directory / "engine.conf"

    @property
    def trusted(self) -> Path:
        return self.directory / "trusted.pem"

    @property
    def streams(self) -> Path:
        return self.directory / "streams"

    @property
    def lock(self) -> Path:
        return self.directory / "engine.lock"


def engine_configuration(node: str, port: EnginePort, files: EngineFiles, keys: EngineKeys, *, disk: int | None = None) -> str:
    """The text of the file. `disk`: bytes for all streams, None: what they may have together, for the engine refuses a stream whose largest size is more than
    what is left of these."""
    account = {"jetstream": "enabled", "users": [{"nkey": keys.owner}]}
    store = {"store_dir": str(files.streams), "max_memory_store": MEMORY_STREAMS, "max_file_store": FILE_STREAMS if disk is None else disk}
    values: dict[str, object] = {
        "server_name": token(node),
        "host": port.host,
        "port": port.port or -1,
        "max_payload": MESSAGE_MAX,
        "max_pending": PENDING_MAX,
        "max_connections": CONNECTIONS_MAX,
        "write_deadline": "10s",
        "ping_interval": "10s",
        "ping_max": 3,
        "lame_duck_duration": "30s",
        "logtime": False,
        "jetstream": store,
        "accounts": {NODES_ACCOUNT: account},
        "authorization": {
            "timeout": ADMISSION_SECONDS,
            "auth_callout": {"issuer": keys.issuer, "account": NODES_ACCOUNT, "auth_users": [keys.owner]},
        },
    }
    if not port.is_plain:
        values["tls"] = {
            "cert_file": str(port.certificate),
            "key_file": str(port.key),
            "ca_file": str(files.trusted),
            "verify": True,
            "handshake_first": True,
            "timeout": ADMISSION_SECONDS,
        }
    return "".join(f"{name}: {_encode(value)}\n" for name, value in values.items())


def _encode(value: object) -> str:
    """The engine reads a superset of JSON, in which `$` stands for nothing inside quotes."""
    return msgspec.json.encode(value).decode()


def environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """The variables of the engine's process: none of what the server has but those without which no program runs."""
    kept: dict[str, str] = {name: inherited[name] for name in _PASSED_ON if name in inherited}
    return {**kept, "GOMEMLIMIT": MEMORY, "GOMAXPROCS": THREADS}


def is_supported(version: str) -> bool:
    """
    >>> is_supported("2.15.1"), is_supported("2.9.10"), is_supported("2.12.0-RC.1"), is_supported("?")
    (True, False, True, False)
    """
    try:
        parts = [int(part) for part in version.partition("-")[0].split(".")]
    except ValueError:
        return False
    return tuple(parts) >= OLDEST_VERSION
