"""Raw rows of a minute -> one row per group (spec: analytics §2.1). Pure."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from svc.analytics.statistics import LABELS, Bin, Key, labels, percentiles, read_bins, whole

# Gauges of one instance each: the last value counts, and the instances are added up.
BY_THREAD = frozenset({"memory", "mqtt-connections", "ws-connections"})

_log = logging.getLogger("svc.analytics")

_NOT_AVERAGED = LABELS | {"count", "total", "distribution", "threadId"}


class MetricGroup:
    """The values so far of one (metric, path, method, type).

    `sums`: field -> sum of value x count; `bins`: those of all entries; `total` None: no yes/no metric.
    """

    __slots__ = ("bins", "count", "sums", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total: int | None = None
        self.sums: dict[str, float] = {}
        self.bins: list[Bin] = []

    def add(self, entry: Mapping[str, Any]) -> None:
        """Raises KeyError, TypeError or ValueError for what is no entry."""
        count = entry.get("count", 1)
        stored = entry.get("distribution")
        bins = None if stored is None else read_bins(stored)
        total = entry.get("total")
        if total is not None:
            self.total = (self.total or 0) + total
            self.count += count
            return
        self.count += count
        sums = self.sums
        for name, value in entry.items():
            if name not in _NOT_AVERAGED and isinstance(value, (int, float)):
                sums[name] = sums.get(name, 0) + value * count
        if bins is not None:
            self.bins += bins

    def fields(self) -> dict[str, Any]:
        if self.total is not None:
            ratio = whole(self.total / self.count) if self.count else 0
            return {"mean": ratio, "count": self.count, "total": self.total, "ratio": ratio}
        found: dict[str, Any] = {name: whole(value / self.count) for name, value in self.sums.items()} if self.count else {}
        if self.bins:
            found.update(percentiles(self.bins))
        found["count"] = self.count
        return found


class Aggregation:
    """The groups of one period. `time`: that of the last raw row taken in, in ms; None: none yet."""

    def __init__(self) -> None:
        self.time: int | None = None
        self._groups: dict[Key, MetricGroup] = {}
        self._gauges: dict[Key, dict[int, Mapping[str, Any]]] = {}  # last entry of each instance

    def iter_add(self, row: Mapping[str, Any]) -> Iterator[None]:
        """Take in one raw row, an entry a step. What is no entry, for a super user can write here as well, is left out."""
        self.time = row["time"]
        thread_id = row.get("threadId", 0)
        for entry in row.get("metrics") or ():
            try:
                self._add(entry, thread_id)
            except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
                _log.warning("the raw row %s has an entry that is invalid: %.200r", row.get("id"), entry)
            yield

    def _add(self, entry: Mapping[str, Any], thread_id: int) -> None:
        key = (entry["metric"], entry.get("path"), entry.get("method"), entry.get("type"))
        if key[0] in BY_THREAD:
            self._gauges.setdefault(key, {})[thread_id] = entry
        else:
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = MetricGroup()
            group.add(entry)

    def iter_rows(self) -> Iterator[dict[str, Any]]:
        """The rows, without what all rows have in common. Once only: the groups are forgotten on the way, for to free very many in one go takes long."""
        while self._groups:
            key, group = self._groups.popitem()
            yield {**labels(key), **group.fields()}
        for key, entries in self._gauges.items():
            sums: dict[str, Any] = {}
            for entry in entries.values():
                for name, value in entry.items():
                    if name not in _NOT_AVERAGED and isinstance(value, (int, float)):
                        sums[name] = sums.get(name, 0) + value
            yield {**labels(key), **sums, "count": len(entries)}
