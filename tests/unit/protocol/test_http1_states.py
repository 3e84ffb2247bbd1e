"""The table by itself; `test_http1` walks it with a driver."""

from __future__ import annotations

from svc.protocol.http1_states import NEXT, TRANSITIONS, Input, State


def test_rows_say_what_the_table_says() -> None:
    for state in State:
        for input in Input:
            assert NEXT[state][input] is TRANSITIONS[state].get(input, State.ERROR)


def test_every_state_is_reached_and_only_an_end_has_no_way_out() -> None:
    reached, new = set(), {State.IDLE}
    while new:
        reached |= new
        new = {after for state in new for after in TRANSITIONS[state].values()} - reached
    assert reached == set(State) - {State.ERROR}
    assert {state for state in State if not TRANSITIONS[state]} == {State.SWITCHED, State.ERROR}


def test_a_fault_never_goes_on() -> None:
    for state in State:
        assert NEXT[state][Input.FAULT] in (State.FAILED, State.CLOSED, State.ERROR)
        assert NEXT[state][Input.CLOSE] in (State.CLOSED, State.ERROR)
