"""svc.realtime.history: current records on snapshots that may go away, the last events, the log."""

from typing import Any

import pytest

from svc.query.nodes import Comparator, Condition
from svc.realtime import history, hub, resume, subscription
from svc.realtime.history import LogReplay
from tests.support.scene import Scene
from tests.support.snapshots import give_up_snapshots


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two events at a time."""
    monkeypatch.setattr(subscription, "MAX_REPLAY_EVENTS", 2)
    monkeypatch.setattr(history, "LOG_BATCH", 2)


def ids(events: list[Any]) -> list[Any]:
    return [(event.type, event.id) for event in events]


def test_records_are_read_on_one_snapshot(scene: Scene, small: None) -> None:
    for key in "abcd":
        scene.put(key, a=1)
    source = scene.subscribe()
    scene.settle()
    assert len(scene.store.snapshots) == 1 and len(source.queue) == 2
    scene.write(lambda t: t.delete(scene.table, "d"), lambda t: t.put(scene.table, "bb", {}))
    assert ids(scene.take(source)) == [("put", "a"), ("put", "b"), ("put", "c"), ("put", "d"), ("delete", "d"), ("put", "bb")]
    assert len(scene.store.snapshots) == 0


def test_a_snapshot_that_is_gone_is_followed_by_another(scene: Scene, small: None) -> None:
    """Of each record only what is later than its snapshot follows."""
    for key in "abcdef":
        scene.put(key, a=1)
    source = scene.subscribe()
    scene.settle()
    assert len(scene.store.snapshots) == 1
    events = source.take(1)
    scene.put("a", a=2)  # was read: follows
    scene.put("e", a=2)  # is read later: does not
    scene.write(
        lambda t: t.delete(scene.table, "f"), lambda t: t.put(scene.table, "g", {"a": 3}), lambda t: t.publish(scene.table, "e", "m")
    )
    give_up_snapshots(scene.store)
    events += scene.take(source, 1)
    assert [(event.type, event.id, event.value and event.type == "put" and event.value["a"]) for event in events] == [
        ("put", "a", 1),
        ("put", "b", 1),
        ("put", "c", 1),
        ("put", "d", 1),
        ("put", "e", 2),
        ("put", "g", 3),
        ("put", "a", 2),
        ("message", "e", False),
    ]
    assert events[5].local_time == 6, "from there on nothing is missing"


def test_an_index_finds_them_and_the_key_orders_them(scene: Scene, small: None) -> None:
    for number, key in enumerate("dcba"):
        scene.put(key, a=number)
    scene.put("z", a=-1)
    where = Condition(("a",), Comparator.GREATER_THAN_EQUAL, 0)
    assert ids(scene.take(scene.subscribe(where=where), 1)) == [("put", key) for key in "abcd"]


@pytest.mark.parametrize("most", [2, 100])
def test_a_lost_snapshot_while_an_index_is_read(scene: Scene, small: None, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_SORTED_KEYS", most)
    monkeypatch.setattr(hub, "SLICE", -1.0)
    for number, key in enumerate("fedcba"):
        scene.put(key, a=number)
    source = scene.subscribe(where=Condition(("a",), Comparator.GREATER_THAN_EQUAL, 1))
    events: list[Any] = []
    for turn in range(200):
        scene.loop.run_once()
        scene.store.end_turn()
        if turn == 4:
            give_up_snapshots(scene.store)
        events += source.take(1)
    assert ids(events) == [("put", key) for key in "abcde"] and len(scene.store.snapshots) == 0


def test_closing_lets_go_of_the_snapshot(scene: Scene, small: None) -> None:
    for key in "abcd":
        scene.put(key)
    source = scene.subscribe()
    scene.settle()
    assert len(scene.store.snapshots) == 1
    source.close()
    assert len(scene.store.snapshots) == 0


def test_a_long_history_of_a_record_is_read_from_the_log(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resume, "MAX_PAST_EVENTS", 3)
    for number in range(8):
        scene.put("a" if number % 4 else "b", a=number)
    assert [event.local_time for event in scene.take(scene.subscribe(key="a", after=5))] == [6, 7, 8]
    assert [event.local_time for event in scene.take(scene.subscribe(key="a", after=1))] == [2, 3, 4, 6, 7, 8]
    start = scene.take(scene.subscribe(after=0))[0].timestamp
    assert [event.local_time for event in scene.take(scene.subscribe(key="a", start_time=start))] == [2, 3, 4, 6, 7, 8]


def test_the_last_events_that_satisfy_a_condition(scene: Scene, small: None) -> None:
    for number in range(9):
        scene.put("k", a=number % 3)
    scene.write(lambda t: t.delete(scene.table, "k"))
    where = Condition(("a",), Comparator.EQUALS, 2)
    for options in ({}, {"key": "k"}):
        events = scene.take(scene.subscribe(where=where, previous_count=3, **options))
        assert [event.local_time for event in events] == [6, 9, 10]


def test_entries_removed_meanwhile_are_left_out(scene: Scene, small: None) -> None:
    for number in range(6):
        scene.put("k", a=number)
    source = scene.subscribe(previous_count=5)
    scene.settle()
    writer = scene.database.writer()
    scene.database.log.prune(writer, float("inf"), 4)
    scene.database.env.touch()
    scene.store.commit_turn()
    assert [event.local_time for event in scene.take(source)] == [2, 3, 5, 6]


def test_a_history_begins_where_the_log_does(scene: Scene, small: None) -> None:
    for number in range(6):
        scene.put("k", a=number)
    source = scene.subscribe(start_time=0.0)
    writer = scene.database.writer()
    scene.database.log.prune(writer, float("inf"), 4)
    scene.database.env.touch()
    scene.store.commit_turn()
    scene.put("k", a=6)
    assert [event.local_time for event in scene.take(source)] == [5, 6, 7] and source.ended is None


def test_subscriptions_that_read_the_same_part_of_the_log_share_events(scene: Scene) -> None:
    for number in range(3):
        scene.put(str(number))
    first, second = scene.take(scene.subscribe(after=0)), scene.take(scene.subscribe(after=1))
    assert first[1:] == second


def test_it_is_live_only_where_the_feed_is(scene: Scene) -> None:
    scene.put("a")
    source = scene.subscribe(omit_current=True)
    assert not source.stages
    other = scene.subscribe(after=0)
    stage = other.stages[0]
    assert isinstance(stage, LogReplay) and stage.position == 0
    transaction = scene.store.begin()
    transaction.put(scene.table, "b", {})
    transaction.apply()
    scene.store.flush()
    scene.store.end_turn()
    scene.settle()
    assert [event.id for event in scene.take(source)] == ["b"], "a commit that has been read is delivered"
    assert [event.id for event in scene.take(other)] == ["a", "b"]
    scene.store.commit_turn()
    assert scene.take(source) == [] and scene.take(other) == []
