"""Code that holds the thread of a test: it is ended, wherever it is."""

from __future__ import annotations

import signal
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
