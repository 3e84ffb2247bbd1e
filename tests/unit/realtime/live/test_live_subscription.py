"""svc.realtime.live.subscription: the queue of one client."""

from collections import deque

import pytest

from svc.errors import SnapshotLost
from svc.query.nodes import Query
from svc.realtime.event import EndReason
from svc.realtime.live import subscription as module
from svc.realtime.live.events import RowEvent, read_payload
from svc.realtime.live.subscription import LiveSubscription, compact
from svc.store.values.records import encode_payload


def row(type_, id_, value=None, index=None, lsn=1, was_at=None):
    return RowEvent(type_, id_, None if type_ == "leave" else encode_payload(value), read_payload, index, lsn, was_at)


class FakeSnapshot:
    def __init__(self, steps):
        self.steps = list(steps)
        self.count = 0
        self.closed = 0

    def take(self, limit):
        if not self.steps:
            return None
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        self.count += len(step)
        return step

    def close(self):
        self.closed += 1


class FakeResult:
    is_closed = False

    def __init__(self):
        self.snapshots = []
        self.calls = []

    def start_snapshot(self, subscription):
        self.calls.append("start_snapshot")
        return self.snapshots.pop(0) if self.snapshots else None

    def detach(self, subscription):
        self.calls.append("detach")

    def remove(self, subscription):
        self.calls.append("remove")


class Case:
    def __init__(self, *snapshots):
        self.later = []
        self.gone = []
        self.result = FakeResult()
        self.result.snapshots = list(snapshots)
        self.source = LiveSubscription(
            Query(), "table", None, None, self.later.append, self.gone.append, allow_full_scan=True, checks_rights=False
        )
        self.source.result = self.result
        self.called = 0
        self.source.on_ready = self.ready

    def ready(self):
        self.called += 1

    def take(self, limit=100):
        return [event.type for event in self.source.take(limit)]

    def push(self, *events):
        self.source.push(list(events), sum(event.size for event in events))


def test_rows_then_ready_then_changes():
    case = Case(FakeSnapshot([[row("snapshot", 1)], [row("snapshot", 2)]]))
    case.source.position = 7
    assert case.take() == ["snapshot"] and case.take() == ["snapshot"]
    case.push(row("enter", 3))
    (ready, enter) = [*case.source.take(1), *case.source.take(1)]
    assert ready.members(False) == {"type": "ready", "count": 2, "localTime": 7}
    assert enter.members(False) == {"type": "enter", "id": 3, "value": None, "localTime": 1}
    assert case.take() == [] and case.called == 0
    case.push(row("leave", 3))
    assert case.called == 1
    case.push(row("leave", 4))
    assert case.called == 1, "called once until the client has taken"
    assert case.take() == ["leave", "leave"]


def test_a_client_that_waits_for_a_result_is_woken():
    case = Case()
    assert case.take() == []
    case.result.snapshots.append(FakeSnapshot([]))
    case.source.wake()
    assert case.called == 1
    assert case.take() == ["ready"]


def test_a_snapshot_that_has_nothing_yet_is_asked_again_in_a_later_turn():
    case = Case(FakeSnapshot([[], [row("snapshot", 1)]]))
    assert case.take() == [] and len(case.later) == 1 and case.called == 0
    case.later.pop()()
    assert case.called == 1
    assert case.take() == ["snapshot"]


def test_changes_in_the_snapshot_are_not_sent_again():
    case = Case(FakeSnapshot([]))
    case.take()
    case.source.floor = 5
    case.push(row("enter", 1, lsn=5), row("enter", 2, lsn=6))
    assert [event.id for event in case.source.take(9)] == [2]
    case.push(row("enter", 3, lsn=4))
    assert case.take() == []


def test_a_lost_snapshot_is_a_reset():
    case = Case(FakeSnapshot([[row("snapshot", 1)], SnapshotLost("x")]), FakeSnapshot([]))
    assert case.take() == ["snapshot"]
    assert case.take() == ["reset"]
    assert case.take() == ["ready"]


def test_too_much_becomes_a_reset_and_at_last_the_end(monkeypatch):
    monkeypatch.setattr(module, "MAX_QUEUED", 4)
    case = Case(*[FakeSnapshot([[row("snapshot", 1)], []]) for _ in range(9)])
    case.take()
    for at in range(module.MAX_RESETS):
        for number in range(5):
            case.push(row("enter", number))
        assert case.source.take(1)[0].members(True) == {"type": "reset", "reason": EndReason.TOO_SLOW.value}, at
        assert case.source.ended is None
        assert case.take(1) == ["snapshot"]
    for number in range(5):
        case.push(row("enter", number))
    assert case.source.ended is EndReason.TOO_SLOW and case.take() == []
    assert case.result.calls[-1] == "remove"


