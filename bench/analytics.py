"""What analytics costs: CPU time of the server process per GET with it and without, and how long the roll-up of a second holds the loop.

    python -m bench.analytics [--rounds 10] [--seconds 2] [--samples 50000]

(1) Two real server processes with the same 1,000 records, one with `analytics.aggregatePeriod` -1, and wrk with 32 connections that stay open; each round
measures both, in alternating order. Shown are medians, and the median of the ratios within the rounds. Each run has the roll-ups of its seconds.

(2) In this process, on a store in a temporary directory: a second with so many samples is closed, written, and a minute later aggregated. Measured is the
processor time of each call that the event loop makes for it (`tick` and `work`, the turn's commit not included); shown are the longest ones and the sum.
Garbage collection is on, with the settings of the server.

Not included: networks, TLS, several connections' worth of different paths.
"""

from __future__ import annotations

import argparse
import gc
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import records
from bench.machine import warn_of_load
from bench.measure import load, write_requests
from bench.servers import HERE, Svc
from svc.analytics import Analytics, AnalyticsSettings, Recorder
from svc.analytics.collector import TICK_BUDGET
from svc.clock import FakeClock
from svc.server.garbage import GROWTH
from svc.store import Store
from svc.store.system import ensure_system

COUNT = 1_000  # records
CONNECTIONS = 32


class AnalyticsSvc(Svc):
    """svc with 1,000 records. `period`: `analytics.aggregatePeriod` in seconds."""

    def __init__(self, data: Path, name: str, period: int) -> None:
        self.name = name
        super().__init__(data)
        self._period = period

    def environment(self) -> dict[str, str]:
        return super().environment() | {"ANALYTICS_AGGREGATEPERIOD": str(self._period)}

    def command(self) -> list[str]:
        return [sys.executable, "-m", "svc", "run", str(self.data / "app")]

    def prepare(self) -> None:
        (self.data / "app").mkdir(parents=True)
        shutil.copy(HERE / "app" / "schema.graphql", self.data / "app")
        (self.data / "app" / "config.yaml").write_text("rest: true\ngraphqlSchema: {files: '*.graphql'}\n")
        self.start()
        self.fill("Brand", records.iter_brands())
        self.fill("Item", records.iter_items(COUNT))


def measure_requests(directory: Path, rounds: int, seconds: int) -> tuple[float, float, float]:
    """CPU time per GET in microseconds without analytics and with it, and the ratio."""
    servers = [AnalyticsSvc(directory, "off", -1), AnalyticsSvc(directory, "on", 60)]
    files = [directory / f"requests-{server.name}" for server in servers]
    samples: list[list[float]] = [[], []]
    try:
        for server, file in zip(servers, files, strict=True):
            server.prepare()
            write_requests(file, [server.get(f"/Item/{records.item_id(n)}") for n in range(COUNT)], f"127.0.0.1:{server.port}")
            load(server.pid, server.port, file, seconds=1, connections=CONNECTIONS)
        for number in range(rounds):
            for index in (0, 1) if number % 2 else (1, 0):
                server = servers[index]
                sample = load(server.pid, server.port, files[index], seconds=seconds, connections=CONNECTIONS)
                if sample.errors:
                    raise RuntimeError(f"{server.name}: {sample.errors} requests failed")
                samples[index].append(sample.cpu)
    finally:
        for server in servers:
            server.stop()
    off, on = samples
    return statistics.median(off), statistics.median(on), statistics.median(b / a for a, b in zip(off, on, strict=True))


@dataclass
class Hold:
    """How long calls have held the loop, in seconds of processor time."""

    longest: float = 0.0
    total: float = 0.0
    calls: int = 0

    def call(self, function: Callable[[], bool]) -> bool:
        began = time.thread_time()
        result = function()
        took = time.thread_time() - began
        self.longest = max(self.longest, took)
        self.total += took
        self.calls += 1
        return result

    def __str__(self) -> str:
        return f"{self.longest * 1000:.2f} ms | {self.total * 1000:.0f} ms | {self.calls}"


class RollUpClock(FakeClock):
    """Time of day by hand, but a `monotonic` that runs, for budgets."""

    def __init__(self) -> None:
        super().__init__()
        self._ahead = 0.0
        self.monotonic = lambda: time.perf_counter() + self._ahead

    def advance(self, seconds: float) -> None:
        self._wall += seconds
        self._ahead += seconds


def record_requests(recorder: Recorder, samples: int, paths: int) -> None:
    draw = random.Random(1)
    for number in range(samples // 3):  # of a request come three numbers
        recorder.request_done(f"Resource{number % paths}", "GET", draw.expovariate(1), 200, draw.randrange(10_000), draw.random())


def record_groups(recorder: Recorder, samples: int, groups: int) -> None:
    draw = random.Random(1)
    for number in range(samples):
        recorder.record(draw.random(), "time", f"path{number % groups}")


SECONDS: dict[str, Callable[[Recorder, int], None]] = {
    "one group of all samples": lambda recorder, samples: record_groups(recorder, samples, 1),
    "requests to one resource": lambda recorder, samples: record_requests(recorder, samples, 1),
    "requests to 100 resources": lambda recorder, samples: record_requests(recorder, samples, 100),
    "10,000 groups": lambda recorder, samples: record_groups(recorder, samples, 9_990),
}


def measure_roll_up(directory: Path, record: Callable[[Recorder, int], None], samples: int) -> tuple[Hold, Hold]:
    """Of the second itself, and of its aggregation."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GROWTH, 10, 10)
    clock = RollUpClock()
    store = Store(directory, clock=clock)
    try:
        ensure_system(store)
        analytics = Analytics(store, AnalyticsSettings(storage_interval=0), clock=clock)
        record(analytics.recorder, samples)
        second, aggregation = Hold(), Hold()
        for passes, hold in ((1, second), (64, aggregation)):
            for _ in range(passes):
                clock.advance(1)
                more = hold.call(lambda: analytics.tick(0.0, 0.0))
                store.commit_turn()
                while more:
                    more = hold.call(lambda: analytics.work(TICK_BUDGET))
                    store.commit_turn()
        return second, aggregation
    finally:
        store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--only", choices=("requests", "roll-up"))
    options = parser.parse_args()
    warn_of_load()
    with tempfile.TemporaryDirectory(prefix="bench-analytics-") as directory:
        if options.only != "roll-up":
            off, on, ratio = measure_requests(Path(directory), options.rounds, options.seconds)
            print("| GET of a record | CPU time | ratio |\n| --- | ---: | ---: |")
            print(f"| without analytics | {off:.1f} µs | |\n| with analytics | {on:.1f} µs | {ratio:.3f} |\n")
        if options.only != "requests":
            print(f"| A second with {options.samples:,} samples | longest hold | sum | calls | aggregation: longest hold | sum | calls |")
            print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
            for number, (name, record) in enumerate(SECONDS.items()):
                second, aggregation = measure_roll_up(Path(directory) / f"store{number}", record, options.samples)
                print(f"| {name} | {second} | {aggregation} |")


if __name__ == "__main__":
    main()
