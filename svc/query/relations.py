"""From a record to the records that a relationship leads to (contract: schema-and-store §4.1, http §6.7).

    from: fk            the record of the other table whose key is self.fk; fk a list: one for each key, in the order of the list
    to: fk              the records of the other table whose fk is, or contains, this record's key
    from: a, to: b      the records of the other table whose b is self.a

Dangling keys lead nowhere. Where the attribute at the other end is not indexed, the other table is read once for each execution and
its keys are kept by value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svc.query.matching import sort_bytes
from svc.query.plan import Related
from svc.query.tables import AnyTable
from svc.store.keys import after, index_key, is_cut, storage_key
from svc.store.records import MISSING, projection
from svc.store.schema import Relationship

Pair = tuple[bytes, bytes]  # stored primary key, raw record
Follow = Callable[[object], list[Pair]]  # from the value of `source_name` to the related records


def source_name(relationship: Relationship, table: AnyTable) -> str:
    """The attribute of `table`'s records in which the relationship starts."""
    return relationship.from_ or table.primary_key


def source_names(related: Related, table: AnyTable) -> tuple[str, ...]:
    return (source_name(related.relationship, table),)


def follower(relationship: Relationship, target: AnyTable, txn: Any) -> Follow:
    """The function that finds the related records in `target` as `txn` sees it."""
    if relationship.to is None:
        return _by_key(target, txn)
    index = target.indexes.get(relationship.to)
    if relationship.to == target.primary_key:
        return _by_key(target, txn)
    if index is not None and index.ready:
        return _by_index(relationship.to, target, txn)
    return _by_scan(relationship.to, target, txn)


def _by_key(target: AnyTable, txn: Any) -> Follow:
    get_by = target.get_by
    split = target.definition.split_segments

    def follow(value: object) -> list[Pair]:
        if value is None or value is MISSING:
            return []
        keys = value if isinstance(value, (list, tuple)) and not (split and isinstance(value, tuple)) else (value,)
        found = []
        for key in keys:
            stored = storage_key(sort_bytes(key))
            raw = get_by(stored, txn)
            if raw is not None:
                found.append((stored, raw))
        return found

    return follow


def _by_index(name: str, target: AnyTable, txn: Any) -> Follow:
    scan, get_by = target.indexes[name].scan, target.get_by
    value_of = projection((name,))

    def follow(value: object) -> list[Pair]:
        found: dict[bytes, bytes] = {}
        for element in _elements(value):
            if sort_bytes(element) == b"\xff":
                continue
            low = index_key(element)
            cut = is_cut(low)
            for _, stored in scan(txn, low, after(low)):
                raw = get_by(stored, txn)
                if raw is not None and not (cut and sort_bytes(element) not in _encoded(value_of(raw)[0])):
                    found[stored] = raw
        return list(found.items())

    return follow


def _by_scan(name: str, target: AnyTable, txn: Any) -> Follow:
    value_of = projection((name,))
    keys: dict[bytes, list[bytes]] = {}
    read = False

    def follow(value: object) -> list[Pair]:
        nonlocal read
        if not read:
            read = True
            for stored, raw in target.scan(txn):
                for encoded in set(_encoded(value_of(raw)[0])):
                    keys.setdefault(encoded, []).append(stored)
        found: dict[bytes, bytes] = {}
        for encoded in _encoded(value):
            for stored in keys.get(encoded, ()):
                current = target.get_by(stored, txn)
                if current is not None:
                    found[stored] = current
        return list(found.items())

    return follow


def _elements(value: object) -> list[object]:
    """The values that can lead somewhere: null never does."""
    if isinstance(value, list):
        return [element for element in value if element is not None]
    return [] if value is None or value is MISSING else [value]


def _encoded(value: object) -> list[bytes]:
    return [sort_bytes(element) for element in _elements(value)]
