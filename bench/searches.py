"""What a search of the operations API costs in the process, beside what its plan, its run and the encoding of its rows cost alone.

400,000 records with 3 indexes (`records.py`), about 20 rows a search. `core`: plan, run and encode, with nodes that are there already. `call`: the
same from a decoded body, with all checks of an operation, fields and rights included. `other` bodies differ from search to search, so that nothing that
is remembered helps; `same` is one body again and again, for both. Not included: HTTP, login, decoding of the body. Prints the CPU time of the
fastest of some rounds in microseconds, and the ratios; core and call take turns, so that both meet the same conditions.

    python -m bench.searches [--store DIRECTORY] [--rounds 15] [row ...]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from bench import records
from bench.servers import fill_svc, price_of
from svc.auth.roles import Role
from svc.auth.users import User
from svc.clock import SYSTEM_CLOCK
from svc.operations.search_cache import SearchCache
from svc.operations.service import Operations
from svc.query import plan_query
from svc.query.execution import execute
from svc.query.nodes import Query
from svc.resources import PlannedQuery
from svc.store import Store
from svc.store.values.records import decode_json_many

SEARCHES = 300
MAX_ROWS = 128
encode_json = msgspec.json.Encoder().encode
Body = dict[str, Any]


def next_rows(rows: Any, max_rows: int) -> list[Any]:
    """The first rows of an execution that come together; [] if it has none."""
    found: list[Any] = []
    while not found and not rows.done:
        found = rows.step(max_rows)
    return found


def conditions(*leaves: tuple[Any, str, Any], **fields: Any) -> Body:
    found = [{"attribute": attribute, "comparator": comparator, "value": value} for attribute, comparator, value in leaves]
    return {"operation": "search_by_conditions", "database": "data", "table": "Item", "conditions": found, **fields}


ROWS: dict[str, Callable[[int], Body]] = {
    "equality": lambda n: conditions(("category", "equals", records.category(n))),
    "range": lambda n: conditions(("price", "gelt", [price_of(n), price_of(n) + records.ROWS])),
    "names": lambda n: conditions(("category", "equals", records.category(n)), get_attributes=["name", "price"]),
    "filter": lambda n: conditions(("category", "equals", records.category(n)), ("active", "equals", True)),
    "page": lambda n: conditions(("price", "ge", price_of(n)), sort={"attribute": "price"}, limit=20),
    "one row": lambda n: conditions(("price", "gelt", [price_of(n), price_of(n) + 1])),
    "by value": lambda n: {
        "operation": "search_by_value", "database": "data", "table": "Item", "attribute": "category", "value": records.category(n),
    },
    "by id": lambda n: {
        "operation": "search_by_id", "database": "data", "table": "Item", "ids": [records.item_id((n + i) % records.RECORDS) for i in range(20)],
    },
}  # fmt: skip


def answer(rows: PlannedQuery, txn: Any) -> bytes:
    run = execute(rows.plan, txn, json=True)
    batch = next_rows(run, MAX_ROWS)
    return encode_json(batch if rows.plan.is_shaped else decode_json_many(batch))


class Bench:
    def __init__(self, store: Store) -> None:
        self.table = store.databases["data"].tables["Item"]
        self.txn = self.table.database.snapshot()
        role = Role("super_user", "super_user", {"super_user": True}, databases=store.databases)
        self.user = User("admin", True, role)
        self.operations = Operations(SimpleNamespace(store=store, clock=SYSTEM_CLOCK, directory=None, searches=SearchCache()))  # type: ignore[arg-type]

    def call(self, body: Body) -> bytes:
        call = self.operations.prepare(body, self.user)
        return answer(self.operations.run(call), self.txn)

    def rows_of(self, body: Body) -> PlannedQuery:
        rows: PlannedQuery = self.operations.run(self.operations.prepare(body, self.user))
        return rows

    def core(self, query: Query) -> bytes:
        return answer(PlannedQuery(self.table, plan_query(query, self.table, self.txn, allow_full_scan=True)), self.txn)

    def run_alone(self, rows: PlannedQuery) -> bytes:
        """For searches by id, which have no plan to make."""
        rows.plan.compiled.clear()
        return answer(rows, self.txn)

    def measure(self, make: Callable[[int], Body], rounds: int) -> list[float]:
        bodies = [make(n * 7) for n in range(SEARCHES)]
        planned = [self.rows_of(body) for body in bodies]
        for body, rows in zip(bodies, planned, strict=True):
            assert self.call(body) == answer(rows, self.txn)
        queries = [rows.plan.query for rows in planned]
        by_id = bodies[0]["operation"] == "search_by_id"

        def core_of_others() -> None:
            for rows, query in zip(planned, queries, strict=True):
                if by_id:
                    self.run_alone(rows)
                else:
                    query.plans.clear()
                    self.core(query)

        def calls_of_others() -> None:
            self.operations.node.searches.clear()
            for body in bodies:
                self.call(body)

        def core_of_same() -> None:
            for _ in bodies:
                if by_id:
                    self.run_alone(planned[0])
                else:
                    self.core(queries[0])

        def calls_of_same() -> None:
            for _ in bodies:
                self.call(bodies[0])

        works = (core_of_others, calls_of_others, core_of_same, calls_of_same)
        best = [float("inf")] * len(works)
        for _ in range(rounds):
            for at, work in enumerate(works):
                start = time.process_time()
                work()
                best[at] = min(best[at], (time.process_time() - start) / SEARCHES * 1e6)
        return best


def main() -> int:
    parser = argparse.ArgumentParser(prog="searches", description="What a search of the operations API costs in the process.")
    parser.add_argument("names", nargs="*", metavar="ROW", help=f"of: {', '.join(ROWS)}")
    parser.add_argument("--store", type=Path, help="a directory for the records, which is kept")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        path = options.store or Path(temporary)
        if not (path / "data").exists():
            fill_svc(path, records.RECORDS, 0)
        store = Store(path)
        try:
            warm = store.databases["data"].tables["Item"].indexes["price"]
            warm.count(store.databases["data"].snapshot(), b"\x08", None)  # asks for its cache
            while store.caches.load(lambda: True):
                pass
            bench = Bench(store)
            print(f"{'us':12}{'core':>8}{'call':>8}{'ratio':>8}   {'core':>8}{'call':>8}{'ratio':>8}")
            print(f"{'':12}{'other':>24}   {'same':>24}")
            for name in options.names or ROWS:
                core, call, core_same, call_same = bench.measure(ROWS[name], options.rounds)
                print(
                    f"{name:12}{core:8.1f}{call:8.1f}{call / core:8.2f}   {core_same:8.1f}{call_same:8.1f}{call_same / core_same:8.2f}",
                    flush=True,
                )
        finally:
            store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
