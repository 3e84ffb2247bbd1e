"""svc.query.sorting: everything or the first entries, in order, in bounded pieces."""

import random

import pytest

from svc.query import sorting
from svc.query.sorting import Collector


def collected(entries, keep, *, at_once=50, take=7):
    collector = Collector(keep)
    for start in range(0, len(entries), at_once):
        collector.add(entries[start : start + at_once])
        while collector.busy:
            collector.work()
    found = []
    while some := collector.take(take):
        found += some
    assert collector.take(take) == []
    return found


@pytest.mark.parametrize("run", [16, 64, 10_000])
@pytest.mark.parametrize("keep", [None, 0, 1, 5, 15, 17, 100, 333, 1000, 5000])
def test_the_first_entries_in_order(monkeypatch, run, keep):
    monkeypatch.setattr(sorting, "RUN", run)
    monkeypatch.setattr(sorting, "_MERGED_AT_ONCE", 32)
    numbers = random.Random(5).sample(range(100_000), 1000)
    entries = [(number.to_bytes(4, "big"), number) for number in numbers]
    assert collected(entries, keep) == sorted(numbers)[:keep]
    assert collected(entries[::-1], keep, at_once=400) == sorted(numbers)[:keep]
    assert collected([], keep) == []


def test_with_a_limit_few_are_kept(monkeypatch):
    collector = Collector(10)
    for start in range(0, 100_000, 100):
        collector.add([(number.to_bytes(4, "big"), number) for number in range(start + 99, start - 1, -1)])
        assert len(collector._unsorted) <= 2 * 10 + 256 + 100
    assert collector.take(20) == list(range(10))


def test_a_large_limit_bounds_memory_too(monkeypatch):
    monkeypatch.setattr(sorting, "RUN", 16)
    collector = Collector(40)
    source = random.Random(1)
    most = 0
    for _ in range(500):
        collector.add([(source.randbytes(8), None) for _ in range(8)])
        while collector.busy:
            collector.work()
        most = max(most, sum(map(len, collector._runs)) + len(collector._unsorted))
    assert most <= 3 * 40 + 2 * 16
