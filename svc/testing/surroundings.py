"""What an application that is tested shares with the rest of the process: environment variables and `sys.path`, logging, and the loop, which it may hold up."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from svc.clock import SYSTEM_CLOCK

SOON = 0.001  # seconds: a timer of another program that has run out meanwhile


class HeldLoop(BaseException):
    """Raised in the code. No Exception: the code must not keep it."""


@contextmanager
def end_what_holds(seconds: float, progress: Callable[[], int], on_held: Callable[[FrameType | None], None]) -> Iterator[None]:
    """Raise HeldLoop in the code that runs, once `progress()` has not changed for `seconds`, after `on_held` was called with its frame.

    In the main thread only: signals arrive nowhere else. The timer and the handler that were there before are there afterwards.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen = progress()

    def look(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        if progress() == seen:
            on_held(frame)
            raise HeldLoop(f"it has held the event loop for {seconds:g} s")
        seen = progress()

    before = signal.signal(signal.SIGALRM, look)
    began = SYSTEM_CLOCK.monotonic()
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before if before is not None else signal.SIG_DFL)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (SYSTEM_CLOCK.monotonic() - began), SOON), interval)


def shown_stack(frame: FrameType | None, directory: Path) -> str:
    """The frames from the first one on whose file is in `directory`."""
    stack = traceback.extract_stack(frame)
    own = next((number for number, each in enumerate(stack) if Path(each.filename).is_relative_to(directory)), len(stack) - 1)
    return "".join(traceback.format_list(stack[own:])).rstrip()


_SHARED = logging.getLogger("svc")
_users: list[StandardLogging] = []
_before: tuple[list[logging.Handler], int] = ([], logging.NOTSET)


class StandardLogging:
    """To be made before the server takes the logger over."""

    def __init__(self) -> None:
        global _before
        if not _users:
            _before = _SHARED.handlers[:], _SHARED.level
        _users.append(self)
        self._handlers: list[logging.Handler] | None = None

    def keep(self) -> None:
        """The server has taken it over: this is how it is to be while its application runs."""
        self._handlers = _SHARED.handlers[:]

    def use(self) -> None:
        """Its application runs now."""
        if self._handlers is not None:
            _SHARED.handlers[:] = self._handlers

    def end(self) -> None:
        _users.remove(self)
        if not _users:
            _SHARED.handlers[:], level = _before
            _SHARED.setLevel(level)


OF_PYTEST = "PYTEST_CURRENT_TEST"  # a variable that it changes itself

_open: list[Surroundings] = []
"""Of the applications that run, the latest last."""


class Surroundings:
    """To be made before an application begins."""

    def __init__(self) -> None:
        self._environment = dict(os.environ)
        self._path = list(sys.path)
        _open.append(self)

    def restore(self) -> None:
        """The application has ended. While another runs that began later, everything stays: at its end it is as this one has found it."""
        place = _open.index(self)
        del _open[place]
        if place < len(_open):
            _open[place]._environment, _open[place]._path = self._environment, self._path
            return
        for name in os.environ.keys() | self._environment.keys():
            if name != OF_PYTEST and os.environ.get(name) != self._environment.get(name):
                if name in self._environment:
                    os.environ[name] = self._environment[name]
                else:
                    del os.environ[name]
        sys.path[:] = self._path
