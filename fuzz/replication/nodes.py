"""The nodes under test, and what is done to them."""

from __future__ import annotations

import contextlib
import json
import shutil
import struct
from pathlib import Path
from typing import Any

import psutil

from fuzz.replication.network import Network
from fuzz.replication.volumes import Volume
from tests.integration.conftest import Process
from tests.support.ports import free_port
from tests.support.server_hooks import SKEWED_CLOCK
from tests.support.waiting import wait_until

APPLICATION = Path(__file__).parent / "application"
NAMES = "a", "b", "c"
SKEWS = 0.0, 0.4, -0.4  # seconds by which the clocks of the nodes are wrong
FREE = "Free"  # a table
RETENTION = "60M"  # of the log, by which all of it is there at the end, also at a node whose clock was wrong


class Node:
    """One server, and the engine that it has as a child. `is_up`: clients may call it. `is_full`: it may refuse what they write, `refusals`: how often it
    has. `was_ahead`: its clock was, far. `volume`, `engine_volume`: file systems of its own, see `Nodes`."""

    volume: Volume
    engine_volume: Volume

    def __init__(self, path: Path, name: str, skew: float, network: Network, application: Path) -> None:
        self.name = name
        self.root = path / name
        self.databases = self.root / "database"
        self.is_up = self.is_full = self.was_ahead = False
        self.refusals = 0
        self._skew = skew
        self._skew_file = path / f"{name}.skew"
        self.set_clock(0.0)
        engine = free_port()
        self.url = f"wss://127.0.0.1:{network.add(name, engine)}"
        section = {"hostname": name, "securePort": engine, "url": self.url}
        config = {"node": {"hostname": name}, "replication": section}
        env = {
            "SVC_SET_CONFIG": json.dumps(config),
            "SVC_TEST_HOOK": SKEWED_CLOCK,
            "SVC_TEST_SKEW": str(self._skew_file),
            "LOGGING_LEVEL": "info",
            "LOGGING_AUDITRETENTION": RETENTION,
            "STORAGE_RECLAMATION_THRESHOLD": "0",
        }
        self.process = Process(self.root, application, env=env)

    def start(self) -> None:
        self.process.start()
        self.is_up = True

    def stop(self) -> None:
        self.is_up = False
        status = self.process.stop()
        assert status == 0, (status, self.process.output()[-5000:])

    def kill(self) -> None:
        self.is_up = False
        self.process.kill()

    def set_clock(self, ahead: float) -> None:
        """So many seconds ahead of what it is as a rule."""
        self.was_ahead |= ahead > 0
        with self._skew_file.open("r+b" if self._skew_file.exists() else "wb") as file:
            file.write(struct.pack("d", self._skew + ahead))  # in place: the server has it in its memory

    def owns_port(self, port: int) -> bool:
        """Whether a connection of this node comes from that port."""
        with contextlib.suppress(psutil.Error):
            return any(each.laddr.port == port for instance in self.process.instances for each in instance.net_connections("tcp4"))
        return False

    def engine(self) -> psutil.Process:
        def found() -> psutil.Process | None:
            with contextlib.suppress(psutil.Error):
                for instance in self.process.instances:
                    for child in instance.children():
                        return child
            return None

        engine = wait_until(found, self.process.logged)
        assert engine is not None
        return engine

    def operate(self, operation: str, **fields: Any) -> Any:
        answer = self.process.operate(operation, **fields)
        assert answer.status_code == 200, answer.text
        return answer.json()


class Nodes:
    """Three of them, which know each other once they are started. `small`: the one whose disk can become full; `ahead`: the one whose clock can be far ahead.

    With `volumes` the data of `small` are on a file system of their own, and so are the streams of its engine.
    """

    def __init__(self, path: Path, *, volumes: bool) -> None:
        application = path / "application"
        shutil.copytree(APPLICATION, application, ignore=shutil.ignore_patterns("__pycache__"))
        self.network = Network(self._sender_of)
        self.all = [Node(path, name, skew, self.network, application) for name, skew in zip(NAMES, SKEWS, strict=True)]
        _, self.small, self.ahead = self.all
        self._volumes: list[Volume] = []
        self._has_volumes = volumes

    def start(self) -> None:
        if self._has_volumes:
            self._mount()
        for node in self.all:
            node.start()
        for node in self.all:
            for other in self.all:
                if other is not node:
                    authority = (other.root / "keys" / "ca.pem").read_text()
                    node.operate("add_certificate", name=f"{other.name}-authority", certificate=authority, is_authority=True)
                    node.operate("add_node", hostname=other.name, url=other.url)
        first = self.all[0]
        first.operate("create_table", database="data", table=FREE, primary_key="id")
        first.operate("insert", database="data", table=FREE, records=[{"id": "one"}])
        wait_until(lambda: all(FREE in node.operate("describe_all")["data"] for node in self.all), "a table is not made everywhere")

    def _mount(self) -> None:
        """Raises OSError where that is not possible."""
        node = self.small
        self._volumes.append(Volume(node.root))
        node.start()  # it wants its directory empty
        node.stop()
        self._volumes.append(Volume(node.root / "replication" / "streams"))
        node.volume, node.engine_volume = self._volumes

    def stop(self) -> None:
        for node in self.all:
            node.stop()
        self.network.close()

    def kill(self) -> None:
        for node in self.all:
            node.kill()
        self.network.close()

    def close(self, *, keep: bool) -> None:
        """`keep`: the data of all are needed still. They are stopped or killed."""
        for volume in reversed(self._volumes):
            volume.close(keep=keep)

    def _sender_of(self, port: int) -> str | None:
        return next((node.name for node in self.all if node.owns_port(port)), None)
