"""A hook of servers (SVC_TEST_HOOK): the time of day is ahead by SVC_TEST_SKEW seconds."""

import os
import time

from svc import clock

assert __name__ == "<run_path>", "a test that imports it would change its own process"

_SKEW = float(os.environ["SVC_TEST_SKEW"])


def _wall() -> float:
    return time.time() + _SKEW


def _begin(self: clock.Clock) -> None:
    self.monotonic, self.wall, self.cpu = time.perf_counter, _wall, time.process_time


clock.Clock.__init__ = _begin  # type: ignore[method-assign]
