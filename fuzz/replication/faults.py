"""What is done to the nodes while clients are at work."""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import time
from collections.abc import Callable

import psutil

from fuzz.replication.network import IS_SILENT, REFUSES
from fuzz.replication.nodes import FREE, Node, Nodes
from tests.support.waiting import wait_until

STOPPED = 3.0  # seconds at most for which a process is stopped
CUT = 6.0  # seconds at most for which a node is cut off
ROOM, ENGINE_ROOM = 1 << 20, 1 << 16  # bytes at most that a volume still has when it becomes full
YEAR = 365 * 86400.0


class Faults:
    """Each call of a method is one; all nodes run when it ends."""

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
        away = self._node()
        away.kill()
        self._go_on(self._source.randrange(50, 200))
        self._shorten(away)
        self._go_on(self._source.randrange(50))
        away.start()

    def _shorten(self, away: Node) -> None:
        """The streams of all others."""
        for node in self._nodes.all:
            if node is not away:
                wait_until(lambda: self._purge(node), node.process.logged, pause=0.5)  # noqa: B023

    @staticmethod
    def _purge(node: Node) -> bool:
        """Whether it is done: an engine that has just begun, or had no space, does not do it."""
        answer = node.process.operate("purge_stream", database="data", options={"keep": 1})
        assert answer.status_code in (200, 503), answer.text
        return answer.status_code == 200

    def lose_streams(self) -> None:
        """As a power failure may leave the files of an engine: nothing is there, or what was there before."""
        node = self._node()
        streams = node.root / "replication" / "streams"
        before = node.root.with_name(f"{node.name}.streams")
        node.kill()
        if self._source.random() < 0.7:
            shutil.copytree(streams, before)
            node.start()
            self._go_on(self._source.randrange(200))
            node.kill()
        for path in streams.iterdir():
            shutil.rmtree(path)
        if before.exists():
            shutil.copytree(before, streams, dirs_exist_ok=True)
            shutil.rmtree(before)
        node.start()

    def kill_engine(self) -> None:
        self._kill_engine(self._node())

    @staticmethod
    def _kill_engine(node: Node) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            node.engine().kill()

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

    def fill_disk(self) -> None:
        """Of one node: it refuses writes, goes on reading, and takes what others have written once there is space. Its engine too, at times."""
        node = self._nodes.small
        volumes = [node.volume, node.engine_volume] if self._source.random() < 0.5 else [node.volume]
        node.is_full = True
        for volume in volumes:
            volume.fill(self._source.randrange(ROOM))
        refused = node.refusals
        wait_until(lambda: node.refusals > refused, "nothing is refused")
        self._go_on(self._source.randrange(400))
        if self._source.random() < 0.3:
            self._kill_engine(node)
        if self._source.random() < 0.3:
            self._shorten(node)  # what it had no space for: it has to copy
        is_killed = self._source.random() < 0.3
        if is_killed:
            node.kill()
        for volume in volumes:
            volume.empty()
        if is_killed:
            node.start()
        node.is_full = False

    def fill_engine(self) -> None:
        """Of one node: it writes as ever, and what it has written is sent once the engine has space."""
        node = self._nodes.small
        said = len(node.process.logged())
        node.engine_volume.fill(self._source.randrange(ENGINE_ROOM))
        wait_until(lambda: "the engine did not store a message" in node.process.logged()[said:], node.process.logged)
        self._go_on(self._source.randrange(300))
        if self._source.random() < 0.3:
            self._restart(node)
        node.engine_volume.empty()

    def clock_ahead(self) -> None:
        """The clock of one node is a year ahead, and is set right again. What it writes has versions that are a year ahead from now on."""
        node = self._nodes.ahead
        others = [each for each in self._nodes.all if each is not node]
        said = {each.name: len(each.process.logged()) for each in others}
        node.set_clock(YEAR)
        self._go_on(self._source.randrange(50, 300))
        for each in others:
            wait_until(lambda: "ahead of the clock here" in each.process.logged()[said[each.name] :], each.process.logged)  # noqa: B023
        if self._source.random() < 0.5:
            self._restart(node)
            self._go_on(self._source.randrange(100))
        node.set_clock(0.0)
        if self._source.random() < 0.5:
            self._restart(node)

    def _restart(self, node: Node) -> None:
        node.kill()
        node.start()
