"""One simulation: what happens next is drawn from the seed, and everything else follows from that."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from fuzz.simulation.clients import Client, Connection, Publisher, Surroundings
from fuzz.simulation.followers import (
    EventFollower,
    Follower,
    GraphQLFollower,
    History,
    LiveFollower,
    SessionFollower,
    SocketFollower,
)
from fuzz.simulation.model import Model, Operation, State, Violation
from fuzz.simulation.requests import GROUPS, KEYS, UNKNOWN, Asker, Request, in_group, state_of
from fuzz.simulation.server import MOMENTS, CrashableServer

SECONDS = 40.0  # within which everything must be answered that is read
CONFIG = """rest: true
graphqlSchema:
  files: "*.graphql"
resources:
  files: resources.py
graphql: {extended: true}
"""
SCHEMA = """type Item @table @export {
  id: ID @primaryKey
  number: Int @indexed
  group: Int @indexed
  stock: Int
  text: String
}
"""
CODE = '''"""Writes several records in one transaction, over several turns of the loop."""

import asyncio

from svc import Resource, tables


class Pair(Resource):
    async def post(self, body):
        for value in body:
            await tables.Item.put(value["id"], value)
            await asyncio.sleep(0.01)
        return {"done": len(body)}
'''
TICKS = (0.0, 0.0, 0.0, 1e-5, 1e-4, 1e-3)
VARIANTS = (SCHEMA, SCHEMA.replace("stock: Int", "stock: Int @indexed"), SCHEMA.replace("text: String", "text: String @indexed"))


@dataclass(slots=True)
class Result:
    """`digest`: of every byte that clients have received, in its order, and of what they did. `counts`: of what has happened."""

    seed: int
    digest: str = ""
    counts: Counter[str] = field(default_factory=Counter)


class Simulation:
    """`begin`, then `run`; and again with another seed."""

    def __init__(self, base: Path) -> None:
        """`base`: an empty directory."""
        self._application = base / "app"
        self._application.mkdir()
        (self._application / "config.yaml").write_text(CONFIG)
        (self._application / "resources.py").write_text(CODE)
        self._write_schema(SCHEMA)
        self.server = CrashableServer(base, self._application)
        self._model = Model(len(KEYS))
        self._asker = Asker()
        self._history = History()
        self.begin(0)

    def begin(self, seed: int) -> None:
        """With new clients; the table is as it is."""
        self._seed = seed
        self._write_schema(SCHEMA)
        self._draw = draw = random.Random(seed)
        self._digest = hashlib.sha256()
        self.server.clock.tick = draw.choice(TICKS)
        self.trace: list[str] = []
        self._result = Result(seed)
        self._all = Surroundings(self.server, self._digest, self._cut, self._on_answer)
        self._clients = [Client(self._all, self._draw_room(), f"client {number}") for number in range(draw.randint(2, 5))]
        self._publishers = [Publisher(self._all, self._draw_room(), f"publisher {seed}.{number}") for number in range(draw.randint(0, 1))]
        self._followers = [self._make_follower(f"follower {seed}.{number}") for number in range(draw.randint(0, 3))]

    def _write_schema(self, text: str) -> None:
        (self._application / "schema.graphql").write_text(text)

    def _make_follower(self, name: str) -> Follower:
        room, history = self._draw_room(), self._history
        makers: list[Callable[[], Follower]] = [
            lambda: EventFollower(self._all, room, f"{name} of events", history),
            lambda: LiveFollower(self._all, room, f"{name} of a live query"),
            lambda: SocketFollower(self._all, room, f"{name} with a WebSocket", history),
            lambda: GraphQLFollower(self._all, room, f"{name} with GraphQL"),
            lambda: SessionFollower(self._all, room, f"{name} with MQTT"),
        ]
        return self._draw.choice(makers)()

    def _draw_room(self) -> float:
        return self._draw.choice((inf, inf, inf, 200, 5000))

    @property
    def _everyone(self) -> list[Connection]:
        return [*self._askers, *self._followers]

    @property
    def _askers(self) -> list[Client | Publisher]:
        return [*self._clients, *self._publishers]

    # --- the run -------------------------------------------------------------------------------------------------------------------------

    def run(self, steps: int, left_out: Container[int] = ()) -> Result:
        """`left_out`: numbers of steps that are not done. What a step does is drawn from the seed and its number, not from the steps before."""
        crashes = random.Random(f"{self._seed}").choice((0, 0, 0, 0.6, 2))
        actions: list[tuple[float, Callable[[], None]]] = [
            (26, self._ask),
            (20, self._send_piece),
            (22, self._turn),
            (6, self._read_on),
            (4, self._follow),
            (1, self._pass_time),
            (1, self._hang_up),
            (0.5, self._reload),
            (crashes, self._crash),
            (0.6, self._rest),
        ]
        weights = [weight for weight, _ in actions]
        for step in range(steps):
            draw = random.Random(f"{self._seed} {step}")
            (action,) = draw.choices([action for _, action in actions], weights)
            if step not in left_out:
                self._do(step, draw, action)
        for action in (self._rest, self._end):
            self._do(steps, random.Random(f"{self._seed} end"), action)
        self._result.digest = self._digest.hexdigest()
        return self._result

    def _do(self, step: int, draw: random.Random, action: Callable[[], None]) -> None:
        self._draw = self._asker.draw = draw
        self._note(f"{step} {action.__name__[1:]}")
        action()
        self._check()

    def _note(self, text: str) -> None:
        self.trace.append(text)
        self._digest.update(text.encode())

    def _check(self) -> None:
        """What is known by now. Raises Violation."""
        if self._all.violations:
            raise self._all.violations[0]
        for entry in self.server.instance.logs:
            if entry.level in ("error", "fatal"):
                raise Violation(f"logged: {entry.text}")

    def _turn(self) -> None:
        self.server.run(self._draw.randint(1, 4))

    def _pass_time(self) -> None:
        self.server.run(inf, self._draw.choice((0.001, 0.01, 0.02, 0.1, 0.5, 1.0, 2.0, 40.0)))

    def _reload(self) -> None:
        """The application with another schema perhaps; requests go on meanwhile."""
        self._write_schema(self._draw.choice(VARIANTS))
        instance = self.server.instance
        instance.loop.create_task(instance.server.reload())
        self._result.counts["reloads"] += 1

    def _crash(self) -> None:
        moment = self._draw.choice(MOMENTS)
        self._note(moment)
        self.server.crash(moment, self._draw, self._lose)
        self._model.forget_open()
        self._result.counts["crashes"] += 1

    def _lose(self) -> None:
        for each in self._everyone:
            each.lose()

    # --- clients -------------------------------------------------------------------------------------------------------------------------

    def _cut(self, data: bytes) -> list[bytes]:
        draw = self._draw
        cuts = sorted(draw.sample(range(1, len(data)), min(len(data) - 1, draw.choice((0, 0, 0, 1, 2)))))
        return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]

    def _send_piece(self) -> None:
        waiting = [each for each in self._everyone if each.waiting]
        if waiting:
            chosen = self._draw.choice(waiting)
            self._note(chosen.name)
            chosen.send_piece()

    def _read_on(self) -> None:
        slow = [each for each in self._everyone if each.sock is not None and each.sock.room < inf]
        if slow:
            chosen, size = self._draw.choice(slow), self._draw.choice((1, 100, 3000, 200_000))
            self._note(f"{chosen.name}: {size}")
            chosen.read_on(size)

    def _hang_up(self) -> None:
        chosen = self._draw.choice(self._everyone)
        self._note(chosen.name)
        chosen.hang_up()

    def _follow(self) -> None:
        for follower in self._followers:
            if follower.sock is None:
                self._note(follower.name)
                follower.follow()
                return

    def _ask(self) -> None:
        idle = [each for each in self._askers if each.operation is None]
        if not idle:
            return
        chosen = self._draw.choice(idle)
        if isinstance(chosen, Publisher):
            chosen.ask(self._asker.publish)
            operation = chosen.operation
            assert operation is not None
        else:
            request = self._asker.ask()
            operation = request.operation
            chosen.ask(request)
        self._note(f"{chosen.name}, {operation.number}: {operation.shown}")
        self._result.counts["requests"] += 1
        self._model.begin(operation)
        chosen.send_piece()

    def _on_answer(self, operation: Operation, outcome: Any) -> None:
        self._digest.update(f"{operation.number} answered".encode())
        if outcome is not UNKNOWN:
            self._result.counts["answers"] += 1
            self._model.end(operation, outcome)

    # --- comparing -----------------------------------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        """Everything is sent and read. Then the table, and what followers have, are what the model says."""
        self._settle()
        for asker in self._askers:
            if asker.operation is not None:
                raise Violation(f"{asker.operation.shown} is not answered")
        self._check()
        self._model.forget_open()
        state = self._compare()
        for follower in self._followers:
            if follower.sock is None:
                follower.follow()
        self._settle()
        for follower in self._followers:
            follower.check(state)
        for each in self._everyone:
            each.read_slowly()

    def _settle(self) -> None:
        """Until nobody has anything to send or to read."""
        for _ in range(20):
            for each in self._everyone:
                each.read_all()
                while each.waiting:
                    each.send_piece()
            for seconds in (0.0, 0.1, SECONDS):
                if seconds < SECONDS or any(each.operation is not None for each in self._askers):
                    self.server.run(inf, seconds)
            if not any(each.waiting for each in self._everyone):
                return
        raise Violation("there is no rest")

    def _compare(self) -> State:
        reader = Client(self._all, inf, "reader")
        targets = ("/Item/", *(f"/Item/?group=={group}" for group in range(GROUPS)))
        found: list[State] = []

        def read(status: int, fields: Any, content: bytes) -> Any:
            if status != 200:
                raise Violation(f"reading all was answered with {status}: {content[:300]!r}")
            found.append(state_of({each["id"]: each for each in json.loads(content)}))
            return UNKNOWN

        for target in targets:
            operation = Operation(0, target, lambda state: (state, None), writes=False)
            reader.ask(Request(operation, "GET", target, read))
            while reader.waiting:
                reader.send_piece()
            self.server.run(inf)
        reader.hang_up()
        self._check()
        if len(found) != len(targets):
            raise Violation("reading all is not answered")
        state = found[0]
        self._model.hold(state, "the table at rest")
        for group, each in enumerate(found[1:]):
            expected = dict(in_group(state, group))
            if each != tuple(expected.get(key) for key in KEYS):
                raise Violation(f"the index of group {group} gives {each}; the table has {state}")
        return state

    def _end(self) -> None:
        """Everybody leaves: nothing is left of them."""
        for each in self._everyone:
            each.hang_up()
        self.server.run(inf, 0.5)
        self._check()
        if (left := self.server.in_use()) != self.server.at_rest:
            raise Violation(f"everybody has left: {left}; before anybody came: {self.server.at_rest}")
