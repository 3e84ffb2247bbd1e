"""svc.server.watching: the thread that tells about changed files."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from svc.server.watching import FileWatcher

LIMIT = 30.0  # seconds; a test that fails ends


class Told:
    """What a watcher has said, as it says it."""

    def __init__(self, **options: Any) -> None:
        self.changes: list[set[str] | None] = []
        self.faults: list[str] = []
        self._more = threading.Condition()
        self.watcher = FileWatcher(self._on_changes, self._on_fault, pause=0.002, **options)

    def _on_changes(self, paths: set[str] | None) -> None:
        with self._more:
            self.changes.append(paths)
            self._more.notify_all()

    def _on_fault(self, text: str) -> None:
        with self._more:
            self.faults.append(text)
            self._more.notify_all()

    def wait_for(self, path: Path) -> None:
        with self._more:
            assert self._more.wait_for(lambda: any(str(path) in (paths or ()) for paths in self.changes), LIMIT), self.changes

    def wait_until(self, count: int) -> None:
        """Until it has begun this often."""
        with self._more:
            assert self._more.wait_for(lambda: self.changes.count(None) >= count, LIMIT), (self.changes, self.faults)

    def end(self) -> None:
        self.watcher.stop()
        self.watcher.join()
        assert not any(thread.name == "watch" for thread in threading.enumerate())


def test_changes_are_told(tmp_path: Path) -> None:
    told = Told()
    told.watcher.watch([str(tmp_path)])
    told.wait_until(1)
    (tmp_path / "a.py").write_text("1")
    told.wait_for(tmp_path / "a.py")
    (tmp_path / "b.py").write_text("1")
    (tmp_path / "b.py").rename(tmp_path / "c.py")
    told.wait_for(tmp_path / "c.py")
    (tmp_path / "below").mkdir()
    told.wait_for(tmp_path / "below")
    told.watcher.watch([str(tmp_path), str(tmp_path / "below")])
    told.wait_until(2)
    (tmp_path / "below" / "d.py").write_text("1")
    told.wait_for(tmp_path / "below" / "d.py")
    told.end()


def test_the_same_by_looking(tmp_path: Path) -> None:
    told = Told()
    told.watcher.watch([str(tmp_path)], polls=True)
    told.wait_until(1)
    (tmp_path / "a.py").write_text("1")
    told.wait_for(tmp_path / "a.py")
    told.end()


def test_a_directory_that_has_gone_is_waited_for(tmp_path: Path) -> None:
    told = Told()
    told.watcher.watch([str(tmp_path / "gone")])
    told.wait_until(1)
    (tmp_path / "gone").mkdir()
    told.watcher.watch([str(tmp_path / "gone")])
    (tmp_path / "gone" / "a.py").write_text("1")
    told.wait_until(2)
    told.end()


def test_a_limit_of_the_system_makes_it_look_and_says_so() -> None:
    calls: list[dict[str, Any]] = []

    def watch(*directories: str, **options: Any) -> Iterator[set[tuple[Any, str]]]:
        calls.append(options)
        if not options["force_polling"]:
            raise OSError(28, "OS file watch limit reached.")
        while not options["stop_event"].wait(0.001):
            yield set()

    told = Told(watch=watch)
    told.watcher.watch(["/shop"])
    told.wait_until(1)
    told.end()
    assert [bool(options["force_polling"]) for options in calls] == [False, True]
    assert len(told.faults) == 1 and "limit reached" in told.faults[0] and "fs.inotify.max_user_watches" in told.faults[0]


def test_it_ends_when_nothing_works_and_says_so() -> None:
    def watch(*directories: str, **options: Any) -> Iterator[set[tuple[Any, str]]]:
        raise RuntimeError("no way")

    told = Told(watch=watch)
    told.watcher.watch(["/shop"])
    told.watcher._thread.join(LIMIT)  # type: ignore[union-attr]
    assert [("not noticed any more" in fault, "no way" in fault) for fault in told.faults] == [(False, True), (True, True)]
    told.end()
