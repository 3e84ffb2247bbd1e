"""The log is read once for all that read it; a commit is delivered in slices."""

from __future__ import annotations

import pytest

from svc.realtime.event import EndReason
from svc.realtime.shared_replay import BATCH
from svc.store.log.transaction_log import TransactionLog
from tests.support.scene import Scene


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """LSNs from which on the log was scanned."""
    found: list[int] = []
    scan = TransactionLog.scan

    def counted(self: TransactionLog, txn: object, tables: object, lsn: int, look: int) -> object:
        found.append(lsn)
        return scan(self, txn, tables, lsn, look)  # type: ignore[arg-type]

    monkeypatch.setattr(TransactionLog, "scan", counted)
    return found


def write_many(scene: Scene, count: int) -> None:
    scene.write(*[lambda transaction, n=n: transaction.put(scene.table, f"k{n % 7}", {"a": n}) for n in range(count)])  # type: ignore[misc]


def test_one_reading_for_all(scene: Scene, scans: list[int]) -> None:
    scene.put("first")
    write_many(scene, 10 * BATCH)
    sources = [scene.subscribe(only_children=n % 2 == 0, after=1, keeps_all=True) for n in range(40)]
    few = [scene.subscribe(pattern=("+", "x"), after=1, keeps_all=True) for _ in range(100)]
    for source in sources:
        source.on_ready = lambda: None
    got: list[list[int]] = [[] for _ in sources]
    for _ in range(1000):
        scene.settle()
        some = [source.take(50) for source in sources]
        for values, events in zip(got, some, strict=True):
            values += [event.value["a"] for event in events]
        if not any(some):
            break
    assert all(values == list(range(10 * BATCH)) for values in got)
    assert all(not source.stages for source in [*sources, *few]), "all are live"
    assert len(scans) < 200, "140 readings of ten batches each would be 1,400"


def test_those_that_return_find_nothing_to_read(scene: Scene, scans: list[int]) -> None:
    write_many(scene, 5 * BATCH)
    sources = [scene.subscribe(pattern=("nothing", "+"), after=1, keeps_all=True) for _ in range(1000)]
    scene.settle()
    assert not any(source.stages for source in sources) and len(scans) <= 7
    scene.put("nothing/1", a=1)
    assert all([event.id for event in source.take(10)] == ["nothing/1"] for source in sources)


def test_a_slow_one_holds_up_nobody(scene: Scene) -> None:
    write_many(scene, 1000)
    slow, quick = (scene.subscribe(after=0, keeps_all=True) for _ in range(2))
    assert len(scene.take(quick)) == 1000 and not quick.stages
    assert slow.stages and len(slow.queue) <= 100
    scene.put("last", a=5)
    assert [event.id for event in scene.take(quick)] == ["last"]
    assert [event.change.lsn for event in scene.take(slow)] == list(range(1, 1002)) and not slow.stages


def test_one_may_end_while_it_is_read(scene: Scene) -> None:
    write_many(scene, 50)
    sources = [scene.subscribe(after=0, keeps_all=True) for _ in range(5)]
    sources[1].close()
    sources[0].on_ready = sources[2].close
    assert sources[0].take(1) == []
    scene.settle()
    assert sources[2].ended is EndReason.FINISHED
    assert len(scene.take(sources[0])) == len(scene.take(sources[3])) == 50
    replay = scene.hub._replays
    assert not replay, "nothing is left"


def test_a_commit_is_delivered_in_slices(scene: Scene) -> None:
    """Also one entry that concerns very many."""
    sources = [scene.subscribe(omit_current=True, pattern=("+", str(n), "#")) for n in range(5)]
    groups = [scene.subscribe(omit_current=True, pattern=("a", "#"), raw_events=n % 2 == 0) for n in range(2)]
    scene.settle()
    ticks = iter(range(10**6))
    scene.hub._followed[scene.database]._now = lambda: next(ticks) * 0.001  # type: ignore[method-assign]  # a slice is two readings of the clock
    scene.write(*[lambda transaction, n=n: transaction.put(scene.table, "a/1", {"a": n}) for n in range(200)])  # type: ignore[misc]
    followed = scene.hub._followed[scene.database]
    assert not followed.is_up_to_date and followed.position < followed.heard == 200
    late = scene.subscribe(omit_current=True)
    assert late.stages, "it becomes live when all that is known is delivered"
    scene.put("a/1", a=200)
    scene.settle()
    assert followed.is_up_to_date
    for source in groups:
        assert [event.change.lsn for event in source.take(1000)] == list(range(1, 202))
    assert [event.value["a"] for event in sources[1].take(1000)] == list(range(201))
    assert [event.change.lsn for event in scene.take(late)] == [201]
