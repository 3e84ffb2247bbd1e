"""A hook of servers (SVC_TEST_HOOK): the time of day is ahead by so many seconds as the file SVC_TEST_SKEW says, a C double, at any time."""

import mmap
import os
import struct
import time

from svc import clock

assert __name__ == "<run_path>", "a test that imports it would change its own process"

with open(os.environ["SVC_TEST_SKEW"], "rb") as file:
    _SKEW = memoryview(mmap.mmap(file.fileno(), struct.calcsize("d"), access=mmap.ACCESS_READ)).cast("d")


def _wall() -> float:
    return time.time() + _SKEW[0]


def _begin(self: clock.Clock) -> None:
    self.monotonic, self.wall, self.cpu = time.perf_counter, _wall, time.process_time


clock.Clock.__init__ = _begin  # type: ignore[method-assign]
_begin(clock.SYSTEM_CLOCK)  # which is there already in a fork of a process that has imported svc
