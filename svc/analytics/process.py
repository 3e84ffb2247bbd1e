"""Figures of this process, from the operating system (spec: analytics §6.1, §7)."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from collections.abc import Callable
from typing import Any

_KIB = 1024


class _Mallinfo2(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    ]


def _allocator_figures() -> Callable[[], _Mallinfo2] | None:
    """glibc's `mallinfo2` (2.33 and later); None where the function does not exist."""
    try:
        function = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):
        return None
    function.restype = _Mallinfo2
    function.argtypes = []
    return function


_mallinfo2 = _allocator_figures()


def memory(array_buffers: int = 0) -> dict[str, int]:
    """`rss`, `heapTotal`, `heapUsed`, `external`, `arrayBuffers` in bytes. `array_buffers`: what the server accounts for itself.

    heapUsed <= heapTotal <= rss, arrayBuffers <= external. About 0.1 ms.
    """
    rss, private, shared = _resident()
    free = _mallinfo2().fordblks if _mallinfo2 is not None else 0
    return {
        "rss": rss,
        "heapTotal": private,
        "heapUsed": max(0, private - free),
        "external": shared + array_buffers,
        "arrayBuffers": array_buffers,
    }


def _resident() -> tuple[int, int, int]:
    """Resident bytes: all, private anonymous, the rest (files and shared)."""
    if sys.platform != "linux":
        import psutil

        info = psutil.Process().memory_full_info()
        private = min(info.uss, info.rss)
        return info.rss, private, info.rss - private
    found: dict[bytes, int] = {}
    with open("/proc/self/status", "rb") as file:
        for line in file:
            name, _, value = line.partition(b":")
            if name in (b"VmRSS", b"RssAnon", b"RssFile", b"RssShmem"):
                found[name] = int(value.split()[0]) * _KIB
    rss = found.get(b"VmRSS", 0)
    return rss, min(found.get(b"RssAnon", rss), rss), found.get(b"RssFile", 0) + found.get(b"RssShmem", 0)


# field -> attribute of getrusage(): those reported as they are, and those reported since the last row
_ABSOLUTE = {"maxRSS": "ru_maxrss", "sharedMemorySize": "ru_ixrss", "unsharedDataSize": "ru_idrss", "unsharedStackSize": "ru_isrss"}
_SINCE_LAST = {
    "minorPageFault": "ru_minflt", "majorPageFault": "ru_majflt", "swappedOut": "ru_nswap", "fsRead": "ru_inblock", "fsWrite": "ru_oublock",
    "ipcSent": "ru_msgsnd", "ipcReceived": "ru_msgrcv", "signalsCount": "ru_nsignals", "voluntaryContextSwitches": "ru_nvcsw",
    "involuntaryContextSwitches": "ru_nivcsw",
}  # fmt: skip


class ResourceUsage:
    """The fields of `resource-usage` rows: what the process used since the row before."""

    def __init__(self) -> None:
        self._last = resource.getrusage(resource.RUSAGE_SELF)

    def fields(self, period_ms: float) -> dict[str, Any]:
        """The fields for a row about the last `period_ms`; the next call begins here."""
        last, self._last = self._last, resource.getrusage(resource.RUSAGE_SELF)
        now = self._last
        user_ms = (now.ru_utime - last.ru_utime) * 1000
        system_ms = (now.ru_stime - last.ru_stime) * 1000
        found: dict[str, Any] = {"userCPUTime": user_ms, "systemCPUTime": system_ms}
        for name, attribute in _ABSOLUTE.items():
            found[name] = getattr(now, attribute)
        if sys.platform == "darwin":
            found["maxRSS"] //= _KIB  # bytes there, KiB elsewhere
        for name, attribute in _SINCE_LAST.items():
            found[name] = getattr(now, attribute) - getattr(last, attribute)
        found["cpuUtilization"] = round((user_ms + system_ms) / period_ms, 2) if period_ms > 0 else 0.0
        return found


def volume(path: str | os.PathLike[str]) -> dict[str, int]:
    """`available` (to unprivileged users), `free` and `size` of the volume that holds `path`, in bytes."""
    found = os.statvfs(path)
    return {"available": found.f_bavail * found.f_frsize, "free": found.f_bfree * found.f_frsize, "size": found.f_blocks * found.f_frsize}
