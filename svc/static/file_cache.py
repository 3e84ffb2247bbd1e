"""What small files contain, as it is and compressed, within a budget of memory. What was used longest ago goes first.

An entry counts only for the version of the file that it was made of. A file that was changed in the last SETTLED_SECONDS is not kept: the clock of a file
system ticks slowly, so a second change right after it might leave no trace.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from svc.clock import SYSTEM_CLOCK, Clock
from svc.static.opening import OpenFiles, Version

MEMORY = 32 << 20  # bytes of all contents
OVERHEAD = 1024  # bytes that an entry counts besides its content
SETTLED_SECONDS = 2.0  # of the coarsest file systems
Key = tuple[int, str, str]
"""(number of the set, name, coding)"""


class FileCache:
    """Shared by the sets of an instance, as are the open files. `memory`: bytes."""

    def __init__(self, memory: int = MEMORY, clock: Clock = SYSTEM_CLOCK) -> None:
        self.open_files = OpenFiles()
        self.clock = clock
        self._memory = memory
        self._entries: OrderedDict[Key, tuple[Version, Any, int]] = OrderedDict()
        self._used = 0
        self._sets = 0

    @property
    def used(self) -> int:
        """Bytes."""
        return self._used

    def new_set(self) -> int:
        """The number of one more set."""
        self._sets += 1
        return self._sets

    def get(self, key: Key, version: Version) -> Any:
        """What was put for this version; None: nothing."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry[0] != version:
            self._remove(key)
            return None
        self._entries.move_to_end(key)
        return entry[1]

    def put(self, key: Key, version: Version, value: Any, size: int) -> None:
        """`size`: bytes of its content."""
        self._remove(key)
        size += OVERHEAD
        if size > self._memory or self.clock.wall() - version.changed_ns / 1e9 < SETTLED_SECONDS:
            return
        self._entries[key] = (version, value, size)
        self._used += size
        while self._used > self._memory:
            self._remove(next(iter(self._entries)))

    def _remove(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._used -= entry[2]

    def forget(self, number: int) -> None:
        """A set goes."""
        for key in [key for key in self._entries if key[0] == number]:
            self._remove(key)

    def __len__(self) -> int:
        return len(self._entries)
