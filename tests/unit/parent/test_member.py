"""How the instances of one place have lived, and what is done to one."""

from __future__ import annotations

import signal

import pytest

from svc.parent.channel import Channel, pair
from svc.parent.member import LAST_PAUSE, LONG_LIFE, SHORT_LIFE, SHORT_LIVES_MAX, Lives, Member


def test_pauses_grow_up_to_the_longest() -> None:
    lives = Lives()
    found = [lives.ended(SHORT_LIFE) for _ in range(9)]
    assert found == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, LAST_PAUSE, LAST_PAUSE, LAST_PAUSE]


def test_a_long_life_begins_anew() -> None:
    lives = Lives()
    for _ in range(4):
        lives.ended(SHORT_LIFE)
    assert [lives.ended(seconds) for seconds in (LONG_LIFE, LONG_LIFE, SHORT_LIFE)] == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("longer", range(SHORT_LIVES_MAX))
def test_short_lives_in_a_row_are_given_up(longer: int) -> None:
    """Only in a row: one that has lived longer begins the count again."""
    lives = Lives()
    for _ in range(longer):
        assert lives.ended(0.0) is not None
    assert lives.ended(SHORT_LIFE) is not None
    found = [lives.ended(SHORT_LIFE - 0.1) for _ in range(SHORT_LIVES_MAX)]
    assert None not in found[:-1] and found[-1] is None


def test_a_process_that_is_gone_gets_no_signal() -> None:
    here, there = pair()
    member = Member(2, 1, 2**22 + 1, Channel(here), 0, 0.0)  # above all ids
    member.signal(signal.SIGTERM)
    assert str(member) == f"instance 2 (pid: {2**22 + 1})"
    member.channel.close()
    there.close()
