"""Counts events, and returns the counts of each second (spec: analytics §2).

Recording is on every request's path, so it only appends to a list or adds to a counter; all arithmetic is done when the period is closed, and
there in slices. Groups that were not used in a period are forgotten, except those someone holds a handle of.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from svc.analytics.statistics import Key, labels, numeric_entry, whole, yes_no_entry

MAX_GROUPS = 10_000  # per period (spec: analytics §2)
_METRICS_OF_A_REQUEST = 4

OPERATION_METHOD = "operation"
"""The recorded method of operations (spec: analytics §3)."""

# Anything else a client calls a method is one group: the number of groups is not for clients to choose.
_METHODS = frozenset(("GET", "HEAD", "PUT", "PATCH", "POST", "DELETE", "QUERY", "OPTIONS", "COPY", "MOVE", OPERATION_METHOD))
UNKNOWN_METHOD = "unknown"

FRAMEWORK_ROUTE = "framework-route"
"""The type of all metrics of a request that a framework route of an application has answered (spec: analytics §3)."""

_log = logging.getLogger("svc.analytics")

Fields = Callable[[], Mapping[str, Any] | None]


class YesNo:
    """Counts how often the answer was yes."""

    __slots__ = ("count", "total")

    def __init__(self) -> None:
        self.total = 0
        self.count = 0

    def add(self, yes: bool) -> None:
        self.count += 1
        if yes:
            self.total += 1


class RequestGroup:
    """The figures of the requests to one resource by one method. Their number is that of all durations."""

    __slots__ = ("durations", "of_caches", "sizes", "successes", "transfers")

    def __init__(self) -> None:
        self.durations: list[float] = []
        self.of_caches: dict[str, list[float]] | None = None  # by type, of answers of a caching table: these are not among the others
        self.sizes: list[float] = []
        self.transfers: list[float] = []
        self.successes = 0


class Period:
    """The recorded values between two calls of `Recorder.close`."""

    __slots__ = ("fields", "flags", "numbers")

    def __init__(self, numbers: dict[Key, list[float]], flags: dict[Key, tuple[int, int]], fields: list[tuple[Key, Fields]]) -> None:
        self.numbers = numbers
        self.flags = flags
        self.fields = fields

    def iter_entries(self) -> Iterator[dict[str, Any]]:
        """The entries of the raw row. Each step is short, but for groups of very many values, which have to be sorted."""
        for key, values in self.numbers.items():
            entry = numeric_entry(key, values)
            if entry is not None:
                yield entry
        for key, (total, count) in self.flags.items():
            yield yes_no_entry(key, total, count)
        for key, function in self.fields:
            try:
                found = function()
            except Exception:
                _log.exception("the function that measures %s failed", key[0])
                continue
            if found is not None:
                yield {**labels(key), **{name: whole(value) for name, value in found.items()}}


class Recorder:
    """The buckets of one instance."""

    def __init__(self) -> None:
        self._numbers: dict[Key, list[float]] = {}
        self._flags: dict[Key, YesNo] = {}
        self._requests: dict[tuple[str, str], RequestGroup] = {}
        self._routes: dict[tuple[str, str], RequestGroup] = {}  # of framework routes
        self._fields: dict[Key, Fields] = {}  # of this period
        self._gauges: dict[Key, Fields] = {}
        self._held: set[Key] = set()  # someone has a handle
        self._dropped = 0

    # --- recording -----------------------------------------------------------------------------------------------------------------

    def record(self, value: Any, metric: str, path: str | None = None, method: str | None = None, type: str | None = None) -> None:
        """Count one event. Number: statistics; boolean: yes/no; function: called when the period closes, returns the entry's fields.

        Raises TypeError for anything else. Groups beyond the limit are dropped.
        """
        kind = value.__class__
        key = (metric, path, method, type)
        if kind is float or kind is int:
            numbers = self._numbers.get(key)
            if numbers is None:
                if self._is_full():
                    return
                numbers = self._numbers[key] = []
            numbers.append(value)
        elif kind is bool:
            flags = self._flags.get(key)
            if flags is None:
                if self._is_full():
                    return
                flags = self._flags[key] = YesNo()
            flags.add(value)
        elif isinstance(value, (int, float)):
            self.record(float(value), metric, path, method, type)
        elif callable(value):
            if key in self._fields or not self._is_full():
                self._fields[key] = value
        else:
            raise TypeError(f"a {kind.__name__} cannot be recorded: give a number, a boolean or a function")

    def request_done(
        self, path: str, method: str, duration_ms: float, success: bool, body_bytes: int, transfer_ms: float, type: str | None = None
    ) -> None:
        """One HTTP request: `duration`, `success`, and for a body `bytes-sent` and `transfer`. `path` "": no resource took it. `type`: of the duration,
        or FRAMEWORK_ROUTE."""
        groups = self._requests
        if type == FRAMEWORK_ROUTE:
            groups, type = self._routes, None
        group = groups.get((path, method))
        if group is None:
            group = self._new_request_group(groups, path, method)
            if group is None:
                return
        if type is None:
            group.durations.append(duration_ms)
        else:
            if group.of_caches is None:
                group.of_caches = {}
            group.of_caches.setdefault(type, []).append(duration_ms)
        if success:
            group.successes += 1
        if body_bytes:
            group.sizes.append(body_bytes)
            group.transfers.append(transfer_ms)

    def bucket(self, metric: str, path: str | None = None, method: str | None = None, type: str | None = None) -> Callable[[float], None]:
        """A handle that records numbers of one group for the price of a list's append. Valid for ever."""
        key = (metric, path, method, type)
        self._held.add(key)
        return self._numbers.setdefault(key, []).append

    def yes_no(self, metric: str, path: str | None = None, method: str | None = None, type: str | None = None) -> Callable[[bool], None]:
        """As `record`, for yes/no values."""
        key = (metric, path, method, type)
        self._held.add(key)
        return self._flags.setdefault(key, YesNo()).add

    def gauge(self, function: Fields, metric: str, path: str | None = None, method: str | None = None, type: str | None = None) -> None:
        """Ask `function` for the fields of an entry whenever a raw row is written; None = no entry this time."""
        self._gauges[metric, path, method, type] = function

    # --- closing -------------------------------------------------------------------------------------------------------------------

    def close(self) -> Period | None:
        """Return the recorded period and reset; None if nothing was recorded. Gauges alone do not count."""
        numbers: dict[Key, list[float]] = {}
        flags: dict[Key, tuple[int, int]] = {}
        requests, self._requests, routes, self._routes = self._requests, {}, self._routes, {}
        # `transfer` is the one metric of a request that has a type: analytics §3.
        self._take_requests(requests, numbers, flags, None, "operation")
        self._take_requests(routes, numbers, flags, FRAMEWORK_ROUTE, FRAMEWORK_ROUTE)
        idle: list[Key] = []
        for key, values in self._numbers.items():
            if values:
                # Copied, because handles are bound to the list itself.
                mixed = numbers.get(key)
                numbers[key] = values[:] if mixed is None else mixed + values
                values.clear()
            elif key not in self._held:
                idle.append(key)
        for key in idle:
            del self._numbers[key]
        idle.clear()
        for key, flag in self._flags.items():
            if flag.count:
                total, count = flags.get(key, (0, 0))
                flags[key] = (total + flag.total, count + flag.count)
                flag.total = flag.count = 0
            elif key not in self._held:
                idle.append(key)
        for key in idle:
            del self._flags[key]
        fields, self._fields = self._fields, {}
        if self._dropped:
            _log.warning("more than %d groups of analytics in one period: %d events were not counted", MAX_GROUPS, self._dropped)
            self._dropped = 0
        if not numbers and not flags and not fields:
            return None
        return Period(numbers, flags, [*fields.items(), *self._gauges.items()])

    def _take_requests(
        self,
        requests: Mapping[tuple[str, str], RequestGroup],
        numbers: dict[Key, list[float]],
        flags: dict[Key, tuple[int, int]],
        kind: str | None,
        kind_of_transfer: str,
    ) -> None:
        """`kind`: type of the metrics."""
        for (address, method), group in requests.items():
            path = address or None
            count = len(group.durations)
            if count:
                numbers["duration", path, method, kind] = group.durations
            for type, durations in (group.of_caches or {}).items():
                numbers["duration", path, method, type] = durations
                count += len(durations)
            flags["success", path, method, kind] = (group.successes, count)
            if group.sizes:
                numbers["bytes-sent", path, method, kind] = group.sizes
                numbers["transfer", path, method, kind_of_transfer] = group.transfers

    def _new_request_group(self, groups: dict[tuple[str, str], RequestGroup], path: str, method: str) -> RequestGroup | None:
        if method not in _METHODS:
            method = UNKNOWN_METHOD
            known = groups.get((path, method))
            if known is not None:
                return known
        if self._is_full():
            return None
        group = groups[path, method] = RequestGroup()
        return group

    def _is_full(self) -> bool:
        """Whether there is no room for another group; then the event counts as dropped."""
        groups = (
            len(self._numbers) + len(self._flags) + len(self._fields) + _METRICS_OF_A_REQUEST * (len(self._requests) + len(self._routes))
        )
        if groups < MAX_GROUPS:
            return False
        self._dropped += 1
        return True


class IdleRecorder(Recorder):
    """Takes everything and keeps nothing: analytics is switched off."""

    def record(self, value: Any, metric: str, path: str | None = None, method: str | None = None, type: str | None = None) -> None:
        pass

    def request_done(
        self, path: str, method: str, duration_ms: float, success: bool, body_bytes: int, transfer_ms: float, type: str | None = None
    ) -> None:
        pass

    def bucket(self, metric: str, path: str | None = None, method: str | None = None, type: str | None = None) -> Callable[[float], None]:
        return _forget

    def yes_no(self, metric: str, path: str | None = None, method: str | None = None, type: str | None = None) -> Callable[[bool], None]:
        return _forget


def _forget(value: float) -> None:
    pass
