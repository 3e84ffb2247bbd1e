"""Logs of a database, and what travels of them: the reference for `svc.cluster`."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from svc.cluster.assembly import Assembler, Delivery, Taken
from svc.cluster.wire import Message
from svc.store.log.entries import (
    DELETE,
    EXPIRE,
    INVALIDATE,
    MESSAGE,
    PATCH,
    PUT,
    RELOCATE,
    LogEntry,
    decode_entry,
    encode_entry,
    placeholder,
)
from svc.store.values.keys import encode_key
from svc.store.values.records import encode, is_copy, version_of, without_refresh
from svc.store.writing.remote_transaction import RemoteEntry, RemoteTransaction

NODE = "node-a"
INCARNATION = bytes(range(8))
LEFT_OUT = frozenset((7,))  # numbers of tables
TABLES = {1: "Item", 2: "Süß", 7: "Local"}
Row = tuple[int, bytes]


def made_log(source: random.Random, transactions: int, largest: int = 200) -> list[Row]:
    """A log with every kind of entry, own ones and those of others; LSNs that are missing."""
    rows: list[Row] = []
    lsn = source.randrange(3)
    for _ in range(transactions):
        first = lsn + 1
        own = source.random() < 0.7
        head = (
            NODE if own else "node-b",
            source.choice((None, "anna", "Jörg")),
            source.randrange(4),
            source.choice((None, source.randbytes(16))),
        )
        version, wall = source.uniform(1, 2e12), source.uniform(1, 2e12)
        for _ in range(source.choice((1, 1, 1, 2, 3, 9))):
            lsn += 1
            rows.append((lsn, encode_entry(made_entry(source, lsn, first, version, wall, head, largest))))
        lsn += source.choice((0, 0, 0, 1, 5))
    if rows and source.random() < 0.2:
        rows[-1] = rows[-1][0], encode_entry(placeholder(decode_entry(*rows[-1])))
    return rows


def made_entry(
    source: random.Random, lsn: int, first: int, version: float, wall: float, head: tuple[str, str | None, int, bytes | None], largest: int
) -> LogEntry:
    node, user, operation, trace = head
    kind = source.choice((PUT, PUT, PUT, PATCH, DELETE, MESSAGE, INVALIDATE, EXPIRE, RELOCATE))
    number = source.choice(tuple(TABLES))
    value = image = None
    if kind in (PUT, PATCH, MESSAGE):
        size = source.randrange(largest)
        record = {"id": lsn, "text": source.randbytes(size).hex() if source.random() < 0.5 else "x" * size}
        value = encode(
            record, version, lsn, source.choice((None, 1e12)), source.choice((50, 1 << 20)), source.choice((None, None, None, 1e12))
        )
        image = source.choice((None, value))
    mqtt = source.choice((None, source.randbytes(source.randrange(largest)))) if kind == MESSAGE else None
    key = encode_key(source.choice((lsn, f"key {lsn}", "k" * source.randrange(1, 300))))
    changed = source.choice(((), ("id", "text")))
    return LogEntry(
        lsn, first, wall, version, TABLES[number], number, key, kind, user, node, lsn - 1, value, changed, image, operation, trace, mqtt
    )


def sent(rows: Iterable[Row], after: int = 0) -> list[RemoteTransaction]:
    """What has to arrive of it, in the plainest way."""
    found: dict[int, RemoteTransaction] = {}
    for entry in (decode_entry(*row) for row in rows):
        if entry.table_number and entry.transaction in found:
            found[entry.transaction].last_lsn = entry.lsn
        if entry.lsn <= after or entry.node != NODE or entry.kind not in (PUT, PATCH, DELETE, MESSAGE, INVALIDATE):
            continue
        value = entry.value
        if value is not None and is_copy(value):
            value = without_refresh(value) if version_of(value) == entry.version else b""
        if entry.table_number in LEFT_OUT or not entry.table_number or value == b"":
            continue
        remote = RemoteEntry(entry.kind, entry.table, entry.key, value, entry.changed, entry.mqtt)
        found.setdefault(
            entry.transaction,
            RemoteTransaction(entry.transaction, entry.lsn, entry.version, entry.wall_ms, entry.user, entry.operation, entry.trace_id, []),
        ).entries.append(remote)
    return list(found.values())


def received(messages: Iterable[Message | None], applied: int = 0, incarnation: bytes = INCARNATION) -> Iterator[Delivery | Taken]:
    assembler = Assembler(incarnation, applied)
    for message in messages:
        if message is not None:
            yield assembler.take(message.headers(), message.body)


def transactions_in(found: Iterable[Delivery | Taken]) -> list[RemoteTransaction]:
    return [transaction for each in found if isinstance(each, Delivery) for transaction in each.transactions]
