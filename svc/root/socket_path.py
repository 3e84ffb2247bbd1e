"""The path of the Unix socket of the operations API (spec: configuration §2.3). Known to the server, which listens, and the command line."""

from __future__ import annotations

import os
import tempfile
from hashlib import blake2b
from pathlib import Path

MAX_SOCKET_PATH = 100  # bytes; systems take 104 to 108


def socket_path(configured: Path) -> Path:
    """The path to listen on and connect to: the configured one or, if that is too long for a socket, one in a private directory of the system's
    temporary area, the same each time for the same user and path."""
    if len(os.fsencode(configured)) <= MAX_SOCKET_PATH:
        return configured
    name = blake2b(os.fsencode(configured), digest_size=8).hexdigest()
    return Path(tempfile.gettempdir()) / f"svc-{os.getuid()}" / f"{name}.sock"


def make_private_directory(directory: Path) -> None:
    """Make the directory of such a path, mode 0700. Raises OSError if it belongs to another user or others have access."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(13, f"{directory} is not private", str(directory))
