"""The rows behind charts, read by operations of the caller within a budget, and the figures of spans that are over, which are kept.

Beyond some minutes there are more rows than a page can read. Then of each span only its first aggregations are read, as many as its part of the budget holds;
if not every span gets one, those that do are spread over the range, and the others follow when the page is shown again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from svc.console.charts.figures import Figures, Gathering, Selection
from svc.console.charts.series import finite
from svc.store import Store
from svc.store.slices import Slices
from svc.store.system import ANALYTICS_TABLE, RAW_ANALYTICS_TABLE, SYSTEM

MOST_ROWS = 16_000  # aggregates that one page reads
MOST_RAW_ROWS = 12_000
MOST_RAW_OF_SPAN = 400
KEPT = 600  # spans whose figures are kept
MOST_STORAGE_ROWS = 500  # of one measurement of the store
_TAILS = 12  # aggregations that are looked at for one with the sizes of databases: every tenth has them
_APART_MS = 30_000  # aggregations are further apart, and written in less
_SETTLED_MS = 15_000  # rows of a span come no later
_AGGREGATES_SETTLED_MS = 180_000
_STORAGE = frozenset({"database-size", "table-size", "storage-volume"})
_ROWS_OF_STEP = 50

Run = Callable[..., Awaitable[Any]]
"""An operation in the name of the caller: its name, and its fields by name."""


@dataclass(frozen=True, slots=True)
class TimeRange:
    """`length`, `span`: ms. `poll`: seconds between two looks. `sizes`: how many measurements of the store are shown."""

    title: str
    length: int
    span: int
    poll: int
    sizes: int

    @property
    def is_raw(self) -> bool:
        return self.span == 10_000

    def times(self, now_ms: float) -> list[int]:
        """Where the spans begin, the last one is not over."""
        last = int(now_ms // self.span) * self.span
        return list(range(last - self.length + self.span, last + 1, self.span))


MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
RANGES = {
    "10m": TimeRange("10 minutes", 10 * MINUTE, 10_000, 5, 1),
    "1h": TimeRange("1 hour", HOUR, 2 * MINUTE, 60, 6),
    "24h": TimeRange("24 hours", DAY, 15 * MINUTE, 60, 24),
    "30d": TimeRange("30 days", 30 * DAY, 6 * HOUR, 300, 30),
}


class Read(NamedTuple):
    """`times`, `spans`: those that were read. `missing`: how many were not. `is_sampled`: of some not every row. `rows`: that were read now."""

    times: list[int]
    spans: list[Figures | None]
    missing: int
    is_sampled: bool
    rows: int


class Kept:
    """What is kept of one store: figures of spans, and sizes."""

    def __init__(self) -> None:
        self._values: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

    def get(self, key: tuple[Any, ...]) -> Any:
        found = self._values.get(key)
        if found is not None:
            self._values.move_to_end(key)
        return found

    def put(self, key: tuple[Any, ...], value: Any) -> None:
        self._values[key] = value
        while len(self._values) > KEPT:
            self._values.popitem(last=False)


def kept_of(store: Store) -> Kept:
    return _of_store.setdefault(store, Kept())


_of_store: WeakKeyDictionary[Store, Kept] = WeakKeyDictionary()


class History:
    """Reads for one page. `node`: whose aggregates count. `started_ms`: since when the server runs: a second without a row is one without requests."""

    def __init__(self, run: Run, slices: Slices, kept: Kept, node: str, now_ms: float, started_ms: float) -> None:
        self._run = run
        self._slices = slices
        self._kept = kept
        self._node = node
        self._now_ms = now_ms
        self._started_ms = started_ms

    async def read(self, chosen: TimeRange, selection: Selection) -> Read:
        """Raises Problem, as the span that is not over is always read: whoever may not read it sees nothing of what is kept."""
        times = chosen.times(self._now_ms)
        found: dict[int, Figures] = {}
        budget = MOST_RAW_ROWS if chosen.is_raw else MOST_ROWS
        unread = []
        for at in spread(len(times)):
            kept = None if at == len(times) - 1 else self._kept.get((times[at], chosen.span, selection))
            if kept is None:
                unread.append(times[at])
            else:
                found[times[at]] = kept
        left = budget
        for number, start in enumerate(unread):
            if left <= 0:
                break
            share = max(1, min(left // (len(unread) - number), budget // len(times)))
            figures: Figures | None
            if chosen.is_raw:
                figures, rows = await self._raw_span(start, chosen.span, selection, min(share, MOST_RAW_OF_SPAN))
            else:
                figures, rows = await self._span(start, chosen.span, selection, share, left)
            left -= max(rows, 1)
            if figures is None:
                continue
            found[start] = figures
            if start + chosen.span + (_SETTLED_MS if chosen.is_raw else _AGGREGATES_SETTLED_MS) < self._now_ms:
                self._kept.put((start, chosen.span, selection), figures)
        shown = sorted(found)
        spans = [found[start] if found[start].covered_ms > 0 else None for start in shown]
        return Read(shown, spans, len(times) - len(shown), any(each.is_cut for each in found.values()), budget - left)

    async def _raw_span(self, start: int, span: int, selection: Selection, share: int) -> tuple[Figures, int]:
        rows = await self._search(RAW_ANALYTICS_TABLE, start, start + span, limit=share)
        is_cut = len(rows) >= share
        end = min(start + span, self._now_ms)
        if is_cut:
            end = finite(rows[-1].get("time")) or end
        # Before this start there may have been another server, of which only rows tell.
        begin = start if rows else max(start, self._started_ms)
        covered_ms = max(end - begin, 1000.0) if rows or end > begin else 0.0
        gathering = Gathering(selection)
        figures = await self._slices.result(_steps(gathering.add_raw, rows, 1, lambda: gathering.finish(covered_ms)))
        figures.is_cut = is_cut
        return figures, len(rows)

    async def _span(self, start: int, span: int, selection: Selection, share: int, most: int) -> tuple[Figures | None, int]:
        """Whole aggregations, as many as there are in so many rows, or one, if `most` rows have it; else None."""
        rows: list[Any] = []
        low: float = start
        comparator = "greater_than_equal"
        ends: list[int] = []
        while True:
            share = min(share, most - len(rows))
            more = await self._search(ANALYTICS_TABLE, low, start + span, limit=share, comparator=comparator)
            ends += [len(rows) + at for at, row in enumerate(more) if self._is_end(row)]
            rows += more
            is_cut = len(more) >= share
            if not is_cut or ends or len(rows) >= most:
                break
            low, comparator = more[-1]["id"], "greater_than"
            share *= 2
        if is_cut and not ends:
            return None, len(rows)
        whole = rows[: ends[-1] + 1] if is_cut else rows
        own = [row for row in whole if row.get("node", self._node) == self._node]
        gathering = Gathering(selection)
        figures = await self._slices.result(_steps(gathering.add_aggregate, own, _ROWS_OF_STEP, gathering.finish))
        figures.is_cut = is_cut
        return figures, len(rows)

    def _is_end(self, row: Mapping[str, Any]) -> bool:
        """Of the last rows of an aggregation of this node."""
        return row.get("metric") == "resource-usage" and row.get("node", self._node) == self._node

    # --- sizes of databases ------------------------------------------------------------------------------------------------------------

    async def sizes(self, chosen: TimeRange) -> tuple[list[int], list[dict[str, float] | None]]:
        """When, and bytes by name of the database."""
        width = chosen.length // chosen.sizes
        starts = [int(self._now_ms) - width * number for number in range(chosen.sizes - 1, -1, -1)]
        if chosen.sizes > 1:
            starts = [start // width * width for start in starts]
        found: list[dict[str, float] | None] = []
        for start in starts:
            end = min(start + width, self._now_ms)
            key = ("sizes", start, width)
            sizes = self._kept.get(key)
            if sizes is None:
                sizes = await self._sizes_before(end + 1, end - max(width, 15 * MINUTE))
                if start + width + _AGGREGATES_SETTLED_MS < self._now_ms:
                    self._kept.put(key, sizes)
            found.append(sizes or None)
        return [min(start + width, int(self._now_ms)) for start in starts], found

    async def _sizes_before(self, high: float, low: float) -> dict[str, float]:
        """Of the newest aggregation of this time that has measured them: its last rows say whether it has."""
        for _ in range(_TAILS):
            last = await self._search(ANALYTICS_TABLE, low, high, limit=1, reverse=True)
            if not last:
                return {}
            if last[0].get("metric") in _STORAGE:
                break
            high = last[0]["id"] - _APART_MS
        else:
            return {}
        found: dict[str, float] = {}
        for row in await self._search(ANALYTICS_TABLE, low, high, limit=MOST_STORAGE_ROWS, reverse=True):
            if row.get("metric") not in _STORAGE:
                break
            if row["metric"] == "database-size" and row.get("node", self._node) == self._node and type(row.get("database")) is str:
                found[row["database"]] = row.get("size")
        return found

    async def _search(
        self, table: str, low: float, high: float, *, limit: int, comparator: str = "greater_than_equal", reverse: bool = False
    ) -> list[Any]:
        conditions = [
            {"attribute": "id", "comparator": comparator, "value": low},
            {"attribute": "id", "comparator": "less_than", "value": high},
        ]
        more = {"reverse": True} if reverse else {}
        found: list[Any] = await self._run("search_by_conditions", database=SYSTEM, table=table, conditions=conditions, limit=limit, **more)
        return found


def spread(count: int) -> list[int]:
    """The places 0 to count - 1, each as far from those before it as can be; the last one first.

    >>> spread(5)
    [4, 0, 2, 1, 3]
    """
    if count < 2:
        return list(range(count))
    found = [count - 1, 0]
    step = 1 << (count - 1).bit_length()
    seen = set(found)
    while step > 1:
        step //= 2
        more = [at for at in range(step, count, step) if at not in seen]
        seen.update(more)
        found += more
    return found


def _steps(add: Callable[[Any], None], rows: Sequence[Any], at_once: int, finish: Callable[[], Figures]) -> Generator[None, None, Figures]:
    for number, row in enumerate(rows):
        add(row)
        if number % at_once == at_once - 1:
            yield
    yield
    return finish()
