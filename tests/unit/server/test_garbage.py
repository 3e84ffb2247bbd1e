"""When garbage is looked for (`svc.server.garbage`). The collector is the real one, the time is not."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from svc.server import garbage as module
from svc.server.garbage import GROWTH, IDLE_SECONDS, LONG_SECONDS, LOOK_SECONDS, MANY, MUCH_MEMORY, VERY_MUCH_MEMORY, YOUNG_SECONDS, Garbage

MIB = 1 << 20


class Turns:
    begin_turn = None
    turn_started = idle = 0.0

    def __init__(self) -> None:
        self.active = 0.0
        self.end_turn: Callable[[], bool] = lambda: False


class Node:
    """Refers to itself."""

    def __init__(self) -> None:
        self.node = self


class Scene:
    """`took`: seconds that each collection takes. `calls`: what was asked of the collector."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.turns = Turns()
        self.time = 1000.0
        self.took = 0.0
        self.memory = 50 * MIB
        self.lines: list[str] = []
        self.calls: list[str] = []
        self.garbage = Garbage(self.turns, lambda: self.time, self.lines.append, lambda: self.memory)
        collect, freeze, unfreeze = gc.collect, gc.freeze, gc.unfreeze

        def recorded(generation: int = 2) -> int:
            self.calls.append(f"collect {generation}")
            return collect(generation)

        monkeypatch.setattr(gc, "collect", recorded)
        monkeypatch.setattr(gc, "freeze", lambda: (self.calls.append("freeze"), freeze())[1])
        monkeypatch.setattr(gc, "unfreeze", lambda: (self.calls.append("unfreeze"), unfreeze())[1])
        self.garbage.begin()
        gc.callbacks.append(self._pass)  # behind that of the rules: their time begins before, and is read after

    def close(self) -> None:
        gc.callbacks.remove(self._pass)
        self.garbage.end()

    def _pass(self, phase: str, information: dict[str, Any]) -> None:
        if phase == "start":
            self.time += self.took

    def turn(self, seconds: float) -> None:
        """One that has worked for so long."""
        self.turns.active += seconds
        if self.turns.active >= self.garbage.due:
            self.garbage.collect()

    def sweep(self, seconds: float, *, active: float = 0.0) -> None:
        """Once a second, for so long."""
        for _ in range(int(seconds)):
            self.time += 1.0
            self.turns.active += active
            self.garbage.sweep(self.time)

    def taken(self) -> list[str]:
        calls, self.calls = self.calls, []
        return calls


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    thresholds = gc.get_threshold()
    gc.collect()
    scene = Scene(monkeypatch)
    scene.taken()
    yield scene
    scene.close()
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def test_young_objects_are_visited_once_turns_have_worked_for_a_while(scene: Scene) -> None:
    scene.turn(YOUNG_SECONDS / 2)
    assert scene.taken() == ["collect 0"]  # the first
    scene.turn(YOUNG_SECONDS / 2)
    assert scene.taken() == []
    scene.turn(YOUNG_SECONDS / 2)
    assert scene.taken() == ["collect 0"]


def test_what_has_been_visited_for_long_is_visited_again_and_frozen(scene: Scene) -> None:
    scene.took = 0.001
    for _ in range(8):
        scene.turn(YOUNG_SECONDS)
    assert scene.taken() == ["collect 0"] * 4 + ["collect 1", "freeze"] + ["collect 0"] * 3


def test_garbage_in_cycles_is_found_and_what_lives_is_not_visited_again(scene: Scene) -> None:
    scene.took = 0.002
    lost, kept = weakref.ref(Node()), Node()
    scene.turn(YOUNG_SECONDS)
    assert lost() is None and any(each is kept for each in gc.get_objects())
    for _ in range(3):
        scene.turn(YOUNG_SECONDS)
    assert "freeze" in scene.taken()
    assert not any(each is kept for each in gc.get_objects())  # which does not see what is frozen


