"""What only one of the processes over a data directory does at a time, and what they decide once for all of them."""

from __future__ import annotations

import os
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, flock
from hashlib import blake2b
from pathlib import Path

_DECISION = ".decision"


class SubjectLock:
    """A lock that this process holds, alone or with others (flock(2)). It is released when the process ends, however it does."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Harmless when done."""
        if self._descriptor >= 0:
            flock(self._descriptor, LOCK_UN)  # a child that was forked meanwhile has the descriptor, too
            os.close(self._descriptor)
            self._descriptor = -1


def maybe_lock(directory: Path, subject: str, *, shared: bool) -> SubjectLock | None:
    """None: it is held by another process, or elsewhere in this one. Never waits. Raises OSError."""
    path = directory / f"{blake2b(subject.encode(), digest_size=8).hexdigest()}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        flock(descriptor, (LOCK_SH if shared else LOCK_EX) | LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return SubjectLock(descriptor)


class Decision:
    """What several processes may decide, and all abide by: the first that does decides. It lies in a symbolic link, which is made once, with its content."""

    def __init__(self, directory: Path, name: str) -> None:
        self._path = directory / f"{name}{_DECISION}"

    def decide(self, value: str) -> str:
        """What is decided: the value, or what another process has decided before. Raises OSError."""
        with suppress(FileExistsError):
            os.symlink(value, self._path)
            return value
        return os.readlink(self._path)

    def maybe_read(self) -> str | None:
        """None: nothing is decided yet."""
        with suppress(FileNotFoundError):
            return os.readlink(self._path)
        return None

    def remove_others(self) -> None:
        """Remove former decisions, which nobody waits for any more."""
        for path in self._path.parent.glob(f"*{_DECISION}"):
            if path != self._path:
                path.unlink(missing_ok=True)
