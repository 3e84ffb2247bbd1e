"""Samples -> the tables of bench/README.md."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

TITLES = {
    "get": "GET one record",
    "get hot": "GET one record, hot",
    "not modified": "304 on a matching ETag",
    "equality": "20 rows by equality of an indexed attribute",
    "equality hot": "20 rows by equality, hot",
    "range": "20 rows by a range of an indexed attribute",
    "sort": "20 rows, sorted by another indexed attribute",
    "join": "20 rows joined with another table, 3 values each",
    "count": "count of an indexed equality",
    "cbor": "20 rows by equality, as CBOR",
    "msgpack": "20 rows by equality, as MessagePack",
    "br": "20 rows by equality, as JSON compressed with br",
    "zstd": "20 rows by equality, as JSON compressed with zstd",
    "gzip": "20 rows by equality, as JSON compressed with gzip",
    "put": "PUT one record",
    "post": "POST one record",
    "delete": "DELETE one record",
}
NAMES = {"floor": "floor", "svc": "svc", "pocketbase": "PocketBase", "fastapi": "FastAPI", "datasette": "Datasette"}
WRITES = ("put", "post", "delete")
NOTHING = "–"
IMAGE = "![CPU time of the server per request, of each row and server](cost.png)"  # `bench.plot` draws it

Samples = list[dict[str, float]]


def median(samples: Samples, field: str) -> float:
    return statistics.median(sample[field] for sample in samples)


def spread(samples: Samples, field: str) -> float:
    """Half the distance between the smallest and the largest, as a share of the median."""
    values = [sample[field] for sample in samples]
    return (max(values) - min(values)) / 2 / statistics.median(values)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def figure(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def cpu_table(record: dict[str, Any]) -> str:
    samples: dict[str, dict[str, Samples]] = record["samples"]
    floor = samples.get("get", {}).get("floor")
    peers = [name for name in NAMES if name not in ("floor", "svc") and any(name in by for by in samples.values())]
    header = [
        "CPU time of the server per request, µs",
        *(NAMES[n] for n in ("floor", "svc", *peers)),
        "svc / floor",
        *(f"{NAMES[p]} / svc" for p in peers),
    ]
    durability = record["facts"]["durability"]

    def cell(row: str, name: str) -> str:
        """The figure, and of a write what its answer promises."""
        found = samples[row].get(name)
        if found is None:
            return NOTHING
        promise = f", {durability[name]}" if row in WRITES else ""
        return f"{figure(median(found, 'cpu'))} ±{spread(found, 'cpu'):.0%}{promise}"

    rows = []
    for row, by in samples.items():
        cells = [TITLES[row], *(cell(row, name) for name in ("floor", "svc", *peers))]
        svc = median(by["svc"], "cpu") if "svc" in by else None
        cells.append(f"{svc / median(floor, 'cpu'):.1f}" if svc and floor else NOTHING)
        cells += [f"{median(by[p], 'cpu') / svc:.1f}" if svc and p in by else NOTHING for p in peers]
        rows.append(cells)
    return table(header, rows)


def speed_table(record: dict[str, Any]) -> str:
    samples: dict[str, dict[str, Samples]] = record["samples"]
    names = [name for name in NAMES if any(name in by for by in samples.values())]

    def cell(by: dict[str, Samples], name: str) -> str:
        if name not in by:
            return NOTHING
        return f"{median(by[name], 'rate'):,.0f} · {median(by[name], 'p50') / 1000:.1f} · {median(by[name], 'p99') / 1000:.1f}"

    header = ["requests/s · p50 ms · p99 ms", *(NAMES[n] for n in names)]
    return table(header, [[TITLES[row], *(cell(by, name) for name in names)] for row, by in samples.items()])


def memory_table(record: dict[str, Any]) -> str:
    footprints: dict[str, dict[str, Sequence[int]]] = record["memory"]
    moments = ["after start", "after the rounds"]
    rows = []
    for moment in moments:
        cells = [f"{by[moment][0] / 2**20:.0f} · {by[moment][1] / 2**20:.0f}" if moment in by else NOTHING for by in footprints.values()]
        rows.append([moment, *cells])
    return table(["resident MiB · of it not a mapped file", *(NAMES[n] for n in footprints)], rows)


def property_table(record: dict[str, Any]) -> str:
    return table(["property of svc", "measured"], [[name, value] for name, value in record["properties"].items()])


def facts(record: dict[str, Any]) -> str:
    given = record["facts"]
    options = given["options"]
    packages = ", ".join(f"{name} {version}" for name, version in given["versions"].items())
    machine = "; ".join(given["machine"].values())
    return (
        f"{machine}. "
        f"{options['rounds']} rounds of {options['seconds']} s, {options['connections']} connections, one core for each server. "
        f"Writing and flushing 4 KiB took {given['flush_ms']:.2f} ms here. {packages or 'No peers'}."
    )


# Marker in README.md -> (member of the record without which the section stays as it is, what it holds)
SECTIONS: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "requests": (
        "samples",
        lambda record: "\n\n".join((facts(record), IMAGE, cpu_table(record), speed_table(record), memory_table(record))),
    ),
    "properties": ("properties", property_table),
}


def render(record: dict[str, Any]) -> str:
    return "\n\n".join(make(record) for member, make in SECTIONS.values() if record[member])


def insert(path: Path, record: dict[str, Any]) -> None:
    """Replace what stands between `<!-- NAME -->` and `<!-- end of NAME -->`, for the sections that were measured."""
    text = path.read_text()
    for name, (member, make) in SECTIONS.items():
        if record[member]:
            pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
            section = make(record)
            text = pattern.sub(lambda match, section=section: f"{match[1]}\n{section}\n\n{match[2]}", text)
    path.write_text(text)
