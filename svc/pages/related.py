"""What a record leads to, and what refers to it (spec: http §7.8.6): along the relationships of its table, and along those of others that end here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from svc.pages.cells import CELL, Cell, cell_of, shortened
from svc.pages.collection import foreign_keys, target_table
from svc.pages.links import TITLES, Links
from svc.pages.lookups import Lookups
from svc.query.nodes import Comparator, Condition, Query
from svc.store import Table
from svc.store.schema import Attribute
from svc.store.values.keys import after, index_key, is_cut
from svc.store.values.records import MISSING

FIRST = 5  # records that are named
MOST = 30  # relationships whose records are named; of others there is the link


@dataclass(slots=True)
class RelatedRecords:
    """Records that a relationship leads to. `text`: what the link says; `href`: to all of them, "" without one. `count`: how many they are, None where an
    index does not know. `first`: some of them by what they are called."""

    name: str
    text: str
    href: str
    count: int | None = None
    first: list[Cell] = field(default_factory=list)
    has_more: bool = False


@dataclass(slots=True)
class _Lead:
    """One way to other records: those of `target` whose attribute `to` is `source`, with `to` None those with this key, or these."""

    name: str
    target: Table
    to: str | None
    source: Any


async def related_records(
    table: Table, value: dict[str, Any], visible: frozenset[str] | None, links: Links, lookups: Lookups
) -> list[RelatedRecords]:
    """`value`: what the caller may see of the record."""
    found: list[RelatedRecords] = []
    for lead in _leads(table, value, visible, links):
        related = _linked(lead, links)
        if related is not None:
            if len(found) < MOST:
                await _name_first(related, lead, links, lookups)
            found.append(related)
    return found


def _leads(table: Table, value: dict[str, Any], visible: frozenset[str] | None, links: Links) -> Iterator[_Lead]:
    known: set[tuple[str, str, str]] = set()  # database, table and attribute of those that lead back
    for attribute in table.definition.attributes:
        relationship = attribute.relationship
        if relationship is None or (visible is not None and attribute.name not in visible):
            continue
        target = target_table(table, attribute)
        if target is None:
            continue
        if relationship.to is not None:
            known.add((target.database.name, target.name, relationship.to))
        source = value.get(table.primary_key if relationship.from_ is None else relationship.from_, MISSING)
        yield _Lead(shortened(attribute.name, CELL), target, relationship.to, source)
    for other in links.tables():
        for name, attribute in _referring(other, table):
            identity = other.database.name, other.name, name
            relationship = attribute.relationship
            assert relationship is not None
            index = other.indexes.get(name)
            if identity not in known and index is not None and index.ready:
                known.add(identity)
                source = value.get(table.primary_key if relationship.to is None else relationship.to, MISSING)
                yield _Lead(shortened(f"{other.name}.{attribute.name}", CELL), other, name, source)


def _referring(other: Table, table: Table) -> Iterator[tuple[str, Attribute]]:
    """The attributes of another table that hold what records of this one are found by, and the relationships that say so."""
    for attribute in other.definition.attributes:
        relationship = attribute.relationship
        if relationship is not None and relationship.from_ is not None:
            target = target_table(other, attribute)
            if target is not None and (target.database.name, target.name) == (table.database.name, table.name):
                yield relationship.from_, attribute


def _linked(lead: _Lead, links: Links) -> RelatedRecords | None:
    """Without names; None if there is no address that the caller may read."""
    target, source = lead.target, lead.source
    if source is MISSING or source is None:
        return None
    if isinstance(source, list) and not (lead.to is None and target.definition.split_segments):
        if lead.to is not None or not source or links.registration(target) is None:
            return None
        return RelatedRecords(lead.name, target.name, "", len(source), has_more=len(source) > FIRST)
    if lead.to is None:
        href = links.record(target, source)
        return RelatedRecords(lead.name, f"{target.name} {shortened(str(source), 60)}", href) if href else None
    href, may_count = links.matching(target, lead.to, source)
    if not href:
        return None
    count = _count(target, lead.to, source) if may_count else None
    return RelatedRecords(lead.name, f"all {target.name} with {lead.to} = {shortened(str(source), 60)}", href, count)


def _count(target: Table, to: str, source: Any) -> int | None:
    """The number of records of `target` whose attribute `to` is this value, as its index counts them; of those that expire some may be gone."""
    index = target.indexes.get(to)
    if index is None or not index.ready or target.definition.expiration is not None:
        return None
    low = index_key(source)
    return None if is_cut(low) else index.exact_count(target.database.snapshot(), low, after(low))


async def _name_first(related: RelatedRecords, lead: _Lead, links: Links, lookups: Lookups) -> None:
    target, key = lead.target, lead.target.primary_key
    registration = links.registration(target)
    title = _title_of(target)
    if registration is None or (title is None and lead.to is None and not isinstance(lead.source, list)):
        return
    names = (key,) if title is None else (key, title)
    if lead.to is not None:
        query = Query(Condition((lead.to,), Comparator.EQUALS, lead.source), limit=FIRST + 1)
        found = await lookups.find(registration, names, query) or []
    else:
        is_list = isinstance(lead.source, list) and not target.definition.split_segments
        found = []
        for source in lead.source[:FIRST] if is_list else [lead.source]:
            only = Query(Condition((key,), Comparator.EQUALS, source), limit=1)
            found += await lookups.find(registration, names, only) or []
    related.first = [_cell(record, target, title, links) for record in found[:FIRST]]
    related.has_more = related.has_more or len(found) > FIRST


def _title_of(table: Table) -> str | None:
    """The attribute that says what a record is called: `name`, `title`, `label`, else the first text that is no key."""
    keys = foreign_keys(table)
    texts = [
        each.name
        for each in table.definition.attributes
        if each.stored and each.type == "String" and not each.elements and each.name != table.primary_key and each.name not in keys
    ]
    return next((name for name in TITLES if name in texts), texts[0] if texts else None)


def _cell(record: dict[str, Any], target: Table, title: str | None, links: Links) -> Cell:
    key = record.get(target.primary_key, MISSING)
    name = MISSING if title is None else record.get(title, MISSING)
    cell = cell_of(name if isinstance(name, str) and name.strip() else key)
    cell.href = "" if key is MISSING else links.record(target, key)
    return cell
