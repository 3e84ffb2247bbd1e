"""FastAPI with SQLModel on SQLite: runs `fastapi_app.py` under uvicorn."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

from bench import records
from bench.servers import USER, Maker, Server, insert_items, price_of, program, without_id

HERE = Path(__file__).parent


class FastApi(Server):
    name = "fastapi"
    package = "fastapi sqlmodel uvicorn[standard]"

    durability = "flushed"

    @classmethod
    def available(cls) -> bool:
        return program("uvicorn") is not None

    def command(self) -> list[str]:
        options = ["--app-dir", str(HERE), "--port", str(self.port), "--no-access-log", "--log-level", "warning"]
        return [sys.executable, "-m", "uvicorn", *options, "fastapi_app:app"]

    def environment(self) -> dict[str, str]:
        return {"BENCH_DATABASE": str(self.data / "items.db"), "BENCH_USER": USER, "BENCH_PASSWORD": self.password}

    def prepare(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        create = "import fastapi_app as a; a.SQLModel.metadata.create_all(a.engine)"
        environment = os.environ | self.environment() | {"PYTHONPATH": str(HERE)}
        subprocess.run([sys.executable, "-c", create], env=environment, check=True)
        database = sqlite3.connect(self.data / "items.db")
        with database:
            database.executemany("INSERT INTO brand (id, name) VALUES (:id, :name)", records.iter_brands())
            insert_items(database, "item", records.RECORDS)
            insert_items(database, "spare", records.SPARES)
        database.close()

    def requests(self) -> dict[str, Maker]:
        return {
            "get": lambda n: self.get(f"/item/{records.item_id(n)}"),
            "equality": lambda n: self.get(f"/item?category={records.category(n)}"),
            "range": lambda n: self.get(f"/item?price_from={price_of(n)}&price_below={price_of(n) + records.ROWS}"),
            "sort": lambda n: self.get(f"/item?category={records.category(n)}&sort=rank"),
            "join": lambda n: self.get(f"/joined?category={records.category(n)}"),
            "count": lambda n: self.get(f"/count?category={records.category(n)}"),
            "put": lambda n: self.write("PUT", f"/item/{records.change(n)['id']}", records.change(n), 204),
            "post": lambda n: self.write("POST", "/created", without_id(records.item(n)), 201),
            "delete": lambda n: self.write("DELETE", f"/spare/{records.item_id(n)}", None, 204),
        }
