"""Half an hour of mixed load: do memory, descriptors and files of the database stay what they are, and requests as fast?

    pip install '.[test,bench]'
    python -m bench.soak [--minutes 30] [--instances 2] [--plot bench/soak.png]

A real `svc run`, asked by `bench.soak_load`: REST, GraphQL, SQL, MQTT, operations, imports that are deleted again, subscriptions that stay and that come and
go, reloads of an application, backups. Another process asks for a record and changes one, in turn, every 20 ms, and takes the times. Every SAMPLE_SECONDS it
is noted what memory each process has for itself, its descriptors and threads, what the databases take on the disk, and the times since the last note.

The log of the databases is kept for LOG_KEPT, so that it has its full length soon; what is compared is the second quarter of the run with the last. The plot
is made of the notes, which are written as JSON to bench/results/ too. With `--plot-only FILE` it is drawn again from these.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import multiprocessing
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from bench import records
from bench.machine import describe_machine, use_bytecode, warn_of_load
from bench.servers import HERE, Svc, free_port
from bench.soak_load import KEYS, Load

SAMPLE_SECONDS = 5.0
PROBE_PAUSE = 0.02  # seconds
LOG_KEPT = "2m"
MIB = 1 << 20


class Soaked(Svc):
    """Several instances with every port that has no certificate."""

    name = "svc-soak"
    instances = 2

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.operations_port = free_port()
        self.mqtt_port = free_port()

    def environment(self) -> dict[str, str]:
        return super().environment() | {
            "INSTANCES": str(self.instances),
            "OPERATIONSAPI_NETWORK_PORT": str(self.operations_port),
            "MQTT_NETWORK_PORT": str(self.mqtt_port),
            "LOGGING_AUDITRETENTION": LOG_KEPT,
        }

    def command(self) -> list[str]:
        return [sys.executable, "-m", "svc", "run", str(self.data / "app")]

    def prepare(self) -> None:
        shutil.copytree(HERE / "app", self.data / "app")
        (self.data / "app" / "config.yaml").write_text("rest: true\ngraphqlSchema: {files: schema.graphql}\ngraphql: true\n")
        self.start()
        self.fill("Brand", records.iter_brands())
        self.fill("Item", records.iter_items(KEYS))

    @property
    def database(self) -> Path:
        return self.data / "root" / "database"


@dataclass
class Sample:
    """At one time. Bytes; latencies in ms, of the requests since the sample before."""

    seconds: float
    parent: int  # private memory
    memory: dict[str, int] = field(default_factory=dict)  # process id of an instance -> private memory
    descriptors: dict[str, int] = field(default_factory=dict)
    threads: int = 0  # of all
    database: int = 0  # on the disk: `data`
    others: int = 0  # ... of all other databases
    get: tuple[float, float] = (0.0, 0.0)  # median, 99 %
    put: tuple[float, float] = (0.0, 0.0)
    done: dict[str, int] = field(default_factory=dict)  # kind of work -> steps since the start


def take_times(port: int, fields: dict[str, str], pipe: Connection) -> None:
    """In a process of its own: a GET and a PUT in turn over a connection that stays; whoever sends something gets the times of each since, in seconds."""
    times: tuple[list[float], list[float]] = ([], [])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    number = 0
    while True:
        if pipe.poll(PROBE_PAUSE):
            if pipe.recv() is None:
                return
            pipe.send(times)
            times = ([], [])
        key, is_put = KEYS + number % 1_000, number % 2
        body = json.dumps(records.item(key, number)) if is_put else None
        began = time.perf_counter()
        with contextlib.suppress(http.client.HTTPException, OSError):  # it is opened again
            connection.request("PUT" if is_put else "GET", f"/Item/{records.item_id(key if is_put else number % KEYS)}", body, fields)
            response = connection.getresponse()
            response.read()
            if response.status < 300:
                times[is_put].append(time.perf_counter() - began)
        number += 1


def note(server: Soaked, seconds: float, pipe: Connection, load: Load) -> Sample:
    parent = psutil.Process(server.pid)
    sample = Sample(round(seconds, 1), parent.memory_full_info().uss, done=dict(load.done))
    for process in parent.children():
        with contextlib.suppress(psutil.NoSuchProcess):  # a process of a deployment, which has ended
            if Path(f"/proc/{process.pid}/cmdline").read_bytes() == Path(f"/proc/{parent.pid}/cmdline").read_bytes():
                sample.memory[str(process.pid)] = process.memory_full_info().uss
                sample.descriptors[str(process.pid)] = process.num_fds()
                sample.threads += process.num_threads()
    for path in server.database.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            size = path.stat().st_blocks * 512
            if path.relative_to(server.database).parts[0] == "data":
                sample.database += size
            else:
                sample.others += size
    pipe.send("times")
    sample.get, sample.put = (percentiles(times) for times in pipe.recv())
    return sample


def percentiles(times: list[float]) -> tuple[float, float]:
    times = sorted(times)
    return (round(times[len(times) // 2] * 1000, 2), round(times[len(times) * 99 // 100] * 1000, 2)) if times else (0.0, 0.0)


async def soak(server: Soaked, minutes: float, pipe: Connection) -> tuple[list[Sample], Load]:
    load = Load(server, server.operations_port, server.mqtt_port)
    samples: list[Sample] = []
    work = asyncio.create_task(load.run())
    began = time.monotonic()
    while (seconds := time.monotonic() - began) < minutes * 60 and not work.done():
        await asyncio.sleep(SAMPLE_SECONDS)
        samples.append(await asyncio.to_thread(note, server, seconds + SAMPLE_SECONDS, pipe, load))
        if len(samples) % 12 == 0:
            print(f"{seconds / 60:.0f} min: {sum(load.done.values()):,} done, {load.failed.total()} failed", file=sys.stderr)
    work.cancel()
    await asyncio.wait([work])
    if not work.cancelled():
        work.result()
    return samples, load


def means(samples: list[Sample]) -> dict[str, float]:
    """Of a part of the run."""
    return {
        "private memory of an instance, MiB": statistics.fmean(statistics.fmean(s.memory.values()) for s in samples) / MIB,
        "private memory of the parent, MiB": statistics.fmean(s.parent for s in samples) / MIB,
        "descriptors of an instance": statistics.fmean(statistics.fmean(s.descriptors.values()) for s in samples),
        "threads of all": statistics.fmean(s.threads for s in samples),
        "database, MiB": statistics.fmean(s.database for s in samples) / MIB,
        "GET: median, ms": statistics.median(s.get[0] for s in samples),
        "GET: 99 %, ms": statistics.median(s.get[1] for s in samples),
        "PUT: median, ms": statistics.median(s.put[0] for s in samples),
        "PUT: 99 %, ms": statistics.median(s.put[1] for s in samples),
    }


def report(samples: list[Sample], failed: dict[str, int]) -> None:
    quarter = len(samples) // 4
    early, late = means(samples[quarter : 2 * quarter]), means(samples[-quarter:])
    print("| | second quarter | last quarter |\n|---|---:|---:|")
    for name, value in early.items():
        print(f"| {name} | {value:.1f} | {late[name]:.1f} |")
    print("\nDone: " + ", ".join(f"{name} {number:,}" for name, number in sorted(samples[-1].done.items())))
    for text, number in failed.items():
        print(f"failed {number} times: {text}")


def draw(samples: list[Sample], path: Path) -> None:
    """Write the plot as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    minutes = [sample.seconds / 60 for sample in samples]
    figure, ((memory, descriptors), (sizes, times)) = pyplot.subplots(2, 2, figsize=(11, 6.5), layout="constrained", sharex=True)
    for number, pid in enumerate(sorted({pid for sample in samples for pid in sample.memory})):
        seen = [(at, sample) for at, sample in zip(minutes, samples, strict=True) if pid in sample.memory]
        memory.plot([at for at, _ in seen], [sample.memory[pid] / MIB for _, sample in seen], label=f"instance {number}")
        descriptors.plot([at for at, _ in seen], [sample.descriptors[pid] for _, sample in seen], label=f"instance {number}")
    memory.plot(minutes, [sample.parent / MIB for sample in samples], label="parent")
    memory.set_title("private memory, MiB")
    descriptors.plot(minutes, [sample.threads for sample in samples], label="threads of all", color="#999999")
    descriptors.set_title("descriptors")
    sizes.plot(minutes, [sample.database / MIB for sample in samples], label="data")
    sizes.plot(minutes, [sample.others / MIB for sample in samples], label="system, analytics")
    sizes.set_title("databases on the disk, MiB")
    for name, colour in (("get", "#0072b2"), ("put", "#e69f00")):
        times.plot(minutes, [getattr(sample, name)[0] for sample in samples], label=f"{name.upper()}, median", color=colour)
        times.plot(
            minutes, [getattr(sample, name)[1] for sample in samples], label=f"{name.upper()}, 99 %", color=colour, linewidth=0.6, alpha=0.7
        )
    times.set_title("a request, ms")
    times.set_yscale("log")
    for axes in (memory, descriptors, sizes, times):
        axes.legend(fontsize=7)
        axes.grid(alpha=0.3)
        if axes is not times:
            axes.set_ylim(bottom=0)
    for axes in (sizes, times):
        axes.set_xlabel("minutes")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--instances", type=int, default=2)
    parser.add_argument("--plot", type=Path, default=HERE / "results" / "soak.png", metavar="PNG")
    parser.add_argument("--plot-only", type=Path, metavar="JSON")
    arguments = parser.parse_args()
    results = HERE / "results" / "soak.json"
    results.parent.mkdir(exist_ok=True)
    if arguments.plot_only is None:
        warn_of_load()
        use_bytecode()
        results.write_text(json.dumps(run(arguments.minutes, arguments.instances)))
    found: dict[str, Any] = json.loads((arguments.plot_only or results).read_text())
    samples = [Sample(**sample) for sample in found["samples"]]
    print(", ".join(found["machine"].values()) + "\n")
    report(samples, found["failed"])
    draw(samples, arguments.plot)


def run(minutes: float, instances: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="svc-bench-") as base:
        server = Soaked(Path(base))
        server.instances = instances
        server.prepare()
        ours, theirs = multiprocessing.Pipe()
        probe = multiprocessing.Process(target=take_times, args=(server.port, dict(server.fields), theirs), daemon=True)
        probe.start()
        try:
            samples, load = asyncio.run(soak(server, minutes, ours))
            ours.send(None)
            probe.join()
        finally:
            probe.kill()
            server.stop()
        log = (server.data / "root" / "log" / "svc.log").read_text()
        print(*(line for line in log.splitlines() if " [error]" in line), sep="\n", file=sys.stderr)
    return {"machine": describe_machine(), "samples": [asdict(sample) for sample in samples], "failed": dict(load.failed)}


if __name__ == "__main__":
    main()
