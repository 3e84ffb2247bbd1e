"""svc.realtime.subscription: a queue that stays small, whatever happens and however slow its consumer is."""

from typing import Any

import pytest

from svc.realtime import history, subscriber_group, subscription
from svc.realtime.event import EndReason
from tests.support.scene import Scene


def place(item: Any) -> Any:
    return item if isinstance(item, str) else item.local_time


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for four live events, ten are too many to be behind."""
    for module, name, value in (
        (subscriber_group, "MIN_EVENT_WEIGHT", 4096),
        (subscription, "MIN_EVENT_WEIGHT", 4096),
        (subscriber_group, "MAX_WEIGHT", 4 * 4096),
        (subscriber_group, "MAX_MISSED", 10),
        (subscription, "MAX_WEIGHT", 4 * 4096),
        (subscription, "MAX_MISSED", 10),
        (subscription, "MAX_REPLAY_EVENTS", 4),
        (history, "LOG_BATCH", 3),
    ):
        monkeypatch.setattr(module, name, value)


def put_some(scene: Scene, *keys: str) -> None:
    for key in keys:
        scene.put(key, a=scene.database.log.last_lsn + 1)


def test_a_slow_consumer_forgets_its_queue_and_reads_the_log(scene: Scene, small: None) -> None:
    source = scene.subscribe(omit_current=True)
    put_some(scene, *"abcd")
    assert len(source.queue) == 4 and not source.stages
    put_some(scene, "e")
    assert len(source.queue) == 0 and len(source.stages) == 1 and source.weight == 0 and source.missed == 5
    put_some(scene, "f")
    assert source.missed == 6 and not source.queue
    events = scene.take(source, 2)
    assert [event.local_time for event in events] == [1, 2, 3, 4, 5, 6] and all(event.coalesced == 1 for event in events)
    assert not source.stages and source.missed == 0
    put_some(scene, "g")
    assert [event.local_time for event in source.take(5)] == [7], "it is live again"


def test_late_events_of_a_record_are_coalesced(scene: Scene, small: None) -> None:
    source = scene.subscribe(omit_current=True)
    put_some(scene, *"aabab")
    scene.write(lambda t: t.publish(scene.table, "a", 1), lambda t: t.publish(scene.table, "a", 2), lambda t: t.delete(scene.table, "a"))
    assert source.stages
    events = scene.take(source)
    assert [(event.local_time, event.type, event.id, event.coalesced) for event in events] == [
        (5, "put", "b", 2),
        (6, "message", "a", 1),
        (7, "message", "a", 1),
        (8, "delete", "a", 4),
    ]
    assert events[0].members(False)["coalesced"] == 2 and "coalesced" not in events[1].members(False)


@pytest.mark.parametrize("option", ["raw_events", "supports_transactions"])
def test_raw_events_are_not_coalesced_however_late(scene: Scene, small: None, option: str) -> None:
    source = scene.subscribe(omit_current=True, **{option: True})
    put_some(scene, *"aaaaa")
    assert source.stages
    events = scene.take(source, 2)
    expected = [1, 2, 3, 4, 5] if option == "raw_events" else [lsn for lsn in range(1, 6) for _ in ("put", "end_txn")]
    assert [event.local_time for event in events] == expected and all(event.coalesced == 1 for event in events)
    if option == "supports_transactions":
        assert [event.begin_txn for event in events] == [True, False] * 5


def test_too_far_behind_it_ends(scene: Scene, small: None) -> None:
    calls: list[str] = []
    source = scene.subscribe(omit_current=True)
    source.on("close", lambda why: calls.append(why))
    put_some(scene, *"abcdefghij")
    assert source.ended is None and source.missed == 10
    put_some(scene, "k")
    assert source.ended is EndReason.TOO_SLOW and source.take(5) == [] and len(scene.hub) == 0
    scene.settle()
    assert calls == [EndReason.TOO_SLOW]


def test_a_history_of_any_length_is_not_too_much(scene: Scene, small: None) -> None:
    put_some(scene, *[str(number) for number in range(40)])
    source = scene.subscribe(after=0)
    scene.settle()
    assert len(source.queue) <= 8
    assert len(scene.take(source, 3)) == 40 and source.ended is None
    assert len(scene.take(scene.subscribe(), 3)) == 40


def test_current_records_stay_when_live_events_are_too_many(scene: Scene, small: None) -> None:
    """They are not in the log."""
    put_some(scene, "a", "b")
    source = scene.subscribe()
    scene.settle()
    assert len(source.queue) == 2 and not source.stages
    put_some(scene, "c", "d", "e")
    assert [event.id for event in source.queue] == ["a", "b"] and source.stages
    assert [event.id for event in scene.take(source)] == ["a", "b", "c", "d", "e"]


def test_retention_that_comes_past_a_reader_ends_it(scene: Scene, small: None) -> None:
    source = scene.subscribe(omit_current=True)
    put_some(scene, *"abcde")
    writer = scene.database.writer()
    scene.database.log.prune(writer, float("inf"), 3)
    scene.database.env.touch()
    scene.store.commit_turn()
    assert scene.take(source) == [] and source.ended is EndReason.TOO_SLOW


def test_large_events_count_for_more(scene: Scene) -> None:
    source = scene.subscribe(omit_current=True)
    for _ in range(6):
        scene.put("a", text="x" * 100_000)
        assert source.weight <= subscriber_group.MAX_WEIGHT
    assert source.stages
    assert sum(event.coalesced for event in scene.take(source)) == 6


def test_one_that_is_larger_than_the_room_comes_nevertheless(scene: Scene) -> None:
    source = scene.subscribe(omit_current=True)
    for number in range(3):
        scene.put(str(number), text="x" * 2_000_000)
        scene.put("small", n=number)
    assert [event.local_time for event in scene.take(source, 1)] == [1, 3, 5, 6]


# -- what is sent


def test_sent_items_come_behind_events_of_earlier_commits(scene: Scene) -> None:
    scene.put("a")
    source = scene.subscribe()
    scene.settle()
    source.send("first")
    scene.put("b")
    source.send("second")
    source.send("third")
    scene.put("c")
    assert [place(item) for item in scene.take(source, 1)] == [1, "first", 2, "second", "third", 3]


def test_sent_items_stay_when_the_queue_is_dropped(scene: Scene, small: None) -> None:
    source = scene.subscribe(omit_current=True)
    put_some(scene, *"abc")
    source.send("x")
    put_some(scene, *"def")
    source.send("y")
    assert source.stages
    assert [place(item) for item in scene.take(source, 1)] == [1, 2, 3, "x", 4, 5, 6, "y"]


def test_a_waiting_consumer_is_notified_of_sent_items(scene: Scene) -> None:
    calls: list[int] = []
    source = scene.subscribe(omit_current=True)
    source.on_ready = lambda: calls.append(1)
    assert source.take(5) == []
    source.send("x")
    assert calls == [], "not from within"
    scene.settle()
    assert calls == [1] and source.take(5) == ["x"]


def test_more_is_sent_than_anybody_takes(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.realtime.delivery_queue.MAX_SENT", 3)
    source = scene.subscribe(omit_current=True)
    for number in range(4):
        source.send(number)
    assert source.ended is EndReason.TOO_SLOW and source.take(5) == []
    source.send("after the end")
    assert source.take(5) == []


# -- ends


def test_queued_items_can_be_taken_after_the_end(scene: Scene) -> None:
    source = scene.subscribe(omit_current=True)
    scene.put("a")
    source.send("x")
    source.end()
    scene.put("b")
    assert [place(item) for item in source.take(10)] == [1, "x"] and source.take(10) == [] and source.ended is EndReason.FINISHED


def test_a_consumer_that_is_gone_gets_nothing(scene: Scene) -> None:
    calls: list[int] = []
    source = scene.subscribe()
    source.on_ready = lambda: calls.append(1)
    scene.take(source)
    source.close()
    scene.put("a")
    scene.settle()
    assert source.take(10) == [] and calls == []


def test_a_consumer_that_fails_hinders_no_other(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    import logging

    def fail() -> None:
        raise RuntimeError("no room")

    bad, good = scene.subscribe(omit_current=True), scene.subscribe(omit_current=True)
    bad.on_ready = fail
    assert bad.take(1) == [] and good.take(1) == []
    with caplog.at_level(logging.CRITICAL, "svc.realtime"):
        scene.put("a")
    assert len(good.take(1)) == 1
