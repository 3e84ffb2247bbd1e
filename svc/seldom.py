"""What would be logged again and again is logged once a minute, or once a second."""

from __future__ import annotations

from collections.abc import Callable, Hashable

MINUTE = 60.0
SECOND = 1.0
MAX_KEYS = 1000


class Seldom:
    """Keys of lines, and when each was written last."""

    def __init__(self, now: Callable[[], float], seconds: float = MINUTE) -> None:
        self._now = now
        self._seconds = seconds  # between two lines of one key
        self._written: dict[Hashable, tuple[float, int]] = {}  # when; how many were left out since. In the order of the times

    def count(self, key: Hashable) -> int | None:
        """How many there are since the last line, with this one, if one is to be written now; None if not yet."""
        now = self._now()
        written = self._written
        at, left_out = written.get(key, (now - self._seconds, 0))
        if now - at < self._seconds:
            written[key] = (at, left_out + 1)
            return None
        if key not in written and len(written) >= MAX_KEYS and not self._forget(now):
            return None
        written.pop(key, None)
        written[key] = (now, 0)
        return left_out + 1

    def _forget(self, now: float) -> bool:
        """Forget what was written so long ago that the next line is due. Returns whether there is room for one more."""
        for key, (at, _) in list(self._written.items()):
            if now - at < self._seconds:
                break
            del self._written[key]
        return len(self._written) < MAX_KEYS
