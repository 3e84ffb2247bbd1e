"""A directory as Kubernetes mounts a ConfigMap or a Secret: its names are links through `..data`, which is exchanged as a whole (`AtomicWriter`)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def write_volume(directory: Path, files: dict[str, str]) -> str:
    """Put these files in the place of all before. Names may have directories, as `items` of a volume. Returns the directory that holds them."""
    directory.mkdir(parents=True, exist_ok=True)
    link = directory / "..data"
    before = os.readlink(link) if link.is_symlink() else ""
    held = f"..2026_01_05_10_00_{int(before[-2:] or 0) + 1:02}.{len(files)}{int(before[-2:] or 0) + 1:02}"
    for name, text in files.items():
        path = directory / held / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (directory / "..data_tmp").symlink_to(held)
    os.rename(directory / "..data_tmp", link)
    tops = {name.partition("/")[0] for name in files}
    for top in tops:
        if not (directory / top).is_symlink():
            (directory / top).symlink_to(f"..data/{top}")
    for path in directory.iterdir():
        if path.is_symlink() and path.name != "..data" and path.name not in tops:
            path.unlink()
    if before:
        shutil.rmtree(directory / before)
    return held
