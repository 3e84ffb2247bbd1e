"""A run: nodes, clients and followers, faults, and the checks afterwards."""

from __future__ import annotations

import hashlib
import http.client
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from fuzz.consistency.followers import StreamFollower
from fuzz.replication.clients import Client, Recorder
from fuzz.replication.faults import Faults
from fuzz.replication.nodes import Node, Nodes
from fuzz.replication.verify import Found, check_all, check_messages
from tests.support.waiting import wait_until

FAULTS = (
    "kill_node", "restart_node", "kill_two", "kill_engine", "pause_engine", "pause_node",
    "cut_off", "cut_silently", "add_attribute", "make_table", "shorten_streams", "lose_streams", "clock_ahead", "fill_disk", "fill_engine",
)  # fmt: skip
MAY_COPY = "shorten_streams", "lose_streams", "fill_disk"
NEED_VOLUMES = "fill_disk", "fill_engine"  # these of the faults, and these only as root
CLIENTS = 2  # of each node
SHOWN = 20  # problems


@dataclass
class Plan:
    """`faults`: each is done once, or, if `seconds` are given, by turns until these are over."""

    seed: int
    seconds: float = 0.0
    faults: Sequence[str] = FAULTS
    between: int = 300  # calls at most that are answered between two faults


@dataclass
class Result:
    writes: int = 0
    without_outcome: int = 0
    refused: int = 0
    messages: int = 0
    converged: float = 0.0  # seconds after the last write
    done: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


class MessageFollower(StreamFollower):
    """Of the messages to Note at one node."""

    def __init__(self, node: Node, seed: int) -> None:
        super().__init__(f"follower-{node.name}", seed, lambda kind: node.process.port, path="/Note/")
        self.node = node
        self.numbers: list[int] = []
        self.is_following = False

    def begin(self) -> None:
        self.is_following = True

    def take(self, event: dict[str, Any]) -> None:
        if event["type"] == "message":
            self.numbers.append(event["value"]["n"])

    def has_seen(self, n: int) -> bool:
        return n in self.numbers


class Run:
    def __init__(self, plan: Plan, path: Path) -> None:
        self.plan = plan
        self.source = random.Random(plan.seed)
        self.recorder = Recorder()
        self.nodes = Nodes(path, volumes=not set(NEED_VOLUMES).isdisjoint(plan.faults))
        self.done: Counter[str] = Counter()
        self.clients: list[Client] = []
        self.followers: list[MessageFollower] = []

    def run(self) -> Result:
        """All of it. Raises whatever keeps it from its end; what is wrong with the data is in the result."""
        is_right = False
        try:
            self.nodes.start()
            self._begin()
            self._disturb()
            converged = self._end()
            self.nodes.stop()
            result = self._verify(converged)
            is_right = not result.problems
            return result
        except BaseException:
            self.nodes.kill()
            raise
        finally:
            self.nodes.close(keep=not is_right)

    def _begin(self) -> None:
        for number, node in enumerate(self.nodes.all * CLIENTS):
            self.clients.append(Client(number, self.plan.seed, self.recorder, node))
        self.followers = [MessageFollower(node, self.plan.seed) for node in self.nodes.all]
        for follower in self.followers:
            follower.start()
        self._tell_all()  # so that each has a position
        for client in self.clients:
            client.start()

    def _tell_all(self) -> None:
        """A message to each node, which all followers must get."""
        wait_until(lambda: all(follower.is_following for follower in self.followers), "the followers are not connected")
        numbers = []
        for node in self.nodes.all:
            numbers.append(n := self.recorder.number())
            with node.process.client() as client:
                assert client.post("/Tell/", json={"id": "all", "n": n}).status_code == 200
        for follower in self.followers:
            for n in numbers:
                wait_until(lambda: follower.failure or follower.has_seen(n), self._state)  # noqa: B023

    def _state(self) -> str:
        """For a failure: what each node has logged last."""
        return "\n".join(f"--- {node.name}\n" + node.process.logged()[-3000:] for node in self.nodes.all)

    def _disturb(self) -> None:
        faults = Faults(self.nodes, random.Random(f"{self.plan.seed} faults"), self._go_on)
        end = time.monotonic() + self.plan.seconds
        order = list(self.plan.faults)
        while True:
            self.source.shuffle(order)
            for name in order:
                self._go_on(self.source.randrange(self.plan.between))
                getattr(faults, name)()
                self.done[name] += 1
            if time.monotonic() >= end:
                self._go_on(self.plan.between)
                return

    def _go_on(self, calls: int) -> None:
        goal = self.recorder.answers + calls
        wait_until(lambda: self.recorder.answers >= goal or self._failed(), "calls are not answered")
        assert not self._failed(), self._failed()

    def _failed(self) -> list[str]:
        return [f"{each.name}: {each.failure!r}" for each in (*self.clients, *self.followers) if each.failure is not None]

    def _end(self) -> float:
        """Seconds until all nodes had the same."""
        for client in self.clients:
            client.is_over.set()
        for client in self.clients:
            client.join()
        assert not self._failed(), self._failed()
        began = time.monotonic()
        wait_until(self._are_equal, self._differences)
        converged = time.monotonic() - began
        self._tell_all()
        for follower in self.followers:
            follower.is_over.set()
            follower.hang_up()
            follower.join()
        return converged

    def _contents(self, node: Node) -> dict[str, Any]:
        with node.process.client() as client:
            files = {}
            for key in client.get("/File/?select(id)").json():
                answer = client.get(f"/File/{key}/content")
                files[key] = answer.status_code, hashlib.sha256(answer.content).hexdigest()
            return {table: client.get(f"/{table}/?limit(1000000)").json() for table in ("Item", "Pair")} | {
                "tables": sorted(node.operate("describe_all")["data"]),
                "files": files,
            }

    def _are_equal(self) -> bool:
        try:
            first, *others = [self._contents(node) for node in self.nodes.all]
        except (httpx.HTTPError, OSError, http.client.HTTPException):
            return False
        return all(other == first for other in others) and all(status == 200 for status, _ in first["files"].values())

    def _differences(self) -> str:
        found = {node.name: self._contents(node) for node in self.nodes.all}
        lines = []
        for table in ("Item", "Pair"):
            records = {name: {record["id"]: record for record in contents[table]} for name, contents in found.items()}
            for key in set().union(*records.values()):
                values = {name: of.get(key) for name, of in records.items()}
                if len({str(value)[:200] for value in values.values()}) > 1:
                    lines.append(f"{table}/{key}: {str(values)[:400]}")
        return "\n".join(
            [
                "the nodes do not become equal:",
                *lines[:SHOWN],
                *(f"{contents['tables']} {contents['files']}" for contents in found.values()),
                self._state(),
            ]
        )

    def _verify(self, converged: float) -> Result:
        recorder = self.recorder
        problems = [*recorder.faults, *check_all(self.nodes.all, recorder)]
        found = [Found(node) for node in self.nodes.all]
        numbers = {follower.node.name: follower.numbers for follower in self.followers}
        problems += check_messages(found, numbers, may_miss=not set(MAY_COPY).isdisjoint(self.done))
        return Result(
            writes=sum(write.is_certain for write in recorder.writes),
            without_outcome=sum(not write.is_certain and not write.is_refused for write in recorder.writes),
            refused=sum(write.is_refused for write in recorder.writes),
            messages=sum(len(follower.numbers) for follower in self.followers),
            converged=converged,
            done=self.done,
            problems=problems[:SHOWN],
        )
