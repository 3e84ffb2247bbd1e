"""Operations beside what the store alone takes: loads, searches, and short requests while a load runs.

    python -m bench.operations [--rounds 3]

The server is a process of its own on one core, asked over HTTP from another. *Store alone* is the same work done in a process without a server: the
records are there as objects, and go through `Transaction` or `load_records` to the disk, into a copy of the same databases. Both are CPU time, in turns,
so the ratio holds on a busy machine. What making the requests costs is not part of either.
"""

from __future__ import annotations

import argparse
import base64
import csv
import io
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from bench import records
from bench.measure import SERVER_CORE, Request, cpu_seconds, load, on_core, write_requests
from bench.properties import LargeSvc, latency
from bench.servers import HERE, REPOSITORY, USER, dump, free_port, without_id

BATCH = 1_000
BATCHES = 30  # inserts of BATCH records in a round
CSV_ROWS = 100_000
SEARCHES = 20_000

ALONE = """
import json, time
from bench import records, servers
from pathlib import Path
from svc.store.writing.bulk_write import load_records
from svc.apps.schema_files import load_schema_files
from svc.store import Store
definitions = load_schema_files([("schema.graphql", Path({schema!r}).read_text())], {{}}).definitions
store = Store(Path({path!r}))
tables = {{d.name: store.open_database(d.database).define_table(d) for d in definitions}}
table = tables["Created"]
rows = [servers.without_id(records.item(n)) for n in range({count})]
began = time.process_time()
if {way!r} == "transactions":
    for first in range(0, len(rows), {batch}):
        transaction = store.begin("bench")
        for row in rows[first : first + {batch}]:
            transaction.insert(table, None, table.validator.record(row))
        transaction.apply()
        store.commit_turn()
else:
    for _ in load_records(table, rows):
        pass
print(json.dumps(time.process_time() - began))
store.close()
"""


class OperationsSvc(LargeSvc):
    """The server with its operations port open."""

    name = "svc-operations"

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.count = records.RECORDS
        self.operations_port = free_port()
        self.credentials = "Basic " + base64.b64encode(f"{USER}:{self.password}".encode()).decode()

    def environment(self) -> dict[str, str]:
        return super().environment() | {"OPERATIONSAPI_NETWORK_PORT": str(self.operations_port)}

    def operate(self, operation: str, **fields: Any) -> Any:
        """The 200 body; anything else ends the run."""
        rest, self.port = self.port, self.operations_port
        try:
            status, _, body = self.ask(Request("POST", "/", self.fields, dump({"operation": operation, **fields})))
        finally:
            self.port = rest
        if status != 200:
            raise RuntimeError(f"{operation}: {status} {body[:300]!r}")
        return json.loads(body)

    def wait_for(self, job_id: str) -> dict[str, Any]:
        while True:
            (job,) = self.operate("get_job", id=job_id)
            if job["status"] == "COMPLETE":
                return dict(job)
            if job["status"] == "ERROR":
                raise RuntimeError(f"{job}")
            time.sleep(0.1)


def alone(path: Path, way: str, count: int) -> float:
    """CPU seconds that the store takes for `count` records in a fresh process."""
    code = ALONE.format(
        schema=str(HERE / "app" / "schema.graphql"),
        path=str(path),
        way=way,
        count=count,
        batch=BATCH,
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY, preexec_fn=on_core(SERVER_CORE)
    )
    return float(json.loads(done.stdout))


