"""What the operating system knows of this process and its volume, for `/metrics`. Takes up to milliseconds with very many descriptors: not for the loop."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from math import inf

import psutil

from svc.analytics import process


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """`cpu`: seconds of user and system time. `started`: seconds since 1970. `memory`: see `process.memory`. `volume`: see `process.volume`; None: it
    cannot be read. Other sizes in bytes."""

    cpu: float
    started: float
    memory: dict[str, int]
    virtual: int
    open_files: int
    max_files: float
    volume: dict[str, int] | None


def measure(path: str | os.PathLike[str], array_buffers: int) -> ProcessFigures:
    """The figures now. `path`: on the volume; `array_buffers`: see `process.memory`."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    found = psutil.Process()
    try:
        volume = process.volume(path)
    except OSError:
        volume = None
    return ProcessFigures(
        cpu=usage.ru_utime + usage.ru_stime,
        started=found.create_time(),
        memory=process.memory(array_buffers),
        virtual=found.memory_info().vms,
        open_files=found.num_fds(),
        max_files=inf if limit == resource.RLIM_INFINITY else limit,
        volume=volume,
    )
