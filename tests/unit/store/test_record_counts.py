"""svc.store.record_counts: records that have expired are counted off a few at a time."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.store import Store, Table, record_counts
from svc.store.record_counts import count_records, known_count


@pytest.fixture
def expired(seats: Table, store: Store, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Table:
    """30 records that expire at times of their own, all passed, and two that stay."""
    monkeypatch.setattr(record_counts, "FEW", 10)
    monkeypatch.setattr(record_counts, "STEP", 4)
    now = clock.wall() * 1000
    transaction = store.begin()
    for number in range(32):
        expiry = now + 1000 + number if number < 30 else None
        transaction.put(seats, f"s{number}", {"code": f"s{number}"}, expires_at=expiry)
    store.commit_now(transaction)
    clock.advance(60)
    return seats


def finish(steps: Generator[None, None, Any]) -> tuple[int, Any]:
    """The number of pauses, and what is returned."""
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return pauses, done.value
        pauses += 1


def test_an_exact_count_pauses(expired: Table, store: Store) -> None:
    assert finish(count_records(expired)) == (7, (2, 2))
    assert not len(store.snapshots)


def test_an_estimate_looks_at_few(expired: Table) -> None:
    assert finish(count_records(expired, exact=False)) == (2, (22, 0))


def test_what_is_known_at_once(expired: Table, seats: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    assert known_count(expired, expired.database.snapshot()) is None
    monkeypatch.setattr(record_counts, "FEW", 30)
    assert known_count(expired, expired.database.snapshot()) == 2 == expired.record_count()


def test_a_count_that_is_given_up_leaves_no_snapshot(expired: Table, store: Store) -> None:
    steps = count_records(expired)
    next(steps)
    assert len(store.snapshots) == 1
    steps.close()
    assert not len(store.snapshots)
