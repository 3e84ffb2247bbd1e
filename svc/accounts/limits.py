"""How often something is done for a network or an address in an hour (spec: rows §2.4).

A limit of n an hour admits n at once and one more each n-th of an hour (the generic cell rate algorithm). What counts is kept as one time for each key, the
moment at which its allowance is whole again, and forgotten then. The table is bounded: with more than MAX_KEYS the one that was used least recently goes.
"""

from __future__ import annotations

from collections.abc import Callable

HOUR = 3600.0
MAX_KEYS = 10_000


class HourlyLimit:
    """`most`: in an hour. `now`: a clock in seconds that never goes back."""

    __slots__ = ("_now", "_whole_at", "most")

    def __init__(self, most: int, now: Callable[[], float]) -> None:
        self.most = most
        self._now = now
        self._whole_at: dict[str, float] = {}  # in the order of the last use

    def wait(self, key: str) -> float:
        """Seconds until the key may be counted once more; 0: now."""
        return max(0.0, self._whole_at.get(key, 0.0) + HOUR / self.most - HOUR - self._now())

    def count(self, key: str) -> None:
        """It has been done once."""
        now = self._now()
        whole_at = max(self._whole_at.pop(key, 0.0), now)
        while len(self._whole_at) >= MAX_KEYS:
            del self._whole_at[next(iter(self._whole_at))]
        self._whole_at[key] = min(whole_at + HOUR / self.most, now + HOUR)

    def admit(self, key: str) -> bool:
        """Count it, if it may be done."""
        if self.wait(key) > 0:
            return False
        self.count(key)
        return True

    def __len__(self) -> int:
        return len(self._whole_at)
