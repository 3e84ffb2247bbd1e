"""Whether the time of day can be trusted to decide what is old (spec: analytics §2.2)."""

from __future__ import annotations

from svc.clock import Clock, ClockSteps

STEP = 60.0  # seconds: a smaller step of the clock makes no row look old
SETTLING = 3600.0  # seconds for which nothing is removed after a step: time to set the clock right again
LONG_AGO = 30 * 86400.0  # seconds: at the start, a newest row that is older than this looks like a wrong clock


class ClockWatch:
    """Compares the clock with the monotonic one, which stands still while the machine sleeps: that is a step as well."""

    def __init__(self, clock: Clock, newest_ms: float | None) -> None:
        """`newest_ms`: time of the newest row, None: there are no rows."""
        self._clock = clock
        self._steps = ClockSteps(clock)
        age = 0.0 if newest_ms is None else clock.wall() - newest_ms / 1000
        self._trusted_from = clock.monotonic() + (0.0 if -STEP <= age <= LONG_AGO else SETTLING)

    def is_settled(self) -> bool:
        """Whether there was no step for SETTLING. Sees those since the call before."""
        monotonic = self._clock.monotonic()
        if abs(self._steps.take()) > STEP:
            self._trusted_from = monotonic + SETTLING
        return monotonic >= self._trusted_from
