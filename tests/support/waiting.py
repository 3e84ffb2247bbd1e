"""Waiting for what a running server does in its own time: log lines, files, metrics, what it shows on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LIMIT = 120.0  # seconds, also on a machine that is busy: only a test that fails waits so long
PAUSE = 0.01  # seconds between two looks


def wait_until(reached: Callable[[], T], what: object = "", *, pause: float = PAUSE) -> T:
    """What `reached` returns, as soon as that is true. Fails with `what`, or with what it returns then if it is a function."""
    deadline = time.monotonic() + LIMIT
    while not (found := reached()):
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(pause)
    return found
