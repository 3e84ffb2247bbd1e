"""Disk faults that need no help of the machine."""

import errno
import os
from pathlib import Path

import pytest

from svc.store.disk import space_reserve


def refuse_meta_pages(data_file: Path) -> None:
    """From now on LMDB cannot write the meta pages of this file, which this process has open, while all other writes succeed.

    It writes them over a descriptor of their own, opened with O_DSYNC, whose place a read-only one takes.
    """
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            is_it = os.path.samefile(f"/proc/self/fd/{name}", data_file)
        except OSError:
            continue
        if is_it and _flags(name) & os.O_DSYNC:
            replacement = os.open(data_file, os.O_RDONLY | os.O_CLOEXEC)
            os.dup2(replacement, int(name), inheritable=False)
            os.close(replacement)
            found += 1
    assert found == 1, f"{data_file} is open {found} times for its meta pages"


def _flags(descriptor: str) -> int:
    lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("flags:")), 8)


class Volume:
    """A volume with room for a number of bytes; files that are shortened give theirs back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = 1 << 40
        self._allocate = space_reserve._allocate
        monkeypatch.setattr(space_reserve, "_allocate", self.allocate)

    def allocate(self, path: Path, size: int, done: int = 0) -> None:
        more = size - (path.stat().st_blocks * 512 if path.exists() else 0)
        if more > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._allocate(path, size, done)
