"""A node that is asked everything twice: with what is prepared, and without."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from svc.auth.passwords import hash_password
from svc.prepared.kept import Candidate
from svc.store.entity_tags import etag_of
from svc.store.system import ROLE_TABLE, SYSTEM, USER_TABLE
from tests.support.node import APP, Node, Wire

PASSWORD = "a password"
KEYS = ["k1", "k-2", "K_3"]
"""Of the records that are there at first, in the tables Product, Brand, Doc, Strict."""

TAG = '"THE TAG"'
"""In fields: the entity tag of the record that is asked for, if there is one."""


class Beside:
    """A node and two connections to it. `hits`: answers of what is prepared."""

    unprepared = 2
    """Times that something is asked for until it is prepared."""

    def __init__(self, path: Path, app: Path = APP) -> None:
        self.node = Node(path, app, local=False)
        self.hits = 0
        self._count_hits()
        for name, permission in (
            ("root", {"super_user": True}),
            (
                "reader",
                {"data": {"tables": {table: self.reads() for table in ("Product", "Brand", "Counter", "Strict", "Fleeting", "Doc")}}},
            ),
            ("few", {"data": {"tables": {"Product": self.reads("id", "name")}}}),
            ("nobody", {}),
        ):
            self.put(ROLE_TABLE, name, {"role": name, "permission": permission}, SYSTEM)
            hashed = {"password": hash_password(PASSWORD, "sha256"), "hash_function": "sha256"}
            self.put(USER_TABLE, name, {"role": name, "active": True, **hashed}, SYSTEM)
        for table in ("Product", "Brand", "Doc", "Strict"):
            for key in KEYS:
                self.put(table, key, {"name": f"{table} {key}"} if table != "Strict" else {"size": 1})
        self.wires: list[Wire] = []
        self.connect()

    def _count_hits(self) -> None:
        answer = self.node.prepared.answer

        def counted(*args: Any) -> bool:
            found = answer(*args)
            self.hits += found
            return found

        self.node.prepared.answer = counted  # type: ignore[method-assign]

    @property
    def prepared_count(self) -> int:
        """How many places of records something is prepared for."""
        return sum([not isinstance(each.read, Candidate) for each in self.node.prepared.reads.values()])

    @staticmethod
    def reads(*names: str) -> dict[str, Any]:
        no = {"insert": False, "update": False}
        return {
            "read": True,
            **no,
            "delete": False,
            "attribute_permissions": [{"attribute_name": name, "read": True, **no} for name in names],
        }

    def connect(self) -> None:
        self.wires = [self.node.connect(), self.node.connect()]

    def put(self, table: str, key: Any, record: dict[str, Any] | None, database: str = "data", **options: Any) -> None:
        store = self.node.store
        found = store.databases[database].tables[table]
        transaction = store.begin()
        if record is None:
            transaction.delete(found, key)
        else:
            transaction.put(found, key, {found.primary_key: key, **record}, **options)
        transaction.apply()
        self.node.settle()

    def _tag(self, path: str) -> str:
        table, _, key = path[1:].partition("/")
        found = self.node.store.databases["data"].tables.get(table)
        raw = None if found is None or not key or found.definition.attribute(found.primary_key).type != "ID" else found.get_raw(key)
        return '"AAAAAAAAAAA"' if raw is None else f'"{etag_of(raw)}"'

    def get(self, path: str, fields: dict[str, str]) -> bytes:
        """The answer; the same from both paths."""
        lines = [f"GET {path} HTTP/1.1", "Host: a.example", *[f"{name}: {value}" for name, value in fields.items()]]
        lines = [line.replace(TAG, self._tag(path)) for line in lines]
        data = "\r\n".join(lines).encode() + b"\r\n\r\n"
        if any(wire.connection.closed for wire in self.wires):
            self.connect()
        fast, slow = self.wires
        answers = []
        for wire, prepared in ((slow, None), (fast, self.node.prepared), (slow, None)):  # the first time, pages of errors are made
            if wire.connection.closed:
                break
            wire.sock.sent = b""
            self.node.connections.prepared = prepared
            self.began()
            answers.append(wire.send(data))
            self.ended()
        if not all(answers):  # wrong logins have to wait
            assert not any(answer.startswith(b"HTTP/1.1 200") for answer in answers), data
            self.node.pass_time(60)
            self.connect()
            return b""
        assert answers[1] == answers[-1], data
        assert [wire.connection.closed for wire in self.wires] in ([True, True], [False, False])
        return answers[0]

    def began(self) -> None:
        """Called before each of these requests,"""

    def ended(self) -> None:
        """and behind it."""

    def close(self) -> None:
        self.node.connections.prepared = self.node.prepared
        self.node.close()


def authorization(user: str | None) -> dict[str, str]:
    return {} if user is None else {"Authorization": "Basic " + base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()}
