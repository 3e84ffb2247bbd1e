"""One statement, asked by a user who may not read all, of stores that differ in what that user may not read only.

    "one", "other"   the same tables; other values of the attributes that are hidden, other records of the tables that are
    "without"        these attributes and tables do not exist

Whatever the user asks, all three have to answer the same (spec: sql §6).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from svc.auth.users import User
from svc.errors import Problem
from svc.sql.engine import SqlEngine
from svc.sql.options import DEFAULT_OPTIONS, SqlOptions
from svc.store.schema import TableDefinition
from svc.store.values.records import decode
from tests.support.sql_engine import SqlStore

Records = Mapping[str, Sequence[Mapping[str, Any]]]


def told(problem: Problem) -> str:
    """All that an answer may be made of."""
    parts = (type(problem).__name__, problem.status_code, problem.code, problem.message, problem.faults)
    return repr((*parts, *[getattr(problem, name, None) for name in ("position", "missing", "is_hidden", "budget")]))


class Twins:
    """`hidden`: table -> attributes that the user has no right on, `...` for a table without any. `unread`: those that may be written only."""

    def __init__(
        self,
        path: Path,
        definitions: Sequence[TableDefinition],
        hidden: Mapping[str, Any],
        permissions: Mapping[str, Any],
        options: SqlOptions = DEFAULT_OPTIONS,
    ) -> None:
        self._hidden = hidden
        self._options = options
        known = [
            _without(definition, hidden.get(definition.name, ())) for definition in definitions if hidden.get(definition.name) is not ...
        ]
        self.stores = {name: SqlStore(path / name, definitions) for name in ("one", "other")} | {
            "without": SqlStore(path / "without", known)
        }
        self._permissions = dict(permissions)
        self.users: dict[str, User] = {name: store.user(self._permissions) for name, store in self.stores.items()}
        self._records: dict[str, Records] = {}

    def fill(self, one: Records, other: Records) -> None:
        """`without` has what `one` has of what may be known."""
        known = {
            table: [{name: value for name, value in record.items() if name not in self._hidden.get(table, ())} for record in records]
            for table, records in one.items()
            if self._hidden.get(table) is not ...
        }
        self._records = {"one": one, "other": other, "without": known}
        self.restore()

    def restore(self) -> None:
        """What `fill` has written, and nothing else. What engines have kept for the records as they were is forgotten: it may not be the same."""
        for name, records in self._records.items():
            store = self.stores[name]
            store.engine.close()
            store.engine = SqlEngine(store.store, store.executor, self._options)
            transaction = store.store.begin()
            for table in store.tables.values():
                for stored in list(table.scan(table.database.snapshot())):
                    transaction.delete_stored(table, *stored)
            transaction.apply()
            store.end_turn()
            for table_name, rows in records.items():
                table = store.tables[table_name]
                store.put(table_name, [table.validator.record(dict(row), source="json") for row in rows])

    def ask(self, text: str, parameters: Any = None, **options: Any) -> Any:
        """The answer, or the Problem: the same of all."""
        found = self.answers(text, parameters, **options)
        shown = {name: told(answer) if isinstance(answer, Problem) else repr(answer) for name, answer in found.items()}
        assert shown["one"] == shown["other"] == shown["without"], f"{text}\n{shown}"
        known = {name: self._known(name) for name in self.stores}
        assert known["one"] == known["other"] == known["without"], f"{text}\n{known}"
        return found["one"]

    def answers(self, text: str, parameters: Any = None, **options: Any) -> dict[str, Any]:
        """The answer of each, or its Problem."""
        return {name: self._answer(name, text, parameters, options) for name in self.stores}

    def _answer(self, name: str, text: str, parameters: Any, options: Mapping[str, Any]) -> Any:
        try:
            return self.stores[name].ask(text, parameters, self.users[name], **options)
        except Problem as problem:
            return problem

    def _known(self, name: str) -> dict[str, list[dict[str, Any]]]:
        """The records as far as they are the same at first."""
        found = {}
        store = self.stores[name]
        for table in store.tables.values():
            if self._hidden.get(table.name) is not ...:
                may = self.users[name].role.rights("data", table.name)  # type: ignore[union-attr]
                records = [decode(raw) for _, raw in table.scan(table.database.snapshot())]
                found[table.name] = [{key: value for key, value in record.items() if may.attribute(key).read} for record in records]
        store.store.end_turn()
        return found

    def close(self) -> None:
        for store in self.stores.values():
            store.close()


def _without(definition: TableDefinition, hidden: Sequence[str]) -> TableDefinition:
    attributes = tuple([attribute for attribute in definition.attributes if attribute.name not in hidden])
    return replace(definition, attributes=attributes)


@contextmanager
def twins_of(*arguments: Any) -> Iterator[Twins]:
    """`Twins`, closed at the end."""
    made = Twins(*arguments)
    try:
        yield made
    finally:
        made.close()