def test_what_a_long_turn_has_made_is_frozen_unseen(scene: Scene) -> None:
    scene.turn(YOUNG_SECONDS)
    scene.taken()
    scene.turn(YOUNG_SECONDS + 2 * LONG_SECONDS)
    assert scene.taken() == ["freeze"]


def test_the_interpreter_visits_what_grows_within_a_turn(scene: Scene) -> None:
    lost = weakref.ref(Node())
    kept = [[number] for number in range(GROWTH + 1000)]
    assert lost() is None and len(kept) > GROWTH
    assert gc.get_threshold()[0] == GROWTH


def test_many_objects_within_a_turn_are_looked_at_once(scene: Scene) -> None:
    scene.took = 0.001
    kept = [[number] for number in range(20 * GROWTH)]
    assert scene.taken() == ["freeze"] * 2  # of about twenty collections
    assert not any(each is kept[0] for each in gc.get_objects())


def test_very_many_that_one_call_makes_are_frozen_unseen(scene: Scene) -> None:
    gc.disable()  # as if no collection could begin within the call
    try:
        kept = [[number] for number in range(MANY + 1000)]
    finally:
        gc.enable()
    scene.turn(YOUNG_SECONDS)
    assert "freeze" in scene.taken()
    assert not any(each is kept[0] for each in gc.get_objects())


def test_no_collection_of_all_objects_while_the_server_works_or_memory_does_not_grow(scene: Scene) -> None:
    scene.sweep(10 * IDLE_SECONDS)
    scene.garbage.has_replaced = True
    scene.memory += MUCH_MEMORY + MIB
    scene.sweep(10 * IDLE_SECONDS, active=0.1)
    assert scene.taken() == [] and scene.lines == []


@pytest.mark.parametrize("why", ["code", "memory"])
def test_an_idle_minute(scene: Scene, why: str) -> None:
    scene.garbage.has_replaced = why == "code"
    scene.memory += MUCH_MEMORY + MIB if why == "memory" else 0
    lost = weakref.ref(Node())
    gc.freeze()
    scene.taken()
    scene.sweep(IDLE_SECONDS - 2)
    assert lost() is not None
    scene.sweep(LOOK_SECONDS + 2)
    assert lost() is None
    assert scene.taken() == ["unfreeze", "collect 2", "freeze"]
    scene.sweep(10 * IDLE_SECONDS)
    assert scene.taken() == [] and scene.lines == []  # once; nobody waited


def test_memory_that_has_more_than_doubled_is_looked_at_at_once(scene: Scene) -> None:
    scene.memory += VERY_MUCH_MEMORY + MIB
    scene.took = 0.5
    scene.sweep(LOOK_SECONDS, active=0.9)
    assert "unfreeze" in scene.taken()
    assert scene.lines == ["memory has grown from 50 to 307 MiB: to look for garbage took 0.5 s, and it was all in use"]
    scene.sweep(LOOK_SECONDS, active=0.9)
    assert scene.taken() == []
    scene.memory += 300 * MIB  # not twice as much
    scene.sweep(LOOK_SECONDS, active=0.9)
    assert scene.taken() == []


def test_what_has_been_freed_is_told(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter((400 * MIB, 100 * MIB))
    monkeypatch.setattr(scene.garbage, "_memory", lambda: next(sizes))
    scene.sweep(LOOK_SECONDS, active=0.9)
    assert scene.lines == ["memory has grown from 50 to 400 MiB: to look for garbage took 0.0 s, and 100 MiB are left"]


def test_nothing_before_it_begins_and_after_it_ends(scene: Scene) -> None:
    scene.garbage.end()
    scene.garbage.has_replaced = True
    scene.turn(10.0)
    scene.sweep(10 * IDLE_SECONDS)
    assert scene.taken() == []


def test_memory_without_mapped_files() -> None:
    assert module.private_memory() > 0
