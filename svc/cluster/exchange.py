"""What is exchanged with a node, as its record in the registry says: all of it, one way only, or some tables (spec: replication §12). Pure.

replicates     False: nothing; {sends, receives}: whether that node may read what this one writes, and whether this one reads what it writes
subscriptions  [{database, table, publish, subscribe}]: if there are any, only these databases and tables, in these directions. Without `table`: all of them
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from svc.store.writing.remote_transaction import RemoteTransaction

Tables = frozenset[str] | None
"""Names; None: all tables."""


class Exchange(msgspec.Struct, frozen=True):
    """`sends`: that node may read our streams. `read`: tables by database; None: all databases."""

    sends: bool = True
    read: dict[str, Tables] | None = None

    def reads(self, database: str) -> bool:
        """Whether what that node writes to a database is read."""
        return self.read is None or database in self.read

    def tables(self, database: str) -> Tables:
        """Which of its tables."""
        return None if self.read is None else self.read.get(database, frozenset())


ALL = Exchange()


def exchange_of(record: Mapping[str, Any]) -> Exchange:
    """Whatever a record has. What is no such value restricts nothing.

    >>> exchange_of({"name": "b"}) == ALL, exchange_of({"replicates": {"receives": False}})
    (True, Exchange(sends=True, read={}))
    >>> exchange_of({"subscriptions": [{"database": "data", "table": "Item", "subscribe": True, "publish": False}]})
    Exchange(sends=False, read={'data': frozenset({'Item'})})
    """
    sends, read = _directions(record.get("replicates"))
    found = record.get("subscriptions")
    given = [each for each in found if isinstance(each, Mapping)] if isinstance(found, list | tuple) else []
    if given:
        sends = sends and any(each.get("publish") is True for each in given)
        if read is None:
            read = _subscribed(given)
    return Exchange(sends, read)


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


def only_of(transactions: list[RemoteTransaction], tables: Tables) -> list[RemoteTransaction]:
    """Transactions without entries of other tables, and without those of which nothing is left."""
    if tables is None:
        return transactions
    for transaction in transactions:
        transaction.entries = [entry for entry in transaction.entries if entry.table in tables]
    return [transaction for transaction in transactions if transaction.entries]
