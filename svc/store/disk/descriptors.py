"""The descriptors that this process has open."""

import os
from pathlib import Path


def open_descriptors() -> list[int]:
    """All; one of them, that of the directory they are read from, is closed by now. Empty if the system cannot tell."""
    for directory in ("/proc/self/fd", "/dev/fd"):
        try:
            return [int(name) for name in os.listdir(directory)]
        except OSError:
            pass
    return []


def keep_from_programs(path: Path) -> None:
    """Programs that this process starts do not get its descriptors of this file, which a library has opened."""
    wanted = path.stat()
    for number in open_descriptors():
        try:
            found = os.fstat(number)
            if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                os.set_inheritable(number, False)
        except OSError:
            pass
