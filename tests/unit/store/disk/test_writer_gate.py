"""svc.store.disk.writer_gate: the writers of turns and a long writer, in processes of their own (here: gates of their own, which locks tell apart)."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from svc.store.disk.writer_gate import WriterGate

PATIENCE = 60.0  # seconds


@pytest.fixture
def gates(tmp_path: Path) -> Iterator[tuple[WriterGate, WriterGate]]:
    pair = WriterGate(tmp_path), WriterGate(tmp_path)
    yield pair
    for gate in pair:
        gate.close()


def test_the_writers_of_turns_do_not_hinder_each_other_here(gates: tuple[WriterGate, WriterGate]) -> None:
    mine, theirs = gates
    assert mine.acquire_shared() and theirs.acquire_shared() and mine.acquire_shared()
    mine.release_shared()
    mine.release_shared()
    theirs.release_shared()


def test_a_long_writer_waits_for_those_inside_and_keeps_the_next_ones_out(gates: tuple[WriterGate, WriterGate]) -> None:
    mine, theirs = gates
    assert theirs.acquire_shared()
    assert not mine.try_acquire_exclusive()
    assert theirs.acquire_shared(), "who is inside already may come in again"
    theirs.release_shared()
    theirs.release_shared()
    assert not theirs.acquire_shared(), "the door is shut: otherwise the long writer would never get in"
    assert mine.try_acquire_exclusive()
    assert not theirs.acquire_shared()
    mine.release_exclusive()
    assert theirs.acquire_shared()
    theirs.release_shared()


def test_a_long_writer_may_give_up_before_it_is_in(gates: tuple[WriterGate, WriterGate]) -> None:
    mine, theirs = gates
    assert theirs.acquire_shared()
    assert not mine.try_acquire_exclusive()
    mine.release_exclusive()
    theirs.release_shared()
    assert theirs.acquire_shared()
    theirs.release_shared()


def test_one_long_writer_at_a_time(gates: tuple[WriterGate, WriterGate]) -> None:
    mine, theirs = gates
    assert mine.try_acquire_exclusive() and not theirs.try_acquire_exclusive()
    theirs.release_exclusive()
    mine.release_exclusive()
    assert theirs.try_acquire_exclusive()
    theirs.release_exclusive()


def test_what_is_closed_by_a_process_is_open_to_itself(gates: tuple[WriterGate, WriterGate]) -> None:
    mine, theirs = gates
    assert mine.try_acquire_exclusive()
    assert mine.acquire_shared()
    mine.release_shared()
    assert not theirs.acquire_shared(), "that must not have opened it"
    mine.release_exclusive()
    assert theirs.acquire_shared()
    theirs.release_shared()


def test_the_end_of_a_process_opens_the_gate(gates: tuple[WriterGate, WriterGate]) -> None:
    mine, theirs = gates
    assert mine.try_acquire_exclusive()
    mine.close()
    mine.close()
    assert theirs.acquire_shared()
    theirs.release_shared()
    mine.release_exclusive()


def test_who_wants_to_come_in_may_look_whether_it_can(gates: tuple[WriterGate, WriterGate]) -> None:
    """A lock of another kind on the same file takes the place of the first: the door would be open without anybody noticing."""
    mine, theirs = gates
    assert theirs.acquire_shared()
    assert not mine.try_acquire_exclusive()
    assert mine.acquire_shared()
    mine.release_shared()
    theirs.release_shared()
    assert not theirs.acquire_shared(), "the door has been opened"
    assert mine.try_acquire_exclusive() and not theirs.acquire_shared()
    mine.release_exclusive()
    assert theirs.acquire_shared()
    theirs.release_shared()


def test_a_gate_that_is_closed_for_good(tmp_path: Path) -> None:
    gate = WriterGate(tmp_path)
    gate.close()
    gate.close()
    with pytest.raises(OSError, match="lock is closed"):
        gate.acquire_shared()


def test_one_place(gates: tuple[WriterGate, WriterGate]) -> None:
    mine, theirs = gates
    assert theirs.try_place() and theirs.try_place() and not mine.try_place()
    theirs.leave_place()
    theirs.leave_place()
    assert mine.try_place() and not theirs.try_place()
    mine.close()
    assert theirs.try_place()


def test_the_place_is_left_with_the_shared_lock(gates: tuple[WriterGate, WriterGate]) -> None:
    mine, theirs = gates
    assert mine.acquire_shared() and mine.try_place()
    mine.leave_place()
    assert not theirs.try_place(), "it is written"
    mine.release_shared()
    assert theirs.try_place()


def test_a_thread_waits_for_the_place(gates: tuple[WriterGate, WriterGate]) -> None:
    mine, theirs = gates
    assert theirs.try_place()
    free = Event()
    for _ in range(3):
        free.clear()
        mine.await_place(free.set)
        assert not free.is_set() and not mine.try_place()
        theirs.leave_place()
        assert free.wait(PATIENCE)
        assert not theirs.try_place() and mine.try_place()
        mine.leave_place()
        assert theirs.try_place()


def test_a_gate_is_closed_while_its_thread_waits(gates: tuple[WriterGate, WriterGate]) -> None:
    mine, theirs = gates
    assert theirs.try_place()
    called = Event()
    mine.await_place(called.set)
    mine.close()
    theirs.leave_place()
    assert called.wait(PATIENCE)
    theirs.await_place(called.clear)
    while called.is_set():  # the thread closes the file, and then the place is free
        pass


def test_a_loop_that_is_closed_does_not_get_the_place(gates: tuple[WriterGate, WriterGate]) -> None:
    mine, theirs = gates
    assert theirs.try_place()

    def closed() -> None:
        raise RuntimeError("Event loop is closed")

    mine.await_place(closed)
    theirs.leave_place()
    free = Event()
    theirs.await_place(free.set)
    assert free.wait(PATIENCE)


def test_writers_of_turns_are_announced(gates: tuple[WriterGate, WriterGate]) -> None:
    mine, theirs = gates
    assert not mine.is_awaited()
    theirs.announce()
    theirs.announce()
    assert mine.is_awaited() and not theirs.is_awaited()
    mine.announce()
    mine.withdraw()
    assert mine.is_awaited()
    theirs.withdraw()
    assert not mine.is_awaited()
    theirs.announce()
    theirs.close()
    assert not mine.is_awaited()
