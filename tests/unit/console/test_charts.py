"""The place of charts: what it reads, and what it shows to whom (spec: console §4)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from svc.analytics import Analytics
from svc.analytics.collector import AnalyticsSettings
from svc.console.charts.figures import Figures, Selection
from svc.console.charts.reading import KEPT, MOST_RAW_ROWS, MOST_ROWS, RANGES, History, Kept, kept_of, spread
from svc.store.slices import Slices
from tests.support.console import ConsoleSite

HOSTILE = "\"'><img src=x onerror=alert(1)>"
_MINUTE = 60_000


class Measured:
    """Analytics of the node of a site, second by second."""

    def __init__(self, site: ConsoleSite, period: float = 60) -> None:
        self._node = site.node
        self.analytics = Analytics(self._node.store, AnalyticsSettings(period), node=self._node.node.name, clock=self._node.clock)
        self._loop = (0.0, 0.0)

    def second(self, *requests: tuple[str, int, float]) -> None:
        """Path, status, ms of each."""
        for path, status, ms in requests:
            self.analytics.recorder.request_done(path, "GET", ms, status, 100, 1.0)
        self._node.clock.advance(1)
        self._loop = self._loop[0] + 0.75, self._loop[1] + 0.25
        self.analytics.tick(*self._loop)
        while self.analytics.work(1):
            pass
        if self._node.store.has_pending:
            self._node.store.commit_turn()


def values_of(site: ConsoleSite, chart: str, **fields: str) -> list[list[str]]:
    """The rows of the table of a chart."""
    query = "&".join(f"{name}={value}" for name, value in fields.items())
    answer = site.get(f"/console/charts?{query}")
    assert answer.status == 200
    answer.page  # noqa: B018
    found = re.search(f'<details id="values-{chart}">(.*?)</details>', answer.body.decode(), re.DOTALL)
    assert found is not None, chart
    return [re.findall(r"<t[hd][^>]*>(?:<[^>]*>)*([^<]*)", row) for row in re.findall("<tr>(.*?)</tr>", found[1])[1:]]


def test_ten_minutes_of_seconds(site: ConsoleSite) -> None:
    measured = Measured(site)
    for number in range(30):
        measured.second(*[("Seat", 200, 4.0)] * 3, ("Seat", 500, 8.0), *[(HOSTILE, 200, 1.0)] * (number == 0))
    answer = site.get("/console/charts")
    page = answer.page
    assert page.find("section", id="charts")["data-poll"] == "5"
    assert "img" not in [tag for tag, each in page.elements if each.get("src") == "x"]
    assert HOSTILE in page.links and "resource=%22%27%3E%3Cimg" in page.links[HOSTILE]
    assert [row for row in page.rows if row[:1] == ["Seat"]] == [["Seat", "GET", "120", "75 %", "5 ms"]]
    assert [row[1] for row in values_of(site, "requests", resource="Seat")][1:] == ["4 /s", "4 /s", "4 /s"]
    assert {row[1] for row in values_of(site, "success", resource="Seat", method="GET")} == {"75 %"}
    latency = values_of(site, "latency", resource="Seat")
    assert [row[1] for row in latency] == ["4 ms"] * 4 and latency[0][2:] == ["8 ms", "8 ms"]
    assert {row[1] for row in values_of(site, "utilization")} == {"25 %"}
    one = site.get("/console/charts?resource=nosuch").page
    assert "nosuch alone" in one.text and "Show all" in one.links


def test_more_requests_make_the_last_point_rise(site: ConsoleSite) -> None:
    measured = Measured(site)
    for _ in range(25):
        measured.second(("Seat", 200, 1.0))
    before = float(values_of(site, "requests")[-1][1].removesuffix(" /s"))
    measured.second(*[("Seat", 200, 1.0)] * 100)
    after = float(values_of(site, "requests")[-1][1].removesuffix(" /s"))
    assert before < 2 < 10 < after


@pytest.mark.parametrize("chosen", ["1h", "24h", "30d"])
def test_aggregates_beyond_ten_minutes(site: ConsoleSite, chosen: str) -> None:
    measured = Measured(site)
    for _ in range(200):
        measured.second(*[("Seat", 200, 4.0)] * 2)
    rows = values_of(site, "requests", range=chosen)
    rates = [float(row[1].removesuffix(" /s")) for row in rows if row[1]]
    assert rates and all(1.5 <= rate <= 4 for rate in rates), rates
    assert values_of(site, "latency", range=chosen)[-1][1:] == ["4 ms"] * 3
    assert values_of(site, "sizes", range=chosen)
    assert site.get(f"/console/charts?range={chosen}").page.find("section", id="charts")["data-poll"] == str(RANGES[chosen].poll)


def test_own_metrics_by_name(site: ConsoleSite) -> None:
    measured = Measured(site)
    for number in range(150):
        measured.analytics.recorder.record(float(number % 3), HOSTILE)
        measured.analytics.recorder.record(lambda: {"waiting": 7, "metric": "queue"}, "queue")
        measured.second()
    page = site.get("/console/charts").page
    assert HOSTILE in page.links and "queue" in page.links
    assert {row[1] for row in values_of(site, "own", metric="queue")} == {"7"}
    assert site.get("/console/charts?metric=queue&range=1h").status == 200
    assert "Nothing was recorded" in site.get("/console/charts?metric=nosuch").page.text
    everything = site.get("/console/charts?range=30d&metrics=all").page
    assert "queue" in everything.links and "All that were ever recorded" not in everything.links


def test_nothing_measured_and_switched_off(tmp_path: Path) -> None:
    empty = ConsoleSite(tmp_path / "a")
    off = ConsoleSite(tmp_path / "b", analytics={"aggregatePeriod": -1})
    raw = ConsoleSite(tmp_path / "c", analytics={"aggregatePeriod": 0})
    try:
        assert "Nothing was measured in the last 24 hours" in empty.get("/console/charts?range=24h").page.text
        assert "analytics.aggregatePeriod" in off.get("/console/charts").page.text
        assert "aggregatePeriod is 0" in raw.get("/console/charts?range=1h").page.text
        assert empty.get("/console/charts?range=nosuch&resource=%ff&metric=%00").status == 200
    finally:
        for each in (empty, off, raw):
            each.close()


def test_who_may_see_charts(site: ConsoleSite) -> None:
    Measured(site).second(("Seat", 200, 1.0))
    kept_of(site.node.store)
    nobody = site.node.user("ann", {"data": {"tables": {}}})
    assert site.get("/console/charts", nobody).status == 403
    assert "Charts" not in site.get("/console/", nobody).page.links
    granted = site.node.user("bob", {"operations": ["get_analytics"]})
    site.get("/console/charts")  # what is kept for others is not shown
    answer = site.get("/console/charts", granted)
    assert answer.status == 200 and "only super users read" in answer.page.text and "svg" not in [tag for tag, _ in answer.page.elements]


def test_polling_reads_only_what_may_have_changed(site: ConsoleSite) -> None:
    measured = Measured(site)
    for _ in range(300):
        measured.second(("Seat", 200, 1.0))
    asked: list[Any] = []

    async def run(operation: str, **fields: Any) -> Any:
        asked.append(fields["conditions"])
        return await site.node.operations.perform({"operation": operation, **fields}, site.node.admin, authorize=True)

    def read() -> Any:
        now_ms = site.node.clock.wall() * 1000
        history = History(run, site.node.store.slices, kept_of(site.node.store), site.node.node.name, now_ms, 0)
        return site.node.wait(lambda: history.read(RANGES["10m"], Selection()))

    first = read()
    assert first.rows >= 300 and len(asked) == 60
    asked.clear()
    again = read()
    assert again.spans == first.spans and len(asked) <= 4


class Fabricated:
    """A month of aggregations with very many paths, made while it is read: how many rows were read is counted."""

    def __init__(self, paths: int, now_ms: int) -> None:
        self._paths = paths
        self._now_ms = now_ms
        self.rows = self.searches = 0

    async def __call__(self, operation: str, **fields: Any) -> list[dict[str, Any]]:
        assert operation == "search_by_conditions" and fields["table"] == "svc_analytics"
        (first, low), (_, high) = [(each["comparator"], each["value"]) for each in fields["conditions"]]
        self.searches += 1
        found: list[dict[str, Any]] = []
        of_one = self._paths * 2 + 1
        minute, place = int(low // _MINUTE), 0
        if first == "greater_than":
            place = round((low - minute * _MINUTE) * 1024) + 1
        while len(found) < fields["limit"]:
            if place >= of_one:
                minute, place = minute + 1, 0
            row_id = minute * _MINUTE + place / 1024
            if row_id >= min(high, self._now_ms):
                break
            found.append(self._row(row_id, minute, place, of_one))
            place += 1
        self.rows += len(found)
        return found

    def _row(self, row_id: float, minute: int, place: int, of_one: int) -> dict[str, Any]:
        common = {"id": row_id, "time": minute * _MINUTE, "period": _MINUTE, "node": "here"}
        if place == of_one - 1:
            return {**common, "metric": "resource-usage"}
        path = {"path": f"p{place // 2}", "method": "GET", "count": 6}
        if place % 2:
            return {**common, **path, "metric": "success", "total": 3}
        return {**common, **path, "metric": "duration", "mean": 2, "median": 2, "p90": 3, "p95": 4, "p999": 5}


@pytest.mark.parametrize("paths", [5, 3000])
def test_a_month_is_read_within_a_budget(site: ConsoleSite, paths: int) -> None:
    """5 paths: 475,000 rows; 3000: 260 million."""
    now_ms = 1_767_225_600_000 + 5 * _MINUTE
    kept = Kept()
    source = Fabricated(paths, now_ms)
    history = History(source, Slices(site.node.clock), kept, "here", now_ms, 0)
    seen = 0
    for _ in range(3):
        source.rows = source.searches = 0
        read = site.node.wait(lambda: history.read(RANGES["30d"], Selection()))
        assert source.rows <= MOST_ROWS and source.searches <= 150
        assert len(read.times) > seen or read.missing == 0
        seen = len(read.times)
        for each in read.spans:
            assert isinstance(each, Figures) and each.answered == each.requests and each.latency is not None
            assert each.requests * 1000 / each.covered_ms == pytest.approx(paths * 6 / 60)
    assert read.is_sampled and (paths > 5 or read.missing == 0)
    assert read.times == sorted(read.times) and read.times[-1] == RANGES["30d"].times(now_ms)[-1]


def test_busy_seconds_are_read_within_a_budget(site: ConsoleSite) -> None:
    """As many rows as are asked for, each of 500 entries: what was read says how much time it covers."""
    now_ms = 1_767_225_605_000
    found = 0

    async def run(operation: str, **fields: Any) -> list[dict[str, Any]]:
        nonlocal found
        found += fields["limit"]
        low = fields["conditions"][0]["value"]
        entry = {"metric": "duration", "method": "GET", "count": 1, "mean": 1, "distribution": [1]}
        metrics = [{**entry, "path": f"p{number}"} for number in range(20)]
        return [{"id": low + at, "time": low + at * 10, "threadId": 0, "metrics": metrics} for at in range(fields["limit"])]

    history = History(run, Slices(site.node.clock), Kept(), "here", now_ms, 0)
    read = site.node.wait(lambda: history.read(RANGES["10m"], Selection()))
    assert found <= MOST_RAW_ROWS and read.missing == 0 and read.is_sampled
    for each in read.spans[:-1]:
        assert each is not None and each.requests * 1000 / each.covered_ms == pytest.approx(2000, rel=0.02)


def test_what_is_kept_is_bounded() -> None:
    kept = Kept()
    for number in range(2 * KEPT):
        kept.put((number,), number)
        kept.get((0,))
    assert kept.get((KEPT // 2,)) is None and kept.get((0,)) == 0 and kept.get((2 * KEPT - 1,)) == 2 * KEPT - 1
    for count in range(200):
        assert sorted(spread(count)) == list(range(count))
