"""The only module that reads the time of the operating system.

`Clock` is passed to all code that needs the time, so that tests can pass a `FakeClock`. Its three functions are the C functions themselves:
calling `clock.monotonic()` costs what `time.monotonic()` costs.
"""

import time
from collections.abc import Callable

AHEAD = 60.0  # seconds: a time that lies further in the future than this was taken from a clock that was wrong


def stamp_time(version: float, wall_ms: float) -> float:
    """The time to record for a write, ms: its version, unless versions are ahead because the clock once was."""
    return version if abs(version - wall_ms) <= AHEAD * 1000 else wall_ms


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

    def step(self, seconds: float) -> None:
        """Set the time of day forward, or back, as an administrator or NTP does: the monotonic clock goes on."""
        self._wall += seconds


class ClockSteps:
    """How far the time of day was set, seen between two calls of `take`."""

    __slots__ = ("_clock", "_monotonic", "_wall")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._monotonic, self._wall = clock.monotonic(), clock.wall()

    def take(self) -> float:
        """Seconds by which the clock went forward, or back, besides the time that has passed since the call before.

        The monotonic clock stands still while the machine sleeps: waking up is a step forward.
        """
        monotonic, wall = self._clock.monotonic(), self._clock.wall()
        step = (wall - self._wall) - (monotonic - self._monotonic)
        self._monotonic, self._wall = monotonic, wall
        return step


SYSTEM_CLOCK = Clock()
