"""Copying files so that they are on the disk, and known by a hash."""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from svc.store.backup.watch import Watch

PIECE = 1 << 20  # bytes


def write_file(path: Path, pieces: Iterable[bytes], watch: Watch) -> tuple[int, str]:
    """Make a file of these pieces, durable; returns (size, SHA-256 in hexadecimal). Raises OSError; then it is gone."""
    size, digest = 0, sha256()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb", buffering=0) as file:
            for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    rest = rest[file.write(rest) :]
                digest.update(piece)
                size += len(piece)
                watch.add(len(piece))
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return size, digest.hexdigest()


def read_pieces(path: Path) -> Iterable[bytes]:
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(PIECE):
            yield piece


def copy_file(source: Path, target: Path, watch: Watch) -> tuple[int, str]:
    """`write_file` of another file, with its time of modification, by which it is known again."""
    pieces = read_pieces(source)
    changed = source.stat().st_mtime_ns
    written = write_file(target, pieces, watch)
    os.utime(target, ns=(changed, changed))
    return written


def hash_file(path: Path, watch: Watch) -> str:
    digest = sha256()
    for piece in read_pieces(path):
        digest.update(piece)
        watch.add(len(piece))
    return digest.hexdigest()


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_levels(lowest: Iterable[Path]) -> None:
    """Put the names in the directories of blobs on the disk, and those of the two levels above."""
    for directory in {level for path in lowest for level in (path, path.parent, path.parent.parent)}:
        sync_directory(directory)


def make_directory(path: Path) -> None:
    """With those above it, and their names on the disk. A directory that exists is taken as it is."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        directory.mkdir(mode=0o700, exist_ok=True)
        sync_directory(directory.parent)
