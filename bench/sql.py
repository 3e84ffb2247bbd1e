"""What statements cost, beside SQLite with the same rows in a file.

    python -m bench.sql [--rows point,count] [--rounds 5] [--seconds 0.2] [--without-server]

100,000 items of 8 attributes and 1,000 brands (`records.py`; here a category and a range of 20 prices hold exactly 20 items), in tables of svc and in a SQLite
file in WAL mode, with indexes of the same three attributes, and `ANALYZE`. Both are asked in this process, with the same texts and parameters: svc through
`SqlEngine`, SQLite through the module sqlite3. The figure is the CPU time of this process, helper threads included, for a statement with all its rows read;
shown is the smallest of the rounds, in which the two are measured in turn. The answers of both are compared before anything is measured. svc makes a dict of
each row, sqlite3 a tuple.

With a server, a process of its own on one core: the point look-up by `POST /sql` beside GET of the record, and what GETs wait beside endless statements.
Last, the memory of the connections to SQLite that the engine keeps, one for each set of rights.

Not included: writes, networks.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import os
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bench import records
from bench.machine import describe_machine, warn_of_build, warn_of_load
from bench.measure import Request, load, memory, write_requests
from bench.properties import LargeSvc, latency
from bench.report import table
from bench.servers import HERE, dump
from svc.apps.schema_files import load_schema_files
from svc.auth.roles import Role
from svc.auth.users import User
from svc.awaitables import is_waiting
from svc.store import Store
from svc.store.writing.bulk_write import load_records

ITEMS = 100_000
ROWS = 20  # of one category, and in one range of prices
CATEGORIES = ITEMS // ROWS
VARIETY = 20_000  # different values or texts of a row
SEEN = 100  # texts that are asked again and again: fewer than either side keeps
LONGEST = 10.0  # ms: a statement that takes longer is measured once a round
CONNECTIONS = 32
P99_LIMIT = 10.0  # ms
WARM_UP, FEW, MANY = 4, 36, 200  # sets of rights whose connections are measured

SQLITE_SCHEMA = """
CREATE TABLE Item (id TEXT PRIMARY KEY, name TEXT, category TEXT, price REAL, rank INTEGER, active INTEGER, brandId TEXT, description TEXT);
CREATE TABLE Brand (id TEXT PRIMARY KEY, name TEXT);
"""
SQLITE_INDEXES = """
CREATE INDEX by_category ON Item (category);
CREATE INDEX by_price ON Item (price);
CREATE INDEX by_rank ON Item (rank);
ANALYZE;
"""


def item(n: int) -> records.Record:
    return records.item(n) | {"category": category(n), "price": n * 31_337 % ITEMS + 0.5, "rank": n * 48_271 % ITEMS}


def category(n: int) -> str:
    return f"c{n * 7_919 % CATEGORIES:05}"


Statement = tuple[str, Sequence[Any]]


@dataclass(frozen=True)
class Row:
    """`make`: the n-th statement, with its parameters. `target`: at most so many times SQLite."""

    title: str
    target: float
    make: Callable[[int], Statement]


def _same(text: str) -> Callable[[int], Statement]:
    return lambda n: (text, ())


_POINT = "SELECT * FROM data.Item WHERE id = "
ROW_TABLE = {
    "point": Row("one row by key, as a parameter", 2, lambda n: (f"{_POINT}?", (records.item_id(n),))),
    "point-seen": Row("… in the text, which was seen before", 2, lambda n: (f"{_POINT}'{records.item_id(n % SEEN)}'", ())),
    "point-new": Row("… in the text, which is new", 2.5, lambda n: (f"{_POINT}'{records.item_id(n)}'", ())),
    "equality": Row("20 rows by an indexed attribute", 2, lambda n: ("SELECT * FROM data.Item WHERE category = ?", (category(n),))),
    "range": Row(
        "20 rows by a range of an indexed attribute",
        2,
        lambda n: ("SELECT * FROM data.Item WHERE price >= ? AND price < ?", (n % (ITEMS - ROWS), n % (ITEMS - ROWS) + ROWS)),
    ),
    "count": Row("`COUNT(*)` of the table", 1, _same("SELECT COUNT(*) FROM data.Item")),
    "max": Row("`MAX` of an indexed attribute", 1, _same("SELECT MAX(rank) FROM data.Item")),
    "min-max": Row("`MIN` and `MAX` of an indexed attribute", 1, _same("SELECT MIN(price), MAX(price) FROM data.Item")),
    "count-equality": Row(
        "count of an indexed equality", 1, lambda n: ("SELECT COUNT(*) FROM data.Item WHERE category = ?", (category(n),))
    ),
    "group-indexed": Row(
        "count for each value of an indexed attribute", 1, _same("SELECT category, COUNT(*) FROM data.Item GROUP BY category")
    ),
    "group": Row(
        "100,000 rows grouped by an attribute without index",
        4,
        _same("SELECT brandId, COUNT(*), SUM(price) FROM data.Item GROUP BY brandId"),
    ),
    "join": Row(
        "20 rows joined with another table",
        3,
        lambda n: (
            "SELECT i.id, i.name, i.price, b.name AS brand FROM data.Item i JOIN data.Brand b ON b.id = i.brandId WHERE i.category = ?",
            (category(n),),
        ),
    ),
    "join-all": Row(
        "100,000 rows joined with 1,000, grouped",
        3,
        _same("SELECT b.name, COUNT(*), SUM(i.price) FROM data.Item i JOIN data.Brand b ON b.id = i.brandId GROUP BY b.name"),
    ),
    "sums": Row("sums over 100,000 rows", 8, _same("SELECT SUM(price), AVG(rank), SUM(active) FROM data.Item")),
    "like": Row("100,000 texts searched", 8, _same("SELECT COUNT(*) FROM data.Item WHERE description LIKE '%wizards jump%'")),
}


# --- the two sides -----------------------------------------------------------------------------------------------------------------------


class Side(Protocol):
    def run(self, text: str, parameters: Sequence[Any]) -> list[Any]:
        """All rows of a statement."""

    def tuples(self, rows: list[Any]) -> list[tuple[Any, ...]]: ...

    def close(self) -> None: ...


class Sqlite:
    """The file is attached as `data`, so that both sides have the same texts."""

    def __init__(self, file: Path) -> None:
        with closing(sqlite3.connect(file)) as made:
            made.execute("PRAGMA journal_mode = WAL")
            made.executescript(SQLITE_SCHEMA)
            names = list(item(0))
            made.executemany(
                f"INSERT INTO Item ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})", map(_values, map(item, range(ITEMS)))
            )
            made.executemany("INSERT INTO Brand (id, name) VALUES (?, ?)", map(_values, records.iter_brands()))
            made.commit()
            made.executescript(SQLITE_INDEXES)
        self._connection = sqlite3.connect(":memory:")
        self._connection.execute("ATTACH ? AS data", (str(file),))

    def run(self, text: str, parameters: Sequence[Any]) -> list[Any]:
        return self._connection.execute(text, parameters).fetchall()

    def tuples(self, rows: list[Any]) -> list[tuple[Any, ...]]:
        return rows

    def close(self) -> None:
        self._connection.close()


def _values(record: records.Record) -> tuple[Any, ...]:
    return tuple(record.values())


class SvcTables:
    """The engine over the tables of a store, on an event loop of its own."""

    def __init__(self, root: Path) -> None:
        from svc.sql.engine import SqlEngine

        self._loop = asyncio.new_event_loop()
        self._executor = ThreadPoolExecutor(64)
        self._store = Store(root / "database")
        self._engine = SqlEngine(self._store, self._executor)

    def run(self, text: str, parameters: Sequence[Any], user: User | None = None) -> list[Any]:
        """`user` None: without a test of rights."""
        from svc.sql.engine import SqlCaller

        result = self._engine.run(text, parameters, SqlCaller(user, None, authorized=user is not None))
        if is_waiting(result):
            result = self._loop.run_until_complete(result)
        rows: list[Any] = result.found
        while not result.done:
            rows += self._loop.run_until_complete(result.more())
        result.close()
        self._store.end_turn()
        return rows

    def reader(self, number: int) -> User:
        """A user whose role may read some attributes of two tables: each number others."""
        bits = iter(f"{number:b}"[::-1].ljust(20, "0"))
        always = ("id", "price", "category", "brandId")
        tables = {"Brand": _permission([])}
        for name, attributes in (
            ("Item", ("name", "rank", "active", "description")),
            ("Created", ("name", "rank", "active", "description")),
        ):
            tables[name] = _permission([*always, *(each for each in attributes if next(bits) == "1")])
        return User(
            f"user{number}", role=Role(f"role{number}", f"role{number}", {"data": {"tables": tables}}, databases=self._store.databases)
        )

    def tuples(self, rows: list[Any]) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in rows]

    def close(self) -> None:
        self._engine.close()
        self._store.close()
        self._executor.shutdown()
        self._loop.close()


# --- in this process ---------------------------------------------------------------------------------------------------------------------


def compare(row: Row, sides: Sequence[Side], name: str) -> None:
    """Raises RuntimeError if the answers differ."""
    for n in (0, 1, ITEMS - 1):
        first, second = [sorted(map(_comparable, side.tuples(side.run(*row.make(n))))) for side in sides]
        if first != second or not first:
            raise RuntimeError(f"{name}: {first[:2]} is not {second[:2]}")


def _comparable(row: tuple[Any, ...]) -> tuple[str, ...]:
    """Sums of floats depend on the order of the rows."""
    return tuple([f"{float(value):.9g}" if isinstance(value, int | float) else str(value) for value in row])


def cost(side: Side, row: Row, numbers: Iterator[int], seconds: float) -> float:
    """Microseconds of CPU time for a statement."""
    statements = [row.make(next(numbers)) for _ in range(_repetitions(side, row, numbers, seconds))]
    began = time.process_time()
    for text, parameters in statements:
        side.run(text, parameters)
    return (time.process_time() - began) / len(statements) * 1e6


def _repetitions(side: Side, row: Row, numbers: Iterator[int], seconds: float) -> int:
    text, parameters = row.make(next(numbers))
    began = time.perf_counter()
    side.run(text, parameters)
    took = time.perf_counter() - began
    return 1 if took * 1000 > LONGEST else max(min(int(seconds / took), VARIETY // 4), 1)


def measure(sides: Sequence[Side], names: Sequence[str], rounds: int, seconds: float) -> dict[str, tuple[float, ...]]:
    """Row -> microseconds of each side, the smallest of the rounds."""
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in names}
    for name in names:
        compare(ROW_TABLE[name], sides, name)
    numbers = {name: [itertools.cycle(range(side, VARIETY, len(sides))) for side in range(len(sides))] for name in names}
    for _ in range(rounds):
        for name in names:
            found[name].append(tuple([cost(side, ROW_TABLE[name], each, seconds) for side, each in zip(sides, numbers[name], strict=True)]))
    return {name: tuple([min(values) for values in zip(*figures, strict=True)]) for name, figures in found.items()}


def cost_table(found: dict[str, tuple[float, ...]]) -> str:
    rows = []
    for name, (svc, sqlite) in found.items():
        target = ROW_TABLE[name].target
        ratio = svc / sqlite
        rows.append(
            [ROW_TABLE[name].title, _time(svc), _time(sqlite), f"{ratio:.2g}", f"{target:g}" + ("" if ratio <= target else " missed")]
        )
    return table(["CPU time of a statement", "svc", "sqlite3", "ratio", "target"], rows)


def _time(microseconds: float) -> str:
    return f"{microseconds:.1f} µs" if microseconds < 1000 else f"{microseconds / 1000:.1f} ms"


def connection_memory(svc: SvcTables) -> tuple[float, float]:
    """Bytes by which the process grows for each set of rights: of the first FEW, and of MANY more, when older ones have been dropped."""
    users = [svc.reader(number) for number in range(FEW + MANY)]
    text, parameters = ROW_TABLE["join"].make(0)
    text = text.replace("i.name, ", "")  # what all of them may read
    for user in users[:WARM_UP]:
        svc.run(text, parameters, user)
    sizes = [memory(os.getpid())[1]]
    for part in (users[WARM_UP:FEW], users[FEW:]):
        for user in part:
            svc.run(text, parameters, user)
        gc.collect()
        sizes.append(memory(os.getpid())[1])
    return (sizes[1] - sizes[0]) / (FEW - WARM_UP), (sizes[2] - sizes[1]) / MANY


def _permission(names: Sequence[str]) -> dict[str, Any]:
    """To read these attributes; without names all of them."""
    no = {"insert": False, "update": False}
    return {"read": True, **no, "delete": False, "attribute_permissions": [{"attribute_name": name, "read": True, **no} for name in names]}


# --- over HTTP ---------------------------------------------------------------------------------------------------------------------------


class SqlSvc(LargeSvc):
    name = "svc-sql"
    count = ITEMS

    def prepare(self) -> None:
        definitions = load_schema_files([("schema.graphql", (HERE / "app" / "schema.graphql").read_text())], {}).definitions
        with closing(Store(self.data / "root" / "database")) as store:
            tables = {each.name: store.open_database(each.database).define_table(each) for each in definitions}
            for name, source in (("Brand", records.iter_brands()), ("Item", map(item, range(ITEMS)))):
                for _ in load_records(tables[name], source):
                    pass

    def statement(self, text: str, parameters: Sequence[Any] = ()) -> Request:
        return Request("POST", "/sql", self.fields, dump({"sql": text, "parameters": list(parameters)}))


def endless(server: SqlSvc, text: str) -> Callable[[threading.Event], None]:
    def run(stop: threading.Event) -> None:
        while not stop.is_set():
            status, _, body = server.ask(server.statement(text))
            if status != 200:
                raise RuntimeError(f"{text}: {status} {body[:300]!r}")

    return run


def measure_server(server: SqlSvc, scratch: Path, rounds: int) -> Iterator[list[str]]:
    """Lines of a table: what was measured, and its figure."""
    asked = {
        "`GET /Item/ID`": server.requests()["get"],
        "`POST /sql`, the same record by a parameter": lambda n: server.statement(*ROW_TABLE["point"].make(n)),
    }
    costs: dict[str, list[float]] = {name: [] for name in asked}
    for number, make in enumerate(asked.values()):
        write_requests(scratch / f"requests-{number}", map(make, range(VARIETY)), "localhost")
    for _ in range(rounds):
        for number, name in enumerate(asked):
            sample = load(server.pid, server.port, scratch / f"requests-{number}", seconds=1, connections=CONNECTIONS)
            if sample.errors:
                raise RuntimeError(f"{name}: {sample.errors} errors")
            costs[name].append(sample.cpu)
    first = next(iter(costs.values()))
    for name, found in costs.items():
        ratio = statistics.median(each / base for each, base in zip(found, first, strict=True))
        yield [
            f"{name}, CPU time of the server",
            f"{statistics.median(found):.1f} µs" + (f", {ratio:.2f} times" if found is not first else ""),
        ]
    alone = latency(server, scratch)
    yield ["p99 (worst) of GET, 8 connections, alone", f"{alone.p99 / 1000:.2f} ({alone.worst / 1000:.0f}) ms"]
    for text in (
        ROW_TABLE["group"].make(0)[0],
        ROW_TABLE["join-all"].make(0)[0],
        "SELECT * FROM data.Item",
        "SELECT * FROM data.Item ORDER BY description",
    ):
        sample = latency(server, scratch, endless(server, text))
        yield [
            f"… beside `{text}` without end",
            f"{sample.p99 / 1000:.2f} ({sample.worst / 1000:.0f}) ms"
            + ("" if sample.p99 / 1000 <= P99_LIMIT else f", more than {P99_LIMIT:g}"),
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(ROW_TABLE))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--without-server", action="store_true")
    options = parser.parse_args()
    warn_of_build()
    warn_of_load()
    print(
        "; ".join(describe_machine().values())
        + f". SQLite {sqlite3.sqlite_version} in sqlite3; load {os.getloadavg()[0]:.1f} at the start.\n"
    )
    with tempfile.TemporaryDirectory(prefix="bench-sql-") as directory:
        scratch = Path(directory)
        server = SqlSvc(scratch)
        server.prepare()
        with closing(Sqlite(scratch / "rows.sqlite")) as sqlite, closing(SvcTables(server.data / "root")) as svc:
            first, later = connection_memory(svc)  # before there is memory that is free again
            print(cost_table(measure((svc, sqlite), options.rows.split(","), options.rounds, options.seconds)), flush=True)
            print(f"\nMemory for each set of rights: {first / 1024:.0f} KiB, of {MANY} more {later / 1024:.1f} KiB.", flush=True)
        if not options.without_server:
            server.start()
            try:
                print("\n" + table(["beside", "measured"], list(measure_server(server, scratch, options.rounds))))
            finally:
                server.stop()


if __name__ == "__main__":
    main()
