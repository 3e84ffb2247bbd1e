"""fuzz/consistency/followers.py: what must not come to a follower would be seen."""

from __future__ import annotations

from typing import Any

import pytest

from fuzz.consistency.followers import Entry, LiveFollower, SessionFollower, SocketFollower, StreamFollower

ENTRIES = [Entry(2, "a", 11), Entry(4, "b", 12), Entry(5, "a", None), Entry(9, "a", 13)]
"""Of the log, behind the record that is there at the beginning."""
MARK = {"localTime": 1, "id": "mark", "value": {"n": 1}}


def event(entry: Entry, **members: Any) -> dict[str, Any]:
    value = None if entry.n is None else {"n": entry.n}
    return {"localTime": entry.lsn, "id": entry.key, "value": value, **members}


def stream_problem(*events: dict[str, Any]) -> str | None:
    follower = StreamFollower("follower", 1, lambda kind: 0)
    for each in (MARK, *events):
        follower.take(each)
    return follower.problem([Entry(1, "mark", 1), *ENTRIES])


def session_problem(*connections: list[Entry]) -> str | None:
    follower = SessionFollower("follower", 1, lambda kind: 0)
    follower.connections = [[(entry.key, entry.n) for entry in entries] for entries in connections]
    return follower.problem(ENTRIES)


def test_streams() -> None:
    first, second, third, last = map(event, ENTRIES)
    assert stream_problem(first, second, third, last) is None
    assert "has not come" in (stream_problem(first, second, third) or "")
    assert stream_problem(first, third, last), "one is missing"
    assert stream_problem(first, second, second, third, last), "one comes twice"
    assert stream_problem(second, first, third, last), "in another order"
    assert stream_problem(first, second, third, event(Entry(9, "a", 12))), "with another value"
    assert stream_problem(first, second, third, event(Entry(8, "a", 13)), last), "what is not in the log"


def test_streams_that_leave_out_what_was_replaced() -> None:
    second, last = event(ENTRIES[1]), event(ENTRIES[3], coalesced=3)
    assert stream_problem(second, last) is None
    assert stream_problem(second, event(ENTRIES[3], coalesced=2)), "it does not stand for all"


def test_sessions() -> None:
    first, second, third, last = ENTRIES
    assert session_problem([first, second], [third, last]) is None
    assert session_problem([first, second, third], [second, third, last]) is None, "some come again"
    assert session_problem([first, second, third], [first], [second, third, last]) is None
    assert session_problem([first, second], [last]), "one is missing"
    assert session_problem([first, second, third]), "the last is missing"
    assert session_problem([first, second, second, third, last]), "again without a new connection"
    assert session_problem([first, second, third], [third, second, last]), "in another order"


@pytest.mark.parametrize("rows, is_right", [([13, 12], True), ([12, 13], False), ([13], False)])
def test_live_queries(rows: list[int], is_right: bool) -> None:
    follower = LiveFollower("follower", 1, lambda kind: 0)
    follower.take({"type": "snapshot", "id": "gone", "value": {"n": 10}, "index": 0})
    for place, n in enumerate(rows):
        follower.take({"type": "enter", "id": str(n), "value": {"n": n}, "index": place})
    follower.take({"type": "leave", "id": "gone", "value": None, "index": 0})
    assert (follower.problem(ENTRIES) is None) is is_right


@pytest.mark.parametrize(
    "state, is_right", [({"a": 13, "b": 12}, True), ({"a": 13}, False), ({"a": 11, "b": 12}, False), ({"a": 13, "b": 12, "c": 1}, False)]
)
def test_web_sockets(state: dict[str, int], is_right: bool) -> None:
    follower = SocketFollower("follower", 1, lambda kind: 0)
    follower.state = state
    assert (follower.problem(ENTRIES) is None) is is_right
