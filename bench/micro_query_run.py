"""What a query costs in the process, without a socket: parse, plan, run and encode.

400,000 records with 3 indexes (`records.py`), 20 rows a query. Every query is another one, so that no memory of queries or plans helps, but for
the last column, where one and the same query is sent again. Not included: HTTP, permissions, the snapshot of the turn. Prints the CPU time of the
fastest of some rounds, in microseconds.

    python -m bench.micro_query_run [--store DIRECTORY] [--rounds 7] [row ...]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from bench import records
from bench.servers import fill_svc, price_of
from svc.query import QueryCache, parse_query, plan_query
from svc.query.execution import execute
from svc.store import Store
from svc.store.values.records import decode_json_many

QUERIES = 500
MAX_ROWS = 128
encode_json = msgspec.json.Encoder().encode

ROWS: dict[str, Callable[[int], str]] = {
    "equality": lambda n: f"category=={records.category(n)}",
    "range": lambda n: f"price=ge={price_of(n)}&lt={price_of(n) + records.ROWS}",
    "sort": lambda n: f"category=={records.category(n)}&sort(rank)",
    "join": lambda n: f"category=={records.category(n)}&select(name,price,brand{{name}})",
    "select": lambda n: f"category=={records.category(n)}&select(name,price)",
    "filter": lambda n: f"category=={records.category(n)}&active==true",
    "two indexes": lambda n: f"category=={records.category(n)}&price=gt={price_of(n)}",
    "page": lambda n: f"price=ge={price_of(n)}&sort(price)&limit(20)",
    "count": lambda n: f"category=={records.category(n)}&count()",
}


def next_rows(rows: Any, max_rows: int) -> list[Any]:
    """The first rows of an execution that come together; [] if it has none."""
    found: list[Any] = []
    while not found and not rows.done:
        found = rows.step(max_rows)
    return found


def answer(query: Any, table: Any, txn: Any) -> bytes:
    plan = plan_query(query, table, txn, allow_full_scan=False)
    rows = execute(plan, txn, json=True)
    batch = next_rows(rows, MAX_ROWS)
    if query.select is None and getattr(query, "aggregate", None) is None:
        return encode_json(decode_json_many(batch))
    return encode_json(batch)


def measure(table: Any, txn: Any, name: str, rounds: int) -> list[float]:
    texts = [ROWS[name](n * 7) for n in range(QUERIES)]
    declared = table.attributes.__contains__
    queries = [parse_query(text, declared) for text in texts]
    cache = QueryCache()
    plans = [plan_query(query, table, txn, allow_full_scan=False) for query in queries]
    found = [next_rows(execute(plan, txn, json=True), MAX_ROWS) for plan in plans]
    if not any(found):
        raise ValueError("no rows: the store was filled by another version of records.py")
    plain = queries[0].select is None and getattr(queries[0], "aggregate", None) is None

    def parse() -> None:
        for text in texts:
            parse_query(text, declared)

    def plan() -> None:
        for query in queries:
            query.plans.clear()
            plan_query(query, table, txn, allow_full_scan=False)

    def run() -> None:
        for made in plans:
            made.compiled = {}
            next_rows(execute(made, txn, json=True), MAX_ROWS)

    def encode() -> None:
        for batch in found:
            encode_json(decode_json_many(batch) if plain else batch)

    def everything() -> None:
        for text in texts:
            answer(parse_query(text, declared), table, txn)

    def again() -> None:
        for _ in texts:
            answer(cache.parse(texts[0], table), table, txn)

    return [per_query(work, rounds) for work in (parse, plan, run, encode, everything, again)]


def per_query(work: Callable[[], None], rounds: int) -> float:
    work()
    taken = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        taken.append((time.process_time() - start) / QUERIES)
    return min(taken) * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(prog="micro_query_run", description="What a query costs in the process.")
    parser.add_argument("names", nargs="*", metavar="ROW", help=f"of: {', '.join(ROWS)}")
    parser.add_argument("--store", type=Path, help="a directory for the records, which is kept")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        path = options.store or Path(temporary)
        if not (path / "data").exists():
            fill_svc(path, records.RECORDS, 0)
        store = Store(path)
        try:
            table = store.databases["data"].tables["Item"]
            txn = table.database.snapshot()
            warm = table.indexes["price"]
            warm.count(txn, b"\x08", None)  # asks for its cache
            while store.caches.load(lambda: True):
                pass
            txn = table.database.snapshot()
            print(f"{'us':12}{'parse':>8}{'plan':>8}{'run':>8}{'encode':>8}{'all':>8}{'again':>8}")
            for name in options.names or ROWS:
                try:
                    figures = measure(table, txn, name, options.rounds)
                except Exception as error:
                    print(f"{name:12}{error}")
                    continue
                print(f"{name:12}" + "".join(f"{figure:8.1f}" for figure in figures), flush=True)
        finally:
            store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
