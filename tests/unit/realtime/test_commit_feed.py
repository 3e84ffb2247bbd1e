"""svc.realtime.commit_feed: every entry once, in order, of all processes."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.realtime import commit_feed as feed_module
from svc.store import Database, LogEntry
from tests.support.hub import Sibling
from tests.support.scene import Scene

pytestmark = pytest.mark.programs


class Ear:
    def __init__(self) -> None:
        self.heard: list[int] = []
        self.pieces: list[int] = []

    def __call__(self, database: Database, entries: list[LogEntry]) -> None:
        self.heard += [entry.lsn for entry in entries]
        self.pieces.append(len(entries))


@pytest.fixture(scope="module")
def sibling() -> Iterator[Sibling]:
    sibling = Sibling()
    yield sibling
    sibling.stop()


def sibling_writes(scene: Scene, sibling: Sibling, *keys: Any) -> None:
    sibling.write(scene.clock.wall(), [["data", "Note", "put", key, {"a": 1}] for key in keys])


def test_a_listener_gets_each_commit_once(scene: Scene) -> None:
    scene.put("before", a=1)
    ear = Ear()
    assert scene.feed.add(scene.database, ear) == 1
    scene.put("a")
    scene.write(lambda t: (t.put(scene.table, "b", {}), t.put(scene.table, "c", {})), lambda t: t.put(scene.table, "d", {}))
    assert ear.heard == [2, 3, 4, 5] and ear.pieces == [1, 3]
    assert scene.feed.position(scene.database) == 5


def test_a_database_without_listeners_is_not_followed(scene: Scene) -> None:
    ear = Ear()
    assert not scene.database.on_commit
    scene.feed.add(scene.database, ear)
    assert len(scene.database.on_commit) == 1 and len([t for t in scene.loop.timers if not t.cancelled]) == 1
    scene.feed.remove(scene.database, ear)
    scene.feed.remove(scene.database, ear)
    assert not scene.database.on_commit and all(timer.cancelled for timer in scene.loop.timers)
    assert scene.feed.position(scene.database) == -1
    scene.put("a")
    scene.feed.add(scene.database, ear)
    scene.put("b")
    assert ear.heard == [2], "entries without a listener are not reported later"


def test_writes_of_this_turn_are_reported_with_its_commit(scene: Scene) -> None:
    """Entries on disk before the listener was added are not reported: they are in every snapshot that is opened now."""
    ear = Ear()
    first = scene.store.begin()
    first.put(scene.table, "a", {})
    first.apply()
    scene.store.flush()
    second = scene.store.begin()
    second.put(scene.table, "b", {})
    second.apply()
    assert scene.feed.add(scene.database, ear) == 1
    scene.store.commit_turn()
    assert ear.heard == [2]


def test_an_exception_of_a_listener_does_not_affect_others(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    ear = Ear()

    def fail(database: Database, entries: list[LogEntry]) -> None:
        raise RuntimeError("deaf")

    scene.feed.add(scene.database, fail)
    scene.feed.add(scene.database, ear)
    with caplog.at_level(logging.CRITICAL, "svc.realtime"):
        scene.put("a")
    assert ear.heard == [1]


def test_a_listener_may_remove_itself_while_it_is_called(scene: Scene) -> None:
    ear = Ear()

    def once(database: Database, entries: list[LogEntry]) -> None:
        scene.feed.remove(database, once)

    scene.feed.add(scene.database, once)
    scene.feed.add(scene.database, ear)
    scene.put("a")
    scene.put("b")
    assert ear.heard == [1, 2]


def test_a_large_commit_comes_in_pieces_between_turns(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "ENTRIES_PER_BATCH", 10)
    monkeypatch.setattr(feed_module, "SLICE", -1.0)
    ear = Ear()
    scene.feed.add(scene.database, ear)
    scene.write(*[lambda t, n=n: t.put(scene.table, n, {}) for n in range(25)])  # type: ignore[misc]
    assert ear.heard == list(range(1, 11))
    scene.loop.run_once()
    assert ear.heard == list(range(1, 13)), "a slice"
    scene.put("meanwhile")
    scene.loop.run()
    assert ear.heard == list(range(1, 27))


def test_a_long_write_is_reported_whole_and_in_order(scene: Scene) -> None:
    ear = Ear()
    scene.feed.add(scene.database, ear)
    transaction = scene.store.begin()
    for number in range(1500):
        transaction.put(scene.table, number, {"a": number})

    async def apply() -> None:
        await transaction.apply_long()

    asyncio.run(apply())
    scene.put("after")
    scene.loop.run()
    assert ear.heard == list(range(1, 1502))


def test_commits_of_a_sibling_are_reported_when_polled(scene: Scene, sibling: Sibling, tmp_path: Path) -> None:
    ear = Ear()
    scene.feed.add(scene.database, ear)
    scene.store.end_turn()
    sibling.open(tmp_path / "store")
    sibling_writes(scene, sibling, "a", "b")
    assert ear.heard == []
    scene.loop.fire()
    assert ear.heard == [1, 2]
    delays = [timer.delay for timer in scene.loop.timers if not timer.cancelled]
    assert delays == [feed_module.POLL_INTERVAL]
    scene.loop.fire()
    assert ear.heard == [1, 2]
    sibling.close()


def test_where_siblings_wake_this_process_it_looks_at_the_end_of_a_turn(scene: Scene, sibling: Sibling, tmp_path: Path) -> None:
    ear = Ear()
    scene.feed.is_woken = lambda: True
    assert not scene.feed.is_following
    scene.feed.add(scene.database, ear)
    assert scene.feed.is_following
    scene.store.end_turn()
    sibling.open(tmp_path / "store")
    sibling_writes(scene, sibling, "a", "b")
    scene.feed.look()
    assert ear.heard == [1, 2]
    scene.loop.fire()
    assert not [timer for timer in scene.loop.timers if not timer.cancelled]
    scene.store.end_turn()
    sibling_writes(scene, sibling, "c")
    scene.feed.sweep()  # should it not have been woken
    assert ear.heard == [1, 2, 3]
    sibling.close()


def test_a_commit_of_its_own_is_not_looked_for(scene: Scene, sibling: Sibling, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ear = Ear()
    scene.feed.is_woken = lambda: True
    scene.feed.add(scene.database, ear)
    scene.store.end_turn()
    sibling.open(tmp_path / "store")
    reads: list[int] = []
    read = type(scene.database.log).read
    monkeypatch.setattr(type(scene.database.log), "read", lambda *given: reads.append(1) or read(*given))
    scene.put("a")
    scene.put("b")
    scene.feed.look()
    assert (ear.heard, len(reads)) == ([1, 2], 0)
    scene.store.end_turn()
    sibling_writes(scene, sibling, "c")
    scene.put("d")
    scene.feed.look()
    assert (ear.heard, len(reads)) == ([1, 2, 3, 4], 2)
    scene.feed.look()
    assert len(reads) == 2
    sibling.close()


def test_commits_of_a_sibling_are_reported_before_a_later_own_one(scene: Scene, sibling: Sibling, tmp_path: Path) -> None:
    ear = Ear()
    scene.feed.add(scene.database, ear)
    scene.store.end_turn()
    sibling.open(tmp_path / "store")
    sibling_writes(scene, sibling, "a")
    scene.put("b")
    assert ear.heard == [1, 2]
    scene.store.end_turn()
    sibling_writes(scene, sibling, "c")
    assert scene.feed.catch_up(scene.database)
    assert ear.heard == [1, 2, 3]
    sibling.close()


def test_it_polls_when_another_process_has_come(scene: Scene, sibling: Sibling, tmp_path: Path) -> None:
    """Alone it does not wake by itself: it looks once a second, when something else does."""
    ear = Ear()
    scene.feed.add(scene.database, ear)
    scene.loop.fire()
    scene.feed.sweep()
    assert not scene.loop.timers
    scene.store.end_turn()
    sibling.open(tmp_path / "store")
    sibling_writes(scene, sibling, "a")
    scene.feed.sweep()
    assert ear.heard == [1]
    assert [timer.delay for timer in scene.loop.timers] == [feed_module.POLL_INTERVAL]
    sibling.close()


def test_a_watcher_is_told_of_commits_of_all_processes(
    scene: Scene, sibling: Sibling, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is not read for it."""
    reads: list[int] = []
    read = type(scene.database.log).read
    monkeypatch.setattr(type(scene.database.log), "read", lambda *given: reads.append(1) or read(*given))
    told: list[Database] = []
    scene.feed.watch(scene.database, told.append)
    assert scene.feed.is_following and scene.feed.position(scene.database) == -1 and scene.feed.catch_up(scene.database)
    scene.put("a")
    assert told == [scene.database]
    transaction = scene.store.begin()
    for number in range(1500):
        transaction.put(scene.database.tables["Note"], f"k{number}", {"a": 1})

    async def apply() -> None:
        await transaction.apply_long()

    asyncio.run(apply())
    assert told == [scene.database] * 2
    scene.store.end_turn()
    scene.loop.fire()
    told.clear()
    sibling.open(tmp_path / "store")
    sibling_writes(scene, sibling, "b")
    scene.feed.sweep()
    assert told == [scene.database] and not reads
    ear = Ear()
    scene.feed.add(scene.database, ear)
    scene.store.end_turn()
    sibling_writes(scene, sibling, "c")
    scene.loop.fire()
    assert told == [scene.database] * 2 and len(ear.heard) == 1
    scene.feed.remove(scene.database, ear)
    scene.feed.watch(scene.database, print)
    for _ in range(2):
        scene.feed.unwatch(scene.database, told.append)
    assert scene.database.watchers == [print]
    scene.feed.close()
    assert not scene.database.watchers and not scene.database.on_commit and not scene.feed.is_following
    sibling.close()


def test_a_watcher_that_fails_does_not_affect_others(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    told: list[Database] = []

    def fail(database: Database) -> None:
        raise ValueError

    for watcher in (fail, told.append):
        scene.feed.watch(scene.database, watcher)
    scene.put("a")
    assert told == [scene.database] and "a watcher failed" in caplog.text
    caplog.clear()


def test_a_dropped_database_is_forgotten(scene: Scene) -> None:
    other = scene.store.open_database("other")
    scene.feed.add(other, Ear())

    async def drop() -> None:
        await scene.store.drop_database("other")

    asyncio.run(drop())
    scene.loop.fire()
    assert scene.feed.position(other) == -1 and scene.feed.catch_up(other)
    assert not [timer for timer in scene.loop.timers if not timer.cancelled]


def test_at_the_end_all_listeners_are_forgotten(scene: Scene) -> None:
    ear = Ear()
    scene.feed.add(scene.database, ear)
    scene.feed.close()
    scene.put("a")
    assert ear.heard == [] and not scene.database.on_commit
