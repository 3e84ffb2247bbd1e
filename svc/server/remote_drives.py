"""Directories that are on another machine: the operating system does not tell about changes there, and a database is not safe there."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

# fmt: off
REMOTE = frozenset((
    "9p", "afs", "ceph", "cifs", "davfs", "drvfs", "fakeowner", "fuse.glusterfs",
    "fuse.grpcfuse", "fuse.rclone", "fuse.sshfs", "fuse.vmhgfs-fuse", "glusterfs", "lustre", "ncpfs", "nfs",
    "nfs4", "osxfs", "prl_fs", "smb", "smb3", "smbfs", "vboxsf", "virtiofs",
    "webdav",
))
# fmt: on
"""File systems of networks, and those by which virtual machines and containers see the directories of their host."""


def remote_drive(directory: Path, mounts: Iterable[tuple[str, str]] | None = None) -> str | None:
    """The kind of file system of a directory, if it is one of REMOTE; else None. Reads the table of mounts, and nothing of the drive itself, which
    may not answer.

    `mounts`: (directory, kind) of each.

    >>> remote_drive(Path("/home/ana/shop"), [("/", "ext4"), ("/home/ana", "nfs4"), ("/home/anabel", "ext4")])
    'nfs4'
    """
    if mounts is None:
        import psutil

        try:
            mounts = [(each.mountpoint, each.fstype) for each in psutil.disk_partitions(all=True)]
        except (OSError, RuntimeError):
            return None
    path = str(directory)
    found, kind = "", ""
    for place, fstype in mounts:
        if (path == place or path.startswith(place.rstrip(os.sep) + os.sep)) and len(place) >= len(found):
            found, kind = place, fstype
    return kind if kind in REMOTE else None
