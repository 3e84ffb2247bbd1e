"""Several processes over one data directory: what two on two cores do, compared with one on one core.

    python -m bench.instances [--seconds 4] [--rounds 3] [--rows PUT,PATCH] [--flush real]

Servers are `svc run`, each with a root of its own and all with the same `storage.path`. Each has a core, which it shares with the wrk that asks it: so two
have twice of everything, and a ratio of 2 is all that there can be. *Beside commits*: another process, of which nothing is counted, commits a record 200 times
a second. *PUT* is prepared, so that its write waits for the end of the turn; *PATCH* takes the general way.

The flush of the disk takes from one second to the next ten times as long on machines that are shared, which hides everything else. So by default the databases
are in memory (/dev/shm), and a flush is a pause of 1 ms: a library of three lines in front of libc's, made by `cc`. `--flush real`: they are in `--scratch`,
and flushed.

Not included: `svc run --instances`, whose members share ports; TLS. The machine must be quiet: with other work on its cores no ratio means anything.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench import records
from bench.machine import describe_machine, use_bytecode, warn_of_load
from bench.measure import CORES, Request, Sample, load, write_requests
from bench.servers import Maker, Svc, fill_svc

COUNT = 40_000  # records
RANGE = 4_000  # entries that one count counts
VARIETY = 5_000  # different requests of a row
COMMITS = 200  # a second, beside
SLOW_FLUSH = """
#include <unistd.h>
int fdatasync(int descriptor) { return usleep(1000), 0; }
int fsync(int descriptor) { return usleep(1000), 0; }
"""


class Instance(Svc):
    """One of several servers."""

    def __init__(self, number: int, roots: Path, databases: Path, preload: Path | None) -> None:
        self.name = f"svc{number}"
        self.core = CORES[number % len(CORES)]
        super().__init__(roots)
        self.set_password("the-same-for-all")
        self._databases = databases
        self._preload = preload

    def environment(self) -> dict[str, str]:
        own = {"STORAGE_PATH": str(self._databases)}
        if self._preload is not None:
            own["LD_PRELOAD"] = str(self._preload)
        return super().environment() | own


class Case(NamedTuple):
    """A row of the table. `clients`: connections to each server."""

    name: str
    make: Callable[[Instance], Maker]
    clients: int
    is_beside: bool = False


def _get(server: Instance) -> Maker:
    return lambda n: server.get(f"/Item/{records.item_id(n % COUNT)}")


def _count(server: Instance) -> Maker:
    share = records.RECORDS // COUNT  # prices lie so far apart
    width = RANGE * share
    return lambda n: server.get(f"/Item/?price=ge={n % width}&lt={n % width + width}&count()")


def _put(server: Instance) -> Maker:
    return lambda n: server.write("PUT", f"/Item/{records.item_id(n % COUNT)}", records.item(n % COUNT, 1 + n // COUNT), 204)


def _patch(server: Instance) -> Maker:
    return lambda n: server.write("PATCH", f"/Item/{records.item_id(n % COUNT)}", {"rank": n}, 204)


CASES = (
    Case("GET one record", _get, 16),
    Case("GET one record, beside commits", _get, 16, True),
    Case("count of a range", _count, 16),
    Case("count of a range, beside commits", _count, 16, True),
    Case("PUT", _put, 8),
    Case("PATCH", _patch, 8),
)


class Result(NamedTuple):
    rate: float
    cpu: float
    p50: float
    p99: float


def measure(servers: Sequence[Instance], case: Case, scratch: Path, seconds: int, round_: int) -> Result:
    """What all of them do at the same time."""
    with ThreadPoolExecutor(len(servers)) as threads:
        samples = list(threads.map(lambda server: _load(server, case, scratch, seconds, round_), servers))
    errors = sum(sample.errors for sample in samples)
    if errors:
        print(f"  {case.name}: {errors} errors", file=sys.stderr)
    requests = sum(sample.requests for sample in samples)
    return Result(
        sum(sample.rate for sample in samples),
        sum(sample.cpu * sample.requests for sample in samples) / max(requests, 1),
        statistics.fmean(sample.p50 for sample in samples) / 1000,
        max(sample.p99 for sample in samples) / 1000,
    )


def _load(server: Instance, case: Case, scratch: Path, seconds: int, round_: int) -> Sample:
    path = scratch / f"{server.name}-requests"
    make = case.make(server)
    first = (round_ * 7 + int(server.name[3:])) * VARIETY
    requests: list[Request] = [make(first + n) for n in range(VARIETY)]
    write_requests(path, requests, f"127.0.0.1:{server.port}")
    load(server.pid, server.port, path, seconds=1, connections=case.clients, core=server.core)  # what is made at the first requests
    return load(server.pid, server.port, path, seconds=seconds, connections=case.clients, core=server.core)


@contextmanager
def committing(databases: Path) -> Iterator[None]:
    """Another process that commits."""
    process = subprocess.Popen([sys.executable, "-m", "bench.instances", "--commit", str(databases)])
    try:
        time.sleep(1)
        yield
    finally:
        process.terminate()
        process.wait()


def commit_for_ever(databases: Path) -> None:
    from svc.store import Store

    store = Store(databases)
    table = store.databases["data"].tables["Item"]
    number = 0
    while True:
        number += 1
        transaction = store.begin()
        transaction.put(table, records.item_id(number % COUNT), records.item(number % COUNT, 1 + number // COUNT))
        transaction.apply()
        store.commit_turn()
        time.sleep(1 / COMMITS)


def build_preload(directory: Path) -> Path:
    source, library = directory / "flush.c", directory / "flush.so"
    source.write_text(SLOW_FLUSH)
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source)], check=True)
    return library


def run(options: argparse.Namespace) -> dict[str, list[list[Result]]]:
    """Case -> of one and of two servers, the results of the rounds."""
    parent = options.scratch if options.flush == "real" else Path("/dev/shm")
    scratch = Path(tempfile.mkdtemp(prefix="bench-instances-", dir=parent))
    results: dict[str, list[list[Result]]] = {}
    try:
        databases = scratch / "databases"
        preload = None if options.flush == "real" else build_preload(scratch)
        fill_svc(databases, COUNT, 0)
        servers = [Instance(number, scratch, databases, preload) for number in range(2)]
        for server in servers:
            server.start()
        try:
            for case in CASES:
                if options.rows and not any(word in case.name for word in options.rows.split(",")):
                    continue
                found: list[list[Result]] = [[], []]
                for round_ in range(options.rounds):
                    for count in (1, 2):
                        if case.is_beside:
                            with committing(databases):
                                found[count - 1].append(measure(servers[:count], case, scratch, options.seconds, round_))
                        else:
                            found[count - 1].append(measure(servers[:count], case, scratch, options.seconds, round_))
                results[case.name] = found
                print(_line(case.name, found), flush=True)
        finally:
            for server in servers:
                server.stop()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return results


def _median(results: Sequence[Result]) -> Result:
    return Result(*map(statistics.median, zip(*results, strict=True)))


def _line(name: str, found: list[list[Result]]) -> str:
    one, two = map(_median, found)
    ratio = statistics.median(b.rate / a.rate for a, b in zip(*found, strict=True))
    return (
        f"| {name} | {one.rate:,.0f} · {one.cpu:.0f} · {one.p50:.1f} · {one.p99:.1f} | {two.rate:,.0f} · {two.cpu:.0f} · {two.p50:.1f} · {two.p99:.1f} "
        f"| {ratio:.2f} | {two.p99 / one.p99:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", default="", help="words of the names of rows, with commas between")
    parser.add_argument("--flush", choices=("pause", "real"), default="pause")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--commit", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.commit is not None:
        commit_for_ever(options.commit)
    use_bytecode()
    warn_of_load()
    print(describe_machine())
    print("| requests/s · CPU µs · p50 ms · p99 ms | one | two | two / one | p99 two / one |\n| --- | ---: | ---: | ---: | ---: |")
    run(options)


if __name__ == "__main__":
    main()
