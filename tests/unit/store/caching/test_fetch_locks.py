"""svc.store.caching.fetch_locks: one holder a record, in this process and others; nothing is left of a process that ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from svc.store.caching import FetchLocks

pytestmark = pytest.mark.programs


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    here, there = FetchLocks(tmp_path), FetchLocks(tmp_path)
    lock = here.try_lock(1, b"a")
    assert lock is not None
    assert here.try_lock(1, b"a") is None and there.try_lock(1, b"a") is None
    assert there.is_locked(1, b"a") and not there.is_locked(1, b"b") and not there.is_locked(2, b"a")
    other = there.try_lock(2, b"a")
    assert other is not None
    lock.release()
    lock.release()
    again = there.try_lock(1, b"a")
    assert again is not None and here.try_lock(1, b"a") is None
    there.close()
    assert here.try_lock(1, b"a") is not None and here.try_lock(2, b"a") is not None
    again.release()  # of locks that are closed
    here.close()


HOLDER = """
import sys
from pathlib import Path
from svc.store.caching import FetchLocks
lock = FetchLocks(Path(sys.argv[1])).try_lock(1, b"a")
print("locked" if lock is not None else "refused", flush=True)
sys.stdin.read()
"""


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    locks = FetchLocks(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        assert locks.try_lock(1, b"a") is None
        process.kill()
        process.wait()
        assert locks.try_lock(1, b"a") is not None
    locks.close()
