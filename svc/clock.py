"""The only module that reads the time of the operating system.

`Clock` is passed to all code that needs the time, so that tests can pass a `FakeClock`. Its three functions are the C functions themselves:
calling `clock.monotonic()` costs what `time.monotonic()` costs.
"""

import time
from collections.abc import Callable


class Clock:
    """`monotonic()` and `cpu()` in seconds from an arbitrary start, `wall()` in seconds since the epoch."""

    __slots__ = ("cpu", "monotonic", "wall")

    def __init__(self) -> None:
        self.monotonic: Callable[[], float] = time.perf_counter
        self.wall: Callable[[], float] = time.time
        self.cpu: Callable[[], float] = time.process_time


class FakeClock(Clock):
    """A clock that moves only by `advance()`: for tests."""

    __slots__ = ("_monotonic", "_wall")

    def __init__(self, wall: float = 1_767_225_600.0, monotonic: float = 1000.0) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self.wall = lambda: self._wall
        self.monotonic = lambda: self._monotonic
        self.cpu = lambda: self._monotonic

    def advance(self, seconds: float) -> None:
        self._wall += seconds
        self._monotonic += seconds


SYSTEM_CLOCK = Clock()
