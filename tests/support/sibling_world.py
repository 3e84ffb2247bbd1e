"""Processes over one directory that live in one: `siblings.Siblings` of each, without sockets and locks."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FakeAnswer:
    identity: str
    number: int
    value: Any = None
    error: str | None = None


class FakeLock:
    def __init__(self, locks: list[FakeLock], owner: str, shared: bool) -> None:
        self._locks = locks
        self.owner = owner
        self.shared = shared
        locks.append(self)

    def release(self) -> None:
        if self in self._locks:
            self._locks.remove(self)


class FakeDecision:
    def __init__(self, decisions: dict[str, str], name: str) -> None:
        self._decisions = decisions
        self._name = name

    def decide(self, value: str) -> str:
        return self._decisions.setdefault(self._name, value)

    def maybe_read(self) -> str | None:
        return self._decisions.get(self._name)

    def remove_others(self) -> None:
        for name in self._decisions.keys() - {self._name}:
            del self._decisions[name]


class FakeSiblings:
    """Those of one process. `hangs`: it lives, and answers nothing."""

    def __init__(self, world: SiblingWorld, number: int, identity: str) -> None:
        self._world = world
        self.number = number
        self.identity = identity
        self.is_leader = not world.processes
        self.on_left: list[Callable[[str], None]] = []
        self.functions: dict[str, Callable[[Any], Any]] = {}
        self.hangs = False

    @property
    def has_others(self) -> bool:
        return bool(self._world.others(self))

    def is_alive(self, identity: str) -> bool:
        return identity in self._world.processes

    def maybe_lock(self, subject: str, *, shared: bool = False) -> FakeLock | None:
        held = self._world.locks.setdefault(subject, [])
        return FakeLock(held, self.identity, shared) if all(shared and each.shared for each in held) else None

    def decision(self, name: str) -> FakeDecision:
        return FakeDecision(self._world.decisions, name)

    def answer(self, topic: str, function: Callable[[Any], Any]) -> None:
        self.functions[topic] = function

    async def ask(self, topic: str, value: Any, seconds: float) -> list[FakeAnswer]:
        answers = []
        for other in self._world.others(self):
            if other.hangs:
                answers.append(FakeAnswer(other.identity, other.number, error="no answer"))
                continue
            try:
                result = other.functions[topic](value)
                if inspect.isawaitable(result):
                    result = await result
            except Exception as error:
                answers.append(FakeAnswer(other.identity, other.number, error=f"{type(error).__name__}: {error}"))
            else:
                answers.append(FakeAnswer(other.identity, other.number, result))
        return answers

    def tell(self, topic: str, value: Any) -> None:
        for other in self._world.others(self):
            if not other.hangs and topic in other.functions:
                result = other.functions[topic](value)
                assert not inspect.isawaitable(result), "not by this world"


class SiblingWorld:
    """`processes`: those that live, by identity."""

    def __init__(self) -> None:
        self.processes: dict[str, FakeSiblings] = {}
        self.locks: dict[str, list[FakeLock]] = {}
        self.decisions: dict[str, str] = {}
        self._count = 0

    def start(self, number: int = 0) -> Any:
        """The `Siblings` of a new process."""
        self._count += 1
        made = FakeSiblings(self, number, f"process {self._count}")
        self.processes[made.identity] = made
        return made

    def kill(self, siblings: FakeSiblings) -> None:
        del self.processes[siblings.identity]
        for held in self.locks.values():
            for lock in [each for each in held if each.owner == siblings.identity]:
                lock.release()
        for other in self.processes.values():
            for function in other.on_left:
                function(siblings.identity)

    def others(self, siblings: FakeSiblings) -> list[FakeSiblings]:
        return [each for each in self.processes.values() if each is not siblings]
