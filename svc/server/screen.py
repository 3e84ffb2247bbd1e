"""What is told to a terminal that shows what an instance does: `cli.dev_screen`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from svc.apps import App
from svc.connection import Exchange
from svc.server.reloading import Reload


class Screen(Protocol):
    """Nothing of it may raise, or wait."""

    def entry(self, level: int, thread: str, tags: tuple[str, ...], text: str) -> None:
        """A log entry that would be printed."""

    def loaded(self, apps: Sequence[App], seconds: float) -> None:
        """The applications have been loaded for the first time."""

    def reloaded(self, reload: Reload) -> None: ...

    def request(self, exchange: Exchange, now: float) -> None:
        """A request of an application port is over, at this time of the monotonic clock."""

    def defect(self, where: str, error: BaseException) -> None:
        """An exception of code of an application, or of svc. `where`: what it was doing."""
