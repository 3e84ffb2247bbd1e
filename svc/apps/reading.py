"""Reading a file of an application that may be anything: of any size, or something that never ends."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_limited(path: Path, limit: int) -> bytes:
    """The content, up to `limit` + 1 bytes: more are too many. Raises OSError, or ValueError for what is no regular file, such as a pipe, which could
    keep its reader waiting."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is no regular file")
        return file.read(limit + 1)