def fresh(template: Path, target: Path) -> None:
    """Put the databases back as they were: what a table holds already, and pages that earlier work left free, change the cost of a commit."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(template, target)


def csv_text(first: int, count: int) -> str:
    """Rows as CSV, all of them new records."""
    out = io.StringIO()
    rows = [without_id(records.item(n)) for n in range(first, first + count)]
    writer = csv.DictWriter(out, fieldnames=list(rows[0]))
    writer.writeheader()
    for row in rows:
        writer.writerow({name: json.dumps(value) if isinstance(value, list | dict) else value for name, value in row.items()})
    return out.getvalue()


def inserts(server: OperationsSvc) -> tuple[float, float]:
    """(CPU seconds, wall seconds) for BATCHES requests of BATCH records."""
    bodies = [
        dump(
            {"operation": "insert", "table": "Created", "records": [without_id(records.item(n)) for n in range(k * BATCH, (k + 1) * BATCH)]}
        )
        for k in range(BATCHES)
    ]
    rest, server.port = server.port, server.operations_port
    try:
        cpu, start = cpu_seconds(server.pid), time.perf_counter()
        for body in bodies:
            status, _, answer = server.ask(Request("POST", "/", server.fields, body))
            assert status == 200, answer[:300]
        return cpu_seconds(server.pid) - cpu, time.perf_counter() - start
    finally:
        server.port = rest


def csv_load(server: OperationsSvc) -> tuple[float, float, dict[str, Any]]:
    text = csv_text(0, CSV_ROWS)
    cpu, start = cpu_seconds(server.pid), time.perf_counter()
    job = server.wait_for(server.operate("csv_data_load", table="Created", data=text)["job_id"])
    return cpu_seconds(server.pid) - cpu, time.perf_counter() - start, job


def searches(server: OperationsSvc, scratch: Path) -> tuple[float, float]:
    """CPU microseconds per request: `search_by_conditions` and the same query over REST, 20 rows each."""

    def operation(n: int) -> Request:
        conditions = [{"attribute": "category", "comparator": "equals", "value": records.category(n)}]
        body = {"operation": "search_by_conditions", "table": "Item", "conditions": conditions}
        return Request("POST", "/", server.fields, dump(body))

    file = scratch / "searches"
    write_requests(file, [operation(n) for n in range(SEARCHES)], "localhost")
    by_operation = load(server.pid, server.operations_port, file, seconds=2, connections=32)
    write_requests(file, [server.requests()["equality"](n) for n in range(SEARCHES)], "localhost")
    by_rest = load(server.pid, server.port, file, seconds=2, connections=32)
    assert not by_operation.errors and not by_rest.errors
    return by_operation.cpu, by_rest.cpu


def beside_load(server: OperationsSvc, scratch: Path) -> tuple[float, float, list[float]]:
    """p99 of GET in microseconds, alone and while CSV loads run one after the other; seconds of each load."""
    text = csv_text(0, CSV_ROWS)
    took: list[float] = []

    def run(stop: threading.Event) -> None:
        while not stop.is_set():
            start = time.perf_counter()
            server.wait_for(server.operate("csv_data_load", table="Created", data=text)["job_id"])
            took.append(time.perf_counter() - start)

    quiet = latency(server, scratch)
    busy = latency(server, scratch, run)
    return quiet.p99, busy.p99, took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds: int = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        server = OperationsSvc(scratch)
        server.prepare()
        server.start()  # makes the system database, without which a later start refuses the root
        server.stop()
        database = server.data / "root" / "database"
        template = scratch / "template"
        shutil.copytree(database, template)
        found: dict[str, list[float]] = {
            name: [] for name in ("insert", "insert alone", "csv", "csv alone", "csv wall", "insert wall", "search", "rest")
        }
        for number in range(rounds):
            for name, way, count in (("insert", "transactions", BATCH * BATCHES), ("csv", "load", CSV_ROWS)):
                fresh(template, scratch / "alone")
                found[f"{name} alone"].append(alone(scratch / "alone", way, count))
            fresh(template, database)
            server.start()
            try:
                cpu, wall = inserts(server)
                found["insert"].append(cpu)
                found["insert wall"].append(wall)
                server.stop()
                fresh(template, database)
                server.start()
                cpu, wall, job = csv_load(server)
                print(f"round {number + 1}: {job['message']}", file=sys.stderr)
                found["csv"].append(cpu)
                found["csv wall"].append(wall)
                by_operation, by_rest = searches(server, scratch)
                found["search"].append(by_operation)
                found["rest"].append(by_rest)
                if number == rounds - 1:
                    quiet, busy, took = beside_load(server, scratch)
            finally:
                server.stop()
        report({name: statistics.median(values) for name, values in found.items()}, quiet, busy, took)


def report(middle: dict[str, float], quiet: float, busy: float, took: list[float]) -> None:
    """Print a line per figure."""
    count = BATCH * BATCHES

    def cost(name: str, records_: int) -> str:
        alone_us, us = middle[f"{name} alone"] / records_ * 1e6, middle[name] / records_ * 1e6
        return f"{us:.1f} us CPU a record, {records_ / middle[f'{name} wall']:,.0f} records/s; store alone {alone_us:.1f} us: {us / alone_us:.2f} times"

    print(f"insert, {BATCH:,} records a call: {cost('insert', count)}")
    print(f"csv_data_load of {CSV_ROWS:,} rows: {cost('csv', CSV_ROWS)}")
    search, rest = middle["search"], middle["rest"]
    print(f"search_by_conditions, 20 rows: {search:.0f} us CPU; the same over REST {rest:.0f}: {search / rest:.2f} times")
    seconds = ", ".join(f"{took_one:.1f}" for took_one in took)
    print(
        f"p99 of GET: {quiet / 1000:.2f} ms alone, {busy / 1000:.2f} ms beside CSV loads: {busy / quiet:.1f} times; a load took {seconds} s"
    )


if __name__ == "__main__":
    main()
