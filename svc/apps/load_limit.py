"""A module that never ends loading (spec: configuration §9.2)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

LOAD_SECONDS = 30.0
AGAIN = (
    1.0 + 1 / 64
)  # seconds after which it is raised once more, where a bare `except:` has kept it; a timer of this interval was set here


class LoadTimeout(BaseException):
    """No Exception: `except Exception` in a module must not keep it."""


@contextmanager
def load_limit(seconds: float = LOAD_SECONDS) -> Iterator[None]:
    """Raise LoadTimeout in the block when it takes longer, also while it sleeps, until it ends. Without effect on another thread than the main one,
    where no signals arrive.

    It takes the timer of the watch of slow turns (`server.slow_turns`) for the time of the block. Code that sets a handler of SIGALRM of its own keeps it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def expire(number: int, frame: FrameType | None) -> None:
        raise LoadTimeout(f"it has not ended loading within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, expire)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        remaining, repeated = signal.getitimer(signal.ITIMER_REAL)
        is_own = repeated == AGAIN
        if is_own:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if signal.getsignal(signal.SIGALRM) is expire:
            signal.signal(signal.SIGALRM, before if before is not None else signal.SIG_DFL)
            if (left or interval) and (is_own or not remaining):
                signal.setitimer(signal.ITIMER_REAL, left or interval, interval)
