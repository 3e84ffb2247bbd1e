"""svc.store.disk.reclamation: what may go is kept for a shorter time on a volume that becomes full."""

import os
import random
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from svc.clock import FakeClock
from svc.store import Store
from svc.store.disk.reclamation import ReclamationSettings, divisor
from svc.store.schema import TableDefinition
from svc.store.values.keys import encode_key
from tests.unit.store.conftest import SEAT

DAY = 86400.0


class FreeShare:
    """What statvfs says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.share = 1.0
        monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=int(self.share * 10_000), f_blocks=10_000))


@pytest.fixture
def volume(monkeypatch: pytest.MonkeyPatch) -> FreeShare:
    return FreeShare(monkeypatch)


@pytest.mark.parametrize(("free", "expected"), [(1.0, 1.0), (0.4, 1.0), (0.2, 5.0), (0.04, 101.0)])
def test_the_formula(free: float, expected: float) -> None:
    assert divisor(free, 0.4) == pytest.approx(expected)
    assert divisor(0.0, 0.4) > 1e9


def test_log_entries_and_expired_records_go_earlier(
    open_store: Callable[..., Store], clock: FakeClock, volume: FreeShare, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(reclamation=ReclamationSettings(0.4, 3600.0), log_retention=4 * DAY)
    kept = TableDefinition("Kept", attributes=SEAT.attributes, primary_key="code", expiration=60.0, eviction=2 * DAY, scan_interval=1.0)
    database = store.open_database("data")
    seats, table = database.define_table(SEAT), database.define_table(kept)
    for key in ("a", "b"):
        transaction = store.begin()
        transaction.put(seats, key, {})
        transaction.put(table, key, {})
        transaction.apply()
        store.commit_turn()
    clock.advance(DAY)
    store.maintenance(1.0)
    assert database.log.count(database.snapshot()) == 4 and table.entry_count(database.snapshot()) == 2 and store.reclamation.divisor == 1
    volume.share = 0.2
    store.maintenance(1.0)
    assert store.reclamation.divisor == 1, "it is looked at once an hour"
    clock.advance(3600.0)
    store.maintenance(1.0)
    clock.advance(10.0)
    store.maintenance(1.0)
    assert store.reclamation.divisor == pytest.approx(5.0) and "20 % of the volume" in caplog.text
    assert table.entry_count(database.snapshot()) == 0 and seats.entry_count(database.snapshot()) == 2
    oldest = database.log.oldest(database.snapshot())
    assert oldest is not None and oldest.lsn >= 4, "but for the newest, and the removals"
    volume.share = 1.0
    clock.advance(3600.0)
    store.maintenance(1.0)
    assert store.reclamation.divisor == 1
    store.check()


def test_copies_of_a_source_go_before_they_expire(open_store: Callable[..., Store], clock: FakeClock, volume: FreeShare) -> None:
    volume.share = 0.04
    store = open_store(reclamation=ReclamationSettings(0.4, 3600.0, 1e10))
    database = store.open_database("data")
    table = database.define_table(
        TableDefinition("Cached", attributes=SEAT.attributes, primary_key="code", expiration=3600.0, scan_interval=1.0)
    )
    table.cache(store)
    transaction = store.begin()
    large = random.Random(1).randbytes(100_000)
    transaction.put(table, "large", {"price": 1.0, "image": large})
    transaction.put(table, "small", {"price": 1.0})
    transaction.put(table, "loading", {"price": 1.0, "image": large})
    transaction.apply()
    store.commit_turn()
    table.loading[encode_key("loading")] = table
    store.maintenance(1.0)
    clock.advance(10.0)
    store.maintenance(1.0)
    store.end_turn()
    assert table.get_raw("large") is None and table.get_raw("small") is not None and table.get_raw("loading") is not None
    assert len(list(table.indexes["price"].scan(database.snapshot()))) == 3
    store.check()


def test_a_full_volume_is_looked_at_at_once(open_store: Callable[..., Store], clock: FakeClock, volume: FreeShare) -> None:
    store = open_store(reclamation=ReclamationSettings(0.4, 3600.0))
    database = store.open_database("data")
    store.maintenance(1.0)
    volume.share = 0.0
    database.env.reserve.is_low = True
    clock.advance(10.0)
    store.maintenance(1.0)
    assert store.reclamation.divisor > 1e6


def test_it_can_be_switched_off(open_store: Callable[..., Store], volume: FreeShare) -> None:
    volume.share = 0.0
    store = open_store(reclamation=ReclamationSettings(0.0, 1.0))
    store.maintenance(1.0)
    assert store.reclamation.divisor == 1
