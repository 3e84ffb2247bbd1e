"""Datasette, for reads: its JSON API over the tables of a SQLite file."""

from __future__ import annotations

import sqlite3
import sys

from bench import records
from bench.servers import Maker, Server, insert_items, price_of, program

SCHEMA = """
CREATE TABLE brand (id TEXT PRIMARY KEY, name TEXT);
CREATE TABLE item (
    id TEXT PRIMARY KEY, name TEXT, category TEXT, price REAL, rank INTEGER, active INTEGER, brandId TEXT REFERENCES brand (id), description TEXT
);
CREATE INDEX item_category ON item (category);
CREATE INDEX item_price ON item (price);
CREATE INDEX item_rank ON item (rank);
"""


class Datasette(Server):
    name = "datasette"
    package = "datasette"

    @classmethod
    def available(cls) -> bool:
        return program("datasette") is not None

    def prepare(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(self.data / "items.db")
        database.executescript(SCHEMA)
        with database:
            database.executemany("INSERT INTO brand (id, name) VALUES (:id, :name)", records.iter_brands())
            insert_items(database, "item", records.RECORDS)
        database.close()

    def command(self) -> list[str]:
        options = ["--port", str(self.port), "--setting", "suggest_facets", "off", "--setting", "default_page_size", str(records.ROWS)]
        return [sys.executable, "-m", "datasette", "serve", "items.db", *options]

    def requests(self) -> dict[str, Maker]:
        # Without the counts and facets of its pages, which a client of the API has no use for.
        rows = "/items/item.json?_shape=array&_nocount=1&_nofacet=1"

        def equals(n: int) -> str:
            return f"category={records.category(n)}"

        return {
            "get": lambda n: self.get(f"/items/item/{records.item_id(n)}.json?_shape=array"),
            "equality": lambda n: self.get(f"{rows}&{equals(n)}"),
            "range": lambda n: self.get(f"{rows}&price__gte={price_of(n)}&price__lt={price_of(n) + records.ROWS}"),
            "sort": lambda n: self.get(f"{rows}&{equals(n)}&_sort=rank"),
            "join": lambda n: self.get(f"{rows}&{equals(n)}&_col=name&_col=price&_col=brandId&_labels=on"),
            "count": lambda n: self.get(f"/items/item.json?{equals(n)}&_size=0&_col=id&_nofacet=1"),
        }
