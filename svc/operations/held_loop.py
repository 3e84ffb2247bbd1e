"""What has held the loop for too long, by place: for the log, the metrics and `get_status` (spec: operations §9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from svc.clock import Clock
from svc.logs import Logs
from svc.logs.application_code import Place
from svc.seldom import Seldom

METRIC = "held-loop"
APPLICATION, SERVICE = "application", "service"  # types of the metric: whose code it was
MAX_HANDLERS = 100  # shown; the one that was seen longest ago makes room

_ADVICE = "give work that blocks or computes to svc.run_in_thread, or await between its parts"


@dataclass(slots=True)
class _Handler:
    place: Place
    count: int = 0
    longest_ms: float = 0.0
    last_ms: float = 0.0
    last_time: int = 0


class HeldLoop:
    """`record(value, metric, path, method, type)`: counts a metric."""

    def __init__(self, logs: Logs, clock: Clock, record: Callable[..., None]) -> None:
        self._logs = logs
        self._clock = clock
        self._record = record
        self._seldom = Seldom(clock.monotonic)
        self._handlers: dict[tuple[str, str, str], _Handler] = {}  # in the order of the last time
        self._applications = 0
        self._service = 0

    def note_handler(self, place: Place, seconds: float) -> None:
        """An application's code has held the loop."""
        ms = seconds * 1000
        self._applications += 1
        self._record(ms, METRIC, place.application, place.function, APPLICATION)
        key = (place.application, place.file, place.function)
        handler = self._handlers.pop(key, None) or _Handler(place)
        self._handlers[key] = handler
        if len(self._handlers) > MAX_HANDLERS:
            del self._handlers[next(iter(self._handlers))]
        handler.place = place
        handler.count += 1
        handler.last_ms = ms
        handler.longest_ms = max(handler.longest_ms, ms)
        handler.last_time = int(self._clock.wall() * 1000)
        count = self._seldom.count(key)
        if count is not None:
            times = f", {count} times since this was last logged" if count > 1 else ""
            log = self._logs.get_logger(place.application, section=place.application)
            text = f"{place} held the loop for {ms:.0f} ms{times}: {_ADVICE}"
            log.warn(text)

    def note_stuck(self, place: Place, seconds: float) -> None:
        """An application's code holds the loop, and still does. Called in the middle of it: the line is on the disk when this returns."""
        text = f"{place} has held the loop for {seconds:.0f} s and still does: nobody is served meanwhile"
        self._logs.get_logger(place.application, section=place.application).error(text)
        self._logs.flush()

    def note_service(self, place: str, seconds: float) -> None:
        """Code of ours, or of a library, has held the loop. `place`: what was running."""
        ms = seconds * 1000
        self._service += 1
        self._record(ms, METRIC, None, None, SERVICE)
        log = self._logs.logger
        if log.is_enabled("debug") and self._seldom.count(place) is not None:
            text = f"{place} held the loop for {ms:.0f} ms"
            log.debug(text)

    def status(self) -> dict[str, Any] | None:
        """As `get_status` shows it: the worst handler first; None if nothing has held the loop."""
        if not (self._applications or self._service):
            return None
        handlers = sorted(self._handlers.values(), key=lambda handler: -handler.longest_ms)
        return {
            "applications": self._applications,
            "service": self._service,
            "handlers": [
                {
                    "application": each.place.application,
                    "function": each.place.function,
                    "file": each.place.file,
                    "line": each.place.line,
                    "count": each.count,
                    "longestMs": round(each.longest_ms, 1),
                    "lastMs": round(each.last_ms, 1),
                    "lastTime": each.last_time,
                }
                for each in handlers
            ],
        }
