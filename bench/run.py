"""Runs the servers side by side, prints tables and writes a results file, of which `bench.plot` makes bench/README.md.

    python -m bench.run                                  everything that is installed; about twenty minutes
    python -m bench.run --rows get,put --servers floor,svc --rounds 1 --seconds 1
    python -m bench.run --compare ../before              this checkout and another one, by turns; two minutes
    python -m bench.run --properties                     also memory, start, bulk load, latency beside a scan (svc only)

Each server is a process pinned to one core, wrk on the other. Every round measures every row of every server in turn, so that a machine that becomes slower
for a while does so for all of them; the figure is the median of the rounds.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
import time
from collections import defaultdict
from importlib import metadata
from pathlib import Path
from typing import Any

from bench import compare as comparison
from bench import report
from bench.machine import describe_machine, flush_cost, use_bytecode, warn_of_build, warn_of_load
from bench.measure import Sample, memory, require
from bench.peers import PEERS
from bench.properties import measure_properties
from bench.rows import ROWS, Row, kind_of
from bench.servers import Floor, Server, Svc

HERE = Path(__file__).parent

SERVERS: dict[str, type[Server]] = {server.name: server for server in (Floor, Svc, *PEERS)}
Results = dict[str, dict[str, list[Sample]]]  # row -> server -> a sample per round


def measure(servers: list[Server], options: argparse.Namespace, scratch: Path) -> Results:
    results: Results = defaultdict(lambda: defaultdict(list))
    makers = {server.name: server.requests() for server in servers}
    rows = [
        Row(name, server, makers[server.name][kind_of(name)], scratch, options.rounds)
        for name in options.rows
        for server in servers
        if kind_of(name) in makers[server.name]
    ]
    for round_ in range(options.rounds):
        for row in list(rows):
            sample = row.measure(options.seconds, options.connections)
            if sample is None:
                rows.remove(row)
                continue
            name = row.server.name
            results[row.name][name].append(sample)
            print(
                f"round {round_ + 1}  {row.name:<13} {name:<11} {sample.cpu:8.1f} us CPU {sample.rate:9.0f}/s  p99 {sample.p99 / 1000:8.2f} ms"
            )
    return results


def versions(servers: list[Server]) -> dict[str, str]:
    found = {}
    for package in sorted({name.split("[")[0] for server in servers for name in server.package.split()}):
        found[package] = metadata.version(package)
    return found


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--compare", type=Path, metavar="CHECKOUT", help="measure svc of this checkout and of that one, and no other server"
    )
    parser.add_argument("--servers", default=",".join(SERVERS), help="comma-separated: %(default)s")
    parser.add_argument(
        "--rows", help=f"comma-separated, of: {', '.join(ROWS)}; default: all of them, with --compare {', '.join(comparison.ROWS)}"
    )
    parser.add_argument("--rounds", type=int, help=f"default 5, with --compare {comparison.ROUNDS}")
    parser.add_argument("--seconds", type=int, help=f"of one measurement; default 3, with --compare {comparison.SECONDS}")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--properties", action="store_true", help="also measure memory, start, bulk load, latency beside a scan")
    parser.add_argument("--records", type=int, default=1_000_000, help="of the large table of --properties; default %(default)d")
    parser.add_argument(
        "--data", type=Path, default=HERE / "results" / "data", help="where the servers keep their data: must be on a real disk"
    )
    options = parser.parse_args(arguments)
    rows, rounds, seconds = (ROWS, 5, 3) if options.compare is None else (comparison.ROWS, comparison.ROUNDS, comparison.SECONDS)
    options.rows = list(rows) if options.rows is None else options.rows.split(",") if options.rows else []
    options.rounds = options.rounds or rounds
    options.seconds = options.seconds or seconds
    options.servers = options.servers.split(",")
    for name in set(options.rows) - set(ROWS) | set(options.servers) - set(SERVERS):
        parser.error(f"there is no row or server '{name}'")
    return options


def main() -> None:
    options = parse()
    require("wrk", "wrk")
    warn_of_build()
    warn_of_load()
    options.data.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.data) as directory:
        scratch = Path(directory)
        if options.compare is not None:
            comparison.compare(options.compare, options, scratch)
            return
        use_bytecode()
        servers = []
        for name in options.servers:
            if SERVERS[name].available():
                servers.append(SERVERS[name](scratch))
            else:
                print(f"{name} is left out; to have it: pip install '.[peers]'", file=sys.stderr)
        facts: dict[str, Any] = {
            "options": {k: str(v) for k, v in vars(options).items()},
            "machine": describe_machine(),
            "flush_ms": flush_cost(scratch),
            "versions": versions(servers),
            "durability": {server.name: server.durability for server in servers},
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
                results = measure(servers, options, scratch)
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
    print(report.render(record))
    print(f"{path}: python -m bench.plot makes the tables and the plot of README.md of it")


if __name__ == "__main__":
    main()
