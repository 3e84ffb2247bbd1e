"""Runs the servers side by side and writes the tables of bench/README.md.

    python -m bench.run                                  everything that is installed; about ten minutes
    python -m bench.run --rows get,put --servers floor,svc --rounds 1 --seconds 1 --dry
    python -m bench.run --properties                     also memory, start, bulk load, latency beside a scan (svc only)

Each server is a process pinned to one core, wrk on the other. Every round measures every row of every server in turn, so that a machine that becomes slower
for a while does so for all of them; the figure is the median of the rounds.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import brotli
import cbor2
import msgspec
import zstandard

from bench import records, report
from bench.measure import Request, Sample, load, memory, require, write_requests
from bench.properties import measure_properties
from bench.servers import SERVERS, Maker, Server

HERE = Path(__file__).parent
TYPES, CODINGS = ("cbor", "msgpack"), ("br", "zstd", "gzip")  # of the rows by equality
ROWS = ("get", "not modified", "equality", "range", "sort", "join", "count", *TYPES, *CODINGS, "put", "post", "delete")
VARIETY = 20_000  # different requests of one row; more than any cache of answers should be able to profit from
WARM_UP = 1  # seconds; wrk knows no fractions

Results = dict[str, dict[str, list[Sample]]]  # row -> server -> a sample per round


def make_requests(row: str, maker: Maker, round_: int, rounds: int) -> list[Request]:
    if row == "delete":  # each record only once: every round has its share
        share = records.SPARES // rounds
        return [maker(n) for n in range(round_ * share, (round_ + 1) * share)]
    # `not modified` asks the server for each tag first.
    variety = 2_000 if row == "not modified" else VARIETY
    return [maker(n) for n in random.Random(row).sample(range(records.RECORDS), variety)]


def find_fault(server: Server, row: str, request: Request) -> str | None:
    """Why this answer is not the right one: a fast wrong answer is worth nothing."""
    status, fields, body = server.ask(request)
    if status != request.expect:
        return f"{request.method} {request.target} answered {status}: {body[:300]!r}"
    wanted = dict(request.fields)
    for asked, told in (("Accept", "content-type"), ("Accept-Encoding", "content-encoding")):
        if body and wanted.get(asked, "") not in fields.get(told, ""):
            return f"{request.target} has {told} {fields.get(told)} instead of {wanted[asked]}"
    if row in ("equality", "range", "sort", "join", "count", *TYPES, *CODINGS):
        answer = read_answer(fields, body)
        if isinstance(answer, dict):  # of PocketBase, or a count
            answer = answer["totalItems" if row == "count" else "items"] if "items" in answer else answer.get("count")
        count = answer if isinstance(answer, int) else len(answer)
        if count != records.ROWS:
            return f"{request.target} has {count} rows instead of {records.ROWS}"
    return None


def read_answer(fields: dict[str, str], body: bytes) -> Any:
    decode_coding: dict[str | None, Callable[[bytes], bytes]] = {
        None: lambda body: body,
        "br": brotli.decompress,
        "gzip": gzip.decompress,
        "zstd": lambda body: zstandard.ZstdDecompressor().decompressobj().decompress(body),
    }
    read_type: dict[str, Callable[[bytes], Any]] = {
        "application/json": json.loads,
        "application/cbor": cbor2.loads,
        "application/x-msgpack": msgspec.msgpack.decode,
    }
    return read_type[fields["content-type"].partition(";")[0]](decode_coding[fields.get("content-encoding")](body))


def measure(servers: list[Server], rows: list[str], options: argparse.Namespace, scratch: Path) -> Results:
    results: Results = defaultdict(lambda: defaultdict(list))
    makers = {server.name: server.requests() for server in servers}
    files: dict[tuple[str, str], Path] = {}
    for round_ in range(options.rounds):
        for row in rows:
            for server in servers:
                maker = makers[server.name].get(row)
                if maker is None:
                    continue
                file = files.get((server.name, row))
                once = row == "delete"
                if file is None or once or row == "not modified":  # tags change with every write
                    requests = make_requests(row, maker, round_, options.rounds)
                    if not once and server.name != "floor" and (fault := find_fault(server, row, requests[0])):
                        print(f"{server.name}, {row}: left out, {fault}", file=sys.stderr)
                        del makers[server.name][row]
                        continue
                    file = files[server.name, row] = scratch / f"{server.name}-{row.replace(' ', '-')}"
                    write_requests(file, requests, f"127.0.0.1:{server.port}")
                settings = {"connections": options.connections, "once": once}
                if not once:
                    load(server.pid, server.port, file, seconds=WARM_UP, **settings)
                sample = load(server.pid, server.port, file, seconds=options.seconds, **settings)
                if sample.errors:
                    print(f"  {server.name}, {row}: {sample.errors} errors", file=sys.stderr)
                results[row][server.name].append(sample)
                print(
                    f"round {round_ + 1}  {row:<13} {server.name:<11} {sample.cpu:8.1f} us CPU {sample.rate:9.0f}/s  p99 {sample.p99 / 1000:8.2f} ms"
                )
    return results


def flush_cost(directory: Path) -> float:
    """Median milliseconds of writing 4 KiB and flushing it to the disk: what a commit costs at least."""
    times = []
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        for _ in range(50):
            file.write(b"x" * 4096)
            file.flush()
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def versions(servers: list[Server]) -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in sorted({name.split("[")[0] for server in servers for name in server.package.split()}):
        found[package] = metadata.version(package)
    return found


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default=",".join(SERVERS), help="comma-separated: %(default)s")
    parser.add_argument("--rows", default=",".join(ROWS), help="comma-separated: %(default)s")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3, help="of one measurement; default %(default)d")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--properties", action="store_true", help="also measure memory, start, bulk load, latency beside a scan")
    parser.add_argument("--records", type=int, default=1_000_000, help="of the large table of --properties; default %(default)d")
    parser.add_argument(
        "--data", type=Path, default=HERE / "results" / "data", help="where the servers keep their data: must be on a real disk"
    )
    parser.add_argument("--dry", action="store_true", help="print the tables, leave README.md alone")
    options = parser.parse_args(arguments)
    options.rows = options.rows.split(",") if options.rows else []
    options.servers = options.servers.split(",")
    for name in set(options.rows) - set(ROWS) | set(options.servers) - set(SERVERS):
        parser.error(f"there is no row or server '{name}'")
    return options


def main() -> None:
    options = parse()
    require("wrk", "wrk")
    options.data.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.data) as directory:
        scratch = Path(directory)
        servers = []
        for name in options.servers:
            if SERVERS[name].available():
                servers.append(SERVERS[name](scratch))
            else:
                print(f"{name} is left out; to have it: pip install '.[peers]'", file=sys.stderr)
        facts: dict[str, Any] = {
            "options": {k: str(v) for k, v in vars(options).items()},
            "flush_ms": flush_cost(scratch),
            "versions": versions(servers),
        }
        results: Results = {}
        footprints: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
        try:
            if options.rows:
                for server in servers:
                    print(f"preparing {server.name}")
                    server.prepare()
                    server.start()
                    footprints[server.name]["after start"] = memory(server.pid)
                results = measure(servers, options.rows, options, scratch)
                for server in servers:
                    footprints[server.name]["after the rounds"] = memory(server.pid)
        finally:
            for server in servers:
                server.stop()
        properties = measure_properties(scratch, options.records) if options.properties else {}
    record = {
        "facts": facts,
        "samples": {row: {name: [dataclasses.asdict(s) for s in samples] for name, samples in by.items()} for row, by in results.items()},
        "memory": footprints,
        "properties": properties,
    }
    path = HERE / "results" / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1))
    text = report.render(record)
    print(text)
    if not options.dry:
        report.insert(HERE / "README.md", record)
    print(f"samples: {path}")


if __name__ == "__main__":
    main()
