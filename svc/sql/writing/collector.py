"""Where the writes of a statement are collected, and what they may cost (spec: sql §5).

Collector         of a statement that is decided while nobody else can commit: what it has read holds when it is written
JoiningCollector  of a statement within a transaction of an application, which is committed later: what it has read of each record is tested then
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from typing import Any, Protocol

from svc.errors import ClientError, QueryTooLarge
from svc.sql.writing.reading import SharedSource, TooLong
from svc.sql.writing.values import restore_nested, weight_of
from svc.store import Precondition, Table, Transaction
from svc.store.values.keys import MAX_STORED, Key, encode_primary, storage_key
from svc.store.values.records import decode, encode_payload
from svc.store.writing.write_set import RowGuard

_WRITE = 400  # bytes that a write takes, besides its values


class RecordChanged(ClientError):
    """A record is not what a statement has read of it when its transaction is committed."""

    status_code = 409
    code = "RECORD_CHANGED"


@dataclass(frozen=True, slots=True)
class Unchanged(Precondition):
    """A record has the values that a statement has read of it. `names`: of the attributes, None: all but `stamps`."""

    table: Table | None = None
    names: frozenset[str] | None = None
    digest: bytes = b""

    def check(self, raw: bytes | None) -> None:
        assert self.table is not None
        if raw is None or digest_of(raw, self.table, self.names) != self.digest:
            raise RecordChanged(
                f"A record of {self.table.name} was changed after the statement had read it, so its transaction is not committed: try again"
            )


def digest_of(raw: bytes, table: Table, names: frozenset[str] | None) -> bytes:
    """Equal for records with equal values of these attributes. The times of changes do not count: they are known at the commit only."""
    record = decode(raw)
    left = sorted(name for name in record if name not in table.stamps and (names is None or name in names))
    return blake2b(encode_payload([part for name in left for part in (name, record[name])]), digest_size=16).digest()


class Budget:
    """What one statement may take. `most`: writes, of more it raises TooLong; None: any number. `limit`: bytes of memory, `sql.maxMemory`."""

    def __init__(self, limit: int, most: int | None) -> None:
        self._limit = limit
        self._left = limit
        self._most = most
        self._count = 0

    def take(self, values: Iterable[Any]) -> None:
        """For one more write, with these values. Raises TooLong, QueryTooLarge."""
        self._count += 1
        if self._most is not None and self._count > self._most:
            raise TooLong
        self._left -= _WRITE + sum(map(weight_of, values))
        if self._left < 0:
            raise self._too_large(f"more than {self._count - 1} records")

    def take_answer(self, row: Iterable[Any]) -> None:
        """For one more row of the answer. Raises QueryTooLarge."""
        self._left -= sum(map(weight_of, row))
        if self._left < 0:
            raise self._too_large("and return so many values")

    def _too_large(self, what: str) -> QueryTooLarge:
        return QueryTooLarge(
            f"The statement would write {what}, which takes more memory than sql.maxMemory allows ({self._limit} bytes): write fewer records at a time,"
            " for example with LIMIT",
            budget="bytes",
        )


class NamesOfAttributes(Protocol):
    @property
    def value(self) -> frozenset[str] | None:
        """None: of all."""


class Collector:
    """`source`: what the statement reads. `wall_ms`: by which records have expired. `new_keys`: that many keys for new records of the table. What a write takes
    is asked of `budget` before. `rows`: what rules on rows say of the caller's writes."""

    def __init__(
        self,
        table: Table,
        transaction: Transaction,
        source: SharedSource,
        wall_ms: float,
        budget: Budget,
        new_keys: Callable[[int], Iterator[Key]],
        rows: RowGuard | None = None,
    ) -> None:
        self.table = table
        self.transaction = transaction
        self.budget = budget
        self.source = source
        self.new_keys = new_keys
        self.rows = rows
        self.wall_ms = wall_ms

    @property
    def txn(self) -> Any:
        """What is read of the table."""
        return self.source.txn(self.table)

    def read(self, key: Key) -> bytes | None:
        """The record that a write would find under this key."""
        encoded = encode_primary(key)
        raw = self.table.get_entry(encoded if len(encoded) < MAX_STORED else storage_key(encoded), self.txn)
        return raw if self.table.is_live(raw, self.wall_ms) else None

    def can_see(self, stored: bytes, raw: bytes) -> bool:
        """Whether a record of the table is there for the caller."""
        return self.rows is None or self.rows.can_see(self.table, self.txn, stored, raw)

    def create(self, key: Key, record: dict[str, Any]) -> None:
        """Make a record; that there is none has been tested. The record belongs to the transaction from now on."""
        self.transaction.create(self.table, key, record, rows=self.rows)

    def update(self, key: Key, changes: dict[str, Any], names: NamesOfAttributes) -> None:
        """Set attributes of a record that has been read. `names`: of the attributes that the statement reads of it."""
        self.transaction.update(self.table, key, changes, decide=restore_nested, rows=self.rows)

    def delete(self, key: Key, names: NamesOfAttributes) -> None:
        """Remove a record that has been read. `names`: as for `update`."""
        self.transaction.delete(self.table, key, rows=self.rows)

    def assign_keys(self, records: list[tuple[Key | None, dict[str, Any]]]) -> list[tuple[Key, dict[str, Any]]]:
        """The records with keys for those that came without: keys that neither a record nor another one of these has."""
        count = sum([key is None for key, _ in records])
        if not count:
            return records  # type: ignore[return-value]
        named = {key for key, _ in records}
        fresh = self._fresh(count, named)
        return [(next(fresh) if key is None else key, record) for key, record in records]

    def _fresh(self, count: int, named: set[Key | None]) -> Iterator[Key]:
        more: Iterable[Iterator[Key]] = iter(lambda: self.new_keys(1), None)
        return (key for key in chain(self.new_keys(count), chain.from_iterable(more)) if key not in named)


class JoiningCollector(Collector):
    def update(self, key: Key, changes: dict[str, Any], names: NamesOfAttributes) -> None:
        self.transaction.patch(self.table, key, changes, self._unchanged(key, names), decide=restore_nested, rows=self.rows)

    def delete(self, key: Key, names: NamesOfAttributes) -> None:
        self.transaction.delete(self.table, key, self._unchanged(key, names), rows=self.rows)

    def _unchanged(self, key: Key, names: NamesOfAttributes) -> Precondition:
        raw = self.read(key)
        assert raw is not None, "it has been read in the same transaction"
        return Unchanged(table=self.table, names=names.value, digest=digest_of(raw, self.table, names.value))
