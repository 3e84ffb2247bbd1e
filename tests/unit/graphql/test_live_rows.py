"""The list that events keep is what a client of the live query itself would have (spec: realtime §1)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svc.errors import AccessViolation, Problem, QueryError
from svc.graphql import live_field, live_rows
from svc.graphql.live_field import LiveField, LiveFields
from svc.graphql.live_rows import LiveRows
from svc.realtime.event import EndReason
from svc.realtime.live.events import LiveEvent, NoticeEvent, RowEvent
from tests.support.profile import examples


def row(type_: str, id_: Any, value: Any, index: int | None = None, was_at: int | None = None) -> RowEvent:
    return RowEvent(type_, id_, b"" if type_ != "leave" else None, lambda raw, native: value, index, 1, was_at)


def listed(rows: LiveRows) -> Any:
    import json

    return json.loads(rows.array())


steps = st.lists(st.tuples(st.sampled_from(("enter", "update", "leave")), st.integers(0, 9), st.integers(0, 9), st.booleans()), max_size=40)


@settings(max_examples=examples(60))
@given(steps)
def test_rows_in_an_order(steps: list[tuple[str, int, int, bool]]) -> None:
    rows, model = LiveRows(None), []
    for type_, id_, index, says_where in steps:
        at = next((number for number, (each, _) in enumerate(model) if each == id_), None)
        if at is not None:
            model.pop(at)
        index = min(index, len(model))
        if type_ != "leave":
            model.insert(index, (id_, index))
        rows.apply(row(type_, id_, index, index, at if says_where else None))
        assert listed(rows) == [value for _, value in model]
    assert rows.content == len(rows.array()) - 2 - max(0, len(model) - 1)


@settings(max_examples=examples(60))
@given(
    st.lists(
        st.tuples(st.sampled_from(("snapshot", "enter", "update", "leave")), st.one_of(st.integers(-9, 9), st.text("ab", max_size=2))),
        max_size=40,
    )
)
def test_rows_by_key(steps: list[tuple[str, Any]]) -> None:
    rows, model = LiveRows(None), {}
    for number, (type_, id_) in enumerate(steps):
        rows.apply(row(type_, id_, number))
        model.pop(id_, None)
        if type_ != "leave":
            model[id_] = number
    numbers, strings = (sorted(each for each in model if type(each) is kind) for kind in (int, str))
    assert listed(rows) == [model[id_] for id_ in [*numbers, *strings]]
    rows.apply(NoticeEvent("reset", reason="why"))
    assert (len(rows), rows.size, rows.content, rows.is_ready, rows.reason) == (0, 0, 0, False, "why")


def test_the_list_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_rows, "MAX_BYTES", 100)
    rows = LiveRows(None)
    rows.apply(row("enter", 1, "x" * 90))
    rows.apply(row("update", 1, "y" * 90))
    with pytest.raises(QueryError):
        rows.apply(row("enter", 2, "z" * 20))


class Source:
    """A subscription whose events the test makes."""

    def __init__(self, *events: LiveEvent) -> None:
        self.events = list(events)
        self.ended: EndReason | None = None
        self.user = "ann"
        self.on_ready: Any = None
        self.is_closed = False

    def take(self, limit: int) -> list[LiveEvent]:
        taken, self.events = self.events[:limit], self.events[limit:]
        return taken

    def close(self) -> None:
        self.is_closed = True


class Sink:
    def __init__(self) -> None:
        self.has_room = True
        self.sent: list[str] = []
        self.ended: list[Problem | None] = []

    def send(self, body: bytes) -> None:
        self.sent.append(body.decode())

    def end(self, problem: Problem | None) -> None:
        self.ended.append(problem)


class Loop:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def call_soon_threadsafe(self, call: Any) -> None:
        self.calls.append(call)

    def run(self) -> int:
        """Turns until nothing is left."""
        turns = 0
        while self.calls:
            calls, self.calls = self.calls, []
            turns += 1
            for call in calls:
                call()
        return turns


class World:
    """One subscription. `now` grows by `step` whenever it is asked for."""

    def __init__(self, *events: LiveEvent, step: float = 0.0) -> None:
        self.loop, self.sink, self.source = Loop(), Sink(), Source(*events)
        self.faults: list[BaseException] = []
        self.time = 0.0
        self.step = step
        self.shared = LiveFields(self.loop, self.now, self.faults.append)  # type: ignore[arg-type]
        self.may_read = True
        self.field = LiveField(self.source, "F", None, self.shared, self.check)  # type: ignore[arg-type]
        self.field.start(self.sink)

    def now(self) -> float:
        self.time += self.step
        return self.time

    def check(self, user: Any) -> None:
        if not self.may_read:
            raise AccessViolation(user)

    def happen(self, *events: LiveEvent) -> int:
        self.source.events += events
        self.source.on_ready()
        return self.loop.run()


READY = NoticeEvent("ready", 1, count=0)


def test_nothing_is_sent_before_all_rows_are_there() -> None:
    world = World(row("snapshot", 1, 1))
    world.loop.run()
    assert world.sink.sent == []
    world.happen(row("snapshot", 2, 2), READY)
    assert world.sink.sent == ['{"data":{"F":[1,2]}}']


def test_a_slow_client_gets_the_newest() -> None:
    world = World(READY)
    world.sink.has_room = False
    world.loop.run()
    for number in range(5):
        world.happen(row("enter", number, number))
    assert world.sink.sent == []
    world.sink.has_room = True
    world.field.wake()
    world.loop.run()
    assert world.sink.sent == ['{"data":{"F":[0,1,2,3,4]}}']
    world.field.wake()
    world.loop.run()
    assert len(world.sink.sent) == 1


def test_long_work_is_spread_over_turns() -> None:
    world = World(*[row("snapshot", number, number) for number in range(640)], READY, step=1.0)
    assert world.loop.run() > 10
    assert len(world.sink.sent) == 1


@pytest.mark.parametrize(
    ("why", "status"),
    [
        (EndReason.REVOKED, 401),
        (EndReason.NO_LOGIN, 401),
        (EndReason.TOO_SLOW, 503),
        (EndReason.DROPPED, 404),
        (EndReason.FAILED, 500),
        (EndReason.FINISHED, None),
    ],
)
def test_ends(why: EndReason, status: int | None) -> None:
    world = World(READY)
    world.loop.run()
    world.source.user = None  # type: ignore[assignment]
    world.source.ended = why
    world.happen()
    (problem,) = world.sink.ended
    assert (None if problem is None else problem.status_code) == status
    assert world.source.is_closed and world.shared.count == 0


def test_a_result_that_cannot_be_followed_says_why() -> None:
    world = World(NoticeEvent("reset", reason="too many"))
    world.source.ended = EndReason.FINISHED
    world.loop.run()
    (problem,) = world.sink.ended
    assert problem is not None and (problem.status_code, problem.message) == (400, "too many")


def test_rights_are_asked_for_when_the_result_is_another() -> None:
    world = World(row("snapshot", 1, 1), READY)
    world.loop.run()
    world.may_read = False
    world.happen(NoticeEvent("reset", reason="rights"), row("snapshot", 1, 1), READY)
    (problem,) = world.sink.ended
    assert isinstance(problem, AccessViolation) and len(world.sink.sent) == 1


def test_memory_of_all_lists_is_bounded_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_field, "MAX_BYTES", 1000)
    world = World(READY)
    for number in range(10):
        if not world.sink.ended:
            world.happen(row("enter", number, "x" * 100))
    (problem,) = world.sink.ended
    assert problem is not None and problem.status_code == 503
    assert world.shared._size == 0


def test_a_defect_ends_one_subscription() -> None:
    world = World(RowEvent("snapshot", 1, b"", lambda raw, native: 1 / 0, None, 1))
    world.loop.run()
    (problem,) = world.sink.ended
    assert problem is not None and problem.message == "Internal Server Error" and len(world.faults) == 1
