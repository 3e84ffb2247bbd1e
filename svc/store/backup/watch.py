"""Progress and cancellation of copying files: a `Watch` is called with what is done, and can be stopped from another thread."""

from __future__ import annotations

from collections.abc import Callable

from svc.store.disk.database_copy import CopyStopped

__all__ = ["CopyStopped", "Watch"]


class Watch:
    """`report(done, total)` is called on the thread that works, with bytes. `stop()` may be called on any thread."""

    def __init__(self, report: Callable[[int, int], None] = lambda done, total: None) -> None:
        self._report = report
        self.is_stopped = False
        self.done = 0
        self.total = 0

    def stop(self) -> None:
        self.is_stopped = True

    def add(self, size: int) -> None:
        """Some bytes are done. Raises CopyStopped."""
        self.done += size
        self.total = max(self.total, self.done)
        self._report(self.done, self.total)
        self.check()

    def check(self) -> None:
        if self.is_stopped:
            raise CopyStopped
