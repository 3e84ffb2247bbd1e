"""svc.store.disk.writer_gate: the writers of turns and a long writer, in processes of their own (here: gates of their own, which locks tell apart)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from svc.store.disk.writer_gate import Gate


@pytest.fixture
def gates(tmp_path: Path) -> Iterator[tuple[Gate, Gate]]:
    pair = Gate(tmp_path), Gate(tmp_path)
    yield pair
    for gate in pair:
        gate.close()


def test_the_writers_of_turns_do_not_hinder_each_other_here(gates: tuple[Gate, Gate]) -> None:
    mine, theirs = gates
    assert mine.enter() and theirs.enter() and mine.enter()
    mine.leave()
    mine.leave()
    theirs.leave()


def test_a_long_writer_waits_for_those_inside_and_keeps_the_next_ones_out(gates: tuple[Gate, Gate]) -> None:
    mine, theirs = gates
    assert theirs.enter()
    assert not mine.try_close()
    assert theirs.enter(), "who is inside already may come in again"
    theirs.leave()
    theirs.leave()
    assert not theirs.enter(), "the door is shut: otherwise the long writer would never get in"
    assert mine.try_close()
    assert not theirs.enter()
    mine.open()
    assert theirs.enter()
    theirs.leave()


def test_a_long_writer_may_give_up_before_it_is_in(gates: tuple[Gate, Gate]) -> None:
    mine, theirs = gates
    assert theirs.enter()
    assert not mine.try_close()
    mine.open()
    theirs.leave()
    assert theirs.enter()
    theirs.leave()


def test_one_long_writer_at_a_time(gates: tuple[Gate, Gate]) -> None:
    mine, theirs = gates
    assert mine.try_close() and not theirs.try_close()
    theirs.open()
    mine.open()
    assert theirs.try_close()
    theirs.open()


def test_what_is_closed_by_a_process_is_open_to_itself(gates: tuple[Gate, Gate]) -> None:
    mine, theirs = gates
    assert mine.try_close()
    assert mine.enter()
    mine.leave()
    assert not theirs.enter(), "that must not have opened it"
    mine.open()
    assert theirs.enter()
    theirs.leave()


def test_the_end_of_a_process_opens_the_gate(gates: tuple[Gate, Gate]) -> None:
    mine, theirs = gates
    assert mine.try_close()
    mine.close()
    mine.close()
    assert theirs.enter()
    theirs.leave()
    mine.open()


def test_who_wants_to_come_in_may_look_whether_it_can(gates: tuple[Gate, Gate]) -> None:
    """A lock of another kind on the same file takes the place of the first: the door would be open without anybody noticing."""
    mine, theirs = gates
    assert theirs.enter()
    assert not mine.try_close()
    assert mine.enter()
    mine.leave()
    theirs.leave()
    assert not theirs.enter(), "the door has been opened"
    assert mine.try_close() and not theirs.enter()
    mine.open()
    assert theirs.enter()
    theirs.leave()


def test_a_gate_that_is_closed_for_good(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    gate.close()
    gate.close()
    with pytest.raises(OSError, match="closed for good"):
        gate.enter()
