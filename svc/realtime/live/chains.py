"""Relationships that a query goes through, and the way back: from a related record that changed to the records whose rows that may concern."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from svc.query.functions import values_reader
from svc.query.nodes import Query, Select, SelectItem
from svc.query.plan import AllOf, AnyOf, Predicate, Related
from svc.query.relations import Link, Lookups, back, entries_of
from svc.query.resolve import is_many, related_table, resolve_where
from svc.query.tables import AnyTable
from svc.store.schema import Relationship

MAX_CONCERNED = 1024  # records; with more of them the whole query is run again


class Hop(NamedTuple):
    """One relationship, from the records of `table` to those of `target`."""

    table: AnyTable
    relationship: Relationship
    target: AnyTable
    many: bool


Chain = tuple[Hop, ...]
"""A way from the table of a query to another one. Beside each chain of a query there are its beginnings."""


def chains_of(query: Query, predicate: Predicate | None, table: AnyTable) -> list[Chain]:
    """All chains of a query, in its conditions, selection, order and aggregate. `predicate`: its conditions, resolved."""
    found: dict[tuple[tuple[str, str, str | None, str | None], ...], Chain] = {}
    for chain in _of_query(query, predicate, table, ()):
        found.setdefault(tuple([(h.table.name, h.target.name, h.relationship.from_, h.relationship.to) for h in chain]), chain)
    return list(found.values())


def is_followed_back(chain: Chain) -> bool:
    """Whether each of its relationships leads both ways without reading a table as a whole."""
    for hop in chain:
        if hop.target.definition.split_segments or hop.table.definition.split_segments:
            return False  # a key that names a list as text is found by its parts, not by a value of an index
        if Link(hop.relationship, hop.table, hop.target, hop.many).scans or back(hop.relationship, hop.table, hop.target).scans:
            return False
    return True


def concerned(chain: Chain, raws: list[bytes], lookups: Lookups) -> list[bytes] | None:
    """The stored keys of the records at the beginning of a chain whose way leads through one of these records at its end; None: too many."""
    for at in range(len(chain) - 1, -1, -1):
        hop = chain[at]
        link = back(hop.relationship, hop.table, hop.target)
        values_of = values_reader(hop.target, (link.source,))
        keys = list(islice(entries_of(link, [values_of(raw)[0] for raw in raws], lookups), MAX_CONCERNED + 1))
        if len(keys) > MAX_CONCERNED:
            return None
        if not at or not keys:
            return keys
        raws = [raw for _, raw in hop.table.get_many(dict.fromkeys(keys), lookups.txn)]
    return []


def _of_query(query: Query, predicate: Predicate | None, table: AnyTable, before: Chain) -> Iterator[Chain]:
    if predicate is not None:
        yield from _of_predicate(predicate, table, before)
    if query.select is not None:
        yield from _of_select(query.select, table, before)
    if query.aggregate is None:
        for key in query.sort:
            yield from _of_path(key.path, table, before)
    else:
        for path in (*query.aggregate.keys, *[path for _, path in query.aggregate.functions if path is not None]):
            yield from _of_path(path, table, before)


def _of_predicate(predicate: Predicate, table: AnyTable, before: Chain) -> Iterator[Chain]:
    if isinstance(predicate, (AllOf, AnyOf)):
        for member in predicate.members:
            yield from _of_predicate(member, table, before)
    elif isinstance(predicate, Related):
        chain = (*before, Hop(table, predicate.relationship, predicate.target, predicate.many))
        yield chain
        if predicate.where is not None:
            yield from _of_predicate(predicate.where, predicate.target, chain)


def _of_select(select: Select, table: AnyTable, before: Chain) -> Iterator[Chain]:
    for item in select.items:
        attribute = table.attributes.get(item.path[0])
        if attribute is None or attribute.relationship is None:
            continue
        target = related_table(table, attribute)
        chain = (*before, Hop(table, attribute.relationship, target, is_many(attribute, table)))
        yield chain
        if len(item.path) > 1:
            yield from _of_select(Select((SelectItem(item.path[1:], item.nested, item.query),)), target, chain)
        elif item.nested is not None:
            yield from _of_select(item.nested, target, chain)
        if item.query is not None:
            where = None if item.query.where is None else resolve_where(item.query.where, target)
            yield from _of_query(item.query, where, target, chain)


def _of_path(path: tuple[str, ...], table: AnyTable, before: Chain) -> Iterator[Chain]:
    attribute = table.attributes.get(path[0])
    if attribute is not None and attribute.relationship is not None:
        target = related_table(table, attribute)
        chain = (*before, Hop(table, attribute.relationship, target, is_many(attribute, table)))
        yield chain
        if len(path) > 1:
            yield from _of_path(path[1:], target, chain)
