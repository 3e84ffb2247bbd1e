"""The simulation: the same seed is the same run; some seeds pass; and what must not happen would be seen."""

from __future__ import annotations

from typing import Any

import pytest

from fuzz.simulation import run
from fuzz.simulation.model import Model, Operation, State, Violation, replaced
from fuzz.simulation.run import Simulation, simulate
from svc.testing.prepared import copy_root

SEEDS = range(1, 5)
STEPS = 150


def test_the_same_seed_is_the_same_run_to_the_byte() -> None:
    first = simulate(7, STEPS)
    assert simulate(7, STEPS) == first
    assert simulate(8, STEPS).digest != first.digest


@pytest.mark.parametrize("seed", SEEDS)
def test_seeds(seed: int) -> None:
    """`python -m fuzz.simulate` tries more."""
    result = simulate(seed, STEPS)
    assert result.requests and result.crashes


def test_a_server_that_loses_a_write_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The write is answered, and the files are those of before."""

    def ask_and_lose(simulation: Simulation, steps: int) -> None:
        server = simulation.server
        simulation._do(0, simulation._rest)
        kept = server._base / "kept"
        copy_root(server.instance.server.config.root, kept)
        while not any(state != (None,) * len(run.KEYS) for state in simulation._model.states):
            simulation._do(0, simulation._ask)
            simulation._do(0, simulation._rest)
        monkeypatch.setattr("fuzz.simulation.server.copy_root", lambda source, root: copy_root(kept, root))
        simulation._do(1, simulation._crash)
        simulation._do(2, simulation._rest)

    monkeypatch.setattr(Simulation, "run", ask_and_lose)
    with pytest.raises(Violation, match="the table at rest"):
        simulate(3, 0)


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
