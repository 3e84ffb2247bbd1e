"""How the kernel caches a data file: as single pages.

A file that is read with readahead, or written in large pieces, is cached as large folios, and on ext4 each later write of a page looks at all pages of
its folio. With folios of 1 MiB a PUT takes one and a half times as long, a DELETE twice. Nothing is done where the system takes no advice (macOS).
"""

import os
from pathlib import Path

CAN_ADVISE = hasattr(os, "posix_fadvise")


def forget_cached(path: Path) -> None:
    """Take a file that is on the disk, and not open, out of the page cache: it is cached again as it is read. Raises OSError."""
    if CAN_ADVISE:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def cache_single_pages(descriptor: int) -> None:
    """Have what is read through this descriptor cached page by page, however large the pieces are: without readahead."""
    if CAN_ADVISE:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
