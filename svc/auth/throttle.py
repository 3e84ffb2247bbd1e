"""Delays of repeated failed logins (spec: security §10)."""

from __future__ import annotations

import secrets
from hashlib import blake2b

from svc.clock import Clock

FREE_FAILURES = 5
FIRST_DELAY = 0.1  # seconds; doubles with each further failure
LONGEST_DELAY = 5.0
FORGOTTEN_AFTER = 900.0  # seconds since the last failure
MAX_ENTRIES = 10_000  # the oldest goes first; each costs its maker a password hash, so flushing them takes minutes


class FailureDelays:
    """Failures per user name and network (`fair_slots.network_of`: one client may have all addresses of an IPv6 network).

    Names are kept as keyed hashes: of one size, and useless to a reader of the memory.
    """

    __slots__ = ("_failures", "_key", "_now")

    def __init__(self, clock: Clock) -> None:
        self._now = clock.monotonic
        self._key = secrets.token_bytes(16)
        self._failures: dict[bytes, tuple[int, float]] = {}  # in order of the last failure

    def key(self, username: str, network: str) -> bytes:
        return blake2b(f"{username}\0{network}".encode(), key=self._key, digest_size=16).digest()

    def delay(self, key: bytes) -> float:
        """Seconds to wait before the next attempt is checked; mostly 0."""
        found = self._failures.get(key)
        if found is None:
            return 0.0
        failures, last = found
        if self._now() - last >= FORGOTTEN_AFTER:
            del self._failures[key]
            return 0.0
        if failures < FREE_FAILURES:
            return 0.0
        return float(min(LONGEST_DELAY, FIRST_DELAY * 2 ** min(failures - FREE_FAILURES, 16)))

    def failed(self, key: bytes) -> None:
        failures, _ = self._failures.pop(key, (0, 0.0))
        if len(self._failures) >= MAX_ENTRIES:
            del self._failures[next(iter(self._failures))]
        self._failures[key] = (failures + 1, self._now())

    def succeeded(self, key: bytes) -> bool:
        """Returns whether there were failures before."""
        return self._failures.pop(key, None) is not None

    def __len__(self) -> int:
        return len(self._failures)