def test_a_client_that_gets_through_its_snapshot_is_not_too_slow(monkeypatch):
    monkeypatch.setattr(module, "MAX_QUEUED", 4)
    case = Case(*[FakeSnapshot([]) for _ in range(40)])
    case.take()
    for _ in range(4 * module.MAX_RESETS):
        for number in range(5):
            case.push(row("enter", number))
        assert case.take() == ["reset", "ready"]


def test_bytes_are_bounded_too(monkeypatch):
    monkeypatch.setattr(module, "MAX_QUEUED_BYTES", 2000)
    case = Case(FakeSnapshot([]), FakeSnapshot([]))
    case.take()
    case.push(row("enter", 1, "x" * 3000))
    assert case.take() == ["reset", "ready"]


def test_needless_events_are_left_out_before_anything_is_dropped(monkeypatch):
    monkeypatch.setattr(module, "MAX_QUEUED", 10)
    case = Case(FakeSnapshot([]))
    case.take()
    for number in range(100):
        case.push(row("update", number % 3, number))
    events = case.source.take(100)
    assert "reset" not in [event.type for event in events] and len(events) <= 10
    last = {event.id: event.members(True)["value"] for event in events}
    assert last == {0: 99, 1: 97, 2: 98}


def test_compacted_rows_without_order_are_sent_once():
    queue = deque(
        [
            *(row("enter", 1, "a"), row("update", 1, "b")),
            *(row("update", 2, "a"), row("leave", 2)),
            *(row("enter", 3, "a"), row("leave", 3)),
            *(row("leave", 4), row("enter", 4, "z")),
            *(row("enter", True, "t"), row("enter", 1.0, "f")),
        ]
    )
    assert [(event.type, event.id, event.members(True)["value"]) for event in compact(queue)] == [
        ("enter", 1, "b"),
        ("leave", 2, None),
        ("leave", 3, None),
        ("update", 4, "z"),
        ("enter", True, "t"),
        ("enter", 1.0, "f"),
    ]


def test_squeezed_rows_in_order_lose_only_updates_in_place():
    queue = deque(
        [
            row("update", 1, "a", 0, was_at=0),
            row("update", 1, "b", 4, was_at=0),
            row("update", 2, "a", 1, was_at=1),
            row("enter", 3, "a", 0),
            row("update", 1, "c", 5, was_at=5),
            row("update", 2, "b", 2, was_at=2),
        ]
    )
    assert [(event.type, event.id, event.index) for event in compact(queue)] == [
        ("update", 1, 4), ("enter", 3, 0), ("update", 1, 5), ("update", 2, 2),
    ]  # fmt: skip


def test_after_the_end_there_is_nothing():
    case = Case(FakeSnapshot([[row("snapshot", 1)]]))
    case.take()
    case.push(row("enter", 2))
    case.source.finish(EndReason.REVOKED)
    assert case.take() == [] and case.source.ended is EndReason.REVOKED
    case.source.close()
    assert case.source.ended is EndReason.REVOKED and case.result.calls.count("remove") == 1 and case.gone == [case.source]


def test_a_waiting_client_is_notified_of_the_end():
    case = Case()
    assert case.take() == []
    case.source.finish(EndReason.DROPPED)
    assert case.called == 1


def test_a_rejected_result_gives_the_reason():
    case = Case()
    assert case.take() == []
    case.source.reject("too large")
    assert case.called == 1
    assert case.source.take(5)[0].members(True) == {"type": "reset", "reason": "too large"}
    assert case.take() == [] and case.source.ended is EndReason.FINISHED


def test_a_client_that_fails_costs_itself_alone(caplog):
    case = Case()
    case.take()

    def fail():
        raise RuntimeError("client")

    case.source.on_ready = fail
    case.source.wake()
    assert case.source.ended is EndReason.FAILED
    assert "a subscriber of a live query failed" in caplog.text
    caplog.clear()


@pytest.mark.parametrize("limit", [0, -1])
def test_nothing_is_taken_without_room(limit):
    assert Case(FakeSnapshot([])).take(limit) == []
