"""Counts events, and returns the counts of each second (spec: analytics §2).

Recording is on every request's path, so it only appends to a list or adds to a counter. Closing a period only takes away what it holds; putting
together, sorting and all arithmetic are steps of `Period.iter_entries`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from svc.analytics.statistics import LABELS, Key, iter_numeric_entry, labels, whole, yes_no_entry
from svc.loop import contained
from svc.store.values.records import encode

MAX_GROUPS = 10_000  # per period (spec: analytics §2)
_METRICS_OF_A_REQUEST = 4
_MERGED_AT_ONCE = 100  # groups: about 0.1 ms

RESPONSE = "response_"
"""What the metric that counts the answers of one status begins with; the status follows (spec: analytics §3)."""

OPERATION_METHOD = "operation"
"""The recorded method of operations (spec: analytics §3)."""

# Anything else a client calls a method is one group: the number of groups is not for clients to choose.
_METHODS = frozenset(("GET", "HEAD", "PUT", "PATCH", "POST", "DELETE", "QUERY", "OPTIONS", "COPY", "MOVE", OPERATION_METHOD))
UNKNOWN = "unknown"
"""The recorded name of what does not exist: operations, methods."""

TRANSFER_TYPE = "operation"
"""The type of `transfer` of a resource (spec: analytics §3)."""

FRAMEWORK_ROUTE = "framework-route"
"""The type of all metrics of a request that a framework route of an application has answered (spec: analytics §3)."""

SHED = "requests-shed"
"""The metric of requests that are refused under overload (spec: analytics §3)."""

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

    def take(self) -> YesNo:
        """What was counted; from now on it counts from 0."""
        taken = YesNo()
        taken.total, taken.count = self.total, self.count
        self.total = self.count = 0
        return taken


class RequestGroup:
    """The figures of the requests to one resource by one method. Their number is that of all durations."""

    __slots__ = ("durations", "of_caches", "sizes", "statuses", "successes", "transfers")

    def __init__(self) -> None:
        self.durations: list[float] = []
        self.of_caches: dict[str, list[float]] | None = None  # by type, of answers of a caching table: these are not among the others
        self.sizes: list[float] = []
        self.transfers: list[float] = []
        self.statuses: dict[int, int] = {}  # status -> number of answers
        self.successes = 0


Requests = dict[tuple[str, str], RequestGroup]  # by path, "": no resource took them, and method
Merged = tuple[Iterable[tuple[Key, list[float]]], Iterable[tuple[Key, YesNo]]]


class Period:
    """The recorded values between two calls of `Recorder.close`. `numbers` and `flags` (yes, count) are complete when `iter_entries` has ended."""

    __slots__ = ("_others", "_requests", "_routes", "fields", "flags", "given", "numbers")

    def __init__(self, requests: Requests, routes: Requests, others: list[Merged], fields: list[tuple[Key, Fields]]) -> None:
        """`others`: groups besides those of requests; their lists and counters are the period's own."""
        self.numbers: dict[Key, list[float]] = {}
        self.flags: dict[Key, tuple[int, int]] = {}
        self.fields = fields
        self.given: list[dict[str, Any]] = []  # the entries of which functions gave the fields; complete at the same time
        self._requests = requests
        self._routes = routes
        self._others = others

    def iter_entries(self) -> Iterator[dict[str, Any] | None]:
        """The entries of the raw row, in short steps; None: a step without one. Once only."""
        yield from self._iter_merge()
        for key, values in self.numbers.items():
            yield (yield from iter_numeric_entry(key, values))
        for key, (total, count) in self.flags.items():
            yield yes_no_entry(key, total, count)
        for key, function in self.fields:
            try:
                found = function()
                entry = None if found is None else _entry_of(key, found)
            except BaseException as error:
                _log.error("the function that measures %s failed", key[0], exc_info=contained(error))
                continue
            if entry is not None:
                self.given.append(entry)
            yield entry

    def iter_release(self) -> Iterator[None]:
        """Forget everything: to free very many groups in one go takes milliseconds."""
        self._others.clear()
        for groups in (self._requests, self._routes, self.numbers, self.flags):
            while groups:
                groups.popitem()
                if len(groups) % _MERGED_AT_ONCE == 0:
                    yield

    def _iter_merge(self) -> Iterator[None]:
        """Put the groups of all sources together: applications may record into those of requests."""
        numbers, flags = self.numbers, self.flags
        for requests, kind in ((self._requests, None), (self._routes, FRAMEWORK_ROUTE)):
            for index, ((address, method), group) in enumerate(requests.items()):
                self._add_requests(address or None, method, group, kind)
                if index % (_MERGED_AT_ONCE // _METRICS_OF_A_REQUEST) == 0:
                    yield
        for lists, counters in self._others:
            for index, (key, values) in enumerate(lists):
                mixed = numbers.get(key)
                numbers[key] = values if mixed is None else mixed + values
                if index % _MERGED_AT_ONCE == 0:
                    yield
            for index, (key, flag) in enumerate(counters):
                total, count = flags.get(key, (0, 0))
                flags[key] = (total + flag.total, count + flag.count)
                if index % _MERGED_AT_ONCE == 0:
                    yield

    def _add_requests(self, path: str | None, method: str, group: RequestGroup, kind: str | None) -> None:
        """`kind`: type of the metrics."""
        numbers, flags = self.numbers, self.flags
        count = len(group.durations)
        if count:
            numbers["duration", path, method, kind] = group.durations
        for type, durations in (group.of_caches or {}).items():
            numbers["duration", path, method, type] = durations
            count += len(durations)
        flags["success", path, method, kind] = (group.successes, count)
        for status, answers in group.statuses.items():
            flags[f"{RESPONSE}{status}", path, method, kind] = (answers, answers)
        if group.sizes:
            numbers["bytes-sent", path, method, kind] = group.sizes
            # Of resources it has a type, though their other metrics have none; of operations it has none: analytics §3.
            transfer_kind = kind or (None if method == OPERATION_METHOD else TRANSFER_TYPE)
            numbers["transfer", path, method, transfer_kind] = group.transfers


def _entry_of(key: Key, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The labels are those under which the function was recorded. Raises an exception for values that cannot be stored."""
    entry = labels(key)
    for name, value in fields.items():
        if isinstance(name, str) and name not in LABELS:
            entry[name] = whole(value)
    encode(entry, 0.0, 0, None)
    return entry


class Recorder:
    """The buckets of one instance."""

    def __init__(self) -> None:
        self._numbers: dict[Key, list[float]] = {}
        self._flags: dict[Key, YesNo] = {}
        self._requests: Requests = {}
        self._routes: Requests = {}  # of framework routes
        self._statuses = 0  # groups of those of requests
        self._fields: dict[Key, Fields] = {}  # of this period
        self._gauges: dict[Key, Fields] = {}
        # These have handles and are never forgotten: a handle is bound to the list or counter itself.
        self._held_numbers: dict[Key, list[float]] = {}
        self._held_flags: dict[Key, YesNo] = {}
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
        self, path: str, method: str, duration_ms: float, status: int, body_bytes: int, transfer_ms: float, type: str | None = None
    ) -> None:
        """One HTTP request: `duration`, `success`, `response_<status>`, and for a body `bytes-sent` and `transfer`. `path` "": no resource took it.
        `type`: of the duration, or FRAMEWORK_ROUTE."""
        groups = self._requests
        if type is not None and type == FRAMEWORK_ROUTE:
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
        if status < 400:
            group.successes += 1
        try:
            group.statuses[status] += 1
        except KeyError:
            self._add_status(group, status)
        if body_bytes:
            group.sizes.append(body_bytes)
            group.transfers.append(transfer_ms)

    def request_bucket(self, path: str, method: str) -> Callable[[float, int, int, float], None]:
        """A handle that records requests of one group as `request_done` does (duration in ms, status, bytes of the body, transfer in ms), for half its price.
        Valid for ever."""
        requests: Requests | None = None  # those that the group is of
        group = RequestGroup()
        add_duration, add_size, add_transfer = group.durations.append, group.sizes.append, group.transfers.append

        def done(duration_ms: float, status: int, body_bytes: int, transfer_ms: float) -> None:
            nonlocal requests, group, add_duration, add_size, add_transfer
            if requests is not self._requests:
                found = self._requests.get((path, method)) or self._new_request_group(self._requests, path, method)
                if found is None:
                    return
                requests, group = self._requests, found
                add_duration, add_size, add_transfer = group.durations.append, group.sizes.append, group.transfers.append
            add_duration(duration_ms)
            if status < 400:
                group.successes += 1
            try:
                group.statuses[status] += 1
            except KeyError:
                self._add_status(group, status)
            if body_bytes:
                add_size(body_bytes)
                add_transfer(transfer_ms)

        return done

    def bucket(self, metric: str, path: str | None = None, method: str | None = None, type: str | None = None) -> Callable[[float], None]:
        """A handle that records numbers of one group for the price of a list's append. Valid for ever."""
        key = (metric, path, method, type)
        return self._held_numbers.setdefault(key, []).append

    def yes_no(self, metric: str, path: str | None = None, method: str | None = None, type: str | None = None) -> Callable[[bool], None]:
        """As `record`, for yes/no values."""
        key = (metric, path, method, type)
        return self._held_flags.setdefault(key, YesNo()).add

    def gauge(self, function: Fields, metric: str, path: str | None = None, method: str | None = None, type: str | None = None) -> None:
        """Ask `function` for the fields of an entry whenever a raw row is written; None = no entry this time."""
        self._gauges[metric, path, method, type] = function

    # --- closing -------------------------------------------------------------------------------------------------------------------

    def close(self) -> Period | None:
        """Return the recorded period and reset; None if nothing was recorded. Gauges alone do not count. O(number of handles)."""
        if self._dropped:
            _log.warning("more than %d groups of analytics in one period: %d events were not counted", MAX_GROUPS, self._dropped)
            self._dropped = 0
        held_numbers = [(key, values[:]) for key, values in self._held_numbers.items() if values]
        held_flags = [(key, flag.take()) for key, flag in self._held_flags.items() if flag.count]
        for key, _ in held_numbers:
            self._held_numbers[key].clear()
        requests, routes, numbers, flags, fields = self._requests, self._routes, self._numbers, self._flags, self._fields
        if not (requests or routes or numbers or flags or fields or held_numbers or held_flags):
            return None
        self._requests, self._routes, self._numbers, self._flags, self._fields = {}, {}, {}, {}, {}
        self._statuses = 0
        others: list[Merged] = [(held_numbers, held_flags), (numbers.items(), flags.items())]
        return Period(requests, routes, others, [*fields.items(), *self._gauges.items()])

    def _new_request_group(self, groups: dict[tuple[str, str], RequestGroup], path: str, method: str) -> RequestGroup | None:
        if method not in _METHODS:
            method = UNKNOWN
            known = groups.get((path, method))
            if known is not None:
                return known
        if self._is_full():
            return None
        group = groups[path, method] = RequestGroup()
        return group

    def _add_status(self, group: RequestGroup, status: int) -> None:
        """The first answer with it in this group and period."""
        if not self._is_full():
            self._statuses += 1
            group.statuses[status] = 1

    def _is_full(self) -> bool:
        """Whether there is no room for another group; then the event counts as dropped."""
        of_requests = _METRICS_OF_A_REQUEST * (len(self._requests) + len(self._routes)) + self._statuses
        groups = len(self._numbers) + len(self._flags) + len(self._fields) + of_requests
        if groups < MAX_GROUPS:
            return False
        self._dropped += 1
        return True


class IdleRecorder(Recorder):
    """Takes everything and keeps nothing: analytics is switched off."""

    def record(self, value: Any, metric: str, path: str | None = None, method: str | None = None, type: str | None = None) -> None:
        pass

    def request_done(
        self, path: str, method: str, duration_ms: float, status: int, body_bytes: int, transfer_ms: float, type: str | None = None
    ) -> None:
        pass

    def request_bucket(self, path: str, method: str) -> Callable[[float, int, int, float], None]:
        return lambda duration_ms, status, body_bytes, transfer_ms: None

    def bucket(self, metric: str, path: str | None = None, method: str | None = None, type: str | None = None) -> Callable[[float], None]:
        return _forget

    def yes_no(self, metric: str, path: str | None = None, method: str | None = None, type: str | None = None) -> Callable[[bool], None]:
        return _forget


def _forget(value: float) -> None:
    pass
