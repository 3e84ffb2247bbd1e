"""A run: servers, clients and followers, faults, and the checks afterwards."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.consistency.clients import Client, Code, GraphQL, Mqtt, Operations, Rest, Sql
from fuzz.consistency.followers import Follower, LiveFollower, SessionFollower, SocketFollower, StreamFollower
from fuzz.consistency.history import RELEASE, Recorder
from fuzz.consistency.servers import Faults, Servers
from fuzz.consistency.verify import Found, check_files, check_followers, check_histories, check_log, check_searches
from tests.support.waiting import wait_until

KINDS: Sequence[type[Client]] = (Rest, Rest, GraphQL, Sql, Operations, Code, Mqtt)
FOLLOWERS: Sequence[type[Follower]] = (StreamFollower, StreamFollower, LiveFollower, SocketFollower, SessionFollower)
FAULTS = "kill_instance", "pause_instance", "restart", "kill_in_restart", "kill_parent", "change_schema", "deploy", "kill_in_deploy"
SHOWN = 20  # problems


@dataclass
class Plan:
    """`faults`: how often each is done, or, if `seconds` are given, by turns until these are over. `separate`: servers with roots of their own."""

    seed: int
    instances: int = 2
    separate: bool = False
    seconds: float = 0.0
    faults: Sequence[str] = FAULTS
    between: int = 200  # calls at most that are answered between two faults
    clients: Sequence[type[Client]] = KINDS


@dataclass
class Result:
    writes: int = 0
    calls: int = 0
    without_outcome: int = 0
    registers: int = 0
    events: int = 0
    moves: int = 0
    done: Counter[str] = field(default_factory=Counter)
    acknowledged: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


class Run:
    def __init__(self, plan: Plan, path: Path) -> None:
        self.plan = plan
        self.source = random.Random(plan.seed)
        self.recorder = Recorder()
        self.servers = Servers(path, plan.instances, separate=plan.separate, hangs="hang_instance" in plan.faults)
        self.done: Counter[str] = Counter()
        self.clients: list[Client] = []
        self.followers: list[Follower] = []

    def run(self) -> Result:
        """All of it. Raises whatever keeps it from its end; what is wrong with the data is in the result."""
        try:
            self.servers.start()
            faults = Faults(self.servers, self.recorder, random.Random(f"{self.plan.seed} faults"))
            faults.deploy()
            self._put_alone(1)
            self._begin()
            self._disturb(faults)
            self._end(faults)
            self.servers.stop()
            return self._verify()
        except BaseException:
            self.servers.kill()
            raise

    def _begin(self) -> None:
        seed = self.plan.seed
        for number, kind in enumerate(FOLLOWERS):
            self.followers.append(kind(f"{kind.__name__}-{number}", seed, self._port_of(f"follower {number}")))
        for number, client in enumerate(self.plan.clients):
            self.clients.append(client(number, seed, self.recorder, self._port_of(f"client {number}")))
        for follower in self.followers:
            follower.start()
        wait_until(lambda: all(follower.events for follower in self.followers), "the followers have got nothing")
        for each in self.clients:
            each.start()

    def _port_of(self, name: str) -> Callable[[str], int]:
        return self.servers.port_of(random.Random(f"{self.plan.seed} {name}"))

    def _disturb(self, faults: Faults) -> None:
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
        """Let the clients work until so many more calls are answered."""
        goal = self.recorder.answers + calls
        wait_until(lambda: self.recorder.answers >= goal or self._failed(), f"{goal - self.recorder.answers} calls are not answered")
        assert not self._failed(), self._failed()

    def _failed(self) -> list[str]:
        """What must not go on. A fault that clients were answered does not end the run: the histories say more."""
        threads: list[Client | Follower] = [*self.clients, *self.followers]
        return [f"{each.name}: {each.failure!r}" for each in threads if each.failure is not None]

    def _end(self, faults: Faults) -> None:
        faults.close()
        for client in self.clients:
            client.is_over.set()
        for client in self.clients:
            client.join()
        assert not self._failed(), self._failed()
        last = self.recorder.number()
        self._put_alone(last)
        for follower in self.followers:
            follower.end(last)

    def _put_alone(self, n: int) -> None:
        """The record with which followers begin, and end."""
        with self.servers.processes[0].client() as client:
            assert client.put("/Item/mark", json={"n": n, "count": 0, "group": "mark"}).status_code == 204

    def _verify(self) -> Result:
        recorder = self.recorder
        problems = [*recorder.faults, *check_files(self.servers)]
        found = Found(self.servers.databases)
        for register in list(recorder.histories):
            if register != RELEASE:
                recorder.observe(register, found.state(register))
        problems += [*check_histories(recorder.histories), *check_log(recorder, found), *check_followers(self.followers, found)]
        self.servers.start()
        problems += check_searches(self.servers, found)
        self.servers.stop()
        return Result(
            writes=recorder.acknowledged.total(),
            calls=recorder.answers,
            without_outcome=recorder.without_outcome,
            registers=len(recorder.histories),
            events=sum(follower.events for follower in self.followers),
            moves=sum(follower.moves for follower in self.followers),
            done=self.done,
            acknowledged=recorder.acknowledged,
            problems=problems[:SHOWN],
        )
