"""How much harder what may go is removed when its volume becomes full (spec: schema-and-store §12; `storage.reclamation.*`).

Below `threshold`, a share of the volume, what is kept for a time is kept for a shorter one, divided by 1 + p² with p = threshold / free share: entries
of the log, rotated log files, and records that have expired and are kept for a while. Just below the threshold that is half the time, with a tenth
of the threshold left a hundredth, and next to nothing on a full volume. Records that have not expired are never touched, but for copies of what a source has
(`caching`): these go before they expire, the sooner the larger they are, the shorter they live and the less time they have left.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

from svc.clock import Clock

logger = logging.getLogger("svc.store")

_LEAST = 1e-6  # free share that an empty one counts as


@dataclass(frozen=True, slots=True)
class ReclamationSettings:
    """`threshold`: share of the volume, 0 never reclaims. `interval`: polling interval, seconds."""

    threshold: float = 0.0
    interval: float = 3600.0
    eviction_factor: float = 100_000.0


class Reclamation:
    """The pressure on one volume. `divisor`: what times are divided by, 1 without pressure."""

    __slots__ = ("_clock", "_next", "_path", "_settings", "divisor")

    def __init__(self, path: Path, settings: ReclamationSettings, clock: Clock) -> None:
        self._path = path
        self._settings = settings
        self._clock = clock
        self._next = 0.0  # monotonic
        self.divisor = 1.0

    def is_spare(self, left_ms: float, life_ms: float, size: int) -> bool:
        """Whether a copy of what a source has may go early. `left_ms`: until it goes anyway; `life_ms`: from its refresh to its expiry; `size`: bytes."""
        pressure = sqrt(self.divisor - 1.0)
        return left_ms * life_ms / size < pressure * self._settings.eviction_factor

    def poll(self, *, at_once: bool = False) -> None:
        """Look at the volume, if it is time to or `at_once`."""
        now = self._clock.monotonic()
        if self._settings.threshold <= 0 or (now < self._next and not at_once):
            return
        self._next = now + self._settings.interval
        try:
            volume = os.statvfs(self._path)
        except OSError as error:
            logger.error("the free space of the databases' volume cannot be read: %s", error)
            return
        free = volume.f_bavail / max(volume.f_blocks, 1)
        before, self.divisor = self.divisor, divisor(free, self._settings.threshold)
        if self.divisor > 1 and before == 1:
            logger.warning(
                "%.0f %% of the volume of the databases is free, less than storage.reclamation.threshold: log entries, rotated logs "
                "and expired records are kept for 1/%.0f of the time",
                free * 100,
                self.divisor,
            )


def divisor(free: float, threshold: float) -> float:
    """What times are divided by when this share of the volume is free.

    >>> divisor(0.5, 0.4), divisor(0.4, 0.4), divisor(0.04, 0.4)
    (1.0, 1.0, 101.0)
    """
    return 1.0 if free >= threshold else 1.0 + (threshold / max(free, _LEAST)) ** 2
