"""The table by itself; `test_http1` walks it with a driver."""

from __future__ import annotations

from svc.protocol.http1_states import NEXT, TRANSITIONS, Http1Input, Http1State


def test_rows_say_what_the_table_says() -> None:
    for state in Http1State:
        for input in Http1Input:
            assert NEXT[state][input] is TRANSITIONS[state].get(input, Http1State.ERROR)


def test_every_state_is_reached_and_only_an_end_has_no_way_out() -> None:
    reached, new = set(), {Http1State.IDLE}
    while new:
        reached |= new
        new = {after for state in new for after in TRANSITIONS[state].values()} - reached
    assert reached == set(Http1State) - {Http1State.ERROR}
    assert {state for state in Http1State if not TRANSITIONS[state]} == {Http1State.SWITCHED, Http1State.ERROR}


def test_a_fault_never_goes_on() -> None:
    for state in Http1State:
        assert NEXT[state][Http1Input.FAULT] in (Http1State.FAILED, Http1State.CLOSED, Http1State.ERROR)
        assert NEXT[state][Http1Input.CLOSE] in (Http1State.CLOSED, Http1State.ERROR)
