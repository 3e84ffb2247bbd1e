"""svc.siblings.locks."""

from __future__ import annotations

import os
from pathlib import Path

from svc.siblings.locks import Decision, maybe_lock


def test_a_lock_is_held_alone_or_shared(tmp_path: Path) -> None:
    first = maybe_lock(tmp_path, "a", shared=True)
    second = maybe_lock(tmp_path, "a", shared=True)
    assert first is not None and second is not None
    assert maybe_lock(tmp_path, "a", shared=False) is None
    first.release()
    first.release()
    assert maybe_lock(tmp_path, "a", shared=False) is None
    second.release()
    alone = maybe_lock(tmp_path, "a", shared=False)
    assert alone is not None
    assert maybe_lock(tmp_path, "a", shared=False) is None and maybe_lock(tmp_path, "a", shared=True) is None
    other = maybe_lock(tmp_path, "b", shared=False)
    assert other is not None
    other.release()
    alone.release()


def test_a_child_that_has_the_descriptor_does_not_keep_a_lock(tmp_path: Path) -> None:
    lock = maybe_lock(tmp_path, "a", shared=False)
    assert lock is not None
    descriptor = os.dup(lock._descriptor)  # as a fork has it
    lock.release()
    again = maybe_lock(tmp_path, "a", shared=False)
    assert again is not None
    again.release()
    os.close(descriptor)


def test_the_first_decides(tmp_path: Path) -> None:
    first, second = Decision(tmp_path, "a"), Decision(tmp_path, "a")
    assert second.maybe_read() is None
    assert first.decide("yes it is") == "yes it is"
    assert second.decide("no") == second.maybe_read() == first.maybe_read() == "yes it is"
    other = Decision(tmp_path, "b")
    other.decide("no")
    other.remove_others()
    assert first.maybe_read() is None and other.maybe_read() == "no"
