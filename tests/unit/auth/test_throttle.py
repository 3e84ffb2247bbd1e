"""Delays of repeated failures (spec: security §10)."""

from contextlib import suppress

import pytest

from svc.auth import throttle
from svc.auth.throttle import FailureDelays
from svc.auth.verifier import Verifier
from svc.clock import FakeClock
from svc.errors import Problem
from tests.unit.auth.conftest import World


def test_doubles_after_five_failures_up_to_five_seconds() -> None:
    delays = FailureDelays(FakeClock())
    key = delays.key("ann", "10.0.0.1")
    found = []
    for _ in range(40):
        found.append(delays.delay(key))
        delays.failed(key)
    assert found[:12] == [0, 0, 0, 0, 0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
    assert set(found[12:]) == {5.0}


def test_forgotten_after_success_or_a_quarter_of_an_hour() -> None:
    clock = FakeClock()
    delays = FailureDelays(clock)
    key = delays.key("ann", "10.0.0.1")
    for _ in range(6):
        delays.failed(key)
    clock.advance(899)
    assert delays.delay(key) > 0
    clock.advance(1)
    assert delays.delay(key) == 0 and len(delays) == 0
    for _ in range(6):
        delays.failed(key)
    delays.succeeded(key)
    assert delays.delay(key) == 0


def test_names_and_addresses_are_apart() -> None:
    delays = FailureDelays(FakeClock())
    assert len({delays.key("ann", "1"), delays.key("ann", "2"), delays.key("bob", "1"), delays.key("ann1", "")}) == 4


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "MAX_ENTRIES", 3)
    delays = FailureDelays(FakeClock())
    keys = [delays.key(str(n), "") for n in range(5)]
    for key in keys:
        for _ in range(6):
            delays.failed(key)
    assert [delays.delay(key) > 0 for key in keys] == [False, False, True, True, True]


def test_failures_at_another_process_count(world: World) -> None:
    verifiers = [Verifier(world.directory, clock=world.clock) for _ in range(2)]
    verifiers[0].on_outcome, verifiers[1].on_outcome = verifiers[1].hear, verifiers[0].hear

    def attempt(number: int, password: str) -> float:
        verifier = verifiers[number % 2]
        pending = verifier.begin(verifier.digest(f"admin\0{password}{number}"), "admin", password, "10.0.0.1")
        try:
            with suppress(Problem):
                pending.finish(pending.work())
        finally:
            verifier.release(pending)
        return pending.delay

    assert [attempt(number, "wrong") for number in range(8)] == [0, 0, 0, 0, 0, 0.1, 0.2, 0.4]
