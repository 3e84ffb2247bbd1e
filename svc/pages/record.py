"""One record: all that it holds, and what it leads to (spec: http §7.7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from svc.content.values import is_blob
from svc.pages.cells import CELL, MOST_VALUES, WHOLE, Line, lines_of, shortened
from svc.pages.collection import foreign_cell, foreign_keys, target_table, type_text
from svc.pages.links import Links
from svc.resources import Registration, TableResource
from svc.store import Table
from svc.store.values.keys import after, index_key, is_cut
from svc.store.values.records import MISSING


@dataclass(slots=True)
class Member:
    """One attribute. `content`: the address of its content, if that is a file."""

    name: str
    type: str
    lines: Iterable[Line]
    content: str = ""


@dataclass(slots=True)
class RelatedRecords:
    """Records that a relationship leads to. `text`: what the link says. `count`: how many they are, None where an index does not know."""

    name: str
    text: str
    href: str
    count: int | None = None


@dataclass(slots=True)
class RecordPage:
    """`collection`: the address of all records."""

    key: str
    members: list[Member]
    related: list[RelatedRecords] = field(default_factory=list)
    collection: str = ""


def record_page(
    table: Table, value: dict[str, Any], visible: frozenset[str] | None, registration: Registration | None, links: Links
) -> RecordPage:
    """`value`: what the caller may see of the record."""
    key = value.get(table.primary_key, MISSING)
    own = "" if registration is None or key is MISSING else links.record_at(registration, key)
    leads = {name: target_table(table, attribute) for name, attribute in foreign_keys(table).items()}
    budget = [MOST_VALUES]
    members = []
    for attribute in table.definition.attributes:
        if attribute.stored and (visible is None or attribute.name in visible):
            name = attribute.name
            found = value.get(name, MISSING)
            content = f"{own}.{name}" if own and (is_blob(found) or isinstance(found, bytes)) and _is_plain(name) else ""
            members.append(Member(shortened(name, CELL), type_text(attribute), _lines(found, leads.get(name), links, budget), content))
    declared = table.attributes
    members += [Member(shortened(name, CELL), "", lines_of(member, budget)) for name, member in value.items() if name not in declared]
    page = RecordPage("" if key is MISSING else shortened(str(key), CELL), members, collection=links.collection(table))
    for attribute in table.definition.attributes:
        relationship = attribute.relationship
        if relationship is None or (visible is not None and attribute.name not in visible):
            continue
        target = target_table(table, attribute)
        if target is None:
            continue
        source = value.get(table.primary_key if relationship.from_ is None else relationship.from_, MISSING)
        related = _related(target, relationship.to, source, links)
        if related is not None:
            page.related.append(RelatedRecords(shortened(attribute.name, CELL), *related))
    return page


def _related(target: Table, to: str | None, source: Any, links: Links) -> tuple[str, str, int | None] | None:
    """(text, address, number) of the records of `target` that `source` leads to: those whose attribute `to` is this value, else the one with this key. None
    if there is no such address."""
    if source is MISSING or source is None or isinstance(source, list):  # of a list each element is a link beside its value
        return None
    if to is None:
        href = links.record(target, source)
        return (f"{target.name} {shortened(str(source), 60)}", href, None) if href else None
    href, may_count = links.matching(target, to, source)
    if not href:
        return None
    return f"all {target.name} with {to} = {shortened(str(source), 60)}", href, _count(target, to, source) if may_count else None


def _count(target: Table, to: str, source: Any) -> int | None:
    """The number of records of `target` whose attribute `to` is this value, as its index counts them; of those that expire some may be gone."""
    index = target.indexes.get(to)
    if index is None or not index.ready or target.definition.expiration is not None:
        return None
    low = index_key(source)
    return None if is_cut(low) else index.exact_count(target.database.snapshot(), low, after(low))


def _lines(value: Any, target: Table | None, links: Links, budget: list[int]) -> Iterable[Line]:
    if target is None or isinstance(value, dict):
        return lines_of(value, budget)
    return [Line("value", cell=foreign_cell(value, target, links, WHOLE))]


def _is_plain(name: str) -> bool:
    """Whether a name can stand behind a dot in an address as it is."""
    return name.isascii() and name.replace("_", "").isalnum()


def selected_page(resource: type[TableResource], value: Any, key: Any, links: Links) -> RecordPage:
    """What a query selects of a record."""
    collection = links.collection(resource.table)
    if not isinstance(value, dict):
        return RecordPage(shortened(str(key), CELL), [Member("", "", lines_of(value))], collection=collection)
    types, budget = resource.table.attributes, [MOST_VALUES]
    members = [
        Member(shortened(name, CELL), type_text(types[name]) if name in types else "", lines_of(member, budget))
        for name, member in value.items()
    ]
    return RecordPage(shortened(str(key), CELL), members, collection=collection)
