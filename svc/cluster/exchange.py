"""What is exchanged with a node, as its record in the registry says: all of it, one way only, or some tables (spec: replication §12). Pure.

replicates     False: nothing; {sends, receives}: whether that node may read what this one writes, and whether this one reads what it writes
start_time     only what was written from then on
subscriptions  [{database, table, publish, subscribe}]: if there are any, only these databases and tables, in these directions. Without `table`: all of them
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from svc.store.writing.remote_transaction import RemoteTransaction

_MAX_MS = 8.64e15
Tables = frozenset[str] | None
"""Names; None: all tables."""


class Exchange(msgspec.Struct, frozen=True):
    """`sends`: that node may read our streams. `read`: tables by database; None: all databases. `since_ms`: what was written before is not read, ms since the
    epoch; 0.0: all is."""

    sends: bool = True
    read: dict[str, Tables] | None = None
    since_ms: float = 0.0

    def reads(self, database: str) -> bool:
        """Whether what that node writes to a database is read."""
        return self.read is None or database in self.read

    def tables(self, database: str) -> Tables:
        """Which of its tables."""
        return None if self.read is None else self.read.get(database, frozenset())

    def is_whole(self, database: str) -> bool:
        """Whether all that the node writes to a database is read, from the first entry on."""
        return self.reads(database) and self.tables(database) is None and not self.since_ms


ALL = Exchange()


def exchange_of(record: Mapping[str, Any]) -> Exchange:
    """Whatever a record has. What is no such value restricts nothing.

    >>> exchange_of({"name": "b"}) == ALL, exchange_of({"replicates": {"receives": False}}) == Exchange(read={})
    (True, True)
    >>> exchange_of({"subscriptions": [{"database": "data", "table": "Item", "subscribe": True, "publish": False}]})
    Exchange(sends=False, read={'data': frozenset({'Item'})}, since_ms=0.0)
    """
    sends, read = _directions(record.get("replicates"))
    found = record.get("subscriptions")
    given = [each for each in found if isinstance(each, Mapping)] if isinstance(found, list | tuple) else []
    if given:
        sends = sends and any(each.get("publish") is True for each in given)
        if read is None:
            read = _subscribed(given)
    return Exchange(sends, read, _since(record.get("start_time")))


def _since(start: Any) -> float:
    """ms since the epoch of a number of them or a date in ISO 8601; 0.0 of anything else.

    >>> _since("2026-01-01"), _since(5), _since("soon"), _since(None), _since(True)
    (1767225600000.0, 5.0, 0.0, 0.0, 0.0)
    """
    if isinstance(start, str):
        try:
            found = datetime.fromisoformat(start)
            return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp() * 1000
        except (ValueError, OverflowError):
            return 0.0
    return float(start) if type(start) in (int, float) and 0 < start < _MAX_MS else 0.0


def _directions(replicates: Any) -> tuple[bool, dict[str, Tables] | None]:
    if replicates is False:
        return False, {}
    if isinstance(replicates, Mapping):
        return replicates.get("sends") is not False, {} if replicates.get("receives") is False else None
    return True, None


def _subscribed(subscriptions: list[Mapping[str, Any]]) -> dict[str, Tables]:
    found: dict[str, Tables] = {}
    for each in subscriptions:
        database, table = each.get("database", each.get("schema")), each.get("table")
        if each.get("subscribe") is not True or not isinstance(database, str):
            continue
        known = found.get(database, frozenset())
        found[database] = None if known is None or not isinstance(table, str) else known | {table}
    return found


def only_of(transactions: list[RemoteTransaction], tables: Tables, since_ms: float = 0.0) -> list[RemoteTransaction]:
    """Those that are as new, without entries of other tables, and without those of which nothing is left."""
    if since_ms:
        transactions = [transaction for transaction in transactions if transaction.wall_ms >= since_ms]
    if tables is None:
        return transactions
    for transaction in transactions:
        transaction.entries = [entry for entry in transaction.entries if entry.table in tables]
    return [transaction for transaction in transactions if transaction.entries]
