"""What one statement may take where SQLite cannot interrupt it: in functions of ours (spec: sql §8)."""

from __future__ import annotations

from collections.abc import Callable

from svc.clock import Clock
from svc.errors import QueryTooLarge
from svc.query.budget import too_large

_SHORT = 10_000  # bytes of a document that need not be weighed
_SECONDS = 1e-7  # for a byte of one that is taken apart
_GROWTH = 10  # times as large as its text is what it is made of


class WorkMeter:
    """Of one connection; `begin` is called for each statement.

    SQLite counts its own memory and looks at the clock between its steps. What functions hold until their statement ends is counted here, and what may
    take long in one call asks here before, or while, it does: on the loop, where a statement has 2 ms, as well as on a thread.
    `now_ms`: the time of the statement, ms since the epoch, which all its calls agree in. `held`: bytes. `max_length`: bytes of one value, as SQLite has it.
    """

    __slots__ = ("_clock", "_deadline", "_late", "_max_bytes", "held", "max_length", "now_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.max_length = 1_000_000_000
        self.begin(int(clock.wall() * 1000), 10.0, 64 << 20)

    def begin(self, now_ms: int, seconds: float, max_bytes: int, late: Callable[[], Exception] | None = None) -> None:
        """A statement begins. `late` gives what is raised when the time is over; by default the answer that it was too much."""
        self.now_ms = now_ms
        self.held = 0
        self._max_bytes = max_bytes
        self.resume(seconds, late)

    def resume(self, seconds: float, late: Callable[[], Exception] | None = None) -> None:
        """The statement goes on, and has so much time from now on."""
        self._deadline = self._clock.monotonic() + seconds
        self._late = late or (lambda: out_of_time(seconds))

    def extend(self, seconds: float) -> None:
        """The statement has waited for so long, which does not count."""
        self._deadline += seconds

    def remaining(self) -> float:
        """Seconds, at least 0."""
        return max(0.0, self._deadline - self._clock.monotonic())

    def check_time(self) -> None:
        self.expect(0.0)

    def expect(self, seconds: float) -> None:
        """Raises unless there is time for what takes this long, and cannot be interrupted."""
        if self._clock.monotonic() + seconds > self._deadline:
            raise self._late()

    def hold(self, size: int) -> None:
        """Count bytes that are kept; a negative number releases them. Raises QueryTooLarge."""
        self.held += size
        if self.held > self._max_bytes:
            raise out_of_memory(self._max_bytes)

    def check_length(self, size: int) -> None:
        """Raises QueryTooLarge for a value that would be longer than one may be."""
        if size > self.max_length:
            raise too_large(f"makes a value of more than {self.max_length} bytes", "sql.maxMemory", "bytes")

    def admit(self, size: int) -> None:
        """Before a text or a payload of so many bytes is taken apart. Raises unless there is time and memory for that."""
        if size > _SHORT:
            self.expect(size * _SECONDS)
            self.hold(size * _GROWTH)
            self.hold(-size * _GROWTH)


def out_of_time(seconds: float) -> QueryTooLarge:
    return too_large(f"takes longer than {seconds:g} s", "sql.maxTime", "seconds")


def out_of_memory(size: int) -> QueryTooLarge:
    return too_large(f"has to hold more than {size} bytes at one time", "sql.maxMemory", "bytes")
