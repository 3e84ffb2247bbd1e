"""File systems of a node's own, which can become full while it runs. Only root can mount them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SIZE = 8 << 30  # bytes, of memory when they are used
PAGE = 4096


class Volume:
    """A tmpfs at `path`, until `close`. Raises OSError where none can be mounted."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        _run("mount", "-t", "tmpfs", "-o", f"size={SIZE}", "svc-fuzz", str(path))
        self._is_mounted = True

    def fill(self, room: int) -> None:
        """From now on it has only so many bytes more than are in use."""
        for _ in range(100):
            found = os.statvfs(self.path)
            used = (found.f_blocks - found.f_bfree) * found.f_frsize
            try:
                self._resize((used + room + PAGE - 1) // PAGE * PAGE)
            except OSError:  # more is in use by now
                continue
            return
        raise OSError(f"{self.path} cannot be made smaller")

    def empty(self) -> None:
        self._resize(SIZE)

    def close(self, *, keep: bool) -> None:
        """`keep`: what is in it is in a directory afterwards. Harmless when done."""
        if not self._is_mounted:
            return
        self._is_mounted = False
        path, kept = self.path, self.path.with_name(f"{self.path.name}.kept")
        if keep:
            self.empty()
            _run("cp", "-a", "--sparse=always", "--one-file-system", str(path), str(kept))
        _run("umount", "-l", str(path))
        if keep:
            path.rmdir()
            kept.rename(path)

    def _resize(self, size: int) -> None:
        _run("mount", "-o", f"remount,size={size}", str(self.path))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
