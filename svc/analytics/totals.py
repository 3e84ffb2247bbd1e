"""What has been recorded since the process began, for `/metrics` (spec: analytics §10).

Each period that the recorder closes is added here once, in short steps, so recording costs no more than before and an idle server nothing. The number of
label sets is limited; what comes beyond the limit counts under one label set of its metric, whose labels are all `other`, and a new metric is not
counted. Names and labels of applications are made valid: two that become the same name do not become one metric.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Final, Generic, TypeVar
from zlib import crc32

from svc.analytics.exposed import CUSTOM_PREFIX, LAG, NUMBERS, OPEN_CONNECTIONS, RESPONSES, YES_NO, ExposedMetric
from svc.analytics.exposition import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    SUMMARY,
    Counter,
    Family,
    Gauge,
    Histogram,
    Series,
    Summary,
    YesNoCounters,
    encodable,
    finite,
    label_text,
    sum_of,
    valid_name,
)
from svc.analytics.recorder import Period
from svc.analytics.statistics import Key

MAX_LABEL_SETS: Final = 2000
OTHER: Final = "other"

_VALUES_AT_ONCE = 2000  # counted in one step: about 0.3 ms
_FLAGS_AT_ONCE = 10  # new label sets: about 0.2 ms
_NAME_LENGTH = 120  # of the part of a custom name that applications choose
_SUFFIXES = ("", "_total", "_created", "_count", "_sum", "_bucket", "_info")  # of samples: no family may be called like one of another
_LABELS = ("metric", "path", "method", "type")
_HELP_LENGTH = 300
_STATUS = re.compile(r"response_([1-5][0-9]{2})")

_log = logging.getLogger("svc.analytics")

_Kept = TypeVar("_Kept", bound=Series)


class Room:
    """How many label sets there may still be."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.taken = 0
        self.overflow = 0  # values that found no room

    def take(self, values: int) -> bool:
        """Whether there may be another label set; if not, so many values have none of their own."""
        if self.taken < self._most:
            self.taken += 1
            return True
        if not self.overflow:
            text = "more than %d label sets of metrics: what comes beyond counts as '%s' (operationsApi.metrics.maxLabelSets)"
            _log.warning(text, self._most, OTHER)
        self.overflow += values
        return False


class Names:
    """The names of the metrics of applications."""

    def __init__(self) -> None:
        self._samples: set[str] = set()

    def new(self, metric: str, kind: str) -> str:
        """A valid name for a family that none of its samples shares with another family.

        >>> names = Names()
        >>> names.new("pricing-time", SUMMARY), names.new("pricing_time", SUMMARY)
        ('svc_custom_pricing_time', 'svc_custom_pricing_time_ad22761b')
        """
        name = valid_name(metric)[:_NAME_LENGTH]
        if kind == COUNTER:
            name = name.removesuffix("_total")
        name = free = CUSTOM_PREFIX + (name.strip("_") or "metric")
        number = crc32(encodable(f"{kind} {metric}").encode())
        while not self._samples.isdisjoint([free + suffix for suffix in _SUFFIXES]):
            free = f"{name}_{number:08x}"
            number = (number + 1) % (1 << 32)
        self._samples.update([free + suffix for suffix in _SUFFIXES])
        return free


class _Metric(Generic[_Kept]):
    """One family."""

    __slots__ = ("exposed", "sets")

    def __init__(self, exposed: ExposedMetric) -> None:
        self.exposed = exposed
        self.sets: dict[str, _Kept] = {}  # by their labels as text

    def family(self) -> Family:
        exposed = self.exposed
        return Family(exposed.name, exposed.kind, exposed.help, list(self.sets.values()), exposed.unit)


class _Kind(Generic[_Kept]):
    """The metrics of one kind of values. `own`: ours, by recorded name. `custom`: kind of the families of all others."""

    def __init__(
        self, room: Room, names: Names, own: Mapping[str, ExposedMetric], custom: str, make: Callable[[ExposedMetric, str], _Kept]
    ) -> None:
        self._room = room
        self._names = names
        self._own = own
        self._custom = custom
        self._make = make
        self._metrics: dict[str, _Metric[_Kept]] = {}  # by recorded name

    def find(self, name: str, given: Sequence[str | None], values: int) -> tuple[ExposedMetric, _Kept] | None:
        """The label set that counts so many values of the metric with this recorded name; None: none does. `given`: values of the labels."""
        metric = self._metrics.get(name)
        has_room = None
        if metric is None:
            exposed = self._own.get(name)
            if exposed is None:
                has_room = self._room.take(values)
                if not has_room:
                    return None
                help = f"Recorded by applications as {name:.{_HELP_LENGTH}}."
                exposed = ExposedMetric(self._names.new(name, self._custom), self._custom, help, ("path", "method", "type"), yes="value")
            metric = self._metrics[name] = _Metric(exposed)
        exposed = metric.exposed
        labels = label_text([(label, value) for label, value in zip(exposed.labels, given, strict=True) if label])
        found = metric.sets.get(labels)
        if found is None:
            if has_room is None and not self._room.take(values):
                labels = label_text([(label, OTHER) for label in exposed.labels if label])
                found = metric.sets.get(labels)
            if found is None:
                found = metric.sets[labels] = self._make(exposed, labels)
        return exposed, found

    def families(self) -> Iterator[Family]:
        return (metric.family() for metric in list(self._metrics.values()))  # a period that is added meanwhile may bring others


