"""The same records in the tables of a store and in SQLite, and an engine that is asked about them."""

from __future__ import annotations

import asyncio
import inspect
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw
from hypothesis import strategies as st

from svc.sql.engine import SqlCaller, SqlEngine
from svc.store import Store
from svc.store.values.records import iso_text, to_ms
from tests.support.sql_statements import DEFINITIONS, TABLES

TEXTS = st.sampled_from([None, "", "a", "B", "ab", "Ab", "zz", "10", "ä"])
NUMBERS = st.sampled_from([None, 0, 1, 2, -1, 3, 10, 1900, 2000])
FRACTIONS = st.sampled_from([None, 0.5, -0.25, 1.5, 2.25, 10.75])
FLAGS = st.sampled_from([None, True, False])
DATES = st.sampled_from([None, "2020-01-01T00:00:00.000Z", "2020-12-31T23:59:59.999Z", "1999-12-31T23:59:59.999Z"])
LISTS = st.sampled_from([None, [], ["a"], ["a", "B"]])
ANY = st.sampled_from([None, 0, 1, 2.5, -1, True, False, "a", "10", "", "B", [1], {"a": 1}])

KINDS = {
    "Author": {"id": None, "name": TEXTS, "born": NUMBERS, "rating": FRACTIONS, "active": FLAGS},
    "Book": {
        "id": None,
        "title": TEXTS,
        "author": st.sampled_from([None, "k0", "k1", "k2", "nobody"]),
        "year": NUMBERS,
        "price": FRACTIONS,
        "published": DATES,
        "tags": LISTS,
    },
    "Loose": {"id": None, "a": ANY, "b": ANY},
}


def column_value(value: Any) -> Any:
    """What a column of SQLite has for it (spec: sql §3)."""
    if isinstance(value, (list, dict)):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if isinstance(value, datetime):
        return iso_text(to_ms(value))
    return int(value) if isinstance(value, bool) else value


class Pair:
    """The same records in a store and in SQLite."""

    def __init__(self, path: Path) -> None:
        self.store = Store(path)
        self.tables = {definition.name: self.store.open_database("data").define_table(definition) for definition in DEFINITIONS}
        self.executor = ThreadPoolExecutor(2)
        self.engine = SqlEngine(self.store, self.executor)
        self.sqlite = apsw.Connection(":memory:")
        self.sqlite.execute("ATTACH ':memory:' AS data")
        for table in TABLES:
            columns = ", ".join([f'"{name}" {affinity}' for name, affinity in table.affinity.items()])
            self.sqlite.execute(f"CREATE TABLE data.{table.name} ({columns})")

    def fill(self, records: dict[str, list[dict[str, Any]]]) -> None:
        transaction = self.store.begin()
        for name, rows in records.items():
            table = self.tables[name]
            for stored in list(table.scan(table.database.snapshot())):
                transaction.delete_stored(table, *stored)
            for row in rows:
                record = table.validator.record({key: value for key, value in row.items() if value is not None}, source="json")
                transaction.put(table, row["id"], record)
        transaction.apply()
        self.store.commit_turn()
        self.store.end_turn()
        for name, rows in records.items():
            self.sqlite.execute(f"DELETE FROM data.{name}")
            for row in rows:
                values = tuple(map(column_value, row.values()))
                self.sqlite.execute(f"INSERT INTO data.{name} ({', '.join(row)}) VALUES ({', '.join('?' * len(values))})", values)

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """Rows as SQLite would have them."""
        return [tuple(map(column_value, row.values())) for row in self.rows(statement)]

    def rows(self, statement: str) -> list[dict[str, Any]]:
        async def run() -> list[dict[str, Any]]:
            found = self.engine.run(statement, None, SqlCaller(user=None, authorized=False))
            if inspect.isawaitable(found):
                found = await found
            rows = list(found.found)
            while not found.done:
                rows += await found.more()
            return rows

        try:
            return asyncio.run(run())
        finally:
            self.store.end_turn()

    def close(self) -> None:
        self.engine.close()
        self.executor.shutdown()
        self.store.close()
        self.sqlite.close()


@st.composite
def data(draw: Any, tables: dict[str, dict[str, Any]] = KINDS) -> dict[str, list[dict[str, Any]]]:
    found = {}
    for name, kinds in tables.items():
        rows = []
        for number in range(draw(st.integers(0, 8))):
            row = {key: draw(kind) for key, kind in kinds.items() if kind is not None}
            rows.append({"id": number if name == "Book" else f"k{number}"} | row)
        found[name] = rows
    return found
