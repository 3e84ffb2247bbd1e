"""Files of records brought into a store, without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from svc.apps.app import App
from svc.apps.data_entry import DataEntry, load_data
from svc.apps.entry import EntryContext, Runtime
from svc.apps.schema_files import load_schema_files
from svc.apps.status import EntryStatus
from svc.clock import FakeClock
from svc.loop import new_loop
from svc.query import QueryCache
from svc.resources import Resources
from svc.store import Store, Table
from svc.store.system import LOADER_TABLE, SYSTEM, ensure_system
from svc.store.values.records import decode
from svc.testing.loop import Pool


class Loading:
    """A store, and an application directory `app` with the files. `reports`: (level, text)."""

    def __init__(self, path: Path, schema: str = "") -> None:
        self.path = path
        self.directory = path / "app"
        self.directory.mkdir(parents=True, exist_ok=True)
        self.reports: list[tuple[str, str]] = []
        self.loop, turns = new_loop()
        self._executor = Pool()
        turns.end_turn = self._end_turn
        self._schema = schema
        self._open()

    def _open(self) -> None:
        self.store = Store(self.path / "store", clock=FakeClock(), make_helper=Pool)
        ensure_system(self.store)
        self.runtime = Runtime(
            self.store,
            Resources(),
            QueryCache(),
            self.loop,
            self.store.clock,
            self._executor,
            report=lambda application, level, text: self.reports.append((level, text)),
            patience=None,
        )
        if self._schema:
            self.define(self._schema)

    def define(self, schema: str) -> None:
        result = load_schema_files([("schema.graphql", schema)], {})
        assert not result.errors, result.errors
        for definition in result.definitions:
            self.store.open_database(definition.database).define_table(definition)

    def reopen(self) -> None:
        """The process ends, and another begins."""
        self.store.close()
        self._open()

    def _end_turn(self) -> bool:
        if self.store.has_pending:
            self.store.commit_turn()
        self.store.end_turn()
        return False

    def run(self, awaitable: Awaitable[Any]) -> Any:
        async def awaited() -> Any:
            return await awaitable

        return self.loop.run_until_complete(awaited())

    def write(self, name: str, content: Any) -> None:
        """A text, bytes, or what is written as JSON."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else (content if isinstance(content, str) else json.dumps(content)).encode())

    def entry(self, files: Any = None) -> DataEntry:
        options = {} if files is None else {"files": files}
        app = App("app", self.directory, runtime=self.runtime)
        entry = self.run(load_data(EntryContext(app, "dataLoader", options, EntryStatus("loading"), self.runtime)))
        assert isinstance(entry, DataEntry)
        return entry

    def load(self, files: Any = None) -> EntryStatus:
        """As at a start."""
        entry = self.entry(files)
        self.run(entry.start())
        return entry.context.status

    def faults(self, name: str, content: Any) -> list[str]:
        """What is said of a file alone."""
        self.write(name, content)
        status = self.load()
        (self.directory / name).unlink()
        assert (status.status == "error") == bool(status.messages)
        return status.messages

    def table(self, name: str = "T", database: str = "data") -> Table:
        return self.store.databases[database].tables[name]

    def records(self, name: str = "T", database: str = "data") -> dict[Any, dict[str, Any]]:
        table = self.table(name, database)
        found = {record[table.primary_key]: record for _, raw in table.scan(table.database.snapshot()) for record in [decode(raw)]}
        self.store.end_turn()
        return found

    def hashes(self) -> dict[str, dict[str, Any]]:
        return self.records(LOADER_TABLE, SYSTEM)

    def put(self, record: dict[str, Any], name: str = "T") -> None:
        """As a user."""
        transaction = self.store.begin("ann")
        transaction.put(self.table(name), record["id"], dict(record))
        self.store.commit_now(transaction)

    def delete(self, key: Any, name: str = "T") -> None:
        transaction = self.store.begin("ann")
        transaction.delete(self.table(name), key)
        self.store.commit_now(transaction)

    def versions(self, name: str = "T") -> int:
        """Grows with each write to the database."""
        return self.table(name).database.log.last_lsn

    def close(self) -> None:
        self.store.close()
        self._executor.shutdown()
        self.run(asyncio.sleep(0))
        self.loop.close()
