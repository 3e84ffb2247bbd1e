"""The keys of records that come without one, where keys are strings: UUIDs of version 7 (RFC 9562 §5.7).

    48 bits   ms since the epoch
     4 bits   version, 7
    12 bits   1/4096 of a millisecond (RFC 9562 §6.2, method 3)
     2 bits   variant
    62 bits   random

Keys that grow are cheap to store: a record comes behind the last one, on a page that is full when the next one is begun, where random keys change another page
for each record. Each key of a process is greater than the one before, as a number and as a string: where the clock has not moved, or has been
set back, the time counts on from the last key. A key tells when its record was made, and has half the randomness of a random UUID: what has to stay secret
(sessions, tokens, jobs) does not come from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import getpid, urandom
from struct import Struct as Layout

from svc.clock import Clock

_TICKS = 4096 * 1000  # in a second
_READ_AHEAD = 4096  # bytes from the system's source: a call for each key costs more than everything else about it
_RANDOM_BITS = (1 << 62) - 1
_VARIANT = 1 << 63
_NUMBER = Layout("Q")


class TimeOrderedUuids:
    """UUIDs that grow, as strings."""

    __slots__ = ("_clock", "_last", "_pid", "_random")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = 0  # ticks since the epoch
        self._random: Iterator[tuple[int]] = iter(())
        self._pid = 0  # the process that has read `_random`: a forked one must not go on with the same numbers

    def new(self) -> str:
        """
        >>> from uuid import UUID; from svc.clock import SYSTEM_CLOCK
        >>> found = UUID(TimeOrderedUuids(SYSTEM_CLOCK).new()); found.version, found.variant
        (7, 'specified in RFC 4122')
        """
        ticks = int(self._clock.wall() * _TICKS)
        if ticks <= self._last:
            ticks = self._last + 1
        self._last = ticks
        found = next(self._random, None)
        if found is None or self._pid != getpid():
            self._random, self._pid = _NUMBER.iter_unpack(urandom(_READ_AHEAD)), getpid()
            found = next(self._random)
        time, rest = f"{ticks:015x}", f"{found[0] & _RANDOM_BITS | _VARIANT:016x}"
        return f"{time[:8]}-{time[8:12]}-7{time[12:]}-{rest[:4]}-{rest[4:]}"
