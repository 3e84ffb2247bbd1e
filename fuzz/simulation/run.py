"""One simulation: what happens next is drawn from the seed, and everything else follows from that."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from fuzz.simulation.clients import Client, Follower
from fuzz.simulation.entropy import seeded
from fuzz.simulation.model import Model, Operation, State, Violation, record_of, replaced
from fuzz.simulation.server import AUTHORIZATION, BEGINNING, MOMENTS, CrashableServer
from svc.testing.prepared import make_directory, prepare_root

KEYS = "abcdef"
GROUPS = 3
SECONDS = 30.0  # within which everything must be answered that is read
SCHEMA = """type Item @table @export {
  id: ID @primaryKey
  number: Int @indexed
  group: Int @indexed
  stock: Int
  text: String
}
"""
TARGETS = ("/Item/", "/Item/?live()", "/Item/?sort(-number)&live()")
OTHER = {503, 504, 408, 429}
"""Statuses after which a write may have been done, or not."""


@dataclass(frozen=True, slots=True)
class Result:
    """`digest`: of every byte that clients have received, in its order, and of what they did."""

    seed: int
    requests: int
    crashes: int
    digest: str


def simulate(seed: int, steps: int) -> Result:
    """Raises Violation."""
    prepare_root(BEGINNING)  # whose own randomness must not depend on which seed comes first
    base = make_directory("svc-simulation-")
    try:
        with seeded(seed):
            simulation = Simulation(seed, base)
            try:
                return simulation.run(steps)
            finally:
                simulation.server.close()
    finally:
        shutil.rmtree(base, ignore_errors=True)


def text_of(number: int) -> str:
    """Of the record with this number: most are short, some fill the buffers of connections."""
    return f"{number} " * (20_000 if number % 17 == 0 else number % 5)


class Simulation:
    def __init__(self, seed: int, base: Path) -> None:
        self._seed = seed
        self._random = random.Random(seed)
        self._digest = hashlib.sha256()
        self._application = base / "app"
        self._application.mkdir()
        (self._application / "config.yaml").write_text('rest: true\ngraphqlSchema:\n  files: "*.graphql"\n')
        self._write_schema()
        self.server = CrashableServer(base, self._application)
        self._model = Model(len(KEYS))
        draw = self._random
        self._clients = [Client(self.server, self._digest, self._draw_room()) for _ in range(draw.randint(3, 6))]
        self._followers = [Follower(self.server, self._digest, self._draw_room(), draw.choice(TARGETS)) for _ in range(draw.randint(0, 3))]
        self._tags: dict[str, tuple[int, Any]] = {}  # ETag -> place of the key, what it had
        self._violations: list[Violation] = []
        self._number = 0
        self._requests = self._crashes = 0

    def _draw_room(self) -> float:
        return self._random.choice((inf, inf, 200, 5000))

    def _write_schema(self) -> None:
        text = SCHEMA.replace("stock: Int", self._random.choice(("stock: Int", "stock: Int @indexed")))
        (self._application / "schema.graphql").write_text(text)

    # --- the run -------------------------------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> Result:
        actions: list[tuple[float, Any]] = [
            (14, self._ask),
            (24, self._send_piece),
            (16, self._turn),
            (6, self._read_on),
            (2, self._follow),
            (0.7, self._pass_time),
            (0.5, self._hang_up),
            (0.3, self._reload),
            (0.5, self._crash),
            (0.5, self._rest),
        ]
        weights = [weight for weight, _ in actions]
        for step in range(steps):
            (action,) = self._random.choices([action for _, action in actions], weights)
            self._do(step, action)
        for action in (self._rest, self._crash, self._rest):
            self._do(steps, action)
        return Result(self._seed, self._requests, self._crashes, self._digest.hexdigest())

    def _do(self, step: int, action: Any) -> None:
        self._digest.update(f"\n{step} {action.__name__}\n".encode())
        try:
            action()
            if self._violations:
                raise self._violations[0]
        except Violation as violation:
            raise Violation(f"step {step}, {action.__name__[1:]}: {violation}") from None

    def _turn(self) -> None:
        self.server.run(self._random.randint(1, 4))

    def _pass_time(self) -> None:
        self.server.run(inf, self._random.choice((0.001, 0.5, 2.0, 40.0)))

    def _reload(self) -> None:
        """The application with another schema perhaps; requests go on meanwhile."""
        self._write_schema()
        instance = self.server.instance
        instance.loop.create_task(instance.server.reload())

    def _crash(self) -> None:
        self._crashes += 1
        self.server.crash(self._random.choice(MOMENTS), self._lose)
        self._model.forget_open()
        self._tags.clear()
        self._check_log()

    def _lose(self) -> None:
        for each in (*self._clients, *self._followers):
            each.lose()

    # --- clients -------------------------------------------------------------------------------------------------------------------------

    def _send_piece(self) -> None:
        waiting = [each for each in (*self._clients, *self._followers) if each.waiting]
        if waiting:
            self._random.choice(waiting).send_piece()

    def _read_on(self) -> None:
        slow = [each for each in (*self._clients, *self._followers) if each.sock is not None and each.sock.room < inf]
        if slow:
            self._random.choice(slow).read_on(self._random.choice((1, 100, 3000, 200_000)))

    def _hang_up(self) -> None:
        self._random.choice([*self._clients, *self._followers]).hang_up()

    def _follow(self) -> None:
        for follower in self._followers:
            if follower.sock is None:
                follower.follow()
                return

    def _ask(self) -> None:
        idle = [client for client in self._clients if client.operation is None]
        if idle:
            self._ask_with(self._random.choice(idle))

    def _ask_with(self, client: Client) -> None:
        draw = self._random
        place = draw.randrange(len(KEYS))
        kind = draw.choice(("put", "put", "put", "get", "get", "delete", "patch", "query", "all", "put if", "delete if", "put new"))
        path = f"/Item/{KEYS[place]}"
        body: Any = None
        fields: dict[str, str] = {}
        self._number += 1
        number = self._number
        group = draw.randrange(GROUPS)
        record = (number, group, 0)
        value = {"number": number, "group": group, "stock": 0, "text": text_of(number)}
        known = sorted(tag for tag, (of, _) in self._tags.items() if of == place)
        if kind in ("put if", "delete if") and not known:
            kind = "get"
        if kind.endswith(" if"):
            tag = draw.choice(known[-2:])
            fields["If-Match"] = tag
            expected = self._tags[tag][1]
            method, body = ("PUT", value) if kind == "put if" else ("DELETE", None)
            new = record if kind == "put if" else None

            def apply(state: State) -> tuple[State, Any]:
                return (replaced(state, place, new), "done") if state[place] == expected else (state, "refused")
        elif kind == "put new":
            fields["If-None-Match"] = "*"
            method, body = "PUT", value

            def apply(state: State) -> tuple[State, Any]:
                return (replaced(state, place, record), "done") if state[place] is None else (state, "refused")
        elif kind in ("put", "delete"):
            method, body = ("PUT", value) if kind == "put" else ("DELETE", None)
            new = record if kind == "put" else None

            def apply(state: State) -> tuple[State, Any]:
                return replaced(state, place, new), "done"
        elif kind == "patch":
            method, body, fields["If-Match"] = "PATCH", {"stock": {"__op__": "add", "value": 1}}, "*"

            def apply(state: State) -> tuple[State, Any]:
                before = state[place]
                if before is None:
                    return state, "refused"
                return replaced(state, place, (*before[:2], before[2] + 1)), "done"
        elif kind == "get":
            method = "GET"

            def apply(state: State) -> tuple[State, Any]:
                return state, state[place]
        else:
            method = "GET"
            path = f"/Item/?group=={group}" if kind == "query" else "/Item/"

            def apply(state: State) -> tuple[State, Any]:
                found = [(KEYS[at], each) for at, each in enumerate(state) if each is not None and (kind == "all" or each[1] == group)]
                return state, tuple(found)

        shown = f"{method} {path}" + (f" of {body.get('number', '+1')}" if body else "") + "".join(f" {k}: {v}" for k, v in fields.items())
        operation = Operation(number, shown, apply, method != "GET")
        self._requests += 1
        self._model.begin(operation)
        client.ask(operation, self._pieces(method, path, body, fields), method, partial(self._note_answer, operation, place, path))

    def _pieces(self, method: str, path: str, body: Any, fields: dict[str, str]) -> list[bytes]:
        data = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: {AUTHORIZATION}"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
        whole = ("\r\n".join(lines) + "\r\n\r\n").encode() + data
        cuts = sorted(self._random.sample(range(1, len(whole)), self._random.choice((0, 0, 1, 2))))
        return [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]

    def _note_answer(self, *answer: Any) -> None:
        """Called by the server as it sends: what is wrong must not be raised in it."""
        try:
            self._answered(*answer)
        except Violation as violation:
            self._violations.append(violation)

    def _answered(self, operation: Operation, place: int, path: str, status: int, fields: dict[str, str], content: bytes) -> None:
        if status in OTHER:
            return  # a write may have been done
        if operation.writes:
            outcome: Any = {204: "done", 200: "done", 412: "refused"}.get(status)
        elif path.startswith("/Item/?") or path == "/Item/":
            outcome = (
                tuple((each["id"], record_of(each, text_of(each["number"]))) for each in json.loads(content)) if status == 200 else None
            )
        else:
            outcome = None
            if status == 200:
                value = json.loads(content)
                outcome = record_of(value, text_of(value["number"]))
                before = self._tags.setdefault(fields["etag"], (place, outcome))
                if before != (place, outcome):
                    raise Violation(f"{fields['etag']} is the tag of {before} and of {(place, outcome)}")
        if status not in (200, 204, 404, 412):
            raise Violation(f"{operation.shown} was answered with {status}: {content[:300]!r}")
        self._model.end(operation, outcome)

    # --- comparing -----------------------------------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        """Everything is sent and read. Then the table, and what followers have, are what the model says."""
        everyone = [*self._clients, *self._followers]
        rooms = [each.room for each in everyone]
        for each in everyone:
            each.read_all()
            while each.waiting:
                each.send_piece()
        self.server.run(inf)
        if any(client.operation is not None for client in self._clients):
            self.server.run(inf, SECONDS)
        for client in self._clients:
            if client.operation is not None:
                raise Violation(f"{client.operation.shown} is not answered")
        if self._violations:
            raise self._violations[0]
        self._model.forget_open()
        self._compare()
        for each, room in zip(everyone, rooms, strict=True):
            each.room = room
            if each.sock is not None:
                each.sock.room = room
        self._check_log()

    def _compare(self) -> None:
        reader = Client(self.server, self._digest, inf)
        found: list[State] = []
        for path in ("/Item/", *(f"/Item/?group=={group}" for group in range(GROUPS))):

            def answered(status: int, fields: dict[str, str], content: bytes) -> None:
                if status != 200:
                    raise Violation(f"reading all was answered with {status}: {content[:300]!r}")
                found.append(self._state({each["id"]: each for each in json.loads(content)}))

            reader.ask(Operation(0, path, lambda state: (state, None), False), self._pieces("GET", path, None, {}), "GET", answered)
            while reader.waiting:
                reader.send_piece()
            self.server.run(inf)
        reader.hang_up()
        for follower in self._followers:
            if follower.sock is None:
                follower.follow()
                follower.read_all()
            follower.send_piece()
        self.server.run(inf, 1.0)
        if len(found) != 1 + GROUPS:
            raise Violation("reading all is not answered")
        state = found[0]
        self._model.hold(state, "the table at rest")
        for group, each in enumerate(found[1:]):
            expected = tuple(value if value is not None and value[1] == group else None for value in state)
            if each != expected:
                raise Violation(f"the index of group {group} gives {each}; the table has {state}")
        for follower in self._followers:
            if wrong := set(follower.statuses) - OTHER - {200}:
                raise Violation(f"following {follower.target} was answered with {wrong}")
            if (seen := self._state(follower.rows)) != state:
                raise Violation(f"a follower of {follower.target} has {seen}; the table has {state}")
            numbers = [row["number"] for row in follower.rows.values()]
            if "sort(-number)" in follower.target and numbers != sorted(numbers, reverse=True):
                raise Violation(f"a follower of {follower.target} has them in the order {numbers}")

    def _state(self, rows: dict[str, Any]) -> State:
        return tuple(record_of(rows[key], text_of(rows[key]["number"])) if key in rows else None for key in KEYS)

    def _check_log(self) -> None:
        for entry in self.server.instance.logs:
            if entry.level in ("error", "fatal"):
                raise Violation(f"logged: {entry.text}")
