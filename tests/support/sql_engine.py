"""An engine over the tables of a store, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from svc.auth.roles import Role
from svc.auth.users import User
from svc.awaitables import is_waiting
from svc.clock import Clock
from svc.sql.engine import SqlCaller, SqlEngine, SqlRows
from svc.sql.options import DEFAULT_OPTIONS, SqlOptions
from svc.store import Store, Table
from svc.store.schema import TableDefinition


class Context:
    """What a write waits with."""

    trace_id = None

    def __init__(self) -> None:
        self.pending_commit: Any = None


class SqlStore:
    """Tables and who asks for them. Every turn ends with the statement, or when it waits for something."""

    def __init__(
        self, path: Path, definitions: Sequence[TableDefinition], options: SqlOptions = DEFAULT_OPTIONS, clock: Clock | None = None
    ) -> None:
        self.store = Store(path) if clock is None else Store(path, clock=clock)
        self.tables: dict[str, Table] = {}
        for definition in definitions:
            self.tables[definition.name] = self.store.open_database(definition.database).define_table(definition)
        self.executor = ThreadPoolExecutor(8)
        self.engine = SqlEngine(self.store, self.executor, options)

    def put(self, table: str, records: Iterable[dict[str, Any]]) -> None:
        found = self.tables[table]
        transaction = self.store.begin()
        for record in records:
            transaction.put(found, record[found.primary_key], dict(record))
        transaction.apply()
        self.end_turn()

    def end_turn(self) -> None:
        self.store.commit_turn()
        self.store.end_turn()

    def user(self, tables: dict[str, Any], database: str = "data") -> User:
        """With a role that has these permissions on tables."""
        role = Role("r", "r", {database: {"tables": tables}}, databases=self.store.databases)
        return User("anna", role=role)

    def caller(self, user: User | None = None, **options: Any) -> SqlCaller:
        """Code that may everything, or a user."""
        return SqlCaller(user, Context(), authorized=user is not None, **options)

    def ask(self, text: str, parameters: Any = None, user: User | None = None, **options: Any) -> Any:
        """All rows as lists of values, or the body of the answer."""
        return asyncio.run(self.answer(text, parameters, self.caller(user, **options)))

    async def answer(self, text: str, parameters: Any, caller: SqlCaller, *, named: bool = False) -> Any:
        """`named`: rows as they are, by the names of their columns."""
        turns = asyncio.ensure_future(self._end_turns())
        try:
            found = self.engine.run(text, parameters, caller)
            if is_waiting(found):
                found = await found
            if not isinstance(found, SqlRows):
                return found
            rows = list(found.found)
            while not found.done:
                rows += await found.more()
            return rows if named else [list(row.values()) for row in rows]
        finally:
            turns.cancel()
            self.end_turn()

    async def _end_turns(self) -> None:
        """While a statement waits, turns end, as in a server: on a busy machine any statement may take longer than one."""
        while True:
            await asyncio.sleep(0.001)
            self.end_turn()

    def close(self) -> None:
        self.engine.close()
        self.executor.shutdown()
        self.store.close()


ALL = {"read": True, "insert": True, "update": True, "delete": True, "attribute_permissions": []}


def reads(*attributes: str) -> dict[str, Any]:
    """The permission to read a table, or these attributes of it."""
    no = {"insert": False, "update": False}
    listed = [{"attribute_name": name, "read": True, **no} for name in attributes]
    return {"read": True, **no, "delete": False, "attribute_permissions": listed}
