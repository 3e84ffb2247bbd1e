"""What one of the processes over a data directory does for all of them: the one that holds the lock of that subject (flock(2))."""

from __future__ import annotations

import os
from collections.abc import Callable
from fcntl import LOCK_EX, LOCK_NB, flock
from hashlib import blake2b
from pathlib import Path
from typing import Protocol


class Lead(Protocol):
    """Whether this process leads a subject, or waits for its turn to."""

    @property
    def is_held(self) -> bool: ...
    def close(self) -> None:
        """It neither leads nor waits any more. Harmless when done."""


class LeadAlone:
    """Of a process that has no siblings."""

    def __init__(self) -> None:
        self.is_held = True

    def close(self) -> None:
        self.is_held = False


def lead_alone(subject: str, on_lead: Callable[[], None], on_resign: Callable[[], None] = lambda: None) -> Lead:
    """`Siblings.lead` where there are none."""
    return LeadAlone()


class Leadership:
    """A subject. `on_lead` is called when `retry` has taken it, `on_resign` before `resign` gives it up."""

    def __init__(self, directory: Path, subject: str, on_lead: Callable[[], None], on_resign: Callable[[], None]) -> None:
        self.subject = subject
        self.on_lead = on_lead
        self.on_resign = on_resign
        self.on_close: Callable[[Leadership], None] = lambda leadership: None
        self._path = directory / f"{blake2b(subject.encode(), digest_size=8).hexdigest()}.lead"
        self._descriptor = -1

    @property
    def is_held(self) -> bool:
        return self._descriptor >= 0

    def take(self) -> bool:
        """Whether this process leads from now on, and did not before. Never waits. Raises OSError."""
        if self._descriptor >= 0:
            return False
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            flock(descriptor, LOCK_EX | LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return False
            raise
        self._descriptor = descriptor
        return True

    def give_up(self) -> None:
        """Harmless when done."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def close(self) -> None:
        self.give_up()
        self.on_close(self)
