"""The simulation: the same seed is the same run; some seeds pass; and what must not happen would be seen."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

import pytest

from fuzz.simulation import run as run_module
from fuzz.simulation import server
from fuzz.simulation.entropy import seeded
from fuzz.simulation.forks import Failure, rounds
from fuzz.simulation.model import Model, Operation, State, Violation, replaced
from fuzz.simulation.requests import KEYS
from fuzz.simulation.run import Simulation
from fuzz.simulation.server import BEGINNING, META_PAGES, PAGE, torn
from fuzz.simulation.shrinking import shrunk
from svc.testing.prepared import prepare_root

pytestmark = pytest.mark.programs

LIMIT = 300.0  # seconds


def run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "fuzz.simulate", *arguments], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_same_seed_is_the_same_run_to_the_byte() -> None:
    first, again = (re.findall("digest [0-9a-f]{64}", run("--seed", "14", "--seeds", "1")) for _ in range(2))
    assert first == again and len(first) == 1


def test_seeds() -> None:
    """`python -m fuzz.simulate` tries more."""
    counted = run("--seed", "0", "--seeds", "60")
    assert re.search(r"60 seeds", counted) and re.search(r"[1-9]\d* crashes", counted) and "0 rounds failed" in counted


@pytest.fixture
def simulation(tmp_path: Path) -> Iterator[Simulation]:
    prepare_root(BEGINNING)
    with seeded(3):
        made = Simulation(tmp_path)
        made.begin(3)
        yield made
        made.server.close()


def test_a_server_that_loses_a_write_is_found_out(simulation: Simulation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The write is answered, and the databases are those of before."""
    draws = (random.Random(number) for number in range(1000))
    simulation._do(0, next(draws), simulation._rest)
    kept = tmp_path / "kept"
    shutil.copytree(simulation.server._databases, kept, ignore=shutil.ignore_patterns("lock.mdb"))
    while not any(state != (None,) * len(KEYS) for state in simulation._model.states):
        simulation._do(0, next(draws), simulation._ask)
        simulation._do(0, next(draws), simulation._rest)

    def take(copy: Any, torn: object = None) -> None:
        if not copy.is_taken:
            copy.is_taken = True
            copy._on_copy()
            shutil.copytree(kept, copy._target)

    monkeypatch.setattr(server._Copy, "take", take)
    monkeypatch.setattr(run_module, "MOMENTS", ("between turns",))
    simulation._do(1, next(draws), simulation._crash)
    with pytest.raises(Violation, match="the table at rest"):
        simulation._do(2, next(draws), simulation._rest)


def test_a_server_that_keeps_something_is_found_out(simulation: Simulation) -> None:
    held = simulation.server.instance.server.store.databases["data"].env
    txn = held.hold_snapshot(is_private=True)
    with pytest.raises(Violation, match="'snapshots': 1"):
        simulation._do(0, random.Random(0), simulation._end)
    held.release_snapshot(txn)


def test_a_torn_commit_has_pages_of_both_and_the_meta_pages_of_before() -> None:
    def pages(*content: bytes) -> bytes:
        return b"".join(each * PAGE for each in content)

    before, after = pages(b"M", b"m", b"a", b"b"), pages(b"M", b"n", b"a", b"c", b"d")
    found = {torn(before, after, random.Random(number)) for number in range(200)}
    assert found == {pages(b"M", b"m", b"a", second, third) for second in (b"b", b"c") for third in (b"\0", b"d")}
    assert META_PAGES == 2


def test_seeds_come_in_rounds() -> None:
    assert list(rounds(17, 1)) == [range(10, 18)]
    assert list(rounds(8, 5)) == [range(10), range(10, 13)]


def test_a_failure_is_shown_with_the_steps_that_it_needs() -> None:
    class FakeTemplate:
        def run(self, seeds: range, steps: int, left_out: Container[int]) -> None:
            if 3 not in left_out and 21 not in left_out:
                raise Failure(seeds[-1], f"without {left_out}", [])

    failure, left_out = shrunk(FakeTemplate(), Failure(14, "first", []), 30, frozenset())  # type: ignore[arg-type]
    assert left_out == frozenset(range(30)) - {3, 21} and failure.text == f"without {left_out}"


# --- the model


def put(number: int, value: Any, place: int = 0) -> Operation:
    return Operation(number, f"put {value}", lambda state: (replaced(state, place, value), "done"))


def create(number: int, value: Any) -> Operation:
    def apply(state: State) -> tuple[State, Any]:
        return (replaced(state, 0, value), "done") if state[0] is None else (state, "refused")

    return Operation(number, f"create {value}", apply)


def get(number: int) -> Operation:
    return Operation(number, "get", lambda state: (state, state), writes=False)


def done(model: Model, operation: Operation, outcome: Any = "done") -> None:
    model.begin(operation)
    model.end(operation, outcome)


def test_a_write_that_is_answered_is_there() -> None:
    model = Model(2)
    done(model, put(1, "a"))
    done(model, get(2), ("a", None))
    with pytest.raises(Violation, match="get was answered"):
        done(model, get(3), (None, None))


def test_a_write_under_way_may_be_seen_and_then_stays() -> None:
    model = Model(1)
    model.begin(put(1, "a"))
    done(model, get(2), (None,))
    done(model, get(3), ("a",))
    with pytest.raises(Violation):
        done(model, get(4), (None,))


def test_of_two_that_create_one_is_refused() -> None:
    model = Model(1)
    first, second = create(1, "a"), create(2, "b")
    model.begin(first)
    model.begin(second)
    model.end(second, "done")
    assert model.states == {("b",)}
    with pytest.raises(Violation, match="create a was answered 'done'"):
        model.end(first, "done")


def test_a_reading_may_be_of_any_state_since_it_began() -> None:
    model = Model(1)
    done(model, put(1, "a"))
    slow = get(2)
    model.begin(slow)
    done(model, put(3, "b"))
    done(model, put(4, "c"))
    model.end(slow, ("b",))
    model.begin(slow)
    with pytest.raises(Violation):
        model.end(slow, ("b",))


def test_after_a_crash_a_write_under_way_is_there_or_not_for_good() -> None:
    model = Model(1)
    model.begin(put(1, "a"))
    model.forget_open()
    assert model.states == {(None,), ("a",)}
    done(model, get(2), (None,))
    with pytest.raises(Violation):
        model.hold(("a",), "the table")


def test_an_operation_that_looks_first_may_miss_what_comes_meanwhile() -> None:
    """But what it has found and is there no more, or has changed, it does not count."""
    model = Model(2)
    done(model, put(1, "old"))

    def remove(state: State, found: frozenset[int]) -> tuple[State, Any]:
        gone = {place for place in found if state[place] is not None}
        return tuple(None if place in gone else each for place, each in enumerate(state)), len(gone)

    removal = Operation(
        2, "remove all", remove, find=lambda state: frozenset(place for place, each in enumerate(state) if each is not None)
    )
    model.begin(removal)
    done(model, put(3, "new", 1))
    model.end(removal, 1)
    assert model.states == {(None, "new")}
