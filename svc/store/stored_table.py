"""What the long work on one table needs of it: builds of indexes, moves of attributes, counts of leftovers, sequences of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from svc.store.env import Handle, Txn
    from svc.store.schema import TableDefinition


class Translation(Protocol):
    """Records in the form that the definition has today: `moves.Moves`."""

    def translate(self, raw: bytes, txn: Txn) -> bytes: ...


class StoredDatabase(Protocol):
    """`database.Database`."""

    @property
    def definitions(self) -> Handle: ...
    def writer(self, *, wait: bool = True) -> Txn: ...
    @property
    def used_sequences(self) -> set[Any]: ...


class StoredTable(Protocol):
    """`table.Table`."""

    @property
    def name(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def definition(self) -> TableDefinition: ...
    @property
    def primary(self) -> Handle: ...
    @property
    def database(self) -> StoredDatabase: ...
    @property
    def moves(self) -> Translation | None: ...
    def encoded_key(self, stored: bytes, record: dict[str, Any]) -> bytes: ...
