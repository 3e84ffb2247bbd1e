"""A server under test: how it is filled, started, asked and stopped. Here the floor and svc; the servers of others are in `peers/`."""

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
from contextlib import closing
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
    durability: ClassVar[str] = "–"  # of a write that was answered
    core = SERVER_CORE

    def __init__(self, data: Path) -> None:
        self.data = data / self.name
        self.port = free_port()
        self.set_password(secrets.token_urlsafe(12))
        self.process: subprocess.Popen[bytes] | None = None
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def set_password(self, password: str) -> None:
        """Of USER; before `prepare()`."""
        self.password = password
        credentials = base64.b64encode(f"{USER}:{password}".encode()).decode()
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
                preexec_fn=on_core(self.core),
            )
        self.await_port(self.port)

    def await_port(self, port: int) -> None:
        """Returns when the running server takes connections there."""
        deadline = time.monotonic() + START_LIMIT
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                if self.process is None or self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{self.name} did not start, see {self.data.parent / self.name}.log") from None
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
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            return self._ask(connection, request)

    def tag(self, target: str) -> str:
        """The ETag of a resource; asked over a connection that stays open."""
        try:
            _, fields, _ = self._ask(self._connection, self.get(target))
        except (http.client.HTTPException, OSError):  # the server closed it, as it had been idle
            self._connection.close()
            _, fields, _ = self._ask(self._connection, self.get(target))
        return fields["etag"]

    @staticmethod
    def _ask(connection: http.client.HTTPConnection, request: Request) -> tuple[int, dict[str, str], bytes]:
        fields = dict(request.fields) | ({"Content-Type": "application/json"} if request.body else {})
        connection.request(request.method, request.target, request.body or None, fields)
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()

    def must(self, method: str, target: str, body: Any, status: int, fields: tuple[tuple[str, str], ...] | None = None) -> bytes:
        """The body of the answer, which has this status; any other ends the run."""
        found, _, answer = self.ask(Request(method, target, self.fields if fields is None else fields, dump(body)))
        if found != status:
            raise RuntimeError(f"{self.name}: {method} {target}: {found} {answer[:300]!r}")
        return answer

    def get(self, target: str, **fields: str) -> Request:
        """`fields` replace and extend those that every request has."""
        return Request("GET", target, tuple((dict(self.fields) | fields).items()))

    def write(self, method: str, target: str, body: Any, status: int) -> Request:
        return Request(method, target, self.fields, dump(body) if body is not None else b"", status)


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
    durability = "flushed"
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
            """Asks for the record, to know its tag."""
            target = f"/Item/{records.item_id(n)}"
            return Request("GET", target, (*self.fields, ("If-None-Match", self.tag(target))), expect=304)

        def equals(n: int) -> str:
            return f"/Item/?category=={records.category(n)}"

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
            "put": lambda n: self.write("PUT", f"/Item/{records.change(n)['id']}", records.change(n), 204),
            "post": lambda n: self.write("POST", "/Created/", without_id(records.item(n)), 201),
            "delete": lambda n: self.write("DELETE", f"/Spare/{records.item_id(n)}", None, 204),
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


def insert_items(database: sqlite3.Connection, table: str, count: int) -> None:
    """For the servers on SQLite."""
    columns = list(records.item(0))
    statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(':' + c for c in columns)})"
    database.executemany(statement, records.iter_items(count))


def price_of(n: int) -> int:
    """The lower end of a range that holds exactly ROWS prices."""
    return n % (records.RECORDS - records.ROWS)


def without_id(record: records.Record) -> records.Record:
    return {name: value for name, value in record.items() if name != "id"}
