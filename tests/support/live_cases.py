"""Random cases of live queries: tables, queries and writes from `plans`, and clients that take when and as much as they like."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from svc.query.nodes import Query, Select
from svc.store import Database, Table
from tests.support import plans
from tests.support.live import LiveClient, LiveStore, check

SCHEMAS = 4
MAX_TRANSACTION = 4


class Cases:
    """A store with some pairs of tables, which are emptied and filled for each case."""

    def __init__(self, made: LiveStore) -> None:
        self.made = made
        self.databases: list[tuple[Database, dict[str, Table]]] = []
        for number in range(SCHEMAS):
            definitions = plans.definitions(random.Random(number))
            database = made.store.open_database(f"d{number}")
            self.databases.append((database, {name: database.define_table(definition) for name, definition in definitions.items()}))

    def run(self, source: random.Random, *, clients: int = 5, rounds: int = 8, slow: bool = False) -> None:
        """One case. `slow`: clients need not have taken anything before the end."""
        made = self.made
        _, tables = source.choice(self.databases)
        self._fill(tables, source)
        followed: list[tuple[LiveClient, Query, str | None]] = []
        for _ in range(clients):
            self._subscribe(tables, followed, source)
        for _ in range(rounds):
            for _ in range(source.randint(1, 3)):
                self._write(tables, source)
            if source.random() < 0.3:
                made.clock.advance(source.choice([1, 100]))
            if source.random() < 0.2:
                made.expire()
            made.commit()
            if source.random() < 0.2 and len(followed) < 2 * clients:
                self._subscribe(tables, followed, source)
            made.turns(source.randrange(4))
            for client, _, _ in followed:
                if source.random() < 0.5 and not slow:
                    client.take(source.choice([1, 2, 3, 100]))
            if source.random() < 0.15 and followed:
                followed.pop(source.randrange(len(followed)))[0].source.close()
            if source.random() < 0.3:
                made.expire()
                self._check_all(followed, source)
        made.expire()
        self._check_all(followed, source)
        for client, _, _ in followed:
            client.source.close()
        assert len(made.live) == 0 and made.live.results == 0
        made.settle()
        assert not made.store.snapshots

    def _check_all(self, followed: list[tuple[LiveClient, Query, str | None]], source: random.Random) -> None:
        made = self.made
        step = source.choice([1, 3, 1 << 30])
        for _ in range(1000):
            made.settle()
            for client, _, _ in followed:
                client.drain(step)
            made.turns(2)
            made.settle()
            if all(client.is_ready and not client.take() for client, _, _ in followed):
                break
        else:
            raise AssertionError("clients do not come to an end")
        for client, query, prefix in followed:
            check(client, query, prefix)

    def _fill(self, tables: dict[str, Table], source: random.Random) -> None:
        made = self.made
        writes: list[tuple[Any, ...]] = []
        for table in tables.values():
            txn = table.database.open_snapshot()
            writes += [("delete", table, table.key_of(raw)) for _, raw in table.scan(txn)]
            txn.abort()
        made.write(*writes)
        records = plans.records(source)
        made.write(*[("put", tables[name], record) for name in tables for record in records[name]])
        made.commit()
        made.expire()

    def _subscribe(self, tables: dict[str, Table], followed: list[tuple[LiveClient, Query, str | None]], source: random.Random) -> None:
        name = source.choice(sorted(tables))
        prefix = source.choice(["a", "e/", "f"]) if source.random() < 0.1 else None
        if followed and source.random() < 0.3:  # the same again
            client, query, prefix = source.choice(followed)
            name = client.source.table.name
        else:
            query = random_query(source, name)
        subscription = self.made.live.subscribe(query, tables[name], None, key_prefix=prefix, allow_full_scan=True, check_rights=False)
        followed.append((LiveClient(subscription, strict=False), query, prefix))

    def _write(self, tables: dict[str, Table], source: random.Random) -> None:
        self.made.write(*[self._one_write(tables, source) for _ in range(source.choice([1, 1, 1, 2, MAX_TRANSACTION]))])

    def _one_write(self, tables: dict[str, Table], source: random.Random) -> tuple[Any, ...]:
        table = tables[source.choice(sorted(tables))]
        key = source.choice(plans.IDS)
        kind = source.random()
        if kind < 0.5:
            expiry = None
            if source.random() < 0.25:
                expiry = (self.made.clock.wall() + source.choice([-5, 0.5, 50, 500])) * 1000
            return ("put", table, plans.record(source, key), expiry)
        if kind < 0.8:
            changes = plans.record(source, key)
            del changes["id"]
            names = source.sample(sorted(changes), min(len(changes), 2))
            return ("patch", table, key, {name: changes[name] for name in names})
        return ("delete", table, key)


def random_query(source: random.Random, name: str) -> Query:
    """Any query: conditions, joins, order, window, selection, aggregate."""
    kind = source.random()
    if kind < 0.15:
        return replace(plans.counted(source, name), live=True)
    if kind < 0.4:  # the frequent kinds, which random conditions rarely make
        where = plans.condition(source, name)
        query = Query(where, limit=source.choice([None, None, 3]), sort=plans.sorts(source, name) if source.random() < 0.3 else ())
    else:
        query = plans.query(source, name)
    select: Select | None = None
    if source.random() < 0.5:
        select = plans.selection(source, name)
        if source.random() < 0.2:
            select = Select(select.items[:1] if source.random() < 0.5 else select.items, source.choice(["array", "object"]))
    return replace(query, select=select, enforce_execution_order=False, live=True)
