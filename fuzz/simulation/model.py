"""The plain model: what the table may hold, given what clients have asked and been answered.

Requests under way overlap, so there may be several *worlds*: a state of the table, and the operations under way that have been done in it already, with what
they gave. An answer leaves the worlds in which the operation can have given it, at one moment between request and answer: strict serializability, of
queries over many records too. No world left is a violation. A reading that others have overtaken may be of any state that there was since it began.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

State = tuple[Any, ...]  # of each key: (number, group, stock), None without a record
World = tuple[State, frozenset[tuple[int, Any]]]


class Violation(AssertionError):
    """The server has done what it must not do."""


@dataclass(frozen=True, slots=True)
class Operation:
    """`apply(state)`: the state afterwards, and the outcome that the client is told. `writes`: whether the state can be another.

    `find(state)`: of an operation that looks for records first; what it has found is then `apply`'s second argument. Others may write in between.
    """

    number: int
    shown: str
    apply: Callable[..., tuple[State, Any]]
    writes: bool = True
    find: Callable[[State], Hashable] | None = None


class Found(NamedTuple):
    """In place of the outcome of an operation that has only looked."""

    what: Hashable


class Model:
    def __init__(self, keys: int) -> None:
        self._worlds: set[World] = {((None,) * keys, frozenset())}
        self._open: dict[int, Operation] = {}
        self._seen: dict[int, set[Any]] = {}  # of readings under way that others have overtaken: outcomes that they may have

    @property
    def states(self) -> set[State]:
        """What the table may hold."""
        return {state for state, _ in self._worlds}

    def begin(self, operation: Operation) -> None:
        """The first byte is sent."""
        self._open[operation.number] = operation

    def end(self, operation: Operation, outcome: Any) -> None:
        """It is answered. Raises Violation."""
        if outcome in self._seen.pop(operation.number, ()):
            del self._open[operation.number]
            return
        reachable = self._reachable()
        found: set[World] = set()
        for state, done in reachable:
            given = dict(done)
            if operation.number in given:
                if given[operation.number] == outcome:
                    found.add((state, done - {(operation.number, outcome)}))
            elif operation.find is None:
                after, told = operation.apply(state)
                if told == outcome:
                    found.add((after, done))
        if not found:
            raise Violation(
                f"{operation.shown} was answered {outcome!r}; the table may hold {_shown(self.states)}; under way: {self._shown_open()}"
            )
        del self._open[operation.number]
        self._overtake(reachable)
        self._worlds = found

    def _overtake(self, worlds: set[World]) -> None:
        """The readings under way may have been made in any of these."""
        for number, reading in self._open.items():
            if not reading.writes:
                self._seen.setdefault(number, set()).update(reading.apply(state)[1] for state, _ in worlds)

    def forget_open(self) -> None:
        """Those under way have been done or will never be: the server has crashed, or is at rest."""
        self._worlds = {(state, frozenset()) for state, _ in self._reachable()}
        self._open.clear()
        self._seen.clear()

    def hold(self, state: State, what: str) -> None:
        """`what` shows that the table holds this, with nothing under way. Raises Violation."""
        if state not in self.states:
            raise Violation(f"{what}: {state}; the table may hold {_shown(self.states)}")
        self._worlds = {(state, frozenset())}

    def _reachable(self) -> set[World]:
        """The worlds, and those after writes under way, in any order."""
        found = set(self._worlds)
        waiting = list(found)
        writes = [operation for operation in self._open.values() if operation.writes]
        while waiting:
            state, done = waiting.pop()
            given = dict(done)
            for operation in writes:
                world = _after(operation, state, done, given.get(operation.number))
                if world is not None and world not in found:
                    found.add(world)
                    waiting.append(world)
        return found

    def _shown_open(self) -> str:
        return ", ".join(operation.shown for operation in self._open.values()) or "nothing"


def _after(operation: Operation, state: State, done: frozenset[tuple[int, Any]], given: Any) -> World | None:
    """The world after the next part of the operation; None if all of it is done. `given`: its outcome, Found, or None before it."""
    if type(given) is Found:
        after, outcome = operation.apply(state, given.what)
        return after, done - {(operation.number, given)} | {(operation.number, outcome)}
    if given is not None:
        return None
    if operation.find is not None:
        return state, done | {(operation.number, Found(operation.find(state)))}
    after, outcome = operation.apply(state)
    return after, done | {(operation.number, outcome)}


def _shown(states: set[State]) -> str:
    return " or ".join(sorted(map(str, states))[:4])


def replaced(state: State, place: int, value: Any) -> State:
    return (*state[:place], value, *state[place + 1 :])


def record_of(value: Mapping[str, Any], text: str) -> tuple[int, int, int]:
    """The record as the model has it. Raises Violation if the text is not that of its number."""
    if value.get("text") != text:
        raise Violation(f"a record of two writes: {str(value)[:200]}")
    return value["number"], value["group"], value["stock"]