class Totals:
    """`wall()`: seconds since 1970. `max_label_sets`: over all metrics."""

    def __init__(self, wall: Callable[[], float], max_label_sets: int = MAX_LABEL_SETS) -> None:
        room, names = Room(max_label_sets), Names()
        self._room = room
        self._began = wall()
        self._numbers = _Kind(room, names, NUMBERS, SUMMARY, lambda exposed, labels: _new_numbers(exposed.kind, labels, wall()))
        self._flags = _Kind(room, names, YES_NO, COUNTER, lambda exposed, labels: YesNoCounters(labels, exposed.yes, wall()))
        self._responses = _Kind(room, names, RESPONSES, COUNTER, lambda exposed, labels: Counter(labels, wall()))
        self._gauges = _Kind(room, names, {}, GAUGE, lambda exposed, labels: Gauge(labels, 0))
        self._open = {metric: Gauge("", 0) for metric in OPEN_CONNECTIONS}

    def iter_add(self, period: Period) -> Iterator[None]:
        """Add a period whose entries have been made, in short steps."""
        for key, values in period.numbers.items():
            for start in range(0, len(values), _VALUES_AT_ONCE):
                self._add_numbers(key, values[start : start + _VALUES_AT_ONCE])
                yield
        for index, (key, (total, count)) in enumerate(period.flags.items()):
            self._add_flags(key, total, count)
            if index % _FLAGS_AT_ONCE == 0:
                yield
        open_now = dict.fromkeys(self._open, 0)
        for entry in period.given:
            metric = entry["metric"]
            if metric in open_now and isinstance(entry.get("connections"), int):
                open_now[metric] = entry["connections"]
            elif metric != LAG:
                yield from self._iter_set(entry)
        for metric, count in open_now.items():
            self._open[metric].value = count

    def _add_numbers(self, key: Key, values: Sequence[float]) -> None:
        found = self._numbers.find(key[0], key[1:], len(values))
        if found is None:
            return
        exposed, series = found
        if isinstance(series, Counter):
            values = finite(values)
            series.value += sum_of(values if min(values, default=0) >= 0 else [value for value in values if value > 0]) * exposed.scale
        else:
            series.add(values, exposed.scale)

    def _add_flags(self, key: Key, total: int, count: int) -> None:
        status = _STATUS.fullmatch(key[0])
        if status is not None:
            answers = self._responses.find("response", (*key[1:], status[1]), count)
            if answers is not None:
                answers[1].value += total
            return
        found = self._flags.find(key[0], key[1:], count)
        if found is not None:
            found[1].add(total, count)

    def _iter_set(self, entry: Mapping[str, Any]) -> Iterator[None]:
        """Each number of an entry that a function of an application has given is a gauge."""
        metric, *given = [entry.get(name) for name in _LABELS]
        for field, value in entry.items():
            is_number = isinstance(value, (int, float)) and isfinite(sum_of([value]))
            if not is_number or field in _LABELS:
                continue
            found = self._gauges.find(f"{metric} {field}", given, 1)
            if found is not None:
                found[1].value = +value  # True is 1
            yield

    def families(self) -> Iterator[Family]:
        """Every metric with what it has when it comes, one after the other: there may be very many."""
        for kind in (self._numbers, self._flags, self._responses, self._gauges):
            yield from kind.families()
        for metric, exposed in OPEN_CONNECTIONS.items():
            yield Family(exposed.name, exposed.kind, exposed.help, [self._open[metric]], exposed.unit)
        room = self._room
        yield Family("svc_metrics_label_sets", GAUGE, "Label sets of recorded metrics.", [Gauge("", room.taken)])
        overflow = Counter("", self._began, room.overflow)
        yield Family("svc_metrics_overflow", COUNTER, "Recorded values that found no room for a label set of their own.", [overflow])


def _new_numbers(kind: str, labels: str, created: float) -> Histogram | Summary | Counter:
    if kind == HISTOGRAM:
        return Histogram(labels, created)
    return Summary(labels, created) if kind == SUMMARY else Counter(labels, created)
