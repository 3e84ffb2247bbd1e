"""Two nodes that are asked the same: one with what is prepared for writes, and one without. Their answers, records, logs and events are compared."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from svc.auth.passwords import hash_password
from svc.connection.http1 import ConnectionState, Http1Connection
from svc.prepared.kept import Candidate
from svc.resources import Resource, table_resource
from svc.store import Database, LogEntry, Table
from svc.store.schema import TableDefinition
from svc.store.system import ROLE_TABLE, SYSTEM, USER_TABLE
from svc.store.values.records import decode, expiry_of, lsn_of, version_of
from tests.support.node import Node, Wire
from tests.support.prepared_reads import PASSWORD, authorization

RIGHTS = ("read", "insert", "update", "delete")
USERS = {
    "root": None,
    "writer": RIGHTS,
    "inserter": ("read", "insert"),
    "eraser": ("delete",),
    "few": RIGHTS,  # of some attributes
    "nobody": (),
}  # fmt: skip
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_TAG = re.compile(r'ETag: "[^"]*"')


@cache
def _hashed() -> str:
    return hash_password(PASSWORD)


def request(method: str, path: str, body: Any = None, user: str | None = "root", fields: dict[str, str] | None = None) -> bytes:
    """`body`: bytes as they are, anything else as JSON; None: there is none."""
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: a.example"]
    if body is not None:
        lines += [f"Content-Length: {len(content)}"]
        if "Content-Type" not in (fields or {}):
            lines += ["Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in {**authorization(user), **(fields or {})}.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


class Twin:
    """One of the two. `hits`: writes that were queued."""

    def __init__(self, path: Path, *, is_prepared: bool) -> None:
        self.node = node = Node(path, local=False)
        self.database: Database = node.store.databases["data"]
        self.hits = 0
        self.wires: list[Wire] = []
        self.heard: list[LogEntry] = []
        self._names: dict[str, str] = {}
        answer = node.prepared.writes.answer

        def counted(*args: Any) -> bool:
            found = answer(*args)
            self.hits += found
            return found

        node.prepared.writes.answer = counted  # type: ignore[method-assign]
        if not is_prepared:
            node.dispatcher.prepared = node.connections.prepared = None
        self.database.on_commit.append(lambda database, entries: self.heard.extend(entries))
        for name in USERS:
            self.set_role(name, USERS[name])
            self.put_system(USER_TABLE, name, {"role": name, "active": True, "password": _hashed(), "hash_function": "argon2id"})

    def put_system(self, table: str, key: str, record: dict[str, Any]) -> None:
        found = self.node.store.databases[SYSTEM].tables[table]
        transaction = self.node.store.begin()
        transaction.put(found, key, {found.primary_key: key, **record})
        transaction.apply()
        self.node.settle()

    def set_role(self, name: str, rights: Sequence[str] | None) -> None:
        """None: of a super user."""
        permission: dict[str, Any] = {"super_user": True}
        if rights is not None:
            given = {right: right in rights for right in RIGHTS}
            named = (
                [{"attribute_name": each, "read": True, "insert": True, "update": True} for each in ("id", "name")] if name == "few" else []
            )
            tables = {table: {**given, "attribute_permissions": named} for table in self.database.tables}
            permission = {"data": {"tables": tables}}
        self.put_system(ROLE_TABLE, name, {"role": name, "permission": permission})

    def define(self, definition: TableDefinition) -> None:
        """Define a table, and give it an address, with its name."""
        self.serve(self.database.define_table(definition))

    def serve(self, table: Table, resource: Callable[[type[Resource]], type[Resource]] = lambda made: made) -> None:
        made = table_resource(table, self.node.store, self.node.interface.queries, realtime=self.node.realtime)
        self.node.resources.set(table.name, resource(made))

    def wire(self, number: int) -> Wire:
        while len(self.wires) <= number:
            self.wires.append(self.node.connect())
        wire = self.wires[number]
        assert isinstance(wire.connection, Http1Connection)
        if wire.connection.state is ConnectionState.LINGERING:
            wire.send(b"")
        if wire.connection.closed:
            wire = self.wires[number] = self.node.connect()
        return wire

    def ask(self, requests: Sequence[bytes]) -> list[bytes]:
        """The answers to requests that arrive in one turn, each on a connection of its own."""
        wires = [self.wire(number) for number in range(len(requests))]
        for wire, data in zip(wires, requests, strict=True):
            wire.sock.sent = b""
            wire.arrive(data)
        self.node.settle()
        return [self.plain(wire.sock.sent.decode("latin-1")).encode("latin-1") for wire in wires]

    def plain(self, text: str) -> str:
        """Without what differs between two stores: new keys, and versions."""
        text = _UUID.sub(lambda found: self._names.setdefault(found[0], f"key-{len(self._names)}"), text)
        return _TAG.sub("ETag", text)

    def plain_value(self, value: Any) -> Any:
        return self.plain(repr(value))

    def records(self) -> dict[str, Any]:
        """Of each table, the records in the order of their keys as they were made, with what is in their headers."""
        self.database.check()
        snapshot = self.database.snapshot()
        found: dict[str, Any] = {}
        for table in self.database.tables.values():
            rows = []
            for stored, raw in snapshot.cursor(table.primary).iternext():
                entry = self.database.log.get(snapshot, lsn_of(raw))
                assert entry is not None and entry.version == version_of(raw) and entry.key == stored
                record = decode(raw)
                for name in table.stamps:
                    record[name] = type(record.get(name)).__name__
                rows.append(self.plain_value((record, expiry_of(raw))))
            found[table.name] = sorted(rows)
        self.node.store.end_turn()
        return found

    def history(self) -> dict[str, list[Any]]:
        """Of each record, its entries in the log."""
        found: dict[str, list[Any]] = {}
        versions = []
        for entry in self.database.log.read(self.database.snapshot()):
            versions.append(entry.version)
            name = self.plain_value((entry.table, entry.id))
            found.setdefault(name, []).append(self._shown(entry))
        assert versions == sorted(versions)
        self.node.store.end_turn()
        return found

    def take_heard(self) -> list[Any]:
        heard, self.heard = self.heard, []
        assert [entry.lsn for entry in heard] == sorted({entry.lsn for entry in heard})
        return sorted(map(self._shown, heard))

    def _shown(self, entry: LogEntry) -> str:
        stamps = self.database.tables[entry.table].stamps if entry.table in self.database.tables else ()
        values = [None if raw is None else decode(raw) for raw in (entry.value, entry.image)]
        for value in values:
            for name in stamps:
                if value is not None and name in value:
                    value[name] = ""
        shown = (entry.lsn - entry.transaction, entry.table, entry.id, entry.kind, entry.user, entry.operation, entry.changed, *values)
        return str(self.plain_value(shown))


class Twins:
    """`prepared` and `general` are asked the same. Until they are closed all is prepared at once."""

    def __init__(self, path: Path) -> None:
        self._were_prepared_at_once = Candidate.prepares_at_once
        Candidate.prepares_at_once = True
        self.prepared = Twin(path / "prepared", is_prepared=True)
        self.general = Twin(path / "general", is_prepared=False)
        self.both = (self.prepared, self.general)

    @property
    def hits(self) -> int:
        return self.prepared.hits

    def change(self, what: Callable[[Twin], object]) -> None:
        for twin in self.both:
            what(twin)
            twin.node.settle()

    def ask(self, *requests: bytes) -> list[bytes]:
        """The same answers from both, and the same events. No two of them may be about one record: those of one turn have no order among each other."""
        answers = [twin.ask(requests) for twin in self.both]
        assert answers[0] == answers[1], requests
        heard = [twin.take_heard() for twin in self.both]
        assert heard[0] == heard[1], requests
        return answers[0]

    def compare(self) -> None:
        """Assert that both have the same records, indexes that agree with them, and logs."""
        assert self.prepared.records() == self.general.records()
        assert self.prepared.history() == self.general.history()
        assert not self.prepared.node.errors and not self.general.node.errors

    def close(self) -> None:
        Candidate.prepares_at_once = self._were_prepared_at_once
        for twin in self.both:
            twin.node.close()
