"""What GraphQL costs: CPU time of the server process per request, of queries by id and of 20 rows with a join, beside the same over REST.

    python -m bench.graphql [--rounds 5] [--seconds 2] [--without-peers]

A real server process and wrk, as in `bench.run`, with the same 400,000 records; 32 connections that stay open, 20,000 different requests a row. Every round
measures all rows in turn. Shown are medians; the ratio to REST is the median of the ratios within the rounds, for neighbouring measurements have the same luck.
Every answer is checked once before.

The peers are Strawberry (Python, uvicorn with uvloop and httptools) and Mercurius (Node.js, Fastify, compiled queries), both reading SQLite. They are
asked for the same, by POST. In their favour: they ask for no login and keep no statistics, and their documents are validated once.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from bench import records
from bench.measure import Request, load, write_requests
from bench.peers.graphql_servers import Mercurius, Query, Strawberry, by_id, graphql_post, join
from bench.servers import HERE, Maker, Server, Svc, fill_svc

CONNECTIONS = 32
DIFFERENT = 20_000  # requests of a row
REST_BY_ID, REST_JOIN = "REST by id", "REST join"  # what the ratios of the others are to
TITLES = {
    "plain": "`GET /Item/ID`, the whole record",
    REST_BY_ID: "`GET /Item/?id==ID&select(name,price)`",
    "POST by id": "`{ Item(id: $id) { name price } }` by POST",
    "GET by id": "… by GET",
    "strawberry by id": "Strawberry, by POST",
    "mercurius by id": "Mercurius, by POST",
    REST_JOIN: "`GET /Item/?category==C&select(id,name,brand{name})`, 20 rows",
    "POST join": "`{ Item(category: $category) { id name brand { name } } }` by POST",
    "GET join": "… by GET",
    "strawberry join": "Strawberry, by POST",
    "mercurius join": "Mercurius, by POST",
}


class SvcGraphQL(Svc):
    """svc with the application in `app/` and GraphQL."""

    name = "svc-graphql"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "svc", "run", str(self.data / "app")]

    def prepare(self) -> None:
        shutil.copytree(HERE / "app", self.data / "app")
        (self.data / "app" / "config.yaml").write_text("rest: true\ngraphqlSchema: {files: schema.graphql}\ngraphql: true\n")
        fill_svc(self.data / "root" / "database", records.RECORDS, 0)

    def requests(self) -> dict[str, Maker]:
        return {
            "plain": lambda n: self.get(f"/Item/{records.item_id(n)}"),
            REST_BY_ID: lambda n: self.get(f"/Item/?id=={records.item_id(n)}&select(name,price)"),
            "POST by id": lambda n: graphql_post(self.fields, by_id(n)),
            "GET by id": lambda n: self._graphql_get(by_id(n)),
            REST_JOIN: lambda n: self.get(f"/Item/?category=={records.category(n)}&select(id,name,brand{{name}})"),
            "POST join": lambda n: graphql_post(self.fields, join(n)),
            "GET join": lambda n: self._graphql_get(join(n)),
        }

    def _graphql_get(self, asked: Query) -> Request:
        parameters = {"query": asked[0], "variables": json.dumps(asked[1], separators=(",", ":"))}
        return self.get(f"/graphql?{urlencode(parameters, quote_via=quote)}")


def expected(row: str) -> list[dict[str, Any]]:
    """What the first request of a row finds."""
    first = records.item(0)
    if row == "plain":
        return [first]
    if row.endswith("by id"):
        return [{name: first[name] for name in ("name", "price")}]
    found = [item for item in records.iter_items() if item["category"] == first["category"]]
    return [{"id": item["id"], "name": item["name"], "brand": {"name": brand_of(item)["name"]}} for item in found]


def brand_of(item: records.Record) -> records.Record:
    return next(brand for brand in records.iter_brands() if brand["id"] == item["brandId"])


def check(server: Server, row: str, request: Request) -> None:
    status, _, body = server.ask(request)
    found = json.loads(body) if status == 200 else None
    if isinstance(found, dict):
        found = [found] if row == "plain" else found.get("data", {}).get("Item")
    if found != expected(row):
        raise RuntimeError(f"{row}: {status} {body[:300]!r}")


def measure(directory: Path, rounds: int, seconds: int, kinds: list[type[Server]]) -> Mapping[str, list[float]]:
    servers = [kind(directory) for kind in kinds]
    samples: dict[str, list[float]] = {row: [] for row in TITLES}
    asked: dict[str, tuple[Server, Path]] = {}
    try:
        for server in servers:
            server.prepare()
            server.start()
            for row, make in server.requests().items():
                check(server, row, make(0))
                path = directory / f"{row.replace(' ', '-')}.requests"
                write_requests(path, map(make, range(DIFFERENT)), f"127.0.0.1:{server.port}")
                asked[row] = server, path
        for _ in range(rounds):
            for row in TITLES:
                if row in asked:
                    server, path = asked[row]
                    sample = load(server.pid, server.port, path, seconds=seconds, connections=CONNECTIONS)
                    if sample.errors:
                        raise RuntimeError(f"{row}: {sample.errors} errors")
                    samples[row].append(sample.cpu)
    finally:
        for server in servers:
            server.stop()
    return {row: figures for row, figures in samples.items() if figures}


def table(samples: Mapping[str, list[float]]) -> str:
    lines = ["| | CPU time of the server | ratio |", "| --- | ---: | ---: |"]
    for row, figures in samples.items():
        base = samples[REST_JOIN if row.endswith("join") else REST_BY_ID]
        ratio = statistics.median(figure / other for figure, other in zip(figures, base, strict=True))
        lines.append(f"| {TITLES[row]} | {statistics.median(figures):.1f} µs | {ratio:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--without-peers", action="store_true")
    options = parser.parse_args()
    kinds: list[type[Server]] = [SvcGraphQL]
    if not options.without_peers:
        for peer in (Strawberry, Mercurius):
            if peer.available():
                kinds.append(peer)
            else:
                print(f"{peer.name} is left out: pip install {peer.package}", file=sys.stderr)
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="bench-graphql-") as directory:
        print(table(measure(Path(directory), options.rounds, options.seconds, kinds)))
    if before > 0.5:
        print(f"\nThe machine was busy: load {before:.1f} at the start.")


if __name__ == "__main__":
    main()
