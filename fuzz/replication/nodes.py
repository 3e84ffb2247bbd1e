"""The nodes under test, and what is done to them."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from fuzz.replication.network import IS_SILENT, REFUSES, Network
from tests.integration.conftest import Process
from tests.support.ports import free_port
from tests.support.server_hooks import SKEWED_CLOCK
from tests.support.waiting import wait_until

APPLICATION = Path(__file__).parent / "application"
NAMES = "a", "b", "c"
SKEWS = 0.0, 0.4, -0.4  # seconds by which the clocks of the nodes are wrong
STOPPED = 3.0  # seconds at most for which a process is stopped
FREE = "Free"  # a table
CUT = 6.0  # seconds at most for which a node is cut off


class Node:
    """One server, and the engine that it has as a child. `is_up`: clients may call it."""

    def __init__(self, path: Path, name: str, skew: float, network: Network, application: Path) -> None:
        self.name = name
        self.root = path / name
        self.databases = self.root / "database"
        self.is_up = False
        engine = free_port()
        self.url = f"wss://127.0.0.1:{network.add(name, engine)}"
        section = {"hostname": name, "securePort": engine, "url": self.url}
        config = {"node": {"hostname": name}, "replication": section}
        env = {
            "SVC_SET_CONFIG": json.dumps(config),
            "SVC_TEST_HOOK": SKEWED_CLOCK,
            "SVC_TEST_SKEW": str(skew),
            "LOGGING_LEVEL": "info",
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
    """Three of them, which know each other once they are started."""

    def __init__(self, path: Path) -> None:
        application = path / "application"
        shutil.copytree(APPLICATION, application, ignore=shutil.ignore_patterns("__pycache__"))
        self.network = Network(self._sender_of)
        self.all = [Node(path, name, skew, self.network, application) for name, skew in zip(NAMES, SKEWS, strict=True)]

    def start(self) -> None:
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

    def stop(self) -> None:
        for node in self.all:
            node.stop()
        self.network.close()

    def kill(self) -> None:
        for node in self.all:
            node.kill()
        self.network.close()

    def _sender_of(self, port: int) -> str | None:
        return next((node.name for node in self.all if node.owns_port(port)), None)


class Faults:
    """What is done to the nodes while clients are at work. Each call of a method is one; all nodes run when it ends."""

    def __init__(self, nodes: Nodes, source: random.Random, go_on: Callable[[int], None]) -> None:
        """`go_on`: lets clients work until so many more calls are answered."""
        self._nodes = nodes
        self._source = source
        self._go_on = go_on
        self._attributes = 0

    def _node(self) -> Node:
        return self._source.choice(self._nodes.all)

    def kill_node(self) -> None:
        node = self._node()
        node.kill()
        self._go_on(self._source.randrange(200))
        node.start()

    def restart_node(self) -> None:
        node = self._node()
        node.stop()
        node.start()

    def kill_two(self) -> None:
        first, second = self._source.sample(self._nodes.all, 2)
        first.kill()
        second.kill()
        self._go_on(self._source.randrange(100))
        second.start()
        first.start()

    def shorten_streams(self) -> None:
        """While a node is away, so that it has to copy the database from another one."""
        away, *others = self._source.sample(self._nodes.all, 3)
        away.kill()
        self._go_on(self._source.randrange(50, 200))
        for node in others:
            node.operate("purge_stream", database="data", options={"keep": 1})
        self._go_on(self._source.randrange(50))
        away.start()

    def kill_engine(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            self._node().engine().kill()

    def pause_engine(self) -> None:
        self._pause(self._node().engine())

    def pause_node(self) -> None:
        self._pause(self._source.choice(self._node().process.instances))

    def _pause(self, process: psutil.Process) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGSTOP)
            time.sleep(self._source.random() * STOPPED)
            process.send_signal(signal.SIGCONT)

    def cut_off(self) -> None:
        self._cut(REFUSES)

    def cut_silently(self) -> None:
        self._cut(IS_SILENT)

    def _cut(self, how: str) -> None:
        self._nodes.network.cut(self._node().name, how)
        time.sleep(self._source.random() * CUT)
        self._nodes.network.heal()

    def add_attribute(self) -> None:
        """On one node, which has to tell the others: to a table that no application declares."""
        self._attributes += 1
        self._node().operate("create_attribute", database="data", table=FREE, attribute=f"extra{self._attributes}")

    def make_table(self) -> None:
        """On one node; the first record makes it on the others."""
        self._attributes += 1
        node, table = self._node(), f"Made{self._attributes}"
        node.operate("create_table", database="data", table=table, primary_key="id")
        node.operate("insert", database="data", table=table, records=[{"id": "one", "n": self._attributes}])
