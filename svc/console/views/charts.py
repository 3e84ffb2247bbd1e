"""What runs on the server, as charts (spec: console §4)."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from svc.analytics.exposed import LAG
from svc.console.charts.axes import value_text
from svc.console.charts.drawing import MOST_NAME, Drawing, drawing_of
from svc.console.charts.figures import Selection
from svc.console.charts.reading import RANGES, History, Read, kept_of
from svc.console.charts.series import Chart, charts_of, sizes_chart, top_paths
from svc.console.page import ConsolePage
from svc.messages import Response
from svc.pages.cells import shortened

MOST_METRICS = 200  # names that are offered
_LONGEST = 250  # characters of a path, method or name of a metric
_NO_PATH = "-"  # field `no`: requests without a path are chosen
_DRAWN = frozenset(
    {
        "duration", "success", "utilization", "memory", "ws-connections", "mqtt-connections", "socket-routed", "resource-usage", "database-size",
        "table-size", "storage-volume", "main-thread-utilization", LAG,
    }
)  # fmt: skip


@dataclass(slots=True)
class Row:
    """Of the table of paths. `href`: the charts of this path and method alone."""

    path: str
    method: str
    href: str
    requests: str
    success: str
    mean: str


async def show(page: ConsolePage) -> Response:
    key = page.fields.get("range", "")
    key = key if key in RANGES else "10m"
    chosen = RANGES[key]
    values: dict[str, Any] = {
        "is_off": page.node.config.analytics.aggregate_period < 0,
        "is_raw_only": page.node.config.analytics.aggregate_period == 0,
        "is_hidden": False,
        "poll": chosen.poll,
        "range": chosen.title,
        "is_short": chosen.is_raw,
        "ranges": [(each.title, page.at("charts", **{**_kept_fields(page), "range": name}), name == key) for name, each in RANGES.items()],
    }
    if values["is_off"]:
        return await page.show("charts.html", **values)
    if not page.user.super_user:
        return await page.show("charts.html", **{**values, "is_hidden": True})
    selection = selection_of(page.fields)
    now_ms = page.node.clock.wall() * 1000
    kept = kept_of(page.node.store)
    history = History(page.run, page.node.store.slices, kept, page.node.name, now_ms, await _started_ms(page, now_ms))
    read = await history.read(chosen, selection)
    sizes = await history.sizes(chosen)
    low, high = chosen.times(now_ms)[0], now_ms
    charts = charts_of(read.spans, read.times, selection.metric)
    own = [each for each in charts if each.key.startswith("own")]
    others = [each for each in charts if each not in own]
    others.append(sizes_chart("sizes", "Databases", *sizes))
    drawings = await page.node.store.slices.result(_drawn([each for each in others if not each.is_empty], low, high))
    top, paths = top_paths(read.spans)
    return await page.show(
        "charts.html",
        **{**values, "poll": min(chosen.poll, RANGES["10m"].poll) if read.missing else chosen.poll},
        drawings=drawings,
        own=await page.node.store.slices.result(_drawn(own, low, high)),
        metric=shortened(selection.metric, MOST_NAME),
        metrics=await _metrics(page, read),
        all_metrics="" if page.fields.get("metrics") == "all" else page.at("charts", **_kept_fields(page), metrics="all"),
        rows=[_row(page, path, method, figures) for (path, method), figures in top],
        paths=paths,
        chosen=_words(selection),
        without=page.at("charts", range=key, metric=selection.metric),
        missing=read.missing,
        is_sampled=read.is_sampled,
    )


def _drawn(charts: Sequence[Chart], low_ms: float, high_ms: float) -> Generator[None, None, list[Drawing]]:
    found = []
    for each in charts:
        found.append(drawing_of(each, low_ms, high_ms))
        yield
    return found


def selection_of(fields: Mapping[str, str]) -> Selection:
    path: str | None = fields.get("resource") or None
    if path is None and fields.get("no") == _NO_PATH:
        path = ""
    path = None if path is None else path[:_LONGEST]
    return Selection(path, fields.get("method", "")[:_LONGEST] or None, fields.get("metric", "")[:_LONGEST])


def _kept_fields(page: ConsolePage) -> dict[str, str]:
    """What links of this page keep."""
    return {name: page.fields[name][:_LONGEST] for name in ("range", "resource", "no", "method", "metric") if name in page.fields}


def _words(selection: Selection) -> str:
    """Whose requests are shown, "" all.

    >>> _words(Selection("Seat", "GET")), _words(Selection("")), _words(Selection())
    ('GET Seat', 'no path', '')
    """
    path = "no path" if selection.path == "" else shortened(selection.path or "", MOST_NAME)
    return f"{shortened(selection.method or '', MOST_NAME)} {path}".strip()


def _sendable(name: str) -> str:
    """Names of applications may have halves of surrogate pairs, which no address has."""
    return name.encode("utf-8", "replace").decode()


def _row(page: ConsolePage, path: str, method: str, figures: Any) -> Row:
    fields = {**_kept_fields(page), "resource": _sendable(path), "no": "" if path else _NO_PATH, "method": _sendable(method)}
    return Row(
        shortened(path, MOST_NAME) if path else "(no path)",
        shortened(method, MOST_NAME),
        page.at("charts", **fields),
        f"{figures.requests:,}",
        value_text(figures.successes / figures.answered, "%") if figures.answered else "",
        value_text(figures.milliseconds / figures.requests, "ms") if figures.requests else "",
    )


async def _metrics(page: ConsolePage, read: Read) -> list[tuple[str, str, bool]]:
    """Name, address, whether it is chosen: those of the rows that were read, or, on demand, all there are."""
    names: set[str] = set()
    for each in read.spans:
        names |= frozenset() if each is None else each.names
    if page.fields.get("metrics") == "all":
        names |= {*await page.run("list_metrics", metric_types=["custom"])}
    fields, chosen = _kept_fields(page), page.fields.get("metric")
    if page.fields.get("metrics") == "all":
        fields["metrics"] = "all"
    return [
        (shortened(name, MOST_NAME), page.at("charts", **{**fields, "metric": _sendable(name)}), name == chosen)
        for name in sorted(names - _DRAWN)[:MOST_METRICS]
    ]


async def _started_ms(page: ConsolePage, now_ms: float) -> float:
    """When the server began, as far as the caller may know; else now."""
    if not page.may("get_status"):
        return now_ms
    status = await page.run("get_status")
    return now_ms - max([float(each.get("uptime", 0)) for each in status["instances"]], default=0.0) * 1000
