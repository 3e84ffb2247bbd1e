"""What code of an application costs: CPU time of the server process per GET of one record, plain and through handlers in each style.

    python -m bench.applications [--rounds 5] [--seconds 2] [--rows plain,instance]

A real server process and wrk, as in `bench.run`; 20,000 records, 32 connections that stay open. Every round measures all rows in turn. Shown are medians; the
ratio to the plain GET is the median of the ratios within the rounds, for neighbouring measurements have the same luck. Every answer is checked once before.

The peer is FastAPI under uvicorn (uvloop, httptools) with one route that reads the same record from SQLite; svc serves the same route mounted, reading from its
table. In favour of the peer: it asks for no login and keeps no statistics.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench import records
from bench.measure import Request, load, write_requests
from bench.peers.datasette_server import SCHEMA
from bench.servers import HERE, Maker, Server, Svc, insert_items

COUNT = 20_000
CACHED = 5_000  # of them in the table with a source
CONNECTIONS = 32
PLAIN = "plain"
ROWS = {
    PLAIN: ("GET of an exported table", "/Item/"),
    "instance": ("`get` in the instance style that calls `super()`", "/Instance/"),
    "changed": ("… that adds a value to the record", "/Changed/"),
    "target": ("`get` in the target style", "/Target/"),
    "class": ("`get` in the class style", "/Class/"),
    "async": ("`async def get` in the instance style", "/Async/"),
    "awaiting": ("`async def get` in the class style that awaits `tables.Item.get`", "/Awaiting/"),
    "cached": ("a hit in a table with a source", "/Cached/"),
    "mounted": ("FastAPI, mounted in svc, reading the table", "/api/item/"),
    "fastapi": ("FastAPI under uvicorn, reading SQLite", "/item/"),
}
HAS_FASTAPI = all(importlib.util.find_spec(name) for name in ("fastapi", "uvicorn"))


class Application(Svc):
    """svc with the application in `handlers/`."""

    name = "svc-application"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "svc", "run", str(HERE / "handlers")]

    def environment(self) -> dict[str, str]:
        return super().environment() | ({"BENCH_FASTAPI": "1"} if HAS_FASTAPI else {})

    def prepare(self) -> None:
        self.start()
        self.fill("Item", records.iter_items(COUNT))

    def requests(self) -> dict[str, Maker]:
        return {row: self._maker(address) for row, (_, address) in ROWS.items() if row != "fastapi" and (row != "mounted" or HAS_FASTAPI)}

    def _maker(self, address: str) -> Maker:
        count = CACHED if address == ROWS["cached"][1] else COUNT
        return lambda n: self.get(address + records.item_id(n % count))


class OneRoute(Server):
    """uvicorn with `peers/one_route.py`."""

    name = "one-route"

    def prepare(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(self.data / "items.db")
        database.executescript(SCHEMA)
        with database:
            insert_items(database, "item", COUNT)
        database.close()
        self.start()

    def command(self) -> list[str]:
        options = ["--port", str(self.port), "--log-level", "warning", "--no-access-log", "--app-dir", str(HERE / "peers")]
        return [sys.executable, "-m", "uvicorn", "one_route:api", *options]

    def environment(self) -> dict[str, str]:
        return {"BENCH_DATABASE": str(self.data / "items.db")}

    def requests(self) -> dict[str, Maker]:
        return {"fastapi": lambda n: Request("GET", f"/item/{records.item_id(n)}", (("Accept", "application/json"),))}


def check(server: Server, row: str, request: Request) -> None:
    """The answer is the record; a row that adds a value has this one more."""
    status, _, body = server.ask(request)
    if status != 200:
        raise RuntimeError(f"{row}: {status} {body[:300]!r}")
    found = json.loads(body)
    found.pop("total", None)
    if found != records.item(0):
        raise RuntimeError(f"{row}: another record: {body[:300]!r}")


def measure(directory: Path, rounds: int, seconds: int, wanted: set[str]) -> Mapping[str, list[float]]:
    servers: list[Server] = [Application(directory), *([OneRoute(directory)] if HAS_FASTAPI and "fastapi" in wanted else [])]
    samples: dict[str, list[float]] = {}
    try:
        asked = []
        for server in servers:
            server.prepare()
            for row, make in server.requests().items():
                if row not in wanted:
                    continue
                check(server, row, make(0))
                path = directory / f"{row}.requests"
                write_requests(path, map(make, range(COUNT)), f"127.0.0.1:{server.port}")
                asked.append((server, row, path))
                if row == "cached":  # from now on all are hits
                    load(server.pid, server.port, path, seconds=8, connections=CONNECTIONS)
        for _ in range(rounds):
            for server, row, path in asked:
                sample = load(server.pid, server.port, path, seconds=seconds, connections=CONNECTIONS)
                if sample.errors:
                    raise RuntimeError(f"{row}: {sample.errors} errors")
                samples.setdefault(row, []).append(sample.cpu)
    finally:
        for server in servers:
            server.stop()
    return samples


def table(samples: Mapping[str, list[float]]) -> str:
    plain = samples[PLAIN]
    lines = ["| GET of one record | CPU time of the server | ratio |", "| --- | ---: | ---: |"]
    for row, figures in samples.items():
        ratio = statistics.median(figure / base for figure, base in zip(figures, plain, strict=True))
        lines.append(f"| {ROWS[row][0]} | {statistics.median(figures):.1f} µs | {ratio:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--rows", help=f"by default all: {', '.join(ROWS)}")
    options = parser.parse_args()
    wanted = set(options.rows.split(",")) if options.rows else set(ROWS)
    if unknown := wanted - ROWS.keys():
        parser.error(f"no such rows: {', '.join(sorted(unknown))}")
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="bench-applications-") as directory:
        print(table(measure(Path(directory), options.rounds, options.seconds, wanted | {PLAIN})))
    if before > 0.5:
        print(f"\nThe machine was busy: load {before:.1f} at the start.")


if __name__ == "__main__":
    main()
