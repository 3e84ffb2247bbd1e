"""Several processes over one data directory: what two on two cores do, compared with one on one core.

    python -m bench.instances [--seconds 4] [--rounds 3] [--rows PUT,PATCH] [--flush real]

First, servers that are started separately: `svc run`, each with a root of its own and all with the same `storage.path`; then the instances of one `svc run
--instances`, which share a port, so that the kernel spreads the connections. Each has a core, which it shares with a wrk: so two have twice of everything, and
a ratio of 2 is all that there can be. *Beside commits*: another process, of which nothing is counted, commits a record 200 times
a second. *PUT* is prepared, so that its write waits for the end of the turn; *PATCH* takes the general way.

The flush of the disk takes from one second to the next ten times as long on machines that are shared, which hides everything else. So by default the databases
are in memory (/dev/shm), and a flush is a pause of 1 ms: a library of three lines in front of libc's, made by `cc`. `--flush real`: they are in `--scratch`,
and flushed.

*Bare puts*: no server, one and two processes that put a record and commit it, again and again. Not included: TLS. The machine must be quiet: with other work
on its cores no ratio means anything.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

import psutil

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


class Together(Instance):
    """`svc run --instances`: the n-th instance on the n-th core."""

    def __init__(self, instances: int, roots: Path, databases: Path, preload: Path | None) -> None:
        super().__init__(0, roots, databases, preload)
        self._instances = instances

    def environment(self) -> dict[str, str]:
        return super().environment() | {"INSTANCES": str(self._instances)}

    def start(self) -> None:
        super().start()
        while len(instances := psutil.Process(self.pid).children()) < self._instances:
            time.sleep(0.1)
        time.sleep(2)  # until the last one has its port
        for core, instance in zip(CORES, instances, strict=False):
            instance.cpu_affinity([core])


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
    """What all of them do at the same time, each asked from one core. A server that is in it twice is asked from two."""
    with ThreadPoolExecutor(len(servers)) as threads:
        samples = list(threads.map(lambda number: _load(servers[number], case, scratch, seconds, round_, number), range(len(servers))))
    errors = sum(sample.errors for sample in samples)
    if errors:
        print(f"  {case.name}: {errors} errors", file=sys.stderr)
    requests = sum(sample.requests for sample in samples)
    return Result(
        sum(sample.rate for sample in samples),
        sum(sample.cpu * sample.requests for sample in samples) / max(requests, 1) * len(set(servers)) / len(servers),
        statistics.fmean(sample.p50 for sample in samples) / 1000,
        max(sample.p99 for sample in samples) / 1000,
    )


def _load(server: Instance, case: Case, scratch: Path, seconds: int, round_: int, number: int) -> Sample:
    path = scratch / f"requests{number}"
    make = case.make(server)
    first = (round_ * 7 + number) * VARIETY
    requests: list[Request] = [make(first + n) for n in range(VARIETY)]
    write_requests(path, requests, f"127.0.0.1:{server.port}")
    load(
        server.pid, server.port, path, seconds=1, connections=case.clients, core=CORES[number % len(CORES)]
    )  # what is made at the first requests
    return load(server.pid, server.port, path, seconds=seconds, connections=case.clients, core=CORES[number % len(CORES)])


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


def put_for_a_time(databases: Path, seconds: float, number: int) -> None:
    """Prints what it did, as a `Result`."""
    from svc.store import Store

    os.sched_setaffinity(0, {CORES[number % len(CORES)]})
    store = Store(databases)
    table = store.databases["data"].tables["Item"]
    times: list[float] = []
    count, cpu, began = 0, time.process_time(), time.perf_counter()
    while (now := time.perf_counter()) - began < seconds:
        count += 1
        transaction = store.begin()
        transaction.put(table, records.item_id(count % COUNT), records.item(count % COUNT, 1 + number + count // COUNT))
        transaction.apply()
        store.commit_turn()
        store.end_turn()
        times.append((time.perf_counter() - now) * 1000)
    times.sort()
    print(json.dumps(Result(count / seconds, (time.process_time() - cpu) * 1e6 / count, times[count // 2], times[count * 99 // 100])))


def measure_puts(databases: Path, preload: Path | None, count: int, seconds: int) -> Result:
    environment = os.environ | ({} if preload is None else {"LD_PRELOAD": str(preload)})
    command = [sys.executable, "-m", "bench.instances", "--seconds", str(seconds), "--puts", str(databases)]
    children = [subprocess.Popen([*command, str(number)], env=environment, stdout=subprocess.PIPE) for number in range(count)]
    found = [Result(*json.loads(child.communicate()[0])) for child in children]
    rate = sum(each.rate for each in found)
    return Result(
        rate,
        sum(each.cpu * each.rate for each in found) / rate,
        statistics.fmean(each.p50 for each in found),
        max(each.p99 for each in found),
    )


def run(options: argparse.Namespace) -> None:
    """Prints the table."""
    parent = options.scratch if options.flush == "real" else Path("/dev/shm")
    scratch = Path(tempfile.mkdtemp(prefix="bench-instances-", dir=parent))
    try:
        databases = scratch / "databases"
        preload = None if options.flush == "real" else build_preload(scratch)
        fill_svc(databases, COUNT, 0)
        if is_wanted("bare puts", options):
            found = [[measure_puts(databases, preload, count, options.seconds) for count in (1, 2)] for _ in range(options.rounds)]
            print(_line("bare puts", list(zip(*found, strict=True))), flush=True)
        apart = [Instance(number, scratch, databases, preload) for number in range(2)]
        _measure_cases([apart[:1], apart], "", databases, scratch, options)
        one, two = (Together(count, scratch, databases, preload) for count in (1, 2))
        _measure_cases([[one], [two, two]], "; --instances", databases, scratch, options)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def is_wanted(name: str, options: argparse.Namespace) -> bool:
    return not options.rows or any(word in name for word in options.rows.split(","))


def _measure_cases(setups: Sequence[Sequence[Instance]], suffix: str, databases: Path, scratch: Path, options: argparse.Namespace) -> None:
    """`setups`: what one process does, and two. Each of the servers is running when it is measured; nothing else is."""
    for case in CASES:
        if not is_wanted(case.name + suffix, options):
            continue
        found: list[list[Result]] = [[], []]
        for round_ in range(options.rounds):
            for servers, results in zip(setups, found, strict=True):
                with started(servers), committing(databases) if case.is_beside else nullcontext():
                    results.append(measure(servers, case, scratch, options.seconds, round_))
        print(_line(case.name + suffix, found), flush=True)


@contextmanager
def started(servers: Sequence[Instance]) -> Iterator[None]:
    for server in set(servers):
        server.start()
    try:
        yield
    finally:
        for server in set(servers):
            server.stop()


def _median(results: Sequence[Result]) -> Result:
    return Result(*map(statistics.median, zip(*results, strict=True)))


def _line(name: str, found: Sequence[Sequence[Result]]) -> str:
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
    parser.add_argument("--puts", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.commit is not None:
        commit_for_ever(options.commit)
    if options.puts is not None:
        put_for_a_time(Path(options.puts[0]), options.seconds, int(options.puts[1]))
        return
    use_bytecode()
    warn_of_load()
    print(describe_machine())
    print("| requests/s · CPU µs · p50 ms · p99 ms | one | two | two / one | p99 two / one |\n| --- | ---: | ---: | ---: | ---: |")
    run(options)


if __name__ == "__main__":
    main()
