"""What a running server holds, seen from outside: sockets, files, threads, tasks, reader slots of its databases, memory. Linux only, by /proc."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import lmdb
import psutil

LIMIT = 120.0  # seconds for a server to release what a test made it hold; an idle connection may live for 30
THREADS_MAX = 24  # of helpers, which are made when they are first needed and stay; among them those of long statements in SQL, and one of pyarrow's memory
SLOTS_MAX = 8  # reader slots of a database that are kept for the next readers


@dataclass(frozen=True)
class Held:
    """`sockets` beside those that listen are connections; `files` are those that are open for a request, not databases and logs."""

    sockets: int
    files: Counter[str]
    threads: int
    tasks: int  # of its event loop
    slots: int  # of the database with the most
    readers: int  # slots with a snapshot, which keeps pages from being used again

    def exceeds(self, before: Held) -> bool:
        return (
            self.sockets > before.sockets
            or bool(self.files - before.files)
            or self.threads > max(before.threads, THREADS_MAX)
            or self.tasks > before.tasks
            or self.slots > max(before.slots, SLOTS_MAX)
            or self.readers > 0
        )


def held_by(pid: int, root: Path) -> Held:
    """Raises ProcessLookupError if there is no such process any more."""
    sockets = 0
    files: Counter[str] = Counter()
    for target in open_files(pid):
        if target.startswith("socket:"):
            sockets += 1
        elif _is_of_a_request(target, root):
            files[target] += 1
    try:
        threads = psutil.Process(pid).num_threads()
    except psutil.NoSuchProcess as error:
        raise ProcessLookupError(pid) from error
    tables = [list(_iter_slots(path, pid)) for path in sorted((root / "database").glob("*/data.mdb"))]
    return Held(
        sockets,
        files,
        threads,
        count_tasks(pid, task_file(root)),
        max((len(table) for table in tables), default=0),
        sum(snapshot != "-" for table in tables for snapshot in table),
    )


def task_file(root: Path) -> Path:
    """Where the process over this root directory writes the number of its tasks: see `observed/sitecustomize.py`."""
    return root.with_name(f"{root.name}-tasks")


def count_tasks(pid: int, path: Path) -> int:
    """The tasks of a process that was started with SVC_TEST_TASKS. Raises ProcessLookupError."""
    path.unlink(missing_ok=True)
    deadline = time.monotonic() + LIMIT
    pause = 0.0005
    while True:
        os.kill(pid, signal.SIGURG)
        time.sleep(pause)
        try:
            return int(path.read_text())
        except FileNotFoundError:  # it is about to start or to end, or has not come to it
            if not _is_alive(pid):
                raise ProcessLookupError(pid) from None
            assert time.monotonic() < deadline, "the server does not tell how many tasks it has"
        pause = min(2 * pause, 0.1)


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def open_files(pid: int) -> Iterator[str]:
    """What each descriptor of a process stands for. Raises ProcessLookupError."""
    folder = f"/proc/{pid}/fd"
    try:
        numbers = os.listdir(folder)
    except FileNotFoundError as error:
        raise ProcessLookupError(pid) from error
    for number in numbers:
        try:
            yield os.readlink(f"{folder}/{number}")
        except FileNotFoundError:
            continue  # closed meanwhile


def _is_of_a_request(target: str, root: Path) -> bool:
    if target.startswith(("anon_inode:", "/dev/")) or target.endswith("-output.txt"):
        return False
    path = Path(target)
    return path.parent != root and not any(path.is_relative_to(root / name) for name in ("database", "log"))


def _iter_slots(path: Path, pid: int) -> Iterator[str]:
    """The snapshot of each reader slot of the process, "-" if it is idle."""
    try:
        environment = lmdb.open(str(path.parent), readonly=True, create=False)
    except lmdb.Error:  # dropped meanwhile, or open in this process as well
        return
    try:
        for line in environment.readers().splitlines():
            fields = line.split()
            if fields[:1] == [str(pid)]:
                yield fields[2]
    finally:
        environment.close()


def wait_until_equal(pid: int, root: Path, before: Held) -> None:
    """Until the process holds no more than before. Raises AssertionError if it still does after LIMIT seconds."""
    deadline = time.monotonic() + LIMIT
    pause = 0.002
    while True:
        try:
            now = held_by(pid, root)
        except ProcessLookupError:
            return
        if not now.exceeds(before):
            return
        assert time.monotonic() < deadline, f"the server holds more than before: {now}, before: {before}"
        time.sleep(pause)
        pause = min(2 * pause, 0.1)


def memory_of(pid: int) -> int:
    """Bytes of memory that are the process's own: no pages of files."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon")
