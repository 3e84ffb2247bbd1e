"""The states of an engine, as a table. What it does with real processes: tests/integration/test_cluster_engine.py."""

from __future__ import annotations

from svc.cluster.engine import TRANSITIONS, Input, State


def test_every_state_has_a_row_and_can_be_left() -> None:
    assert set(TRANSITIONS) == set(State)
    for state, row in TRANSITIONS.items():
        assert set(row) <= set(Input)
        assert {Input.START, Input.STOP} <= set(row)
        assert any(after is not state for after in row.values())


def test_stop_leads_to_stopped_and_start_to_running() -> None:
    for state in State:
        stopped = TRANSITIONS[state][Input.STOP]
        assert stopped is State.STOPPED or TRANSITIONS[stopped][Input.EXITED] is State.STOPPED
        started = TRANSITIONS[state][Input.START]
        for event in (Input.EXITED, Input.PAUSE_OVER, Input.LISTENING, Input.CONNECTED):
            started = TRANSITIONS[started].get(event, started) if started is not State.RUNNING else started
        assert started in (State.RUNNING, State.WAITING, State.LAUNCHED)


def test_a_process_that_ends_is_always_noticed() -> None:
    for state in (State.LAUNCHED, State.CONNECTING, State.RUNNING, State.STOPPING, State.RENEWING):
        assert TRANSITIONS[state][Input.EXITED] is not state


def test_nothing_that_is_over_changes_a_state() -> None:
    """A connection or a process that was given up may still say something."""
    for state in (State.STOPPED, State.WAITING):
        for event in (Input.LISTENING, Input.CONNECTED, Input.LOST, Input.EXITED):
            assert event not in TRANSITIONS[state]
