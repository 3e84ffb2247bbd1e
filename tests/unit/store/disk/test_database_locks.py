"""What processes tell each other by the file of a database's lock."""

from __future__ import annotations

from fcntl import LOCK_UN, flock
from pathlib import Path

import pytest

from svc.store.disk.database_locks import DatabaseInUse, OpenLock


def test_each_that_comes_is_noticed_by_those_that_are_there(tmp_path: Path) -> None:
    first = OpenLock(tmp_path)
    assert first.arrivals() == b""
    first.arrive()
    seen = {first.arrivals()}
    for number in range(300):
        other = OpenLock(tmp_path)
        assert first.arrivals() in seen, "it has not opened the database yet"
        other.arrive()
        assert first.arrivals() not in seen and first.arrivals() == other.arrivals()
        seen.add(first.arrivals())
        other.close()
        assert first.arrivals() in seen and len(seen) == number + 2
    first.close()
    assert first.arrivals() == b""


def test_the_number_outlives_all(tmp_path: Path) -> None:
    numbers = []
    for _ in range(3):
        lock = OpenLock(tmp_path)
        lock.arrive()
        numbers.append(lock.arrivals())
        lock.close()
    assert len(set(numbers)) == 3


def test_alone(tmp_path: Path) -> None:
    lock = OpenLock(tmp_path)
    lock.arrive()
    with pytest.raises(DatabaseInUse):
        OpenLock(tmp_path, alone=True)
    lock.close()
    OpenLock(tmp_path, alone=True).close()


def test_a_shared_lock_becomes_exclusive_while_no_other_is_there(tmp_path: Path) -> None:
    lock, other = OpenLock(tmp_path), OpenLock(tmp_path)
    assert not lock.take_alone()
    lock.share()
    other.close()
    assert lock.take_alone()
    with pytest.raises(DatabaseInUse):
        OpenLock(tmp_path)
    lock.share()
    other = OpenLock(tmp_path)
    other.close()
    lock.close()


def test_one_that_was_taken_meanwhile(tmp_path: Path) -> None:
    """By a restore: between the two locks of `take_alone` the kernel may give it to another."""
    lock, other = OpenLock(tmp_path), OpenLock(tmp_path)
    flock(lock._descriptor, LOCK_UN)
    assert other.take_alone()
    with pytest.raises(DatabaseInUse):
        lock.share()
    other.close()
    lock.close()
