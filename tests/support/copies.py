"""Nodes in one process that hear of each other's transactions when a test says so, and copy each other's database."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from svc.clock import FakeClock
from svc.store import Store
from svc.store.copy_reader import CopyReader
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode, version_of
from svc.store.values.validation import Add
from svc.store.writing.copy_apply import CopyCheck, CopyHead, apply_copy
from svc.store.writing.remote_apply import apply_remote
from svc.store.writing.remote_transaction import Origin
from tests.support.remote import sent_since
from tests.unit.store.writing.test_long_write import Turns

ITEM = TableDefinition(
    "Item",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("n", "Int", indexed=True),
        Attribute("text", "String"),
        Attribute("b", "Blob"),
    ),
    primary_key="id",
)


class CopyNode:
    """`total`: of all increments that it has made, by key and for records that are never replaced."""

    def __init__(self, path: Path, name: str, clock: FakeClock, definition: TableDefinition = ITEM) -> None:
        self.name = name
        self.path = path / name
        self.clock = clock
        self.open()
        self.database.define_table(definition)

    def open(self) -> None:
        self.store = Store(self.path, node=self.name, clock=self.clock)
        self.turns = Turns(self.store)
        self.database = self.store.open_database("data")
        state = self.database.enable_replication()
        self.origin = Origin(self.name, state.incarnation(self.database.snapshot()))
        self.store.end_turn()

    def close(self) -> None:
        self.turns.loop.close()
        self.store.close()

    @property
    def table(self) -> Any:
        return self.database.tables["Item"]

    def write(self, *writes: Callable[[Any, Any], object]) -> None:
        transaction = self.store.begin()
        for write in writes:
            write(transaction, self.table)
        transaction.apply()
        self.store.commit_turn()
        self.store.end_turn()

    def put(self, key: str, **values: Any) -> None:
        self.write(lambda transaction, table: transaction.put(table, key, {"id": key, **values}))

    def patch(self, key: str, **values: Any) -> None:
        self.write(lambda transaction, table: transaction.patch(table, key, values))

    def add(self, key: str, number: int) -> None:
        self.patch(key, n=Add(number))

    def delete(self, key: str) -> None:
        self.write(lambda transaction, table: transaction.delete(table, key))

    def applied(self, other: CopyNode) -> int:
        assert self.database.replication is not None
        return self.database.replication.applied(self.database.snapshot(), other.origin)

    def hear(self, other: CopyNode) -> None:
        """Apply all that the other one has written."""
        sent = sent_since(other.database, self.applied(other))
        newest = other.database.log.newest_lsn(other.database.snapshot())
        other.store.end_turn()
        found = self.turns.finish(apply_remote(self.database, other.origin, sent, up_to=newest))
        assert found.refused is None, (found.refused, sent)

    def head(self, reader: CopyReader) -> CopyHead:
        state = self.database.replication
        assert state is not None
        txn = reader.txn
        return CopyHead(
            self.name,
            self.origin.incarnation,
            reader.newest,
            state.clock(txn)[1],
            [(each.node, each.incarnation, lsn) for each, lsn in state.all_applied(txn).items()],
            [],
            {"Item": b""},
            reader.size,
        )

    def pieces(self) -> tuple[CopyHead, list[bytes]]:
        reader = CopyReader(self.database, [self.table])
        try:
            return self.head(reader), [piece for piece in reader.pieces() if piece is not None]
        finally:
            reader.close()

    def take(self, head: CopyHead, pieces: list[bytes], name: bytes = b"1") -> None:
        check = CopyCheck()
        for piece in pieces:
            check.take(piece)
        assert check.is_complete
        self.turns.finish(self.taking(head, pieces, name))

    def taking(self, head: CopyHead, pieces: list[bytes], name: bytes = b"1", tell: Callable[[int], object] = lambda done: None) -> Any:
        return apply_copy(self.database, name, head, lambda number: pieces[number] if number < len(pieces) else None, tell=tell)

    def copy(self, other: CopyNode) -> None:
        self.take(*other.pieces())

    def records(self) -> dict[str, tuple[float, dict[str, Any]]]:
        txn = self.database.open_snapshot()
        try:
            return {decode(raw)["id"]: (version_of(raw), decode(raw)) for _, raw in self.table.scan(txn)}
        finally:
            txn.abort()

    def prune(self) -> None:
        """Its log forgets everything but the newest entry."""
        self.database.writer()
        child = self.database.env.child()
        self.database.log.prune(child, float("inf"), 1_000_000)
        self.database.env.commit_child(child)
        self.database.env.touch()
        self.store.commit_turn()
        self.store.end_turn()


def act(chance: random.Random, node: CopyNode, keys: list[str]) -> None:
    """One write by chance; to keys that begin with `c` nothing but increments."""
    key = chance.choice(keys)
    kind = "add" if key.startswith("c") else chance.choice(("put", "patch", "add", "delete", "patch"))
    if kind == "put":
        node.put(key, n=chance.randrange(100), text=f"{node.name}{chance.randrange(1000)}")
    elif kind == "patch":
        node.patch(key, text=f"{node.name}{chance.randrange(1000)}")
    elif kind == "add":
        node.add(key, 1)
    else:
        node.delete(key)
