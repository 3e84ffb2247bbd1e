"""How long single writes wait beside a load in another process over the same databases.

    python -m bench.waits [--records 40000] [--flush real] [--rows CSV,delete]

Two servers as in `bench.instances`, each on a core. One loads or deletes many records; meanwhile a client puts one record after the other at the other server,
with a pause of 5 ms, and notes how long each takes. *Alone*: how long the first takes without these.

CSV into a new table, which is dynamic and so has an index of each attribute, leaves these out until its end; into one that has records it maintains them.
`delete_records_before` commits a thousand at a time. An array is one transaction, and cannot make way.
"""

from __future__ import annotations

import argparse
import csv
import http.client
import io
import json
import shutil
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from bench import records
from bench.instances import Instance, build_preload
from bench.machine import describe_machine, use_bytecode, warn_of_load
from bench.servers import fill_svc

COUNT = 40_000  # records that are there
PAUSE = 0.005  # seconds between two writes
POLL = 0.02  # seconds between two looks whether a job has ended


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=600)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))


def operate(server: Instance, **body: Any) -> Any:
    """An operation at its socket."""
    with closing(_Unix(server.data / "root" / "operations-server")) as connection:
        connection.request("POST", "/", json.dumps(body), {**dict(server.fields), "Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
    if response.status != 200:
        raise RuntimeError(f"{body['operation']}: {answer}")
    return answer


def run_job(server: Instance, **body: Any) -> None:
    job = operate(server, **body)["job_id"]
    while (found := operate(server, operation="get_job", id=job)[0])["status"] not in ("COMPLETE", "ERROR"):
        time.sleep(POLL)
    if found["status"] == "ERROR":
        raise RuntimeError(found["message"])


def rows_of(first: int, count: int) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records.item(0)))
    writer.writeheader()
    # In no order: each record is somewhere else in the table and in its indexes.
    writer.writerows(records.item(first + n * 7_919 % count) for n in range(count))
    return text.getvalue()


Works = dict[str, Callable[[int], None]]


def works(server: Instance, count: int) -> Works:
    """What it does, by name; each is called with 0 and 1, for other records."""

    def load(table: str, first: int) -> None:
        run_job(server, operation="csv_data_load", action="upsert", table=table, data=rows_of(first, count))

    def load_new(n: int) -> None:
        operate(server, operation="create_table", table=f"New{n}", primary_key="id")
        load(f"New{n}", 0)

    def array(n: int) -> None:
        server.must("PUT", "/Item/", [records.item(3 * count + n * count + i) for i in range(count)], 204)

    return {
        "CSV into a new table": load_new,
        "CSV into 40,000 records": lambda n: load("Item", COUNT + n * count),
        "delete_records_before": lambda n: run_job(server, operation="delete_records_before", table=f"New{n}", date="2100-01-01T00:00:00Z"),
        "an array, atomic": array,
    }


def waits_beside(other: Instance, work: Callable[[], None]) -> tuple[float, list[float]]:
    """(seconds that the work takes, seconds that each write at `other` takes meanwhile)."""
    waits: list[float] = []
    ended = threading.Event()

    def write() -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", other.port, timeout=600)) as connection:
            n = 0
            while not ended.wait(PAUSE):
                n += 1
                request = other.write("PUT", f"/Spare/{records.item_id(n % 1000)}", records.item(n % 1000, n), 204)
                start = time.perf_counter()
                status = other._ask(connection, request)[0]
                waits.append(time.perf_counter() - start)
                if status not in (201, 204):
                    raise RuntimeError(f"PUT: {status}")

    thread = threading.Thread(target=write)
    thread.start()
    start = time.perf_counter()
    try:
        work()
    finally:
        seconds = time.perf_counter() - start
        ended.set()
        thread.join()
    return seconds, waits


def measure(servers: list[Instance], count: int, words: str) -> Iterator[str]:
    for name, work in works(servers[0], count).items():
        if words and not any(word in name for word in words.split(",")):
            continue
        start = time.perf_counter()
        work(0)
        alone = time.perf_counter() - start
        seconds, waits = waits_beside(servers[1], lambda: work(1))  # noqa: B023
        cuts = statistics.quantiles(waits, n=100)
        ms = " · ".join(f"{value * 1000:.0f}" for value in (cuts[49], cuts[98], max(waits)))
        yield f"| {name} | {len(waits):,} | {ms} | {seconds:.1f} | {alone:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=40_000)
    parser.add_argument("--flush", choices=("pause", "real"), default="pause")
    parser.add_argument("--rows", default="", help="words of the names of rows, with commas between")
    options = parser.parse_args()
    use_bytecode()
    warn_of_load()
    print(describe_machine())
    scratch = Path(tempfile.mkdtemp(prefix="bench-waits-", dir=None if options.flush == "real" else "/dev/shm"))
    try:
        fill_svc(scratch / "databases", COUNT, 1000)
        preload = None if options.flush == "real" else build_preload(scratch)
        servers = [Instance(number, scratch, scratch / "databases", preload) for number in range(2)]
        try:
            for server in servers:
                server.start()
            print("| beside | writes | p50 · p99 · max ms | s | alone, s |\n| --- | ---: | ---: | ---: | ---: |")
            for line in measure(servers, options.records, options.rows):
                print(line, flush=True)
        finally:
            for server in servers:
                server.stop()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
