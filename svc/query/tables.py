"""What queries need of the store, as protocols: the planner counts, the executor scans and fetches. `svc.store.Table` fits; so do fakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from svc.store.schema import Attribute, TableDefinition
from svc.store.values.computed import ComputedAttribute

COUNTED = 10_000  # entries of a range; more than that need not be counted exactly to choose an access path


class AnyIndex(Protocol):
    @property
    def attribute(self) -> str: ...
    @property
    def ready(self) -> bool: ...
    @property
    def multi(self) -> bool:
        """Whether a primary key may occur several times."""

    def scan(
        self, txn: Any, low: bytes | None, high: bytes | None, *, reverse: bool = False, behind: tuple[bytes, bytes] | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """(index key, stored primary key) in order of both, or backwards; from behind the entry `behind`."""

    def values(self, txn: Any, low: bytes | None, high: bytes | None) -> Iterator[tuple[bytes, int]]:
        """(index key, number of its entries) in order."""

    def primaries(
        self, txn: Any, low: bytes | None, high: bytes | None, *, reverse: bool = False, behind: tuple[bytes, bytes] | None = None
    ) -> Callable[[int], list[bytes]]:
        """The stored primary keys of `scan`: a function that gives the next n, fewer at the end."""

    def few(self, txn: Any, low: bytes, high: bytes | None, most: int) -> list[bytes] | None:
        """The stored primary keys of `scan`, None if there are more than `most`. `high` None: of the one index key `low`."""

    def count(self, txn: Any, low: bytes | None, high: bytes | None, most: int = ...) -> int:
        """The number of entries, or a lower bound of it, which is at least `most`."""

    def count_of(self, txn: Any, key: bytes) -> int:
        """The number of entries of one index key."""

    def exact_count(self, txn: Any, low: bytes | None, high: bytes | None, most: int = ...) -> int | None:
        """The number of entries, None if only a lower bound is known without reading them. `most`: values that are looked at."""


class AnyTable(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def definition(self) -> TableDefinition: ...
    @property
    def primary_key(self) -> str: ...
    @property
    def attributes(self) -> Mapping[str, Attribute]: ...
    @property
    def indexes(self) -> Mapping[str, AnyIndex]: ...
    @property
    def database(self) -> Any: ...

    @property
    def computed(self) -> Mapping[str, ComputedAttribute]:
        """Its computed attributes by name; another object when the function of one is set."""

    def get_by(self, key: bytes, txn: Any) -> bytes | None:
        """The raw record of a stored primary key, None if there is none or it has expired."""

    def get_many(self, keys: Iterable[bytes], txn: Any) -> list[tuple[bytes, bytes]]:
        """(stored key, raw) of those of these stored keys that have a record, in the order given."""

    def get_many_plain(self, keys: Iterable[bytes], txn: Any) -> list[bytes] | None:
        """The records of these stored keys, None if one is not there or needs a further look."""

    def scan(
        self, txn: Any, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False, behind: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """(stored primary key, raw record) in key order, or backwards; from behind the stored key `behind`."""

    def expired(self, txn: Any, limit: int) -> list[tuple[bytes, bytes]] | None:
        """(stored key, raw) of the records that have expired but are still in the indexes, None if there are more than `limit`."""

    def record_count(self, txn: Any = None) -> int: ...

    def entry_count(self, txn: Any) -> int:
        """The same with those records that have expired but are still in the indexes."""


def rule_members(table: AnyTable) -> tuple[Any, ...]:
    """The conditions that records have to fulfil beside those of a query (`views.TableView.rule_members`): predicates, members of an AND."""
    return getattr(table, "rule_members", ())


def is_volatile(table: AnyTable) -> bool:
    """Whether what is made for the table holds for no more than a moment (`views.TableView`)."""
    return getattr(table, "is_volatile", False)


class Statistics(Protocol):
    """What the planner may ask about the data. Records that have expired but are not yet removed are counted."""

    @property
    def record_count(self) -> int: ...

    def count(self, attribute: str, low: bytes | None, high: bytes | None, most: int = COUNTED) -> int:
        """The number of index entries from low (inclusive) to high (exclusive), or a lower bound of it, which is at least `most`."""


class TableStatistics:
    """The figures of a table as a transaction sees it; each is a look-up in an index, made when asked for."""

    __slots__ = ("_record_count", "_table", "txn")

    def __init__(self, table: AnyTable, txn: object) -> None:
        self._table = table
        self._record_count: int | None = None
        self.txn = txn

    @property
    def record_count(self) -> int:
        if self._record_count is None:
            self._record_count = self._table.entry_count(self.txn)
        return self._record_count

    def count(self, attribute: str, low: bytes | None, high: bytes | None, most: int = COUNTED) -> int:
        return self._table.indexes[attribute].count(self.txn, low, high, most)
